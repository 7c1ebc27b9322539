// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A rank's clock, the prices of its library's own actions, and the time of its next timer. Clocks never go back; reading
//! a clock advances it.
//!
//! The library that replaces the clocks keeps the timers; the page has the earliest expiry. Each library of the rank cuts
//! its requests there, and calls that library when the time has come, without the request lock: a timer may raise a
//! signal, whose handler may do anything.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use crate::page::{NEVER, units};
use crate::rank::RankEnd;
use crate::system::real_clock_ns;

/// Clock readings, or successful polls, in a row before other ranks run. A program that reads in a loop waits for time
/// to pass, or polls memory that a peer writes directly.
pub(crate) const READINGS_MAX: u64 = 256;

/// The function that expires timers.
const EXPIRE: &CStr = c"selvedge_sim_expire_timers";

static EXPIRE_AT: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());

impl RankEnd {
    /// Returns the time in picoseconds since the start.
    #[inline]
    pub fn now_ps(&self) -> u64 {
        self.page().time.now_ps.load(Relaxed)
    }

    /// Reads the clock and charges the program for it. Every [`READINGS_MAX`] readings the simulator gets the turn, so
    /// that other ranks and messages catch up with this time.
    pub fn read_clock(&self) -> u64 {
        self.count_computing();
        let price = self.page().costs[2].load(Relaxed);
        let now = self.page().time.now_ps.fetch_add(price, Relaxed).saturating_add(price);
        if self.page().time.readings.fetch_add(1, Relaxed) >= READINGS_MAX {
            self.sleep(now);
            return self.now_ps();
        }
        if self.is_alarm_due() {
            self.expire_alarms();
        }
        now
    }

    /// Returns the time that the rank did not wait.
    pub fn busy_ps(&self) -> u64 {
        let now = self.read_clock();
        now.saturating_sub(self.page().time.idle_ps.load(Relaxed))
    }

    /// Charges a call that works on the rank's own NIC.
    #[inline]
    pub fn charge_call(&self) {
        self.page().time.changes.fetch_add(1, Relaxed);
        self.charge(self.page().costs[0].load(Relaxed));
    }

    /// Charges n accesses to main memory by a call that works on the rank's own tables.
    #[inline]
    pub fn charge_accesses(&self, count: u64) {
        self.page().time.changes.fetch_add(1, Relaxed);
        self.charge(count.saturating_mul(self.page().costs[8].load(Relaxed)));
    }

    /// Charges one poll of a counter or queue.
    #[inline]
    pub fn charge_poll(&self) {
        self.charge(self.page().costs[1].load(Relaxed));
    }

    /// Charges a copy of n bytes in memory.
    #[inline]
    pub fn charge_copy(&self, bytes: u64) {
        self.charge(bytes.saturating_mul(self.page().costs[4].load(Relaxed)) / 1024);
    }

    #[inline]
    fn charge(&self, price: u64) {
        self.page().time.now_ps.fetch_add(price, Relaxed);
    }

    /// Adds the CPU time that the program has used, if computing costs virtual time.
    pub(crate) fn count_computing(&self) {
        let page = self.page();
        let factor = page.costs[3].load(Relaxed);
        if factor == 0 {
            return;
        }
        let used = real_clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
        let before = page.time.used_ns.swap(used, Relaxed);
        let spent_ps = u128::from(used.saturating_sub(before)) * u128::from(factor) / 1000;
        self.charge(u64::try_from(spent_ps).unwrap_or(0));
    }

    // ---- The next timer ----

    /// Sets the time at which the next timer expires. [`NEVER`]: none is armed.
    pub fn set_alarm(&self, at_ps: u64) {
        self.page().time.alarm_ps.store(at_ps, Relaxed);
    }

    /// Sets the signal whose handler expires timers. The simulator sends it to a rank that computes when a timer is due.
    pub fn set_alarm_signal(&self, signal: i32) {
        self.page().time.alarm_signal.store(signal as u64, Relaxed);
    }

    /// Whether a timer is armed.
    #[inline]
    pub fn has_alarm(&self) -> bool {
        self.page().time.alarm_ps.load(Relaxed) != NEVER
    }

    /// Whether the time of a timer has come.
    #[inline]
    pub fn is_alarm_due(&self) -> bool {
        self.page().time.alarm_ps.load(Relaxed) <= self.now_ps()
    }

    /// Expires timers whose time has come. The caller does not hold the request lock.
    #[inline]
    pub fn expire_alarms(&self) {
        if self.is_alarm_due() {
            self.call_expire();
        }
    }

    #[cold]
    fn call_expire(&self) {
        let mut function = EXPIRE_AT.load(Relaxed);
        if function.is_null() {
            // SAFETY: the name is a C string constant, which `dlsym` only reads.
            function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, EXPIRE.as_ptr()) };
            EXPIRE_AT.store(function, Relaxed);
        }
        if function.is_null() {
            // The library that has armed the timer is gone.
            return self.set_alarm(NEVER);
        }
        // SAFETY: the function of this name takes no arguments and returns nothing.
        unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn()>(function)() }
    }

    // ---- The machine ----

    /// Returns the entries of the machine's TLB, and the entries that an address may be in.
    pub fn tlb(&self) -> (u32, u32) {
        (self.limit(5), self.limit(6))
    }

    /// Returns the number of failing lock requests that the machine's NICs keep.
    pub fn lock_waiters(&self) -> u32 {
        self.limit(9)
    }

    fn limit(&self, at: usize) -> u32 {
        u32::try_from(self.page().costs[at].load(Relaxed)).unwrap_or(u32::MAX)
    }

    /// Whether a full mailbox refuses messages instead of losing them.
    pub fn mailboxes_refuse(&self) -> bool {
        self.page().costs[7].load(Relaxed) & units::MAILBOXES_REFUSE != 0
    }

    /// Whether the machine's nodes have VELO and RMA units with paths of their own.
    pub fn has_units(&self) -> bool {
        self.page().costs[7].load(Relaxed) & units::HAS_PATHS != 0
    }
}
