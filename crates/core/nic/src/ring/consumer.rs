// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The consumer of a ring: the holder of the NIC's lock.
//!
//! Any thread may poll. Only the holder of the lock may dequeue, and only for the holder is the result of a poll final.

use super::hints::Hints;
use super::layout::{Envelope, INLINE_BYTES, Ring, Slot, length_of, portal_of, rounded};
use crate::atomics::Ordering::{Acquire, Relaxed, Release};

/// Distance in slots at which a later slot is prefetched.
const SLOTS_AHEAD: u64 = 3;
/// The prefetched part of a payload: the lines that a core can load at the same time.
const PREFETCH_BYTES: usize = 2 << 10;

/// A slot holds a message that no producer writes. The ring is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// The header word read by a poll. The caller keeps it, so that it need not poll again under the lock.
#[derive(Clone, Copy, Debug)]
pub struct PolledHeader {
    number: u64,
    header: u64,
}

impl PolledHeader {
    /// The message's portal table index.
    #[inline(always)]
    pub fn portal(self) -> u8 {
        portal_of(self.header)
    }

    /// Whether the payload lies in the payload area.
    #[inline(always)]
    pub fn is_long(self) -> bool {
        length_of(self.header) > INLINE_BYTES
    }

    /// The number of the message. The ring counts all its messages.
    #[inline(always)]
    pub fn number(self) -> u64 {
        self.number
    }
}

/// A message that was checked. Its payload lies within the ring.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub envelope: Envelope,
    /// The offset of the payload into the ring, in bytes.
    pub offset: usize,
    pub length: usize,
    /// The position in the payload area after this payload; 0 for a message that lies in its slot alone.
    payload_next: u64,
}

impl Message {
    /// The position in the payload area after this payload, if the payload lies there.
    pub(super) fn payload_end(&self) -> Option<u64> {
        (self.payload_next != 0).then_some(self.payload_next)
    }
}

/// The progress of a consumer while it holds the lock. Each dequeue stores it into the ring.
#[derive(Clone, Copy, Debug, Default)]
pub struct Consumer {
    head: u64,
    first: u64,
}

impl Consumer {
    /// Messages dequeued by this consumer.
    #[inline(always)]
    pub fn dequeued(&self) -> u64 {
        self.head.wrapping_sub(self.first)
    }

    /// Starts a new burst with the next message.
    #[inline(always)]
    pub fn rest(&mut self) {
        self.first = self.head;
    }

    /// The number of the next message.
    #[inline(always)]
    pub fn next_number(&self) -> u64 {
        self.head
    }
}

impl<const SLOTS: usize, const WORDS: usize> Ring<SLOTS, WORDS> {
    /// The header of the next message. Final only for the holder of the lock.
    #[inline(always)]
    pub fn poll(&self) -> Option<PolledHeader> {
        let number = self.cursors.head.load(Relaxed);
        let header = self.slot(number).header.load(Acquire);
        let is_there = header as u32 == number.wrapping_add(1) as u32;
        is_there.then_some(PolledHeader { number, header })
    }

    /// Messages that wait to be dequeued, for tools. The number may change at any time.
    pub fn waiting(&self) -> u64 {
        let head = self.cursors.head.load(Acquire);
        let is_there = |&step: &u64| {
            let number = head.wrapping_add(step);
            self.slot(number).header.load(Acquire) as u32 == number.wrapping_add(1) as u32
        };
        (0..Self::SLOTS).take_while(is_there).count() as u64
    }

    pub(super) fn message_at(&self, number: u64) -> Result<Option<Message>, Fault> {
        let header = self.slot(number).header.load(Acquire);
        if header as u32 != number.wrapping_add(1) as u32 {
            return Ok(None);
        }
        self.check(number, header, length_of(header) > INLINE_BYTES).map(Some).ok_or(Fault)
    }

    /// Prefetches the payload of a long message that was polled. The lines arrive while the caller takes the lock and
    /// finds the receive.
    #[inline(always)]
    pub fn prefetch<H: Hints>(&self, polled: PolledHeader) {
        self.prefetch_payload::<H>(self.slot(polled.number), polled.header);
    }

    /// A consumer, for the holder of the lock. It is valid until the lock is released.
    #[inline(always)]
    pub fn consumer(&self) -> Consumer {
        let head = self.cursors.head.load(Relaxed);
        Consumer { head, first: head }
    }

    /// Whether there is a next message, at the cost of one load.
    #[inline(always)]
    pub fn has_next(&self, consumer: &Consumer) -> bool {
        self.slot(consumer.head).header.load(Relaxed) as u32 == consumer.head.wrapping_add(1) as u32
    }

    /// The next message.
    #[inline(always)]
    pub fn next<H: Hints>(&self, consumer: &Consumer) -> Result<Option<Message>, Fault> {
        let slot = self.slot(consumer.head);
        let header = slot.header.load(Acquire);
        if header as u32 != consumer.head.wrapping_add(1) as u32 {
            return Ok(None);
        }
        // Within a burst, the next slots arrive while this one is read. After a single message the producer keeps the
        // line that it writes next.
        if consumer.head != consumer.first {
            H::prefetch_read(&self.slot(consumer.head.wrapping_add(SLOTS_AHEAD)).header);
        }
        let is_long = length_of(header) > INLINE_BYTES;
        if is_long {
            self.prefetch_payload::<H>(slot, header);
        }
        self.check(consumer.head, header, is_long).map(Some).ok_or(Fault)
    }

    /// Dequeues up to `most` messages of one portal table index. Stops at a message of another index or of another form
    /// (`LONG`: long messages; else messages in their slots alone), and if `take` returns false. Stores the head once,
    /// at the end.
    #[inline(always)]
    pub fn dequeue_run<const LONG: bool, H: Hints>(
        &self,
        consumer: &mut Consumer,
        portal: u8,
        most: u64,
        mut take: impl FnMut(&Message) -> bool,
    ) {
        // One counter holds the number and the portal table index, as a header word does, because this loop needs many
        // registers. The run ends where the 32 bits of the number overflow, else the counter would name the next index.
        let number = consumer.head.wrapping_add(1) as u32;
        let first = u64::from(number) | u64::from(portal) << 32;
        let end = first + most.min((1 << 32) - u64::from(number));
        let mut next = first;
        while next != end {
            let number = next.wrapping_sub(1);
            let slot = self.slot(number);
            let header = slot.header.load(Acquire);
            let is_of_run = (header ^ next) << 24 == 0 && (length_of(header) > INLINE_BYTES) == LONG;
            if !is_of_run {
                break;
            }
            let Some(message) = self.check(number, header, LONG) else { break };
            // The caller has prefetched the first payload. The slots behind the last message stay with the producer.
            if LONG && next != first {
                self.prefetch_payload::<H>(slot, header);
            }
            if next.wrapping_add(1) != end {
                H::prefetch_read(&self.slot(next.wrapping_add(SLOTS_AHEAD - 1)).header);
            }
            if !take(&message) {
                break;
            }
            if LONG {
                self.cursors.payload_head.store(message.payload_next, Release);
            }
            next = H::opaque(next.wrapping_add(1));
        }
        if next != first {
            consumer.head = consumer.head.wrapping_add(next.wrapping_sub(first));
            self.cursors.head.store(consumer.head, Release);
        }
    }

    /// Dequeues the message that [`Ring::next`] returned, which the caller has read.
    #[inline(always)]
    pub fn dequeue(&self, consumer: &mut Consumer, message: &Message) {
        consumer.head = consumer.head.wrapping_add(1);
        // The stores with release pair with the producer's loads with acquire: the producer writes there only after the
        // message was read.
        if message.payload_next != 0 {
            self.cursors.payload_head.store(message.payload_next, Release);
        }
        self.cursors.head.store(consumer.head, Release);
    }

    /// Undoes [`Ring::dequeue`] of this message. `payload_head`: the cursor before its payload. The holder of the NIC's
    /// lock calls it, and the producer enqueues nothing meanwhile.
    pub fn put_back(&self, consumer: &mut Consumer, payload_head: u64) {
        consumer.head = consumer.head.wrapping_sub(1);
        self.cursors.head.store(consumer.head, Release);
        self.cursors.payload_head.store(payload_head, Release);
    }

    /// The payload cursor, for [`Ring::put_back`].
    pub fn payload_head(&self) -> u64 {
        self.cursors.payload_head.load(Relaxed)
    }

    /// Checks the message of the slot with this header word. None: no producer writes such a message.
    #[inline(always)]
    fn check(&self, number: u64, header: u64, long: bool) -> Option<Message> {
        let slot = self.slot(number);
        let length = length_of(header);
        let (offset, payload_next) = match long {
            true => self.check_payload(slot, length)?,
            false => (Self::inline_offset(number), 0),
        };
        let envelope = Envelope {
            portal: portal_of(header),
            flags: (header >> 40) as u8,
            match_bits: slot.match_bits.load(Relaxed),
            header_data: slot.header_data.load(Relaxed),
        };
        Some(Message { envelope, offset, length, payload_next })
    }

    /// The offset of a long message's payload, and the position in the payload area after it.
    #[inline(always)]
    fn check_payload(&self, slot: &Slot, length: usize) -> Option<(usize, u64)> {
        let start = slot.words[0].load(Relaxed);
        let within = (start & (Self::PAYLOAD_BYTES - 1)) + length as u64 <= Self::PAYLOAD_BYTES;
        let is_sound = length <= Self::MESSAGE_BYTES_MAX && within;
        is_sound.then(|| (Self::payload_offset(start), start.wrapping_add(rounded(length))))
    }

    /// Prefetches a long message's payload. This is a hint, so the slot's content needs no check.
    #[inline(always)]
    fn prefetch_payload<H: Hints>(&self, slot: &Slot, header: u64) {
        let word = self.payload_word(slot.words[0].load(Relaxed));
        H::prefetch_read_bytes(word, length_of(header).min(PREFETCH_BYTES));
    }
}
