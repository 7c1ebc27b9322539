// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages out of a lane, by whoever holds its NIC's lock.

use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{
    Cell, Ends, Envelope, INLINE_BYTES, Lanes, MESSAGE_BYTES_MAX, cell_at, data_at, early_lines, place_data, rounded,
};
use crate::os::{copy, lines};

/// How many cells ahead of the one in hand its reader asks for.
const AHEAD: u64 = 3;

/// A message that lies in a lane.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    pub envelope: Envelope,
    pub bytes: *const u8,
    pub length: usize,
    /// Where the lane's bytes go on after it.
    data_next: u64,
}

/// A message that lies in its cell alone.
#[derive(Clone, Copy, Debug)]
pub struct Inline {
    pub envelope: Envelope,
    bytes: *const u8,
    pub length: usize,
}

impl Inline {
    /// # Safety
    /// There is room for all of it.
    #[inline(always)]
    pub unsafe fn copy_to(&self, to: *mut u8) {
        // SAFETY: the caller's; the message lies in its cell.
        unsafe { copy::few(self.bytes, to, self.length) }
    }
}

/// One lane, for whoever takes messages out of it.
pub struct Reader<'a> {
    /// Within the mapping.
    lane: *mut u8,
    taken: u64,
    first: u64,
    lanes: PhantomData<&'a Lanes>,
}

impl Reader<'_> {
    /// # Safety
    /// A claimed lane, mapped for as long as this lives; of it so many messages have been taken.
    #[inline(always)]
    pub(super) unsafe fn new<'a>(lane: *mut u8, taken: u64) -> Reader<'a> {
        Reader { lane, taken, first: taken, lanes: PhantomData }
    }

    #[inline(always)]
    fn cell(&self, number: u64) -> &Cell {
        // SAFETY: a claimed lane lies within the file, which is mapped as long as the lanes are borrowed; atomics.
        unsafe { &*cell_at(self.lane, number) }
    }

    #[inline(always)]
    fn ends(&self) -> &Ends {
        // SAFETY: as above.
        unsafe { &*self.lane.cast::<Ends>() }
    }

    /// How many messages this reader has taken in.
    #[inline(always)]
    pub fn taken(&self) -> u64 {
        self.taken.wrapping_sub(self.first)
    }

    /// The next message; `Err` when what lies there was never written by this code, and the lane is of no use any more.
    #[inline(always)]
    pub fn look(&self) -> Result<Option<Waiting>, LaneFault> {
        let cell = self.cell(self.taken);
        let head = cell.head.load(Acquire);
        if head as u32 != self.taken.wrapping_add(1) as u32 {
            return Ok(None);
        }
        // Of messages that follow each other closely the next lines cross while this one is looked at. After a single one its
        // sender is left the line that it will write.
        if self.taken != self.first {
            lines::about_to_read(ptr::from_ref(self.cell(self.taken.wrapping_add(AHEAD))).cast());
        }
        let length = (head >> 48) as usize;
        let (mut bytes, mut data_next) = (cell.bytes.as_ptr().cast::<u8>(), 0);
        if length > INLINE_BYTES {
            (bytes, data_next) = look_at_data(self.lane, self.ends().data_taken.load(Relaxed), length)?;
        }
        let envelope = Envelope {
            portal: (head >> 32) as u8,
            flags: (head >> 40) as u8,
            match_bits: cell.match_bits.load(Relaxed),
            header_data: cell.header_data.load(Relaxed),
        };
        Ok(Some(Waiting { envelope, bytes, length, data_next }))
    }

    /// Takes in the next messages for a place, up to so many, while they lie in their cells alone and `take` takes them. They are passed
    /// together, once they are over.
    #[inline(always)]
    pub fn take_run(&mut self, portal: u8, most: u64, mut take: impl FnMut(&Inline) -> bool) {
        // The number of the next message and its place, as a head has them. Where numbers begin anew, the run ends.
        let first = u64::from(self.taken.wrapping_add(1) as u32) | u64::from(portal) << 32;
        let (mut next, end) = (first, first + most);
        let (mut number, lane) = (self.taken, self.lane);
        // SAFETY: as in `cell`.
        let cell_of = |number: u64| unsafe { &*cell_at(lane, number) };
        while next != end {
            let cell = cell_of(number);
            let head = cell.head.load(Acquire);
            let length = (head >> 48) as usize;
            if head & ((1 << 40) - 1) != next || length > INLINE_BYTES {
                break;
            }
            // Not after a single one: its sender is left the line that it will write.
            if next != first {
                lines::about_to_read(ptr::from_ref(cell_of(number.wrapping_add(AHEAD))).cast());
            }
            let envelope = Envelope {
                portal,
                flags: (head >> 40) as u8,
                match_bits: cell.match_bits.load(Relaxed),
                header_data: cell.header_data.load(Relaxed),
            };
            if !take(&Inline { envelope, bytes: cell.bytes.as_ptr().cast(), length }) {
                break;
            }
            next += 1;
            number = number.wrapping_add(1);
        }
        if next != first {
            self.taken = number;
            self.ends().taken.store(self.taken, Release);
        }
    }

    /// The message that `look` gave has been taken in.
    #[inline(always)]
    pub fn pass(&mut self, message: &Waiting) {
        self.taken = self.taken.wrapping_add(1);
        let ends = self.ends();
        if message.data_next != 0 {
            ends.data_taken.store(message.data_next, Release);
        }
        ends.taken.store(self.taken, Release);
    }
}

/// Where the bytes of the next message are, and where those of the lane go on after them.
#[inline(never)]
fn look_at_data(lane: *mut u8, taken: u64, length: usize) -> Result<(*const u8, u64), LaneFault> {
    if length > MESSAGE_BYTES_MAX {
        return Err(LaneFault);
    }
    let start = place_data(taken, length);
    let bytes = data_at(lane, start).cast_const();
    // They cross while it is found out where they go.
    for line in early_lines(length) {
        lines::about_to_read(bytes.wrapping_add(line));
    }
    Ok((bytes, start + rounded(length)))
}

/// A lane holds what no sender writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneFault;
