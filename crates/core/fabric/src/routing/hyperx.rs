// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routing on a HyperX: dimension order; minimal, Valiant and UGAL (Ahn and others, SC 2009).
//!
//! **Dimension order** corrects one coordinate after the other. A packet never takes two hops in one dimension, and its
//! dimensions ascend: there is no cycle, with one virtual channel.
//!
//! **Minimal** corrects the coordinates in any order, and takes the least loaded output. **Valiant** goes minimally to an
//! intermediate router, then to the destination. **UGAL** decides between both at the router of the source. The class of
//! a hop is the number of hops before it: at most one for each dimension, twice as many with a detour. Every hop is in a
//! later class than the one before, so there is no cycle.
//!
//! Of parallel links the hash of the pair takes one in dimension order. Otherwise all are offered, as far as there is
//! room.
use super::{CHOICES_MAX, Choices, Detours, RouteState, Routing};
use crate::id::{Peer, Port, RouterId, Vc};
use crate::topology::{HyperX, Kind, Topology};

#[inline]
pub(super) fn next_in_order(
    routing: &Routing,
    topology: &Topology,
    at: RouterId,
    to: RouterId,
    state: &RouteState,
) -> Choices {
    let Kind::HyperX(hyperx) = topology.kind() else { return Choices::default() };
    let (here, there) = (topology.coordinates(at), topology.coordinates(to));
    match (0..here.len()).find(|&d| here[d] != there[d]) {
        Some(d) => Choices::one(link(hyperx, d, (here[d], there[d]), state, 0), routing.vc(0, state)),
        None => Choices::default(),
    }
}

#[inline]
pub(super) fn next(
    routing: &Routing,
    topology: &Topology,
    at: RouterId,
    arrived: Option<(Port, Vc)>,
    to: RouterId,
    detours: Detours,
    state: &mut RouteState,
) -> Choices {
    let Kind::HyperX(hyperx) = topology.kind() else { return Choices::default() };
    let class = hops_taken(routing, topology, at, arrived);
    if state.via == at.0 {
        state.via = super::DIRECT;
    }
    let goal = state.detour().map_or(to, RouterId);
    let vc = routing.vc(class, state);
    let (here, there) = (topology.coordinates(at), topology.coordinates(goal));
    let wrong = || (0..here.len()).filter(|&d| here[d] != there[d]);
    let mut choices = Choices::default();
    let links = wrong().count();
    let room = (CHOICES_MAX - 1) / links.max(1);
    for d in wrong() {
        for turn in 0..hyperx.trunks[d].min(room as u32) {
            choices.push(link(hyperx, d, (here[d], there[d]), state, turn), vc);
        }
    }
    if detours == Detours::AtSource && class == 0 {
        if let Some(around) = state.candidate().map(RouterId) {
            let middle = topology.coordinates(around);
            let first = (0..here.len()).cycle().skip(usize::from(state.salt) % here.len()).take(here.len());
            let all = topology.distance(at, around) + topology.distance(around, to);
            if let Some(d) = first.into_iter().find(|&d| here[d] != middle[d]) {
                choices.push_detour(link(hyperx, d, (here[d], middle[d]), state, 0), vc, [links as u32, all]);
            }
        }
    }
    choices
}

/// The hops that a packet has taken: the class of the next one, where classes count hops.
#[inline]
pub(super) fn hops_taken(routing: &Routing, topology: &Topology, at: RouterId, arrived: Option<(Port, Vc)>) -> u8 {
    match arrived {
        Some((port, vc)) if matches!(topology.peer(at, port), Peer::Router { .. }) => vc.0 % routing.needed + 1,
        _ => 0,
    }
}

/// The port of one of the parallel links between two coordinates.
#[inline]
fn link(hyperx: &HyperX, d: usize, (at, to): (u16, u16), state: &RouteState, turn: u32) -> Port {
    let Port(first) = hyperx.port(d, at, to);
    Port(first + ((u32::from(state.salt) + turn) % hyperx.trunks[d]) as u16)
}
