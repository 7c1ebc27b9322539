// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Deferred work (fi_trigger(3)): triggered operations of the NIC.
//!
//! A work is armed on its triggering counter. The process that brings the counter to the threshold runs the work. The
//! work then counts at its completion counter, which may start the next work. The program takes no part in this. Each
//! command posts an event. The program's next call reads it, writes a wanted completion, and frees the work's
//! resources.
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
//! 3. A work whose commands are armed can be cancelled and leaves nothing. Afterwards it ends as other operations do.
//!
//! This file records, arms and cancels works. `queue` makes their commands, `end` handles their outcome.
//!
//! Limits: failures are counted at the program's next call, except those of single reads, writes and atomics. The same
//! holds for a receive that matches the header of a message above its sender's `ring_max`, because its payload must be
//! fetched. The comparand of an atomic is read when the work is queued, because the NIC's commands carry it. Deferred
//! sends have no order relative to other sends.

mod end;
mod queue;

use std::collections::VecDeque;

use libc::iovec;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::descriptor::DescriptorView;
use selvedge_nic::portals::triggered::Action;
use selvedge_nic::tables::{Command, Side as Memory};

use crate::bindings::Bindings;
use crate::error::Refusal;
use crate::in_flight::InFlight;
use crate::operation::Operation;
use crate::own_nic::OwnNic;
use crate::ticket::Ticket;
use crate::units::Units;
use crate::work::{Counted, Deferred, EVENTS_MAX, Queued, Role, Work};

/// Largest number of commands started again at once. A target that had no room for one hardly has room for all.
const TRYING_MAX: u32 = 64;

#[derive(Default)]
pub(crate) struct Works {
    queued: Vec<Queued>,
    /// Outstanding events of unfinished works.
    awaited: u32,
    /// Commands refused by their target for lack of room.
    again: VecDeque<(usize, Command)>,
    /// The number of restarted commands that are unanswered.
    trying: u32,
    /// A counter whose threshold is already reached, for commands that are due at once.
    ready: Option<u32>,
    /// Length of `queued` at which fired works are removed.
    sweep_at: usize,
}

impl Works {
    /// Whether some commands must be started again.
    #[inline(always)]
    pub fn has_again(&self) -> bool {
        !self.again.is_empty() && self.trying < TRYING_MAX
    }

    // ---- arming ----

    /// Records a work that moves data, if there is room for all events that it may have. With `hides` it has a hidden counter.
    fn begin(
        &mut self,
        flight: &mut InFlight,
        work: &Work,
        ticket: &Ticket,
        (events, hides): (u32, bool),
        record: WorkRecord,
    ) -> Result<usize, Refusal> {
        if events > EVENTS_MAX / 2 {
            return Err(Refusal::TooLong);
        }
        if self.awaited + events > EVENTS_MAX {
            return Err(Refusal::NoRoom);
        }
        let hidden = match hides {
            true => flight.nic.interface.lock().counters().alloc().map_err(|_| Refusal::NoRoom)?,
            false => NONE,
        };
        self.awaited += events;
        let WorkRecord { counted, target, role } = record;
        Ok(flight.operations.insert(Operation::Deferred(Box::new(Deferred {
            ticket: *ticket,
            entry: None,
            counter: work.counter,
            hidden,
            counted,
            awaited: events,
            left: events,
            trying: false,
            error: None,
            descriptors: Vec::new(),
            target,
            role,
        }))))
    }

    /// Arms actions on a work's counter, and the chained ones on its hidden counter: all or none.
    fn arm(
        &mut self,
        nic: &OwnNic,
        (work, number): (&Work, Option<usize>),
        actions: &[Action<'_>],
        (hidden, reached, chain): (u32, u64, &[Action<'_>]),
    ) -> Result<(), Refusal> {
        self.sweep(nic);
        let mut armed = Vec::with_capacity(actions.len());
        let fired = {
            let mut locked = nic.interface.lock();
            if !locked.triggered().fit(actions.len() + chain.len()) {
                return Err(Refusal::NoRoom);
            }
            for action in chain {
                if locked.with_revocation(|nic| nic.triggered().arm(hidden, reached, *action)).is_err() {
                    return Err(Refusal::Invalid);
                }
            }
            for action in actions {
                match locked.with_revocation(|nic| nic.triggered().arm(work.trigger, work.threshold, *action)) {
                    Ok(one) => armed.push(one),
                    // The first one failed: there is no such counter.
                    Err(_) => return Err(Refusal::Invalid),
                }
            }
            locked.has_fired()
        };
        self.queued.push(Queued { id: work.id, trigger: work.trigger, armed, number });
        nic.interface.settle(fired);
        Ok(())
    }

    /// Removes at intervals the works that can no longer be cancelled.
    fn sweep(&mut self, nic: &OwnNic) {
        if self.queued.len() < self.sweep_at {
            return;
        }
        let mut nic = nic.interface.lock();
        self.queued.retain(|queued| queued.armed.iter().any(|&one| nic.triggered().is_armed(one)));
        self.sweep_at = 2 * self.queued.len() + 64;
    }

    // ---- cancelling ----

    /// Cancels a work that has not fired. False: there is no such work.
    pub fn cancel(&mut self, flight: &mut InFlight, id: usize) -> bool {
        self.cancel_some(flight, |queued| queued.id == id) != 0
    }

    /// Cancels the works that wait for this counter, or all.
    pub fn flush(&mut self, flight: &mut InFlight, trigger: Option<u32>) {
        self.cancel_some(flight, |queued| trigger.is_none_or(|trigger| queued.trigger == trigger));
    }

    /// Removes all works of an endpoint.
    pub fn forget_endpoint(&mut self, flight: &mut InFlight, bindings: *mut Bindings) {
        let works = flight.operations.all_works().filter(|(_, work)| work.ticket.bindings == bindings);
        let numbers: Vec<usize> = works.map(|(number, _)| number).collect();
        if numbers.is_empty() {
            return;
        }
        self.cancel_some(flight, |queued| queued.number.is_some_and(|number| numbers.contains(&number)));
        for number in numbers {
            self.release(flight, number);
        }
    }

    fn cancel_some(&mut self, flight: &mut InFlight, picks: impl Fn(&Queued) -> bool) -> usize {
        let mut cancelled = Vec::new();
        {
            let mut nic = flight.nic.interface.lock();
            self.queued.retain(|queued| {
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
            self.release(flight, *number);
        }
        cancelled.len()
    }

    /// Removes the record of a work and frees its resources.
    fn release(&mut self, flight: &mut InFlight, number: usize) -> Option<Box<Deferred>> {
        let work = flight.operations.take_work(number)?;
        self.awaited -= work.awaited;
        self.trying -= u32::from(work.trying);
        flight.nic.unlink(work.entry);
        let mut nic = flight.nic.interface.lock();
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

/// The parts that the end of a receive may need.
pub(crate) struct Parts<'a> {
    pub flight: &'a mut InFlight,
    pub units: Option<&'a mut Units>,
}

/// The fixed part of a work's record.
struct WorkRecord {
    counted: Counted,
    target: (u64, u64),
    role: Role,
}

impl InFlight {
    /// Describes our memory for the commands of a work, in as many pieces as it has. `None`: no room for an I/O vector.
    fn memory_of_work(&mut self, number: usize, pieces: &[iovec]) -> Option<Memory> {
        let start = pieces.first().map_or(0, |piece| piece.iov_base as u64);
        if pieces.len() < 2 {
            return Some(Memory { start, ..Memory::NOWHERE });
        }
        let (iov, iov_count) = (self.nic.store_vector(pieces)?, pieces.len() as u32);
        let view =
            DescriptorView { start: 0, length: u64::MAX, options: 0, queue: NONE, counter: NONE, iov, iov_count };
        let mut nic = self.nic.interface.lock();
        let Ok(descriptor) = nic.descriptors().bind(&view) else {
            nic.heap().free_iov(iov);
            return None;
        };
        if let Some(work) = self.operations.work(number) {
            work.descriptors.push(descriptor);
        }
        Some(Memory { iov, iov_count, ..Memory::NOWHERE })
    }
}
