// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A peer's memory and counters, for front ends that store there themselves. A put then costs only the stores.
//!
//! It is available only if every process of the job may do so ([`Interface::stores_in_place`]), or every one of this
//! host ([`crate::config::Mode::maps_peers`]). In host mode a put waits for its target's program, and a forced path
//! must be taken.
//!
//! Invariants
//! 1. A window is as long as its owner's reserve; the owner publishes its committed size. Before a store, the range is
//!    checked against the committed size of all owners, because there is no memory beyond the file's end.
//! 2. After a store the sender wakes the owner if the owner sleeps. A sleeper announces itself, then polls once more
//!    (wait.rs). So the wake-up after the store either reaches it or is not needed.
//! 3. Permanent counter lanes of a sender ([`Window::lane`]) are not grants and are not revoked. A counter has lanes of
//!    one kind only.

use std::sync::atomic::{AtomicU32, Ordering::Acquire};

use selvedge_nic::portals::counters::Lane;
use selvedge_nic::signals::Counter;

use selvedge_os::mapping::Mapping;
use selvedge_os::shortage::Shortage;

use crate::endpoint::Endpoint;
use crate::interface::Interface;
use crate::links::Work;

/// A process's shared memory and its NIC, as mapped in this process.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    endpoint: &'a Endpoint,
    memory: *mut u8,
    reserved: u64,
}

// SAFETY: an address in a mapping that lives as long as the endpoint. Code that dereferences it must justify the
// access.
unsafe impl Send for Window<'_> {}
// SAFETY: the methods only read the fields and return raw pointers. Code that dereferences them must justify the
// access.
unsafe impl Sync for Window<'_> {}

impl<'a> Window<'a> {
    /// Opens the window on a process of this host, own or peer. None if the process does not exist, or has no shared
    /// memory.
    pub fn open(interface: &'a Interface, id: u64) -> Result<Option<Window<'a>>, Shortage> {
        let Some(endpoint) = interface.endpoint(id) else { return Ok(None) };
        let hot = &endpoint.segment.header().hot;
        if endpoint.own {
            let base = hot.arena_base.load(Acquire) as *mut u8;
            let reserved = hot.arena_reserved.load(Acquire);
            return Ok((!base.is_null()).then_some(Window { endpoint, memory: base, reserved }));
        }
        let window = |mapping: &Mapping| Window { endpoint, memory: mapping.base(), reserved: mapping.reserved() };
        Ok(endpoint.arena()?.map(window))
    }

    /// Returns the lane through which this process, with the given sender number, adds to a counter of the owner
    /// without the lock.
    pub fn lane(&self, interface: &Interface, counter: u32, sender: u32) -> Option<Lane> {
        self.endpoint.segment.lock(interface.word).counters().lane(counter, sender)
    }

    /// Returns the start of the owner's memory in this process.
    #[inline(always)]
    pub fn memory(&self) -> *mut u8 {
        self.memory
    }

    /// Returns the largest size that the memory can reach.
    #[inline(always)]
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Wakes the owner if it sleeps. Call it after the stores.
    #[inline(always)]
    pub fn ring(&self) {
        self.endpoint.segment.ring();
    }

    /// Returns the word that is not 0 while the owner sleeps: [`Window::ring`] loads it.
    pub fn sleepers(&self) -> &'a AtomicU32 {
        &self.endpoint.segment.header().hot.sleepers
    }

    /// Returns the counters of this process's operations at the owner, for a front end that does them itself.
    pub fn work(&self, interface: &Interface) -> &'a Work {
        interface.work_at(self.endpoint)
    }

    /// Returns a counter of the owner's NIC.
    pub fn counter(&self, reference: u32) -> Option<&'a Counter> {
        self.endpoint.segment.signals().counter(reference)
    }
}
