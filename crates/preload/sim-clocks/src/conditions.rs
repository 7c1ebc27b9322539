// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Condition variables with a limit (POSIX `pthread_cond_timedwait`, C11 `cnd_timedwait`) in virtual time.
//!
//! A waiting thread must not hold the mutex while it decides whether virtual time may pass, as it would after each short
//! wait for the C library's condition variable. So it waits for a record of its own ([`crate::waiters`]), and signals go
//! to such records first. Waits without a limit are the C library's.
//!
//! A condition variable that processes share wakes only threads of the waiting rank; see the limits of the simulator.

use std::ffi::{c_int, c_void};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use libc::{clockid_t, timespec};
use selvedge_sim_protocol::RankEnd;

use crate::cancellation::cancel_if_due;
use crate::real::next;
use crate::waiters::{Waiter, wake};
use crate::waits::{Wait, at, nap_on};

/// Results of the functions of C11's threads, as in glibc's `threads.h`.
pub const THRD_SUCCESS: c_int = 0;
pub const THRD_ERROR: c_int = 2;
pub const THRD_TIMEDOUT: c_int = 4;

/// Bytes of a condition variable and its attributes, as they are on Linux, with room.
type Condition = [u32; 32];
type Attributes = [u32; 8];

/// The place of the clock's bit in the C library's condition variables: byte << 8 | mask. 0: not looked for yet.
static CLOCK_BIT: AtomicUsize = AtomicUsize::new(0);
const NO_BIT: usize = usize::MAX;

/// Returns where a condition variable keeps its clock: the bit in which one of the monotonic clock differs from another.
fn clock_bit() -> usize {
    let known = CLOCK_BIT.load(Relaxed);
    if known != 0 {
        return known;
    }
    let make = |clock: clockid_t| {
        let (mut condition, mut attributes): (Condition, Attributes) = ([0; 32], [0; 8]);
        let attributes: *mut c_void = (&raw mut attributes).cast();
        let made: *mut c_void = (&raw mut condition).cast();
        next!(pthread_condattr_init(attributes): fn(*mut c_void) -> c_int);
        next!(pthread_condattr_setclock(attributes, clock): fn(*mut c_void, clockid_t) -> c_int);
        next!(pthread_cond_init(made, attributes): fn(*mut c_void, *mut c_void) -> c_int);
        condition
    };
    let (other, monotonic) = (make(libc::CLOCK_REALTIME), make(libc::CLOCK_MONOTONIC));
    let differing = (0..size_of::<libc::pthread_cond_t>() / 4).find(|&word| other[word] != monotonic[word]);
    let found = differing.map_or(NO_BIT, |word| {
        let bits = other[word] ^ monotonic[word];
        word << 8 | bits.trailing_zeros() as usize | 1 << 7
    });
    CLOCK_BIT.store(found, Relaxed);
    found
}

/// The clock of a condition variable.
///
/// # Safety
/// `condition` points to an initialised `pthread_cond_t`.
unsafe fn clock_of(condition: *const c_void) -> clockid_t {
    let place = clock_bit();
    if place == NO_BIT {
        return libc::CLOCK_REALTIME;
    }
    // SAFETY: the word lies within a condition variable, which is aligned to words.
    let word = unsafe { condition.cast::<u32>().add(place >> 8).read_volatile() };
    if word >> (place & 0x1f) & 1 != 0 { libc::CLOCK_MONOTONIC } else { libc::CLOCK_REALTIME }
}

/// Waits for a signal, until a clock shows a time. The result is that of `pthread_cond_clockwait`.
///
/// # Safety
/// `time` points to a `timespec`, the others to a condition variable and to a mutex that the thread has locked.
unsafe fn wait(
    end: &'static RankEnd,
    condition: *mut c_void,
    mutex: *mut c_void,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: this function's contract.
    let Some(until_ps) = at(clock, unsafe { &*time }) else { return libc::EINVAL };
    let waiter = pin!(Waiter::new(condition as usize));
    let waiter = waiter.as_ref();
    cancel_if_due();
    waiter.enlist();
    let unlocked = next!(pthread_mutex_unlock(mutex): fn(*mut c_void) -> c_int);
    if unlocked != 0 {
        return unlocked;
    }
    let wait = Wait { is_interrupted: false, ..Wait::until(end, until_ps) };
    wait.run_to_end(|nap_ns| {
        if !waiter.is_woken() {
            nap_on(&waiter.woken, 0, nap_ns);
        }
        waiter.is_woken().then_some(())
    });
    let locked = next!(pthread_mutex_lock(mutex): fn(*mut c_void) -> c_int);
    if !waiter.is_woken() {
        // The handlers of a cancelled thread run with the mutex.
        cancel_if_due();
    }
    match locked {
        // A signal that came with the limit is not lost.
        0 if waiter.is_woken() => 0,
        0 => libc::ETIMEDOUT,
        error => error,
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn pthread_cond_timedwait(
    condition: *mut c_void,
    mutex: *mut c_void,
    time: *const timespec,
) -> c_int {
    match RankEnd::of_process() {
        // SAFETY: C requires valid pointers.
        Some(end) if !time.is_null() => unsafe { wait(end, condition, mutex, clock_of(condition), time) },
        _ => {
            next!(pthread_cond_timedwait(condition, mutex, time): fn(*mut c_void, *mut c_void, *const timespec) -> c_int)
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn pthread_cond_clockwait(
    condition: *mut c_void,
    mutex: *mut c_void,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    match RankEnd::of_process() {
        // SAFETY: C requires valid pointers.
        Some(end) if !time.is_null() => unsafe { wait(end, condition, mutex, clock, time) },
        _ => {
            next!(pthread_cond_clockwait(condition, mutex, clock, time): fn(*mut c_void, *mut c_void, clockid_t, *const timespec) -> c_int)
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn cnd_timedwait(condition: *mut c_void, mutex: *mut c_void, time: *const timespec) -> c_int {
    match RankEnd::of_process() {
        Some(end) if !time.is_null() => {
            // SAFETY: C requires valid pointers. glibc's `cnd_t` and `mtx_t` are its condition variables and mutexes.
            match unsafe { wait(end, condition, mutex, libc::CLOCK_REALTIME, time) } {
                0 => THRD_SUCCESS,
                libc::ETIMEDOUT => THRD_TIMEDOUT,
                _ => THRD_ERROR,
            }
        }
        _ => next!(cnd_timedwait(condition, mutex, time): fn(*mut c_void, *mut c_void, *const timespec) -> c_int),
    }
}

/// Whether a thread with a limit took the signal.
fn signals_waiter(condition: *mut c_void) -> bool {
    RankEnd::of_process().is_some() && wake(condition as usize, 1) > 0
}

fn wakes_waiters(condition: *mut c_void) {
    if RankEnd::of_process().is_some() {
        wake(condition as usize, usize::MAX);
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn pthread_cond_signal(condition: *mut c_void) -> c_int {
    match signals_waiter(condition) {
        true => 0,
        false => next!(pthread_cond_signal(condition): fn(*mut c_void) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn pthread_cond_broadcast(condition: *mut c_void) -> c_int {
    wakes_waiters(condition);
    next!(pthread_cond_broadcast(condition): fn(*mut c_void) -> c_int)
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn cnd_signal(condition: *mut c_void) -> c_int {
    match signals_waiter(condition) {
        true => THRD_SUCCESS,
        false => next!(cnd_signal(condition): fn(*mut c_void) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn cnd_broadcast(condition: *mut c_void) -> c_int {
    wakes_waiters(condition);
    next!(cnd_broadcast(condition): fn(*mut c_void) -> c_int)
}
