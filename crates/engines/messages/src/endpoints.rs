// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The open endpoints by their numbers, and by the portal table entries that take their messages.

use crate::bindings::Bindings;
use crate::ticket::{ENDPOINT_PORTALS, ENDPOINTS_MAX, KINDS, Kind, OWN_ENDPOINT};

pub(crate) struct Endpoints {
    /// By number, or null.
    list: Vec<*mut Bindings>,
}

impl Endpoints {
    pub fn new() -> Endpoints {
        Endpoints { list: vec![std::ptr::null_mut(); usize::from(OWN_ENDPOINT) + 1] }
    }

    /// A number that no endpoint of a program has.
    pub fn free(&self) -> Option<u16> {
        self.list[..ENDPOINTS_MAX].iter().position(|other| other.is_null()).map(|index| index as u16)
    }

    /// The endpoint with a number, or null.
    pub fn get(&self, index: u16) -> *mut Bindings {
        self.list[usize::from(index)]
    }

    /// Sets the endpoint with a number. Returns the previous one.
    pub fn set(&mut self, index: u16, bindings: *mut Bindings) -> *mut Bindings {
        std::mem::replace(&mut self.list[usize::from(index)], bindings)
    }

    /// The bindings of all open endpoints.
    pub fn iter(&self) -> impl Iterator<Item = &Bindings> {
        // SAFETY: an endpoint leaves this list before its bindings are freed.
        self.list.iter().filter_map(|bindings| unsafe { bindings.as_ref() })
    }

    /// The endpoint and the kind of messages of a portal table entry.
    #[inline(always)]
    pub fn receiver(&self, portal: u32) -> Option<(*mut Bindings, Kind)> {
        let kind = match portal.wrapping_sub(ENDPOINT_PORTALS) % KINDS {
            0 => Kind::Tagged,
            1 => Kind::Plain,
            _ => return None,
        };
        Some((self.of_portal(portal)?, kind))
    }

    /// The open endpoint that a portal table entry belongs to.
    #[inline(always)]
    pub fn of_portal(&self, portal: u32) -> Option<*mut Bindings> {
        let index = portal.wrapping_sub(ENDPOINT_PORTALS) / KINDS;
        self.list.get(index as usize).copied().filter(|endpoint| !endpoint.is_null())
    }
}
