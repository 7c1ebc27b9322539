// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A group on a tree (seed 001, section III.C): the aggregation nodes that reduce for some of the end nodes, the
//! members.
//!
//! # Invariants
//!
//! 1. The nodes of a group are those of the tree that have a member beneath them. Trimmed, the group ends at the lowest
//!    node that has all members beneath it: above it every level has a width of 1.
//! 2. Children are in the order of the first member beneath them. So a reduction in the order of children is a fixed
//!    order, which depends on the tree and on the order of the members only.
//! 3. The root is node 0. A node comes after its parent, and a level before the next.
//!
//! # Costs
//!
//! O(members × (depth + log(members))) to make, and 4 bytes for each aggregation node of the set. Then 20 bytes for
//! each node, 8 for each child, 12 for each member.
use super::error::GroupError;
use super::{NONE, Tree};
use crate::id::{AnId, NodeId};
use alloc::vec::Vec;

/// The sub-tree of a group. It keeps no reference to the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    nodes: Vec<Node>,
    children: Vec<Child>,
    /// Positions in `nodes`, in the order of aggregation nodes.
    by_an: Vec<u32>,
    members: Vec<NodeId>,
    /// Each member with the position of its aggregation node, in the order of members' numbers.
    homes: Vec<(NodeId, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    an: AnId,
    /// Its position; `NONE` for the root.
    parent: u32,
    level: u32,
    first_child: u32,
    children: u32,
}

/// A child that an aggregation node waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Child {
    Node(AnId),
    Member(NodeId),
}

/// An aggregation node as part of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupNode<'a> {
    pub an: AnId,
    /// None for the group's root.
    pub parent: Option<AnId>,
    /// Edges to the root of the tree, not of the group.
    pub level: u32,
    pub children: &'a [Child],
}

impl Tree<'_> {
    /// Makes the group of some end nodes, whose order determines that of children. `trim`: the root is the lowest node
    /// with all members beneath it (for one member, its own aggregation node); otherwise the tree's root.
    pub fn group(&self, members: &[NodeId], trim: bool) -> Result<Group, GroupError> {
        let homes = homes(self, members)?;
        // In order of first use; children of a node are added in the order of members.
        let mut nodes: Vec<Node> = Vec::new();
        let mut edges: Vec<(u32, Child)> = Vec::with_capacity(2 * members.len());
        let mut at = alloc::vec![NONE; self.set.sites().len()];
        for (&member, &home) in members.iter().zip(&homes) {
            let mut child = Child::Member(member);
            let mut below = None;
            let mut an = Some(home);
            while let Some(next) = an {
                let known = at[next.0 as usize];
                let position = if known == NONE { nodes.len() as u32 } else { known };
                edges.push((position, child));
                if let Some(below) = below.and_then(|below: u32| nodes.get_mut(below as usize)) {
                    below.parent = position;
                }
                if known != NONE {
                    break;
                }
                at[next.0 as usize] = position;
                let level = self.level(next).unwrap_or(0);
                nodes.push(Node { an: next, parent: NONE, level, first_child: 0, children: 0 });
                (child, below, an) = (Child::Node(next), Some(position), self.parent(next));
            }
        }
        Ok(Group::new(nodes, edges, members, &homes, trim))
    }
}

fn homes(tree: &Tree, members: &[NodeId]) -> Result<Vec<AnId>, GroupError> {
    if members.is_empty() {
        return Err(GroupError::Empty);
    }
    let nodes = tree.set.nodes();
    let mut sorted: Vec<(NodeId, u32)> = members.iter().enumerate().map(|(at, &node)| (node, at as u32)).collect();
    sorted.sort_unstable();
    if let Some(&(node, _)) = sorted.last().filter(|last| last.0.0 >= nodes) {
        return Err(GroupError::NoSuchNode { node, nodes });
    }
    if let Some(two) = sorted.windows(2).find(|two| two[0].0 == two[1].0) {
        return Err(GroupError::Twice { node: two[0].0, first: two[0].1, second: two[1].1 });
    }
    let home = |&node| tree.set.attached(node).ok_or(GroupError::Unattached { node });
    members.iter().map(home).collect()
}

impl Group {
    /// `nodes` and `edges` are in the order of first use, and name nodes by their position in it.
    fn new(nodes: Vec<Node>, edges: Vec<(u32, Child)>, members: &[NodeId], homes: &[AnId], trim: bool) -> Group {
        let mut order: Vec<u32> = (0..nodes.len() as u32).collect();
        order.sort_unstable_by_key(|&at| (nodes[at as usize].level, at));
        let mut counts = alloc::vec![0u32; nodes.len()];
        edges.iter().for_each(|edge| counts[edge.0 as usize] += 1);
        if trim {
            // Levels of one node with one child, from the top. The last of them has the widest node for its child.
            let member_below = |at: u32| edges.iter().any(|edge| edge.0 == at && matches!(edge.1, Child::Member(_)));
            let narrow = order.iter().take_while(|&&at| counts[at as usize] == 1).count();
            let needed = narrow - usize::from(narrow > 0 && member_below(order[narrow - 1]));
            order.drain(..needed);
        }
        let mut places = alloc::vec![NONE; nodes.len()];
        order.iter().enumerate().for_each(|(place, &at)| places[at as usize] = place as u32);
        let mut made: Vec<Node> = Vec::with_capacity(order.len());
        let mut first_child = 0;
        for &at in &order {
            let node = nodes[at as usize];
            let parent = if node.parent == NONE { NONE } else { places[node.parent as usize] };
            made.push(Node { parent, first_child, children: 0, ..node });
            first_child += counts[at as usize];
        }
        let mut children = alloc::vec![Child::Node(AnId(NONE)); first_child as usize];
        for (at, child) in edges {
            if let Some(node) = made.get_mut(places[at as usize] as usize) {
                children[(node.first_child + node.children) as usize] = child;
                node.children += 1;
            }
        }
        let mut by_an: Vec<u32> = (0..made.len() as u32).collect();
        by_an.sort_unstable_by_key(|&at| made[at as usize].an);
        let mut group = Group { nodes: made, children, by_an, members: members.to_vec(), homes: Vec::new() };
        let home = |(&member, &an)| (member, group.position(an).unwrap_or(NONE));
        let mut homes: Vec<(NodeId, u32)> = members.iter().zip(homes).map(home).collect();
        homes.sort_unstable();
        group.homes = homes;
        group
    }

    /// The members, in the order in which they were given.
    pub fn members(&self) -> &[NodeId] {
        &self.members
    }

    pub fn root(&self) -> AnId {
        self.nodes[0].an
    }

    /// The nodes, the root first, each after its parent.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = GroupNode<'_>> {
        self.nodes.iter().map(|node| self.describe(node))
    }

    /// None: the aggregation node is not part of the group.
    pub fn node(&self, an: AnId) -> Option<GroupNode<'_>> {
        self.position(an).map(|at| self.describe(&self.nodes[at as usize]))
    }

    /// The aggregation node of a member. None: the node is not a member.
    pub fn home(&self, member: NodeId) -> Option<AnId> {
        self.home_position(member).map(|at| self.nodes[at as usize].an)
    }

    /// Number of children of each node from a member's own up to the group's root. A member sends these when the group
    /// is made, so that each node knows its number of children. Empty: the node is not a member.
    pub fn expected_children(&self, member: NodeId) -> impl Iterator<Item = (AnId, u32)> + '_ {
        let node = |at: u32| self.nodes.get(at as usize);
        let own = self.home_position(member).and_then(node);
        core::iter::successors(own, move |below| node(below.parent)).map(|node| (node.an, node.children))
    }

    fn home_position(&self, member: NodeId) -> Option<u32> {
        self.homes.binary_search_by_key(&member, |home| home.0).ok().map(|at| self.homes[at].1)
    }

    fn position(&self, an: AnId) -> Option<u32> {
        let found = self.by_an.binary_search_by_key(&an, |&at| self.nodes[at as usize].an);
        found.ok().map(|at| self.by_an[at])
    }

    fn describe(&self, node: &Node) -> GroupNode<'_> {
        let first = node.first_child as usize;
        GroupNode {
            an: node.an,
            parent: self.nodes.get(node.parent as usize).map(|parent| parent.an),
            level: node.level,
            children: &self.children[first..first + node.children as usize],
        }
    }
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
