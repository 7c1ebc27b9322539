// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Triggered operations (Portals 4.3, "Triggered Operations"; seed 000, section 2.5).
//!
//! An operation waits in its counter's list. The list is sorted by threshold; operations with equal thresholds keep the
//! order in which they were armed. When successes and failures together reach the threshold, the operation moves to the
//! NIC's fire queue. The process that drains the fire queue runs operations on counters and entries at once. It
//! receives the operations that move data as commands, because they need other NICs, and it holds no other lock while
//! it runs them.
//!
//! 1. A slot is FREE, ARMED (in one counter's list), QUEUED (in the fire queue) or FIRING (a process runs it;
//!    `executor` names the process). It counts against the limit until it is finished.
//! 2. `threshold_next` of a counter is the threshold of the head of its list.
//! 3. An operation runs at most once. If its executor dies, it fails ([`crate::portals::recover`]).
//!
//! Cost: arming is O(1) if thresholds do not fall from one operation to the next; firing is O(1) per operation.

use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use core::sync::atomic::compiler_fence;

use super::constants::{event_kind, list};
use super::counters::Counters;
use super::errors::{ArmError, CounterError, Revoking};
use super::event::{Event, entry_event, header_event};
use super::scatter::Region;
use crate::bus::{Bus, Fault};
use crate::errors::Full;
use crate::handle::NONE;
use crate::nic::Nic;
use crate::registers::Register;
use crate::signals::{Counter, LANES};
use crate::tables::{Command, Entry, Header, Triggered, entry, kind, slot, triggered};
use crate::tap::Transition;

pub use super::action::{Action, Armed};

/// An operation that is due.
#[derive(Clone, Copy, Debug)]
pub struct Fired {
    /// Its slot, for [`TriggeredOperations::finish_fired`].
    pub index: u32,
    pub command: Command,
}

/// Value of `list`: the append is a receive.
const RECEIVES: u32 = 2;
/// Value of `list`: the operation sets the successes and keeps the failures.
const KEEPS_FAILURES: u32 = 1;
/// Value of `list`: the operation on a counter has begun. `command.source.start` has the successes that the counter's
/// record must hold, `command.sink.start` the failures.
const BOOKED: u32 = 3;
/// Bytes that a receive moves per step.
const CHUNK_BYTES: usize = 2048;

/// The queue for an operation's SEND event, or for its ACK or REPLY event (`response`).
fn report_queue(command: &Command, response: bool) -> u32 {
    match command.kind {
        kind::GET | kind::FETCH_ATOMIC | kind::SWAP if response => command.sink.queue,
        _ => command.source.queue,
    }
}

impl Counters<'_, '_> {
    /// Frees a counter; operations that wait for it are cancelled.
    pub fn free(self, reference: u32) -> Result<(), CounterError> {
        if self.nic.tap.is_open() {
            return self.nic.tapped(
                |nic| nic.counters().free(reference),
                |done| Some(Transition::CounterFree { counter: reference, is_done: done.is_ok() }),
            );
        }
        self.nic.counters().book(reference).ok_or(CounterError::Invalid)?;
        self.nic.grants().revoke_at_counter(reference)?;
        self.nic.triggered().cancel_all(reference).ok_or(CounterError::Invalid)?;
        let encoding = self.nic.signals.encodings.counters;
        let (index, generation) = encoding.decode(reference);
        let free = self.nic.tables.control.free_counter;
        let (_, book) = self.nic.counters().book(reference).ok_or(CounterError::Invalid)?;
        book.slot = slot::word(encoding.next_generation(generation), slot::FREE);
        book.next_free = slot::link(index, free);
        self.nic.signals.counters.get(index as usize).ok_or(CounterError::Invalid)?.slot.store(slot::FREE, Release);
        self.nic.tables.control.free_counter = index;
        Ok(())
    }
}

/// The triggered operations.
pub struct TriggeredOperations<'n, 'a> {
    pub(crate) nic: &'n mut Nic<'a>,
}

impl TriggeredOperations<'_, '_> {
    /// Whether another triggered operation fits.
    pub fn has_free_record(self) -> bool {
        self.nic.triggered().fit(1)
    }

    /// Whether `count` more triggered operations fit. O(count).
    pub fn fit(self, count: usize) -> bool {
        let mut at = self.nic.tables.control.free_triggered;
        for _ in 0..count {
            let Some(record) = self.nic.tables.triggered.get(at as usize) else { return false };
            at = slot::next(at, record.next);
        }
        true
    }

    /// Arms an operation: it runs when the counter reaches the threshold, which may be at once. Fails for an unknown
    /// counter, because nothing would ever free the operation. Fails also if senders count permanently in the counter's
    /// lanes, because lanes are not compared with thresholds. Lanes that belong to grants are revoked first.
    pub fn arm(self, counter: u32, threshold: u64, action: Action<'_>) -> Result<Armed, ArmError> {
        if self.nic.tap.is_open() {
            return self.nic.tapped(
                |nic| nic.triggered().arm(counter, threshold, action),
                |armed| {
                    let armed = armed.ok().map(Armed::pair);
                    Some(Transition::Arm { counter, threshold, action: action.into(), armed })
                },
            );
        }
        let index = self.nic.tables.control.free_triggered;
        if !self.nic.triggered().has_free_record() {
            return Err(ArmError::Full);
        }
        self.nic.grants().revoke_at_counter(counter)?;
        let in_lanes = self.nic.signals.counter(counter).ok_or(Full)?.in_lanes();
        match self.nic.counters().book(counter) {
            Some((_, book)) if book.lane_owners == [0; LANES] => book.lanes_when_armed = in_lanes,
            _ => return Err(ArmError::Full),
        }
        let sequence = self.nic.tables.control.next_sequence();
        let record = self.nic.tables.triggered.get_mut(index as usize).ok_or(Full)?;
        self.nic.tables.control.free_triggered = slot::next(index, record.next);
        let generation = slot::generation(record.slot);
        let mut fresh = Triggered {
            slot: slot::word(generation, slot::FREE),
            counter,
            threshold,
            next: NONE,
            prev: NONE,
            sequence,
            ..Triggered::default()
        };
        match action {
            Action::Command(command) => fresh.command = *command,
            Action::CounterSet { counter, success, failure } => {
                fresh.command.request.kind = kind::COUNTER_SET;
                (fresh.object, fresh.success, fresh.failure) = (counter, success, failure);
            }
            Action::CounterIncrement { counter, success, failure } => {
                fresh.command.request.kind = kind::COUNTER_INCREMENT;
                (fresh.object, fresh.success, fresh.failure) = (counter, success, failure);
            }
            Action::CounterSuccess { counter, success } => {
                fresh.command.request.kind = kind::COUNTER_SET;
                (fresh.object, fresh.success, fresh.list) = (counter, success, KEEPS_FAILURES);
            }
            Action::Receive { entry, queue } => {
                fresh.command.request.kind = kind::APPEND;
                (fresh.object, fresh.list, fresh.command.source.queue) = (entry, RECEIVES, queue);
            }
            Action::Append { entry, list } => {
                fresh.command.request.kind = kind::APPEND;
                (fresh.object, fresh.list) = (entry, list.into());
            }
            Action::Unlink { entry } => {
                fresh.command.request.kind = kind::UNLINK;
                fresh.object = entry;
            }
        }
        *record = fresh;
        record.slot = slot::word(generation, triggered::ARMED);
        self.nic.counters().chain_armed(index);
        if self.nic.counters().book(counter).is_some_and(|(_, book)| book.reached() >= threshold) {
            self.nic.counters().threshold_reached(counter);
        }
        Ok(Armed { index, generation })
    }

    /// Runs the due operations up to the first one that moves data, and returns that one. `executor` names the process
    /// that runs it and then calls [`TriggeredOperations::finish_fired`]. An operation that needs grants revoked stays
    /// at the head of the queue; the ones before it have run.
    pub fn next_fired<B: Bus>(self, bus: &mut B, executor: u64) -> Result<Option<Fired>, Revoking> {
        if self.nic.tap.is_open() && self.nic.has_fired() {
            return self.nic.tapped_quietly(
                |nic| nic.triggered().next_fired(bus, executor),
                |fired| {
                    let fired = fired.ok()?.map(|fired| (fired.index, fired.command));
                    Some(Transition::Fire { fired })
                },
            );
        }
        while let Some(fired) = self.nic.triggered().next_due(executor)? {
            match fired.command.kind {
                kind::COUNTER_SET | kind::COUNTER_INCREMENT | kind::APPEND | kind::UNLINK => {
                    self.nic.triggered().run_local(bus, fired.index);
                    self.nic.triggered().finish_fired(fired.index);
                }
                _ => return Ok(Some(fired)),
            }
        }
        Ok(None)
    }

    /// Takes the next operation of any kind out of the fire queue, for a caller that orders them itself
    /// ([`TriggeredOperations::run_local`], or the command) and then calls [`TriggeredOperations::finish_fired`].
    ///
    /// # Errors
    /// As [`TriggeredOperations::next_fired`].
    pub fn next_due(self, executor: u64) -> Result<Option<Fired>, Revoking> {
        let index = self.nic.tables.control.fire_head;
        let Some(record) = self.nic.tables.triggered.get(index as usize) else { return Ok(None) };
        if slot::status(record.slot) != triggered::QUEUED {
            self.nic.tables.control.fire_head = NONE;
            self.nic.tables.control.fire_tail = NONE;
            return Ok(None);
        }
        self.nic.grants().revoke_for(index)?;
        let record = &mut self.nic.tables.triggered[index as usize];
        // The executor first: a running operation of another process would never be failed if this one died in between.
        record.executor = executor;
        compiler_fence(SeqCst);
        record.slot = slot::word(slot::generation(record.slot), triggered::FIRING);
        let record = *record;
        self.nic.tables.control.fire_head = record.next;
        if self.nic.tables.triggered.get(record.next as usize).is_none() {
            self.nic.tables.control.fire_head = NONE;
            self.nic.tables.control.fire_tail = NONE;
        }
        let fired = &self.nic.signals.doorbell.fired;
        fired.store(fired.load(Relaxed).saturating_sub(1), Release);
        self.nic.signals.registers.add(Register::TriggeredFired, 1);
        Ok(Some(Fired { index, command: record.command }))
    }

    /// Runs an operation on a counter or an entry. It is idempotent if this process dies before the slot is free. The
    /// grants that it needs revoked are revoked: the check took place under this same lock, when the operation left the
    /// fire queue.
    pub fn run_local<B: Bus>(self, bus: &mut B, index: u32) {
        let Some(&record) = self.nic.tables.triggered.get(index as usize) else { return };
        match record.command.kind {
            kind::COUNTER_SET | kind::COUNTER_INCREMENT => self.nic.triggered().run_on_counter(index, &record),
            kind::APPEND if record.list == RECEIVES => {
                self.nic.triggered().receive_reserved(bus, record.object, record.command.source.queue);
            }
            kind::APPEND => self.nic.lists().link_reserved(bus, record.object, record.list as u8),
            _ => {
                let _ = self.nic.lists().unlink(record.object);
            }
        }
    }

    /// Sets or increments a counter. It first notes the values that the counter's record must hold, so that recovery
    /// can store them again if the executor dies. Concurrent counts in lanes are kept.
    fn run_on_counter(self, index: u32, record: &Triggered) {
        let object = record.object;
        if record.list == BOOKED {
            return self.nic.counters().set_booked(object, record.command.source.start, record.command.sink.start);
        }
        let in_lanes = self.nic.signals.counter(object).map_or(0, Counter::in_lanes);
        let Some((_, book)) = self.nic.counters().book(object) else { return };
        let (success, failure) = match record.command.kind {
            kind::COUNTER_INCREMENT => {
                (book.success.wrapping_add(record.success), book.failure.wrapping_add(record.failure))
            }
            _ if record.list == KEEPS_FAILURES => (record.success.wrapping_sub(in_lanes), book.failure),
            _ => (record.success.wrapping_sub(in_lanes), record.failure),
        };
        let record = &mut self.nic.tables.triggered[index as usize];
        (record.command.source.start, record.command.sink.start) = (success, failure);
        compiler_fence(SeqCst);
        record.list = BOOKED;
        compiler_fence(SeqCst);
        self.nic.counters().set_booked(object, success, failure);
    }

    fn receive_reserved<B: Bus>(self, bus: &mut B, reference: u32, queue: u32) {
        let Some(index) = self.nic.entry_index(reference) else { return };
        let record = self.nic.tables.entries[index as usize];
        if slot::status(record.slot) != entry::RESERVED {
            return;
        }
        let Some(found) = self.nic.match_queue().find_header(bus, u32::from(record.portal), &(&record).into()) else {
            return self.nic.lists().link_reserved(bus, reference, list::PRIORITY);
        };
        let header = self.nic.tables.headers[found.index as usize];
        let mlength = header.mlength.min(record.length);
        if header.token != 0 || self.nic.triggered().move_unexpected(bus, &header, &record, mlength).is_err() {
            self.nic.queues().post(queue, &entry_event(&record, event_kind::SEARCH, list::OVERFLOW));
            return self.nic.lists().free_entry(index);
        }
        let event = Event { start: record.start, mlength, ..header_event(&header, record.user_ptr) };
        self.nic.queues().post(queue, &event);
        self.nic.counters().count_outcome(record.counter, true, false, mlength);
        self.nic.lists().drop_found(found);
        self.nic.lists().free_entry(index);
    }

    /// Moves the payload of an unexpected message to an entry's memory. Both memories belong to the NIC's owner.
    fn move_unexpected<B: Bus>(self, bus: &mut B, header: &Header, record: &Entry, mlength: u64) -> Result<(), Fault> {
        let region = Region { start: record.start, iov: record.iov, iov_count: record.iov_count };
        region.pieces(self.nic.signals.heap, 0, mlength, Fault::Target, |address, at, bytes| {
            let mut done = 0;
            while done < bytes {
                let mut chunk = [0; CHUNK_BYTES];
                let step = (bytes - done).min(CHUNK_BYTES as u64);
                let chunk = &mut chunk[..step as usize];
                bus.read(header.start.wrapping_add(at + done), chunk)?;
                bus.write(address.wrapping_add(done), chunk)?;
                done += step;
            }
            Ok(())
        })
    }

    /// Whether this operation changes a counter or an entry, so that it needs no other NIC.
    pub(crate) fn is_local(kind: u8) -> bool {
        matches!(kind, kind::COUNTER_SET | kind::COUNTER_INCREMENT | kind::APPEND | kind::UNLINK)
    }

    /// Puts an operation back at the head of the fire queue, because its executor cannot run it. The owner must run it.
    pub fn return_fired(self, index: u32) {
        let head = self.nic.tables.control.fire_head;
        let Some(record) = self.nic.tables.triggered.get_mut(index as usize) else { return };
        record.slot = slot::word(slot::generation(record.slot), triggered::QUEUED);
        (record.next, record.prev, record.executor) = (head, NONE, 0);
        self.nic.tables.control.fire_head = index;
        if self.nic.tables.triggered.get(head as usize).is_none() {
            self.nic.tables.control.fire_tail = index;
        }
        let bell = self.nic.signals.doorbell;
        bell.fired.store(bell.fired.load(Relaxed).wrapping_add(1), Release);
        bell.owner_wanted.store(1, Release);
    }

    /// Notes that the SEND event, or the ACK or REPLY event (`response`), of a running operation is about to be
    /// written. If the executor dies, recovery can find the missing ones ([`Nic::fail_orphans`]). Does nothing for
    /// `NONE`.
    #[inline(always)]
    pub fn begin_report(self, index: u32, command: &Command, response: bool) {
        if index != NONE {
            self.nic.triggered().note_report(index, command, response);
        }
    }

    #[cold]
    fn note_report(self, index: u32, command: &Command, response: bool) {
        let tail = self.nic.queues().tail(report_queue(command, response)) + 1;
        let Some(record) = self.nic.tables.triggered.get_mut(index as usize) else { return };
        compiler_fence(SeqCst);
        // Operations that move data do not use these two fields otherwise.
        match response {
            false => record.success = tail,
            true => record.failure = tail,
        }
        compiler_fence(SeqCst);
    }

    /// The completions of an operation that were posted before its executor died: SEND; ACK or REPLY.
    pub(crate) fn reported(self, record: &Triggered) -> (bool, bool) {
        let since = |nic: &mut Nic<'_>, response| nic.queues().tail(report_queue(&record.command, response)) + 1;
        let responded = record.failure != 0 && since(self.nic, true) != record.failure;
        (record.failure != 0 || (record.success != 0 && since(self.nic, false) != record.success), responded)
    }

    /// Frees the slot of an operation that this executor has run and completed.
    #[inline(always)]
    pub fn finish_run(self, index: u32, executor: u64) {
        if let Some(record) = self.nic.tables.triggered.get(index as usize) {
            if slot::status(record.slot) == triggered::FIRING && record.executor == executor {
                self.nic.triggered().finish_fired(index);
            }
        }
    }

    /// Frees the slot of an operation that has run.
    pub fn finish_fired(self, index: u32) {
        let Some(record) = self.nic.tables.triggered.get_mut(index as usize) else { return };
        if slot::status(record.slot) == slot::FREE {
            return;
        }
        if self.nic.tap.is_open() {
            return self.nic.tapped(|nic| nic.triggered().finish_fired(index), |()| Some(Transition::Finish { index }));
        }
        record.slot = slot::word(slot::generation(record.slot).wrapping_add(1) & 0xff_ffff, slot::FREE);
        record.next = slot::link(index, self.nic.tables.control.free_triggered);
        self.nic.tables.control.free_triggered = index;
    }

    /// Cancels all operations that wait for a counter (`PtlCTCancelTriggered`).
    pub fn cancel_all(self, reference: u32) -> Option<()> {
        if self.nic.tap.is_open() {
            return self.nic.tapped(
                |nic| nic.triggered().cancel_all(reference),
                |done| Some(Transition::CancelTriggered { counter: reference, is_done: done.is_some() }),
            );
        }
        self.nic.counters().book(reference)?;
        for _ in 0..=self.nic.tables.triggered.len() {
            let head = self.nic.counters().book(reference)?.1.armed_head;
            let Some(&record) = self.nic.tables.triggered.get(head as usize) else { break };
            self.nic.counters().unlink_armed_head(reference, record.next);
            self.nic.triggered().drop_unlinked(head);
        }
        Some(())
    }

    /// Cancels one operation. False: it is due, has run, or was cancelled.
    pub fn cancel(self, armed: Armed) -> bool {
        if self.nic.tap.is_open() {
            return self.nic.tapped(
                |nic| nic.triggered().cancel(armed),
                |&is_done| Some(Transition::CancelArmed { armed: armed.pair(), is_done }),
            );
        }
        let Some(&record) = self.nic.tables.triggered.get(armed.index as usize) else { return false };
        if record.slot != slot::word(armed.generation, triggered::ARMED) {
            return false;
        }
        match self.nic.tables.triggered.get_mut(record.prev as usize) {
            None => self.nic.counters().unlink_armed_head(record.counter, record.next),
            Some(before) => {
                before.next = record.next;
                match self.nic.tables.triggered.get_mut(record.next as usize) {
                    Some(behind) => behind.prev = record.prev,
                    None => {
                        if let Some((_, book)) = self.nic.counters().book(record.counter) {
                            book.armed_tail = record.prev;
                        }
                    }
                }
            }
        }
        self.nic.triggered().drop_unlinked(armed.index);
        true
    }

    /// Whether an operation still waits for its counter.
    pub fn is_armed(&self, armed: Armed) -> bool {
        let record = self.nic.tables.triggered.get(armed.index as usize);
        record.is_some_and(|record| record.slot == slot::word(armed.generation, triggered::ARMED))
    }

    /// Frees a cancelled operation, and the entry that it reserved.
    fn drop_unlinked(self, index: u32) {
        let Some(&record) = self.nic.tables.triggered.get(index as usize) else { return };
        if record.command.kind == kind::APPEND {
            // Free the entry only if it was never in a list: the program may have named another entry.
            let entries = &self.nic.tables.entries;
            let reserved = |&index: &u32| slot::status(entries[index as usize].slot) == entry::RESERVED;
            if let Some(entry) = self.nic.entry_index(record.object).filter(reserved) {
                self.nic.lists().free_entry(entry);
            }
        }
        self.nic.triggered().finish_fired(index);
    }
}
