// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Started sends and receives of a rank that are not complete, or whose message has not been taken.
//!
//! The NIC does the matching; `messages.rs` has the protocols.

use std::collections::VecDeque;

use selvedge_nic::handle::NONE;
use selvedge_nic::portals::{EntrySpec, list, options};
use selvedge_nic::{Nic, NoMemory};

use crate::node::Bytes;

use super::memory::{ARRIVALS_AT, ARRIVALS_BYTES, Memory};

/// Any source; any tag.
pub const ANY: u32 = u32::MAX;

/// First tag that [`ANY`] does not match.
pub const OWN_TAGS: u32 = 1 << 31;

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub source: u32,
    pub tag: u32,
    pub bytes: Bytes,
}

/// A send or receive that has been started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(pub(super) u32);

pub(super) const PORTAL_MESSAGES: u32 = 0;

/// Match bit of an announcement.
pub(super) const ANNOUNCEMENT: u64 = 1 << 63;
/// Payload of an announcement: the length of the message.
pub(super) const ANNOUNCEMENT_BYTES: u64 = 8;

#[derive(Clone, Debug)]
pub(super) enum RequestState {
    Free,
    Posted {
        most: u64,
    },
    /// The announcement of a long message has arrived; its payload must be fetched.
    Announced {
        source: u32,
        tag: u32,
        length: u64,
        token: u64,
    },
    Fetching {
        source: u32,
        tag: u32,
    },
    /// A long send that waits to be fetched.
    Offered,
    Done(Option<Message>),
}

pub(super) struct Requests {
    pub events: u32,
    pub states: Vec<RequestState>,
    free: Vec<u32>,
    /// Requests whose payload must be fetched.
    pub announced: VecDeque<u32>,
}

impl Requests {
    pub fn new(nic: &mut Nic<'_>, events: u32) -> Requests {
        let spec = EntrySpec {
            options: options::OP_PUT
                | options::MANAGE_LOCAL
                | options::EVENT_LINK_DISABLE
                | options::EVENT_COMM_DISABLE
                | options::EVENT_UNLINK_DISABLE,
            start: ARRIVALS_AT,
            length: ARRIVALS_BYTES,
            ignore_bits: u64::MAX,
            source_ignore: u64::MAX,
            ..EMPTY
        };
        let appended = nic.lists().append(&mut NoMemory, PORTAL_MESSAGES, list::OVERFLOW, &spec);
        debug_assert!(appended.is_ok(), "a new NIC has room for its first entry");
        Requests { events, states: Vec::new(), free: Vec::new(), announced: VecDeque::new() }
    }

    pub fn begin(&mut self, memory: &mut Memory, state: RequestState) -> RequestId {
        match self.free.pop() {
            Some(index) => {
                self.states[index as usize] = state;
                RequestId(index)
            }
            None => {
                self.states.push(state);
                memory.reserve(self.states.len());
                RequestId(self.states.len() as u32 - 1)
            }
        }
    }

    pub fn is_done(&self, request: RequestId) -> bool {
        matches!(self.states.get(request.0 as usize), Some(RequestState::Done(_)))
    }

    /// Ends a complete request. Returns the message, if it was a receive.
    pub fn take_done(&mut self, request: RequestId) -> Option<Option<Message>> {
        let slot = self.states.get_mut(request.0 as usize)?;
        if !matches!(slot, RequestState::Done(_)) {
            return None;
        }
        let RequestState::Done(message) = std::mem::replace(slot, RequestState::Free) else { return None };
        self.free.push(request.0);
        Some(message)
    }
}

pub(super) const EMPTY: EntrySpec = EntrySpec {
    options: 0,
    start: 0,
    length: 0,
    iov: NONE,
    iov_count: 0,
    match_bits: 0,
    ignore_bits: 0,
    source: 0,
    source_ignore: 0,
    min_free: 0,
    user_ptr: 0,
    counter: NONE,
    uid: u32::MAX,
};

/// Returns the entry of a receive, without its memory.
pub(super) fn receive_of(from: u32, tag: u32) -> EntrySpec {
    let any = |value: u32| value == ANY;
    EntrySpec {
        options: options::OP_PUT | options::USE_ONCE | options::EVENT_LINK_DISABLE | options::EVENT_UNLINK_DISABLE,
        match_bits: if any(tag) { 0 } else { tag.into() },
        ignore_bits: ANNOUNCEMENT | if any(tag) { u64::from(OWN_TAGS - 1) } else { 0 },
        source: if any(from) { 0 } else { from.into() },
        source_ignore: if any(from) { u64::MAX } else { 0 },
        ..EMPTY
    }
}
