// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes into a folder the two files with which the Makefile links `libsma.so` (see `link.rs`). An unchanged file is
//! left alone, so that nothing is linked again.
//!
//! usage: libsma-link-files FOLDER

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

#[path = "mod.rs"]
mod api;

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: libsma-link-files FOLDER");
        return ExitCode::from(2);
    };
    for (name, text) in [("libsma.ld", api::link::aliases()), ("libsma.map", api::link::version_script())] {
        let path = folder.join(name);
        if fs::read_to_string(&path).is_ok_and(|found| found == text) {
            continue;
        }
        if let Err(error) = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, text)) {
            eprintln!("libsma-link-files: {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
