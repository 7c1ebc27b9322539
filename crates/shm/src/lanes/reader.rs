// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages out of a lane, by whoever holds its NIC's lock.

use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{
    Cell, DATA_BYTES, Ends, Envelope, INLINE_BYTES, Lanes, MESSAGE_BYTES_MAX, cell_at, data_at, early_lines, length_of,
    portal_of, rounded,
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

impl Waiting {
    /// Copies so much of the message from its beginning. It is `LONG`, or lies in its slot alone.
    ///
    /// # Safety
    /// The message has that many bytes, and there is room for them.
    #[inline(always)]
    pub unsafe fn copy_part<const LONG: bool>(&self, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's; the message lies in its ring.
        unsafe {
            match LONG {
                true => ptr::copy_nonoverlapping(self.bytes, to, bytes),
                false => copy::few(self.bytes, to, bytes),
            }
        }
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
        let is_long = length_of(head) > INLINE_BYTES;
        if is_long {
            ask_for_bytes(self.lane, cell, head);
        }
        waiting(self.lane, cell, head, is_long).map(Some).ok_or(LaneFault)
    }

    /// Which message is the next, of all that ever lay here.
    #[inline(always)]
    pub(super) fn next_number(&self) -> u64 {
        self.taken
    }

    /// What lies in a cell, if its head has this number and place, and it is of the sort. What cannot be is left to who looks at each.
    #[inline(always)]
    fn in_run<const LONG: bool>(&self, cell: &Cell, head: u64, expected: u64) -> Option<Waiting> {
        let is_of_run = (head ^ expected) << 24 == 0 && (length_of(head) > INLINE_BYTES) == LONG;
        is_of_run.then(|| waiting(self.lane, cell, head, LONG)).flatten()
    }

    /// Takes in messages for a portal table entry, up to so many, while they are all `LONG`, or all lie in their cells alone, and
    /// `take` takes them. They are passed together, once they are over.
    #[inline(always)]
    pub fn take_run<const LONG: bool>(&mut self, portal: u8, most: u64, mut take: impl FnMut(&Waiting) -> bool) {
        // The number of a message and its place, as its head has them: one counter for all, the first register to be short of. Where
        // numbers begin anew, the run ends.
        let first = u64::from(self.taken.wrapping_add(1) as u32) | u64::from(portal) << 32;
        let end = first + most;
        let mut next = first;
        let lane = self.lane;
        // SAFETY: as in `cell`.
        let cell_of = |next: u64| unsafe { &*cell_at(lane, next.wrapping_sub(1)) };
        while next != end {
            let cell = cell_of(next);
            let head = cell.head.load(Acquire);
            let Some(message) = self.in_run::<LONG>(cell, head, next) else { break };
            // The caller has asked for the bytes of the first one. Behind the last one wanted, the lines are left to the sender.
            if LONG && next != first {
                ask_for_bytes(lane, cell, head);
            }
            if next + 1 != end {
                lines::about_to_read(ptr::from_ref(cell_of(next + AHEAD)).cast());
            }
            if !take(&message) {
                break;
            }
            if LONG {
                self.ends().data_taken.store(message.data_next, Release);
            }
            next = opaque(next + 1);
        }
        if next != first {
            self.taken = self.taken.wrapping_add(next - first);
            self.ends().taken.store(self.taken, Release);
        }
    }

    /// The message that [`Reader::look`] gave has been taken in.
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

/// The message of a cell with this head, which is `long` or lies there alone. None: no sender writes such a message.
#[inline(always)]
fn waiting(lane: *mut u8, cell: &Cell, head: u64, long: bool) -> Option<Waiting> {
    let length = length_of(head);
    let (bytes, data_next) = match long {
        true => long_bytes(lane, cell, length)?,
        false => (cell.bytes.as_ptr().cast(), 0),
    };
    let envelope = Envelope {
        portal: portal_of(head),
        flags: (head >> 40) as u8,
        match_bits: cell.match_bits.load(Relaxed),
        header_data: cell.header_data.load(Relaxed),
    };
    Some(Waiting { envelope, bytes, length, data_next })
}

/// The same value, of which the compiler knows nothing: it would keep a counter for each address and number that is made of one, and most of
/// them in memory.
#[inline(always)]
fn opaque(value: u64) -> u64 {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        let mut value = value;
        // SAFETY: no instructions.
        unsafe { core::arch::asm!("/* {0} */", inout(reg) value, options(pure, nomem, nostack, preserves_flags)) };
        value
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    value
}

/// Where the bytes of a message are that has more than its cell holds, and where those of the lane go on after them. None: no sender
/// writes such a message.
#[inline(always)]
fn long_bytes(lane: *mut u8, cell: &Cell, length: usize) -> Option<(*const u8, u64)> {
    let start = cell.bytes[0].load(Relaxed);
    if length > MESSAGE_BYTES_MAX || start % DATA_BYTES + length as u64 > DATA_BYTES {
        return None;
    }
    Some((data_at(lane, start).cast_const(), start.wrapping_add(rounded(length))))
}

/// Asks for the bytes of a message that has more than its cell holds: they cross while it is found out where they go. Whatever lies in the
/// cell, it is a hint.
#[inline(always)]
pub(super) fn ask_for_bytes(lane: *mut u8, cell: &Cell, head: u64) {
    let bytes = data_at(lane, cell.bytes[0].load(Relaxed)).cast_const();
    for line in early_lines(length_of(head)) {
        lines::about_to_read(bytes.wrapping_add(line));
    }
}

/// A lane holds what no sender writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneFault;
