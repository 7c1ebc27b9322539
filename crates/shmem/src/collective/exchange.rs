// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A full step in which every member sees what every member brought.
//!
//! Direct: each writes what it brings, and the step's number, into its slot at each other member, and waits for the
//! numbers in its own slots. Between two PEs with a core each that is one crossing, both ways at once.
//!
//! Central: each writes into its slot at member 0 and counts itself there. Whoever comes last wakes the others, each
//! once; all read the slots where they are. So of PEs that share cores nobody is woken to find that it must wait on.
//!
//! Invariants
//! 1. Direct: a slot is overwritten only when it has been read. Slots alternate between two halves. Who writes those of
//!    step s + 2 has completed s + 1, for which it had a number of every member, each sent after that member had
//!    completed s. So a slot holds s or s - 2 while its reader waits for s, and nothing later.
//! 2. Central: likewise, for member 0's slots: who writes those of s + 2 was released from s + 1, for which every member
//!    had counted itself, after it had read those of s.
//! 3. Central: each member counts once a step and nobody counts for s + 1 before s is released, so the count is s n
//!    exactly when the last one of s has come. Releases of s are all stored before their sender counts for s + 1.
//!
//! What is seen in a step stays until its reader makes the next step but one.
//!
//! Costs: direct, n (n - 1) messages, of one line for up to 56 bytes; central, n counts and n - 1 releases.

use std::sync::atomic::{AtomicU64, Ordering::AcqRel};

use crate::collective::area::{HEAD_BYTES, MEMBERS_MAX, Word, slot_bytes};
use crate::collective::crew::{Crew, Members as _, Way};
use crate::{Reach, Sym};

const LINE_BYTES: usize = 64;
/// What a member rather writes to all others together than make a step more. A line that is written to a peer costs some
/// 40 ns; one that is fetched as much if its owner has just written it, and 13 ns if not.
const CHEAP_BYTES: usize = 512;

/// What the members brought to a step.
#[derive(Clone, Copy)]
pub struct View {
    first: *const u8,
    slot_bytes: usize,
}

impl View {
    /// What a member brought; as many bytes as all agreed on.
    #[inline(always)]
    pub fn of(self, member: usize) -> *const u8 {
        self.first.wrapping_add(member * self.slot_bytes)
    }
}

impl Crew<'_> {
    /// How many bytes a member should bring to a step at most; None in teams that meet in a tree. It is what a slot holds,
    /// where a step is dear; else fetching longer data, with one step more, costs less than to write them to everyone.
    #[inline(always)]
    pub fn room(&self) -> Option<usize> {
        let holds = slot_bytes(self.n) - HEAD_BYTES;
        match self.way {
            Way::Tree => None,
            _ if self.steps_are_dear() => Some(holds),
            _ => Some(holds.min(CHEAP_BYTES / self.n.saturating_sub(1).max(1)).max(LINE_BYTES - HEAD_BYTES)),
        }
    }

    /// Whether a step costs more than to move some KiB.
    #[inline(always)]
    pub fn steps_are_dear(&self) -> bool {
        self.world.crowded() || !self.world.in_place()
    }

    /// A full step to which each member brings this many bytes, as many as all the others, and for which there is
    /// [`Crew::room`].
    ///
    /// # Safety
    /// `bytes` can be read at `from`.
    #[inline(always)]
    pub unsafe fn exchange(&self, from: *const u8, bytes: usize) -> View {
        match self.way {
            // SAFETY: the caller's promise.
            Way::Direct => unsafe { self.exchange_directly(from, bytes, 0) },
            // SAFETY: the caller's promise.
            _ => unsafe { self.exchange_centrally(from, bytes) },
        }
    }

    /// A full step of a team that meets directly, to which each brings something else for every member: `bytes` from
    /// `from + member * apart`.
    ///
    /// # Safety
    /// They can be read.
    #[inline(always)]
    pub unsafe fn exchange_directly(&self, from: *const u8, bytes: usize, apart: usize) -> View {
        debug_assert!(self.n <= MEMBERS_MAX && bytes <= slot_bytes(self.n) - HEAD_BYTES);
        let step = self.next_step();
        let slot_bytes = slot_bytes(self.n);
        let slots = self.area.members(step);
        let slot = |member: usize| Sym(slots.0 + (member * slot_bytes) as u64);
        for member in self.others() {
            // SAFETY: the caller's promise; the slot has room.
            unsafe { self.post(member, slot(self.me), from.add(member * apart), bytes, step) };
        }
        if bytes > 0 {
            // SAFETY: as above; the slot is this PE's own memory, which `from` is not.
            unsafe { self.content(slot(self.me)).copy_from_nonoverlapping(from.add(self.me * apart), bytes) };
        }
        for member in self.others() {
            self.await_number(slot(member), step);
        }
        View { first: self.content(slots), slot_bytes }
    }

    /// # Safety
    /// As [`Crew::exchange`].
    unsafe fn exchange_centrally(&self, from: *const u8, bytes: usize) -> View {
        debug_assert!(self.n <= MEMBERS_MAX && bytes <= slot_bytes(self.n) - HEAD_BYTES);
        let step = self.next_step();
        let slot_bytes = slot_bytes(self.n);
        let slots = self.area.members(step);
        let centre = self.pe(0);
        if bytes > 0 {
            let at = Sym(slots.0 + (self.me * slot_bytes + HEAD_BYTES) as u64);
            self.world.put(centre, self.world.place(at), from, bytes);
        }
        self.count(step);
        View { first: self.at_centre(slots).wrapping_add(HEAD_BYTES), slot_bytes }
    }

    /// Counts this PE at member 0, and releases the others or waits for release.
    #[inline(always)]
    fn count(&self, step: u64) {
        let count = self.at_centre(self.area.word(Word::Count)).cast::<AtomicU64>();
        // SAFETY: a word of member 0's area, mapped here. It wakes nobody: who is last does that.
        let come = unsafe { &*count }.fetch_add(1, AcqRel) + 1;
        debug_assert!(come > (step - 1) * self.n as u64 && come <= step * self.n as u64);
        if come == step * self.n as u64 {
            for member in self.others() {
                self.world.store(self.pe(member), self.area.word(Word::Release), step);
            }
        } else {
            self.await_number(self.area.word(Word::Release), step);
        }
    }

    /// Where something of member 0's area is mapped here.
    #[inline(always)]
    fn at_centre(&self, at: Sym) -> *mut u8 {
        match self.world.reach_place(self.world.place(at), self.pe(0)) {
            Reach::InPlace(mapped) => mapped,
            Reach::Nic(_) => unreachable!("teams meet centrally where memory is reached in place"),
        }
    }

    /// A sync of a team that meets directly.
    #[inline(always)]
    pub fn meet_directly(&self) {
        // SAFETY: nothing is read.
        unsafe { self.exchange_directly(std::ptr::null(), 0, 0) };
    }

    /// A sync of a team that meets centrally.
    pub fn meet_centrally(&self) {
        let step = self.next_step();
        self.count(step);
    }
}
