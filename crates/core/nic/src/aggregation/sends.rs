// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node's outgoing messages. They follow from the counts of its groups, so nothing is lost if the sending process
//! dies: the next one sends again, and the receiver drops duplicates.
//!
//! The home takes a message ([`Node::next_send`]), sends it without the node's lock, and reports that
//! ([`Node::finish_send`]). One process at a time sends for a group, so a group's messages stay in order.
//!
//! Cost: O(children) for a group that has failed, else O(1).

use core::ops::Range;

use super::failure::Failure;
use super::message::{
    Cast, Child, Distribution, Failed, Join, Joined, Message, Operand, Outcome, Reduction, Repeat, Sender,
};
use super::node::Node;
use super::records::{Group, LEVELS_MAX, Operation, group, handle, options};
use crate::tables::slot;

/// Values of [`Group::has_joined`]: the join is being sent; it was sent.
const JOIN_LEAVES: u32 = 1;
const JOIN_SENT: u32 = 2;

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    pub id: SendId,
    /// nid << 32 | pid.
    pub to: u64,
    pub key: u64,
    pub message: Message,
    /// The payload's bytes among the operands.
    pub payload: Range<usize>,
}

/// Identifies the message in [`Node::finish_send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendId {
    group: u64,
    due: Due,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// To a child: the group is formed; it has failed.
    Formed(u32),
    Failed(u32),
    Join,
    Fail,
    Request(u64),
    Leave,
    Result(u64, u32),
    /// The result of an operation, to its target.
    ToTarget(u64),
    /// The result of an operation: multicast; again, to a child; the request for it, to the parent.
    Cast(u64),
    Again(u64, u32),
    Repeat(u64),
}

impl Node<'_> {
    /// Takes the next message. `executor`: the process that sends it, by the home's identifier, not 0.
    pub fn next_send(&mut self, executor: u64) -> Option<Send> {
        // A record is in the queue once, so the queue is no longer than the table.
        for _ in 0..=self.tables.groups.len() {
            let index = self.dequeue()?;
            let record = self.tables.groups[index];
            if record.status() == slot::FREE || record.sender != 0 {
                continue;
            }
            let Some(due) = self.due(index) else {
                if self.is_over(index) {
                    self.free_group(index);
                }
                continue;
            };
            if let Some(send) = self.send_of(index, due) {
                self.tables.groups[index].sender = executor;
                return Some(send);
            }
            // The tables do not fit together.
            self.fail_group(index, Failure::NoGroup);
        }
        None
    }

    /// Reports that a message was sent, or that its receiver is gone.
    pub fn finish_send(&mut self, id: SendId) {
        let Some(index) = self.sending_group(id) else { return };
        let joined = self.tables.groups[index].joined;
        let has_target = match id.due {
            Due::Result(number, _) => {
                self.operation_mut(index, number).is_some_and(|it| it.distribution() == Some(Distribution::Alone))
            }
            _ => false,
        };
        match id.due {
            Due::Cast(number) => {
                if let Some(operation) = self.operation_mut(index, number).filter(|it| it.number == number + 1) {
                    operation.is_cast = 1;
                }
            }
            Due::Again(number, child) => {
                let name = self.operation_at(index, number).map(|at| self.tables.limits.record_name(index, at));
                let child = self.children_mut(index).get_mut(child as usize);
                // By now the child may have requested another one.
                if let Some(child) = child.filter(|child| Some(child.wants) == name) {
                    child.wants = 0;
                }
            }
            // The answer may have come already.
            Due::Repeat(number) => {
                if let Some(name) = self.missing(index, number) {
                    self.tables.groups[index].asked = name;
                }
            }
            _ => {}
        }
        let record = &mut self.tables.groups[index];
        record.sender = 0;
        match id.due {
            // If the group has failed meanwhile, the child must still be informed of that.
            Due::Formed(child) if (record.status(), record.informed) == (group::READY, child) => {
                record.informed = child + 1;
            }
            Due::Failed(child) if (record.status(), record.informed) == (group::FAILED, child) => {
                record.informed = child + 1;
            }
            Due::Fail => record.has_failed = 1,
            Due::Request(number) if record.sent == number => record.sent = number + 1,
            Due::Leave => record.has_joined = 0,
            Due::Result(number, child) if (record.distributed, record.told) == (number, child) => {
                let is_last = child + 1 == joined && !(has_target && record.is_root != 0);
                (record.distributed, record.told) = if is_last { (number + 1, 0) } else { (number, child + 1) };
            }
            Due::ToTarget(number) if record.distributed == number => {
                (record.distributed, record.told) = (number + 1, 0);
                self.distribute_shared(index);
            }
            Due::Join if record.has_joined == JOIN_LEAVES => record.has_joined = JOIN_SENT,
            _ => {}
        }
        self.enqueue(index);
    }

    /// Reports that a message could not be sent now.
    pub fn postpone_send(&mut self, id: SendId) {
        if let Some(index) = self.sending_group(id) {
            self.tables.groups[index].sender = 0;
            self.enqueue(index);
        }
    }

    /// The index of a message's group. None: the group has ended.
    fn sending_group(&self, id: SendId) -> Option<usize> {
        let index = id.group as u32 as usize;
        let record = self.tables.groups.get(index)?;
        (record.status() != slot::FREE && handle(index, record.slot) == id.group).then_some(index)
    }

    /// Requeues the messages of processes that have ended.
    pub fn reclaim_sends(&mut self, mut is_alive: impl FnMut(u64) -> bool) {
        for index in 0..self.tables.groups.len() {
            let record = &mut self.tables.groups[index];
            if record.status() != slot::FREE && record.sender != 0 && !is_alive(record.sender) {
                record.sender = 0;
                self.enqueue(index);
            }
        }
    }

    fn due(&mut self, index: usize) -> Option<Due> {
        let record = self.tables.groups[index];
        let is_answered = matches!(record.status(), group::READY | group::FAILED);
        if is_answered && record.options & options::SHARED == 0 {
            let children = self.children(index).iter().enumerate().skip(record.informed as usize);
            let next = children.filter(|(_, child)| child.has_left == 0).map(|(at, _)| at as u32).next();
            let informed = next.unwrap_or(record.joined);
            self.tables.groups[index].informed = informed;
            if informed < record.joined {
                let has_failed = record.status() == group::FAILED;
                return Some(if has_failed { Due::Failed(informed) } else { Due::Formed(informed) });
            }
        }
        let wanted = match self.wanted(index).filter(|_| record.status() == group::READY) {
            Some((child, number, true)) => Some(Due::Again(number, child)),
            Some((_, number, false)) => Some(Due::Repeat(number)),
            None => None,
        };
        match record.status() {
            group::WAITING if record.has_joined != JOIN_SENT => Some(Due::Join),
            group::READY if record.sent < record.collected => Some(Due::Request(record.sent)),
            group::READY if wanted.is_some() => wanted,
            group::READY if record.distributed < record.resulted && self.is_to_cast(index) => {
                Some(Due::Cast(record.distributed))
            }
            group::READY if record.distributed < record.resulted && record.told < record.joined => {
                Some(Due::Result(record.distributed, record.told))
            }
            group::READY if record.distributed < record.resulted => Some(Due::ToTarget(record.distributed)),
            group::FAILED if record.has_joined != 0 && record.has_failed == 0 => Some(Due::Fail),
            group::READY | group::FAILED if record.left == record.joined && record.has_joined != 0 => Some(Due::Leave),
            _ => None,
        }
    }

    /// Whether this node must cast the result of the operation that is distributed next.
    fn is_to_cast(&mut self, index: usize) -> bool {
        let Group { distributed, is_root, .. } = self.tables.groups[index];
        let operation = self.operation_mut(index, distributed).filter(|_| is_root != 0);
        let casts = |it: &Operation| {
            matches!(it.distribution(), Some(Distribution::Multicast | Distribution::Both)) && it.failure == 0
        };
        operation.is_some_and(|it| casts(it) && it.is_cast == 0)
    }

    /// Whether all children have left the group, and this node its parent.
    fn is_over(&self, index: usize) -> bool {
        let record = &self.tables.groups[index];
        let is_answered = matches!(record.status(), group::READY | group::FAILED);
        is_answered && record.left == record.joined && record.has_joined == 0
    }

    fn send_of(&mut self, index: usize, due: Due) -> Option<Send> {
        let record = self.tables.groups[index];
        let job = *self.tables.jobs.get(record.job as usize)?;
        let group = handle(index, record.slot);
        let as_child = Child { job: job.number, number: record.number, handle: group };
        let (mut to, mut payload) = (record.parent, 0..0);
        let message = match due {
            Due::Formed(child) => {
                let (address, handle) = self.children(index).get(child as usize).map(|to| (to.address, to.handle))?;
                to = address;
                let Group { credits, bytes, .. } = record;
                Message::Joined(Joined { group: handle, child, handle: group, credits, bytes })
            }
            Due::Failed(child) => {
                let (address, handle) = self.children(index).get(child as usize).map(|to| (to.address, to.handle))?;
                to = address;
                Message::Failed(Failed { group: handle, failure: record.failure().unwrap_or(Failure::NoGroup) })
            }
            Due::Join => {
                // The answer may arrive before the send is reported.
                self.tables.groups[index].has_joined = JOIN_LEAVES;
                Message::Join(Self::join_of(&record, job.number, group))
            }
            Due::Fail => Message::Fail(as_child, record.failure().unwrap_or(Failure::NoGroup)),
            Due::Leave => Message::Leave(as_child),
            Due::Request(number) => {
                let operation = *self.operation_mut(index, number)?;
                payload = self.reduced(index, number, &operation)?;
                let (child, failure) = (record.child, operation.failure());
                // The length of a message is that of its payload.
                let reduction = Reduction { bytes: payload.len() as u32, ..operation.reduction() };
                Message::Request(Operand { group: record.parent_handle, child, number, reduction, failure })
            }
            Due::Result(number, child) => {
                let operation = *self.operation_mut(index, number)?;
                let (address, handle) = self.children(index).get(child as usize).map(|to| (to.address, to.handle))?;
                to = address;
                if operation.goes_down() {
                    payload = self.reduced(index, number, &operation)?;
                }
                let (failure, bytes) = (operation.failure(), payload.len() as u32);
                Message::Result(Outcome { group: handle, number, failure, bytes })
            }
            Due::Again(number, child) => {
                let operation = *self.operation_mut(index, number)?;
                let (address, handle) = self.children(index).get(child as usize).map(|to| (to.address, to.handle))?;
                to = address;
                payload = self.reduced(index, number, &operation)?;
                Message::Result(Outcome { group: handle, number, failure: None, bytes: payload.len() as u32 })
            }
            Due::Repeat(number) => Message::Repeat(Repeat { group: record.parent_handle, child: record.child, number }),
            Due::Cast(number) => {
                let operation = *self.operation_mut(index, number)?;
                to = operation.target;
                payload = self.reduced(index, number, &operation)?;
                Message::Cast(Cast { job: job.number, group: record.number, number, bytes: payload.len() as u32 })
            }
            Due::ToTarget(number) => {
                let operation = *self.operation_mut(index, number)?;
                to = operation.target;
                payload = self.reduced(index, number, &operation)?;
                let (failure, bytes) = (operation.failure(), payload.len() as u32);
                Message::Result(Outcome { group: operation.target_handle, number, failure, bytes })
            }
        };
        Some(Send { id: SendId { group, due }, to, key: job.key, message, payload })
    }

    /// The bytes of an operation's reduced operand or result; empty if it failed. None: the tables do not fit together.
    fn reduced(&self, index: usize, number: u64, operation: &Operation) -> Option<Range<usize>> {
        match operation.failure == 0 && operation.bytes != 0 {
            true => self.operand_range(index, number, 0, operation.bytes),
            false => Some(0..0),
        }
    }

    fn join_of(record: &Group, job: u32, handle: u64) -> Join {
        let Group { number, tree, options, order, members, total, mut expected, bytes, .. } = *record;
        // SHARED concerns this node's children only.
        let (credits, options) = (record.credits as u16, options & !options::SHARED);
        // The parent's entry comes first.
        expected.rotate_left(1);
        expected[LEVELS_MAX - 1] = 0;
        Join { job, number, tree, options, handle, order, members, total, expected, credits, bytes }
    }
}

impl Send {
    /// Encodes the message as a request of the NIC. `own`: the address of this node.
    pub fn request(&self, own: u64) -> crate::tables::Request {
        self.message.encode(Sender { address: own, key: self.key })
    }
}
