// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routing: the next hops of a packet.
//!
//! | algorithm | topologies | virtual channels | can deadlock |
//! |---|---|---|---|
//! | dimension order | mesh, torus, hypercube | 1; 2 where a dimension wraps | no |
//! | dimension order, unguarded | mesh, torus | 1 | on rings of 5 and more |
//! | modified dimension order | mesh, torus | 1 | no; not minimal for some pairs |
//! | west-first | mesh of 2 dimensions | 1 | no; adaptive |
//! | west-first | mesh with missing links, to 8,192 routers | 1 | no; not minimal for some pairs |
//! | up*/down* | any, to 8,192 routers | 1 | no; not minimal for some pairs |
//! | shortest path | any, to 8,192 routers | 1 | yes, except on trees |
//! | destination-mod-k | fat tree | 1 | no |
//! | minimal | dragonfly | 2 | no |
//! | Valiant | dragonfly | 3 | no; not minimal |
//!
//! # Invariants
//!
//! 1. Virtual channels beyond those needed make further sets: each set has all virtual channels that the algorithm
//!    needs, and a packet stays in the set that the hash of its pair of nodes chooses. So packets of one pair keep
//!    their order, under every algorithm that gives one choice (Valiant: if they have the same entropy).
//! 2. `next` depends only on its arguments: the same call gives the same hops.
//! 3. Every hop uses a connected port. A packet that takes any of the hops at each router arrives at its destination.
//!
//! # Costs
//!
//! `next`: O(dimensions), or O(1), or on dragonflies O(links between two groups). Computed routings take a few bytes.
//! Tables (shortest path, up*/down*): for each router with nodes 1 byte per router, or 2 above 254 ports; twice that
//! for up*/down*.
use crate::id::{Hop, NodeId, Peer, Port, RouterId, Vc};
use crate::path::Path;
use crate::topology::{Kind, Topology};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

mod detours;
mod dragonfly;
mod error;
mod explicit;
mod grid;
mod table;
mod tree;

pub use error::RoutingError;
pub use explicit::RoutesError;

/// The most routers of a routing with a table.
pub const TABLE_ROUTERS_MAX: u32 = 8192;

/// Routing algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// One dimension after the other, in the shorter direction of a ring. In a dimension that wraps, two virtual
    /// channels break the cycle of the ring at its wrapping link (Dally and Seitz 1987).
    DimensionOrder,
    /// The same routes with one virtual channel, which can deadlock on a torus (seed 002, section 2.7).
    DimensionOrderUnguarded,
    /// The wrapping links count as further dimensions, before the others (seed 002, section 2.7).
    ModifiedDimensionOrder,
    /// First all hops towards smaller x, then any of the minimal directions (Glass and Ni 1992).
    WestFirst,
    /// First up, then down, in an order of the routers from a root (Schroeder and others, Autonet, 1991).
    UpDown,
    /// A path of least weight; a fixed hash of router and destination breaks ties.
    ShortestPath,
    /// The uplink at each level follows from the destination's number (Zahavi, 2010).
    DestinationModK,
    /// To the destination's group over one global link.
    Minimal,
    /// To a group that entropy picks, then to the destination's group; minimal within one group.
    Valiant,
}

/// A routing made for one topology.
#[derive(Clone, Debug)]
pub struct Routing {
    algorithm: Algorithm,
    virtual_channels: u8,
    needed: u8,
    /// Sets of `needed` virtual channels.
    vc_sets: u8,
    deadlock_free: bool,
    variants: u64,
    plan: Plan,
}

#[derive(Clone, Debug)]
enum Plan {
    DimensionOrder { guarded: bool },
    Modified,
    Hypercube,
    WestFirst,
    Tree,
    Dragonfly { valiant: bool },
    Table(table::Table),
    Explicit(explicit::Explicit),
}

/// The routing state of a packet: 8 bytes, which `start` sets and the packet carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RouteState {
    /// Valiant: the group to pass through, or `DIRECT`. Otherwise unused.
    group: u16,
    /// Of the caller's choice, 0 after `start`: which of several routings the packet follows. No routing reads it.
    pub tag: u16,
    /// Grids: for each dimension a bit in each byte; see `grid::directions` and `grid::wraps_first`.
    dimensions: u16,
    /// A fixed hash of the pair of nodes.
    salt: u8,
    /// The set of virtual channels that the packet uses.
    vc_set: u8,
}

/// Stands for no intermediate group.
const DIRECT: u16 = u16::MAX;
// A dragonfly has fewer groups: each has a link to every other, and all ports are limited.
const _: () = assert!((DIRECT as u64).pow(2) > crate::topology::PORTS_MAX as u64);
/// The most hops that `next` gives.
pub const CHOICES_MAX: usize = 8;

/// The hops that a packet may take next, the preferred one first.
#[derive(Clone, Copy, Debug)]
pub struct Choices {
    hops: [Hop; CHOICES_MAX],
    count: u8,
}

impl Choices {
    /// A constant, for copying it as a whole is cheaper than setting eight hops one by one.
    const NONE: Choices = Choices { hops: [Hop { port: Port(0), vc: Vc(0) }; CHOICES_MAX], count: 0 };
}

impl Default for Choices {
    #[inline]
    fn default() -> Choices {
        Choices::NONE
    }
}

impl Routing {
    /// A routing for a topology whose links have the given number of virtual channels.
    pub fn new(topology: &Topology, algorithm: Algorithm, virtual_channels: u8) -> Result<Routing, RoutingError> {
        let needed = algorithm.virtual_channels_needed(topology).ok_or_else(|| RoutingError::NotFor {
            algorithm,
            topology: topology.kind().to_string(),
            fits: algorithm.fits(),
            instead: names(Algorithm::fitting(topology)),
        })?;
        if virtual_channels < needed {
            return Err(RoutingError::TooFewChannels {
                algorithm,
                topology: topology.kind().to_string(),
                needed,
                given: virtual_channels,
                instead: instead(topology, algorithm, virtual_channels),
            });
        }
        if algorithm.has_table(topology) && topology.routers() > TABLE_ROUTERS_MAX {
            let computed = Algorithm::fitting(topology).into_iter().filter(|a| !a.has_table(topology)).collect();
            return Err(RoutingError::TooManyRouters {
                algorithm,
                routers: topology.routers(),
                limit: TABLE_ROUTERS_MAX,
                instead: names(computed),
            });
        }
        let mut deadlock_free = true;
        let mut variants = 1;
        let plan = match algorithm {
            Algorithm::DimensionOrder if matches!(topology.kind(), Kind::Hypercube { .. }) => Plan::Hypercube,
            Algorithm::DimensionOrder => Plan::DimensionOrder { guarded: true },
            Algorithm::DimensionOrderUnguarded => {
                deadlock_free = !grid::has_ring_with_cycle(topology);
                Plan::DimensionOrder { guarded: false }
            }
            Algorithm::ModifiedDimensionOrder => Plan::Modified,
            Algorithm::WestFirst if matches!(topology.kind(), Kind::Graph) => {
                let table = table::Table::west_first(topology);
                if let Some((from, to)) = table.gap(topology) {
                    let instead = instead(topology, algorithm, virtual_channels);
                    let instead = instead.trim_start_matches(", or take ").into();
                    return Err(RoutingError::NoPath { algorithm, from, to, instead });
                }
                Plan::Table(table)
            }
            Algorithm::WestFirst => Plan::WestFirst,
            Algorithm::UpDown => Plan::Table(table::Table::up_down(topology)),
            Algorithm::ShortestPath => {
                deadlock_free = is_tree(topology);
                Plan::Table(table::Table::shortest_path(topology))
            }
            Algorithm::DestinationModK => Plan::Tree,
            Algorithm::Minimal => Plan::Dragonfly { valiant: false },
            Algorithm::Valiant => {
                variants = dragonfly::intermediates(topology).max(1).into();
                Plan::Dragonfly { valiant: true }
            }
        };
        let vc_sets = virtual_channels / needed;
        Ok(Routing { algorithm, virtual_channels, needed, vc_sets, deadlock_free, variants, plan })
    }

    /// The hops that a packet for `to` may take from router `at`. `arrived`: the port by which it entered the router;
    /// None, or a port to a node: it was injected here. The last hop of a route is the port to the node. Deterministic
    /// algorithms give one hop. Allocates nothing. `state` is the result of `start`, and is not changed.
    #[inline]
    pub fn next(
        &self,
        topology: &Topology,
        at: RouterId,
        arrived: Option<(Port, Vc)>,
        to: NodeId,
        state: &mut RouteState,
    ) -> Choices {
        if state.vc_set == explicit::EXPLICIT {
            return self.next_explicit(at, arrived, state);
        }
        let (router, port) = topology.attachment(to);
        if router == at {
            return Choices::one(port, self.vc(0, state));
        }
        match &self.plan {
            Plan::DimensionOrder { guarded } => self.next_dimension_order(topology, at, router, *guarded, state),
            Plan::Modified => self.next_modified(topology, at, router, state),
            Plan::Hypercube => Choices::one(Port((at.0 ^ router.0).trailing_zeros() as u16), self.vc(0, state)),
            Plan::WestFirst => self.next_west_first(topology, at, router, state),
            Plan::Tree => self.next_tree(topology, at, router, to, state),
            Plan::Dragonfly { .. } => self.next_dragonfly(topology, at, arrived, router, state),
            Plan::Table(table) => match table.next(topology, at, arrived.map(|a| a.0), router) {
                Some(port) => Choices::one(port, self.vc(0, state)),
                None => Choices::default(),
            },
            Plan::Explicit(explicit) => explicit.others().next(topology, at, arrived, to, state),
        }
    }

    /// The next hop of a packet on an explicit route.
    #[cold]
    fn next_explicit(&self, at: RouterId, arrived: Option<(Port, Vc)>, state: &RouteState) -> Choices {
        match &self.plan {
            Plan::Explicit(explicit) => explicit.next(at, arrived, state),
            _ => Choices::default(),
        }
    }

    /// The routing state of a new packet. `entropy` picks Valiant's intermediate group; all other algorithms give a
    /// pair the same route each time.
    #[inline]
    pub fn start(&self, topology: &Topology, from: NodeId, to: NodeId, entropy: u64) -> RouteState {
        if let Plan::Explicit(explicit) = &self.plan {
            return explicit.start(topology, from, to, entropy);
        }
        let hash = mix(u64::from(from.0) << 32 | u64::from(to.0));
        let vc_set = if self.vc_sets > 1 { ((hash >> 32) % u64::from(self.vc_sets)) as u8 } else { 0 };
        let mut state = RouteState { group: DIRECT, tag: 0, dimensions: 0, salt: hash as u8, vc_set };
        let ends = || (topology.attachment(from).0, topology.attachment(to).0);
        match self.plan {
            Plan::DimensionOrder { .. } => state.dimensions = grid::directions(topology, ends()),
            Plan::Modified => state.dimensions = grid::wraps_first(topology, ends()),
            Plan::Dragonfly { valiant: true } => state.group = dragonfly::intermediate(topology, ends(), entropy),
            _ => {}
        }
        state
    }

    /// The whole route as a source path (seed 002, section 7.3), with the first of several choices.
    pub fn path(&self, topology: &Topology, from: NodeId, to: NodeId, entropy: u64) -> Result<Path, RoutingError> {
        let mut path = Path::default();
        self.walk(topology, (from, to), entropy, None, |_, hop| path.push(hop))?;
        Ok(path)
    }

    /// Calls `step` for each hop of a route, with the first of several choices. `vc_set`: the set of virtual channels;
    /// None: that of the pair.
    pub(crate) fn walk(
        &self,
        topology: &Topology,
        (from, to): (NodeId, NodeId),
        entropy: u64,
        vc_set: Option<u8>,
        mut show: impl FnMut(RouterId, Hop),
    ) -> Result<(), RoutingError> {
        for node in [from, to] {
            if node.0 >= topology.nodes() {
                return Err(RoutingError::NoSuchNode { node, nodes: topology.nodes() });
            }
        }
        if from == to {
            return Err(RoutingError::SameNode { node: from });
        }
        let mut state = self.start(topology, from, to, entropy);
        state.vc_set = vc_set.unwrap_or(state.vc_set);
        let (mut at, port) = topology.attachment(from);
        let mut arrived = Some((port, Vc(0)));
        // No route visits a router more than twice: up*/down* may go up and down through one.
        for _ in 0..=2 * u64::from(topology.routers()) {
            let Some(hop) = self.next(topology, at, arrived, to, &mut state).first() else { break };
            show(at, hop);
            match topology.peer(at, hop.port) {
                Peer::Router { router, port } => (at, arrived) = (router, Some((port, hop.vc))),
                Peer::Node(node) if node == to => return Ok(()),
                _ => break,
            }
        }
        Err(RoutingError::OtherTopology { algorithm: self.algorithm, at })
    }

    /// This routing over the links whose channels are up, with detours for the pairs that have lost their routes
    /// (`detours.rs`). A link is up if both its channels are. Pairs that no path joins keep their routes, which lead to a
    /// failed link.
    ///
    /// `None`: the routing is adaptive, picks from several routes or can deadlock, some pair has no detour that is free
    /// of deadlock, or more than 262,144 pairs have lost their routes.
    pub fn around(&self, topology: &Topology, is_up: impl Fn(u32) -> bool) -> Option<Routing> {
        detours::around(self, topology, is_up)
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The virtual channels that the routing was made with. Those beyond the last whole set are not used.
    pub fn virtual_channels(&self) -> u8 {
        self.virtual_channels
    }

    /// The fewest virtual channels with which the algorithm works.
    pub fn virtual_channels_needed(&self) -> u8 {
        self.needed
    }

    /// Whether the channel dependency graph has no cycle, by the theory of the algorithm. `Dependencies` checks the
    /// graph.
    pub fn deadlock_free(&self) -> bool {
        self.deadlock_free
    }

    /// The number of different routes that entropy picks from; only entropy modulo this number matters.
    pub fn variants(&self) -> u64 {
        self.variants
    }

    #[inline]
    fn vc(&self, class: u8, state: &RouteState) -> Vc {
        Vc(state.vc_set * self.needed + class)
    }
}

impl Algorithm {
    pub const ALL: [Algorithm; 9] = [
        Algorithm::DimensionOrder,
        Algorithm::DimensionOrderUnguarded,
        Algorithm::ModifiedDimensionOrder,
        Algorithm::WestFirst,
        Algorithm::UpDown,
        Algorithm::ShortestPath,
        Algorithm::DestinationModK,
        Algorithm::Minimal,
        Algorithm::Valiant,
    ];

    /// The name in a machine's description.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::DimensionOrder => "dimension-order",
            Algorithm::DimensionOrderUnguarded => "dimension-order-unguarded",
            Algorithm::ModifiedDimensionOrder => "modified-dimension-order",
            Algorithm::WestFirst => "west-first",
            Algorithm::UpDown => "up-down",
            Algorithm::ShortestPath => "shortest-path",
            Algorithm::DestinationModK => "destination-mod-k",
            Algorithm::Minimal => "minimal",
            Algorithm::Valiant => "valiant",
        }
    }

    /// The algorithms that work on a topology.
    pub fn fitting(topology: &Topology) -> Vec<Algorithm> {
        Self::ALL.into_iter().filter(|a| a.virtual_channels_needed(topology).is_some()).collect()
    }

    /// The default algorithm of a topology; it is free of deadlock.
    pub fn default_for(topology: &Topology) -> Algorithm {
        match topology.kind() {
            Kind::Mesh { .. } | Kind::Torus { .. } | Kind::Hypercube { .. } => Algorithm::DimensionOrder,
            Kind::FatTree(_) => Algorithm::DestinationModK,
            Kind::Dragonfly(_) => Algorithm::Minimal,
            Kind::Crossbar { .. } | Kind::Graph => Algorithm::UpDown,
        }
    }

    /// The virtual channels that an algorithm needs on a topology; None: it does not work there.
    pub fn virtual_channels_needed(self, topology: &Topology) -> Option<u8> {
        let kind = topology.kind();
        let grid = matches!(kind, Kind::Mesh { .. } | Kind::Torus { .. });
        let wraps = matches!(kind, Kind::Torus { wrap, .. } if wrap.contains(&true));
        match self {
            Algorithm::DimensionOrder if wraps => Some(2),
            Algorithm::DimensionOrder => (grid || matches!(kind, Kind::Hypercube { .. })).then_some(1),
            Algorithm::DimensionOrderUnguarded | Algorithm::ModifiedDimensionOrder => grid.then_some(1),
            Algorithm::WestFirst => {
                (grid && !wraps && topology.dimensions() == 2 || topology.is_part_of_mesh()).then_some(1)
            }
            Algorithm::UpDown | Algorithm::ShortestPath => Some(1),
            Algorithm::DestinationModK => matches!(kind, Kind::FatTree(_)).then_some(1),
            Algorithm::Minimal => match kind {
                Kind::Dragonfly(d) => Some(if d.groups > 1 { 2 } else { 1 }),
                _ => None,
            },
            Algorithm::Valiant => match kind {
                Kind::Dragonfly(d) => Some(d.groups.min(3) as u8),
                _ => None,
            },
        }
    }

    fn fits(self) -> &'static str {
        match self {
            Algorithm::DimensionOrder => "meshes, tori and hypercubes",
            Algorithm::DimensionOrderUnguarded | Algorithm::ModifiedDimensionOrder => "meshes and tori",
            Algorithm::WestFirst => "meshes of two dimensions that do not wrap, with all links or some",
            Algorithm::UpDown | Algorithm::ShortestPath => "any topology",
            Algorithm::DestinationModK => "fat trees",
            Algorithm::Minimal | Algorithm::Valiant => "dragonflies",
        }
    }

    fn has_table(self, topology: &Topology) -> bool {
        matches!(self, Algorithm::UpDown | Algorithm::ShortestPath)
            || self == Algorithm::WestFirst && matches!(topology.kind(), Kind::Graph)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = RoutingError;

    fn from_str(name: &str) -> Result<Algorithm, RoutingError> {
        let found = Self::ALL.into_iter().find(|a| a.name() == name);
        found.ok_or_else(|| RoutingError::UnknownAlgorithm {
            name: name.chars().take(40).collect(),
            known: names(Self::ALL.to_vec()),
        })
    }
}

impl Choices {
    #[inline]
    fn one(port: Port, vc: Vc) -> Choices {
        let mut choices = Choices::default();
        choices.push(port, vc);
        choices
    }

    #[inline]
    fn push(&mut self, port: Port, vc: Vc) {
        self.hops[usize::from(self.count)] = Hop { port, vc };
        self.count += 1;
    }

    #[inline]
    pub fn as_slice(&self) -> &[Hop] {
        &self.hops[..usize::from(self.count)]
    }

    pub fn iter(&self) -> core::slice::Iter<'_, Hop> {
        self.as_slice().iter()
    }

    /// The preferred hop. None: the routing was made for another topology.
    #[inline]
    pub fn first(&self) -> Option<Hop> {
        self.as_slice().first().copied()
    }

    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl<'a> IntoIterator for &'a Choices {
    type Item = &'a Hop;
    type IntoIter = core::slice::Iter<'a, Hop>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Spreads a number's bits (the finalizer of splitmix64).
#[inline]
pub fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn is_tree(topology: &Topology) -> bool {
    let ends: usize = (0..topology.routers()).map(|r| topology.neighbours(RouterId(r)).count()).sum();
    ends == 2 * (topology.routers() as usize - 1)
}

fn names(algorithms: Vec<Algorithm>) -> String {
    let names: Vec<&str> = algorithms.into_iter().map(Algorithm::name).collect();
    names.join(", ")
}

/// A hint for an error: deadlock-free algorithms that need at most `virtual_channels`.
fn instead(topology: &Topology, refused: Algorithm, virtual_channels: u8) -> String {
    let affords = |a: &Algorithm| {
        *a != refused
            && !matches!(a, Algorithm::DimensionOrderUnguarded | Algorithm::ShortestPath)
            && a.virtual_channels_needed(topology).is_some_and(|needed| needed <= virtual_channels)
    };
    let fitting = names(Algorithm::fitting(topology).into_iter().filter(affords).collect());
    if fitting.is_empty() { String::new() } else { alloc::format!(", or take {fitting}") }
}

#[cfg(test)]
#[path = "routing_tests.rs"]
mod tests;
