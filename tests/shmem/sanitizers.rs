// SPDX-License-Identifier: Apache-2.0 OR MIT
//! OpenSHMEM programs with the sanitizers of gcc, live and simulated: their faults are found, and nothing else is
//! reported. A sanitizer that the compiler does not have, or whose programs do not start on this system, is left out.

mod compiler;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use selvedge_test_runner::tree;

/// The program with this sanitizer. `None`: it is not installed.
fn program(sanitizer: &str) -> Option<PathBuf> {
    let output = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("sanitizers");
    fs::create_dir_all(&output).expect("a folder for programs");
    let flag = format!("-fsanitize={sanitizer}");
    let empty = output.join(format!("empty-{sanitizer}.c"));
    fs::write(&empty, "int main(void) { return 0; }\n").expect("written");
    let works = output.join(format!("empty-{sanitizer}"));
    let compiled = Command::new("cc").arg(&flag).arg(&empty).arg("-o").arg(&works).stderr(Stdio::null()).status();
    let starts = compiled.is_ok_and(|status| status.success())
        && Command::new(&works).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !starts {
        eprintln!("{flag} does not work here: left out");
        return None;
    }
    let mut compiler = compiler::compiler();
    compiler.flags.extend([flag.into(), "-g".into()]);
    let made = output.join(sanitizer);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("sanitized/program.c");
    compiler.compile(&[source], &made).unwrap_or_else(|message| panic!("{message} (is there a tree? `make build`)"));
    Some(made)
}

/// Runs the program live and simulated. `report`: the line that must be printed; none: nothing must.
fn check(program: &Path, fault: &str, report: Option<&str>) {
    let machine = tree::machine("cluster");
    let simulated = ["sim", "-n", "2", "--machine", machine.to_str().expect("text"), "--"];
    // Threads that race are not simulated well.
    for (way, threads) in [(&["run", "-n", "2", "--timeout", "120"][..], Some("threads")), (&simulated, None)] {
        let mut command = Command::new(tree::launcher());
        command.args(way).arg(program).arg(fault).args(threads).stdin(Stdio::null());
        let ended = command.output().expect("it starts");
        let text = [ended.stdout, ended.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let found: Vec<&str> = text.lines().filter(|line| line.contains("SUMMARY: ")).collect();
        match report {
            Some(report) => assert!(found.iter().any(|line| line.contains(report)), "{way:?} {fault}: {text}"),
            None => assert!(found.is_empty() && ended.status.success(), "{way:?} {:?}: {text}", ended.status),
        }
    }
}

#[test]
fn address_sanitizer_finds_faults_and_nothing_else() {
    let Some(program) = program("address") else { return };
    check(&program, "", None);
    check(&program, "global", Some("global-buffer-overflow"));
    check(&program, "heap", Some("heap-buffer-overflow"));
    check(&program, "put", Some("heap-buffer-overflow"));
    check(&program, "child", Some("global-buffer-overflow"));
    check(&program, "leak", Some("1234 byte(s) leaked in 1 allocation"));
}

#[test]
fn leak_sanitizer_finds_leaks_and_nothing_else() {
    let Some(program) = program("leak") else { return };
    check(&program, "", None);
    check(&program, "leak", Some("1234 byte(s) leaked in 1 allocation"));
}

#[test]
fn thread_sanitizer_reports_nothing() {
    let Some(program) = program("thread") else { return };
    check(&program, "", None);
}
