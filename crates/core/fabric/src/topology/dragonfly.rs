// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dragonflies: groups of routers, all linked within a group, and groups linked to each other (Kim, Dally, Scott and
//! Abts, ISCA 2008).
//!
//! Global links have the palmtree arrangement (Camarero, Vallejo and Beivide, 2014), which is symmetric under rotation
//! of the groups. A group's global links are numbered `l = router × links_per_router + link`. Link `copy × (groups − 1)
//! + offset − 1` leads `offset` groups back; there it is the link of the same copy and of offset `groups − offset`.
//! With fewer than the most groups, every pair of groups has `copies` links, and the remaining ports are unconnected.
//!
//! Ports of a router: to the other routers of its group in their order, then global links, then nodes.
use super::grid::{attach_evenly, node_count};
use super::{Draft, Kind, Topology, TopologyError};
use crate::id::{Port, RouterId};
use alloc::string::String;
use core::fmt;

/// The parameters of a dragonfly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dragonfly {
    pub groups: u32,
    pub routers_per_group: u32,
    pub nodes_per_router: u32,
    pub global_links_per_router: u32,
    /// Links between each pair of groups.
    pub copies: u32,
}

/// See [`Topology::dragonfly`].
pub(super) fn make(
    groups: u32,
    routers_per_group: u32,
    nodes_per_router: u32,
    global_links_per_router: u32,
) -> Result<Topology, TopologyError> {
    let of = "dragonfly";
    for (what, is) in [("groups", groups), ("routers per group", routers_per_group)] {
        if is == 0 {
            return Err(TopologyError::Zero { what, of });
        }
    }
    let links = u64::from(routers_per_group) * u64::from(global_links_per_router);
    if u64::from(groups) - 1 > links {
        return Err(TopologyError::TooManyGroups { groups, routers_per_group, global_links_per_router, links });
    }
    let routers = u64::from(groups) * u64::from(routers_per_group);
    let nodes = node_count(routers, nodes_per_router, of)?;
    let to_routers = (routers_per_group - 1).saturating_add(global_links_per_router);
    let mut draft = Draft::new(routers, |_| to_routers.saturating_add(nodes_per_router), nodes)?;
    let copies = if groups > 1 { (links / u64::from(groups - 1)) as u32 } else { 0 };
    let dragonfly = Dragonfly { groups, routers_per_group, nodes_per_router, global_links_per_router, copies };
    for group in 0..groups {
        let first = group * routers_per_group;
        for a in 0..routers_per_group {
            for b in a + 1..routers_per_group {
                draft.link(RouterId(first + a), b - 1, RouterId(first + b), a);
            }
        }
        link_groups(&mut draft, group, copies, |group, to, copy| dragonfly.gateway(group, to, copy));
    }
    attach_evenly(&mut draft, nodes, nodes_per_router, to_routers);
    draft.finish(Kind::Dragonfly(dragonfly))
}

/// The number, within `group`, of the global link `copy` to group `to`.
#[inline]
pub(super) fn global_link(groups: u32, group: u32, to: u32, copy: u32) -> u32 {
    let offset = if group > to { group - to } else { group + groups - to };
    copy * (groups - 1) + offset - 1
}

/// Links a group to all groups before it. `gateway`: router and port of a group, to a group, by copy.
pub(super) fn link_groups(
    draft: &mut Draft,
    group: u32,
    copies: u32,
    gateway: impl Fn(u32, u32, u32) -> (RouterId, Port),
) {
    for other in 0..group {
        for copy in 0..copies {
            let ((a, a_port), (b, b_port)) = (gateway(group, other, copy), gateway(other, group, copy));
            draft.link(a, a_port.0.into(), b, b_port.0.into());
        }
    }
}

impl Dragonfly {
    #[inline]
    pub fn group(&self, router: RouterId) -> u32 {
        router.0 / self.routers_per_group
    }

    /// The router and port of `group` at which link number `copy` to group `to` begins.
    #[inline]
    pub fn gateway(&self, group: u32, to: u32, copy: u32) -> (RouterId, Port) {
        let link = global_link(self.groups, group, to, copy);
        let within = link / self.global_links_per_router;
        let port = self.routers_per_group - 1 + link % self.global_links_per_router;
        (RouterId(group * self.routers_per_group + within), Port(port as u16))
    }

    /// The port that leads to another router of the same group.
    #[inline]
    pub fn local_port(&self, from: RouterId, to: RouterId) -> Port {
        let (a, b) = (from.0 % self.routers_per_group, to.0 % self.routers_per_group);
        Port(if b > a { b - 1 } else { b } as u16)
    }

    /// Whether a port leads to another group.
    #[inline]
    pub fn is_global(&self, port: Port) -> bool {
        u32::from(port.0).wrapping_sub(self.routers_per_group - 1) < self.global_links_per_router
    }

    /// Links on the route from `from` to `to` over global link number `copy`.
    #[inline]
    pub fn distance_over(&self, from: RouterId, to: RouterId, copy: u32) -> u32 {
        let (a, b) = (self.group(from), self.group(to));
        let (near, far) = (self.gateway(a, b, copy).0, self.gateway(b, a, copy).0);
        u32::from(near != from) + 1 + u32::from(far != to)
    }

    pub(super) fn distance(&self, from: RouterId, to: RouterId) -> u32 {
        let (a, b) = (self.group(from), self.group(to));
        if a == b {
            return (from != to).into();
        }
        let direct = (0..self.copies).map(|copy| self.distance_over(from, to, copy)).min().unwrap_or(3);
        if direct <= 2 { direct } else { 2 + u32::from(!self.has_two_link_route(from, to)) }
    }

    /// Whether a route of two global links leads from one router to the other through a third group.
    fn has_two_link_route(&self, from: RouterId, to: RouterId) -> bool {
        self.global_peers(from).any(|next| self.global_peers(next).any(|last| last == to))
    }

    fn global_peers(&self, router: RouterId) -> impl Iterator<Item = RouterId> + '_ {
        let group = self.group(router);
        let first = router.0 % self.routers_per_group * self.global_links_per_router;
        let connected = self.copies * (self.groups - 1);
        (first..first + self.global_links_per_router).filter(move |&link| link < connected).map(move |link| {
            let (copy, offset) = (link / (self.groups - 1), link % (self.groups - 1) + 1);
            let other = (group + self.groups - offset) % self.groups;
            self.gateway(other, group, copy).0
        })
    }

    pub(super) fn bisection(&self) -> Option<u32> {
        (self.groups % 2 == 0).then(|| (self.groups / 2).pow(2) * self.copies)
    }

    /// The capacity of a group's global links over the traffic of its nodes to other groups, as a fraction.
    pub(super) fn saturation(&self) -> (u128, u128) {
        let in_group = u128::from(self.routers_per_group) * u128::from(self.nodes_per_router);
        let nodes = in_group * u128::from(self.groups);
        match self.groups {
            1 => (1, 1),
            groups => (u128::from(self.copies) * u128::from(groups - 1) * (nodes - 1), in_group * (nodes - in_group)),
        }
    }

    pub(super) fn router_name(&self, router: RouterId) -> String {
        alloc::format!("router {} of group {}", router.0 % self.routers_per_group, self.group(router))
    }
}

impl fmt::Display for Dragonfly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Dragonfly { groups, routers_per_group, nodes_per_router, global_links_per_router, .. } = self;
        write!(f, "dragonfly of {groups} groups of {routers_per_group} routers, ")?;
        write!(f, "{nodes_per_router} nodes and {global_links_per_router} global links each")
    }
}
