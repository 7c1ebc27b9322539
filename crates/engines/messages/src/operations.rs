// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of operations in flight, by number.
//!
//! Invariants
//! 1. `sends` is the number of sends in the table. Its limit is `sends_max`, because each may bring events.
//! 2. The memory of an operation is in `sources` or `sinks` while peers may get or write it.

use selvedge_nic::handle::NONE;
use slab::Slab;

use crate::message::Outgoing;
use crate::operation::{Buffer, Operation};
use crate::posted::{Fetch, Multi, PostedReceive};
use crate::ticket::Ticket;
use crate::transfer::{Note, PendingAccess, Staging};
use crate::units::spans::Spans;
use crate::work::Deferred;

/// Largest number of messages and operations in flight. Beyond it the program gets
/// [`Refusal::NoRoom`](crate::error::Refusal).
pub(crate) const SENDS_MAX: u32 = 2048;

pub(crate) struct Operations {
    list: Slab<Operation>,
    sends: u32,
    sends_max: u32,
    token_next: u32,
    /// The memory of sends whose payload peers get, and the memory of fetches.
    pub sources: Spans,
    pub sinks: Spans,
}

impl Operations {
    /// `sends_max`: at most [`SENDS_MAX`], as the NIC's queue has room for their events.
    pub fn new(sends_max: u32) -> Operations {
        let (sources, sinks) = (Spans::default(), Spans::default());
        Operations { list: Slab::with_capacity(1024), sends: 0, sends_max, token_next: 1, sources, sinks }
    }

    /// The number that the next operation gets.
    #[inline]
    pub fn next_number(&self) -> usize {
        self.list.vacant_key()
    }

    /// Adds an operation other than a send. Returns its number.
    #[inline]
    pub fn insert(&mut self, operation: Operation) -> usize {
        self.list.insert(operation)
    }

    #[inline(always)]
    pub fn get(&self, number: usize) -> Option<&Operation> {
        self.list.get(number)
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, &Operation)> {
        self.list.iter()
    }

    /// Keeps only the operations for which `keeps` is true.
    pub fn retain(&mut self, keeps: impl Fn(&Operation) -> bool) {
        self.list.retain(|_, operation| keeps(operation));
        let Operations { list, sources, sinks, .. } = self;
        self.sends = list.iter().filter(|(_, operation)| matches!(operation, Operation::Send(_))).count() as u32;
        sources.retain(|number| matches!(list.get(number), Some(Operation::Send(_))));
        sinks.retain(|number| matches!(list.get(number), Some(Operation::Fetch(_))));
    }

    // ---- receives ----

    #[inline(always)]
    pub fn receive(&mut self, number: usize) -> Option<&mut PostedReceive> {
        match self.list.get_mut(number) {
            Some(Operation::Receive(posted)) => Some(posted),
            _ => None,
        }
    }

    #[inline(always)]
    pub fn take_receive(&mut self, number: usize) -> Option<PostedReceive> {
        self.receive(number)?;
        match self.list.remove(number) {
            Operation::Receive(posted) => Some(posted),
            _ => None,
        }
    }

    /// The record of a receive for many messages, if the operation is one.
    pub fn multi(&mut self, number: usize) -> Option<&mut Multi> {
        self.receive(number)?.multi.as_mut()
    }

    /// Whether an operation is a receive for many messages.
    pub fn is_multi(&self, number: usize) -> bool {
        matches!(self.get(number), Some(Operation::Receive(posted)) if posted.multi.is_some())
    }

    /// Whether an operation is a fetch.
    pub fn is_fetch(&self, number: usize) -> bool {
        matches!(self.get(number), Some(Operation::Fetch(_)))
    }

    pub fn fetch(&mut self, number: usize) -> Option<&mut Fetch> {
        match self.list.get_mut(number) {
            Some(Operation::Fetch(fetch)) => Some(fetch),
            _ => None,
        }
    }

    pub fn take_fetch(&mut self, number: usize) -> Option<Box<Fetch>> {
        match self.list.try_remove(number) {
            Some(Operation::Fetch(fetch)) => Some(fetch),
            _ => None,
        }
    }

    // ---- sends ----

    pub fn has_room_for_send(&self) -> bool {
        self.sends < self.sends_max
    }

    pub fn insert_send(&mut self, outgoing: Outgoing) -> usize {
        self.sends += 1;
        self.list.insert(Operation::Send(Box::new(outgoing)))
    }

    #[inline]
    pub fn send(&mut self, number: usize) -> Option<&mut Outgoing> {
        match self.list.get_mut(number) {
            Some(Operation::Send(outgoing)) => Some(outgoing),
            _ => None,
        }
    }

    pub fn take_send(&mut self, number: usize) -> Option<Box<Outgoing>> {
        self.send(number)?;
        let Operation::Send(outgoing) = self.list.remove(number) else { return None };
        self.sends -= 1;
        if let Some((_, nla)) = &outgoing.region {
            self.sources.remove(outgoing.target.0, *nla);
        }
        Some(outgoing)
    }

    /// All sends, with their numbers.
    pub fn all_sends(&self) -> impl Iterator<Item = (usize, &Outgoing)> {
        self.list.iter().filter_map(|(number, operation)| match operation {
            Operation::Send(outgoing) => Some((number, &**outgoing)),
            _ => None,
        })
    }

    pub fn all_sends_mut(&mut self) -> impl Iterator<Item = (usize, &mut Outgoing)> {
        self.list.iter_mut().filter_map(|(number, operation)| match operation {
            Operation::Send(outgoing) => Some((number, &mut **outgoing)),
            _ => None,
        })
    }

    /// The sends whose payload peers fetch over RMA.
    pub fn sends_over_units(&self) -> impl Iterator<Item = (usize, &Outgoing)> {
        self.all_sends().filter(|(_, outgoing)| outgoing.token != 0)
    }

    /// A new token for a payload that waits here.
    pub fn new_token(&mut self) -> u32 {
        let token = self.token_next;
        self.token_next = self.token_next.wrapping_add(1).max(1);
        token
    }

    // ---- accesses ----

    /// Begins an access. It counts one extra request until all are launched.
    pub fn begin_access(&mut self, ticket: Ticket, peer: u32, note: Option<Note>) -> usize {
        self.insert(Operation::Access(Box::new(PendingAccess {
            ticket,
            peer,
            left: 1,
            error: None,
            staging: Staging::default(),
            note,
            was_refused: false,
            over_units: None,
        })))
    }

    #[inline(always)]
    pub fn access(&mut self, number: usize) -> Option<&mut PendingAccess> {
        match self.list.get_mut(number) {
            Some(Operation::Access(pending)) => Some(pending),
            _ => None,
        }
    }

    pub fn take_access(&mut self, number: usize) -> Option<Box<PendingAccess>> {
        self.access(number)?;
        match self.list.remove(number) {
            Operation::Access(pending) => Some(pending),
            _ => None,
        }
    }

    /// All accesses.
    pub fn all_accesses(&self) -> impl Iterator<Item = &PendingAccess> {
        self.list.iter().filter_map(|(_, operation)| match operation {
            Operation::Access(pending) => Some(&**pending),
            _ => None,
        })
    }

    /// Whether an operation is an access over the units.
    pub fn is_access_over_units(&self, number: usize) -> bool {
        matches!(self.get(number), Some(Operation::Access(pending)) if pending.over_units.is_some())
    }

    // ---- deferred work ----

    #[inline]
    pub fn work(&mut self, number: usize) -> Option<&mut Deferred> {
        match self.list.get_mut(number) {
            Some(Operation::Deferred(work)) => Some(work),
            _ => None,
        }
    }

    pub fn take_work(&mut self, number: usize) -> Option<Box<Deferred>> {
        self.work(number)?;
        match self.list.remove(number) {
            Operation::Deferred(work) => Some(work),
            _ => None,
        }
    }

    /// All works that move data, with their numbers.
    pub fn all_works(&self) -> impl Iterator<Item = (usize, &Deferred)> {
        self.list.iter().filter_map(|(number, operation)| match operation {
            Operation::Deferred(work) => Some((number, &**work)),
            _ => None,
        })
    }

    /// The hidden counter of a work, or NONE.
    pub fn hidden_counter(&mut self, number: usize) -> u32 {
        self.work(number).map_or(NONE, |work| work.hidden)
    }

    // ---- buffers for unexpected payload ----

    pub fn buffer(&mut self, number: usize) -> Option<&mut Buffer> {
        match self.list.get_mut(number) {
            Some(Operation::Buffer(buffer)) => Some(buffer),
            _ => None,
        }
    }

    /// The buffers of a portal table entry for which `picks` is true.
    pub fn buffers(&self, portal: u32, picks: impl Fn(&Buffer) -> bool) -> impl Iterator<Item = usize> {
        self.list.iter().filter_map(move |(number, operation)| match operation {
            Operation::Buffer(buffer) if buffer.portal == portal && picks(buffer) => Some(number),
            _ => None,
        })
    }

    /// Removes a buffer.
    pub fn drop_buffer(&mut self, number: usize) {
        if self.buffer(number).is_some() {
            self.list.remove(number);
        }
    }
}
