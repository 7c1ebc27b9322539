// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests and commands of all units, and the requests that wait for a response.

use crate::handle::NONE;

/// The operation of a request. The values are those of the wire format.
pub mod kind {
    pub const PUT: u8 = 1;
    pub const GET: u8 = 2;
    pub const ATOMIC: u8 = 3;
    pub const FETCH_ATOMIC: u8 = 4;
    pub const SWAP: u8 = 5;
    /// Commands of the VELO and RMA units ([`crate::units`]).
    pub const VELO_SEND: u8 = 6;
    pub const RMA_PUT: u8 = 7;
    pub const RMA_GET: u8 = 8;
    pub const RMA_LOCK: u8 = 9;
    pub const RMA_NOTIFICATION_PUT: u8 = 10;
    pub const RMA_IMMEDIATE_PUT: u8 = 11;
    /// Messages of the aggregation unit ([`crate::aggregation::message`]).
    pub const AGGREGATION_REQUEST: u8 = 12;
    pub const AGGREGATION_RESULT: u8 = 13;
    pub const AGGREGATION_UP: u8 = 14;
    pub const AGGREGATION_DOWN: u8 = 15;
    /// Commands of triggered operations only.
    pub const COUNTER_SET: u8 = 16;
    pub const COUNTER_INCREMENT: u8 = 17;
    pub const APPEND: u8 = 18;
    pub const UNLINK: u8 = 19;
}

/// The initiator's memory of a request, from its descriptor, and the queue and counter for its events.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Side {
    /// Address of the first byte; with an I/O vector, the offset into it.
    pub start: u64,
    pub iov: u32,
    pub iov_count: u32,
    /// Options of the descriptor.
    pub options: u32,
    pub queue: u32,
    pub counter: u32,
    pub reserved: u32,
}

impl Side {
    /// No memory, no events.
    pub const NOWHERE: Side =
        Side { start: 0, iov: NONE, iov_count: 0, options: 0, queue: NONE, counter: NONE, reserved: 0 };
}

/// A request as the target sees it.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    pub kind: u8,
    pub operation: u8,
    pub datatype: u8,
    pub ack: u8,
    pub portal: u32,
    pub uid: u32,
    /// Look-ups of the RMA unit's requester for the command: TLB hits in 15:0, misses in 31:16. For homes that price
    /// them; nothing else depends on it.
    pub lookups: u32,
    /// The initiator's identity: rank, or nid << 32 | pid.
    pub initiator: u64,
    pub match_bits: u64,
    pub remote_offset: u64,
    pub header_data: u64,
    pub length: u64,
    /// Comparand or mask of a swap; of a put, the first word may be a token ([`Request::token`]), the second an epoch
    /// ([`Request::epoch`]).
    pub operand: [u64; 4],
}

impl Request {
    /// Whether bytes go from the initiator's memory to the target.
    #[inline(always)]
    pub fn has_payload(&self) -> bool {
        use kind::{AGGREGATION_REQUEST, AGGREGATION_RESULT, ATOMIC, FETCH_ATOMIC, PUT, RMA_PUT, SWAP, VELO_SEND};
        let aggregates = matches!(self.kind, AGGREGATION_REQUEST | AGGREGATION_RESULT);
        aggregates || matches!(self.kind, PUT | ATOMIC | FETCH_ATOMIC | SWAP | VELO_SEND | RMA_PUT)
    }

    /// Whether bytes come back to the initiator's memory.
    #[inline(always)]
    pub fn has_reply(&self) -> bool {
        matches!(self.kind, kind::GET | kind::FETCH_ATOMIC | kind::SWAP | kind::RMA_GET)
    }

    /// The initiator's token for the memory of a put's payload, 0 for none. A put with a token that matches no posted
    /// receive leaves only its header, with the token. The receiver that takes the header fetches the payload itself.
    #[inline(always)]
    pub fn token(&self) -> u32 {
        if self.kind == kind::PUT { self.operand[0] as u32 } else { 0 }
    }

    /// The epoch of the portal table entry in which the put may be accepted
    /// ([`PortalEntry::epoch`](super::PortalEntry::epoch)), 0 for any. If one put of an epoch is refused, all later
    /// puts of that epoch are refused too. So their sender can resend them in order.
    #[inline(always)]
    pub fn epoch(&self) -> u64 {
        if self.kind == kind::PUT { self.operand[1] } else { 0 }
    }
}

/// A data-moving operation, complete for any process to run it.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Command {
    pub request: Request,
    /// Physical: nid << 32 | pid.
    pub target: u64,
    pub user_ptr: u64,
    /// The source of the payload (put, atomic, fetch-atomic, swap).
    pub source: Side,
    /// The destination of the reply (get, fetch-atomic, swap).
    pub sink: Side,
}

impl core::ops::Deref for Command {
    type Target = Request;
    #[inline(always)]
    fn deref(&self) -> &Request {
        &self.request
    }
}

/// Status of pending requests.
pub mod pending {
    pub const WAITING: u32 = 1;
}

/// A request that waits for the response of another process.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct Pending {
    pub slot: u32,
    pub next: u32,
    pub command: Command,
    /// The process that must send the response, by the home's identifier. Its Portals id may pass to another process.
    pub responder: u64,
    pub reserved: u64,
}

const _: () = {
    assert!(size_of::<Command>() == 168);
    assert!(size_of::<Pending>() == 192);
};
