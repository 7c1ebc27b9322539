// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Destination-mod-k on fat trees (Zahavi, "D-Mod-K routing providing non-blocking traffic for shift permutations on
//! real life fat trees", 2010).
//!
//! The uplink at a leaf is the destination's number modulo the number of uplinks; at a middle switch it is the next
//! digit of this number. Downward there is only one route. All packets for a node pass the same top switch. A route
//! goes up, then down, so there is no cycle. O(1).
use super::{Choices, RouteState, Routing};
use crate::id::{NodeId, Port, RouterId};
use crate::topology::{Kind, Topology};

impl Routing {
    #[inline]
    pub(super) fn next_tree(
        &self,
        topology: &Topology,
        at: RouterId,
        leaf: RouterId,
        to: NodeId,
        state: &RouteState,
    ) -> Choices {
        let Kind::FatTree(tree) = topology.kind() else { return Choices::default() };
        let pod = leaf.0 / tree.leaves_per_pod;
        let port = match at.0.checked_sub(tree.leaves) {
            None => tree.nodes_per_leaf + to.0 % tree.uplinks,
            Some(above) if above < tree.middles() => match above / tree.uplinks == pod {
                true => leaf.0 % tree.leaves_per_pod,
                false => tree.radix / 2 + to.0 / tree.uplinks % (tree.radix / 2),
            },
            Some(_) if tree.levels == 2 => leaf.0,
            Some(_) => pod,
        };
        Choices::one(Port(port as u16), self.vc(0, state))
    }
}
