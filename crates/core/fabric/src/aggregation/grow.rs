// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Growth of one tree from its root, by the algorithm of the module above.
//!
//! A sketch holds sub-trees of aggregation nodes while they are joined. A search from the root gives each router its
//! next router towards the root. Sub-trees move along these paths, from the far routers to the root, until an
//! aggregation node adopts them.
//!
//! # Invariants
//!
//! 1. An aggregation node adopts at most as many children as `radix` leaves free beside its end nodes.
//! 2. Every aggregation node with end nodes ends beneath the root. One without end nodes has two children or more.
//!
//! # Costs
//!
//! O(links × log(routers)) for the paths. For each fan O(links + sites × distance to the root): one fan where
//! neighbours make a shallow tree, else about 2 × log(fan).
use super::links::{along, towards};
use super::network::Network;
use super::{NO_PORT, NONE};
use crate::id::{AnId, RouterId};
use crate::topology::Topology;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Values common to all trees of a set.
pub(super) struct Common<'a> {
    pub network: &'a Network<'a>,
    /// The aggregation nodes with end nodes, ascending, and the number of end nodes of each aggregation node.
    pub used: Vec<AnId>,
    pub counts: Vec<u32>,
    /// Number of further children that each aggregation node may have.
    pub free: Vec<u32>,
    pub radix: u32,
    pub depth_max: Option<u32>,
}

/// The routers' shortest paths to the root.
pub(super) struct RootPaths {
    /// The routers that reach the root, nearest first.
    order: Vec<RouterId>,
    /// The port of each router towards the root; `NO_PORT` at the root and where there is no path.
    pub ports: Vec<u16>,
}

pub(super) struct Shape {
    pub root: AnId,
    /// For each aggregation node; `NONE` at the root and outside of the tree.
    pub parents: Vec<u32>,
    /// Edges to the root; `NONE` outside of the tree.
    pub levels: Vec<u32>,
    pub depth: u32,
}

impl RootPaths {
    /// `costs`: from the root; `load`: the edges of earlier trees over each channel. Of several nearest neighbours, a
    /// router with an aggregation node comes first, then the idlest channel, then the fewest routers in this tree, or
    /// the most where they gather.
    pub fn new(network: &Network, costs: &[u64], load: &[u32]) -> RootPaths {
        let topology = network.topology;
        let reached = |router: &RouterId| costs[router.0 as usize] != u64::MAX;
        let mut order: Vec<RouterId> = (0..topology.routers()).map(RouterId).filter(reached).collect();
        order.sort_unstable_by_key(|router| (costs[router.0 as usize], *router));
        let mut ports = alloc::vec![NO_PORT; topology.routers() as usize];
        let mut followers = alloc::vec![0u32; topology.routers() as usize];
        for &at in &order {
            let nearer = network.neighbours(at).filter(|&(port, next)| {
                let over = network.cost(at, port).map(|cost| costs[next.0 as usize].saturating_add(cost.into()));
                over == Some(costs[at.0 as usize])
            });
            let next = nearer.min_by_key(|&(port, next)| {
                let busy = load[topology.channel(at, port) as usize];
                let followers = followers[next.0 as usize];
                let last = if network.gathers(at) { u32::MAX - followers } else { followers };
                (network.sites_at(next).is_empty(), busy, last, port)
            });
            if let Some((port, next)) = next {
                ports[at.0 as usize] = port.0;
                followers[next.0 as usize] += 1;
            }
        }
        RootPaths { order, ports }
    }

    fn next(&self, topology: &Topology, at: RouterId) -> Option<RouterId> {
        towards(topology, &self.ports, at).map(|(_, next)| next)
    }

    /// Position of each router in a depth-first walk of the tree of paths: neighbours have near positions.
    fn places(&self, topology: &Topology) -> Vec<u32> {
        let mut sizes = alloc::vec![1u32; self.ports.len()];
        for &at in self.order.iter().rev() {
            if let Some(next) = self.next(topology, at) {
                sizes[next.0 as usize] += sizes[at.0 as usize];
            }
        }
        let mut places = alloc::vec![0; self.ports.len()];
        let mut cursors = alloc::vec![1; self.ports.len()];
        for &at in &self.order {
            if let Some(next) = self.next(topology, at) {
                places[at.0 as usize] = cursors[next.0 as usize];
                cursors[next.0 as usize] += sizes[at.0 as usize];
                cursors[at.0 as usize] = places[at.0 as usize] + 1;
            }
        }
        places
    }
}

/// Makes the tree of a root: of neighbours if that is as shallow as wanted, else the cheapest of several fans. Error:
/// the least depth, if `depth_max` is impossible.
pub(super) fn grow(common: &Common, root: AnId, paths: &RootPaths) -> Result<Shape, u32> {
    let wanted = common.depth_max.unwrap_or(super::DEPTH_WANTED);
    let most = common.used.len() as u32;
    let mut best: Option<(u64, Shape)> = None;
    for fan in fans(common.radix.min(most)) {
        // A tree of this fan has a node with about that number of children, so it costs no less.
        if best.as_ref().is_some_and(|(least, _)| u64::from(wanted) * LEVEL_COST + u64::from(fan) >= *least) {
            break;
        }
        let shape = adopt(common, root, paths, fan).finish(common, root);
        let shallow = shape.depth <= wanted;
        if common.depth_max.is_some() && !shallow {
            continue;
        }
        if fan == 1 && shallow {
            return Ok(shape);
        }
        let cost = u64::from(shape.depth.max(wanted)) * LEVEL_COST + u64::from(busiest(common, &shape, paths));
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, shape));
        }
    }
    match best {
        Some((_, shape)) => Ok(shape),
        None => level_by_level(common, paths, wanted),
    }
}

/// Cost of a further level, in messages that follow each other over one channel or into one node. An estimate: a level
/// takes some 0.4 us (two levels, both ways, take 2.6 us with hosts and links: seed 001, table I), and a message of 256
/// bytes 0.02 us at 100 Gb/s.
const LEVEL_COST: u64 = 20;

/// The most edges over one channel, or children of one node.
fn busiest(common: &Common, shape: &Shape, paths: &RootPaths) -> u32 {
    let (network, topology) = (common.network, common.network.topology);
    let mut edges = alloc::vec![0u32; topology.channels() as usize];
    let mut children = common.counts.clone();
    let mut channels = Vec::new();
    for (an, &parent) in (0..).map(AnId).zip(&shape.parents).filter(|(_, parent)| **parent != NONE) {
        children[parent as usize] += 1;
        channels.clear();
        along(topology, &paths.ports, network.router(an), network.router(AnId(parent)), &mut channels);
        channels.iter().for_each(|&channel| edges[channel as usize] += 1);
    }
    edges.into_iter().chain(children).max().unwrap_or(0)
}

/// 1, 2, 3, 4, 6, 8, 12, 16, ..., up to a limit, and the limit.
fn fans(limit: u32) -> impl Iterator<Item = u32> {
    let doubled = (0..31).flat_map(|power| [1 << power, 3 << power >> 1]);
    doubled.skip(1).take_while(move |&fan| fan < limit).chain([limit.max(1)])
}

/// Joins all sub-trees. An aggregation node adopts once `fan` or more sub-trees of one height or less have reached it;
/// with a fan of 1 it adopts all.
fn adopt(common: &Common, root: AnId, paths: &RootPaths, fan: u32) -> Sketch {
    let (network, topology) = (common.network, common.network.topology);
    let root_router = network.router(root);
    let mut sketch = Sketch::new(common);
    let mut pending: Vec<Vec<AnId>> = alloc::vec![Vec::new(); topology.routers() as usize];
    for &at in paths.order.iter().rev() {
        let mut items = core::mem::take(&mut pending[at.0 as usize]);
        let here = network.sites_at(at);
        let leader = match at == root_router {
            true => Some(root),
            false => here.iter().copied().max_by_key(|an| (sketch.free[an.0 as usize], Reverse(*an))),
        };
        items.extend(here.iter().copied().filter(|an| Some(*an) != leader && common.counts[an.0 as usize] > 0));
        if at == root_router {
            sketch.close(common, root, items, paths);
            return sketch;
        }
        let next = paths.next(topology, at);
        match leader {
            Some(leader) => sketch.lead(common, leader, &mut items, fan),
            // Without a site here, and none at the next router, one of the sub-trees may lead the others.
            None if items.len() > 1 && next.is_some_and(|next| network.sites_at(next).is_empty()) => {
                let key = |an: AnId| (sketch.free[an.0 as usize] > 0, sketch.heights[an.0 as usize], Reverse(an));
                if let Some(at) = (0..items.len()).max_by_key(|&at| key(items[at])) {
                    let leader = items.swap_remove(at);
                    sketch.lead(common, leader, &mut items, fan);
                }
            }
            None => {}
        }
        if let Some(next) = next {
            let waiting = &mut pending[next.0 as usize];
            if waiting.len() < items.len() {
                core::mem::swap(waiting, &mut items);
            }
            waiting.append(&mut items);
        }
    }
    sketch
}

/// Sub-trees of aggregation nodes, each named by its top node.
struct Sketch {
    first_child: Vec<u32>,
    next_sibling: Vec<u32>,
    parents: Vec<u32>,
    /// Edges to the lowest node beneath.
    heights: Vec<u32>,
    /// Further children that the node may have, and that all nodes of its sub-tree may have together.
    free: Vec<u32>,
    room: Vec<u64>,
}

impl Sketch {
    fn new(common: &Common) -> Sketch {
        let none = || alloc::vec![NONE; common.free.len()];
        Sketch {
            first_child: none(),
            next_sibling: none(),
            parents: none(),
            heights: alloc::vec![0; common.free.len()],
            free: common.free.clone(),
            room: common.free.iter().map(|&free| free.into()).collect(),
        }
    }

    fn add(&mut self, parent: AnId, child: AnId) {
        let (p, c) = (parent.0 as usize, child.0 as usize);
        self.parents[c] = parent.0;
        self.next_sibling[c] = self.first_child[p];
        self.first_child[p] = child.0;
        self.heights[p] = self.heights[p].max(self.heights[c] + 1);
        self.free[p] -= 1;
        self.room[p] = (self.room[p] + self.room[c]).saturating_sub(1);
    }

    fn children(&self, of: AnId) -> impl Iterator<Item = AnId> + '_ {
        let some = |an: u32| (an != NONE).then_some(AnId(an));
        core::iter::successors(some(self.first_child[of.0 as usize]), move |an| some(self.next_sibling[an.0 as usize]))
    }

    /// Lets a node adopt from `items` if there are enough, and puts the node itself there.
    fn lead(&mut self, common: &Common, leader: AnId, items: &mut Vec<AnId>, fan: u32) {
        let free = self.free[leader.0 as usize] as usize;
        let in_use = common.counts[leader.0 as usize] > 0 || self.first_child[leader.0 as usize] != NONE;
        // A node without end nodes is useful only with two children.
        let fewest = if in_use { 1 } else { 2 };
        let least = (fan as usize).min(free).max(fewest);
        if items.len() >= least && free >= least {
            items.sort_unstable_by_key(|an| (self.heights[an.0 as usize], *an));
            let mut adopted = items.len();
            if fan > 1 {
                let tallest = self.heights[items[least - 1].0 as usize];
                adopted = items.partition_point(|an| self.heights[an.0 as usize] <= tallest);
            }
            for child in items.drain(..adopted.min(free)) {
                self.add(leader, child);
            }
            items.push(leader);
        } else if in_use {
            items.push(leader);
        }
    }

    /// Puts all remaining sub-trees beneath the root. Those that the root cannot adopt go to the highest level with
    /// room, and there to the node that is nearest in a walk along the paths. They go in the order of their own room:
    /// then there is room while any is left (the sum of `room - 1` over the first of them rises, then falls, and ends
    /// at 0 or more). Unused nodes are added if room is short.
    fn close(&mut self, common: &Common, root: AnId, mut items: Vec<AnId>, paths: &RootPaths) {
        if items.len() as u64 > u64::from(self.free[root.0 as usize]) {
            let room: u64 = items.iter().map(|an| self.room[an.0 as usize]).sum();
            let short = (items.len() as u64).saturating_sub(room + u64::from(self.free[root.0 as usize]));
            let extra = short.div_ceil(u64::from(common.radix.saturating_sub(1).max(1)));
            let unused = paths.order.iter().flat_map(|&at| common.network.sites_at(at)).copied().filter(|&an| {
                common.counts[an.0 as usize] == 0 && an != root && self.first_child[an.0 as usize] == NONE
            });
            items.extend(unused.take(extra as usize));
        }
        items.sort_unstable_by_key(|an| (Reverse(self.room[an.0 as usize]), Reverse(self.heights[an.0 as usize]), *an));
        let mut items = items.into_iter();
        while self.free[root.0 as usize] > 0 {
            let Some(item) = items.next() else { return };
            self.add(root, item);
        }
        let places = paths.places(common.network.topology);
        let place = |an: AnId| (places[common.network.router(an).0 as usize], an);
        // The nodes with room of each level, in the order of their places.
        let mut open: Vec<BTreeSet<(u32, AnId)>> = Vec::new();
        let mut highest = 0;
        let mut walk = alloc::vec![(0, root)];
        loop {
            while let Some((level, an)) = walk.pop() {
                walk.extend(self.children(an).map(|child| (level + 1, child)));
                if open.len() <= level {
                    open.resize(level + 1, BTreeSet::new());
                }
                if self.free[an.0 as usize] > 0 {
                    open[level].insert(place(an));
                    highest = highest.min(level);
                }
            }
            let Some(item) = items.next() else { return };
            let here = place(item);
            while open.get(highest).is_some_and(BTreeSet::is_empty) {
                highest += 1;
            }
            let Some(level) = open.get_mut(highest) else { return };
            let (before, after) = (level.range(..here).next_back(), level.range(here..).next());
            let nearest = before.into_iter().chain(after).min_by_key(|at| (at.0.abs_diff(here.0), **at)).copied();
            let Some((at, parent)) = nearest else { return };
            self.add(parent, item);
            if self.free[parent.0 as usize] == 0 {
                level.remove(&(at, parent));
            }
            walk.push((highest + 1, item));
        }
    }

    /// Makes the tree beneath `root`, without nodes that have no end nodes and fewer than two children.
    fn finish(&self, common: &Common, root: AnId) -> Shape {
        let mut order = alloc::vec![root];
        let mut at = 0;
        while at < order.len() {
            order.extend(self.children(order[at]));
            at += 1;
        }
        let sites = self.parents.len();
        let mut live_children = alloc::vec![0u32; sites];
        let has_ends = |an: AnId| common.counts[an.0 as usize] > 0;
        for &an in order.iter().rev() {
            let parent = self.parents[an.0 as usize];
            if parent != NONE && (has_ends(an) || live_children[an.0 as usize] > 0) {
                live_children[parent as usize] += 1;
            }
        }
        let (mut parents, mut levels) = (alloc::vec![NONE; sites], alloc::vec![NONE; sites]);
        // The nearest node that stays, from each node upward.
        let mut stays = alloc::vec![NONE; sites];
        let mut top = root;
        let mut depth = 0;
        for &an in &order {
            let a = an.0 as usize;
            let above = if an == root { NONE } else { stays[self.parents[a] as usize] };
            if !has_ends(an) && live_children[a] < 2 {
                stays[a] = above;
                continue;
            }
            stays[a] = an.0;
            parents[a] = above;
            levels[a] = if above == NONE { 0 } else { levels[above as usize] + 1 };
            depth = depth.max(levels[a]);
            if above == NONE {
                top = an;
            }
        }
        Shape { root: top, parents, levels, depth }
    }
}

/// Makes the shallowest tree that the radix allows, without regard to distance: the nodes with the most room come
/// first. Nodes of a level get parents in the order of a walk along the paths. Error: the least depth.
fn level_by_level(common: &Common, paths: &RootPaths, depth_max: u32) -> Result<Shape, u32> {
    let network = common.network;
    let by_distance = || paths.order.iter().flat_map(|&at| network.sites_at(at)).copied();
    let (mut used, unused): (Vec<AnId>, Vec<AnId>) = by_distance().partition(|an| common.counts[an.0 as usize] > 0);
    used.sort_by_key(|an| Reverse(common.free[an.0 as usize]));
    let mut rooms = alloc::vec![0u64];
    used.iter().for_each(|an| rooms.push(rooms.last().unwrap_or(&0) + u64::from(common.free[an.0 as usize])));
    // The room of the first `count` nodes, of which the first `extra` are unused ones.
    let room = |extra: usize, count: usize| {
        count.min(extra) as u64 * u64::from(common.radix) + rooms[count.saturating_sub(extra)]
    };
    // The end of each level among the nodes. None: there is no room.
    let levels = |extra: usize| {
        let (mut ends, all) = (alloc::vec![1], extra + used.len());
        let mut from = 0;
        while let Some(&end) = ends.last().filter(|&&end| end < all) {
            let slots = room(extra, end) - room(extra, from);
            if slots == 0 {
                return None;
            }
            from = end;
            ends.push(all.min(usize::try_from(slots).map_or(all, |slots| end.saturating_add(slots))));
        }
        Some(ends)
    };
    let mut least = u32::MAX;
    for extra in 0..=unused.len() {
        let Some(ends) = levels(extra) else { continue };
        let depth = ends.len() as u32 - 1;
        least = least.min(depth);
        if depth > depth_max {
            continue;
        }
        let mut nodes: Vec<AnId> = unused[..extra].iter().chain(&used).copied().collect();
        let places = paths.places(network.topology);
        let mut sketch = Sketch::new(common);
        let mut from = 0;
        for pair in ends.windows(2) {
            nodes[pair[0]..pair[1]].sort_unstable_by_key(|an| (places[network.router(*an).0 as usize], *an));
            let (above, level) = nodes[..pair[1]].split_at(pair[0]);
            let mut parents = above[from..].iter().copied().filter(|an| common.free[an.0 as usize] > 0);
            let mut parent = parents.next();
            for &child in level {
                while parent.is_some_and(|an| sketch.free[an.0 as usize] == 0) {
                    parent = parents.next();
                }
                let Some(parent) = parent else { break };
                sketch.add(parent, child);
            }
            from = pair[0];
        }
        return Ok(sketch.finish(common, nodes[0]));
    }
    Err(least)
}
