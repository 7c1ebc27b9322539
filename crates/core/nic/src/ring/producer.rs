// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The producer of a ring: the only process that enqueues there.
//!
//! To enqueue, a caller finds room, copies the payload to the returned offset, and publishes. This touches the payload
//! and the slot in shared memory, and the cursors only when the known room is used up.

use super::hints::Hints;
use super::layout::{Envelope, FIRST_LINE_BYTES, INLINE_BYTES, LINE_BYTES, LINE_WORDS, Ring, Slot, rounded};
use crate::atomics::Ordering::{Acquire, Relaxed, Release};

/// Slots whose lines a burst takes ownership of at once. A power of two.
const OWNED_AT_ONCE: u64 = 8;
/// The part of the next payload whose lines are owned ahead of time: the lines that a core can load at the same time.
const OWNED_BYTES: usize = 2 << 10;

/// The progress of a producer, and its known room. It is private: the consumer never sees it.
#[derive(Clone, Debug)]
pub struct Producer {
    tail: u64,
    /// Bytes of the payload area used so far.
    payload_tail: u64,
    /// The first message without a known free slot.
    end: u64,
    /// The consumer's payload cursor when it was last loaded.
    payload_head: u64,
    /// The first message whose slot no burst owns yet.
    owned_to: u64,
    /// The turn in which the last message was published.
    turn: u32,
}

/// Room in the payload area for one message.
#[derive(Clone, Copy, Debug)]
pub struct Reserved {
    start: u64,
    end: u64,
    /// The offset into the ring at which the caller writes the payload.
    pub offset: usize,
}

/// A message in its slot that is not visible yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unseen {
    /// Its number in its ring.
    pub number: u64,
    /// The header word that makes it visible.
    pub header: u64,
}

impl Producer {
    /// Whether a free slot is known. Does not load the cursors.
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

    /// Makes a producer for a ring whose producer has ended. The published messages stay, and the next one follows
    /// them. None: a slot holds a message that no producer writes.
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

    /// The number of the first message not dequeued. A hostile consumer may have stored any number.
    #[inline(always)]
    pub fn dequeued(&self) -> u64 {
        // Pairs with the consumer's store with release: the consumer has read all messages before this one.
        self.cursors.head.load(Acquire)
    }

    /// Whether there is a free slot. Loads the cursors if none is known.
    #[inline(always)]
    pub fn has_slot(&self, producer: &mut Producer) -> bool {
        producer.has_room() || self.find_slots(producer)
    }

    /// The offset into the ring for the payload of the next message, if it lies in its slot alone. There must be a free
    /// slot.
    #[inline(always)]
    pub fn next_inline(&self, producer: &Producer) -> usize {
        debug_assert!(producer.has_room());
        Self::inline_offset(producer.tail)
    }

    /// Publishes the next message, of up to [`INLINE_BYTES`]. Its payload has been written to [`Ring::next_inline`].
    ///
    /// Messages with the same `turn` are a burst: the producer has received nothing between them.
    #[inline(always)]
    pub fn publish<H: Hints>(&self, producer: &mut Producer, envelope: &Envelope, length: usize, turn: u32) {
        debug_assert!(length <= INLINE_BYTES);
        self.store_slot(producer, envelope, length);
        self.advance::<H>(producer, length, turn);
    }

    /// Reserves a slot and room in the payload area for a message longer than [`INLINE_BYTES`]. None: there is no room
    /// now, or the message is longer than [`Ring::MESSAGE_BYTES_MAX`].
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

    /// Publishes the next message. Its payload has been written to the reserved room.
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

    /// Fills the next slot. The payload is already written, so this publishes the message.
    #[inline(always)]
    fn store_slot(&self, producer: &Producer, envelope: &Envelope, length: usize) {
        let slot = self.slot(producer.tail);
        let header = Self::fill_slot(slot, producer.tail, envelope, length);
        // Pairs with the consumer's load with acquire: a consumer that reads the number sees the whole message.
        slot.header.store(header, Release);
    }

    /// Fills a slot except its header word, and returns that word.
    #[inline(always)]
    fn fill_slot(slot: &Slot, number: u64, envelope: &Envelope, length: usize) -> u64 {
        slot.match_bits.store(envelope.match_bits, Relaxed);
        slot.header_data.store(envelope.header_data, Relaxed);
        u64::from(number.wrapping_add(1) as u32)
            | u64::from(envelope.portal) << 32
            | u64::from(envelope.flags) << 40
            | (length as u64) << 48
    }

    /// As [`Ring::publish`] and [`Ring::publish_reserved`], but the message stays invisible until [`Ring::show`] is
    /// called with the result. For homes with virtual time.
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

    /// Makes a message visible. Changes only the header word of one slot, whatever the argument is.
    pub fn show(&self, message: Unseen) {
        self.slot(message.number).header.store(message.header, Release);
    }

    /// Advances the tail, and takes ownership of the lines of the next slots. The consumer read these lines one lap
    /// ago, so its core shares them. In a burst, several slots are owned at once. Otherwise only the next one is: most
    /// likely a response arrives before the producer uses it.
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
        // The range begins at the tail, so it has at most `OWNED_AT_ONCE` slots.
        for number in producer.tail..producer.owned_to {
            self.slot(number).own_lines::<H>(length);
        }
    }

    /// Takes ownership of the lines of the next message's payload, which is likely as long as this one.
    #[inline(always)]
    fn own_payload<H: Hints>(&self, producer: &Producer, length: usize) {
        let start = Self::place(producer.payload_tail, length);
        if start.wrapping_add(rounded(length)).wrapping_sub(producer.payload_head) > Self::PAYLOAD_BYTES {
            return;
        }
        let first = (start as usize / 8) & (WORDS - 1);
        let lines = length.min(OWNED_BYTES).div_ceil(LINE_BYTES);
        // The payload lies within the area, and so do its whole lines.
        let words = self.payload.get(first..first + lines * LINE_WORDS).unwrap_or_default();
        for line in words.chunks_exact(LINE_WORDS) {
            H::take_ownership(&line[0]);
        }
    }

    #[cold]
    fn find_slots(&self, producer: &mut Producer) -> bool {
        // Pairs with the consumer's store with release: the consumer has read all messages before the head.
        let head = self.cursors.head.load(Acquire);
        // Only a hostile consumer stores another number. It gets no more messages.
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
    /// Takes ownership of the lines of a free slot that a message of this length needs.
    #[inline(always)]
    fn own_lines<H: Hints>(&self, length: usize) {
        // The hint may store 0, so it does not get the header: 0 is the number of one message in 2^32.
        H::take_ownership(&self.header_data);
        if (FIRST_LINE_BYTES + 1..=INLINE_BYTES).contains(&length) {
            H::take_ownership(&self.words[FIRST_LINE_BYTES / 8]);
        }
    }
}
