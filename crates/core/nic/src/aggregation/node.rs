// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dispatch of a node's messages, and the look-ups that all transitions share.

use super::failure::Failure;
use super::message::{Failed, Message, MessageError, Sender};
use super::records::{self, Child, Group, Job, Operation, Tables, group, job};
use crate::buddy::Buddy;
use crate::bus::{Bus, Fault};
use crate::handle::NONE;
use crate::tables::{Request, slot};

/// An aggregation node, for the holder of its lock. A home makes one for each transition.
pub struct Node<'a> {
    pub tables: Tables<'a>,
}

/// Reasons for which a message was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The sender's group has this failure, and the sender is to be informed.
    Failed(Failure),
    Message(MessageError),
    /// The payload could not be read. Nothing has changed.
    Payload(Fault),
}

impl Refusal {
    /// Reply to a refused join, and its recipient. None for other requests.
    pub fn answer(&self, request: &Request) -> Option<(Sender, Message)> {
        match (Message::decode(request), self) {
            (Ok((sender, Message::Join(join))), &Refusal::Failed(failure)) => {
                Some((sender, Message::Failed(Failed { group: join.handle, failure })))
            }
            _ => None,
        }
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        Refusal::Failed(failure)
    }
}

impl Node<'_> {
    /// Initialises a node whose tables are all zero.
    pub fn format(&mut self) {
        *self.tables.control = Default::default();
        let blocks = self.tables.limits.operand_blocks;
        Buddy::init(self.tables.operand_map, blocks, blocks);
    }

    /// Handles a message. The bus has its payload.
    pub fn receive<B: Bus>(&mut self, bus: &mut B, request: &Request) -> Result<(), Refusal> {
        let (sender, message) = Message::decode(request).map_err(Refusal::Message)?;
        self.take(bus, sender, message)
    }

    /// As [`Node::receive`], for a home that passes messages without packets.
    #[inline]
    pub fn take<B: Bus>(&mut self, bus: &mut B, sender: Sender, message: Message) -> Result<(), Refusal> {
        match message {
            Message::Request(operand) => self.request(bus, sender, &operand),
            Message::Result(outcome) => self.result(bus, sender, &outcome),
            Message::Repeat(repeat) => Ok(self.repeat(sender, &repeat)?),
            // A cast is for members, never for a node.
            Message::Cast(_) => Err(Failure::NoGroup.into()),
            Message::Join(join) => Ok(self.join(sender, &join)?),
            Message::Leave(child) => Ok(self.leave(sender, child)?),
            Message::Fail(child, failure) => Ok(self.fail_beneath(sender, child, failure)?),
            Message::Joined(joined) => Ok(self.joined(sender, &joined)?),
            Message::Failed(failed) => Ok(self.failed_above(sender, &failed)?),
        }
    }

    /// The index of the job with this number and key, open or revoked.
    pub(super) fn find_job(&self, number: u32, key: u64) -> Result<usize, Failure> {
        let is_it = |job: &Job| slot::status(job.slot) != slot::FREE && job.number == number && job.key == key;
        self.tables.jobs.iter().position(is_it).ok_or(Failure::NoJob)
    }

    pub(super) fn open_job(&self, number: u32, key: u64) -> Result<usize, Failure> {
        let index = self.find_job(number, key)?;
        let record = &self.tables.jobs[index];
        match slot::status(record.slot) {
            job::OPEN => Ok(index),
            _ => Err(Failure::from_u8(record.failure as u8).unwrap_or(Failure::Revoked)),
        }
    }

    /// The index of the group with this handle, which belongs to the job with this key.
    #[inline]
    pub(super) fn find_group(&self, handle: u64, key: u64) -> Result<usize, Failure> {
        let index = handle as u32 as usize;
        let record = self.tables.groups.get(index).ok_or(Failure::NoGroup)?;
        let is_it = record.status() != slot::FREE && records::handle(index, record.slot) == handle;
        let its_key = self.tables.jobs.get(record.job as usize).map(|job| job.key);
        if is_it && its_key == Some(key) { Ok(index) } else { Err(Failure::NoGroup) }
    }

    /// The index of a job's group by the job's number of it.
    pub(super) fn numbered_group(&self, job: usize, number: u32) -> Option<usize> {
        let is_it =
            |record: &Group| record.status() != slot::FREE && record.job as usize == job && record.number == number;
        self.tables.groups.iter().position(is_it)
    }

    #[inline]
    pub(super) fn children(&self, index: usize) -> &[Child] {
        let (first, joined) = self.child_range(index);
        self.tables.children.get(first..first + joined).unwrap_or_default()
    }

    #[inline]
    pub(super) fn children_mut(&mut self, index: usize) -> &mut [Child] {
        let (first, joined) = self.child_range(index);
        self.tables.children.get_mut(first..first + joined).unwrap_or_default()
    }

    #[inline]
    fn child_range(&self, index: usize) -> (usize, usize) {
        let most = self.tables.limits.children as usize;
        (index * most, (self.tables.groups[index].joined as usize).min(most))
    }

    /// The record of an operation of a group. None: the group has no credits.
    #[inline]
    pub(super) fn operation_at(&self, index: usize, number: u64) -> Option<usize> {
        let credits = self.tables.groups[index].credits.min(self.tables.limits.credits);
        let place = Group::record_of(number, credits)?;
        let at = index * 2 * self.tables.limits.credits as usize + place as usize;
        (at < self.tables.operations.len()).then_some(at)
    }

    pub(super) fn operation_mut(&mut self, index: usize, number: u64) -> Option<&mut Operation> {
        let at = self.operation_at(index, number)?;
        self.tables.operations.get_mut(at)
    }

    /// Puts a group into the queue of groups with messages to send.
    #[inline]
    pub(super) fn enqueue(&mut self, index: usize) {
        let groups = &mut *self.tables.groups;
        let record = &mut groups[index];
        if record.is_due != 0 || record.sender != 0 {
            return;
        }
        (record.is_due, record.next_due) = (1, NONE);
        let control = &mut *self.tables.control;
        match groups.get_mut(control.due_tail as usize) {
            Some(last) => last.next_due = index as u32,
            None => control.due_head = index as u32,
        }
        control.due_tail = index as u32;
    }

    pub(super) fn dequeue(&mut self) -> Option<usize> {
        let index = self.tables.control.due_head as usize;
        let Some(record) = self.tables.groups.get_mut(index) else {
            // A link out of the table ends the queue.
            *self.tables.control = Default::default();
            return None;
        };
        self.tables.control.due_head = record.next_due;
        if record.next_due == NONE {
            self.tables.control.due_tail = NONE;
        }
        (record.is_due, record.next_due) = (0, NONE);
        Some(index)
    }

    /// Whether messages wait to be sent ([`Node::next_send`]).
    pub fn has_sends(&self) -> bool {
        self.tables.control.due_head != NONE
    }

    /// Fails a group. Its children and the parent will be informed.
    pub(super) fn fail_group(&mut self, index: usize, failure: Failure) {
        let record = &mut self.tables.groups[index];
        if !matches!(record.status(), group::JOINING | group::WAITING | group::READY) {
            return;
        }
        record.slot = slot::word(slot::generation(record.slot), group::FAILED);
        (record.failure, record.informed) = (failure as u32, 0);
        self.enqueue(index);
    }
}
