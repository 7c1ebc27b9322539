// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The layout of a ring in memory: slots, cursors, payload area, and positions in them.

use core::mem::offset_of;

use crate::atomics::{AtomicU64, Ordering::Relaxed};

/// Version of the layout.
pub const VERSION: u32 = 6;
/// The longest message that lies in its slot alone, in bytes.
pub const INLINE_BYTES: usize = 104;
/// The longest message that lies in the first cache line of its slot, in bytes.
pub const FIRST_LINE_BYTES: usize = INLINE_BYTES - LINE_BYTES;

pub(super) const LINE_BYTES: usize = 64;
pub(super) const LINE_WORDS: usize = LINE_BYTES / 8;

/// The fields of a message beside its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    pub portal: u8,
    /// For the sender's use. The ring carries them unchanged.
    pub flags: u8,
    pub match_bits: u64,
    pub header_data: u64,
}

/// A short message, or the header of a long one.
#[repr(C, align(128))]
pub struct Slot {
    /// Number of the message + 1 (32 bits), portal table index (8), flags (8), length (16).
    pub(super) header: AtomicU64,
    pub(super) match_bits: AtomicU64,
    pub(super) header_data: AtomicU64,
    /// The payload, or its position in the payload area.
    pub(super) words: [AtomicU64; INLINE_BYTES / 8],
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

/// The cursors of the consumer: the number of dequeued messages, and the end of the free part of the payload area.
#[repr(C, align(128))]
pub struct Cursors {
    pub(super) head: AtomicU64,
    pub(super) payload_head: AtomicU64,
}

/// A ring with `SLOTS` slots and `WORDS` words of payload area, both powers of two.
#[repr(C, align(128))]
pub struct Ring<const SLOTS: usize, const WORDS: usize> {
    // The slots come first, so that the address of a slot is the ring's address plus one offset.
    slots: [Slot; SLOTS],
    pub(super) cursors: Cursors,
    pub(super) payload: [AtomicU64; WORDS],
}

impl<const SLOTS: usize, const WORDS: usize> Ring<SLOTS, WORDS> {
    /// The most messages that a ring holds.
    pub const SLOTS: u64 = {
        assert!(SLOTS.is_power_of_two() && SLOTS < 1 << 31);
        SLOTS as u64
    };
    /// Size of the payload area.
    pub const PAYLOAD_BYTES: u64 = {
        assert!(WORDS.is_power_of_two() && WORDS >= LINE_WORDS);
        WORDS as u64 * 8
    };
    /// The longest message. Several fit into the payload area, so that both ends can copy at the same time.
    pub const MESSAGE_BYTES_MAX: usize = Self::PAYLOAD_BYTES as usize / 4;

    /// An empty ring. Memory that reads as zero is an empty ring too.
    pub fn new() -> Self {
        Ring {
            slots: core::array::from_fn(|_| Slot::new()),
            cursors: Cursors { head: AtomicU64::new(0), payload_head: AtomicU64::new(0) },
            payload: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// The head: messages dequeued so far, as stored in the shared memory.
    #[inline(always)]
    pub fn head(&self) -> u64 {
        self.cursors.head.load(Relaxed)
    }

    /// Sets the cursors of an empty ring, as if this many messages and bytes had passed. For tests.
    pub fn set_cursors(&self, head: u64, payload_head: u64) {
        self.cursors.payload_head.store(payload_head, Relaxed);
        self.cursors.head.store(head, Relaxed);
    }

    /// All words: cursors, slots, payload area. For tests that play a hostile peer.
    pub fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        let slots = self
            .slots
            .iter()
            .flat_map(|slot| [&slot.header, &slot.match_bits, &slot.header_data].into_iter().chain(&slot.words));
        [&self.cursors.head, &self.cursors.payload_head].into_iter().chain(slots).chain(&self.payload)
    }

    #[inline(always)]
    pub(super) fn slot(&self, number: u64) -> &Slot {
        // The compiler sees that a masked index is in range.
        &self.slots[number as usize & (SLOTS - 1)]
    }

    #[inline(always)]
    pub(super) fn payload_word(&self, position: u64) -> &AtomicU64 {
        &self.payload[(position as usize / 8) & (WORDS - 1)]
    }

    #[inline(always)]
    pub(super) fn inline_offset(number: u64) -> usize {
        offset_of!(Self, slots) + (number as usize & (SLOTS - 1)) * size_of::<Slot>() + offset_of!(Slot, words)
    }

    #[inline(always)]
    pub(super) fn payload_offset(position: u64) -> usize {
        offset_of!(Self, payload) + (position & (Self::PAYLOAD_BYTES - 1)) as usize
    }

    /// The position at which a payload of this length begins: `position`, or the area's start if the payload would
    /// cross the area's end.
    #[inline(always)]
    pub(super) fn place(position: u64, length: usize) -> u64 {
        let left = Self::PAYLOAD_BYTES - (position & (Self::PAYLOAD_BYTES - 1));
        if rounded(length) > left { position.wrapping_add(left) } else { position }
    }
}

impl<const SLOTS: usize, const WORDS: usize> Default for Ring<SLOTS, WORDS> {
    fn default() -> Self {
        Self::new()
    }
}

/// The length of a payload in whole cache lines, in bytes.
#[inline(always)]
pub(super) fn rounded(length: usize) -> u64 {
    (length as u64).next_multiple_of(LINE_BYTES as u64)
}

#[inline(always)]
pub(super) fn portal_of(header: u64) -> u8 {
    (header >> 32) as u8
}

#[inline(always)]
pub(super) fn length_of(header: u64) -> usize {
    (header >> 48) as usize
}

// The atomics of the model checker are larger.
#[cfg(not(loom))]
const _: () = {
    type Smallest = Ring<2, 8>;
    assert!(size_of::<Slot>() == 128 && offset_of!(Slot, words) == 128 - INLINE_BYTES);
    assert!(size_of::<Cursors>() == 128);
    assert!(offset_of!(Smallest, slots) == 0 && offset_of!(Smallest, cursors) == 2 * 128);
    assert!(offset_of!(Smallest, payload) == 3 * 128);
    assert!(size_of::<Smallest>() == 4 * 128);
};
