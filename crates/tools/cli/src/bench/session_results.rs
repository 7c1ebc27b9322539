// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The results of a session that measures in turns: figures, notes on cases without figures, and failures.

use anyhow::Result;
use selvedge_terminal::Progress;

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
        progress: &Progress,
        name: String,
        is_ours: bool,
        measure: impl FnOnce() -> Result<Vec<Measurement>>,
    ) {
        progress.step();
        if self.has_failed(&name) {
            return;
        }
        progress.say(&name);
        match measure() {
            Ok(measured) => {
                let (figures, skipped): (Vec<_>, Vec<_>) = measured.into_iter().partition(|m| m.skipped.is_none());
                self.done.extend(figures);
                for m in skipped {
                    self.note_beside(progress, format!("{}: left out, {}", m.case, m.skipped.unwrap_or_default()));
                }
            }
            Err(error) => {
                self.failed |= is_ours;
                self.note_beside(progress, format!("{name}: failed: {error:#}"));
                self.failed_names.push(name);
            }
        }
    }

    pub fn has_failed(&self, name: &str) -> bool {
        self.failed_names.iter().any(|failed| failed == name)
    }

    pub fn note(&mut self, note: String) {
        self.note_beside(&Progress::hidden(), note);
    }

    fn note_beside(&mut self, progress: &Progress, note: String) {
        if !self.notes.contains(&note) {
            progress.note(&format!("bench: {note}"));
            self.notes.push(note);
        }
    }
}
