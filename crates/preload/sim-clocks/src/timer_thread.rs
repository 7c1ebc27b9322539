// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A thread that waits for timers, in a rank with several threads: those of the program may all be in calls of the kernel,
//! and none of them would hand the turn over. It also starts the threads of timers with a function (`SIGEV_THREAD`).
//!
//! A rank with one thread has none: its only thread lets the time pass in the call in which it waits.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use selvedge_sim_protocol::system::{may_have_threads, sleep_on, wake};
use selvedge_sim_protocol::{Cause, LimitedWait, NEVER, RankEnd, Watched};

use crate::guarded::Guarded;
use crate::handlers::NoSignals;
use crate::real::next;
use crate::timers;
use crate::waits::nap_on;

static IS_STARTED: AtomicBool = AtomicBool::new(false);
/// Changes with every change of a timer, and with every function to be started.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// A function of a timer: itself, its argument, the attributes of its thread.
type Function = (usize, usize, usize);
/// Functions to be started; more than these are lost, like expiries that nobody took.
const FUNCTIONS: usize = 64;
static TO_START: Guarded<([Function; FUNCTIONS], usize)> = Guarded::new(([(0, 0, 0); FUNCTIONS], 0));

type Body = extern "C" fn(*mut c_void) -> *mut c_void;

fn create_thread(attributes: *const c_void, body: Body, argument: *mut c_void) -> bool {
    let mut thread: libc::pthread_t = 0;
    let created = next!(pthread_create(&raw mut thread, attributes, body, argument):
        fn(*mut libc::pthread_t, *const c_void, Body, *mut c_void) -> c_int);
    if created == 0 && attributes.is_null() {
        next!(pthread_detach(thread): fn(libc::pthread_t) -> c_int);
    }
    created == 0
}

/// Starts the thread, or tells it that the timers have changed.
pub fn timers_changed(end: &RankEnd) {
    let wants_thread = timers::find(|timer| matches!(timer.effect, timers::Effect::Thread { .. })).is_some();
    if end.has_alarm() && (may_have_threads() || wants_thread) && !IS_STARTED.swap(true, SeqCst) {
        let _signals = NoSignals::begin();
        create_thread(ptr::null(), wait_for_timers, ptr::null_mut());
    }
    CHANGES.fetch_add(1, SeqCst);
    if IS_STARTED.load(SeqCst) {
        wake(&CHANGES, 1);
    }
}

/// Has a function started in a thread of its own. `attributes`: a `pthread_attr_t` or 0.
pub fn start_function(function: usize, value: usize, attributes: usize) {
    TO_START.with(|(functions, count)| {
        if let Some(place) = functions.get_mut(*count) {
            *place = (function, value, attributes);
            *count += 1;
        }
    });
    CHANGES.fetch_add(1, SeqCst);
    wake(&CHANGES, 1);
}

extern "C" fn wait_for_timers(_: *mut c_void) -> *mut c_void {
    loop {
        let Some(end) = RankEnd::of_process() else { return ptr::null_mut() };
        let seen = CHANGES.load(SeqCst);
        start_functions();
        match timers::next_expiry() {
            NEVER => sleep_on(&CHANGES, seen),
            until_ps => {
                LimitedWait { end, until_ps, cause: Cause::Inside, signals: 0, watched: Watched::UNKNOWN }.run(
                    &mut |nap_ns| {
                        if CHANGES.load(SeqCst) == seen {
                            nap_on(&CHANGES, seen, nap_ns);
                        }
                        CHANGES.load(SeqCst) != seen
                    },
                );
                end.expire_alarms();
            }
        }
    }
}

fn start_functions() {
    loop {
        let taken = TO_START.with(|(functions, count)| {
            (*count > 0).then(|| {
                let first = functions[0];
                functions.copy_within(1..*count, 0);
                *count -= 1;
                first
            })
        });
        let Some((function, value, attributes)) = taken else { return };
        // SAFETY: a `sigevent`'s function takes its value and returns nothing, which its thread ignores.
        let body = unsafe { std::mem::transmute::<usize, Body>(function) };
        create_thread(attributes as *const c_void, body, value as *mut c_void);
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const c_void,
    body: Body,
    argument: *mut c_void,
) -> c_int {
    let created = next!(pthread_create(thread, attributes, body, argument):
        fn(*mut libc::pthread_t, *const c_void, Body, *mut c_void) -> c_int);
    if created == 0 {
        if let Some(end) = RankEnd::if_attached().filter(|end| end.has_alarm()) {
            timers_changed(end);
        }
    }
    created
}
