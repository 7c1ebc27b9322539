// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Jobs in the background stop while the other jobs only wait, so that a stuck run ends.
//!
//! Traffic in the background has no end, so the queue of events never becomes empty beside it. Every [`LOOK_EVERY`] the
//! run looks whether the foreground is quiet: its ranks have ended, or wait without a limit of time or poll, and no
//! message of theirs is under way. Nothing in the background can change that. So the ranks in the background have no
//! further turns, and the run is stuck by the same rule as a run without background. When a rank of the foreground does
//! something, the background goes on at the next look.
//!
//! Invariants
//! 1. Looks are at multiples of [`LOOK_EVERY`], so what they find does not depend on the order of other events.
//! 2. A look counts as a poll that is queued: it does not keep a stuck run alive.
//! 3. Without background there is no look.
//!
//! Costs: O(ranks + messages) for a look.

use crate::time::Time;

use super::events::{Event, Events};
use super::message::Phase;
use super::nodes::Nodes;
use super::rank_states::Activity;
use super::ranks::Ranks;
use super::run::Simulation;

/// Time between two looks.
const LOOK_EVERY: Time = Time::from_ns(100_000);

#[derive(Debug, Default)]
pub(super) struct Background {
    /// Whether a look is queued.
    is_looking: bool,
    is_held: bool,
    /// Ranks whose turn has come while they are held, and whether they poll.
    held: Vec<(u32, bool)>,
}

impl Background {
    /// Queues the next look after `now`, unless one is queued.
    pub fn look_later(&mut self, now: Time, events: &mut Events) {
        if !std::mem::replace(&mut self.is_looking, true) {
            let next = (now / LOOK_EVERY.0).0 + 1;
            events.schedule_as(LOOK_EVERY * next, Event::Look, true);
        }
    }

    /// Keeps the turn of a rank in the background until the background goes on. False: it has its turn.
    pub fn keeps(&mut self, rank: u32, is_poll: bool) -> bool {
        if self.is_held {
            self.held.push((rank, is_poll));
        }
        self.is_held
    }
}

impl<R: Ranks> Simulation<R> {
    /// Records that a rank of the foreground has done something.
    pub(super) fn foreground_acts(&mut self, now: Time) {
        if self.background.is_held {
            self.background.look_later(now, &mut self.transfers.nodes.events);
        }
    }

    pub(super) fn look(&mut self, now: Time) {
        self.background.is_looking = false;
        let pending_death = self.options.deaths.iter().any(|death| death.at > now);
        let nodes = &mut self.transfers.nodes;
        self.background.is_held = !pending_death && nodes.foreground_is_quiet(now);
        if self.background.is_held {
            return;
        }
        for (rank, is_poll) in std::mem::take(&mut self.background.held) {
            nodes.rank_states.schedule_turn(&mut nodes.events, rank, now, is_poll);
        }
        self.background.look_later(now, &mut nodes.events);
    }
}

impl<R: Ranks> Nodes<R> {
    /// Whether the ranks of the foreground can only wait, and no message of theirs is under way.
    fn foreground_is_quiet(&self, now: Time) -> bool {
        let waits = |activity| match activity {
            Activity::Ended | Activity::Blocked { .. } => true,
            Activity::Waiting { earliest, has_limit, .. } => earliest <= now && !has_limit,
            Activity::Due | Activity::Offering { .. } | Activity::Uncredited { .. } => false,
        };
        let mut foreground = self.rank_states.of_ranks().iter().filter(|state| !state.background);
        let is_under_way = |index| {
            let message = &self.messages[index];
            !matches!(message.phase, Phase::Free | Phase::Kept) && !self.rank_states[message.from].background
        };
        foreground.all(|state| waits(state.activity)) && !self.messages.indices().any(is_under_way)
    }
}
