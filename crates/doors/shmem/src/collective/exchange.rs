// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A step in which all members get the contributions of all.
//!
//! Direct: each member writes its contribution and the step's number into its slot at each other member, and waits for
//! the numbers in its own slots. Between two PEs with a core each, the two messages cross at the same time.
//!
//! Central: each member writes its contribution into its slot at member 0 and adds 1 to the count there. The last to
//! arrive wakes each of the others once, and all read the slots at member 0. So a PE that shares its core is never
//! woken only to wait again.
//!
//! Invariants
//! 1. Direct: a slot is overwritten only after it was read. Slots alternate between two halves. A member that writes
//!    the slots of step s + 2 has completed s + 1, for which it received a number of every member, each sent after that
//!    member had completed s. So a slot holds s or s - 2 while its reader waits for s, and nothing later.
//! 2. Central: the same holds for the slots at member 0. A member that writes those of s + 2 was released from s + 1,
//!    for which every member had counted itself after it had read the slots of s.
//! 3. Central: each member counts once a step, and no member counts for s + 1 before s is released. So the count is s n
//!    exactly when the last member of step s has arrived. That member stores all releases of the step before it counts
//!    for the next one.
//! 4. The contributions to a step stay readable until the reader makes the step after the next.
//!
//! Costs: direct, n (n - 1) messages, of one cache line for up to 56 bytes; central, n counts and n - 1 releases.

use std::sync::atomic::{AtomicU64, Ordering::AcqRel};

use crate::collective::members::{Algorithm, Members as _, TeamMembers};
use crate::collective::team_area::{AreaWord, HEAD_BYTES, MEMBERS_MAX, slot_bytes};
use crate::world::address::{Reach, SymAddress, SymOffset};

const LINE_BYTES: usize = 64;
/// Limit up to which a member writes its contribution to all others. Fetching a larger one is cheaper, though it takes
/// another step: writing a line to each peer costs as much as fetching it, and fetching an old line costs less.
const CHEAP_BYTES: usize = 512;

/// The contributions of all members to a step.
#[derive(Clone, Copy)]
pub struct Contributions {
    first: *const u8,
    slot_bytes: usize,
}

impl Contributions {
    /// The contribution of a member. All have the same length.
    #[inline(always)]
    pub fn of(self, member: usize) -> *const u8 {
        self.first.wrapping_add(member * self.slot_bytes)
    }
}

/// The steps of a team with the direct or the central algorithm.
#[derive(Clone, Copy)]
pub struct Exchange<'a> {
    members: &'a TeamMembers<'a>,
}

impl<'a> Exchange<'a> {
    #[inline(always)]
    pub fn of(members: &'a TeamMembers<'a>) -> Exchange<'a> {
        Exchange { members }
    }

    /// Limit of a contribution; `None` in teams with a tree. If steps are expensive it is a slot's size, else less:
    /// writing longer data to every member costs more than another step and a fetch.
    #[inline(always)]
    pub fn limit(self) -> Option<usize> {
        // Such a team may be too large for slots of its members.
        if self.members.algorithm == Algorithm::Tree {
            return None;
        }
        let holds = slot_bytes(self.members.n) - HEAD_BYTES;
        let cheap = CHEAP_BYTES / self.members.n.saturating_sub(1).max(1);
        Some(if self.members.steps_are_expensive() { holds } else { holds.min(cheap).max(LINE_BYTES - HEAD_BYTES) })
    }

    /// A step to which each member contributes `bytes`, the same number at all members.
    ///
    /// # Safety
    /// `bytes` can be read at `from`, and fit into a slot (see [`Exchange::limit`]).
    #[inline(always)]
    pub unsafe fn contribute(self, from: *const u8, bytes: usize) -> Contributions {
        match self.members.algorithm {
            // SAFETY: the contract of this function: `bytes` at `from`, within a slot.
            Algorithm::Direct => unsafe { self.contribute_directly(from, bytes, 0) },
            // SAFETY: the contract of this function: `bytes` at `from`, within a slot.
            _ => unsafe { self.contribute_centrally(from, bytes) },
        }
    }

    /// A direct step with a different contribution for each member: `bytes` at `from + member * apart`.
    ///
    /// # Safety
    /// The contributions for all members can be read. `bytes` fit into a slot.
    #[inline(always)]
    pub unsafe fn contribute_directly(self, from: *const u8, bytes: usize, apart: usize) -> Contributions {
        debug_assert!(self.members.n <= MEMBERS_MAX && bytes <= slot_bytes(self.members.n) - HEAD_BYTES);
        let step = self.members.step_numbers.next_step();
        let slot_bytes = slot_bytes(self.members.n);
        let slots = self.members.area.members(step);
        let slot = |member: usize| SymOffset(slots.0 + (member * slot_bytes) as u64);
        for member in self.members.others() {
            // SAFETY: the contract of this function: the contribution for each member can be read, and a slot holds it.
            unsafe { self.members.write_slot(member, slot(self.members.me), from.add(member * apart), bytes, step) };
        }
        if bytes > 0 {
            // SAFETY: the contract of this function lets us read the contribution. The slot is in this PE's own team
            // area, which no buffer of the program overlaps, and its reader is this thread.
            unsafe {
                self.members
                    .payload(slot(self.members.me))
                    .copy_from_nonoverlapping(from.add(self.members.me * apart), bytes)
            };
        }
        for member in self.members.others() {
            self.members.await_number(slot(member), step);
        }
        Contributions { first: self.members.payload(slots), slot_bytes }
    }

    /// # Safety
    /// As [`Exchange::contribute`].
    unsafe fn contribute_centrally(self, from: *const u8, bytes: usize) -> Contributions {
        debug_assert!(self.members.n <= MEMBERS_MAX && bytes <= slot_bytes(self.members.n) - HEAD_BYTES);
        let step = self.members.step_numbers.next_step();
        let slot_bytes = slot_bytes(self.members.n);
        let slots = self.members.area.members(step);
        let centre = self.members.pe(0);
        if bytes > 0 {
            let at = SymOffset(slots.0 + (self.members.me * slot_bytes + HEAD_BYTES) as u64);
            self.members.world.put(centre, SymAddress::of(at), from, bytes);
        }
        self.count(step);
        Contributions { first: self.at_centre(slots).wrapping_add(HEAD_BYTES), slot_bytes }
    }

    /// Adds 1 to the count at member 0. The step's last member releases the others, which wait for it.
    #[inline(always)]
    fn count(self, step: u64) {
        let count = self.at_centre(self.members.area.word(AreaWord::Count)).cast::<AtomicU64>();
        // SAFETY: an aligned word of member 0's team area, which stays mapped here; all PEs change it by atomics only.
        // The add wakes no sleeper: the releases below do.
        let come = unsafe { &*count }.fetch_add(1, AcqRel) + 1;
        debug_assert!(come > (step - 1) * self.members.n as u64 && come <= step * self.members.n as u64);
        if come == step * self.members.n as u64 {
            for member in self.members.others() {
                self.members.world.store(self.members.pe(member), self.members.area.word(AreaWord::Release), step);
            }
        } else {
            self.members.await_number(self.members.area.word(AreaWord::Release), step);
        }
    }

    /// The address here of an offset in member 0's team area.
    #[inline(always)]
    fn at_centre(self, at: SymOffset) -> *mut u8 {
        match self.members.world.reach_address(SymAddress::of(at), self.members.pe(0)) {
            Reach::Mapped(mapped) => mapped,
            Reach::Nic(_) => unreachable!("the central algorithm needs directly mapped memory"),
        }
    }

    /// A sync with the direct algorithm.
    #[inline(always)]
    pub fn sync_directly(self) {
        // SAFETY: no bytes are read.
        unsafe { self.contribute_directly(std::ptr::null(), 0, 0) };
    }

    /// A sync with the central algorithm.
    pub fn sync_centrally(self) {
        let step = self.members.step_numbers.next_step();
        self.count(step);
    }
}
