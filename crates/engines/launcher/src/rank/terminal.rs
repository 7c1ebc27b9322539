// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The launcher's own terminal, lent to the rank that a user debugs.
//!
//! Ranks lead process groups of their own, and a terminal serves its foreground group only: it reads, and Ctrl-C
//! interrupts it. So the debugger's group becomes the foreground, until it ends or is stopped (Ctrl-Z).
//!
//! Invariant: the terminal comes back with the modes that it had, because a debugger that is killed leaves others.

use std::io;
use std::mem::MaybeUninit;

use rustix::process::Pid;
use rustix::termios::{OptionalActions, Termios};

/// The terminal on standard input.
pub(crate) struct LentTerminal {
    modes: Termios,
    /// This command's process group.
    own: Pid,
    is_lent: bool,
}

impl LentTerminal {
    /// Lends it if this command is in the foreground; else the rank gets it with [`LentTerminal::lend_again`]. `None`:
    /// standard input is no terminal, or not this command's.
    pub(crate) fn lend() -> Option<LentTerminal> {
        let (stdin, own) = (rustix::stdio::stdin(), rustix::process::getpgrp());
        let foreground = rustix::termios::tcgetpgrp(stdin).ok()?;
        let modes = rustix::termios::tcgetattr(stdin).ok()?;
        Some(LentTerminal { modes, own, is_lent: foreground == own })
    }

    /// Whether the rank has the foreground.
    pub(crate) fn is_lent(&self) -> bool {
        self.is_lent
    }

    /// Lends it again to a process group, if this command is in the foreground.
    pub(crate) fn lend_again(&mut self, group: u32) {
        let stdin = rustix::stdio::stdin();
        let group = i32::try_from(group).ok().and_then(Pid::from_raw);
        if let Some(group) = group.filter(|_| rustix::termios::tcgetpgrp(stdin) == Ok(self.own)) {
            // Those that the shell has set: this command may have been in the background before.
            self.modes = rustix::termios::tcgetattr(stdin).unwrap_or_else(|_| self.modes.clone());
            self.is_lent = set_foreground(group).is_ok();
        }
    }

    pub(crate) fn take_back(&mut self) {
        if std::mem::take(&mut self.is_lent) {
            // The terminal may be gone.
            let _ = set_foreground(self.own);
            let _ = rustix::termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Drain, &self.modes);
        }
    }
}

impl Drop for LentTerminal {
    fn drop(&mut self) {
        self.take_back();
    }
}

/// Makes a process group the foreground of the terminal on standard input. Makes system calls only.
pub(crate) fn set_foreground(group: Pid) -> io::Result<()> {
    let mut stops = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises `stops` before it is used; sigprocmask fills `before` before it is read. The kernel
    // stops a process in the background that sets the foreground, unless it blocks SIGTTOU.
    unsafe {
        libc::sigemptyset(stops.as_mut_ptr());
        libc::sigaddset(stops.as_mut_ptr(), libc::SIGTTOU);
        libc::sigprocmask(libc::SIG_BLOCK, stops.as_ptr(), before.as_mut_ptr());
        let done = rustix::termios::tcsetpgrp(rustix::stdio::stdin(), group);
        libc::sigprocmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
        Ok(done?)
    }
}
