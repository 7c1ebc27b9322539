// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a C program (`preloaded.c`) with the library: with shared blocks, without, and where limits forbid them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The library of the tree that `make build` fills.
fn library() -> PathBuf {
    let prefix = std::env::var_os("SELVEDGE_PREFIX").map(PathBuf::from);
    let prefix = prefix.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../build"));
    let file = prefix.join("lib/libselvedge/libselvedge_mpi_preload.so");
    assert!(file.is_file(), "{} is missing; run: make build", file.display());
    file
}

fn program() -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("preloaded");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preloaded.c");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    // Without optimisation, so that the compiler does not remove calls of malloc and free.
    let words = ["-std=gnu11", "-O0", "-Wall", "-Wextra", "-Wno-alloc-size-larger-than", "-pthread", "-o"];
    let compiled = Command::new(compiler).args(words).arg(&program).arg(source).status().expect("a C compiler");
    assert!(compiled.success());
    program
}

fn run(program: &Path, shell: &str, variable: Option<(&str, &str)>, shared: &str) {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{shell} exec env LD_PRELOAD=\"$1\" \"$2\" \"$3\""), "sh"]);
    command.arg(library()).arg(program).arg(shared).envs(variable);
    command.env_remove("SELVEDGE_SIM");
    let ended = command.output().expect("a shell");
    assert!(ended.status.success(), "{shell}: {}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn programs_have_the_malloc_that_they_expect() {
    let program = program();
    run(&program, "", None, "2");
    run(&program, "", Some(("SELVEDGE_SHARED_MALLOC", "0")), "0");
    run(&program, "ulimit -f 100;", None, "0");
    run(&program, "ulimit -v 2000000;", None, "2");
}
