// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ranks as the simulation sees them: what each does, and when it has its next turn.
//!
//! A rank runs until it makes a request; the request determines when it runs again. A rank that polls and finds nothing
//! runs again when one of its NICs has changed, or after a pause that doubles from turn to turn. So a polling loop does
//! not hang, costs few events, and sees virtual time advance.
//!
//! Invariant: a rank has at most one turn to come. A turn that was scheduled before it is stale, by its generation.

use std::ops::{Index, IndexMut};

use crate::machine::interface::FullQueue;
use crate::random::Random;
use crate::time::Time;

use super::events::{Event, Events};
use super::message::NONE;
use super::pace::{Pace, Variation};
use super::rank_commands::RankCommands;

/// The activity of a rank.
#[derive(Clone, Copy, Debug)]
pub(super) enum Activity {
    /// Its next turn is in the event queue.
    Due,
    /// It waits for its NICs; it does not continue before `earliest`.
    Waiting {
        earliest: Time,
        since: Time,
        polls: bool,
    },
    Blocked {
        in_call: &'static str,
        since: Time,
    },
    /// It hands a command to its NIC; what it waits in, if the queue is full.
    Offering {
        since: Time,
        waits_in: Option<FullQueue>,
    },
    /// Its library waits for credits of a mailbox.
    Uncredited {
        since: Time,
    },
    Ended,
}

/// A rank and its host.
pub(super) struct RankState {
    pub activity: Activity,
    generation: u32,
    pause: Time,
    pub unanswered: u64,
    /// The message that its host is handing to the NIC, or `NONE`. The NIC has it at the rank's next turn, or, if the
    /// rank waits, at [`Event::HandOver`]. A message that is on its way to the NIC behind the processor is not its host's.
    pub handing_over: u32,
    pub pace: Pace,
    /// How long its processor has served interrupts for messages to it.
    pub served: Time,
    /// Its last command was refused.
    pub refused: bool,
    /// One of its NICs has changed since it began to hand a command over.
    pub changed: bool,
    /// It computes; what it had served when it began.
    computing: Option<Time>,
    /// Commands that it has offered to its NIC.
    pub commands: RankCommands,
    /// Decides which of its stores are split.
    pub splits: Random,
    pub ended: Option<Time>,
    pub code: Option<i32>,
}

/// Parts of the random numbers for split stores, one for each rank, begin here.
const SPLITS: u64 = 0x7370_6c69_7400_0000;

/// The first and the longest pause of a rank that polls and finds nothing.
const PAUSE_FIRST: Time = Time::from_ns(100);
const PAUSE_LONGEST: Time = Time::from_ns(100_000_000);

impl RankState {
    fn new(activity: Activity, rank: u32, variation: Variation) -> RankState {
        RankState {
            activity,
            generation: 0,
            pause: PAUSE_FIRST,
            unanswered: 0,
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
        }
    }

    #[inline]
    pub fn has_ended(&self) -> bool {
        matches!(self.activity, Activity::Ended)
    }

    /// Makes it wait for its NICs from a time on.
    pub fn wait(&mut self, since: Time) {
        self.activity = Activity::Waiting { earliest: since, since, polls: false };
        self.generation = self.generation.wrapping_add(1);
    }

    /// It has polled and found nothing. Gives the pause before it polls again.
    pub fn poll(&mut self, now: Time) -> Time {
        self.activity = Activity::Waiting { earliest: now, since: now, polls: true };
        let pause = self.pace.step(self.pause);
        self.pause = (self.pause * 2).min(PAUSE_LONGEST);
        pause
    }

    /// It does something else than poll: its next pause is the first again.
    pub fn end_polling(&mut self) {
        self.pause = PAUSE_FIRST;
    }

    /// It computes until its next turn, which is later by the interrupts that it serves meanwhile.
    pub fn compute(&mut self) {
        self.activity = Activity::Due;
        self.computing = Some(self.served);
    }

    /// It is in a call that returns when others have made it.
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

    /// Its activity in words, and since when.
    pub fn doing(&self, now: Time) -> (String, Time) {
        match self.activity {
            Activity::Ended => ("has ended".to_owned(), now),
            Activity::Due => ("has a turn to come".to_owned(), now),
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

/// The states of the ranks, and behind them of the aggregation nodes, which have no turns.
pub(super) struct RankStates {
    states: Vec<RankState>,
    /// Ranks; the states behind them are of aggregation nodes.
    ranks: u32,
    /// How long a host needs to notice that its NIC has changed.
    memory_access: Time,
}

impl RankStates {
    pub fn new(ranks: u32, all: u32, variation: Variation, memory_access: Time) -> RankStates {
        let activity = |rank| if rank < ranks { Activity::Due } else { Activity::Ended };
        let states = (0..all).map(|rank| RankState::new(activity(rank), rank, variation)).collect();
        RankStates { states, ranks, memory_access }
    }

    /// The ranks, without aggregation nodes.
    pub fn of_ranks(&self) -> &[RankState] {
        &self.states[..self.ranks as usize]
    }

    pub fn get(&self, rank: u32) -> Option<&RankState> {
        self.states.get(rank as usize)
    }

    /// Numbers of all of them.
    pub fn numbers(&self) -> std::ops::Range<u32> {
        0..self.states.len() as u32
    }

    /// Schedules the first turn of each rank.
    pub fn begin(&self, events: &mut Events) {
        for rank in 0..self.ranks {
            events.schedule(Time::ZERO, Event::Resume { rank, generation: 0, is_poll: false });
        }
    }

    /// Schedules a rank's next turn; a turn that is queued for it becomes stale.
    pub fn schedule_turn(&mut self, events: &mut Events, rank: u32, at: Time, is_poll: bool) {
        let state = &mut self.states[rank as usize];
        state.generation = state.generation.wrapping_add(1);
        let generation = state.generation;
        events.schedule_as(at, Event::Resume { rank, generation, is_poll }, is_poll);
    }

    /// The rank goes on at a time, whatever its NICs do.
    pub fn go_on(&mut self, events: &mut Events, rank: u32, at: Time) {
        self.states[rank as usize].activity = Activity::Due;
        self.schedule_turn(events, rank, at, false);
    }

    /// Whether it is a rank's turn: the event is not stale, and no interrupt delays it. A delayed turn is scheduled again.
    #[inline]
    pub fn is_turn(&mut self, events: &mut Events, now: Time, rank: u32, generation: u32) -> bool {
        self.states[rank as usize].generation == generation && !self.is_delayed(events, now, rank)
    }

    /// Whether a rank that computes has served interrupts since it began: then it computes for as long again as they took.
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

    /// A NIC of a rank has changed: if the rank waits, it continues.
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
