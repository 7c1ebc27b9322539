// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fabric in virtual time, message by message: all times of a message are computed when it departs, without events.
//!
//! # Model
//!
//! A message of F flits crosses the channels of its route one after the other. A channel serves one message at a time,
//! for the time of its flits, first come first served.
//!
//! - The head is at the next channel `link latency + switch latency` after it began on the previous one (cut-through).
//!   It begins there as soon as the channel is free for the whole message.
//! - The tail ends on a channel no earlier than the head's start plus the time of all flits, and no earlier than it can
//!   arrive from the previous channel.
//! - Messages leave the buffer of a virtual channel in the order in which they entered it. A head enters when there is
//!   room for a packet, a tail when there is room for the last flit. A message leaves a buffer at a constant rate until
//!   its tail has left.
//!
//! So on an empty network, for h routers on the route, the head arrives after
//! `2 * node latency + (h - 1) * link latency + h * switch latency`, and the tail this time after its departure, which
//! the caller provides. For one packet these are the times of the packet model ([`super::Network::latency_empty`]).
//!
//! Messages are computed in the order of their departure, but may reach a channel in another order. Therefore a channel
//! keeps its idle intervals before its last reservation. A message that fits into an idle interval uses it.
//!
//! This model lacks these parts of the packet model: arbitration packet by packet (long messages share a channel; here
//! one waits for the other); credits (a full buffer stops the channels behind it); lost and damaged packets; deadlocks;
//! wormhole switching. A message does not wait for a link that is down (`outages.rs`).
//!
//! # Invariants
//!
//! 1. A channel serves one message at a time.
//! 2. Messages of one pair of nodes arrive in the order of their departure, unless their routes differ.
//! 3. Two runs with the same calls and the same seed are equal, to the picosecond.
//!
//! # Costs
//!
//! O(channels on the route) for each message, and O(idle intervals kept) if a channel is not free. The route of a pair
//! is computed once, if the routing gives only one. Bytes: 88 for each channel, 24 for each virtual channel, 64 for
//! each node; about 40 for each communicating pair, and 8 for each channel on its route.

mod cast;
mod outages;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use selvedge_fabric::{Algorithm, NodeId, Peer, Routing, Topology, Vc};

use super::routes::Rerouted;
use super::speeds::Speed;
use super::trees::Branch;
use super::{ChannelStatistics, Counted, HopSpan, LossReason, NetworkConfig, NetworkError, NetworkStatistics};
use crate::random::Random;
use crate::time::Time;
use outages::Outages;

/// A message that departs from its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    pub from: NodeId,
    pub to: NodeId,
    pub bytes: u64,
    pub packets: u32,
    /// Flits of all packets, and of the first packet.
    pub flits: u64,
    pub first_flits: u64,
    /// Bytes by which the last flits of all packets, and of the first packet, are shorter than full ones.
    pub missing: u64,
    pub first_missing: u64,
    /// Time at which the first flit leaves its node, and at which the last has left.
    pub head: Time,
    pub tail: Time,
    /// A number of the sender's choice, for spans.
    pub message: u64,
}

/// Arrival times of a message at its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalTimes {
    /// Its first flit.
    pub head: Time,
    /// All of its first packet.
    pub first: Time,
    /// All of it.
    pub tail: Time,
    /// Time at which all of it has left its source node.
    pub left: Time,
}

/// The fabric of one machine, in the model of whole messages.
#[derive(Debug)]
pub struct MessageNetwork {
    topology: Arc<Topology>,
    routing: Routing,
    config: NetworkConfig,
    schedules: Vec<ChannelSchedule>,
    vc_buffers: Vec<VcBuffer>,
    virtual_channels: u32,
    /// Index in `pairs`, by the numbers of the two nodes. Never iterated, so its order does not matter.
    pair_indices: HashMap<u64, u32, BuildHasherDefault<PairHasher>>,
    pairs: Vec<Pair>,
    /// Cache of `pair_indices`, one cache line for each source: by some bits of the target, the last target with these
    /// bits and the index of its pair.
    recent: Vec<[(u32, u32); RECENT]>,
    /// The routes of all pairs, one after the other.
    routes: Vec<RouteHop>,
    route: Vec<RouteHop>,
    single_route: bool,
    /// The current message on each channel of its route.
    crossings: Vec<Crossing>,
    /// The branches of all trees, and the time at which the last message has left each.
    branches: Vec<Branch>,
    branches_served: Vec<Time>,
    outages: Outages,
    /// Routes that change during the run; `None`: all messages follow `routing`.
    rerouted: Option<Box<Rerouted>>,
    random: Random,
    statistics: NetworkStatistics,
    spans: Vec<HopSpan>,
}

#[derive(Clone, Copy, Debug)]
struct Pair {
    /// Its route in `routes`; 0 channels: several routes.
    first: u32,
    channels: u32,
    /// The number of the routing that gave it.
    plan: u16,
    /// Time at which its last message has left the last channel.
    served: Time,
}

/// The buffer of a virtual channel. Messages leave it in the order in which they entered it.
#[derive(Clone, Copy, Debug, Default)]
struct VcBuffer {
    /// Of the last message: begin on the channel, entry of the tail into the buffer, exit of the tail.
    began: Time,
    entered: Time,
    left: Time,
}

#[derive(Clone, Copy, Debug)]
struct RouteHop {
    channel: u32,
    vc_buffer: u32,
}

#[derive(Clone, Copy, Debug)]
struct Crossing {
    /// Start of its head, and time at which its tail has left the channel.
    start: Time,
    tail: Time,
    /// Time at which the previous message leaves the buffer at the end of the channel, if this one follows it.
    behind: Time,
    follows: bool,
}

/// Corrects the times of the tail of a message whose head was blocked: the tail cannot enter a buffer before there is
/// room. Returns the time at which the message has left its source node.
#[cold]
fn hold_back(
    route: &[RouteHop],
    crossings: &[Crossing],
    schedules: &[ChannelSchedule],
    vc_buffers: &mut [VcBuffer],
    (flits, buffer): (u64, u64),
) -> Time {
    let mut next = crossings.last().map_or(Time::ZERO, |crossing| crossing.tail);
    for (hop, crossing) in route.iter().zip(crossings).rev().skip(1) {
        let schedule = &schedules[hop.channel as usize];
        // The last flit gets the room of an earlier flit of this message or of the previous one.
        let ahead = match flits.checked_sub(buffer) {
            Some(_) => next.saturating_sub(schedule.flit_time * buffer),
            None => crossing.behind.saturating_sub(schedule.flit_time * (buffer - flits)),
        };
        let tail = crossing.tail.max(ahead + schedule.latency);
        if crossing.follows {
            let vc_buffer = &mut vc_buffers[hop.vc_buffer as usize];
            (vc_buffer.entered, vc_buffer.left) = (tail, vc_buffer.left.max(next));
        }
        next = tail;
    }
    next
}

#[derive(Debug)]
struct ChannelSchedule {
    /// End of the last reservation.
    free_at: Time,
    /// Idle intervals before `free_at`, as begin and end: the last one, and the earlier ones in order.
    idle: (Time, Time),
    idle_earlier: Vec<(Time, Time)>,
    flit_time: Time,
    latency: Time,
    counted: ChannelStatistics,
}

impl ChannelSchedule {
    /// Reserves the channel for `time`, from the first time at or after `at` at which it is free long enough.
    #[inline]
    fn reserve(&mut self, now: Time, at: Time, time: Time) -> Time {
        if at < self.free_at {
            return self.reserve_between(now, at, time);
        }
        if at > self.free_at + self.flit_time {
            self.remember(now);
            self.idle = (self.free_at, at);
        }
        self.free_at = at + time;
        at
    }

    /// Moves the last idle interval to the earlier ones, unless it is over.
    #[inline]
    fn remember(&mut self, now: Time) {
        if self.idle.1 > now {
            if self.idle_earlier.len() >= IDLE_KEPT {
                self.idle_earlier.retain(|(_, until)| *until > now);
            }
            self.idle_earlier.push(self.idle);
        } else if !self.idle_earlier.is_empty() {
            self.idle_earlier.clear();
        }
    }

    fn reserve_between(&mut self, now: Time, at: Time, time: Time) -> Time {
        self.remember(now);
        let all = &mut self.idle_earlier;
        let found = all.iter().position(|&(from, until)| until > at && from.max(at) + time <= until);
        let start = match found {
            None => {
                let start = self.free_at;
                self.free_at += time;
                start
            }
            Some(place) => {
                let (from, until) = all[place];
                let start = from.max(at);
                let pieces = [(from, start), (start + time, until)];
                all.splice(place..=place, pieces.into_iter().filter(|(from, until)| *until > *from + self.flit_time));
                start
            }
        };
        self.idle = all.pop().unwrap_or_default();
        start
    }
}

/// Entries of the cache for each source.
const RECENT: usize = 8;

/// Idle intervals that are over are removed only if there are more than this.
const IDLE_KEPT: usize = 8;

/// A hash of two node numbers: one multiplication.
#[derive(Default)]
struct PairHasher(u64);

impl Hasher for PairHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15_u128;
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }
}

impl MessageNetwork {
    pub fn new(
        topology: Arc<Topology>,
        routing: Routing,
        config: NetworkConfig,
    ) -> Result<MessageNetwork, NetworkError> {
        config.check(&topology, &routing)?;
        let have = config.link.virtual_channels;
        let channels = topology.channels();
        let schedule = |channel| {
            let Speed { flit_time, latency } = config.speed_of(&topology, channel);
            ChannelSchedule {
                free_at: Time::ZERO,
                idle: (Time::ZERO, Time::ZERO),
                idle_earlier: Vec::new(),
                flit_time,
                latency,
                counted: ChannelStatistics::default(),
            }
        };
        Ok(MessageNetwork {
            schedules: (0..channels).map(schedule).collect(),
            vc_buffers: vec![VcBuffer::default(); channels as usize * usize::from(have)],
            virtual_channels: have.into(),
            pair_indices: HashMap::default(),
            pairs: Vec::new(),
            recent: vec![[(u32::MAX, 0); RECENT]; topology.nodes() as usize],
            routes: Vec::new(),
            route: Vec::new(),
            crossings: Vec::new(),
            branches: Vec::new(),
            branches_served: Vec::new(),
            outages: Outages::default(),
            rerouted: None,
            single_route: routing.has_one_route(),
            random: Random::new(config.seed, u64::from_le_bytes(*b"network\0")),
            statistics: NetworkStatistics::default(),
            spans: Vec::new(),
            topology,
            routing,
            config,
        })
    }

    /// Returns the bytes by which the last flit of a packet with `bytes` of payload is shorter than a full one.
    pub fn missing(&self, bytes: u32) -> u32 {
        self.config.missing(bytes)
    }

    /// Sends a message; returns its arrival times. `None`: there is no route, or it is lost on a link that is down.
    ///
    /// Messages of one node are sent in the order in which they leave, each after the previous one has left. Messages
    /// of different nodes are sent in the order of `now`; no head leaves before `now`.
    ///
    /// # Panics
    /// If a node does not exist, which is a bug of the caller.
    pub fn send(&mut self, now: Time, departure: &Departure) -> Option<ArrivalTimes> {
        let recent = &self.recent[departure.from.0 as usize][departure.to.0 as usize % RECENT];
        let is_known = recent.0 == departure.to.0 && self.single_route && self.rerouted.is_none();
        let place = match is_known {
            true => recent.1,
            false => match self.pair_of(departure) {
                Some(place) => place,
                None => {
                    self.lose(departure.packets, LossReason::Unreachable);
                    return None;
                }
            },
        };
        let pair = &mut self.pairs[place as usize];
        let route = match pair.channels {
            0 => &self.route[..],
            channels => &self.routes[pair.first as usize..][..channels as usize],
        };
        let buffer = u64::from(self.config.link.buffer_flits);
        let flits = departure.flits;
        let (mut head, mut tail) = (departure.head, departure.tail);
        let mut arrival = ArrivalTimes { head, first: head, tail, left: tail };
        let last = route.len() - 1;
        let (mut blocked, mut waited) = (0, Time::ZERO);
        let mut slowest = Time::ZERO;
        // Time at which the previous message has left this one's buffer.
        let mut behind = Time::ZERO;
        let mut is_lost = false;
        self.crossings.clear();
        for (place, &RouteHop { channel, vc_buffer }) in route.iter().enumerate() {
            let schedule = &mut self.schedules[channel as usize];
            let vc_buffer = &mut self.vc_buffers[vc_buffer as usize];
            let time =
                (schedule.flit_time * flits).saturating_sub(self.config.part(schedule.flit_time, departure.missing));
            slowest = slowest.max(schedule.flit_time);
            let follows = head >= vc_buffer.began;
            let start = if place == 0 {
                schedule.free_at = tail;
                head
            } else {
                let mut at = head.max(behind);
                if place == last {
                    // No message overtakes another of its pair.
                    at = at.max(pair.served);
                } else if follows && vc_buffer.left + schedule.latency > at {
                    let room = schedule.flit_time * buffer.saturating_sub(departure.first_flits);
                    at = at.max(vc_buffer.entered).max((vc_buffer.left + schedule.latency).saturating_sub(room));
                }
                let start = schedule.reserve(now, at, time);
                tail = tail.max(start + time);
                if start > head {
                    blocked += 1;
                    waited += start - head;
                }
                start
            };
            if !self.outages.is_empty() && self.outages.meets(channel, start, start + time) {
                is_lost = true;
                break;
            }
            schedule.counted.packets += u64::from(departure.packets);
            schedule.counted.flits += flits;
            schedule.counted.busy += time;
            behind = if follows { vc_buffer.left } else { Time::ZERO };
            self.crossings.push(Crossing { start, tail, behind, follows });
            if place == last {
                arrival.head = start + schedule.latency;
                arrival.tail = tail + schedule.latency;
                let first = (slowest * departure.first_flits)
                    .saturating_sub(self.config.part(slowest, departure.first_missing));
                arrival.first = (arrival.head + first).min(arrival.tail);
                pair.served = start + time;
            } else {
                let through = schedule.latency + self.config.switch.latency;
                head = start + through;
                if follows {
                    *vc_buffer = VcBuffer { began: start, entered: tail, left: vc_buffer.left.max(tail + through) };
                }
                tail += through;
            }
        }
        if is_lost {
            self.lose(departure.packets, LossReason::LinkDown);
            return None;
        }
        let statistics = &mut self.statistics;
        let (routers, packets) = (last as u64, u64::from(departure.packets));
        statistics.requests += routers;
        statistics.hops += routers * packets;
        statistics.injected += packets;
        statistics.delivered += packets;
        statistics.delivered_bytes += departure.bytes;
        if blocked > 0 {
            statistics.blocked += blocked;
            statistics.blocked_ps += waited.0;
            arrival.left = hold_back(route, &self.crossings, &self.schedules, &mut self.vc_buffers, (flits, buffer));
        }
        if self.config.trace {
            self.spans.extend(route.iter().zip(&self.crossings).enumerate().map(
                |(place, (&RouteHop { channel, .. }, crossing))| {
                    let Departure { message, from, to, .. } = *departure;
                    let start = crossing.start;
                    let end = if place == 0 {
                        departure.tail
                    } else {
                        let flit_time = self.schedules[channel as usize].flit_time;
                        start + (flit_time * flits).saturating_sub(self.config.part(flit_time, departure.missing))
                    };
                    HopSpan { message, from, to, channel, start, end }
                },
            ));
        }
        Some(arrival)
    }

    /// Returns the index of a pair. Its route is in `routes`, or in `route` if the pair has several.
    #[inline(never)]
    fn pair_of(&mut self, departure: &Departure) -> Option<u32> {
        let (from, to) = (departure.from.0, departure.to.0);
        let name = u64::from(from) << 32 | u64::from(to);
        let known = self.pair_indices.get(&name).copied();
        let plan = self.plan_of(departure.from);
        let place = match known {
            Some(place) if self.single_route && self.pairs[place as usize].plan == plan => place,
            _ => self.new_route(name, departure, known, plan)?,
        };
        self.recent[from as usize][to as usize % RECENT] = (to, place);
        Some(place)
    }

    /// Computes the route of a pair, and keeps it if it is the only one. Returns the pair's index.
    #[cold]
    fn new_route(&mut self, name: u64, departure: &Departure, known: Option<u32>, plan: u16) -> Option<u32> {
        self.find_route(departure, plan)?;
        if known.is_some() && !self.single_route {
            return known;
        }
        let mut pair = Pair { first: self.routes.len() as u32, channels: 0, plan, served: Time::ZERO };
        if self.single_route {
            pair.channels = self.route.len() as u32;
            self.routes.extend_from_slice(&self.route);
        }
        if let Some(place) = known {
            // The pair's old route stays where it was.
            let served = self.pairs[place as usize].served;
            self.pairs[place as usize] = Pair { served, ..pair };
            return known;
        }
        self.pairs.push(pair);
        let place = self.pairs.len() as u32 - 1;
        self.pair_indices.insert(name, place);
        Some(place)
    }

    /// Computes a route into `route`. Of several channels that the routing allows, takes the one with the shortest wait
    /// at the time at which the head would arrive on an empty network.
    fn find_route(&mut self, departure: &Departure, plan: u16) -> Option<()> {
        let Departure { from, to, .. } = *departure;
        self.route.clear();
        let channel = self.topology.injection_channel(from);
        self.route.push(RouteHop { channel, vc_buffer: channel * self.virtual_channels });
        let mut state = self.routing.start(&self.topology, from, to, self.random.next_u64());
        let rerouted = self.rerouted.as_ref().filter(|_| plan != 0);
        if let Some(rerouted) = rerouted {
            state = rerouted.start(&self.topology, from, to, state)?;
        }
        let (mut at, port) = self.topology.attachment(from);
        let mut arrived = Some((port, Vc(0)));
        let mut head = departure.head + self.schedules[channel as usize].latency + self.config.switch.latency;
        // No route uses a channel twice.
        while self.route.len() <= self.schedules.len() {
            let channel = |hop: &selvedge_fabric::Hop| self.topology.channel(at, hop.port);
            let wait = |channel: u32| self.schedules[channel as usize].free_at.saturating_sub(head);
            let hop = match rerouted {
                Some(rerouted) => rerouted.next(&self.topology, at, arrived, to, &mut state)?,
                None => {
                    let choices = self.routing.next(&self.topology, at, arrived, to, &mut state);
                    let bias = self.config.flit_time().0 * u64::from(self.config.detour_bias_flits);
                    let (is_global, whole) = (self.routing.algorithm() == Algorithm::UgalGlobal, state);
                    let queue = |place: usize| {
                        let behind = match is_global {
                            true => {
                                let end = self.topology.attachment(to).0;
                                self.routing.link_behind(&self.topology, at, (&choices, place), end, &whole)
                            }
                            false => None,
                        };
                        let further = behind.map(|(router, port)| wait(self.topology.channel(router, port)));
                        wait(channel(&choices.as_slice()[place])) + further.unwrap_or_default()
                    };
                    choices.choose(&mut state, bias, queue, |place, _| queue(place).0)?
                }
            };
            let channel = channel(&hop);
            self.route.push(RouteHop { channel, vc_buffer: channel * self.virtual_channels + u32::from(hop.vc.0) });
            match self.topology.peer(at, hop.port) {
                Peer::Router { router, port } => (at, arrived) = (router, Some((port, hop.vc))),
                Peer::Node(_) => return Some(()),
                Peer::Unconnected => return None,
            }
            head += self.schedules[channel as usize].latency + self.config.switch.latency;
        }
        None
    }

    /// Returns the time for which a packet with `bytes` of payload occupies the injection channel of its node.
    pub fn injection_time(&self, node: NodeId, bytes: u32) -> Time {
        self.config.packet_time(self.injection_speed(node).flit_time, bytes)
    }

    /// Returns the speed of a node's injection channel.
    #[inline]
    pub fn injection_speed(&self, node: NodeId) -> Speed {
        let ChannelSchedule { flit_time, latency, .. } = self.schedules[self.topology.injection_channel(node) as usize];
        Speed { flit_time, latency }
    }

    /// Returns the flits of a packet with `bytes` of payload.
    pub fn flits(&self, bytes: u32) -> u32 {
        self.config.flits(bytes)
    }

    /// Takes the times of each message on each channel since the last call. Empty unless the configuration has `trace`.
    pub fn take_spans(&mut self) -> Vec<HopSpan> {
        std::mem::take(&mut self.spans)
    }

    /// Drops the spans and stops recording.
    pub fn stop_trace(&mut self) {
        self.config.trace = false;
        self.spans = Vec::new();
    }
}

impl Counted for MessageNetwork {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    /// `requests` and `blocked` count heads of messages. Packets and hops are those that the messages would have.
    fn statistics(&self) -> &NetworkStatistics {
        &self.statistics
    }

    fn channel_statistics(&self, channel: u32) -> ChannelStatistics {
        self.schedules[channel as usize].counted
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
pub(super) mod tests;
