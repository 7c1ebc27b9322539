// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A grant that a thread has: requested, entered and left with each put, and lost when it is revoked. Also the
//! revoker's wait for busy holders ([`wait_for_holders`]).
//!
//! ```text
//! a put         enter: busy = 1, is the grant word its number? ... count, leave: busy = 0
//! the revoker   grant word = 0 (the NIC), unlock, a fence on every core, wait until busy = 0, lock
//! ```
//!
//! Invariants
//! 1. Only the thread in a [`ThreadOwned`]'s word uses its contents.
//! 2. Only the thread that owns a slot uses the grant in it. If no thread owns the slot, no thread of this process has
//!    that grant: it was revoked or given back. So an owner that requests another grant for the same slot is not in the
//!    middle of a put under the old one.
//! 3. Only that thread stores to `busy`, `counted` and the lane.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::time::Duration;

use selvedge_nic::Signals;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::grants::GrantHandle;
use selvedge_nic::signals::Grant;

use selvedge_os::process::Identity;
use selvedge_os::{asymmetric, thread};

/// Puts through `start` before a grant is requested. The number grows fourfold after each grant that was revoked or
/// refused, up to `PATIENCE_MAX`. At that rate a revocation costs less than the grant saved.
const PATIENCE: u32 = 64;
const PATIENCE_MAX: u32 = 1 << 14;
/// The wait if the kernel has no fence for other cores: longer than a store needs to reach memory.
const UNFENCED_PAUSE: Duration = Duration::from_millis(2);
/// Polls of a busy holder before the waiter yields its core, and before it sleeps: a holder of lower priority may need
/// that core. Also the polls between two checks whether the holder is alive.
const SPINS: u32 = 256;
const YIELDS: u32 = SPINS + 64;
const POLLS_PER_CHECK: u32 = 64;
const NAP: Duration = Duration::from_micros(50);

/// Data that one thread uses until it gives them up.
#[derive(Default)]
pub(crate) struct ThreadOwned<T> {
    /// The owning thread, or 0.
    thread: AtomicU64,
    /// Puts through `start` since the last request for a grant, and the number needed for the next. Threads may lose
    /// some counts.
    streak: AtomicU32,
    patience: AtomicU32,
    kept: UnsafeCell<Kept<T>>,
}

// SAFETY: only the thread that `thread` names uses `kept`. That word changes by a compare-and-swap with acquire and by
// a store with release. The rest is atomics.
unsafe impl<T> Sync for ThreadOwned<T> {}
// SAFETY: the pointers in `kept` point into segments and arenas that the interface keeps mapped, whichever thread drops
// it.
unsafe impl<T> Send for ThreadOwned<T> {}

/// A grant, and its owner's data on the destination.
pub(crate) struct Kept<T> {
    /// The slot of the grant, also after its revocation; NONE if there never was one.
    pub slot: u32,
    pub held: HeldGrant,
    pub of: T,
}

#[derive(Clone, Copy)]
pub(crate) struct HeldGrant {
    /// Its number, or 0 without a grant.
    pub(crate) number: u64,
    grant: *const Grant,
    /// Its lane. Null if its puts post events.
    pub(crate) lane: *const AtomicU64,
}

impl HeldGrant {
    pub(crate) const NOTHING: HeldGrant = HeldGrant { number: 0, grant: ptr::null(), lane: ptr::null() };

    pub(crate) fn new(signals: &Signals<'_>, given: &GrantHandle) -> Option<HeldGrant> {
        let grant = ptr::from_ref(signals.grants.get(given.slot as usize)?);
        let lane = match given.counter {
            NONE => ptr::null(),
            counter => ptr::from_ref(signals.counters.get(counter as usize)?.lanes.get(given.lane)?),
        };
        Some(HeldGrant { number: given.number, grant, lane })
    }

    /// Begins a put. False: the grant was revoked.
    #[inline(always)]
    pub(crate) fn enter(&self) -> bool {
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

    #[inline(always)]
    pub(crate) fn count(&self, by: u64) {
        let counted = &self.grant().counted;
        let sum = counted.load(Relaxed).wrapping_add(by);
        counted.store(sum, Relaxed);
        // SAFETY: the lane is part of a counter in a segment that the interface keeps mapped. It is not null, because
        // only a pass whose grant has a lane counts (`Interface::put_by`). The lane is an atomic, so readers may load
        // it meanwhile.
        unsafe { &*self.lane }.store(sum, Release);
    }

    /// Counts one more put, for the registers.
    #[inline(always)]
    pub(crate) fn note(&self, bytes: u64) {
        let grant = self.grant();
        grant.puts.store(grant.puts.load(Relaxed).wrapping_add(1), Relaxed);
        grant.bytes.store(grant.bytes.load(Relaxed).wrapping_add(bytes), Relaxed);
    }

    #[inline(always)]
    pub(crate) fn leave(&self) {
        self.grant().busy.store(0, Release);
    }

    #[inline(always)]
    pub(crate) fn grant(&self) -> &Grant {
        // SAFETY: the grant is in a segment that the interface keeps mapped, and consists of atomics. A held grant with
        // a number has the pointer (`new`). `NOTHING` never gets here: passes are made only of held grants with a
        // number (`Interface::granted_route`).
        unsafe { &*self.grant }
    }
}

impl<T> Kept<T> {
    /// Returns the slot of the grant that was here before.
    pub(crate) fn before(&self) -> Option<u32> {
        (self.slot != NONE).then_some(self.slot)
    }
}

impl<T: Default> Default for Kept<T> {
    fn default() -> Kept<T> {
        Kept { slot: NONE, held: HeldGrant::NOTHING, of: T::default() }
    }
}

impl<T> ThreadOwned<T> {
    /// Handles the revocation of the grant with this number. If this thread has it here, the slot has no owner
    /// afterwards.
    #[cold]
    pub(crate) fn lose(&self, number: u64) -> bool {
        let Some(Kept { held, .. }) = self.kept() else { return false };
        if held.number == number {
            held.number = 0;
            self.thread.store(0, Release);
        }
        false
    }

    /// Returns the slot of the grant that is kept here.
    ///
    /// # Safety
    /// No thread uses the contents meanwhile.
    pub(crate) unsafe fn slot(&self) -> u32 {
        // SAFETY: no thread has a reference to the contents, by this function's contract.
        unsafe { &*self.kept.get() }.slot
    }

    /// Returns the contents, if this thread owns them.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub(crate) fn kept(&self) -> Option<&mut Kept<T>> {
        // SAFETY: only the thread that the word names gets the reference, and no other thread changes the word
        // meanwhile. Callers in this module keep at most one such reference at a time.
        (self.thread.load(Relaxed) == thread::word()).then(|| unsafe { &mut *self.kept.get() })
    }

    /// Counts a put. True when a grant should be requested.
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        let streak = self.streak.load(Relaxed).wrapping_add(1);
        self.streak.store(streak, Relaxed);
        streak > self.patience.load(Relaxed).max(PATIENCE)
    }

    /// Takes the slot for this thread if no thread owns it, and fills it. If it then holds no grant, it has no owner
    /// afterwards, and more puts are needed before the next request.
    pub(crate) fn take(&self, fill: impl FnOnce(&mut Kept<T>)) {
        let patience = self.patience.load(Relaxed).max(PATIENCE / 4);
        self.patience.store((patience * 4).min(PATIENCE_MAX), Relaxed);
        self.streak.store(0, Relaxed);
        let own = thread::word();
        let owner = self.thread.load(Acquire);
        if owner != own && (owner != 0 || self.thread.compare_exchange(0, own, Acquire, Relaxed).is_err()) {
            return;
        }
        // SAFETY: the word names this thread, by its own earlier store or by the compare-and-swap just now. So only it
        // has access.
        let kept = unsafe { &mut *self.kept.get() };
        fill(kept);
        if kept.held.number == 0 {
            self.thread.store(0, Release);
        }
    }
}

/// Waits until no holder of these grants is in the middle of a put that it began before its grant word became 0. The
/// caller holds no lock.
///
/// If a grant word is set again, another process has settled the revocation and the grant was given again. This does
/// not wait for such a grant.
pub(crate) fn wait_for_holders(grants: &[Grant], which: u64) {
    if !asymmetric::heavy() {
        std::thread::sleep(UNFENCED_PAUSE);
    }
    for (_, grant) in (0..u64::BITS).zip(grants).filter(|(slot, _)| which >> slot & 1 != 0) {
        let mut polls = 0u32;
        // Acquire: the holder's stores before it left, above all to its lane, are visible to the waiter.
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
