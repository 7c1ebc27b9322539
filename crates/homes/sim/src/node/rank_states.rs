// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The activity and the next turn of each rank.
//!
//! A rank runs until it makes a request; the request determines when it runs again. A rank that polls and finds nothing
//! runs again when one of its NICs has changed, or after a pause that doubles from turn to turn. So a polling loop does
//! not hang, costs few events, and sees virtual time advance.
//!
//! Invariant: a rank has at most one future turn. A turn scheduled earlier is stale, by its generation.

use std::ops::{Index, IndexMut};

use crate::machine::interface::FullQueue;
use crate::random::Random;
use crate::time::Time;

use super::events::{Event, Events};
use super::jobs::{JobSpan, JobTable};
use super::message::NONE;
use super::pace::Pace;
use super::rank_commands::RankCommands;

#[derive(Clone, Copy, Debug)]
pub(super) enum Activity {
    /// Its next turn is in the event queue.
    Due,
    /// It waits for its NICs; it does not continue before `earliest`.
    Waiting {
        earliest: Time,
        since: Time,
        polls: bool,
        /// It continues at a time, whatever its NICs do.
        has_limit: bool,
    },
    Blocked {
        in_call: &'static str,
        since: Time,
    },
    /// It hands a command to its NIC; where it waits if the queue is full.
    Offering {
        since: Time,
        waits_in: Option<FullQueue>,
    },
    Uncredited {
        since: Time,
    },
    Ended,
}

pub(super) struct RankState {
    pub activity: Activity,
    generation: u32,
    pause: Time,
    pub unanswered: u64,
    /// Messages that it has begun, with wrap-around.
    pub begun: u32,
    /// The message that its host is handing to the NIC, or `NONE`. The NIC has it at the rank's next turn or, if the
    /// rank waits, at [`Event::HandOver`]. A message that has left the processor for the NIC does not count.
    pub handing_over: u32,
    pub pace: Pace,
    /// Time that its processor has spent on interrupts for messages to it.
    pub served: Time,
    pub refused: bool,
    /// Whether one of its NICs has changed since it began to hand a command over.
    pub changed: bool,
    /// `Some` while it computes: the value of `served` when it began.
    computing: Option<Time>,
    /// Commands offered to its NIC.
    pub commands: RankCommands,
    /// Decides which of its stores are split.
    pub splits: Random,
    pub ended: Option<Time>,
    pub code: Option<i32>,
    /// The run does not wait for its end.
    pub background: bool,
    /// A hash of its turns and of what has reached it, in order.
    pub hash: u64,
}

/// First of the random streams for split stores, one for each rank.
const SPLITS: u64 = 0x7370_6c69_7400_0000;

/// First and longest pause of a rank that polls and finds nothing.
const PAUSE_FIRST: Time = Time::from_ns(100);
/// Least pause, after the first, in a call that returns only when its NICs have changed. The first is for calls
/// that poll several queues in turn.
const PAUSE_IN_CALL: Time = Time::from_ns(50_000);
const PAUSE_LONGEST: Time = Time::from_ns(100_000_000);

impl RankState {
    /// Makes the state of a rank of a job; `rank`: its number there.
    fn new(activity: Activity, rank: u32, job: &JobSpan) -> RankState {
        let variation = job.variation;
        RankState {
            activity,
            generation: 0,
            pause: PAUSE_FIRST,
            unanswered: 0,
            begun: 0,
            handing_over: NONE,
            pace: Pace::new(variation, rank),
            served: Time::ZERO,
            refused: false,
            changed: false,
            computing: None,
            commands: RankCommands::default(),
            splits: Random::new(variation.seed, SPLITS + u64::from(rank)),
            ended: None,
            code: None,
            background: job.background,
            hash: 0xcbf2_9ce4_8422_2325 ^ u64::from(rank),
        }
    }

    /// Mixes words into its hash: a multiplication and a rotation for each.
    #[inline]
    pub fn note(&mut self, words: &[u64]) {
        for word in words {
            self.hash = (self.hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
    }

    #[inline]
    pub fn has_ended(&self) -> bool {
        matches!(self.activity, Activity::Ended)
    }

    /// Makes it wait for its NICs from `since` on.
    pub fn wait(&mut self, since: Time) {
        self.activity = Activity::Waiting { earliest: since, since, polls: false, has_limit: false };
        self.generation = self.generation.wrapping_add(1);
    }

    /// Makes it wait as [`RankState::wait`], but not beyond a time.
    pub fn wait_until(&mut self, since: Time) {
        self.wait(since);
        self.activity = Activity::Waiting { earliest: since, since, polls: false, has_limit: true };
    }

    /// Records a poll that found nothing. Returns the pause before the next poll.
    pub fn poll(&mut self, now: Time, in_call: bool) -> Time {
        self.activity = Activity::Waiting { earliest: now, since: now, polls: true, has_limit: false };
        if in_call && self.pause > PAUSE_FIRST {
            self.pause = self.pause.max(PAUSE_IN_CALL);
        }
        let pause = self.pace.step(self.pause);
        self.pause = (self.pause * 2).min(PAUSE_LONGEST);
        pause
    }

    /// Ends the polling: the next pause is the first again.
    pub fn end_polling(&mut self) {
        self.pause = PAUSE_FIRST;
    }

    /// Computes until its next turn. Interrupts that it serves meanwhile delay that turn.
    pub fn compute(&mut self) {
        self.activity = Activity::Due;
        self.computing = Some(self.served);
    }

    /// Blocks it in a call that returns when others have made it.
    pub fn block(&mut self, in_call: &'static str, since: Time) {
        self.activity = Activity::Blocked { in_call, since };
        self.generation = self.generation.wrapping_add(1);
    }

    pub fn end(&mut self, at: Time, code: i32) {
        self.activity = Activity::Ended;
        self.generation = self.generation.wrapping_add(1);
        self.ended = Some(at);
        self.code = Some(code);
    }

    /// Returns its activity in words, and the time since which it lasts.
    pub fn doing(&self, now: Time) -> (String, Time) {
        match self.activity {
            Activity::Ended => ("has ended".to_owned(), now),
            Activity::Due => ("has its next turn scheduled".to_owned(), now),
            Activity::Waiting { since, polls: false, .. } => ("waits for its NIC".to_owned(), since),
            Activity::Waiting { since, polls: true, .. } => ("polls".to_owned(), since),
            Activity::Offering { since, waits_in } => {
                let what = match waits_in {
                    None => "offers a command to its NIC",
                    Some(FullQueue::Sleep) => "sleeps in the driver: the command queue of its NIC is full",
                    Some(_) => "stands still in a store: the command queue of its NIC is full",
                };
                (what.to_owned(), since)
            }
            Activity::Uncredited { since } => ("waits for credits of a mailbox".to_owned(), since),
            Activity::Blocked { in_call, since } => (format!("is in {in_call}, which others have not called"), since),
        }
    }
}

/// The states of the ranks, then of the aggregation nodes, which have no turns.
pub(super) struct RankStates {
    states: Vec<RankState>,
    /// Number of ranks; later states are of aggregation nodes.
    ranks: u32,
    /// Time until a host notices that its NIC has changed.
    memory_access: Time,
}

impl RankStates {
    pub fn new(ranks: u32, all: u32, jobs: &JobTable, memory_access: Time) -> RankStates {
        let state = |rank| {
            let activity = if rank < ranks { Activity::Due } else { Activity::Ended };
            let (job, number) = jobs.of(rank);
            RankState::new(activity, number, job)
        };
        let states = (0..all).map(state).collect();
        RankStates { states, ranks, memory_access }
    }

    pub fn of_ranks(&self) -> &[RankState] {
        &self.states[..self.ranks as usize]
    }

    pub fn get(&self, rank: u32) -> Option<&RankState> {
        self.states.get(rank as usize)
    }

    pub fn numbers(&self) -> std::ops::Range<u32> {
        0..self.states.len() as u32
    }

    /// Schedules the first turn of each rank that is here.
    pub fn begin(&self, events: &mut Events, jobs: &JobTable, is_here: impl Fn(u32) -> bool) {
        for rank in (0..self.ranks).filter(|&rank| is_here(rank)) {
            events.schedule(jobs.of(rank).0.start, Event::Resume { rank, generation: 0, is_poll: false });
        }
    }

    /// Schedules a rank's next turn; an earlier queued turn becomes stale.
    pub fn schedule_turn(&mut self, events: &mut Events, rank: u32, at: Time, is_poll: bool) {
        let state = &mut self.states[rank as usize];
        state.generation = state.generation.wrapping_add(1);
        let generation = state.generation;
        events.schedule_as(at, Event::Resume { rank, generation, is_poll }, is_poll);
    }

    /// Continues the rank at a time, whatever its NICs do.
    pub fn go_on(&mut self, events: &mut Events, rank: u32, at: Time) {
        self.states[rank as usize].activity = Activity::Due;
        self.schedule_turn(events, rank, at, false);
    }

    /// Whether it is a rank's turn: the event is not stale, and no interrupt delays it. Reschedules a delayed turn.
    #[inline]
    pub fn is_turn(&mut self, events: &mut Events, now: Time, rank: u32, generation: u32) -> bool {
        self.states[rank as usize].generation == generation && !self.is_delayed(events, now, rank)
    }

    /// Whether a computing rank has served interrupts since it began. If so, it computes longer by their time.
    #[inline]
    fn is_delayed(&mut self, events: &mut Events, now: Time, rank: u32) -> bool {
        let state = &mut self.states[rank as usize];
        let Some(served) = state.computing.take() else { return false };
        let delay = state.served.saturating_sub(served);
        if delay == Time::ZERO {
            return false;
        }
        state.computing = Some(state.served);
        self.schedule_turn(events, rank, now + delay, false);
        true
    }

    /// Wakes a waiting rank, because one of its NICs has changed.
    pub fn wake(&mut self, events: &mut Events, rank: u32, at: Time) {
        let Some(state) = self.states.get_mut(rank as usize) else { return };
        state.changed = true;
        if let Activity::Waiting { earliest, .. } = state.activity {
            state.activity = Activity::Due;
            state.pause = PAUSE_FIRST;
            let access = state.pace.step(self.memory_access);
            let at = (at + access).max(earliest);
            self.schedule_turn(events, rank, at, false);
        }
    }
}

impl Index<u32> for RankStates {
    type Output = RankState;

    #[inline]
    fn index(&self, rank: u32) -> &RankState {
        &self.states[rank as usize]
    }
}

impl IndexMut<u32> for RankStates {
    #[inline]
    fn index_mut(&mut self, rank: u32) -> &mut RankState {
        &mut self.states[rank as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Variation;

    #[test]
    fn pauses_double_and_are_long_in_a_call_that_waits_for_the_nic() {
        let pauses = |in_call: bool| {
            let variation = Variation { ppm_max: 0, seed: 1 };
            let job = JobSpan { ranks: 1, start: Time::ZERO, background: false, variation };
            let mut state = RankState::new(Activity::Due, 0, &job);
            let pauses: Vec<u64> = (0..5).map(|_| state.poll(Time::ZERO, in_call).0 / 1000).collect();
            state.end_polling();
            assert_eq!(state.poll(Time::ZERO, in_call), PAUSE_FIRST);
            pauses
        };
        assert_eq!(pauses(false), [100, 200, 400, 800, 1600]);
        assert_eq!(pauses(true), [100, 50_000, 100_000, 200_000, 400_000]);
    }
}
