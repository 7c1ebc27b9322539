// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The library as NCCL drives it: the C program `tests/nccl/collnet.c` over each version of the table, in several processes. Needs a built
//! tree (`make build`).

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// The library of the built tree: the one that SELVEDGE_PREFIX names, else `build/` of this repository.
fn library() -> PathBuf {
    let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    let tree = env::var_os("SELVEDGE_PREFIX").map_or_else(|| PathBuf::from(workspace).join("build"), PathBuf::from);
    let library = tree.join("lib/libnccl-net-selvedge.so");
    assert!(library.exists(), "{} is missing: run `make build`, or set SELVEDGE_PREFIX", library.display());
    library
}

#[test]
fn every_version_among_several_processes() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/nccl/collnet.c");
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("collnet");
    let library = library();
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut compile = Command::new(compiler);
    compile.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", source, "-o"]).arg(&program);
    assert!(compile.args(["-ldl", "-lpthread"]).status().expect("the C compiler starts").success());
    for version in 6..=12 {
        for processes in [1, 2, 3, 5] {
            let (version, processes) = (version.to_string(), processes.to_string());
            let output = Command::new(&program)
                .arg(&library)
                .args([&version, &processes, "own"])
                .output()
                .expect("the program starts");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "version {version}, {processes} processes: {}\n{said}", output.status);
        }
    }
}
