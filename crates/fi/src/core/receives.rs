// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receives of one place that only this process knows of, in the order in which they were posted.
//!
//! A ring of records, each a cache line. Most messages are for the first, and then nothing moves; where one is for another, the
//! records on the shorter side of it do.

use std::ffi::c_void;

/// Receives of one place.
pub const RECEIVES_MAX: usize = 128;

/// A private receive. A cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Receive {
    pub tag: u64,
    /// Bits of the tag and of the source that must be equal.
    pub tag_mask: u64,
    pub source: u64,
    pub source_mask: u64,
    pub start: u64,
    /// Its room; below zero, by [`QUIET`], where nobody is told of its end.
    room: i64,
    pub context: *mut c_void,
}

/// Of a receive's room: no completion is wanted, or there is no queue for it.
const QUIET: i64 = i64::MIN;

/// Whether anybody is told of a receive's end, as a part of its room.
#[derive(Clone, Copy)]
pub struct Tells(i64);

impl Tells {
    pub const fn new(told: bool) -> Tells {
        Tells(if told { 0 } else { QUIET })
    }
}

impl Receive {
    #[inline(always)]
    pub fn new(
        (tag, ignore): (u64, u64),
        source: Option<u64>,
        start: u64,
        length: usize,
        context: *mut c_void,
        told: Tells,
    ) -> Receive {
        let room = length as i64 | told.0;
        let (source, source_mask) = source.map_or((0, 0), |source| (source, u64::MAX));
        Receive { tag, tag_mask: !ignore, source, source_mask, start, room, context }
    }

    #[inline(always)]
    pub fn accepts(&self, tag: u64, source: u64) -> bool {
        (self.tag ^ tag) & self.tag_mask | (self.source ^ source) & self.source_mask == 0
    }

    #[inline(always)]
    pub fn room(&self) -> usize {
        (self.room & !QUIET) as usize
    }

    /// Whether so long a message has room, and its end is told of.
    #[inline(always)]
    pub fn has_room_and_tells(&self, length: usize) -> bool {
        length as i64 <= self.room
    }

    /// Whether its end is told of.
    #[inline(always)]
    pub fn wanted(&self) -> bool {
        self.room >= 0
    }
}

/// Receives in the order in which they were posted: a ring.
pub struct Receives {
    pub slots: [Receive; RECEIVES_MAX],
    /// Numbers of the first receive and of the next to be posted. Their slots are these numbers modulo [`RECEIVES_MAX`].
    pub head: usize,
    tail: usize,
    /// One that was taken from between others.
    spare: Receive,
}

impl Receives {
    pub fn new() -> Receives {
        let empty = Receive::new((0, 0), None, 0, 0, std::ptr::null_mut(), Tells::new(false));
        Receives { slots: [empty; RECEIVES_MAX], head: 0, tail: 0, spare: empty }
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.tail - self.head
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.len() >= RECEIVES_MAX
    }

    /// False: there is no room.
    #[inline(always)]
    pub fn push(&mut self, receive: Receive) -> bool {
        if self.is_full() {
            return false;
        }
        self.slots[self.tail % RECEIVES_MAX] = receive;
        self.tail += 1;
        true
    }

    /// The first, if there is any.
    #[inline(always)]
    pub fn first(&self) -> &Receive {
        &self.slots[self.head % RECEIVES_MAX]
    }

    /// Takes the first receive that is wanted. It stays readable until the next is posted.
    #[inline(always)]
    pub fn take(&mut self, wants: impl Fn(&Receive) -> bool) -> Option<&Receive> {
        if self.head == self.tail {
            return None;
        }
        if !wants(self.first()) {
            return self.take_later(wants);
        }
        self.head += 1;
        Some(&self.slots[(self.head - 1) % RECEIVES_MAX])
    }

    /// The same behind the first. Those on the side where there are fewer move up; the others keep their places.
    #[inline(never)]
    fn take_later(&mut self, wants: impl Fn(&Receive) -> bool) -> Option<&Receive> {
        let found = (self.head + 1..self.tail).find(|&at| wants(&self.slots[at % RECEIVES_MAX]))?;
        self.spare = self.slots[found % RECEIVES_MAX];
        if found - self.head < self.tail - found {
            for at in (self.head..found).rev() {
                self.slots[(at + 1) % RECEIVES_MAX] = self.slots[at % RECEIVES_MAX];
            }
            self.head += 1;
        } else {
            for at in found + 1..self.tail {
                self.slots[(at - 1) % RECEIVES_MAX] = self.slots[at % RECEIVES_MAX];
            }
            self.tail -= 1;
        }
        Some(&self.spare)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_tag(tag: u64, number: u64) -> Receive {
        Receive::new((tag, 0), None, number, 0, std::ptr::null_mut(), Tells::new(false))
    }

    /// Against a plain list, over many turns of the ring, full and empty.
    #[test]
    fn receives_are_taken_as_from_a_plain_list() {
        let (mut ring, mut list) = (Receives::new(), Vec::new());
        let mut state = 99u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for number in 0..40_000 {
            let tag = random(8);
            // For a while more are posted than taken, then the other way round.
            if random(10) < 3 + number / 2000 % 2 * 4 {
                assert_eq!(ring.push(of_tag(tag, number)), list.len() < RECEIVES_MAX);
                if list.len() < RECEIVES_MAX {
                    list.push((tag, number));
                }
            } else {
                let expected = list.iter().position(|&(other, _)| other == tag).map(|at| list.remove(at).1);
                assert_eq!(ring.take(|receive| receive.accepts(tag, 5)).map(|receive| receive.start), expected);
            }
            assert_eq!(ring.len(), list.len());
        }
    }

    #[test]
    fn a_receive_accepts_what_its_masks_leave() {
        let receive = Receive::new((0x12, 0x0f), Some(7), 0, 16, std::ptr::null_mut(), Tells::new(true));
        assert!(receive.accepts(0x1f, 7) && !receive.accepts(0x22, 7) && !receive.accepts(0x12, 6));
        assert!(receive.wanted() && receive.room() == 16);
    }
}
