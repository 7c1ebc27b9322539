// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge manager` and `selvedge aggregator`: reduction between hosts (seed 001, section III). Both run until ended.
//!
//! The first line on standard output reports readiness. A manager prints its address, in the form of
//! `SELVEDGE_MANAGER`. An aggregator prints `ready` after the manager has accepted it.

mod aggregator;
mod manager;

pub use aggregator::{Args as AggregatorArgs, main as aggregator_main};
pub use manager::{Args as ManagerArgs, main as manager_main};

use std::io::Write;

/// Reports that this command is ready. A closed standard output is no error, because the starter may have ended.
fn say_ready(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
