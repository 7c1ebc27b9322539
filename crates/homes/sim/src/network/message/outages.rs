// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links that fail, in the model of whole messages.
//!
//! All times of a message are computed when it departs, so the failures of the run are given before it begins. A message
//! is lost when it is on a channel, or comes to one, that is down. It does not wait for the repair.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_fabric::{NodeId, RouterId};

use super::super::routes::Rerouted;
use super::super::{LossReason, Losses, Plan, Reroute, Schedule};
use super::MessageNetwork;
use crate::time::Time;

/// The times at which channels are down: from the first up to the second of a pair, ascending.
#[derive(Debug, Default)]
pub(super) struct Outages(BTreeMap<u32, Vec<(Time, Time)>>);

impl Outages {
    /// From failures and repairs in order of time: time, channel, whether it is up.
    pub fn new(changes: impl Iterator<Item = (Time, u32, bool)>) -> Outages {
        let mut outages: BTreeMap<u32, Vec<(Time, Time)>> = BTreeMap::new();
        for (at, channel, is_up) in changes {
            let all = outages.entry(channel).or_default();
            match (is_up, all.last_mut().filter(|last| last.1 == Time::MAX)) {
                (true, Some(last)) => last.1 = at,
                (false, None) => all.push((at, Time::MAX)),
                _ => {}
            }
        }
        Outages(outages)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a channel is down at some time from `start` to `end`.
    pub fn meets(&self, channel: u32, start: Time, end: Time) -> bool {
        let Some(all) = self.0.get(&channel) else { return false };
        let next = all.partition_point(|&(_, until)| until <= start);
        all.get(next).is_some_and(|&(from, _)| from <= end)
    }
}

impl MessageNetwork {
    /// Sets the failures and repairs of a run, in order of time: time, channel, whether it is up.
    pub fn set_outages(&mut self, changes: impl Iterator<Item = (Time, u32, bool)>) {
        self.outages = Outages::new(changes);
    }

    /// Returns the number of the routing that messages of a node follow.
    pub(super) fn plan_of(&self, from: NodeId) -> u16 {
        self.rerouted.as_ref().map_or(0, |rerouted| rerouted.number_of(&self.topology, from))
    }

    /// Counts a message that is lost.
    #[cold]
    pub(super) fn lose(&mut self, packets: u32, why: LossReason) {
        let packets = u64::from(packets);
        self.statistics.injected += packets;
        self.statistics.lost += packets;
        if let Some(rerouted) = &mut self.rerouted {
            rerouted.lose(why, packets);
        }
    }
}

impl Reroute for MessageNetwork {
    fn allow_rerouting(&mut self) {
        self.rerouted = Some(Box::new(Rerouted::new(&self.topology)));
    }

    fn set_routes(&mut self, router: RouterId, plan: Option<&Arc<Plan>>) {
        if let Some(rerouted) = &mut self.rerouted {
            rerouted.set_routes(router, plan);
        }
    }

    /// Messages do not wait for a channel that is down.
    fn abandon(&mut self, _now: Time, _channel: u32, _queue: &mut impl Schedule) {}

    fn losses(&self) -> Losses {
        self.rerouted.as_ref().map_or(Losses::default(), |rerouted| rerouted.losses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_down_from_its_failure_to_its_repair() {
        let ns = Time::from_ns;
        let changes =
            [(ns(10), 1, false), (ns(20), 1, true), (ns(30), 1, false), (ns(30), 2, true), (ns(35), 1, false)];
        let outages = Outages::new(changes.into_iter());
        let meets = |channel, start, end| outages.meets(channel, ns(start), ns(end));
        assert!(!meets(1, 0, 9) && meets(1, 0, 10) && meets(1, 12, 13) && meets(1, 19, 25));
        assert!(!meets(1, 20, 29) && meets(1, 20, 30) && meets(1, 1_000_000, 1_000_001));
        assert!(!meets(2, 0, 100) && !meets(3, 0, 100));
    }
}
