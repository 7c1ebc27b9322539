// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sched_yield`, most times without the kernel.
//!
//! MPICH yields after every look for a message, also after the one that finds it. Where every rank has a core there is nobody to yield
//! to, and the system call (0.4 to 0.7 us) is most of what a small message costs. So the kernel is asked at every
//! [`EVERY`]th call of a thread; a call in between is a hint to the core. Who spins on until another thread of the same core
//! has run still lets it run, some microseconds later.
//!
//! With more ranks than cores, or where the launcher does not say how many there are, every call is the kernel's.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use selvedge_shm::os::ranks;

use crate::variable;

/// Calls for one of the kernel's.
const EVERY: u32 = 32;

thread_local! {
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

fn number(name: &CStr) -> Option<u32> {
    std::str::from_utf8(variable(name)?).ok()?.parse().ok()
}

/// By what is asked for, else by whether every rank has a core.
fn rule(asked: Option<u32>, have_cores: Option<bool>) -> u32 {
    match (asked, have_cores) {
        (Some(asked), _) => asked.max(1),
        (None, Some(true)) => EVERY,
        _ => 1,
    }
}

/// Looked up at the first call; 0 until then.
fn every() -> u32 {
    static KNOWN: AtomicU32 = AtomicU32::new(0);
    match KNOWN.load(Relaxed) {
        0 => {
            let found = rule(number(c"SELVEDGE_YIELD_EVERY"), ranks::have_cores());
            KNOWN.store(found, Relaxed);
            found
        }
        known => known,
    }
}

/// POSIX `sched_yield`: 0, always.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn sched_yield() -> c_int {
    let calls = CALLS.get().wrapping_add(1);
    CALLS.set(calls);
    if calls % every() == 0 {
        // SAFETY: no preconditions; the function of this name is ourselves.
        unsafe { libc::syscall(libc::SYS_sched_yield) };
    } else {
        std::hint::spin_loop();
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_asked_where_cores_are_shared() {
        assert_eq!(rule(None, Some(true)), EVERY);
        assert_eq!(rule(None, Some(false)), 1);
        assert_eq!(rule(None, None), 1, "who knows how many there are");
    }

    #[test]
    fn what_is_asked_for_counts() {
        assert_eq!(rule(Some(4), Some(false)), 4);
        assert_eq!(rule(Some(0), Some(true)), 1);
    }

    #[test]
    fn it_gives_what_posix_says() {
        assert!((0..100).all(|_| sched_yield() == 0));
    }
}
