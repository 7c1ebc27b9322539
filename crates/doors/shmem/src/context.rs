// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Communication contexts and sessions (OpenSHMEM 1.6, "Communication Management Routines", "Sessions").
//!
//! A context's options are promises of the program (private, serialized, no stores to order). They are checked and have
//! no effect, since no context takes a lock. Sessions are hints; they are checked, too.

use std::ffi::{c_int, c_long};

use crate::check::{self, Call};
use crate::handles::{Ctx, Team};
use crate::order;
use crate::world::world;

const OPTIONS: c_long = 7;
/// Options of a session, and the fields of its configuration.
const SESSION_OPTIONS: c_long = 1;
const SESSION_FIELDS: c_long = 1;

pub unsafe fn create(call: Call, options: c_long, ctx: *mut Ctx) -> c_int {
    // SAFETY: the contract of the C function is that of `create_on`.
    unsafe { create_on(call, Team::WORLD, options, ctx) }
}

pub unsafe fn create_on(call: Call, on: Team, options: c_long, ctx: *mut Ctx) -> c_int {
    let Some(world) = world(call) else { return -1 };
    // SAFETY: null, or the handle that the clause of `shmem_ctx_create` says is written.
    let Some(ctx) = (unsafe { ctx.as_mut() }) else {
        check::refuse(call, "ctx", format_args!("null"));
        return -1;
    };
    *ctx = Ctx::INVALID;
    if on == Team::INVALID {
        return -1;
    }
    if world.teams.find(call, on).is_none() {
        return -1;
    }
    if options & !OPTIONS != 0 {
        check::refuse(call, "options", format_args!("{options:#x}: unknown bits"));
        return -1;
    }
    match world.contexts.create(world.interface, on) {
        Some(created) => {
            *ctx = created;
            0
        }
        None => 1,
    }
}

pub fn destroy(call: Call, ctx: Ctx) {
    let Some(world) = world(call) else { return };
    if ctx == Ctx::INVALID {
        return;
    }
    if ctx == Ctx::DEFAULT || !world.contexts.is_valid(ctx) {
        check::refuse(call, "ctx", format_args!("{:#x}: not a valid context other than the default one", ctx.0));
        return;
    }
    order::quiet(call, ctx);
    world.contexts.destroy(world.interface, ctx);
}

/// Destroys the remaining contexts of a team, when the team ends.
pub(crate) fn destroy_on(call: Call, on: Team) {
    let Some(world) = world(call) else { return };
    for ctx in world.contexts.of_team(on) {
        destroy(call, ctx);
    }
}

pub unsafe fn get_team(call: Call, ctx: Ctx, team: *mut Team) -> c_int {
    let Some(world) = world(call) else { return -1 };
    // SAFETY: null, or the handle that the clause of `shmem_ctx_get_team` says is written.
    let Some(team) = (unsafe { team.as_mut() }) else {
        check::refuse(call, "team", format_args!("null"));
        return -1;
    };
    *team = Team::INVALID;
    if ctx == Ctx::INVALID {
        return -1;
    }
    match world.contexts.team(ctx) {
        Some(found) => {
            *team = found;
            0
        }
        None => {
            check::refuse(call, "ctx", format_args!("{:#x}: not a valid context", ctx.0));
            -1
        }
    }
}

pub unsafe fn session_start(call: Call, ctx: Ctx, options: c_long, config: *const usize, mask: c_long) {
    let Some(world) = world(call) else { return };
    if ctx == Ctx::INVALID {
    } else if !world.contexts.is_valid(ctx) {
        check::refuse(call, "ctx", format_args!("{:#x}: not a valid context", ctx.0));
    } else if options & !SESSION_OPTIONS != 0 {
        check::refuse(call, "options", format_args!("{options:#x}: unknown bits"));
    } else if mask & !SESSION_FIELDS != 0 {
        check::refuse(call, "config_mask", format_args!("{mask:#x}: unknown bits"));
    } else if mask != 0 && config.is_null() {
        check::refuse(call, "config", format_args!("null, but the mask selects a field"));
    }
}

pub fn session_stop(call: Call, ctx: Ctx) {
    let Some(world) = world(call) else { return };
    if ctx != Ctx::INVALID && !world.contexts.is_valid(ctx) {
        check::refuse(call, "ctx", format_args!("{:#x}: not a valid context", ctx.0));
    }
}
