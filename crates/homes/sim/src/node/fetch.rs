// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fetching the state of coming events into the cache, as `network/fetch.rs` does for the network.
//!
//! The state of an event is its message's record and command, or its rank. A NIC's tables are not fetched: a transition
//! loads many of their lines at once, so its loads hide each other.

use selvedge_fabric::Rails;
use selvedge_os::lines::about_to_change;

use super::events::Event;
use super::fabric::Fabric;
use super::message::{Messages, index_of};
use super::nodes::Nodes;
use super::rank_states::RankStates;
use super::ranks::Ranks;
use super::transfers::Transfers;
use crate::network::FETCHED_AHEAD;

/// Fetches the state of coming events, if there are many.
#[inline]
pub(super) fn fetch_ahead<R: Ranks>(Transfers { nodes, fabric, .. }: &mut Transfers<R>) {
    let Nodes { events, messages, rank_states, ranks, machine, .. } = nodes;
    let state = State { fabric, messages, rank_states, ranks, rails: machine.topology.rails() };
    events.look_ahead(FETCHED_AHEAD, |event, step| state.fetch(event, step));
}

/// The state that events change.
struct State<'a, R> {
    fabric: &'a Fabric,
    messages: &'a Messages,
    rank_states: &'a RankStates,
    ranks: &'a R,
    rails: &'a Rails,
}

impl<R: Ranks> State<'_, R> {
    fn fetch(&self, event: &Event, step: usize) {
        match *event {
            Event::Network(event) => {
                self.fabric.fetch(&event, step);
                if let Some(tag) = self.fabric.delivered_by(&event).filter(|_| step > 0) {
                    self.fetch_message(index_of(tag), step - 1);
                }
            }
            Event::Resume { rank, .. } if step == 0 => self.fetch_rank(rank),
            Event::Issue(message)
            | Event::Read(message)
            | Event::Inject(message)
            | Event::Head(message)
            | Event::Sent(message)
            | Event::Arrived(message)
            | Event::Deliver(message)
            | Event::Answer(message) => self.fetch_message(message, step),
            _ => {}
        }
    }

    fn fetch_message(&self, message: u32, step: usize) {
        let Some(record) = self.messages.get(message) else { return };
        match step {
            0 => about_to_change(record),
            1 => {
                about_to_change(&*record.command);
                self.fetch_rank(record.to);
                if record.source < self.rails.nodes() {
                    self.fabric.fetch_source(self.rails.endpoint(record.source, record.rail));
                }
            }
            _ => {}
        }
    }

    fn fetch_rank(&self, rank: u32) {
        self.rank_states.get(rank).into_iter().for_each(about_to_change);
        self.ranks.fetch(rank);
    }
}
