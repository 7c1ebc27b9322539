// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The progress of a simulation in words; and Ctrl-C, which ends a simulation and keeps its results so far. A
//! second Ctrl-C ends the command at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use selvedge_document::words;
use selvedge_sim::node::Progress;

/// Set by SIGINT and SIGTERM.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    pub fn listen() -> Result<Interrupt> {
        let interrupt = Interrupt::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // This handler runs before the flag is set, so the second signal ends the process.
            signal_hook::flag::register_conditional_default(signal, interrupt.0.clone())
                .and_then(|_| signal_hook::flag::register(signal, interrupt.0.clone()))
                .context("cannot handle signals")?;
        }
        Ok(interrupt)
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The progress of a run in words, after some seconds.
pub fn words_of(progress: &Progress, seconds: f64) -> String {
    let rate = progress.events as f64 / seconds;
    let messages = words::count(progress.messages);
    let ended = format!("{} of {} ranks ended", progress.ranks_ended, progress.ranks);
    format!("{} virtual, {} events, {messages} messages, {ended}", progress.time, words::rate(rate))
}
