// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads of this crate and of its users.

use std::thread::JoinHandle;

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
