// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fence and quiet (OpenSHMEM 1.6, "Memory Ordering Routines").
//!
//! Operations from one PE to another arrive in the order in which they were started. So a fence only orders this
//! machine's stores, which costs nothing on x86. A quiet makes every store visible to all PEs, and waits for commands.

use std::ffi::c_int;
use std::sync::atomic::{Ordering, fence as memory_fence};

use crate::check::{self, Call};
use crate::handles::Ctx;
use crate::world::{World, world};

#[inline(always)]
pub fn fence(call: Call, ctx: Ctx) {
    memory_fence(Ordering::Release);
    if ctx != Ctx::DEFAULT {
        check_context(call, ctx);
    }
}

#[inline(always)]
pub fn quiet(call: Call, ctx: Ctx) {
    memory_fence(Ordering::SeqCst);
    let Some(world) = world(call) else { return };
    if world.contexts.has_commands || ctx != Ctx::DEFAULT {
        quiet_commands(call, world, ctx);
    }
}

#[inline(never)]
fn quiet_commands(call: Call, world: &World, ctx: Ctx) {
    check_context(call, ctx);
    world.quiet(ctx);
}

#[cold]
fn check_context(call: Call, ctx: Ctx) {
    let Some(world) = world(call) else { return };
    // The invalid context is allowed: it has nothing to wait for.
    if ctx != Ctx::INVALID && !world.contexts.is_valid(ctx) {
        check::refuse(call, "ctx", format_args!("{:#x}: not a valid context", ctx.0));
    }
}

/// Quiet towards some PEs. Ended commands are counted by context, not by PE, so this waits for the whole context.
pub unsafe fn pe_quiet(call: Call, ctx: Ctx, target_pes: *const c_int, npes: usize) {
    let Some(world) = world(call) else { return };
    if npes != 0 && target_pes.is_null() {
        check::refuse(call, "target_pes", format_args!("null"));
        return;
    }
    for index in 0..npes {
        // SAFETY: not null; by the clause `target_pes` has `npes` elements, and the index is below that.
        if world.pe(call, ctx, unsafe { *target_pes.add(index) }).is_none() {
            return;
        }
    }
    quiet(call, ctx);
}

pub(crate) fn quiet_all(world: &World) {
    memory_fence(Ordering::SeqCst);
    world.contexts.with_commands().for_each(|commands| world.wait_for_commands(commands));
}
