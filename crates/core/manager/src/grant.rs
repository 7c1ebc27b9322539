// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The grant of a job: its number, its quota, and the parts of its trees that it needs to make groups (seed 001,
//! section III.C).
//!
//! A member that joins a group states the number of children of each node on its path to the root.
//! [`GrantedTree::group`] counts them for any members of the job, so making a group needs no request to the manager.
//! Processes read their grant from a file ([`Granted::save`]).

use std::collections::BTreeMap;

use selvedge_fabric::{AnId, NodeId, Tree};
use selvedge_nic::aggregation::Quota;
use selvedge_nic::aggregation::message::Join;
use selvedge_nic::aggregation::records::{LEVELS_MAX, options};
use serde::{Deserialize, Serialize};

use crate::frame::{self, FrameError};
use crate::job::Member;

/// The resources of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    pub job: u32,
    /// Secret that authenticates the job's messages.
    pub key: u64,
    /// At each aggregation node, for all trees together.
    pub quota: Quota,
    /// The members as requested.
    pub members: Vec<Member>,
    pub trees: Vec<GrantedTree>,
}

/// The part of a tree that has members of a job beneath it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedTree {
    pub number: u16,
    /// Each after its parent: the root is first.
    nodes: Vec<GrantedNode>,
    /// Each end node with the position of its leaf, in the order of end nodes.
    leaves: Vec<(NodeId, usize)>,
}

const MAGIC: &str = "selvedge-grant";
const VERSION: u32 = 1;

/// Reasons for which a file is not a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrantError {
    #[error("not a grant of aggregation resources")]
    NotOne,
    #[error("grant of version {is}, but {VERSION} is known: use one version of Selvedge for the job and its manager")]
    Version { is: u32 },
    #[error("damaged grant")]
    Damaged,
    #[error("the grant names an invalid tree")]
    Impossible,
}

impl From<FrameError> for GrantError {
    fn from(error: FrameError) -> GrantError {
        match error {
            FrameError::NotOne => GrantError::NotOne,
            FrameError::Version { is } => GrantError::Version { is },
            FrameError::Damaged => GrantError::Damaged,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedGrant {
    job: u32,
    key: u64,
    /// Groups, credits, bytes.
    quota: (u32, u32, u32),
    members: Vec<(u64, u32)>,
    trees: Vec<SavedTree>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedTree {
    number: u16,
    /// Aggregation node, address, position of the node above.
    nodes: Vec<(u32, u64, Option<usize>)>,
    leaves: Vec<(u32, usize)>,
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
pub struct GroupChildren {
    /// The members, and the children of each node in the order of [`GrantedTree::nodes`].
    members: u32,
    children: Vec<u16>,
}

impl Granted {
    /// Returns the index of the tree of a group. Groups with any numbers spread over all trees; that of 0 is the first.
    pub fn tree_of(&self, number: u32) -> usize {
        let spread = (u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        spread % self.trees.len().max(1)
    }

    /// Returns a member's join of a group, and its receiver, a leaf node of the group's tree. `nodes`: the end nodes of
    /// all members; `order`: this member's index. None: the job has no tree there.
    pub fn join(&self, number: u32, order: usize, nodes: &[NodeId]) -> Option<(u64, Join)> {
        self.join_in(number, order, *nodes.get(order)?, &self.trees.get(self.tree_of(number))?.group(nodes)?)
    }

    /// Like [`Granted::join`], of the member on the end node `own`, with the children of the group counted before.
    pub fn join_in(&self, number: u32, order: usize, own: NodeId, group: &GroupChildren) -> Option<(u64, Join)> {
        let tree = self.trees.get(self.tree_of(number))?;
        let join = Join {
            job: self.job,
            number,
            tree: tree.number,
            options: options::ORDERED,
            handle: 0,
            order: order as u32,
            members: 1,
            total: group.members,
            expected: group.expected(tree, own),
            credits: u16::try_from(self.quota.credits_each()).unwrap_or(u16::MAX),
            bytes: self.quota.bytes,
        };
        Some((tree.leaf(own)?.address, join))
    }

    /// Encodes the grant as a file for the processes of the job.
    pub fn save(&self) -> Vec<u8> {
        let Quota { groups, credits, bytes } = self.quota;
        let tree = |tree: &GrantedTree| SavedTree {
            number: tree.number,
            nodes: tree.nodes.iter().map(|node| (node.an.0, node.address, node.parent)).collect(),
            leaves: tree.leaves.iter().map(|&(node, at)| (node.0, at)).collect(),
        };
        let saved = SavedGrant {
            job: self.job,
            key: self.key,
            quota: (groups, credits, bytes),
            members: self.members.iter().map(|member| (member.process, member.node.0)).collect(),
            trees: self.trees.iter().map(tree).collect(),
        };
        frame::close(MAGIC, VERSION, &saved)
    }

    /// Decodes a grant file.
    pub fn restore(bytes: &[u8]) -> Result<Granted, GrantError> {
        let saved: SavedGrant =
            serde_json::from_slice(frame::open(MAGIC, VERSION, bytes)?).map_err(|_| GrantError::Damaged)?;
        let trees: Option<Vec<GrantedTree>> = saved.trees.into_iter().map(GrantedTree::restore).collect();
        let (groups, credits, bytes) = saved.quota;
        Ok(Granted {
            job: saved.job,
            key: saved.key,
            quota: Quota { groups, credits, bytes },
            members: saved.members.iter().map(|&(process, node)| Member { process, node: NodeId(node) }).collect(),
            trees: trees.ok_or(GrantError::Impossible)?,
        })
    }
}

impl GrantedTree {
    /// None: the saved tree is malformed.
    fn restore(saved: SavedTree) -> Option<GrantedTree> {
        let is_above = |(at, node): (usize, &(u32, u64, Option<usize>))| node.2.map_or(at == 0, |parent| parent < at);
        let (nodes, leaves) = (saved.nodes, saved.leaves);
        let is_tree = nodes.iter().enumerate().all(is_above);
        let is_sorted = leaves.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !is_tree || !is_sorted || leaves.iter().any(|&(_, at)| at >= nodes.len()) {
            return None;
        }
        let node = |(an, address, parent)| GrantedNode { an: AnId(an), address, parent };
        Some(GrantedTree {
            number: saved.number,
            nodes: nodes.into_iter().map(node).collect(),
            leaves: leaves.into_iter().map(|(node, at)| (NodeId(node), at)).collect(),
        })
    }

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
        let positions: BTreeMap<AnId, usize> = nodes.iter().enumerate().map(|(at, node)| (node.1, at)).collect();
        let position = |an: AnId| positions.get(&an).copied();
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

    /// Counts the children of a group. `members`: the end node of each process that joins, repeated if several join
    /// from one. None: the job has no member on an end node, or a count overflows.
    pub fn group(&self, members: &[NodeId]) -> Option<GroupChildren> {
        let mut children = vec![0u16; self.nodes.len()];
        for &member in members {
            let mut at = Some(self.leaf_position(member)?);
            while let Some(position) = at {
                let count = children.get_mut(position)?;
                *count = count.checked_add(1)?;
                at = self.nodes.get(position)?.parent.filter(|_| *count == 1);
            }
        }
        Some(GroupChildren { members: members.len() as u32, children })
    }

    fn leaf_position(&self, node: NodeId) -> Option<usize> {
        let found = self.leaves.binary_search_by_key(&node, |leaf| leaf.0).ok()?;
        Some(self.leaves[found].1)
    }
}

impl GroupChildren {
    /// The children of each node of the tree that counted them, in the order of [`GrantedTree::nodes`].
    pub fn counts(&self) -> &[u16] {
        &self.children
    }

    /// The expected children in a member's join: at its own node, at the node above, and so on to the root of `tree`,
    /// which counted them. All 0: the job has no member there.
    pub fn expected(&self, tree: &GrantedTree, node: NodeId) -> [u16; LEVELS_MAX] {
        let mut expected = [0; LEVELS_MAX];
        let mut at = tree.leaf_position(node);
        for count in &mut expected {
            let Some(position) = at else { break };
            *count = self.children.get(position).copied().unwrap_or(0);
            at = tree.nodes.get(position).and_then(|node| node.parent);
        }
        expected
    }
}

pub(crate) fn way(tree: Tree, from: AnId) -> impl Iterator<Item = AnId> {
    std::iter::successors(Some(from), move |&an| tree.parent(an))
}
