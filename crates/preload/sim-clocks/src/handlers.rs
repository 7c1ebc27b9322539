// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The signals for which the program has a handler, and how a wait that lets virtual time pass is interrupted by one.
//!
//! Such a wait consists of steps, between which a signal's handler could run unnoticed. So signals with a handler are
//! held back meanwhile, and the wait looks between its steps whether one is pending. Signals without a handler have their
//! default effect at once.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use libc::sigset_t;
use selvedge_os::raw;

use crate::real::next;

/// The signal by which the simulator tells a rank that computes that a timer is due.
pub const TIMER_DUE: c_int = 61;

/// Bytes of the kernel's set of signals.
pub const SET_BYTES: usize = 8;

const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Signals that are not held back: they cannot be, the thread's own instruction causes them, or they are the C library's.
const NEVER_HELD: u64 = bit(libc::SIGKILL)
    | bit(libc::SIGSTOP)
    | bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS)
    | bit(libc::SIGABRT)
    | bit(32)
    | bit(33)
    | bit(TIMER_DUE);

static HANDLED: AtomicU64 = AtomicU64::new(0);
static ARE_KNOWN: AtomicBool = AtomicBool::new(false);

/// Notes that an action may have changed.
pub fn forget() {
    ARE_KNOWN.store(false, Release);
}

/// The signals that have a handler and may be held back.
fn handled() -> u64 {
    if ARE_KNOWN.load(Acquire) {
        return HANDLED.load(Relaxed);
    }
    // An action that changes meanwhile makes the result unknown again.
    ARE_KNOWN.store(cfg!(target_arch = "x86_64"), Release);
    let found = (1..=64).filter(|signal| NEVER_HELD & bit(*signal) == 0 && handler(*signal) > libc::SIG_IGN);
    let found = found.map(bit).fold(0, |all, one| all | one);
    HANDLED.store(found, Relaxed);
    found
}

/// The action of a signal as the kernel has it: handler, flags, restorer, mask.
fn action(signal: c_int) -> [usize; 4] {
    let mut action = [0; 4];
    let into = (&raw mut action) as usize;
    // SAFETY: the kernel writes its structure of four words, and reads nothing.
    unsafe { raw::call(libc::SYS_rt_sigaction, [signal as usize, 0, into, SET_BYTES, 0, 0]) };
    action
}

fn handler(signal: c_int) -> usize {
    action(signal)[0]
}

/// Sets the thread's mask; returns the one before.
pub fn set_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    let arguments =
        [libc::SIG_SETMASK as usize, (&raw const mask) as usize, (&raw mut before) as usize, SET_BYTES, 0, 0];
    // SAFETY: the kernel reads one set and writes one, each of eight bytes.
    unsafe { raw::call(libc::SYS_rt_sigprocmask, arguments) };
    before
}

fn mask() -> u64 {
    let mut now = 0u64;
    // SAFETY: the kernel writes a set of eight bytes.
    unsafe { raw::call(libc::SYS_rt_sigprocmask, [0, 0, (&raw mut now) as usize, SET_BYTES, 0, 0]) };
    now
}

/// The signals that wait to be handled by this thread.
pub fn pending() -> u64 {
    let mut now = 0u64;
    // SAFETY: the kernel writes a set of eight bytes.
    unsafe { raw::call(libc::SYS_rt_sigpending, [(&raw mut now) as usize, SET_BYTES, 0, 0, 0, 0]) };
    now
}

/// The signals of a C set.
///
/// # Safety
/// `set` is null or points to a `sigset_t`.
pub unsafe fn of_set(set: *const sigset_t) -> Option<u64> {
    // SAFETY: the C library's set begins with the kernel's, of eight bytes.
    unsafe { set.cast::<u64>().as_ref().copied() }
}

/// Blocks the signals of the thread while this value lives, except those of its own instructions: reading the processor's
/// counter is a fault.
pub struct NoSignals(u64);

impl NoSignals {
    pub fn begin() -> NoSignals {
        NoSignals(set_mask(mask() | !NEVER_HELD | bit(TIMER_DUE)))
    }
}

impl Drop for NoSignals {
    fn drop(&mut self) {
        set_mask(self.0);
    }
}

/// Holds signals with a handler back while this value lives. When it is dropped, those that are pending are handled.
pub struct Held {
    /// The thread's mask before.
    before: u64,
    /// The mask of the wait.
    waits_with: u64,
    held: u64,
}

impl Held {
    /// `mask`: the mask that the waiting call sets; `None`: the thread's own.
    pub fn begin(mask_of_call: Option<u64>) -> Held {
        let held = handled();
        match mask_of_call {
            None if held == 0 => Held { before: 0, waits_with: 0, held },
            None => {
                let before = mask();
                set_mask(before | held);
                Held { before, waits_with: before, held }
            }
            Some(waits_with) => Held { before: set_mask(waits_with | held), waits_with, held },
        }
    }

    /// The signals that interrupt the wait.
    pub fn signals(&self) -> u64 {
        self.held & !self.waits_with
    }

    /// Returns a signal that interrupts the wait.
    pub fn signal(&self) -> Option<c_int> {
        if self.held == 0 {
            return None;
        }
        let due = pending() & self.signals();
        (due != 0).then_some(due.trailing_zeros() as c_int + 1)
    }

    /// Whether a call that a signal interrupts is made again (`SA_RESTART`).
    pub fn restarts_after(signal: c_int) -> bool {
        action(signal)[1] & libc::SA_RESTART as usize != 0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.waits_with != self.before {
            // Signals that only the wait lets through are handled here.
            set_mask(self.waits_with);
        }
        if self.held != 0 || self.waits_with != self.before {
            set_mask(self.before);
        }
    }
}

macro_rules! that_change_actions {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            let result = next!($name($($argument),*): fn($($type),*) -> $result);
            forget();
            result
        }
    )*};
}
that_change_actions! {
    bsd_signal(signal: c_int, handler: usize) -> usize;
    ssignal(signal: c_int, handler: usize) -> usize;
    sysv_signal(signal: c_int, handler: usize) -> usize;
    __sysv_signal(signal: c_int, handler: usize) -> usize;
    sigset(signal: c_int, handler: usize) -> usize;
    sigignore(signal: c_int) -> c_int;
    siginterrupt(signal: c_int, interrupts: c_int) -> c_int;
}
