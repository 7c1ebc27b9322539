// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Event queues (fi_eq(3)). They hold what a program writes itself (`fi_eq_write`), and the ends of joins of collective
//! groups (fi_collective(3)). Nothing else here is asynchronous.
//!
//! Locks are taken in this order: `domains`, a domain's lock, `events`.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use crate::ffi::{fi_eq_err_entry, fid_eq};
use crate::objects::domain::Domain;
use crate::objects::fabric::Fabric;
use crate::objects::object::Uses;

#[repr(C)]
pub struct EventQueue {
    pub(crate) eq: fid_eq,
    pub(crate) fabric: *mut Fabric,
    /// Whether the program may write to it.
    pub(crate) writable: bool,
    pub(crate) events: Mutex<VecDeque<Event>>,
    /// The domains of its endpoints with collective operations: a read carries their joins on. One entry for each endpoint.
    pub(crate) domains: Mutex<Vec<*mut Domain>>,
    pub uses: Uses,
}

/// An event that the program has not read.
pub(crate) enum Event {
    /// Its kind and its bytes.
    Success(u32, Vec<u8>),
    Failure(fi_eq_err_entry),
}

impl EventQueue {
    pub(crate) fn push(&self, event: Event) {
        self.events().push_back(event);
    }

    /// The events. A thread that has panicked leaves them as they were.
    pub(crate) fn events(&self) -> MutexGuard<'_, VecDeque<Event>> {
        self.events.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    pub(crate) fn domains(&self) -> MutexGuard<'_, Vec<*mut Domain>> {
        self.domains.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// An endpoint of this domain is bound. The domain's lock is not held.
    pub(crate) fn add_domain(&self, domain: *mut Domain) {
        self.domains().push(domain);
    }

    /// An endpoint of this domain is closed. The domain's lock is not held.
    pub(crate) fn remove_domain(&self, domain: *mut Domain) {
        let mut domains = self.domains();
        if let Some(at) = domains.iter().position(|&other| other == domain) {
            domains.swap_remove(at);
        }
    }

    /// Carries on the joins of the domains.
    pub(crate) fn progress(&self) {
        for &domain in self.domains().iter() {
            // SAFETY: a domain is here while an endpoint of it is open, so it is open.
            let domain = unsafe { &*domain };
            if domain.collects() {
                let mut turn = domain.core();
                turn.progress();
                turn.carry_on_groups();
            }
        }
    }
}
