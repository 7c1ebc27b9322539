// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The progress of long work: one line on standard error, if that is a terminal, and nothing else anywhere.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Time between two updates by the work itself.
const INTERVAL: Duration = Duration::from_millis(100);
/// Time between two updates by a thread, while the work says nothing.
const TICK: Duration = Duration::from_millis(250);

const STEPS: &str = "{spinner} [{pos}/{len}] {elapsed} {wide_msg}";
const WORK: &str = "{spinner} {elapsed} {wide_msg}";

/// A line of progress. It vanishes at the end.
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    shown: Instant,
}

impl Progress {
    /// Shows nothing.
    pub fn hidden() -> Progress {
        Progress::new(ProgressBar::hidden())
    }

    /// Work in a known number of steps. A thread keeps the elapsed time going.
    pub fn steps(length: usize) -> Progress {
        Progress::drawn(ProgressBar::new(length as u64), STEPS, true)
    }

    /// Work whose steps are not known beforehand. A thread keeps the elapsed time going.
    pub fn work() -> Progress {
        Progress::drawn(ProgressBar::new_spinner(), WORK, true)
    }

    /// Work that calls [`Progress::update`] often enough, and must have no second thread.
    pub fn polled(quiet: bool) -> Progress {
        if quiet { Progress::hidden() } else { Progress::drawn(ProgressBar::new_spinner(), WORK, false) }
    }

    fn drawn(bar: ProgressBar, template: &str, ticks: bool) -> Progress {
        if !io::stderr().is_terminal() {
            return Progress::hidden();
        }
        // A template of this file is well formed; otherwise the bar keeps the crate's own.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        if ticks {
            bar.enable_steady_tick(TICK);
        }
        Progress::new(bar)
    }

    fn new(bar: ProgressBar) -> Progress {
        let now = Instant::now();
        Progress { bar, started: now, shown: now }
    }

    /// Names the step that is now under way.
    pub fn say(&self, text: impl Into<String>) {
        self.bar.set_message(text.into());
    }

    /// Counts a step that is done.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// Shows the text that `words` makes from the seconds since the start. Calls `words` only if an update is due.
    pub fn update(&mut self, words: impl FnOnce(f64) -> String) {
        if !self.bar.is_hidden() && self.shown.elapsed() >= INTERVAL {
            self.shown = Instant::now();
            self.bar.set_message(words(self.started.elapsed().as_secs_f64().max(1e-9)));
            self.bar.tick();
        }
    }

    /// Prints a line on standard error, above the line of progress.
    pub fn note(&self, line: &str) {
        self.aside(|| eprintln!("{line}"));
    }

    /// Does something that prints, above the line of progress.
    pub fn aside<R>(&self, print: impl FnOnce() -> R) -> R {
        self.bar.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_well_formed() {
        for template in [STEPS, WORK] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn hidden_progress_makes_no_words() {
        let mut progress = Progress::hidden();
        progress.shown -= 2 * INTERVAL;
        progress.update(|_| panic!("no one reads them"));
    }
}
