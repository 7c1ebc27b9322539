// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A NIC's lock, and what happens when its holder has died.
//!
//! One word in the segment: 0, or the word of the process that holds it (`Identity::to_word`). Taken by
//! compare-and-swap, released by a plain store. Who waits spins, then gives its core away, then looks whether the
//! holder still lives; a dead holder's lock is taken over and the tables are rebuilt before anything else is done.
//!
//! Invariants
//! 1. The holder of a [`Guard`] finds whole tables.
//! 2. A guard is dropped by the thread that took it; nothing that can block on a peer happens under it.
//!
//! Budget, uncontended: one compare-and-swap and one store on a line of its own.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use selvedge_nic::{Nic, NoMemory};

use crate::os::process::Identity;
use crate::segment::Segment;

/// Looks of a waiter before it gives its core away.
const SPINS: u32 = 256;
/// How long a waiter waits between looks whether the holder lives.
const PATIENCE: Duration = Duration::from_millis(2);

/// The NIC, locked.
pub struct Guard<'a> {
    nic: &'a mut Nic<'a>,
    _held: Held<'a>,
}

/// The lock of a NIC, held until it is dropped.
struct Held<'a> {
    segment: &'a Segment,
}

impl Segment {
    /// Takes the NIC's lock for the process that `own` names.
    #[inline(always)]
    pub fn lock(&self, own: u64) -> Guard<'_> {
        let held = self.hold(own);
        // SAFETY: `held` is the lock. The guard keeps it as long as it lends the NIC, and gives it back when it is dropped.
        Guard { nic: unsafe { self.nic() }, _held: held }
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
                // SAFETY: the lock was taken just before, from an owner that has ended, and is not given back before this call returns.
                unsafe { self.nic() }.recover(&mut NoMemory, Identity::word_is_alive);
                return;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

impl<'a> Deref for Guard<'a> {
    type Target = Nic<'a>;
    #[inline(always)]
    fn deref(&self) -> &Nic<'a> {
        self.nic
    }
}

impl DerefMut for Guard<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.nic
    }
}

impl Drop for Held<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.segment.header().lock.word.store(0, Release);
        self.segment.ring();
    }
}
