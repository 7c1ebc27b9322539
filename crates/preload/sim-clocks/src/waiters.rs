// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The threads that wait for an address with a limit: for a condition variable or a futex.
//!
//! They are not in the queue of the C library or not always in that of the kernel, so a wake-up looks here, too. A record
//! lies in its thread's frame.
//!
//! Invariant: the list is changed and read under its lock, with the thread's signals blocked: a handler may wake a futex.

use std::marker::PhantomPinned;
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};

use selvedge_sim_protocol::system::wake as wake_word;

use crate::guarded::Lock;

static LOCK: Lock = Lock::new();
static FIRST: AtomicPtr<Waiter> = AtomicPtr::new(ptr::null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A thread that waits.
pub struct Waiter {
    address: usize,
    /// 1: it is woken.
    pub woken: AtomicU32,
    next: AtomicPtr<Waiter>,
    _pinned: PhantomPinned,
}

impl Waiter {
    pub fn new(address: usize) -> Waiter {
        Waiter { address, woken: AtomicU32::new(0), next: AtomicPtr::new(ptr::null_mut()), _pinned: PhantomPinned }
    }

    pub fn is_woken(&self) -> bool {
        self.woken.load(Acquire) != 0
    }

    /// Adds it behind the others. It leaves the list when it is dropped.
    pub fn enlist(self: Pin<&Self>) {
        let _locked = LOCK.lock();
        last_link().store(ptr::from_ref(self.get_ref()).cast_mut(), Relaxed);
        COUNT.fetch_add(1, SeqCst);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let own: *mut Waiter = self;
        let _locked = LOCK.lock();
        let mut link = &FIRST;
        loop {
            let at = link.load(Relaxed);
            if at == own {
                link.store(self.next.load(Relaxed), Relaxed);
                COUNT.fetch_sub(1, SeqCst);
                return;
            }
            // SAFETY: a record in the list lives until it has left the list, under the lock.
            let Some(waiter) = (unsafe { at.as_ref() }) else { return };
            link = &waiter.next;
        }
    }
}

/// The link at the end of the list. The caller holds the lock.
fn last_link() -> &'static AtomicPtr<Waiter> {
    let mut link = &FIRST;
    // SAFETY: a record in the list lives until it has left the list, under the lock.
    while let Some(waiter) = unsafe { link.load(Relaxed).as_ref() } {
        link = &waiter.next;
    }
    link
}

/// Wakes up to `most` threads that wait for an address, the oldest first. Returns their number.
pub fn wake(address: usize, most: usize) -> usize {
    if COUNT.load(SeqCst) == 0 {
        return 0;
    }
    let _locked = LOCK.lock();
    let (mut woken, mut at) = (0, FIRST.load(Relaxed));
    // SAFETY: a record in the list lives until it has left the list, under the lock.
    while let Some(waiter) = unsafe { at.as_ref() } {
        if woken < most && waiter.address == address && waiter.woken.swap(1, SeqCst) == 0 {
            wake_word(&waiter.woken, 1);
            woken += 1;
        }
        at = waiter.next.load(Relaxed);
    }
    woken
}
