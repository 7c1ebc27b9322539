// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiver's end of a channel: pieces, and the messages to which they are attached.
//!
//! Invariant: at most the last message of a channel is not whole.

use std::collections::VecDeque;

use selvedge_nic::velo::Endpoint;

use super::sink::Sink;
use super::wire::{FRAME_BYTES, Head, Piece, WORD};

/// The sources that a receive accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceFilter {
    Nothing,
    Any,
    /// One port: the VPIDs that its host port may have.
    From {
        node: u16,
        vpids: [u16; 2],
    },
}

impl SourceFilter {
    pub(super) fn includes(&self, source: Endpoint) -> bool {
        match self {
            SourceFilter::Nothing => false,
            SourceFilter::Any => true,
            SourceFilter::From { node, vpids } => *node == source.node && vpids.contains(&source.vpid),
        }
    }
}

#[derive(Clone, Copy)]
pub(super) enum PieceBody {
    Inline([u64; FRAME_BYTES / 8]),
    /// In the slot.
    Slot,
}

/// A piece that was announced, in the order of its channel. If it is a put, its payload may still be missing.
pub(super) struct Arriving {
    pub(super) piece: Piece,
    pub(super) bytes: u64,
    pub(super) body: PieceBody,
}

/// A piece that holds its credit.
pub(super) struct AttachedPiece {
    pub(super) slot: u8,
    pub(super) bytes: u64,
    pub(super) body: PieceBody,
}

/// A cache line of a buffer. Copies between buffers with different offsets in their lines take several times as long.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line([u8; LINE_BYTES]);

pub(super) const LINE_BYTES: usize = 64;

pub(super) fn lines_of(head: &Head) -> usize {
    head.bytes().div_ceil(LINE_BYTES as u64) as usize
}

/// A message that arrives or has arrived.
pub struct Incoming {
    pub(super) source: Endpoint,
    pub(super) head: Head,
    pub(super) arrived: u64,
    /// Its first bytes, if they were moved here. The vector's length is 0: the memory is accessed through its address.
    pub(super) buffer: Vec<Line>,
    /// The waiting receive, if the first bytes were moved there instead.
    pub(super) sink: Option<Sink>,
    pub(super) moved: u64,
    /// The pieces that were not moved, in order.
    pub(super) pieces: Vec<AttachedPiece>,
}

impl Incoming {
    pub(super) fn is_whole(&self) -> bool {
        self.arrived == self.head.bytes()
    }

    pub(super) fn has_buffer(&self) -> bool {
        self.buffer.capacity() != 0
    }

    /// Whether its bytes are moved as they arrive.
    pub(super) fn is_moved(&self) -> bool {
        self.has_buffer() || self.sink.is_some()
    }

    pub(super) fn mask(&self) -> u64 {
        self.pieces.iter().fold(0, |mask, piece| mask | 1 << piece.slot)
    }
}

/// The receiver's end of a channel.
#[derive(Default)]
pub struct Inbound {
    pub(super) source: Option<Endpoint>,
    pub(super) link: usize,
    pub(super) generation: u8,
    pub(super) has_left: bool,
    /// The number of the claim; it grows with each claim.
    pub(super) number: u64,
    /// The channel that the sender had before, if pieces of it are missing: they are attached first.
    pub(super) after: Option<u16>,
    /// Bits of slots: pieces that hold their credit; free ones not yet reported; puts that have arrived.
    pub(super) held: u64,
    pub(super) pending: u64,
    pub(super) arrived: u64,
    /// Announced pieces in order; the first is a put whose payload is missing.
    pub(super) waiting: VecDeque<Arriving>,
    pub(super) messages: VecDeque<Incoming>,
}

impl Inbound {
    /// A channel that was not claimed in this generation.
    pub(super) fn of_generation(generation: u8) -> Inbound {
        Inbound { generation, ..Inbound::default() }
    }

    pub(super) fn is_free(&self) -> bool {
        self.source.is_none()
    }

    /// Whether its sender has left, and no message or piece of it remains.
    pub(super) fn is_over(&self) -> bool {
        self.has_left && self.held == 0 && self.waiting.is_empty() && self.messages.is_empty()
    }
}

/// A matched message. Its channel's credits are held until `HostPort::free`.
pub struct Received {
    pub(super) channel: u16,
    pub(super) message: Incoming,
}

impl Received {
    pub fn source(&self) -> Endpoint {
        self.message.source
    }

    /// Whether all of it is in the receive's sink.
    pub fn is_placed(&self) -> bool {
        self.message.sink.is_some()
    }

    pub fn tag(&self) -> u32 {
        self.message.head.tag
    }

    /// Bytes of the header and of the data, in whole words.
    pub fn header_bytes(&self) -> u64 {
        u64::from(self.message.head.header_words) * WORD
    }

    pub fn data_bytes(&self) -> u64 {
        u64::from(self.message.head.data_words) * WORD
    }
}
