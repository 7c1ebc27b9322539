// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run in windows of time: all partitions handle the events of a window, then exchange what they have sent.
//!
//! A window is as long as the lookahead: what one partition sends in it takes effect in another one after its end. So
//! partitions run side by side, and the order of their events does not matter (docs/design/simulation-parallel.md).
//!
//! Windows make up *spells*, whose ends are the same for every number of partitions: multiples of a length, and the times
//! of faults, of the ends of the warm-up and of the interval, and of the end of the run. Only there the whole run is
//! looked at. So a run on one thread, whose windows are whole spells, ends at the same time and counts the same.

use std::ops::ControlFlow;

use rayon::prelude::*;

use super::part::{Counts, Part, Plan};
use super::results::Snapshot;
use super::{Progress, Stop};
use crate::network::{Counted, Network, NetworkStatistics, Networks, Parcel, set_link};
use crate::node::Fault;
use crate::rerouting::Rerouter;
use crate::time::Time;

/// Events between two reports of progress.
const PROGRESS_EVENTS: u64 = 1 << 14;
/// The least length of a spell.
const SPELL: Time = Time::from_ns(100);

pub(super) struct Run<'a> {
    pub plan: &'a Plan<'a>,
    pub parts: Vec<Part<'a>>,
    /// `None`: one partition.
    pub threads: Option<rayon::ThreadPool>,
    pub rerouter: Option<Box<Rerouter>>,
    /// Time at which the routers' managers have something to do.
    pub manage_at: Option<Time>,
    /// Number of faults that have happened.
    pub faults: usize,
    pub begin: Option<Snapshot>,
    pub end: Option<Snapshot>,
}

impl<'a> Run<'a> {
    /// Runs to the end; returns why it ended early.
    pub fn go(&mut self, progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>) -> Option<Stop> {
        let drained = self.plan.until + self.plan.traffic.drain_max;
        let (mut now, mut shown) = (Time::ZERO, 0);
        loop {
            self.look(now);
            let (open, is_over) = (self.outstanding(), now >= self.plan.until);
            if self.parts[0].network.deadlock().is_some() {
                return Some(Stop::Deadlock);
            }
            if is_over && open == 0 {
                return None;
            }
            if now > drained {
                return Some(Stop::NotDrained);
            }
            let events = self.events();
            if events - shown >= PROGRESS_EVENTS {
                shown = events;
                if self.show(now, progress).is_break() {
                    return Some(Stop::Interrupted);
                }
            }
            let (event, change) = (self.next_event(), self.next_change());
            let Some(next) = event.into_iter().chain(change).min() else {
                // Packets wait for a link that is never repaired.
                self.look(Time::MAX);
                return (open > 0).then_some(Stop::NotDrained);
            };
            if change == Some(next) {
                now = next;
                self.look(now);
                self.change(next);
                continue;
            }
            now = self.spell_end(next.max(now), change, drained);
            self.spell(now);
        }
    }

    /// Takes the snapshots that are due at `now`.
    fn look(&mut self, now: Time) {
        let (warm_up, until) = (self.plan.traffic.warm_up, self.plan.until);
        if self.begin.is_none() && now >= warm_up {
            self.begin = Some(self.snapshot(warm_up));
        }
        if self.end.is_none() && now >= until {
            self.end = Some(self.snapshot(until));
        }
    }

    pub fn snapshot(&self, at: Time) -> Snapshot {
        let all = self.all();
        let channels = 0..all.topology().channels();
        let flits = channels.map(|channel| all.channel_statistics(channel).flits).collect();
        Snapshot { at, statistics: all.statistics().clone(), flits }
    }

    /// Returns the network of all partitions, as an observer sees it between two windows.
    fn all(&self) -> Networks<&Network> {
        Networks::new(self.parts.iter().map(|part| &part.network).collect())
    }

    /// Shows the progress at a time.
    pub fn show(&self, now: Time, progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>) -> ControlFlow<()> {
        let all = self.all();
        let (hops, in_flight) = (all.statistics().hops, self.in_flight());
        progress(Progress { now, until: self.plan.until, hops, in_flight, network: &all })
    }

    pub fn statistics(&self) -> NetworkStatistics {
        self.all().statistics().clone()
    }

    /// Returns the packets in the network and in the nodes' queues, of a run whose parcels have been taken in.
    pub fn in_flight(&self) -> u64 {
        self.parts.iter().map(|part| part.network.in_flight()).sum()
    }

    /// Returns the counts of all partitions.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::new();
        self.parts.iter().for_each(|part| counts.add(&part.counts));
        counts
    }

    /// Returns the events of all partitions, and the changes of links.
    pub fn events(&self) -> u64 {
        let of_part = |part: &Part<'_>| part.counts.events + part.network.statistics().events;
        self.parts.iter().map(of_part).sum::<u64>() + self.faults as u64
    }

    /// Returns the packets of the interval that are still in flight.
    fn outstanding(&self) -> u64 {
        let (begun, ended) = self
            .parts
            .iter()
            .fold((0, 0), |(begun, ended), part| (begun + part.counts.begun, ended + part.counts.ended));
        begun - ended
    }

    fn next_event(&mut self) -> Option<Time> {
        self.parts.iter_mut().filter_map(Part::next_at).min()
    }

    /// Returns the time of the next change of a link, or of the managers' next step.
    fn next_change(&self) -> Option<Time> {
        let fault = self.plan.traffic.faults.get(self.faults).map(|fault| fault.at);
        fault.into_iter().chain(self.manage_at).min()
    }

    /// Returns the end of the spell of the event at `next`.
    fn spell_end(&self, next: Time, change: Option<Time>, drained: Time) -> Time {
        let length = SPELL.0.next_multiple_of(self.plan.lookahead.0.max(1));
        let end = Time((next.0 / length + 1).saturating_mul(length));
        let ends = [self.plan.traffic.warm_up, self.plan.until, Time(drained.0.saturating_add(1))];
        ends.into_iter().chain(change).filter(|&at| at > next).fold(end, Time::min)
    }

    /// Lets all partitions handle their events before `end`, window by window.
    fn spell(&mut self, end: Time) {
        if self.threads.is_none() {
            return self.parts[0].run(end);
        }
        let length = self.plan.lookahead.0;
        while let Some(next) = self.next_event().filter(|&next| next < end) {
            let end = end.min(Time((next.0 / length + 1).saturating_mul(length)));
            let (threads, parts) = (&self.threads, &mut self.parts);
            if let Some(threads) = threads {
                threads.install(|| parts.par_iter_mut().for_each(|part| part.run(end)));
            }
            self.exchange();
        }
    }

    /// Moves what the partitions have sent each other.
    fn exchange(&mut self) {
        let parts = &mut self.parts;
        for from in 0..parts.len() {
            for to in (0..parts.len()).filter(|&to| to != from) {
                let mut parcel: Parcel = std::mem::take(&mut parts[to].inbox[from]);
                parts[from].network.exchange_parcel(to, &mut parcel);
                parts[to].inbox[from] = parcel;
            }
        }
    }

    /// Carries out the changes of a time.
    fn change(&mut self, now: Time) {
        self.parts.iter_mut().for_each(Part::take_in);
        while let Some(&Fault { at, channel, up }) = self.plan.traffic.faults.get(self.faults) {
            if at > now {
                break;
            }
            self.faults += 1;
            let parts = self.parts.iter_mut().map(|Part { network, queue, .. }| (network, queue));
            set_link(&mut parts.collect::<Vec<_>>(), now, channel, up);
            self.manage(now, Some((channel, up)));
        }
        if self.manage_at.is_some_and(|at| at <= now) {
            self.manage_at = None;
            self.manage(now, None);
        }
        self.parts.iter_mut().for_each(Part::take_arrivals);
        self.exchange();
    }

    /// Lets the routers' managers work, after a change of a channel or at their time. They need the whole fabric.
    fn manage(&mut self, now: Time, change: Option<(u32, bool)>) {
        let Some(rerouter) = &mut self.rerouter else { return };
        let Part { network, queue, .. } = &mut self.parts[0];
        match change {
            Some(change) => rerouter.change(now, change, network, queue),
            None => rerouter.step(now, network, queue),
        }
        if let Some(at) = rerouter.take_due() {
            self.manage_at = Some(self.manage_at.map_or(at, |earlier| earlier.min(at)));
        }
    }
}
