// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lock that signal handlers may take, too: its holder's signals are blocked.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Release};

use selvedge_sim_protocol::system::{sleep_on, wake};

use crate::handlers::NoSignals;

/// 0 free, 1 held, 2 held with waiters.
pub struct Lock(AtomicU32);

impl Lock {
    pub const fn new() -> Lock {
        Lock(AtomicU32::new(0))
    }

    pub fn lock(&self) -> Locked<'_> {
        let signals = NoSignals::begin();
        let mut taken = self.0.compare_exchange(0, 1, Acquire, Acquire).is_ok();
        while !taken {
            taken = self.0.swap(2, Acquire) == 0;
            if !taken {
                sleep_on(&self.0, 2);
            }
        }
        Locked { word: &self.0, _signals: signals }
    }
}

pub struct Locked<'a> {
    word: &'a AtomicU32,
    /// Dropped after the lock is free.
    _signals: NoSignals,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if self.word.swap(0, Release) == 2 {
            wake(self.word, 1);
        }
    }
}

/// A value under such a lock.
pub struct Guarded<T> {
    lock: Lock,
    value: UnsafeCell<T>,
}

// SAFETY: `with` lends the value to one thread at a time.
unsafe impl<T: Send> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    pub const fn new(value: T) -> Guarded<T> {
        Guarded { lock: Lock::new(), value: UnsafeCell::new(value) }
    }

    /// Lends the value. `work` takes no lock of this kind again, and makes no requests.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let _locked = self.lock.lock();
        // SAFETY: the lock is held, so there is no other reference; signals are blocked, so no handler comes in between.
        work(unsafe { &mut *self.value.get() })
    }
}
