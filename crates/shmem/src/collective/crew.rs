// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The members of a team, as a collective call sees them, and the way in which they meet.
//!
//! | way | teams | a step takes |
//! |---|---|---|
//! | direct | of one or two; of up to 8 while every PE has a core | one crossing; everyone writes to everyone |
//! | central | of up to 64 where PEs share cores and memory is reached in place | n counts, and one wake-up each |
//! | tree | all others | two crossings for each factor of 8 in n; 2 (n - 1) messages |
//!
//! A *full step* is one that nobody leaves before all have come: a sync, an exchange, a climb and descent of the tree. Full
//! steps of a team are numbered from 1; the numbers are what members wait for, so nothing is ever set back.
//!
//! Invariants
//! 1. All members make the same steps in the same order, since they make the same calls (OpenSHMEM, "Collective Ordering")
//!    and choose by what is the same at all of them: the team, the job, the number of elements.
//! 2. The way of a team never changes: it follows from its size and the job.
//! 3. One thread at a time is in a collective call of a team ("Team-based collectives"), so its numbers need no more than
//!    plain loads and stores; different teams share nothing.

use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed};

use crate::collective::area::{Area, HEAD_BYTES, MEMBERS_MAX, Word};
use crate::world::YIELDS;
use crate::{Sym, World};

/// Most members that all write to each other.
const DIRECT_MAX: usize = 8;

/// How a team meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Direct,
    Central,
    Tree,
}

impl Way {
    #[inline(always)]
    pub fn of(members: usize, crowded: bool, in_place: bool) -> Way {
        match members {
            ..=2 => Way::Direct,
            ..=DIRECT_MAX if !crowded => Way::Direct,
            ..=MEMBERS_MAX if crowded && in_place => Way::Central,
            _ => Way::Tree,
        }
    }
}

/// How far a team has come, at this PE.
#[derive(Default)]
pub struct Progress {
    /// Full steps.
    steps: AtomicU64,
    /// Steps of the ring, and how many of them since the last full step.
    ring: AtomicU64,
    since_step: AtomicU64,
    /// Pieces that went along the chain.
    chain: AtomicU64,
}

impl Progress {
    /// Of a new team, whose area was cleared.
    pub fn reset(&self) {
        for number in [&self.steps, &self.ring, &self.since_step, &self.chain] {
            number.store(0, Relaxed);
        }
    }
}

/// The members of a team.
pub struct Crew<'a> {
    pub world: &'a World,
    /// The team's number, and with it its area.
    pub number: usize,
    pub area: Area,
    pub progress: &'a Progress,
    /// World rank of the first, and from each to the next.
    pub start: isize,
    pub stride: isize,
    pub n: usize,
    pub me: usize,
    pub way: Way,
}

/// Those who take part in a collective call, of a team or an active set.
pub trait Members {
    fn world(&self) -> &World;
    fn n(&self) -> usize;
    fn me(&self) -> usize;
    /// World rank of a member.
    fn pe(&self, member: usize) -> usize;
    /// Nobody returns before all have called.
    fn sync(&self);

    /// The others, the next one first: so members do not all turn to the same one at once.
    fn others(&self) -> impl Iterator<Item = usize>
    where
        Self: Sized,
    {
        let (n, me) = (self.n(), self.me());
        (1..n).map(move |ahead| if me + ahead < n { me + ahead } else { me + ahead - n })
    }
}

impl Members for Crew<'_> {
    #[inline(always)]
    fn world(&self) -> &World {
        self.world
    }

    #[inline(always)]
    fn n(&self) -> usize {
        self.n
    }

    #[inline(always)]
    fn me(&self) -> usize {
        self.me
    }

    #[inline(always)]
    fn pe(&self, member: usize) -> usize {
        (self.start + member as isize * self.stride) as usize
    }

    #[inline(always)]
    fn sync(&self) {
        match self.way {
            Way::Direct => self.meet_directly(),
            Way::Central => self.meet_centrally(),
            Way::Tree => self.meet_in_tree(),
        }
    }
}

#[inline(always)]
fn next(number: &AtomicU64) -> u64 {
    let next = number.load(Relaxed) + 1;
    number.store(next, Relaxed);
    next
}

impl Crew<'_> {
    /// The number of the next full step.
    #[inline(always)]
    pub fn next_step(&self) -> u64 {
        self.progress.since_step.store(0, Relaxed);
        next(&self.progress.steps)
    }

    /// The number of the next step of the ring.
    #[inline(always)]
    pub fn next_ring(&self) -> u64 {
        next(&self.progress.since_step);
        next(&self.progress.ring)
    }

    /// Steps of the ring since the last full step.
    #[inline(always)]
    pub fn since_step(&self) -> u64 {
        self.progress.since_step.load(Relaxed)
    }

    /// The number of the next piece of the chain.
    #[inline(always)]
    pub fn next_piece(&self) -> u64 {
        next(&self.progress.chain)
    }

    /// Fills a member's slot: what comes with it, then the number.
    ///
    /// # Safety
    /// `bytes` can be read at `from`, and fit into the slot.
    #[inline(always)]
    pub unsafe fn post(&self, member: usize, slot: Sym, from: *const u8, bytes: usize, number: u64) {
        let pe = self.pe(member);
        if bytes > 0 {
            let at = Sym(slot.0 + HEAD_BYTES as u64);
            self.world.put(pe, self.world.place(at), from, bytes);
        }
        self.world.store(pe, slot, number);
    }

    /// What came with the number in a slot of this PE.
    #[inline(always)]
    pub fn content(&self, slot: Sym) -> *mut u8 {
        self.world.local(slot).wrapping_add(HEAD_BYTES)
    }

    /// Waits until this PE's word, or the head of its slot, is this number. The load pairs with the store of whoever
    /// wrote it: what was put before is there.
    #[inline(always)]
    pub fn await_number(&self, word: Sym, number: u64) {
        let word = self.world.word(word);
        await_that(self.world, || word.load(Acquire) == number);
    }

    /// Waits until this PE's word is at least this.
    #[inline(always)]
    pub fn await_at_least(&self, word: Word, number: u64) {
        let word = self.world.word(self.area.word(word));
        await_that(self.world, || word.load(Acquire) >= number);
    }
}

/// How often a wait looks while every PE has a core, before it thinks that somebody else wants it: some 10 us.
const LOOKS: usize = 1000;

/// Waits until something holds.
#[inline(always)]
pub fn await_that(world: &World, holds: impl Fn() -> bool) {
    if !holds() {
        await_patiently(world, holds);
    }
}

#[inline(never)]
fn await_patiently(world: &World, holds: impl Fn() -> bool) {
    // Where PEs share cores, the wait itself lets others run first; in virtual time it lets time pass.
    let turns = if world.crowded() || world.interface.is_simulated() { 0 } else { LOOKS + YIELDS };
    for turn in 0..turns {
        if turn >= LOOKS {
            std::thread::yield_now();
        }
        world.progress();
        if holds() {
            return;
        }
    }
    world.wait(|| holds().then_some(()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways() {
        for (members, crowded, in_place, way) in [
            (1, true, true, Way::Direct),
            (2, true, false, Way::Direct),
            (3, false, false, Way::Direct),
            (3, true, true, Way::Central),
            (3, true, false, Way::Tree),
            (8, false, true, Way::Direct),
            (9, false, true, Way::Tree),
            (64, true, true, Way::Central),
            (65, true, true, Way::Tree),
            (1024, false, false, Way::Tree),
        ] {
            assert_eq!(Way::of(members, crowded, in_place), way, "{members} {crowded} {in_place}");
        }
    }
}
