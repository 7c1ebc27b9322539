// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Log lines about refused datagrams: one at once, then counts, ever more rarely, however many come.
use std::collections::BTreeMap;

const SECOND_NS: u64 = 1_000_000_000;
const PAUSE_MIN_NS: u64 = 10 * SECOND_NS;
const PAUSE_MAX_NS: u64 = 3600 * SECOND_NS;

/// Refused datagrams of a port since the daemon began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Of the manager: damaged, malformed, of another key, version or sender.
    pub frames: u64,
    pub replays: u64,
    /// Datagrams at the port of tests whose head cannot be read.
    pub tests: u64,
}

#[derive(Default)]
struct Noted {
    counts: Counts,
    next_ns: u64,
    pause_ns: u64,
}

/// The counts that the log has, by port.
#[derive(Default)]
pub(super) struct Refusals {
    ports: BTreeMap<u16, Noted>,
}

impl Refusals {
    /// Takes the counts of a port, once a second; returns a line when one is due.
    pub fn take(&mut self, now_ns: u64, port: u16, counts: Counts) -> Option<String> {
        let noted = self.ports.entry(port).or_default();
        if now_ns < noted.next_ns {
            return None;
        }
        if counts == noted.counts {
            noted.pause_ns = PAUSE_MIN_NS;
            return None;
        }
        let new = [
            (counts.frames - noted.counts.frames, "damaged or malformed, or of another key, release or host"),
            (counts.replays - noted.counts.replays, "recorded and sent again"),
            (counts.tests - noted.counts.tests, "unreadable, for tests of the cable"),
        ];
        let new = new.iter().filter(|(count, _)| *count > 0).map(|(count, of)| format!("{count} {of}"));
        let text = format!("datagrams are refused: {}", new.collect::<Vec<_>>().join("; "));
        noted.counts = counts;
        noted.pause_ns = noted.pause_ns.max(PAUSE_MIN_NS);
        noted.next_ns = now_ns + noted.pause_ns;
        noted.pause_ns = (2 * noted.pause_ns).min(PAUSE_MAX_NS);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_gives_few_lines_with_all_of_its_counts() {
        let mut refusals = Refusals::default();
        let mut lines = Vec::new();
        for second in 1..=86_400 {
            let counts = Counts { frames: second * 10_000, replays: second.min(2), tests: 0 };
            lines.extend(refusals.take(second * SECOND_NS, 3, counts));
        }
        assert_eq!(
            lines[0],
            "datagrams are refused: 10000 damaged or malformed, or of another key, release or host; 1 recorded and sent again"
        );
        assert!(lines[1].contains(" 100000 damaged") && lines[1].contains("; 1 recorded"), "{}", lines[1]);
        assert!(lines[2].contains(" 200000 damaged") && !lines[2].contains("recorded"), "{}", lines[2]);
        assert!((30..40).contains(&lines.len()), "{} lines in a day", lines.len());
        let last = Counts { frames: 900_000_001, replays: 2, tests: 0 };
        let at_ns = 200_000 * SECOND_NS;
        assert!(refusals.take(at_ns, 3, last).is_some());
        assert_eq!(refusals.take(at_ns + PAUSE_MAX_NS, 3, last), None);
        let next = Counts { tests: 5, ..last };
        let line = refusals.take(at_ns + PAUSE_MAX_NS + SECOND_NS, 3, next).unwrap();
        assert_eq!(line, "datagrams are refused: 5 unreadable, for tests of the cable");
        let line = refusals.take(at_ns + PAUSE_MAX_NS + 12 * SECOND_NS, 3, Counts { tests: 6, ..next });
        assert!(line.is_some(), "a new flood is told at once");
    }
}
