// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes of a machine during a run: failures and repairs of channels, and deaths of ranks.
//!
//! They happen between two spells (`course.rs`): all events before their time have been handled in every part, and none of
//! that time. So a channel whose halves are in two parts changes in both, and each part finds the state that a whole machine
//! has. Faults come before deaths.

use crate::network::{NetworkEvent, Schedule};
use crate::time::Time;

use super::options::{Death, Fault, Options};
use super::ranks::Ranks;
use super::run::Simulation;

/// Events that a change of the network has scheduled, for the queue of its part.
#[derive(Debug, Default)]
pub(super) struct Scheduled(Vec<(Time, u32, NetworkEvent)>);

impl Schedule for Scheduled {
    fn schedule(&mut self, at: Time, place: u32, event: NetworkEvent) {
        self.0.push((at, place, event));
    }
}

impl Scheduled {
    pub fn pass_on(self, queue: &mut impl Schedule) {
        self.0.into_iter().for_each(|(at, place, event)| queue.schedule(at, place, event));
    }
}

impl Options {
    /// Sorts faults and deaths by time. Those of one time stay in their order.
    pub(super) fn sort_changes(&mut self) {
        self.faults.sort_by_key(|fault| fault.at);
        self.deaths.sort_by_key(|death| death.at);
    }

    /// Returns the times of all faults and deaths, ascending.
    pub(super) fn times_of_changes(&self) -> Vec<Time> {
        let faults = self.faults.iter().map(|fault| fault.at);
        let mut times: Vec<Time> = faults.chain(self.deaths.iter().map(|death| death.at)).collect();
        times.sort_unstable();
        times.dedup();
        times
    }

    /// Returns the faults of a time, of sorted ones.
    pub(super) fn faults_at(&self, at: Time) -> &[Fault] {
        of_time(&self.faults, at, |fault| fault.at)
    }

    fn deaths_at(&self, at: Time) -> &[Death] {
        of_time(&self.deaths, at, |death| death.at)
    }
}

fn of_time<T>(sorted: &[T], at: Time, time: impl Fn(&T) -> Time) -> &[T] {
    &sorted[sorted.partition_point(|one| time(one) < at)..sorted.partition_point(|one| time(one) <= at)]
}

impl<R: Ranks> Simulation<R> {
    /// Carries out the changes of a time in a whole machine.
    pub(super) fn change(&mut self, now: Time) {
        for fault in self.options.faults_at(now).to_vec() {
            self.change_link(now, fault);
        }
        self.changed(now);
    }

    /// Goes on after the network has been changed: counts the faults of a time, and kills the ranks that die then.
    pub(super) fn changed(&mut self, now: Time) {
        let events = &mut self.transfers.nodes.events;
        events.reach(now);
        // Each part knows all faults, and one counts them.
        if self.transfers.nodes.part.has(0) {
            self.options.faults_at(now).iter().for_each(|_| events.count_change(now));
        }
        self.transfers.take_arrivals(now);
        for Death { rank, .. } in self.options.deaths_at(now).to_vec() {
            let nodes = &mut self.transfers.nodes;
            if nodes.part.has(nodes.node_of(rank)) {
                nodes.events.count_change(now);
                self.kill(now, rank);
            }
        }
    }
}
