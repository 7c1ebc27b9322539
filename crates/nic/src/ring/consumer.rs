// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The consumer of a ring: the holder of the NIC's lock.
//!
//! Anybody may poll. Only the holder of the lock dequeues, and only for it a poll is final.

use super::hints::Hints;
use super::layout::{Envelope, INLINE_BYTES, Ring, Slot, length_of, portal_of, rounded};
use crate::atomics::Ordering::{Acquire, Relaxed, Release};

/// How many slots ahead of the one that is read the next are asked for.
const SLOTS_AHEAD: u64 = 3;
/// Of a payload, how much is asked for before it is needed: as many lines as a core can have under way.
const PREFETCH_BYTES: usize = 2 << 10;

/// A slot holds a message that no producer writes. The ring is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// The header word that a poll has read. It is kept, so that the message need not be polled again under the lock.
#[derive(Clone, Copy, Debug)]
pub struct PolledHeader {
    number: u64,
    header: u64,
}

impl PolledHeader {
    /// The portal table index that the message is for.
    #[inline(always)]
    pub fn portal(self) -> u8 {
        portal_of(self.header)
    }

    /// Whether its payload lies in the payload area.
    #[inline(always)]
    pub fn is_long(self) -> bool {
        length_of(self.header) > INLINE_BYTES
    }

    /// Its number among all messages of its ring.
    #[inline(always)]
    pub fn number(self) -> u64 {
        self.number
    }
}

/// A message that was checked: its payload lies within the ring.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub envelope: Envelope,
    /// Where in the ring the payload begins, in bytes.
    pub offset: usize,
    pub length: usize,
    /// Where the payload area goes on after it; 0 for a message that lies in its slot alone.
    payload_next: u64,
}

impl Message {
    /// Where the payload area goes on after it, if its payload lies there.
    pub(super) fn payload_end(&self) -> Option<u64> {
        (self.payload_next != 0).then_some(self.payload_next)
    }
}

/// How far a consumer is. It stores into the ring what it dequeues.
#[derive(Clone, Copy, Debug)]
pub struct Consumer {
    head: u64,
    first: u64,
}

impl Consumer {
    /// Messages that it has dequeued.
    #[inline(always)]
    pub fn dequeued(&self) -> u64 {
        self.head.wrapping_sub(self.first)
    }

    /// The number of the next message, among all of its ring.
    #[inline(always)]
    pub fn next_number(&self) -> u64 {
        self.head
    }
}

impl<const SLOTS: usize, const WORDS: usize> Ring<SLOTS, WORDS> {
    /// The header of the next message, if there is one. Final only for the holder of the lock.
    #[inline(always)]
    pub fn poll(&self) -> Option<PolledHeader> {
        let number = self.cursors.head.load(Relaxed);
        let header = self.slot(number).header.load(Acquire);
        let is_there = header as u32 == number.wrapping_add(1) as u32;
        is_there.then_some(PolledHeader { number, header })
    }

    /// Messages that wait to be dequeued. A look from outside: there may be others by now.
    pub fn waiting(&self) -> u64 {
        let head = self.cursors.head.load(Acquire);
        let is_there = |&step: &u64| {
            let number = head.wrapping_add(step);
            self.slot(number).header.load(Acquire) as u32 == number.wrapping_add(1) as u32
        };
        (0..Self::SLOTS).take_while(is_there).count() as u64
    }

    /// The message of this number, if it is there.
    pub(super) fn message_at(&self, number: u64) -> Result<Option<Message>, Fault> {
        let header = self.slot(number).header.load(Acquire);
        if header as u32 != number.wrapping_add(1) as u32 {
            return Ok(None);
        }
        self.check(number, header, length_of(header) > INLINE_BYTES).map(Some).ok_or(Fault)
    }

    /// Asks for the payload of a long message that was polled. It crosses while the lock is taken and the receive found.
    #[inline(always)]
    pub fn prefetch<H: Hints>(&self, polled: PolledHeader) {
        self.prefetch_payload::<H>(self.slot(polled.number), polled.header);
    }

    /// A consumer, for the holder of the lock, for as long as it holds it.
    #[inline(always)]
    pub fn consumer(&self) -> Consumer {
        let head = self.cursors.head.load(Relaxed);
        Consumer { head, first: head }
    }

    /// The next message.
    #[inline(always)]
    pub fn next<H: Hints>(&self, consumer: &Consumer) -> Result<Option<Message>, Fault> {
        let slot = self.slot(consumer.head);
        let header = slot.header.load(Acquire);
        if header as u32 != consumer.head.wrapping_add(1) as u32 {
            return Ok(None);
        }
        // The next slots of a burst cross while this one is read. After a single message its producer keeps the line that it
        // writes next.
        if consumer.head != consumer.first {
            H::prefetch_read(&self.slot(consumer.head.wrapping_add(SLOTS_AHEAD)).header);
        }
        let is_long = length_of(header) > INLINE_BYTES;
        if is_long {
            self.prefetch_payload::<H>(slot, header);
        }
        self.check(consumer.head, header, is_long).map(Some).ok_or(Fault)
    }

    /// The message that was polled, if it is `LONG` or lies in its slot alone. It is the consumer's next.
    #[inline(always)]
    pub fn polled<const LONG: bool>(&self, consumer: &Consumer, polled: PolledHeader) -> Option<Message> {
        debug_assert!(consumer.dequeued() == 0 && consumer.head == polled.number);
        let has_form = polled.is_long() == LONG;
        has_form.then(|| self.check(polled.number, polled.header, LONG)).flatten()
    }

    /// Dequeues up to `most` messages for one portal table index, while all are `LONG` or all lie in their slots alone, and
    /// `take` takes them. The cursor is stored once, at the end.
    #[inline(always)]
    pub fn dequeue_run<const LONG: bool, H: Hints>(
        &self,
        consumer: &mut Consumer,
        portal: u8,
        most: u64,
        mut take: impl FnMut(&Message) -> bool,
    ) {
        // One counter serves for the number and the portal table index, as a header word has them: registers are short here.
        // The run ends where the 32 bits of the number begin again at 0, or the counter would name the next index.
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
            // The caller has asked for the payload of the first. Behind the last one, the lines are left to the producer.
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

    /// The message that [`Ring::next`] or [`Ring::polled`] gave has been read.
    #[inline(always)]
    pub fn dequeue(&self, consumer: &mut Consumer, message: &Message) {
        consumer.head = consumer.head.wrapping_add(1);
        // These pair with the producer's loads with acquire: it writes there only after the message was read.
        if message.payload_next != 0 {
            self.cursors.payload_head.store(message.payload_next, Release);
        }
        self.cursors.head.store(consumer.head, Release);
    }

    /// The message of a slot with this header word, which is long or lies there alone. None: no producer writes such a message.
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

    /// Where a long message's payload begins, and where the payload area goes on after it.
    #[inline(always)]
    fn check_payload(&self, slot: &Slot, length: usize) -> Option<(usize, u64)> {
        let start = slot.words[0].load(Relaxed);
        let within = (start & (Self::PAYLOAD_BYTES - 1)) + length as u64 <= Self::PAYLOAD_BYTES;
        let is_sound = length <= Self::MESSAGE_BYTES_MAX && within;
        is_sound.then(|| (Self::payload_offset(start), start.wrapping_add(rounded(length))))
    }

    /// Asks for a long message's payload, whatever the slot holds: it is a hint.
    #[inline(always)]
    fn prefetch_payload<H: Hints>(&self, slot: &Slot, header: u64) {
        let word = self.payload_word(slot.words[0].load(Relaxed));
        H::prefetch_read_bytes(word, length_of(header).min(PREFETCH_BYTES));
    }
}
