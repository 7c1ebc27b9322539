// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A member of groups: it joins its leaf node, starts operations within its credits, and takes their results.
//!
//! Invariants
//! 1. Operation `n` starts when that of `n - credits` has ended down the tree and was taken. So the nodes have room for
//!    it.
//! 2. A result is in the program's memory before its operation is over.
//! 3. When a group has failed, all its operations are over, with the failure.
//! 4. A process that delivers a message of the node here may die at any store: the record of the operation, or the
//!    slot, is stored last, and the rest is recovered.
//!
//! Cost: O(1) for each message and operation; O(credits) for a failure.

use core::ops::Range;

use super::failure::Failure;
use super::message::{Cast, Child, Distribution, Join, Joined, Message, Operand, Outcome, Reduction, Repeat, Sender};
use super::node::Refusal;
use super::records;
use crate::bus::Bus;
use crate::errors::Full;
use crate::tables::{Request, slot};

mod status {
    pub const JOINING: u32 = 1;
    pub const READY: u32 = 2;
    pub const FAILED: u32 = 3;
    /// Not a member: it waits for one result, as the target of an operation.
    pub const EXPECTING: u32 = 4;
}

/// A process's membership in a group, or its wait for one result.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Membership {
    pub slot: u32,
    pub job: u32,
    pub number: u32,
    /// Index among the node's children.
    pub child: u32,
    pub key: u64,
    /// The leaf node: nid << 32 | pid, and its handle of the group.
    pub node: u64,
    pub handle: u64,
    /// Numbers of the next operation to start and to complete.
    pub next: u64,
    pub completed: u64,
    pub credits: u32,
    pub bytes: u32,
    pub failure: u32,
    pub reserved: u32,
}

mod state {
    pub const FREE: u32 = 0;
    pub const STARTED: u32 = 1;
    pub const OVER: u32 = 2;
    /// The operation has ended, but its cast result is lost. ASKED: the node was asked for it.
    pub const MISSING: u32 = 3;
    pub const ASKED: u32 = 4;
    /// The cast result was taken; the end of the operation, which returns the credit, is still to come.
    pub const TAKEN: u32 = 5;
}

/// An operation that was started and not taken.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Started {
    pub number: u64,
    /// Address and bytes of the result in the program's memory. No bytes: another target gets the result.
    pub result: u64,
    pub bytes: u32,
    pub state: u32,
    pub failure: u32,
    /// The [`Distribution`] of the result; 0: down the tree alone.
    pub distribution: u32,
}

/// The tables of a process's memberships, for the holder of its lock.
pub struct Member<'a> {
    pub memberships: &'a mut [Membership],
    /// An equal number for each membership.
    pub started: &'a mut [Started],
}

/// Reasons for which an operation was not started. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError {
    /// There is no such membership.
    NoGroup,
    /// The group is not formed yet, or no credit is left. Try again later.
    Credit,
    /// The group has failed.
    Failed(Failure),
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Failure {
        match error {
            StartError::NoGroup => Failure::NoGroup,
            StartError::Credit => Failure::Credit,
            StartError::Failed(failure) => failure,
        }
    }
}

/// A vector split into pieces of whole elements, one operation each. Without bytes it is one piece: a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    bytes: usize,
    /// Bytes of each piece but the last.
    piece: usize,
}

impl Pieces {
    /// Splits `bytes` into pieces of at most `most` bytes. [`Failure::TooLong`]: an element has more.
    pub fn new(bytes: usize, element: usize, most: usize) -> Result<Pieces, Failure> {
        let piece = most.checked_div(element).unwrap_or(0) * element;
        if piece == 0 && bytes != 0 { Err(Failure::TooLong) } else { Ok(Pieces { bytes, piece }) }
    }

    pub fn count(&self) -> usize {
        self.bytes.div_ceil(self.piece.max(1)).max(1)
    }

    /// The bytes of a piece in the vector.
    pub fn range(&self, nth: usize) -> Range<usize> {
        nth * self.piece..self.bytes.min((nth + 1) * self.piece)
    }
}

/// State of a group at a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    Joining,
    /// Credits, and bytes of an operation.
    Ready {
        credits: u32,
        bytes: u32,
    },
    Failed(Failure),
}

impl Member<'_> {
    /// Joins a group at a leaf node. `join` has the wanted credits; its handle is set here. Returns the handle, and the
    /// message to the node.
    pub fn join(&mut self, node: u64, key: u64, join: &Join) -> Result<(u64, Message), Full> {
        let credits = (join.credits as usize).min(self.records_each());
        let (index, generation) = self.find_free().filter(|_| credits != 0).ok_or(Full)?;
        let Join { job, number, .. } = *join;
        let slot = slot::word(generation, status::JOINING);
        self.memberships[index] = Membership { slot, job, number, key, node, ..Membership::default() };
        self.records(index).fill(Started::default());
        let handle = records::handle(index, self.memberships[index].slot);
        Ok((handle, Message::Join(Join { handle, credits: credits as u16, ..*join })))
    }

    /// Waits for a result as the target of an operation of a job. Returns the handle for [`super::message::Target`].
    pub fn expect(&mut self, key: u64, result: u64, bytes: u32) -> Result<u64, Full> {
        let (index, generation) = self.find_free().filter(|_| self.records_each() != 0).ok_or(Full)?;
        let slot = slot::word(generation, status::EXPECTING);
        self.memberships[index] = Membership { slot, key, ..Membership::default() };
        let records = self.records(index);
        records.fill(Started::default());
        if let Some(record) = records.first_mut() {
            *record = Started { result, bytes, state: state::STARTED, ..Started::default() };
        }
        Ok(records::handle(index, self.memberships[index].slot))
    }

    /// Starts an operation whose result goes to `result`. Returns its number, and the message to the node: the operand.
    pub fn start(&mut self, handle: u64, reduction: &Reduction, result: u64) -> Result<(u64, Message), StartError> {
        let index = self.find(handle).ok_or(StartError::NoGroup)?;
        let membership = self.memberships[index];
        match slot::status(membership.slot) {
            status::READY => {}
            status::FAILED => return Err(StartError::Failed(membership.failure())),
            status::EXPECTING => return Err(StartError::NoGroup),
            _ => return Err(StartError::Credit),
        }
        let number = membership.next;
        let distribution = reduction.target.map(|target| target.distribution);
        let bytes = if distribution == Some(Distribution::Alone) { 0 } else { reduction.bytes };
        let distribution = distribution.map_or(0, |distribution| distribution as u32);
        let record = self.record(index, number).filter(|record| record.state == state::FREE);
        *record.ok_or(StartError::Credit)? =
            Started { number, result, bytes, state: state::STARTED, failure: 0, distribution };
        self.memberships[index].next = number.wrapping_add(1);
        let (group, child) = (membership.handle, membership.child);
        Ok((number, Message::Request(Operand { group, child, number, reduction: *reduction, failure: None })))
    }

    /// Handles a message of the node. The bus has its payload, and reaches the program's memory.
    pub fn receive<B: Bus>(&mut self, bus: &mut B, request: &Request) -> Result<(), Refusal> {
        let (sender, message) = Message::decode(request).map_err(Refusal::Message)?;
        match message {
            Message::Joined(joined) => Ok(self.joined(sender, &joined)?),
            Message::Failed(failed) => {
                let index = self.find_for(sender, failed.group)?;
                self.fail(index, failed.failure);
                Ok(())
            }
            Message::Result(outcome) => self.result(bus, sender, &outcome),
            Message::Cast(cast) => self.cast(bus, sender, &cast),
            _ => Err(Failure::NoGroup.into()),
        }
    }

    /// A message of this member was refused by the node.
    pub fn refused(&mut self, handle: u64, failure: Failure) {
        if let Some(index) = self.find(handle) {
            self.fail(index, failure);
        }
    }

    /// A leaf node is lost or unreachable: its groups fail.
    pub fn lose(&mut self, node: u64) {
        for index in 0..self.memberships.len() {
            if self.memberships[index].node == node {
                self.fail(index, Failure::Lost);
            }
        }
    }

    fn joined(&mut self, sender: Sender, joined: &Joined) -> Result<(), Failure> {
        let index = self.find_for(sender, joined.group)?;
        let each = self.records_each() as u32;
        let membership = &mut self.memberships[index];
        if slot::status(membership.slot) != status::JOINING {
            return Ok(());
        }
        (membership.handle, membership.child) = (joined.handle, joined.child);
        (membership.credits, membership.bytes) = (joined.credits.min(each), joined.bytes);
        membership.slot = slot::word(slot::generation(membership.slot), status::READY);
        Ok(())
    }

    fn result<B: Bus>(&mut self, bus: &mut B, sender: Sender, outcome: &Outcome) -> Result<(), Refusal> {
        let index = self.find_for(sender, outcome.group)?;
        let membership = self.memberships[index];
        let is_member = match slot::status(membership.slot) {
            status::READY => true,
            status::EXPECTING => false,
            _ => return Ok(()),
        };
        let number = if is_member { outcome.number } else { 0 };
        let started = self.record(index, number).map(|record| *record).filter(|record| record.number == number);
        if number < membership.completed {
            // This may be the repeated result. Other duplicates follow the death of a sender.
            let asked = started.filter(|it| matches!(it.state, state::MISSING | state::ASKED));
            let asked = asked.filter(|it| it.bytes == outcome.bytes && outcome.failure.is_none());
            return asked.map_or(Ok(()), |it| self.complete(bus, index, &it));
        }
        let started = started.filter(|_| number == membership.completed).ok_or(Failure::Credit)?;
        match started.state {
            state::STARTED => {}
            // The cast result was taken. Only the credit was missing.
            state::TAKEN => {
                if let Some(record) = self.record(index, number) {
                    *record = Started { number, ..Started::default() };
                }
                self.memberships[index].completed = number.wrapping_add(1);
                return Ok(());
            }
            // The result was cast before, or a sender died between delivering it and counting it.
            state::OVER | state::MISSING | state::ASKED => {
                self.memberships[index].completed = number.wrapping_add(1);
                return Ok(());
            }
            state::FREE if number < membership.next => {
                self.memberships[index].completed = number.wrapping_add(1);
                return Ok(());
            }
            _ => return Err(Failure::Credit.into()),
        }
        let has_length = outcome.bytes == if outcome.failure.is_none() { started.bytes } else { 0 };
        let mut failure = outcome.failure;
        if !has_length && started.distribution == Distribution::Multicast as u32 && outcome.bytes == 0 {
            if let Some(record) = self.record(index, number) {
                record.state = state::MISSING;
            }
            self.memberships[index].completed = number.wrapping_add(1);
            return Ok(());
        }
        if !has_length {
            // Members and an outside target need not agree on the length.
            failure = Some(Failure::OperationMismatch);
        } else if outcome.bytes != 0 {
            bus.put(0, started.result, outcome.bytes.into()).map_err(Refusal::Payload)?;
        }
        if let Some(record) = self.record(index, number) {
            (record.failure, record.state) = (failure.map_or(0, |failure| failure as u32), state::OVER);
        }
        self.memberships[index].completed = number.wrapping_add(1);
        Ok(())
    }

    /// Handles a cast result. An unexpected one is dropped: it may be late or a duplicate.
    fn cast<B: Bus>(&mut self, bus: &mut B, sender: Sender, cast: &Cast) -> Result<(), Refusal> {
        let is_it = |record: &Membership| {
            slot::status(record.slot) == status::READY
                && (record.key, record.job, record.number) == (sender.key, cast.job, cast.group)
        };
        let Some(index) = self.memberships.iter().position(is_it) else { return Ok(()) };
        let started = self.record(index, cast.number).map(|record| *record).filter(|it| it.number == cast.number);
        let waits = |it: &Started| matches!(it.state, state::STARTED | state::MISSING | state::ASKED);
        let started =
            started.filter(|it| waits(it) && it.distribution > Distribution::Alone as u32 && it.bytes == cast.bytes);
        started.map_or(Ok(()), |it| self.complete(bus, index, &it))
    }

    fn complete<B: Bus>(&mut self, bus: &mut B, index: usize, started: &Started) -> Result<(), Refusal> {
        if started.bytes != 0 {
            bus.put(0, started.result, started.bytes.into()).map_err(Refusal::Payload)?;
        }
        if let Some(record) = self.record(index, started.number) {
            (record.failure, record.state) = (0, state::OVER);
        }
        Ok(())
    }

    /// Re-requests the oldest lost cast result whose operation has ended; one outstanding. The program calls again when
    /// it has it.
    pub fn repeat(&mut self, handle: u64) -> Option<Message> {
        let index = self.find(handle)?;
        let Membership { handle: group, child, .. } = self.memberships[index];
        let records = self.records(index);
        if records.iter().any(|record| record.state == state::ASKED) {
            return None;
        }
        let missing = records.iter_mut().filter(|record| record.state == state::MISSING);
        let oldest = missing.min_by_key(|record| record.number)?;
        oldest.state = state::ASKED;
        Some(Message::Repeat(Repeat { group, child, number: oldest.number }))
    }

    /// Whether all started operations have ended, so that no other member waits for this one.
    pub fn is_idle(&self, handle: u64) -> bool {
        self.find(handle).is_none_or(|index| {
            let Membership { next, completed, .. } = self.memberships[index];
            completed >= next
        })
    }

    fn fail(&mut self, index: usize, failure: Failure) {
        let membership = &mut self.memberships[index];
        if !matches!(slot::status(membership.slot), status::JOINING | status::READY) {
            return;
        }
        (membership.failure, membership.completed) = (failure as u32, membership.next);
        for record in self.records(index) {
            match record.state {
                state::STARTED | state::MISSING | state::ASKED => {
                    (record.failure, record.state) = (failure as u32, state::OVER);
                }
                state::TAKEN => *record = Started::default(),
                _ => {}
            }
        }
        // The slot is last: if its writer dies before, the next message of the node, or its loss, fails the group.
        let membership = &mut self.memberships[index];
        membership.slot = slot::word(slot::generation(membership.slot), status::FAILED);
    }

    /// Takes the outcome of an operation that is over. None: it is not over, or was taken.
    pub fn take(&mut self, handle: u64, number: u64) -> Option<Result<(), Failure>> {
        let index = self.find(handle)?;
        let completed = self.memberships[index].completed;
        let record =
            self.record(index, number).filter(|record| record.state == state::OVER && record.number == number)?;
        let failure = Failure::from_u8(record.failure as u8);
        if record.distribution > Distribution::Alone as u32 && number >= completed {
            record.state = state::TAKEN;
        } else {
            *record = Started::default();
            self.memberships[index].completed = completed.max(number.wrapping_add(1));
        }
        Some(failure.map_or(Ok(()), Err))
    }

    /// Whether an operation is over and was not taken.
    pub fn is_over(&mut self, handle: u64, number: u64) -> bool {
        let record = self.find(handle).and_then(|index| self.record(index, number));
        record.is_some_and(|record| record.state == state::OVER && record.number == number)
    }

    /// The state of a group. None: there is no such membership.
    pub fn state(&self, handle: u64) -> Option<GroupState> {
        let membership = &self.memberships[self.find(handle)?];
        Some(match slot::status(membership.slot) {
            status::READY => GroupState::Ready { credits: membership.credits, bytes: membership.bytes },
            status::FAILED => GroupState::Failed(membership.failure()),
            _ => GroupState::Joining,
        })
    }

    /// Leaves a group, or stops waiting for a result. Returns the message to the node, if one is due. If operations are
    /// under way, the group fails at the other members.
    pub fn leave(&mut self, handle: u64) -> Option<(u64, Message)> {
        let index = self.find(handle)?;
        let Membership { slot, job, number, node, .. } = self.memberships[index];
        let generation = slot::generation(slot).wrapping_add(1);
        self.memberships[index] = Membership { slot: slot::word(generation, slot::FREE), ..Membership::default() };
        let is_member = slot::status(slot) != status::EXPECTING;
        is_member.then_some((node, Message::Leave(Child { job, number, handle })))
    }

    fn records_each(&self) -> usize {
        self.started.len().checked_div(self.memberships.len()).unwrap_or(0)
    }

    fn records(&mut self, index: usize) -> &mut [Started] {
        let each = self.records_each();
        self.started.get_mut(index * each..(index + 1) * each).unwrap_or_default()
    }

    fn record(&mut self, index: usize, number: u64) -> Option<&mut Started> {
        let credits = self.memberships[index].credits.max(1);
        let place = number % u64::from(credits);
        self.records(index).get_mut(place as usize)
    }

    fn find_free(&self) -> Option<(usize, u32)> {
        let index = self.memberships.iter().position(|record| slot::status(record.slot) == slot::FREE)?;
        Some((index, slot::generation(self.memberships[index].slot)))
    }

    fn find(&self, handle: u64) -> Option<usize> {
        let index = handle as u32 as usize;
        let record = self.memberships.get(index)?;
        let is_it = slot::status(record.slot) != slot::FREE && records::handle(index, record.slot) == handle;
        is_it.then_some(index)
    }

    /// The membership that a message is for. Job and leaf node must match; a result for a target comes from any node.
    fn find_for(&self, sender: Sender, handle: u64) -> Result<usize, Failure> {
        let index = self.find(handle).ok_or(Failure::NoGroup)?;
        let record = &self.memberships[index];
        let is_from_node = record.node == sender.address || slot::status(record.slot) == status::EXPECTING;
        if record.key == sender.key && is_from_node { Ok(index) } else { Err(Failure::NoGroup) }
    }
}

impl Membership {
    fn failure(&self) -> Failure {
        Failure::from_u8(self.failure as u8).unwrap_or(Failure::NoGroup)
    }
}

const _: () = {
    assert!(size_of::<Membership>() == 72);
    assert!(size_of::<Started>() == 32);
};
