// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The teams of this PE (OpenSHMEM, "Team Management Routines").
//!
//! A team is a [`Span`] of the world. Its number is the same at all members, and selects the area of symmetric memory
//! that the team uses. The world is number 0, the PEs that share memory are number 1.
//!
//! Invariants
//! 1. A handle is `generation << 8 | number + 1`, so the handle of a destroyed team, or an invented one, is recognised.
//!    The predefined teams have generation 0.
//! 2. A slot's handle is stored after the team, and read before it.
//!
//! Limits: 64 teams at once, the two predefined ones included.

use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{
    AtomicI32, AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use crate::check::{self, Call};
use crate::handles::Team;
use crate::world::group::GroupState;
use crate::world::layout::TEAM_AREAS;
use crate::world::span::Span;
use crate::world::step_numbers::StepNumbers;
use selvedge_os::sync::IgnorePoison;

const PREDEFINED: u64 = 0b11;

const _: () = assert!(TEAM_AREAS == u64::BITS as usize);

/// A team from this PE's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TeamView {
    /// Its number, the same at all members.
    pub id: usize,
    pub start: c_int,
    pub stride: c_int,
    pub size: c_int,
    /// This PE's number in it.
    pub me: c_int,
    pub num_contexts: c_int,
}

impl TeamView {
    pub fn span(self) -> Span {
        Span { start: self.start, stride: self.stride, size: self.size }
    }

    /// World rank of a PE of the team.
    #[inline(always)]
    pub fn world_rank(self, pe: c_int) -> usize {
        self.span().world_rank(pe)
    }
}

/// A team of this PE, or an empty slot.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct TeamSlot {
    /// 0 if free. Stored last, and read first.
    handle: AtomicUsize,
    generation: AtomicUsize,
    start: AtomicI32,
    stride: AtomicI32,
    size: AtomicI32,
    me: AtomicI32,
    num_contexts: AtomicI32,
    pub step_numbers: StepNumbers,
    pub group: Mutex<GroupState>,
}

pub(crate) struct Teams {
    slots: Box<[TeamSlot]>,
    /// The numbers that are taken, as bits.
    taken: AtomicU64,
}

impl Teams {
    /// Makes the table. `is_mapped` tells whether a PE's memory is directly mapped here.
    pub fn new(me: usize, n_pes: usize, is_mapped: impl Fn(usize) -> bool) -> Teams {
        let slots = (0..TEAM_AREAS).map(|_| TeamSlot::default()).collect();
        let teams = Teams { slots, taken: AtomicU64::new(PREDEFINED) };
        let everyone = Span { start: 0, stride: 1, size: n_pes as c_int };
        teams.slots[0].fill(Team::WORLD, everyone, me as c_int, 0);
        let (shared, number) = shared_by(me, (0..n_pes).filter(|&pe| pe == me || is_mapped(pe)));
        teams.slots[1].fill(Team::SHARED, shared, number, 0);
        teams
    }

    /// The slot of a team, if the handle is valid.
    #[inline(always)]
    fn slot(&self, team: Team) -> Option<&TeamSlot> {
        let slot = self.slots.get((team.0 & 0xff).wrapping_sub(1))?;
        (slot.handle.load(Acquire) == team.0).then_some(slot)
    }

    /// The slot of the world.
    #[inline(always)]
    pub fn everyone(&self) -> &TeamSlot {
        &self.slots[0]
    }

    /// The slot and the number of a team. None: it has been reported.
    #[inline(always)]
    pub fn find(&self, call: Call, team: Team) -> Option<(&TeamSlot, usize)> {
        let Some(slot) = self.slot(team) else {
            refuse_team(call, team);
            return None;
        };
        Some((slot, number(team)))
    }

    /// A team. None: it has been reported.
    pub fn view(&self, call: Call, team: Team) -> Option<TeamView> {
        self.find(call, team).map(|(slot, number)| slot.view(number))
    }

    /// A team, if the handle is valid.
    pub fn view_if_valid(&self, team: Team) -> Option<TeamView> {
        Some(self.slot(team)?.view(number(team)))
    }

    /// The numbers that are free, as bits.
    pub fn free(&self) -> u64 {
        !self.taken.load(Acquire)
    }

    /// Takes a number. Returns false if it was not free.
    pub fn take(&self, number: usize) -> bool {
        self.taken.fetch_or(1 << number, AcqRel) & 1 << number == 0
    }

    /// Ends the team with this number, if there is one, and frees the number.
    pub fn give(&self, number: usize) {
        self.slots[number].handle.store(0, Release);
        self.slots[number].leave_group();
        self.taken.fetch_and(!(1 << number), AcqRel);
    }

    /// Makes a team with a number that this thread has taken.
    pub fn open(&self, number: usize, span: Span, me: c_int, num_contexts: c_int) -> Team {
        let slot = &self.slots[number];
        let generation = slot.generation.load(Relaxed) + 1;
        slot.generation.store(generation, Relaxed);
        let team = Team(generation << 8 | (number + 1));
        slot.fill(team, span, me, num_contexts);
        team
    }

    /// Ends all teams but the predefined ones, at the end of the library.
    pub fn release_all(&self) {
        for number in 2..TEAM_AREAS {
            if self.slots[number].handle.load(Acquire) != 0 {
                self.give(number);
            }
        }
        self.slots.iter().for_each(TeamSlot::leave_group);
    }
}

#[inline(always)]
fn number(team: Team) -> usize {
    (team.0 & 0xff) - 1
}

#[cold]
#[inline(never)]
fn refuse_team(call: Call, team: Team) {
    match team {
        Team::INVALID => check::refuse(call, "team", format_args!("SHMEM_TEAM_INVALID")),
        _ => check::refuse(call, "team", format_args!("{:#x}: not a team of this PE", team.0)),
    }
}

impl TeamSlot {
    fn fill(&self, team: Team, span: Span, me: c_int, num_contexts: c_int) {
        self.start.store(span.start, Relaxed);
        self.stride.store(span.stride, Relaxed);
        self.size.store(span.size, Relaxed);
        self.me.store(me, Relaxed);
        self.num_contexts.store(num_contexts, Relaxed);
        self.step_numbers.reset();
        self.handle.store(team.0, Release);
    }

    fn leave_group(&self) {
        *self.group.lock().ignore_poison() = GroupState::Unasked;
    }

    /// The PEs of the team.
    #[inline(always)]
    pub fn span(&self) -> Span {
        Span { start: self.start.load(Relaxed), stride: self.stride.load(Relaxed), size: self.size.load(Relaxed) }
    }

    /// This PE's number in the team.
    #[inline(always)]
    pub fn me(&self) -> usize {
        self.me.load(Relaxed) as usize
    }

    fn view(&self, id: usize) -> TeamView {
        TeamView {
            id,
            start: self.start.load(Relaxed),
            stride: self.stride.load(Relaxed),
            size: self.size.load(Relaxed),
            me: self.me.load(Relaxed),
            num_contexts: self.num_contexts.load(Relaxed),
        }
    }
}

/// The span of the PEs that share memory with this one, and this one's number in it. A span has one stride. PEs at
/// irregular distances, such as ranks spread over hosts without a pattern, get a team of this PE alone.
fn shared_by(me: usize, pes: impl Iterator<Item = usize>) -> (Span, c_int) {
    let pes: Vec<usize> = pes.collect();
    let stride = if let [first, second, ..] = pes[..] { second - first } else { 1 };
    let number = pes.iter().position(|&pe| pe == me);
    match (pes.first(), number) {
        (Some(&first), Some(number)) if pes.windows(2).all(|pair| pair[1] - pair[0] == stride) => {
            let [start, stride, size] = [first, stride, pes.len()].map(|number| number as c_int);
            (Span { start, stride, size }, number as c_int)
        }
        _ => (Span { start: me as c_int, stride: 1, size: 1 }, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORLD: Span = Span { start: 0, stride: 1, size: 10 };

    #[test]
    fn pes_that_share_memory_are_a_team_if_they_have_a_stride() {
        let shared = |me, pes: &[usize]| {
            let (Span { start, stride, size }, number) = shared_by(me, pes.iter().copied());
            (start, stride, size, number)
        };
        assert_eq!(shared(2, &[2, 3]), (2, 1, 2, 0));
        assert_eq!(shared(5, &[1, 3, 5]), (1, 2, 3, 2));
        assert_eq!(shared(4, &[4]), (4, 1, 1, 0));
        assert_eq!(shared(3, &[0, 1, 3]), (3, 1, 1, 0));
    }

    #[test]
    fn numbers_are_taken_once() {
        let teams = Teams::new(3, 4, |_| true);
        assert!(!teams.take(0) && !teams.take(1));
        assert!(teams.take(5) && !teams.take(5));
        let first = teams.open(5, WORLD, 3, 2);
        assert!(teams.slot(first).is_some());
        teams.give(5);
        assert!(teams.slot(first).is_none() && teams.take(5));
        let second = teams.open(5, WORLD, 3, 2);
        assert_ne!(first, second);
        assert!(teams.slot(first).is_none() && teams.slot(second).is_some());
        for garbage in [3, 64, 255, 256, usize::MAX, second.0 + 256] {
            assert!(teams.slot(Team(garbage)).is_none(), "{garbage:#x}");
        }
    }

    #[test]
    fn the_shared_team_is_everyone_or_alone() {
        let teams = Teams::new(3, 4, |_| false);
        let shared = teams.slot(Team::SHARED).expect("always").view(1);
        assert_eq!((shared.size, shared.me, shared.world_rank(0)), (1, 0, 3));
        let teams = Teams::new(3, 4, |_| true);
        let shared = teams.slot(Team::SHARED).expect("always").view(1);
        assert_eq!((shared.size, shared.me), (4, 3));
    }
}
