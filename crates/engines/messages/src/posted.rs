// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receives: the program's request, and the records of receives and of messages on their way into them.
//!
//! A *plain* receive (one piece, one message, no counter) keeps its context in its match entry and needs no other record.

use std::ffi::c_void;
use std::sync::Arc;

use libc::iovec;
use selvedge_host::direct::ring_has_data;
use selvedge_host::rings::Envelope;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::{EntrySpec, Event, Put, Receive, fail, options};
use selvedge_nic::tables::Header;

use crate::bindings::Bindings;
use crate::error::Fault;
use crate::pieces::scatter;
use crate::ticket::{Kind, Ticket};
use crate::units::memory::Registered;
use crate::units::wire::Request;

/// A receive that the program posts.
#[derive(Clone, Copy)]
pub struct ReceiveRequest<'a> {
    pub kind: Kind,
    /// The number of the wanted sender, or None for any.
    pub source: Option<u64>,
    pub tag: u64,
    pub ignore: u64,
    pub pieces: &'a [iovec],
    pub ticket: Ticket,
    /// The buffer takes messages until less room than this is left.
    pub multi: Option<usize>,
}

impl ReceiveRequest<'_> {
    /// A match entry for this receive, without memory.
    #[inline]
    pub(crate) fn entry(&self) -> EntrySpec {
        receive_entry(self.source, self.tag, self.ignore)
    }
}

/// The `user_ptr` of a plain receive: the program's context, and whether a completion is wanted.
#[derive(Clone, Copy)]
pub(crate) struct PlainUserPtr(pub(crate) u64);

impl PlainUserPtr {
    const MARK: u64 = 1 << 63;
    const QUIET: u64 = 1 << 62;
    const CONTEXT_BITS: u32 = 48;

    /// Encodes a context. `None`: the context needs the bits that mark a plain receive.
    #[inline(always)]
    pub fn new(context: *mut c_void, wanted: bool) -> Option<PlainUserPtr> {
        let context = context as u64;
        let quiet = if wanted { 0 } else { PlainUserPtr::QUIET };
        (context >> PlainUserPtr::CONTEXT_BITS == 0).then_some(PlainUserPtr(PlainUserPtr::MARK | quiet | context))
    }

    /// Decodes a match entry's `user_ptr`, if it is of a plain receive.
    #[inline(always)]
    pub fn of(user_ptr: u64) -> Option<PlainUserPtr> {
        let marks = user_ptr >> PlainUserPtr::CONTEXT_BITS;
        let is_plain = (marks | PlainUserPtr::QUIET >> PlainUserPtr::CONTEXT_BITS)
            == (PlainUserPtr::MARK | PlainUserPtr::QUIET) >> PlainUserPtr::CONTEXT_BITS;
        is_plain.then_some(PlainUserPtr(user_ptr))
    }

    /// Whether a match entry's `user_ptr` is of a plain receive whose completion is wanted.
    #[inline(always)]
    pub fn is_wanted(user_ptr: u64) -> bool {
        user_ptr >> PlainUserPtr::CONTEXT_BITS == PlainUserPtr::MARK >> PlainUserPtr::CONTEXT_BITS
    }

    /// The program's context.
    #[inline(always)]
    pub fn context(user_ptr: u64) -> *mut c_void {
        (user_ptr & ((1 << PlainUserPtr::CONTEXT_BITS) - 1)) as *mut c_void
    }
}

/// A posted receive.
pub struct PostedReceive {
    pub ticket: Ticket,
    pub entry: u32,
    pub kind: Kind,
    /// The program's pieces, if there are several. The message arrives in `bytes` first.
    pub(crate) pieces: Option<Box<Scattered>>,
    /// Set for a receive that takes many messages.
    pub(crate) multi: Option<Multi>,
    pub(crate) counted: bool,
}

/// The buffer of a receive for many messages. It is returned when no more messages can come and all payload is here.
#[derive(Clone, Copy, Default)]
pub(crate) struct Multi {
    pub(crate) used_up: bool,
    /// The program has cancelled the receive, so its end is an error.
    pub(crate) cancelled: bool,
    /// Messages whose payload is still being fetched.
    pub(crate) fetching: u32,
}

/// The pieces of a receive, and one buffer of their total length.
pub(crate) struct Scattered {
    pub(crate) pieces: Box<[iovec]>,
    pub(crate) bytes: Box<[u8]>,
}

/// A message whose payload a packet is fetching.
pub struct Fetch {
    pub ticket: Ticket,
    pub(crate) landing: Landing,
    /// The payload at its sender, if it comes over the units.
    pub(crate) source: Option<RemotePayload>,
    pub(crate) ends: FetchEnd,
}

/// The payload of a fetch over the units.
pub(crate) struct RemotePayload {
    pub request: Request,
    /// The id of the sender.
    pub sender: u64,
    /// The number of wanted bytes.
    pub length: u64,
    /// The destination memory, while the gets are under way.
    pub region: Option<(Arc<Registered>, u64)>,
}

impl Fetch {
    /// A fetch without a ticket into its own memory, which is then scattered over these pieces.
    pub(crate) fn into_own_memory(ends: FetchEnd, message: Arrived, room: usize, pieces: &[iovec]) -> Fetch {
        let bytes = vec![0u8; (message.length as usize).min(room)].into_boxed_slice();
        let start = bytes.as_ptr() as u64;
        let ticket = Ticket { bindings: std::ptr::null_mut(), context: std::ptr::null_mut(), flags: 0, wanted: false };
        let (kind, pieces, multi) = (Kind::Tagged, pieces.into(), None);
        let landing = Landing { message, kind, room, pieces, bytes: Some(bytes), start, multi };
        Fetch { ticket, landing, source: None, ends }
    }

    /// The number of wanted bytes of payload.
    pub(crate) fn length(&self) -> u64 {
        self.landing.message.length.min(self.landing.room as u64)
    }

    /// The outcome of a fetch that ended with this reply. Scatters a payload that was gathered in one buffer.
    pub(crate) fn outcome(&self, failed: u8) -> Result<(), Fault> {
        match failed {
            fail::OK => {
                if let Some(bytes) = &self.landing.bytes {
                    // SAFETY: the program's pieces are writable, and `scatter` writes no more than they hold.
                    unsafe { scatter(bytes.as_ptr(), bytes.len(), &self.landing.pieces) };
                }
                Ok(())
            }
            fail::SEGV => Err(Fault::NotMapped),
            _ => Err(Fault::PeerGone),
        }
    }
}

/// The operation that a fetch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchEnd {
    /// The receive that its ticket names.
    Receive,
    /// No operation: the message of this sender is delivered to the NIC when its payload is here. There is no ticket.
    HandIn(u64),
    /// A receive that is deferred work, by its number. There is no ticket.
    Deferred(usize),
}

/// A message that has come.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    pub tag: u64,
    pub data: Option<u64>,
    pub source: u64,
    /// Its length as sent.
    pub length: u64,
    /// The token under which the sender keeps the payload, or 0.
    pub(crate) token: u32,
}

impl Arrived {
    pub(crate) fn of(header: &Header) -> Arrived {
        Arrived {
            tag: header.match_bits,
            data: (header.uid & 1 != 0).then_some(header.header_data),
            source: header.source,
            length: header.rlength,
            token: header.token,
        }
    }

    pub(crate) fn new(tag: u64, data: Option<u64>, source: u64, length: u64) -> Arrived {
        Arrived { tag, data, source, length, token: 0 }
    }

    pub(crate) fn of_event(event: &Event) -> Arrived {
        let data = (event.uid & 1 != 0).then_some(event.header_data);
        Arrived::new(event.match_bits, data, event.initiator, event.rlength)
    }
}

/// The memory for a message.
pub(crate) struct Landing {
    pub message: Arrived,
    pub kind: Kind,
    /// The room of the receive.
    pub room: usize,
    pub pieces: Box<[iovec]>,
    /// One buffer, if the program's memory is in several pieces.
    pub bytes: Option<Box<[u8]>>,
    pub start: u64,
    /// The number of the receive for many messages, if this message is part of one.
    pub multi: Option<usize>,
}

/// The memory that a message was written to.
#[derive(Clone, Copy)]
pub(crate) struct Placement {
    pub start: u64,
    /// The room of the receive.
    pub room: usize,
    /// Whether the memory could be written.
    pub outcome: Result<(), Fault>,
}

/// A message that a program has claimed.
pub struct Claimed {
    pub bindings: *mut Bindings,
    pub(crate) context: *mut c_void,
    /// The unexpected header ([`selvedge_nic::Nic::unexpected`]).
    pub header: u32,
}

/// A receive filled by a message from a ring, which still needs its completion.
pub(crate) struct Filled {
    /// The `user_ptr` of its match entry.
    pub user_ptr: u64,
    pub portal: u32,
    pub message: Arrived,
    pub start: u64,
    pub room: usize,
    /// The match entry takes no more messages.
    pub uses_up: bool,
}

impl Filled {
    /// The receive that a message with this envelope filled.
    pub(crate) fn by(put: &Put, envelope: &Envelope, receive: &Receive) -> Filled {
        let data = ring_has_data(envelope).then_some(put.header_data);
        Filled {
            user_ptr: receive.user_ptr,
            portal: put.portal,
            message: Arrived::new(put.match_bits, data, put.initiator, put.length),
            start: receive.start,
            room: receive.length as usize,
            uses_up: receive.uses_up,
        }
    }
}

/// A plain receive that the program posts.
#[derive(Clone, Copy)]
pub struct PlainReceive {
    pub portal: u32,
    /// The number of the wanted sender, or None for any.
    pub source: Option<u64>,
    pub tag: u64,
    pub ignore: u64,
    pub start: u64,
    pub length: u64,
    pub context: *mut c_void,
    pub wanted: bool,
}

impl PlainReceive {
    /// The match entry of the receive. `None`: its context needs the bits that mark a plain receive.
    #[inline(always)]
    pub(crate) fn entry(&self) -> Option<EntrySpec> {
        let PlainUserPtr(user_ptr) = PlainUserPtr::new(self.context, self.wanted)?;
        Some(EntrySpec {
            options: options::OP_PUT | options::USE_ONCE | options::EVENT_LINK_DISABLE | options::EVENT_UNLINK_DISABLE,
            start: self.start,
            length: self.length,
            user_ptr,
            ..receive_entry(self.source, self.tag, self.ignore)
        })
    }
}

/// A match entry for a source and a tag, without memory. The caller adds the memory and the events that it wants.
#[inline(always)]
pub(crate) fn receive_entry(source: Option<u64>, tag: u64, ignore: u64) -> EntrySpec {
    EntrySpec {
        options: options::OP_PUT,
        start: 0,
        length: u64::MAX,
        iov: NONE,
        iov_count: 0,
        match_bits: tag,
        ignore_bits: ignore,
        source: source.unwrap_or(0),
        source_ignore: if source.is_some() { 0 } else { u64::MAX },
        min_free: 0,
        user_ptr: 0,
        counter: NONE,
        uid: u32::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_receive_keeps_its_context() {
        for (context, wanted) in [(0usize, true), (0, false), (0x7fff_1234_5678, true), ((1 << 48) - 1, false)] {
            let PlainUserPtr(user_ptr) = PlainUserPtr::new(context as *mut c_void, wanted).expect("it has room");
            assert!(PlainUserPtr::of(user_ptr).is_some());
            assert_eq!(PlainUserPtr::context(user_ptr) as usize, context);
            assert_eq!(PlainUserPtr::is_wanted(user_ptr), wanted);
        }
        assert!(PlainUserPtr::new((1usize << 48) as *mut c_void, true).is_none());
        for other in [0, 7, u64::from(u32::MAX), u64::MAX] {
            assert!(PlainUserPtr::of(other).is_none() && !PlainUserPtr::is_wanted(other));
        }
    }
}
