// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tickets: the endpoint of an operation, and its report when it ends.

use std::ffi::c_void;

use selvedge_nic::handle::NONE;

use crate::bindings::Bindings;
use crate::completion::Completion;
use crate::flags::{MSG, RMA, TAGGED};

/// The first portal table entry of endpoints. Entries before it are [`PORTAL_WRITE`] and its neighbours.
pub const ENDPOINT_PORTALS: u32 = 4;
/// Portal table entries for each endpoint.
pub const KINDS: u32 = 4;
/// Largest number of endpoints of programs in one transport.
pub const ENDPOINTS_MAX: usize = 60;
/// The number of the front door's own endpoint, behind the programs'. It is fixed, so peers know it.
pub const OWN_ENDPOINT: u16 = ENDPOINTS_MAX as u16;

/// Writes and atomics on registered memory.
pub const PORTAL_WRITE: u32 = 0;
/// Payload that waits at its sender for its receive.
pub const PORTAL_TOKEN: u32 = 1;
/// Reads of registered memory.
pub const PORTAL_READ: u32 = 2;
/// Fetching atomics on registered memory.
pub const PORTAL_FETCH: u32 = 3;
/// The portal table entries through which registered memory is reached.
pub const REGION_PORTALS: [u32; 3] = [PORTAL_WRITE, PORTAL_READ, PORTAL_FETCH];
/// Flag in a request's initiator field: more requests of the same operation follow. The target counts only the last.
pub const FOLLOWED: u64 = 1;

/// The kinds of messages of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Tagged = 0,
    Plain = 1,
    /// The notification of a write. It uses no receive.
    Note = 2,
}

impl Kind {
    /// The flag of this kind in completions.
    pub const fn flag(self) -> u64 {
        match self {
            Kind::Tagged => TAGGED,
            Kind::Plain => MSG,
            Kind::Note => RMA,
        }
    }

    /// The portal table entry that takes an endpoint's messages of this kind.
    pub const fn portal(self, endpoint: u16) -> u32 {
        ENDPOINT_PORTALS + KINDS * endpoint as u32 + self as u32
    }
}

/// The endpoint of an operation and what its completion reports.
#[derive(Clone, Copy)]
pub struct Ticket {
    pub bindings: *mut Bindings,
    pub context: *mut c_void,
    /// The flags of the completion, for example SEND | TAGGED.
    pub flags: u64,
    /// Whether the program wants a completion.
    pub wanted: bool,
}

impl Ticket {
    /// Whether the end of the operation makes a completion or a count.
    #[inline(always)]
    pub(crate) fn reports(&self) -> bool {
        // SAFETY: a ticket of an operation that has not ended names an open endpoint.
        self.wanted || unsafe { (*self.bindings).counter_for(self.flags) != NONE }
    }

    /// The initiator's own completion: its context and its flags.
    pub fn completion(&self) -> Completion {
        Completion { context: self.context, flags: self.flags, ..Completion::default() }
    }
}
