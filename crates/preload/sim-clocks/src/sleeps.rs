// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions that let time pass. A sleep passes the turn to the simulator until its virtual end. So does a yield, which
//! programs call after an unsuccessful poll.

use std::ffi::{c_int, c_uint};

use libc::{clockid_t, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval, useconds_t};
use selvedge_sim_protocol::RankEnd;

use crate::calibration;
use crate::clocks::when_ps;
use crate::leaks;
use crate::real::next;
use crate::refuse;

/// A duration in nanoseconds; `None` if it is negative or malformed.
fn of_timespec(time: &timespec) -> Option<u64> {
    let valid = time.tv_sec >= 0 && (0..1_000_000_000).contains(&time.tv_nsec);
    valid.then(|| (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64))
}

fn of_timeval(time: &timeval) -> Option<u64> {
    let valid = time.tv_sec >= 0 && time.tv_usec >= 0;
    valid.then(|| (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_usec as u64 * 1000))
}

/// Lets time pass. A sleep of zero length is a yield.
fn pass(end: &RankEnd, ns: u64) {
    match ns {
        0 => end.give_up_processor(),
        ns => end.sleep(end.now_ps().saturating_add(ns.saturating_mul(1000))),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn nanosleep(wanted: *const timespec, left: *mut timespec) -> c_int {
    // SAFETY: C requires `wanted` to be null or to point to a `timespec`.
    match (RankEnd::of_process(), unsafe { wanted.as_ref() }) {
        (Some(end), Some(wanted)) => match of_timespec(wanted) {
            Some(ns) => {
                pass(end, ns);
                0
            }
            None => refuse(libc::EINVAL),
        },
        _ => next!(nanosleep(wanted, left): fn(*const timespec, *mut timespec) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    wanted: *const timespec,
    left: *mut timespec,
) -> c_int {
    // SAFETY: C requires `wanted` to be null or to point to a `timespec`.
    match (RankEnd::of_process(), unsafe { wanted.as_ref() }, when_ps(clock, 0)) {
        (Some(end), Some(wanted), Some(_)) => {
            let Some(ns) = of_timespec(wanted) else { return libc::EINVAL };
            if flags & libc::TIMER_ABSTIME == 0 {
                pass(end, ns);
            } else if let Some(until) = when_ps(clock, ns).filter(|until| *until > end.now_ps()) {
                end.sleep(until);
            }
            0
        }
        _ => {
            next!(clock_nanosleep(clock, flags, wanted, left): fn(clockid_t, c_int, *const timespec, *mut timespec) -> c_int)
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn usleep(us: useconds_t) -> c_int {
    match RankEnd::of_process() {
        Some(_) if calibration::leaves_out(us) => 0,
        Some(end) => {
            pass(end, u64::from(us) * 1000);
            0
        }
        None => next!(usleep(us): fn(useconds_t) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn sleep(seconds: c_uint) -> c_uint {
    match RankEnd::of_process() {
        Some(end) => {
            pass(end, u64::from(seconds) * 1_000_000_000);
            0
        }
        None => next!(sleep(seconds): fn(c_uint) -> c_uint),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn thrd_sleep(wanted: *const timespec, left: *mut timespec) -> c_int {
    nanosleep(wanted, left)
}

#[unsafe(no_mangle)]
pub extern "C" fn sched_yield() -> c_int {
    match RankEnd::of_process().filter(|_| !leaks::are_searched()) {
        Some(end) => {
            end.give_up_processor();
            0
        }
        None => next!(sched_yield(): fn() -> c_int),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_yield() -> c_int {
    sched_yield()
}

#[unsafe(no_mangle)]
pub extern "C" fn thrd_yield() {
    sched_yield();
}

#[unsafe(no_mangle)]
pub extern "C" fn poll(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int {
    match RankEnd::of_process() {
        Some(end) if count == 0 && timeout_ms >= 0 => {
            pass(end, timeout_ms as u64 * 1_000_000);
            0
        }
        _ => next!(poll(fds, count, timeout_ms): fn(*mut pollfd, nfds_t, c_int) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int {
    // SAFETY: C requires `timeout` to be null or to point to a `timespec`.
    let ns = unsafe { timeout.as_ref() }.and_then(of_timespec);
    match (RankEnd::of_process(), ns) {
        (Some(end), Some(ns)) if count == 0 => {
            pass(end, ns);
            0
        }
        _ => {
            next!(ppoll(fds, count, timeout, mask): fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int)
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn select(
    count: c_int,
    reads: *mut fd_set,
    writes: *mut fd_set,
    errors: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    let nothing = count == 0 || (reads.is_null() && writes.is_null() && errors.is_null());
    // SAFETY: C requires `timeout` to be null or to point to a `timeval`.
    let ns = unsafe { timeout.as_ref() }.and_then(of_timeval);
    match (RankEnd::of_process(), ns) {
        (Some(end), Some(ns)) if nothing => {
            pass(end, ns);
            // SAFETY: `timeout` is not null, since `ns` was read from it. Linux writes the remaining time there.
            unsafe { *timeout = timeval { tv_sec: 0, tv_usec: 0 } };
            0
        }
        _ => {
            next!(select(count, reads, writes, errors, timeout): fn(c_int, *mut fd_set, *mut fd_set, *mut fd_set, *mut timeval) -> c_int)
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn pselect(
    count: c_int,
    reads: *mut fd_set,
    writes: *mut fd_set,
    errors: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let nothing = count == 0 || (reads.is_null() && writes.is_null() && errors.is_null());
    // SAFETY: C requires `timeout` to be null or to point to a `timespec`.
    let ns = unsafe { timeout.as_ref() }.and_then(of_timespec);
    match (RankEnd::of_process(), ns) {
        (Some(end), Some(ns)) if nothing => {
            pass(end, ns);
            0
        }
        _ => {
            next!(pselect(count, reads, writes, errors, timeout, mask): fn(c_int, *mut fd_set, *mut fd_set, *mut fd_set, *const timespec, *const sigset_t) -> c_int)
        }
    }
}
