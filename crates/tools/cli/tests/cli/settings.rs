// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings: mistakes are reported once a job, and the configuration file counts for the command and for libraries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Ended, Place, compile_text, sim_of_two, tree};

/// An OpenSHMEM program. With `SHMEM_VERSION`, its PE 0 prints the library's version.
const PROGRAM: &str = "\
#include <shmem.h>
int main(void)
{
    shmem_init();
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}
";

/// Its path, different for each test, because they compile at the same time.
fn program(test: &str) -> String {
    compile_text(&format!("settings-{test}"), PROGRAM, &["sma"])
}

/// A command without settings of its environment, in a place.
fn clean(place: &Place, mut command: Command, config: &Path) -> Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SELVEDGE_") {
            command.env_remove(name);
        }
    }
    command.env("SELVEDGE_DIR", place.file("")).env("SELVEDGE_PREFIX", tree()).env("SELVEDGE_CONFIG", config);
    command.stdin(Stdio::null());
    command
}

fn selvedge(place: &Place, config: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(arguments);
    clean(place, command, config)
}

fn ended(mut command: Command) -> Ended {
    Ended::from(command.output().expect("the command starts"))
}

fn config(place: &Place, text: &str) -> PathBuf {
    let path = place.file("selvedge.toml");
    fs::write(&path, text).expect("the file is written");
    path
}

const NONE: &str = "/dev/null";
const UNKNOWN: &str = "selvedge: SELVEDGE_MOED: there is no such setting; did you mean SELVEDGE_MODE?";
const BAD: &str = "selvedge: SELVEDGE_PATH=fast is not a valid value; the default is used; valid: auto | shared | cma | \
                   bounce";

#[test]
fn mistakes_are_reported_once_a_job() {
    let (place, program, none) = (Place::new("mistakes"), program("mistakes"), Path::new(NONE));
    let run = |arguments: &[&str], level: &str| {
        let mut command = selvedge(&place, none, arguments);
        command.env("SELVEDGE_MOED", "nic").env("SELVEDGE_PATH", "fast").env("SELVEDGE_LOG", level);
        ended(command)
    };
    let job = run(&["run", "-np", "3", &program], "warn");
    assert_eq!((job.code, job.err.lines().collect::<Vec<_>>()), (Some(0), vec![UNKNOWN, BAD]));
    let quiet = run(&["run", "-np", "3", &program], "error");
    assert_eq!((quiet.code, quiet.err.as_str()), (Some(0), ""));
    // Without a launcher the library reports; under another launcher, that of rank 0 does.
    for (rank, lines) in [(None, vec![UNKNOWN, BAD]), (Some("0"), vec![UNKNOWN, BAD]), (Some("1"), Vec::new())] {
        let mut command = clean(&place, Command::new(&program), none);
        command.env("SELVEDGE_MOED", "nic").env("SELVEDGE_PATH", "fast");
        command.envs(rank.map(|rank| ("SLURM_PROCID", rank)));
        let alone = ended(command);
        assert_eq!((alone.code, alone.err.lines().collect::<Vec<_>>()), (Some(0), lines), "{rank:?}");
    }
    let assigned = ended(selvedge(&place, none, &["run", "--env", "SELVEDGE_MOED=nic", "true"]));
    assert_eq!(assigned.err.trim_end(), UNKNOWN);
}

#[test]
fn a_configuration_file_counts_for_command_and_library() {
    let (place, program) = (Place::new("config"), program("config"));
    let file = config(&place, "shmem_version = true\nheap_bytes = '64M'\n");
    let version = "Selvedge 0.1.0, OpenSHMEM 1.6\n";
    assert_eq!(ended(clean(&place, Command::new(&program), &file)).out, version);
    let job = ended(selvedge(&place, &file, &["run", "-np", "2", &program]));
    assert_eq!((job.code, job.out.as_str(), job.err.as_str()), (Some(0), version, ""));
    // A simulation reads no file.
    let mut command = sim_of_two("cluster", &["--"]);
    command.arg(&program);
    let simulated = ended(clean(&place, command, &file));
    assert!(simulated.code == Some(0) && !simulated.out.contains("OpenSHMEM"), "{simulated:?}");

    let info = |mode: Option<&str>| {
        let mut command = selvedge(&place, &file, &["info", "variables", "--json"]);
        command.envs(mode.map(|bytes| ("SELVEDGE_HEAP_BYTES", bytes)));
        let shown: serde_json::Value = serde_json::from_str(&ended(command).out).expect("JSON");
        let all = shown["variables"].as_array().expect("an array").clone();
        let of = |name: &str| all.iter().find(|variable| variable["name"] == name).expect("it is listed").clone();
        (of("SELVEDGE_HEAP_BYTES"), of("SELVEDGE_MODE"))
    };
    let (heap, mode) = info(None);
    let place_of_heap = format!("{}:2", file.display());
    assert_eq!(
        (&heap["source"], &heap["file"], &heap["in_force"]),
        (&"file".into(), &place_of_heap.into(), &"64 MiB".into())
    );
    assert_eq!(mode["source"], "default");
    let (heap, _) = info(Some("32M"));
    assert_eq!((&heap["source"], &heap["in_force"]), (&"environment".into(), &"32 MiB".into()));
}

#[test]
fn errors_in_a_configuration_file_have_a_line() {
    let (place, program) = (Place::new("config-errors"), program("errors"));
    let file = config(&place, "shmem_version = true\nheap_byte = '64M'\npath = 'fast'\n");
    let errors = [
        format!("selvedge: {}:2: there is no setting 'heap_byte'; did you mean heap_bytes?", file.display()),
        format!("selvedge: {}:3: 'path' takes auto | shared | cma | bounce, not \"fast\"", file.display()),
    ];
    let refused = ended(selvedge(&place, &file, &["run", "-np", "2", &program]));
    assert_eq!(
        (refused.code, refused.err.lines().collect::<Vec<_>>()),
        (Some(2), errors.iter().map(|e| &e[..]).collect())
    );
    let shown = ended(selvedge(&place, &file, &["info", "variables"]));
    assert_eq!((shown.code, shown.err.lines().count()), (Some(0), 2), "{}", shown.err);
    // A library reports the lines, and the others count.
    let alone = ended(clean(&place, Command::new(&program), &file));
    assert!(alone.code == Some(0) && alone.out.contains("OpenSHMEM"), "{alone:?}");
    assert_eq!(alone.err.lines().collect::<Vec<_>>(), errors);
    let absent = ended(selvedge(&place, Path::new("/nowhere/file"), &["run", "true"]));
    assert_eq!(absent.code, Some(2));
    assert!(absent.err.contains("SELVEDGE_CONFIG=/nowhere/file: no such file"), "{}", absent.err);
}
