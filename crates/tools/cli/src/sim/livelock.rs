// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Warns on standard error of ranks that seem to repeat themselves for ever. It ends nothing and changes no report.
//!
//! `selvedge_sim::node::Repetition` defines a repetition. A warning is printed after [`WALL_FIRST`] of real and
//! [`VIRTUAL_LEAST`] of virtual time, with [`OPERATIONS_LEAST`] operations; the next after twice that.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use selvedge_document::words;
use selvedge_sim::node::{Repetition, View};
use selvedge_sim::time::Time;

const WALL_FIRST: Duration = Duration::from_secs(5);
const VIRTUAL_LEAST: Time = Time::from_ns(1_000_000);
const OPERATIONS_LEAST: u64 = 1_000;
/// Most ranks that one warning names.
const RANKS_MAX: usize = 8;

#[derive(Debug)]
pub struct Warner {
    /// Last progress of any rank, and the wall time at which it was first seen.
    since: Time,
    seen: Instant,
    wait: Duration,
}

impl Default for Warner {
    fn default() -> Warner {
        Warner { since: Time::MAX, seen: Instant::now(), wait: WALL_FIRST }
    }
}

impl Warner {
    /// Checks a running simulation, and warns if a warning is due.
    pub fn look(&mut self, view: &View<'_>, varies: bool) {
        let Some(found) = view.repetition() else {
            self.since = Time::MAX;
            return;
        };
        if self.is_due(&found, view.progress.time, Instant::now()) {
            let words = warning(&found, self.seen.elapsed(), view.progress.time, varies, &|rank| view.doing(rank));
            eprint!("{words}");
        }
    }

    fn is_due(&mut self, found: &Repetition, now: Time, wall: Instant) -> bool {
        if found.since != self.since {
            (self.since, self.seen) = (found.since, wall);
            return false;
        }
        let operations: u64 = found.ranks.iter().flatten().map(|of_rank| of_rank.operations).sum();
        let long = wall.duration_since(self.seen) >= self.wait && now.saturating_sub(found.since) >= VIRTUAL_LEAST;
        let due = long && operations >= OPERATIONS_LEAST;
        if due {
            self.wait *= 2;
        }
        due
    }
}

/// The ranks and their operations, and the options that help.
fn warning(found: &Repetition, wall: Duration, now: Time, varies: bool, doing: &dyn Fn(u32) -> String) -> String {
    let mut text = format!(
        "selvedge sim: perhaps a livelock: for {} s ({} of virtual time, since {}) the ranks have only repeated operations that \
         bring back the same values:\n",
        wall.as_secs(),
        now.saturating_sub(found.since),
        found.since,
    );
    let mut line = |words: String| _ = writeln!(text, "selvedge sim:   {words}");
    for (rank, repeated) in found.ranks.iter().enumerate().take(RANKS_MAX) {
        line(match repeated {
            Some(of_rank) => format!(
                "rank {rank}: {} operations; the last is {}, for the {}th time",
                words::count(of_rank.operations),
                of_rank.last,
                words::count(of_rank.last_times),
            ),
            None => format!("rank {rank} {}", doing(rank as u32)),
        });
    }
    if found.ranks.len() > RANKS_MAX {
        line(format!("and {} further ranks", found.ranks.len() - RANKS_MAX));
    }
    line(match varies {
        true => "The run continues. A larger --variation or another --seed may end it; --time-limit does.".to_owned(),
        false => "The run continues. Ranks that are exactly as fast as each other may take turns for ever: --variation 1 makes them \
                  differ; --time-limit ends the run."
            .to_owned(),
    });
    text
}

#[cfg(test)]
mod tests {
    use selvedge_sim::node::{Operation, Repeated};

    use super::*;

    fn found(since: Time, operations: u64) -> Repetition {
        let last = Operation { kind: 5, bytes: 8, target: 1, portal: 2, offset: 64 };
        let of_rank = Repeated { operations, reads: operations, last, last_times: operations / 3 };
        Repetition { since, ranks: vec![Some(of_rank), None] }
    }

    #[test]
    fn a_warning_waits_for_both_clocks_and_comes_again_after_twice_the_time() {
        let (mut warner, start, since) = (Warner::default(), Instant::now(), Time::from_ns(1000));
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let later = since + VIRTUAL_LEAST;
        assert!(!warner.is_due(&found(since, 5000), later, at(0)), "seen for the first time");
        assert!(!warner.is_due(&found(since, 5000), later, at(4)));
        assert!(!warner.is_due(&found(since, 5000), since, at(6)), "no virtual time has passed");
        assert!(!warner.is_due(&found(since, 999), later, at(6)), "too few operations");
        assert!(warner.is_due(&found(since, 5000), later, at(6)));
        assert!(!warner.is_due(&found(since, 5000), later, at(9)));
        assert!(warner.is_due(&found(since, 5000), later, at(10)));
        let next = Time::from_ns(2000);
        assert!(!warner.is_due(&found(next, 5000), next + VIRTUAL_LEAST, at(40)), "there was progress");
        assert!(warner.is_due(&found(next, 5000), next + VIRTUAL_LEAST, at(60)));
    }

    #[test]
    fn a_warning_names_each_rank_and_what_helps() {
        let now = Time::from_ns(5_000_000);
        let text =
            warning(&found(Time::from_ns(1000), 3000), Duration::from_secs(6), now, false, &|_| "polls".to_owned());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("selvedge sim: perhaps a livelock: for 6 s") && lines.len() == 4, "{text}");
        assert!(lines[1].contains("rank 0: 3,000 operations; the last is a swap of 8 bytes at offset 0x40"), "{text}");
        assert!(lines[1].ends_with("of rank 1, for the 1,000th time") && lines[2].ends_with("rank 1 polls"), "{text}");
        assert!(lines[3].contains("--variation 1") && lines[3].contains("--time-limit"), "{text}");
        let text = warning(&found(Time::ZERO, 3000), Duration::from_secs(6), now, true, &|_| String::new());
        assert!(text.contains("larger --variation or another --seed"), "{text}");
    }
}
