// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits that a program makes through `syscall`: futexes with a limit, which runtimes of languages and of OpenMP use, and
//! the system calls whose functions this library replaces. Clocks that are read through `syscall` are real, and so are
//! system calls that a program makes by an instruction of its own.

use std::ffi::{c_int, c_long};
use std::pin::pin;

use libc::timespec;
use selvedge_os::raw::checked;
use selvedge_sim_protocol::{Cause, NEVER, RankEnd};

use crate::real::next;
use crate::waiters::{Waiter, wake};
use crate::waits::{Ended, Wait, after, at, event_of, kernel, of_timespec, real_limit, to_timespec};
use crate::{descriptors, posix_timers, signals, sleeps, timer_files};

const COMMAND: usize = !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) as usize & 0xff;
const LOCK_PI2: c_int = 13;
const SYS_FUTEX_WAITV: c_long = 449;

type Words = [usize; 6];

fn real(number: c_long, [a, b, c, d, e, f]: Words) -> c_long {
    next!(syscall(number, a, b, c, d, e, f): fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long)
}

/// glibc's function is variadic: six arguments are passed in any case, with any values where the caller gave fewer.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
    let words = [a, b, c, d, e, f];
    let Some(end) = RankEnd::if_attached() else { return real(number, words) };
    let result: c_int = match number {
        libc::SYS_futex => return futex(end, words),
        SYS_FUTEX_WAITV => return wait_for_several(end, words),
        libc::SYS_poll => descriptors::poll(a as _, b as _, c as _),
        libc::SYS_ppoll => descriptors::ppoll(a as _, b as _, c as _, d as _),
        libc::SYS_select => descriptors::select(a as _, b as _, c as _, d as _, e as _),
        libc::SYS_epoll_wait => descriptors::epoll_wait(a as _, b as _, c as _, d as _),
        libc::SYS_epoll_pwait => descriptors::epoll_pwait(a as _, b as _, c as _, d as _, e as _),
        libc::SYS_epoll_pwait2 => descriptors::epoll_pwait2(a as _, b as _, c as _, d as _, e as _),
        libc::SYS_nanosleep => sleeps::nanosleep(a as _, b as _),
        libc::SYS_clock_nanosleep => match sleeps::clock_nanosleep(a as _, b as _, c as _, d as _) {
            0 => 0,
            error => crate::refuse(error),
        },
        libc::SYS_rt_sigtimedwait => signals::sigtimedwait(a as _, b as _, c as _),
        libc::SYS_pause => signals::pause(),
        libc::SYS_timerfd_create => timer_files::timerfd_create(a as _, b as _),
        libc::SYS_timerfd_settime => timer_files::timerfd_settime(a as _, b as _, c as _, d as _),
        libc::SYS_timerfd_gettime => timer_files::timerfd_gettime(a as _, b as _),
        libc::SYS_setitimer => posix_timers::setitimer(a as _, b as _, c as _),
        libc::SYS_getitimer => posix_timers::getitimer(a as _, b as _),
        libc::SYS_alarm => return c_long::from(posix_timers::alarm(a as _)),
        libc::SYS_rt_sigaction => {
            let result = real(number, words);
            crate::handlers::forget();
            return result;
        }
        _ => return real(number, words),
    };
    result.into()
}

fn futex(end: &'static RankEnd, words: Words) -> c_long {
    let [word, operation, value, limit, ..] = words;
    let is_real_time = operation & libc::FUTEX_CLOCK_REALTIME as usize != 0;
    let clock = if is_real_time { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
    let command = (operation & COMMAND) as c_int;
    match command {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {}
        libc::FUTEX_LOCK_PI | LOCK_PI2 if limit != 0 => {}
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => {
            let here = wake(word, value);
            let there = real(libc::SYS_futex, words);
            return if there < 0 { there } else { there.max(here as c_long) };
        }
        libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE | libc::FUTEX_WAKE_OP => {
            wake(word, usize::MAX);
            return real(libc::SYS_futex, words);
        }
        _ => return real(libc::SYS_futex, words),
    }
    // SAFETY: the limit of these operations is null or a `timespec` of the caller.
    let until_ps = match unsafe { (limit as *const timespec).as_ref() } {
        None => Some(NEVER),
        Some(limit) => match command {
            libc::FUTEX_WAIT => of_timespec(limit).map(|ns| after(end, ns)),
            libc::FUTEX_LOCK_PI => at(libc::CLOCK_REALTIME, limit),
            _ => at(clock, limit),
        },
    };
    let Some(until_ps) = until_ps else { return crate::refuse(libc::EINVAL).into() };
    let is_private = operation & libc::FUTEX_PRIVATE_FLAG as usize != 0;
    let cause = if is_private { Cause::Inside } else { Cause::Outside };
    let wait = Wait { cause, ..Wait::until(end, until_ps) };
    if !wait.is_virtual() {
        return real(libc::SYS_futex, words);
    }
    let waiter = pin!(Waiter::new(word));
    let waiter = waiter.as_ref();
    waiter.enlist();
    let ended = wait.run(|nap_ns| {
        if waiter.is_woken() {
            return Some(0);
        }
        let limit = match command {
            libc::FUTEX_WAIT => to_timespec(nap_ns.into()),
            libc::FUTEX_LOCK_PI => real_limit(libc::CLOCK_REALTIME, nap_ns),
            _ => real_limit(clock, nap_ns),
        };
        let mut words = words;
        words[3] = (&raw const limit) as usize;
        // SAFETY: the caller's operation, with another limit.
        let result = unsafe { kernel(libc::SYS_futex, words) };
        event_of(if waiter.is_woken() { 0 } else { result }, &[libc::ETIMEDOUT])
    });
    result_of(ended)
}

fn result_of(ended: Ended<isize>) -> c_long {
    checked(match ended {
        Ended::Event(result) => result,
        Ended::Limit => -(libc::ETIMEDOUT as isize),
        Ended::Interrupted(_) => -(libc::EINTR as isize),
    })
}

/// `futex_waitv`: several words, until a clock shows a time. A wake-up of a word whose value stays may be lost.
fn wait_for_several(end: &'static RankEnd, words: Words) -> c_long {
    let [_, _, _, limit, clock, _] = words;
    // SAFETY: the limit is null or a `timespec` of the caller.
    let Some(limit) = (unsafe { (limit as *const timespec).as_ref() }) else { return real(SYS_FUTEX_WAITV, words) };
    let clock = clock as libc::clockid_t;
    let Some(until_ps) = at(clock, limit) else { return crate::refuse(libc::EINVAL).into() };
    let wait = Wait { cause: Cause::Outside, ..Wait::until(end, until_ps) };
    if !wait.is_virtual() {
        return real(SYS_FUTEX_WAITV, words);
    }
    result_of(wait.run(|nap_ns| {
        let limit = real_limit(clock, nap_ns);
        let mut words = words;
        words[3] = (&raw const limit) as usize;
        // SAFETY: the caller's operation, with another limit.
        event_of(unsafe { kernel(SYS_FUTEX_WAITV, words) }, &[libc::ETIMEDOUT])
    }))
}
