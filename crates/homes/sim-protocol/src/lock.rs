// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lock in the page under which a thread of a rank makes a request: 0 free, 1 held, 2 held with waiters.

use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst};

use crate::page::TurnLine;
use crate::system::{sleep_on, wake};

impl TurnLine {
    /// Whether a thread that is not parked waits for [`TurnLine::lock`], which the caller holds.
    pub(crate) fn is_lock_contended(&self) -> bool {
        self.lock_waiters.load(SeqCst) != 0
    }

    pub(crate) fn lock(&self) -> RequestLock<'_> {
        if self.request_lock.compare_exchange(0, 1, Acquire, Relaxed).is_ok() {
            return RequestLock { word: &self.request_lock };
        }
        self.lock_waiters.fetch_add(1, SeqCst);
        let lock = self.lock_contended();
        self.lock_waiters.fetch_sub(1, SeqCst);
        lock
    }

    /// Takes the lock for a parked thread. Its request is known, so it does not count as a waiter.
    pub(crate) fn lock_parked(&self) -> RequestLock<'_> {
        let word = &self.request_lock;
        match word.compare_exchange(0, 1, Acquire, Relaxed) {
            Ok(_) => RequestLock { word },
            Err(_) => self.lock_contended(),
        }
    }

    fn lock_contended(&self) -> RequestLock<'_> {
        let word = &self.request_lock;
        while word.swap(2, Acquire) != 0 {
            sleep_on(word, 2);
        }
        RequestLock { word }
    }
}

/// Holds the lock; releases it on drop.
pub(crate) struct RequestLock<'a> {
    word: &'a AtomicU32,
}

impl Drop for RequestLock<'_> {
    fn drop(&mut self) {
        if self.word.swap(0, Release) == 2 {
            wake(self.word, 1);
        }
    }
}
