// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs C programs with the library: `preloaded.c` with shared blocks, without, and where limits forbid them;
//! `with_allocator.c` with another allocator (`allocator.c`).

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The library of the tree that `make build` fills.
fn library() -> PathBuf {
    let prefix = std::env::var_os("SELVEDGE_PREFIX").map(PathBuf::from);
    let prefix = prefix.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../build"));
    let file = prefix.join("lib/libselvedge/libselvedge_mpi_preload.so");
    assert!(file.is_file(), "{} is missing; run: make build", file.display());
    file
}

/// Compiles a source of this directory to `name`.
fn compiled(source: &str, name: &str, words: &[&str]) -> PathBuf {
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source);
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    // Without optimisation, so that the compiler does not remove calls of malloc and free.
    let usual = ["-std=gnu11", "-O0", "-Wall", "-Wextra", "-Wno-alloc-size-larger-than", "-pthread", "-o"];
    let mut command = Command::new(compiler);
    let compiled = command.args(usual).arg(&made).arg(source).args(words).status().expect("a C compiler");
    assert!(compiled.success());
    made
}

/// Runs a program with libraries before the C library, and checks that it ends well.
fn run(program: &Path, libraries: &[&Path], shell: &str, variables: &[(&str, &str)], argument: &str) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{shell} exec env LD_PRELOAD=\"$1\" \"$2\" \"$3\""), "sh"]);
    let libraries: Vec<_> = libraries.iter().map(|library| library.display().to_string()).collect();
    command.arg(libraries.join(":")).arg(program).arg(argument).envs(variables.iter().copied());
    command.env_remove("SELVEDGE_SIM");
    let ended = command.output().expect("a shell");
    assert!(ended.status.success(), "{shell} {libraries:?}: {}", String::from_utf8_lossy(&ended.stderr));
    ended
}

#[test]
fn programs_have_the_malloc_that_they_expect() {
    let (program, ours) = (compiled("preloaded.c", "preloaded", &[]), library());
    let run = |shell: &str, variables: &[(&str, &str)], shared: &str| run(&program, &[&ours], shell, variables, shared);
    run("", &[], "2");
    run("", &[("SELVEDGE_SHARED_MALLOC", "0")], "0");
    run("ulimit -f 100;", &[], "0");
    run("ulimit -v 2000000;", &[], "2");
}

#[test]
fn another_allocator_keeps_all_blocks() {
    let other = compiled("allocator.c", "liballocator.so", &["-shared", "-fPIC", "-fno-builtin"]);
    let linked =
        compiled("with_allocator.c", "with_linked", &["-fno-builtin", "-Wl,--no-as-needed", &other.to_string_lossy()]);
    let preloading = compiled("with_allocator.c", "with_preloaded", &["-fno-builtin"]);
    let ours = library();
    for (program, libraries) in
        [(&linked, &[ours.as_path()][..]), (&preloading, &[&ours, &other]), (&preloading, &[&other, &ours])]
    {
        run(program, libraries, "", &[], "");
        run(program, libraries, "", &[("SELVEDGE_SIM", "1")], "");
        let said = String::from_utf8(run(program, libraries, "", &[("SELVEDGE_LOG", "info")], "").stderr).unwrap();
        assert_eq!(said.matches("blocks of malloc are not shared").count(), 1, "{libraries:?}: {said}");
    }
}
