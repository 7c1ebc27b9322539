// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The actions that follow from a change: at aggregation nodes, and messages to processes.
//!
//! Invariants
//! 1. The actions of a change are sorted by [`Action::rank`]: revoking comes before granting. So a node never serves a
//!    job that the manager does not know, and never exceeds its capacity, wherever the manager dies between two
//!    actions.
//! 2. Trees are set and jobs admitted from the root down, and removed from the leaves up. So a node never joins a
//!    parent that does not have the job yet.
//! 3. Each action may be carried out twice.

use selvedge_fabric::AnId;
use selvedge_nic::Full;
use selvedge_nic::aggregation::{Failure, Node, Quota};

/// An action. The caller carries out the actions of a change in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Informs a process that its job has lost its resources, and why.
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
    /// Carries out the step. An error means that the node is smaller than its configured limits.
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
    /// Position within a change. Processes are informed before resources are revoked (seed 001, section III.E).
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

    /// Whether the action must be saved to be repeated after a restart. The others follow from the saved state.
    pub(crate) fn is_kept(&self) -> bool {
        let is_in_state = |step: &Step| matches!(step, Step::Revoke { .. } | Step::SetTree { .. } | Step::Admit { .. });
        !matches!(self, Action::Node { step, .. } if is_in_state(step))
    }
}

/// Sorts the actions of a change. Actions of one rank keep their order.
pub(crate) fn in_order(mut actions: Vec<Action>) -> Vec<Action> {
    actions.sort_by_key(Action::rank);
    actions
}
