// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The library as NCCL drives it: the C program `tests/nccl/collnet.c` over each version of the table, in several processes.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// Where cargo puts what it builds with this test.
fn built() -> PathBuf {
    let mut place = env::current_exe().expect("this test is a file");
    place.pop();
    place
}

#[test]
fn every_version_among_several_processes() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/nccl/collnet.c");
    let program = built().join("collnet");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut compile = Command::new(compiler);
    compile.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", source, "-o"]).arg(&program);
    assert!(compile.args(["-ldl", "-lpthread"]).status().expect("the C compiler starts").success());
    for version in 6..=12 {
        for processes in [1, 2, 3, 5] {
            let (version, processes) = (version.to_string(), processes.to_string());
            let output = Command::new(&program)
                .arg(built().join("libselvedge_nccl.so"))
                .args([&version, &processes, "own"])
                .output()
                .expect("the program starts");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "version {version}, {processes} processes: {}\n{said}", output.status);
        }
    }
}
