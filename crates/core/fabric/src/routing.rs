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
//! | dimension order | HyperX | 1 | no |
//! | minimal | dragonfly | 2 | no |
//! | adaptive up | fat tree | 1 | no; adaptive |
//! | random up | fat tree | 1 | no |
//! | minimal | dragonfly+ | 1 | no; adaptive |
//! | minimal | HyperX | 1 for each dimension | no; adaptive |
//! | minimal | Slim Fly | 2 | no; adaptive |
//! | Valiant | dragonfly | 3 | no; not minimal |
//! | Valiant | dragonfly+ | 2 | no; not minimal |
//! | Valiant | HyperX | 2 for each dimension | no; not minimal |
//! | Valiant | Slim Fly | 4 | no; not minimal |
//! | UGAL, local | as Valiant | as Valiant | no; adaptive |
//! | UGAL, global | dragonfly | 3 | no; adaptive |
//! | progressive adaptive | dragonfly | 4 | no; adaptive |
//! | progressive adaptive | dragonfly+ | 2 | no; adaptive |
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
use alloc::boxed::Box;
use alloc::string::ToString;

mod algorithm;
mod choices;
mod detours;
mod dragonfly;
mod dragonfly_plus;
mod error;
mod explicit;
mod grid;
mod hyperx;
mod slim_fly;
mod table;
mod tree;

pub use algorithm::Algorithm;
pub use choices::{CHOICES_MAX, Choices, RouteState};
pub use error::RoutingError;
pub use explicit::RoutesError;

use algorithm::{instead, names};
use choices::{DIRECT, OPEN};

/// The most routers of a routing with a table.
pub const TABLE_ROUTERS_MAX: u32 = 8192;

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
    DimensionOrder {
        guarded: bool,
    },
    Modified,
    Hypercube,
    WestFirst,
    Tree(tree::Up),
    Dragonfly(Detours),
    DragonflyPlus(Detours),
    HyperX(Detours),
    HyperXInOrder,
    SlimFly(Detours, slim_fly::Neighbours),
    Table(table::Table),
    Explicit(explicit::Explicit),
    /// The routing of each plane.
    Planes(Box<Routing>),
}

/// Whether packets pass through an intermediate group or router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detours {
    Never,
    /// All of them (Valiant).
    Always,
    /// If the router of the source decides so (UGAL).
    AtSource,
    /// If a router in the group of the source decides so (progressive adaptive routing).
    InGroup,
}

impl Routing {
    /// A routing for a topology whose links have the given number of virtual channels.
    pub fn new(topology: &Topology, algorithm: Algorithm, virtual_channels: u8) -> Result<Routing, RoutingError> {
        if let Kind::Planes(planes) = topology.kind() {
            let routing = Routing::new(&planes.plane, algorithm, virtual_channels)?;
            return Ok(Routing { plan: Plan::Planes(Box::new(routing.clone())), ..routing });
        }
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
            Algorithm::DimensionOrder if matches!(topology.kind(), Kind::HyperX(_)) => Plan::HyperXInOrder,
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
            Algorithm::DestinationModK => Plan::Tree(tree::Up::ByDestination),
            Algorithm::AdaptiveUp | Algorithm::RandomUp => {
                variants = tree::variants(topology);
                let is_random = algorithm == Algorithm::RandomUp;
                Plan::Tree(if is_random { tree::Up::Random } else { tree::Up::LeastLoaded })
            }
            Algorithm::Minimal
            | Algorithm::Valiant
            | Algorithm::UgalLocal
            | Algorithm::UgalGlobal
            | Algorithm::Progressive => {
                let detours = match algorithm {
                    Algorithm::Minimal => Detours::Never,
                    Algorithm::Valiant => Detours::Always,
                    Algorithm::Progressive => Detours::InGroup,
                    _ => Detours::AtSource,
                };
                if detours != Detours::Never {
                    variants = intermediates(topology).max(1).into();
                }
                match topology.kind() {
                    Kind::HyperX(_) => Plan::HyperX(detours),
                    Kind::DragonflyPlus(_) => Plan::DragonflyPlus(detours),
                    Kind::SlimFly(_) => Plan::SlimFly(detours, slim_fly::Neighbours::new(topology)),
                    _ => Plan::Dragonfly(detours),
                }
            }
        };
        let vc_sets = virtual_channels / needed;
        Ok(Routing { algorithm, virtual_channels, needed, vc_sets, deadlock_free, variants, plan })
    }

    /// The hops that a packet for `to` may take from router `at`. `arrived`: the port by which it entered the router;
    /// None, or a port to a node: it was injected here. The last hop of a route is the port to the node. Deterministic
    /// algorithms give one hop. Allocates nothing. `state` is the result of `start`, and remembers the decisions on the
    /// way: where [`Choices::has_detour`], the hop is to be taken by [`Choices::choose`] or [`Choices::take`].
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
            Plan::Tree(up) => self.next_tree(topology, at, (router, to), *up, state),
            Plan::Dragonfly(detours) => self.next_dragonfly(topology, at, arrived, router, *detours, state),
            Plan::DragonflyPlus(detours) => {
                dragonfly_plus::next(self, topology, (at, arrived), router, *detours, state)
            }
            Plan::HyperXInOrder => hyperx::next_in_order(self, topology, at, router, state),
            Plan::HyperX(detours) => hyperx::next(self, topology, at, arrived, router, *detours, state),
            Plan::SlimFly(detours, neighbours) => {
                slim_fly::next(self, neighbours, topology, (at, arrived), router, *detours, state)
            }
            Plan::Table(table) => match table.next(topology, at, arrived.map(|a| a.0), router) {
                Some(port) => Choices::one(port, self.vc(0, state)),
                None => Choices::default(),
            },
            Plan::Explicit(explicit) => explicit.others().next(topology, at, arrived, to, state),
            Plan::Planes(routing) => routing.next_in_plane(topology, (at, arrived), (router, to), state),
        }
    }

    /// The hops of a packet in its plane; none, if its destination is in another one. `self`: the routing of a plane.
    fn next_in_plane(
        &self,
        topology: &Topology,
        (at, arrived): (RouterId, Option<(Port, Vc)>),
        (router, to): (RouterId, NodeId),
        state: &mut RouteState,
    ) -> Choices {
        match topology.kind() {
            Kind::Planes(planes) if planes.of(at) == planes.of(router) => {
                let node = NodeId(topology.rails().node(to));
                self.next(&planes.plane, planes.local(at), arrived, node, state)
            }
            _ => Choices::default(),
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

    /// The routing state of a new packet. `entropy` picks the intermediate group or router of Valiant's routing, and the
    /// candidate of an adaptive one; all other algorithms give a pair the same route each time.
    #[inline]
    pub fn start(&self, topology: &Topology, from: NodeId, to: NodeId, entropy: u64) -> RouteState {
        if let Plan::Explicit(explicit) = &self.plan {
            return explicit.start(topology, from, to, entropy);
        }
        if let (Plan::Planes(routing), Kind::Planes(planes)) = (&self.plan, topology.kind()) {
            let node = |endpoint| NodeId(topology.rails().node(endpoint));
            return routing.start(&planes.plane, node(from), node(to), entropy);
        }
        let hash = mix(u64::from(from.0) << 32 | u64::from(to.0));
        let vc_set = if self.vc_sets > 1 { ((hash >> 32) % u64::from(self.vc_sets)) as u8 } else { 0 };
        let mut state = RouteState { via: DIRECT, tag: 0, salt: hash as u8, vc_set };
        let ends = || (topology.attachment(from).0, topology.attachment(to).0);
        match self.plan {
            Plan::DimensionOrder { .. } => state.via = grid::directions(topology, ends()).into(),
            Plan::Modified => state.via = grid::wraps_first(topology, ends()).into(),
            Plan::Tree(up) if up != tree::Up::ByDestination => state.via = (entropy % self.variants) as u32,
            Plan::Dragonfly(detours)
            | Plan::DragonflyPlus(detours)
            | Plan::HyperX(detours)
            | Plan::SlimFly(detours, _)
                if detours != Detours::Never =>
            {
                state.via = match topology.kind() {
                    Kind::Dragonfly(dragonfly) => {
                        let (from, to) = ends();
                        dragonfly::intermediate(dragonfly.groups, dragonfly.group(from), dragonfly.group(to), entropy)
                    }
                    Kind::DragonflyPlus(fly) => dragonfly_plus::start(fly, ends(), entropy),
                    _ => intermediate_router(topology, ends(), entropy),
                };
                if detours != Detours::Always {
                    state.via |= OPEN;
                }
            }
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
    /// of deadlock, more than 262,144 joined pairs have lost their routes, or there are more than 4,096 nodes.
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

    /// Whether all packets of a pair of nodes take one route, so that they keep their order.
    pub fn has_one_route(&self) -> bool {
        match &self.plan {
            Plan::WestFirst => false,
            Plan::Dragonfly(detours) => *detours == Detours::Never,
            Plan::DragonflyPlus(_) | Plan::HyperX(_) | Plan::SlimFly(..) => false,
            Plan::Tree(up) => *up == tree::Up::ByDestination,
            Plan::Explicit(explicit) => explicit.others().has_one_route(),
            Plan::Planes(routing) => routing.has_one_route(),
            _ => self.algorithm != Algorithm::WestFirst,
        }
    }

    /// Whether the class of a virtual channel is the number of hops before it, so that all hops from one router that a
    /// packet may take are in one class.
    pub fn counts_hops(&self) -> bool {
        match &self.plan {
            Plan::HyperX(_) | Plan::SlimFly(..) => true,
            Plan::Explicit(explicit) => explicit.others().counts_hops(),
            Plan::Planes(routing) => routing.counts_hops(),
            _ => false,
        }
    }

    /// Whether entropy sends packets of a pair to different intermediate groups or routers.
    pub fn takes_detours(&self) -> bool {
        match &self.plan {
            Plan::Dragonfly(detours)
            | Plan::DragonflyPlus(detours)
            | Plan::HyperX(detours)
            | Plan::SlimFly(detours, _) => *detours != Detours::Never,
            Plan::Explicit(explicit) => explicit.others().takes_detours(),
            Plan::Planes(routing) => routing.takes_detours(),
            _ => false,
        }
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

/// The number of groups or routers that a detour between two nodes may pass through.
fn intermediates(topology: &Topology) -> u32 {
    match topology.kind() {
        Kind::Dragonfly(dragonfly) => dragonfly.groups.saturating_sub(2),
        Kind::DragonflyPlus(fly) => fly.groups.saturating_sub(2) * fly.copies,
        _ => topology.routers(),
    }
}

/// The intermediate router that entropy picks, of all; `DIRECT` if it is one of the ends.
fn intermediate_router(topology: &Topology, (from, to): (RouterId, RouterId), entropy: u64) -> u32 {
    let router = RouterId((entropy % u64::from(topology.routers())) as u32);
    if from == to || router == from || router == to { DIRECT } else { router.0 }
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

#[cfg(test)]
#[path = "routing_tests.rs"]
mod tests;
