// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clocks of a simulated rank. Virtual time counts from a fixed date, so that every run shows the same times. CPU
//! time is the part of it during which the rank did not wait.

use std::ffi::{c_int, c_long};

use libc::{clock_t, clockid_t, rusage, time_t, timespec, timeval, timezone};
use selvedge_sim_protocol::{EPOCH_S, RankEnd, UPTIME_S};

use crate::calibration;
use crate::real::next;

const NS_PER_S: u64 = 1_000_000_000;

/// The time that a virtual clock counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// Time since the simulated machine started.
    SinceBoot,
    /// Time since 1970.
    SinceEpoch,
    /// CPU time: the time that this rank did not wait.
    Busy,
}

fn counts(clock: clockid_t) -> Option<Counts> {
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => Some(Counts::SinceEpoch),
        libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_RAW | libc::CLOCK_MONOTONIC_COARSE | libc::CLOCK_BOOTTIME => {
            Some(Counts::SinceBoot)
        }
        libc::CLOCK_PROCESS_CPUTIME_ID | libc::CLOCK_THREAD_CPUTIME_ID => Some(Counts::Busy),
        _ => None,
    }
}

/// The reading of a clock at the start of a run, in nanoseconds.
fn at_start_ns(counts: Counts) -> u64 {
    match counts {
        Counts::SinceBoot => UPTIME_S * NS_PER_S,
        Counts::SinceEpoch => EPOCH_S * NS_PER_S,
        Counts::Busy => 0,
    }
}

fn read_ns(end: &RankEnd, counts: Counts) -> u64 {
    let ps = if counts == Counts::Busy { end.busy_ps() } else { end.read_clock() };
    at_start_ns(counts) + ps / 1000
}

/// The time at which a clock reads `shows_ns`, in picoseconds since the start. `None`: it supports no sleep.
pub fn when_ps(clock: clockid_t, shows_ns: u64) -> Option<u64> {
    let counts = counts(clock).filter(|counts| *counts != Counts::Busy)?;
    Some(shows_ns.saturating_sub(at_start_ns(counts)).saturating_mul(1000))
}

fn to_timespec(ns: u64) -> timespec {
    timespec { tv_sec: (ns / NS_PER_S) as time_t, tv_nsec: (ns % NS_PER_S) as c_long }
}

fn to_timeval(ns: u64) -> timeval {
    timeval { tv_sec: (ns / NS_PER_S) as time_t, tv_usec: (ns % NS_PER_S / 1000) as libc::suseconds_t }
}

fn epoch_ns(end: &RankEnd) -> u64 {
    read_ns(end, Counts::SinceEpoch)
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn clock_gettime(clock: clockid_t, into: *mut timespec) -> c_int {
    match (RankEnd::of_process(), counts(clock)) {
        (Some(end), Some(counts)) if !into.is_null() => {
            // SAFETY: C requires `into` to point to a `timespec` or be null, and it is not null here.
            unsafe { *into = to_timespec(read_ns(end, counts)) };
            0
        }
        _ => next!(clock_gettime(clock, into): fn(clockid_t, *mut timespec) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn clock_getres(clock: clockid_t, into: *mut timespec) -> c_int {
    match (RankEnd::of_process(), counts(clock)) {
        (Some(_), Some(_)) if !into.is_null() => {
            // SAFETY: C requires `into` to point to a `timespec` or be null, and it is not null here.
            unsafe { *into = timespec { tv_sec: 0, tv_nsec: 1 } };
            0
        }
        _ => next!(clock_getres(clock, into): fn(clockid_t, *mut timespec) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn gettimeofday(into: *mut timeval, zone: *mut timezone) -> c_int {
    let Some(end) = RankEnd::of_process() else {
        return next!(gettimeofday(into, zone): fn(*mut timeval, *mut timezone) -> c_int);
    };
    // SAFETY: C requires `into` and `zone` to be null or to point to their structures, and only pointers that are not null
    // are written to. A `timezone` is two `int`s; zeros mean Greenwich.
    unsafe {
        if !into.is_null() {
            *into = to_timeval(epoch_ns(end) + calibration::slept_ns());
        }
        if !zone.is_null() {
            zone.cast::<[c_int; 2]>().write([0; 2]);
        }
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn time(into: *mut time_t) -> time_t {
    let Some(end) = RankEnd::of_process() else {
        return next!(time(into): fn(*mut time_t) -> time_t);
    };
    let seconds = (epoch_ns(end) / NS_PER_S) as time_t;
    if !into.is_null() {
        // SAFETY: C requires `into` to point to a `time_t` or be null, and it is not null here.
        unsafe { *into = seconds };
    }
    seconds
}

/// C11 7.27.2.5. Base 1 (`TIME_UTC`) is the time since 1970.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn timespec_get(into: *mut timespec, base: c_int) -> c_int {
    match RankEnd::of_process() {
        Some(end) if base == 1 && !into.is_null() => {
            // SAFETY: C requires `into` to point to a `timespec` or be null, and it is not null here.
            unsafe { *into = to_timespec(epoch_ns(end)) };
            base
        }
        _ => next!(timespec_get(into, base): fn(*mut timespec, c_int) -> c_int),
    }
}

/// The result of `ftime`.
#[repr(C)]
pub struct Timeb {
    time: time_t,
    millitm: u16,
    timezone: i16,
    dstflag: i16,
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn ftime(into: *mut Timeb) -> c_int {
    match RankEnd::of_process() {
        Some(end) if !into.is_null() => {
            let ns = epoch_ns(end);
            let time = (ns / NS_PER_S) as time_t;
            // SAFETY: C requires `into` to point to a `timeb` or be null, and it is not null here.
            unsafe { *into = Timeb { time, millitm: (ns % NS_PER_S / 1_000_000) as u16, timezone: 0, dstflag: 0 } };
            0
        }
        _ => next!(ftime(into): fn(*mut Timeb) -> c_int),
    }
}

/// CPU time in microseconds.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn clock() -> clock_t {
    match RankEnd::of_process() {
        Some(end) => (read_ns(end, Counts::Busy) / 1000) as clock_t,
        None => next!(clock(): fn() -> clock_t),
    }
}

/// Clock ticks of `times` a second: `sysconf(_SC_CLK_TCK)` on Linux.
const TICKS_PER_S: u64 = 100;

#[unsafe(no_mangle)]
pub extern "C-unwind" fn times(into: *mut libc::tms) -> clock_t {
    let Some(end) = RankEnd::of_process() else {
        return next!(times(into): fn(*mut libc::tms) -> clock_t);
    };
    let ticks = |ns: u64| (ns / (NS_PER_S / TICKS_PER_S)) as clock_t;
    let now = read_ns(end, Counts::SinceBoot);
    if !into.is_null() {
        let busy = ticks(read_ns(end, Counts::Busy));
        // SAFETY: C requires `into` to point to a `tms` or be null, and it is not null here.
        unsafe { *into = libc::tms { tms_utime: busy, tms_stime: 0, tms_cutime: 0, tms_cstime: 0 } };
    }
    ticks(now)
}

/// Only the times are replaced; the other fields are the kernel's.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn getrusage(who: c_int, into: *mut rusage) -> c_int {
    let result = next!(getrusage(who, into): fn(c_int, *mut rusage) -> c_int);
    if result == 0 && matches!(who, libc::RUSAGE_SELF | libc::RUSAGE_THREAD) {
        if let Some(end) = RankEnd::of_process() {
            // SAFETY: the C library's call succeeded, so `into` points to the `rusage` that it has just filled.
            unsafe {
                (*into).ru_utime = to_timeval(read_ns(end, Counts::Busy));
                (*into).ru_stime = to_timeval(0);
            }
        }
    }
    result
}
