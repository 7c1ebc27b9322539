// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge doctor` as a user sees it: with the built tree, with nothing installed, with MPIs that cannot be used, and
//! with a folder and limits that are too small. PATH has only what a test puts there.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{Ended, Place, tree};

/// `selvedge doctor` of this executable, or of a copy, with one folder in PATH.
fn doctor(selvedge: &str, place: &Place, arguments: &[&str]) -> Command {
    let path = place.file("path");
    let _ = fs::create_dir(&path);
    let mut command = Command::new(selvedge);
    command.arg("doctor").args(arguments).env("PATH", path).env("SELVEDGE_DIR", place.file("")).stdin(Stdio::null());
    command.env_remove("SELVEDGE_RSH");
    command
}

fn in_tree(place: &Place, arguments: &[&str]) -> Command {
    let mut command = doctor(env!("CARGO_BIN_EXE_selvedge"), place, arguments);
    command.env("SELVEDGE_PREFIX", tree());
    command
}

fn ended(command: &mut Command) -> Ended {
    Ended::from(command.output().expect("the command starts"))
}

/// The state of a subject, and its text.
fn finding(report: &Value, subject: &str) -> (String, String) {
    let all = report["findings"].as_array().expect("a list");
    let found = all.iter().find(|finding| finding["subject"].as_str().is_some_and(|text| text.starts_with(subject)));
    let found = found.unwrap_or_else(|| panic!("no {subject}: {report:#}"));
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("state"), text("found") + " -> " + &text("remedy"))
}

fn report(command: &mut Command) -> (Value, Option<i32>) {
    let ended = ended(command);
    (serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}")), ended.code)
}

#[test]
fn a_built_tree_works_and_leaves_nothing() {
    let place = Place::new("doctor-tree");
    let ended = ended(in_tree(&place, &[]).env("COLUMNS", "80"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("two processes over shared memory: every byte is right"), "{}", ended.out);
    assert!(ended.out.lines().all(|line| line.chars().count() <= 80 || line.contains('/')), "{}", ended.out);
    assert!(ended.out.contains("MPI             no launcher"), "{}", ended.out);
    let left: Vec<_> = fs::read_dir(place.file("")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["path"], "nothing but the test's own");
}

#[test]
fn a_command_alone_says_what_to_install() {
    let place = Place::new("doctor-alone");
    let copy = place.copy_program(env!("CARGO_BIN_EXE_selvedge"), "selvedge");
    let (report, code) = report(doctor(copy.to_str().unwrap(), &place, &["--json"]).env_remove("SELVEDGE_PREFIX"));
    assert_eq!((code, &report["works"]), (Some(1), &Value::Bool(false)));
    let (state, text) = finding(&report, "selvedge");
    assert!(state == "problem" && text.contains("SELVEDGE_PREFIX"), "{state} {text}");
    assert_eq!(finding(&report, "1 MiB each way").0, "problem");
    assert_eq!(finding(&report, "ssh").0, "note");
}

/// An MPICH over UCX, an MPI that fails, and a program of another kind under a launcher's name.
#[test]
fn mpis_that_cannot_load_the_provider_are_named() {
    let place = Place::new("doctor-mpis");
    for folder in ["bin", "lib"] {
        fs::create_dir(place.file(folder)).unwrap();
    }
    let script = |name: &str, text: &str| place.script(name, text);
    script("bin/mpiexec.hydra", "echo 'HYDRA build details:'; echo '    Version:  4.0.2'");
    script("bin/mpirun", "echo 'mpirun (Open MPI) 5.0.9'; case $1 in --version) ;; *) echo broken >&2; exit 3;; esac");
    script("bin/mpiexec", "echo something else");
    script("bin/srun", "echo 'slurm 23.11.1'");
    library(&place.file("lib/libmpi.so.12"), "const char device[] = \"ch4:ucx\";");
    library(&place.file("lib/libmpi.so.40"), "int mca_mtl_ofi_component;");
    let (report, code) = report(in_tree(&place, &["--json"]).env("PATH", place.file("bin")));
    assert_eq!(code, Some(0), "an MPI stops nothing: {report:#}");
    let (state, text) = finding(&report, "MPICH 4.0.2");
    assert!(state == "note" && text.contains("ch4:ucx") && text.contains("pip install mpich"), "{state} {text}");
    let (state, text) = finding(&report, "Open MPI 5.0.9");
    assert!(state == "problem" && text.contains("broken"), "{state} {text}");
    assert!(finding(&report, "srun").1.contains("23.11.1"));
    assert!(finding(&report, "launcher").1.contains("mpiexec: neither"), "{report:#}");
}

fn library(file: &Path, source: &str) {
    let text = file.with_extension("c");
    fs::write(&text, source).unwrap();
    let mut compile = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    assert!(compile.args(["-shared", "-fPIC", "-o"]).arg(file).arg(&text).status().expect("a C compiler").success());
}

#[test]
fn a_folder_that_is_not_there_is_a_problem() {
    let place = Place::new("doctor-folder");
    let (report, code) = report(in_tree(&place, &["--json"]).env("SELVEDGE_DIR", "/nowhere/at all"));
    assert_eq!(code, Some(1), "{report:#}");
    let (state, text) = finding(&report, "/dev/shm");
    assert!(state == "problem" && text.contains("/nowhere/at all") && text.contains("SELVEDGE_DIR"), "{state} {text}");
}

/// The launcher, the ranks and this command have 32 descriptors. Whether that is enough is said, and nothing hangs.
#[test]
fn few_descriptors_are_noted() {
    let place = Place::new("doctor-files");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "ulimit -n 32 && exec \"$0\" doctor --json", env!("CARGO_BIN_EXE_selvedge")]);
    command.env("PATH", place.file("")).env("SELVEDGE_DIR", place.file("")).env("SELVEDGE_PREFIX", tree());
    let (report, code) = report(&mut command);
    let (state, text) = finding(&report, "open files");
    assert!(state == "note" && text.starts_with("32 ->"), "{state} {text}");
    let sent = finding(&report, "1 MiB each way").0;
    assert_eq!(code, Some(i32::from(sent != "ok")), "{report:#}");
}
