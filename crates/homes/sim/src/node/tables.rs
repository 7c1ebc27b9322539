// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A NIC's tables in a simulator's own memory: one vector for each table.
//!
//! A shared segment and hardware need one contiguous layout. Here each table is a separate allocation, so no unsafe
//! code is needed.
//!
//! Invariants
//! 1. The tables that a program fills in the course of a run (entries, headers, counters, queues, descriptors,
//!    triggered operations, the ring of events) begin small, and double when their last free record is taken. A table
//!    at its limit is full, as that of any NIC with these limits.
//! 2. They grow between two transitions. A transition takes at most one record of a table, and posts at most
//!    [`EVENTS_ROOM`] events. An entry that is not use-once is appended to a priority list only while its portal has no
//!    unexpected headers, so it never takes several of them in one transition.
//! 3. References do not depend on the present sizes, nor do the results of searches and their counted steps
//!    ([`Folded`]).
//! 4. The heap has the ring of the one growing queue, and nothing else.
//!
//! Costs: about 4 KB for a NIC whose program waits for a few messages at once; each growth moves its table.

use std::mem::replace;
use std::sync::atomic::{AtomicU64, Ordering};

use selvedge_nic::aggregation::Membership;
use selvedge_nic::aggregation::member::Started;
use selvedge_nic::buddy::Buddy;
use selvedge_nic::portals::scatter::BLOCK_WORDS;
use selvedge_nic::registers::Registers;
use selvedge_nic::signals::{
    Counter, Descriptor, Doorbell, Encodings, EventQueue, NOTIFICATION_WORDS, PortPointers, SLOT_WORDS,
};
use selvedge_nic::tables::{
    BlockedRing, Bucket, Control, CounterBook, Entry, Folded, Header, LOCKS, LockWaiter, PAGES, Pending, Port,
    PortalEntry, QueueBook, TlbEntry, Triggered,
};
use selvedge_nic::tap::Tapped;
use selvedge_nic::{Full, Limits, Nic, Signals, Tables};

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
    folded: Folded,
    triggered: Vec<Triggered>,
    pending: Vec<Pending>,
    ports: Vec<Port>,
    port_pointers: Vec<PortPointers>,
    locks: Vec<u32>,
    lock_waiters: Vec<LockWaiter>,
    blocked: Option<Box<BlockedRing>>,
    memberships: Vec<Membership>,
    started: Vec<Started>,
    tlb: Vec<TlbEntry>,
    mailboxes: Vec<AtomicU64>,
    notifications: Vec<AtomicU64>,
    address_tables: Vec<u64>,
    heap_map: Vec<u64>,
    heap: Vec<AtomicU64>,
    events: Option<Events>,
}

/// An event queue whose ring grows.
#[derive(Clone, Copy)]
struct Events {
    queue: u32,
    index: usize,
    /// Most events that the ring may hold.
    most: u32,
}

/// The first events of a growing ring, and room that it has for the events of one transition.
const EVENTS_FIRST: u32 = 8;
const EVENTS_ROOM: u64 = 4;
/// Records of a new table that grows.
const RECORDS_FIRST: u32 = 1;

impl OwnTables {
    /// Makes the tables of a new NIC with these limits.
    pub fn new(limits: &Limits) -> OwnTables {
        let limits = Limits { heap_blocks_max: limits.heap_blocks, ..*limits }.clamped();
        fn some<T: Default>(count: u32) -> Vec<T> {
            (0..count).map(|_| T::default()).collect()
        }
        let first = |most: u32| most.min(RECORDS_FIRST);
        let heap_blocks = limits.heap_blocks.min(EVENTS_FIRST);
        let mut tables = OwnTables {
            limits,
            encodings: Encodings::new(&limits),
            control: Box::default(),
            doorbell: Box::default(),
            registers: Box::default(),
            portals: some(limits.portals),
            short_lists: some(limits.portals * limits.short_list),
            counters: some(first(limits.counters)),
            queues: some(first(limits.queues)),
            descriptors: some(first(limits.descriptors)),
            counter_books: some(first(limits.counters)),
            queue_books: some(first(limits.queues)),
            entries: some(first(limits.entries)),
            entry_buckets: vec![Bucket::EMPTY; 1],
            headers: some(first(limits.headers)),
            header_buckets: vec![Bucket::EMPTY; 1],
            folded: Folded::default(),
            triggered: some(first(limits.triggered)),
            pending: some(limits.pending),
            ports: some(limits.vpids),
            port_pointers: some(limits.vpids),
            locks: some(limits.vpids * LOCKS as u32),
            lock_waiters: some(limits.lock_waiters),
            blocked: (limits.vpids > 0).then(Box::default),
            memberships: some(limits.memberships),
            started: some(limits.memberships * limits.member_operations),
            tlb: some(limits.tlb_entries),
            mailboxes: some(limits.vpids * limits.mailbox_slots * SLOT_WORDS as u32),
            notifications: some(limits.vpids * limits.notifications * NOTIFICATION_WORDS as u32),
            address_tables: vec![0; limits.address_tables as usize * PAGES],
            heap_map: vec![0; Buddy::words_needed(limits.heap_blocks_max)],
            heap: words(heap_blocks),
            events: None,
        };
        tables.folded = tables.lacks();
        tables.whole().format(&Limits { heap_blocks, ..limits });
        tables
    }

    /// Allocates the NIC's only event queue, which has room for `most` events. Its ring takes the whole heap.
    pub fn alloc_events(&mut self, most: u32) -> Result<u32, Full> {
        let index = self.control.free_queue as usize;
        let queue = self.nic().queues().alloc(most.min(EVENTS_FIRST))?;
        self.events = Some(Events { queue, index, most });
        Ok(queue)
    }

    /// Returns the NIC, as the transitions of `nic` take it. Each table has room for one more record, and the event
    /// queue for the events of one transition, unless they are at their limits.
    #[inline]
    pub fn nic(&mut self) -> Nic<'_> {
        if self.is_short() {
            self.grow();
        }
        self.whole()
    }

    /// Whether a table has no free record now, and may grow.
    #[inline]
    fn is_short(&self) -> bool {
        let control = &*self.control;
        let lacks = |free: u32, now: usize, most: u32| free as usize >= now && now < most as usize;
        let limits = &self.limits;
        lacks(control.free_entry, self.entries.len(), limits.entries)
            || lacks(control.free_header, self.headers.len(), limits.headers)
            || lacks(control.free_counter, self.counters.len(), limits.counters)
            || lacks(control.free_triggered, self.triggered.len(), limits.triggered)
            || lacks(control.free_queue, self.queues.len(), limits.queues)
            || lacks(control.free_descriptor, self.descriptors.len(), limits.descriptors)
            || self.events.is_some_and(|events| self.lacks_events(&events))
    }

    #[inline]
    fn lacks_events(&self, events: &Events) -> bool {
        let book = &self.queue_books[events.index];
        let waiting = book.tail.wrapping_sub(self.queues[events.index].head.load(Ordering::Relaxed));
        book.capacity < events.most && waiting + EVENTS_ROOM > u64::from(book.capacity)
    }

    /// Doubles the tables without a free record. A new record is all zero, so it is free, and the last in order.
    #[cold]
    fn grow(&mut self) {
        let (limits, control) = (self.limits, &*self.control);
        if let Some(count) = more(control.free_entry, self.entries.len(), limits.entries) {
            extend(&mut self.entries, count);
        }
        if let Some(count) = more(control.free_header, self.headers.len(), limits.headers) {
            extend(&mut self.headers, count);
        }
        if let Some(count) = more(control.free_counter, self.counters.len(), limits.counters) {
            extend(&mut self.counters, count);
            extend(&mut self.counter_books, count);
        }
        if let Some(count) = more(control.free_triggered, self.triggered.len(), limits.triggered) {
            extend(&mut self.triggered, count);
        }
        if let Some(count) = more(control.free_queue, self.queues.len(), limits.queues) {
            extend(&mut self.queues, count);
            extend(&mut self.queue_books, count);
        }
        if let Some(count) = more(control.free_descriptor, self.descriptors.len(), limits.descriptors) {
            extend(&mut self.descriptors, count);
        }
        self.rehash();
        if let Some(events) = self.events.filter(|events| self.lacks_events(events)) {
            let wider = (self.queue_books[events.index].capacity * 2).min(events.most);
            self.heap.reserve_exact(wider as usize * BLOCK_WORDS - self.heap.len());
            self.heap.resize_with(wider as usize * BLOCK_WORDS, || AtomicU64::new(0));
            let mut nic = self.whole();
            let extended =
                nic.heap().grow(wider).map_err(|_| Full).and_then(|()| nic.queues().extend(events.queue, wider));
            debug_assert!(extended.is_ok(), "the ring has the heap for itself");
        }
    }

    /// Gives the indices as many buckets as their tables need now.
    fn rehash(&mut self) {
        let entry_buckets = self.entries.len().next_power_of_two();
        if entry_buckets > self.entry_buckets.len() {
            let before = replace(&mut self.entry_buckets, vec![Bucket::EMPTY; entry_buckets]);
            self.folded = self.lacks();
            self.whole().match_queue().rehash_entries(&before);
        }
        let header_buckets = (self.headers.len() * 2).next_power_of_two();
        if header_buckets > self.header_buckets.len() {
            let before = replace(&mut self.header_buckets, vec![Bucket::EMPTY; header_buckets]);
            self.folded = self.lacks();
            self.whole().match_queue().rehash_headers(&before);
        }
    }

    /// Returns the bits of the hash that the indices do not use, and that those of full tables would.
    fn lacks(&self) -> Folded {
        let (entries, headers) = (self.limits.entries.max(1), self.limits.headers.max(1) * 2);
        let bits = |most: u32, now: usize| (most.next_power_of_two() - 1) & !(now as u32 - 1);
        Folded { entries: bits(entries, self.entry_buckets.len()), headers: bits(headers, self.header_buckets.len()) }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    fn whole(&mut self) -> Nic<'_> {
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
                folded: self.folded,
                triggered: &mut self.triggered,
                counters: &mut self.counter_books,
                queues: &mut self.queue_books,
                pending: &mut self.pending,
                ports: &mut self.ports,
                locks: &mut self.locks,
                lock_waiters: &mut self.lock_waiters,
                blocked: self.blocked.as_deref_mut(),
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

/// Returns the records that a table gets beside its own when no record is free. `None`: one is free, or the table is at
/// its limit.
fn more(free: u32, now: usize, most: u32) -> Option<usize> {
    let is_short = free as usize >= now && now < most as usize;
    is_short.then(|| now.max(RECORDS_FIRST as usize).min(most as usize - now))
}

fn extend<T: Default>(table: &mut Vec<T>, count: usize) {
    table.reserve_exact(count);
    table.resize_with(table.len() + count, T::default);
}

/// Returns the words of n heap blocks.
fn words(blocks: u32) -> Vec<AtomicU64> {
    (0..blocks as usize * BLOCK_WORDS).map(|_| AtomicU64::new(0)).collect()
}

#[cfg(test)]
#[path = "tables_tests.rs"]
mod tests;
