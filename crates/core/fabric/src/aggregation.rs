// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Aggregation trees (seed 001, sections III.A to III.C and VIII): a network reduces the data of its end nodes along
//! them.
//!
//! An aggregation node (AN) takes data of its children, reduces it and sends the result to its parent; the root has the
//! result of all. ANs lie at routers or at hosts. A tree is logical: it fits any topology, an edge may cross several
//! links, and not every router on the way needs an AN. A [`TreeSet`] has several trees, among which a manager spreads
//! the load. A [`Group`] is the part of a tree that reduces for some end nodes.
//!
//! # Algorithm
//!
//! One algorithm serves all topologies. It prefers direct neighbours, since each link costs latency, and makes trees
//! shallow, since each level costs more than a link.
//!
//! 1. *Homes.* Every end node is attached to one AN, the same in all trees: at its router if there is one, else the
//!    nearest. `attach` has the rules.
//! 2. *Roots.* The root of each tree is a central site; further roots are far from those before. `roots` has the rules.
//!    A fat tree of `s` spines has `s` trees of different spines. A set has fewer trees than requested when there are
//!    no more good roots, as on a crossbar.
//! 3. *Paths.* A search from the root gives each router the neighbour through which it reaches the root at least cost.
//!    Of equal ones it prefers those with an AN, then the channel with the fewest edges of earlier trees.
//! 4. *Adoption.* Sub-trees, at first single ANs with end nodes, move along the paths to the root. An AN on the path
//!    adopts those that reach it, once they are `fan` or more of one height, and moves on as their parent. With a fan
//!    of 1 each AN adopts all of its neighbours on the paths: all edges cross one link. If that tree is at most
//!    `depth_max` deep, or [`DEPTH_WANTED`] without one, it is taken. Larger fans give fewer levels and longer edges,
//!    up to a star. Of them the cheapest is taken: a level more costs as much as 20 edges more on the busiest channel,
//!    or into the busiest AN.
//! 5. *Remainders.* An AN whose radix is used up lets sub-trees pass. Those that the root cannot adopt go to the
//!    highest AN with room. If `depth_max` is still exceeded, the tree is filled level by level, without regard to
//!    distance: so a tree is made whenever one is possible with these homes.
//! 6. *Hosts with several members* ([`Sites::RoutersAndHosts`]). Each end node with an aggregation node of its own is
//!    moved beneath it, and the aggregation node takes its place. One at a router that would have no other child is
//!    left out.
//!
//! | topology | the trees, with an AN at every router and a radix that suffices |
//! |---|---|
//! | fat tree | two levels: leaves under a spine. Three: leaves, one middle switch of each pod, a core. Each edge is a link |
//! | dragonfly | routers of a group under its gateways, these under those of the root's group. Each edge is a link |
//! | dragonfly+ | leaves of a group under a spine, this under one of the root's group |
//! | HyperX, Slim Fly | routers under neighbours of the root. Each edge is a link |
//! | mesh, torus, hypercube | edges are links if that is at most 3 deep; else clusters about ANs some links apart |
//! | crossbar | one AN |
//!
//! # Invariants
//!
//! 1. In every tree each usable end node is attached to one AN, and each AN with end nodes is beneath the root.
//! 2. No AN has more than `radix_max` children, end nodes included, and none is more than `depth_max` from the root.
//! 3. An AN without end nodes has two children or more.
//! 4. The children of an AN are in ascending order, and so are its end nodes. The same arguments give the same trees.
//!
//! # Costs
//!
//! O(links × log(routers) + sites × distance to the root) for each tree, times about 2 × log(fan) where neighbours make
//! too deep a tree: 2 ms over 10,000 hosts of a fat tree of three levels and radix 36, 2 s over a torus of 64,000.
//! Bytes: 8 for each end node and 12 for each site of a set; for each tree 16 for each site, 4 for each AN of the tree
//! and 2 for each router: under 30 KB for that fat tree.
use crate::id::{AnId, NodeId, RouterId};
use crate::routing::Routing;
use crate::topology::Topology;
use alloc::vec::Vec;
use core::fmt;

mod attach;
mod error;
pub mod group;
mod grow;
mod hosts;
mod links;
mod network;
mod roots;

pub use error::{GroupError, TreeError};
pub use group::{Child, Group, GroupNode};
pub use links::{Direction, LinksUsed};

/// The most trees of a set, and of an aggregation node.
pub const TREES_MAX: u32 = 1023;
/// Without a `depth_max`, a tree of neighbours that is no deeper is taken. This is the depth of a dragonfly's tree:
/// from a router through two gateways to the root.
pub const DEPTH_WANTED: u32 = 3;

/// No node, or no position.
const NONE: u32 = u32::MAX;
const NO_PORT: u16 = u16::MAX;

/// A request for trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeSpec {
    /// The most trees, 1 to [`TREES_MAX`].
    pub trees: u32,
    /// The most children of an aggregation node, end nodes included.
    pub radix_max: u32,
    /// The most edges from the root to an aggregation node. A larger value lets more edges join neighbours. None: no
    /// limit, but each level beyond [`DEPTH_WANTED`] has a cost.
    pub depth_max: Option<u32>,
    pub sites: Sites,
}

/// The places of aggregation nodes, in the order of their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sites {
    AllRouters,
    Routers(Vec<RouterId>),
    /// Aggregation nodes on end nodes (seed 001, figure 1b).
    Hosts(Vec<NodeId>),
    /// One at every router, then one on each of these end nodes, which reduces for several members of its end node. It
    /// is a child of the one that the end node would be attached to, and has no aggregation nodes beneath it.
    RoutersAndHosts(Vec<NodeId>),
}

/// The place of one aggregation node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Site {
    Router(RouterId),
    Host(NodeId),
}

/// A part of a network that may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    Router(RouterId),
    Node(NodeId),
    /// By the numbers of [`Topology::channel`] and [`Topology::injection_channel`].
    Channel(u32),
    /// An aggregation node alone, without its router or host.
    An(AnId),
}

/// Aggregation trees over one topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeSet {
    sites: Vec<Site>,
    /// The aggregation node of each node; `NONE`: the node could not be used.
    homes: Vec<u32>,
    ends: Lists<NodeId>,
    trees: Vec<Data>,
}

/// One tree of a set.
#[derive(Clone, Copy, Debug)]
pub struct Tree<'a> {
    set: &'a TreeSet,
    data: &'a Data,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Data {
    root: AnId,
    depth: u32,
    /// For each aggregation node; `NONE` at the root and outside of the tree.
    parents: Vec<u32>,
    /// Edges to the root; `NONE` outside of the tree.
    levels: Vec<u32>,
    children: Lists<AnId>,
    /// The port of each router towards the root.
    ports: Vec<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Lists<T> {
    first: Vec<u32>,
    items: Vec<T>,
}

impl Default for TreeSpec {
    fn default() -> TreeSpec {
        TreeSpec { trees: 1, radix_max: u32::MAX, depth_max: None, sites: Sites::AllRouters }
    }
}

impl TreeSet {
    /// Makes trees over a whole topology.
    pub fn new(topology: &Topology, spec: &TreeSpec) -> Result<TreeSet, TreeError> {
        TreeSet::within(topology, spec, |_| true)
    }

    /// Makes trees over the usable part of a topology. No edge crosses an unusable router or channel, and an unusable
    /// node is attached to nothing. A link with one lost direction is not used.
    pub fn within(topology: &Topology, spec: &TreeSpec, usable: impl Fn(Part) -> bool) -> Result<TreeSet, TreeError> {
        if spec.trees == 0 || spec.trees > TREES_MAX {
            return Err(TreeError::Trees { is: spec.trees });
        }
        let network = network::Network::new(topology, &spec.sites, usable)?;
        let (nodes, sites) = (network.nodes.len() as u32, network.usable_sites().len() as u32);
        // Each aggregation node but the root, and each end node, is a child of one of the `sites`.
        let least = 1 + (nodes - 1).div_ceil(sites);
        if spec.radix_max < least {
            return Err(TreeError::Radix { radix: spec.radix_max, sites, nodes, least });
        }
        let radix = spec.radix_max.min(nodes.saturating_add(sites));
        let attach::Homes { of: homes, counts } = attach::attach(&network, radix);
        let mut used: Vec<AnId> = network.usable_sites().to_vec();
        used.retain(|an| counts[an.0 as usize] > 0);
        used.sort_unstable();
        let free = counts.iter().map(|count| radix - count).collect();
        // Hosts with aggregation nodes of their own are one level more.
        let below = u32::from(!network.hosts.is_empty());
        let above = |depth: u32| depth.checked_sub(below).ok_or(TreeError::Depth { depth, radix, least: below });
        let depth_max = spec.depth_max.map(above).transpose()?;
        let common = grow::Common { network: &network, used, counts, free, radix, depth_max };

        let ends = Lists::new(network.sites.len(), &homes, NodeId);
        let mut set = TreeSet { sites: network.sites.clone(), homes, ends, trees: Vec::new() };
        let mut roots = roots::Roots::new(&network, &common.used, &common.free);
        let mut load = LinksUsed::new(topology);
        // Where room is short, the root may move to a site that is a root already: then some roots stay untried.
        for _ in 0..2 * spec.trees {
            let Some(root) = roots.take().filter(|_| (set.trees.len() as u32) < spec.trees) else { break };
            let costs = network.costs(&[network.router(root)]);
            roots.taken(&costs);
            let paths = grow::RootPaths::new(&network, &costs, load.edges());
            let shape = grow::grow(&common, root, &paths).map_err(|least| TreeError::Depth {
                depth: spec.depth_max.unwrap_or(DEPTH_WANTED),
                radix: spec.radix_max,
                least: least + below,
            })?;
            let grow::Shape { root, parents, levels, depth } = shape;
            if set.trees.iter().any(|tree| tree.root == root) {
                continue;
            }
            let children = Lists::new(network.sites.len(), &parents, AnId);
            set.trees.push(Data { root, depth, parents, levels, children, ports: paths.ports });
            if let Some(tree) = set.trees().last() {
                tree.add_links(topology, None, Direction::Up, &mut load);
            }
        }
        set.add_hosts(&network.hosts);
        Ok(set)
    }

    /// The number of trees, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.trees.len()
    }

    pub fn tree(&self, index: usize) -> Option<Tree<'_>> {
        self.trees.get(index).map(|data| Tree { set: self, data })
    }

    pub fn trees(&self) -> impl ExactSizeIterator<Item = Tree<'_>> + DoubleEndedIterator {
        self.trees.iter().map(|data| Tree { set: self, data })
    }

    /// The nodes of the topology.
    pub fn nodes(&self) -> u32 {
        self.homes.len() as u32
    }

    /// The place of each aggregation node, by its number. Some may be part of no tree.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    pub fn site(&self, an: AnId) -> Option<Site> {
        self.sites.get(an.0 as usize).copied()
    }

    /// The aggregation node of an end node, in all trees. None: the node could not be used.
    pub fn attached(&self, node: NodeId) -> Option<AnId> {
        self.homes.get(node.0 as usize).copied().filter(|&an| an != NONE).map(AnId)
    }

    /// The end nodes of an aggregation node, ascending.
    pub fn leaves(&self, an: AnId) -> &[NodeId] {
        self.ends.of(an)
    }

    /// Counts the edges of all trees over each channel; see [`Tree::links_used`].
    pub fn links_used(&self, topology: &Topology, routing: Option<&Routing>, direction: Direction) -> LinksUsed {
        let mut used = LinksUsed::new(topology);
        self.trees().for_each(|tree| tree.add_links(topology, routing, direction, &mut used));
        used
    }
}

impl<'a> Tree<'a> {
    pub fn root(&self) -> AnId {
        self.data.root
    }

    /// The most edges from the root to an aggregation node.
    pub fn depth(&self) -> u32 {
        self.data.depth
    }

    /// The aggregation nodes of the tree, ascending.
    pub fn nodes(&self) -> impl Iterator<Item = AnId> + use<'a> {
        let levels = self.data.levels.iter().enumerate();
        levels.filter(|(_, level)| **level != NONE).map(|(an, _)| AnId(an as u32))
    }

    /// None: the root, or not part of the tree.
    pub fn parent(&self, an: AnId) -> Option<AnId> {
        self.data.parents.get(an.0 as usize).copied().filter(|&parent| parent != NONE).map(AnId)
    }

    /// Edges to the root, where it is 0. None: not part of the tree.
    pub fn level(&self, an: AnId) -> Option<u32> {
        self.data.levels.get(an.0 as usize).copied().filter(|&level| level != NONE)
    }

    /// The aggregation nodes beneath this one, ascending.
    pub fn children(&self, an: AnId) -> &'a [AnId] {
        self.data.children.of(an)
    }

    /// The end nodes of an aggregation node, ascending.
    pub fn leaves(&self, an: AnId) -> &'a [NodeId] {
        self.set.leaves(an)
    }

    pub fn set(&self) -> &'a TreeSet {
        self.set
    }

    fn ports(&self) -> &[u16] {
        &self.data.ports
    }
}

impl<T: Copy> Lists<T> {
    /// The items of each owner, ascending. An item whose owner is `NONE` is in no list.
    fn new(lists: usize, owners: &[u32], item: impl Fn(u32) -> T) -> Lists<T> {
        let owned = || (0..).zip(owners).filter(|(_, owner)| **owner != NONE);
        let mut first = alloc::vec![0; lists + 1];
        owned().for_each(|(_, &owner)| first[owner as usize + 1] += 1);
        for list in 1..first.len() {
            first[list] += first[list - 1];
        }
        let mut next = first.clone();
        let mut items = alloc::vec![item(0); owned().count()];
        for (number, &owner) in owned() {
            items[next[owner as usize] as usize] = item(number);
            next[owner as usize] += 1;
        }
        Lists { first, items }
    }

    fn of(&self, an: AnId) -> &[T] {
        let list = an.0 as usize;
        match (self.first.get(list), self.first.get(list + 1)) {
            (Some(&first), Some(&end)) => &self.items[first as usize..end as usize],
            _ => &[],
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Site::Router(router) => router.fmt(f),
            Site::Host(node) => node.fmt(f),
        }
    }
}

#[cfg(test)]
#[path = "aggregation_tests.rs"]
mod tests;
