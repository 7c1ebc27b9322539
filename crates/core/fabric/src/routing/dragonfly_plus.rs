// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Minimal, Valiant and UGAL routing on a dragonfly+ (Shpiner and others 2017).
//!
//! A minimal route goes up to a spine with a link to the destination's group, over it, and down; within a group up and
//! down. A detour passes through another group: where its first spine there has no link to the destination's group, it
//! goes down to a leaf and up again. Of several spines, leaves and links the least loaded is taken; at most seven are
//! offered, in turn from the hash of the pair.
//!
//! The class of a hop grows with a second global link, and with a hop up that follows one down. Within a class the order
//! is up, over, down, and every hop goes to a later channel of its class or to a later class: there is no cycle. Minimal
//! routes between leaves need one class, detours two; a network with nodes inside spines needs three, for then a route
//! may end or begin with a further hop down and up.
use super::{CHOICES_MAX, Choices, Detours, RouteState, Routing};
use crate::id::{Port, RouterId, Vc};
use crate::topology::{DragonflyPlus, Kind, Topology};

pub(super) fn next(
    routing: &Routing,
    topology: &Topology,
    (at, arrived): (RouterId, Option<(Port, Vc)>),
    to: RouterId,
    detours: Detours,
    state: &RouteState,
) -> Choices {
    let Kind::DragonflyPlus(fly) = topology.kind() else { return Choices::default() };
    let port = arrived.map(|(port, vc)| (u32::from(port.0), vc.0 % routing.needed));
    let is_leaf = fly.is_leaf(at);
    let (links, uplinks) = (fly.leaves_per_group + fly.global_links_per_spine, fly.spines_per_group);
    // The classes of hops up, over and down. `first`: no global link has been taken.
    let (up, over, down, first) = match port {
        Some((port, class)) if is_leaf && port < uplinks => (class + 1, class + 1, class + 1, false),
        Some((port, class)) if !is_leaf && port < fly.leaves_per_group => (class, class, class, class == 0),
        Some((port, class)) if !is_leaf && port < links => (class + 1, class + 1, class, false),
        _ => (0, 0, 0, true),
    };
    let (here, end) = (fly.group(at), fly.group(to));
    let group = state.detour().filter(|_| first).unwrap_or(end);
    let mut choices = Choices::default();
    let room = CHOICES_MAX as u32 - 1;
    let turned = |count: u32| (0..count.min(room)).map(move |turn| (u32::from(state.salt) + turn) % count);
    let mut push = |port: u32, class: u8| choices.push(Port(port as u16), routing.vc(class, state));
    match (here == group, is_leaf) {
        // To a node of this group.
        (true, true) if !fly.is_leaf(to) => push(fly.within(to), up),
        (true, true) => turned(uplinks).for_each(|spine| push(spine, up)),
        (true, false) if fly.is_leaf(to) => push(fly.within(to), down),
        (true, false) => turned(fly.leaves_per_group).for_each(|leaf| push(leaf, down)),
        // To another group: to spines with a link to it, each once; over it; or down, if this spine has none.
        (false, true) => {
            let mut last = None;
            for copy in turned(fly.copies) {
                let spine = fly.within(fly.gateway(here, group, copy).0);
                if last.replace(spine) != Some(spine) {
                    push(spine, up);
                }
            }
        }
        (false, false) => {
            let ports = turned(fly.copies).map(|copy| fly.gateway(here, group, copy));
            ports.filter(|(spine, _)| *spine == at).for_each(|(_, port)| push(port.0.into(), over));
            if choices.is_empty() {
                let any = (0..fly.copies).map(|copy| fly.gateway(here, group, copy)).find(|(spine, _)| *spine == at);
                match any {
                    Some((_, port)) => choices.push(port, routing.vc(over, state)),
                    None => turned(fly.leaves_per_group)
                        .for_each(|leaf| choices.push(Port(leaf as u16), routing.vc(down, state))),
                }
            }
        }
    }
    let may_turn = detours == Detours::AtSource && is_leaf && first && port.is_none_or(|(port, _)| port >= uplinks);
    if let Some(around) = state.candidate().filter(|_| may_turn && here != end) {
        let copy = u32::from(state.salt) % fly.copies;
        let spine = fly.within(fly.gateway(here, around, copy).0);
        choices.push_detour(Port(spine as u16), routing.vc(up, state), [3, detour_links(fly, here, around, end, copy)]);
    }
    choices
}

/// The links of the detour whose first global link has this number.
fn detour_links(fly: &DragonflyPlus, here: u32, around: u32, end: u32, copy: u32) -> u32 {
    let entry = fly.gateway(around, here, copy).0;
    let goes_on = (0..fly.copies).any(|copy| fly.gateway(around, end, copy).0 == entry);
    if goes_on { 4 } else { 6 }
}
