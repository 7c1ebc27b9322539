// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records of the match lists: entries, the portal table, unexpected headers.

use crate::handle::NONE;

/// Status of list entries.
pub mod entry {
    /// Reserved by a triggered append that has not fired.
    pub const RESERVED: u32 = 1;
    /// On a priority list.
    pub const PRIORITY: u32 = 2;
    /// On an overflow list.
    pub const OVERFLOW: u32 = 3;
    /// Automatically unlinked, while headers still refer to it: unexpected ones to an entry of an overflow list; to one
    /// of a priority list, that of a put whose payload is being fetched.
    pub const DRAINING: u32 = 4;
}

/// A list entry or match entry, of two cache lines: the first has all fields for matching, filling and completing a
/// plain use-once receive; the second has the rest.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct Entry {
    pub slot: u32,
    pub options: u32,
    pub match_bits: u64,
    pub ignore_bits: u64,
    /// Accepted source: rank, or nid << 32 | pid, except the bits of `source_ignore`.
    pub source: u64,
    pub source_ignore: u64,
    pub start: u64,
    /// Bytes in total, also of an I/O vector.
    pub length: u64,
    pub user_ptr: u64,

    /// Position of the entry in its list.
    pub sequence: u64,
    /// Links of the entry's chain ([`Bucket`]), or of the free list.
    pub next: u32,
    pub prev: u32,
    pub min_free: u64,
    pub local_offset: u64,
    pub counter: u32,
    pub uid: u32,
    /// First heap block of the I/O vector, or NONE.
    pub iov: u32,
    pub iov_count: u32,
    /// Number of headers whose payload is in this entry's memory, or is being fetched to it.
    pub headers: u32,
    pub portal: u16,
    /// The class that indexes this entry, [`CLASS_OTHER`] or [`CLASS_SHORT`].
    pub class: u8,
    pub reserved: u8,
}

/// First and last record of a chain.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bucket {
    pub head: u32,
    pub tail: u32,
}

impl Bucket {
    pub const EMPTY: Bucket = Bucket { head: NONE, tail: NONE };
}

/// The buckets that an index lacks while its table is smaller than its limit ([`crate::portals::matching`]): bits of the
/// hash that select a bucket of the full index and not one of the present index. 0: the index is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    pub entries: u32,
    pub headers: u32,
}

impl Folded {
    /// All buckets are there.
    pub const NONE: Folded = Folded { entries: 0, headers: 0 };
}

/// Wildcard patterns of one portal table entry that have a hash index of their own.
pub const CLASSES: usize = 4;
/// The class of entries whose pattern has no hash index: the NIC searches them in order.
pub const CLASS_OTHER: u8 = CLASSES as u8;

/// The class of an entry in the short list of its priority list: it is in no index.
pub const CLASS_SHORT: u8 = u8::MAX;

/// A wildcard pattern: entries with the same pattern share a hash index.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Class {
    pub ignore_bits: u64,
    pub source_ignore: u64,
    /// Entries on the priority and on the overflow list with this pattern.
    pub entries: [u32; 2],
    pub used: u32,
    pub reserved: u32,
}

/// Status of portal table entries.
pub mod portal {
    pub const ENABLED: u32 = 1;
    pub const DISABLED: u32 = 2;
}

/// A portal table entry.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct PortalEntry {
    pub status: u32,
    pub options: u32,
    pub queue: u32,
    /// Entries of the priority and of the overflow list.
    pub entries: [u32; 2],
    /// The unexpected list, in order of arrival.
    pub headers: u32,
    pub header_head: u32,
    pub header_tail: u32,
    /// 1: a `PTL_EVENT_PT_DISABLED` is due; it is posted when the queue has room.
    pub disabled_event: u32,
    /// Entries without a class, for each list.
    pub others: [u32; 2],
    /// Bit c: class c has entries, for each list. The bit after the classes stands for entries without a class.
    pub active: [u8; 2],
    /// Bit c: a search of the unexpected headers has used class c, so all headers are on its chains.
    pub searched: u8,
    pub reserved: u8,
    /// The short list: the number of its first entry, and the number after its last. Numbers only grow. Number n is
    /// stored at n modulo [`Limits::short_list`](crate::Limits::short_list), in this portal table entry's part of
    /// [`Tables::short_lists`](super::Tables::short_lists).
    pub short_head: u32,
    pub short_tail: u32,
    /// Number of times that it was disabled, in all allocations ([`Request::epoch`](super::Request::epoch)).
    pub disabled: u32,
    pub classes: [Class; CLASSES],
}

impl PortalEntry {
    pub(crate) const EMPTY: PortalEntry = PortalEntry {
        status: 0,
        options: 0,
        queue: NONE,
        entries: [0; 2],
        headers: 0,
        header_head: NONE,
        header_tail: NONE,
        disabled_event: 0,
        others: [0; 2],
        active: [0; 2],
        searched: 0,
        reserved: 0,
        short_head: 0,
        short_tail: 0,
        disabled: 0,
        classes: [Class { ignore_bits: 0, source_ignore: 0, entries: [0; 2], used: 0, reserved: 0 }; CLASSES],
    };

    /// Entries in the short list.
    #[inline(always)]
    pub fn short_length(&self) -> u32 {
        self.short_tail.wrapping_sub(self.short_head)
    }

    /// The current epoch, from 1 on. Disabling the entry starts the next epoch.
    #[inline(always)]
    pub fn epoch(&self) -> u64 {
        u64::from(self.disabled) + 1
    }

    /// Disables the entry: it refuses requests and starts another epoch.
    pub fn disable(&mut self) {
        // The order matters if the process dies between the two stores.
        self.disabled = self.disabled.wrapping_add(1);
        self.status = portal::DISABLED;
    }
}

/// Status of unexpected headers.
pub mod header {
    /// On the unexpected list.
    pub const LIVE: u32 = 1;
    /// Taken off the unexpected list for one receive, with its payload in place; or a put that has matched and whose
    /// payload is being fetched.
    pub const CLAIMED: u32 = 2;
}

/// Chains that a header is on: arrival order, then one for each class.
pub const CHAINS: usize = CLASSES + 1;

/// An unexpected header: a message that an overflow entry took.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct Header {
    pub slot: u32,
    pub entry: u32,
    pub source: u64,
    pub match_bits: u64,
    pub sequence: u64,
    /// Address of the payload, in the owner's memory.
    pub start: u64,
    pub rlength: u64,
    pub mlength: u64,
    pub remote_offset: u64,
    pub header_data: u64,
    pub uid: u32,
    pub portal: u16,
    pub kind: u8,
    pub operation: u8,
    /// Next and previous header, in order of arrival, then on each class's chain.
    pub links: [[u32; 2]; CHAINS],
    pub datatype: u8,
    /// Bit c: the header is on the chain of class c.
    pub chained: u8,
    pub reserved: u16,
    /// For a put whose payload stayed with its initiator: the initiator's token for the payload.
    pub token: u32,
}

const _: () = {
    assert!(size_of::<Entry>() == 128);
    assert!(size_of::<Header>() == 128);
    assert!(size_of::<PortalEntry>() == 192);
    assert!(size_of::<Bucket>() == 8);
};
