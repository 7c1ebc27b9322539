// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Jobs that lack a local resource: descriptors, address space, shared memory, permission. Each runs right, or ends by
//! itself with words that name the limit and the remedy. None hangs.
//!
//! The program is limits.c, compiled against the built tree (`make build`): the one in SELVEDGE_PREFIX, else `build/` of
//! this repository. The whole tables are in ignored tests, for `make test-long`.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::common::{Ended, Place, compile, tree};

/// A job that hangs is killed after this time. It only keeps a failing test from hanging.
const LIMIT: &str = "120";

/// Runs `limits.c` with these ranks and arguments. `prepare` runs in the launcher's process before it starts.
fn run(
    place: &Place,
    ranks: u32,
    environment: &[(&str, &str)],
    arguments: &[&str],
    prepare: impl Fn() -> std::io::Result<()> + Send + Sync + 'static,
) -> Ended {
    let program = place.file("limits");
    let mut command = place.run(&["--timeout", LIMIT, "-n", &ranks.to_string()]);
    command.arg(program).args(arguments).env("SELVEDGE_PREFIX", tree()).envs(environment.iter().copied());
    // SAFETY: the closures make system calls only.
    unsafe { command.pre_exec(prepare) };
    Ended::from(command.output().expect("the command starts"))
}

fn limit(resource: libc::__rlimit_resource_t, most: u64) -> impl Fn() -> std::io::Result<()> + Copy {
    move || {
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: a structure of this frame.
        match unsafe { libc::setrlimit(resource, &limit) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

fn assert_right(ended: &Ended, ranks: u32) {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.starts_with(&format!("right: {ranks} PEs, ")), "{ended:?}");
}

/// The job has ended by itself, and says why and what to do.
fn assert_ended(ended: &Ended, words: &[&str]) {
    assert!(!matches!(ended.code, None | Some(0 | 77 | 124)), "{ended:?}");
    for word in words {
        assert!(ended.err.contains(word), "no {word}: {ended:?}");
    }
}

/// One cell of a table: a limit, and a number of ranks.
fn cell(place: &Place, (name, resource, most): (&str, libc::__rlimit_resource_t, u64), ranks: u32) -> bool {
    let ended = run(place, ranks, &[], &[], limit(resource, most));
    println!("{name} {most} x {ranks}: {:?}", ended.code);
    match ended.code {
        Some(0) => assert_right(&ended, ranks),
        _ => assert_ended(&ended, &[name]),
    }
    ended.code == Some(0)
}

const DESCRIPTORS: (&str, libc::__rlimit_resource_t) = ("`ulimit -n`", libc::RLIMIT_NOFILE);
const ADDRESS_SPACE: (&str, libc::__rlimit_resource_t) = ("`ulimit -v`", libc::RLIMIT_AS);

fn of((name, resource): (&'static str, libc::__rlimit_resource_t), most: u64) -> (&'static str, u32, u64) {
    (name, resource, most)
}

#[test]
fn a_pe_has_as_many_descriptors_with_many_peers_as_with_few() {
    let place = Place::new("descriptors");
    compile(&place, "limits");
    let ended = run(&place, 64, &[], &[], || Ok(()));
    assert_right(&ended, 64);
    let count = ended.out.split_whitespace().nth(3).and_then(|word| word.parse::<u32>().ok()).expect("a number");
    assert!(count <= 20, "{count}");
}

#[test]
fn limited_jobs_run_right_or_say_why_not() {
    let place = Place::new("limits");
    compile(&place, "limits");
    assert!(cell(&place, of(DESCRIPTORS, 48), 16));
    assert!(!cell(&place, of(DESCRIPTORS, 32), 48), "the launcher has a socket for each rank");
    assert!(cell(&place, of(DESCRIPTORS, 100), 64));
    assert!(!cell(&place, of(ADDRESS_SPACE, 300_000 << 10), 16));
    assert!(cell(&place, of(ADDRESS_SPACE, 1_000_000 << 10), 16));
}

#[test]
#[ignore = "some minutes"]
fn the_whole_table_of_limits() {
    let place = Place::new("table");
    compile(&place, "limits");
    for ranks in [16, 32, 48, 64] {
        for most in [32, 48, 64, 100] {
            cell(&place, of(DESCRIPTORS, most), ranks);
        }
        for most in [300_000 << 10, 1_000_000 << 10] {
            cell(&place, of(ADDRESS_SPACE, most), ranks);
        }
    }
}

#[test]
#[ignore = "some gigabytes of shared memory"]
fn a_thousand_pes_start_with_1024_descriptors() {
    let place = Place::new("thousand");
    compile(&place, "limits");
    let environment = [("SHMEM_SYMMETRIC_SIZE", "16M"), ("SELVEDGE_DIR", "/dev/shm")];
    let ended = run(&place, 1000, &environment, &["barrier"], limit(libc::RLIMIT_NOFILE, 1024));
    assert_right(&ended, 1000);
}

/// The words of each error.
fn words(error: &str) -> &'static [&'static str] {
    match error {
        "EMFILE" => &["descriptors", "`ulimit -n`"],
        "ENFILE" => &["fs.file-max"],
        "ENOMEM" => &["memory"],
        "ENOSPC" => &["no space for", "SELVEDGE_DIR"],
        "EDQUOT" => &["quota", "SELVEDGE_DIR"],
        _ => &["permission denied", "SELVEDGE_DIR"],
    }
}

/// PE 1 of 8 loses a resource. The job ends, and says so.
fn lose(place: &Place, mode: &str, when: &str, call: &str, error: &str) {
    let ended = run(place, 8, &[("SELVEDGE_MODE", mode)], &[when, call, error], || Ok(()));
    println!("{mode} {when} {call} {error}: {:?}", ended.code);
    if ended.code == Some(77) {
        println!("skipped: no seccomp");
        return;
    }
    assert_ended(&ended, words(error));
    assert!(!ended.err.contains("has ended") && !ended.err.contains("panicked"), "{mode} {when} {call}: {ended:?}");
}

#[test]
fn a_lost_resource_ends_the_job_with_its_name() {
    let place = Place::new("lost");
    compile(&place, "limits");
    for (mode, when, call, error) in [
        ("nic", "later", "open", "EMFILE"),
        ("nic", "later", "map", "ENOMEM"),
        ("nic", "later", "space", "ENOSPC"),
        ("host", "later", "open", "ENFILE"),
        ("host", "later", "space", "ENOSPC"),
        ("nic", "start", "open", "EACCES"),
        ("nic", "start", "space", "ENOSPC"),
    ] {
        lose(&place, mode, when, call, error);
    }
}

#[test]
#[ignore = "a minute"]
fn every_resource_that_is_lost_ends_the_job_with_its_name() {
    let place = Place::new("every");
    compile(&place, "limits");
    for mode in ["nic", "host"] {
        for when in ["start", "later"] {
            for error in ["EMFILE", "ENFILE", "ENOMEM", "EACCES"] {
                lose(&place, mode, when, "open", error);
            }
            for error in ["ENOMEM", "EACCES"] {
                lose(&place, mode, when, "map", error);
            }
            for error in ["ENOSPC", "EDQUOT", "ENOMEM"] {
                lose(&place, mode, when, "space", error);
            }
        }
    }
}

/// Runs a command with 64 MB in `/dev/shm`, as containers have them. None: this needs root.
fn in_small_memory(command: &str) -> Option<Ended> {
    let script = format!("mount -t tmpfs -o size=64m tmpfs /dev/shm || exit 77\n{command}");
    let output = Command::new("unshare").args(["-m", "--propagation", "private", "sh", "-c", &script]).output().ok()?;
    let ended = Ended::from(output);
    let denied = ended.code == Some(77) || ended.err.starts_with("unshare: ");
    if denied {
        println!("skipped: a mount namespace is not permitted");
    }
    (!denied).then_some(ended)
}

#[test]
fn sixteen_pes_run_in_the_shared_memory_of_a_container_and_more_are_told_why_not() {
    let place = Place::new("container");
    compile(&place, "limits");
    let (selvedge, program) = (env!("CARGO_BIN_EXE_selvedge"), place.file("limits"));
    let job = |ranks: u32, arguments: &str| {
        let program = program.display();
        let prefix = tree();
        in_small_memory(&format!(
            "SELVEDGE_PREFIX={} exec {selvedge} run --timeout {LIMIT} -n {ranks} {program} {arguments}",
            prefix.display()
        ))
    };
    let Some(ended) = job(16, "short") else { return };
    assert_right(&ended, 16);
    let ended = job(48, "short").expect("permitted before");
    assert_ended(&ended, &["no space for", "of 67108864 bytes free", "/dev/shm", "SELVEDGE_DIR"]);
}
