// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Minimal and Valiant routing on dragonflies (Kim, Dally, Scott and Abts 2008).
//!
//! A minimal route takes at most one global link: to the router that has the link, over it, to the destination. Of
//! several links between two groups it takes one with the fewest hops; among equal ones the hash of the pair decides. A
//! Valiant route goes to a group that is neither the source's nor the destination's, and from the router where it
//! enters this group to the destination. Within a group both routes are one local hop.
//!
//! The class of a hop is the number of global links already taken. Within a group and class there is at most one local
//! hop, then a global one, then the next class: there is no cycle.
use super::{Choices, DIRECT, RouteState, Routing, mix};
use crate::id::{Port, RouterId, Vc};
use crate::topology::{Dragonfly, Kind, Topology};

impl Routing {
    #[inline]
    pub(super) fn next_dragonfly(
        &self,
        topology: &Topology,
        at: RouterId,
        arrived: Option<(Port, Vc)>,
        to: RouterId,
        state: &RouteState,
    ) -> Choices {
        let Kind::Dragonfly(dragonfly) = topology.kind() else { return Choices::default() };
        let class = match arrived {
            Some((port, vc)) if dragonfly.is_global(port) => vc.0 % self.needed + 1,
            Some((port, vc)) if is_local(dragonfly, port) => vc.0 % self.needed,
            _ => 0,
        };
        let here = dragonfly.group(at);
        let group = if class == 0 && state.group != DIRECT { state.group.into() } else { dragonfly.group(to) };
        let port = if here == group {
            dragonfly.local_port(at, to)
        } else {
            let (router, port) = gateway(dragonfly, at, here, group, to, state.salt);
            if router == at { port } else { dragonfly.local_port(at, router) }
        };
        Choices::one(port, self.vc(class, state))
    }
}

/// The link to `group` that a packet takes: its router and port. At that router the function returns the same router
/// again: there the link costs one hop less, and any link of equal cost at another router would have cost less at `at`.
#[inline]
fn gateway(dragonfly: &Dragonfly, at: RouterId, here: u32, group: u32, to: RouterId, salt: u8) -> (RouterId, Port) {
    if dragonfly.copies == 1 {
        return dragonfly.gateway(here, group, 0);
    }
    let to_end = dragonfly.group(to) == group;
    let cost = |copy: u32| {
        let (near, far) = (dragonfly.gateway(here, group, copy).0, dragonfly.gateway(group, here, copy).0);
        u32::from(near != at) + u32::from(to_end && far != to)
    };
    let least = (0..dragonfly.copies).map(cost).min().unwrap_or(0);
    let count = (0..dragonfly.copies).filter(|&copy| cost(copy) == least).count() as u64;
    let pick = mix(u64::from(salt) << 32 | u64::from(to.0)) % count.max(1);
    let copy = (0..dragonfly.copies).filter(|&copy| cost(copy) == least).nth(pick as usize).unwrap_or(0);
    dragonfly.gateway(here, group, copy)
}

#[inline]
fn is_local(dragonfly: &Dragonfly, port: Port) -> bool {
    u32::from(port.0) < dragonfly.routers_per_group - 1
}

/// The number of groups that Valiant can choose from between two groups.
pub(super) fn intermediates(topology: &Topology) -> u32 {
    match topology.kind() {
        Kind::Dragonfly(dragonfly) => dragonfly.groups.saturating_sub(2),
        _ => 0,
    }
}

/// The intermediate group that entropy picks; `DIRECT` within a group, or if there is no third group.
pub(super) fn intermediate(topology: &Topology, (from, to): (RouterId, RouterId), entropy: u64) -> u16 {
    let Kind::Dragonfly(dragonfly) = topology.kind() else { return DIRECT };
    let (a, b) = (dragonfly.group(from), dragonfly.group(to));
    if a == b || dragonfly.groups < 3 {
        return DIRECT;
    }
    let mut group = (entropy % u64::from(dragonfly.groups - 2)) as u32;
    for taken in [a.min(b), a.max(b)] {
        group += u32::from(group >= taken);
    }
    group as u16
}
