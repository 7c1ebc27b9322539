// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The physical channels under the edges of a tree.
//!
//! An edge leads from a child (an aggregation node or an end node) to its parent; a result that goes down the tree
//! takes it in the other direction. With a routing, an edge takes the routing's path where that is defined: to a router
//! with nodes. Otherwise it takes the path along which the tree was grown, which is a shortest one to every aggregation
//! node on it. Where parts of the network are lost, the routing must avoid them. An aggregation node at a router needs
//! no channel of its own. One at a host also takes the host's injection channel, or the port to the host.
use super::{Site, Tree};
use crate::id::{AnId, NodeId, Peer, Port, RouterId};
use crate::routing::Routing;
use crate::topology::Topology;
use alloc::vec::Vec;

/// The direction in which data takes an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the end nodes to the root: operands.
    Up,
    /// From the root to the end nodes: results.
    Down,
}

/// Number of edges over each channel, by the numbers of [`Topology::channel`]. Edges between aggregation nodes are
/// counted apart from edges to end nodes, which are the same in all trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinksUsed {
    edges: Vec<u32>,
    end_edges: Vec<u32>,
}

impl LinksUsed {
    pub(super) fn new(topology: &Topology) -> LinksUsed {
        let zeros = alloc::vec![0; topology.channels() as usize];
        LinksUsed { edges: zeros.clone(), end_edges: zeros }
    }

    /// The edges between aggregation nodes over each channel.
    pub fn edges(&self) -> &[u32] {
        &self.edges
    }

    /// The edges to end nodes over each channel.
    pub fn end_edges(&self) -> &[u32] {
        &self.end_edges
    }

    /// The most edges between aggregation nodes on any channel.
    pub fn edges_max(&self) -> u32 {
        self.edges.iter().copied().max().unwrap_or(0)
    }

    /// The most edges to end nodes on any channel.
    pub fn end_edges_max(&self) -> u32 {
        self.end_edges.iter().copied().max().unwrap_or(0)
    }

    /// Total length of all edges between aggregation nodes, in channels.
    pub fn edges_length(&self) -> u64 {
        self.edges.iter().map(|&edges| u64::from(edges)).sum()
    }
}

impl Tree<'_> {
    /// The channels that an edge crosses, in order: from a node to its parent, or back. Empty at the root, and for a
    /// node outside of the tree. O(ports of a router + length).
    pub fn edge(&self, topology: &Topology, routing: Option<&Routing>, an: AnId, direction: Direction) -> Vec<u32> {
        let mut channels = Vec::new();
        if let Some(parent) = self.parent(an) {
            self.cross(topology, routing, (self.set.site(an), self.set.site(parent)), direction, &mut channels);
        }
        channels
    }

    /// The channels between an end node and its aggregation node. Empty: the aggregation node is on this node, or the
    /// node is attached to none.
    pub fn end_edge(
        &self,
        topology: &Topology,
        routing: Option<&Routing>,
        node: NodeId,
        direction: Direction,
    ) -> Vec<u32> {
        let mut channels = Vec::new();
        if let Some(home) = self.set.attached(node) {
            self.cross(topology, routing, (Some(Site::Host(node)), self.set.site(home)), direction, &mut channels);
        }
        channels
    }

    /// Counts the tree's edges over each channel. O(channels + length of all edges).
    pub fn links_used(&self, topology: &Topology, routing: Option<&Routing>, direction: Direction) -> LinksUsed {
        let mut used = LinksUsed::new(topology);
        self.add_links(topology, routing, direction, &mut used);
        used
    }

    pub(super) fn add_links(
        &self,
        topology: &Topology,
        routing: Option<&Routing>,
        direction: Direction,
        used: &mut LinksUsed,
    ) {
        let mut channels = Vec::new();
        for an in self.nodes() {
            if let Some(parent) = self.parent(an) {
                let ends = (self.set.site(an), self.set.site(parent));
                self.cross(topology, routing, ends, direction, &mut channels);
                channels.iter().for_each(|&channel| used.edges[channel as usize] += 1);
            }
            for &node in self.leaves(an) {
                self.cross(topology, routing, (Some(Site::Host(node)), self.set.site(an)), direction, &mut channels);
                channels.iter().for_each(|&channel| used.end_edges[channel as usize] += 1);
            }
        }
    }

    fn cross(
        &self,
        topology: &Topology,
        routing: Option<&Routing>,
        ends: (Option<Site>, Option<Site>),
        direction: Direction,
        channels: &mut Vec<u32>,
    ) {
        channels.clear();
        let (Some(child), Some(parent)) = ends else { return };
        let (from, to) = match direction {
            Direction::Up => (child, parent),
            Direction::Down => (parent, child),
        };
        if from == to {
            return;
        }
        if let Site::Host(node) = from {
            channels.push(topology.injection_channel(node));
        }
        let start = channels.len();
        if !routing.is_some_and(|routing| routed(topology, routing, from, to, channels)) {
            channels.truncate(start);
            along(topology, self.ports(), from.router(topology), to.router(topology), channels);
        }
        if let Site::Host(node) = to {
            let (router, port) = topology.attachment(node);
            channels.push(topology.channel(router, port));
        }
    }
}

/// The channel from a router towards the root, and the router that it leads to.
pub(super) fn towards(topology: &Topology, ports: &[u16], at: RouterId) -> Option<(u32, RouterId)> {
    let port = Port(ports[at.0 as usize]);
    match topology.peer(at, port) {
        Peer::Router { router, .. } => Some((topology.channel(at, port), router)),
        _ => None,
    }
}

/// Adds the channels between two routers along the paths: towards the root to the first router that both ends pass,
/// then away from it. O(distance to the root).
pub(super) fn along(topology: &Topology, ports: &[u16], from: RouterId, to: RouterId, channels: &mut Vec<u32>) {
    let start = channels.len();
    let mut at = from;
    while at != to {
        let Some((channel, next)) = towards(topology, ports, at) else { break };
        channels.push(channel);
        at = next;
    }
    if at == to {
        return;
    }
    let mut back = Vec::new();
    at = to;
    while let Some((channel, next)) = towards(topology, ports, at) {
        back.push(channel);
        at = next;
    }
    let shared = channels[start..].iter().rev().zip(back.iter().rev()).take_while(|(a, b)| a == b).count();
    channels.truncate(channels.len() - shared);
    back.truncate(back.len() - shared);
    for (router, port) in back.into_iter().rev().filter_map(|channel| topology.channel_source(channel)) {
        if let Peer::Router { router: above, port: down } = topology.peer(router, port) {
            channels.push(topology.channel(above, down));
        }
    }
}

/// Adds the routing's path between the routers of two sites. False: it has none.
fn routed(topology: &Topology, routing: &Routing, from: Site, to: Site, channels: &mut Vec<u32>) -> bool {
    let Some(target) = to.node(topology) else { return false };
    let mut state = routing.start(topology, from.node(topology).unwrap_or(target), target, 0);
    let (mut at, end) = (from.router(topology), to.router(topology));
    let mut arrived = None;
    for _ in 0..=2 * u64::from(topology.routers()) {
        if at == end {
            return true;
        }
        let Some(hop) = routing.next(topology, at, arrived, target, &mut state).first() else { return false };
        let Peer::Router { router, port } = topology.peer(at, hop.port) else { return false };
        channels.push(topology.channel(at, hop.port));
        (at, arrived) = (router, Some((port, hop.vc)));
    }
    false
}

impl Site {
    pub fn router(self, topology: &Topology) -> RouterId {
        match self {
            Site::Router(router) => router,
            Site::Host(node) => topology.attachment(node).0,
        }
    }

    /// The node itself, or the first node at the router.
    fn node(self, topology: &Topology) -> Option<NodeId> {
        let router = match self {
            Site::Host(node) => return Some(node),
            Site::Router(router) => router,
        };
        (0..topology.ports(router)).find_map(|port| match topology.peer(router, Port(port)) {
            Peer::Node(node) => Some(node),
            _ => None,
        })
    }
}
