// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Minimal and Valiant routing on dragonflies (Kim, Dally, Scott and Abts 2008).
//!
//! A minimal route takes at most one global link: to the router that has the link, over it, to the destination. Of
//! several links between two groups it takes one with the fewest hops; among equal ones the hash of the pair decides. A
//! Valiant route goes to a group that is neither the source's nor the destination's, and from the router where it
//! enters this group to the destination. Within a group both routes are one local hop.
//!
//! The class of a hop is the number of global links already taken. Within a group and class there is at most one local
//! hop, then a global one, then the next class: there is no cycle. Where both kinds of routes exist, a minimal route
//! begins in class 1, as the second half of a detour. So on their first local link, which may be the same, packets that
//! wait for the minimal route's global link do not wait in front of those that begin a detour, and the queues of both can
//! be told apart (UGAL-L VC of Kim and others).
//!
//! **UGAL** decides at the router of the source between these two routes. **Progressive adaptive routing** (Jiang, Kim
//! and Dally, ISCA 2009) decides again at the router of the global link, where the packet may turn to another router of
//! its group. So it has classes in the order local 0, local 1, global 1, local 2, global 2, local 3, and every hop goes
//! to a later one.
use super::{Choices, DIRECT, Detours, Plan, RouteState, Routing, mix};
use crate::id::{Port, RouterId, Vc};
use crate::topology::{Dragonfly, Kind, Topology};

/// A route to another group: its first port, the global link, and the links to that group.
struct Leg {
    port: Port,
    gateway: (RouterId, Port),
    links: u32,
}

impl Routing {
    #[inline]
    pub(super) fn next_dragonfly(
        &self,
        topology: &Topology,
        at: RouterId,
        arrived: Option<(Port, Vc)>,
        to: RouterId,
        detours: Detours,
        state: &RouteState,
    ) -> Choices {
        let Kind::Dragonfly(dragonfly) = topology.kind() else { return Choices::default() };
        let progressive = detours == Detours::InGroup;
        let arrived = arrived.map(|(port, vc)| (port, vc.0 % self.needed));
        let begin = if state.detour().is_some() { 0 } else { self.needed.saturating_sub(2) };
        // The classes of a local and of a global hop, and whether the packet is in its first group.
        let (local, global, first) = match arrived {
            Some((port, class)) if dragonfly.is_global(port) => (class + 1, class + 1, false),
            Some((port, class)) if is_local(dragonfly, port) => match progressive {
                true => (class + 1, class.max(1), class < 2),
                false => (class, class, class == begin),
            },
            _ if progressive => (0, 1, true),
            _ => (begin, begin, true),
        };
        let here = dragonfly.group(at);
        let vc = |port: Port| self.vc(if dragonfly.is_global(port) { global } else { local }, state);
        let begins = |port: Port| if progressive { vc(port) } else { self.vc(0, state) };
        let group = state.detour().filter(|_| first).unwrap_or(dragonfly.group(to));
        if here == group {
            let port = dragonfly.local_port(at, to);
            return Choices::one(port, vc(port));
        }
        let leg = leg(dragonfly, at, here, group, to, state.salt);
        let mut choices = Choices::one(leg.port, vc(leg.port));
        let decides = first && (progressive || !matches!(arrived, Some((port, _)) if is_local(dragonfly, port)));
        if let Some(around) = state.candidate().filter(|_| decides) {
            let (port, links) = self.detour(dragonfly, at, around, to, state);
            choices.push_detour(port, begins(port), [minimal_links(dragonfly, &leg, group, here, to), links]);
        }
        choices
    }

    /// The first port of the route through a group, and its links.
    fn detour(
        &self,
        dragonfly: &Dragonfly,
        at: RouterId,
        around: u32,
        to: RouterId,
        state: &RouteState,
    ) -> (Port, u32) {
        let here = dragonfly.group(at);
        let first = leg(dragonfly, at, here, around, to, state.salt);
        let entry = far_end(dragonfly, &first, here, around);
        let last = leg(dragonfly, entry, around, dragonfly.group(to), to, state.salt);
        (first.port, first.links + minimal_links(dragonfly, &last, dragonfly.group(to), around, to))
    }

    /// The global link of the source's group that a hop leads to, whose queue UGAL-G knows. `None`: the hop leads to none,
    /// or is one.
    pub fn link_behind(
        &self,
        topology: &Topology,
        at: RouterId,
        (choices, place): (&Choices, usize),
        to: RouterId,
        state: &RouteState,
    ) -> Option<(RouterId, Port)> {
        if let (Plan::Planes(routing), Kind::Planes(planes)) = (&self.plan, topology.kind()) {
            let (plane, here, end) = (planes.of(at), planes.local(at), planes.local(to));
            let (router, port) = routing.link_behind(&planes.plane, here, (choices, place), end, state)?;
            return Some((planes.whole(router, plane), port));
        }
        let port = choices.as_slice().get(place)?.port;
        let candidate = state.candidate().filter(|_| choices.is_detour(place));
        let Kind::Dragonfly(dragonfly) = topology.kind() else { return None };
        let (here, group) = (dragonfly.group(at), candidate.unwrap_or(dragonfly.group(to)));
        let is_behind = here != group && !dragonfly.is_global(port);
        is_behind.then(|| leg(dragonfly, at, here, group, to, state.salt).gateway)
    }
}

#[inline]
fn leg(dragonfly: &Dragonfly, at: RouterId, here: u32, group: u32, to: RouterId, salt: u8) -> Leg {
    let (router, port) = gateway(dragonfly, at, here, group, to, salt);
    match router == at {
        true => Leg { port, gateway: (router, port), links: 1 },
        false => Leg { port: dragonfly.local_port(at, router), gateway: (router, port), links: 2 },
    }
}

/// The router at the other end of a leg's global link.
fn far_end(dragonfly: &Dragonfly, leg: &Leg, here: u32, group: u32) -> RouterId {
    let (router, port) = leg.gateway;
    let link = router.0 % dragonfly.routers_per_group * dragonfly.global_links_per_router
        + (u32::from(port.0) + 1 - dragonfly.routers_per_group);
    dragonfly.gateway(group, here, link / (dragonfly.groups - 1)).0
}

/// The links from a leg's beginning to a router of the group that it leads to.
fn minimal_links(dragonfly: &Dragonfly, leg: &Leg, group: u32, here: u32, to: RouterId) -> u32 {
    leg.links + u32::from(far_end(dragonfly, leg, here, group) != to)
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

/// The intermediate group that entropy picks between groups `a` and `b`; `DIRECT` within a group, or if there is no
/// third group.
pub(super) fn intermediate(groups: u32, a: u32, b: u32, entropy: u64) -> u32 {
    if a == b || groups < 3 {
        return DIRECT;
    }
    let mut group = (entropy % u64::from(groups - 2)) as u32;
    for taken in [a.min(b), a.max(b)] {
        group += u32::from(group >= taken);
    }
    group
}
