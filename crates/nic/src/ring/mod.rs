// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A ring of messages: one producer, one consumer, in memory that both share.
//!
//! A [`Ring`] has cursors, slots of two cache lines, and an area for payload that a slot does not hold. The producer
//! writes slots and payload; the consumer writes the cursors. A message of up to [`INLINE_BYTES`] lies in its slot alone;
//! a slot's first line has room for [`FIRST_LINE_BYTES`] of it. This module has the layout and every rule for the cursors.
//! It never touches payload: it gives positions as byte offsets into the ring, and the home copies.
//!
//! Invariants
//! 1. The producer stores a slot's header word last, with release, and the word holds the message's number. The consumer
//!    loads it first, with acquire. So a message is there as a whole or not at all, also where its producer died.
//! 2. Only the consumer stores the cursors, with release, after it has read the message. The producer loads them with acquire
//!    before it writes there again, so it never overwrites a message that has not been dequeued.
//! 3. Whatever a hostile peer stores in a slot or a cursor, every offset and length that this module gives lies within the
//!    ring, every loop is bounded, and a message that no producer writes is a [`Fault`].
//! 4. `payload_taken` is stored before `taken`. A consumer that dies between the two leaves a message that is read again as
//!    a whole, as nothing is enqueued over a slot before `taken` moves.
//!
//! | file | what |
//! |---|---|
//! | here | layout, and where all lies in it |
//! | [`producer`] | room, and publishing |
//! | [`consumer`] | polling, checking, dequeuing |
//!
//! Cost: a poll is one load of each of two lines; a short message moves one line or two.

pub mod consumer;
pub mod producer;

use core::mem::offset_of;

use crate::atomics::{AtomicU64, Ordering::Relaxed};

pub use consumer::{Consumer, Fault, Message, PolledHeader};
pub use producer::{Producer, Reserved, Unseen};

/// Version of the layout.
pub const VERSION: u32 = 5;
/// Bytes of a message that a slot holds itself.
pub const INLINE_BYTES: usize = 104;
/// Those of them that lie in the slot's first cache line.
pub const FIRST_LINE_BYTES: usize = INLINE_BYTES - LINE_BYTES;

const LINE_BYTES: usize = 64;
const LINE_WORDS: usize = LINE_BYTES / 8;

/// Hints to the processor and the compiler. A home implements them; nothing but time depends on them.
pub trait Hints {
    /// The line of this word will be read soon.
    fn will_read(word: &AtomicU64);
    /// The lines of so many bytes from this word on will be read soon. They may end past the ring.
    fn will_read_bytes(word: &AtomicU64, bytes: usize);
    /// The line of this word will be written soon. Nobody needs the word's value: it may be stored over.
    fn will_write(word: &AtomicU64);
    /// The same value, of which the compiler must know nothing. It keeps the compiler from making several counters of one.
    fn opaque(value: u64) -> u64;
}

/// No hints.
pub struct NoHints;

impl Hints for NoHints {
    #[inline(always)]
    fn will_read(_: &AtomicU64) {}
    #[inline(always)]
    fn will_read_bytes(_: &AtomicU64, _: usize) {}
    #[inline(always)]
    fn will_write(_: &AtomicU64) {}
    #[inline(always)]
    fn opaque(value: u64) -> u64 {
        value
    }
}

/// What a message carries beside its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    pub portal: u8,
    /// The sender's, carried unchanged.
    pub flags: u8,
    pub match_bits: u64,
    pub header_data: u64,
}

/// One message, or its header.
#[repr(C, align(128))]
pub struct Slot {
    /// Number of the message + 1 (32 bits), portal table index (8), flags (8), length (16).
    header: AtomicU64,
    match_bits: AtomicU64,
    header_data: AtomicU64,
    /// The payload, or its position in the payload area.
    words: [AtomicU64; INLINE_BYTES / 8],
}

impl Slot {
    fn new() -> Slot {
        Slot {
            header: AtomicU64::new(0),
            match_bits: AtomicU64::new(0),
            header_data: AtomicU64::new(0),
            words: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

/// How far the consumer is: messages dequeued, and bytes of the payload area that are free again.
#[repr(C, align(128))]
pub struct Cursors {
    taken: AtomicU64,
    payload_taken: AtomicU64,
}

/// A ring with `SLOTS` slots and `WORDS` words of payload area, both powers of two.
#[repr(C, align(128))]
pub struct Ring<const SLOTS: usize, const WORDS: usize> {
    // First: a slot's address is then one addition to the ring's.
    slots: [Slot; SLOTS],
    cursors: Cursors,
    payload: [AtomicU64; WORDS],
}

impl<const SLOTS: usize, const WORDS: usize> Ring<SLOTS, WORDS> {
    /// Messages that a ring holds.
    pub const SLOTS: u64 = {
        assert!(SLOTS.is_power_of_two() && SLOTS < 1 << 31);
        SLOTS as u64
    };
    /// Bytes of its payload area.
    pub const PAYLOAD_BYTES: u64 = {
        assert!(WORDS.is_power_of_two() && WORDS >= LINE_WORDS);
        WORDS as u64 * 8
    };
    /// The longest message: several fit, so that copying in and copying out overlap.
    pub const MESSAGE_BYTES_MAX: usize = Self::PAYLOAD_BYTES as usize / 4;

    /// An empty ring. A home's rings are memory that reads as zero, which is the same.
    pub fn new() -> Self {
        Ring {
            slots: core::array::from_fn(|_| Slot::new()),
            cursors: Cursors { taken: AtomicU64::new(0), payload_taken: AtomicU64::new(0) },
            payload: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Messages dequeued so far, as the shared memory has it.
    #[inline(always)]
    pub fn taken(&self) -> u64 {
        self.cursors.taken.load(Relaxed)
    }

    /// Puts the cursors of an empty ring elsewhere, as if so many messages and bytes had passed. For tests.
    pub fn set_cursors(&self, taken: u64, payload_taken: u64) {
        self.cursors.payload_taken.store(payload_taken, Relaxed);
        self.cursors.taken.store(taken, Relaxed);
    }

    /// Every word, for a test that plays a hostile peer: both cursors, the slots, the payload area.
    pub fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        let slots = self
            .slots
            .iter()
            .flat_map(|slot| [&slot.header, &slot.match_bits, &slot.header_data].into_iter().chain(&slot.words));
        [&self.cursors.taken, &self.cursors.payload_taken].into_iter().chain(slots).chain(&self.payload)
    }

    /// The slot of a message.
    #[inline(always)]
    fn slot(&self, number: u64) -> &Slot {
        // The mask of a power of two: the compiler sees that the index is in range.
        &self.slots[number as usize & (SLOTS - 1)]
    }

    /// The word of the payload area that a position lies in.
    #[inline(always)]
    fn payload_word(&self, position: u64) -> &AtomicU64 {
        &self.payload[(position as usize / 8) & (WORDS - 1)]
    }

    /// Where in the ring a slot holds payload.
    #[inline(always)]
    fn inline_offset(number: u64) -> usize {
        offset_of!(Self, slots) + (number as usize & (SLOTS - 1)) * size_of::<Slot>() + offset_of!(Slot, words)
    }

    /// Where in the ring a position of the payload area lies.
    #[inline(always)]
    fn payload_offset(position: u64) -> usize {
        offset_of!(Self, payload) + (position & (Self::PAYLOAD_BYTES - 1)) as usize
    }

    /// Where the payload of this length begins, from a position on: it does not go over the area's end.
    #[inline(always)]
    fn place(position: u64, length: usize) -> u64 {
        let left = Self::PAYLOAD_BYTES - (position & (Self::PAYLOAD_BYTES - 1));
        if rounded(length) > left { position.wrapping_add(left) } else { position }
    }
}

impl<const SLOTS: usize, const WORDS: usize> Default for Ring<SLOTS, WORDS> {
    fn default() -> Self {
        Self::new()
    }
}

/// Payload fills whole cache lines.
#[inline(always)]
fn rounded(length: usize) -> u64 {
    (length as u64).next_multiple_of(LINE_BYTES as u64)
}

/// The portal table index of a header word.
#[inline(always)]
fn portal_of(header: u64) -> u8 {
    (header >> 32) as u8
}

/// The length of a header word.
#[inline(always)]
fn length_of(header: u64) -> usize {
    (header >> 48) as usize
}

// A model checker's atomics are larger.
#[cfg(not(loom))]
const _: () = {
    type Smallest = Ring<2, 8>;
    assert!(size_of::<Slot>() == 128 && offset_of!(Slot, words) == 128 - INLINE_BYTES);
    assert!(size_of::<Cursors>() == 128);
    assert!(offset_of!(Smallest, slots) == 0 && offset_of!(Smallest, cursors) == 2 * 128);
    assert!(offset_of!(Smallest, payload) == 3 * 128);
    assert!(size_of::<Smallest>() == 4 * 128);
};
