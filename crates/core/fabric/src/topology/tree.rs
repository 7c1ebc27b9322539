// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fat trees of any depth and taper: extended generalized fat trees (XGFT; Öhring, Ibel, Das and Kumar 1995) with
//! parallel links (Zahavi 2010).
//!
//! The switches of level 1 are the leaves, with a node behind each port down. A switch of level l has `children[l]`
//! children and, below the top, `parents[l]` parents, with `trunks[l]` parallel links to each parent. Two switches of a
//! level with the same nodes below them belong to one *subtree*. A subtree of level l has `width[l]` switches, the
//! product of all `parents` below l.
//!
//! Switch `place` of subtree `tree` of level l has as its parents the switches `place * parents[l] + u` of subtree
//! `tree / children[l + 1]` of level l + 1, for u below `parents[l]`. A k-ary n-tree has k children and k parents at
//! each of n levels.
//!
//! [`Topology::fat_tree`] has switches of one radix. A leaf has `down` ports to nodes for each `up` ports to the level
//! above: taper (1, 1) is a full tree, (2, 1) has half the bandwidth above the leaves. Switches above the leaves have
//! half of their ports up; at the top all ports lead down.
//!
//! With fewer nodes than fit, empty subtrees are left out; the switches above remain, with free ports. Node `n` is
//! attached to leaf `n / children[1]`. Routers are numbered level by level from the leaves, in a level subtree by
//! subtree. A switch has its ports downward first, by child, then its ports upward, by parent; parallel links have
//! neighbouring ports.
use super::{Draft, Kind, PORTS_MAX, Product, Topology, TopologyError};
use crate::id::{NodeId, RouterId};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The most levels of a fat tree: with two children each it has 2^24 nodes.
pub const TREE_LEVELS_MAX: usize = 24;

/// The parameters of a fat tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatTree {
    pub nodes: u32,
    /// From the leaves to the top.
    levels: Vec<TreeLevel>,
    /// Switches of one radix, and the (down, up) of a leaf's ports, as given. `None`: each level has its own numbers.
    uniform: Option<(u32, (u32, u32))>,
}

/// The switches of one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeLevel {
    /// Children of a switch: nodes, if it is a leaf.
    pub children: u32,
    /// Parents of a switch; 0 at the top.
    pub parents: u32,
    /// Links to each parent.
    pub trunks: u32,
    /// Ports of a switch to its children. The ports to its parents follow.
    pub down_ports: u32,
    /// Number of the first switch.
    pub first: u32,
    /// Subtrees, and the switches of each.
    pub subtrees: u32,
    pub width: u32,
    /// Leaves of a full subtree; if they are more than 2^32 - 1, this number.
    pub leaves: u32,
    /// Product of the uplinks of a switch of each level below.
    pub turns: u64,
}

impl TreeLevel {
    /// Ports of a switch to its parents.
    #[inline]
    pub fn up_ports(&self) -> u32 {
        self.parents * self.trunks
    }

    pub fn switches(&self) -> u32 {
        self.subtrees * self.width
    }
}

/// The place of a switch in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreePlace {
    /// From 0, for the leaves.
    pub level: usize,
    /// The subtree, among those of the level; and the switch within it.
    pub subtree: u32,
    pub place: u32,
}

/// See [`Topology::fat_tree`].
pub(super) fn of_radix(
    levels: u32,
    radix: u32,
    taper: (u32, u32),
    nodes: Option<u32>,
) -> Result<Topology, TopologyError> {
    make(FatTree::of_radix(levels, radix, taper, nodes)?)
}

/// See [`Topology::xgft`].
pub(super) fn of_levels(
    children: &[u32],
    parents: &[u32],
    trunks: &[u32],
    nodes: Option<u32>,
) -> Result<Topology, TopologyError> {
    make(FatTree::of_levels(children, parents, trunks, nodes)?)
}

fn make(tree: FatTree) -> Result<Topology, TopologyError> {
    let routers = tree.levels.iter().map(|level| u64::from(level.switches())).sum();
    let ports = |router| {
        let level = &tree.levels[tree.place(RouterId(router)).level];
        level.down_ports + level.up_ports()
    };
    let mut draft = Draft::new(routers, ports, tree.nodes)?;
    let at_leaf = tree.nodes_per_leaf();
    for node in 0..tree.nodes {
        draft.attach(NodeId(node), RouterId(node / at_leaf), node % at_leaf);
    }
    for (below, above) in tree.levels.iter().zip(&tree.levels[1..]) {
        for switch in 0..below.switches() {
            let (subtree, place) = (switch / below.width, switch % below.width);
            let parents = above.first + subtree / above.children * above.width + place * below.parents;
            let child = subtree % above.children;
            for up in 0..below.up_ports() {
                let (parent, link) = (parents + up / below.trunks, up % below.trunks);
                let ends = (RouterId(below.first + switch), RouterId(parent));
                draft.link(ends.0, below.down_ports + up, ends.1, child * below.trunks + link);
            }
        }
    }
    draft.finish(Kind::FatTree(tree))
}

impl FatTree {
    fn of_radix(levels: u32, radix: u32, taper: (u32, u32), nodes: Option<u32>) -> Result<FatTree, TopologyError> {
        if !(2..=TREE_LEVELS_MAX as u32).contains(&levels) {
            return Err(TopologyError::Levels { is: levels, least: 2, limit: TREE_LEVELS_MAX });
        }
        let (down, up) = taper;
        for (what, is) in [("radix", radix), ("ports down", down), ("ports up", up)] {
            not_zero(what, is)?;
        }
        if radix > u32::from(u16::MAX) {
            return Err(TopologyError::TooLarge {
                what: "ports of a router",
                is: radix.into(),
                limit: u16::MAX.into(),
            });
        }
        let parts = u64::from(down) + u64::from(up);
        if u64::from(radix) % parts != 0 {
            return Err(TopologyError::Taper { radix, down, up });
        }
        if levels > 2 && radix % 2 != 0 {
            return Err(TopologyError::RadixOdd { radix });
        }
        let (share, levels) = ((u64::from(radix) / parts) as u32, levels as usize);
        let (mut children, mut parents) = (alloc::vec![radix / 2; levels], alloc::vec![radix / 2; levels - 1]);
        (children[0], parents[0], children[levels - 1]) = (share * down, share * up, radix);
        FatTree::new(&children, &parents, &[], nodes, Some((radix, taper)))
    }

    fn of_levels(
        children: &[u32],
        parents: &[u32],
        trunks: &[u32],
        nodes: Option<u32>,
    ) -> Result<FatTree, TopologyError> {
        let levels = children.len();
        if !(1..=TREE_LEVELS_MAX).contains(&levels) {
            return Err(TopologyError::Levels { is: levels as u32, least: 1, limit: TREE_LEVELS_MAX });
        }
        for (what, entries, least) in [("parents", parents.len(), levels - 1), ("trunks", trunks.len(), 0)] {
            if entries != levels - 1 && entries != least {
                return Err(TopologyError::TreeEntries { what, entries, levels });
            }
        }
        let each = [("children", children), ("parents", parents), ("trunks", trunks)];
        for (what, numbers) in each {
            numbers.iter().try_for_each(|&is| not_zero(what, is))?;
        }
        FatTree::new(children, parents, trunks, nodes, None)
    }

    fn new(
        children: &[u32],
        parents: &[u32],
        trunks: &[u32],
        nodes: Option<u32>,
        uniform: Option<(u32, (u32, u32))>,
    ) -> Result<FatTree, TopologyError> {
        let limit = children.iter().fold(1, |nodes: u64, &children| nodes.saturating_mul(children.into()));
        not_zero("nodes", nodes.unwrap_or(1))?;
        let nodes = match nodes {
            Some(nodes) if u64::from(nodes) > limit => {
                let (levels, is_uniform) = (children.len(), uniform.is_some());
                return Err(TopologyError::TreeTooSmall { levels, is_uniform, limit, nodes });
            }
            Some(nodes) => nodes,
            None if limit > PORTS_MAX.into() => {
                return Err(TopologyError::TooLarge { what: "nodes", is: limit, limit: PORTS_MAX });
            }
            None => limit as u32,
        };
        let mut made = Vec::with_capacity(children.len());
        let (mut first, mut width, mut leaves, mut turns, mut trunks_below) = (0u64, 1u64, 1u64, 1u64, 1u64);
        for (level, &count) in children.iter().enumerate() {
            if level > 0 {
                leaves = (leaves * u64::from(count)).min(u32::MAX.into());
            }
            let up = (parents.get(level).copied().unwrap_or(0), trunks.get(level).copied().unwrap_or(1));
            let up_ports = u64::from(up.0) * u64::from(up.1);
            let down_ports = u64::from(count) * trunks_below;
            if down_ports + up_ports > u16::MAX.into() {
                let is = down_ports + up_ports;
                return Err(TopologyError::TooLarge { what: "ports of a router", is, limit: u16::MAX.into() });
            }
            let subtrees = u64::from(nodes.div_ceil(children[0])).div_ceil(leaves);
            let switches = subtrees * width;
            if first + switches > PORTS_MAX.into() {
                return Err(TopologyError::TooLarge { what: "routers", is: first + switches, limit: PORTS_MAX });
            }
            made.push(TreeLevel {
                children: count,
                parents: up.0,
                trunks: up.1,
                down_ports: down_ports as u32,
                first: first as u32,
                subtrees: subtrees as u32,
                width: width as u32,
                leaves: leaves as u32,
                turns,
            });
            first += switches;
            (width, trunks_below) = (width * u64::from(up.0), up.1.into());
            turns = turns.saturating_mul(up_ports.max(1));
        }
        Ok(FatTree { nodes, levels: made, uniform })
    }

    /// From the leaves to the top.
    pub fn levels(&self) -> &[TreeLevel] {
        &self.levels
    }

    pub fn nodes_per_leaf(&self) -> u32 {
        self.levels[0].children
    }

    /// The number of leaves, which are the first routers.
    pub fn leaves(&self) -> u32 {
        self.levels.first().map_or(0, |leaf| leaf.subtrees)
    }

    /// O(levels).
    #[inline]
    pub fn place(&self, router: RouterId) -> TreePlace {
        let mut level = 0;
        while level + 1 < self.levels.len() && self.levels[level + 1].first <= router.0 {
            level += 1;
        }
        let TreeLevel { first, width, .. } = self.levels[level];
        TreePlace { level, subtree: (router.0 - first) / width, place: (router.0 - first) % width }
    }

    pub(super) fn distance(&self, from: RouterId, to: RouterId) -> Option<u32> {
        if from == to {
            return Some(0);
        }
        let of_leaves = from.0 < self.leaves() && to.0 < self.leaves();
        let meet = || self.levels.iter().position(|level| from.0 / level.leaves == to.0 / level.leaves);
        of_leaves.then(|| 2 * meet().unwrap_or_default() as u32)
    }

    pub(super) fn diameter(&self) -> u32 {
        2 * self.levels.iter().position(|level| level.subtrees == 1).unwrap_or_default() as u32
    }

    /// The least links out of half of the nodes, of all levels.
    pub(super) fn bisection(&self) -> Option<u32> {
        let below_top = &self.levels[self.levels.len().checked_sub(2)?];
        let full = u64::from(below_top.subtrees) * u64::from(below_top.leaves) * u64::from(self.nodes_per_leaf());
        let uplinks = |level: &TreeLevel| level.switches() / 2 * level.up_ports();
        let halves = u64::from(self.nodes) == full && below_top.subtrees % 2 == 0;
        halves.then(|| self.levels[..self.levels.len() - 1].iter().map(uplinks).min()).flatten()
    }

    /// Capacity of a full subtree's uplinks over its upward traffic, as a fraction, at the level where it is least.
    pub(super) fn saturation(&self) -> (u128, u128) {
        let nodes = u128::from(self.nodes);
        let mut least = (1, 1);
        for level in &self.levels[..self.levels.len() - 1] {
            let below = u128::from(level.leaves) * u128::from(self.nodes_per_leaf());
            let Some(elsewhere) = nodes.checked_sub(below).filter(|&nodes| nodes > 0) else { break };
            let uplinks = u128::from(level.width) * u128::from(level.up_ports());
            let bound = (uplinks * (nodes - 1), below * elsewhere);
            if bound.0 * least.1 < least.0 * bound.1 {
                least = bound;
            }
        }
        least
    }

    pub(super) fn router_name(&self, router: RouterId) -> String {
        let TreePlace { level, subtree, place } = self.place(router);
        match (level, self.levels.len()) {
            (0, _) => alloc::format!("leaf {}", router.0),
            (1, 2) => alloc::format!("spine {place}"),
            (1, 3) => alloc::format!("middle {place} of pod {subtree}"),
            (_, levels) if level + 1 == levels => alloc::format!("core {place}"),
            _ => alloc::format!("switch {place} of subtree {subtree} of level {}", level + 1),
        }
    }
}

fn not_zero(what: &'static str, is: u32) -> Result<(), TopologyError> {
    if is == 0 { Err(TopologyError::Zero { what, of: "fat tree" }) } else { Ok(()) }
}

impl fmt::Display for FatTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels = self.levels.len();
        if let Some((radix, (down, up))) = self.uniform {
            return write!(f, "fat tree of {levels} levels, radix {radix}, taper {down}:{up}");
        }
        let of = |number: fn(&TreeLevel) -> u32, levels: usize| -> Vec<u32> {
            self.levels[..levels].iter().map(number).collect()
        };
        write!(f, "fat tree of {levels} levels, children {}", Product(&of(|level| level.children, levels)))?;
        if levels > 1 {
            write!(f, ", parents {}", Product(&of(|level| level.parents, levels - 1)))?;
        }
        if self.levels.iter().any(|level| level.trunks > 1) {
            write!(f, ", trunks {}", Product(&of(|level| level.trunks, levels - 1)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
