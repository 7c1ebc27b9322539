// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters (fi_cntr(3)). They are counting events of the domain's NIC, and triggered operations may wait for them.

use std::ffi::c_int;

use crate::ffi::fid_cntr;
use crate::objects::domain::Domain;
use crate::objects::object::Uses;

/// Only [`Uses`] changes, which is atomic, so any number of threads may have a `&Counter`.
#[repr(C)]
pub struct Counter {
    pub(crate) cntr: fid_cntr,
    pub(crate) domain: *mut Domain,
    /// The NIC's counting event.
    pub reference: u32,
    pub uses: Uses,
}

impl Counter {
    pub fn domain(&self) -> &Domain {
        // SAFETY: a domain does not close while a counter of it is open, and this one is. No `&mut` to a domain exists.
        unsafe { &*self.domain }
    }

    pub(crate) fn now(&self) -> (u64, u64) {
        let mut core = self.domain().core();
        core.progress();
        core.carry_on_groups();
        core.counted(self.reference)
    }

    pub(crate) fn change(&self, change: impl FnOnce(u64, u64) -> (u64, u64)) -> c_int {
        let core = self.domain().core();
        let (success, failure) = core.counted(self.reference);
        let (success, failure) = change(success, failure);
        core.set_count(self.reference, success, failure);
        0
    }
}
