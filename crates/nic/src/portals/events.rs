// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Full events and event queues (Portals 4.3, "Events and Event Queues").
//!
//! A queue is a ring of blocks in the heap. The holder of the NIC's lock enqueues. Any thread of the owner dequeues,
//! without the lock.
//!
//! Invariants
//! 1. The event with number n (from 0) is stored in block n mod capacity. It is complete when the block's first word is
//!    n + 1.
//! 2. A writer that finds the ring full first advances `head` past the oldest event, then overwrites that event. A
//!    consumer copies an event, then advances `head` by compare-and-swap. If the swap succeeds, no writer has
//!    overwritten what the consumer copied.
//! 3. A writer that overwrites events stores in `lost_below` the number below which events are lost. The first consumer
//!    that takes a later event reports the loss, once. A consumer that takes an event while the writer stores that
//!    number may leave the report to the next consumer.
//! 4. With flow control no event is lost: the NIC refuses a message whose events do not fit before it changes anything
//!    ([`Nic::queue_room`]).
//!
//! Cost: O(1). An event takes one cache line. It takes two if its lengths differ, if one exceeds 32 bits, or if its
//! portal table entry's index takes more than 11 bits.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, fence};

use super::express::Put;
use super::fail;
use crate::nic::Nic;
use crate::registers::Register;
use crate::signals::{EVENT_WORDS, EventQueue, Signals};
use crate::tables::{QueueBook, slot};

/// Kinds of events, with the values of the Portals API.
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

/// The result of a dequeue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    Empty,
    /// An event, and whether events were lost since the last one taken.
    Event(Event, bool),
    /// The queue was freed, or the reference names no queue.
    Gone,
}

/// Words of an event, after its number, in the first line of its block. The words that only long events have follow.
const WORDS: usize = 7;
const WORDS_LONG: usize = 5;
const _: () = assert!((1 + WORDS) * 8 == 64 && 1 + WORDS + WORDS_LONG <= EVENT_WORDS);

/// The layout of an event's last word. The upper half is `uid`. The lower half has, from the top, the portal table
/// entry, the form and the kinds.
///
/// Ordinary events fit into one cache line: their two lengths are equal, or the requested length is 0. A long event
/// repeats in a second line every field that may not fit into the first.
mod form {
    pub const ORDINARY: u64 = 0;
    pub const NOTHING_REQUESTED: u64 = 1;
    pub const LONG: u64 = 2;
    pub const AT: u32 = 19;
    pub const PORTAL_AT: u32 = 21;
    /// One more than the highest portal table entry that an ordinary event can name.
    pub const PORTALS: u32 = 1 << (u32::BITS - PORTAL_AT);
    /// Bits of kind, list, fail, operation and datatype.
    pub const WIDTHS: [u32; 5] = [4, 1, 4, 5, 5];
    const _: () = assert!(WIDTHS[0] + WIDTHS[1] + WIDTHS[2] + WIDTHS[3] + WIDTHS[4] == AT);
}

impl Event {
    #[inline(always)]
    fn kinds(&self) -> [u8; 5] {
        [self.kind, self.list, self.fail, self.operation, self.datatype]
    }

    /// The [`form`] that this event is written in.
    #[inline(always)]
    fn form(&self) -> u64 {
        let [kind, list, fail, operation, datatype] = self.kinds();
        let [kinds, lists, fails, operations, datatypes] = form::WIDTHS;
        let over = kind >> kinds | list >> lists | fail >> fails | operation >> operations | datatype >> datatypes;
        let fits = over == 0;
        let short = (self.mlength | self.remote_offset) >> 32 == 0 && self.portal < form::PORTALS && fits;
        match self.rlength {
            rlength if short && rlength == self.mlength => form::ORDINARY,
            0 if short => form::NOTHING_REQUESTED,
            _ => form::LONG,
        }
    }

    /// The words of the first line.
    #[inline(always)]
    fn to_words(self, form: u64) -> [u64; WORDS] {
        let mut kinds = form << form::AT | u64::from(self.portal % form::PORTALS) << form::PORTAL_AT;
        let mut at = 0;
        for (&kind, bits) in self.kinds().iter().zip(form::WIDTHS) {
            kinds |= (u64::from(kind) & ((1 << bits) - 1)) << at;
            at += bits;
        }
        [
            self.start,
            self.user_ptr,
            self.header_data,
            self.match_bits,
            self.initiator,
            self.remote_offset << 32 | u64::from(self.mlength as u32),
            u64::from(self.uid) << 32 | kinds,
        ]
    }

    /// The words of the second line, for a long event.
    fn to_words_long(self) -> [u64; WORDS_LONG] {
        let [kind, list, fail, operation, datatype] = self.kinds();
        let kinds = u64::from_le_bytes([kind, list, fail, operation, datatype, 0, 0, 0]);
        [self.rlength, self.mlength, self.remote_offset, u64::from(self.portal), kinds]
    }

    /// Decodes an event. `long` supplies the words of the second line; it is called for long events only.
    #[inline(always)]
    fn from_words(words: [u64; WORDS], long: impl FnOnce() -> [u64; WORDS_LONG]) -> Event {
        let [start, user_ptr, header_data, match_bits, initiator, lengths, rest] = words;
        let mut at = 0;
        let [kind, list, fail, operation, datatype] = form::WIDTHS.map(|bits| {
            let kind = (rest >> at) & ((1 << bits) - 1);
            at += bits;
            kind as u8
        });
        let (mlength, remote_offset) = (u64::from(lengths as u32), lengths >> 32);
        let event = Event {
            start,
            user_ptr,
            header_data,
            match_bits,
            rlength: mlength,
            mlength,
            remote_offset,
            initiator,
            uid: (rest >> 32) as u32,
            portal: rest as u32 >> form::PORTAL_AT,
            kind,
            list,
            fail,
            operation,
            datatype,
        };
        match (rest as u32 >> form::AT) as u64 % 4 {
            form::ORDINARY => event,
            form::NOTHING_REQUESTED => Event { rlength: 0, ..event },
            _ => event.with_long(long()),
        }
    }

    #[cold]
    fn with_long(self, [rlength, mlength, remote_offset, portal, kinds]: [u64; WORDS_LONG]) -> Event {
        let [kind, list, fail, operation, datatype, ..] = kinds.to_le_bytes();
        let portal = portal as u32;
        Event { rlength, mlength, remote_offset, portal, kind, list, fail, operation, datatype, ..self }
    }
}

/// The fields that the events of all puts to one entry share, in encoded form.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    user_ptr: u64,
    /// The last word of an ordinary event; None if the events of this entry are not ordinary.
    kinds: Option<u64>,
}

impl Stamp {
    /// The stamp for events like the event of this put.
    pub(super) fn new(put: &Put, user_ptr: u64) -> Stamp {
        let event = put.event(0, user_ptr, put.length);
        let form = event.form();
        Stamp { user_ptr, kinds: (form == form::ORDINARY).then(|| event.to_words(form)[WORDS - 1]) }
    }
}

/// Status of event queues.
pub const LIVE: u32 = 1;

impl<'a> Signals<'a> {
    /// The live queue that a reference names.
    #[inline]
    pub fn queue(&self, reference: u32) -> Option<&'a EventQueue> {
        let (index, generation) = self.encodings.queues.decode(reference);
        let queue = self.queues.get(index as usize)?;
        (queue.slot.load(Acquire) == slot::word(generation, LIVE)).then_some(queue)
    }

    /// The words of event number `number` of a queue.
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
            if queue.head.compare_exchange(head, head.wrapping_add(1), AcqRel, Acquire).is_err() {
                continue;
            }
            let lost = queue.lost_below.load(Acquire);
            let new =
                lost <= head && lost > queue.reported.load(Relaxed) && queue.reported.fetch_max(lost, AcqRel) < lost;
            return Taken::Event(event, new);
        }
    }
}

impl Nic<'_> {
    /// The index of the queue that a reference names, if the queue is live.
    #[inline(always)]
    pub(super) fn queue_index(&self, reference: u32) -> Option<usize> {
        let (index, generation) = self.signals.encodings.queues.decode(reference);
        let book = self.tables.queues.get(index as usize)?;
        (book.slot == slot::word(generation, LIVE)).then_some(index as usize)
    }

    /// The index and the writers' record of a live queue.
    #[inline(always)]
    fn queue_book(&mut self, reference: u32) -> Option<(usize, &mut QueueBook)> {
        let index = self.queue_index(reference)?;
        Some((index, self.tables.queues.get_mut(index)?))
    }

    /// Events written to a queue so far; 0 if there is no queue.
    #[inline]
    pub(crate) fn queue_tail(&mut self, reference: u32) -> u64 {
        self.queue_book(reference).map_or(0, |(_, book)| book.tail)
    }

    /// Events that still fit into a queue; `u64::MAX` if there is no queue.
    pub fn queue_room(&mut self, reference: u32) -> u64 {
        let signals = self.signals;
        let Some((index, book)) = self.queue_book(reference) else { return u64::MAX };
        book.head_seen = signals.queues[index].head.load(Acquire);
        u64::from(book.capacity).saturating_sub(book.tail.wrapping_sub(book.head_seen))
    }

    /// Writes an event. Overwrites the oldest event if the queue is full. Does nothing if there is no queue.
    #[inline(never)]
    pub(crate) fn post(&mut self, reference: u32, event: &Event) {
        self.post_here(reference, event);
    }

    /// [`Nic::post`], inlined, for callers in which part of the event is constant.
    #[inline(always)]
    pub(super) fn post_here(&mut self, reference: u32, event: &Event) {
        self.post_at(self.queue_index(reference), event);
    }

    /// [`Nic::post_here`] for a queue whose index is known. Returns the first word of the block that it wrote.
    #[inline(always)]
    pub(super) fn post_at(&mut self, queue: Option<usize>, event: &Event) -> Option<usize> {
        let form = event.form();
        let long = (form == form::LONG).then(|| event.to_words_long());
        self.post_words(queue, event.to_words(form), long)
    }

    /// [`Nic::post`] for an event of a put: the stamp and the put supply all fields but `start`.
    #[inline(always)]
    pub(super) fn post_stamped(&mut self, reference: u32, stamp: &Stamp, put: &Put, start: u64) {
        match stamp.kinds.filter(|_| (put.length | put.remote_offset) >> 32 == 0) {
            Some(kinds) => {
                let lengths = put.remote_offset << 32 | put.length;
                let words = [start, stamp.user_ptr, put.header_data, put.match_bits, put.initiator, lengths, kinds];
                self.post_words(self.queue_index(reference), words, None);
            }
            None => self.post(reference, &put.event(start, stamp.user_ptr, put.length)),
        }
    }

    #[inline(always)]
    fn post_words(
        &mut self,
        queue: Option<usize>,
        words: [u64; WORDS],
        long: Option<[u64; WORDS_LONG]>,
    ) -> Option<usize> {
        let signals = self.signals;
        let index = queue?;
        let book = self.tables.queues.get_mut(index)?;
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
    pub(super) fn next_block(&mut self, reference: u32) -> Option<&AtomicU64> {
        let signals = self.signals;
        let (_, book) = self.queue_book(reference)?;
        signals.heap.get(first_word(book.ring, book.capacity, book.tail)?)
    }

    /// Posts `PTL_EVENT_PT_DISABLED`. If the queue is full, notes that the event is due when there is room.
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

    /// Posts the `PTL_EVENT_PT_DISABLED` events that waited for room in this queue.
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

    /// Disables a portal table entry for lack of resources. With `quiet` it posts no event. An entry with flow control
    /// has no grants, so there are none to revoke ([`super::grants`], invariant 8).
    pub(crate) fn flow_control(&mut self, portal_index: u32, quiet: bool) {
        self.tables.portals[portal_index as usize].disable();
        self.signals.registers.add(Register::FlowControl, 1);
        if !quiet {
            self.post_disabled(portal_index);
        }
    }
}

/// The word of the heap at which an event's block begins. Most rings have a power of two of blocks, which saves a
/// division.
#[inline(always)]
pub(super) fn first_word(ring: u32, capacity: u32, number: u64) -> Option<usize> {
    let capacity = u64::from(capacity);
    let place = if capacity.is_power_of_two() { number & (capacity - 1) } else { number.checked_rem(capacity)? };
    usize::try_from(u64::from(ring) + place).ok()?.checked_mul(EVENT_WORDS)
}

/// Makes room for an event. Reads the consumers' head; if the ring is still full, advances the head past the oldest
/// events. Returns the head and the number of events that it dropped. It retries only if a consumer took an event
/// meanwhile, and at most once per event of the queue, so a hostile consumer that keeps moving the head cannot block
/// it.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lengths near the limits of an ordinary event.
    fn length() -> impl Strategy<Value = u64> {
        let edge = u64::from(u32::MAX);
        prop_oneof![0..3u64, edge - 1..edge + 2, any::<u64>()]
    }

    prop_compose! {
        fn event()(
            words in any::<[u64; 5]>(),
            (length, other, remote_offset) in (length(), length(), length()),
            lengths in 0..3,
            uid in any::<u32>(),
            portal in prop_oneof![0..4u32, form::PORTALS - 1..form::PORTALS + 1, any::<u32>()],
            kinds in prop_oneof![(0..16u8, 0..2u8, 0..16u8, 0..32u8, 0..32u8), any::<(u8, u8, u8, u8, u8)>()],
        ) -> Event {
            let [start, user_ptr, header_data, match_bits, initiator] = words;
            let rlength = [length, 0, other][lengths as usize];
            let (kind, list, fail, operation, datatype) = kinds;
            Event {
                start, user_ptr, header_data, match_bits, rlength, mlength: length, remote_offset, initiator, uid, portal, kind,
                list, fail, operation, datatype,
            }
        }
    }

    proptest! {
        #[test]
        fn events_are_read_as_they_were_written(event in event()) {
            let form = event.form();
            prop_assert_eq!(Event::from_words(event.to_words(form), || event.to_words_long()), event);
            if form != form::LONG {
                prop_assert_eq!(Event::from_words(event.to_words(form), || panic!("it has one line")), event);
            }
        }
    }

    /// The events that programs get for every message fit into one line.
    #[test]
    fn ordinary_events_have_one_line() {
        let put = Event { rlength: 8, mlength: 8, portal: 4, kind: event_kind::PUT, ..Event::default() };
        let ack = Event { rlength: 8, mlength: 8, remote_offset: 64, kind: event_kind::ACK, ..Event::default() };
        let link = Event { kind: event_kind::LINK, portal: 9, ..Event::default() };
        for event in [put, ack, link] {
            assert_ne!(event.form(), form::LONG, "{event:?}");
        }
    }
}
