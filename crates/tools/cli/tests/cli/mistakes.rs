// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mistakes that a newcomer makes, and the words that each must get: the thing, the value, the remedy. A table.
//!
//! Others are cases of files that have what they need: `/dev/shm` of 64 MB and 32 descriptors in `limits.rs`, hosts in
//! `hosts.rs`. NumPy 2 is shmem4py's own error; `docs/guide/openshmem.md` names the version.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::common::{Ended, Place, compile_text, tree};

/// A mistake. `line`: the command without `selvedge`; PLACE is the folder of the case's files.
struct Mistake {
    name: &'static str,
    line: &'static str,
    variables: &'static [(&'static str, &'static str)],
    code: i32,
    words: &'static [&'static str],
}

const fn mistake(name: &'static str, line: &'static str, code: i32, words: &'static [&'static str]) -> Mistake {
    Mistake { name, line, variables: &[], code, words }
}

const fn with(variables: &'static [(&'static str, &'static str)], mistake: Mistake) -> Mistake {
    Mistake { variables, ..mistake }
}

const MISTAKES: &[Mistake] = &[
    mistake(
        "a wrong command",
        "benhc",
        2,
        &["unrecognized subcommand 'benhc'", "a similar subcommand exists: 'bench'"],
    ),
    mistake("a wrong option", "run --timout 3 true", 2, &["'--timout'", "a similar argument exists: '--timeout'"]),
    mistake("no program", "run -n 2", 2, &["PROGRAM"]),
    mistake("zero ranks", "run -n 0 true", 2, &["'0'", "0 is not in 1..="]),
    mistake("too many ranks", "run -n 100000 true", 2, &["100000 ranks", "at most 1024", "--hosts"]),
    mistake("a missing file", "run ./nowhere", 127, &["./nowhere does not exist"]),
    mistake("a program of this folder without its path", "run here", 127, &["here is not in PATH", "./here"]),
    mistake("a program that is not executable", "run PLACE/plain", 126, &["PLACE/plain is not executable", "chmod +x"]),
    mistake("a folder", "run PLACE", 126, &["PLACE is a directory"]),
    mistake("a program of another machine", "run PLACE/foreign", 126, &["a program for s390x", "compile it here"]),
    mistake("the same for an MPI", "mpirun -n 1 PLACE/foreign", 126, &["a program for s390x", "compile it here"]),
    mistake("a missing library", "run PLACE/unlinked", 127, &["libabsent.so.1", "rank 0 (pid ", "status 127"]),
    mistake(
        "a wrong machine",
        "sim -n 2 --machine clster -- true",
        2,
        &["no machine 'clster'", "did you mean cluster?"],
    ),
    mistake(
        "a missing machine file",
        "sim -n 2 --machine ./m.toml -- true",
        2,
        &["no file ./m.toml", "machines by name are"],
    ),
    mistake(
        "a machine file with a typo",
        "sim -n 2 --machine PLACE/typo.toml -- true",
        2,
        &["PLACE/typo.toml", "unknown field `latncy_ns`", "`latency_ns`"],
    ),
    mistake(
        "more ranks than the machine has room for",
        "sim -n 4000 --machine cluster -- true",
        2,
        &["4000 ranks", "--ranks-per-node", "take a larger machine"],
    ),
    mistake(
        "a host that cannot be reached",
        "run --hosts no-such-host.invalid,localhost true",
        1,
        &["host no-such-host.invalid: it cannot be reached", "must work, without a password"],
    ),
    with(
        &[("PATH", "/nonexistent")],
        mistake("no MPI", "mpirun -n 2 /bin/true", 1, &["no launcher of Open MPI or MPICH", "install", "--launcher"]),
    ),
    mistake(
        "an MPI's launcher for a program without MPI",
        "mpirun -n 1 /bin/true",
        0,
        &["/bin/true is linked to no MPI", "selvedge run starts OpenSHMEM"],
    ),
    with(
        &[("SELVEDGE_DIR", "/nonexistent")],
        mistake(
            "a folder of jobs that does not exist",
            "run true",
            1,
            &["/nonexistent: no such folder", "SELVEDGE_DIR"],
        ),
    ),
    with(
        &[("SELVEDGE_DIR", "/proc")],
        mistake(
            "a folder of jobs that takes no files",
            "run true",
            1,
            &["cannot make /proc/selvedge-", "SELVEDGE_DIR"],
        ),
    ),
    mistake("ranks under gdb that are not there", "run -n 2 --gdb 2 true", 2, &["no rank 2", "ranks 0 to 1"]),
];

/// The files that the cases need. The launcher of an MPI is a fake that does nothing, and ssh one that reaches no host.
fn files(place: &Place) {
    let write = |name: &str, bytes: &[u8]| fs::write(place.file(name), bytes).expect("written");
    fs::create_dir(place.file("bin")).expect("made");
    write("plain", b"text");
    place.program("here", b"#!/bin/sh\n");
    let machine = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../machines/cluster.toml");
    let machine = fs::read_to_string(machine).expect("a machine").replacen("\nlatency_ns", "\nlatncy_ns", 1);
    write("typo.toml", machine.as_bytes());
    let mut foreign = b"\x7fELF\x02\x02\x01\0\0\0\0\0\0\0\0\0\0\x02\0\x16".to_vec();
    foreign.resize(4096, 0);
    place.program("foreign", &foreign);
    place.script("bin/mpirun", "test \"$1\" != --version || echo 'mpirun (Open MPI) 5.0'");
    place.script("bin/ssh", "exit 255");
    write("libabsent.c", b"int absent(void) { return 0; }\n");
    write("unlinked.c", b"int absent(void);\nint main(void) { return absent(); }\n");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let compile = |words: &[&str]| {
        let status = Command::new(&compiler).args(words).current_dir(place.file("")).status();
        assert!(status.expect("a C compiler").success(), "{words:?}");
    };
    compile(&["-shared", "-fPIC", "-Wl,-soname,libabsent.so.1", "libabsent.c", "-o", "libabsent.so"]);
    compile(&["unlinked.c", "-o", "unlinked", "-L.", "-labsent"]);
}

#[test]
fn each_mistake_gets_its_words() {
    let place = Place::new("mistakes");
    files(&place);
    let folder = place.file("");
    let folder = folder.to_str().expect("characters").trim_end_matches('/');
    let mut path = vec![PathBuf::from(folder).join("bin")];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let path = std::env::join_paths(path).expect("no colons");
    let mut wrong = Vec::new();
    for Mistake { name, line, variables, code, words } in MISTAKES {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command
            .args(line.split(' ').map(|word| word.replace("PLACE", folder)))
            .current_dir(folder)
            .stdin(Stdio::null());
        command.env("SELVEDGE_DIR", folder).env("SELVEDGE_PREFIX", tree()).env("PATH", &path);
        let ended = Ended::from(command.envs(variables.iter().copied()).output().expect("the command starts"));
        let missing = words.iter().map(|word| word.replace("PLACE", folder)).find(|word| !ended.err.contains(word));
        if ended.code != Some(*code) || missing.is_some() || ended.err.contains("panicked") {
            wrong.push(format!("{name}: wanted code {code} and {missing:?}: {ended:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A command that was copied without its libraries.
#[test]
fn a_command_without_its_tree_says_what_is_missing() {
    let place = Place::new("alone");
    let own = place.copy_program(env!("CARGO_BIN_EXE_selvedge"), "selvedge");
    let run = |words: &[&str]| {
        let mut command = Command::new(&own);
        command.args(words).env_remove("SELVEDGE_PREFIX").env("SELVEDGE_DIR", place.file("")).stdin(Stdio::null());
        Ended::from(command.current_dir(place.file("")).output().expect("the command starts"))
    };
    let sim = run(&["sim", "--machine", "cluster", "--", "true"]);
    assert!(sim.code == Some(2) && sim.err.contains("set SELVEDGE_PREFIX to the tree that has them"), "{sim:?}");
    let env = run(&["env", "mpich"]);
    assert!(env.code == Some(1) && env.err.contains("SELVEDGE_PREFIX"), "{env:?}");
    assert_eq!(run(&["run", "true"]).code, Some(0));
}

/// A home folder that takes no files, as in some containers. Nothing is written there.
#[test]
fn a_home_that_cannot_be_written_changes_nothing() {
    let place = Place::new("home");
    let mut command = place.run(&["-n", "2", "true"]);
    let ended = Ended::from(command.env("HOME", "/proc").env("XDG_CACHE_HOME", "/proc").output().expect("starts"));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
}

/// A rank whose NIC another version has made: its number stands in the header of the segment.
#[test]
fn two_versions_in_one_job_are_told_so() {
    let place = Place::new("versions");
    let text = "#include <shmem.h>\nstatic long x;\n\
                int main(void) { shmem_init(); shmem_long_p(&x, 1, (shmem_my_pe() + 1) % shmem_n_pes());\n\
                shmem_finalize(); return 0; }\n";
    let program = compile_text("versions", text, &["sma"]);
    let script = "if [ $SELVEDGE_RANK = 1 ]; then folder=$(echo $SELVEDGE_DIR/selvedge-*/$SELVEDGE_JOB)\n\
                  until [ -s $folder/1.*.nic ]; do sleep 0.02; done\n\
                  printf 'M\\0\\0\\0' | dd of=$(echo $folder/1.*.nic) bs=1 seek=8 conv=notrunc 2>/dev/null; fi\n\
                  exec \"$@\"\n";
    fs::write(place.file("newer"), script).expect("written");
    let wrapper = format!("sh {}", place.file("newer").display());
    let mut command = place.run(&["-n", "2", "--timeout", "60", "--wrapper", &wrapper, &program]);
    let ended = Ended::from(command.env("SELVEDGE_PREFIX", tree()).output().expect("starts"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for words in ["made by another version of Selvedge (segment 77, ", "all processes of a job need the same"] {
        assert!(ended.err.contains(words), "no {words}: {ended:?}");
    }
}
