// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The domain (fi_domain(3)): one NIC, and the lock of everything that belongs to it.
//!
//! A thread never yields its core, and in virtual time never ends its rank's turn, while it holds the lock. The action
//! that a poll requests ([`AfterUnlock`]) is done after the lock is released. Otherwise a polling thread would hold the
//! lock most of the time. A waiting thread spins. In virtual time it sleeps in the kernel, so the simulator sees it
//! idle.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use selvedge_host::Interface;
use selvedge_messages::Transport;
use selvedge_messages::polling::AfterUnlock;

use crate::ffi::fid_domain;
use crate::objects::collective::Groups;
use crate::objects::fabric::Fabric;
use crate::objects::object::Uses;

#[repr(C)]
pub struct Domain {
    pub domain: fid_domain,
    pub(crate) fabric: *mut Fabric,
    /// Several threads may call at once, unless [`Domain::alone`] excludes it.
    pub(crate) shared: bool,
    pub(crate) taken: AtomicU32,
    pub(crate) core: UnsafeCell<Transport>,
    /// The groups of collective operations. The same lock guards them.
    pub(crate) groups: UnsafeCell<Groups>,
    /// Some groups have a join or an operation under way.
    pub(crate) collects: AtomicBool,
    /// Threads that wait for the lock sleep in the kernel.
    pub(crate) sleeps: bool,
    /// The lock is held, or its holder needs none. Checks our own code: a thread must not take the lock twice.
    #[cfg(debug_assertions)]
    pub(crate) is_held: AtomicBool,
    /// Not 0: no lock is needed. Only one thread calls, because the program promises it or the process has no other
    /// thread, and nothing is done after the lock is released without a poll.
    pub alone: &'static AtomicU8,
    /// The core's interface, for threads that do not hold the lock.
    pub(crate) interface: Arc<Interface>,
    pub uses: Uses,
    pub caps: u64,
    /// The provider chooses the keys of regions.
    pub provider_keys: bool,
    /// Regions with counters wait for `fi_mr_enable` (`FI_MR_RMA_EVENT`).
    pub enables_regions: bool,
}

/// The value of `alone` for a domain with a single caller.
pub(crate) static ALWAYS: AtomicU8 = AtomicU8::new(1);

/// The value of `alone` for a domain that always needs the lock.
pub(crate) static NEVER: AtomicU8 = AtomicU8::new(0);

/// The guard of the domain's lock: access to the NIC and everything in flight, for one thread.
pub struct DomainGuard<'a> {
    pub(crate) domain: &'a Domain,
    /// The lock was taken. No thread starts while the guard lives, so this also holds when it is dropped.
    pub(crate) locked: bool,
}

impl Domain {
    /// Takes the lock. A thread must not take it twice. A second guard would wait for the first or, where no lock is
    /// needed ([`Domain::alone`]), alias its memory.
    #[inline(always)]
    pub fn core(&self) -> DomainGuard<'_> {
        let locked = self.shared && self.alone.load(Relaxed) == 0;
        if locked && self.taken.swap(1, Acquire) != 0 {
            self.wait_for_lock();
        }
        #[cfg(debug_assertions)]
        assert!(!self.is_held.swap(true, Relaxed), "a thread takes the lock twice");
        DomainGuard { domain: self, locked }
    }

    #[inline(always)]
    pub(crate) fn collects(&self) -> bool {
        self.collects.load(Relaxed)
    }

    /// Whether only one thread ever calls, by the program's promise.
    pub fn has_one_caller(&self) -> bool {
        std::ptr::eq(self.alone, &ALWAYS)
    }

    /// The core, if no lock is needed ([`Domain::alone`]).
    ///
    /// # Safety
    /// The domain is open. This thread does not hold its lock, and does not take it while the transport is borrowed.
    #[inline(always)]
    pub unsafe fn core_alone<'a>(domain: *mut Domain) -> &'a mut Transport {
        // SAFETY: the domain is open by this function's contract, and no `&mut` to it is ever made.
        let domain = unsafe { &*domain };
        debug_assert!(domain.alone.load(Relaxed) != 0);
        #[cfg(debug_assertions)]
        assert!(!domain.is_held.load(Relaxed), "the transport is borrowed while the lock is held");
        // SAFETY: no other thread calls, by the program's promise or because there is none ([`Domain::alone`]). This
        // thread does not hold the lock, by this function's contract, so this is the only reference to the transport.
        let core = unsafe { &mut *domain.core.get() };
        debug_assert!(core.after_unlock == AfterUnlock::None);
        core
    }

    #[cold]
    pub(crate) fn wait_for_lock(&self) {
        let mut looks = 0u32;
        while self.taken.load(Relaxed) != 0 || self.taken.swap(1, Acquire) != 0 {
            if self.sleeps {
                futex(&self.taken, libc::FUTEX_WAIT, 1);
                continue;
            }
            looks += 1;
            if looks % 64 == 0 {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }

    #[inline(always)]
    pub(crate) fn give_back(&self, locked: bool) {
        #[cfg(debug_assertions)]
        self.is_held.store(false, Relaxed);
        if locked {
            self.taken.store(0, Release);
        }
    }

    /// Releases the lock, and then does the action that a poll requested.
    #[cold]
    #[inline(never)]
    pub(crate) fn give_back_and(&self, locked: bool, asked: AfterUnlock) {
        self.give_back(locked);
        if locked && self.sleeps {
            futex(&self.taken, libc::FUTEX_WAKE, 1);
        }
        match asked {
            AfterUnlock::None | AfterUnlock::Wake => {}
            AfterUnlock::Yield => std::thread::yield_now(),
            AfterUnlock::Poll => self.interface.poll(),
            AfterUnlock::Found => self.interface.found_something(),
        }
    }
}

impl<'a> DomainGuard<'a> {
    /// The domain whose lock this is.
    pub fn domain(&self) -> &'a Domain {
        self.domain
    }

    pub(crate) fn with_groups<R>(&mut self, action: impl FnOnce(&mut Groups, &mut Transport) -> R) -> R {
        let domain = self.domain;
        // SAFETY: the lock is held, as for the core, and this guard is borrowed. Only this function reaches the groups,
        // and nothing called with them has the guard.
        let groups = unsafe { &mut *domain.groups.get() };
        let outcome = action(groups, self);
        domain.collects.store(groups.has_anything_under_way(), Relaxed);
        outcome
    }

    #[inline(always)]
    pub(crate) fn carry_on_groups(&mut self) {
        if self.domain.collects() {
            self.carry_on_groups_under_way();
        }
    }

    #[cold]
    fn carry_on_groups_under_way(&mut self) {
        self.with_groups(Groups::carry_on);
    }
}

impl Deref for DomainGuard<'_> {
    type Target = Transport;
    #[inline(always)]
    fn deref(&self) -> &Transport {
        // SAFETY: no other thread has a guard until this one is dropped: the lock, the program's promise, or a single
        // thread ensures it. References from this guard borrow it, so no `&mut` from it is alive here.
        unsafe { &*self.domain.core.get() }
    }
}

impl DerefMut for DomainGuard<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Transport {
        // SAFETY: no other thread has a guard until this one is dropped: the lock, the program's promise, or a single
        // thread ensures it. The result borrows the guard mutably, and a thread has one guard at a time.
        unsafe { &mut *self.domain.core.get() }
    }
}

impl Drop for DomainGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.after_unlock == AfterUnlock::None {
            return self.domain.give_back(self.locked);
        }
        let next = if self.domain.sleeps { AfterUnlock::Wake } else { AfterUnlock::None };
        let asked = std::mem::replace(&mut self.after_unlock, next);
        self.domain.give_back_and(self.locked, asked);
    }
}

/// A futex call: sleeps while the word has this value, or wakes this number of sleepers.
pub(crate) fn futex(word: &AtomicU32, operation: libc::c_int, value: u32) {
    let operation = operation | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is borrowed for the call, so it is mapped; without a time limit the kernel reads nothing else.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, std::ptr::null::<libc::timespec>()) };
}
