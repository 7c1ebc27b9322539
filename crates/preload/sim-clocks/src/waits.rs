// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits with a limit in virtual time: what the replacements of all such functions have in common.
//!
//! A wait looks for its event by the C library's or the kernel's own function, without a limit or with one of real time
//! that is short. Virtual time passes only while it finds none, and every other thread of the rank waits, too. A signal
//! with a handler ends the wait or, where the call is not interrupted, is handled in between.

use std::ffi::c_int;
use std::pin::pin;

use libc::{clockid_t, timespec, timeval};
use selvedge_os::raw;
use selvedge_sim_protocol::system::{may_have_threads, real_clock_ns};
use selvedge_sim_protocol::{Cause, LimitedWait, NEVER, RankEnd, Watched};

use crate::cancellation::{NotCancelled, address_of, cancel_if_due};
use crate::clocks::when_ps;
use crate::handlers::Held;
use crate::waiters::Waiter;

const NS_PER_S: u64 = 1_000_000_000;

/// The result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended<R> {
    Event(R),
    Limit,
    /// The handler of this signal has run.
    Interrupted(c_int),
}

/// A wait.
pub struct Wait {
    pub end: &'static RankEnd,
    /// Virtual time at which it ends; [`NEVER`]: without limit.
    pub until_ps: u64,
    pub cause: Cause,
    /// A handler ends it.
    pub is_interrupted: bool,
    /// The cancellation of the thread ends it.
    pub is_cancelled: bool,
    /// The descriptors whose readiness is the event.
    pub watched: Watched,
    /// The signals that are blocked meanwhile; `None`: the thread's own mask.
    pub mask: Option<u64>,
}

impl Wait {
    /// A wait for an event that a thread or a timer of this rank causes. A handler ends it.
    pub fn until(end: &'static RankEnd, until_ps: u64) -> Wait {
        let (cause, watched) = (Cause::Inside, Watched::UNKNOWN);
        Wait { end, until_ps, cause, is_interrupted: true, is_cancelled: true, watched, mask: None }
    }

    /// Whether virtual time can pass during the wait. A wait without limit belongs to the kernel, except in a rank with one
    /// thread and an armed timer: the threads of others hand the turn over.
    pub fn is_virtual(&self) -> bool {
        self.until_ps != NEVER || (self.end.has_alarm() && !may_have_threads())
    }

    /// Waits. `look` is that of [`LimitedWait::run`], with the event as its result. Carries a cancellation out, unless the
    /// event has come.
    pub fn run<R>(&self, look: impl FnMut(u32) -> Option<R>) -> Ended<R> {
        if self.is_cancelled {
            cancel_if_due();
        }
        let ended = self.run_to_end(look);
        if self.is_cancelled && !matches!(ended, Ended::Event(_)) {
            cancel_if_due();
        }
        ended
    }

    /// Waits; ends as by its limit when the thread has been cancelled.
    pub fn run_to_end<R>(&self, mut look: impl FnMut(u32) -> Option<R>) -> Ended<R> {
        let not_cancelled = NotCancelled::begin();
        self.end.expire_alarms();
        // SAFETY: `pthread_self` has no preconditions.
        let cancelled = pin!(Waiter::new(address_of(unsafe { libc::pthread_self() })));
        let cancelled = cancelled.as_ref();
        if self.is_cancelled && not_cancelled.was_possible() {
            cancelled.enlist();
        }
        loop {
            let held = Held::begin(self.mask);
            let (mut event, mut signal) = (None, None);
            let Wait { end, until_ps, cause, watched, .. } = *self;
            LimitedWait { end, until_ps, cause, signals: held.signals(), watched }.run(&mut |nap_ns| {
                event = look(nap_ns);
                if event.is_none() {
                    signal = held.signal();
                }
                event.is_some() || signal.is_some() || cancelled.is_woken()
            });
            drop(held);
            match (event, signal) {
                (None, _) if cancelled.is_woken() => return Ended::Limit,
                (Some(event), _) => return Ended::Event(event),
                (None, Some(signal)) if self.is_interrupted => return Ended::Interrupted(signal),
                (None, Some(_)) => {}
                (None, None) => return Ended::Limit,
            }
        }
    }
}

/// The virtual time after a duration. Durations of centuries have no limit.
pub fn after(end: &RankEnd, ns: u64) -> u64 {
    limited(end.now_ps().saturating_add(ns.saturating_mul(1000)))
}

/// The virtual time at which a clock shows a time; `None`: no clock for limits, or a malformed time.
pub fn at(clock: clockid_t, time: &timespec) -> Option<u64> {
    let ns = match of_timespec(time) {
        Some(ns) => ns,
        // A time before 1970 has passed.
        None if time.tv_sec < 0 && (0..1_000_000_000).contains(&time.tv_nsec) => 0,
        None => return None,
    };
    when_ps(clock, ns).map(limited)
}

fn limited(until_ps: u64) -> u64 {
    if until_ps > NEVER / 4 { NEVER } else { until_ps }
}

/// A duration in nanoseconds; `None` if it is negative or malformed.
pub fn of_timespec(time: &timespec) -> Option<u64> {
    let valid = time.tv_sec >= 0 && (0..1_000_000_000).contains(&time.tv_nsec);
    valid.then(|| (time.tv_sec as u64).saturating_mul(NS_PER_S).saturating_add(time.tv_nsec as u64))
}

pub fn of_timeval(time: &timeval) -> Option<u64> {
    let valid = time.tv_sec >= 0 && time.tv_usec >= 0;
    valid.then(|| (time.tv_sec as u64).saturating_mul(NS_PER_S).saturating_add((time.tv_usec as u64) * 1000))
}

pub fn to_timespec(ns: u64) -> timespec {
    timespec { tv_sec: (ns / NS_PER_S) as libc::time_t, tv_nsec: (ns % NS_PER_S) as _ }
}

/// The rest of a wait in nanoseconds.
pub fn left_ns(end: &RankEnd, until_ps: u64) -> u64 {
    until_ps.saturating_sub(end.now_ps()) / 1000
}

/// The reading of a real clock after a short sleep; with 0 a time that has passed.
pub fn real_limit(clock: clockid_t, nap_ns: u32) -> timespec {
    match nap_ns {
        0 => to_timespec(0),
        nap_ns => to_timespec(real_clock_ns(clock) + u64::from(nap_ns)),
    }
}

/// Sleeps in the kernel until the word changes, at most for that long. 0: not at all.
pub fn nap_on(word: &std::sync::atomic::AtomicU32, expected: u32, nap_ns: u32) {
    if nap_ns > 0 {
        selvedge_sim_protocol::system::sleep_on_for(word, expected, nap_ns);
    }
}

/// The event of a system call that was made with a short limit: its result, unless that is one of the errors with which it
/// ends without an event.
pub fn event_of(result: isize, without: &[c_int]) -> Option<isize> {
    let error = if result < 0 { -result as c_int } else { 0 };
    (error != libc::EINTR && !without.contains(&error)).then_some(result)
}

/// A system call with the kernel's result.
///
/// # Safety
/// The requirements of the system call.
pub unsafe fn kernel(number: libc::c_long, arguments: [usize; 6]) -> isize {
    // SAFETY: this function has the requirements of the system call.
    unsafe { raw::call(number, arguments) }
}
