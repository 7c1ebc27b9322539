// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports on connections that were closed without a proof, such as those of processes outside of the job.
//!
//! A flood of them writes at most one line every [`REPORT_EVERY`], with the source of the last one and their number.

use std::fmt::Display;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use log::Level;

const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Connections that were closed without a proof, for the log.
#[derive(Default)]
pub(super) struct Strangers {
    reported: Option<Instant>,
    /// Those that were closed since then.
    unreported: u64,
}

impl Strangers {
    pub(super) fn report(&mut self, level: Level, from: Option<IpAddr>, why: &dyn Display) {
        if self.reported.is_some_and(|at| at.elapsed() < REPORT_EVERY) {
            self.unreported += 1;
            return;
        }
        let from = from.map_or_else(|| "a process that has ended".to_owned(), |from| from.to_string());
        match std::mem::take(&mut self.unreported) {
            0 => log::log!(level, "a connection from {from} was closed: {why}"),
            more => log::log!(level, "a connection from {from} was closed, and {more} before it: {why}"),
        }
        self.reported = Some(Instant::now());
    }
}
