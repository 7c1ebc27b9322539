// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits for descriptors with a limit in virtual time: `poll`, `select` and `epoll_wait` with their relatives.
//!
//! A look without a limit takes no virtual time, as any call of the kernel, unless a timer is armed: then a program that
//! looks in a loop waits for the timer.

use std::ffi::c_int;
use std::ptr;

use libc::{epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};
use selvedge_os::raw::checked;
use selvedge_sim_protocol::{Cause, NEVER, RankEnd, Watched};

use crate::handlers::{SET_BYTES, of_set};
use crate::real::next;
use crate::refuse;
use crate::waits::{Ended, Wait, after, event_of, kernel, left_ns, of_timespec, of_timeval, to_timespec};

/// Waits for descriptors, at most for that many nanoseconds. `look` is a system call with a short limit, which returns 0
/// when that has passed. `None`: the wait is the kernel's.
fn wait(
    limit_ns: Option<u64>,
    mask: Option<u64>,
    watched: Watched,
    mut look: impl FnMut(u32) -> isize,
) -> Option<c_int> {
    let end = RankEnd::of_process()?;
    if limit_ns == Some(0) {
        if end.has_alarm() {
            end.polled();
        }
        return None;
    }
    let until_ps = limit_ns.map_or(NEVER, |ns| after(end, ns));
    let wait = Wait { cause: Cause::Outside, mask, watched, ..Wait::until(end, until_ps) };
    if !wait.is_virtual() {
        return None;
    }
    match wait.run(|nap_ns| event_of(look(nap_ns), &[]).filter(|result| *result != 0)) {
        Ended::Event(result) => Some(checked(result) as c_int),
        Ended::Interrupted(_) => Some(refuse(libc::EINTR)),
        Ended::Limit if until_ps == NEVER => None,
        Ended::Limit => Some(0),
    }
}

/// Lets time pass without descriptors. A wait of zero length is a yield.
fn without_descriptors(limit_ns: Option<u64>, mask: Option<u64>) -> Option<c_int> {
    match limit_ns {
        Some(0) => {
            RankEnd::of_process()?.give_up_processor();
            Some(0)
        }
        limit_ns => {
            let end = RankEnd::of_process()?;
            let until_ps = limit_ns.map_or(NEVER, |ns| after(end, ns));
            let wait = Wait { mask, cause: Cause::Time, watched: Watched::NOTHING, ..Wait::until(end, until_ps) };
            match wait.is_virtual().then(|| wait.run(|_| None::<()>))? {
                Ended::Interrupted(_) => Some(refuse(libc::EINTR)),
                _ if until_ps == NEVER => None,
                _ => Some(0),
            }
        }
    }
}

fn polled(fds: *mut pollfd, count: nfds_t, limit_ns: Option<u64>, mask: Option<u64>) -> Option<c_int> {
    if count == 0 {
        return without_descriptors(limit_ns, mask);
    }
    let asked = match fds.is_null() {
        true => &[][..],
        // SAFETY: C requires `count` structures at `fds`.
        false => unsafe { std::slice::from_raw_parts(fds, count as usize) },
    };
    let watched = Watched::of(asked.iter().map(|asked| (asked.fd, asked.events)));
    wait(limit_ns, mask, watched, |nap_ns| {
        let limit = to_timespec(nap_ns.into());
        let arguments = [fds as usize, count as usize, (&raw const limit) as usize, 0, 0, 0];
        // SAFETY: C requires `count` structures at `fds`; the kernel reads the limit, and the mask is null.
        unsafe { kernel(libc::SYS_ppoll, arguments) }
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn poll(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int {
    let limit_ns = u64::try_from(timeout_ms).ok().map(|ms| ms * 1_000_000);
    polled(fds, count, limit_ns, None)
        .unwrap_or_else(|| next!(poll(fds, count, timeout_ms): fn(*mut pollfd, nfds_t, c_int) -> c_int))
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let real =
        || next!(ppoll(fds, count, timeout, mask): fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int);
    // SAFETY: C requires `timeout` and `mask` to be null or to point to their structures.
    let (timeout, mask) = unsafe { (timeout.as_ref(), of_set(mask)) };
    let limit_ns = timeout.map(of_timespec);
    match limit_ns {
        Some(None) => real(),
        limit_ns => polled(fds, count, limit_ns.flatten(), mask).unwrap_or_else(real),
    }
}

/// The function of programs that check the bounds of their arrays.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int, room: usize) -> c_int {
    match room / size_of::<pollfd>() < count as usize {
        true => next!(__poll_chk(fds, count, timeout_ms, room): fn(*mut pollfd, nfds_t, c_int, usize) -> c_int),
        false => poll(fds, count, timeout_ms),
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    room: usize,
) -> c_int {
    match room / size_of::<pollfd>() < count as usize {
        true => {
            next!(__ppoll_chk(fds, count, timeout, mask, room): fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t, usize) -> c_int)
        }
        false => ppoll(fds, count, timeout, mask),
    }
}

// ---- select ----

/// Descriptors that a set of the C library has room for; larger ones, which a program makes itself, wait in the kernel.
const SET_DESCRIPTORS: c_int = libc::FD_SETSIZE as c_int;
type Words = [u64; libc::FD_SETSIZE / 64];

/// Calls that wait on copies of three sets, and changes them when the wait has ended.
fn selected(count: c_int, sets: [*mut fd_set; 3], limit_ns: Option<u64>, mask: Option<u64>) -> Option<c_int> {
    if count == 0 || sets.iter().all(|set| set.is_null()) {
        return without_descriptors(limit_ns, mask);
    }
    if !(0..=SET_DESCRIPTORS).contains(&count) {
        return None;
    }
    let words = (count as usize).div_ceil(64);
    let mut asked: [Words; 3] = Default::default();
    for (set, asked) in sets.iter().zip(&mut asked).filter(|(set, _)| !set.is_null()) {
        // SAFETY: C requires a set to have room for `count` descriptors, in whole words.
        unsafe { ptr::copy_nonoverlapping(set.cast::<u64>(), asked.as_mut_ptr(), words) };
    }
    let mut found = asked;
    let result = wait(limit_ns, mask, Watched::UNKNOWN, |nap_ns| {
        found = asked;
        let limit = to_timespec(nap_ns.into());
        let [a, b, c]: [usize; 3] = std::array::from_fn(|at| match sets[at].is_null() {
            true => 0,
            false => found[at].as_mut_ptr() as usize,
        });
        // SAFETY: the sets are null or have room for `count` descriptors; the kernel reads the limit; the mask is null.
        unsafe { kernel(libc::SYS_pselect6, [count as usize, a, b, c, (&raw const limit) as usize, 0]) }
    })?;
    if result >= 0 {
        for (set, found) in sets.iter().zip(&found).filter(|(set, _)| !set.is_null()) {
            // SAFETY: as above. After the limit the copies are empty, as the kernel leaves them.
            unsafe { ptr::copy_nonoverlapping(found.as_ptr(), set.cast::<u64>(), words) };
        }
    }
    Some(result)
}

/// Linux writes the remaining time to `timeout`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn select(
    count: c_int,
    reads: *mut fd_set,
    writes: *mut fd_set,
    errors: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    let real = || next!(select(count, reads, writes, errors, timeout): fn(c_int, *mut fd_set, *mut fd_set, *mut fd_set, *mut timeval) -> c_int);
    // SAFETY: C requires `timeout` to be null or to point to a `timeval`.
    let limit_ns = unsafe { timeout.as_ref() }.map(of_timeval);
    let (Some(end), false) = (RankEnd::of_process(), limit_ns == Some(None)) else { return real() };
    let until_ps = limit_ns.flatten().map(|ns| after(end, ns));
    let Some(result) = selected(count, [reads, writes, errors], limit_ns.flatten(), None) else { return real() };
    if let Some(until_ps) = until_ps {
        let left = left_ns(end, until_ps);
        // SAFETY: `timeout` is not null, since a limit was read from it.
        unsafe {
            *timeout = timeval {
                tv_sec: (left / 1_000_000_000) as libc::time_t,
                tv_usec: (left % 1_000_000_000 / 1000) as libc::suseconds_t,
            }
        };
    }
    result
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn pselect(
    count: c_int,
    reads: *mut fd_set,
    writes: *mut fd_set,
    errors: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let real = || next!(pselect(count, reads, writes, errors, timeout, mask): fn(c_int, *mut fd_set, *mut fd_set, *mut fd_set, *const timespec, *const sigset_t) -> c_int);
    // SAFETY: C requires `timeout` and `mask` to be null or to point to their structures.
    let (limit_ns, mask) = unsafe { (timeout.as_ref().map(of_timespec), of_set(mask)) };
    match limit_ns {
        Some(None) => real(),
        limit_ns => selected(count, [reads, writes, errors], limit_ns.flatten(), mask).unwrap_or_else(real),
    }
}

// ---- epoll ----

fn epolled(
    epoll: c_int,
    events: *mut epoll_event,
    room: c_int,
    limit_ns: Option<u64>,
    mask: Option<u64>,
) -> Option<c_int> {
    let watched = Watched::of([(epoll, libc::POLLIN)].into_iter());
    wait(limit_ns, mask, watched, |nap_ns| {
        let of = [epoll as usize, events as usize, room as usize];
        let limit = to_timespec(nap_ns.into());
        // SAFETY: C requires `room` events at `events`; the kernel reads the limit, and the mask is null.
        let result =
            unsafe { kernel(libc::SYS_epoll_pwait2, [of[0], of[1], of[2], (&raw const limit) as usize, 0, SET_BYTES]) };
        if result != -(libc::ENOSYS as isize) {
            return result;
        }
        let limit_ms = nap_ns.div_ceil(1_000_000) as usize;
        // SAFETY: as above. Linux before 5.11 knows milliseconds only.
        unsafe { kernel(libc::SYS_epoll_pwait, [of[0], of[1], of[2], limit_ms, 0, SET_BYTES]) }
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn epoll_wait(epoll: c_int, events: *mut epoll_event, room: c_int, timeout_ms: c_int) -> c_int {
    let limit_ns = u64::try_from(timeout_ms).ok().map(|ms| ms * 1_000_000);
    epolled(epoll, events, room, limit_ns, None).unwrap_or_else(
        || next!(epoll_wait(epoll, events, room, timeout_ms): fn(c_int, *mut epoll_event, c_int, c_int) -> c_int),
    )
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout_ms: c_int,
    mask: *const sigset_t,
) -> c_int {
    let limit_ns = u64::try_from(timeout_ms).ok().map(|ms| ms * 1_000_000);
    // SAFETY: C requires `mask` to be null or to point to a `sigset_t`.
    epolled(epoll, events, room, limit_ns, unsafe { of_set(mask) }).unwrap_or_else(|| {
        next!(epoll_pwait(epoll, events, room, timeout_ms, mask): fn(c_int, *mut epoll_event, c_int, c_int, *const sigset_t) -> c_int)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let real = || next!(epoll_pwait2(epoll, events, room, timeout, mask): fn(c_int, *mut epoll_event, c_int, *const timespec, *const sigset_t) -> c_int);
    // SAFETY: C requires `timeout` and `mask` to be null or to point to their structures.
    let (limit_ns, mask) = unsafe { (timeout.as_ref().map(of_timespec), of_set(mask)) };
    match limit_ns {
        Some(None) => real(),
        limit_ns => epolled(epoll, events, room, limit_ns.flatten(), mask).unwrap_or_else(real),
    }
}
