// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The contexts of this PE (OpenSHMEM 1.6, "Communication Management Routines").
//!
//! A context is a team, whose PE numbers its operations use, and the set of operations that its quiet waits for. On
//! directly mapped memory every operation is complete when its call returns, so a quiet is a fence. By commands, a
//! context counts the commands that it has started, and a counter of the NIC counts acknowledgements and replies.
//!
//! Invariants
//! 1. Slot 0 is the default context, which always exists. A handle is `generation << 16 | slot + 1`, so a destroyed or
//!    invented one is recognised.
//! 2. A command is counted as begun before it is started.
//!
//! Limit: [`Contexts::MAX`] contexts at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};

use selvedge_os::sync::IgnorePoison;
use selvedge_process::Interface;
use selvedge_process::nic::Full;
use selvedge_process::nic::handle::NONE;

use crate::handles::{Ctx, Team};

pub(crate) struct ContextSlot {
    /// 0 if free, else the generation.
    live: AtomicU32,
    /// The NIC's counter of ended commands; `NONE` on mapped memory.
    counter: AtomicU32,
    begun: AtomicU64,
    reported: AtomicU64,
    team: AtomicU64,
}

/// The free slots, and the generation of the last handle.
struct FreeContexts {
    slots: Vec<u16>,
    generation: u32,
}

pub(crate) struct Contexts {
    slots: Box<[ContextSlot]>,
    free: Mutex<FreeContexts>,
    /// Number of slots that were ever used.
    used: AtomicUsize,
    /// Whether operations may be commands, for which a quiet waits.
    pub has_commands: bool,
}

fn handle(generation: u32, index: usize) -> Ctx {
    Ctx((generation as usize) << 16 | (index + 1))
}

/// The slot of a handle; far beyond the table if the handle is invalid.
#[inline(always)]
fn slot_index(ctx: Ctx) -> usize {
    (ctx.0 & 0xffff).wrapping_sub(1)
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
            slot.counter.store(interface.lock().counters().alloc()?, Relaxed);
        }
        slot.begun.store(0, Relaxed);
        slot.reported.store(0, Relaxed);
        slot.team.store(team.0 as u64, Relaxed);
        slot.live.store(generation, SeqCst);
        self.used.fetch_max(index + 1, SeqCst);
        Ok(())
    }

    #[inline]
    pub fn find(&self, ctx: Ctx) -> Option<&ContextSlot> {
        if ctx == Ctx::DEFAULT {
            return self.slots.first();
        }
        let slot = self.slots.get(slot_index(ctx))?;
        let generation = slot.live.load(Acquire);
        (generation != 0 && ctx.0 >> 16 == generation as usize).then_some(slot)
    }

    /// Whether a handle is a context.
    pub fn is_valid(&self, ctx: Ctx) -> bool {
        self.find(ctx).is_some()
    }

    /// The team of a context.
    pub fn team(&self, ctx: Ctx) -> Option<Team> {
        Some(Team(self.find(ctx)?.team.load(Relaxed) as usize))
    }

    /// The contexts of a team.
    pub fn of_team(&self, team: Team) -> impl Iterator<Item = Ctx> {
        self.slots.iter().enumerate().skip(1).filter_map(move |(index, slot)| {
            let generation = slot.live.load(Acquire);
            let is_of_team = generation != 0 && slot.team.load(Relaxed) == team.0 as u64;
            is_of_team.then(|| handle(generation, index))
        })
    }

    /// Makes a context of a team. `None`: no free slot, or no counter left in the NIC.
    pub fn create(&self, interface: &Interface, team: Team) -> Option<Ctx> {
        let mut free = self.free.lock().ignore_poison();
        let index = free.slots.pop()?;
        free.generation = free.generation % 0x00ff_ffff + 1;
        if self.open(interface, index.into(), free.generation, team).is_err() {
            free.slots.push(index);
            return None;
        }
        Some(handle(free.generation, index.into()))
    }

    /// Frees the slot of a valid context that is not the default one and whose commands have ended.
    pub fn destroy(&self, interface: &Interface, ctx: Ctx) {
        let index = slot_index(ctx);
        self.close(interface, index);
        self.free.lock().ignore_poison().slots.push(index as u16);
    }

    // ---- Counting commands ---------------------------------------------------------------------------------------

    /// Counts one more command as begun. Returns the counter that will count its end.
    #[inline]
    pub fn begin(&self, ctx: Ctx) -> u32 {
        let Some(slot) = self.find(ctx) else { return NONE };
        slot.begun.fetch_add(1, SeqCst);
        slot.counter.load(Relaxed)
    }

    /// Undoes `begin` for a command that was not started.
    pub fn undo(&self, ctx: Ctx) {
        if let Some(slot) = self.find(ctx) {
            slot.begun.fetch_sub(1, SeqCst);
        }
    }

    /// Returns the commands of every context that has any.
    pub fn with_commands(&self) -> impl Iterator<Item = &ContextSlot> {
        let used = if self.has_commands { self.used.load(Relaxed) } else { 0 };
        self.slots[..used].iter().filter(|slot| slot.live.load(Relaxed) != 0)
    }

    fn close(&self, interface: &Interface, index: usize) {
        let slot = &self.slots[index];
        slot.live.store(0, SeqCst);
        let counter = slot.counter.swap(NONE, SeqCst);
        if counter != NONE {
            let _ = interface.lock().with_revocation(|nic| nic.counters().free(counter));
        }
    }
}

impl ContextSlot {
    /// Returns a poll for the end of every command that has begun. It returns the number of those that have failed. None:
    /// the slot has no counter.
    pub fn end<'a>(&'a self, interface: &'a Interface) -> Option<impl Fn() -> Option<u64> + 'a> {
        let counter = interface.signals().counter(self.counter.load(Relaxed))?;
        // Other threads may begin and end commands meanwhile, in any order. All commands begun before this call have
        // ended when the number of ended ones has reached the number begun at any later moment.
        Some(move || {
            let failures = counter.failure.load(Acquire);
            let ended = counter.success.load(Acquire) + failures;
            (ended >= self.begun.load(SeqCst)).then_some(failures)
        })
    }

    /// Whether more commands have failed than were reported. They count as reported then.
    pub fn are_new(&self, failures: u64) -> bool {
        self.reported.swap(failures, Relaxed) < failures
    }
}
