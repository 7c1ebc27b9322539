// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Deferred work (fi_trigger(3)): triggered operations of the NIC.
//!
//! A work is armed on its triggering counter. The process that makes the counter reach the threshold runs the work. The
//! work then counts at its completion counter, which may start the next work. The program takes no part in this. Each
//! command posts an event. The program's next call reads it, writes the completion if one is wanted, and frees what the
//! work held.
//!
//! How each work counts once at its completion counter
//!
//! | work | counted by |
//! |---|---|
//! | read, write or atomic of one command | its acknowledgement or reply |
//! | the same of several commands, or with a notification | a hidden counter; its last count adds one to the real one |
//! | small send | its acknowledgement; a target without room is tried again |
//! | send above `ring_max` | the first count at a hidden counter: bytes that the receive took, or a payload fetch |
//! | receive | its delivery; the process that starts the receive copies an unexpected message into its buffer |
//!
//! Invariants
//! 1. At most [`EVENTS_MAX`] events of unfinished works are outstanding. The queue has room for them beside all others.
//! 2. The commands of one work fire together: they were armed under one lock, for one threshold.
//! 3. A work whose commands are armed can be cancelled and leaves nothing. After they have fired it ends as other
//!    operations do.
//!
//! This file keeps the records, arms works and cancels them. `queue` makes the commands of each kind of work, and `end`
//! handles their outcome.
//!
//! Limits: failures are counted at the program's next call, except those of single reads, writes and atomics. The same
//! holds for a receive that matches the header of a message above its sender's `ring_max`, because its payload must be
//! fetched. The comparand of an atomic is read when the work is queued, because the NIC's commands carry it. Deferred
//! sends have no order relative to other sends.

mod end;
mod queue;

use std::ffi::c_int;

use libc::iovec;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::descriptor::DescriptorView;
use selvedge_nic::portals::triggered::Action;
use selvedge_nic::portals::{EntrySpec, options};
use selvedge_nic::tables::Side as Memory;

use crate::bindings::Bindings;
use crate::flags::{EAGAIN, EINVAL, EMSGSIZE};
use crate::operation::Operation;
use crate::ticket::Ticket;
use crate::transport::Transport;
use crate::work::{Counted, Deferred, EVENTS_MAX, Queued, Role, Work};

impl Transport {
    // ---- arming ----

    /// Records a work that moves data, if there is room for all events that it may have.
    fn begin_work(
        &mut self,
        work: &Work,
        ticket: &Ticket,
        events: u32,
        hides: bool,
        counted: Counted,
        target: (u64, u64),
        role: Role,
    ) -> Result<usize, c_int> {
        if events > EVENTS_MAX / 2 {
            return Err(EMSGSIZE);
        }
        if self.works.awaited + events > EVENTS_MAX {
            return Err(EAGAIN);
        }
        let hidden = match hides {
            true => self.interface.lock().counters().alloc().map_err(|_| EAGAIN)?,
            false => NONE,
        };
        self.works.awaited += events;
        Ok(self.operations.insert(Operation::Deferred(Box::new(Deferred {
            ticket: *ticket,
            entry: None,
            counter: work.counter,
            hidden,
            counted,
            awaited: events,
            left: events,
            trying: false,
            error: 0,
            descriptors: Vec::new(),
            target,
            role,
        }))))
    }

    /// The hidden counter of a work, or NONE.
    fn hidden(&self, number: usize) -> u32 {
        match self.operations.get(number) {
            Some(Operation::Deferred(deferred)) => deferred.hidden,
            _ => NONE,
        }
    }

    /// Arms actions on a work's counter, and the chained ones on its hidden counter: all or none.
    fn arm(
        &mut self,
        work: &Work,
        number: Option<usize>,
        actions: &[Action<'_>],
        (hidden, reached, chain): (u32, u64, &[Action<'_>]),
    ) -> c_int {
        self.sweep_works();
        let mut armed = Vec::with_capacity(actions.len());
        let fired = {
            let mut nic = self.interface.lock();
            if !nic.triggered().fit(actions.len() + chain.len()) {
                return -EAGAIN;
            }
            for action in chain {
                if nic.with_revocation(|nic| nic.triggered().arm(hidden, reached, *action)).is_err() {
                    return -EINVAL;
                }
            }
            for action in actions {
                match nic.with_revocation(|nic| nic.triggered().arm(work.trigger, work.threshold, *action)) {
                    Ok(one) => armed.push(one),
                    // The first one failed: there is no such counter.
                    Err(_) => return -EINVAL,
                }
            }
            nic.has_fired()
        };
        self.works.queued.push(Queued { id: work.id, trigger: work.trigger, armed, number });
        self.interface.settle(fired);
        0
    }

    /// Removes, now and then, the works that can no longer be cancelled.
    fn sweep_works(&mut self) {
        if self.works.queued.len() < self.works.sweep_at {
            return;
        }
        let mut nic = self.interface.lock();
        self.works.queued.retain(|queued| queued.armed.iter().any(|&one| nic.triggered().is_armed(one)));
        self.works.sweep_at = 2 * self.works.queued.len() + 64;
    }

    /// Describes our memory for commands, in as many pieces as it has. None: no room for an I/O vector.
    fn memory(&mut self, number: usize, pieces: &[iovec]) -> Option<Memory> {
        let start = pieces.first().map_or(0, |piece| piece.iov_base as u64);
        if pieces.len() < 2 {
            return Some(Memory { start, ..Memory::NOWHERE });
        }
        let (iov, iov_count) = (self.store_vector(pieces)?, pieces.len() as u32);
        let view =
            DescriptorView { start: 0, length: u64::MAX, options: 0, queue: NONE, counter: NONE, iov, iov_count };
        let mut nic = self.interface.lock();
        let Ok(descriptor) = nic.descriptors().bind(&view) else {
            nic.heap().free_iov(iov);
            return None;
        };
        if let Some(Operation::Deferred(deferred)) = self.operations.get_mut(number) {
            deferred.descriptors.push(descriptor);
        }
        Some(Memory { iov, iov_count, ..Memory::NOWHERE })
    }

    /// A match entry over memory in several pieces.
    fn with_vector(&self, spec: EntrySpec, pieces: &[iovec]) -> Option<EntrySpec> {
        if pieces.len() < 2 {
            return Some(spec);
        }
        let (iov, iov_count) = (self.store_vector(pieces)?, pieces.len() as u32);
        Some(EntrySpec { options: spec.options | options::IOVEC, start: 0, iov, iov_count, ..spec })
    }

    fn store_vector(&self, pieces: &[iovec]) -> Option<u32> {
        loop {
            let vectors = pieces.iter().map(|piece| (piece.iov_base as u64, piece.iov_len as u64));
            match self.interface.lock().heap().store_iov(vectors) {
                Ok(iov) => return Some(iov),
                Err(_) if self.interface.grow_heap(1) => {}
                Err(_) => return None,
            }
        }
    }

    // ---- cancelling ----

    /// Cancels a work that has not fired. False: there is none.
    pub fn cancel_work(&mut self, id: usize) -> bool {
        self.cancel_works(|queued| queued.id == id) != 0
    }

    /// Cancels the works that wait for this counter, or all.
    pub fn flush_works(&mut self, trigger: Option<u32>) {
        self.cancel_works(|queued| trigger.is_none_or(|trigger| queued.trigger == trigger));
    }

    /// Removes all works of an endpoint.
    pub fn close_works(&mut self, bindings: *mut Bindings) {
        let numbers: Vec<usize> = self
            .operations
            .iter()
            .filter(|(_, operation)| matches!(operation, Operation::Deferred(work) if work.ticket.bindings == bindings))
            .map(|(number, _)| number)
            .collect();
        if numbers.is_empty() {
            return;
        }
        self.cancel_works(|queued| queued.number.is_some_and(|number| numbers.contains(&number)));
        for number in numbers {
            self.release_work(number);
        }
    }

    fn cancel_works(&mut self, picks: impl Fn(&Queued) -> bool) -> usize {
        let mut cancelled = Vec::new();
        {
            let mut nic = self.interface.lock();
            self.works.queued.retain(|queued| {
                if !picks(queued) {
                    return true;
                }
                let mut any = false;
                for &one in &queued.armed {
                    any |= nic.triggered().cancel(one);
                }
                if any {
                    cancelled.push(queued.number);
                }
                false
            });
        }
        for number in cancelled.iter().flatten() {
            self.release_work(*number);
        }
        cancelled.len()
    }

    /// Removes the record of a work and frees what it held.
    fn release_work(&mut self, number: usize) -> Option<Box<Deferred>> {
        if !matches!(self.operations.get(number), Some(Operation::Deferred(_))) {
            return None;
        }
        let Operation::Deferred(work) = self.operations.remove(number) else { return None };
        self.works.awaited -= work.awaited;
        self.works.trying -= u32::from(work.trying);
        self.unlink(work.entry);
        let mut nic = self.interface.lock();
        for &descriptor in &work.descriptors {
            nic.descriptors().release(descriptor);
        }
        if work.hidden != NONE {
            let _ = nic.with_revocation(|nic| nic.counters().free(work.hidden));
        }
        drop(nic);
        Some(work)
    }
}
