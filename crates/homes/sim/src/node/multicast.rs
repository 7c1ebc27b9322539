// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Multicast groups: results to all members of a group at once (seed 001, section III.D).
//!
//! ```text
//! root ─ aggregation_multicast ─> inner port ─> its switch ─┬─> switch ─┬─> member
//!                                                         │           └─> member
//!                                                         └─> switch ──── ...
//! ```
//!
//! The root casts to the address of the group. Switches copy its packet (`network/multicast.rs`), as does the adapter
//! of a node with several members. From the node on, each copy is a message of its own. The tree leads from the root to
//! the nodes of all members that have joined at that time; it is made when the group first casts.
//!
//! Invariants
//! 1. A member is in the multicast group from its join until it leaves; its leaf node handles both.
//! 2. A lost copy fails nothing, and is counted ([`super::Statistics::casts_lost`]). Members and nodes have a
//!    reliability layer above (`nic::aggregation`).
//!
//! Costs: one message of the fabric for the cast, O(members) at the targets. 16 bytes for each member of each group.

use std::collections::BTreeMap;

use selvedge_fabric::{MulticastTree, NodeId};
use selvedge_nic::aggregation::message::Message;
use selvedge_nic::tables::Request;

use crate::machine::Machine;

use super::fabric::Fabric;

#[derive(Debug, Default)]
pub(super) struct MulticastGroups {
    groups: BTreeMap<u32, Group>,
    /// Existing trees, by the root's node and the members' nodes.
    trees: BTreeMap<(u32, Vec<u32>), u32>,
}

#[derive(Debug, Default)]
struct Group {
    members: Vec<(u32, u64)>,
    /// `None`: not yet made or looked up.
    tree: Option<u32>,
}

impl MulticastGroups {
    /// Follows a message of a rank that a leaf node has taken: a join or leave also applies to the multicast group.
    pub fn follow(&mut self, rank: u32, request: &Request) {
        match Message::decode(request) {
            Ok((sender, Message::Join(join))) => {
                let group = self.groups.entry(join.number).or_default();
                if !group.members.contains(&(rank, sender.address)) {
                    group.members.push((rank, sender.address));
                    group.tree = None;
                }
            }
            Ok((_, Message::Leave(child))) => {
                let Some(group) = self.groups.get_mut(&child.number) else { return };
                group.members.retain(|member| member.0 != rank);
                group.tree = None;
                if group.members.is_empty() {
                    self.groups.remove(&child.number);
                }
            }
            _ => {}
        }
    }

    /// Returns the members of a group: ranks, and the addresses of their NICs.
    pub fn members(&self, number: u32) -> &[(u32, u64)] {
        self.groups.get(&number).map_or(&[], |group| &group.members)
    }

    /// Returns the tree of a group from the node of its root. `None`: no such group, or no route to a member.
    pub fn tree(
        &mut self,
        (number, source): (u32, u32),
        placement: &[u32],
        machine: &Machine,
        fabric: &mut Fabric,
    ) -> Option<u32> {
        let group = self.groups.get_mut(&number)?;
        if group.tree.is_some() {
            return group.tree;
        }
        let mut targets: Vec<u32> = group.members.iter().map(|(rank, _)| placement[*rank as usize]).collect();
        targets.sort_unstable();
        targets.dedup();
        let tree = match self.trees.get(&(source, targets.clone())) {
            Some(&tree) => tree,
            None => {
                let to: Vec<NodeId> = targets.iter().copied().map(NodeId).collect();
                let made = MulticastTree::new(&machine.topology, &machine.routing, NodeId(source), &to).ok()?;
                let tree = fabric.add_tree(&made);
                self.trees.insert((source, targets), tree);
                tree
            }
        };
        group.tree = Some(tree);
        group.tree
    }
}
