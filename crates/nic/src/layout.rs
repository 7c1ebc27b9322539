// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a NIC's tables lie in one piece of memory.
//!
//! Invariants
//! 1. Every table starts on a 128-byte boundary; none overlaps another; the heap comes last, so that its owner can
//!    let it grow.
//! 2. Offsets follow from the limits alone: two processes that know the limits agree on the layout.
//! 3. The layout has a version ([`VERSION`]); any change to a record or to their order changes it.

use crate::buddy::Buddy;
use crate::handle::CAPACITY_MAX;
use crate::registers::Registers;
use crate::signals::{Counter, Descriptor, Doorbell, Encodings, EventQueue, GRANTS, Grant};
use crate::tables::{Bucket, Control, CounterBook, Entry, Header, Pending, PortalEntry, QueueBook, Triggered};

/// Version of the layout.
pub const VERSION: u32 = 8;
/// The heap is handed out in blocks of this size: one event.
pub const BLOCK_BYTES: u64 = 128;
/// The longest short list: as many entries are compared one by one in the time of two searches of the index.
pub const SHORT_LIST_MAX: u32 = 128;
/// The largest heap that a NIC may be given: 1 GiB.
pub const HEAP_BLOCKS_MAX: u32 = 1 << 23;

/// Capacities of a NIC's tables, set when it is made. A zero is a table without slots.
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
    /// Entries of a priority list that are searched one by one before any is indexed, and unexpected headers of a
    /// portal table entry likewise. A power of two.
    pub short_list: u32,
    /// Requests that wait for an answer from another process's program.
    pub pending: u32,
    /// Heap blocks that the NIC starts with.
    pub heap_blocks: u32,
    /// Heap blocks that it may grow to.
    pub heap_blocks_max: u32,
}

impl Limits {
    /// What a NIC has when its program asks for nothing: under 4 MB in all.
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

    /// The limits, each brought to what a table can hold.
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

    /// Whether a segment may claim these limits.
    pub fn are_sane(&self) -> bool {
        *self == self.clamped()
    }
}

/// Where each table starts, in bytes from the start of the NIC's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub limits: Limits,
    pub control: u64,
    pub doorbell: u64,
    pub registers: u64,
    pub portals: u64,
    pub short_lists: u64,
    pub counters: u64,
    pub queues: u64,
    pub descriptors: u64,
    pub grants: u64,
    pub counter_books: u64,
    pub queue_books: u64,
    pub entries: u64,
    pub entry_buckets: u64,
    pub headers: u64,
    pub header_buckets: u64,
    pub triggered: u64,
    pub pending: u64,
    pub heap_map: u64,
    pub heap: u64,
    pub encodings: Encodings,
    /// Buckets of the entries' index: a power of two, at least one for every entry.
    pub entry_bucket_count: u32,
    /// Buckets of the headers' index: a power of two, two for every header, which may be on several chains.
    pub header_bucket_count: u32,
    /// Words of the heap's allocator.
    pub heap_map_words: u64,
}

impl Layout {
    /// The layout of a NIC with these limits, its first table at `start` bytes.
    pub fn new(limits: &Limits, start: u64) -> Layout {
        let mut at = start;
        let mut place = |count: u64, record_bytes: usize| {
            let offset = at.next_multiple_of(128);
            at = offset + count * record_bytes as u64;
            offset
        };
        let entry_bucket_count = limits.entries.max(1).next_power_of_two();
        let header_bucket_count = (limits.headers.max(1) * 2).next_power_of_two();
        let heap_map_words = Buddy::words_needed(limits.heap_blocks_max) as u64;
        let control = place(1, size_of::<Control>());
        let doorbell = place(1, size_of::<Doorbell>());
        let registers = place(1, size_of::<Registers>());
        let portals = place(limits.portals.into(), size_of::<PortalEntry>());
        let short_lists = place(u64::from(limits.portals) * u64::from(limits.short_list), size_of::<u32>());
        let counters = place(limits.counters.into(), size_of::<Counter>());
        let queues = place(limits.queues.into(), size_of::<EventQueue>());
        let descriptors = place(limits.descriptors.into(), size_of::<Descriptor>());
        let grants = place(GRANTS as u64, size_of::<Grant>());
        let counter_books = place(limits.counters.into(), size_of::<CounterBook>());
        let queue_books = place(limits.queues.into(), size_of::<QueueBook>());
        let entries = place(limits.entries.into(), size_of::<Entry>());
        let entry_buckets = place(entry_bucket_count.into(), size_of::<Bucket>());
        let headers = place(limits.headers.into(), size_of::<Header>());
        let header_buckets = place(header_bucket_count.into(), size_of::<Bucket>());
        let triggered = place(limits.triggered.into(), size_of::<Triggered>());
        let pending = place(limits.pending.into(), size_of::<Pending>());
        let heap_map = place(heap_map_words, 8);
        let heap = place(0, 1).next_multiple_of(4096);
        Layout {
            limits: *limits,
            control,
            doorbell,
            registers,
            portals,
            short_lists,
            counters,
            queues,
            descriptors,
            grants,
            counter_books,
            queue_books,
            entries,
            entry_buckets,
            headers,
            header_buckets,
            triggered,
            pending,
            heap_map,
            heap,
            encodings: Encodings::new(limits),
            entry_bucket_count,
            header_bucket_count,
            heap_map_words,
        }
    }

    /// Bytes from the start of the memory to the end of the heap that the NIC starts with.
    pub fn initial_bytes(&self) -> u64 {
        self.heap + u64::from(self.limits.heap_blocks) * BLOCK_BYTES
    }

    /// Bytes from the start of the memory to the end of the largest heap.
    pub fn reserved_bytes(&self) -> u64 {
        self.heap + u64::from(self.limits.heap_blocks_max) * BLOCK_BYTES
    }
}
