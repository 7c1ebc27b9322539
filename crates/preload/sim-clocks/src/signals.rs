// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits for signals in virtual time: with a limit, and without one where a timer of the rank may raise the signal.

use std::ffi::c_int;
use std::ptr;

use libc::{siginfo_t, sigset_t, timespec};
use selvedge_sim_protocol::{Cause, NEVER, RankEnd};

use crate::handlers::{SET_BYTES, of_set};
use crate::posix_timers;
use crate::real::next;
use crate::refuse;
use crate::waits::{Ended, Wait, after, event_of, kernel, of_timespec, to_timespec};

/// Waits for a signal of the set. `Err`: the error number; `None`: time can no longer pass.
///
/// # Safety
/// `set` points to a `sigset_t`, `into` to a `siginfo_t` or is null.
unsafe fn take(wait: &Wait, set: *const sigset_t, into: *mut siginfo_t) -> Option<Result<c_int, c_int>> {
    // SAFETY: all bits zero is a valid `siginfo_t`.
    let mut information: siginfo_t = unsafe { std::mem::zeroed() };
    let ended = wait.run(|nap_ns| {
        let limit = to_timespec(nap_ns.into());
        let arguments = [set as usize, (&raw mut information) as usize, (&raw const limit) as usize, SET_BYTES, 0, 0];
        // SAFETY: the kernel reads a set and a limit, and writes the information.
        event_of(unsafe { kernel(libc::SYS_rt_sigtimedwait, arguments) }, &[libc::EAGAIN])
    });
    match ended {
        Ended::Event(result) if result < 0 => Some(Err(-result as c_int)),
        Ended::Event(signal) => {
            posix_timers::count_overruns(&mut information);
            if !into.is_null() {
                // SAFETY: this function's contract.
                unsafe { into.write(information) };
            }
            Some(Ok(signal as c_int))
        }
        Ended::Interrupted(_) => Some(Err(libc::EINTR)),
        Ended::Limit if wait.until_ps == NEVER => None,
        Ended::Limit => Some(Err(libc::EAGAIN)),
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn sigtimedwait(set: *const sigset_t, into: *mut siginfo_t, limit: *const timespec) -> c_int {
    let real = || next!(sigtimedwait(set, into, limit): fn(*const sigset_t, *mut siginfo_t, *const timespec) -> c_int);
    let Some(end) = RankEnd::of_process() else { return real() };
    // SAFETY: C requires `limit` to be null or to point to a `timespec`.
    let until_ps = match unsafe { limit.as_ref() } {
        None => NEVER,
        Some(limit) => match of_timespec(limit) {
            Some(ns) => after(end, ns),
            None => return refuse(libc::EINVAL),
        },
    };
    let wait = Wait { cause: Cause::Outside, ..Wait::until(end, until_ps) };
    if set.is_null() || !wait.is_virtual() {
        return real();
    }
    // SAFETY: C requires valid pointers.
    match unsafe { take(&wait, set, into) } {
        None => real(),
        Some(Ok(signal)) => signal,
        Some(Err(error)) => refuse(error),
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn sigwaitinfo(set: *const sigset_t, into: *mut siginfo_t) -> c_int {
    sigtimedwait(set, into, ptr::null())
}

/// Unlike the others it returns the error, and no handler ends it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn sigwait(set: *const sigset_t, into: *mut c_int) -> c_int {
    if let Some(end) = RankEnd::of_process() {
        let wait = Wait { cause: Cause::Outside, is_interrupted: false, ..Wait::until(end, NEVER) };
        if !set.is_null() && !into.is_null() && wait.is_virtual() {
            // SAFETY: C requires valid pointers.
            match unsafe { take(&wait, set, ptr::null_mut()) } {
                Some(Ok(signal)) => {
                    // SAFETY: as above.
                    unsafe { *into = signal };
                    return 0;
                }
                Some(Err(error)) => return error,
                None => {}
            }
        }
    }
    next!(sigwait(set, into): fn(*const sigset_t, *mut c_int) -> c_int)
}

/// Waits until a handler has run. False: time can no longer pass.
fn until_handled(mask: Option<u64>) -> bool {
    let Some(end) = RankEnd::of_process() else { return false };
    let wait = Wait { mask, cause: Cause::Time, ..Wait::until(end, NEVER) };
    wait.is_virtual() && matches!(wait.run(|_| None::<()>), Ended::Interrupted(_))
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn pause() -> c_int {
    match until_handled(None) {
        true => refuse(libc::EINTR),
        false => next!(pause(): fn() -> c_int),
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn sigsuspend(mask: *const sigset_t) -> c_int {
    // SAFETY: C requires `mask` to be null or to point to a `sigset_t`.
    match unsafe { of_set(mask) }.is_some_and(|mask| until_handled(Some(mask))) {
        true => refuse(libc::EINTR),
        false => next!(sigsuspend(mask): fn(*const sigset_t) -> c_int),
    }
}
