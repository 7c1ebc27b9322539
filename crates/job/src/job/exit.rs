// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens to the job when the process ends.
//!
//! `mpiexec.hydra` and `prterun` end the whole job when a process exits without having said goodbye, and an alone
//! process is the last that could remove its directory. So a program that returns from `main` without
//! `selvedge_finalize` says goodbye here. Under `selvedge run` it does not: that launcher looks at the exit code, and
//! wants to know who left without a word.
//!
//! Invariant: nothing here waits for a lock, because `exit` may be called while another thread is in a barrier.

use std::sync::{Once, TryLockError};

use super::{JOINED, Job};

/// Arranges for [`at_exit`] to run when the process exits. Once a process is enough, also for its forked children.
pub(super) fn leave_at_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `at_exit` is a function of this object; libc runs it at exit or when the object is unloaded,
        // whichever is first, so it is there whenever it is called.
        let refused = unsafe { libc::atexit(at_exit) } != 0;
        if refused {
            log::debug!("no exit handler; the launcher may take a plain exit for a failure");
        }
    });
}

extern "C" fn at_exit() {
    // A panic must not cross into libc.
    let _ = std::panic::catch_unwind(|| {
        let job: Option<Job> = match JOINED.try_lock() {
            Ok(joined) => joined.clone(),
            Err(TryLockError::Poisoned(joined)) => joined.into_inner().clone(),
            Err(TryLockError::WouldBlock) => None,
        };
        let Some(job) = job else { return };
        if job.inner.os_pid != std::process::id() {
            return;
        }
        let link = match job.inner.link.try_lock() {
            Ok(link) => link,
            Err(TryLockError::Poisoned(link)) => link.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let _ = job.leave(link, false);
    });
}

/// Ends the process at once. A code that would read as success becomes 1.
pub(super) fn exit_now(code: i32) -> ! {
    let code = if code & 0xff == 0 { 1 } else { code };
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(code) }
}
