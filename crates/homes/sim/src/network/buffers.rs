// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The buffers of a network: their packets, the output that each waits for, and the credits of each output.
//!
//! Packets wait for an output in the order of their requests. The output is allocated to one of them, its *owner*,
//! until the tail of this packet has left. `engine.rs` and `serve.rs` move packets from buffer to buffer.

use selvedge_fabric::{NodeId, Peer, Topology};
use selvedge_os::huge::prefer_huge_pages;

use super::config::{Arbitration, NetworkConfig, Switching};
use super::control::Gates;
use super::partition::{End, Layout};
use super::slab::{NONE, Slab};
use super::speeds::Speed;
use super::state::{Flight, Link, Release, Releases, Resident, State, UNLIMITED, VirtualChannel};
use super::statistics::ChannelStatistics;
use crate::time::Time;

#[derive(Debug)]
pub(super) struct Buffers {
    layout: Layout,
    pub links: Vec<Link>,
    pub vcs: Vec<VirtualChannel>,
    /// Index of the first source queue in `vcs`.
    pub sources: u32,
    /// The first channel to an output buffer of a switch (`speed_up.rs`); `NONE`: switches have none.
    pub first_stage: u32,
    /// The first virtual channel of a stage; `sources`: there is none. And what is added to an output to get its stage's.
    pub first_staged: u32,
    pub stage_offset: u32,
    /// Numbers of the partition ([`Layout`]).
    shift: u32,
    first_injection: u32,
    first_node: u32,
    pub residents: Slab<Resident>,
    pub flights: Slab<Flight>,
    pub releases: Slab<Release>,
    generation: u32,
    pub virtual_channels: u32,
    pub cut_through: bool,
    pub gates: Gates,
    /// An output with fewer credits than this collects returned credits.
    credits_low: u32,
}

/// Whether the next buffer has room for the next packet or flit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Now,
    At(Time),
    /// The credits in flight are not enough: another packet has to move first.
    Unknown,
}

impl Buffers {
    /// Makes empty buffers, the first `sources` of them virtual channels.
    pub fn new(topology: &Topology, layout: Layout, config: &NetworkConfig, sources: u32) -> Buffers {
        let gates = Gates::new(topology, config);
        let ends = layout.ends(topology);
        let (mut links, mut vcs) = (links(topology, &ends, config), vcs(&layout, &ends, config, &gates));
        let first_stage = super::speed_up::add_stages(topology, &layout, config, &mut links, &mut vcs);
        vcs.extend(layout.partition.nodes.clone().map(|_| new(NONE, Peer::Unconnected, false, 0)));
        let virtual_channels = u32::from(config.link.virtual_channels);
        Buffers {
            shift: layout.shift(),
            first_injection: layout.first_injection(),
            first_node: layout.partition.nodes.start,
            stage_offset: match first_stage {
                NONE => 0,
                stage => (stage - layout.first_output()) * virtual_channels,
            },
            layout,
            links,
            vcs,
            gates,
            first_stage,
            first_staged: if first_stage == NONE { sources } else { first_stage * virtual_channels },
            sources,
            residents: Slab::new(),
            flights: Slab::new(),
            releases: Slab::new(),
            generation: 0,
            virtual_channels,
            cut_through: config.switch.switching == Switching::CutThrough,
            credits_low: config.link.buffer_flits - config.link.buffer_flits / CREDITS_OUT,
        }
    }

    /// Returns the number here of an output channel of a router.
    #[inline]
    pub fn output(&self, of_fabric: u32) -> u32 {
        of_fabric.wrapping_sub(self.shift)
    }

    /// Returns the injection channel, and the source queue, of a node.
    #[inline]
    pub fn injection(&self, node: NodeId) -> u32 {
        self.first_injection + (node.0 - self.first_node)
    }

    #[inline]
    pub fn source(&self, node: NodeId) -> u32 {
        self.sources + (node.0 - self.first_node)
    }

    /// Returns the node of a source queue.
    #[inline]
    pub fn node_of(&self, source: u32) -> NodeId {
        NodeId(source - self.sources + self.first_node)
    }

    /// Returns the fabric's number of a channel.
    pub fn of_fabric(&self, channel: u32) -> u32 {
        self.layout.of_fabric(channel)
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    #[inline]
    pub fn enter(&mut self, packet: u32, buffer: u32, left: u32, ready: u32, asked: Time, end_in: Time) -> u32 {
        let generation = self.next_generation();
        let resident = self.residents.insert(Resident {
            packet,
            next: NONE,
            next_waiter: NONE,
            buffer,
            output: NONE,
            generation,
            left,
            ready,
            asked,
            end_in,
            started: Time::ZERO,
            state: State::Arriving,
            lost: false,
            copies: 0,
            holder: NONE,
        });
        let buffer = &mut self.vcs[buffer as usize];
        if buffer.back == NONE {
            buffer.front = resident;
        } else {
            self.residents[buffer.back].next = resident;
        }
        buffer.back = resident;
        resident
    }

    /// Returns a new generation; never 0, the generation of a free slot.
    #[inline]
    pub fn next_generation(&mut self) -> u32 {
        self.generation = self.generation.wrapping_add(1).max(1);
        self.generation
    }

    /// Frees a resident's slot. Events still queued for it are stale.
    #[inline]
    pub fn free_resident(&mut self, resident: u32) {
        self.residents[resident].generation = 0;
        self.residents.remove(resident);
    }

    pub fn wait(&mut self, resident: u32, output: u32) {
        self.residents[resident].state = State::Waiting;
        let out = &mut self.vcs[output as usize];
        if out.waiters == NONE {
            out.waiters = resident;
        } else {
            self.residents[out.waiters_last].next_waiter = resident;
        }
        out.waiters_last = resident;
        self.links[out.channel as usize].waiting += 1;
    }

    /// Allocates a free virtual channel to one of the packets that wait for it.
    #[inline]
    pub fn allocate(&mut self, output: u32, arbitration: Arbitration) {
        let out = &self.vcs[output as usize];
        if out.owner != NONE || out.waiters == NONE {
            return;
        }
        let chosen = match arbitration {
            Arbitration::Fifo => out.waiters,
            Arbitration::RoundRobin => self.next_in_turn(output),
        };
        self.remove_waiter(chosen);
        let out = &mut self.vcs[output as usize];
        out.owner = chosen;
        out.last = self.residents[chosen].buffer;
        self.residents[chosen].state = State::Owner;
    }

    /// Returns the next packet by round-robin: the one in the first buffer after the last one served, by buffer number.
    fn next_in_turn(&self, output: u32) -> u32 {
        let out = &self.vcs[output as usize];
        let (mut chosen, mut least) = (NONE, u32::MAX);
        let mut waiter = out.waiters;
        while waiter != NONE {
            let here = &self.residents[waiter];
            let distance = here.buffer.wrapping_sub(out.last).wrapping_sub(1);
            if chosen == NONE || distance < least {
                (chosen, least) = (waiter, distance);
            }
            waiter = here.next_waiter;
        }
        chosen
    }

    /// Removes a resident from the packets that wait for its output. It still counts in `Link::waiting`.
    pub fn remove_waiter(&mut self, resident: u32) {
        let output = self.residents[resident].output as usize;
        let (mut before, mut waiter) = (NONE, self.vcs[output].waiters);
        while waiter != resident {
            before = waiter;
            waiter = self.residents[waiter].next_waiter;
        }
        let after = self.residents[resident].next_waiter;
        self.residents[resident].next_waiter = NONE;
        if before == NONE {
            self.vcs[output].waiters = after;
        } else {
            self.residents[before].next_waiter = after;
        }
        if after == NONE {
            self.vcs[output].waiters_last = before;
        }
    }

    /// Returns the flits that this resident sends at a time.
    #[inline]
    pub fn unit(&self, resident: u32) -> u32 {
        if self.cut_through { self.residents[resident].left } else { 1 }
    }

    /// Whether its head has left. Then the rest follows, even over a failed link.
    #[inline]
    pub fn has_begun(&self, resident: u32) -> bool {
        let here = &self.residents[resident];
        here.left < self.flights[here.packet].flits
    }

    /// Whether the next buffer has room for n flits. Collects returned credits.
    #[inline]
    pub fn has_room(&mut self, output: u32, now: Time, flits: u32) -> bool {
        let out = &mut self.vcs[output as usize];
        if out.credits < flits.max(self.credits_low) {
            out.credits += out.releases.collect(&mut self.releases, now);
        }
        if out.gated {
            return self.passes_gate(output, now, flits);
        }
        out.credits >= flits
    }

    /// Whether the next buffer has room for the owner's next packet or flit.
    pub fn room(&mut self, output: u32, now: Time, owner: u32) -> Room {
        let flits = self.unit(owner);
        if self.has_room(output, now, flits) {
            return Room::Now;
        }
        if self.vcs[output as usize].gated {
            if let Ok(change) = self.gate_changes(output, now) {
                return change.map_or(Room::Unknown, Room::At);
            }
        }
        let out = &self.vcs[output as usize];
        out.releases.when(&self.releases, flits - out.credits).map_or(Room::Unknown, Room::At)
    }

    /// Whether a flit or packet could be sent if the link were free.
    #[inline]
    pub fn has_work(&self, channel: u32) -> bool {
        if self.links[channel as usize].waiting == 0 {
            return false;
        }
        let first = (channel * self.virtual_channels) as usize;
        let outputs = &self.vcs[first..first + self.virtual_channels as usize];
        outputs
            .iter()
            .any(|out| if out.owner == NONE { out.waiters != NONE } else { self.residents[out.owner].ready > 0 })
    }
}

/// An output collects returned credits when more than 1/16 of its buffer is occupied: not for each packet, yet often
/// enough that few returns are kept.
const CREDITS_OUT: u32 = 16;

fn links(topology: &Topology, ends: &[(u32, End)], config: &NetworkConfig) -> Vec<Link> {
    let link = |Speed { flit_time, latency }: Speed| Link {
        free_at: Time::ZERO,
        wake_at: Time::MAX,
        flit_time,
        latency,
        waiting: 0,
        last_vc: 0,
        is_up: true,
        statistics: ChannelStatistics::default(),
    };
    let mut links = Vec::with_capacity(ends.len());
    prefer_huge_pages(&links);
    links.extend(ends.iter().map(|&(channel, _)| link(config.speed_of(topology, channel))));
    links
}

fn vcs(layout: &Layout, ends: &[(u32, End)], config: &NetworkConfig, gates: &Gates) -> Vec<VirtualChannel> {
    let new = |channel: u32, end: End, gated: bool| {
        let (end, away) = match end {
            End::Here(end) => (end, !layout.begins_here(channel)),
            End::Away => (Peer::Unconnected, true),
        };
        let credits = match end {
            Peer::Router { .. } => config.link.buffer_flits,
            Peer::Node(_) => config.node_buffer_flits.unwrap_or(UNLIMITED),
            Peer::Unconnected if away => config.link.buffer_flits,
            Peer::Unconnected => UNLIMITED,
        };
        VirtualChannel { at_border: away, ..new(channel, end, gated, credits) }
    };
    let all = ends.len() * usize::from(config.link.virtual_channels) + layout.partition.nodes.len();
    let mut vcs: Vec<VirtualChannel> = Vec::with_capacity(all);
    prefer_huge_pages(&vcs);
    for (channel, &(_, end)) in (0..).zip(ends) {
        let first = vcs.len() as u32;
        vcs.extend((first..).take(config.link.virtual_channels.into()).map(|vc| new(channel, end, gates.is_gated(vc))));
    }
    vcs
}

/// An empty virtual channel that leads to `end`.
pub(super) fn new(channel: u32, end: Peer, gated: bool, credits: u32) -> VirtualChannel {
    let (router, port) = match end {
        Peer::Router { router, port } => (router.0, port.0),
        _ => (NONE, 0),
    };
    VirtualChannel {
        owner: NONE,
        waiters: NONE,
        waiters_last: NONE,
        last: NONE,
        credits,
        releases: Releases::EMPTY,
        channel,
        front: NONE,
        back: NONE,
        busy_until: Time::ZERO,
        router,
        port,
        stuck: false,
        gated,
        at_border: false,
    }
}
