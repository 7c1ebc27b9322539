// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The effects of a request on the entry that it matched: memory and number of its bytes, and the fate of the entry.

use super::constants::{list, options};
use crate::arithmetic::Datatype;
use crate::tables::{Entry, Request, kind};

/// The effects of a request on its entry.
pub(super) struct Plan {
    pub list: u8,
    pub offset: u64,
    pub mlength: u64,
    pub unlinks: bool,
    pub keeps_header: bool,
    /// The most events that it writes.
    pub events: u64,
}

impl Plan {
    #[inline]
    pub fn new(record: &Entry, which: u8, request: &Request) -> Plan {
        let flags = record.options;
        let local = flags & options::MANAGE_LOCAL != 0;
        let offset = if local { record.local_offset } else { request.remote_offset };
        let room = record.length.saturating_sub(offset);
        let mut mlength = if which == list::OVERFLOW && request.token() != 0 { 0 } else { request.length.min(room) };
        if mlength < request.length && !matches!(request.kind, kind::PUT | kind::GET) {
            let size = Datatype::from_u32(u32::from(request.datatype)).map_or(1, Datatype::size_bytes) as u64;
            mlength -= mlength % size;
        }
        let unlinks =
            flags & options::USE_ONCE != 0 || (local && record.min_free != 0 && room - mlength < record.min_free);
        let keeps_header = which == list::OVERFLOW && flags & options::UNEXPECTED_HDR_DISABLE == 0;
        let free_event =
            unlinks && flags & options::EVENT_UNLINK_DISABLE == 0 && which == list::OVERFLOW && !keeps_header;
        let events = Plan::events(flags, unlinks) + u64::from(free_event);
        Plan { list: which, offset, mlength, unlinks, keeps_header, events }
    }

    /// The most events of a request at an entry with these options, without AUTO_FREE.
    pub fn events(flags: u32, unlinks: bool) -> u64 {
        let comm = flags & options::EVENT_COMM_DISABLE == 0;
        let unlink = unlinks && flags & options::EVENT_UNLINK_DISABLE == 0;
        u64::from(comm) + u64::from(unlink)
    }
}
