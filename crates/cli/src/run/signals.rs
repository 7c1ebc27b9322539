// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signals as something to poll.
//!
//! Invariants
//! 1. The signals are blocked before the first rank is started, so none is missed and none interrupts anything.
//! 2. Ranks start with the mask and limits that the launcher was started with.
//!
//! What was ignored when the launcher started (`nohup`, a shell's background job) stays ignored, here and in the ranks;
//! only SIGCHLD is taken back, because a launcher that ignores it never learns of a death.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const TAKEN: [i32; 6] = [libc::SIGCHLD, libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGTSTP, libc::SIGCONT];

/// The taken signals, readable one by one.
pub(crate) struct Signals {
    fd: OwnedFd,
    mask_before: libc::sigset_t,
}

impl Signals {
    pub(crate) fn block() -> io::Result<Signals> {
        let mut taken = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises the set before it is used; the numbers are signals; sigprocmask fills
        // `before` before it is read; the process has one thread.
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

    /// The mask to give back to the ranks.
    pub(crate) fn mask_before(&self) -> libc::sigset_t {
        self.mask_before
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The next signal that came; `None` when there is none.
    pub(crate) fn next(&self) -> Option<i32> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let bytes = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer has the size given; a read of that size fills it whole.
        let read = unsafe { libc::read(self.fd.as_raw_fd(), info.as_mut_ptr().cast(), bytes) };
        if usize::try_from(read).ok()? < bytes {
            return None;
        }
        // SAFETY: filled, as just found.
        i32::try_from(unsafe { info.assume_init() }.ssi_signo).ok()
    }
}

/// Sends a signal to a rank and what it has started: to its process group, or, where the rank has left that (a shell
/// with job control does), to the rank alone. One that has ended meanwhile is as good.
pub(crate) fn signal_rank(pid: u32, signal: i32) {
    let Ok(pid) = i32::try_from(pid) else { return };
    // kill(0) and kill(-1) mean other things.
    if pid > 1 {
        // SAFETY: no memory is involved. The caller has not reaped the process, so the number is still its own.
        unsafe {
            if libc::kill(-pid, signal) != 0 {
                libc::kill(pid, signal);
            }
        }
    }
}

/// Stops this process, as the terminal's Ctrl-Z would have.
pub(crate) fn stop_self() {
    // SAFETY: no memory is involved.
    unsafe { libc::raise(libc::SIGSTOP) };
}
