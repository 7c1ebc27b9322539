// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Topologies: routers, nodes, and the links between their ports.
//!
//! A topology is two tables: the peer of each port, and the router and port of each node. [`Kind`] has the parameters
//! in closed form (dimensions, levels of a tree, groups of a dragonfly), for routings that compute a route.
//!
//! # Invariants
//!
//! 1. Links have two directions: the peer of a port's peer is that port.
//! 2. Every endpoint is attached to exactly one port, and every one reaches every other; in a fabric of planes, every
//!    other one of its plane. An endpoint is a node, or one rail of a node ([`Rails`]).
//! 3. The output channel of port `p` of router `r` has number `first_port[r] + p`. After these come the injection
//!    channels of the nodes, in the order of the nodes. The numbers are dense, unconnected ports included.
//!
//! # Costs
//!
//! 8 bytes for each port and each node, 4 for each router, and 2 for each router and dimension: under 6 MB for a 3-D
//! torus of 65,536 routers with one node each. `peer`, `attachment` and `channel` are O(1).
use crate::id::{NodeId, Peer, Port, RouterId};
use crate::rails::Rails;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;

mod class;
mod draft;
mod dragonfly;
mod dragonfly_plus;
mod error;
mod graph;
mod grid;
mod hyperx;
mod inside;
mod links;
mod planes;
mod slim_fly;
mod tree;

pub use class::{EdgeSpeed, LinkClasses};
use draft::{Draft, PackedPeer, UNCONNECTED};
pub use dragonfly::Dragonfly;
pub use dragonfly_plus::DragonflyPlus;
pub use error::TopologyError;
pub use grid::DIMENSIONS_MAX;
pub use hyperx::HyperX;
pub use links::{Cable, Station};
pub use planes::Planes;
pub use slim_fly::SlimFly;
pub use tree::{FatTree, TREE_LEVELS_MAX, TreeLevel, TreePlace};

/// The most ports of all routers together, which limits the tables to 256 MB.
pub const PORTS_MAX: u32 = 1 << 25;

/// An immutable network of routers and nodes. Cloning copies its tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    kind: Kind,
    rails: Rails,
    /// The index in `peers` of each router's first port, and the number of all ports at the end.
    first_port: Vec<u32>,
    peers: Vec<PackedPeer>,
    attachments: Vec<(RouterId, Port)>,
    /// Grids, HyperX, and graphs with positions: the coordinates of router `r` begin at `r * dimensions`.
    coordinates: Vec<u16>,
    /// Graphs only: the weight of each output channel for shortest paths. Empty: all are 1.
    weights: Vec<u32>,
    /// Graphs only: the speeds that its text gives to links, and by output channel the number of the link's. Empty: all
    /// are the machine's.
    edge_speeds: Vec<EdgeSpeed>,
    edge_numbers: Vec<u16>,
    router_names: Vec<String>,
    node_names: Vec<String>,
}

/// The family that a topology belongs to, with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    Mesh { dimensions: Vec<u32>, nodes_per_router: u32 },
    Torus { dimensions: Vec<u32>, wrap: Vec<bool>, nodes_per_router: u32 },
    Hypercube { order: u32, nodes_per_router: u32 },
    FatTree(FatTree),
    Dragonfly(Dragonfly),
    DragonflyPlus(DragonflyPlus),
    HyperX(HyperX),
    SlimFly(SlimFly),
    Crossbar { nodes: u32 },
    Graph,
    Planes(Planes),
}

impl Topology {
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Its endpoints. [`Rails::nodes`] has the nodes of the machine.
    pub fn nodes(&self) -> u32 {
        self.attachments.len() as u32
    }

    pub fn routers(&self) -> u32 {
        self.first_port.len() as u32 - 1
    }

    /// All ports of a router, those to nodes and unconnected ones included.
    #[inline]
    pub fn ports(&self, router: RouterId) -> u16 {
        let r = router.0 as usize;
        (self.first_port[r + 1] - self.first_port[r]) as u16
    }

    /// The largest number of ports that a router has.
    pub fn ports_max(&self) -> u16 {
        (0..self.routers()).map(|r| self.ports(RouterId(r))).max().unwrap_or(0)
    }

    /// The peer of a port. A port that the router does not have is unconnected.
    #[inline]
    pub fn peer(&self, router: RouterId, port: Port) -> Peer {
        if port.0 >= self.ports(router) {
            return Peer::Unconnected;
        }
        self.peers[self.channel(router, port) as usize].unpack()
    }

    /// The router and the port that a node is attached to.
    #[inline]
    pub fn attachment(&self, node: NodeId) -> (RouterId, Port) {
        self.attachments[node.0 as usize]
    }

    /// Directed channels: an output channel for every port of every router, then an injection channel for every node.
    pub fn channels(&self) -> u32 {
        self.peers.len() as u32 + self.nodes()
    }

    /// The number of a port's output channel.
    #[inline]
    pub fn channel(&self, router: RouterId, port: Port) -> u32 {
        self.first_port[router.0 as usize] + u32::from(port.0)
    }

    /// The number of a node's injection channel, which leads to its router.
    #[inline]
    pub fn injection_channel(&self, node: NodeId) -> u32 {
        self.peers.len() as u32 + node.0
    }

    /// The router and port of an output channel; None for an injection channel. O(log routers).
    pub fn channel_source(&self, channel: u32) -> Option<(RouterId, Port)> {
        if channel as usize >= self.peers.len() {
            return None;
        }
        let router = self.first_port.partition_point(|&first| first <= channel) - 1;
        Some((RouterId(router as u32), Port((channel - self.first_port[router]) as u16)))
    }

    /// The neighbours of a router, in the order of its ports.
    pub fn neighbours(&self, router: RouterId) -> impl Iterator<Item = (Port, RouterId)> + Clone + '_ {
        let first = self.first_port[router.0 as usize] as usize;
        let last = self.first_port[router.0 as usize + 1] as usize;
        self.peers[first..last].iter().enumerate().filter_map(|(port, peer)| match peer.unpack() {
            Peer::Router { router, .. } => Some((Port(port as u16), router)),
            _ => None,
        })
    }

    /// The number of dimensions of a mesh, torus or HyperX; 2 for a graph with positions; 0 for all others.
    #[inline]
    pub fn dimensions(&self) -> usize {
        match &self.kind {
            Kind::Mesh { dimensions, .. } | Kind::Torus { dimensions, .. } => dimensions.len(),
            Kind::HyperX(hyperx) => hyperx.dimensions.len(),
            Kind::Graph if !self.coordinates.is_empty() => 2,
            _ => 0,
        }
    }

    /// A router's coordinates in a mesh, torus or HyperX, or its position in a graph; empty for all others.
    #[inline]
    pub fn coordinates(&self, router: RouterId) -> &[u16] {
        let n = self.dimensions();
        &self.coordinates[router.0 as usize * n..][..n]
    }

    /// Whether links have different weights.
    pub fn is_weighted(&self) -> bool {
        !self.weights.is_empty()
    }

    /// The weight of a link for shortest paths: 1 unless a graph's text has another.
    #[inline]
    pub fn weight(&self, router: RouterId, port: Port) -> u32 {
        self.weights.get(self.channel(router, port) as usize).copied().unwrap_or(1)
    }

    /// A router's name: from a graph's text, or its coordinates, its position in a tree or dragonfly, or its number.
    pub fn router_name(&self, router: RouterId) -> String {
        if let Some(name) = self.router_names.get(router.0 as usize) {
            return name.clone();
        }
        match &self.kind {
            Kind::Mesh { .. } | Kind::Torus { .. } | Kind::HyperX(_) => {
                let words: Vec<String> = self.coordinates(router).iter().map(u16::to_string).collect();
                alloc::format!("({})", words.join(","))
            }
            Kind::Hypercube { order, .. } => alloc::format!("{:0width$b}", router.0, width = *order as usize),
            Kind::FatTree(tree) => tree.router_name(router),
            Kind::Dragonfly(dragonfly) => dragonfly.router_name(router),
            Kind::DragonflyPlus(fly) => fly.router_name(router),
            Kind::SlimFly(fly) => fly.router_name(router),
            Kind::Planes(planes) => {
                alloc::format!("plane {} {}", planes.of(router), planes.plane.router_name(planes.local(router)))
            }
            Kind::Crossbar { .. } | Kind::Graph => router.to_string(),
        }
    }

    /// An endpoint's name: from a graph's text, or its number; with several rails, its node and rail.
    pub fn node_name(&self, node: NodeId) -> String {
        match self.node_names.get(node.0 as usize) {
            Some(name) => name.clone(),
            None if self.rails.count() > 1 => self.rail_name(node),
            None => node.to_string(),
        }
    }

    /// The fewest routers on a route between two different nodes: one more than the links between routers, and the
    /// number of calls of `Routing::next` on a minimal route. Costs as much as [`Topology::distance`].
    pub fn hops_min(&self, from: NodeId, to: NodeId) -> u32 {
        self.distance(self.attachment(from).0, self.attachment(to).0).saturating_add(1)
    }

    /// The fewest links between two routers. O(dimensions) for meshes, tori, hypercubes, O(levels) between the leaves of
    /// a tree, O(links per router squared) on a dragonfly, O(links) and an allocation otherwise. `u32::MAX` between planes.
    pub fn distance(&self, from: RouterId, to: RouterId) -> u32 {
        let known = match &self.kind {
            Kind::Mesh { .. } | Kind::Torus { .. } => Some(self.grid_distance(from, to)),
            Kind::Hypercube { .. } => Some((from.0 ^ to.0).count_ones()),
            Kind::FatTree(tree) => tree.distance(from, to),
            Kind::Dragonfly(dragonfly) => Some(dragonfly.distance(from, to)),
            Kind::DragonflyPlus(fly) => fly.distance(from, to),
            Kind::HyperX(_) => Some(hyperx::distance(self, from, to)),
            Kind::Crossbar { .. } => Some(0),
            Kind::Planes(planes) if planes.of(from) != planes.of(to) => Some(u32::MAX),
            Kind::Planes(planes) => Some(planes.plane.distance(planes.local(from), planes.local(to))),
            Kind::SlimFly(_) | Kind::Graph => None,
        };
        known.unwrap_or_else(|| self.distances(from)[to.0 as usize])
    }

    /// The fewest links from one router to each router; `u32::MAX`: it cannot be reached. O(links).
    pub fn distances(&self, from: RouterId) -> Vec<u32> {
        let mut distances = alloc::vec![u32::MAX; self.routers() as usize];
        let mut queue = VecDeque::new();
        distances[from.0 as usize] = 0;
        queue.push_back(from);
        while let Some(router) = queue.pop_front() {
            for (_, next) in self.neighbours(router) {
                if distances[next.0 as usize] == u32::MAX {
                    distances[next.0 as usize] = distances[router.0 as usize] + 1;
                    queue.push_back(next);
                }
            }
        }
        distances
    }

    /// The least cost of a path from the nearest of some routers to each router; `u64::MAX`: there is none. Costs as
    /// for [`Topology::nearest_first`].
    pub fn costs(&self, from: &[RouterId], cost: impl Fn(RouterId, Port) -> Option<u32>) -> Vec<u64> {
        let mut costs = alloc::vec![u64::MAX; self.routers() as usize];
        self.nearest_first(from, cost, |router, so_far| {
            costs[router.0 as usize] = so_far;
            true
        });
        costs
    }

    /// Visits routers in the order of the least cost of a path from the nearest of some routers, then of their numbers,
    /// until `visit` returns false. `cost` returns a link's cost by its output channel: at least 1, the same in both
    /// directions; None: the link is not used. O(links × log(routers)) for all routers.
    pub fn nearest_first(
        &self,
        from: &[RouterId],
        cost: impl Fn(RouterId, Port) -> Option<u32>,
        mut visit: impl FnMut(RouterId, u64) -> bool,
    ) {
        let mut costs = alloc::vec![u64::MAX; self.routers() as usize];
        let mut queue = BinaryHeap::new();
        for &router in from {
            if core::mem::replace(&mut costs[router.0 as usize], 0) != 0 {
                queue.push(Reverse((0u64, router)));
            }
        }
        while let Some(Reverse((so_far, at))) = queue.pop() {
            if so_far > costs[at.0 as usize] {
                continue;
            }
            if !visit(at, so_far) {
                return;
            }
            for (port, next) in self.neighbours(at) {
                let Some(link) = cost(at, port) else { continue };
                let there = so_far + u64::from(link);
                if there < costs[next.0 as usize] {
                    costs[next.0 as usize] = there;
                    queue.push(Reverse((there, next)));
                }
            }
        }
    }

    /// The most links on a shortest path between the routers of two nodes. O(routers × links) for dragonflies and
    /// graphs, in closed form for all others.
    pub fn diameter(&self) -> u32 {
        match &self.kind {
            Kind::Mesh { .. } | Kind::Torus { .. } => self.grid_diameter(),
            Kind::Hypercube { order, .. } => *order,
            Kind::FatTree(tree) => tree.diameter(),
            Kind::HyperX(hyperx) => hyperx.diameter(),
            Kind::DragonflyPlus(fly) => fly.diameter(),
            Kind::SlimFly(_) => 2,
            Kind::Crossbar { .. } => 0,
            Kind::Planes(planes) => planes.plane.diameter(),
            Kind::Dragonfly(_) | Kind::Graph => {
                let hosts = self.host_routers();
                let farthest = |&from: &RouterId| {
                    let distances = self.distances(from);
                    hosts.iter().map(|to| distances[to.0 as usize]).max().unwrap_or(0)
                };
                hosts.iter().map(farthest).max().unwrap_or(0)
            }
        }
    }

    /// The routers that have nodes, ascending.
    pub fn host_routers(&self) -> Vec<RouterId> {
        let mut hosts: Vec<RouterId> = self.attachments.iter().map(|a| a.0).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }

    /// Channels of one direction across the cut that halves the network, if a closed form is known. For meshes, tori
    /// and HyperX it is the smallest cut through the middle of a dimension (next to the middle, if its size is odd); for full fat
    /// trees the least cut between two halves of the leaves; for dragonflies with an even number of groups the cut between
    /// two halves of the groups.
    pub fn bisection_channels(&self) -> Option<u32> {
        match &self.kind {
            Kind::Mesh { .. } | Kind::Torus { .. } => self.grid_bisection(),
            Kind::Hypercube { order, .. } => (*order > 0).then(|| self.routers() / 2),
            Kind::FatTree(tree) => tree.bisection(),
            Kind::Dragonfly(dragonfly) => dragonfly.bisection(),
            Kind::DragonflyPlus(fly) => fly.bisection(),
            Kind::HyperX(hyperx) => hyperx.bisection(),
            Kind::Planes(planes) => Some(planes.plane.bisection_channels()? * planes.count),
            Kind::SlimFly(_) | Kind::Crossbar { .. } | Kind::Graph => None,
        }
    }

    /// The upper bound of every routing under uniform traffic (all other nodes are equally likely): the share of a
    /// channel's bandwidth at which each node can inject, as a fraction (numerator, denominator) of at most 1, in
    /// lowest terms. It follows from the load of the busiest cut, or of all channels of a dimension together. None for
    /// graphs, and for one fabric with several rails of each node, whose endpoints send to those of their rail only.
    pub fn saturation_uniform(&self) -> Option<(u64, u64)> {
        let bound = match &self.kind {
            Kind::Planes(planes) => return planes.plane.saturation_uniform(),
            _ if self.rails.count() > 1 => return None,
            Kind::Mesh { .. } | Kind::Torus { .. } => self.grid_saturation(),
            Kind::Hypercube { order, nodes_per_router } => {
                let nodes = u128::from(self.nodes());
                // Half of all ordered pairs of routers differ in a given bit; the channels of that dimension share
                // their load.
                if *order > 0 { (2 * (nodes - 1), nodes * u128::from(*nodes_per_router)) } else { (1, 1) }
            }
            Kind::FatTree(tree) => tree.saturation(),
            Kind::Dragonfly(dragonfly) => dragonfly.saturation(),
            Kind::DragonflyPlus(fly) => fly.saturation(),
            Kind::HyperX(hyperx) => hyperx.saturation(self.nodes()),
            Kind::SlimFly(fly) => fly.saturation(),
            Kind::Crossbar { .. } => (1, 1),
            Kind::Graph => return None,
        };
        if bound.0 >= bound.1 {
            return Some((1, 1));
        }
        let divisor = common_divisor(bound.0, bound.1);
        Some(((bound.0 / divisor) as u64, (bound.1 / divisor) as u64))
    }

    /// Returns the network with one further node at each of these routers, behind a port of its own: the unit inside a
    /// switch that ends packets, such as an aggregation node (seed 001, section III.F). These nodes are numbered after
    /// the others, in this order. The kind stays the same. Each node has one rail.
    pub fn with_nodes_inside(&self, routers: &[RouterId]) -> Result<Topology, TopologyError> {
        inside::with_nodes(self, routers)
    }

    /// A HyperX of these dimensions: all routers of a line are linked to each other, by `trunks` links in each dimension;
    /// an empty `trunks` means one.
    pub fn hyperx(dimensions: &[u32], trunks: &[u32], nodes_per_router: u32) -> Result<Topology, TopologyError> {
        hyperx::make(dimensions, trunks, nodes_per_router)
    }

    /// A fat tree of switches with `radix` ports. `taper` is (down, up) at a leaf; without `nodes` it has as many nodes
    /// as fit.
    pub fn fat_tree(levels: u32, radix: u32, taper: (u32, u32), nodes: Option<u32>) -> Result<Topology, TopologyError> {
        tree::of_radix(levels, radix, taper, nodes)
    }

    /// A fat tree with numbers for each level, from the leaves to the top: `children` of a switch, its `parents` and
    /// the `trunks`, parallel links to each parent. The top level has no parents, so the last two have one entry less; an
    /// empty `trunks` means one link. Without `nodes` it has as many nodes as fit.
    pub fn xgft(
        children: &[u32],
        parents: &[u32],
        trunks: &[u32],
        nodes: Option<u32>,
    ) -> Result<Topology, TopologyError> {
        tree::of_levels(children, parents, trunks, nodes)
    }

    /// A Slim Fly for a prime power `q` from 3 to 200. `nodes_per_router`: None: half as many as links, rounded up.
    pub fn slim_fly(q: u32, nodes_per_router: Option<u32>) -> Result<Topology, TopologyError> {
        slim_fly::make(q, nodes_per_router)
    }

    pub fn dragonfly(
        groups: u32,
        routers_per_group: u32,
        nodes_per_router: u32,
        global_links_per_router: u32,
    ) -> Result<Topology, TopologyError> {
        dragonfly::make(groups, routers_per_group, nodes_per_router, global_links_per_router)
    }

    /// A dragonfly+ of groups of these (leaves, spines).
    pub fn dragonfly_plus(
        groups: u32,
        in_group: (u32, u32),
        nodes_per_leaf: u32,
        global_links_per_spine: u32,
    ) -> Result<Topology, TopologyError> {
        dragonfly_plus::make(groups, in_group, nodes_per_leaf, global_links_per_spine)
    }

    /// The groups of adversarial traffic: the nodes of each, which have consecutive numbers, and for each group the group
    /// that it sends to. A dragonfly's group sends to the next one; a HyperX's router to the next in the first dimension
    /// of more than one, a Slim Fly's to its first neighbour. None: there are not two groups, or no such groups in this kind.
    pub fn adversary(&self) -> Option<(u32, Vec<u32>)> {
        match &self.kind {
            Kind::Dragonfly(d) if d.groups > 1 => {
                let next = (0..d.groups).map(|group| (group + 1) % d.groups).collect();
                Some((d.routers_per_group * d.nodes_per_router, next))
            }
            Kind::DragonflyPlus(fly) if fly.groups > 1 => {
                let next = (0..fly.groups).map(|group| (group + 1) % fly.groups).collect();
                Some((fly.leaves_per_group * fly.nodes_per_leaf, next))
            }
            Kind::HyperX(hyperx) => Some((hyperx.nodes_per_router, hyperx.next_in_line(self.routers())?)),
            Kind::SlimFly(fly) => {
                let first = |router| self.neighbours(RouterId(router)).next().map_or(router, |(_, next)| next.0);
                Some((fly.nodes_per_router, (0..self.routers()).map(first).collect()))
            }
            _ => None,
        }
    }

    /// One router with a port for each node: only packets for the same node block each other. At most 65,535 nodes, for
    /// the number of a port has 16 bits.
    pub fn crossbar(nodes: u32) -> Result<Topology, TopologyError> {
        if nodes == 0 {
            return Err(TopologyError::Zero { what: "nodes", of: "crossbar" });
        }
        let mut draft = Draft::new(1, |_| nodes, nodes)?;
        for node in 0..nodes {
            draft.attach(NodeId(node), RouterId(0), node);
        }
        draft.finish(Kind::Crossbar { nodes })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Mesh { dimensions, .. } => write!(f, "mesh {}", Product(dimensions)),
            Kind::Torus { dimensions, wrap, .. } => {
                write!(f, "torus {}", Product(dimensions))?;
                if wrap.iter().any(|w| !w) {
                    let wrapped: Vec<String> = (0..wrap.len()).filter(|&d| wrap[d]).map(|d| d.to_string()).collect();
                    write!(f, " (wraps in dimension {})", wrapped.join(", "))?;
                }
                Ok(())
            }
            Kind::Hypercube { order, .. } => write!(f, "hypercube of order {order}"),
            Kind::FatTree(tree) => tree.fmt(f),
            Kind::Dragonfly(dragonfly) => dragonfly.fmt(f),
            Kind::DragonflyPlus(fly) => fly.fmt(f),
            Kind::HyperX(hyperx) => hyperx.fmt(f),
            Kind::SlimFly(fly) => fly.fmt(f),
            Kind::Crossbar { nodes } => write!(f, "crossbar of {nodes} nodes"),
            Kind::Planes(planes) => planes.fmt(f),
            Kind::Graph => f.write_str("graph"),
        }
    }
}

fn common_divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

struct Product<'a>(&'a [u32]);

impl fmt::Display for Product<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, size) in self.0.iter().enumerate() {
            write!(f, "{}{size}", if i == 0 { "" } else { "x" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "topology_tests.rs"]
mod tests;
