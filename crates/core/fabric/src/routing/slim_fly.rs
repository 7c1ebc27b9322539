// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Minimal, Valiant and UGAL routing on a Slim Fly (Besta and Hoefler, SC 2014).
//!
//! A minimal route is the link to the destination's router, or two links over a common neighbour; of several the least
//! loaded is taken. A detour leads minimally to an intermediate router, then to the destination. The class of a hop is
//! the number of hops before it, at most two without a detour and four with one, so there is no cycle.
//!
//! Costs: 8 bytes for each link of each router; `next` is O(links of a router).
use super::hyperx::hops_taken;
use super::{CHOICES_MAX, Choices, DIRECT, Detours, RouteState, Routing};
use crate::id::{Port, RouterId, Vc};
use crate::topology::Topology;
use alloc::vec::Vec;

/// The neighbours of each router in the order of their numbers, with the ports to them.
#[derive(Clone, Debug)]
pub(super) struct Neighbours {
    each: usize,
    of: Vec<(RouterId, Port)>,
}

impl Neighbours {
    pub fn new(topology: &Topology) -> Neighbours {
        let mut of = Vec::new();
        for router in (0..topology.routers()).map(RouterId) {
            let first = of.len();
            of.extend(topology.neighbours(router).map(|(port, next)| (next, port)));
            of[first..].sort_unstable();
        }
        Neighbours { each: of.len() / topology.routers().max(1) as usize, of }
    }

    fn of(&self, router: RouterId) -> &[(RouterId, Port)] {
        &self.of[router.0 as usize * self.each..][..self.each]
    }

    fn port(&self, from: RouterId, to: RouterId) -> Option<Port> {
        let of = self.of(from);
        of.binary_search_by_key(&to, |&(router, _)| router).ok().map(|place| of[place].1)
    }

    fn distance(&self, from: RouterId, to: RouterId) -> u32 {
        if from == to { 0 } else { 2 - u32::from(self.port(from, to).is_some()) }
    }

    /// Calls `take` with the first ports of all minimal routes.
    fn minimal(&self, from: RouterId, to: RouterId, mut take: impl FnMut(Port)) {
        if let Some(port) = self.port(from, to) {
            return take(port);
        }
        let mut theirs = self.of(to).iter().peekable();
        for &(mine, port) in self.of(from) {
            while theirs.next_if(|other| other.0 < mine).is_some() {}
            if theirs.peek().is_some_and(|other| other.0 == mine) {
                take(port);
            }
        }
    }
}

#[inline]
pub(super) fn next(
    routing: &Routing,
    neighbours: &Neighbours,
    topology: &Topology,
    (at, arrived): (RouterId, Option<(Port, Vc)>),
    to: RouterId,
    detours: Detours,
    state: &mut RouteState,
) -> Choices {
    let class = hops_taken(routing, topology, at, arrived);
    if state.via == at.0 {
        state.via = DIRECT;
    }
    let vc = routing.vc(class, state);
    let mut choices = Choices::default();
    neighbours.minimal(at, state.detour().map_or(to, RouterId), |port| {
        if choices.len() + 1 < CHOICES_MAX {
            choices.push(port, vc);
        }
    });
    if detours == Detours::AtSource && class == 0 {
        if let Some(around) = state.candidate().map(RouterId) {
            let links = neighbours.distance(at, around) + neighbours.distance(around, to);
            let mut first = None;
            neighbours.minimal(at, around, |port| first = first.or(Some(port)));
            if let Some(port) = first {
                choices.push_detour(port, vc, [neighbours.distance(at, to), links]);
            }
        }
    }
    choices
}
