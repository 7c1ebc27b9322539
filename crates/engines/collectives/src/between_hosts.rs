// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This process as a member of groups whose aggregation nodes are elsewhere: in the switches of a simulated machine, or
//! in processes of hosts (seed 001, section III).
//!
//! ```text
//! grant of the job (a file, or the manager's) ──> Aggregation: a NIC with memberships
//!                                  │ TreeGroup::form: join, until all members have joined
//! Pending ──> Running ──> requests, a piece each ──> leaf node ... root ──> results, in the program's memory
//! ```
//!
//! The collective operations are those of a live group ([`Pending`]). All become reductions, as in SHARP: a broadcast
//! is the OR of the root's bytes and zeros. An allgather is the OR of vectors that are zero except for a member's own
//! part. A member that does not want a result drops it.
//!
//! Invariants
//! 1. All members decide alike whether the nodes accept an operation: by its kind and its length, on which they agree,
//!    and by the minimum of their limits, which they exchange when the group forms.
//! 2. At most as many pieces as the group has credits are under way. If one fails, the others are still reduced, so
//!    members agree on the operations that the group has had.
//! 3. Operands are reduced in the order of the members, so each result has the same bits in every run.
//! 4. After an operation has returned, in any way, no node writes its result, unless the program is being aborted.
//! 5. No process is a member of two groups of a job with the same number.
//!
//! Costs: for each piece one request and one result; a copy of the vectors of broadcasts and allgathers.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::one_host::{
    Bootstrap, Buffer, Collective, Pending, ProgressEngine, ProgressHook, QueueEntry, part_of_window,
};
use selvedge_fabric::NodeId;
use selvedge_host::simulated::is_simulated;
use selvedge_nic::aggregation::Failure;
use selvedge_nic::aggregation::member::{GroupState, StartError};
use selvedge_nic::aggregation::message::Reduction;

mod aggregation;
mod group_number;
mod hello;
mod hierarchical;
mod reduction;

/// The number of the NIC of a process as a member of groups.
pub const MEMBER_NI: u16 = selvedge_host::config::MEMBER_NI as u16;

pub use aggregation::Aggregation;
use aggregation::Wait;
use group_number::GroupNumber;
use hello::{Hello, VERSION};
pub use hierarchical::HierarchicalGroup;
use reduction::{PiecewiseReduction, bits, supports};

/// Time between a member's messages of its state. Gathers of many processes take the cores from the nodes.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(20);

/// The words of a process while a group forms.
mod joining {
    pub const GOES_ON: u64 = 1;
    pub const READY: u64 = 2;
    pub const FAILED: u64 = 0;
}

/// A group of a tree of aggregation nodes that this process is a member of.
pub struct TreeGroup {
    aggregation: &'static Aggregation,
    /// Reserved until this process has left.
    _number: GroupNumber,
    handle: u64,
    node: u64,
    rank: usize,
    size: usize,
    credits: usize,
    /// Longest request, and longest operation of the nodes, in bytes.
    bytes: usize,
    longest: u64,
    /// The operand of a member without a value, and room for unwanted results.
    zeros: Vec<u8>,
    unwanted: Vec<u8>,
    /// The oldest operation of the node that had not ended at the last advance.
    awaited: Option<u64>,
}

impl TreeGroup {
    /// Collective: agrees with the other processes on a group. The error is the reason if none forms. `refuses`: the
    /// reason why this process takes no part.
    pub fn form(
        (rank, size): (usize, usize),
        refuses: Option<String>,
        bootstrap: &mut dyn Bootstrap,
    ) -> Result<TreeGroup, String> {
        let own = refuses.map_or_else(Aggregation::of_process, Err);
        TreeGroup::form_with(Some(own), (rank, size), bootstrap)?.ok_or_else(|| "this process has no share".to_owned())
    }

    /// Like [`TreeGroup::form`], for a process with a share. `own` is `None` at a process that is no member: it takes
    /// part in the gathers only, and gets no group.
    fn form_with(
        own: Option<Result<&'static Aggregation, String>>,
        (rank, size): (usize, usize),
        bootstrap: &mut dyn Bootstrap,
    ) -> Result<Option<TreeGroup>, String> {
        let share = own.as_ref().and_then(|own| own.as_ref().ok().copied());
        let taken = share.filter(|_| rank == 0).and_then(Aggregation::number);
        let hello = Hello {
            version: VERSION,
            node: share.map_or(0, |own| u64::from(own.node().0) + 1),
            number: taken.as_ref().map_or(u64::MAX, |number| number.get().into()),
            longest: share.map_or(0, Aggregation::longest),
        };
        let all = bootstrap.allgather(&hello.words())?;
        let all = Hello::all(&all);
        let own = own.transpose()?;
        if all.len() != size || all.iter().any(|hello| hello.version != VERSION) {
            return Err("its processes run different versions of Selvedge; install the same for all".to_owned());
        }
        if let Some(other) = all.iter().position(|hello| hello.node == 0) {
            return Err(format!("process {other} takes no part"));
        }
        let joined = own.map(|own| {
            let number = all.first().and_then(|first| u32::try_from(first.number).ok());
            let number = taken
                .or_else(|| GroupNumber::claim(own.granted().job, number.filter(|_| rank != 0)?))
                .ok_or(Failure::NoGroup)?;
            let nodes: Vec<NodeId> = all.iter().map(|hello| NodeId((hello.node - 1) as u32)).collect();
            let longest = all.iter().map(|hello| hello.longest).min().unwrap_or(0);
            TreeGroup::join(own, number, (rank, size), (&nodes, longest))
        });
        TreeGroup::finish(joined, bootstrap)
    }

    fn join(
        aggregation: &'static Aggregation,
        number: GroupNumber,
        (rank, size): (usize, usize),
        (nodes, longest): (&[NodeId], u64),
    ) -> Result<TreeGroup, Failure> {
        let granted = aggregation.granted();
        let (node, join) = granted.join(number.get(), rank, nodes).ok_or(Failure::NoTree)?;
        let node = aggregation.id_of(node).ok_or(Failure::NoTree)?;
        let made = aggregation.interface().lock().member().join(node, granted.key, &join);
        let (handle, message) = made.map_err(|_| Failure::NoRoom)?;
        let group = TreeGroup {
            aggregation,
            _number: number,
            handle,
            node,
            rank,
            size,
            credits: 0,
            bytes: 0,
            longest,
            zeros: Vec::new(),
            unwanted: Vec::new(),
            awaited: None,
        };
        aggregation.send(node, message, 0)?;
        Ok(group)
    }

    /// Waits until the group has formed, or has failed at any member. The gathers are needed because a node answers
    /// only processes that have joined. `joined` is `None` at a process that is no member.
    fn finish(
        joined: Option<Result<TreeGroup, Failure>>,
        bootstrap: &mut dyn Bootstrap,
    ) -> Result<Option<TreeGroup>, String> {
        loop {
            let state = joined.as_ref().map(|joined| match joined {
                Ok(group) => group.state(),
                Err(failure) => GroupState::Failed(*failure),
            });
            let own = match state {
                Some(GroupState::Ready { .. }) => joining::READY,
                Some(GroupState::Failed(_)) => joining::FAILED,
                Some(GroupState::Joining) | None => joining::GOES_ON,
            };
            let all = bootstrap.allgather(&[own])?;
            if let Some(other) = all.iter().position(|&state| state == joining::FAILED) {
                return Err(match state {
                    Some(GroupState::Failed(failure)) => failure.to_string(),
                    _ => format!("process {other} could not join"),
                });
            }
            if all.iter().all(|&state| state == joining::READY) {
                let mut group = joined.transpose().map_err(|failure| failure.to_string())?;
                if let (Some(group), Some(GroupState::Ready { credits, bytes })) = (&mut group, state) {
                    (group.credits, group.bytes) = (credits as usize, bytes as usize);
                    (group.zeros, group.unwanted) = (vec![0; group.bytes], vec![0; group.bytes]);
                }
                return Ok(group);
            }
            if let Some(Ok(group)) = &joined {
                group.wait_for_node();
            }
        }
    }

    /// Waits for the node before the next exchange of states. In virtual time the gather waits instead.
    fn wait_for_node(&self) {
        let until = Instant::now() + BETWEEN_ROUNDS;
        let mut wait = Wait::default();
        while !is_simulated() && self.state() == GroupState::Joining && Instant::now() < until {
            self.aggregation.wait_briefly(self.node, &mut wait, || self.state() != GroupState::Joining);
        }
    }

    fn state(&self) -> GroupState {
        let state = self.aggregation.interface().lock().member().state(self.handle);
        state.unwrap_or(GroupState::Failed(Failure::NoGroup))
    }

    fn start(&self, reduction: &Reduction, operand: *const u8, result: *mut u8) -> Result<u64, StartError> {
        let (operand, result) = (operand.expose_provenance() as u64, result.expose_provenance() as u64);
        let made = self.aggregation.interface().lock_to_post().member().start(self.handle, reduction, result);
        let (number, message) = made?;
        self.aggregation.send(self.node, message, operand).map_err(StartError::Failed)?;
        Ok(number)
    }

    /// Takes the outcome of an operation of the node. `None`: it has not ended.
    fn take(&self, number: u64) -> Option<Result<(), Failure>> {
        self.aggregation.interface().lock_to_post().member().take(self.handle, number)
    }

    fn advance_operation(&mut self, running: &mut Running) -> Option<Result<(), Failure>> {
        let reducing = match running {
            Running::Reducing(reducing) => reducing,
            Running::Refused(failure) => return Some(Err(*failure)),
        };
        loop {
            if let Some(&oldest) = reducing.started.front().filter(|_| !reducing.may_start(self.credits)) {
                let Some(outcome) = self.take(oldest) else {
                    self.awaited = self.awaited.or(Some(oldest));
                    return None;
                };
                reducing.started.pop_front();
                reducing.outcome = reducing.outcome.and(outcome);
            } else if reducing.may_start(self.credits) {
                let piece = reducing.pieces.range(reducing.left.start);
                let (operand, result) = reducing.memory(&piece, (&self.zeros, &mut self.unwanted));
                match self.start(&reducing.elements.reduction(piece.len()), operand, result) {
                    Ok(number) => reducing.started.push_back(number),
                    // Earlier operations have the credits.
                    Err(StartError::Credit) => return None,
                    // The pieces under way still write to the result.
                    Err(failure) => {
                        reducing.outcome = reducing.outcome.and(Err(failure.into()));
                        reducing.left.end = reducing.left.start;
                        continue;
                    }
                }
                reducing.left.start += 1;
            } else {
                return Some(reducing.outcome.and_then(|()| reducing.finish()));
            }
        }
    }
}

/// An operation of a group under way.
pub enum Running {
    Reducing(Box<PiecewiseReduction>),
    Refused(Failure),
}

impl ProgressEngine for TreeGroup {
    type Running = Running;

    fn supports(&self, operation: &Pending) -> bool {
        supports(operation, self.size, self.longest, self.bytes)
    }

    fn begin(&mut self, operation: Pending) -> Running {
        self.reduction(&operation).map_or_else(Running::Refused, Running::Reducing)
    }

    fn advance(&mut self, entries: &mut VecDeque<QueueEntry<Running>>) {
        self.aggregation.poll();
        self.awaited = None;
        for QueueEntry { running, outcome, .. } in entries.iter_mut() {
            if outcome.is_none() {
                *outcome = self.advance_operation(running);
            }
            if matches!(running, Running::Reducing(reducing) if !reducing.left.is_empty()) {
                break;
            }
        }
    }

    fn check_members_if_due(&mut self) {
        self.aggregation.check_node(self.node);
    }

    /// Calls `idle` between waits, because it may use other NICs of the process.
    fn wait(
        &mut self,
        idle: ProgressHook<'_>,
        look: &mut dyn FnMut(&mut TreeGroup) -> Option<Result<(), Failure>>,
    ) -> Result<(), Failure> {
        let mut wait = Wait::default();
        loop {
            if let Some(outcome) = look(self) {
                return outcome;
            }
            idle();
            self.wait_briefly(&mut wait);
        }
    }
}

impl TreeGroup {
    /// Waits until the oldest operation of the node has ended, or for a short time.
    fn wait_briefly(&self, wait: &mut Wait) {
        let is_over = |number| self.aggregation.interface().lock_to_post().member().is_over(self.handle, number);
        self.aggregation.wait_briefly(self.node, wait, || self.awaited.is_some_and(is_over));
    }

    fn reduction(&self, operation: &Pending) -> Result<Box<PiecewiseReduction>, Failure> {
        let (bytes, Buffer { from, to }, most) = (operation.bytes(), operation.buffer(), self.bytes);
        match *operation.collective() {
            Collective::Barrier => PiecewiseReduction::new(bits()?, None, None, 0, most),
            Collective::Reduce { root: Some(root), .. }
            | Collective::Broadcast { root, .. }
            | Collective::Allgather { root: Some(root), .. }
                if root >= self.size =>
            {
                Err(Failure::GroupMismatch)
            }
            Collective::Reduce { elements, root } => {
                let wants = root.is_none_or(|root| root == self.rank);
                PiecewiseReduction::new(elements, Some(from), wants.then_some(to), bytes, most)
            }
            Collective::ReduceScatter { elements, ref own } => {
                PiecewiseReduction::of_part(elements, Some(from), own.clone(), to, bytes, most)
            }
            Collective::Broadcast { root, ref own } => {
                let from = (root == self.rank).then_some(from);
                match own {
                    None => PiecewiseReduction::new(bits()?, from, from.is_none().then_some(to), bytes, most),
                    Some(own) => PiecewiseReduction::of_part(bits()?, from, own.clone(), to, bytes, most),
                }
            }
            Collective::Allgather { ref window, root } => {
                let all = window.clone().unwrap_or(0..bytes.saturating_mul(self.size));
                let mut operand = vec![0; all.len()];
                let part = operand.get_mut(part_of_window(&all, bytes, self.rank)).ok_or(Failure::GroupMismatch)?;
                // SAFETY: the operation's operand has this length, by the contract of its constructor.
                unsafe { part.as_mut_ptr().copy_from_nonoverlapping(from, part.len()) };
                let wants = root.is_none_or(|root| root == self.rank);
                let operand_at = operand.as_ptr();
                let mut reducing =
                    PiecewiseReduction::new(bits()?, Some(operand_at), wants.then_some(to), operand.len(), most)?;
                reducing.whole = operand;
                Ok(reducing)
            }
        }
    }
}

impl Drop for TreeGroup {
    /// Leaves the group. Afterwards no node writes a result here.
    fn drop(&mut self) {
        let left = self.aggregation.interface().lock().member().leave(self.handle);
        if let Some((node, message)) = left {
            let _ = self.aggregation.send(node, message, 0);
        }
    }
}
