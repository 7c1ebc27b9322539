// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The results of a session that measures in turns: figures, notes on cases without figures, and failures.

use anyhow::Result;
use indicatif::ProgressBar;

use super::record::Measurement;

/// The results so far.
#[derive(Default)]
pub struct SessionResults {
    pub done: Vec<Measurement>,
    pub notes: Vec<String>,
    /// Whether a measurement of ours has failed.
    pub failed: bool,
    failed_names: Vec<String>,
}

impl SessionResults {
    /// Measures once. A failed measurement gets no other turn.
    pub fn measure(
        &mut self,
        progress: &ProgressBar,
        name: String,
        is_ours: bool,
        measure: impl FnOnce() -> Result<Vec<Measurement>>,
    ) {
        progress.inc(1);
        if self.has_failed(&name) {
            return;
        }
        progress.set_message(name.clone());
        match measure() {
            Ok(measured) => {
                let (figures, skipped): (Vec<_>, Vec<_>) = measured.into_iter().partition(|m| m.skipped.is_none());
                self.done.extend(figures);
                for m in skipped {
                    self.note(format!("{}: left out, {}", m.case, m.skipped.unwrap_or_default()));
                }
            }
            Err(error) => {
                self.failed |= is_ours;
                progress.suspend(|| self.note(format!("{name}: failed: {error:#}")));
                self.failed_names.push(name);
            }
        }
    }

    pub fn has_failed(&self, name: &str) -> bool {
        self.failed_names.iter().any(|failed| failed == name)
    }

    pub fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            eprintln!("bench: {note}");
            self.notes.push(note);
        }
    }
}
