// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The members of a team in a collective call, and the algorithm by which they synchronise.
//!
//! | algorithm | teams | costs of a step |
//! |---|---|---|
//! | direct | of one or two; of up to 8 if every PE has a core | one message latency; every member writes to every other |
//! | central | of up to 64 if PEs share cores and memory is directly mapped | n counts, and one wake-up each |
//! | tree | all others | two message latencies for each factor of 8 in n; 2 (n - 1) messages |
//!
//! A *step* synchronises a team: no member leaves it before all have entered it. A sync, an exchange, and a pass up and
//! down the tree are steps. A team's steps are numbered from 1. Members wait for the numbers, so no word has to be
//! reset.
//!
//! Invariants
//! 1. All members make the same steps in the same order, since they make the same calls (OpenSHMEM, "Collective
//!    Ordering") and choose by values that are the same at all of them: the team, the job, the number of elements.
//! 2. The algorithm of a team never changes: it follows from the team's size and the job.
//! 3. One thread at a time is in a collective call of a team ("Team-based collectives"), so plain loads and stores
//!    suffice for its step numbers. Different teams share no state.

use std::sync::Mutex;
use std::sync::atomic::Ordering::Acquire;

use crate::check::Call;
use crate::collective::team_area::{AreaWord, HEAD_BYTES, MEMBERS_MAX, TeamArea};
use crate::handles::Team;
use crate::waiting::YIELDS;
use crate::world::address::{SymAddress, SymOffset};
use crate::world::group::GroupState;
use crate::world::layout::team_area;
use crate::world::step_numbers::StepNumbers;
use crate::world::teams::TeamSlot;
use crate::world::{World, world};

const DIRECT_MAX: usize = 8;

/// The algorithm by which a team synchronises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Direct,
    Central,
    Tree,
}

impl Algorithm {
    #[inline(always)]
    pub fn of(members: usize, oversubscribed: bool, memory_mapped: bool) -> Algorithm {
        match members {
            ..=2 => Algorithm::Direct,
            ..=DIRECT_MAX if !oversubscribed => Algorithm::Direct,
            ..=MEMBERS_MAX if oversubscribed && memory_mapped => Algorithm::Central,
            _ => Algorithm::Tree,
        }
    }
}

/// The members of a team.
pub struct TeamMembers<'a> {
    pub world: &'a World,
    /// The team's number, which selects its area.
    pub number: usize,
    pub area: TeamArea,
    pub step_numbers: &'a StepNumbers,
    pub(crate) group: &'a Mutex<GroupState>,
    /// World rank of the first member, and the distance from each member to the next.
    pub start: isize,
    pub stride: isize,
    pub n: usize,
    pub me: usize,
    pub algorithm: Algorithm,
}

/// The members of a collective call: of a team, or of an active set.
pub trait Members {
    fn world(&self) -> &World;
    fn n(&self) -> usize;
    fn me(&self) -> usize;
    /// World rank of a member.
    fn pe(&self, member: usize) -> usize;

    /// The other members, beginning with the next one, so that not all members access the same one at once.
    fn others(&self) -> impl Iterator<Item = usize>
    where
        Self: Sized,
    {
        let (n, me) = (self.n(), self.me());
        (1..n).map(move |ahead| if me + ahead < n { me + ahead } else { me + ahead - n })
    }
}

/// Members that can synchronise.
pub trait Synchronise: Members {
    /// Returns when all members have called it.
    fn sync(&self);
}

impl Members for TeamMembers<'_> {
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
}

impl<'a> TeamMembers<'a> {
    /// The members of a team. `None`: it has been reported.
    #[inline(always)]
    pub fn find(call: Call, team: Team) -> Option<TeamMembers<'static>> {
        let world = world(call)?;
        let (slot, number) = world.teams.find(call, team)?;
        Some(TeamMembers::of(world, slot, number))
    }

    /// The members of the world.
    #[inline(always)]
    pub fn everyone(world: &'a World) -> TeamMembers<'a> {
        TeamMembers::of(world, world.teams.everyone(), 0)
    }

    #[inline(always)]
    fn of(world: &'a World, slot: &'a TeamSlot, number: usize) -> TeamMembers<'a> {
        let span = slot.span();
        let n = span.size as usize;
        TeamMembers {
            world,
            number,
            area: TeamArea(team_area(number)),
            step_numbers: &slot.step_numbers,
            group: &slot.group,
            start: span.start as isize,
            stride: span.stride as isize,
            n,
            me: slot.me(),
            algorithm: Algorithm::of(n, world.oversubscribed(), world.memory_mapped()),
        }
    }
}

impl TeamMembers<'_> {
    /// Whether a step costs more than moving some KiB, because it needs the scheduler or commands of the NIC.
    #[inline(always)]
    pub fn steps_are_expensive(&self) -> bool {
        self.world.oversubscribed() || !self.world.memory_mapped()
    }

    /// Writes a member's slot: the payload, then the number.
    ///
    /// # Safety
    /// `bytes` can be read at `from`, and fit into the slot.
    #[inline(always)]
    pub unsafe fn write_slot(&self, member: usize, slot: SymOffset, from: *const u8, bytes: usize, number: u64) {
        let pe = self.pe(member);
        if bytes > 0 {
            let at = SymOffset(slot.0 + HEAD_BYTES as u64);
            self.world.put(pe, SymAddress::of(at), from, bytes);
        }
        self.world.store(pe, slot, number);
    }

    /// The payload of a slot of this PE.
    #[inline(always)]
    pub fn payload(&self, slot: SymOffset) -> *mut u8 {
        self.world.local(slot).wrapping_add(HEAD_BYTES)
    }

    /// Waits until a word of this PE, or the number of a slot, is `number`. The load is an acquire, which pairs with
    /// the release of the store that wrote it, so all earlier puts of its sender are visible.
    #[inline(always)]
    pub fn await_number(&self, word: SymOffset, number: u64) {
        let word = self.world.word(word);
        await_condition(self.world, || word.load(Acquire) == number);
    }

    /// Waits until a word of this PE is at least `number`.
    #[inline(always)]
    pub fn await_at_least(&self, word: AreaWord, number: u64) {
        let word = self.world.word(self.area.word(word));
        await_condition(self.world, || word.load(Acquire) >= number);
    }
}

/// Polls of a wait before it yields, while every PE has a core: some 10 us.
const POLLS: usize = 1000;

/// Waits until a condition holds.
#[inline(always)]
pub fn await_condition(world: &World, holds: impl Fn() -> bool) {
    if !holds() {
        spin_then_wait(world, holds);
    }
}

#[inline(never)]
fn spin_then_wait(world: &World, holds: impl Fn() -> bool) {
    // Where PEs share cores, `World::wait` yields first. In virtual time it lets time pass.
    let turns = if world.oversubscribed() || world.interface.is_simulated() { 0 } else { POLLS + YIELDS };
    for turn in 0..turns {
        if turn >= POLLS {
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
    fn algorithms() {
        for (members, oversubscribed, memory_mapped, algorithm) in [
            (1, true, true, Algorithm::Direct),
            (2, true, false, Algorithm::Direct),
            (3, false, false, Algorithm::Direct),
            (3, true, true, Algorithm::Central),
            (3, true, false, Algorithm::Tree),
            (8, false, true, Algorithm::Direct),
            (9, false, true, Algorithm::Tree),
            (64, true, true, Algorithm::Central),
            (65, true, true, Algorithm::Tree),
            (1024, false, false, Algorithm::Tree),
        ] {
            assert_eq!(
                Algorithm::of(members, oversubscribed, memory_mapped),
                algorithm,
                "{members} {oversubscribed} {memory_mapped}"
            );
        }
    }
}
