// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Synthetic traffic on a network alone: throughput, latency, blocking and deadlocks.
//!
//! Every node generates messages at random times, independent of all others (exponential gaps), cuts them into packets
//! and injects them. The load is the share of the injection channel's time that the packets take, with overhead: at 1
//! every node sends without a pause. After a warm-up, traffic is measured for an interval. Then no new message is
//! generated, and the run waits for the messages of the interval.
//!
//! A node whose source queue is full generates no message until the queue has room, so that an overloaded network does
//! not exhaust memory. A message that was not generated does not count as offered. Latency starts at generation.
//!
//! Links may fail and be repaired during a run, and routers' managers then change the routes. Invariant: each injected packet is delivered, lost for one reason, or
//! in flight at the end ([`Totals`]).
//!
//! Costs: those of the network, and one event for each message and each change of a link. `study` repeats the study of
//! seed 002, figures 2-20 to 2-22.

mod pattern;
mod results;
pub mod study;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use hdrhistogram::Histogram;
use selvedge_fabric::{NodeId, Routing, Topology};
use thiserror::Error;

pub use pattern::{Destinations, Pattern, PatternError};
pub use results::{BusyChannel, CycleMember, Latency, Stop, Totals, TrafficResults};

use crate::congestion::Header;
use crate::network::{
    Arrival, Counted, FETCHED_AHEAD, LossReason, Network, NetworkConfig, NetworkError, NetworkEvent, NetworkStatistics,
    Observe, Packet, Reroute, Schedule,
};
use crate::node::Fault;
use crate::queue::Queue;
use crate::random::Random;
use crate::rerouting::{RerouteConfig, RerouteError, Rerouter};
use crate::time::Time;

/// The traffic of the nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficConfig {
    pub pattern: Pattern,
    /// Load: the share of the injection channels' time, above 0 and at most 1.
    pub load: f64,
    /// Payload of each message.
    pub message_bytes: u32,
    pub warm_up: Time,
    pub measured: Time,
    /// Longest wait for the messages of the interval after its end.
    pub drain_max: Time,
    /// Most packets in a node's source queue; a node with more generates no message.
    pub source_packets_max: u32,
    pub seed: u64,
    /// Failures and repairs of channels, in order of time.
    pub faults: Vec<Fault>,
    /// Managers that reroute; `None`: routes stay as they are.
    pub rerouting: Option<RerouteConfig>,
}

impl Default for TrafficConfig {
    fn default() -> TrafficConfig {
        TrafficConfig {
            pattern: Pattern::Uniform,
            load: 0.3,
            message_bytes: 256,
            warm_up: Time::from_ns(50_000),
            measured: Time::from_ns(200_000),
            drain_max: Time::from_ns(1_000_000),
            source_packets_max: 256,
            seed: 1,
            faults: Vec::new(),
            rerouting: None,
        }
    }
}

/// Reason why traffic cannot be generated. Each message names the remedy.
#[derive(Debug, Error, Clone, PartialEq)]
pub enum TrafficError {
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error(transparent)]
    Network(#[from] NetworkError),
    #[error(transparent)]
    Reroute(#[from] RerouteError),
    #[error("a load of {load} is not a share of the injection bandwidth; give more than 0, and at most 1")]
    Load { load: f64 },
    #[error("nothing is measured in an interval of {measured}; give a longer one")]
    Interval { measured: Time },
    #[error("a node may hold {limit} packets, but a message has {packets}; raise the limit, or make messages shorter")]
    Source { limit: u32, packets: u32 },
    #[error("an observer of the run has failed: {why}; give it a folder with room")]
    Observer { why: String },
}

/// The progress of a run.
#[derive(Clone, Copy)]
pub struct Progress<'a> {
    pub now: Time,
    /// End of the measured interval, after which no message is generated.
    pub until: Time,
    pub hops: u64,
    pub in_flight: u64,
    pub network: &'a dyn Counted,
}

/// Runs traffic. `progress` is called from time to time, and at the end; if it breaks, the run ends, with the results so
/// far.
pub fn run(
    topology: Arc<Topology>,
    routing: Routing,
    network: NetworkConfig,
    traffic: &TrafficConfig,
    progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<TrafficResults, TrafficError> {
    run_observed(topology, routing, network, traffic, Vec::new(), progress)
}

/// Like [`run`], with observers of the network. The results are the same.
pub fn run_observed(
    topology: Arc<Topology>,
    routing: Routing,
    network: NetworkConfig,
    traffic: &TrafficConfig,
    observers: Vec<Box<dyn Observe>>,
    progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<TrafficResults, TrafficError> {
    let rerouting = traffic.rerouting.clone();
    let rerouter = rerouting.map(|config| Rerouter::new(&topology, &routing, &network, config)).transpose()?;
    let mut network = Network::new(topology, routing, network)?;
    if rerouter.is_some() {
        network.allow_rerouting();
    }
    observers.into_iter().for_each(|observer| network.observe(observer));
    let mut generator = Generator::new(network, traffic)?;
    generator.rerouter = rerouter.map(Box::new);
    let stop = generator.run(progress);
    let now = generator.queue.0.now();
    if stop != Some(Stop::Interrupted) {
        let _ = progress(generator.progress(now));
    }
    let observed = generator.network.end_observation(now);
    observed.map_err(|error| TrafficError::Observer { why: error.to_string() })?;
    Ok(generator.results(stop))
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Network(NetworkEvent),
    /// A node generates its next message.
    Make(u32),
    /// The fault with this index in the configuration happens.
    Fault(u32),
    /// The routers' managers have something to do.
    Manage,
}

struct Events(Queue<Event>);

impl Schedule for Events {
    #[inline]
    fn schedule(&mut self, at: Time, event: NetworkEvent) {
        self.0.schedule(at, Event::Network(event));
    }
}

#[derive(Clone, Debug, Default)]
struct Snapshot {
    at: Time,
    statistics: NetworkStatistics,
    flits: Vec<u64>,
}

/// Events between two reports of progress.
const PROGRESS_EVENTS: u64 = 1 << 14;

struct Generator<'a> {
    traffic: &'a TrafficConfig,
    network: Network,
    rerouter: Option<Box<Rerouter>>,
    destinations: Destinations,
    queue: Events,
    random: Random,
    gap_mean_ps: f64,
    packets: u32,
    messages: u64,
    until: Time,
    /// Packets generated in the interval that are still in flight.
    outstanding: u64,
    latency: Histogram<u64>,
    latency_sum_ns: f64,
    hops: u64,
    packets_measured: u64,
    lost: BTreeMap<LossReason, u64>,
    totals: Totals,
    offered_flits: u64,
    accepted_flits: u64,
    /// Packets that arrived in the interval and were not taken out of a deadlock.
    undisturbed: u64,
    not_made: u64,
    begin: Option<Snapshot>,
    end: Option<Snapshot>,
}

impl<'a> Generator<'a> {
    fn new(network: Network, traffic: &'a TrafficConfig) -> Result<Generator<'a>, TrafficError> {
        if !(traffic.load > 0.0 && traffic.load <= 1.0) {
            return Err(TrafficError::Load { load: traffic.load });
        }
        if traffic.measured == Time::ZERO {
            return Err(TrafficError::Interval { measured: traffic.measured });
        }
        let packet_bytes = network.config().link.packet_bytes;
        let packets = traffic.message_bytes.div_ceil(packet_bytes).max(1);
        if traffic.source_packets_max < packets {
            return Err(TrafficError::Source { limit: traffic.source_packets_max, packets });
        }
        let destinations = Destinations::new(traffic.pattern, network.topology())?;
        let busy: Time = cut(traffic.message_bytes, packet_bytes).map(|bytes| network.injection_time(bytes)).sum();
        let gap_mean_ps = busy.as_ps() as f64 / traffic.load;
        let mut random = Random::new(traffic.seed, u64::from_le_bytes(*b"traffic\0"));
        let mut queue = Events(Queue::new());
        // Faults after the end of the run would only delay it.
        let end = traffic.warm_up + traffic.measured + traffic.drain_max;
        for (number, fault) in traffic.faults.iter().enumerate().filter(|(_, fault)| fault.at <= end) {
            queue.0.schedule(fault.at, Event::Fault(number as u32));
        }
        for node in (0..network.topology().nodes()).filter(|&node| destinations.sends(NodeId(node))) {
            queue.0.schedule(Time(random.exponential(gap_mean_ps) as u64), Event::Make(node));
        }
        let latency = Histogram::new(3).expect("a histogram may have three significant digits");
        Ok(Generator {
            traffic,
            network,
            rerouter: None,
            destinations,
            queue,
            random,
            gap_mean_ps,
            packets,
            messages: 0,
            until: traffic.warm_up + traffic.measured,
            outstanding: 0,
            latency,
            latency_sum_ns: 0.0,
            hops: 0,
            packets_measured: 0,
            lost: BTreeMap::new(),
            totals: Totals::default(),
            offered_flits: 0,
            accepted_flits: 0,
            undisturbed: 0,
            not_made: 0,
            begin: None,
            end: None,
        })
    }

    fn run(&mut self, progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>) -> Option<Stop> {
        let drained = self.until + self.traffic.drain_max;
        while let Some((now, event)) = self.take() {
            if now >= self.traffic.warm_up && self.begin.is_none() {
                self.begin = Some(self.snapshot(self.traffic.warm_up));
            }
            if now >= self.until && self.end.is_none() {
                self.end = Some(self.snapshot(self.until));
            }
            if now > drained {
                return Some(Stop::NotDrained);
            }
            match event {
                Event::Network(event) => {
                    self.network.handle(now, event, &mut self.queue);
                    self.take_arrivals();
                    if self.network.deadlock().is_some() {
                        return Some(Stop::Deadlock);
                    }
                    if self.outstanding == 0 && self.end.is_some() {
                        return None;
                    }
                }
                Event::Make(node) => self.make(now, NodeId(node)),
                Event::Fault(_) | Event::Manage if self.outstanding == 0 && self.end.is_some() => return None,
                Event::Fault(number) => self.change_link(now, number),
                Event::Manage => self.manage(now, None),
            }
            let is_due = self.queue.0.taken() & (PROGRESS_EVENTS - 1) == 0;
            if is_due && progress(self.progress(now)).is_break() {
                return Some(Stop::Interrupted);
            }
        }
        None
    }

    /// Takes the next event, and fetches the state of later ones.
    #[inline]
    fn take(&mut self) -> Option<(Time, Event)> {
        let network = &self.network;
        self.queue.0.look_ahead(FETCHED_AHEAD, |event, step| match event {
            Event::Network(event) => network.fetch(event, step),
            Event::Make(node) if step == 1 => network.fetch_source(NodeId(*node)),
            Event::Make(_) | Event::Fault(_) | Event::Manage => {}
        });
        self.queue.0.take()
    }

    fn progress(&self, now: Time) -> Progress<'_> {
        let (hops, in_flight) = (self.network.statistics().hops, self.network.in_flight());
        Progress { now, until: self.until, hops, in_flight, network: &self.network }
    }

    fn change_link(&mut self, now: Time, number: u32) {
        let Fault { channel, up, .. } = self.traffic.faults[number as usize];
        match up {
            true => self.network.repair_link(now, channel, &mut self.queue),
            false => self.network.fail_link(now, channel, &mut self.queue),
        }
        self.totals.link_changes += 1;
        self.manage(now, Some((channel, up)));
        self.take_arrivals();
    }

    /// Lets the routers' managers work, after a change of a channel or at their time.
    fn manage(&mut self, now: Time, change: Option<(u32, bool)>) {
        let Some(rerouter) = &mut self.rerouter else { return };
        match change {
            Some(change) => rerouter.change(now, change, &mut self.network, &mut self.queue),
            None => rerouter.step(now, &mut self.network, &mut self.queue),
        }
        if let Some(at) = rerouter.take_due() {
            self.queue.0.schedule(at, Event::Manage);
        }
    }

    fn make(&mut self, now: Time, from: NodeId) {
        if now >= self.until {
            return;
        }
        let measured = now >= self.traffic.warm_up;
        if self.network.waiting_at_source(from) + self.packets > self.traffic.source_packets_max {
            self.not_made += u64::from(measured);
        } else {
            let to = self.destinations.next(from, &mut self.random);
            self.network.expect(now, (from, to), self.traffic.message_bytes.into(), &mut self.queue);
            let mut left = self.packets;
            for bytes in cut(self.traffic.message_bytes, self.network.config().link.packet_bytes) {
                left -= 1;
                if measured {
                    self.outstanding += 1;
                    self.offered_flits += u64::from(self.network.flits(bytes));
                }
                let packet = Packet { from, to, bytes, message: self.messages, last: left == 0, header: Header::PLAIN };
                self.network.inject(now, packet, &mut self.queue);
                self.totals.injected += 1;
            }
            self.messages += 1;
        }
        let gap = Time(self.random.exponential(self.gap_mean_ps) as u64);
        self.queue.0.schedule(now + gap, Event::Make(from.0));
    }

    fn take_arrivals(&mut self) {
        while let Some(arrival) = self.network.take_arrival() {
            self.arrived(arrival);
        }
    }

    fn arrived(&mut self, arrival: Arrival) {
        let (injected, at) = match &arrival {
            Arrival::Delivered(delivery) => (delivery.injected, delivery.at),
            Arrival::Lost(loss) => (loss.injected, loss.at),
        };
        let interval = self.traffic.warm_up..self.until;
        let measured = interval.contains(&injected);
        self.outstanding -= u64::from(measured);
        match arrival {
            Arrival::Delivered(delivery) => {
                self.totals.delivered += 1;
                if interval.contains(&at) {
                    self.accepted_flits += u64::from(self.network.flits(delivery.packet.bytes));
                    self.undisturbed += u64::from(!delivery.recovered);
                }
                if measured {
                    let latency = at - injected;
                    // The histogram resizes itself, so it accepts every value.
                    let _ = self.latency.record(latency.as_ps().max(1));
                    self.latency_sum_ns += latency.as_ns_f64();
                    self.hops += u64::from(delivery.hops);
                    self.packets_measured += 1;
                }
            }
            Arrival::Lost(loss) => {
                *self.totals.lost.entry(loss.why).or_default() += 1;
                if measured {
                    *self.lost.entry(loss.why).or_default() += 1;
                }
            }
        }
    }

    fn snapshot(&self, at: Time) -> Snapshot {
        let channels = 0..self.network.topology().channels();
        Snapshot {
            at,
            statistics: self.network.statistics().clone(),
            flits: channels.map(|channel| self.network.channel_statistics(channel).flits).collect(),
        }
    }
}

/// Returns the payload of each packet of a message.
fn cut(message_bytes: u32, packet_bytes: u32) -> impl Iterator<Item = u32> {
    let packets = message_bytes.div_ceil(packet_bytes).max(1);
    (0..packets).map(move |packet| (message_bytes - packet * packet_bytes).min(packet_bytes))
}

#[cfg(test)]
#[path = "traffic_tests.rs"]
mod tests;
