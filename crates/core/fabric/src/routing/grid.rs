// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Meshes and tori: dimension order, its variant without virtual channels, and west-first.
//!
//! **Dimension order.** A packet crosses the dimensions in their order. On a ring it takes the shorter direction; if
//! both are equally long, the positive one from an even coordinate and the negative one from an odd coordinate. A
//! packet that has to cross a ring's wrapping link uses class 0 up to and over this link, and class 1 after it. A
//! packet that does not cross it uses either class, by the hash of its pair. So class 0 of a ring has no dependency
//! after the wrapping link, and class 1 has none over it: neither has a cycle.
//!
//! **Modified dimension order** (seed 002, section 2.7). The order of dimensions is: wrapping links of dimension 0, of
//! dimension 1, ..., then dimension 0, 1, ... of the mesh. A packet takes a wrapping link only as one of its first
//! hops, only if it starts at that edge, and only if this is shorter than the route through the mesh. So every hop is
//! in the same dimension as the previous hop or in a later one. Within a dimension of the mesh a packet does not turn,
//! and it never takes two wrapping links of one dimension: there is no cycle, with one virtual channel.
//!
//! **West-first.** West is the negative direction of dimension 0. A packet that has to go west goes only west until it
//! need not. Other packets choose among the directions that bring them nearer. Turns into west do not occur (Glass and
//! Ni).
use super::{Choices, RouteState, Routing};
use crate::id::{Port, RouterId};
use crate::topology::{Kind, Topology};

impl Routing {
    #[inline]
    pub(super) fn next_dimension_order(
        &self,
        topology: &Topology,
        at: RouterId,
        to: RouterId,
        guarded: bool,
        state: &RouteState,
    ) -> Choices {
        let (here, there) = (topology.coordinates(at), topology.coordinates(to));
        for d in 0..here.len() {
            let (h, t) = (here[d], there[d]);
            if h == t {
                continue;
            }
            let minus = (state.via >> d & 1) as u16;
            let class = if guarded && self.needed == 2 {
                let wrap_ahead = if minus == 0 { t < h } else { t > h };
                let crosses = state.via >> (8 + d) & 1 != 0;
                match (wrap_ahead, crosses) {
                    (true, _) => 0,
                    (false, true) => 1,
                    (false, false) => state.salt & 1,
                }
            } else {
                0
            };
            return Choices::one(Port(2 * d as u16 + minus), self.vc(class, state));
        }
        Choices::default()
    }

    #[inline]
    pub(super) fn next_modified(&self, topology: &Topology, at: RouterId, to: RouterId, state: &RouteState) -> Choices {
        let (here, there) = (topology.coordinates(at), topology.coordinates(to));
        let mut wraps = state.via & 0xff;
        while wraps != 0 {
            let d = wraps.trailing_zeros() as usize;
            let minus = (state.via >> (8 + d) & 1) as u16;
            // A packet never returns to this edge after the wrapping link, so at the edge the link is the next hop.
            let at_edge = if minus == 1 { here[d] == 0 } else { u32::from(here[d]) + 1 == size(topology, d) };
            if at_edge {
                return Choices::one(Port(2 * d as u16 + minus), self.vc(0, state));
            }
            wraps &= wraps - 1;
        }
        match (0..here.len()).find(|&d| here[d] != there[d]) {
            Some(d) => Choices::one(Port(2 * d as u16 + u16::from(there[d] < here[d])), self.vc(0, state)),
            None => Choices::default(),
        }
    }

    #[inline]
    pub(super) fn next_west_first(
        &self,
        topology: &Topology,
        at: RouterId,
        to: RouterId,
        state: &RouteState,
    ) -> Choices {
        let (here, there) = (topology.coordinates(at), topology.coordinates(to));
        let vc = self.vc(0, state);
        let mut choices = Choices::default();
        if there[0] < here[0] {
            choices.push(Port(1), vc);
            return choices;
        }
        if there[0] > here[0] {
            choices.push(Port(0), vc);
        }
        if there[1] != here[1] {
            choices.push(Port(2 + u16::from(there[1] < here[1])), vc);
        }
        choices
    }
}

/// `RouteState::via` for dimension order. Low byte: the dimensions that a packet takes in the negative
/// direction. High byte: the dimensions whose wrapping link it crosses.
#[inline]
pub(super) fn directions(topology: &Topology, (from, to): (RouterId, RouterId)) -> u16 {
    let (here, there) = (topology.coordinates(from), topology.coordinates(to));
    let (sizes, wrap) = topology.grid().unwrap_or_default();
    let mut bits = 0;
    for d in 0..here.len() {
        let (h, t) = (u32::from(here[d]), u32::from(there[d]));
        let wraps = wrap.is_some_and(|wrap| wrap[d]);
        let minus = if wraps {
            let plus_way = if t >= h { t - h } else { t + sizes[d] - h };
            let minus_way = sizes[d] - plus_way;
            t != h && (minus_way < plus_way || (minus_way == plus_way && h % 2 == 1))
        } else {
            t < h
        };
        let crosses = wraps && t != h && (t > h) == minus;
        bits |= u16::from(minus) << d | u16::from(crosses) << (8 + d);
    }
    bits
}

/// `RouteState::via` for modified dimension order. Low byte: the dimensions whose wrapping link a packet takes
/// first. High byte: those of them whose link it takes in the negative direction.
#[inline]
pub(super) fn wraps_first(topology: &Topology, (from, to): (RouterId, RouterId)) -> u16 {
    let (here, there) = (topology.coordinates(from), topology.coordinates(to));
    let mut bits = 0;
    for d in 0..here.len() {
        let (h, t) = (u32::from(here[d]), u32::from(there[d]));
        let last = size(topology, d) - 1;
        if !topology.wraps(d) || (h != 0 && h != last) {
            continue;
        }
        let over = 1 + (last - h).abs_diff(t);
        if over < h.abs_diff(t) {
            bits |= 1 << d | u16::from(h == 0) << (8 + d);
        }
    }
    bits
}

/// Whether some ring is long enough for a deadlock. On a ring of 4 there is none: packets that go 2 links in one
/// direction start only at every second router.
pub(super) fn has_ring_with_cycle(topology: &Topology) -> bool {
    matches!(topology.kind(), Kind::Torus { dimensions, wrap, .. }
        if dimensions.iter().zip(wrap).any(|(&size, &wrap)| wrap && size > 4))
}

#[inline]
fn size(topology: &Topology, d: usize) -> u32 {
    topology.grid().map_or(1, |(sizes, _)| sizes[d])
}
