// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Full events and event queues (Portals 4.3, "Events and Event Queues").
//!
//! A queue is a ring of blocks in the heap. The holder of the NIC's lock writes; any thread of the owner consumes,
//! without the lock.
//!
//! Invariants
//! 1. The event with number n (from 0) lies in block n mod capacity and is whole when the block's first word is
//!    n + 1.
//! 2. A writer that meets a full ring first advances `head` past the oldest event, then overwrites it. A consumer
//!    copies, then advances `head` by compare-and-swap: if that succeeds, nobody overwrote what it copied.
//! 3. A writer that overwrote events says below which number (`lost_below`); of the consumers the first to take a
//!    later event reports it, once. One that takes an event while it is being said may leave it to the next.
//! 4. With flow control nothing is lost: a message whose events would not fit is refused before it changes
//!    anything ([`Nic::queue_room`]).
//!
//! Cost: O(1); two cache lines per event.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, fence};

use super::fail;
use crate::Nic;
use crate::registers::Register;
use crate::signals::{EVENT_WORDS, EventQueue, Signals};
use crate::tables::{QueueBook, slot};

/// Kinds of events, with the values of the API.
pub mod event_kind {
    pub const GET: u8 = 0;
    pub const GET_OVERFLOW: u8 = 1;
    pub const PUT: u8 = 2;
    pub const PUT_OVERFLOW: u8 = 3;
    pub const ATOMIC: u8 = 4;
    pub const ATOMIC_OVERFLOW: u8 = 5;
    pub const FETCH_ATOMIC: u8 = 6;
    pub const FETCH_ATOMIC_OVERFLOW: u8 = 7;
    pub const REPLY: u8 = 8;
    pub const SEND: u8 = 9;
    pub const ACK: u8 = 10;
    pub const PT_DISABLED: u8 = 11;
    pub const LINK: u8 = 12;
    pub const AUTO_UNLINK: u8 = 13;
    pub const AUTO_FREE: u8 = 14;
    pub const SEARCH: u8 = 15;
}

/// A full event: `ptl_event_t` with `initiator` as one word (rank, or nid << 32 | pid).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    pub start: u64,
    pub user_ptr: u64,
    pub header_data: u64,
    pub match_bits: u64,
    pub rlength: u64,
    pub mlength: u64,
    pub remote_offset: u64,
    pub initiator: u64,
    pub uid: u32,
    pub portal: u32,
    pub kind: u8,
    pub list: u8,
    pub fail: u8,
    pub operation: u8,
    pub datatype: u8,
}

/// What a consumer got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    Empty,
    /// An event, and whether others were lost since the one taken before.
    Event(Event, bool),
    /// The queue was freed, or its record is not a queue's.
    Gone,
}

const WORDS: usize = 10;

impl Event {
    #[inline]
    fn to_words(self) -> [u64; WORDS] {
        [
            self.start,
            self.user_ptr,
            self.header_data,
            self.match_bits,
            self.rlength,
            self.mlength,
            self.remote_offset,
            self.initiator,
            u64::from(self.uid) << 32 | u64::from(self.portal),
            u64::from_le_bytes([self.kind, self.list, self.fail, self.operation, self.datatype, 0, 0, 0]),
        ]
    }

    #[inline]
    fn from_words(words: [u64; WORDS]) -> Event {
        let [kind, list, fail, operation, datatype, ..] = words[9].to_le_bytes();
        Event {
            start: words[0],
            user_ptr: words[1],
            header_data: words[2],
            match_bits: words[3],
            rlength: words[4],
            mlength: words[5],
            remote_offset: words[6],
            initiator: words[7],
            uid: (words[8] >> 32) as u32,
            portal: words[8] as u32,
            kind,
            list,
            fail,
            operation,
            datatype,
        }
    }
}

/// Status of event queues.
pub const LIVE: u32 = 1;

impl<'a> Signals<'a> {
    /// The live queue that this refers to.
    #[inline]
    pub fn queue(&self, reference: u32) -> Option<&'a EventQueue> {
        let (index, generation) = self.encodings.queues.decode(reference);
        let queue = self.queues.get(index as usize)?;
        (queue.slot.load(Acquire) == slot::word(generation, LIVE)).then_some(queue)
    }

    /// The words of event number `number` of a queue.
    #[inline]
    fn event_block(&self, queue: &EventQueue, number: u64) -> Option<&'a [AtomicU64; EVENT_WORDS]> {
        let capacity = u64::from(queue.capacity.load(Relaxed));
        // Most rings are of a power of two, which spares a division.
        let place = if capacity.is_power_of_two() { number & (capacity - 1) } else { number.checked_rem(capacity)? };
        let block = u64::from(queue.ring.load(Relaxed)) + place;
        let first = usize::try_from(block).ok()?.checked_mul(EVENT_WORDS)?;
        self.heap.get(first..first + EVENT_WORDS)?.try_into().ok()
    }

    /// The word that the next event of a queue sets, and what to.
    pub fn next_event(&self, reference: u32) -> Option<(&'a AtomicU64, u64)> {
        let queue = self.queue(reference)?;
        let head = queue.head.load(Acquire);
        Some((&self.event_block(queue, head)?[0], head.wrapping_add(1)))
    }

    /// Takes the next event off a queue. Any thread, no lock.
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
            let words = core::array::from_fn(|word| block[word + 1].load(Relaxed));
            fence(Acquire);
            if queue.head.compare_exchange(head, head.wrapping_add(1), AcqRel, Acquire).is_err() {
                continue;
            }
            let lost = queue.lost_below.load(Acquire);
            let new =
                lost <= head && lost > queue.reported.load(Relaxed) && queue.reported.fetch_max(lost, AcqRel) < lost;
            return Taken::Event(Event::from_words(words), new);
        }
    }
}

impl Nic<'_> {
    /// The books of a live queue.
    #[inline(always)]
    fn queue_book(&mut self, reference: u32) -> Option<(usize, &mut QueueBook)> {
        let (index, generation) = self.signals.encodings.queues.decode(reference);
        let book = self.tables.queues.get_mut(index as usize)?;
        (book.slot == slot::word(generation, LIVE)).then_some((index as usize, book))
    }

    /// Events written to a queue so far; 0 without one.
    #[inline]
    pub(crate) fn queue_tail(&mut self, reference: u32) -> u64 {
        self.queue_book(reference).map_or(0, |(_, book)| book.tail)
    }

    /// Events that still fit into a queue; u64::MAX for no queue.
    pub fn queue_room(&mut self, reference: u32) -> u64 {
        let signals = self.signals;
        let Some((index, book)) = self.queue_book(reference) else { return u64::MAX };
        book.head_seen = signals.queues[index].head.load(Acquire);
        u64::from(book.capacity).saturating_sub(book.tail.wrapping_sub(book.head_seen))
    }

    /// Writes an event; overwrites the oldest when the queue is full. Nothing happens without a queue.
    #[inline]
    pub(crate) fn post(&mut self, reference: u32, event: &Event) {
        let signals = self.signals;
        let Some((index, book)) = self.queue_book(reference) else { return };
        let (tail, capacity) = (book.tail, u64::from(book.capacity));
        if tail.wrapping_sub(book.head_seen) >= capacity {
            let (head, overwritten) = make_room(&signals.queues[index], tail, capacity);
            book.head_seen = head;
            signals.registers.add(Register::EventsOverwritten, overwritten);
        }
        let Some(offset) = tail.checked_rem(capacity) else { return };
        let first = (u64::from(book.ring) + offset) as usize * EVENT_WORDS;
        book.tail = tail.wrapping_add(1);
        let Some(block) = signals.heap.get(first..first + EVENT_WORDS) else { return };
        for (word, value) in block[1..].iter().zip(event.to_words()) {
            word.store(value, Relaxed);
        }
        block[0].store(tail.wrapping_add(1), Release);
        signals.registers.add(Register::Events, 1);
    }

    /// Posts `PTL_EVENT_PT_DISABLED`, or notes that it is due when there is room.
    pub(crate) fn post_disabled(&mut self, portal_index: u32) {
        let Some(entry) = self.tables.portals.get_mut(portal_index as usize) else { return };
        let reference = entry.queue;
        if self.queue_room(reference) > 0 {
            self.post(reference, &disabled_event(portal_index));
        } else if let Some(queue) = self.signals.queue(reference) {
            self.tables.portals[portal_index as usize].disabled_event = 1;
            queue.disabled_events.store(queue.disabled_events.load(Relaxed).wrapping_add(1), Release);
        }
    }

    /// Posts the `PTL_EVENT_PT_DISABLED` that waited for room in this queue.
    pub fn post_waiting_disabled(&mut self, reference: u32) {
        let Some(queue) = self.signals.queue(reference) else { return };
        for index in 0..self.tables.portals.len() {
            if queue.disabled_events.load(Relaxed) == 0 || self.queue_room(reference) == 0 {
                return;
            }
            let entry = &mut self.tables.portals[index];
            if entry.status != 0 && entry.queue == reference && entry.disabled_event != 0 {
                entry.disabled_event = 0;
                queue.disabled_events.store(queue.disabled_events.load(Relaxed).saturating_sub(1), Release);
                self.post(reference, &disabled_event(index as u32));
            }
        }
        queue.disabled_events.store(0, Release);
    }

    /// Disables a portal table entry for lack of resources; `quiet` leaves the event out.
    pub(crate) fn flow_control(&mut self, portal_index: u32, quiet: bool) {
        self.recall_from_portal(portal_index);
        self.tables.portals[portal_index as usize].disable();
        self.signals.registers.add(Register::FlowControl, 1);
        if !quiet {
            self.post_disabled(portal_index);
        }
    }
}

/// Makes room for an event: looks how far the consumers are, and pushes the oldest events out if that is not far
/// enough. Gives the head and how many were pushed out. Tries again only when a consumer has taken one meanwhile, and no
/// more often than the queue has events: who makes its head go on and on is not waited for.
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
