// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Timers with a descriptor (`timerfd_create`), in virtual time.
//!
//! The descriptor is that of an event counter (`eventfd`), which is read, polled and duplicated as that of a timer: an
//! expiry adds 1 to its count. We write through a descriptor of our own of the same file, so a number that the program
//! has closed and used again is never written to.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use libc::{clockid_t, itimerspec};
use selvedge_os::raw;
use selvedge_sim_protocol::{NEVER, RankEnd};

use crate::posix_timers::{clock_of, first_expiry};
use crate::real::next;
use crate::refuse;
use crate::timers::{self, Effect, Setting};
use crate::waits::{event_of, kernel, to_timespec};

/// Timers with a descriptor. Without any, `close` costs nothing.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Our descriptors have numbers from here on, where the limit of the process allows them.
const OWN_FROM: c_int = 900;
/// Numbers that are searched for duplicates of a closed descriptor.
const NUMBERS: c_int = 1024;

fn call(number: libc::c_long, a: usize, b: usize, c: usize) -> isize {
    // SAFETY: the callers pass descriptors and numbers only.
    unsafe { raw::call(number, [a, b, c, 0, 0, 0]) }
}

/// Whether two descriptors are of one file. Where the kernel does not say, `otherwise`.
fn are_same(one: c_int, other: c_int, otherwise: bool) -> bool {
    const KCMP_FILE: usize = 0;
    // SAFETY: `getpid` has no preconditions, and the call takes numbers only.
    let compared = unsafe {
        let process = libc::getpid() as usize;
        raw::call(libc::SYS_kcmp, [process, process, KCMP_FILE, one as usize, other as usize, 0])
    };
    match -compared as c_int {
        0 => true,
        libc::ENOSYS | libc::EPERM => otherwise,
        _ => false,
    }
}

/// The timer of a descriptor, and our descriptor of its file.
fn timer_of(file: c_int) -> Option<(&'static RankEnd, usize, c_int)> {
    if COUNT.load(Relaxed) == 0 {
        return None;
    }
    let end = RankEnd::of_process()?;
    let mut found = None;
    let place = timers::find(|timer| match timer.effect {
        Effect::Descriptor { file: number, own } if are_same(file, own, file == number) => {
            found = Some(own);
            true
        }
        _ => false,
    })?;
    Some((end, place, found?))
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn timerfd_create(clock: clockid_t, flags: c_int) -> c_int {
    let (Some(_), Some(clock)) = (RankEnd::of_process(), clock_of(clock)) else {
        return next!(timerfd_create(clock, flags): fn(clockid_t, c_int) -> c_int);
    };
    if flags & !(libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) != 0 {
        return refuse(libc::EINVAL);
    }
    const _: () = assert!(libc::TFD_CLOEXEC == libc::EFD_CLOEXEC && libc::TFD_NONBLOCK == libc::EFD_NONBLOCK);
    let file = raw::checked(call(libc::SYS_eventfd2, 0, flags as usize, 0)) as c_int;
    if file < 0 {
        return file;
    }
    let duplicate =
        |from: c_int| call(libc::SYS_fcntl, file as usize, libc::F_DUPFD_CLOEXEC as usize, from as usize) as c_int;
    let own = match duplicate(OWN_FROM) {
        own if own < 0 => duplicate(3),
        own => own,
    };
    let made = (own >= 0).then(|| timers::add(Effect::Descriptor { file, own }, clock)).flatten();
    if made.is_none() {
        for file in [file, own] {
            call(libc::SYS_close, file as usize, 0, 0);
        }
        return refuse(libc::EMFILE);
    }
    COUNT.fetch_add(1, Relaxed);
    file
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn timerfd_settime(
    file: c_int,
    flags: c_int,
    setting: *const itimerspec,
    before: *mut itimerspec,
) -> c_int {
    let Some((end, place, own)) = timer_of(file) else {
        return next!(timerfd_settime(file, flags, setting, before): fn(c_int, c_int, *const itimerspec, *mut itimerspec) -> c_int);
    };
    let clock = timers::get(place).map_or(libc::CLOCK_REALTIME, |timer| timer.clock);
    // SAFETY: C requires `setting` to point to an `itimerspec`; null is refused.
    let wanted = unsafe { setting.as_ref() };
    let is_absolute = flags & libc::TFD_TIMER_ABSTIME != 0;
    let Some((next_ps, wanted)) = wanted.and_then(|wanted| first_expiry(end, clock, is_absolute, wanted)) else {
        return refuse(libc::EINVAL);
    };
    let was = timers::setting(end, place);
    // Expiries of the setting before are forgotten.
    timers::set(end, place, NEVER, 0);
    empty(own);
    timers::set(end, place, next_ps, wanted.interval_ns);
    if let (false, Some(was)) = (before.is_null(), was) {
        // SAFETY: C requires `before` to be null or to point to an `itimerspec`.
        unsafe { *before = was.to_c() };
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn timerfd_gettime(file: c_int, into: *mut itimerspec) -> c_int {
    let setting: Option<Setting> = timer_of(file).and_then(|(end, place, _)| timers::setting(end, place));
    match setting {
        Some(setting) if !into.is_null() => {
            // SAFETY: C requires `into` to point to an `itimerspec`.
            unsafe { *into = setting.to_c() };
            0
        }
        _ => next!(timerfd_gettime(file, into): fn(c_int, *mut itimerspec) -> c_int),
    }
}

/// Whether a descriptor is readable now, or within a short time.
pub fn is_readable(file: c_int, nap_ns: u32) -> Option<isize> {
    let mut polled = libc::pollfd { fd: file, events: libc::POLLIN, revents: 0 };
    let limit = to_timespec(nap_ns.into());
    let arguments = [(&raw mut polled) as usize, 1, (&raw const limit) as usize, 0, 0, 0];
    // SAFETY: the kernel changes one structure and reads the limit.
    event_of(unsafe { kernel(libc::SYS_ppoll, arguments) }, &[]).filter(|result| *result != 0)
}

fn empty(own: c_int) {
    let mut count = 0u64;
    if is_readable(own, 0).is_some() {
        // SAFETY: the kernel writes eight bytes.
        unsafe { raw::call(libc::SYS_read, [own as usize, (&raw mut count) as usize, 8, 0, 0, 0]) };
    }
}

/// The timer ends with the last descriptor of the program.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn close(file: c_int) -> c_int {
    let timer = timer_of(file);
    let closed = next!(close(file): fn(c_int) -> c_int);
    if let Some((end, place, own)) = timer {
        let is_open = (0..NUMBERS).any(|number| number != own && are_same(number, own, false));
        if !is_open && timers::remove(end, place).is_some() {
            call(libc::SYS_close, own as usize, 0, 0);
            COUNT.fetch_sub(1, Relaxed);
        }
    }
    closed
}
