// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ends of operations: a completion or an error in the endpoint's queue, and a count at its counter.
//!
//! Counters are counting events of the NIC. A count may start deferred work, which is run here.

use std::ffi::c_int;

use selvedge_nic::Nic;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::fail;

use crate::bindings::Side;
use crate::completion::Completion;
use crate::flags::{EACCES, EFAULT, EHOSTDOWN};
use crate::ticket::Ticket;
use crate::transport::Transport;

impl Transport {
    /// Ends an operation successfully.
    #[inline]
    pub fn complete(&self, ticket: &Ticket, side: Side, completion: Completion, source: u64) {
        // SAFETY: endpoints outlive their operations (`close_endpoint`), and so do the queues and counters that they
        // are bound to. The core is borrowed, so this thread holds the domain's lock, and no other thread changes an
        // endpoint or its queue.
        unsafe {
            let bindings = &*ticket.bindings;
            let counter = bindings.counter_for(ticket.flags);
            if counter != NONE {
                self.count(counter, 1, 0);
            }
            self.complete_uncounted(ticket, side, completion, source);
        }
    }

    /// The same if the NIC has already counted.
    #[inline]
    pub fn complete_uncounted(&self, ticket: &Ticket, side: Side, completion: Completion, source: u64) {
        // SAFETY: endpoints outlive their operations (`close_endpoint`), and so do the queues and counters that they
        // are bound to. The core is borrowed, so this thread holds the domain's lock, and no other thread changes an
        // endpoint or its queue.
        unsafe {
            let bindings = &*ticket.bindings;
            let queue = bindings.queue(side);
            if ticket.wanted && !queue.is_null() {
                (*queue).push(completion, source);
            }
        }
    }

    /// Ends an operation with an error.
    pub fn fail(&self, ticket: &Ticket, side: Side, completion: Completion, missing: usize, error: c_int) {
        // SAFETY: endpoints outlive their operations (`close_endpoint`), and so do the queues and counters that they
        // are bound to. The core is borrowed, so this thread holds the domain's lock, and no other thread changes an
        // endpoint or its queue.
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

    /// Successes and failures of a counter.
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
    pub(crate) fn take_back_count(&self, ticket: &Ticket) {
        // SAFETY: endpoints outlive their operations (`close_endpoint`), and so do the queues and counters that they
        // are bound to. The core is borrowed, so this thread holds the domain's lock, and no other thread changes an
        // endpoint or its queue.
        let counter = unsafe { (*ticket.bindings).counter_for(ticket.flags) };
        if counter != NONE {
            let mut nic = self.interface.lock();
            let (success, failure) = self.counted(counter);
            nic.counters().set(counter, success.wrapping_sub(1), failure);
        }
    }
}

/// The error for a target's reply. `dropped` is the error if nothing at the target matched.
pub(crate) fn error_of(failed: u8, dropped: c_int) -> c_int {
    match failed {
        fail::OK => 0,
        fail::UNDELIVERABLE => EHOSTDOWN,
        fail::SEGV => EFAULT,
        fail::DROPPED => dropped,
        _ => EACCES,
    }
}
