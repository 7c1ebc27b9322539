// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fabric in virtual time: what a packet meets between two nodes.
//!
//! # Model
//!
//! Routers have a buffer for each virtual channel of each input, and a crossbar that passes one packet from each buffer
//! at once. The first packet of a buffer asks the routing for an output; where several wait for one virtual channel,
//! arbitration gives it to one of them, which keeps it until its tail has left; where several virtual channels of a link
//! could send, arbitration takes turns. Credits, in flits, say what the next buffer has room for; they travel back as
//! long as flits travel forth, in one message for what moves as a whole. Nodes take whatever comes.
//!
//! - *Cut-through*: a packet moves as a whole, and starts where the next buffer has room for all of it.
//! - *Wormhole*: flits move one by one, those of several virtual channels in turns, and a packet that waits lies across
//!   the buffers behind it.
//!
//! A head that is sent at `t` may leave the next router at `t + link latency + switch latency`. A flit ends on a channel
//! no earlier than one flit time after it began there, and no earlier than it ended on the channel before plus those
//! two latencies. So a packet of L flits that crosses h routers of an empty network takes
//! `2 * node latency + (h - 1) * link latency + h * switch latency + L * flit time`, that of the slowest channel on its way
//! ([`Network::latency_empty`]).
//!
//! Messages that cross as wholes, without events, are another model: `message.rs`.
//!
//! Blocking is what heads wait for; a deadlock is found in the moment in which its cycle closes (`deadlock.rs`). Faults
//! are in `faults.rs`. The words and the questions are those of SWORDFISH (seed 002, section 2.7).
//!
//! # Invariants
//!
//! 1. Each packet that is injected comes back as one [`Arrival`], delivered or lost, exactly once.
//! 2. Credits of an output + credits under way + flits that its buffer holds or will hold = the buffer's size.
//! 3. A virtual channel is allocated to one packet at a time; a channel carries one flit at a time.
//! 4. Packets of one node leave in the order in which they were injected; what takes the same route stays in order.
//! 5. Two runs with the same calls and the same seed are the same, to the picosecond.
//!
//! # Costs
//!
//! One event for each packet and hop where nothing blocks (cut-through; for each flit and hop in a wormhole network),
//! up to three where it does. O(routing) + O(those who wait for the same link) for each; no allocation once the largest
//! number of packets was under way. Bytes: `state.rs`.

mod config;
mod deadlock;
mod engine;
mod event;
mod faults;
mod latency;
mod message;
mod packet;
mod serve;
mod slab;
mod state;
mod statistics;

use std::collections::VecDeque;
use std::sync::Arc;

use selvedge_fabric::{NodeId, Peer, Port, RouterId, Routing, Topology};

pub use config::{
    Arbitration, DeadlockPolicy, ErrorRates, LinkConfig, NetworkConfig, NetworkError, NodeLink, RetransmissionConfig,
    SwitchConfig, Switching,
};
pub use deadlock::{Deadlock, Stuck};
pub use event::{NetworkEvent, Schedule};
pub use message::{Coming, Messages, Sending};
pub use packet::{Arrival, Delivery, HopSpan, Loss, LossReason, Packet};
pub(crate) use statistics::ratio;
pub use statistics::{ChannelStatistics, Statistics};

use crate::random::Random;
use crate::time::Time;
use event::Event;
use slab::{NONE, Slab};
use state::{ENDLESS, Fate, Flight, Lane, Link, Release, Releases, Reliability, Resident, State};

/// The fabric of one machine.
///
/// [`Network::inject`] and [`Network::handle`] put events into the caller's queue, and the caller gives each back at its
/// time, in order. After each `handle`, [`Network::take_arrival`] gives what came out at that time.
#[derive(Debug)]
pub struct Network {
    topology: Arc<Topology>,
    routing: Routing,
    config: NetworkConfig,
    links: Vec<Link>,
    reliability: Vec<Reliability>,
    lanes: Vec<Lane>,
    /// The first source queue among the lanes.
    sources: u32,
    /// Packets in each source queue that have not begun to leave.
    source_waiting: Vec<u32>,
    /// Nodes that want to be told when one of theirs does ([`Network::tell_when_taken`]), and those that are to be told.
    source_asks: Vec<bool>,
    taken: Vec<NodeId>,
    residents: Slab<Resident>,
    flights: Slab<Flight>,
    releases: Slab<Release>,
    arrivals: VecDeque<Arrival>,
    random: Random,
    generation: u32,
    virtual_channels: u32,
    cut_through: bool,
    /// Acknowledgements can be what a link waits for; else they are not kept.
    window_limits: bool,
    /// Of an output that has fewer credits, those that are back are counted.
    credits_low: u32,
    /// Any error rate is above 0.
    errors: bool,
    /// Rates of single channels; empty: all have those of the configuration.
    channel_errors: Vec<ErrorRates>,
    /// Outputs whose owner has just got stuck.
    suspects: Vec<u32>,
    deadlock: Option<Deadlock>,
    statistics: Statistics,
    spans: Vec<HopSpan>,
}

/// What a model of a fabric has counted.
pub trait Counted {
    fn topology(&self) -> &Topology;
    fn statistics(&self) -> &Statistics;
    fn channel_statistics(&self, channel: u32) -> ChannelStatistics;
}

impl Counted for Network {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    fn channel_statistics(&self, channel: u32) -> ChannelStatistics {
        self.links[channel as usize].statistics
    }
}

impl Network {
    pub fn new(topology: Arc<Topology>, routing: Routing, config: NetworkConfig) -> Result<Network, NetworkError> {
        config.check(&routing)?;
        let have = config.link.virtual_channels;
        let channels = topology.channels();
        let virtual_channels = u32::from(have);
        let too_large = NetworkError::TooLarge { channels, virtual_channels: have };
        let sources = channels.checked_mul(virtual_channels).ok_or(too_large.clone())?;
        if sources.checked_add(topology.nodes()).is_none_or(|all| all == NONE) {
            return Err(too_large);
        }
        let window = config.retransmission.as_ref().map_or(0, |retransmission| retransmission.window_flits);
        let sound = Reliability { down_since: Time::MAX, window, acknowledgements: Releases::EMPTY };
        Ok(Network {
            links: links(&topology, &config),
            reliability: vec![sound; channels as usize],
            lanes: lanes(&topology, &config),
            sources,
            source_waiting: vec![0; topology.nodes() as usize],
            source_asks: vec![false; topology.nodes() as usize],
            taken: Vec::new(),
            residents: Slab::new(),
            flights: Slab::new(),
            releases: Slab::new(),
            arrivals: VecDeque::new(),
            random: Random::new(config.seed, u64::from_le_bytes(*b"network\0")),
            generation: 0,
            virtual_channels,
            cut_through: config.switch.switching == Switching::CutThrough,
            window_limits: config.window_limits(),
            credits_low: config.link.buffer_flits - config.link.buffer_flits / CREDITS_OUT,
            errors: config.errors != ErrorRates::NONE,
            channel_errors: Vec::new(),
            suspects: Vec::new(),
            deadlock: None,
            statistics: Statistics::default(),
            spans: Vec::new(),
            topology,
            routing,
            config,
        })
    }

    /// Hands a packet to its node's injection channel. Packets of one node leave in order; the queue before the channel
    /// has no limit.
    ///
    /// # Panics
    /// If a node does not exist, a packet goes to its own node, or its payload is longer than a packet's: a caller's bug.
    pub fn inject(&mut self, now: Time, packet: Packet, queue: &mut impl Schedule) {
        let nodes = self.topology.nodes();
        assert!(packet.from.0 < nodes && packet.to.0 < nodes, "{packet:?} in a network of {nodes} nodes");
        assert!(packet.from != packet.to, "{packet:?} goes nowhere");
        assert!(packet.bytes <= self.config.link.packet_bytes, "{packet:?} is too long");
        self.statistics.injected += 1;
        let route = self.routing.start(&self.topology, packet.from, packet.to, self.random.next_u64());
        let flits = self.config.flits(packet.bytes);
        let flight =
            self.flights.insert(Flight { packet, route, injected: now, head: now, flits, hops: 0, fate: Fate::Sound });
        let buffer = self.sources + packet.from.0;
        self.source_waiting[packet.from.0 as usize] += 1;
        let resident = self.enter(flight, buffer, flits, flits, now, now);
        let busy_until = self.lanes[buffer as usize].busy_until;
        if self.lanes[buffer as usize].front != resident {
            self.residents[resident].state = State::Behind;
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
        self.statistics.events += 1;
        match event.0 {
            Event::Ready { resident, generation } => self.on_ready(now, resident, generation, queue),
            Event::Flit { resident, duration_ps } => self.on_flit(now, resident, duration_ps, queue),
            Event::Wake { channel } => self.on_wake(now, channel, queue),
            Event::Arrive { packet } => self.on_arrive(now, packet),
            Event::Lose { packet } => self.on_lose(now, packet),
            Event::Expire { resident, generation } => self.on_expire(now, resident, generation, queue),
        }
        if !self.suspects.is_empty() {
            self.resolve(now, queue);
        }
    }

    /// What came out, in order of time. Take all after each [`Network::handle`].
    #[inline]
    pub fn take_arrival(&mut self) -> Option<Arrival> {
        self.arrivals.pop_front()
    }

    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    pub fn channel_statistics(&self, channel: u32) -> ChannelStatistics {
        self.links[channel as usize].statistics
    }

    /// Packets that were injected and neither delivered nor lost, those in source queues included.
    pub fn in_flight(&self) -> u64 {
        self.flights.in_use() as u64
    }

    /// Packets that a node has handed over and that have not begun to leave it.
    pub fn waiting_at_source(&self, node: NodeId) -> u32 {
        self.source_waiting[node.0 as usize]
    }

    /// The next packet of a node's that begins to leave its source queue makes [`Network::take_taken`] name the node, once.
    pub fn tell_when_taken(&mut self, node: NodeId) {
        self.source_asks[node.0 as usize] = true;
    }

    /// A node that asked, and of which a packet has begun to leave.
    #[inline]
    pub fn take_taken(&mut self) -> Option<NodeId> {
        self.taken.pop()
    }

    /// When a node's injection channel has sent what it is sending.
    pub fn injection_free_at(&self, node: NodeId) -> Time {
        self.links[self.topology.injection_channel(node) as usize].free_at
    }

    /// Flits of a packet with so much payload.
    pub fn flits(&self, bytes: u32) -> u32 {
        self.config.flits(bytes)
    }

    /// How long a packet with so much payload occupies its injection channel.
    pub fn injection_time(&self, bytes: u32) -> Time {
        self.config.node_flit_time() * u64::from(self.config.flits(bytes))
    }

    /// How long a link between routers takes for a flit.
    pub fn flit_time(&self) -> Time {
        self.config.flit_time()
    }

    /// The channels that lead from a router to a router, ascending.
    pub fn channels_between_routers(&self) -> Vec<u32> {
        let first_injection = self.topology.channels() - self.topology.nodes();
        (0..first_injection)
            .filter(|&channel| self.lanes[(channel * self.virtual_channels) as usize].router != NONE)
            .collect()
    }

    /// Each packet's time on each channel since the last call, where the configuration asks for it.
    pub fn take_spans(&mut self) -> Vec<HopSpan> {
        std::mem::take(&mut self.spans)
    }

    /// Keeps no spans from now on.
    pub fn stop_trace(&mut self) {
        self.config.trace = false;
        self.spans = Vec::new();
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

/// Credits that are back are counted when this share of a buffer is out: often enough for few to be kept, and not for each packet.
const CREDITS_OUT: u32 = 16;

fn links(topology: &Topology, config: &NetworkConfig) -> Vec<Link> {
    let link = |at_node: bool| Link {
        free_at: Time::ZERO,
        wake_at: Time::MAX,
        flit_time: if at_node { config.node_flit_time() } else { config.flit_time() },
        latency: if at_node { config.node_latency() } else { config.link.latency },
        waiting: 0,
        last_vc: 0,
        is_up: true,
        statistics: ChannelStatistics::default(),
    };
    let ends = ends(topology);
    let first_injection = ends.len() - topology.nodes() as usize;
    let numbered = ends.into_iter().enumerate();
    numbered.map(|(channel, end)| link(channel >= first_injection || matches!(end, Peer::Node(_)))).collect()
}

fn lanes(topology: &Topology, config: &NetworkConfig) -> Vec<Lane> {
    let lane = |channel: u32, end: Peer| {
        let (router, port) = match end {
            Peer::Router { router, port } => (router.0, port.0),
            Peer::Node(_) | Peer::Unconnected => (NONE, 0),
        };
        Lane {
            owner: NONE,
            waiters: NONE,
            waiters_last: NONE,
            last: 0,
            credits: if router == NONE { ENDLESS } else { config.link.buffer_flits },
            releases: Releases::EMPTY,
            channel,
            front: NONE,
            back: NONE,
            busy_until: Time::ZERO,
            router,
            port,
            stuck: false,
        }
    };
    let ends = (0..).zip(ends(topology));
    let mut lanes: Vec<Lane> = Vec::new();
    for (channel, end) in ends {
        lanes.extend((0..config.link.virtual_channels).map(|_| lane(channel, end)));
    }
    lanes.extend((0..topology.nodes()).map(|_| lane(NONE, Peer::Unconnected)));
    lanes
}

/// Where each channel leads, in the order of their numbers.
fn ends(topology: &Topology) -> Vec<Peer> {
    let mut ends = Vec::with_capacity(topology.channels() as usize);
    for router in (0..topology.routers()).map(RouterId) {
        for port in (0..topology.ports(router)).map(Port) {
            debug_assert_eq!(ends.len(), topology.channel(router, port) as usize);
            ends.push(topology.peer(router, port));
        }
    }
    for node in (0..topology.nodes()).map(NodeId) {
        debug_assert_eq!(ends.len(), topology.injection_channel(node) as usize);
        let (router, port) = topology.attachment(node);
        ends.push(Peer::Router { router, port });
    }
    ends
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
