// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recovery of a NIC after a process died while it changed the tables.
//!
//! A process may be killed at any instruction, even while it holds the lock. The state that it leaves is determined by
//! single words. A record's slot tells whether the record exists and in which list; sequence numbers give the order.
//! Recovery derives everything else from these: free lists, chains, counts, the heap's allocator. It finishes the
//! interrupted operation if all its bytes were moved, and fails it (`PTL_NI_UNDELIVERABLE`) if not. Either way the
//! entry gets its event and its count, so no program waits for ever.
//!
//! Cost: O(n log n) in the number of records, without extra memory. It runs only after a death during a change.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::constants::{event_kind, fail, list, options};
use super::event::{Event, comm_kind, entry_event, first_word};
use super::scatter::Region;
use crate::buddy::Buddy;
use crate::handle::NONE;
use crate::nic::Nic;
use crate::tables::{Bucket, Class, counter, entry, header, queue, slot, triggered};

/// The recovery of the unit's tables. The caller holds the lock that the dead process held.
pub(crate) struct Recovery<'n, 'a> {
    pub(crate) nic: &'n mut Nic<'a>,
}

impl Recovery<'_, '_> {
    /// Rebuilds the derived state, and finishes or fails the interrupted operation.
    pub(crate) fn run(&mut self, alive: &mut impl FnMut(u64) -> bool) {
        self.nic.grants().recover();
        self.rebuild_queues();
        self.rebuild_lists();
        self.rebuild_triggered();
        self.rebuild_free_lists();
        self.rebuild_heap();
        if !alive(self.nic.tables.control.drainer) {
            self.nic.tables.control.drainer = 0;
        }
        self.finish_intent();
        self.nic.queues().rebuild_disabled_events();
    }

    /// A complete event counts, an incomplete one does not. A count that was made stays visible. A queue or counter is
    /// live if its record in the tables is live.
    fn rebuild_queues(&mut self) {
        for (book, queue) in self.nic.tables.queues.iter_mut().zip(self.nic.signals.queues) {
            if slot::status(book.slot) == queue::LIVE {
                let whole = |number: u64| {
                    let word = first_word(book.ring, book.capacity, number)?;
                    Some(self.nic.signals.heap.get(word)?.load(Acquire) == number.wrapping_add(1))
                };
                if whole(book.tail) == Some(true) {
                    book.tail = book.tail.wrapping_add(1);
                } else if book.tail != 0 && whole(book.tail - 1) == Some(false) {
                    book.tail -= 1;
                }
                book.head_seen = queue.head.load(Acquire);
                queue.slot.store(book.slot, Release);
            } else {
                queue.slot.store(slot::FREE, Release);
            }
        }
        for (book, counter) in self.nic.tables.counters.iter().zip(self.nic.signals.counters) {
            if slot::status(book.slot) == counter::LIVE {
                counter.failure.store(book.failure, Release);
                counter.success.store(book.success, Release);
                counter.slot.store(book.slot, Release);
            } else {
                counter.slot.store(slot::FREE, Release);
            }
        }
    }

    fn rebuild_lists(&mut self) {
        self.nic.tables.entry_buckets.fill(Bucket::EMPTY);
        self.nic.tables.header_buckets.fill(Bucket::EMPTY);
        for portal in self.nic.tables.portals.iter_mut() {
            portal.entries = [0; 2];
            portal.others = [0; 2];
            portal.active = [0; 2];
            (portal.short_head, portal.short_tail) = (0, 0);
            portal.headers = 0;
            (portal.header_head, portal.header_tail) = (NONE, NONE);
            portal.searched = 0;
            portal.classes = [Class::default(); crate::tables::CLASSES];
        }
        let mut at = self.sorted_entries();
        while let Some(record) = self.nic.tables.entries.get(at as usize) {
            let next = record.next;
            self.nic.match_queue().chain_entry(at);
            at = next;
        }
        for record in self.nic.tables.entries.iter_mut() {
            record.headers = 0;
        }
        let mut at = self.sorted_headers();
        while let Some(record) = self.nic.tables.headers.get(at as usize) {
            let (next, owner) = (record.links[0][0], record.entry);
            self.nic.match_queue().chain_header(at);
            if let Some(owner) = self.nic.tables.entries.get_mut(owner as usize) {
                owner.headers += 1;
            }
            at = next;
        }
        for record in self.nic.tables.headers.iter().filter(|record| slot::status(record.slot) == header::CLAIMED) {
            if let Some(owner) = self.nic.tables.entries.get_mut(record.entry as usize) {
                owner.headers += 1;
            }
        }
        for index in 0..self.nic.tables.entries.len() as u32 {
            let record = self.nic.tables.entries[index as usize];
            let intent = self.nic.tables.control.intent;
            let in_the_middle = intent.stage != 0 && intent.entry == index;
            if slot::status(record.slot) == entry::DRAINING && record.headers == 0 && !in_the_middle {
                self.nic.lists().finish_draining(index);
            }
        }
    }

    /// Chains the entries of lists by `next`, in order of sequence. Returns the first.
    fn sorted_entries(&mut self) -> u32 {
        let mut sort = Sorter::default();
        for index in 0..self.nic.tables.entries.len() {
            let status = slot::status(self.nic.tables.entries[index].slot);
            if status == entry::PRIORITY || status == entry::OVERFLOW {
                self.nic.tables.entries[index].next = NONE;
                sort.push(
                    index as u32,
                    self.nic.tables.entries,
                    |records, a| records[a as usize].sequence,
                    |records, a| &mut records[a as usize].next,
                );
            }
        }
        sort.finish(
            self.nic.tables.entries,
            |records, a| records[a as usize].sequence,
            |records, a| &mut records[a as usize].next,
        )
    }

    /// Chains the headers by `links[0][0]`, in order of sequence. Returns the first.
    fn sorted_headers(&mut self) -> u32 {
        let mut sort = Sorter::default();
        for index in 0..self.nic.tables.headers.len() {
            if slot::status(self.nic.tables.headers[index].slot) == header::LIVE {
                self.nic.tables.headers[index].links[0][0] = NONE;
                sort.push(
                    index as u32,
                    self.nic.tables.headers,
                    |records, a| records[a as usize].sequence,
                    |records, a| &mut records[a as usize].links[0][0],
                );
            }
        }
        sort.finish(
            self.nic.tables.headers,
            |records, a| records[a as usize].sequence,
            |records, a| &mut records[a as usize].links[0][0],
        )
    }

    fn rebuild_triggered(&mut self) {
        for book in self.nic.tables.counters.iter_mut() {
            (book.armed_head, book.armed_tail, book.threshold_next) = (NONE, NONE, u64::MAX);
        }
        (self.nic.tables.control.fire_head, self.nic.tables.control.fire_tail) = (NONE, NONE);
        self.nic.signals.doorbell.fired.store(0, Relaxed);
        let mut sort = Sorter::default();
        let sequence = |records: &[crate::tables::Triggered], a: u32| records[a as usize].sequence;
        for index in 0..self.nic.tables.triggered.len() {
            let status = slot::status(self.nic.tables.triggered[index].slot);
            if status == triggered::ARMED || status == triggered::QUEUED {
                self.nic.tables.triggered[index].next = NONE;
                sort.push(index as u32, self.nic.tables.triggered, sequence, |records, a| {
                    &mut records[a as usize].next
                });
            }
        }
        let mut at = sort.finish(self.nic.tables.triggered, sequence, |records, a| &mut records[a as usize].next);
        while let Some(record) = self.nic.tables.triggered.get(at as usize) {
            let next = record.next;
            if slot::status(record.slot) == triggered::ARMED {
                self.nic.counters().chain_armed(at);
            } else {
                self.nic.counters().queue_fired(at);
            }
            at = next;
        }
        for index in 0..self.nic.tables.counters.len() {
            let word = self.nic.tables.counters[index].slot;
            if slot::status(word) == counter::LIVE {
                let encoding = self.nic.signals.encodings.counters;
                self.nic.counters().threshold_reached(encoding.encode(index as u32, slot::generation(word)));
            }
        }
    }

    /// Chains the free slots of every table, lowest first.
    fn rebuild_free_lists(&mut self) {
        let control = &mut *self.nic.tables.control;
        macro_rules! link {
            ($head:ident, $records:expr, $record:ident => $free:expr, $set:expr) => {
                control.$head = NONE;
                for (index, $record) in $records.enumerate().rev() {
                    if $free {
                        let next = core::mem::replace(&mut control.$head, index as u32);
                        $set(slot::link(index as u32, next));
                    }
                }
            };
        }
        link!(free_entry, self.nic.tables.entries.iter_mut(), r => slot::status(r.slot) == slot::FREE, |link| r.next = link);
        link!(free_header, self.nic.tables.headers.iter_mut(), r => slot::status(r.slot) == slot::FREE, |link| r.links[0][0] = link);
        link!(free_triggered, self.nic.tables.triggered.iter_mut(), r => slot::status(r.slot) == slot::FREE, |link| r.next = link);
        link!(free_pending, self.nic.tables.pending.iter_mut(), r => slot::status(r.slot) == slot::FREE, |link| r.next = link);
        link!(free_counter, self.nic.tables.counters.iter_mut(), r => slot::status(r.slot) == slot::FREE, |link| r.next_free = link);
        link!(free_queue, self.nic.tables.queues.iter_mut(), r => slot::status(r.slot) == slot::FREE, |link| r.next_free = link);
        link!(free_descriptor, self.nic.signals.descriptors.iter(), r => slot::status(r.slot.load(Relaxed)) == slot::FREE, |link| r.next_free.store(link, Relaxed));
    }

    /// Rebuilds the heap's allocator: event rings and I/O vectors are allocated, the rest is free.
    fn rebuild_heap(&mut self) {
        let vectors = |count: u32| count.div_ceil((crate::layout::BLOCK_BYTES / 16) as u32).max(1);
        let signals = self.nic.signals;
        let queues = self.nic.tables.queues.iter().filter(|book| slot::status(book.slot) == queue::LIVE);
        let queues = queues.map(|book| (book.ring, book.capacity));
        let descriptors =
            signals.descriptors.iter().filter(|record| slot::status(record.slot.load(Relaxed)) != slot::FREE);
        let descriptors = descriptors.map(|record| (record.iov.load(Relaxed), vectors(record.iov_count.load(Relaxed))));
        let entries = self.nic.tables.entries.iter().filter(|record| slot::status(record.slot) != slot::FREE);
        let entries = entries.map(|record| (record.iov, vectors(record.iov_count)));
        let live = queues.chain(descriptors).chain(entries).filter(|&(first, _)| first != NONE);
        if let Ok(mut heap) = Buddy::attach(self.nic.tables.heap_map) {
            heap.rebuild(live);
        }
    }

    /// Finishes or fails the interrupted delivery. If this process dies too, the next recovery finds the finished steps
    /// and does not repeat them.
    fn finish_intent(&mut self) {
        self.finish_delivery();
        self.nic.tables.control.set_stage(0);
    }

    fn finish_delivery(&mut self) {
        let intent = self.nic.tables.control.intent;
        let Some(&record) = self.nic.tables.entries.get(intent.entry as usize) else { return };
        let Ok(queue) = self.nic.portal(u32::from(record.portal)).map(|portal| portal.queue) else { return };
        let flags = record.options;
        let keeps_header = intent.list == list::OVERFLOW && flags & options::UNEXPECTED_HDR_DISABLE == 0;
        let (done, fail) = match intent.stage {
            1 => (false, fail::UNDELIVERABLE),
            // Its header does not exist, so the message has not arrived.
            2 if keeps_header && !self.has_header_after(intent.sequence) => (false, fail::UNDELIVERABLE),
            2 => (true, intent.fail),
            _ => return,
        };
        let local = flags & options::MANAGE_LOCAL != 0;
        let left = record.length.saturating_sub(intent.offset).saturating_sub(intent.mlength);
        if done && local {
            self.nic.tables.entries[intent.entry as usize].local_offset = intent.offset.wrapping_add(intent.mlength);
        }
        let full = done && local && record.min_free != 0 && left < record.min_free;
        let unlinks = flags & options::USE_ONCE != 0 || full;
        let status = slot::status(record.slot);
        if unlinks && (status == entry::PRIORITY || status == entry::OVERFLOW) {
            self.nic.lists().auto_unlink(intent.entry);
        }
        let region = Region { start: record.start, iov: record.iov, iov_count: record.iov_count };
        let event = Event {
            start: match record.iov {
                NONE => record.start.wrapping_add(intent.offset),
                _ => region.address_at(self.nic.signals.heap, intent.offset),
            },
            user_ptr: record.user_ptr,
            header_data: intent.header_data,
            match_bits: intent.match_bits,
            rlength: intent.rlength,
            mlength: if fail == fail::OK { intent.mlength } else { 0 },
            remote_offset: intent.remote_offset,
            initiator: intent.initiator,
            uid: intent.uid,
            portal: u32::from(record.portal),
            kind: comm_kind(intent.kind),
            list: intent.list,
            fail,
            operation: intent.operation,
            datatype: intent.datatype,
        };
        // Some of the due events may exist; they are the first ones.
        let mut written = self.nic.queues().tail(queue).wrapping_sub(intent.queue_tail);
        let quiet = flags & options::EVENT_COMM_DISABLE != 0
            || (fail == fail::OK && flags & options::EVENT_SUCCESS_DISABLE != 0);
        let due = [
            (!quiet).then_some(event),
            (unlinks && flags & options::EVENT_UNLINK_DISABLE == 0)
                .then(|| entry_event(&record, event_kind::AUTO_UNLINK, intent.list)),
        ];
        for event in due.into_iter().flatten() {
            match written {
                0 => self.nic.queues().post(queue, &event),
                _ => written -= 1,
            }
        }
        if flags & options::EVENT_CT_COMM != 0 && self.nic.counters().total(record.counter) == intent.counted {
            let in_bytes = flags & options::EVENT_CT_BYTES != 0;
            self.nic.counters().count_outcome(record.counter, fail == fail::OK, in_bytes, event.mlength);
        }
        let record = self.nic.tables.entries[intent.entry as usize];
        if unlinks && slot::status(record.slot) == entry::DRAINING {
            if intent.list == list::PRIORITY || (record.headers == 0 && written != 0) {
                self.nic.lists().free_entry(intent.entry);
            } else if record.headers == 0 {
                self.nic.lists().finish_draining(intent.entry);
            }
        }
    }

    /// Whether a header was stored since `sequence` was current.
    fn has_header_after(&self, sequence: u64) -> bool {
        let live = |status: u32| slot::status(status) == header::LIVE;
        self.nic.tables.headers.iter().any(|record| live(record.slot) && record.sequence > sequence)
    }
}

/// Merge sort of a linked list, bottom-up: list i holds 2^i records or none.
struct Sorter {
    lists: [u32; 32],
}

impl Default for Sorter {
    fn default() -> Self {
        Sorter { lists: [NONE; 32] }
    }
}

impl Sorter {
    fn push<R>(
        &mut self,
        index: u32,
        records: &mut [R],
        key: impl Fn(&[R], u32) -> u64 + Copy,
        next: impl Fn(&mut [R], u32) -> &mut u32 + Copy,
    ) {
        let mut carried = index;
        for list in &mut self.lists {
            if *list == NONE {
                *list = carried;
                return;
            }
            carried = merge(core::mem::replace(list, NONE), carried, records, key, next);
        }
        self.lists[31] = carried;
    }

    fn finish<R>(
        self,
        records: &mut [R],
        key: impl Fn(&[R], u32) -> u64 + Copy,
        next: impl Fn(&mut [R], u32) -> &mut u32 + Copy,
    ) -> u32 {
        self.lists.into_iter().fold(NONE, |sorted, list| merge(list, sorted, records, key, next))
    }
}

fn merge<R>(
    mut a: u32,
    mut b: u32,
    records: &mut [R],
    key: impl Fn(&[R], u32) -> u64,
    next: impl Fn(&mut [R], u32) -> &mut u32,
) -> u32 {
    let (mut head, mut tail) = (NONE, NONE);
    while a != NONE || b != NONE {
        let from_a = b == NONE || (a != NONE && key(records, a) <= key(records, b));
        let taken = if from_a { a } else { b };
        let following = *next(records, taken);
        if from_a {
            a = following
        } else {
            b = following
        }
        if tail == NONE {
            head = taken
        } else {
            *next(records, tail) = taken
        }
        tail = taken;
    }
    if tail != NONE {
        *next(records, tail) = NONE;
    }
    head
}
