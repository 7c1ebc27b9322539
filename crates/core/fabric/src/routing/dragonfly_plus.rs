// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Minimal, Valiant, UGAL and progressive adaptive routing on a dragonfly+ (Shpiner and others 2017).
//!
//! A minimal route goes up to a spine with a link to the destination's group, over it, and down; within a group up and
//! down. Of several spines, leaves and links the least loaded is taken; at most seven are offered, in turn from the hash
//! of the pair.
//!
//! A detour passes through another group. Entropy picks the group and the copy of the link to it, and the packet leaves
//! that group over the same copy: so copies of a link share detours evenly, without knowing each other's queues. Where
//! the first spine of that group does not have this copy, the packet goes down to a leaf and up again.
//!
//! **UGAL** decides at the leaf of the source. **Progressive adaptive routing** decides again at the spine, where a detour
//! may begin with any of the spine's links.
//!
//! The class of a hop grows with a second global link, and with a hop up that follows one down. Within a class the order
//! is up, over, down, and every hop goes to a later channel of its class or to a later class: there is no cycle. Detours
//! have classes 0 and 1. Where both kinds of routes exist, a minimal route between leaves is in class 1 (if it may still
//! turn at the spine, from its global link on), so that it does not wait in front of packets that begin detours. A
//! network with nodes inside spines needs three classes, for then a route may end or begin with a further hop down and up;
//! such routes have no detours.
use super::{CHOICES_MAX, Choices, Detours, OPEN, RouteState, Routing};
use crate::id::{Port, RouterId, Vc};
use crate::topology::{DragonflyPlus, Kind, Topology};

/// A link between two groups.
#[derive(Clone, Copy)]
struct Over {
    group: u32,
    copy: u32,
}

impl Over {
    /// The link of a candidate or detour ([`RouteState`]).
    fn of(fly: &DragonflyPlus, via: u32) -> Over {
        Over { group: via / fly.copies, copy: via % fly.copies }
    }

    fn via(self, fly: &DragonflyPlus) -> u32 {
        self.group * fly.copies + self.copy
    }

    fn gateway(self, fly: &DragonflyPlus, here: u32) -> (RouterId, Port) {
        fly.gateway(here, self.group, self.copy)
    }
}

/// The first link of a detour that entropy picks; `DIRECT` within a group, without a third group, and for nodes inside
/// spines.
pub(super) fn start(fly: &DragonflyPlus, (from, to): (RouterId, RouterId), entropy: u64) -> u32 {
    let between = u64::from(fly.groups.saturating_sub(2)).max(1);
    let group = super::dragonfly::intermediate(fly.groups, fly.group(from), fly.group(to), entropy);
    if group == super::DIRECT || !fly.is_leaf(from) || !fly.is_leaf(to) {
        return super::DIRECT;
    }
    Over { group, copy: (entropy / between % u64::from(fly.copies)) as u32 }.via(fly)
}

pub(super) fn next(
    routing: &Routing,
    topology: &Topology,
    (at, arrived): (RouterId, Option<(Port, Vc)>),
    to: RouterId,
    detours: Detours,
    state: &mut RouteState,
) -> Choices {
    let Kind::DragonflyPlus(fly) = topology.kind() else { return Choices::default() };
    let port = arrived.map(|(port, vc)| (u32::from(port.0), vc.0 % routing.needed));
    let is_leaf = fly.is_leaf(at);
    let (links, uplinks) = (fly.leaves_per_group + fly.global_links_per_spine, fly.spines_per_group);
    let around = state.detour().map(|via| Over::of(fly, via));
    // Between leaves: the class of a minimal route where there are detours, too.
    let last = u8::from(detours != Detours::Never && around.is_none() && fly.is_leaf(to));
    let progressive = detours == Detours::InGroup;
    // The classes of hops up, over and down. `first`: no global link has been taken. `turns`: a detour may begin here.
    let (up, over, down, first, turns) = match port {
        Some((port, class)) if is_leaf && port < uplinks => (class + 1, class + 1, class + 1, false, false),
        Some((port, class)) if !is_leaf && port < fly.leaves_per_group => {
            let is_first = class == 0;
            (class, if is_first { last } else { class }, class, is_first, progressive && is_first)
        }
        Some((port, class)) if !is_leaf && port < links => (class + 1, class + 1, class, false, false),
        _ if is_leaf => {
            let begin = if progressive { 0 } else { last };
            (begin, begin, begin, true, matches!(detours, Detours::AtSource | Detours::InGroup))
        }
        _ => (0, 0, 0, true, false),
    };
    let (here, end) = (fly.group(at), fly.group(to));
    let group = around.filter(|_| first).map_or(end, |over| over.group);
    let mut choices = Choices::default();
    let room = CHOICES_MAX as u32 - 1;
    let salt = u32::from(state.salt);
    let turned = |count: u32| (0..count.min(room)).map(move |turn| (salt + turn) % count);
    // The copies of the link to the next group that the packet may take.
    let (copy, count) = around.map_or((salt, fly.copies.min(room)), |over| (over.copy, 1));
    let copies = (0..count).map(|turn| fly.gateway(here, group, (copy + turn) % fly.copies));
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
            for (spine, _) in copies {
                if last.replace(spine) != Some(spine) {
                    push(fly.within(spine), up);
                }
            }
        }
        (false, false) => {
            copies.filter(|(spine, _)| *spine == at).for_each(|(_, port)| push(port.0.into(), over));
            if choices.is_empty() {
                let any = (0..fly.copies).map(|copy| fly.gateway(here, group, copy)).find(|(spine, _)| *spine == at);
                match any.filter(|_| around.is_none()) {
                    Some((_, port)) => choices.push(port, routing.vc(over, state)),
                    None => turned(fly.leaves_per_group)
                        .for_each(|leaf| choices.push(Port(leaf as u16), routing.vc(down, state))),
                }
            }
        }
    }
    let candidate = state.candidate().filter(|_| turns && here != end).map(|via| Over::of(fly, via));
    let candidate = if is_leaf { candidate } else { candidate.and_then(|over| at_spine(fly, at, end, over)) };
    if let Some(over) = candidate {
        state.via = OPEN | over.via(fly);
        let (spine, port) = over.gateway(fly, here);
        let far = 1 + links_after(fly, here, over, end);
        match is_leaf {
            true => choices.push_detour(Port(fly.within(spine) as u16), routing.vc(0, state), [3, 1 + far]),
            false => choices.push_detour(port, routing.vc(0, state), [2, far]),
        }
    }
    choices
}

/// The links of a detour after its first global link.
fn links_after(fly: &DragonflyPlus, here: u32, over: Over, end: u32) -> u32 {
    let entry = fly.gateway(over.group, here, over.copy).0;
    let exit = fly.gateway(over.group, end, over.copy).0;
    if entry == exit { 2 } else { 4 }
}

/// A candidate's link if this spine has it, or else another of the spine's links that the candidate picks; none, if all
/// lead to the destination's group.
fn at_spine(fly: &DragonflyPlus, at: RouterId, end: u32, over: Over) -> Option<Over> {
    let here = fly.group(at);
    if over.gateway(fly, here).0 == at {
        return Some(over);
    }
    let count = fly.links_of_spine(fly.within(at));
    let picked = (0..count).map(|turn| fly.link_of_spine(at, (over.via(fly) + turn) % count));
    picked.map(|(group, copy)| Over { group, copy }).find(|over| over.group != end)
}

#[cfg(test)]
#[path = "dragonfly_plus_tests.rs"]
mod tests;
