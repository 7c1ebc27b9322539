// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lease in the hands of the thread that has it: earned, entered and left with each put, lost, and called back by others.
//!
//! ```text
//! a put        enter: busy = 1, the grant is still there? ... count, leave: busy = 0
//! who recalls  grant = 0 (the NIC), a fence on every core, wait until busy = 0 ([`recall`])
//! ```
//!
//! Invariants
//! 1. What a [`Mine`] keeps is used by the thread that its word names, and by no other.
//! 2. `busy` and the lane are stored by that thread only.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::time::Duration;

use selvedge_nic::Signals;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::leases::Lent;
use selvedge_nic::signals::Lease;

use crate::os::process::Identity;
use crate::os::{asymmetric, thread};

/// Puts the usual way before a lease is asked for; four times as many after each that was called back or not given, up to
/// `PATIENCE_MAX`: there a call costs less than the lease saved.
const PATIENCE: u32 = 64;
const PATIENCE_MAX: u32 = 1 << 14;
/// Where the kernel has no fence for other cores: longer than a store stays on its way to memory.
const UNFENCED_PAUSE: Duration = Duration::from_millis(2);
/// Looks at a holder that is in the middle of a put before its core is given away, and before who looks sleeps: it may have the core
/// of a holder that its priority keeps from going on. Looks between questions whether it lives.
const SPINS: u32 = 256;
const YIELDS: u32 = SPINS + 64;
const LOOKS_PER_QUESTION: u32 = 64;
const NAP: Duration = Duration::from_micros(50);

/// What one thread uses until it gives it up.
#[derive(Default)]
pub(crate) struct Mine<T> {
    /// That thread; 0: nobody.
    thread: AtomicU64,
    /// Puts the usual way since it was last asked for, and how many it takes. Threads may lose some.
    streak: AtomicU32,
    patience: AtomicU32,
    kept: UnsafeCell<Kept<T>>,
}

// SAFETY: `kept` is used by one thread at a time (`thread`), the rest is atomics.
unsafe impl<T> Sync for Mine<T> {}
// SAFETY: the pointers in `kept` are into segments and arenas that the interface keeps mapped.
unsafe impl<T> Send for Mine<T> {}

/// What a thread has by a lease.
pub(super) struct Kept<T> {
    /// Which lease it is; NONE: there never was one.
    pub lease: u32,
    pub held: Held,
    pub of: T,
}

/// A lease, in this process's addresses.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    /// Number of the grant; 0: there is none.
    pub(super) grant: u64,
    slot: *const Lease,
    /// The lane that was lent with it; null: its puts post.
    pub(super) lane: *const AtomicU64,
}

impl Held {
    const NOTHING: Held = Held { grant: 0, slot: ptr::null(), lane: ptr::null() };

    pub(super) fn new(signals: &Signals<'_>, lent: &Lent) -> Option<Held> {
        let slot = ptr::from_ref(signals.leases.get(lent.lease as usize)?);
        let lane = match lent.counter {
            NONE => ptr::null(),
            counter => ptr::from_ref(signals.counters.get(counter as usize)?.lanes.get(lent.lane)?),
        };
        Some(Held { grant: lent.grant, slot, lane })
    }

    /// Begins a put. False: the lease was called back.
    #[inline(always)]
    pub(super) fn enter(&self) -> bool {
        let slot = self.slot();
        slot.busy.store(1, Relaxed);
        // Pairs with the heavy fence in `recall`.
        asymmetric::light();
        let granted = slot.grant.load(Acquire) == self.grant;
        if !granted {
            slot.busy.store(0, Release);
        }
        granted
    }

    /// Counts.
    #[inline(always)]
    pub(super) fn count(&self, by: u64) {
        let counted = &self.slot().counted;
        let now = counted.load(Relaxed).wrapping_add(by);
        counted.store(now, Relaxed);
        // SAFETY: a lane of a counter in a segment that the interface keeps mapped.
        unsafe { &*self.lane }.store(now, Release);
    }

    /// One more put, for the registers.
    #[inline(always)]
    pub(super) fn note(&self, bytes: u64) {
        let slot = self.slot();
        slot.puts.store(slot.puts.load(Relaxed).wrapping_add(1), Relaxed);
        slot.bytes.store(slot.bytes.load(Relaxed).wrapping_add(bytes), Relaxed);
    }

    #[inline(always)]
    pub(super) fn leave(&self) {
        self.slot().busy.store(0, Release);
    }

    #[inline(always)]
    pub(super) fn slot(&self) -> &Lease {
        // SAFETY: a lease in a segment that the interface keeps mapped; who has a grant has a slot.
        unsafe { &*self.slot }
    }
}

impl<T> Kept<T> {
    /// The lease that was had here before.
    pub(super) fn before(&self) -> Option<u32> {
        (self.lease != NONE).then_some(self.lease)
    }
}

impl<T: Default> Default for Kept<T> {
    fn default() -> Kept<T> {
        Kept { lease: NONE, held: Held::NOTHING, of: T::default() }
    }
}

impl<T> Mine<T> {
    /// The lease with this grant was called back: if it is what this thread has here, it is nobody's now.
    #[cold]
    pub(super) fn lose(&self, grant: u64) -> bool {
        let Some(Kept { held, .. }) = self.kept() else { return false };
        if held.grant == grant {
            held.grant = 0;
            self.thread.store(0, Release);
        }
        false
    }

    /// Which lease is kept here.
    ///
    /// # Safety
    /// No thread uses it now.
    pub(super) unsafe fn lease(&self) -> u32 {
        // SAFETY: the caller's.
        unsafe { &*self.kept.get() }.lease
    }

    /// What this thread has here.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub(super) fn kept(&self) -> Option<&mut Kept<T>> {
        // SAFETY: this thread's alone. Callers of this file keep at most one borrow of each.
        (self.thread.load(Relaxed) == thread::word()).then(|| unsafe { &mut *self.kept.get() })
    }

    /// Counts a put; whether it is time to ask.
    #[inline(always)]
    pub(super) fn is_due(&self) -> bool {
        let streak = self.streak.load(Relaxed).wrapping_add(1);
        self.streak.store(streak, Relaxed);
        streak > self.patience.load(Relaxed).max(PATIENCE)
    }

    /// Takes it for this thread if nobody has it, and fills it; it is nobody's if that fails. It takes longer until the next.
    pub(super) fn take(&self, fill: impl FnOnce(&mut Kept<T>) -> Option<()>) {
        let patience = self.patience.load(Relaxed).max(PATIENCE / 4);
        self.patience.store((patience * 4).min(PATIENCE_MAX), Relaxed);
        self.streak.store(0, Relaxed);
        let own = thread::word();
        let holder = self.thread.load(Acquire);
        if holder != own && (holder != 0 || self.thread.compare_exchange(0, own, Acquire, Relaxed).is_err()) {
            return;
        }
        // SAFETY: this thread's alone now.
        if fill(unsafe { &mut *self.kept.get() }).is_none() {
            self.thread.store(0, Release);
        }
    }
}

/// Waits until none of the holders of these leases is in the middle of a put that it began before its grant went
/// ([`selvedge_nic::Recall`]).
pub(crate) fn recall(leases: &[Lease], called: u64) {
    if !asymmetric::heavy() {
        std::thread::sleep(UNFENCED_PAUSE);
    }
    for (_, lease) in (0..u64::BITS).zip(leases).filter(|(index, _)| called >> index & 1 != 0) {
        let mut looks = 0u32;
        while lease.busy.load(Acquire) != 0 {
            looks = looks.wrapping_add(1);
            match looks {
                0..SPINS => std::hint::spin_loop(),
                SPINS..YIELDS => std::thread::yield_now(),
                _ if looks % LOOKS_PER_QUESTION == 0 && !Identity::word_is_alive(lease.holder.load(Relaxed)) => break,
                _ => std::thread::sleep(NAP),
            }
        }
    }
}
