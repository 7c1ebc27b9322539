// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routings of fat trees: up to a common ancestor, then down.
//!
//! A packet goes up as long as the destination is not below the switch. On the way up any uplink leads there, and
//! routings differ in their choice; downward there is only one route, apart from parallel links. Routes go up, then
//! down, so there is no cycle. O(levels).
//!
//! - **Destination-mod-k** (Zahavi, "D-Mod-K routing providing non-blocking traffic for shift permutations on real life
//!   fat trees", 2010): at level l the parent is `destination / width(l) mod parents(l)`, and the parallel link
//!   `destination / width(l + 1) mod trunks(l)`. All packets for a node come down from the same top switch.
//! - **Adaptive up**: a switch offers up to eight of its uplinks, evenly spread from one that entropy picks, and
//!   downward up to eight parallel links. The network takes the least loaded.
//! - **Random up**: entropy picks the uplink of each level (Greenberg and Leiserson 1989; Valiant's routing on a tree).
//!
//! Some routes lead to nodes inside switches above the leaves. On its way up to the level of such a switch a packet
//! takes the parents that lead to it. No route goes down and up again.
use super::{CHOICES_MAX, Choices, RouteState, Routing};
use crate::id::{NodeId, Port, RouterId};
use crate::topology::{FatTree, Kind, Topology, TreePlace};

/// The choice among uplinks, and among parallel links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Up {
    ByDestination,
    LeastLoaded,
    Random,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// To a child, by its number at the switch.
    Down(u32),
    Up,
    /// To a parent, by its number: the only one that leads to the destination's switch.
    UpTo(u32),
}

impl Routing {
    /// `home` is the router of the node `to`: a leaf, or a switch that has a node inside.
    #[inline]
    pub(super) fn next_tree(
        &self,
        topology: &Topology,
        at: RouterId,
        (home, to): (RouterId, NodeId),
        up: Up,
        state: &RouteState,
    ) -> Choices {
        let Kind::FatTree(tree) = topology.kind() else { return Choices::default() };
        let (here, home) = (tree.place(at), tree.place(home));
        let Some(step) = step(tree, here, home) else { return Choices::default() };
        let level = &tree.levels()[here.level];
        // The level whose uplinks are the links to take, seen from either end; the ports of these links.
        let (uplinks, first, count) = match step {
            Step::Down(child) => {
                let below = &tree.levels()[here.level - 1];
                (below, child * below.trunks, below.trunks)
            }
            Step::Up => (level, level.down_ports, level.up_ports()),
            Step::UpTo(parent) => (level, level.down_ports + parent * level.trunks, level.trunks),
        };
        let vc = self.vc(0, state);
        let one = |place: u32| Choices::one(Port((first + place) as u16), vc);
        let turned = || (u64::from(state.via) / uplinks.turns % u64::from(count)) as u32;
        // Nodes inside switches have one route.
        match up {
            Up::Random if home.level == 0 => one(turned()),
            Up::LeastLoaded if home.level == 0 && count > 1 => {
                let (from, offered) = (turned(), count.min(CHOICES_MAX as u32));
                let mut choices = Choices::default();
                for turn in 0..offered {
                    let place = (from + turn * count / offered) % count;
                    choices.push(Port((first + place) as u16), vc);
                }
                choices
            }
            _ => {
                let digits = to.0 / uplinks.width;
                let trunk = digits / uplinks.parents % uplinks.trunks;
                let parent = if step == Step::Up { digits % uplinks.parents } else { 0 };
                one(parent * uplinks.trunks + trunk)
            }
        }
    }
}

/// None: the route would go down and up again.
#[inline]
fn step(tree: &FatTree, here: TreePlace, home: TreePlace) -> Option<Step> {
    let (at, end) = (&tree.levels()[here.level], &tree.levels()[home.level]);
    if here.level < home.level {
        let ahead = home.place / (end.width / at.width);
        let above = home.place / (end.width / (at.width * at.parents));
        return (ahead == here.place).then_some(Step::UpTo(above % at.parents));
    }
    if here.place / (at.width / end.width) != home.place {
        return None;
    }
    let leaf = home.subtree * end.leaves;
    if here.level > home.level && leaf / at.leaves == here.subtree {
        let below = &tree.levels()[here.level - 1];
        return Some(Step::Down(leaf / below.leaves % at.children));
    }
    (at.parents > 0).then_some(Step::Up)
}

/// The numbers that turn the choice of uplinks.
pub(super) fn variants(topology: &Topology) -> u64 {
    match topology.kind() {
        Kind::FatTree(tree) => tree.levels().last().map_or(1, |top| top.turns.min(1 << 31)),
        _ => 1,
    }
}
