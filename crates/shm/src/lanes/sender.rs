// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages into a lane, by the process that has claimed it.

use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::{
    CELLS, Cell, DATA_BYTES, Envelope, GIVEN_UP, INLINE_BYTES, Lanes, MESSAGE_BYTES_MAX, cell_at, data_at, early_lines,
    place_data, rounded, way,
};
use crate::os::process::Identity;
use crate::os::{copy, lines};

/// How many lines a burst takes at once, a power of two.
const TAKEN_AT_ONCE: u64 = 8;

/// This process's lane to a NIC.
#[derive(Debug)]
pub struct Sender {
    lanes: Lanes,
    index: usize,
    /// The lane, and what says how messages are to go, within the mapping.
    lane: *mut u8,
    way: *const AtomicU32,
    /// Messages and bytes written so far.
    tail: u64,
    data_tail: u64,
    /// Messages for which there is room, as far as is known.
    end: u64,
    /// Bytes that were last seen to be taken.
    data_taken: u64,
    /// The first message whose line no burst has taken.
    fresh: u64,
    /// The turn in which the last message was sent.
    turn: u32,
}

impl Sender {
    /// For who has claimed a lane that exists.
    pub(super) fn new(lanes: Lanes, index: usize) -> Sender {
        let ends = lanes.ends(index);
        let (tail, data_tail) = (ends.taken.load(Acquire), ends.data_taken.load(Acquire));
        let (end, data_taken) = (tail + CELLS, data_tail);
        let (lane, way) = (lanes.lane(index), &raw const lanes.header().way);
        Sender { lanes, index, lane, way, tail, data_tail, end, data_taken, fresh: tail, turn: 0 }
    }

    #[inline(always)]
    fn cell(&self, number: u64) -> &Cell {
        // SAFETY: a claimed lane lies within the file, which is mapped as long as the sender is there; atomics.
        unsafe { &*cell_at(self.lane, number) }
    }

    /// Whether messages are to be left here, and not to go past, or elsewhere.
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        // SAFETY: mapped as long as the sender is there; an atomic.
        unsafe { (*self.way).load(Relaxed) == way::LANES }
    }

    /// Whether the NIC's owner has closed its lanes: nothing that is left here will be taken in.
    #[inline(always)]
    pub fn is_closed(&self) -> bool {
        // SAFETY: as above.
        unsafe { (*self.way).load(Relaxed) == way::CLOSED }
    }

    /// Whether everything sent has been taken in.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.lanes.ends(self.index).taken.load(Acquire) == self.tail
    }

    /// Which of the NIC's lanes it is.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The lanes, and which one it is: for taking in under the NIC's lock.
    pub(crate) fn parts(&self) -> (&Lanes, usize) {
        (&self.lanes, self.index)
    }

    /// Whether there is a cell for a message, as far as is known without a look.
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        self.tail != self.end
    }

    /// Leaves a message of no more than [`INLINE_BYTES`], for which there is room.
    ///
    /// Messages of one `turn` are a burst: nothing has come for this process meanwhile.
    ///
    /// # Safety
    /// `from` is readable for `length` bytes.
    #[inline(always)]
    pub unsafe fn leave(&mut self, envelope: &Envelope, from: *const u8, length: usize, turn: u32) {
        debug_assert!(length <= INLINE_BYTES);
        // SAFETY: the caller's bytes.
        self.fill_cell(envelope, length, turn, |to| unsafe { copy::few(from, to, length) });
    }

    /// The same of a word, or half of one, or nothing ([`copy::is_word`]): nothing need be kept over calls of other functions.
    ///
    /// # Safety
    /// As of [`Sender::leave`].
    #[inline(always)]
    pub unsafe fn leave_word(&mut self, envelope: &Envelope, from: *const u8, length: usize, turn: u32) {
        self.fill_cell(envelope, length, turn, |to| {
            // SAFETY: the caller's bytes.
            let copied = unsafe { copy::word(from, to, length) };
            debug_assert!(copied);
        });
    }

    /// Fills the next cell, which is there and has room for so much.
    #[inline(always)]
    fn fill_cell(&mut self, envelope: &Envelope, length: usize, turn: u32, mut fill: impl FnMut(*mut u8)) {
        debug_assert!(self.has_room());
        let number = self.tail;
        let cell = self.cell(number);
        fill(cell.bytes.as_ptr().cast_mut().cast());
        cell.publish(number + 1, envelope, length);
        self.advance(number, length, turn);
    }

    /// The same of a longer one, of no more than [`MESSAGE_BYTES_MAX`]. False: there is no room now.
    ///
    /// # Safety
    /// `from` is readable for `length` bytes.
    #[inline(always)]
    pub unsafe fn leave_long(&mut self, envelope: &Envelope, from: *const u8, length: usize, turn: u32) -> bool {
        // SAFETY: the caller's bytes; there is room for so many.
        self.push_long(envelope, length, turn, |to| unsafe { ptr::copy_nonoverlapping(from, to, length) })
    }

    /// Leaves a message of `length` bytes, which `fill` writes where it is told. False: there is no room now.
    ///
    /// `length` is at most [`MESSAGE_BYTES_MAX`]; `turn` is as for [`Sender::leave`].
    #[inline(always)]
    pub fn push(&mut self, envelope: &Envelope, length: usize, turn: u32, fill: impl FnMut(*mut u8)) -> bool {
        if length > INLINE_BYTES {
            return length <= MESSAGE_BYTES_MAX && self.push_long(envelope, length, turn, fill);
        }
        if !self.has_room() && !self.has_cell() {
            return false;
        }
        self.fill_cell(envelope, length, turn, fill);
        true
    }

    #[inline(always)]
    fn push_long(&mut self, envelope: &Envelope, length: usize, turn: u32, mut fill: impl FnMut(*mut u8)) -> bool {
        debug_assert!(length > INLINE_BYTES && length <= MESSAGE_BYTES_MAX);
        let number = self.tail;
        if !self.has_room() && !self.has_cell() {
            return false;
        }
        let start = place_data(self.data_tail, length);
        let end = start + rounded(length);
        if end - self.data_taken > DATA_BYTES && !self.has_data(end) {
            return false;
        }
        fill(data_at(self.lane, start));
        self.data_tail = end;
        let cell = self.cell(number);
        cell.bytes[0].store(start, Relaxed);
        cell.publish(number + 1, envelope, length);
        self.advance(number, length, turn);
        self.take_data(length);
        true
    }

    /// Message `number` is sent. The lines of those after it, which their reader has from a lap ago, are taken while there is time: in a
    /// burst of several at once, else of the next, which an answer most likely comes before.
    #[inline(always)]
    fn advance(&mut self, number: u64, length: usize, turn: u32) {
        self.tail = number + 1;
        let follows = std::mem::replace(&mut self.turn, turn) == turn;
        if !follows {
            self.take_cell(length);
        } else if (number + 1) % (TAKEN_AT_ONCE / 2) == 0 {
            self.take_cells(length);
        }
    }

    #[inline(always)]
    fn take_cell(&self, length: usize) {
        if self.tail != self.end {
            self.cell(self.tail).take(length);
        }
    }

    #[inline(never)]
    fn take_cells(&mut self, length: usize) {
        let end = self.tail + TAKEN_AT_ONCE;
        if end <= self.fresh + TAKEN_AT_ONCE / 2 {
            return;
        }
        if end > self.end {
            self.has_cell();
        }
        self.fresh = end.min(self.end);
        for number in self.tail..self.fresh {
            self.cell(number).take(length);
        }
    }

    /// The next message, likely as long as this one, takes its lines: the reader has those of a lap ago.
    #[inline(always)]
    fn take_data(&mut self, length: usize) {
        let start = place_data(self.data_tail, length);
        if start + rounded(length) - self.data_taken > DATA_BYTES {
            return;
        }
        let next = data_at(self.lane, start);
        for line in early_lines(length) {
            // SAFETY: room of this sender's in which no message lies; whole lines of a mapping, which integers are all there is in.
            lines::take(unsafe { &*next.wrapping_add(line).cast::<AtomicU64>() });
        }
    }

    #[cold]
    fn has_cell(&mut self) -> bool {
        let taken = self.lanes.ends(self.index).taken.load(Acquire);
        // A number that cannot be is one that a reader wrote who is none: to it nothing is sent.
        if self.tail.wrapping_sub(taken) <= CELLS {
            self.end = taken + CELLS;
        }
        self.tail != self.end
    }

    #[cold]
    fn has_data(&mut self, end: u64) -> bool {
        self.data_taken = self.lanes.ends(self.index).data_taken.load(Acquire);
        end - self.data_taken <= DATA_BYTES
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // Not by a forked child, which has its parent's.
        let owner = &self.lanes.header().claims[self.index].owner;
        let _ = owner.compare_exchange(Identity::own().to_word(), GIVEN_UP, Release, Relaxed);
    }
}
