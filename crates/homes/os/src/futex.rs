// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sleeping on a word of memory that processes share (`futex(2)`, the shared kind).
//!
//! Invariants:
//! 1. The kernel compares the word and goes to sleep in one step. So a store followed by [`wake_all`] is never missed
//!    by a [`wait`] that expected the older value.
//! 2. A wake-up is a hint: `wait` returns for any reason, or none. Callers check the word again in a loop.
//! 3. The kernel identifies a shared word by the file behind it. If a mapping is replaced during a sleep
//!    ([`super::mapping::Mapping::replace_with_zeroes`]), no later wake-up reaches the sleeper. So a sleeper on memory
//!    that may be replaced uses a timeout.
//!
//! Cost: one system call each, some 200 ns for a wake-up without sleepers. Neither call allocates.

use core::ptr;
use core::sync::atomic::AtomicU32;

use crate::raw;

const NS_PER_S: u64 = 1_000_000_000;

/// Sleeps while `word` holds `expected`, for at most `timeout_ns` nanoseconds (`None`: without limit).
///
/// Returns when woken, when the word has another value, after the timeout, on a signal, or for no reason at all.
pub fn wait(word: &AtomicU32, expected: u32, timeout_ns: Option<u64>) {
    let timeout =
        timeout_ns.map(|ns| libc::timespec { tv_sec: (ns / NS_PER_S) as libc::time_t, tv_nsec: (ns % NS_PER_S) as _ });
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `word` is a live, aligned u32 for the whole call, and the kernel only reads it; `timeout` is null or
    // points at a timespec of this frame. Every failure (EAGAIN, EINTR, ETIMEDOUT) is one of the allowed returns.
    unsafe { call(word, libc::FUTEX_WAIT, expected as usize, timeout as usize) };
}

/// Wakes all threads, in any process, that sleep on `word`.
///
/// The caller stores the new value first; the system call orders that store before the wake.
pub fn wake_all(word: &AtomicU32) {
    // SAFETY: FUTEX_WAKE uses the address as a name and does not touch the memory.
    unsafe { call(word, libc::FUTEX_WAKE, i32::MAX as usize, 0) };
}

/// The system call, past `syscall`: in a simulated rank that takes virtual time.
///
/// # Safety
/// The requirements of the operation.
unsafe fn call(word: &AtomicU32, operation: i32, value: usize, timeout: usize) {
    let arguments = [word.as_ptr() as usize, operation as usize, value, timeout, 0, 0];
    // SAFETY: this function has the requirements of the system call.
    unsafe { raw::call(libc::SYS_futex, arguments) };
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering::SeqCst;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::testing::{Child, SharedPage, until_asleep};

    #[test]
    fn wakes_sleepers_of_other_processes() {
        let page = SharedPage::new();
        let word = page.word(0);
        let sleep = || {
            while word.load(SeqCst) == 0 {
                wait(word, 0, None);
            }
            page.word(1).fetch_add(1, SeqCst);
            7
        };
        let first = Child::fork(sleep);
        let second = Child::fork(sleep);
        until_asleep(first.pid());
        until_asleep(second.pid());
        assert_eq!(page.word(1).load(SeqCst), 0);
        word.store(1, SeqCst);
        wake_all(word);
        assert_eq!(first.exit_code(), Some(7));
        assert_eq!(second.exit_code(), Some(7));
        assert_eq!(page.word(1).load(SeqCst), 2);
    }

    #[test]
    fn does_not_sleep_on_another_value() {
        let page = SharedPage::new();
        page.word(0).store(5, SeqCst);
        // Without the comparison this would never return.
        let child = Child::fork(|| {
            wait(page.word(0), 4, None);
            3
        });
        assert_eq!(child.exit_code(), Some(3));
    }

    #[test]
    fn sleeps_no_shorter_than_asked() {
        let word = AtomicU32::new(0);
        let asked = Duration::from_millis(20);
        let start = Instant::now();
        while start.elapsed() < asked {
            let left = asked.saturating_sub(start.elapsed());
            wait(&word, 0, Some(left.as_nanos() as u64));
        }
        wait(&word, 0, Some(0));
        assert_eq!(word.load(SeqCst), 0);
    }

    #[test]
    fn longest_timeout_is_accepted() {
        let page = SharedPage::new();
        let child = Child::fork(|| {
            while page.word(0).load(SeqCst) == 0 {
                wait(page.word(0), 0, Some(u64::MAX));
            }
            4
        });
        until_asleep(child.pid());
        page.word(0).store(1, SeqCst);
        wake_all(page.word(0));
        assert_eq!(child.exit_code(), Some(4));
    }
}
