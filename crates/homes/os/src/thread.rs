// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The identity of the running thread, at the cost of two loads, and whether it is the only one.

use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

/// Number of forks between this process and its first ancestor that called [`watch_forks`].
static FORKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn in_child() {
    FORKS.store(FORKS.load(Relaxed) + 1, Relaxed);
}

/// Makes the words of a forked child's threads differ from those of its parent, from this call on.
pub fn watch_forks() {
    static ONCE: Once = Once::new();
    // SAFETY: the handler only changes an atomic of this library, which is not unloaded while a child could run the
    // handler.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    });
}

/// Returns the number of forks since the first ancestor that called [`watch_forks`]: a forked child has another number
/// than its parent.
#[inline(always)]
pub fn forks() -> u64 {
    FORKS.load(Relaxed)
}

/// Returns a number that is never 0, and that differs between running threads of a process, and between a thread and
/// its forked child.
#[inline(always)]
pub fn word() -> u64 {
    // Control blocks are far apart, and forks are rarely nested. So the sums do not collide.
    block().wrapping_add(FORKS.load(Relaxed))
}

/// Returns the address of the thread's control block, or of another object that each thread has for itself.
#[inline(always)]
fn block() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let word: u64;
        // SAFETY: by the psABI the control block's first word holds its own address. The instruction is a load without
        // side effects.
        unsafe { core::arch::asm!("mov {}, fs:0", out(reg) word, options(nostack, preserves_flags, readonly, pure)) };
        word
    }
    #[cfg(target_arch = "aarch64")]
    {
        let word: u64;
        // SAFETY: reads the register that holds the thread's pointer.
        unsafe { core::arch::asm!("mrs {}, tpidr_el0", out(reg) word, options(nostack, preserves_flags, nomem, pure)) };
        word
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        thread_local!(static HERE: u8 = const { 0 });
        HERE.with(|here| here as *const u8 as u64)
    }
}

/// Returns the C library's byte `__libc_single_threaded`, which is not 0 while this process has had only one thread.
/// Without such a byte, returns one that is 0. Only that one thread can read "one thread", so the answer holds until it
/// makes another.
pub fn one_thread() -> &'static AtomicU8 {
    static UNKNOWN: AtomicU8 = AtomicU8::new(0);
    static AT: AtomicPtr<AtomicU8> = AtomicPtr::new(ptr::null_mut());
    let mut at = AT.load(Relaxed);
    if at.is_null() {
        // SAFETY: the name is a C string constant, and `dlsym` only reads it.
        at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) }.cast();
        if at.is_null() {
            at = (&raw const UNKNOWN).cast_mut();
        }
        AT.store(at, Relaxed);
    }
    // SAFETY: `at` points to a byte of the C library or to `UNKNOWN`, both of which live as long as the process. It is only
    // read, and the C library changes it with a store of one byte.
    unsafe { &*at }
}

/// Starts a thread that takes no signals of the program.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    // A new thread inherits the signal mask of its creator, so all signals are blocked around its creation.
    // SAFETY: both sets live across the calls, and the second call restores the mask that the first has stored.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let started = std::thread::Builder::new().name(name.into()).spawn(run);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        started
    }
}

#[cfg(test)]
mod tests {
    use super::{watch_forks, word};
    use crate::testing::Child;

    #[test]
    fn threads_that_run_together_have_words_of_their_own() {
        let own = word();
        assert_eq!(own, word());
        assert_ne!(own, 0);
        std::thread::scope(|scope| {
            let other = scope.spawn(word).join().expect("it ends");
            assert_ne!(own, other);
        });
    }

    #[test]
    fn a_child_has_another_word() {
        watch_forks();
        let own = word();
        let child = Child::fork(|| i32::from(word() != own));
        assert_eq!((child.exit_code(), word()), (Some(1), own));
    }
}
