// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints a trace, one record a line, with its number.
//!
//! `cargo run -p selvedge-trace --example show TRACE`

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: show TRACE");
        return ExitCode::from(2);
    };
    let show = || -> Result<(), selvedge_trace::TraceError> {
        for (number, record) in selvedge_trace::Reader::open(&path)?.enumerate() {
            println!("{number} {:x?}", record?);
        }
        Ok(())
    };
    match show() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}
