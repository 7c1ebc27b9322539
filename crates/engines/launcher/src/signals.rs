// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signals through a descriptor that can be polled.
//!
//! Invariants
//! 1. The signals are blocked before the first rank is started, so none is missed and none interrupts a call.
//! 2. Ranks start with the signal mask that the launcher was started with.
//!
//! A signal that was ignored when the launcher started (`nohup`, a shell's background job) stays ignored, here and in
//! the ranks. Only SIGCHLD is reset to its default, because a launcher that ignores it is not notified of deaths.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const TAKEN: [i32; 6] = [libc::SIGCHLD, libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGTSTP, libc::SIGCONT];

/// Blocked signals, read one by one.
pub(crate) struct Signals {
    fd: OwnedFd,
    mask_before: libc::sigset_t,
}

impl Signals {
    pub(crate) fn block() -> io::Result<Signals> {
        let mut taken = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises the set before it is used; the numbers are signals; sigprocmask fills
        // `before` before it is read; the process has one thread; the descriptor is new, so nothing else owns it.
        unsafe {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            libc::sigemptyset(taken.as_mut_ptr());
            for signal in TAKEN {
                libc::sigaddset(taken.as_mut_ptr(), signal);
            }
            if libc::sigprocmask(libc::SIG_BLOCK, taken.as_ptr(), before.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = libc::signalfd(-1, taken.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Signals { fd: OwnedFd::from_raw_fd(fd), mask_before: before.assume_init() })
        }
    }

    pub(crate) fn mask_before(&self) -> libc::sigset_t {
        self.mask_before
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The next pending signal, or `None`.
    pub(crate) fn next(&self) -> Option<i32> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let bytes = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer has `bytes` bytes, which is the most that the call writes.
        let read = unsafe { libc::read(self.fd.as_raw_fd(), info.as_mut_ptr().cast(), bytes) };
        if usize::try_from(read).ok()? < bytes {
            return None;
        }
        // SAFETY: the read returned the size of the structure, so all of it is initialised.
        i32::try_from(unsafe { info.assume_init() }.ssi_signo).ok()
    }
}

/// The signal mask of this thread, which comes back when this is dropped. A command that goes on after a job needs it:
/// the job leaves signals blocked, and the command's later programs would inherit the blocked mask. A pending signal
/// takes effect when the mask comes back.
pub struct KeptMask(libc::sigset_t);

impl KeptMask {
    pub fn keep() -> io::Result<KeptMask> {
        let mut now = MaybeUninit::uninit();
        // SAFETY: without a new set the call only fills `now`.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), now.as_mut_ptr()) } {
            // SAFETY: the call has succeeded, so the set is filled.
            0 => Ok(KeptMask(unsafe { now.assume_init() })),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

impl Drop for KeptMask {
    fn drop(&mut self) {
        // SAFETY: the set is one that the kernel has returned; the old one is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

/// Sends a signal to a rank and the processes that it has started: to its process group. If the rank has left the group
/// (a shell with job control does), to the rank alone. Does nothing if the rank has ended.
pub(crate) fn signal_rank(pid: u32, signal: i32) {
    let Ok(pid) = i32::try_from(pid) else { return };
    // kill(0) and kill(-1) address other processes.
    if pid > 1 {
        // SAFETY: `kill` takes numbers. Callers signal only ranks that they have not reaped, so the pid still belongs to the rank.
        unsafe {
            if libc::kill(-pid, signal) != 0 {
                libc::kill(pid, signal);
            }
        }
    }
}

/// Stops this process, as Ctrl-Z at the terminal does.
pub(crate) fn stop_self() {
    // SAFETY: `raise` takes a number.
    unsafe { libc::raise(libc::SIGSTOP) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_mask_comes_back() {
        let is_blocked = || {
            let KeptMask(now) = &*std::mem::ManuallyDrop::new(KeptMask::keep().expect("the mask"));
            // SAFETY: the set is filled, and the number is a signal.
            unsafe { libc::sigismember(now, libc::SIGTERM) == 1 }
        };
        let kept = KeptMask::keep().expect("the mask");
        let before = is_blocked();
        let signals = Signals::block().expect("blocked");
        assert!(!before && is_blocked());
        drop(signals);
        assert!(is_blocked(), "the job's end leaves it blocked");
        drop(kept);
        assert!(!is_blocked());
    }
}
