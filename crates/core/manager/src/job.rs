// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records of jobs: requests, errors, state.

use std::collections::BTreeMap;

use selvedge_fabric::{AnId, NodeId};
use selvedge_nic::aggregation::{Failure, Quota};

use crate::trees::Place;

/// A process of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// nid << 32 | pid.
    pub process: u64,
    /// The end node of the process. Several processes may share one.
    pub node: NodeId,
}

/// A request to begin a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRequest {
    /// The launcher's name for the job. The manager only repeats it.
    pub external: u64,
    pub members: Vec<Member>,
    /// 0: the default share.
    pub quota: Quota,
    /// 0: one.
    pub trees: u32,
    /// Appears only in the log: all jobs have one default share.
    pub priority: u32,
}

/// Reasons for which a job does not begin, or is unknown. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    #[error("a job without members: give at least 1")]
    NoMembers,
    #[error("process {process:#x} is a member twice: name each process once")]
    MemberTwice { process: u64 },
    #[error("there is no {node} in a network of {nodes} nodes: give 0 to {}", nodes - 1)]
    UnknownNode { node: NodeId, nodes: u32 },
    #[error("another job has this key: choose 64 random bits")]
    KeyTaken,
    #[error("there is no aggregation tree: lost parts must come back, or other jobs must end")]
    NoTree,
    #[error("{node} is attached to no aggregation node, since it was not usable when the trees were made")]
    Unattached { node: NodeId },
    #[error("a part of the network that the job needs is lost: wait until it is back")]
    CutOff,
    #[error("an aggregation node has {jobs} jobs, its limit: wait until one ends")]
    TooManyJobs { jobs: u32 },
    #[error("{wanted} groups, but an aggregation node has {left} left: ask for fewer, or wait until a job ends")]
    NoGroups { wanted: u32, left: u64 },
    #[error(
        "{wanted} operations of {bytes} bytes, but an aggregation node has room for {left} left: \
         ask for fewer or smaller ones, or wait until a job ends"
    )]
    NoOperands { wanted: u32, bytes: u32, left: u64 },
    #[error("{wanted} trees, but {fit} can serve the job: ask for {fit}")]
    TooFewTrees { wanted: u32, fit: u32 },
    #[error("there is no job {job}")]
    UnknownJob { job: u32 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub external: u64,
    pub key: u64,
    pub priority: u32,
    pub quota: Quota,
    pub members: Vec<Member>,
    pub trees: Vec<(u16, Place)>,
    /// The reason for which the resources were revoked. None: the job has them.
    pub revoked: Option<Failure>,
    /// The job's aggregation nodes; they follow from its members and trees.
    pub nodes: BTreeMap<AnId, Presence>,
}

/// A job's part of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Presence {
    /// Children of a group of all members, in the tree with most.
    pub children: u32,
    /// Edges to the root, in the tree with fewest.
    pub level: u32,
}

impl Job {
    /// Whether the job has its resources, and this tree among them.
    pub fn has_tree(&self, number: u16) -> bool {
        self.revoked.is_none() && self.trees.iter().any(|tree| tree.0 == number)
    }
}
