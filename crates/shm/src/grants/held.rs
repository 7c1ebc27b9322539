// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A grant in the hands of the thread that has it: asked for, entered and left with each put, and lost when it is revoked. And the wait
//! of whoever revokes it ([`wait_for_holders`]).
//!
//! ```text
//! a put              enter: busy = 1, is the grant word its number? ... count, leave: busy = 0
//! whoever revokes    grant word = 0 (the NIC), unlock, a fence on every core, wait until busy = 0, lock
//! ```
//!
//! Invariants
//! 1. What a [`ThreadOwned`] keeps is used by the thread that its word names, and by no other.
//! 2. A grant that was given to this process is used only by the thread that owns where it is kept. Where nobody owns it, no thread of
//!    this process has the grant: it was revoked or given back. So an owner that asks for another grant in the same slot is in the
//!    middle of no put by the old one.
//! 3. `busy`, `counted` and the lane are stored by that thread only.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::time::Duration;

use selvedge_nic::Signals;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::grants::Given;
use selvedge_nic::signals::Grant;

use crate::os::process::Identity;
use crate::os::{asymmetric, thread};

/// Puts the usual way before a grant is asked for; four times as many after each that was revoked or not given, up to
/// `PATIENCE_MAX`: there a revocation costs less than the grant saved.
const PATIENCE: u32 = 64;
const PATIENCE_MAX: u32 = 1 << 14;
/// Where the kernel has no fence for other cores: longer than a store stays on its way to memory.
const UNFENCED_PAUSE: Duration = Duration::from_millis(2);
/// Polls of a busy holder before the core is given away, and before the waiter sleeps: it may have the core that a holder of lower
/// priority needs to go on. And polls between two checks whether the holder lives.
const SPINS: u32 = 256;
const YIELDS: u32 = SPINS + 64;
const POLLS_PER_CHECK: u32 = 64;
const NAP: Duration = Duration::from_micros(50);

/// What one thread uses until it gives it up.
#[derive(Default)]
pub(crate) struct ThreadOwned<T> {
    /// That thread; 0: nobody.
    thread: AtomicU64,
    /// Puts the usual way since a grant was last asked for, and how many it takes. Threads may lose some.
    streak: AtomicU32,
    patience: AtomicU32,
    kept: UnsafeCell<Kept<T>>,
}

// SAFETY: `kept` is used only by the thread that `thread` names, which changes by compare-and-swap with acquire and a store with
// release; the rest is atomics.
unsafe impl<T> Sync for ThreadOwned<T> {}
// SAFETY: the pointers in `kept` are into segments and arenas that the interface keeps mapped, whichever thread it is dropped by.
unsafe impl<T> Send for ThreadOwned<T> {}

/// A grant, and what its owner knows of the place that it is for.
pub(super) struct Kept<T> {
    /// The slot of the grant, also when that is revoked; NONE: there never was one.
    pub slot: u32,
    pub held: HeldGrant,
    pub of: T,
}

/// A grant, in this process's addresses.
#[derive(Clone, Copy)]
pub(crate) struct HeldGrant {
    /// Its number; 0: there is none.
    pub(super) number: u64,
    grant: *const Grant,
    /// The lane that belongs to it; null: its puts post events.
    pub(super) lane: *const AtomicU64,
}

impl HeldGrant {
    pub(super) const NOTHING: HeldGrant = HeldGrant { number: 0, grant: ptr::null(), lane: ptr::null() };

    pub(super) fn new(signals: &Signals<'_>, given: &Given) -> Option<HeldGrant> {
        let grant = ptr::from_ref(signals.grants.get(given.slot as usize)?);
        let lane = match given.counter {
            NONE => ptr::null(),
            counter => ptr::from_ref(signals.counters.get(counter as usize)?.lanes.get(given.lane)?),
        };
        Some(HeldGrant { number: given.number, grant, lane })
    }

    /// Begins a put. False: the grant was revoked.
    #[inline(always)]
    pub(super) fn enter(&self) -> bool {
        let grant = self.grant();
        grant.busy.store(1, Relaxed);
        // Pairs with the heavy fence in `wait_for_holders`.
        asymmetric::light();
        let granted = grant.word.load(Acquire) == self.number;
        if !granted {
            grant.busy.store(0, Release);
        }
        granted
    }

    /// Counts.
    #[inline(always)]
    pub(super) fn count(&self, by: u64) {
        let counted = &self.grant().counted;
        let sum = counted.load(Relaxed).wrapping_add(by);
        counted.store(sum, Relaxed);
        // SAFETY: a lane of a counter in a segment that the interface keeps mapped. It is not null: only a pass whose grant has a lane
        // counts (`Interface::put_by`), and the lane is an atomic, so that readers may load it meanwhile.
        unsafe { &*self.lane }.store(sum, Release);
    }

    /// One more put, for the registers.
    #[inline(always)]
    pub(super) fn note(&self, bytes: u64) {
        let grant = self.grant();
        grant.puts.store(grant.puts.load(Relaxed).wrapping_add(1), Relaxed);
        grant.bytes.store(grant.bytes.load(Relaxed).wrapping_add(bytes), Relaxed);
    }

    #[inline(always)]
    pub(super) fn leave(&self) {
        self.grant().busy.store(0, Release);
    }

    #[inline(always)]
    pub(super) fn grant(&self) -> &Grant {
        // SAFETY: a grant in a segment that the interface keeps mapped; made of atomics. A held grant that has a number has the pointer
        // (`new`), and nobody asks this of `NOTHING`: passes are made of held grants with a number only (`Interface::pass_for`).
        unsafe { &*self.grant }
    }
}

impl<T> Kept<T> {
    /// The slot that a grant was in here before.
    pub(super) fn before(&self) -> Option<u32> {
        (self.slot != NONE).then_some(self.slot)
    }
}

impl<T: Default> Default for Kept<T> {
    fn default() -> Kept<T> {
        Kept { slot: NONE, held: HeldGrant::NOTHING, of: T::default() }
    }
}

impl<T> ThreadOwned<T> {
    /// The grant with this number was revoked: if it is what this thread has here, nobody owns this from now on.
    #[cold]
    pub(super) fn lose(&self, number: u64) -> bool {
        let Some(Kept { held, .. }) = self.kept() else { return false };
        if held.number == number {
            held.number = 0;
            self.thread.store(0, Release);
        }
        false
    }

    /// The slot of the grant that is kept here.
    ///
    /// # Safety
    /// No thread uses it meanwhile.
    pub(super) unsafe fn slot(&self) -> u32 {
        // SAFETY: the caller promises that no thread has a reference to it.
        unsafe { &*self.kept.get() }.slot
    }

    /// What this thread has here.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub(super) fn kept(&self) -> Option<&mut Kept<T>> {
        // SAFETY: only the thread that the word names gets the reference, and no other thread changes the word meanwhile. Callers in
        // this module keep at most one such reference at a time.
        (self.thread.load(Relaxed) == thread::word()).then(|| unsafe { &mut *self.kept.get() })
    }

    /// Counts a put; whether it is time to ask for a grant.
    #[inline(always)]
    pub(super) fn is_due(&self) -> bool {
        let streak = self.streak.load(Relaxed).wrapping_add(1);
        self.streak.store(streak, Relaxed);
        streak > self.patience.load(Relaxed).max(PATIENCE)
    }

    /// Takes it for this thread if nobody owns it, and fills it. If that leaves no grant in it, nobody owns it afterwards. It takes more
    /// puts until the next time.
    pub(super) fn take(&self, fill: impl FnOnce(&mut Kept<T>)) {
        let patience = self.patience.load(Relaxed).max(PATIENCE / 4);
        self.patience.store((patience * 4).min(PATIENCE_MAX), Relaxed);
        self.streak.store(0, Relaxed);
        let own = thread::word();
        let owner = self.thread.load(Acquire);
        if owner != own && (owner != 0 || self.thread.compare_exchange(0, own, Acquire, Relaxed).is_err()) {
            return;
        }
        // SAFETY: this thread's alone: the word names it, by its own earlier store or by the compare-and-swap just now.
        let kept = unsafe { &mut *self.kept.get() };
        fill(kept);
        if kept.held.number == 0 {
            self.thread.store(0, Release);
        }
    }
}

/// Waits until none of the holders of these grants is in the middle of a put that it began before its grant word became 0. Called
/// without a lock.
///
/// A grant that has its word back was settled by somebody else, and given again: it is not waited for.
pub(crate) fn wait_for_holders(grants: &[Grant], which: u64) {
    if !asymmetric::heavy() {
        std::thread::sleep(UNFENCED_PAUSE);
    }
    for (_, grant) in (0..u64::BITS).zip(grants).filter(|(slot, _)| which >> slot & 1 != 0) {
        let mut polls = 0u32;
        // Acquire: what the holder stored before it left, its lane above all, is visible to the waiter.
        while grant.busy.load(Acquire) != 0 && grant.word.load(Relaxed) == 0 {
            polls = polls.wrapping_add(1);
            match polls {
                0..SPINS => std::hint::spin_loop(),
                SPINS..YIELDS => std::thread::yield_now(),
                _ if polls % POLLS_PER_CHECK == 0 && !Identity::word_is_alive(grant.holder.load(Relaxed)) => break,
                _ => std::thread::sleep(NAP),
            }
        }
    }
}
