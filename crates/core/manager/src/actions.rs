// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is to be done after a change, at aggregation nodes and for processes.
//!
//! Invariants
//! 1. The actions of a change are in the order of [`Action::rank`]: what takes away comes before what gives. So no node serves a job that
//!    the manager does not know, and no node has more jobs than it has room for, wherever the manager dies between two actions.
//! 2. Where a tree is set or a job admitted, the nodes above come first; where something is taken away, the nodes below do. So a node
//!    never joins a parent that has yet to hear of the job.
//! 3. Each action may be carried out twice.

use selvedge_fabric::AnId;
use selvedge_nic::Full;
use selvedge_nic::aggregation::{Failure, Node, Quota};

/// One action. The caller carries out the actions of a change in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A process hears that its job has lost its resources, and why.
    Tell { process: u64, job: u32, failure: Failure },
    /// A transition of an aggregation node.
    Node {
        an: AnId,
        /// nid << 32 | pid.
        address: u64,
        step: Step,
    },
}

/// A setting of an aggregation node (`selvedge_nic::aggregation::jobs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Revoke { job: u32, key: u64, failure: Failure },
    Lose { address: u64 },
    Forget { job: u32, key: u64 },
    ClearTree { number: u16, failure: Failure },
    SetTree { number: u16, parent: Option<u64> },
    Admit { job: u32, key: u64, quota: Quota },
}

impl Step {
    /// Carries it out. An error says that the node is smaller than the manager was told.
    pub fn carry_out(&self, node: &mut Node) -> Result<(), Full> {
        match *self {
            Step::Revoke { job, key, failure } => node.revoke(job, key, failure),
            Step::Lose { address } => node.lose(address),
            Step::Forget { job, key } => node.forget(job, key),
            Step::ClearTree { number, failure } => node.clear_tree(number, failure),
            Step::SetTree { number, parent } => return node.set_tree(number, parent).then_some(()).ok_or(Full),
            Step::Admit { job, key, quota } => return node.admit(job, key, quota),
        }
        Ok(())
    }
}

impl Action {
    /// Where the action comes among those of a change. Processes hear first (seed 001, section III.E), then resources are taken back.
    fn rank(&self) -> u32 {
        match self {
            Action::Tell { .. } => 0,
            Action::Node { step, .. } => match step {
                Step::Revoke { .. } => 1,
                Step::Lose { .. } => 2,
                Step::Forget { .. } => 3,
                Step::ClearTree { .. } => 4,
                Step::SetTree { .. } => 5,
                Step::Admit { .. } => 6,
            },
        }
    }

    /// Whether the state alone does not say it: after a restart it must be done again, since it may not have been.
    pub(crate) fn is_kept(&self) -> bool {
        let is_in_state = |step: &Step| matches!(step, Step::Revoke { .. } | Step::SetTree { .. } | Step::Admit { .. });
        !matches!(self, Action::Node { step, .. } if is_in_state(step))
    }
}

/// Puts the actions of a change into order. Those of one kind stay as they are.
pub(crate) fn in_order(mut actions: Vec<Action>) -> Vec<Action> {
    actions.sort_by_key(Action::rank);
    actions
}
