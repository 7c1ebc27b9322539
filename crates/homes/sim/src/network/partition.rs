// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Partitions of a fabric: runs of neighbouring routers with the nodes at them, each simulated as a network of its own.
//!
//! A partition numbers its channels by itself, in this order, each part in the order of the fabric's own numbers:
//!
//! ```text
//! 0            below: channels of earlier partitions that lead here
//! ..           outputs of its routers
//! ..           above: channels of later partitions that lead here
//! ..           injection channels of its nodes
//! ```
//!
//! So the channels that lead to one router have the same order as in the whole fabric, and arbitration by turns chooses
//! alike. A whole fabric is a single partition whose numbers are the fabric's own.
//!
//! A channel at the border is in two partitions: its *output* half (link, credits, owner) where it begins, its *buffer*
//! half where it ends. `border.rs` has what crosses.

use std::ops::Range;

use selvedge_fabric::{Algorithm, Kind, NodeId, Peer, Port, RouterId, Topology};

/// The routers and nodes of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    pub routers: Range<u32>,
    pub nodes: Range<u32>,
}

impl Partition {
    /// The whole fabric.
    pub fn whole(topology: &Topology) -> Partition {
        Partition { routers: 0..topology.routers(), nodes: 0..topology.nodes() }
    }

    /// Divides a fabric into at most `count` partitions with about as many ports each. One, if nodes are not numbered in
    /// the order of their routers.
    pub fn divide(topology: &Topology, algorithm: Algorithm, count: u32) -> Vec<Partition> {
        Partition::divide_by(topology, algorithm, count, |_| 0)
    }

    /// Divides like [`Partition::divide`] a fabric whose routers have other work beside their ports, in ports.
    pub fn divide_by(
        topology: &Topology,
        algorithm: Algorithm,
        count: u32,
        work: impl Fn(u32) -> u64,
    ) -> Vec<Partition> {
        let router_of = |node| topology.attachment(NodeId(node)).0.0;
        let nodes = topology.nodes();
        if (1..nodes).any(|node| router_of(node - 1) > router_of(node)) {
            return vec![Partition::whole(topology)];
        }
        let unit = unit(topology, algorithm);
        let weight = |router| u64::from(topology.ports(RouterId(router))) + work(router);
        let all: u64 = (0..topology.routers()).map(weight).sum();
        let (mut partitions, mut seen, mut begin) = (Vec::new(), 0, Partition { routers: 0..0, nodes: 0..0 });
        for first in (0..topology.routers()).step_by(unit as usize) {
            let end = (first + unit).min(topology.routers());
            seen += (first..end).map(weight).sum::<u64>();
            let due = partitions.len() as u64 + 1;
            if seen * u64::from(count) >= all * due {
                let past = (begin.nodes.end..nodes).find(|&node| router_of(node) >= end).unwrap_or(nodes);
                // All rails of a node stay together.
                if !topology.rails().is_whole(past) {
                    continue;
                }
                begin = Partition { routers: begin.routers.end..end, nodes: begin.nodes.end..past };
                partitions.push(begin.clone());
            }
        }
        partitions
    }
}

/// Returns the number of consecutive routers that stay together: a group, whose routers read each other's queues under
/// UGAL-G.
fn unit(topology: &Topology, algorithm: Algorithm) -> u32 {
    match topology.kind() {
        Kind::Planes(planes) => unit(&planes.plane, algorithm) * planes.count,
        Kind::Dragonfly(dragonfly) => dragonfly.routers_per_group,
        Kind::DragonflyPlus(fly) => topology.routers() / fly.groups,
        _ if algorithm == Algorithm::UgalGlobal => topology.routers(),
        _ => 1,
    }
}

/// A partition's own numbers.
#[derive(Debug)]
pub(super) struct Layout {
    pub partition: Partition,
    /// The fabric's numbers of channels that lead here from other partitions, ascending.
    below: Vec<u32>,
    above: Vec<u32>,
    /// The fabric's numbers of the outputs of its routers, and of the injection channels of its nodes.
    outputs: Range<u32>,
    injections: Range<u32>,
}

/// The end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Here(Peer),
    /// At a router of another partition.
    Away,
}

impl Layout {
    pub fn new(topology: &Topology, partition: Partition) -> Layout {
        let Partition { routers, nodes } = &partition;
        let (mut below, mut above) = (Vec::new(), Vec::new());
        for router in routers.clone().map(RouterId) {
            for port in (0..topology.ports(router)).map(Port) {
                if let Peer::Router { router: other, port } = topology.peer(router, port) {
                    let channel = topology.channel(other, port);
                    if other.0 < routers.start {
                        below.push(channel);
                    } else if other.0 >= routers.end {
                        above.push(channel);
                    }
                }
            }
        }
        below.sort_unstable();
        above.sort_unstable();
        let first_injection = topology.channels() - topology.nodes();
        let first = |router| {
            if router < topology.routers() { topology.channel(RouterId(router), Port(0)) } else { first_injection }
        };
        let outputs = first(routers.start)..first(routers.end);
        let injections = first_injection + nodes.start..first_injection + nodes.end;
        Layout { partition, below, above, outputs, injections }
    }

    /// Returns the number of channels.
    pub fn channels(&self) -> u32 {
        (self.below.len() + self.above.len()) as u32 + self.outputs.len() as u32 + self.injections.len() as u32
    }

    /// The first output of its routers.
    pub fn first_output(&self) -> u32 {
        self.below.len() as u32
    }

    pub fn outputs(&self) -> u32 {
        self.outputs.len() as u32
    }

    /// The end of its routers' outputs in the fabric's numbers.
    pub fn outputs_end(&self) -> u32 {
        self.outputs.end
    }

    pub fn first_injection(&self) -> u32 {
        self.channels() - self.injections.len() as u32
    }

    /// Returns the number that is subtracted, with wrap-around, from the fabric's number of an output to get its own.
    pub fn shift(&self) -> u32 {
        self.outputs.start.wrapping_sub(self.first_output())
    }

    /// Returns the own number of a channel of the fabric. `None`: it neither begins nor ends here.
    pub fn local(&self, channel: u32) -> Option<u32> {
        if self.outputs.contains(&channel) {
            return Some(channel.wrapping_sub(self.shift()));
        }
        if self.injections.contains(&channel) {
            return Some(self.first_injection() + channel - self.injections.start);
        }
        match self.below.binary_search(&channel) {
            Ok(place) => Some(place as u32),
            Err(_) => {
                let place = self.above.binary_search(&channel).ok()?;
                Some(self.first_output() + self.outputs() + place as u32)
            }
        }
    }

    /// Whether a channel begins here, and not in another partition.
    pub fn begins_here(&self, own: u32) -> bool {
        let outputs = self.first_output()..self.first_output() + self.outputs();
        outputs.contains(&own) || own >= self.first_injection()
    }

    /// Returns the fabric's number of a channel.
    pub fn of_fabric(&self, own: u32) -> u32 {
        let above = self.first_output() + self.outputs();
        if own < self.first_output() {
            self.below[own as usize]
        } else if own < above {
            own.wrapping_add(self.shift())
        } else if own < self.first_injection() {
            self.above[(own - above) as usize]
        } else {
            own - self.first_injection() + self.injections.start
        }
    }

    /// Returns the channels that begin in other partitions: the fabric's number, and the own one.
    pub fn incoming(&self) -> impl Iterator<Item = (u32, u32)> {
        let above = self.first_output() + self.outputs();
        self.below.iter().copied().zip(0..).chain(self.above.iter().copied().zip(above..))
    }

    /// Returns the fabric's number and the end of each channel, by own number.
    pub fn ends(&self, topology: &Topology) -> Vec<(u32, End)> {
        let mut ends = Vec::with_capacity(self.channels() as usize);
        let incoming = |channel: u32| {
            let end = topology.channel_source(channel).map(|(router, port)| topology.peer(router, port));
            (channel, End::Here(end.unwrap_or(Peer::Unconnected)))
        };
        ends.extend(self.below.iter().map(|&channel| incoming(channel)));
        for router in self.partition.routers.clone().map(RouterId) {
            for port in (0..topology.ports(router)).map(Port) {
                let end = match topology.peer(router, port) {
                    Peer::Router { router, .. } if !self.partition.routers.contains(&router.0) => End::Away,
                    end => End::Here(end),
                };
                ends.push((topology.channel(router, port), end));
            }
        }
        ends.extend(self.above.iter().map(|&channel| incoming(channel)));
        for node in self.partition.nodes.clone().map(NodeId) {
            let (router, port) = topology.attachment(node);
            ends.push((topology.injection_channel(node), End::Here(Peer::Router { router, port })));
        }
        ends
    }
}
