// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `libselvedge_sim_preload.so`: the clocks and sleeps of a simulated rank.
//!
//! It is loaded before the C library (`LD_PRELOAD`) and replaces the functions that read the time or let time pass. They
//! report the virtual time of the rank's machine, and a sleep passes the turn to the simulator. In other processes
//! (`SELVEDGE_SIM` is not set, or names the page of another process) each function calls the C library's.
//!
//! | file | functions |
//! |---|---|
//! | [`clocks`] | `clock_gettime` and its relatives, `getrusage`, `times` |
//! | [`sleeps`] | `nanosleep` and its relatives, `sched_yield`, `poll` and `select` without descriptors |
//! | [`calibration`] | sleeps by which a library measures the processor's clock take no time |
//! | [`copies`] | `memcpy`, `memmove`: a rank that copies does not wait |
//! | [`counter`] | the processor's counter of cycles |
//! | [`leaks`] | `dl_iterate_phdr`: the search for leaks takes no virtual time |
//! | [`children`] | programs that the rank starts: they have the real counter |
//! | [`real`] | the C library's functions |
//!
//! Not replaced: waits for descriptors, waits for locks and conditions with a time limit, timers and alarms. They use real
//! time, of which hardly any passes in a simulation.
//!
//! This crate does not use the standard library's clocks, because those call the functions that it replaces.

mod calibration;
#[cfg(target_arch = "x86_64")]
mod children;
mod clocks;
mod copies;
#[cfg(target_arch = "x86_64")]
mod counter;
mod leaks;
mod real;
mod sleeps;

use std::ffi::{c_char, c_int};

use selvedge_sim_protocol::RankEnd;

/// Finds the page before any other library runs (`build.rs`). So a child that the rank forks later does not take the
/// page for its own, and the search does not run inside another library's replacement of a C function.
extern "C" fn find_page(_: c_int, _: *const *const c_char, environment: *const *const c_char) {
    // SAFETY: the loader passes constructors the environment: C strings, then a null pointer.
    unsafe { RankEnd::find_first(environment) };
    // SAFETY: the same array, which the loader keeps unchanged while constructors run.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        counter::install(environment)
    };
    let linked = selvedge_os::program::static_data().map(|data| data.libraries).unwrap_or_default();
    // SAFETY: the same array; no thread of the program runs yet.
    unsafe { selvedge_os::sanitizer::keep_from_children(environment.cast(), &linked) };
}

#[used]
#[unsafe(link_section = ".init_array")]
static FIND_PAGE: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = find_page;

/// Sets `errno` and returns -1, the result of a C function that has failed.
fn refuse(error: i32) -> i32 {
    // SAFETY: the C library returns the address of this thread's `errno`, which is always valid.
    unsafe { *libc::__errno_location() = error };
    -1
}
