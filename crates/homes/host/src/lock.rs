// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A NIC's lock, and recovery when its holder has died.
//!
//! The lock is one word in the segment: 0, or the word of the process that holds it (`Identity::to_word`). A
//! compare-and-swap takes it and a plain store releases it. A waiter spins, then yields its core, then checks whether
//! the holder is alive. If the holder is dead, the waiter takes the lock over, and rebuilds the tables before anything
//! else.
//!
//! Invariants
//! 1. The holder of a [`Guard`] finds consistent tables.
//! 2. A guard is dropped by the thread that took it. The holder does nothing that can block on a peer.
//! 3. A transition that needs grants revoked goes through [`Guard::with_revocation`]. That releases the lock, waits for
//!    the holders of the grants, takes the lock again and repeats the transition. So other threads may change the NIC
//!    meanwhile, and values that a caller read earlier under the same guard may be out of date.
//!
//! Budget, uncontended: one compare-and-swap and one store on a line of its own.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use selvedge_nic::portals::errors::{Failure, Revoking};
use selvedge_nic::{Nic, NoMemory};

use crate::grants::held::wait_for_holders;
use crate::segment::Segment;
use selvedge_os::process::Identity;

/// Polls of a waiter before it yields its core.
const SPINS: u32 = 256;
/// Time between a waiter's checks whether the holder is alive.
const PATIENCE: Duration = Duration::from_millis(2);

/// The NIC, locked.
pub struct Guard<'a> {
    /// The result of [`Segment::nic`] when the lock was last taken.
    nic: NonNull<Nic<'a>>,
    own: u64,
    held: Held<'a>,
}

/// The lock of a NIC, held until this is dropped.
struct Held<'a> {
    segment: &'a Segment,
}

impl Segment {
    /// Takes the NIC's lock for the process of the word `own`.
    #[inline(always)]
    pub fn lock(&self, own: u64) -> Guard<'_> {
        let held = self.hold(own);
        // SAFETY: the lock is held, and the views are used by the guard only, while it holds the lock.
        Guard { nic: NonNull::from(unsafe { self.nic() }), own, held }
    }

    #[inline(always)]
    fn hold(&self, own: u64) -> Held<'_> {
        let word = &self.header().lock.word;
        if word.compare_exchange(0, own, Acquire, Relaxed).is_err() {
            self.lock_slow(own);
        }
        Held { segment: self }
    }

    #[cold]
    fn lock_slow(&self, own: u64) {
        let word = &self.header().lock.word;
        let mut since: Option<Instant> = None;
        loop {
            for _ in 0..SPINS {
                if word.load(Relaxed) == 0 && word.compare_exchange(0, own, Acquire, Relaxed).is_ok() {
                    return;
                }
                std::hint::spin_loop();
            }
            std::thread::yield_now();
            let start = *since.get_or_insert_with(Instant::now);
            if start.elapsed() < PATIENCE {
                continue;
            }
            since = None;
            let holder = word.load(Relaxed);
            if holder != 0
                && holder != own
                && !Identity::word_is_alive(holder)
                && word.compare_exchange(holder, own, Acquire, Relaxed).is_ok()
            {
                log::warn!("process {} died holding the lock of a NIC: rebuilding its tables", holder >> 32);
                // SAFETY: this thread took the lock just now, from an owner that has ended, and releases it only after
                // this call.
                unsafe { self.nic() }.recover(&mut NoMemory, Identity::word_is_alive);
                return;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

impl<'a> Guard<'a> {
    /// Runs a transition that may need grants revoked. If it does, this waits without the lock and runs it again. So
    /// the result never reports a revocation in progress.
    #[inline]
    pub fn with_revocation<T, E: Failure>(
        &mut self,
        mut transition: impl FnMut(&mut Nic<'a>) -> Result<T, E>,
    ) -> Result<T, E> {
        loop {
            let result = transition(self);
            match result.as_ref().err().and_then(E::revoking) {
                Some(revoking) => self.revoke(&revoking),
                None => return result,
            }
        }
    }

    /// Waits, without the lock, until these grants are revoked. The lock is held again afterwards.
    #[cold]
    pub(crate) fn revoke(&mut self, revoking: &Revoking) {
        let segment = self.held.segment;
        self.held.release();
        wait_for_holders(segment.signals().grants, revoking.grants);
        std::mem::forget(segment.hold(self.own));
        // SAFETY: the lock is held again. The views that the guard had before are the same ones, and no code here used
        // them since it was released.
        self.nic = NonNull::from(unsafe { segment.nic() });
        self.grants().finish_revoking(revoking);
    }
}

impl<'a> Deref for Guard<'a> {
    type Target = Nic<'a>;
    #[inline(always)]
    fn deref(&self) -> &Nic<'a> {
        // SAFETY: the segment outlives the guard. The guard holds the lock whenever it is borrowed (only `revoke`
        // releases it in between, and borrows nothing then), so no other thread uses the views.
        unsafe { self.nic.as_ref() }
    }
}

impl DerefMut for Guard<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        // SAFETY: the segment outlives the guard, and the guard holds the lock whenever it is borrowed. It is borrowed
        // exclusively here, so this reference is the only one to the views.
        unsafe { self.nic.as_mut() }
    }
}

impl Held<'_> {
    #[inline(always)]
    fn release(&self) {
        self.segment.header().lock.word.store(0, Release);
        self.segment.ring();
    }
}

impl Drop for Held<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.release();
    }
}
