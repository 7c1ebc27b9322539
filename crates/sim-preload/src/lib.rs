// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `libselvedge_sim_preload.so`: the clocks and sleeps of a simulated rank.
//!
//! Put before the system's library (`LD_PRELOAD`), it answers for functions that tell the time or let it pass. What it tells is
//! the virtual time of the rank's machine; a sleep gives the turn to the simulator. In a process that is no simulated rank
//! (`SELVEDGE_SIM` is not set, or names another process's page) each function is the system's own.
//!
//! | file | what |
//! |---|---|
//! | [`clocks`] | `clock_gettime` and its relatives, `getrusage`, `times` |
//! | [`sleeps`] | `nanosleep` and its relatives, `sched_yield`, `poll` and `select` without descriptors |
//! | [`counter`] | the processor's counter of cycles |
//! | [`children`] | programs that the rank starts, which have the processor's own |
//! | [`real`] | the system's own functions |
//!
//! Left alone: waits for descriptors, for locks and conditions with a time limit, timers and alarms: they use real time, of which
//! hardly any passes in a simulation.
//!
//! Nothing here uses the standard library's clocks: they are these functions.

#[cfg(target_arch = "x86_64")]
mod children;
mod clocks;
#[cfg(target_arch = "x86_64")]
mod counter;
mod real;
mod sleeps;

use std::ffi::{c_char, c_int};

use selvedge_sim_protocol::RankEnd;

/// Finds the page before the program runs, and before any other library does (`build.rs`), so that no child can be taken for the
/// rank, and no library that puts functions of its own in the place of the system's is in the middle of that.
extern "C" fn find_page(_: c_int, _: *const *const c_char, environment: *const *const c_char) {
    // SAFETY: what the system's loader passes.
    unsafe { RankEnd::find_first(environment) };
    // SAFETY: likewise.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        counter::install(environment)
    };
}

#[used]
#[unsafe(link_section = ".init_array")]
static FIND_PAGE: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = find_page;

/// Sets errno, and gives what functions give that have failed.
fn refuse(error: i32) -> i32 {
    // SAFETY: the thread's own word.
    unsafe { *libc::__errno_location() = error };
    -1
}
