// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The daemon's log: its last lines, for clients that ask later.
use std::collections::VecDeque;

use crate::identity;
use crate::protocol::LogLine;

const LINES_MAX: usize = 1000;

/// The last lines of the log.
#[derive(Default)]
pub struct Journal {
    lines: VecDeque<LogLine>,
    /// Lines since the start.
    count: u64,
}

impl Journal {
    pub fn note(&mut self, is_warning: bool, text: String) {
        match is_warning {
            true => log::warn!("{text}"),
            false => log::info!("{text}"),
        }
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(LogLine { at_s: identity::wall_ns() as f64 / 1e9, is_warning, text });
        self.count += 1;
    }

    /// Lines since the start, with those that are no longer kept.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The kept lines after the first `count`.
    pub fn since(&self, count: u64) -> impl Iterator<Item = &LogLine> {
        let dropped = self.count - self.lines.len() as u64;
        self.lines.iter().skip(usize::try_from(count.saturating_sub(dropped)).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept() {
        let mut journal = Journal::default();
        for line in 0..LINES_MAX + 5 {
            journal.note(false, line.to_string());
        }
        let texts = |count| journal.since(count).map(|line| line.text.clone()).collect::<Vec<_>>();
        assert_eq!((journal.count(), texts(0).len(), texts(0)[0].as_str()), (1005, 1000, "5"));
        assert_eq!(texts(1003), ["1003", "1004"]);
        assert!(texts(1005).is_empty());
    }
}
