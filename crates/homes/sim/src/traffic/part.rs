// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The traffic of one partition of a fabric: its nodes make messages, and its part of the network carries them.
//!
//! Every decision of a node is a function of the seed, the node and the number of its message. So a node sends the same
//! messages at the same times in every division of the fabric.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use selvedge_fabric::Rails;

use super::{Destinations, TrafficConfig, cut};
use crate::congestion::Header;
use crate::network::{
    Arrival, FETCHED_AHEAD, LossReason, Network, NetworkEvent, Packet, Parcel, Partition, RailChoice, Schedule,
};
use crate::queue::Queue;
use crate::random::Random;
use crate::time::Time;

#[derive(Clone, Copy, Debug)]
enum Event {
    Network(NetworkEvent),
    /// A node generates its next message.
    Make(u32),
}

/// After all of the network's events of a time.
const MAKE: u64 = 1 << 40;

#[derive(Debug, Default)]
pub(super) struct Events(Queue<Event>);

impl Schedule for Events {
    #[inline]
    fn schedule(&mut self, at: Time, place: u32, event: NetworkEvent) {
        self.0.schedule_as(at, event.order(place), Event::Network(event));
    }
}

/// The settings of traffic, prepared once for all partitions.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub traffic: &'a TrafficConfig,
    pub destinations: Destinations,
    pub rails: Rails,
    pub rail_choice: RailChoice,
    /// Mean time between two messages of a node, in picoseconds.
    pub gap_mean_ps: f64,
    /// Packets of a message.
    pub packets: u32,
    /// End of the measured interval.
    pub until: Time,
    /// The time that a packet or credit needs at least from one router to another.
    pub lookahead: Time,
}

/// A partition.
pub(super) struct Part<'a> {
    plan: &'a Plan<'a>,
    pub network: Network,
    pub queue: Events,
    /// By partition: what it has sent.
    pub inbox: Vec<Parcel>,
    first_node: u32,
    /// Messages that each node has made, or left out.
    made: Vec<u32>,
    pub counts: Counts,
}

/// The counts of a partition.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    /// Time of the last event, other than looking at a channel again.
    pub last: Time,
    pub events: u64,
    /// Packets made in the interval, and those of them that arrived or were lost.
    pub begun: u64,
    pub ended: u64,
    pub latency: Histogram<u64>,
    pub latency_sum_ps: u128,
    pub hops: u64,
    pub packets: u64,
    pub lost: BTreeMap<LossReason, u64>,
    pub injected: u64,
    pub delivered: u64,
    pub lost_in_all: BTreeMap<LossReason, u64>,
    pub offered_flits: u64,
    pub accepted_flits: u64,
    /// Packets that arrived in the interval and were not taken out of a deadlock.
    pub undisturbed: u64,
    pub not_made: u64,
}

impl Counts {
    pub fn new() -> Counts {
        Counts {
            last: Time::ZERO,
            events: 0,
            begun: 0,
            ended: 0,
            latency: Histogram::new(3).expect("a histogram may have three significant digits"),
            latency_sum_ps: 0,
            hops: 0,
            packets: 0,
            lost: BTreeMap::new(),
            injected: 0,
            delivered: 0,
            lost_in_all: BTreeMap::new(),
            offered_flits: 0,
            accepted_flits: 0,
            undisturbed: 0,
            not_made: 0,
        }
    }

    /// Adds the counts of another partition.
    pub fn add(&mut self, other: &Counts) {
        self.last = self.last.max(other.last);
        self.events += other.events;
        self.begun += other.begun;
        self.ended += other.ended;
        // It resizes itself, so it takes every value.
        let _ = self.latency.add(&other.latency);
        self.latency_sum_ps += other.latency_sum_ps;
        self.hops += other.hops;
        self.packets += other.packets;
        for (lost, others) in [(&mut self.lost, &other.lost), (&mut self.lost_in_all, &other.lost_in_all)] {
            for (&why, count) in others {
                *lost.entry(why).or_default() += count;
            }
        }
        self.injected += other.injected;
        self.delivered += other.delivered;
        self.offered_flits += other.offered_flits;
        self.accepted_flits += other.accepted_flits;
        self.undisturbed += other.undisturbed;
        self.not_made += other.not_made;
    }
}

impl<'a> Part<'a> {
    /// `partitions`: their number.
    pub fn new(
        plan: &'a Plan<'a>,
        network: Network,
        Partition { nodes, .. }: &Partition,
        partitions: usize,
    ) -> Part<'a> {
        // A partition has all rails of its nodes.
        let nodes = nodes.start / plan.rails.count()..nodes.end / plan.rails.count();
        let (first_node, made) = (nodes.start, vec![0; nodes.len()]);
        let inbox = (0..partitions).map(|_| Parcel::default()).collect();
        let queue = Events::default();
        let mut part = Part { plan, network, queue, inbox, first_node, made, counts: Counts::new() };
        for node in nodes.filter(|&node| plan.destinations.is_source(node)) {
            let mut random = part.draws(node);
            part.make_after(Time::ZERO, node, &mut random);
        }
        part
    }

    /// Returns the generator of a node's next message.
    fn draws(&mut self, node: u32) -> Random {
        let made = &mut self.made[(node - self.first_node) as usize];
        let random = Random::of_source(self.plan.traffic.seed, u64::from_le_bytes(*b"traffic\0"), node, *made);
        *made = made.wrapping_add(1);
        random
    }

    fn make_after(&mut self, now: Time, node: u32, random: &mut Random) {
        let gap = Time(random.exponential(self.plan.gap_mean_ps) as u64);
        self.queue.0.schedule_as(now + gap, MAKE | u64::from(node), Event::Make(node));
    }

    /// Returns the time of the next event, or of what others have sent.
    pub fn next_at(&mut self) -> Option<Time> {
        let queued = self.queue.0.next_at().unwrap_or(Time::MAX);
        let next = self.inbox.iter().fold(queued, |next, parcel| next.min(parcel.earliest));
        (next != Time::MAX).then_some(next)
    }

    /// Takes what other partitions have sent.
    pub fn take_in(&mut self) {
        for parcel in &mut self.inbox {
            self.network.accept(parcel, &mut self.queue);
        }
    }

    /// Handles all events before `end`.
    pub fn run(&mut self, end: Time) {
        self.take_in();
        let last = Time(end.0 - 1);
        loop {
            let (network, rails) = (&self.network, &self.plan.rails);
            self.queue.0.look_ahead(FETCHED_AHEAD, |event, step| match event {
                Event::Network(event) => network.fetch(event, step),
                Event::Make(node) if step == 1 => network.fetch_source(rails.endpoint(*node, 0)),
                Event::Make(_) => {}
            });
            let Some((now, event)) = self.queue.0.take_by(last) else { return };
            match event {
                Event::Network(event) => {
                    if !event.is_wake() {
                        self.counts.last = now;
                    }
                    self.network.handle(now, event, &mut self.queue);
                    self.take_arrivals();
                    if self.network.deadlock().is_some() {
                        return;
                    }
                }
                Event::Make(node) => self.make(now, node),
            }
        }
    }

    fn make(&mut self, now: Time, from: u32) {
        let traffic = self.plan.traffic;
        if now >= self.plan.until {
            return;
        }
        self.counts.events += 1;
        self.counts.last = now;
        let measured = now >= traffic.warm_up;
        let number = self.made[(from - self.first_node) as usize];
        let mut random = self.draws(from);
        let rails = self.plan.rails;
        let waiting: u32 = rails.of_node(from).map(|endpoint| self.network.waiting_at_source(endpoint)).sum();
        if waiting + self.plan.packets > traffic.source_packets_max.saturating_mul(rails.count()) {
            self.counts.not_made += u64::from(measured);
        } else {
            let to = self.plan.destinations.target(from, &mut random);
            let message = u64::from(from) << 32 | u64::from(number);
            let choice = self.plan.rail_choice;
            let turn = number.wrapping_mul(choice.turns(self.plan.packets));
            let first = choice.first((from, to), turn, rails.count());
            let ends = |rail| (rails.endpoint(from, rail), rails.endpoint(to, rail));
            // A message under congestion control has one rail.
            self.network.expect(now, ends(first), traffic.message_bytes.into(), &mut self.queue);
            for (packet, bytes) in (0..).zip(cut(traffic.message_bytes, self.network.config().link.packet_bytes)) {
                let (from, to) = ends(choice.of_packet(first, packet, rails.count()));
                if measured {
                    self.counts.begun += 1;
                    self.counts.offered_flits += u64::from(self.network.flits(bytes));
                }
                let packet =
                    Packet { from, to, bytes, message, last: packet + 1 == self.plan.packets, header: Header::PLAIN };
                self.network.inject(now, packet, &mut self.queue);
                self.counts.injected += 1;
            }
        }
        self.make_after(now, from, &mut random);
    }

    /// Counts the packets that have arrived.
    pub fn take_arrivals(&mut self) {
        while let Some(arrival) = self.network.take_arrival() {
            self.arrived(arrival);
        }
    }

    fn arrived(&mut self, arrival: Arrival) {
        let (injected, at) = match &arrival {
            Arrival::Delivered(delivery) => (delivery.injected, delivery.at),
            Arrival::Lost(loss) => (loss.injected, loss.at),
        };
        let interval = self.plan.traffic.warm_up..self.plan.until;
        let measured = interval.contains(&injected);
        let counts = &mut self.counts;
        counts.ended += u64::from(measured);
        match arrival {
            Arrival::Delivered(delivery) => {
                counts.delivered += 1;
                if interval.contains(&at) {
                    counts.accepted_flits += u64::from(self.network.flits(delivery.packet.bytes));
                    counts.undisturbed += u64::from(!delivery.recovered);
                }
                if measured {
                    let latency = at - injected;
                    // The histogram resizes itself, so it accepts every value.
                    let _ = counts.latency.record(latency.as_ps().max(1));
                    counts.latency_sum_ps += u128::from(latency.as_ps());
                    counts.hops += u64::from(delivery.hops);
                    counts.packets += 1;
                }
            }
            Arrival::Lost(loss) => {
                *counts.lost_in_all.entry(loss.why).or_default() += 1;
                if measured {
                    *counts.lost.entry(loss.why).or_default() += 1;
                }
            }
        }
    }
}
