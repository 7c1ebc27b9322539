// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compilers of OpenSHMEM programs: `OSHCC` and `OSHCXX`, or those of the built tree.

use std::ffi::OsString;

use selvedge_test_runner::{Compiler, tree};

pub fn compiler() -> Compiler {
    let tool = |variable: &str, name: &str| -> OsString {
        tree::setting(variable).unwrap_or_else(|| tree::prefix().join("bin").join(name).into())
    };
    let mut compiler = Compiler::of_system(&["-O1", "-Wno-deprecated-declarations", "-pthread"]);
    compiler.c = tool("OSHCC", "oshcc");
    compiler.cpp = Some(tool("OSHCXX", "oshc++"));
    compiler.libraries.push("-lm".into());
    compiler
}
