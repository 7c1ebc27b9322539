// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A NIC's tables in a simulator's own memory: one vector for each table.
//!
//! A shared segment and hardware need one contiguous layout. Here each table is a separate allocation, so no unsafe
//! code is needed. The heap does not grow.

use std::sync::atomic::AtomicU64;

use selvedge_nic::aggregation::Membership;
use selvedge_nic::aggregation::member::Started;
use selvedge_nic::buddy::Buddy;
use selvedge_nic::portals::scatter::BLOCK_WORDS;
use selvedge_nic::registers::Registers;
use selvedge_nic::signals::{
    Counter, Descriptor, Doorbell, Encodings, EventQueue, NOTIFICATION_WORDS, PortPointers, SLOT_WORDS,
};
use selvedge_nic::tables::{
    BlockedRing, Bucket, Control, CounterBook, Entry, Header, LOCKS, LockWaiter, PAGES, Pending, Port, PortalEntry,
    QueueBook, TlbEntry, Triggered,
};
use selvedge_nic::tap::Tapped;
use selvedge_nic::{Limits, Nic, Signals, Tables};

/// The tables of one NIC.
pub struct OwnTables {
    limits: Limits,
    encodings: Encodings,
    control: Box<Control>,
    doorbell: Box<Doorbell>,
    registers: Box<Registers>,
    portals: Vec<PortalEntry>,
    short_lists: Vec<u32>,
    counters: Vec<Counter>,
    queues: Vec<EventQueue>,
    descriptors: Vec<Descriptor>,
    counter_books: Vec<CounterBook>,
    queue_books: Vec<QueueBook>,
    entries: Vec<Entry>,
    entry_buckets: Vec<Bucket>,
    headers: Vec<Header>,
    header_buckets: Vec<Bucket>,
    triggered: Vec<Triggered>,
    pending: Vec<Pending>,
    ports: Vec<Port>,
    port_pointers: Vec<PortPointers>,
    locks: Vec<u32>,
    lock_waiters: Vec<LockWaiter>,
    blocked: Box<BlockedRing>,
    memberships: Vec<Membership>,
    started: Vec<Started>,
    tlb: Vec<TlbEntry>,
    mailboxes: Vec<AtomicU64>,
    notifications: Vec<AtomicU64>,
    address_tables: Vec<u64>,
    heap_map: Vec<u64>,
    heap: Vec<AtomicU64>,
}

impl OwnTables {
    /// Makes the tables of a new NIC with these limits.
    pub fn new(limits: &Limits) -> OwnTables {
        let limits = Limits { heap_blocks_max: limits.heap_blocks, ..*limits }.clamped();
        fn some<T: Default>(count: u32) -> Vec<T> {
            (0..count).map(|_| T::default()).collect()
        }
        let entry_bucket_count = limits.entries.max(1).next_power_of_two();
        let header_bucket_count = (limits.headers.max(1) * 2).next_power_of_two();
        let mut tables = OwnTables {
            limits,
            encodings: Encodings::new(&limits),
            control: Box::default(),
            doorbell: Box::default(),
            registers: Box::default(),
            portals: some(limits.portals),
            short_lists: some(limits.portals * limits.short_list),
            counters: some(limits.counters),
            queues: some(limits.queues),
            descriptors: some(limits.descriptors),
            counter_books: some(limits.counters),
            queue_books: some(limits.queues),
            entries: some(limits.entries),
            entry_buckets: vec![Bucket::EMPTY; entry_bucket_count as usize],
            headers: some(limits.headers),
            header_buckets: vec![Bucket::EMPTY; header_bucket_count as usize],
            triggered: some(limits.triggered),
            pending: some(limits.pending),
            ports: some(limits.vpids),
            port_pointers: some(limits.vpids),
            locks: some(limits.vpids * LOCKS as u32),
            lock_waiters: some(limits.lock_waiters),
            blocked: Box::default(),
            memberships: some(limits.memberships),
            started: some(limits.memberships * limits.member_operations),
            tlb: some(limits.tlb_entries),
            mailboxes: some(limits.vpids * limits.mailbox_slots * SLOT_WORDS as u32),
            notifications: some(limits.vpids * limits.notifications * NOTIFICATION_WORDS as u32),
            address_tables: vec![0; limits.address_tables as usize * PAGES],
            heap_map: vec![0; Buddy::words_needed(limits.heap_blocks_max)],
            heap: (0..limits.heap_blocks as usize * BLOCK_WORDS).map(|_| AtomicU64::new(0)).collect(),
        };
        tables.nic().format(&limits);
        tables
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the NIC, as the transitions of `nic` take it.
    pub fn nic(&mut self) -> Nic<'_> {
        Nic {
            signals: Signals {
                doorbell: &self.doorbell,
                registers: &self.registers,
                counters: &self.counters,
                queues: &self.queues,
                descriptors: &self.descriptors,
                heap: &self.heap,
                grants: &[],
                port_pointers: &self.port_pointers,
                mailboxes: &self.mailboxes,
                notifications: &self.notifications,
                encodings: self.encodings,
            },
            tables: Tables {
                control: &mut self.control,
                portals: &mut self.portals,
                short_lists: &mut self.short_lists,
                entries: &mut self.entries,
                entry_buckets: &mut self.entry_buckets,
                headers: &mut self.headers,
                header_buckets: &mut self.header_buckets,
                triggered: &mut self.triggered,
                counters: &mut self.counter_books,
                queues: &mut self.queue_books,
                pending: &mut self.pending,
                ports: &mut self.ports,
                locks: &mut self.locks,
                lock_waiters: &mut self.lock_waiters,
                blocked: &mut self.blocked,
                memberships: &mut self.memberships,
                started: &mut self.started,
                tlb: &mut self.tlb,
                address_tables: &mut self.address_tables,
                tlb_ways: self.limits.tlb_ways,
                velo_bytes: self.limits.velo_bytes,
                heap_map: &mut self.heap_map,
                list_max: self.limits.list,
                short_list: self.limits.short_list,
            },
            tap: Tapped::default(),
        }
    }

    /// Whether triggered operations are due.
    pub fn has_fired(&self) -> bool {
        self.control.has_fired()
    }

    /// Returns the part of the NIC that can be read at any time, without exclusive access.
    pub fn signals(&self) -> Signals<'_> {
        Signals {
            doorbell: &self.doorbell,
            registers: &self.registers,
            counters: &self.counters,
            queues: &self.queues,
            descriptors: &self.descriptors,
            heap: &self.heap,
            grants: &[],
            port_pointers: &self.port_pointers,
            mailboxes: &self.mailboxes,
            notifications: &self.notifications,
            encodings: self.encodings,
        }
    }
}
