// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The limits of a NIC: how many records each of its tables has.
//!
//! A NIC gets its limits when it is made, and they never change. The size of its memory follows from them
//! ([`crate::layout`]).

use crate::handle::CAPACITY_MAX;

/// The longest short list. Comparing this many entries one by one takes as long as two searches of the index.
pub const SHORT_LIST_MAX: u32 = 128;
/// The largest heap that a NIC may be given: 1 GiB.
pub const HEAP_BLOCKS_MAX: u32 = 1 << 23;

/// Capacities of a NIC's tables, set when it is made. A limit of 0 makes a table without slots.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// List entries and match entries.
    pub entries: u32,
    /// Unexpected headers.
    pub headers: u32,
    /// Memory descriptors.
    pub descriptors: u32,
    /// Counting events.
    pub counters: u32,
    /// Event queues.
    pub queues: u32,
    /// Portal table entries (one more than the largest index).
    pub portals: u32,
    /// Triggered operations.
    pub triggered: u32,
    /// Vectors of one I/O vector.
    pub iovecs: u32,
    /// Entries of one list.
    pub list: u32,
    /// A priority list of up to this many entries has no index and is searched in order. The same number holds for the
    /// unexpected headers of a portal table entry. A power of two.
    pub short_list: u32,
    /// Requests that wait for a response from another process.
    pub pending: u32,
    /// Heap blocks that the NIC starts with.
    pub heap_blocks: u32,
    /// Heap blocks that it may grow to.
    pub heap_blocks_max: u32,
}

impl Limits {
    /// The limits of a NIC whose program asks for none. Such a NIC takes less than 4 MB.
    pub const DEFAULT: Limits = Limits {
        entries: 8192,
        headers: 4096,
        descriptors: 1024,
        counters: 2048,
        queues: 256,
        portals: 64,
        triggered: 1024,
        iovecs: 1024,
        list: 8192,
        short_list: 16,
        pending: 512,
        heap_blocks: 4096,
        heap_blocks_max: 1 << 18,
    };

    /// These limits, each brought into the range that a table supports.
    pub fn clamped(self) -> Limits {
        let cap = |value: u32| value.min(CAPACITY_MAX);
        Limits {
            entries: cap(self.entries),
            headers: cap(self.headers),
            descriptors: cap(self.descriptors),
            counters: cap(self.counters),
            queues: cap(self.queues),
            portals: self.portals.min(1 << 16),
            triggered: cap(self.triggered),
            iovecs: self.iovecs.min(1 << 20),
            list: self.list,
            short_list: self.short_list.clamp(1, SHORT_LIST_MAX).next_power_of_two(),
            pending: cap(self.pending),
            heap_blocks: self.heap_blocks.clamp(1, HEAP_BLOCKS_MAX),
            heap_blocks_max: self.heap_blocks_max.clamp(self.heap_blocks.clamp(1, HEAP_BLOCKS_MAX), HEAP_BLOCKS_MAX),
        }
    }

    /// Whether all limits are in their ranges. A segment with other limits is refused.
    pub fn are_sane(&self) -> bool {
        *self == self.clamped()
    }
}
