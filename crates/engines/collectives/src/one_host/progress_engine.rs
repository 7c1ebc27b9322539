// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interface between a process's side of a group and the queue of its operations.
//!
//! Two kinds of groups implement it: a [`Member`](super::Member) of a live group, and the groups with nodes elsewhere
//! in [`between_hosts`](crate::between_hosts).

use std::collections::VecDeque;

use selvedge_nic::aggregation::Failure;

use super::collectives::Pending;

/// Called while a member waits.
pub type ProgressHook<'a> = &'a mut dyn FnMut();

/// A process's side of a group.
pub trait ProgressEngine: Sized {
    /// An operation under way.
    type Running;

    /// Whether the group's nodes accept this operation. All members get the same answer.
    fn supports(&self, operation: &Pending) -> bool;

    /// Begins an operation without starting an operation of the node.
    fn begin(&mut self, operation: Pending) -> Self::Running;

    /// Advances all operations in the order in which they began, and records the outcomes of those that have ended. If
    /// the group has ended, all operations end.
    fn advance(&mut self, entries: &mut VecDeque<QueueEntry<Self::Running>>);

    /// Checks at intervals that the other members and the nodes are alive.
    fn check_members_if_due(&mut self);

    /// Calls `look` until it returns an outcome. Fails if the group has ended.
    fn wait(
        &mut self,
        idle: ProgressHook<'_>,
        look: &mut dyn FnMut(&mut Self) -> Option<Result<(), Failure>>,
    ) -> Result<(), Failure>;

    /// Waits until an operation has ended. It is the only one under way.
    #[inline]
    fn complete(&mut self, operation: Pending, idle: ProgressHook<'_>) -> Result<(), Failure> {
        let mut entries = VecDeque::from([QueueEntry::new(self.begin(operation))]);
        self.wait(idle, &mut |engine| {
            engine.advance(&mut entries);
            entries.front().and_then(|entry| entry.outcome)
        })
    }
}

/// An operation of a queue.
pub struct QueueEntry<R> {
    pub running: R,
    /// `None`: it has not ended.
    pub outcome: Option<Result<(), Failure>>,
    pub(super) is_taken: bool,
}

impl<R> QueueEntry<R> {
    pub(super) fn new(running: R) -> QueueEntry<R> {
        QueueEntry { running, outcome: None, is_taken: false }
    }
}
