// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The course of a run: until when events are handled at once, when it is observed, and how it ends.
//!
//! A run is a sequence of *spells*. Their ends are multiples of a length, the times of faults and deaths, and the limit of
//! virtual time. Only between two spells the whole run is looked at, and only there faults and deaths happen. So what is
//! found does not depend on the number of its parts (`parts.rs`).
//!
//! A run is stuck if only polls are queued or nothing, and polls have found nothing for a given time and
//! [`FAILED_POLLS_MAX`] times. Time alone is no criterion: pauses double, so it passes within some hundred polls, and a
//! program may poll that often before it does something else.

use crate::time::Time;

use super::events::Polls;
use super::options::Options;
use super::outcome::{End, Waiting};

/// Consecutive polls of all ranks that find nothing before the run counts as stuck.
const FAILED_POLLS_MAX: u32 = 5_000;
/// The least length of a spell.
const SPELL: Time = Time::from_ns(1_000);

/// The state of a run, or of a part of it, between two spells.
#[derive(Clone, Debug, Default)]
pub(super) struct Status {
    /// Time of the next event.
    pub next: Option<Time>,
    /// Queued events other than polls.
    pub queued: usize,
    /// Polls since the last status.
    pub polls: Polls,
    /// Ranks of the foreground that have ended, and the time at which the last of them did.
    pub ended: u32,
    pub ended_at: Time,
    /// Events that do not depend on the division, and the time of the last.
    pub events: u64,
    pub last: Time,
    /// Messages delivered.
    pub messages: u64,
    /// A rank was killed, and the options end the job then.
    pub died: bool,
    /// The job was aborted or interrupted.
    pub over: bool,
}

impl Status {
    /// Adds the status of another part.
    pub fn add(&mut self, other: &Status) {
        self.next = self.next.into_iter().chain(other.next).min();
        self.queued += other.queued;
        self.polls.add(other.polls);
        self.ended += other.ended;
        self.ended_at = self.ended_at.max(other.ended_at);
        self.events += other.events;
        self.last = self.last.max(other.last);
        self.messages += other.messages;
        self.died |= other.died;
        self.over |= other.over;
    }
}

impl Polls {
    fn add(&mut self, other: Polls) {
        self.progress = self.progress.max(other.progress);
        self.failed = self.failed.saturating_add(other.failed);
    }
}

/// The next step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Handle all events before this time.
    Until(Time),
    /// Carry out the faults and deaths of this time. All events before it have been handled.
    Change(Time),
    /// Show the progress.
    Observe,
    End(Ending),
}

/// How a run ends, and the virtual time of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    pub how: How,
    pub at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Completed,
    Stuck,
    Interrupted,
    Died,
}

impl How {
    /// Returns the end of a run; `waiting`: the ranks that wait in a stuck one.
    pub fn with(self, waiting: Vec<Waiting>) -> End {
        match self {
            How::Completed => End::Completed,
            How::Stuck => End::Stuck(waiting),
            How::Interrupted => End::Interrupted,
            How::Died => End::Died,
        }
    }
}

pub(super) struct Course {
    /// Length of a spell.
    length: Time,
    /// Ranks for whose end the run waits. `None`: only a limit of time ends it.
    foreground: Option<u32>,
    time_limit: Time,
    stuck_after: Time,
    observe_every: u64,
    /// Events at the last observation.
    observed: u64,
    /// Times of faults and deaths, and the number of those that have passed.
    changes: Vec<Time>,
    changed: usize,
    /// Time of the last progress, and polls that have found nothing since then.
    progress: Time,
    failed: u32,
}

impl Course {
    /// `lookahead`: the time that an event at one node needs at least to act on another.
    pub fn new(options: &Options, foreground: Option<u32>, lookahead: Time) -> Course {
        Course {
            length: Time(SPELL.0.next_multiple_of(lookahead.0.max(1))),
            foreground,
            time_limit: options.time_limit,
            stuck_after: options.stuck_after,
            observe_every: options.observe_every,
            observed: 0,
            changes: options.times_of_changes(),
            changed: 0,
            progress: Time::ZERO,
            failed: 0,
        }
    }

    /// Returns the next step of a run in this state.
    pub fn next(&mut self, status: &Status) -> Step {
        match status.polls.progress {
            Some(at) => (self.progress, self.failed) = (at, 0),
            None => self.failed = self.failed.saturating_add(status.polls.failed),
        }
        let end = |how, at| Step::End(Ending { how, at });
        if status.died {
            return end(How::Died, status.last);
        }
        if status.over {
            return end(How::Interrupted, status.last);
        }
        if self.foreground == Some(status.ended) {
            return end(How::Completed, status.ended_at);
        }
        let change = self.changes.get(self.changed).copied();
        let Some(next) = status.next.into_iter().chain(change).min() else {
            let how = if self.foreground.is_none() { How::Completed } else { How::Stuck };
            return end(how, status.last);
        };
        if status.queued == 0 && change.is_none() && self.polls_in_vain(status.last) {
            return end(How::Stuck, status.last);
        }
        if next >= self.time_limit {
            return end(How::Interrupted, self.time_limit);
        }
        if status.events - self.observed >= self.observe_every {
            self.observed = status.events;
            return Step::Observe;
        }
        if change == Some(next) {
            self.changed += 1;
            return Step::Change(next);
        }
        let spell = Time((next.0 / self.length.0 + 1).saturating_mul(self.length.0));
        Step::Until(change.into_iter().fold(spell.min(self.time_limit), Time::min))
    }

    fn polls_in_vain(&self, now: Time) -> bool {
        now.saturating_sub(self.progress) >= self.stuck_after && self.failed >= FAILED_POLLS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::Death;
    use super::*;

    fn course(foreground: Option<u32>) -> Course {
        let stuck_after = Time::from_ns(1_000_000);
        let options = Options { time_limit: Time::from_ns(10_000_000), stuck_after, ..Options::default() };
        Course::new(&options, foreground, Time::from_ns(300))
    }

    fn status(next_ns: u64, queued: usize, failed: u32) -> Status {
        let polls = Polls { progress: None, failed };
        let next = Time::from_ns(next_ns);
        Status { next: Some(next), queued, polls, last: next, ..Status::default() }
    }

    #[test]
    fn spells_end_at_multiples_of_the_lookahead_and_at_the_limit() {
        let mut course = course(Some(1));
        assert_eq!(course.next(&status(0, 1, 0)), Step::Until(Time::from_ns(1_200)));
        assert_eq!(course.next(&status(1_200, 1, 0)), Step::Until(Time::from_ns(2_400)));
        assert_eq!(course.next(&status(9_999_999, 1, 0)), Step::Until(Time::from_ns(10_000_000)));
        let end = Ending { how: How::Interrupted, at: Time::from_ns(10_000_000) };
        assert_eq!(course.next(&status(10_000_001, 1, 0)), Step::End(end));
    }

    #[test]
    fn changes_happen_between_spells_and_a_run_is_not_stuck_before_them() {
        let at = Time::from_ns(1_500);
        let deaths = vec![Death { at, rank: 0 }, Death { at, rank: 1 }];
        let options = Options { deaths, stuck_after: Time::from_ns(100), ..Options::default() };
        let mut course = Course::new(&options, Some(1), Time::from_ns(300));
        assert_eq!(course.next(&status(0, 1, 0)), Step::Until(Time::from_ns(1_200)));
        assert_eq!(course.next(&status(1_400, 0, 9_999)), Step::Until(at), "polls in vain, until a rank dies");
        assert_eq!(course.next(&Status { next: None, ..Status::default() }), Step::Change(at));
        assert_eq!(course.next(&status(1_500, 1, 0)), Step::Until(Time::from_ns(2_400)), "both changes are over");
        assert_eq!(
            course.next(&Status { next: None, last: at, ..Status::default() }),
            Step::End(Ending { how: How::Stuck, at })
        );
    }

    #[test]
    fn a_run_is_stuck_after_time_and_polls() {
        let mut course = course(Some(1));
        assert!(matches!(course.next(&status(2_000_000, 0, 4_999)), Step::Until(_)), "too few polls");
        assert!(matches!(course.next(&status(2_000_000, 1, 9_999)), Step::Until(_)), "another event is queued");
        let progress = Some(Time::from_ns(1_500_000));
        let found = Status { polls: Polls { progress, failed: 3 }, ..status(2_000_000, 0, 0) };
        assert!(matches!(course.next(&found), Step::Until(_)), "a poll has found something");
        assert!(matches!(course.next(&status(2_000_000, 0, 9_999)), Step::Until(_)), "too early");
        let end = Ending { how: How::Stuck, at: Time::from_ns(2_500_000) };
        assert_eq!(course.next(&status(2_500_000, 0, 1)), Step::End(end));
    }

    #[test]
    fn a_run_without_events_is_stuck_or_only_background() {
        let none = Status { ended: 1, ..Status::default() };
        let how = |foreground| match course(foreground).next(&none) {
            Step::End(end) => Some(end.how),
            _ => None,
        };
        assert_eq!(how(Some(2)), Some(How::Stuck));
        assert_eq!(how(Some(1)), Some(How::Completed));
        assert_eq!(how(None), Some(How::Completed));
    }

    #[test]
    fn parts_add_up() {
        let polls = Polls { progress: Some(Time(7)), failed: 2 };
        let mut sum = Status { ended: 1, ended_at: Time(4), polls, ..status(9, 2, 0) };
        sum.polls = polls;
        sum.add(&Status { ended: 2, ended_at: Time(3), died: true, ..status(5, 1, 3) });
        assert_eq!((sum.next, sum.queued, sum.ended, sum.ended_at), (Some(Time::from_ns(5)), 3, 3, Time(4)));
        assert_eq!((sum.polls.progress, sum.polls.failed, sum.died), (Some(Time(7)), 5, true));
    }
}
