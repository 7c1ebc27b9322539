// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads, writes and atomics on registered memory: the program's request, and the record of an unfinished one.

use libc::iovec;
use selvedge_nic::arithmetic::{Datatype, Operation as Arithmetic};

use crate::error::Fault;
use crate::pieces::{RemoteRange, total};
use crate::ticket::Ticket;

/// An operation with unanswered packets.
pub struct PendingAccess {
    pub ticket: Ticket,
    pub(crate) peer: u32,
    pub(crate) left: u32,
    pub(crate) error: Option<Fault>,
    /// The memory of the packets' payload, or of the replies.
    pub(crate) staging: Staging,
    pub(crate) note: Option<Note>,
    /// The target has refused a part of it, perhaps retried since. [`Peer::refused`](crate::peers::Peer) counts it.
    pub(crate) was_refused: bool,
    /// The data for a retry, if it goes over the units.
    pub(crate) over_units: Option<Box<OverUnits>>,
}

impl PendingAccess {
    /// Whether the target has refused a part of it for an unknown reason. It is then retried.
    pub(crate) fn awaits_retry(&self) -> bool {
        self.error.is_none() && self.over_units.as_ref().is_some_and(|over_units| over_units.is_refused)
    }
}

/// A read or write over the units.
pub(crate) struct OverUnits {
    pub write: bool,
    /// The program's pieces, or the copy of an injected write.
    pub pieces: Box<[iovec]>,
    pub remote: Box<[RemoteRange]>,
    pub runs: Vec<Run>,
    pub is_refused: bool,
    /// The number of retries.
    pub repetitions: u8,
}

/// A run of bytes that is contiguous at both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub start: u64,
    /// The port, and the network logical address at the target.
    pub vpid: u16,
    pub nla: u64,
    pub bytes: u64,
}

/// Our memory that an operation uses until it ends.
#[derive(Default)]
pub(crate) struct Staging {
    pub(crate) operands: Option<Box<[u8]>>,
    pub(crate) results: Option<Results>,
}

/// Fetched results, and their destination in the program's pieces.
type Results = (Box<[u8]>, Box<[iovec]>);

/// The notification of a write for the target's program (`FI_REMOTE_CQ_DATA`).
#[derive(Clone, Copy)]
pub(crate) struct Note {
    pub peer: u32,
    pub endpoint: u16,
    pub data: u64,
    /// The number of bytes written. It travels as match bits.
    pub bytes: u64,
}

/// A read or write.
#[derive(Clone, Copy)]
pub struct Transfer<'a> {
    pub write: bool,
    pub peer: u32,
    /// The target's endpoint, which gets `data` in a completion.
    pub endpoint: u16,
    pub pieces: &'a [iovec],
    pub remote: &'a [RemoteRange],
    pub data: Option<u64>,
    pub ticket: Ticket,
    pub inject: bool,
}

/// The effect of an atomic on its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Reads them.
    Read,
    /// Overwrites them.
    Write,
    Compute(Arithmetic),
    /// Overwrites them if a comparison with the comparand is true, or overwrites the bits that the comparand selects.
    Swap(Arithmetic),
}

/// An atomic operation.
#[derive(Clone, Copy)]
pub struct Atomic<'a> {
    pub effect: Effect,
    pub datatype: Datatype,
    pub peer: u32,
    /// The operands. All lengths are in bytes.
    pub operands: &'a [iovec],
    pub comparands: &'a [iovec],
    pub results: &'a [iovec],
    pub remote: &'a [RemoteRange],
    pub ticket: Ticket,
}

impl Transfer<'_> {
    /// Whether the local and the remote memory are equally long.
    pub(crate) fn fits(&self) -> bool {
        total(self.pieces) as u64 == self.remote.iter().map(|range| range.length as u64).sum::<u64>()
    }

    /// The notification for the target's program, if there is data for it.
    pub(crate) fn note(&self) -> Option<Note> {
        let (peer, endpoint) = (self.peer, self.endpoint);
        self.data.map(|data| Note { peer, endpoint, data, bytes: total(self.pieces) as u64 })
    }
}

impl Atomic<'_> {
    /// Whether the operands, comparands and results that exist are as long as the remote memory.
    pub(crate) fn fits(&self) -> bool {
        let bytes: usize = self.remote.iter().map(|range| range.length).sum();
        let is_as_long = |pieces: &[iovec]| total(pieces) == bytes;
        bytes != 0
            && (self.effect == Effect::Read || is_as_long(self.operands))
            && (self.results.is_empty() || is_as_long(self.results))
            && (!matches!(self.effect, Effect::Swap(_)) || is_as_long(self.comparands))
    }
}
