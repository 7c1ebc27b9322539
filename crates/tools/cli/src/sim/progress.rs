// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The progress of a simulation on a terminal; and Ctrl-C, which ends a simulation and keeps its results so far. A
//! second Ctrl-C ends the command at once.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use selvedge_sim::node::Progress;
use selvedge_sim::report::words;

const INTERVAL: Duration = Duration::from_millis(100);

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

/// A line of progress on standard error, if that is a terminal.
pub struct ProgressLine {
    bar: Option<ProgressBar>,
    started: Instant,
    shown: Instant,
}

impl ProgressLine {
    pub fn new(quiet: bool) -> ProgressLine {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        let now = Instant::now();
        ProgressLine { bar, started: now, shown: now }
    }

    /// Shows the progress of a run.
    pub fn show(&mut self, progress: &Progress) {
        self.update(|seconds| {
            let rate = progress.events as f64 / seconds;
            let messages = words::count(progress.messages);
            let ended = format!("{} of {} ranks ended", progress.ranks_ended, progress.ranks);
            format!("{} virtual, {} events, {messages} messages, {ended}", progress.time, words::rate(rate))
        });
    }

    /// Shows the text that `words` makes from the seconds since the start. Calls `words` only if an update is due.
    pub fn update(&mut self, words: impl FnOnce(f64) -> String) {
        let Some(bar) = &self.bar else { return };
        if self.shown.elapsed() >= INTERVAL {
            self.shown = Instant::now();
            bar.set_message(words(self.started.elapsed().as_secs_f64().max(1e-9)));
            bar.tick();
        }
    }

    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
