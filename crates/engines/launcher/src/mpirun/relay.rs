// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the launcher to its end and passes signals on to it.
//!
//! Invariants
//! 1. A signal sent to this process reaches the launcher. A signal from the terminal also reaches the launcher, which
//!    is in our process group. It is not sent again: launchers take a second interrupt as a request to kill the ranks.
//! 2. The launcher starts with this process's original signal mask, and gets SIGTERM if this process dies.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use super::error::{MpirunError, NotStarted};

const PASSED_ON: [i32; 6] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// The exit status of the launcher.
#[derive(Debug, Clone, Copy)]
pub struct LauncherStatus(ExitStatus);

impl LauncherStatus {
    pub fn exit_code(self) -> u8 {
        let of_signal = || self.0.signal().map_or(1, |signal| 128 + signal);
        u8::try_from(self.0.code().unwrap_or_else(of_signal)).unwrap_or(1)
    }

    /// Whether the launcher cannot have reported dead ranks: it exited with success, or was killed itself.
    pub fn cannot_have_reported(self) -> bool {
        self.0.success() || self.0.signal().is_some()
    }
}

/// Starts the launcher, and waits for its end.
pub fn run(command: &mut Command) -> Result<LauncherStatus, MpirunError> {
    let signals = Signals::block().map_err(MpirunError::Signals)?;
    let mask = signals.mask_before;
    // SAFETY: the closure makes only system calls between fork and exec: prctl with numbers, and sigprocmask with an initialised
    // set that it owns. A null pointer for the old set is allowed.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            match libc::sigprocmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut()) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        });
    }
    let mut child = command.spawn().map_err(|error| {
        let launcher = command.get_program().to_string_lossy().into_owned();
        NotStarted::Spawn { launcher, error }
    })?;
    loop {
        if let Some(status) = child.try_wait().map_err(MpirunError::Wait)? {
            return Ok(LauncherStatus(status));
        }
        if let Some(signal) = signals.next().map_err(MpirunError::NextSignal)? {
            pass_on(&child, signal);
        }
    }
}

fn pass_on(child: &Child, signal: i32) {
    if let Ok(pid) = i32::try_from(child.id()) {
        // SAFETY: `kill` takes numbers. The child has not been waited for, so the pid still belongs to it.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Blocked signals, read one by one. Dropping it unblocks them.
struct Signals {
    fd: OwnedFd,
    mask_before: libc::sigset_t,
}

impl Signals {
    fn block() -> io::Result<Signals> {
        let mut taken = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises the set before it is used; the numbers are signals; sigprocmask fills
        // `before` before it is read; the process has one thread; the descriptor is new, so nothing else owns it.
        unsafe {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            libc::sigemptyset(taken.as_mut_ptr());
            libc::sigaddset(taken.as_mut_ptr(), libc::SIGCHLD);
            for signal in PASSED_ON {
                libc::sigaddset(taken.as_mut_ptr(), signal);
            }
            if libc::sigprocmask(libc::SIG_BLOCK, taken.as_ptr(), before.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = libc::signalfd(-1, taken.as_ptr(), libc::SFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Signals { fd: OwnedFd::from_raw_fd(fd), mask_before: before.assume_init() })
        }
    }

    /// Waits for the next signal. `None`: not to pass on (a child ended, or the terminal sent it to the whole group).
    fn next(&self) -> io::Result<Option<i32>> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let bytes = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer has `bytes` bytes, which is the most that the call writes.
        let read = unsafe { libc::read(self.fd.as_raw_fd(), info.as_mut_ptr().cast(), bytes) };
        if usize::try_from(read).is_ok_and(|read| read == bytes) {
            // SAFETY: the read returned the size of the structure, so all of it is initialised.
            let info = unsafe { info.assume_init() };
            let from_terminal = info.ssi_code == libc::SI_KERNEL;
            let signal = i32::try_from(info.ssi_signo).ok();
            return Ok(signal.filter(|signal| *signal != libc::SIGCHLD && !from_terminal));
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            error => Err(error),
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: `mask_before` was filled by sigprocmask in `block`.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.mask_before, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_the_launchers() {
        let ended = |raw| LauncherStatus(ExitStatus::from_raw(raw));
        assert_eq!((ended(0).exit_code(), ended(0).cannot_have_reported()), (0, true));
        assert_eq!((ended(7 << 8).exit_code(), ended(7 << 8).cannot_have_reported()), (7, false));
        assert_eq!((ended(9).exit_code(), ended(9).cannot_have_reported()), (137, true));
    }
}
