// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge manager` and `selvedge aggregator`: reduction between hosts (seed 001, section III). Both run until they are ended.
//!
//! The first line on standard output says that it is ready: a manager's is where it listens, as `SELVEDGE_MANAGER` takes it; an aggregator's is
//! `ready`, once the manager has taken it.

mod aggregator;
mod manager;

pub use aggregator::{Args as AggregatorArgs, main as aggregator_main};
pub use manager::{Args as ManagerArgs, main as manager_main};

use std::io::Write;

/// Says that this command is ready. Who has started it may have gone.
fn say_ready(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
