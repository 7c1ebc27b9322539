// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Generates the C functions in Rust (`OUT_DIR/exports.rs`) from the table in `api/`. Compiles the few functions that
//! Rust cannot express (`src/longdouble.c`), against the header of the same table.

use std::env;
use std::fs;
use std::path::PathBuf;

mod api;

fn main() {
    println!("cargo:rerun-if-changed=api");
    println!("cargo:rerun-if-changed=src/longdouble.c");
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where"));
    for (name, text) in [("exports.rs", api::exports::exports()), ("shmem.h", api::header::shmem())] {
        fs::write(folder.join(name), text).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    cc::Build::new().file("src/longdouble.c").include(&folder).std("c11").compile("selvedge_longdouble");
}
