// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The exit handler, which leaves the job when the process exits.
//!
//! `mpiexec.hydra` and `prterun` end the whole job when a process exits without a finalize message, and a process
//! without a launcher must remove its directory if it is the last. So the exit handler leaves the job for a program
//! that returns from `main` without `selvedge_finalize`. Under `selvedge run` it does not: that launcher checks the
//! exit code, and must see which ranks exit without leaving.
//!
//! Invariant: nothing here waits for a lock, because `exit` may be called while another thread is in a barrier.

use std::sync::{Once, TryLockError};

use super::{JOINED, Job};

/// Registers [`at_exit`], once for this process and its forked children.
pub(super) fn leave_at_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `at_exit` is a function of this object; libc runs it at exit or when the object is unloaded,
        // whichever comes first, so the function is mapped whenever it is called.
        let refused = unsafe { libc::atexit(at_exit) } != 0;
        if refused {
            log::debug!("no exit handler could be registered; the launcher may take a normal exit for a failure");
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
        let connection = match job.inner.connection.try_lock() {
            Ok(connection) => connection,
            Err(TryLockError::Poisoned(connection)) => connection.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let _ = job.leave(connection, true);
    });
}
