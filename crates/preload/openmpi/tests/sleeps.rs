// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a C program (`sleeps.c`) with the library, and with a component that sleeps as Open MPI's does.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The library of the tree that `make build` fills.
fn library() -> PathBuf {
    let prefix = std::env::var_os("SELVEDGE_PREFIX").map(PathBuf::from);
    let prefix = prefix.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../build"));
    let file = prefix.join("lib/libselvedge/libselvedge_openmpi_preload.so");
    assert!(file.is_file(), "{} is missing; run: make build", file.display());
    file
}

fn compiled(name: &str, words: &[&str]) -> PathBuf {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sleeps.c");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command.args(["-std=gnu11", "-O0", "-Wall", "-Wextra"]).args(words).arg("-o").arg(&file).arg(source).arg("-ldl");
    assert!(command.status().expect("a C compiler").success());
    file
}

#[test]
fn only_the_sleep_of_the_component_is_left_out() {
    let shared = |name: &str, kinds: &[&str]| compiled(name, &[&["-shared", "-fPIC"], kinds].concat());
    let (component, other) = (shared("mca_btl_ofi.so", &["-DCOMPONENT"]), shared("mca_btl_other.so", &["-DCOMPONENT"]));
    let library_of_5 = shared("libopen-pal.so.80", &["-DCOMPONENT", "-DLIBRARY"]);
    // Without such a function, nothing closes.
    let library_of_others = shared("libopen-pal.so.90", &["-DCOMPONENT"]);
    let mut preload = library().into_os_string();
    preload.push(":");
    preload.push(shared("counter.so", &["-DCOUNTER"]));
    let mut command = Command::new(compiled("sleeps", &[]));
    command.arg(component).arg("0").arg(library_of_5).arg("0").arg(other).arg("1").arg(library_of_others).arg("1");
    command.env("LD_PRELOAD", preload).env_remove("SELVEDGE_SIM");
    let ended = command.output().expect("the program");
    assert!(ended.status.success(), "{:?}: {}", ended.status, String::from_utf8_lossy(&ended.stderr));
}
