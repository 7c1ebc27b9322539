// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Teams (OpenSHMEM, "Team Management Routines").
//!
//! Every team is a first PE, a stride and a size, in ranks of the world. A split of such a team is such a team,
//! whichever stride is asked for, and so are both halves of a 2D split. A PE has a table of its teams. A team has the
//! same number in the tables of all its members, and the number selects the area of symmetric memory that the team
//! uses.
//!
//! A handle is `generation << 8 | number + 1`, so a handle of a destroyed team, or of none, is recognised. The world is
//! number 0, the PEs that share memory are number 1, both of generation 0.
//!
//! Making a team takes two steps of its parent. In the first, the members and together the sets of numbers that are
//! free at each; they take the lowest that is free at all. (Two for a 2D split: all teams along x have one number, all
//! along y the other, since no PE is in two of either.) Then the members of the new team clear their areas. The second
//! step tells all members that every area is clear.
//!
//! Invariants
//! 1. A number is free at a PE only after everything that its last team sent to this PE has arrived. Destroying a team
//!    ends with a sync; each message of a team is either waited for by its receiver, or sent before one that is.
//! 2. A new team's area is clear at each member, and its step numbers are 0, before any PE has the handle.
//! 3. A split succeeds at all PEs of the parent or at none. Arguments are checked where all PEs know them, and numbers
//!    are agreed by and-ing. If another thread of any PE has taken the number meanwhile, all PEs try again.
//!
//! Limits: 64 teams at once at each PE, the two predefined ones included. A split beyond that returns nonzero.

use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::{
    AtomicI32, AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use crate::check::{self, Call};
use crate::collective::members::{Algorithm, Members as _, StepNumbers, TeamMembers};
use crate::collective::reduce::and_across;
use crate::collective::team_area::TeamArea;
use crate::collective::{DONE, REFUSED};
use crate::handles::Team;
use crate::world::layout::{TEAM_AREA_BYTES, TEAM_AREAS, team_area};
use crate::world::{World, world};
use crate::{collective, context, query};

mod span;

pub use span::Span;

/// `SHMEM_TEAM_NUM_CONTEXTS`, the only field of a configuration.
const NUM_CONTEXTS: c_long = 1;

/// Attempts to take a number. Another thread may take it first.
const TRIES: usize = 1000;

/// The numbers of the predefined teams, as bits.
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
struct TeamSlot {
    /// 0: free. Stored last, and read first.
    handle: AtomicUsize,
    generation: AtomicUsize,
    start: AtomicI32,
    stride: AtomicI32,
    size: AtomicI32,
    me: AtomicI32,
    num_contexts: AtomicI32,
    step_numbers: StepNumbers,
}

/// All teams of this PE.
pub(crate) struct Teams {
    slots: Box<[TeamSlot]>,
    /// The numbers that are taken, as bits.
    taken: AtomicU64,
}

impl Teams {
    pub fn new(me: usize, n_pes: usize, memory_mapped: bool) -> Teams {
        let slots = (0..TEAM_AREAS).map(|_| TeamSlot::default()).collect();
        let teams = Teams { slots, taken: AtomicU64::new(PREDEFINED) };
        let everyone = Span { start: 0, stride: 1, size: n_pes as c_int };
        let alone = Span { start: me as c_int, stride: 1, size: 1 };
        teams.slots[0].fill(Team::WORLD, everyone, me as c_int, 0);
        let shared = if memory_mapped { everyone } else { alone };
        teams.slots[1].fill(Team::SHARED, shared, if memory_mapped { me as c_int } else { 0 }, 0);
        teams
    }

    #[inline(always)]
    fn slot(&self, team: Team) -> Option<&TeamSlot> {
        let slot = self.slots.get((team.0 & 0xff).wrapping_sub(1))?;
        (slot.handle.load(Acquire) == team.0).then_some(slot)
    }

    /// The members of the world, for the library's own collectives.
    #[inline(always)]
    pub fn world_members<'a>(&'a self, world: &'a World) -> TeamMembers<'a> {
        self.slots[0].members(world, 0)
    }

    /// Takes a number. False: it was not free.
    fn take(&self, number: usize) -> bool {
        self.taken.fetch_or(1 << number, AcqRel) & 1 << number == 0
    }

    fn give(&self, number: usize) {
        self.slots[number].handle.store(0, Release);
        self.taken.fetch_and(!(1 << number), AcqRel);
    }

    /// Makes the team of a number that this thread has taken.
    fn open(&self, number: usize, span: Span, me: c_int, num_contexts: c_int) -> Team {
        let slot = &self.slots[number];
        let generation = slot.generation.load(Relaxed) + 1;
        slot.generation.store(generation, Relaxed);
        let team = Team(generation << 8 | (number + 1));
        slot.fill(team, span, me, num_contexts);
        team
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

    #[inline(always)]
    fn members<'a>(&'a self, world: &'a World, number: usize) -> TeamMembers<'a> {
        let n = self.size.load(Relaxed) as usize;
        TeamMembers {
            world,
            number,
            area: TeamArea(team_area(number)),
            step_numbers: &self.step_numbers,
            start: self.start.load(Relaxed) as isize,
            stride: self.stride.load(Relaxed) as isize,
            n,
            me: self.me.load(Relaxed) as usize,
            algorithm: Algorithm::of(n, world.oversubscribed(), world.memory_mapped()),
        }
    }
}

// ---- Finding -----------------------------------------------------------------------------------------------------

/// A team, if the handle is one of this PE's.
pub fn view(team: Team) -> Option<TeamView> {
    let world = world("shmem_team")?;
    Some(world.teams.slot(team)?.view((team.0 & 0xff) - 1))
}

/// A team. None: it has been reported.
pub fn find(call: Call, team: Team) -> Option<TeamView> {
    let world = world(call)?;
    let Some(slot) = world.teams.slot(team) else {
        refuse_team(call, "team", team);
        return None;
    };
    Some(slot.view((team.0 & 0xff) - 1))
}

/// The members of a team, for a collective call. None: it has been reported.
#[inline(always)]
pub(crate) fn members_of(call: Call, team: Team) -> Option<TeamMembers<'static>> {
    let world = world(call)?;
    let Some(slot) = world.teams.slot(team) else {
        refuse_team(call, "team", team);
        return None;
    };
    Some(slot.members(world, (team.0 & 0xff) - 1))
}

#[cold]
#[inline(never)]
fn refuse_team(call: Call, argument: &str, team: Team) {
    match team {
        Team::INVALID => check::refuse(call, argument, format_args!("SHMEM_TEAM_INVALID")),
        _ => check::refuse(call, argument, format_args!("{:#x}: not a team of this PE", team.0)),
    }
}

// ---- Queries -----------------------------------------------------------------------------------------------------

/// The team of a query. There SHMEM_TEAM_INVALID is a valid argument.
fn find_unless_invalid(call: Call, team: Team) -> Option<TeamView> {
    if team == Team::INVALID { None } else { find(call, team) }
}

pub fn my_pe(call: Call, team: Team) -> c_int {
    find_unless_invalid(call, team).map_or(-1, |team| team.me)
}

pub fn n_pes(call: Call, team: Team) -> c_int {
    find_unless_invalid(call, team).map_or(-1, |team| team.size)
}

pub unsafe fn get_config(call: Call, team: Team, mask: c_long, config: *mut c_int) -> c_int {
    let Some(team) = find_unless_invalid(call, team) else { return REFUSED };
    if mask & !NUM_CONTEXTS != 0 {
        check::refuse(call, "config_mask", format_args!("{mask:#x}: unknown bits"));
        return REFUSED;
    }
    if mask & NUM_CONTEXTS != 0 {
        // SAFETY: null, or the configuration that the clause of `shmem_team_get_config` says is written; its one field
        // is an `int`.
        let Some(num_contexts) = (unsafe { config.as_mut() }) else {
            check::refuse(call, "config", format_args!("null, though the mask names a field of it"));
            return REFUSED;
        };
        *num_contexts = team.num_contexts;
    }
    DONE
}

pub fn translate_pe(call: Call, src_team: Team, src_pe: c_int, dest_team: Team) -> c_int {
    let (Some(source), Some(dest)) = (find_unless_invalid(call, src_team), find_unless_invalid(call, dest_team)) else {
        return -1;
    };
    if !(0..source.size).contains(&src_pe) {
        return -1;
    }
    dest.span().member(source.world_rank(src_pe)).unwrap_or(-1)
}

pub fn ptr(call: Call, team: Team, dest: *const c_void, pe: c_int) -> *mut c_void {
    let Some(team) = find_unless_invalid(call, team) else { return std::ptr::null_mut() };
    if !(0..team.size).contains(&pe) {
        check::refuse(call, "pe", format_args!("{pe}: the team has {} PEs", team.size));
        return std::ptr::null_mut();
    }
    query::ptr(call, dest, team.world_rank(pe) as c_int)
}

pub fn sync(call: Call, team: Team) -> c_int {
    collective::sync::sync(call, team)
}

// ---- Making and destroying ---------------------------------------------------------------------------------------

/// The number of contexts in a configuration, or the default. None: it has been reported.
unsafe fn contexts_wanted(call: Call, config: *const c_int, mask: c_long) -> Option<c_int> {
    if mask & !NUM_CONTEXTS != 0 {
        check::refuse(call, "config_mask", format_args!("{mask:#x}: unknown bits"));
        return None;
    }
    if mask == 0 {
        return Some(0);
    }
    // SAFETY: null, or the configuration that the clause of the splits says is read; its one field is an `int`.
    let Some(&wanted) = (unsafe { config.as_ref() }) else {
        check::refuse(call, "config", format_args!("null, though the mask names a field of it"));
        return None;
    };
    if wanted < 0 {
        check::refuse(call, "config", format_args!("num_contexts {wanted}: wanted at least 0"));
        return None;
    }
    Some(wanted)
}

/// A team to make. None where this PE is not a member.
#[derive(Clone, Copy)]
struct Wanted {
    span: Option<Span>,
    num_contexts: c_int,
}

/// Makes one team or two of the members of a parent. All are made, or none.
fn make<const N: usize>(world: &World, parent: &TeamMembers<'_>, wanted: [Wanted; N]) -> Option<[Team; N]> {
    for turn in 0..TRIES {
        let free = and_across(parent, !world.teams.taken.load(Acquire));
        let numbers = choose::<N>(free, turn, parent.number)?;
        let needed = |index: usize| wanted[index].span.is_some();
        let mut taken = [false; N];
        for index in 0..N {
            taken[index] = needed(index) && world.teams.take(numbers[index]);
            if taken[index] {
                clear_team_area(world, numbers[index]);
            }
        }
        let all = (0..N).all(|index| taken[index] == needed(index));
        if and_across(parent, u64::from(all)) == 1 {
            return Some(std::array::from_fn(|index| {
                let Wanted { span, num_contexts } = wanted[index];
                let opened = span.and_then(|span| Some((span, span.member(world.me())?)));
                opened.map_or(Team::INVALID, |(span, me)| world.teams.open(numbers[index], span, me, num_contexts))
            }));
        }
        for index in (0..N).filter(|index| taken[*index]) {
            world.teams.give(numbers[index]);
        }
        // The thread that took the number may need this core to finish.
        std::thread::yield_now();
    }
    None
}

/// Chooses free numbers: the lowest at first, others at later attempts, in another order for each parent. So two
/// threads that split different teams do not collide at every attempt.
fn choose<const N: usize>(free: u64, turn: usize, parent: usize) -> Option<[usize; N]> {
    let count = free.count_ones() as usize;
    if count < N {
        return None;
    }
    let nth = |n: usize| (0..n).fold(free, |left, _| left & (left - 1)).trailing_zeros() as usize;
    let skipped = turn * (2 * parent + 1);
    Some(std::array::from_fn(|index| nth((skipped + index) % count)))
}

fn clear_team_area(world: &World, number: usize) {
    // SAFETY: this PE's own area of a team that is not made yet, so no message to it is under way (invariant 1). The
    // area is committed and mapped since the start.
    unsafe { world.local(team_area(number)).write_bytes(0, TEAM_AREA_BYTES as usize) };
}

pub unsafe fn split_strided(
    call: Call,
    parent: Team,
    start: c_int,
    stride: c_int,
    size: c_int,
    config: *const c_int,
    mask: c_long,
    new_team: *mut Team,
) -> c_int {
    // SAFETY: null, or the handle that the clause of `shmem_team_split_strided` says is written.
    let Some(new_team) = (unsafe { new_team.as_mut() }) else {
        check::refuse(call, "new_team", format_args!("null"));
        return REFUSED;
    };
    *new_team = Team::INVALID;
    let Some(view) = find_unless_invalid(call, parent) else { return REFUSED };
    let Some(parent) = members_of(call, parent) else { return REFUSED };
    // SAFETY: the contract of the C function: `config` is null or a configuration.
    let Some(num_contexts) = (unsafe { contexts_wanted(call, config, mask) }) else { return REFUSED };
    let Some(span) = view.span().part(start, stride, size) else {
        check::refuse(
            call,
            "size",
            format_args!("start {start}, stride {stride}, size {size}: not in a team of {}", view.size),
        );
        return REFUSED;
    };
    let member = span.member(parent.world.me()).is_some();
    let wanted = Wanted { span: member.then_some(span), num_contexts };
    match make(parent.world, &parent, [wanted]) {
        Some([team]) => {
            *new_team = team;
            DONE
        }
        None => REFUSED,
    }
}

pub unsafe fn split_2d(
    call: Call,
    parent: Team,
    xrange: c_int,
    x_config: *const c_int,
    x_mask: c_long,
    x_team: *mut Team,
    y_config: *const c_int,
    y_mask: c_long,
    y_team: *mut Team,
) -> c_int {
    if x_team.is_null() || y_team.is_null() {
        let argument = if x_team.is_null() { "xaxis_team" } else { "yaxis_team" };
        check::refuse(call, argument, format_args!("null"));
        return REFUSED;
    }
    // SAFETY: neither is null, so the clause of `shmem_team_split_2d` says that both are written. They may be the same.
    let set_teams = |x, y| unsafe {
        x_team.write(x);
        y_team.write(y);
    };
    set_teams(Team::INVALID, Team::INVALID);
    let Some(view) = find_unless_invalid(call, parent) else { return REFUSED };
    let Some(parent) = members_of(call, parent) else { return REFUSED };
    // SAFETY: the contract of the C function: each configuration is null or a configuration.
    let contexts = unsafe { (contexts_wanted(call, x_config, x_mask), contexts_wanted(call, y_config, y_mask)) };
    let (Some(x_contexts), Some(y_contexts)) = contexts else { return REFUSED };
    let Some((row, column)) = view.span().row_and_column(xrange, view.me) else {
        check::refuse(call, "xrange", format_args!("{xrange}: wanted at least 1"));
        return REFUSED;
    };
    let x = Wanted { span: Some(row), num_contexts: x_contexts };
    let y = Wanted { span: Some(column), num_contexts: y_contexts };
    match make(parent.world, &parent, [x, y]) {
        Some([x, y]) => {
            set_teams(x, y);
            DONE
        }
        None => REFUSED,
    }
}

pub fn destroy(call: Call, team: Team) {
    if team == Team::INVALID {
        return;
    }
    if team == Team::WORLD || team == Team::SHARED {
        check::refuse(call, "team", format_args!("{}: a predefined team", team.0));
        return;
    }
    let Some(members) = members_of(call, team) else { return };
    context::destroy_on(call, team);
    members.sync();
    members.world.teams.give((team.0 & 0xff) - 1);
}

/// Destroys all teams, at the end of the library.
pub(crate) fn release_all(world: &World) {
    for number in 2..TEAM_AREAS {
        if world.teams.slots[number].handle.load(Acquire) != 0 {
            world.teams.give(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORLD: Span = Span { start: 0, stride: 1, size: 10 };

    #[test]
    fn numbers_are_chosen_among_the_free() {
        let free = 1 << 3 | 1 << 7 | 1 << 60;
        assert_eq!(choose::<1>(free, 0, 0), Some([3]));
        assert_eq!(choose::<2>(free, 0, 5), Some([3, 7]));
        assert_eq!(choose::<2>(free, 1, 0), Some([7, 60]));
        assert_eq!(choose::<2>(free, 2, 0), Some([60, 3]));
        assert_eq!(choose::<2>(free, 1, 1), Some([3, 7]));
        assert_eq!(choose::<4>(free, 0, 0), None);
        assert_eq!(choose::<1>(u64::MAX, 63, 0), Some([63]));
    }

    #[test]
    fn numbers_are_taken_once() {
        let teams = Teams::new(3, 4, true);
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
        let teams = Teams::new(3, 4, false);
        let shared = teams.slot(Team::SHARED).expect("always").view(1);
        assert_eq!((shared.size, shared.me, shared.world_rank(0)), (1, 0, 3));
        let teams = Teams::new(3, 4, true);
        let shared = teams.slot(Team::SHARED).expect("always").view(1);
        assert_eq!((shared.size, shared.me), (4, 3));
    }
}
