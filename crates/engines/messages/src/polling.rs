// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Adaptive polling: when to poll, how often in one call, and when to yield the core.
//!
//! A poll of a cache line that another core is about to write makes that write twice as slow: the writer must first
//! invalidate the copy here, and this core must fetch the line again. Between near cores that is 35 of 70 ns, as much
//! as everything else a front door does for a message. A program that only waits for replies often gets each one after
//! the same time. So its first poll is delayed until the reply has most likely been written ([`Replies`]).
//!
//! Time is counted in polls of [`selvedge_os::lines::a_moment`] each. The program is delayed by at most [`WAIT_MAX`] of
//! them, and only while replies keep coming within [`LOOKS_MAX`].

/// Polls that find nothing before the thread first yields its core.
const LOOKS_BEFORE_YIELD: u32 = 400;
/// Polls that find nothing between two such yields.
const LOOKS_BETWEEN_YIELDS: u32 = 64;
/// The same if every rank has its own core and one thread. Then a thread that wants this core is most likely foreign. A
/// rank that yields to it loses a time slice (3 ms), and its waiting peer then yields, too.
const LOOKS_BETWEEN_YIELDS_ALONE: u32 = 8192;
/// Number of calls that linger after a program has polled twice and found nothing. It most likely waits for a message,
/// so each of these calls polls [`LOOKS_MAX`] times, some 130 ns.
const LINGERING_CALLS: u32 = 16;
/// Polls that skip the rings after the last posted receive of a portal table entry was filled. Open MPI makes these
/// polls before it posts the next: one that finds nothing, and two while it waits for a send.
const SKIPPED_POLLS: u32 = 3;
/// Polls that find nothing between two checks for processes that have ended.
const LOOKS_PER_TICK: u32 = 4096;

/// The action of a thread after it has released the domain's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterUnlock {
    None,
    /// Wakes the threads that sleep until they get the lock, if polls go through the home.
    Wake,
    /// Yields the core to another thread or process.
    Yield,
    /// Reports to the home a poll that found nothing.
    Poll,
    /// Reports to the home a poll that found something.
    Found,
}

/// A transport's record of its program's polls.
#[derive(Debug)]
pub(crate) struct Polling {
    /// Polls in a row that found nothing.
    idle: u32,
    looks_between_yields: u32,
    /// Number of calls that linger. None where ranks share cores: the awaited rank may need this core, and a program
    /// that yields between its polls must come to that soon.
    lingering_calls: u32,
    /// Counts the polls that found something. Messages sent within one round are handed over together.
    pub round: u32,
    /// A message was enqueued in a ring since the last poll.
    pub sent: bool,
    /// The program has polled since it last sent something, and no message has come since.
    awaits: bool,
    pub replies: Replies,
    /// Polls that skip the rings, because the program most likely has no receive posted.
    skips: u32,
}

impl Default for Polling {
    fn default() -> Polling {
        Polling {
            idle: 0,
            looks_between_yields: LOOKS_BETWEEN_YIELDS,
            lingering_calls: LINGERING_CALLS,
            round: 0,
            sent: false,
            awaits: false,
            replies: Replies::default(),
            skips: 0,
        }
    }
}

impl Polling {
    /// Sets when to yield and how long to linger. `alone`: every rank has its own core and one thread. `crowded`: there
    /// are more ranks than cores.
    pub fn set_cores(&mut self, alone: bool, crowded: bool) {
        self.looks_between_yields = if alone { LOOKS_BETWEEN_YIELDS_ALONE } else { LOOKS_BETWEEN_YIELDS };
        self.lingering_calls = if crowded { 0 } else { LINGERING_CALLS };
    }

    /// Records that a poll found something.
    #[inline(always)]
    pub fn has_found(&mut self) {
        self.idle = 0;
        self.awaits = false;
        self.round = self.round.wrapping_add(1);
    }

    /// Counts the next poll that finds nothing as the first.
    #[inline(always)]
    pub fn start_over(&mut self) {
        self.idle = 0;
    }

    /// Called for the first poll after a send. Returns how long to wait before it, in polls.
    #[inline(always)]
    pub fn first_look(&mut self) -> u32 {
        self.idle = 0;
        self.awaits = true;
        self.replies.wait()
    }

    /// Whether the next call polls several times.
    #[inline(always)]
    pub fn lingers(&self) -> bool {
        self.idle.wrapping_sub(1) < self.lingering_calls
    }

    /// Records the outcome of a call that polled several times.
    #[inline(always)]
    pub fn has_lingered(&mut self, found: bool) {
        if self.idle == 1 && self.awaits {
            self.replies.found = ReplyOutcome::of_later_looks(found);
        }
    }

    /// Records that the last posted receive of a portal table entry was filled.
    #[inline(always)]
    pub fn has_filled_all(&mut self) {
        self.skips = SKIPPED_POLLS;
    }

    /// Records that the program posted a receive, or looks for unexpected messages.
    #[inline(always)]
    pub fn expects_messages(&mut self) {
        self.skips = 0;
    }

    /// Whether this poll skips the rings. After its receive is filled, a program polls again: for more completions, or
    /// for the end of a send. It expects no message before it posts a receive. Until then the next message stays in its
    /// ring: its cache line stays with the sender, and it does not become an unexpected message.
    #[inline(always)]
    pub fn skips_rings(&mut self) -> bool {
        self.skips != 0 && {
            self.skips -= 1;
            true
        }
    }

    /// Records that a poll found nothing. Returns whether many polls in a row found nothing.
    #[inline(always)]
    pub fn found_nothing(&mut self) -> bool {
        self.idle += 1;
        self.idle >= LOOKS_BEFORE_YIELD
    }

    /// Whether to yield the core now, and whether to check for processes that have ended.
    pub fn idle_long(&self) -> (bool, bool) {
        (self.idle % self.looks_between_yields == 0, self.idle % LOOKS_PER_TICK == 0)
    }
}

/// Replies that take longer are late.
pub(crate) const LOOKS_MAX: u32 = 20;
/// The longest wait before the first poll.
const WAIT_MAX: u32 = 8;
/// Parts of a poll, the unit of the wait.
const PARTS: u32 = 8;
/// The decrease of the wait, in parts, if the first poll finds the reply, because it may have come too late.
const LESS: u32 = 1;
/// The increase of the wait, in parts, if it does not. So one of three first polls comes too early.
const MORE: u32 = 2;

/// The outcome of waiting for a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReplyOutcome {
    /// Nothing is known, or the last outcome has already been used.
    #[default]
    Unknown,
    /// The first poll found the reply.
    WasThere,
    /// A later poll found the reply.
    CameLater,
    /// The reply did not come within [`LOOKS_MAX`].
    IsLate,
}

impl ReplyOutcome {
    /// The outcome of polls after the first.
    pub fn of_later_looks(found: bool) -> ReplyOutcome {
        if found { ReplyOutcome::CameLater } else { ReplyOutcome::IsLate }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// The time until the first poll for the next reply, in parts of a poll.
    wait: u32,
    /// The last outcome. It is used when the next wait begins, because the program needs the CPU when a reply is found.
    pub found: ReplyOutcome,
}

impl Replies {
    /// The time until the first poll, in polls.
    #[inline(always)]
    pub fn wait(&mut self) -> u32 {
        match std::mem::take(&mut self.found) {
            ReplyOutcome::Unknown => {}
            ReplyOutcome::WasThere => self.wait = self.wait.saturating_sub(LESS),
            ReplyOutcome::CameLater => self.wait = (self.wait + MORE).min(WAIT_MAX * PARTS),
            ReplyOutcome::IsLate => self.wait /= 2,
        }
        self.wait / PARTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean delay from the writing of a reply to its discovery, after learning. `written`: times of the replies.
    fn delay(written: impl Fn(u32) -> u32) -> f64 {
        let (mut replies, mut sum) = (Replies::default(), 0);
        for number in 0..10_000 {
            let written = written(number);
            let wait = replies.wait();
            // Fetching the line takes 5 polls, and invalidating the copy here takes 5 more.
            let seen = if wait >= written { wait + 5 } else { written + 10 };
            replies.found = match () {
                _ if wait >= written => ReplyOutcome::WasThere,
                _ if seen < LOOKS_MAX => ReplyOutcome::CameLater,
                _ => ReplyOutcome::IsLate,
            };
            if number >= 100 {
                sum += seen - written;
            }
        }
        f64::from(sum) / 9900.0
    }

    fn random(number: u32, below: u32) -> u32 {
        (number.wrapping_mul(2654435761) >> 8) % below
    }

    #[test]
    fn replies_after_the_same_time_are_mostly_there_at_the_first_look() {
        let steady = delay(|_| 6);
        assert!(steady < 7.5, "{steady}");
        let jitters = delay(|number| 5 + random(number, 3));
        assert!(jitters < 7.5, "{jitters}");
        let changes = delay(|number| if number < 5000 { 3 } else { 8 });
        assert!(changes < 7.5, "{changes}");
    }

    #[test]
    fn replies_at_any_time_are_hardly_later_than_with_looks_all_the_time() {
        for most in [5, 10, 15, 20, 40, 100, 1000] {
            let mean = delay(|number| random(number, most));
            assert!(mean < 10.5, "{most}: {mean}");
        }
    }

    #[test]
    fn late_replies_are_not_waited_for_blindly() {
        assert_eq!(delay(|_| 1000), 10.0);
        let mut replies = Replies::default();
        for _ in 0..80 {
            replies.found = ReplyOutcome::CameLater;
            replies.wait();
        }
        assert_eq!(replies.wait(), WAIT_MAX);
        for _ in 0..10 {
            replies.found = ReplyOutcome::IsLate;
            replies.wait();
        }
        assert_eq!(replies.wait(), 0);
    }

    #[test]
    fn some_polls_skip_the_rings_after_the_last_receive_was_filled() {
        let mut polling = Polling::default();
        assert!(!polling.skips_rings());
        polling.has_filled_all();
        let skipped = (0..2 * SKIPPED_POLLS).map(|_| polling.skips_rings()).collect::<Vec<_>>();
        assert_eq!(skipped, [true, true, true, false, false, false]);
        polling.has_filled_all();
        polling.expects_messages();
        assert!(!polling.skips_rings());
    }
}
