// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Allocation and release of a program's resources: descriptors, counters, queues, portal table entries, heap blocks.
//!
//! Each resource has a limit, set when the NIC is made. Beyond the limit the result is [`Full`] and nothing has
//! changed. The free slots of a table form a list. All operations are O(1), except the search for the first free portal
//! table entry, which is a scan.

use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::fence;

use super::constants::options;
use super::descriptor::{DESCRIPTOR_LIVE, DescriptorView};
use super::errors::{CounterError, PortalError};
use super::scatter::BLOCK_WORDS;
use crate::buddy::Buddy;
use crate::errors::{Corrupt, Full};
use crate::handle::NONE;
use crate::layout::BLOCK_BYTES;
use crate::limits::Limits;
use crate::nic::Nic;
use crate::tables::{Bucket, CounterBook, Header, PortalEntry, QueueBook, counter, header, portal, queue, slot};
use crate::tap::Transition;

/// Takes the first slot off a free list of records made of atomics.
macro_rules! take_free {
    ($head:expr, $records:expr) => {{
        let index = $head;
        let record = $records.get(index as usize).ok_or(Full)?;
        $head = slot::next(index, record.next_free.load(Relaxed));
        (index, record)
    }};
}

impl Nic<'_> {
    /// Makes a NIC out of zeroed memory. Its free lists hold all records then, so it touches none of them.
    pub fn format(&mut self, limits: &Limits) {
        self.signals.registers.format();
        let tables = &mut self.tables;
        Buddy::init(tables.heap_map, limits.heap_blocks_max, limits.heap_blocks);
        tables.entry_buckets.fill(Bucket::EMPTY);
        tables.header_buckets.fill(Bucket::EMPTY);
        for entry in tables.portals.iter_mut() {
            *entry = EMPTY_PORTAL;
        }
        let control = &mut *tables.control;
        (control.fire_head, control.fire_tail) = (NONE, NONE);
    }

    /// Binds a memory descriptor. Returns its reference.
    pub fn bind(&mut self, view: &DescriptorView) -> Result<u32, Full> {
        if self.tap.is_open() {
            return self
                .tapped(|nic| nic.bind(view), |made| Some(Transition::Bind { view: *view, descriptor: made.ok() }));
        }
        let (index, record) = take_free!(self.tables.control.free_descriptor, self.signals.descriptors);
        // Pairs with the acquire fence of a reader. A reader that sees a field of the new descriptor also sees that the
        // old one is gone.
        fence(Release);
        record.start.store(view.start, Relaxed);
        record.length.store(view.length, Relaxed);
        record.options.store(view.options, Relaxed);
        record.queue.store(view.queue, Relaxed);
        record.counter.store(view.counter, Relaxed);
        record.iov.store(view.iov, Relaxed);
        record.iov_count.store(view.iov_count, Relaxed);
        let generation = slot::generation(record.slot.load(Relaxed));
        record.slot.store(slot::word(generation, DESCRIPTOR_LIVE), Release);
        Ok(self.signals.encodings.descriptors.encode(index, generation))
    }

    /// Releases a descriptor.
    pub fn release(&mut self, reference: u32) -> Option<()> {
        if self.tap.is_open() {
            return self.tapped(
                |nic| nic.release(reference),
                |done| Some(Transition::Release { descriptor: reference, is_done: done.is_some() }),
            );
        }
        let view = self.signals.descriptor(reference)?;
        let encoding = self.signals.encodings.descriptors;
        let (index, generation) = encoding.decode(reference);
        let record = self.signals.descriptors.get(index as usize)?;
        record.slot.store(slot::word(encoding.next_generation(generation), slot::FREE), Release);
        record.next_free.store(slot::link(index, self.tables.control.free_descriptor), Relaxed);
        self.tables.control.free_descriptor = index;
        self.free_iov(view.iov);
        Some(())
    }

    /// Allocates a counter, at zero.
    pub fn counter_alloc(&mut self) -> Result<u32, Full> {
        if self.tap.is_open() {
            return self
                .tapped(|nic| nic.counter_alloc(), |made| Some(Transition::CounterAlloc { counter: made.ok() }));
        }
        let index = self.tables.control.free_counter;
        let book = self.tables.counters.get_mut(index as usize).ok_or(Full)?;
        let counter = self.signals.counters.get(index as usize).ok_or(Full)?;
        self.tables.control.free_counter = slot::next(index, book.next_free);
        let generation = slot::generation(book.slot);
        let live = slot::word(generation, counter::LIVE);
        *book = CounterBook {
            slot: live,
            next_free: NONE,
            threshold_next: u64::MAX,
            armed_head: NONE,
            armed_tail: NONE,
            ..CounterBook::default()
        };
        counter.success.store(0, Relaxed);
        counter.failure.store(0, Relaxed);
        counter.given().iter().for_each(|lane| lane.store(0, Relaxed));
        counter.lanes_given.store(0, Relaxed);
        counter.common.store(0, Relaxed);
        counter.slot.store(live, Release);
        Ok(self.signals.encodings.counters.encode(index, generation))
    }

    /// Frees a counter; operations that wait for it are cancelled.
    pub fn counter_free(&mut self, reference: u32) -> Result<(), CounterError> {
        if self.tap.is_open() {
            return self.tapped(
                |nic| nic.counter_free(reference),
                |done| Some(Transition::CounterFree { counter: reference, is_done: done.is_ok() }),
            );
        }
        self.counter_book(reference).ok_or(CounterError::Invalid)?;
        self.revoke_at_counter(reference)?;
        self.cancel_triggered(reference).ok_or(CounterError::Invalid)?;
        let encoding = self.signals.encodings.counters;
        let (index, generation) = encoding.decode(reference);
        let free = self.tables.control.free_counter;
        let (_, book) = self.counter_book(reference).ok_or(CounterError::Invalid)?;
        book.slot = slot::word(encoding.next_generation(generation), slot::FREE);
        book.next_free = slot::link(index, free);
        self.signals.counters.get(index as usize).ok_or(CounterError::Invalid)?.slot.store(slot::FREE, Release);
        self.tables.control.free_counter = index;
        Ok(())
    }

    /// Allocates an event queue of exactly this capacity. On [`Full`] the table or the heap is full;
    /// [`Nic::queue_available`] says which.
    pub fn queue_alloc(&mut self, capacity: u32) -> Result<u32, Full> {
        if self.tap.is_open() {
            return self.tapped(
                |nic| nic.queue_alloc(capacity),
                |made| Some(Transition::QueueAlloc { capacity, queue: made.ok() }),
            );
        }
        if !self.queue_available() {
            return Err(Full);
        }
        let ring = self.heap_alloc(capacity)?;
        let first = ring as usize * BLOCK_WORDS;
        for block in 0..capacity as usize {
            if let Some(word) = self.signals.heap.get(first + block * BLOCK_WORDS) {
                word.store(0, Relaxed);
            }
        }
        let index = self.tables.control.free_queue;
        let book = self.tables.queues.get_mut(index as usize).ok_or(Full)?;
        let queue = self.signals.queues.get(index as usize).ok_or(Full)?;
        self.tables.control.free_queue = slot::next(index, book.next_free);
        let generation = slot::generation(book.slot);
        let live = slot::word(generation, queue::LIVE);
        queue.ring.store(ring, Relaxed);
        queue.capacity.store(capacity, Relaxed);
        queue.head.store(0, Relaxed);
        queue.lost_below.store(0, Relaxed);
        queue.reported.store(0, Relaxed);
        queue.disabled_events.store(0, Relaxed);
        *book = QueueBook { slot: live, next_free: NONE, ring, capacity, ..QueueBook::default() };
        queue.slot.store(live, Release);
        Ok(self.signals.encodings.queues.encode(index, generation))
    }

    /// Whether the table of event queues has a free slot.
    pub fn queue_available(&self) -> bool {
        self.tables.queues.get(self.tables.control.free_queue as usize).is_some()
    }

    /// Frees an event queue and its ring.
    pub fn queue_free(&mut self, reference: u32) -> Option<()> {
        if self.tap.is_open() {
            return self.tapped(
                |nic| nic.queue_free(reference),
                |done| Some(Transition::QueueFree { queue: reference, is_done: done.is_some() }),
            );
        }
        let queue = self.signals.queue(reference)?;
        let encoding = self.signals.encodings.queues;
        let (index, generation) = encoding.decode(reference);
        let book = self.tables.queues.get_mut(index as usize)?;
        let ring = book.ring;
        book.slot = slot::word(encoding.next_generation(generation), slot::FREE);
        book.next_free = slot::link(index, self.tables.control.free_queue);
        queue.slot.store(slot::FREE, Release);
        self.tables.control.free_queue = index;
        self.heap_free(ring);
        Some(())
    }

    /// Allocates a portal table entry: the wanted index, or the lowest free one.
    pub fn portal_alloc(&mut self, wanted: Option<u32>, flags: u32, queue: u32) -> Result<u32, PortalError> {
        if self.tap.is_open() {
            return self.tapped(
                |nic| nic.portal_alloc(wanted, flags, queue),
                |made| Some(Transition::PortalAlloc { wanted, options: flags, queue, portal: made.ok() }),
            );
        }
        let index = match wanted {
            Some(index) => match self.tables.portals.get(index as usize) {
                None => return Err(PortalError::Invalid),
                Some(entry) if entry.status != 0 => return Err(PortalError::InUse),
                Some(_) => index,
            },
            None => self.tables.portals.iter().position(|entry| entry.status == 0).ok_or(PortalError::Full)? as u32,
        };
        let status = if flags & options::PT_ALLOC_DISABLED != 0 { portal::DISABLED } else { portal::ENABLED };
        let entry = &mut self.tables.portals[index as usize];
        *entry = PortalEntry { status, options: flags, queue, disabled: entry.disabled, ..EMPTY_PORTAL };
        Ok(index)
    }

    /// Frees a portal table entry and its unexpected headers. Refused while entries are linked, so there are no grants.
    pub fn portal_free(&mut self, index: u32) -> Result<(), PortalError> {
        if self.tap.is_open() {
            return self.tapped(
                |nic| nic.portal_free(index),
                |done| Some(Transition::PortalFree { portal: index, is_done: done.is_ok() }),
            );
        }
        let entry = *self.portal(index)?;
        // A put whose payload is being fetched, or a header that the owner has claimed.
        let is_held =
            |record: &Header| slot::status(record.slot) == header::CLAIMED && u32::from(record.portal) == index;
        if entry.entries != [0, 0] || self.tables.headers.iter().any(is_held) {
            return Err(PortalError::InUse);
        }
        while let Some(header) = self.first_header(index) {
            self.drop_header(header);
        }
        if entry.disabled_event != 0 {
            if let Some(queue) = self.signals.queue(entry.queue) {
                queue.disabled_events.store(queue.disabled_events.load(Relaxed).saturating_sub(1), Release);
            }
        }
        // Requests that are still on their way to it belong to an epoch that is over.
        self.tables.portals[index as usize] = PortalEntry { disabled: entry.disabled.wrapping_add(1), ..EMPTY_PORTAL };
        Ok(())
    }

    /// Enables or disables a portal table entry.
    pub fn portal_set(&mut self, index: u32, enabled: bool) -> Result<(), PortalError> {
        if self.tap.is_open() {
            return self.tapped(
                |nic| nic.portal_set(index, enabled),
                |done| Some(Transition::PortalSet { portal: index, is_enabled: enabled, is_done: done.is_ok() }),
            );
        }
        self.portal(index)?;
        if !enabled {
            self.revoke_at_portal(index)?;
        }
        let entry = &mut self.tables.portals[index as usize];
        match enabled {
            true => entry.status = portal::ENABLED,
            false => entry.disable(),
        }
        Ok(())
    }

    /// Allocates contiguous heap blocks. Returns the first.
    pub fn heap_alloc(&mut self, blocks: u32) -> Result<u32, Full> {
        Buddy::attach(self.tables.heap_map).ok().and_then(|mut heap| heap.alloc(blocks)).ok_or(Full)
    }

    /// Frees heap blocks.
    pub fn heap_free(&mut self, first: u32) {
        if let Ok(mut heap) = Buddy::attach(self.tables.heap_map) {
            let _ = heap.free(first);
        }
    }

    /// Makes the heap larger, after its owner has made room behind it.
    pub fn heap_grow(&mut self, blocks: u32) -> Result<(), Corrupt> {
        Buddy::attach(self.tables.heap_map).map_err(|_| Corrupt)?.grow(blocks);
        Ok(())
    }

    /// Heap blocks in all, free, and in the largest free piece.
    pub fn heap_blocks(&mut self) -> (u32, u32, u32) {
        match Buddy::attach(self.tables.heap_map) {
            Ok(heap) => (heap.blocks_now(), heap.free_blocks(), heap.largest_free()),
            Err(_) => (0, 0, 0),
        }
    }

    /// Copies an I/O vector (addresses and bytes) into the heap. Returns its first block.
    pub fn store_iov(&mut self, vectors: impl ExactSizeIterator<Item = (u64, u64)>) -> Result<u32, Full> {
        let per_block = BLOCK_BYTES / 16;
        let blocks = (vectors.len() as u64).div_ceil(per_block).max(1);
        let iov = self.heap_alloc(u32::try_from(blocks).map_err(|_| Full)?)?;
        let first = iov as usize * BLOCK_WORDS;
        for (index, (address, bytes)) in vectors.enumerate() {
            for (word, value) in [(0, address), (1, bytes)] {
                if let Some(place) = self.signals.heap.get(first + index * 2 + word) {
                    place.store(value, Relaxed);
                }
            }
        }
        Ok(iov)
    }

    /// Frees an I/O vector, if there is one.
    pub fn free_iov(&mut self, iov: u32) {
        if iov != NONE {
            self.heap_free(iov);
        }
    }
}

const EMPTY_PORTAL: PortalEntry = PortalEntry {
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
    classes: [crate::tables::Class { ignore_bits: 0, source_ignore: 0, entries: [0; 2], used: 0, reserved: 0 };
        crate::tables::CLASSES],
};
