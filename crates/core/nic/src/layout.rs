// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The layout of a NIC's tables in one piece of memory.
//!
//! Invariants
//! 1. Every table starts on a 128-byte boundary, and no two tables overlap. The heap comes last, because it may grow.
//! 2. Offsets depend on the limits only. So two processes with the same limits agree on the layout.
//! 3. The layout has a version ([`VERSION`]). A change to a record, or to the order of the tables, needs a new version,
//!    in `registers/selvedge.rdl`.

use crate::aggregation::Membership;
use crate::aggregation::member::Started;
use crate::buddy::Buddy;
use crate::limits::Limits;
use crate::registers::Registers;
use crate::signals::{
    Counter, Descriptor, Doorbell, Encodings, EventQueue, GRANTS, Grant, NOTIFICATION_WORDS, PortPointers, SLOT_WORDS,
};
use crate::tables::{
    BlockedRing, Bucket, Control, CounterBook, Entry, Header, LOCKS, LockWaiter, PAGES, Pending, Port, PortalEntry,
    QueueBook, TlbEntry, Triggered,
};

/// Version of the layout, and reset value of the version register, because software compares that.
pub const VERSION: u32 = crate::registers::VERSION;
/// The heap is allocated in blocks of this size. A block holds one event.
pub const BLOCK_BYTES: u64 = 128;

/// The offset of each table, in bytes from the start of the NIC's memory.
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
    pub ports: u64,
    pub port_pointers: u64,
    pub locks: u64,
    pub lock_waiters: u64,
    pub blocked: u64,
    pub memberships: u64,
    pub started: u64,
    pub tlb: u64,
    pub mailboxes: u64,
    pub notifications: u64,
    pub address_tables: u64,
    pub heap_map: u64,
    pub heap: u64,
    pub encodings: Encodings,
    /// Buckets of the entries' index: a power of two, and at least one for each entry.
    pub entry_bucket_count: u32,
    /// Buckets of the headers' index: a power of two, and at least two for each header, because a header may be on
    /// several chains.
    pub header_bucket_count: u32,
    /// Words of the heap allocator's state.
    pub heap_map_words: u64,
}

impl Layout {
    /// The layout of a NIC with these limits. The first table begins at or after `start` bytes.
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
        let vpids = u64::from(limits.vpids);
        let ports = place(vpids, size_of::<Port>());
        let port_pointers = place(vpids, size_of::<PortPointers>());
        let locks = place(vpids * LOCKS as u64, size_of::<u32>());
        let lock_waiters = place(limits.lock_waiters.into(), size_of::<LockWaiter>());
        let blocked = place(1, size_of::<BlockedRing>());
        let memberships = place(limits.memberships.into(), size_of::<Membership>());
        let started = place(limits.started(), size_of::<Started>());
        let tlb = place(limits.tlb_entries.into(), size_of::<TlbEntry>());
        let mailboxes = place(vpids * u64::from(limits.mailbox_slots), SLOT_WORDS * 8);
        let notifications = place(vpids * u64::from(limits.notifications), NOTIFICATION_WORDS * 8);
        let address_tables = place(u64::from(limits.address_tables) * PAGES as u64, size_of::<u64>());
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
            ports,
            port_pointers,
            locks,
            lock_waiters,
            blocked,
            memberships,
            started,
            tlb,
            mailboxes,
            notifications,
            address_tables,
            heap_map,
            heap,
            encodings: Encodings::new(limits),
            entry_bucket_count,
            header_bucket_count,
            heap_map_words,
        }
    }

    /// Bytes from the start of the memory to the end of the initial heap.
    pub fn initial_bytes(&self) -> u64 {
        self.heap + u64::from(self.limits.heap_blocks) * BLOCK_BYTES
    }

    /// Bytes from the start of the memory to the end of the largest heap.
    pub fn reserved_bytes(&self) -> u64 {
        self.heap + u64::from(self.limits.heap_blocks_max) * BLOCK_BYTES
    }
}
