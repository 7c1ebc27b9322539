// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Event queues (Portals 4.3, "Events and Event Queues"). [`super::event`] has the events themselves.
//!
//! A queue is a ring of blocks in the heap. The holder of the NIC's lock enqueues. Any thread of the owner dequeues,
//! without the lock.
//!
//! Invariants
//! 1. The event with number n (from 0) is stored in block n mod capacity. It is complete when the block's first word is
//!    n + 1.
//! 2. A writer that finds the ring full first advances `head` past the oldest event, then overwrites that event. A
//!    consumer copies an event, then advances `head` by compare-and-swap. If the swap succeeds, no writer has
//!    overwritten the copied event.
//! 3. A writer that overwrites events stores in `lost_below` the number below which events are lost. The first consumer
//!    that takes a later event reports the loss, once. A consumer that takes an event while the writer stores that
//!    number may leave the report to the next consumer.
//! 4. With flow control no event is lost: the NIC refuses a message whose events do not fit before it changes anything
//!    ([`EventQueues::room`]).
//! 5. `PTL_EVENT_PT_DISABLED` may have to wait for room. A writer counts it in `disabled_events`, then reads `head`. A
//!    consumer advances `head`, then reads `disabled_events`. All four accesses are sequentially consistent, so one of
//!    the two sees the other, and posts the event.
//!
//! Cost: O(1). An ordinary event takes one cache line, a long one two.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU64, compiler_fence, fence};

use super::constants::{event_kind, fail};
use super::event::{Event, EventTemplate, WORDS, WORDS_LONG, first_word, form};
use super::put::Put;
use super::scatter::BLOCK_WORDS;
use crate::errors::Full;
use crate::handle::NONE;
use crate::nic::Nic;
use crate::registers::Register;
use crate::signals::{EVENT_WORDS, EventQueue, Signals};
use crate::tables::{QueueBook, queue, slot};
use crate::tap::Transition;

/// The result of a dequeue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    Empty,
    /// An event, and whether events were lost since the last one taken.
    Event(Event, bool),
    /// The queue was freed, or the reference names no queue.
    Gone,
}

impl<'a> Signals<'a> {
    /// The live queue that a reference names.
    #[inline]
    pub fn queue(&self, reference: u32) -> Option<&'a EventQueue> {
        let (index, generation) = self.encodings.queues.decode(reference);
        let queue = self.queues.get(index as usize)?;
        (queue.slot.load(Acquire) == slot::word(generation, queue::LIVE)).then_some(queue)
    }

    #[inline(always)]
    fn event_block(&self, queue: &EventQueue, number: u64) -> Option<&'a [AtomicU64; EVENT_WORDS]> {
        let first = first_word(queue.ring.load(Relaxed), queue.capacity.load(Relaxed), number)?;
        self.heap.get(first..first + EVENT_WORDS)?.try_into().ok()
    }

    /// The word that the next event of a queue changes, and its value after that.
    #[inline(always)]
    pub fn next_event(&self, reference: u32) -> Option<(&'a AtomicU64, u64)> {
        let queue = self.queue(reference)?;
        let head = queue.head.load(Acquire);
        Some((&self.event_block(queue, head)?[0], head.wrapping_add(1)))
    }

    /// Whether a queue has an event to take; None if the queue is gone.
    #[inline(always)]
    pub fn has_event(&self, reference: u32) -> Option<bool> {
        let (word, number) = self.next_event(reference)?;
        Some(word.load(Acquire) == number)
    }

    /// Whether a `PTL_EVENT_PT_DISABLED` waits for room in the queue. A consumer checks this after each event that it
    /// takes, and then calls [`EventQueues::post_waiting_disabled`].
    #[inline(always)]
    pub fn disabled_event_waits(&self, reference: u32) -> bool {
        self.queue(reference).is_some_and(|queue| queue.disabled_events.load(SeqCst) != 0)
    }

    /// Dequeues the next event. Any thread may call this, without the lock.
    #[inline(always)]
    pub fn take_event(&self, reference: u32) -> Taken {
        let Some(queue) = self.queue(reference) else { return Taken::Gone };
        loop {
            let head = queue.head.load(Acquire);
            let Some(block) = self.event_block(queue, head) else { return Taken::Gone };
            if block[0].load(Acquire) != head.wrapping_add(1) {
                if queue.head.load(Acquire) != head {
                    continue;
                }
                return Taken::Empty;
            }
            let words = core::array::from_fn(|word| block[1 + word].load(Relaxed));
            let event = Event::from_words(words, || core::array::from_fn(|word| block[1 + WORDS + word].load(Relaxed)));
            fence(Acquire);
            if queue.head.compare_exchange(head, head.wrapping_add(1), SeqCst, Acquire).is_err() {
                continue;
            }
            let lost = queue.lost_below.load(Acquire);
            let new =
                lost <= head && lost > queue.reported.load(Relaxed) && queue.reported.fetch_max(lost, AcqRel) < lost;
            return Taken::Event(event, new);
        }
    }
}

/// The event queues, for the holder of the lock.
pub struct EventQueues<'n, 'a> {
    pub(crate) nic: &'n mut Nic<'a>,
}

impl<'n> EventQueues<'n, '_> {
    /// Allocates an event queue of exactly this capacity. [`Full`]: the table (see [`EventQueues::has_free_record`]) or
    /// the heap is full.
    pub fn alloc(self, capacity: u32) -> Result<u32, Full> {
        if self.nic.tap.is_open() {
            return self.nic.tapped(
                |nic| nic.queues().alloc(capacity),
                |made| Some(Transition::QueueAlloc { capacity, queue: made.ok() }),
            );
        }
        if !self.nic.queues().has_free_record() {
            return Err(Full);
        }
        let ring = self.nic.heap().alloc(capacity)?;
        let first = ring as usize * BLOCK_WORDS;
        for block in 0..capacity as usize {
            if let Some(word) = self.nic.signals.heap.get(first + block * BLOCK_WORDS) {
                word.store(0, Relaxed);
            }
        }
        let index = self.nic.tables.control.free_queue;
        let book = self.nic.tables.queues.get_mut(index as usize).ok_or(Full)?;
        let queue = self.nic.signals.queues.get(index as usize).ok_or(Full)?;
        self.nic.tables.control.free_queue = slot::next(index, book.next_free);
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
        Ok(self.nic.signals.encodings.queues.encode(index, generation))
    }

    /// Whether the table of event queues has a free slot.
    pub fn has_free_record(self) -> bool {
        self.nic.tables.queues.get(self.nic.tables.control.free_queue as usize).is_some()
    }

    /// Frees an event queue and its ring.
    pub fn free(self, reference: u32) -> Option<()> {
        if self.nic.tap.is_open() {
            return self.nic.tapped(
                |nic| nic.queues().free(reference),
                |done| Some(Transition::QueueFree { queue: reference, is_done: done.is_some() }),
            );
        }
        let queue = self.nic.signals.queue(reference)?;
        let encoding = self.nic.signals.encodings.queues;
        let (index, generation) = encoding.decode(reference);
        let book = self.nic.tables.queues.get_mut(index as usize)?;
        let ring = book.ring;
        book.slot = slot::word(encoding.next_generation(generation), slot::FREE);
        book.next_free = slot::link(index, self.nic.tables.control.free_queue);
        queue.slot.store(slot::FREE, Release);
        self.nic.tables.control.free_queue = index;
        self.nic.heap().free(ring);
        Some(())
    }

    /// Gives a queue a ring of `capacity` events, at least as many as it has now. Its events stay, and so does its
    /// reference. For a home in which no consumer dequeues meanwhile. [`Full`]: the heap has no room for such a ring
    /// in place of the present one, or the queue is gone; the queue is as before, perhaps in other blocks.
    pub fn extend(self, reference: u32, capacity: u32) -> Result<(), Full> {
        let signals = self.nic.signals;
        let index = self.nic.queues().index(reference).ok_or(Full)?;
        let &QueueBook { ring, capacity: before, tail, .. } = self.nic.tables.queues.get(index).ok_or(Full)?;
        let queue = signals.queues.get(index).ok_or(Full)?;
        let events = queue.head.load(Acquire)..tail;
        if capacity < before || !before.is_power_of_two() || !capacity.is_power_of_two() {
            return Err(Full);
        }
        // The new ring may include the old one: an event then stays in its block, or moves to one outside of it.
        self.nic.heap().free(ring);
        let (wider, result) = match self.nic.heap().alloc(capacity) {
            Ok(wider) => ((wider, capacity), Ok(())),
            Err(Full) => ((self.nic.heap().alloc(before)?, before), Err(Full)),
        };
        let old_blocks = u64::from(ring)..u64::from(ring) + u64::from(before);
        for number in 0..u64::from(wider.1) {
            let Some(first) = first_word(wider.0, wider.1, number) else { continue };
            let is_old = old_blocks.contains(&(u64::from(wider.0) + number));
            if let Some(word) = signals.heap.get(first).filter(|_| !is_old) {
                word.store(0, Relaxed);
            }
        }
        for number in events {
            let (from, to) = (first_word(ring, before, number), first_word(wider.0, wider.1, number));
            let (Some(from), Some(to)) = (from, to) else { continue };
            for word in 0..EVENT_WORDS {
                if let (Some(from), Some(to)) = (signals.heap.get(from + word), signals.heap.get(to + word)) {
                    to.store(from.load(Relaxed), Relaxed);
                }
            }
        }
        queue.ring.store(wider.0, Relaxed);
        queue.capacity.store(wider.1, Release);
        if let Some(book) = self.nic.tables.queues.get_mut(index) {
            (book.ring, book.capacity) = wider;
        }
        result
    }

    /// The index of the queue that a reference names, if the queue is live.
    #[inline(always)]
    pub(super) fn index(self, reference: u32) -> Option<usize> {
        let (index, generation) = self.nic.signals.encodings.queues.decode(reference);
        let book = self.nic.tables.queues.get(index as usize)?;
        (book.slot == slot::word(generation, queue::LIVE)).then_some(index as usize)
    }

    /// The index and the writers' record of a live queue.
    #[inline(always)]
    fn book(self, reference: u32) -> Option<(usize, &'n mut QueueBook)> {
        let index = self.nic.queues().index(reference)?;
        Some((index, self.nic.tables.queues.get_mut(index)?))
    }

    /// Events written to a queue so far; 0 if there is no queue.
    #[inline]
    pub(crate) fn tail(self, reference: u32) -> u64 {
        self.nic.queues().book(reference).map_or(0, |(_, book)| book.tail)
    }

    /// Events that still fit into a queue; `u64::MAX` if there is no queue.
    pub fn room(self, reference: u32) -> u64 {
        let signals = self.nic.signals;
        let Some((index, book)) = self.nic.queues().book(reference) else { return u64::MAX };
        book.head_seen = signals.queues[index].head.load(SeqCst);
        u64::from(book.capacity).saturating_sub(book.tail.wrapping_sub(book.head_seen)).saturating_sub(book.held)
    }

    /// Reserves room for this many events until it is returned.
    pub(super) fn hold_room(self, reference: u32, events: u64) {
        if let Some((_, book)) = self.nic.queues().book(reference) {
            book.held = book.held.saturating_add(events);
        }
    }

    pub(super) fn give_room_back(self, reference: u32, events: u64) {
        if let Some((_, book)) = self.nic.queues().book(reference) {
            book.held = book.held.saturating_sub(events);
        }
    }

    /// Shows a tap how many events of a queue the program has taken.
    #[cold]
    pub(super) fn show_taken(self, reference: u32) {
        let signals = self.nic.signals;
        let Some((index, book)) = self.nic.queues().book(reference) else { return };
        let (taken, posted) = (signals.queues[index].head.load(SeqCst), book.tail);
        self.nic.show(&Transition::QueueTaken { queue: reference, taken, posted });
    }

    /// Writes an event. Overwrites the oldest event if the queue is full. Does nothing if there is no queue.
    #[inline(never)]
    pub(crate) fn post(self, reference: u32, event: &Event) {
        self.nic.queues().post_here(reference, event);
    }

    /// [`EventQueues::post`], inlined, for callers in which part of the event is constant.
    #[inline(always)]
    pub(super) fn post_here(self, reference: u32, event: &Event) {
        let queue = self.nic.queues().index(reference);
        self.nic.queues().post_at(queue, event);
    }

    /// [`EventQueues::post_here`] for a queue with known index. Returns the first word of the block that it wrote.
    #[inline(always)]
    pub(super) fn post_at(self, queue: Option<usize>, event: &Event) -> Option<usize> {
        let form = event.form();
        let long = (form == form::LONG).then(|| event.to_words_long());
        self.nic.queues().post_words(queue, event.to_words(form), long)
    }

    /// [`EventQueues::post`] for an event of a put: the template and the put supply all fields but `start`.
    #[inline(always)]
    pub(super) fn post_from_template(self, reference: u32, template: &EventTemplate, put: &Put, start: u64) {
        match template.kinds.filter(|_| (put.length | put.remote_offset) >> 32 == 0) {
            Some(kinds) => {
                let lengths = put.remote_offset << 32 | put.length;
                let words = [start, template.user_ptr, put.header_data, put.match_bits, put.initiator, lengths, kinds];
                let queue = self.nic.queues().index(reference);
                self.nic.queues().post_words(queue, words, None);
            }
            None => self.nic.queues().post(reference, &put.event(start, template.user_ptr, put.length)),
        }
    }

    #[inline(always)]
    fn post_words(self, queue: Option<usize>, words: [u64; WORDS], long: Option<[u64; WORDS_LONG]>) -> Option<usize> {
        let signals = self.nic.signals;
        let index = queue?;
        let book = self.nic.tables.queues.get_mut(index)?;
        let (tail, capacity) = (book.tail, u64::from(book.capacity));
        if tail.wrapping_sub(book.head_seen) >= capacity {
            let (head, overwritten) = make_room(&signals.queues[index], tail, capacity);
            book.head_seen = head;
            signals.registers.add(Register::EventsOverwritten, overwritten);
        }
        let first = first_word(book.ring, book.capacity, tail)?;
        book.tail = tail.wrapping_add(1);
        let block = signals.heap.get(first..first + EVENT_WORDS)?;
        for (word, value) in block[1..].iter().zip(words) {
            word.store(value, Relaxed);
        }
        if let Some(long) = long {
            for (word, value) in block[1 + WORDS..].iter().zip(long) {
                word.store(value, Relaxed);
            }
        }
        block[0].store(tail.wrapping_add(1), Release);
        signals.registers.add(Register::Events, 1);
        Some(first)
    }

    /// The first word of the block for the next event of a queue.
    #[inline(always)]
    pub(super) fn next_block(self, reference: u32) -> Option<&'n AtomicU64> {
        let signals = self.nic.signals;
        let (_, book) = self.nic.queues().book(reference)?;
        signals.heap.get(first_word(book.ring, book.capacity, book.tail)?)
    }

    /// Posts the `PTL_EVENT_PT_DISABLED` events that are due in this queue, as far as there is room.
    pub fn post_waiting_disabled(self, reference: u32) {
        let Some(queue) = self.nic.signals.queue(reference) else { return };
        if self.nic.tap.is_set() {
            self.nic.queues().show_taken(reference);
        }
        for index in 0..self.nic.tables.portals.len() {
            if queue.disabled_events.load(Relaxed) == 0 || self.nic.queues().room(reference) == 0 {
                return;
            }
            let entry = &self.nic.tables.portals[index];
            if entry.status != 0 && entry.queue == reference && entry.disabled_event != 0 {
                self.nic.queues().post(reference, &disabled_event(index as u32));
                // A death in between duplicates the event. The other order would lose it.
                compiler_fence(SeqCst);
                self.nic.tables.portals[index].disabled_event = 0;
                queue.disabled_events.store(queue.disabled_events.load(Relaxed).saturating_sub(1), Release);
            }
        }
        queue.disabled_events.store(0, Release);
    }

    /// Recounts the events that are due in each queue, after a death.
    pub(super) fn rebuild_disabled_events(self) {
        let signals = self.nic.signals;
        for queue in signals.queues {
            queue.disabled_events.store(0, Relaxed);
        }
        for entry in self.nic.tables.portals.iter().filter(|entry| entry.status != 0 && entry.disabled_event != 0) {
            if let Some(queue) = signals.queue(entry.queue) {
                queue.disabled_events.store(queue.disabled_events.load(Relaxed) + 1, Relaxed);
            }
        }
        for index in 0..self.nic.tables.portals.len() {
            let queue = self.nic.tables.portals[index].queue;
            self.nic.queues().post_waiting_disabled(queue);
        }
    }

    /// Disables a portal table entry for lack of resources. With `quiet` it posts no event. An entry with flow control
    /// has no grants, so none are revoked ([`super::grants`], invariant 8).
    pub(crate) fn disable_portal(self, portal_index: u32, quiet: bool) {
        let entry = &mut self.nic.tables.portals[portal_index as usize];
        // The event is due before the entry is disabled, so a death in between does not lose it.
        let due = !quiet && entry.disabled_event == 0;
        entry.disabled_event |= u32::from(due);
        compiler_fence(SeqCst);
        entry.disable();
        let reference = entry.queue;
        self.nic.signals.registers.add(Register::FlowControl, 1);
        if let Some(queue) = self.nic.signals.queue(reference).filter(|_| due) {
            queue.disabled_events.store(queue.disabled_events.load(Relaxed).wrapping_add(1), SeqCst);
            self.nic.queues().post_waiting_disabled(reference);
        }
    }
}

/// Makes room for an event. Reads the consumers' head; if the ring is still full, advances the head past the oldest
/// events. Returns the head and the number of events dropped. It retries only if a consumer took an event meanwhile,
/// and at most once per event of the queue, so a hostile consumer that keeps moving the head cannot block it.
#[cold]
fn make_room(queue: &EventQueue, tail: u64, capacity: u64) -> (u64, u64) {
    let mut head = queue.head.load(Acquire);
    for _ in 0..=capacity {
        if tail.wrapping_sub(head) < capacity || head >= tail {
            break;
        }
        let behind = tail.wrapping_sub(capacity).wrapping_add(1);
        match queue.head.compare_exchange(head, behind, AcqRel, Acquire) {
            Ok(_) => {
                queue.lost_below.store(behind, Release);
                return (behind, behind.wrapping_sub(head));
            }
            Err(now) => head = now,
        }
    }
    (head, 0)
}

fn disabled_event(portal_index: u32) -> Event {
    Event { kind: event_kind::PT_DISABLED, portal: portal_index, fail: fail::PT_DISABLED, ..Event::default() }
}
