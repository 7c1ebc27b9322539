// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Teams (OpenSHMEM, "Team Management Routines").
//!
//! Every team is a first PE, a stride and a size, in ranks of the world: the split of such a team is such a team, whichever
//! stride was asked for, and so are both halves of a 2D split. A PE keeps what it knows of its teams in a table; a team's
//! number in that table is the same at all members, and with it the area of symmetric memory in which they meet.
//!
//! A handle is `generation << 8 | number + 1`: one of a team that was destroyed, or of none, is recognised. The world is
//! number 0, those that share memory number 1, both of generation 0.
//!
//! Making a team takes two full steps of its parent. In the first the members and-together which numbers each has free; the
//! lowest that all have is taken. (Two for a 2D split: all teams along x have one number, all along y the other, since no PE
//! is in two of either.) Then members of the new team clear their areas. The second step tells everyone that all have.
//!
//! Invariants
//! 1. A number is free at a PE only when everything that its last team sent to this PE has arrived: destroying ends with a
//!    sync, and each message of a team is waited for by whom it is for, or was sent before one that is.
//! 2. A new team's area is clear at each member, and its numbers of steps are 0, before anyone has the handle.
//! 3. Whether a split succeeds is the same at all PEs of the parent: arguments are checked where all know them, numbers by
//!    and-ing. Another thread that has taken the number meanwhile, at any PE, makes all try once more.
//!
//! Limits: 64 teams at once at each PE, the two predefined ones included; beyond, a split returns nonzero.

use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::{
    AtomicI32, AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use crate::collective::area::Area;
use crate::collective::crew::{Crew, Members as _, Progress, Way};
use crate::collective::reduce::agree_in;
use crate::collective::{DONE, REFUSED};
use crate::remote::{TEAM_AREA_BYTES, TEAM_AREAS, team_area};
use crate::{Call, Team, World, check, collective, context, world};

mod span;

pub use span::Span;

/// `SHMEM_TEAM_NUM_CONTEXTS`, the only field of a configuration.
const NUM_CONTEXTS: c_long = 1;

/// Tries for a number that another thread takes from under us.
const TRIES: usize = 1000;

/// Numbers of the predefined teams, as bits.
const PREDEFINED: u64 = 0b11;

const _: () = assert!(TEAM_AREAS == u64::BITS as usize);

/// A team, as this PE sees it.
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

/// A team of this PE, or the room for one.
#[derive(Default)]
#[repr(align(128))]
struct Slot {
    /// 0: free. Stored last, and read first.
    handle: AtomicUsize,
    generation: AtomicUsize,
    start: AtomicI32,
    stride: AtomicI32,
    size: AtomicI32,
    me: AtomicI32,
    num_contexts: AtomicI32,
    progress: Progress,
}

/// All teams of this PE.
pub(crate) struct Teams {
    slots: Box<[Slot]>,
    /// Numbers that are taken.
    taken: AtomicU64,
}

impl Teams {
    pub fn new(me: usize, n_pes: usize, in_place: bool) -> Teams {
        let slots = (0..TEAM_AREAS).map(|_| Slot::default()).collect();
        let teams = Teams { slots, taken: AtomicU64::new(PREDEFINED) };
        let everyone = Span { start: 0, stride: 1, size: n_pes as c_int };
        let alone = Span { start: me as c_int, stride: 1, size: 1 };
        teams.slots[0].fill(Team::WORLD, everyone, me as c_int, 0);
        let shared = if in_place { everyone } else { alone };
        teams.slots[1].fill(Team::SHARED, shared, if in_place { me as c_int } else { 0 }, 0);
        teams
    }

    #[inline(always)]
    fn slot(&self, team: Team) -> Option<&Slot> {
        let slot = self.slots.get((team.0 & 0xff).wrapping_sub(1))?;
        (slot.handle.load(Acquire) == team.0).then_some(slot)
    }

    /// The world, for what the library itself agrees on.
    #[inline(always)]
    pub fn everyone<'a>(&'a self, world: &'a World) -> Crew<'a> {
        self.slots[0].crew(world, 0)
    }

    /// Takes a number that is free.
    fn take(&self, number: usize) -> bool {
        self.taken.fetch_or(1 << number, AcqRel) & 1 << number == 0
    }

    fn give(&self, number: usize) {
        self.slots[number].handle.store(0, Release);
        self.taken.fetch_and(!(1 << number), AcqRel);
    }

    /// Opens a team whose number was taken.
    fn open(&self, number: usize, span: Span, me: c_int, num_contexts: c_int) -> Team {
        let slot = &self.slots[number];
        let generation = slot.generation.load(Relaxed) + 1;
        slot.generation.store(generation, Relaxed);
        let team = Team(generation << 8 | (number + 1));
        slot.fill(team, span, me, num_contexts);
        team
    }
}

impl Slot {
    fn fill(&self, team: Team, span: Span, me: c_int, num_contexts: c_int) {
        self.start.store(span.start, Relaxed);
        self.stride.store(span.stride, Relaxed);
        self.size.store(span.size, Relaxed);
        self.me.store(me, Relaxed);
        self.num_contexts.store(num_contexts, Relaxed);
        self.progress.reset();
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
    fn crew<'a>(&'a self, world: &'a World, number: usize) -> Crew<'a> {
        let n = self.size.load(Relaxed) as usize;
        Crew {
            world,
            number,
            area: Area(team_area(number)),
            progress: &self.progress,
            start: self.start.load(Relaxed) as isize,
            stride: self.stride.load(Relaxed) as isize,
            n,
            me: self.me.load(Relaxed) as usize,
            way: Way::of(n, world.crowded(), world.in_place()),
        }
    }
}

// ---- Finding -----------------------------------------------------------------------------------------------------

/// A team, if there is such a one.
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
pub(crate) fn crew(call: Call, team: Team) -> Option<Crew<'static>> {
    let world = world(call)?;
    let Some(slot) = world.teams.slot(team) else {
        refuse_team(call, "team", team);
        return None;
    };
    Some(slot.crew(world, (team.0 & 0xff) - 1))
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

/// A team of a query: SHMEM_TEAM_INVALID is a proper argument there.
fn asked(call: Call, team: Team) -> Option<TeamView> {
    if team == Team::INVALID { None } else { find(call, team) }
}

pub fn my_pe(call: Call, team: Team) -> c_int {
    asked(call, team).map_or(-1, |team| team.me)
}

pub fn n_pes(call: Call, team: Team) -> c_int {
    asked(call, team).map_or(-1, |team| team.size)
}

pub unsafe fn get_config(call: Call, team: Team, mask: c_long, config: *mut c_int) -> c_int {
    let Some(team) = asked(call, team) else { return REFUSED };
    if mask & !NUM_CONTEXTS != 0 {
        check::refuse(call, "config_mask", format_args!("{mask:#x}: unknown bits"));
        return REFUSED;
    }
    if mask & NUM_CONTEXTS != 0 {
        // SAFETY: null, or the caller's.
        let Some(num_contexts) = (unsafe { config.as_mut() }) else {
            check::refuse(call, "config", format_args!("null, though the mask names a field of it"));
            return REFUSED;
        };
        *num_contexts = team.num_contexts;
    }
    DONE
}

pub fn translate_pe(call: Call, src_team: Team, src_pe: c_int, dest_team: Team) -> c_int {
    let (Some(source), Some(dest)) = (asked(call, src_team), asked(call, dest_team)) else { return -1 };
    if !(0..source.size).contains(&src_pe) {
        return -1;
    }
    dest.span().member(source.world_rank(src_pe)).unwrap_or(-1)
}

pub fn ptr(call: Call, team: Team, dest: *const c_void, pe: c_int) -> *mut c_void {
    let Some(team) = asked(call, team) else { return std::ptr::null_mut() };
    if !(0..team.size).contains(&pe) {
        check::refuse(call, "pe", format_args!("{pe}: the team has {} PEs", team.size));
        return std::ptr::null_mut();
    }
    crate::world::ptr(call, dest, team.world_rank(pe) as c_int)
}

pub fn sync(call: Call, team: Team) -> c_int {
    collective::sync::sync(call, team)
}

// ---- Making and destroying ---------------------------------------------------------------------------------------

/// What a configuration says, or the default. None: it has been reported.
unsafe fn contexts_wanted(call: Call, config: *const c_int, mask: c_long) -> Option<c_int> {
    if mask & !NUM_CONTEXTS != 0 {
        check::refuse(call, "config_mask", format_args!("{mask:#x}: unknown bits"));
        return None;
    }
    if mask == 0 {
        return Some(0);
    }
    // SAFETY: null, or the caller's.
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

/// A team that is wanted: None of it where this PE is not to be a member.
#[derive(Clone, Copy)]
struct Wanted {
    span: Option<Span>,
    num_contexts: c_int,
}

/// Makes one team or two out of a parent's members; all of them, or none.
fn make<const N: usize>(world: &World, parent: &Crew<'_>, wanted: [Wanted; N]) -> Option<[Team; N]> {
    for turn in 0..TRIES {
        let free = agree_in(parent, !world.teams.taken.load(Acquire));
        let numbers = choose::<N>(free, turn, parent.number)?;
        let needed = |index: usize| wanted[index].span.is_some();
        let mut taken = [false; N];
        for index in 0..N {
            taken[index] = needed(index) && world.teams.take(numbers[index]);
            if taken[index] {
                clear_area(world, numbers[index]);
            }
        }
        let all = (0..N).all(|index| taken[index] == needed(index));
        if agree_in(parent, u64::from(all)) == 1 {
            return Some(std::array::from_fn(|index| {
                let Wanted { span, num_contexts } = wanted[index];
                let opened = span.and_then(|span| Some((span, span.member(world.me())?)));
                opened.map_or(Team::INVALID, |(span, me)| world.teams.open(numbers[index], span, me, num_contexts))
            }));
        }
        for index in (0..N).filter(|index| taken[*index]) {
            world.teams.give(numbers[index]);
        }
        // Whoever took it may need this core to finish with it.
        std::thread::yield_now();
    }
    None
}

/// Numbers out of those that are free: the lowest, and at later turns others, in another order for each parent, so that two
/// threads that split different teams do not keep meeting.
fn choose<const N: usize>(free: u64, turn: usize, parent: usize) -> Option<[usize; N]> {
    let count = free.count_ones() as usize;
    if count < N {
        return None;
    }
    let nth = |n: usize| (0..n).fold(free, |left, _| left & (left - 1)).trailing_zeros() as usize;
    let skipped = turn * (2 * parent + 1);
    Some(std::array::from_fn(|index| nth((skipped + index) % count)))
}

fn clear_area(world: &World, number: usize) {
    // SAFETY: this PE's own area of a team that there is not yet; nothing is under way to it.
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
    // SAFETY: null, or the caller's.
    let Some(new_team) = (unsafe { new_team.as_mut() }) else {
        check::refuse(call, "new_team", format_args!("null"));
        return REFUSED;
    };
    *new_team = Team::INVALID;
    let Some(view) = asked(call, parent) else { return REFUSED };
    let Some(parent) = crew(call, parent) else { return REFUSED };
    // SAFETY: the caller's.
    let Some(num_contexts) = (unsafe { contexts_wanted(call, config, mask) }) else { return REFUSED };
    let Some(span) = view.span().part(start, stride, size) else {
        let why = format_args!("start {start}, stride {stride}, size {size}: not in a team of {}", view.size);
        check::refuse(call, "size", why);
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
    // SAFETY: not null, so the caller's. They may be the same.
    let tell = |x, y| unsafe {
        x_team.write(x);
        y_team.write(y);
    };
    tell(Team::INVALID, Team::INVALID);
    let Some(view) = asked(call, parent) else { return REFUSED };
    let Some(parent) = crew(call, parent) else { return REFUSED };
    // SAFETY: the caller's.
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
            tell(x, y);
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
    let Some(crew) = crew(call, team) else { return };
    context::destroy_on(call, team);
    crew.sync();
    crew.world.teams.give((team.0 & 0xff) - 1);
}

/// The library ends: what teams there are go with it.
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
    fn who_shares_memory() {
        let teams = Teams::new(3, 4, false);
        let shared = teams.slot(Team::SHARED).expect("always").view(1);
        assert_eq!((shared.size, shared.me, shared.world_rank(0)), (1, 0, 3));
        let teams = Teams::new(3, 4, true);
        let shared = teams.slot(Team::SHARED).expect("always").view(1);
        assert_eq!((shared.size, shared.me), (4, 3));
    }
}
