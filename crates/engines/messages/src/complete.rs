// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ends of operations: a completion or an error in the endpoint's queue, and a count at its counter.
//!
//! Counters are counting events of the NIC. A count may start deferred work, which is run here.

use selvedge_nic::Nic;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::fail;

use crate::bindings::Side;
use crate::completion::Completion;
use crate::error::Fault;
use crate::flags::ADDR_ANY;
use crate::own_nic::OwnNic;
use crate::ticket::Ticket;

impl OwnNic {
    /// Ends an operation successfully.
    #[inline]
    pub fn complete(&self, ticket: &Ticket, side: Side, completion: Completion, source: u64) {
        // SAFETY: endpoints, and the queues and counters bound to them, outlive their operations (`close_endpoint`).
        // The core is borrowed, so this thread holds the domain's lock and no other thread changes them.
        unsafe {
            let bindings = &*ticket.bindings;
            let counter = bindings.counter_for(ticket.flags);
            if counter != NONE {
                self.count(counter, 1, 0);
            }
            self.complete_uncounted(ticket, side, completion, source);
        }
    }

    /// Like `complete`, if the NIC has already counted.
    #[inline]
    pub fn complete_uncounted(&self, ticket: &Ticket, side: Side, completion: Completion, source: u64) {
        // SAFETY: endpoints, and the queues and counters bound to them, outlive their operations (`close_endpoint`).
        // The core is borrowed, so this thread holds the domain's lock and no other thread changes them.
        unsafe {
            let bindings = &*ticket.bindings;
            let queue = bindings.queue(side);
            if ticket.wanted && !queue.is_null() {
                (*queue).push(completion, source);
            }
        }
    }

    /// Ends an operation with an error, and counts the failure.
    pub fn fail(&self, ticket: &Ticket, side: Side, completion: Completion, missing: usize, error: Fault) {
        // SAFETY: endpoints, and the queues and counters bound to them, outlive their operations (`close_endpoint`).
        // The core is borrowed, so this thread holds the domain's lock and no other thread changes them.
        unsafe {
            let bindings = &*ticket.bindings;
            let counter = bindings.counter_for(ticket.flags);
            if counter != NONE {
                self.count(counter, 0, 1);
            }
            let queue = bindings.queue(side);
            if !queue.is_null() {
                (*queue).push_failure(completion, missing, error);
            }
        }
    }

    /// Reports an error that no counter counts.
    pub fn fail_uncounted(&self, ticket: &Ticket, side: Side, completion: Completion, missing: usize, error: Fault) {
        // SAFETY: endpoints, and the queues and counters bound to them, outlive their operations (`close_endpoint`).
        // The core is borrowed, so this thread holds the domain's lock and no other thread changes them.
        unsafe {
            let queue = (*ticket.bindings).queue(side);
            if !queue.is_null() {
                (*queue).push_failure(completion, missing, error);
            }
        }
    }

    /// Completes a send.
    #[inline(always)]
    pub fn sent(&self, ticket: &Ticket) {
        if ticket.reports() {
            self.complete(ticket, Side::Transmit, ticket.completion(), ADDR_ANY);
        }
    }

    /// Fails an operation of the transmit side.
    pub fn fail_transmit(&self, ticket: &Ticket, error: Fault) {
        self.fail(ticket, Side::Transmit, ticket.completion(), 0, error);
    }

    /// Returns the successes and failures of a counter.
    pub fn counted(&self, reference: u32) -> (u64, u64) {
        use std::sync::atomic::Ordering::Acquire;
        let counter = self.interface.signals().counter(reference);
        counter.map_or((0, 0), |counter| (counter.success.load(Acquire), counter.failure.load(Acquire)))
    }

    pub fn set_count(&self, reference: u32, success: u64, failure: u64) {
        self.change(|nic| nic.counters().set(reference, success, failure));
    }

    pub fn count(&self, reference: u32, success: u64, failure: u64) {
        self.change(|nic| nic.counters().increment(reference, success, failure));
    }

    /// Changes a counter, and runs the triggered operations that this starts.
    #[inline]
    fn change(&self, change: impl FnOnce(&mut Nic<'_>)) {
        let fired = {
            let mut nic = self.interface.lock();
            change(&mut nic);
            nic.has_fired()
        };
        self.interface.settle(fired);
    }

    /// Takes back a success that the NIC has counted for a failed operation.
    pub fn take_back_count(&self, ticket: &Ticket) {
        // SAFETY: endpoints, and the queues and counters bound to them, outlive their operations (`close_endpoint`).
        // The core is borrowed, so this thread holds the domain's lock and no other thread changes them.
        let counter = unsafe { (*ticket.bindings).counter_for(ticket.flags) };
        if counter != NONE {
            let mut nic = self.interface.lock();
            let (success, failure) = self.counted(counter);
            nic.counters().set(counter, success.wrapping_sub(1), failure);
        }
    }
}

/// The outcome that a target's reply reports. `dropped` is the error if nothing at the target matched.
pub(crate) fn outcome_of(failed: u8, dropped: Fault) -> Result<(), Fault> {
    match failed {
        fail::OK => Ok(()),
        fail::UNDELIVERABLE => Err(Fault::PeerGone),
        fail::SEGV => Err(Fault::NotMapped),
        fail::DROPPED => Err(dropped),
        _ => Err(Fault::NotPermitted),
    }
}
