// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The limits of a NIC: the capacities of its tables. A NIC gets them when it is made, and they never change. The size
//! of its memory follows from them ([`crate::layout`]).

use crate::handle::CAPACITY_MAX;

/// The longest short list. Comparing this many entries takes as long as two searches of the index.
pub const SHORT_LIST_MAX: u32 = 128;
/// The most virtual process ids: descriptors of the RMA unit have 8 bits for them.
pub const VPIDS_MAX: u32 = 256;
/// The most global address tables: a network logical address has 9 bits for them (seed 002, section 5.3).
pub const ADDRESS_TABLES_MAX: u32 = 512;
/// The most slots of a mailbox, and the most entries of a notification queue.
pub const RING_ENTRIES_MAX: u32 = 1 << 16;
/// The largest TLB.
pub const TLB_ENTRIES_MAX: u32 = 1 << 16;
/// The most lock requests that a responder keeps.
pub const LOCK_WAITERS_MAX: u32 = 1 << 10;
/// The most aggregation groups of a process, and operations of each that may be under way.
pub const MEMBERSHIPS_MAX: u32 = 1 << 12;
pub const MEMBER_OPERATIONS_MAX: u32 = 1 << 10;
/// The longest VELO message of any NIC.
pub const VELO_BYTES_MAX: u32 = 120;
/// The largest heap of any NIC: 1 GiB.
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
    /// The longest priority list without an index, searched in order; the same for the unexpected headers of a portal
    /// table entry. A power of two.
    pub short_list: u32,
    /// Requests that wait for a response from another process.
    pub pending: u32,
    /// Heap blocks that the NIC starts with.
    pub heap_blocks: u32,
    /// Heap blocks that the NIC may grow to.
    pub heap_blocks_max: u32,
    /// Virtual process ids (VPIDs) of the VELO and RMA units. 0: the NIC has neither unit, and the limits below are 0.
    pub vpids: u32,
    /// The longest VELO message in bytes: 64 on the prototype of seed 002, 120 on the later generation.
    pub velo_bytes: u32,
    /// Slots of each mailbox, a power of two.
    pub mailbox_slots: u32,
    /// Entries of each notification queue, a power of two.
    pub notifications: u32,
    /// Global address tables. Each maps 1 GiB of memory and takes 2 MiB.
    pub address_tables: u32,
    /// Entries of the TLB, a power of two. 0: each translation reads its table.
    pub tlb_entries: u32,
    /// Associativity of the TLB, a power of two. 1: direct mapped.
    pub tlb_ways: u32,
    /// Failed lock requests that are kept until they succeed. 0: each is answered at once.
    pub lock_waiters: u32,
    /// Aggregation groups of the process ([`crate::aggregation::Member`]). 0: the NIC accepts nothing from aggregation
    /// nodes, and the limit below is 0.
    pub memberships: u32,
    /// Operations of each group that may be started and not taken; it bounds the credits that a group can use.
    pub member_operations: u32,
}

impl Limits {
    /// The default limits. Such a NIC takes less than 4 MB.
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
        ..Limits::NONE
    };

    /// No table has slots.
    pub const NONE: Limits = Limits {
        entries: 0,
        headers: 0,
        descriptors: 0,
        counters: 0,
        queues: 0,
        portals: 0,
        triggered: 0,
        iovecs: 0,
        list: 0,
        short_list: 1,
        pending: 0,
        heap_blocks: 1,
        heap_blocks_max: 1,
        vpids: 0,
        velo_bytes: 0,
        mailbox_slots: 0,
        notifications: 0,
        address_tables: 0,
        tlb_entries: 0,
        tlb_ways: 0,
        lock_waiters: 0,
        memberships: 0,
        member_operations: 0,
    };

    /// The limits for a program that uses the VELO and RMA units alone. It may register 4 GiB of memory, and takes 11
    /// MB. The prototype has 32 VPIDs (seed 002, section 7.4).
    pub const EXTOLL: Limits = Limits {
        pending: 512,
        vpids: 32,
        velo_bytes: VELO_BYTES_MAX,
        mailbox_slots: 1 << 8,
        notifications: 1 << 12,
        address_tables: 4,
        ..Limits::NONE
    };

    /// Clamps each limit to the range that a table supports.
    pub fn clamped(self) -> Limits {
        let cap = |value: u32| value.min(CAPACITY_MAX);
        // Limits of absent units are 0.
        let unit = |value: u32| if self.vpids == 0 { 0 } else { value };
        let power = |value: u32, least: u32, most: u32| value.clamp(least, most).next_power_of_two();
        let tlb_entries = if self.tlb_entries == 0 { 0 } else { power(self.tlb_entries, 1, TLB_ENTRIES_MAX) };
        let tlb_ways = if tlb_entries == 0 { 0 } else { power(self.tlb_ways, 1, tlb_entries) };
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
            vpids: self.vpids.min(VPIDS_MAX),
            velo_bytes: unit(self.velo_bytes.clamp(8, VELO_BYTES_MAX) & !7),
            // The longest message takes three slots.
            mailbox_slots: unit(power(self.mailbox_slots, 4, RING_ENTRIES_MAX)),
            notifications: unit(power(self.notifications, 2, RING_ENTRIES_MAX)),
            address_tables: unit(self.address_tables.min(ADDRESS_TABLES_MAX)),
            tlb_entries: unit(tlb_entries),
            tlb_ways: unit(tlb_ways),
            lock_waiters: unit(self.lock_waiters.min(LOCK_WAITERS_MAX)),
            memberships: self.memberships.min(MEMBERSHIPS_MAX),
            member_operations: match self.memberships {
                0 => 0,
                _ => self.member_operations.clamp(1, MEMBER_OPERATIONS_MAX),
            },
        }
    }

    /// Operations of all groups that may be started and not taken.
    pub fn started(&self) -> u64 {
        u64::from(self.memberships) * u64::from(self.member_operations)
    }

    /// Whether all limits are in their ranges. A segment with other limits is refused.
    pub fn are_sane(&self) -> bool {
        *self == self.clamped()
    }
}
