// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The timers of a simulated rank, in virtual time: of `alarm` and `setitimer`, of `timer_create`, of `timerfd_create`.
//!
//! The rank keeps its timers itself. The page of the rank has the earliest expiry, at which every request ends
//! (`sim-protocol`, `clock.rs`); then [`selvedge_sim_expire_timers`] is called, which raises the signals and makes the
//! descriptors readable.
//!
//! Invariants
//! 1. The page's time is that of the earliest armed timer.
//! 2. Of timers that expire at one time, the one that was made first comes first.
//! 3. A forked child has no timers.
//!
//! Cost: the earliest timer is found by a look at all, at most [`TIMERS`].

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use libc::{itimerspec, timespec};
use selvedge_os::raw;
use selvedge_sim_protocol::{NEVER, RankEnd};

use crate::guarded::Guarded;
use crate::handlers::{TIMER_DUE, pending};
use crate::real::next;
use crate::timer_thread;
use crate::waits::{of_timespec, to_timespec};

/// Timers that a rank may have at once.
pub const TIMERS: usize = 256;

extern "C" fn on_due(_: c_int) {
    selvedge_sim_expire_timers();
}

/// Installs the handler of [`TIMER_DUE`], unless the program has one.
fn install_handler(end: &RankEnd) {
    static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
    if IS_INSTALLED.swap(true, SeqCst) {
        return;
    }
    // SAFETY: all bits zero is a valid `sigaction`.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_due as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    next!(sigaction(TIMER_DUE, std::ptr::null(), &raw mut before): fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int);
    if before.sa_sigaction == libc::SIG_DFL {
        next!(sigaction(TIMER_DUE, &raw const action, std::ptr::null_mut()): fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int);
        end.set_alarm_signal(TIMER_DUE);
    }
}

/// The effect of a timer's expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The alarm of the process (`SIGALRM`).
    Alarm,
    None,
    /// A signal to the process, or to one of its threads.
    Signal {
        signal: c_int,
        value: usize,
        thread: Option<c_int>,
    },
    /// A function in a thread of its own, with attributes.
    Thread {
        function: usize,
        value: usize,
        attributes: usize,
    },
    /// The count of a descriptor: the program's, and ours of the same file.
    Descriptor {
        file: c_int,
        own: c_int,
    },
}

#[derive(Clone, Copy)]
pub struct Timer {
    pub effect: Effect,
    pub clock: libc::clockid_t,
    /// Time of the next expiry; [`NEVER`]: it is not armed.
    pub next_ps: u64,
    /// 0: it expires once.
    pub interval_ps: u64,
    /// Expiries since its last signal was raised, without that one.
    pub overruns: u64,
    /// Its signal has been raised at least once, and may still be pending.
    is_raised: bool,
}

pub struct Timers {
    timers: [Option<Timer>; TIMERS],
    /// Places in use lie before this one.
    used: usize,
}

static TABLE: Guarded<Timers> = Guarded::new(Timers { timers: [None; TIMERS], used: 0 });

/// The setting of a timer: time to the next expiry, and interval, in nanoseconds. 0: not armed; expires once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    pub next_ns: u64,
    pub interval_ns: u64,
}

impl Setting {
    /// `None`: it is malformed.
    pub fn of(setting: &itimerspec) -> Option<Setting> {
        Some(Setting { next_ns: of_timespec(&setting.it_value)?, interval_ns: of_timespec(&setting.it_interval)? })
    }

    pub fn to_c(self) -> itimerspec {
        let of = |ns: u64| -> timespec { to_timespec(ns) };
        itimerspec { it_value: of(self.next_ns), it_interval: of(self.interval_ns) }
    }
}

/// Adds a timer that is not armed. `None`: there are too many.
pub fn add(effect: Effect, clock: libc::clockid_t) -> Option<usize> {
    TABLE.with(|table| {
        let place = table.timers.iter().position(Option::is_none)?;
        let timer = Timer { effect, clock, next_ps: NEVER, interval_ps: 0, overruns: 0, is_raised: false };
        table.timers[place] = Some(timer);
        table.used = table.used.max(place + 1);
        Some(place)
    })
}

/// Removes a timer, and returns it.
pub fn remove(end: &RankEnd, place: usize) -> Option<Timer> {
    TABLE.with(|table| {
        let removed = table.timers.get_mut(place)?.take();
        table.set_alarm(end);
        removed
    })
}

/// Finds a timer. `is_it` takes no locks.
pub fn find(mut is_it: impl FnMut(&Timer) -> bool) -> Option<usize> {
    TABLE.with(|table| table.timers[..table.used].iter().position(|timer| timer.as_ref().is_some_and(&mut is_it)))
}

/// The time of the earliest armed timer.
pub fn next_expiry() -> u64 {
    TABLE.with(|table| table.earliest())
}

pub fn get(place: usize) -> Option<Timer> {
    TABLE.with(|table| *table.timers.get(place)?)
}

/// Sets a timer: its next expiry ([`NEVER`]: none), and the interval. Returns the setting before.
pub fn set(end: &RankEnd, place: usize, next_ps: u64, interval_ns: u64) -> Option<Setting> {
    let before = setting(end, place)?;
    install_handler(end);
    TABLE.with(|table| {
        let timer = table.timers.get_mut(place)?.as_mut()?;
        (timer.next_ps, timer.interval_ps) = (next_ps, interval_ns.saturating_mul(1000));
        (timer.overruns, timer.is_raised) = (0, false);
        table.set_alarm(end);
        Some(())
    })?;
    timer_thread::timers_changed(end);
    end.expire_alarms();
    Some(before)
}

/// The setting of a timer. One whose time has come is expired before.
pub fn setting(end: &RankEnd, place: usize) -> Option<Setting> {
    end.expire_alarms();
    let timer = get(place)?;
    let next_ns = match timer.next_ps {
        NEVER => 0,
        next => (next.saturating_sub(end.now_ps()) / 1000).max(1),
    };
    Some(Setting { next_ns, interval_ns: timer.interval_ps / 1000 })
}

/// Adds the count of a timer's expiries to those of its last signal. `is_pending`: that signal still waits.
fn count(timer: &mut Timer, expiries: u64, is_pending: bool) -> bool {
    if timer.is_raised && is_pending {
        timer.overruns += expiries;
        return false;
    }
    (timer.is_raised, timer.overruns) = (true, expiries - 1);
    true
}

impl Timers {
    fn set_alarm(&mut self, end: &RankEnd) {
        while self.used > 0 && self.timers[self.used - 1].is_none() {
            self.used -= 1;
        }
        end.set_alarm(self.earliest());
    }

    fn earliest(&self) -> u64 {
        self.timers[..self.used].iter().flatten().map(|timer| timer.next_ps).min().unwrap_or(NEVER)
    }

    /// Expires the earliest timer whose time has come: as often as it has come. Returns the place, and the timer as it was.
    fn take_due(&mut self, end: &RankEnd) -> Option<(usize, Timer, u64)> {
        let now = end.now_ps();
        let armed = self.timers[..self.used].iter().enumerate();
        let armed = armed.filter_map(|(place, timer)| timer.as_ref().map(|timer| (timer.next_ps, place)));
        let (next, place) = armed.min().filter(|(next, _)| *next <= now)?;
        let timer = self.timers[place].as_mut()?;
        let before = *timer;
        let mut expiries = 1;
        timer.next_ps = NEVER;
        if let Some(more) = (now - next).checked_div(timer.interval_ps) {
            expiries += more;
            timer.next_ps = next.saturating_add(expiries.saturating_mul(timer.interval_ps));
        }
        self.set_alarm(end);
        Some((place, before, expiries))
    }
}

/// Expires all timers whose time has come.
#[unsafe(no_mangle)]
pub extern "C" fn selvedge_sim_expire_timers() {
    let Some(end) = RankEnd::of_process() else { return };
    // SAFETY: the C library returns the address of this thread's `errno`, which is always valid.
    let errno = unsafe { *libc::__errno_location() };
    while let Some((place, timer, expiries)) = TABLE.with(|table| table.take_due(end)) {
        match timer.effect {
            Effect::None => note(place, expiries, false),
            Effect::Alarm => raise_alarm(),
            Effect::Signal { signal, value, thread } => {
                if note(place, expiries, pending() & 1 << (signal - 1) != 0) {
                    raise(place, signal, (value, thread), expiries - 1);
                }
                true
            }
            Effect::Thread { function, value, attributes } => {
                note(place, expiries, false);
                timer_thread::start_function(function, value, attributes);
                true
            }
            Effect::Descriptor { own, .. } => {
                // SAFETY: the kernel reads eight bytes. The descriptor is ours; its count has room for 2^64 - 2.
                unsafe { raw::call(libc::SYS_write, [own as usize, (&raw const expiries) as usize, 8, 0, 0, 0]) };
                true
            }
        };
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Counts expiries of a timer. True: its signal is to be raised.
fn note(place: usize, expiries: u64, is_pending: bool) -> bool {
    TABLE.with(|table| table.timers[place].as_mut().is_some_and(|timer| count(timer, expiries, is_pending)))
}

/// The beginning of a `siginfo_t` of a timer.
#[repr(C)]
struct TimerInformation {
    signal: c_int,
    error: c_int,
    code: c_int,
    padding: c_int,
    timer: c_int,
    overrun: c_int,
    value: usize,
    rest: [u64; 12],
}

const _: () = assert!(size_of::<TimerInformation>() == size_of::<libc::siginfo_t>());

const SI_TIMER: c_int = -2;
const SI_KERNEL: c_int = 0x80;

fn raise_alarm() -> bool {
    let mut information = TimerInformation {
        signal: libc::SIGALRM,
        error: 0,
        code: SI_KERNEL,
        padding: 0,
        timer: 0,
        overrun: 0,
        value: 0,
        rest: [0; 12],
    };
    if queue(&mut information, None) < 0 {
        // Only the first thread may send what the kernel sends.
        information.code = SI_TIMER;
        queue(&mut information, None);
    }
    true
}

fn raise(place: usize, signal: c_int, (value, thread): (usize, Option<c_int>), overruns: u64) {
    let mut information = TimerInformation {
        signal,
        error: 0,
        code: SI_TIMER,
        padding: 0,
        timer: crate::posix_timers::number(place),
        overrun: c_int::try_from(overruns).unwrap_or(c_int::MAX),
        // A timer without a `sigevent` sends its number.
        value: if value == usize::MAX { crate::posix_timers::number(place) as usize } else { value },
        rest: [0; 12],
    };
    queue(&mut information, thread);
}

/// Queues a signal to this process, or to a thread of it. The kernel prefers the first thread for the signals of a process;
/// so it gets them, too, while it holds them back in a wait.
fn queue(information: &mut TimerInformation, thread: Option<c_int>) -> isize {
    let (signal, what) = (information.signal as usize, ptr_of(information));
    // SAFETY: `getpid` has no preconditions; the kernel reads a `siginfo_t`.
    unsafe {
        let process = libc::getpid() as usize;
        let first_waits = || RankEnd::of_process().is_some_and(|end| end.ends_wait(process as u32, signal as i32));
        match thread.or_else(|| first_waits().then_some(process as c_int)) {
            None => raw::call(libc::SYS_rt_sigqueueinfo, [process, signal, what, 0, 0, 0]),
            Some(thread) => raw::call(libc::SYS_rt_tgsigqueueinfo, [process, thread as usize, signal, what, 0, 0]),
        }
    }
}

fn ptr_of(information: &mut TimerInformation) -> usize {
    std::ptr::from_mut(information) as usize
}

/// The timer's number and the place of its overruns in the information of a signal, if a timer has raised it.
pub fn timer_of(information: &mut libc::siginfo_t) -> Option<(c_int, &mut c_int)> {
    // SAFETY: both types have the same size, and any bits are a value.
    let information = unsafe { &mut *std::ptr::from_mut(information).cast::<TimerInformation>() };
    (information.code == SI_TIMER).then_some((information.timer, &mut information.overrun))
}
