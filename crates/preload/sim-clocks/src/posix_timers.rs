// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Timers of POSIX (`timer_create`), `setitimer` and `alarm`, in virtual time. Timers of CPU time are the kernel's.

use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

use libc::{clockid_t, itimerspec, itimerval, sigevent, siginfo_t, timer_t, timeval};
use selvedge_sim_protocol::{NEVER, RankEnd};

use crate::real::next;
use crate::refuse;
use crate::timers::{self, Effect, Setting, timer_of};
use crate::waits::{after, at, of_timeval, to_timespec};

/// Our timers' numbers are above those of the kernel, which counts from 0.
const FIRST: c_int = 0x5356_0000;

/// The number of the timer in this place of the table.
pub fn number(place: usize) -> c_int {
    FIRST + place as c_int
}

fn place(number: c_int) -> Option<usize> {
    usize::try_from(number.wrapping_sub(FIRST)).ok().filter(|place| *place < timers::TIMERS)
}

/// The clock of a timer, if that is one of virtual time. The clocks that wake a machine up (8, 9) count as the others do.
pub fn clock_of(clock: clockid_t) -> Option<clockid_t> {
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_TAI => Some(clock),
        libc::CLOCK_MONOTONIC | libc::CLOCK_BOOTTIME => Some(clock),
        libc::CLOCK_REALTIME_ALARM => Some(libc::CLOCK_REALTIME),
        libc::CLOCK_BOOTTIME_ALARM => Some(libc::CLOCK_BOOTTIME),
        _ => None,
    }
}

/// The time at which a timer expires first. `None`: the setting is malformed.
pub fn first_expiry(
    end: &RankEnd,
    clock: clockid_t,
    is_absolute: bool,
    setting: &itimerspec,
) -> Option<(u64, Setting)> {
    let wanted = Setting::of(setting)?;
    let next_ps = match wanted.next_ns {
        0 => NEVER,
        _ if is_absolute => at(clock, &setting.it_value)?,
        ns => after(end, ns),
    };
    Some((next_ps, wanted))
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn timer_create(clock: clockid_t, event: *mut sigevent, into: *mut timer_t) -> c_int {
    let real = || next!(timer_create(clock, event, into): fn(clockid_t, *mut sigevent, *mut timer_t) -> c_int);
    let (Some(_), Some(clock), false) = (RankEnd::of_process(), clock_of(clock), into.is_null()) else { return real() };
    // SAFETY: C requires `event` to be null or to point to a `sigevent`.
    let effect = match unsafe { event.as_ref() } {
        // The value of such a timer is its number.
        None => Effect::Signal { signal: libc::SIGALRM, value: usize::MAX, thread: None },
        Some(event) => {
            let (signal, value) = (event.sigev_signo, event.sigev_value.sival_ptr as usize);
            let is_signal = (1..=64).contains(&signal);
            match event.sigev_notify {
                libc::SIGEV_NONE => Effect::None,
                libc::SIGEV_SIGNAL if is_signal => Effect::Signal { signal, value, thread: None },
                libc::SIGEV_THREAD_ID if is_signal => {
                    Effect::Signal { signal, value, thread: Some(event.sigev_notify_thread_id) }
                }
                libc::SIGEV_THREAD => {
                    // SAFETY: a `sigevent` has room for both words behind `sigev_notify` on Linux.
                    let words = unsafe { std::ptr::from_ref(event).cast::<usize>().add(2) };
                    // SAFETY: as above.
                    let (function, attributes) = unsafe { (words.read(), words.add(1).read()) };
                    Effect::Thread { function, value, attributes }
                }
                _ => return refuse(libc::EINVAL),
            }
        }
    };
    match timers::add(effect, clock) {
        Some(place) => {
            // SAFETY: C requires `into` to point to a `timer_t`.
            unsafe { *into = number(place) as usize as timer_t };
            0
        }
        None => refuse(libc::EAGAIN),
    }
}

/// The place of one of our timers.
fn ours(timer: timer_t) -> Option<(&'static RankEnd, usize)> {
    let (end, place) = (RankEnd::of_process()?, place(c_int::try_from(timer as usize).ok()?)?);
    timers::get(place).is_some().then_some((end, place))
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn timer_settime(
    timer: timer_t,
    flags: c_int,
    setting: *const itimerspec,
    before: *mut itimerspec,
) -> c_int {
    let Some((end, place)) = ours(timer) else {
        return next!(timer_settime(timer, flags, setting, before): fn(timer_t, c_int, *const itimerspec, *mut itimerspec) -> c_int);
    };
    let clock = timers::get(place).map_or(libc::CLOCK_REALTIME, |timer| timer.clock);
    // SAFETY: C requires `setting` to point to an `itimerspec`; null is refused.
    let wanted = unsafe { setting.as_ref() };
    let Some((next_ps, wanted)) =
        wanted.and_then(|wanted| first_expiry(end, clock, flags & libc::TIMER_ABSTIME != 0, wanted))
    else {
        return refuse(libc::EINVAL);
    };
    let Some(was) = timers::set(end, place, next_ps, wanted.interval_ns) else { return refuse(libc::EINVAL) };
    if !before.is_null() {
        // SAFETY: C requires `before` to be null or to point to an `itimerspec`.
        unsafe { *before = was.to_c() };
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn timer_gettime(timer: timer_t, into: *mut itimerspec) -> c_int {
    let setting = ours(timer).and_then(|(end, place)| timers::setting(end, place));
    match setting {
        Some(setting) if !into.is_null() => {
            // SAFETY: C requires `into` to point to an `itimerspec`.
            unsafe { *into = setting.to_c() };
            0
        }
        _ => next!(timer_gettime(timer, into): fn(timer_t, *mut itimerspec) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn timer_getoverrun(timer: timer_t) -> c_int {
    match ours(timer).and_then(|(_, place)| timers::get(place)) {
        Some(timer) => c_int::try_from(timer.overruns).unwrap_or(c_int::MAX),
        None => next!(timer_getoverrun(timer): fn(timer_t) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn timer_delete(timer: timer_t) -> c_int {
    match ours(timer) {
        Some((end, place)) => {
            timers::remove(end, place);
            0
        }
        None => next!(timer_delete(timer): fn(timer_t) -> c_int),
    }
}

/// Writes the overruns of a timer to the information of its signal, which was queued before they happened.
pub fn count_overruns(information: &mut siginfo_t) {
    if let Some((number, overrun)) = timer_of(information) {
        if let Some(timer) = place(number).and_then(timers::get) {
            *overrun = c_int::try_from(timer.overruns).unwrap_or(c_int::MAX);
        }
    }
}

// ---- the alarm of the process ----

/// The place of the alarm's timer, and 1 more; 0: it is not made yet.
static ALARM: AtomicUsize = AtomicUsize::new(0);

fn alarm_place() -> Option<usize> {
    if ALARM.load(SeqCst) == 0 {
        let made = timers::add(Effect::Alarm, libc::CLOCK_MONOTONIC)?;
        if ALARM.compare_exchange(0, made + 1, SeqCst, Relaxed).is_err() {
            timers::remove(RankEnd::of_process()?, made);
        }
    }
    Some(ALARM.load(SeqCst) - 1)
}

/// Sets the alarm: time and interval in nanoseconds. `None`: there are too many timers.
fn set_alarm(end: &RankEnd, next_ns: u64, interval_ns: u64) -> Option<Setting> {
    let next_ps = if next_ns == 0 { NEVER } else { after(end, next_ns) };
    timers::set(end, alarm_place()?, next_ps, interval_ns)
}

fn to_timeval(ns: u64) -> timeval {
    let time = to_timespec(ns);
    timeval { tv_sec: time.tv_sec, tv_usec: time.tv_nsec / 1000 }
}

fn to_itimerval(setting: Setting) -> itimerval {
    // A timer that is armed never shows 0.
    let next_ns = if setting.next_ns == 0 { 0 } else { setting.next_ns.max(1000) };
    itimerval { it_value: to_timeval(next_ns), it_interval: to_timeval(setting.interval_ns) }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn setitimer(which: c_int, setting: *const itimerval, before: *mut itimerval) -> c_int {
    let Some(end) = RankEnd::of_process().filter(|_| which == libc::ITIMER_REAL) else {
        return next!(setitimer(which, setting, before): fn(c_int, *const itimerval, *mut itimerval) -> c_int);
    };
    // SAFETY: C requires `setting` to point to an `itimerval`. Linux takes null for one that is not armed.
    let (next_ns, interval_ns) = match unsafe { setting.as_ref() } {
        None => (Some(0), Some(0)),
        Some(setting) => (of_timeval(&setting.it_value), of_timeval(&setting.it_interval)),
    };
    let (Some(next_ns), Some(interval_ns)) = (next_ns, interval_ns) else { return refuse(libc::EINVAL) };
    let Some(was) = set_alarm(end, next_ns, interval_ns) else { return refuse(libc::EAGAIN) };
    if !before.is_null() {
        // SAFETY: C requires `before` to be null or to point to an `itimerval`.
        unsafe { *before = to_itimerval(was) };
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn getitimer(which: c_int, into: *mut itimerval) -> c_int {
    let end = RankEnd::of_process().filter(|_| which == libc::ITIMER_REAL && !into.is_null());
    match end.and_then(|end| timers::setting(end, alarm_place()?)) {
        Some(setting) => {
            // SAFETY: C requires `into` to point to an `itimerval`.
            unsafe { *into = to_itimerval(setting) };
            0
        }
        None => next!(getitimer(which, into): fn(c_int, *mut itimerval) -> c_int),
    }
}

/// Returns the seconds that were left, rounded, and at least 1 if the alarm was armed.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn alarm(seconds: c_uint) -> c_uint {
    let set = RankEnd::of_process().and_then(|end| set_alarm(end, u64::from(seconds) * 1_000_000_000, 0));
    match set {
        Some(was) if was.next_ns == 0 => 0,
        Some(was) => ((was.next_ns + 500_000_000) / 1_000_000_000).max(1) as c_uint,
        None => next!(alarm(seconds): fn(c_uint) -> c_uint),
    }
}

/// Returns the microseconds that were left.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn ualarm(us: c_uint, interval_us: c_uint) -> c_uint {
    let set = RankEnd::of_process().and_then(|end| set_alarm(end, u64::from(us) * 1000, u64::from(interval_us) * 1000));
    match set {
        Some(was) => (was.next_ns / 1000) as c_uint,
        None => next!(ualarm(us, interval_us): fn(c_uint, c_uint) -> c_uint),
    }
}
