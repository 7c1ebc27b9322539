// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A fence between processes, cheap on one side (`membarrier(2)`, the global expedited kind).
//!
//! Two cores that each store to one word and then load the other's word need a full fence between store and load.
//! Otherwise both can miss the other's store. If one core does this often (a waker that checks for sleepers) and the
//! other rarely (a sleeper that announces itself), the rare side can pay for both. [`heavy`] makes every running thread
//! of every registered process execute a full fence. [`light`] then only has to stop the compiler from reordering.
//!
//! Invariants:
//! 1. For each `light` of a registered process and each `heavy` that returned true: either all accesses before `light`
//!    are visible after `heavy`, or all accesses before `heavy` are visible after `light`.
//! 2. Registration belongs to the address space of one process: [`register`] is called in every process that runs
//!    `light`, and again in the child after a `fork`. If `register` returned false in a process, its peers must act as
//!    if `heavy` had returned false (the process publishes this in memory that they share).
//!
//! Costs: `light` nothing; `heavy` one system call, some 0.3 us, and an interrupt to each other core that runs a
//! registered process.

use core::sync::atomic::{AtomicU32, Ordering, compiler_fence};

// From the kernel's interface, <linux/membarrier.h>.
const GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
const REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;

/// The pid of the process that has registered. A forked child finds its parent's pid here and registers again.
static REGISTERED: AtomicU32 = AtomicU32::new(0);

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: membarrier takes integers only and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Registers this process, so that [`heavy`] reaches its threads. False if the kernel (or a system call filter) lacks
/// it.
///
/// Any thread may call it any number of times. Threads started later are covered too.
pub fn register() -> bool {
    let pid = std::process::id();
    if REGISTERED.load(Ordering::Acquire) == pid {
        return true;
    }
    let done = membarrier(REGISTER_GLOBAL_EXPEDITED);
    if done {
        REGISTERED.store(pid, Ordering::Release);
    }
    done
}

/// Executes a full fence here and in all running threads of all registered processes: the rare side.
///
/// False if that is not available. The caller must then bound its sleep by a timeout.
pub fn heavy() -> bool {
    membarrier(GLOBAL_EXPEDITED)
}

/// Orders this thread's earlier stores before its later loads, as seen by a [`heavy`]: the frequent side.
#[inline(always)]
pub fn light() {
    compiler_fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering::{Relaxed, SeqCst};

    use super::*;
    use crate::testing::{Child, SharedPage};

    #[test]
    fn registers_and_fences_together() {
        // A kernel has both commands or neither.
        let registered = register();
        assert_eq!(registered, register());
        assert_eq!(registered, heavy());
        let child = Child::fork(|| i32::from(register() && REGISTERED.load(SeqCst) == std::process::id()));
        assert_eq!(child.exit_code(), Some(i32::from(registered)));
    }

    /// The store-buffering litmus between two processes: both reading the older value is forbidden.
    #[test]
    fn never_do_both_sides_miss() {
        if !register() {
            eprintln!("skipped: this kernel has no membarrier");
            return;
        }
        const ROUNDS: u32 = 10_000;
        let page = SharedPage::new();
        // Words on cache lines of their own: x, y, what each side saw, and the round each side has begun.
        let (x, y) = (page.word(0), page.word(16));
        let (seen_y, turn_light, turn_heavy) = (page.word(32), page.word(48), page.word(64));
        let meet = |mine: &AtomicU32, other: &AtomicU32, at: u32| {
            mine.store(at, SeqCst);
            while other.load(SeqCst) < at {
                std::thread::yield_now();
            }
        };
        let child = Child::fork(|| {
            if !register() {
                return 1;
            }
            for round in 1..=ROUNDS {
                meet(turn_light, turn_heavy, round * 2 - 1);
                x.store(round, Relaxed);
                light();
                seen_y.store(y.load(Relaxed), Relaxed);
                meet(turn_light, turn_heavy, round * 2);
            }
            0
        });
        for round in 1..=ROUNDS {
            meet(turn_heavy, turn_light, round * 2 - 1);
            y.store(round, Relaxed);
            assert!(heavy());
            let seen_x = x.load(Relaxed);
            meet(turn_heavy, turn_light, round * 2);
            let seen_y = seen_y.load(Relaxed);
            assert!(seen_x == round || seen_y == round, "round {round}: x {seen_x}, y {seen_y}");
        }
        assert_eq!(child.exit_code(), Some(0));
    }
}
