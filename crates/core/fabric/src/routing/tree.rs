// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Destination-mod-k on fat trees (Zahavi, "D-Mod-K routing providing non-blocking traffic for shift permutations on
//! real life fat trees", 2010).
//!
//! The uplink at a leaf is the destination's number modulo the number of uplinks; at a middle switch it is the next
//! digit of this number. Downward there is only one route. All packets for a node pass the same top switch. A route
//! goes up, then down, so there is no cycle. Nodes below a switch, and on three levels those of other pods if it is a
//! middle switch, reach a node inside the switch; no route goes down and up again. O(1).
//!
//! **Adaptive up**: on the way up any uplink leads to the destination, so a switch offers up to eight of them, evenly
//! spread from one that entropy picks; the network takes the least loaded. Routes still go up, then down.
use super::{CHOICES_MAX, Choices, RouteState, Routing};
use crate::id::{NodeId, Port, RouterId};
use crate::topology::{FatTree, Kind, Topology};

impl Routing {
    /// `home` is the router of the node `to`: a leaf, or a switch that has a node inside.
    #[inline]
    pub(super) fn next_tree(
        &self,
        topology: &Topology,
        at: RouterId,
        (home, to): (RouterId, NodeId),
        adaptive: bool,
        state: &RouteState,
    ) -> Choices {
        let Kind::FatTree(tree) = topology.kind() else { return Choices::default() };
        if adaptive && home.0 < tree.leaves {
            if let Some((first, count, from)) = uplinks(tree, at, home, state) {
                let mut choices = Choices::default();
                let offered = count.min(CHOICES_MAX as u32);
                for turn in 0..offered {
                    let place = (from + turn * count / offered) % count;
                    choices.push(Port((first + place) as u16), self.vc(0, state));
                }
                return choices;
            }
        }
        let port = if home.0 < tree.leaves { to_leaf(tree, at, home, to) } else { to_switch(tree, at, home, to) };
        port.map_or_else(Choices::default, |port| Choices::one(Port(port as u16), self.vc(0, state)))
    }
}

/// The uplinks of a switch from which a packet goes up: the first port, their number, and the first one to offer.
#[inline]
fn uplinks(tree: &FatTree, at: RouterId, leaf: RouterId, state: &RouteState) -> Option<(u32, u32, u32)> {
    match at.0.checked_sub(tree.leaves) {
        None => Some((tree.nodes_per_leaf, tree.uplinks, state.via % tree.uplinks)),
        Some(above) if above < tree.middles() && above / tree.uplinks != leaf.0 / tree.leaves_per_pod => {
            let half = tree.radix / 2;
            Some((half, half, state.via / tree.uplinks % half))
        }
        Some(_) => None,
    }
}

/// The numbers that turn the choice of uplinks.
pub(super) fn variants(topology: &Topology) -> u64 {
    match topology.kind() {
        Kind::FatTree(tree) if tree.levels == 3 => u64::from(tree.uplinks) * u64::from(tree.radix / 2),
        Kind::FatTree(tree) => tree.uplinks.into(),
        _ => 1,
    }
}

#[inline]
fn to_leaf(tree: &FatTree, at: RouterId, leaf: RouterId, to: NodeId) -> Option<u32> {
    let pod = leaf.0 / tree.leaves_per_pod;
    Some(match at.0.checked_sub(tree.leaves) {
        None => tree.nodes_per_leaf + to.0 % tree.uplinks,
        Some(above) if above < tree.middles() => match above / tree.uplinks == pod {
            true => leaf.0 % tree.leaves_per_pod,
            false => tree.radix / 2 + to.0 / tree.uplinks % (tree.radix / 2),
        },
        Some(_) if tree.levels == 2 => leaf.0,
        Some(_) => pod,
    })
}

/// To a switch above the leaves: up, or up in its plane and down. None: the route would go down and up again.
fn to_switch(tree: &FatTree, at: RouterId, home: RouterId, to: NodeId) -> Option<u32> {
    let half = tree.radix / 2;
    let middles = tree.middles();
    let above = home.0 - tree.leaves;
    // The number of the switch in its plane, if it is a top of three levels, and the plane.
    let core = above.checked_sub(middles).filter(|_| tree.levels == 3);
    let plane = core.map_or(above % tree.uplinks, |core| core / half);
    match at.0.checked_sub(tree.leaves) {
        None => Some(tree.nodes_per_leaf + plane),
        Some(middle) if middle < middles => match core {
            Some(core) => (middle % tree.uplinks == plane).then_some(half + core % half),
            None => (middle / tree.uplinks != above / tree.uplinks && middle % tree.uplinks == plane)
                .then_some(half + to.0 / tree.uplinks % half),
        },
        Some(top) => (above < middles && (top - middles) / half == plane).then_some(above / tree.uplinks),
    }
}
