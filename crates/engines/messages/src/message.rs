// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages that are sent: the program's request, and the record of an unfinished send.

use std::sync::Arc;

use selvedge_host::direct::RING_HAS_DATA;
use selvedge_host::rings::Envelope;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::{EntrySpec, list, options};
use selvedge_nic::tables::Command;

use libc::iovec;

use crate::pieces::gather;
use crate::ticket::{Kind, Ticket};
use crate::units::memory::Registered;

/// The point at which a send completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendEnd {
    /// The message has left (`FI_INJECT_COMPLETE`, `FI_TRANSMIT_COMPLETE`).
    Sent,
    /// The target's NIC has taken the message (`FI_DELIVERY_COMPLETE`): its payload is in the buffer of the receive that
    /// was posted, or the message is in the unexpected list.
    Delivered,
    /// The message is matched with a receive (`FI_MATCH_COMPLETE`).
    Matched,
}

/// A message that the program sends.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    pub kind: Kind,
    /// The target: the number of a peer, and the number of one of its endpoints.
    pub peer: u32,
    pub endpoint: u16,
    pub tag: u64,
    /// Data for the target's completion.
    pub data: Option<u64>,
    pub pieces: &'a [iovec],
    pub ticket: Ticket,
    /// The program may reuse its buffers when the call returns.
    pub inject: bool,
    pub end: SendEnd,
}

impl Message<'_> {
    /// A copy of a message that leaves after this call, if it has several pieces or is injected.
    pub(crate) fn gathered(&self, length: usize) -> Option<Box<[u8]>> {
        (self.pieces.len() > 1 || (self.inject && length != 0)).then(|| {
            let mut bytes = Box::new_uninit_slice(length);
            // SAFETY: the program's pieces are readable, and the buffer is as long as their sum. `gather` fills it.
            unsafe {
                gather(self.pieces, bytes.as_mut_ptr().cast());
                bytes.assume_init()
            }
        })
    }
}

/// A send that has not ended yet.
pub struct Outgoing {
    pub ticket: Ticket,
    /// The match entry through which the target fetches the payload.
    pub entry: Option<u32>,
    /// The payload, registered for gets of the target, and its network logical address.
    pub(crate) region: Option<(Arc<Registered>, u64)>,
    /// The token by which its target fetches the payload over the units; otherwise 0.
    pub(crate) token: u32,
    /// A copy of the payload: gathered from several pieces, or injected.
    pub(crate) _bytes: Option<Box<[u8]>>,
    /// The process that gets the header.
    pub target: (u64, u64),
    pub peer: u32,
    pub command: Command,
    pub stage: Stage,
    /// Its sequence number among the packets to the same portal table entry.
    pub sequence: u64,
    /// The payload was fetched before the reply came.
    pub fetched: bool,
    pub is_injected: bool,
}

impl Outgoing {
    /// Whether its endpoint has been closed.
    pub fn is_forgotten(&self) -> bool {
        self.ticket.bindings.is_null()
    }
}

/// The envelope of a message of one of our endpoints in a ring.
#[inline(always)]
pub fn envelope(portal: u8, ring_flags: u8, tag: u64, data: Option<u64>) -> Envelope {
    let flags = if data.is_some() { ring_flags | RING_HAS_DATA } else { ring_flags };
    Envelope { portal, flags, match_bits: tag, header_data: data.unwrap_or(0) }
}

/// The stage of a message that did not go through a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its header is at the target, its payload here.
    Waits,
    /// The message or its reply is in flight.
    UnderWay,
    /// The target refused it for lack of room.
    Refused,
}

/// Whether a delivered message has left its payload here, to be fetched.
pub(crate) fn stays_here(command: &Command, delivered_to: u8) -> bool {
    delivered_to == list::OVERFLOW && command.request.token() != 0
}

/// The match entry through which the target fetches the payload, once, in any length.
pub(crate) fn token_entry(token: u32, start: u64, length: usize, number: usize) -> EntrySpec {
    EntrySpec {
        options: options::OP_GET | options::USE_ONCE | options::EVENT_LINK_DISABLE | options::EVENT_UNLINK_DISABLE,
        start,
        length: length as u64,
        iov: NONE,
        iov_count: 0,
        match_bits: token.into(),
        ignore_bits: 0,
        source: 0,
        source_ignore: u64::MAX,
        min_free: 0,
        user_ptr: number as u64,
        counter: NONE,
        uid: u32::MAX,
    }
}
