// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Teams (OpenSHMEM, "Team Management Routines").
//!
//! A team is a first PE, a stride and a size, in ranks of the world. Any split of such a team is one again, and so are
//! both halves of a 2D split. The table of the teams is in `world/teams.rs`.
//!
//! Making a team takes two steps of its parent. In the first, the members find the numbers that are free at every
//! member, and take the lowest. (Two for a 2D split: all teams along x have one number, all along y the other, since no
//! PE is in two of either.) Then the members of the new team clear their areas. After the second step all members know
//! that every area is clear.
//!
//! Invariants
//! 1. A number is free at a PE only after all messages of its last team to this PE have arrived. Destroying a team ends
//!    with a sync; each message of a team is awaited by its receiver, or sent before one that is.
//! 2. A new team's area is clear at each member, and its step numbers are 0, before any PE has the handle.
//! 3. A split succeeds at all PEs of the parent or at none. Arguments are checked where all PEs know them, and the free
//!    numbers are and-ed. If another thread of any PE has taken the number meanwhile, all PEs try again.
//!
//! Limits: 64 teams at once at each PE, the two predefined ones included. A further split returns nonzero.

use std::ffi::{c_int, c_long, c_void};

use crate::check::{self, Call};
use crate::collective::arguments::{DONE, REFUSED};
use crate::collective::members::{Synchronise as _, TeamMembers};
use crate::collective::reduce::reduce_and;
use crate::collective::sync::sync as team_sync;
use crate::handles::Team;
use crate::world::layout::{TEAM_AREA_BYTES, team_area};
use crate::world::span::Span;
use crate::world::teams::TeamView;
use crate::world::{World, world};
use crate::{context, query};

/// `SHMEM_TEAM_NUM_CONTEXTS`, the only field of a configuration.
const NUM_CONTEXTS: c_long = 1;

/// Attempts to take a number; another thread may take it first.
const TRIES: usize = 1000;

// ---- Queries -----------------------------------------------------------------------------------------------------

/// The team of a query, for which SHMEM_TEAM_INVALID is a valid argument.
fn find_unless_invalid(call: Call, team: Team) -> Option<TeamView> {
    if team == Team::INVALID { None } else { world(call)?.teams.view(call, team) }
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
        // SAFETY: null, or the configuration, whose one field is an `int`, that the clause says is written.
        let Some(num_contexts) = (unsafe { config.as_mut() }) else {
            check::refuse(call, "config", format_args!("null, but the mask selects a field"));
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
    team_sync(call, team)
}

// ---- Making and destroying ---------------------------------------------------------------------------------------

/// The number of contexts in a configuration, or the default. `None`: it has been reported.
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
        check::refuse(call, "config", format_args!("null, but the mask selects a field"));
        return None;
    };
    if wanted < 0 {
        check::refuse(call, "config", format_args!("num_contexts {wanted}: must be at least 0"));
        return None;
    }
    Some(wanted)
}

/// A team to make. No span: this PE is not a member.
#[derive(Clone, Copy)]
struct Wanted {
    span: Option<Span>,
    num_contexts: c_int,
}

/// Makes one or two teams from the members of a parent: all, or none.
fn make<const N: usize>(world: &World, parent: &TeamMembers<'_>, wanted: [Wanted; N]) -> Option<[Team; N]> {
    for turn in 0..TRIES {
        let free = reduce_and(parent, world.teams.free());
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
        if reduce_and(parent, u64::from(all)) == 1 {
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

/// Chooses free numbers: the lowest at the first attempt, then others, in an order that differs between parents. So two
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
    let Some(parent) = TeamMembers::find(call, parent) else { return REFUSED };
    // SAFETY: the contract of the C function: `config` is null or a configuration.
    let Some(num_contexts) = (unsafe { contexts_wanted(call, config, mask) }) else { return REFUSED };
    let Some(span) = view.span().part(start, stride, size) else {
        check::refuse(
            call,
            "size",
            format_args!("start {start}, stride {stride}, size {size}: not within the team's {} PEs", view.size),
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
    let Some(parent) = TeamMembers::find(call, parent) else { return REFUSED };
    // SAFETY: the contract of the C function: each configuration is null or a configuration.
    let contexts = unsafe { (contexts_wanted(call, x_config, x_mask), contexts_wanted(call, y_config, y_mask)) };
    let (Some(x_contexts), Some(y_contexts)) = contexts else { return REFUSED };
    let Some((row, column)) = view.span().row_and_column(xrange, view.me) else {
        check::refuse(call, "xrange", format_args!("{xrange}: must be at least 1"));
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
    let Some(members) = TeamMembers::find(call, team) else { return };
    context::destroy_on(call, team);
    members.sync();
    members.world.teams.give(members.number);
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
