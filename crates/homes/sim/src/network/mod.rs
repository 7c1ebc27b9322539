// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fabric in virtual time, packet by packet: buffers, virtual channels, credits, arbitration.
//!
//! # Model
//!
//! A router has a buffer for each virtual channel of each input, and a crossbar that passes one packet from each buffer
//! at once. The first packet of a buffer asks the routing for an output virtual channel. If several packets wait for
//! one virtual channel, arbitration allocates it to one of them; this packet keeps it until its tail has left. If
//! several virtual channels of a link can send, arbitration takes turns. A credit is room for one flit in the next
//! buffer. Credits travel back with the latency of the link; the credits of one packet (cut-through) travel together. A
//! node accepts every packet at once.
//!
//! - *Cut-through*: a packet moves as a whole. It starts when the next buffer has room for all of it.
//! - *Wormhole*: flits move one by one, and virtual channels of a link alternate flit by flit. A blocked packet
//!   occupies all the buffers that it extends over.
//!
//! A head that is sent at `t` may leave the next router at `t + link latency + switch latency`. A flit ends on a
//! channel no earlier than one flit time after it began there, and no earlier than it ended on the previous channel
//! plus those two latencies. So a packet of L flits that crosses h routers of an empty network takes
//! `2 * node latency + (h - 1) * link latency + h * switch latency + L * flit time`, with the flit time of the slowest
//! channel on the route ([`Network::latency_empty`]).
//!
//! `edges.rs`: congestion control. `multicast.rs`: packets to many nodes, which switches copy. `observe.rs`: observers of
//! each step. `speed_up.rs`: switches with output buffers. `speeds.rs`: channels of different speeds. `adaptive.rs`: the
//! queues that adaptive routings see. `control.rs`: flow control by STOP and CONTINUE in place of credits.
//!
//! A fabric may be divided into partitions, one network each (`partition.rs`, `border.rs`).
//!
//! `message.rs` is the other model of a fabric: each message crosses as a whole, without events on the way.
//!
//! A head is blocked while it waits for its output. A deadlock is found at the time at which its cycle closes
//! (`deadlock.rs`). Faults are in `faults.rs`. Terms and measured quantities are those of SWORDFISH (seed 002,
//! section 2.7).
//!
//! # Invariants
//!
//! 1. Each injected packet gives exactly one [`Arrival`], delivered or lost; a packet to many nodes one for each.
//! 2. Credits of an output + credits on their way back + flits that its buffer holds or will hold = the buffer's size.
//! 3. A virtual channel is allocated to one packet at a time; a channel carries one flit at a time.
//! 4. Packets of one node leave in the order in which they were injected; packets on the same route stay in order.
//! 5. Two runs with the same calls and the same seed are equal, to the picosecond.
//! 6. A router acts only on packets and credits that have arrived, never on those on their way.
//!
//! # Costs
//!
//! One event for each packet and hop where nothing blocks (cut-through; for each flit and hop in a wormhole network),
//! up to three where a packet is blocked. Each event costs O(routing) + O(packets that wait for the same link). Nothing
//! is allocated once the number of packets in flight has reached its maximum. Bytes: `state.rs`.

mod adaptive;
mod border;
mod buffers;
mod config;
mod control;
mod deadlock;
mod edges;
mod engine;
mod event;
mod faults;
mod fetch;
mod latency;
mod message;
mod multicast;
mod networks;
mod observe;
mod packet;
mod partition;
mod rails;
mod routes;
mod serve;
mod slab;
mod speed_up;
mod speeds;
mod state;
mod statistics;
mod trees;

use std::collections::VecDeque;
use std::sync::Arc;

use selvedge_fabric::{Algorithm, NodeId, RouteState, RouterId, Routing, Topology};

pub(crate) use border::Parcel;
pub use border::Undivided;
pub use config::{
    Arbitration, DeadlockPolicy, ErrorRates, FlowControl, LinkConfig, LinkSpeed, NetworkConfig, NetworkError,
    RetransmissionConfig, SpeedUp, SwitchConfig, Switching,
};
pub use deadlock::{Deadlock, Stuck};
pub use event::{NetworkEvent, Schedule};
pub(crate) use faults::set_link;
pub(crate) use fetch::FETCHED_AHEAD;
pub use message::{ArrivalTimes, Departure, MessageNetwork};
pub(crate) use networks::Networks;
pub use observe::{Attempt, Observe, Transmission};
pub use packet::{Arrival, Delivery, HopSpan, Loss, LossReason, Packet};
pub(crate) use partition::Partition;
pub use rails::RailChoice;
pub use routes::{LinkPorts, Losses, Plan, Reroute, Whole, host_of, router_of};
pub use speeds::Speed;
pub(crate) use statistics::ratio;
pub use statistics::{ChannelStatistics, NetworkStatistics};

use crate::random::Random;
use crate::time::Time;
use adaptive::PastQueues;
use border::{Border, SentCredits, SentPacket};
use buffers::Buffers;
use edges::Edges;
use event::Event;
use latency::EmptyNetwork;
use observe::Observers;
use partition::Layout;
use routes::Rerouted;
use slab::NONE;
use state::{Cast, Fate, Flight, Releases, Reliability, State};
use trees::Branch;

/// The fabric of one machine.
///
/// [`Network::inject`] and [`Network::handle`] schedule events in the caller's queue. The caller passes each event to
/// `handle` at its time, in order. After each `handle`, [`Network::take_arrival`] returns the packets that arrived or
/// were lost at that time.
#[derive(Debug)]
pub struct Network {
    topology: Arc<Topology>,
    routing: Arc<Routing>,
    config: NetworkConfig,
    buffers: Buffers,
    /// Of a partition of a fabric.
    border: Option<Border>,
    /// For UGAL-G only.
    past: Option<PastQueues>,
    reliability: Vec<Reliability>,
    sources: Vec<Source>,
    /// Nodes whose notification is due ([`Network::notify_when_taken`]).
    notified: Vec<NodeId>,
    branches: Vec<Branch>,
    /// `None`: no congestion control.
    edges: Option<Box<Edges>>,
    mark_flits: Option<u32>,
    arrivals: VecDeque<Arrival>,
    /// Picoseconds by which a minimal route's queue may exceed that of a detour.
    detour_bias: u64,
    /// Whether the retransmission window can stop a link; otherwise acknowledgements are not kept.
    window_limits: bool,
    errors: bool,
    /// Error rates of each channel; empty: those of the configuration.
    channel_errors: Vec<ErrorRates>,
    /// Outputs whose owner has become stuck, to be checked for a deadlock.
    suspects: Vec<u32>,
    deadlock: Option<Deadlock>,
    /// Routes that change during the run; `None`: all packets follow `routing`.
    rerouted: Option<Box<Rerouted>>,
    statistics: NetworkStatistics,
    spans: Vec<HopSpan>,
    observers: Observers,
    /// It has observers, or links with STOP and CONTINUE.
    is_watched: bool,
    /// Its routing may deadlock.
    may_deadlock: bool,
}

/// A node's source queue.
#[derive(Clone, Copy, Debug, Default)]
struct Source {
    /// Packets that have not begun to leave.
    waiting: u32,
    /// Packets that have got a route: those injected, and control packets, without those to many nodes.
    routed: u32,
    /// The node asks for a notification when its next packet begins to leave.
    notify: bool,
}

/// Access to the statistics of a fabric, in either model.
pub trait Counted {
    fn topology(&self) -> &Topology;
    fn statistics(&self) -> &NetworkStatistics;
    fn channel_statistics(&self, channel: u32) -> ChannelStatistics;
}

impl Counted for Network {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn statistics(&self) -> &NetworkStatistics {
        &self.statistics
    }

    fn channel_statistics(&self, channel: u32) -> ChannelStatistics {
        self.channel_statistics(channel)
    }
}

impl Network {
    pub fn new(topology: Arc<Topology>, routing: Routing, config: NetworkConfig) -> Result<Network, NetworkError> {
        let whole = Partition::whole(&topology);
        let mut networks = Network::divided(topology, Arc::new(routing), &config, vec![whole])?;
        Ok(networks.remove(0))
    }

    /// Makes the networks of all partitions of a fabric. The caller divides no fabric that is
    /// [undivided](NetworkConfig::undivided).
    pub(crate) fn divided(
        topology: Arc<Topology>,
        routing: Arc<Routing>,
        config: &NetworkConfig,
        partitions: Vec<Partition>,
    ) -> Result<Vec<Network>, NetworkError> {
        config.check(&topology, &routing)?;
        let have = config.link.virtual_channels;
        let channels = topology.channels();
        let virtual_channels = u32::from(have);
        let too_large = NetworkError::TooLarge { channels, virtual_channels: have };
        let stages = config.switch.speed_up.map_or(0, |_| channels - topology.nodes());
        let all = channels.checked_add(stages).ok_or(too_large.clone())?;
        let sources = all.checked_mul(virtual_channels).ok_or(too_large.clone())?;
        if sources.checked_add(topology.nodes()).is_none_or(|all| all == NONE) {
            return Err(too_large);
        }
        let layouts: Vec<Layout> = partitions.into_iter().map(|partition| Layout::new(&topology, partition)).collect();
        let borders = border::borders(&layouts, config.link.virtual_channels.into());
        let parts = layouts.into_iter().zip(borders);
        Ok(parts.map(|(layout, border)| Network::part(&topology, &routing, config, layout, border)).collect())
    }

    fn part(
        topology: &Arc<Topology>,
        routing: &Arc<Routing>,
        config: &NetworkConfig,
        layout: Layout,
        border: Option<Border>,
    ) -> Network {
        let (channels, nodes) = (layout.channels(), layout.partition.nodes.len());
        let stages = config.switch.speed_up.map_or(0, |_| layout.outputs());
        let sources = (channels + stages) * u32::from(config.link.virtual_channels);
        let window = config.retransmission.as_ref().map_or(0, |retransmission| retransmission.window_flits);
        let sound = Reliability { down_since: Time::MAX, window, acknowledgements: Releases::EMPTY };
        Network {
            past: (routing.algorithm() == Algorithm::UgalGlobal).then(|| PastQueues::new(channels, config)),
            buffers: Buffers::new(topology, layout, config, sources),
            border,
            reliability: vec![sound; channels as usize],
            sources: vec![Source::default(); nodes],
            notified: Vec::new(),
            branches: Vec::new(),
            edges: Edges::new(config, topology.nodes()),
            mark_flits: Edges::mark_flits(config),
            arrivals: VecDeque::new(),
            detour_bias: config.flit_time().0 * u64::from(config.detour_bias_flits),
            window_limits: config.window_limits(topology),
            errors: config.errors != ErrorRates::NONE,
            channel_errors: Vec::new(),
            suspects: Vec::new(),
            deadlock: None,
            rerouted: None,
            statistics: NetworkStatistics::default(),
            spans: Vec::new(),
            observers: Observers::default(),
            is_watched: config.flow_control != FlowControl::Credits,
            may_deadlock: !routing.deadlock_free(),
            topology: topology.clone(),
            routing: routing.clone(),
            config: config.clone(),
        }
    }

    /// Appends a packet to the source queue of its node. Packets of one node leave in order; the queue has no limit. With
    /// congestion control the packet waits in its flow first, and only packets of one flow leave in order.
    ///
    /// # Panics
    /// On bugs of the caller: an unknown node, a packet for its own node, or a payload longer than `packet_bytes`.
    pub fn inject(&mut self, now: Time, packet: Packet, queue: &mut impl Schedule) {
        let nodes = self.topology.nodes();
        assert!(packet.from.0 < nodes && packet.to.0 < nodes, "{packet:?} in a network of {nodes} nodes");
        assert!(packet.from != packet.to, "{packet:?} is for its own node");
        assert!(packet.bytes <= self.config.link.packet_bytes, "{packet:?} is too long");
        self.statistics.injected += 1;
        if self.is_watched {
            self.observers.tell(|observer| observer.injected(now, &packet));
        }
        if self.edges.is_some() {
            return edges::hold(self, now, packet, queue);
        }
        let route = self.start(packet.from, packet.to);
        self.put_in_source(now, (packet, now), route, (Cast::One, NONE), queue);
    }

    /// Announces that a node will inject packets for another one, with `bytes` of payload together, all but the last one
    /// full. A receiver that hands out credits can then do so before the packets are there.
    pub fn expect(&mut self, now: Time, pair: (NodeId, NodeId), bytes: u64, queue: &mut impl Schedule) {
        if self.edges.is_some() && pair.0 != pair.1 {
            edges::expect(self, now, pair, bytes, queue);
        }
    }

    /// Whether a node may inject a packet for another one: none for it waits for congestion control, or without control
    /// no more than `ahead` packets of the node wait.
    #[inline]
    pub fn may_inject(&self, from: NodeId, to: NodeId, ahead: u32) -> bool {
        match &self.edges {
            Some(edges) if from != to => edges.has_room(from, to),
            _ => self.source(from).waiting <= ahead,
        }
    }

    fn source(&self, node: NodeId) -> &Source {
        &self.sources[(self.buffers.source(node) - self.buffers.sources) as usize]
    }

    fn source_mut(&mut self, node: NodeId) -> &mut Source {
        &mut self.sources[(self.buffers.source(node) - self.buffers.sources) as usize]
    }

    /// Returns the route with which a packet begins.
    #[inline]
    fn start(&mut self, from: NodeId, to: NodeId) -> RouteState {
        let source = self.source_mut(from);
        let number = source.routed;
        source.routed = number.wrapping_add(1);
        let part = u64::from_le_bytes(*b"network\0");
        let mut random = Random::of_source(self.config.seed, part, from.0, number);
        self.routing.start(&self.topology, from, to, random.next_u64())
    }

    /// Appends a packet, injected at a time, to its source queue. `output`: the first branch of a packet to many nodes.
    #[inline]
    fn put_in_source(
        &mut self,
        now: Time,
        (packet, injected): (Packet, Time),
        route: RouteState,
        (cast, output): (Cast, u32),
        queue: &mut impl Schedule,
    ) {
        let (flits, missing) = (self.config.flits(packet.bytes), self.config.missing(packet.bytes));
        let (head, hops, fate) = (now, 0, Fate::Intact);
        let flight = Flight { packet, route, injected, head, flits, missing, output, hops, fate, cast };
        let flight = self.buffers.flights.insert(flight);
        let buffer = self.buffers.source(packet.from);
        self.source_mut(packet.from).waiting += 1;
        let resident = self.buffers.enter(flight, buffer, flits, flits, now, now);
        let busy_until = self.buffers.vcs[buffer as usize].busy_until;
        if self.buffers.vcs[buffer as usize].front != resident {
            self.buffers.residents[resident].state = State::Queued;
        } else if busy_until > now {
            self.schedule_ready(resident, busy_until, queue);
        } else {
            self.ask(now, resident, queue);
            self.resolve(now, queue);
        }
    }

    /// Handles one of the network's events at its time.
    #[inline]
    pub fn handle(&mut self, now: Time, event: NetworkEvent, queue: &mut impl Schedule) {
        self.statistics.events += u64::from(!event.is_wake());
        match event.0 {
            Event::Ready { resident, generation } => self.on_ready(now, resident, generation, queue),
            Event::Flit { resident, duration_ps } => self.on_flit(now, resident, duration_ps, queue),
            Event::Wake { channel } => self.on_wake(now, channel, queue),
            Event::Arrive { packet } => self.on_arrive(now, packet, queue),
            Event::Lose { packet } => self.on_lose(now, packet, queue),
            Event::Edge { node } => edges::on_timer(self, now, node),
            Event::TimeOut { packet } => edges::on_time_out(self, now, packet),
            Event::Expire { resident, generation } => self.on_expire(now, resident, generation, queue),
        }
        if !self.suspects.is_empty() {
            self.resolve(now, queue);
        }
        if self.edges.is_some() {
            edges::settle(self, now, queue);
        }
    }

    /// Fetches the state of a coming event into the cache, in [`FETCHED_AHEAD`] steps.
    #[inline]
    pub(crate) fn fetch(&self, event: &NetworkEvent, step: usize) {
        self.buffers.fetch(event, step);
        if step == FETCHED_AHEAD.len() - 1 {
            self.buffers.fetch_output(self.likely_output(event));
        }
    }

    /// Fetches the state of a node that is about to inject a packet.
    #[inline]
    pub(crate) fn fetch_source(&self, node: NodeId) {
        self.buffers.fetch_source(node);
    }

    /// Returns the number of the message whose packet an event delivers.
    #[inline]
    pub(crate) fn delivered_by(&self, event: &NetworkEvent) -> Option<u64> {
        self.buffers.delivered_by(event)
    }

    /// Takes the next packet delivered or lost, in order of time. Call after each [`Network::handle`] until `None`.
    #[inline]
    pub fn take_arrival(&mut self) -> Option<Arrival> {
        self.arrivals.pop_front()
    }

    /// Frees a packet's room in its node's buffer at `at`, so its sender gets the room back. Each delivered packet is
    /// given back once. No effect without [`NetworkConfig::node_buffer_flits`].
    pub fn give_back(&mut self, at: Time, delivery: &Delivery, queue: &mut impl Schedule) {
        if self.config.node_buffer_flits.is_some() && delivery.output != NONE {
            let flits = self.config.flits(delivery.packet.bytes);
            let channel = self.buffers.vcs[delivery.output as usize].channel;
            let latency = self.buffers.links[channel as usize].latency;
            self.release(delivery.output, at + latency, flits, queue);
        }
    }

    /// Exchanges what has been sent to a partition with an empty parcel.
    pub(crate) fn exchange_parcel(&mut self, partition: usize, empty: &mut Parcel) {
        if let Some(border) = &mut self.border {
            border.exchange(partition, empty);
        }
    }

    /// Takes what another partition has sent, and leaves the parcel empty.
    pub(crate) fn accept(&mut self, parcel: &mut Parcel, queue: &mut impl Schedule) {
        parcel.earliest = Time::MAX;
        for SentPacket { flight, at, end, buffer } in parcel.packets.drain(..) {
            let flits = flight.flits;
            let packet = self.buffers.flights.insert(flight);
            let resident = self.buffers.enter(packet, buffer, flits, flits, at, end);
            self.schedule_ready(resident, at, queue);
        }
        for SentCredits { at, output, flits } in parcel.credits.drain(..) {
            self.credit(output, at, flits, queue);
        }
    }

    pub fn statistics(&self) -> &NetworkStatistics {
        &self.statistics
    }

    /// Returns the statistics of a channel of the fabric. Of a channel in two partitions each counts a part.
    pub fn channel_statistics(&self, channel: u32) -> ChannelStatistics {
        let own = self.buffers.layout().local(channel);
        own.map_or(ChannelStatistics::default(), |own| self.buffers.links[own as usize].statistics)
    }

    /// Returns the packets that were injected and are neither delivered nor lost, including those in source queues and
    /// flows.
    pub fn in_flight(&self) -> u64 {
        let flights = self.buffers.flights.in_use() as u64;
        self.edges.as_ref().map_or(flights, |edges| edges.beside(flights))
    }

    /// Returns the packets of a node that have not begun to leave.
    pub fn waiting_at_source(&self, node: NodeId) -> u32 {
        self.source(node).waiting + self.edges.as_ref().map_or(0, |edges| edges.held_at(node))
    }

    /// Asks for one [`Network::take_notification`] when the next packet begins to leave a node's source queue or flows.
    pub fn notify_when_taken(&mut self, node: NodeId) {
        self.source_mut(node).notify = true;
    }

    /// Whether nodes have congestion control.
    #[inline]
    pub fn is_controlled(&self) -> bool {
        self.edges.is_some()
    }

    /// Takes back the request of a node, under congestion control only. Returns whether there was one.
    #[inline]
    pub fn take_request(&mut self, node: NodeId) -> bool {
        self.edges.is_some() && std::mem::take(&mut self.source_mut(node).notify)
    }

    /// Takes a node that asked for a notification and whose next packet has begun to leave.
    #[inline]
    pub fn take_notification(&mut self) -> Option<NodeId> {
        self.notified.pop()
    }

    /// Returns the time at which a node's injection channel is free.
    pub fn injection_free_at(&self, node: NodeId) -> Time {
        self.buffers.links[self.buffers.injection(node) as usize].free_at
    }

    /// Returns the flits of a packet with `bytes` of payload.
    pub fn flits(&self, bytes: u32) -> u32 {
        self.config.flits(bytes)
    }

    /// Returns the time for which a packet with `bytes` of payload occupies the injection channel of its node.
    pub fn injection_time(&self, node: NodeId, bytes: u32) -> Time {
        self.config.packet_time(self.buffers.links[self.buffers.injection(node) as usize].flit_time, bytes)
    }

    /// Returns the time for which a flit occupies a channel of the fabric.
    pub fn flit_time(&self, channel: u32) -> Time {
        self.config.speed_of(&self.topology, channel).flit_time
    }

    /// Returns the channels between routers, ascending.
    pub fn channels_between_routers(&self) -> Vec<u32> {
        let routers = (0..self.topology.routers()).map(RouterId);
        let links = |router| self.topology.neighbours(router).map(move |(port, _)| self.topology.channel(router, port));
        routers.flat_map(links).collect()
    }

    /// Takes the times of each packet on each channel since the last call. Empty unless the configuration has `trace`.
    pub fn take_spans(&mut self) -> Vec<HopSpan> {
        std::mem::take(&mut self.spans)
    }

    /// Drops the spans and stops recording.
    pub fn stop_trace(&mut self) {
        self.config.trace = false;
        self.spans = Vec::new();
    }

    /// Adds an observer. It sees what happens from now on.
    pub fn observe(&mut self, observer: Box<dyn Observe>) {
        self.observers.add(observer);
        self.is_watched = true;
        for (output, gate) in self.buffers.gates.all() {
            if self.observers.want_controls(output / self.buffers.virtual_channels) {
                gate.observe();
            }
        }
    }

    /// Ends the observation: calls each observer's `end`, and drops it.
    ///
    /// # Errors
    /// The first one of an observer.
    pub fn end_observation(&mut self, now: Time) -> std::io::Result<()> {
        let virtual_channels = self.buffers.virtual_channels;
        for (output, gate) in self.buffers.gates.all() {
            gate.advance(now);
            let seen = gate.take_seen();
            let (channel, vc) = (output / virtual_channels, (output % virtual_channels) as u8);
            self.observers.tell(|observer| observer.controls(channel, vc, &seen));
        }
        self.observers.end(now)
    }

    /// Returns the first deadlock found under [`DeadlockPolicy::Detect`]. The packets of its cycle never move again.
    pub fn deadlock(&self) -> Option<&Deadlock> {
        self.deadlock.as_ref()
    }

    /// Searches for a cycle, whatever the policy. O(virtual channels).
    pub fn find_deadlock(&self, now: Time) -> Option<Deadlock> {
        self.buffers.find_deadlock(now)
    }

    /// Returns the time from the injection of a packet to the arrival of its last byte, without other packets and
    /// without errors (`latency.rs`).
    pub fn latency_empty(&self, from: NodeId, to: NodeId, bytes: u32) -> Time {
        let Network { topology, routing, config, .. } = self;
        EmptyNetwork { topology, routing, config }.latency(from, to, bytes)
    }

    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    pub fn routing(&self) -> &Routing {
        &self.routing
    }

    pub fn config(&self) -> &NetworkConfig {
        &self.config
    }
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
