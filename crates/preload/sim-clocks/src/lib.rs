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
//! | [`sleeps`] | `nanosleep` and its relatives, `sched_yield` |
//! | [`waits`] | what all waits with a limit have in common |
//! | [`descriptors`] | `poll`, `select`, `epoll_wait` and their relatives |
//! | [`blocking`] | `read`, `recv`, `accept`, which a timer may end |
//! | [`conditions`], [`locks`] | condition variables, mutexes, semaphores, joins, with a limit |
//! | [`waiters`] | the threads that wait for a condition variable or a futex with a limit |
//! | [`futexes`] | `syscall`: futexes, and calls that are replaced elsewhere |
//! | [`signals`] | `sigtimedwait`, `pause` and their relatives |
//! | [`cancellation`] | `pthread_cancel` in such waits |
//! | [`handlers`] | signals that the program handles, held back in waits |
//! | [`timers`] | the rank's timers and their expiry |
//! | [`posix_timers`] | `timer_create`, `setitimer`, `alarm` |
//! | [`timer_files`] | `timerfd_create`; `close` of such descriptors |
//! | [`timer_thread`] | the thread that waits for timers in ranks with several threads |
//! | [`guarded`] | a lock that signal handlers may take, too |
//! | [`calibration`] | sleeps by which a library measures the processor's clock take no time |
//! | [`copies`] | `memcpy`, `memmove`: a rank that copies does not wait |
//! | [`files`] | `fopen`: files that would only cost time |
//! | [`counter`] | the processor's counter of cycles |
//! | [`leaks`] | `dl_iterate_phdr`: the search for leaks takes no virtual time |
//! | [`children`] | programs that the rank starts: they have the real counter |
//! | [`real`] | the C library's functions |
//!
//! Not replaced: waits without a limit, which the kernel carries out, timers of CPU time, and system calls that a program
//! makes by an instruction of its own.
//!
//! This crate does not use the standard library's clocks, because those call the functions that it replaces.

mod blocking;
mod calibration;
mod cancellation;
#[cfg(target_arch = "x86_64")]
mod children;
mod clocks;
mod conditions;
mod copies;
#[cfg(target_arch = "x86_64")]
mod counter;
mod descriptors;
mod files;
mod futexes;
mod guarded;
mod handlers;
mod leaks;
mod locks;
mod posix_timers;
mod real;
mod signals;
mod sleeps;
mod timer_files;
mod timer_thread;
mod timers;
mod waiters;
mod waits;

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
    if RankEnd::if_attached().is_some() {
        blocking::prepare();
    }
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
