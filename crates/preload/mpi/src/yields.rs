// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replaces `sched_yield`: most calls skip the kernel.
//!
//! MPICH yields after every poll for a message, even a successful one. Where every rank has a core there is no other
//! process to yield to, and the system call (0.4 to 0.7 us) is most of the cost of a small message. So every
//! [`EVERY`]th call of a thread enters the kernel, and the others only give the core a hint. A thread that yields until
//! another thread of the same core has run still lets it run, some microseconds later.
//!
//! With more ranks than cores, or if the launcher does not tell the number of ranks, every call enters the kernel.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use selvedge_os::{ranks, raw};

const EVERY: u32 = 32;

thread_local! {
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

/// Returns n if one call in n enters the kernel: the requested value, else by whether every rank has a core.
fn rule(requested: Option<u32>, have_cores: Option<bool>) -> u32 {
    match (requested, have_cores) {
        (Some(requested), _) => requested.max(1),
        (None, Some(true)) => EVERY,
        _ => 1,
    }
}

/// The result of [`rule`], which the first call computes.
fn every() -> u32 {
    static KNOWN: AtomicU32 = AtomicU32::new(0);
    match KNOWN.load(Relaxed) {
        0 => {
            let requested = selvedge_settings::text("SELVEDGE_YIELD_EVERY").and_then(|every| every.trim().parse().ok());
            let found = rule(requested, ranks::have_cores());
            KNOWN.store(found, Relaxed);
            found
        }
        known => known,
    }
}

/// POSIX `sched_yield`. Always returns 0.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn sched_yield() -> c_int {
    let calls = CALLS.get().wrapping_add(1);
    CALLS.set(calls);
    if calls % every() == 0 {
        // SAFETY: the system call takes no arguments. It is made directly, because the C function is replaced by this one.
        unsafe { raw::call(libc::SYS_sched_yield, [0; 6]) };
    } else {
        std::hint::spin_loop();
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_enters_the_kernel_where_ranks_share_cores() {
        assert_eq!(rule(None, Some(true)), EVERY);
        assert_eq!(rule(None, Some(false)), 1);
        assert_eq!(rule(None, None), 1, "the number of ranks is unknown");
    }

    #[test]
    fn the_environment_decides() {
        assert_eq!(rule(Some(4), Some(false)), 4);
        assert_eq!(rule(Some(0), Some(true)), 1);
    }

    #[test]
    fn it_returns_0_as_posix_requires() {
        assert!((0..100).all(|_| sched_yield() == 0));
    }
}
