// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ends of operations: a completion or a failure at the endpoint's queue, and a count at its counter.
//!
//! Counters are counting events of the NIC: a count may set off deferred work, which is run here.

use std::ffi::c_int;

use selvedge_nic::Nic;
use selvedge_nic::portals::fail;

use super::{Core, Side, Ticket};
use crate::completion::Completion;
use crate::constants::*;
use crate::ffi::fi_cq_tagged_entry;

impl Core {
    /// An operation has ended well.
    #[inline]
    pub fn complete(&self, ticket: &Ticket, side: Side, entry: fi_cq_tagged_entry, source: u64) {
        // SAFETY: endpoints outlive their operations (`close_endpoint`), queues and counters the endpoints bound to them. The core is
        // borrowed, so this is a turn, and nobody else changes an endpoint or its queue.
        unsafe {
            let endpoint = &*ticket.endpoint;
            let counter = endpoint.counter_for(ticket.flags);
            if !counter.is_null() {
                self.count((*counter).reference, 1, 0);
            }
            self.complete_uncounted(ticket, side, entry, source);
        }
    }

    /// The same where the NIC has counted.
    #[inline]
    pub fn complete_uncounted(&self, ticket: &Ticket, side: Side, entry: fi_cq_tagged_entry, source: u64) {
        // SAFETY: endpoints outlive their operations (`close_endpoint`), queues and counters the endpoints bound to them. The core is
        // borrowed, so this is a turn, and nobody else changes an endpoint or its queue.
        unsafe {
            let endpoint = &*ticket.endpoint;
            let queue = endpoint.queue(side);
            if ticket.wanted && !queue.is_null() {
                (*queue).push(Completion { entry, source });
            }
        }
    }

    /// An operation has failed.
    pub fn fail(&self, ticket: &Ticket, side: Side, entry: fi_cq_tagged_entry, olen: usize, error: c_int) {
        // SAFETY: endpoints outlive their operations (`close_endpoint`), queues and counters the endpoints bound to them. The core is
        // borrowed, so this is a turn, and nobody else changes an endpoint or its queue.
        unsafe {
            let endpoint = &*ticket.endpoint;
            let counter = endpoint.counter_for(ticket.flags);
            if !counter.is_null() {
                self.count((*counter).reference, 0, 1);
            }
            let queue = endpoint.queue(side);
            if !queue.is_null() {
                (*queue).push_failure(entry, olen, error);
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
        self.change(|nic| nic.count_set(reference, success, failure));
    }

    pub fn count(&self, reference: u32, success: u64, failure: u64) {
        self.change(|nic| nic.count(reference, success, failure));
    }

    /// Changes a counter, and runs what that sets off.
    #[inline]
    fn change(&self, change: impl FnOnce(&mut Nic<'_>)) {
        let fired = {
            let mut nic = self.interface.lock();
            change(&mut nic);
            nic.has_fired()
        };
        self.interface.settle(fired);
    }

    /// A success that was none.
    pub(super) fn take_back_count(&self, ticket: &Ticket) {
        // SAFETY: endpoints outlive their operations (`close_endpoint`), queues and counters the endpoints bound to them. The core is
        // borrowed, so this is a turn, and nobody else changes an endpoint or its queue.
        let counter = unsafe { (*ticket.endpoint).counter_for(ticket.flags).as_ref() };
        if let Some(counter) = counter {
            let mut nic = self.interface.lock();
            let (success, failure) = self.counted(counter.reference);
            nic.count_set(counter.reference, success.wrapping_sub(1), failure);
        }
    }
}

/// What a target's answer means; `dropped`: that nothing there was meant.
pub(super) fn error_of(failed: u8, dropped: c_int) -> c_int {
    match failed {
        fail::OK => 0,
        fail::UNDELIVERABLE => EHOSTDOWN,
        fail::SEGV => EFAULT,
        fail::DROPPED => dropped,
        _ => EACCES,
    }
}
