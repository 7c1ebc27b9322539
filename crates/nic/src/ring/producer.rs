// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The producer of a ring: the one process that enqueues there.
//!
//! To enqueue: find room, copy the payload to the offset that is given, publish. All of it is local but the payload, the slot,
//! and a load of the cursors when the room that is known is used up.

use super::hints::Hints;
use super::layout::{Envelope, FIRST_LINE_BYTES, INLINE_BYTES, LINE_BYTES, LINE_WORDS, Ring, Slot, rounded};
use crate::atomics::Ordering::{Acquire, Relaxed, Release};

/// Slots that a burst takes for writing at once, a power of two.
const OWNED_AT_ONCE: u64 = 8;
/// Of a payload, how much is taken for writing ahead of time: as many lines as a core can have under way.
const OWNED_BYTES: usize = 2 << 10;

/// How far a producer is, and the room that it knows of. Its own: the consumer sees none of it.
#[derive(Clone, Debug)]
pub struct Producer {
    /// Messages published so far.
    tail: u64,
    /// Bytes of the payload area used so far.
    payload_tail: u64,
    /// The first message for which no slot is known to be free.
    end: u64,
    /// The consumer's payload cursor when it was last loaded.
    payload_head: u64,
    /// The first message whose slot no burst has taken for writing.
    owned_to: u64,
    /// The turn in which the last message was published.
    turn: u32,
}

/// Room in the payload area for one message.
#[derive(Clone, Copy, Debug)]
pub struct Reserved {
    start: u64,
    end: u64,
    /// Where in the ring the payload goes.
    pub offset: usize,
}

/// A message that lies in its slot, and that nobody sees yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unseen {
    /// Its number in its ring.
    pub number: u64,
    /// The header word that makes it visible.
    pub header: u64,
}

impl Producer {
    /// Whether there is a slot for a message, as far as is known without a load of the cursors.
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        self.tail != self.end
    }

    /// Messages published so far.
    #[inline(always)]
    pub fn tail(&self) -> u64 {
        self.tail
    }
}

impl<const SLOTS: usize, const WORDS: usize> Ring<SLOTS, WORDS> {
    /// The producer of an empty ring.
    pub fn producer(&self) -> Producer {
        let (tail, payload_tail) = (self.cursors.head.load(Acquire), self.cursors.payload_head.load(Acquire));
        let (end, payload_head) = (tail.wrapping_add(Self::SLOTS), payload_tail);
        Producer { tail, payload_tail, end, payload_head, owned_to: tail, turn: 0 }
    }

    /// The producer of a ring whose producer has ended: what that published stays, and the next message comes behind it. None: a slot holds
    /// what no producer writes.
    pub fn resume(&self) -> Option<Producer> {
        let mut producer = self.producer();
        let head = producer.tail;
        for number in (0..Self::SLOTS).map(|step| head.wrapping_add(step)) {
            let Some(message) = self.message_at(number).ok()? else { break };
            producer.tail = number.wrapping_add(1);
            producer.payload_tail = message.payload_end().unwrap_or(producer.payload_tail);
        }
        producer.owned_to = producer.tail;
        Some(producer)
    }

    /// Whether the consumer has dequeued everything that was published.
    #[inline(always)]
    pub fn is_drained(&self, producer: &Producer) -> bool {
        self.cursors.head.load(Acquire) == producer.tail
    }

    /// Whether there is a slot for a message; loads the cursors if none is known.
    #[inline(always)]
    pub fn has_slot(&self, producer: &mut Producer) -> bool {
        producer.has_room() || self.find_slots(producer)
    }

    /// Where in the ring the payload of the next message goes that lies in its slot alone. There is a slot for it.
    #[inline(always)]
    pub fn next_inline(&self, producer: &Producer) -> usize {
        debug_assert!(producer.has_room());
        Self::inline_offset(producer.tail)
    }

    /// Publishes the next message, of up to [`INLINE_BYTES`], whose payload has been written to [`Ring::next_inline`].
    ///
    /// Messages of one `turn` are a burst: the producer has received nothing in between.
    #[inline(always)]
    pub fn publish<H: Hints>(&self, producer: &mut Producer, envelope: &Envelope, length: usize, turn: u32) {
        debug_assert!(length <= INLINE_BYTES);
        self.store_slot(producer, envelope, length);
        self.advance::<H>(producer, length, turn);
    }

    /// Room in the payload area for a message longer than [`INLINE_BYTES`], and a slot for it. None: there is none now, or
    /// it is longer than [`Ring::MESSAGE_BYTES_MAX`].
    #[inline(always)]
    pub fn reserve(&self, producer: &mut Producer, length: usize) -> Option<Reserved> {
        debug_assert!(length > INLINE_BYTES);
        if length > Self::MESSAGE_BYTES_MAX || !self.has_slot(producer) {
            return None;
        }
        let start = Self::place(producer.payload_tail, length);
        let end = start.wrapping_add(rounded(length));
        let has_room =
            end.wrapping_sub(producer.payload_head) <= Self::PAYLOAD_BYTES || self.find_payload(producer, end);
        has_room.then(|| Reserved { start, end, offset: Self::payload_offset(start) })
    }

    /// As [`Ring::publish`] and [`Ring::publish_reserved`], but nobody sees the message before [`Ring::show`] is called with
    /// the result. A home calls it whose messages take time.
    pub fn publish_unseen(
        &self,
        producer: &mut Producer,
        envelope: &Envelope,
        length: usize,
        reserved: Option<Reserved>,
    ) -> Unseen {
        let number = producer.tail;
        let slot = self.slot(number);
        if let Some(reserved) = reserved {
            producer.payload_tail = reserved.end;
            slot.words[0].store(reserved.start, Relaxed);
        }
        let header = Self::fill_slot(slot, number, envelope, length);
        producer.tail = number.wrapping_add(1);
        Unseen { number, header }
    }

    /// Makes a message visible. Whatever the arguments are, they change nothing but the header of a slot.
    pub fn show(&self, message: Unseen) {
        self.slot(message.number).header.store(message.header, Release);
    }

    /// Publishes the next message, whose payload has been written to the room that was reserved for it.
    #[inline(always)]
    pub fn publish_reserved<H: Hints>(
        &self,
        producer: &mut Producer,
        envelope: &Envelope,
        length: usize,
        turn: u32,
        reserved: Reserved,
    ) {
        producer.payload_tail = reserved.end;
        self.slot(producer.tail).words[0].store(reserved.start, Relaxed);
        self.store_slot(producer, envelope, length);
        self.advance::<H>(producer, length, turn);
        self.own_payload::<H>(producer, length);
    }

    /// Fills the next slot, whose payload is there. Its message is then published.
    #[inline(always)]
    fn store_slot(&self, producer: &Producer, envelope: &Envelope, length: usize) {
        let slot = self.slot(producer.tail);
        let header = Self::fill_slot(slot, producer.tail, envelope, length);
        // Pairs with the consumer's load with acquire: who sees the number sees the message.
        slot.header.store(header, Release);
    }

    /// Fills a slot but for its header word, which is returned.
    #[inline(always)]
    fn fill_slot(slot: &Slot, number: u64, envelope: &Envelope, length: usize) -> u64 {
        slot.match_bits.store(envelope.match_bits, Relaxed);
        slot.header_data.store(envelope.header_data, Relaxed);
        u64::from(number.wrapping_add(1) as u32)
            | u64::from(envelope.portal) << 32
            | u64::from(envelope.flags) << 40
            | (length as u64) << 48
    }

    /// The message is published. The consumer has read the lines of the slots that come next, one lap ago. They are taken for
    /// writing while there is time: several at once in a burst, else the next one, as an answer most likely comes before it
    /// is used.
    #[inline(always)]
    fn advance<H: Hints>(&self, producer: &mut Producer, length: usize, turn: u32) {
        let number = producer.tail;
        producer.tail = number.wrapping_add(1);
        let follows = core::mem::replace(&mut producer.turn, turn) == turn;
        if !follows {
            if producer.has_room() {
                self.slot(producer.tail).own_lines::<H>(length);
            }
        } else if producer.tail % (OWNED_AT_ONCE / 2) == 0 {
            self.own_slots::<H>(producer, length);
        }
    }

    #[inline(never)]
    fn own_slots<H: Hints>(&self, producer: &mut Producer, length: usize) {
        let end = producer.tail.wrapping_add(OWNED_AT_ONCE);
        if end <= producer.owned_to.wrapping_add(OWNED_AT_ONCE / 2) {
            return;
        }
        if end > producer.end {
            self.find_slots(producer);
        }
        producer.owned_to = end.min(producer.end);
        // At most as many as are taken at once: the range begins at the tail.
        for number in producer.tail..producer.owned_to {
            self.slot(number).own_lines::<H>(length);
        }
    }

    /// Takes the lines of the next message's payload for writing. It is likely as long as this one's.
    #[inline(always)]
    fn own_payload<H: Hints>(&self, producer: &Producer, length: usize) {
        let start = Self::place(producer.payload_tail, length);
        if start.wrapping_add(rounded(length)).wrapping_sub(producer.payload_head) > Self::PAYLOAD_BYTES {
            return;
        }
        let first = (start as usize / 8) & (WORDS - 1);
        let lines = length.min(OWNED_BYTES).div_ceil(LINE_BYTES);
        // Whole lines: they lie within the area, as the message does.
        let words = self.payload.get(first..first + lines * LINE_WORDS).unwrap_or_default();
        for line in words.chunks_exact(LINE_WORDS) {
            H::take_ownership(&line[0]);
        }
    }

    #[cold]
    fn find_slots(&self, producer: &mut Producer) -> bool {
        // Pairs with the consumer's store with release: it has read the messages before the head.
        let head = self.cursors.head.load(Acquire);
        // Only a hostile consumer stores any other number. Nothing is sent to it.
        if producer.tail.wrapping_sub(head) <= Self::SLOTS {
            producer.end = head.wrapping_add(Self::SLOTS);
        }
        producer.has_room()
    }

    #[cold]
    fn find_payload(&self, producer: &mut Producer, end: u64) -> bool {
        producer.payload_head = self.cursors.payload_head.load(Acquire);
        end.wrapping_sub(producer.payload_head) <= Self::PAYLOAD_BYTES
    }
}

impl Slot {
    /// Takes the lines of a free slot for writing a message of this length.
    #[inline(always)]
    fn own_lines<H: Hints>(&self, length: usize) {
        // Not the header: a hint may store 0, which is the number of one message in 2^32.
        H::take_ownership(&self.header_data);
        if (FIRST_LINE_BYTES + 1..=INLINE_BYTES).contains(&length) {
            H::take_ownership(&self.words[FIRST_LINE_BYTES / 8]);
        }
    }
}
