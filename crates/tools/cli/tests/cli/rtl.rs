// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge rtl` without the RTL, and the errors of `selvedge sim --record`. `crates/tools/rtl/tests/rtl/replay.rs`
//! tests the contents of the traces.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::Place;

fn rtl(prefix: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.arg("rtl").args(arguments).env("SELVEDGE_PREFIX", prefix).output().expect("the command starts")
}

#[test]
fn the_program_of_the_rtl_gets_the_arguments_and_gives_the_exit_code() {
    let place = Place::new("rtl");
    let missing = rtl(&place.file(""), &["replay", "x"]);
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(missing.status.code() == Some(1) && said.contains("run make rtl"), "{said}");

    let folder = place.file("libexec/selvedge");
    fs::create_dir_all(&folder).expect("a folder");
    place.script("libexec/selvedge/selvedge-rtl", "echo \"$@\"\nexit 7");
    let done = rtl(&place.file(""), &["replay", "--gap", "3", "--help", "a.trace"]);
    assert_eq!((done.status.code(), &done.stdout[..]), (Some(7), &b"replay --gap 3 --help a.trace\n"[..]));
}

#[test]
fn a_recording_needs_real_processes_and_an_empty_folder() {
    let place = Place::new("record");
    let refused = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command
            .args(["sim", "--machine"])
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../machines/cluster.toml"));
        let done = command.args(arguments).output().expect("the command starts");
        assert_eq!(done.status.code(), Some(2), "{arguments:?}");
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    let folder = place.file("traces");
    let folder = folder.to_str().expect("a path of characters");
    assert!(refused(&["--program", "ping-pong", "--record", folder]).contains("only their NICs"));
    assert!(refused(&["--record-rank", "0", "--", "true"]).contains("--record"));
    assert!(refused(&["-n", "2", "--record", folder, "--record-rank", "2", "--", "true"]).contains("no rank 2"));
    fs::create_dir_all(folder).expect("a folder");
    fs::write(place.file("traces/0.0.trace"), "").expect("a file");
    assert!(refused(&["--record", folder, "--", "true"]).contains("has traces already"));
}
