// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The slots of one mailbox, and the order in which writer and reader store to them (seed 002, section 7.4).
//!
//! A slot is a cache line: a status word, then 56 bytes of the message. A longer message takes the slots that follow,
//! each with its own status word. All slots ever written are numbered from 0; number n lies at n modulo the number of
//! slots.
//!
//! Order of stores
//! 1. The writer stores a message's slots from the last one to the first: bytes, then the status word (release). Then
//!    it advances its tail. A reader that sees the status word of the first slot (acquire) sees the whole message.
//! 2. The reader copies the message, stores the number behind it to `taken`, then zeroes the status words, that of the
//!    first slot last (release). Later it publishes its head (release), which frees the slots.
//! 3. The writer reuses a slot only after it has loaded a head past the slot (acquire). So the slot's status word is
//!    zero then, and the reader's copy is complete.
//!
//! After any death these words show the state: the status word at the tail is not zero (the message is whole and
//! unread), or `taken` has passed the tail (it was read), or the message does not exist ([`Slots::recover`]).
//!
//! Costs: O(bytes). A message touches its own slots only; the reader also stores `taken`, on the line of its head.

use super::header::{SLOT_BYTES, SLOTS_MAX, Status};
use crate::atomics::AtomicU64;
use crate::atomics::Ordering::{Acquire, Relaxed, Release};

/// Words of a slot.
pub const SLOT_WORDS: usize = 8;

/// The slots of one mailbox.
#[derive(Clone, Copy)]
pub struct Slots<'a> {
    words: &'a [AtomicU64],
    /// The number of slots, less one.
    mask: u64,
}

impl<'a> Slots<'a> {
    /// The slots in these words. None: their number is not a power of two.
    #[inline]
    pub fn new(words: &'a [AtomicU64]) -> Option<Slots<'a>> {
        let count = words.len() / SLOT_WORDS;
        (count.is_power_of_two() && words.len() % SLOT_WORDS == 0).then(|| Slots { words, mask: count as u64 - 1 })
    }

    /// The number of slots.
    #[inline(always)]
    pub fn count(&self) -> u64 {
        self.mask + 1
    }

    /// Free slots with this head and tail; 0 if they are impossible.
    #[inline(always)]
    pub fn free(&self, tail: u64, head: u64) -> u64 {
        self.count().saturating_sub(tail.wrapping_sub(head))
    }

    /// The status word of a slot.
    #[inline(always)]
    pub fn status(&self, number: u64) -> u64 {
        self.slot(number).first().map_or(0, |word| word.load(Acquire))
    }

    /// Writes a message from slot `number` on, and calls `written` after each slot.
    #[inline]
    pub fn write(&self, number: u64, status: &Status, bytes: &[u8], mut written: impl FnMut()) {
        for slot in (0..status.extent.slots()).rev() {
            if let Some((word, rest)) = self.slot(number.wrapping_add(slot.into())).split_first() {
                let start = (slot * SLOT_BYTES) as usize;
                let pieces = bytes.get(start..).unwrap_or_default().chunks_exact(8);
                for (word, piece) in rest.iter().zip(pieces) {
                    word.store(piece.try_into().map_or(0, u64::from_le_bytes), Relaxed);
                }
                word.store(status.word(slot), Release);
            }
            written();
        }
    }

    /// Takes the message whose first slot is `number` and has this status. Copies as many of its bytes as fit, and
    /// returns their number. None: a later slot is not of this message; its slots are taken all the same.
    #[inline]
    pub fn take(&self, number: u64, status: &Status, taken: &AtomicU64, into: &mut [u8]) -> Option<usize> {
        let bytes = (status.extent.bytes() as usize).min(into.len());
        let slots = status.extent.slots();
        let mut is_whole = true;
        let mut rooms = into.get_mut(..bytes).unwrap_or_default().chunks_mut(SLOT_BYTES as usize);
        for slot in 0..slots {
            let Some((word, rest)) = self.slot(number.wrapping_add(slot.into())).split_first() else { continue };
            is_whole &= slot == 0 || word.load(Relaxed) == status.word(slot);
            for (word, room) in rest.iter().zip(rooms.next().unwrap_or_default().chunks_mut(8)) {
                let piece = word.load(Relaxed).to_le_bytes();
                room.copy_from_slice(piece.get(..room.len()).unwrap_or_default());
            }
        }
        self.release(number, slots, taken);
        is_whole.then_some(bytes)
    }

    /// Takes slots without their bytes.
    #[inline]
    pub fn release(&self, number: u64, slots: u32, taken: &AtomicU64) {
        taken.store(number.wrapping_add(slots.into()), Release);
        self.clear(number, slots);
    }

    /// Zeroes the status words of slots, that of slot `number` last.
    #[inline]
    pub fn clear(&self, number: u64, slots: u32) {
        for slot in (0..slots).rev() {
            if let Some(word) = self.slot(number.wrapping_add(slot.into())).first() {
                word.store(0, Release);
            }
        }
    }

    /// Checks whether a dead writer has left a whole message at the tail, and returns its slots. 0: it has not; the
    /// rest of one is zeroed. Only free slots are changed. The reader may run meanwhile.
    pub fn recover(&self, tail: u64, head: &AtomicU64, taken: &AtomicU64) -> u64 {
        // A reader in the middle of the message stores `taken`, then the zeros, then the head. So these loads go the
        // other way: if one sees the reader's store, `taken` shows it, too.
        let head = head.load(Acquire);
        let word = self.status(tail);
        let taken = taken.load(Acquire).wrapping_sub(tail);
        if (1..=u64::from(SLOTS_MAX)).contains(&taken) {
            return taken;
        }
        let free = self.free(tail, head);
        match Status::from_word(word) {
            Ok(status) if u64::from(status.extent.slots()) <= free => status.extent.slots().into(),
            _ => {
                self.clear(tail, SLOTS_MAX.min(u32::try_from(free).unwrap_or(SLOTS_MAX)));
                0
            }
        }
    }

    #[inline(always)]
    fn slot(&self, number: u64) -> &'a [AtomicU64] {
        let start = (number & self.mask) as usize * SLOT_WORDS;
        self.words.get(start..start + SLOT_WORDS).unwrap_or_default()
    }
}
