// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dragonfly+: groups of two levels, leaves with nodes and spines with links to other groups (Shpiner, Haramaty, Eliad,
//! Zdornov, Gafni and Zahavi, HiPINEB 2017; as Megafly: Flajslik, Borch and Parker, ISC 2018).
//!
//! Every leaf of a group is linked to every spine of it. Global links have the arrangement of a dragonfly's, the spines
//! being the routers with links. Leaves are numbered first, group by group, then spines. Ports of a leaf: to the spines,
//! then nodes; of a spine: to the leaves, then global links. Node `n` is attached to leaf `n / nodes_per_leaf`.
use super::dragonfly::{global_link, link_groups};
use super::grid::{attach_evenly, node_count};
use super::{Draft, Kind, Topology, TopologyError};
use crate::id::{Port, RouterId};
use alloc::string::String;
use core::fmt;

/// The parameters of a dragonfly+.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DragonflyPlus {
    pub groups: u32,
    pub leaves_per_group: u32,
    pub spines_per_group: u32,
    pub nodes_per_leaf: u32,
    pub global_links_per_spine: u32,
    /// Links between each pair of groups.
    pub copies: u32,
}

/// Makes a dragonfly+ ([`Topology::dragonfly_plus`]).
pub(super) fn make(
    groups: u32,
    (leaves, spines): (u32, u32),
    nodes_per_leaf: u32,
    global_links_per_spine: u32,
) -> Result<Topology, TopologyError> {
    let of = "dragonfly+";
    for (what, is) in [("groups", groups), ("leaves per group", leaves), ("spines per group", spines)] {
        if is == 0 {
            return Err(TopologyError::Zero { what, of });
        }
    }
    let links = u64::from(spines) * u64::from(global_links_per_spine);
    if u64::from(groups) - 1 > links {
        let (routers_per_group, global_links_per_router) = (spines, global_links_per_spine);
        return Err(TopologyError::TooManyGroups { groups, routers_per_group, global_links_per_router, links });
    }
    let all_leaves = u64::from(groups) * u64::from(leaves);
    let nodes = node_count(all_leaves, nodes_per_leaf, of)?;
    let routers = all_leaves + u64::from(groups) * u64::from(spines);
    let ports = |router: u32| match u64::from(router) < all_leaves {
        true => spines.saturating_add(nodes_per_leaf),
        false => leaves.saturating_add(global_links_per_spine),
    };
    let mut draft = Draft::new(routers, ports, nodes)?;
    let copies = if groups > 1 { (links / u64::from(groups - 1)) as u32 } else { 0 };
    let fly = DragonflyPlus {
        groups,
        leaves_per_group: leaves,
        spines_per_group: spines,
        nodes_per_leaf,
        global_links_per_spine,
        copies,
    };
    for group in 0..groups {
        for leaf in 0..leaves {
            for spine in 0..spines {
                draft.link(RouterId(group * leaves + leaf), spine, fly.spine(group, spine), leaf);
            }
        }
        link_groups(&mut draft, group, copies, |group, to, copy| fly.gateway(group, to, copy));
    }
    attach_evenly(&mut draft, nodes, nodes_per_leaf, spines);
    draft.finish(Kind::DragonflyPlus(fly))
}

impl DragonflyPlus {
    pub fn leaves(&self) -> u32 {
        self.groups * self.leaves_per_group
    }

    /// Nodes at leaves. A network with more has nodes inside switches.
    pub fn nodes(&self) -> u32 {
        self.leaves() * self.nodes_per_leaf
    }

    #[inline]
    pub fn is_leaf(&self, router: RouterId) -> bool {
        router.0 < self.leaves()
    }

    #[inline]
    pub fn group(&self, router: RouterId) -> u32 {
        match router.0.checked_sub(self.leaves()) {
            None => router.0 / self.leaves_per_group,
            Some(spine) => spine / self.spines_per_group,
        }
    }

    /// The number of a router within its group's leaves, or its spines.
    #[inline]
    pub fn within(&self, router: RouterId) -> u32 {
        match router.0.checked_sub(self.leaves()) {
            None => router.0 % self.leaves_per_group,
            Some(spine) => spine % self.spines_per_group,
        }
    }

    fn spine(&self, group: u32, within: u32) -> RouterId {
        RouterId(self.leaves() + group * self.spines_per_group + within)
    }

    /// The spine and port of `group` at which link number `copy` to group `to` begins.
    #[inline]
    pub fn gateway(&self, group: u32, to: u32, copy: u32) -> (RouterId, Port) {
        let link = global_link(self.groups, group, to, copy);
        let port = self.leaves_per_group + link % self.global_links_per_spine;
        (self.spine(group, link / self.global_links_per_spine), Port(port as u16))
    }

    /// The connected global links of a spine, given its number within its group.
    #[inline]
    pub fn links_of_spine(&self, within: u32) -> u32 {
        let first = within * self.global_links_per_spine;
        (self.copies * (self.groups - 1)).saturating_sub(first).min(self.global_links_per_spine)
    }

    /// The group that a spine's n-th global link leads to, and its copy.
    #[inline]
    pub fn link_of_spine(&self, spine: RouterId, n: u32) -> (u32, u32) {
        let link = self.within(spine) * self.global_links_per_spine + n;
        let (copy, offset) = (link / (self.groups - 1), link % (self.groups - 1) + 1);
        ((self.group(spine) + self.groups - offset) % self.groups, copy)
    }

    /// Links between two leaves; None for others.
    pub(super) fn distance(&self, from: RouterId, to: RouterId) -> Option<u32> {
        match (self.is_leaf(from) && self.is_leaf(to), from == to, self.group(from) == self.group(to)) {
            (false, ..) => None,
            (_, true, _) => Some(0),
            (_, _, same) => Some(if same { 2 } else { 3 }),
        }
    }

    pub(super) fn diameter(&self) -> u32 {
        match (self.groups, self.leaves_per_group) {
            (1, 1) => 0,
            (1, _) => 2,
            _ => 3,
        }
    }

    pub(super) fn bisection(&self) -> Option<u32> {
        (self.groups % 2 == 0).then(|| (self.groups / 2).pow(2) * self.copies)
    }

    /// The smaller capacity of a group's global links and of a leaf's uplinks over their traffic, as a fraction.
    pub(super) fn saturation(&self) -> (u128, u128) {
        let [leaf, leaves, spines] =
            [self.nodes_per_leaf, self.leaves_per_group, self.spines_per_group].map(u128::from);
        let (in_group, nodes) = (leaf * leaves, u128::from(self.nodes()));
        let mut bound = (1, 1);
        let links = u128::from(self.copies) * u128::from(self.groups - 1);
        for (capacity, nodes_there) in [(links, in_group), (spines, leaf)] {
            let (n, m) = (capacity * (nodes - 1), nodes_there * (nodes - nodes_there));
            if m > 0 && n * bound.1 < bound.0 * m {
                bound = (n, m);
            }
        }
        bound
    }

    pub(super) fn router_name(&self, router: RouterId) -> String {
        let level = if self.is_leaf(router) { "leaf" } else { "spine" };
        alloc::format!("{level} {} of group {}", self.within(router), self.group(router))
    }
}

impl fmt::Display for DragonflyPlus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DragonflyPlus { groups, leaves_per_group, spines_per_group, .. } = self;
        write!(f, "dragonfly+ of {groups} groups of {leaves_per_group} leaves and {spines_per_group} spines")
    }
}
