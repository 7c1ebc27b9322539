// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A NIC of `nic` for the lockstep: one vector for each table of the RTL. The other tables are empty.

use std::sync::atomic::AtomicU64;

use selvedge_nic::buddy::Buddy;
use selvedge_nic::layout::BLOCK_BYTES;
use selvedge_nic::registers::Registers;
use selvedge_nic::signals::{Counter, Descriptor, Doorbell, Encodings, EventQueue};
use selvedge_nic::tables::{
    BlockedRing, Bucket, Control, CounterBook, Entry, Folded, Header, PAGES, Pending, PortalEntry, QueueBook, TlbEntry,
    Triggered,
};
use selvedge_nic::tap::Tapped;
use selvedge_nic::{Bus, Fault, Layout, Limits, Nic, Signals, Tables};

/// The tables of a NIC.
pub struct Home {
    limits: Limits,
    pub control: Box<Control>,
    doorbell: Box<Doorbell>,
    registers: Box<Registers>,
    pub counters: Vec<Counter>,
    pub books: Vec<CounterBook>,
    pub descriptors: Vec<Descriptor>,
    pub triggered: Vec<Triggered>,
    pub portals: Vec<PortalEntry>,
    pub entries: Vec<Entry>,
    pub headers: Vec<Header>,
    short_lists: Vec<u32>,
    entry_buckets: Vec<Bucket>,
    header_buckets: Vec<Bucket>,
    pub queues: Vec<EventQueue>,
    pub queue_books: Vec<QueueBook>,
    pub heap: Vec<AtomicU64>,
    pending: Vec<Pending>,
    heap_map: Vec<u64>,
    pub tlb: Vec<TlbEntry>,
    blocked: Box<BlockedRing>,
    pub address_tables: Vec<u64>,
}

fn some<T: Default>(count: u32) -> Vec<T> {
    (0..count).map(|_| T::default()).collect()
}

impl Home {
    /// Creates a NIC. In these limits, tables that the RTL lacks must have no records.
    pub fn new(limits: &Limits) -> Home {
        let layout = Layout::new(limits, 0);
        let mut home = Home {
            limits: *limits,
            control: Box::default(),
            doorbell: Box::default(),
            registers: Box::default(),
            counters: some(limits.counters),
            books: some(limits.counters),
            descriptors: some(limits.descriptors),
            triggered: some(limits.triggered),
            portals: some(limits.portals),
            entries: some(limits.entries),
            headers: some(limits.headers),
            short_lists: some(limits.portals * limits.short_list),
            entry_buckets: vec![Bucket::EMPTY; layout.entry_bucket_count as usize],
            header_buckets: vec![Bucket::EMPTY; layout.header_bucket_count as usize],
            queues: some(limits.queues),
            queue_books: some(limits.queues),
            heap: some(limits.heap_blocks * (BLOCK_BYTES / 8) as u32),
            pending: some(limits.pending),
            heap_map: vec![0; Buddy::words_needed(limits.heap_blocks_max)],
            tlb: some(limits.tlb_entries),
            blocked: Box::default(),
            address_tables: vec![0; limits.address_tables as usize * PAGES],
        };
        home.nic().format(limits);
        home
    }

    /// Index of the queue with this reference.
    pub fn queue_index(&mut self, reference: u32) -> usize {
        let (index, _) = self.nic().signals.encodings.queues.decode(reference);
        index as usize
    }

    /// Its registers.
    pub fn registers(&self) -> &Registers {
        &self.registers
    }

    /// The NIC, as the transitions take it.
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
                port_pointers: &[],
                mailboxes: &[],
                notifications: &[],
                encodings: Encodings::new(&self.limits),
            },
            tables: Tables {
                control: &mut self.control,
                blocked: Some(&mut self.blocked),
                portals: &mut self.portals,
                short_lists: &mut self.short_lists,
                entries: &mut self.entries,
                entry_buckets: &mut self.entry_buckets,
                headers: &mut self.headers,
                header_buckets: &mut self.header_buckets,
                folded: Folded::NONE,
                triggered: &mut self.triggered,
                counters: &mut self.books,
                queues: &mut self.queue_books,
                pending: &mut self.pending,
                ports: &mut [],
                locks: &mut [],
                lock_waiters: &mut [],
                memberships: &mut [],
                started: &mut [],
                tlb: &mut self.tlb,
                address_tables: &mut self.address_tables,
                tlb_ways: self.limits.tlb_ways,
                velo_bytes: 0,
                heap_map: &mut self.heap_map,
                list_max: self.limits.list,
                short_list: self.limits.short_list,
            },
            tap: Tapped::default(),
        }
    }
}

/// A bus that moves no bytes: all memory is mapped.
pub struct NoMemory;

impl Bus for NoMemory {
    fn reaches(&mut self, _: u64, _: u64) -> bool {
        true
    }
    fn put(&mut self, _: u64, _: u64, _: u64) -> Result<(), Fault> {
        Ok(())
    }
    fn get(&mut self, _: u64, _: u64, _: u64) -> Result<(), Fault> {
        Ok(())
    }
    fn read(&mut self, _: u64, _: &mut [u8]) -> Result<(), Fault> {
        Ok(())
    }
    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), Fault> {
        Ok(())
    }
    fn payload(&mut self, _: u64, _: &mut [u8]) -> Result<(), Fault> {
        Ok(())
    }
    fn reply(&mut self, _: u64, _: &[u8]) -> Result<(), Fault> {
        Ok(())
    }
}
