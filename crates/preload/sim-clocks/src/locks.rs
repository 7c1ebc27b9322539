// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Locks, semaphores and joins with a limit in virtual time. Their state lasts, so a thread may wait for them by the C
//! library's own functions, for short real times.

use std::ffi::{c_int, c_void};

use libc::{clockid_t, timespec};
use selvedge_sim_protocol::{Cause, NEVER, RankEnd};

use crate::conditions::THRD_TIMEDOUT;
use crate::handlers::Held;
use crate::real::next;
use crate::refuse;
use crate::waits::{Ended, Wait, at, real_limit};

/// Waits by a function that returns `without` when its short limit of `CLOCK_REALTIME` has passed.
///
/// # Safety
/// `time` points to a `timespec`.
unsafe fn wait(
    end: &'static RankEnd,
    clock: clockid_t,
    time: *const timespec,
    (without, invalid): (c_int, c_int),
    is_cancelled: bool,
    mut take: impl FnMut(&timespec) -> c_int,
) -> c_int {
    let passed = real_limit(libc::CLOCK_REALTIME, 0);
    // SAFETY: this function's contract.
    let Some(until_ps) = at(clock, unsafe { &*time }) else {
        // The time of a lock that is free need not be valid.
        return match take(&passed) {
            result if result == without => invalid,
            result => result,
        };
    };
    let wait = Wait { is_interrupted: false, is_cancelled, ..Wait::until(end, until_ps) };
    let ended = wait.run(|nap_ns| {
        let result = take(&real_limit(libc::CLOCK_REALTIME, nap_ns));
        (result != without).then_some(result)
    });
    match ended {
        Ended::Event(result) => result,
        Ended::Limit | Ended::Interrupted(_) => without,
    }
}

/// Functions of a lock, a limit of `CLOCK_REALTIME`, and the same with a clock.
macro_rules! of_locks {
    ($($timed:ident, $clocked:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $timed(lock: *mut c_void, time: *const timespec) -> c_int {
            let take = |time: *const timespec| next!($timed(lock, time): fn(*mut c_void, *const timespec) -> c_int);
            match RankEnd::of_process() {
                // SAFETY: C requires a valid `time`.
                Some(end) if !time.is_null() => unsafe {
                    wait(end, libc::CLOCK_REALTIME, time, (libc::ETIMEDOUT, libc::EINVAL), false, |time| take(time))
                },
                _ => take(time),
            }
        }

        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $clocked(lock: *mut c_void, clock: clockid_t, time: *const timespec) -> c_int {
            let take = |time: &timespec| next!($timed(lock, time): fn(*mut c_void, *const timespec) -> c_int);
            match RankEnd::of_process() {
                // SAFETY: C requires a valid `time`.
                Some(end) if !time.is_null() => unsafe {
                    wait(end, clock, time, (libc::ETIMEDOUT, libc::EINVAL), false, take)
                },
                _ => next!($clocked(lock, clock, time): fn(*mut c_void, clockid_t, *const timespec) -> c_int),
            }
        }
    )*};
}
of_locks! {
    pthread_mutex_timedlock, pthread_mutex_clocklock;
    pthread_rwlock_timedrdlock, pthread_rwlock_clockrdlock;
    pthread_rwlock_timedwrlock, pthread_rwlock_clockwrlock;
}

/// C11 7.26.4.4.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn mtx_timedlock(mutex: *mut c_void, time: *const timespec) -> c_int {
    let take = |time: *const timespec| next!(mtx_timedlock(mutex, time): fn(*mut c_void, *const timespec) -> c_int);
    match RankEnd::of_process() {
        // SAFETY: C requires a valid `time`.
        Some(end) if !time.is_null() => unsafe {
            wait(end, libc::CLOCK_REALTIME, time, (THRD_TIMEDOUT, crate::conditions::THRD_ERROR), false, |time| {
                take(time)
            })
        },
        _ => take(time),
    }
}

type Thread = libc::pthread_t;

/// # Safety
/// As for `pthread_clockjoin_np`, with a `time`.
unsafe fn join(
    end: &'static RankEnd,
    thread: Thread,
    result: *mut *mut c_void,
    (clock, time): (clockid_t, *const timespec),
) -> c_int {
    let take = |time: &timespec| {
        // With a time that has passed the C library may not look at the thread.
        match next!(pthread_tryjoin_np(thread, result): fn(Thread, *mut *mut c_void) -> c_int) {
            libc::EBUSY if time.tv_sec != 0 => {
                next!(pthread_timedjoin_np(thread, result, time): fn(Thread, *mut *mut c_void, *const timespec) -> c_int)
            }
            libc::EBUSY => libc::ETIMEDOUT,
            joined => joined,
        }
    };
    // SAFETY: this function's contract.
    unsafe { wait(end, clock, time, (libc::ETIMEDOUT, libc::EINVAL), true, take) }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn pthread_timedjoin_np(
    thread: Thread,
    result: *mut *mut c_void,
    time: *const timespec,
) -> c_int {
    match RankEnd::of_process() {
        // SAFETY: C requires valid arguments.
        Some(end) if !time.is_null() => unsafe { join(end, thread, result, (libc::CLOCK_REALTIME, time)) },
        _ => {
            next!(pthread_timedjoin_np(thread, result, time): fn(Thread, *mut *mut c_void, *const timespec) -> c_int)
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn pthread_clockjoin_np(
    thread: Thread,
    result: *mut *mut c_void,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    match RankEnd::of_process() {
        // SAFETY: C requires valid arguments.
        Some(end) if !time.is_null() => unsafe { join(end, thread, result, (clock, time)) },
        _ => {
            next!(pthread_clockjoin_np(thread, result, clock, time): fn(Thread, *mut *mut c_void, clockid_t, *const timespec) -> c_int)
        }
    }
}

// ---- semaphores ----

/// Takes a semaphore, waiting for at most that long in the kernel. `None`: it is 0.
fn take(semaphore: *mut c_void, nap_ns: u32) -> Option<()> {
    let taken = match nap_ns {
        0 => next!(sem_trywait(semaphore): fn(*mut c_void) -> c_int),
        nap_ns => {
            let limit = real_limit(libc::CLOCK_REALTIME, nap_ns);
            next!(sem_timedwait(semaphore, &raw const limit): fn(*mut c_void, *const timespec) -> c_int)
        }
    };
    (taken == 0).then_some(())
}

/// Whether processes share the semaphore: glibc keeps that behind the value and the number of waiters.
///
/// # Safety
/// `semaphore` points to an initialised `sem_t`.
unsafe fn is_shared(semaphore: *const c_void) -> bool {
    // SAFETY: a `sem_t` has 32 bytes.
    unsafe { semaphore.cast::<u32>().add(2).read_volatile() != 0 }
}

/// # Safety
/// `semaphore` points to a semaphore.
unsafe fn wait_for_semaphore(end: &'static RankEnd, semaphore: *mut c_void, until_ps: u64) -> Ended<()> {
    // SAFETY: this function's contract.
    let cause = if unsafe { is_shared(semaphore) } { Cause::Outside } else { Cause::Inside };
    Wait { cause, ..Wait::until(end, until_ps) }.run(|nap_ns| take(semaphore, nap_ns))
}

/// # Safety
/// `semaphore` points to a semaphore, `time` to a `timespec`.
unsafe fn timed(end: &'static RankEnd, semaphore: *mut c_void, clock: clockid_t, time: *const timespec) -> c_int {
    // SAFETY: this function's contract.
    let Some(until_ps) = at(clock, unsafe { &*time }) else {
        return if take(semaphore, 0).is_some() { 0 } else { refuse(libc::EINVAL) };
    };
    // SAFETY: this function's contract.
    match unsafe { wait_for_semaphore(end, semaphore, until_ps) } {
        Ended::Event(()) => 0,
        Ended::Limit => refuse(libc::ETIMEDOUT),
        Ended::Interrupted(_) => refuse(libc::EINTR),
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn sem_timedwait(semaphore: *mut c_void, time: *const timespec) -> c_int {
    match RankEnd::of_process() {
        // SAFETY: C requires valid pointers.
        Some(end) if !time.is_null() => unsafe { timed(end, semaphore, libc::CLOCK_REALTIME, time) },
        _ => next!(sem_timedwait(semaphore, time): fn(*mut c_void, *const timespec) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn sem_clockwait(semaphore: *mut c_void, clock: clockid_t, time: *const timespec) -> c_int {
    match RankEnd::of_process() {
        // SAFETY: C requires valid pointers.
        Some(end) if !time.is_null() => unsafe { timed(end, semaphore, clock, time) },
        _ => {
            next!(sem_clockwait(semaphore, clock, time): fn(*mut c_void, clockid_t, *const timespec) -> c_int)
        }
    }
}

/// A timer's handler may post the semaphore.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn sem_wait(semaphore: *mut c_void) -> c_int {
    if let Some(end) = RankEnd::of_process() {
        while Wait::until(end, NEVER).is_virtual() {
            // SAFETY: C requires a valid pointer.
            match unsafe { wait_for_semaphore(end, semaphore, NEVER) } {
                Ended::Event(()) => return 0,
                Ended::Interrupted(signal) if !Held::restarts_after(signal) => return refuse(libc::EINTR),
                Ended::Interrupted(_) | Ended::Limit => {}
            }
        }
    }
    next!(sem_wait(semaphore): fn(*mut c_void) -> c_int)
}
