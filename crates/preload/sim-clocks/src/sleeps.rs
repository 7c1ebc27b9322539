// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions that let time pass. A sleep passes the turn to the simulator until its virtual end, or until the handler of a
//! signal has run. A yield, which programs call after an unsuccessful poll, passes the turn, too.

use std::ffi::{c_int, c_uint};

use libc::{clockid_t, timespec, useconds_t};
use selvedge_sim_protocol::{Cause, RankEnd, Watched};

use crate::calibration;
use crate::clocks::when_ps;
use crate::leaks;
use crate::real::next;
use crate::refuse;
use crate::waits::{Ended, Wait, after, at, left_ns, of_timespec, to_timespec};

/// Sleeps until a time. `Err`: a handler has run before that; the value is the time left, in nanoseconds.
fn sleep_until(end: &'static RankEnd, until_ps: u64) -> Result<(), u64> {
    let wait = Wait { cause: Cause::Time, watched: Watched::NOTHING, ..Wait::until(end, until_ps) };
    match wait.run(|_| None::<()>) {
        Ended::Interrupted(_) => Err(left_ns(end, until_ps)),
        _ => Ok(()),
    }
}

/// Lets time pass. A sleep of zero length is a yield.
fn pass(end: &'static RankEnd, ns: u64) -> Result<(), u64> {
    match ns {
        0 => {
            end.give_up_processor();
            Ok(())
        }
        ns => sleep_until(end, after(end, ns)),
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn nanosleep(wanted: *const timespec, left: *mut timespec) -> c_int {
    // SAFETY: C requires `wanted` to be null or to point to a `timespec`.
    match (RankEnd::of_process(), unsafe { wanted.as_ref() }) {
        (Some(end), Some(wanted)) => match of_timespec(wanted).map(|ns| pass(end, ns)) {
            Some(Ok(())) => 0,
            Some(Err(left_ns)) => {
                if !left.is_null() {
                    // SAFETY: C requires `left` to be null or to point to a `timespec`.
                    unsafe { *left = to_timespec(left_ns) };
                }
                refuse(libc::EINTR)
            }
            None => refuse(libc::EINVAL),
        },
        _ => next!(nanosleep(wanted, left): fn(*const timespec, *mut timespec) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    wanted: *const timespec,
    left: *mut timespec,
) -> c_int {
    // SAFETY: C requires `wanted` to be null or to point to a `timespec`.
    match (RankEnd::of_process(), unsafe { wanted.as_ref() }, when_ps(clock, 0)) {
        (Some(end), Some(wanted), Some(_)) if flags & libc::TIMER_ABSTIME == 0 => {
            let Some(ns) = of_timespec(wanted) else { return libc::EINVAL };
            let Err(left_ns) = pass(end, ns) else { return 0 };
            if !left.is_null() {
                // SAFETY: C requires `left` to be null or to point to a `timespec`.
                unsafe { *left = to_timespec(left_ns) };
            }
            libc::EINTR
        }
        (Some(end), Some(wanted), Some(_)) => match at(clock, wanted) {
            Some(until_ps) if until_ps > end.now_ps() && sleep_until(end, until_ps).is_err() => libc::EINTR,
            Some(_) => 0,
            None => libc::EINVAL,
        },
        _ => {
            next!(clock_nanosleep(clock, flags, wanted, left): fn(clockid_t, c_int, *const timespec, *mut timespec) -> c_int)
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn usleep(us: useconds_t) -> c_int {
    match RankEnd::of_process() {
        Some(_) if calibration::leaves_out(us) => 0,
        Some(end) => match pass(end, u64::from(us) * 1000) {
            Ok(()) => 0,
            Err(_) => refuse(libc::EINTR),
        },
        None => next!(usleep(us): fn(useconds_t) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn sleep(seconds: c_uint) -> c_uint {
    match RankEnd::of_process() {
        Some(end) => match pass(end, u64::from(seconds) * 1_000_000_000) {
            Ok(()) => 0,
            Err(left_ns) => (left_ns / 1_000_000_000) as c_uint,
        },
        None => next!(sleep(seconds): fn(c_uint) -> c_uint),
    }
}

/// C11 7.26.5.7: -1 after a signal.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn thrd_sleep(wanted: *const timespec, left: *mut timespec) -> c_int {
    nanosleep(wanted, left)
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn sched_yield() -> c_int {
    match RankEnd::of_process().filter(|_| !leaks::are_searched()) {
        Some(end) => {
            end.give_up_processor();
            0
        }
        None => next!(sched_yield(): fn() -> c_int),
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn pthread_yield() -> c_int {
    sched_yield()
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn thrd_yield() {
    sched_yield();
}
