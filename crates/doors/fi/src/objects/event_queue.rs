// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Event queues (fi_eq(3)). They hold events that a program writes (`fi_eq_write`), and the ends of joins of collective
//! groups (fi_collective(3)). Nothing else here is asynchronous.
//!
//! Locks are taken in this order: `domains`, a domain's lock, `events`.

use std::sync::{Mutex, MutexGuard};

use crate::ffi::fid_eq;
use crate::objects::domain::Domain;
use crate::objects::events::Events;
use crate::objects::fabric::Fabric;
use crate::objects::object::Uses;
use selvedge_os::sync::IgnorePoison;

#[repr(C)]
pub struct EventQueue {
    pub(crate) eq: fid_eq,
    pub(crate) fabric: *mut Fabric,
    pub(crate) writable: bool,
    pub(crate) events: Events,
    /// The domains of its endpoints with collective operations: a read advances joins. One entry per endpoint.
    pub(crate) domains: Mutex<Vec<*mut Domain>>,
    pub uses: Uses,
}

impl EventQueue {
    pub(crate) fn domains(&self) -> MutexGuard<'_, Vec<*mut Domain>> {
        self.domains.lock().ignore_poison()
    }

    /// Adds the domain of an endpoint that is bound. The domain's lock is not held.
    pub(crate) fn add_domain(&self, domain: *mut Domain) {
        self.domains().push(domain);
    }

    /// Removes the domain of an endpoint that is closed. The domain's lock is not held.
    pub(crate) fn remove_domain(&self, domain: *mut Domain) {
        let mut domains = self.domains();
        if let Some(at) = domains.iter().position(|&other| other == domain) {
            domains.swap_remove(at);
        }
    }

    pub(crate) fn progress(&self) {
        for &domain in self.domains().iter() {
            // SAFETY: a domain is listed while an endpoint of it is open, so it is open.
            let domain = unsafe { &*domain };
            if domain.collects() {
                let mut core = domain.core();
                core.progress();
                core.carry_on_groups();
            }
        }
    }
}
