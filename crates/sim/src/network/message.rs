// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fabric in virtual time, where a message crosses it as a whole: all of its times are worked out when it sets out, without events.
//!
//! # Model
//!
//! A message of F flits goes the way that the routing gives, channel by channel. A channel serves one message at a time, first come
//! first served, for the time that its flits take.
//!
//! - The head is at the next channel `link latency + switch latency` after it began on the one before (cut-through), and begins
//!   there as soon as the channel has the time for all of the message.
//! - The tail ends on a channel no earlier than the message's flits take from the head on, and no earlier than it can have come from
//!   the channel before.
//! - A virtual channel's buffer is left in the order in which it is entered. A head enters when there is room for a packet, and a tail
//!   when there is room for the last flit; what is in a buffer leaves it evenly, until the tail does.
//!
//! So on an empty network, for h routers on the way, the head is at the target `2 * node latency + (h - 1) * link latency + h * switch
//! latency` after it has left, and the tail so long after the tail has left: for a message of one packet the very times of the model of
//! packets ([`super::Network::latency_empty`]). When the tail leaves is the sender's to say.
//!
//! What is worked out first need not come first: a channel remembers when it is idle before what it has promised, and a message that
//! comes then, and has the time, goes then.
//!
//! What the model of packets has beyond: arbitration packet by packet, so that long messages share a channel where here one waits for
//! the other; credits, and so how a full buffer holds up channel after channel behind it; faults; deadlocks; flits (wormhole).
//!
//! # Invariants
//!
//! 1. A channel serves one message at a time.
//! 2. Messages of one pair of nodes arrive in the order in which they set out, unless the routing gives them different ways.
//! 3. Two runs with the same calls and the same seed are the same, to the picosecond.
//!
//! # Costs
//!
//! O(channels on the way) for each message, and O(idle times that are remembered) where a channel is not free; the way of a pair is
//! worked out once, where the routing gives it only one. Bytes: 88 for each channel, 24 for each virtual one, 64 for each node; for each
//! pair that talks some 40, and 8 for each channel on its way.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use selvedge_fabric::{Algorithm, NodeId, Peer, Routing, Topology, Vc};

use super::{ChannelStatistics, Counted, HopSpan, NetworkConfig, NetworkError, Statistics};
use crate::random::Random;
use crate::time::Time;

/// A message that sets out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    pub from: NodeId,
    pub to: NodeId,
    pub bytes: u64,
    pub packets: u32,
    /// Of all packets, and of the first.
    pub flits: u64,
    pub first_flits: u64,
    /// When the first flit leaves its node, and when the last has left.
    pub head: Time,
    pub tail: Time,
    /// The sender's, for spans.
    pub message: u64,
}

/// When what of a message is at its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coming {
    pub head: Time,
    /// All of the first packet.
    pub first: Time,
    pub tail: Time,
    /// When all of it has left its node.
    pub left: Time,
}

/// The fabric of one machine.
#[derive(Debug)]
pub struct Messages {
    topology: Arc<Topology>,
    routing: Routing,
    config: NetworkConfig,
    lines: Vec<Line>,
    lanes: Vec<Lane>,
    /// Channels from here on are injection channels.
    first_injection: u32,
    virtual_channels: u32,
    /// By the two nodes' numbers: the place among `pairs`. Never gone through.
    places: HashMap<u64, u32, BuildHasherDefault<PairHasher>>,
    pairs: Vec<Pair>,
    /// By source, and some bits of the target: the target that was asked for last, and its pair's place. One line.
    near: Vec<[(u32, u32); NEAR]>,
    /// Ways of pairs, one after the other.
    ways: Vec<Hop>,
    /// The way of a pair that has several.
    way: Vec<Hop>,
    one_way: bool,
    /// Of the message that is being worked out.
    crossings: Vec<Crossing>,
    random: Random,
    statistics: Statistics,
    spans: Vec<HopSpan>,
}

/// Two nodes that talk.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// Its way among all; 0 channels: it has several ways.
    first: u32,
    channels: u32,
    /// When its last message has left the last channel.
    served: Time,
}

/// A virtual channel of a channel: the buffer at its end, which is left in the order in which it is entered.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    /// When the last message began on the channel, when its tail is in the buffer, and when that has left it.
    began: Time,
    entered: Time,
    left: Time,
}

/// A channel of a way, and its lane there.
#[derive(Clone, Copy, Debug)]
struct Hop {
    channel: u32,
    lane: u32,
}

/// A message on a channel of its way: from when its head goes to when its tail has gone.
#[derive(Clone, Copy, Debug)]
struct Crossing {
    start: Time,
    tail: Time,
    /// When the message before it leaves the buffer behind the channel, if it is one that this one follows.
    behind: Time,
    follows: bool,
}

/// A message has waited somewhere: its tail cannot enter a buffer before there is room. Gives when it has left its node.
#[cold]
fn hold_back(
    way: &[Hop],
    crossings: &[Crossing],
    lines: &[Line],
    lanes: &mut [Lane],
    (flits, buffer): (u64, u64),
) -> Time {
    let mut next = crossings.last().map_or(Time::ZERO, |crossing| crossing.tail);
    for (hop, crossing) in way.iter().zip(crossings).rev().skip(1) {
        let line = &lines[hop.channel as usize];
        // The flit that makes room for the last one is this message's, or one of the message's before it.
        let ahead = match flits.checked_sub(buffer) {
            Some(_) => next.saturating_sub(line.flit_time * buffer),
            None => crossing.behind.saturating_sub(line.flit_time * (buffer - flits)),
        };
        let tail = crossing.tail.max(ahead + line.latency);
        if crossing.follows {
            let lane = &mut lanes[hop.lane as usize];
            (lane.entered, lane.left) = (tail, lane.left.max(next));
        }
        next = tail;
    }
    next
}

/// A channel's time.
#[derive(Debug)]
struct Line {
    /// It has promised nothing from here on.
    free_at: Time,
    /// When it is idle before that, from and until: last, and earlier, in order.
    idle: (Time, Time),
    idle_earlier: Vec<(Time, Time)>,
    flit_time: Time,
    latency: Time,
    counted: ChannelStatistics,
}

impl Line {
    /// The first time from `at` on at which the channel has so much time.
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

    /// The last idle time becomes an earlier one, unless it is over.
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

const NEAR: usize = 8;

/// What is over is looked for only where there is more than this.
const IDLE_KEPT: usize = 8;

/// Of two node numbers: a multiplication.
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

impl Messages {
    pub fn new(topology: Arc<Topology>, routing: Routing, config: NetworkConfig) -> Result<Messages, NetworkError> {
        config.check(&routing)?;
        let have = config.link.virtual_channels;
        let channels = topology.channels();
        let first_injection = channels - topology.nodes();
        let line = |channel| {
            let at_node = channel >= first_injection
                || topology
                    .channel_source(channel)
                    .is_some_and(|(at, port)| matches!(topology.peer(at, port), Peer::Node(_)));
            Line {
                free_at: Time::ZERO,
                idle: (Time::ZERO, Time::ZERO),
                idle_earlier: Vec::new(),
                flit_time: if at_node { config.node_flit_time() } else { config.flit_time() },
                latency: if at_node { config.node_latency() } else { config.link.latency },
                counted: ChannelStatistics::default(),
            }
        };
        Ok(Messages {
            lines: (0..channels).map(line).collect(),
            lanes: vec![Lane::default(); channels as usize * usize::from(have)],
            virtual_channels: have.into(),
            first_injection,
            places: HashMap::default(),
            pairs: Vec::new(),
            near: vec![[(u32::MAX, 0); NEAR]; topology.nodes() as usize],
            ways: Vec::new(),
            way: Vec::new(),
            crossings: Vec::new(),
            one_way: !matches!(routing.algorithm(), Algorithm::WestFirst | Algorithm::Valiant),
            random: Random::new(config.seed, u64::from_le_bytes(*b"network\0")),
            statistics: Statistics::default(),
            spans: Vec::new(),
            topology,
            routing,
            config,
        })
    }

    /// A message sets out: when what of it arrives. None: the routing knows no way.
    ///
    /// Messages of one node are given in the order in which they leave, each after the one before has left; those of different nodes in
    /// the order of `now`, which no head is before.
    ///
    /// # Panics
    /// If a node does not exist: a caller's bug.
    pub fn send(&mut self, now: Time, sending: &Sending) -> Option<Coming> {
        let near = &self.near[sending.from.0 as usize][sending.to.0 as usize % NEAR];
        let place = if near.0 == sending.to.0 && self.one_way { near.1 } else { self.place_of(sending)? };
        let pair = &mut self.pairs[place as usize];
        let way = match pair.channels {
            0 => &self.way[..],
            channels => &self.ways[pair.first as usize..][..channels as usize],
        };
        let buffer = u64::from(self.config.link.buffer_flits);
        let flits = sending.flits;
        let (mut head, mut tail) = (sending.head, sending.tail);
        let mut coming = Coming { head, first: head, tail, left: tail };
        let last = way.len() - 1;
        let (mut blocked, mut waited) = (0, Time::ZERO);
        let mut slowest = Time::ZERO;
        // When the last message has left the buffer that this one is in.
        let mut behind = Time::ZERO;
        self.crossings.clear();
        for (place, &Hop { channel, lane }) in way.iter().enumerate() {
            let line = &mut self.lines[channel as usize];
            let lane = &mut self.lanes[lane as usize];
            let time = line.flit_time * flits;
            slowest = slowest.max(line.flit_time);
            let follows = head >= lane.began;
            let start = if place == 0 {
                line.free_at = tail;
                head
            } else {
                let mut at = head.max(behind);
                if place == last {
                    // None overtakes another of its pair.
                    at = at.max(pair.served);
                } else if follows && lane.left + line.latency > at {
                    let room = line.flit_time * buffer.saturating_sub(sending.first_flits);
                    at = at.max(lane.entered).max((lane.left + line.latency).saturating_sub(room));
                }
                let start = line.reserve(now, at, time);
                tail = tail.max(start + time);
                if start > head {
                    blocked += 1;
                    waited += start - head;
                }
                start
            };
            line.counted.packets += u64::from(sending.packets);
            line.counted.flits += flits;
            line.counted.busy += time;
            behind = if follows { lane.left } else { Time::ZERO };
            self.crossings.push(Crossing { start, tail, behind, follows });
            if place == last {
                coming.head = start + line.latency;
                coming.tail = tail + line.latency;
                coming.first = (coming.head + slowest * sending.first_flits).min(coming.tail);
                pair.served = start + time;
            } else {
                let through = line.latency + self.config.switch.latency;
                head = start + through;
                if follows {
                    *lane = Lane { began: start, entered: tail, left: lane.left.max(tail + through) };
                }
                tail += through;
            }
        }
        let statistics = &mut self.statistics;
        let (routers, packets) = (last as u64, u64::from(sending.packets));
        statistics.requests += routers;
        statistics.hops += routers * packets;
        statistics.injected += packets;
        statistics.delivered += packets;
        statistics.delivered_bytes += sending.bytes;
        if blocked > 0 {
            statistics.blocked += blocked;
            statistics.blocked_ps += waited.0;
            coming.left = hold_back(way, &self.crossings, &self.lines, &mut self.lanes, (flits, buffer));
        }
        if self.config.trace {
            self.spans.extend(way.iter().zip(&self.crossings).enumerate().map(
                |(place, (&Hop { channel, .. }, crossing))| {
                    let Sending { message, from, to, .. } = *sending;
                    let start = crossing.start;
                    let end =
                        if place == 0 { sending.tail } else { start + self.lines[channel as usize].flit_time * flits };
                    HopSpan { message, from, to, channel, start, end }
                },
            ));
        }
        Some(coming)
    }

    /// The place of a pair, whose way is known then.
    #[inline(never)]
    fn place_of(&mut self, sending: &Sending) -> Option<u32> {
        let (from, to) = (sending.from.0, sending.to.0);
        let name = u64::from(from) << 32 | u64::from(to);
        let known = self.places.get(&name).copied();
        let place = match known {
            Some(place) if self.one_way => place,
            _ => self.new_way(name, sending, known)?,
        };
        self.near[from as usize][to as usize % NEAR] = (to, place);
        Some(place)
    }

    /// Works out the way of a pair, and keeps it where there is only one. Gives the pair's place.
    #[cold]
    fn new_way(&mut self, name: u64, sending: &Sending, known: Option<u32>) -> Option<u32> {
        self.find_way(sending)?;
        if known.is_some() {
            return known;
        }
        let mut pair = Pair { first: self.ways.len() as u32, channels: 0, served: Time::ZERO };
        if self.one_way {
            pair.channels = self.way.len() as u32;
            self.ways.extend_from_slice(&self.way);
        }
        self.pairs.push(pair);
        let place = self.pairs.len() as u32 - 1;
        self.places.insert(name, place);
        Some(place)
    }

    /// Where the routing leaves a choice, the channel that is free first when the head would come, were nothing in its way.
    fn find_way(&mut self, sending: &Sending) -> Option<()> {
        let Sending { from, to, .. } = *sending;
        self.way.clear();
        let channel = self.topology.injection_channel(from);
        self.way.push(Hop { channel, lane: channel * self.virtual_channels });
        let mut state = self.routing.start(&self.topology, from, to, self.random.next_u64());
        let (mut at, port) = self.topology.attachment(from);
        let mut arrived = Some((port, Vc(0)));
        let mut head = sending.head + self.config.node_latency() + self.config.switch.latency;
        // No routing passes a channel twice.
        while self.way.len() <= self.lines.len() {
            let choices = self.routing.next(&self.topology, at, arrived, to, &mut state);
            let channel = |hop: &selvedge_fabric::Hop| self.topology.channel(at, hop.port);
            let waits = |hop: &&selvedge_fabric::Hop| self.lines[channel(hop) as usize].free_at.saturating_sub(head);
            let hop = choices.as_slice().iter().min_by_key(waits)?;
            let channel = channel(hop);
            self.way.push(Hop { channel, lane: channel * self.virtual_channels + u32::from(hop.vc.0) });
            match self.topology.peer(at, hop.port) {
                Peer::Router { router, port } => (at, arrived) = (router, Some((port, hop.vc))),
                Peer::Node(_) => return Some(()),
                Peer::Unconnected => return None,
            }
            head += self.config.link.latency + self.config.switch.latency;
        }
        None
    }

    /// How long a packet with so much payload occupies its injection channel.
    pub fn injection_time(&self, bytes: u32) -> Time {
        self.lines[self.first_injection as usize].flit_time * u64::from(self.config.flits(bytes))
    }

    /// Flits of a packet with so much payload.
    pub fn flits(&self, bytes: u32) -> u32 {
        self.config.flits(bytes)
    }

    /// Each message's time on each channel since the last call, where the configuration asks for it.
    pub fn take_spans(&mut self) -> Vec<HopSpan> {
        std::mem::take(&mut self.spans)
    }

    /// Keeps no spans from now on.
    pub fn stop_trace(&mut self) {
        self.config.trace = false;
        self.spans = Vec::new();
    }
}

impl Counted for Messages {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Heads are those of messages; packets and their hops are those that the messages would have.
    fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    fn channel_statistics(&self, channel: u32) -> ChannelStatistics {
        self.lines[channel as usize].counted
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
