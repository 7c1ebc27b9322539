// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Communication contexts and sessions (OpenSHMEM 1.6, "Communication Management Routines", "Sessions").
//!
//! A context is a team, whose PE numbers its operations use, and a set of operations that its quiet waits for. On
//! directly mapped memory every operation is complete when its call returns, so a quiet is a fence. By commands, each
//! context has a counter of the NIC, which counts acknowledgements and replies, and the number of commands that it has
//! started.
//!
//! Invariants
//! 1. Slot 0 is the default context, which always exists. A handle is `generation << 16 | slot + 1`, so a destroyed or
//!    invented one is recognised.
//! 2. A command is counted as begun before it is started.
//!
//! The options of a context are promises of the program (private, serialized, no stores to order). They are checked and
//! have no effect here, since no context takes a lock. Sessions are hints; they are checked, too.

use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

use selvedge_transport::Interface;
use selvedge_transport::nic::Full;
use selvedge_transport::nic::handle::NONE;

use crate::check::{self, Call};
use crate::handles::{Ctx, Team};
use crate::team::TeamView;
use crate::world::world;
use crate::{order, team};

/// Options of `shmem_ctx_create`.
const OPTIONS: c_long = 7;
/// Options of a session, and the fields of its configuration.
const SESSION_OPTIONS: c_long = 1;
const SESSION_FIELDS: c_long = 1;

/// One context.
struct ContextSlot {
    /// 0: free; else its generation.
    live: AtomicU32,
    /// The NIC's counter of commands that have ended, or NONE on mapped memory.
    counter: AtomicU32,
    begun: AtomicU64,
    /// Failures that have been reported.
    reported: AtomicU64,
    team: AtomicU64,
}

/// The free slots, and the generation of the last handle.
struct FreeContexts {
    slots: Vec<u16>,
    generation: u32,
}

/// All contexts of this PE.
pub(crate) struct Contexts {
    slots: Box<[ContextSlot]>,
    free: Mutex<FreeContexts>,
    /// Slots that have ever been used.
    used: AtomicUsize,
    /// Operations may be commands, which a quiet has to wait for.
    pub has_commands: bool,
}

impl Contexts {
    /// The most contexts at once, the default one included.
    pub const MAX: u32 = 1024;

    pub fn new(interface: &Interface, has_commands: bool) -> Result<Contexts, &'static str> {
        let slot = |_| ContextSlot {
            live: AtomicU32::new(0),
            counter: AtomicU32::new(NONE),
            begun: AtomicU64::new(0),
            reported: AtomicU64::new(0),
            team: AtomicU64::new(0),
        };
        let contexts = Contexts {
            slots: (0..Contexts::MAX).map(slot).collect(),
            free: Mutex::new(FreeContexts { slots: (1..Contexts::MAX as u16).rev().collect(), generation: 0 }),
            used: AtomicUsize::new(0),
            has_commands,
        };
        contexts.open(interface, 0, 1, Team::WORLD).map_err(|Full| "the NIC has no counter left")?;
        Ok(contexts)
    }

    fn open(&self, interface: &Interface, index: usize, generation: u32, team: Team) -> Result<(), Full> {
        let slot = &self.slots[index];
        if self.has_commands {
            slot.counter.store(interface.lock().counter_alloc()?, Relaxed);
        }
        slot.begun.store(0, Relaxed);
        slot.reported.store(0, Relaxed);
        slot.team.store(team.0 as u64, Relaxed);
        slot.live.store(generation, SeqCst);
        self.used.fetch_max(index + 1, SeqCst);
        Ok(())
    }

    #[inline]
    fn find(&self, ctx: Ctx) -> Option<&ContextSlot> {
        if ctx == Ctx::DEFAULT {
            return self.slots.first();
        }
        let slot = self.slots.get((ctx.0 & 0xffff).wrapping_sub(1))?;
        let generation = slot.live.load(Acquire);
        (generation != 0 && ctx.0 >> 16 == generation as usize).then_some(slot)
    }

    /// Whether a handle is a context.
    pub fn is_valid(&self, ctx: Ctx) -> bool {
        self.find(ctx).is_some()
    }

    /// The team of a context.
    pub fn team(&self, ctx: Ctx) -> Option<TeamView> {
        team::view(Team(self.find(ctx)?.team.load(Relaxed) as usize))
    }

    // ---- Counting commands ---------------------------------------------------------------------------------------

    /// Counts one more command as begun. Returns the counter that counts its end.
    #[inline]
    pub fn begin(&self, ctx: Ctx) -> u32 {
        let Some(slot) = self.find(ctx) else { return NONE };
        slot.begun.fetch_add(1, SeqCst);
        slot.counter.load(Relaxed)
    }

    /// Takes back a command that was counted as begun and not started.
    pub fn undo(&self, ctx: Ctx) {
        if let Some(slot) = self.find(ctx) {
            slot.begun.fetch_sub(1, SeqCst);
        }
    }

    /// Waits until every command that has begun has ended.
    pub fn quiet(&self, interface: &Interface, ctx: Ctx) {
        if let Some(slot) = self.find(ctx) {
            slot.quiet(interface);
        }
    }

    /// Waits for the commands of every context.
    pub fn quiet_all(&self, interface: &Interface) {
        if self.has_commands {
            let used = &self.slots[..self.used.load(Relaxed)];
            used.iter().filter(|slot| slot.live.load(Relaxed) != 0).for_each(|slot| slot.quiet(interface));
        }
    }

    fn close(&self, interface: &Interface, index: usize) {
        let slot = &self.slots[index];
        slot.live.store(0, SeqCst);
        let counter = slot.counter.swap(NONE, SeqCst);
        if counter != NONE {
            let _ = interface.lock().with_revocation(|nic| nic.counter_free(counter));
        }
    }
}

impl ContextSlot {
    fn quiet(&self, interface: &Interface) {
        let signals = interface.signals();
        let Some(counter) = signals.counter(self.counter.load(Relaxed)) else { return };
        // Other threads may begin and end commands meanwhile, in any order. Only when as many have ended as had begun
        // at a later moment, all of the earlier ones have ended.
        let ended = || {
            let failures = counter.failure.load(Acquire);
            let ended = counter.success.load(Acquire) + failures;
            (ended >= self.begun.load(SeqCst)).then_some(failures)
        };
        let Ok(failures) = interface.wait(None, ended) else { return };
        if self.reported.swap(failures, Relaxed) < failures {
            check::report(format_args!(
                "operations have failed ({failures} so far on this context): their PE has ended, or has no such memory"
            ));
        }
    }
}

// ---- The interface -----------------------------------------------------------------------------------------------

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
    if team::find(call, on).is_none() {
        return -1;
    }
    if options & !OPTIONS != 0 {
        check::refuse(call, "options", format_args!("{options:#x}: unknown bits"));
        return -1;
    }
    let contexts = &world.contexts;
    let mut free = contexts.free.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(index) = free.slots.pop() else { return 1 };
    free.generation = free.generation % 0x00ff_ffff + 1;
    if contexts.open(world.interface, index.into(), free.generation, on).is_err() {
        free.slots.push(index);
        return 1;
    }
    *ctx = Ctx((free.generation as usize) << 16 | (usize::from(index) + 1));
    0
}

pub fn destroy(call: Call, ctx: Ctx) {
    let Some(world) = world(call) else { return };
    if ctx == Ctx::INVALID {
        return;
    }
    if ctx == Ctx::DEFAULT || !world.contexts.is_valid(ctx) {
        check::refuse(call, "ctx", format_args!("{:#x}: not a context that can be destroyed", ctx.0));
        return;
    }
    order::quiet(call, ctx);
    let index = (ctx.0 & 0xffff) - 1;
    world.contexts.close(world.interface, index);
    world.contexts.free.lock().unwrap_or_else(PoisonError::into_inner).slots.push(index as u16);
}

/// Destroys the contexts that a team still has. They end with the team.
pub(crate) fn destroy_on(call: Call, on: Team) {
    let Some(world) = world(call) else { return };
    for (index, slot) in world.contexts.slots.iter().enumerate().skip(1) {
        let generation = slot.live.load(Acquire);
        if generation != 0 && slot.team.load(Relaxed) == on.0 as u64 {
            destroy(call, Ctx((generation as usize) << 16 | (index + 1)));
        }
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
    match world.contexts.find(ctx) {
        Some(slot) => {
            *team = Team(slot.team.load(Relaxed) as usize);
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
        check::refuse(call, "config", format_args!("null, though the mask names a field of it"));
    }
}

pub fn session_stop(call: Call, ctx: Ctx) {
    let Some(world) = world(call) else { return };
    if ctx != Ctx::INVALID && !world.contexts.is_valid(ctx) {
        check::refuse(call, "ctx", format_args!("{:#x}: not a valid context", ctx.0));
    }
}
