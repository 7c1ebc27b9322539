// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The grant of a job: its number, its quota, and the parts of its trees that it needs to make groups (seed 001, section III.C).
//!
//! A member of a group says how many children each node on its way to the root is to expect. [`GrantedTree::group`] counts them for any
//! members of the job, so nobody asks the manager to make a group.

use selvedge_fabric::{AnId, NodeId, Tree};
use selvedge_nic::aggregation::Quota;
use selvedge_nic::aggregation::records::LEVELS_MAX;

use crate::jobs::Member;

/// What a job has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    pub job: u32,
    /// Whoever knows it may use the job's resources.
    pub key: u64,
    /// At each aggregation node, for all trees together.
    pub quota: Quota,
    pub trees: Vec<GrantedTree>,
}

/// The part of a tree that has members of a job beneath it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedTree {
    pub number: u16,
    /// Each after its parent, so the root is the first.
    nodes: Vec<GrantedNode>,
    /// The position of the leaf of each end node, in the order of end nodes.
    leaves: Vec<(NodeId, usize)>,
}

/// An aggregation node of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantedNode {
    pub an: AnId,
    /// nid << 32 | pid.
    pub address: u64,
    /// Position of the node above. None: the root.
    pub parent: Option<usize>,
}

/// The children of a group at each node of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupChildren<'a> {
    tree: &'a GrantedTree,
    children: Vec<u16>,
}

impl GrantedTree {
    pub(crate) fn new(number: u16, tree: Tree, members: &[Member], address: impl Fn(AnId) -> u64) -> GrantedTree {
        let mut nodes: Vec<(u32, AnId)> = Vec::new();
        let mut ends: Vec<(NodeId, AnId)> = Vec::new();
        for member in members {
            let Some(home) = tree.set().attached(member.node) else { continue };
            ends.push((member.node, home));
            nodes.extend(way(tree, home).map(|an| (tree.level(an).unwrap_or(0), an)));
        }
        nodes.sort_unstable();
        nodes.dedup();
        ends.sort_unstable();
        ends.dedup();
        let position = |an: AnId| nodes.iter().position(|node| node.1 == an);
        let node = |&(_, an): &(u32, AnId)| GrantedNode {
            an,
            address: address(an),
            parent: tree.parent(an).and_then(position),
        };
        let leaves = ends.iter().filter_map(|&(node, home)| Some((node, position(home)?))).collect();
        GrantedTree { number, nodes: nodes.iter().map(node).collect(), leaves }
    }

    /// The aggregation nodes, each after its parent.
    pub fn nodes(&self) -> &[GrantedNode] {
        &self.nodes
    }

    /// The aggregation node that the members on an end node join. None: the job has no member there.
    pub fn leaf(&self, node: NodeId) -> Option<GrantedNode> {
        self.leaf_position(node).and_then(|at| self.nodes.get(at)).copied()
    }

    /// The children of a group. Its members are given by their end nodes; an end node counts as often as it is given, once for each process
    /// that joins by itself. None: the job has no member on an end node, or a node would have more children than can be counted.
    pub fn group(&self, members: &[NodeId]) -> Option<GroupChildren<'_>> {
        let mut children = vec![0u16; self.nodes.len()];
        for &member in members {
            let mut at = Some(self.leaf_position(member)?);
            while let Some(position) = at {
                let count = children.get_mut(position)?;
                *count = count.checked_add(1)?;
                at = self.nodes.get(position)?.parent.filter(|_| *count == 1);
            }
        }
        Some(GroupChildren { tree: self, children })
    }

    fn leaf_position(&self, node: NodeId) -> Option<usize> {
        let found = self.leaves.binary_search_by_key(&node, |leaf| leaf.0).ok()?;
        Some(self.leaves[found].1)
    }
}

impl GroupChildren<'_> {
    /// What a member says in its join: the children at its own node, at the node above, and so on to the root of the tree. All 0: no member
    /// of the job is there.
    pub fn expected(&self, node: NodeId) -> [u16; LEVELS_MAX] {
        let mut expected = [0; LEVELS_MAX];
        let mut at = self.tree.leaf_position(node);
        for count in &mut expected {
            let Some(position) = at else { break };
            *count = self.children.get(position).copied().unwrap_or(0);
            at = self.tree.nodes.get(position).and_then(|node| node.parent);
        }
        expected
    }
}

/// The aggregation nodes from one up to the root of the tree.
pub(crate) fn way(tree: Tree, from: AnId) -> impl Iterator<Item = AnId> {
    std::iter::successors(Some(from), move |&an| tree.parent(an))
}
