// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operations under way, as callers hold them.

use std::cell::Cell;
use std::ffi::c_int;
use std::time::{Duration, Instant};

use selvedge_nic::aggregation::Failure;
use selvedge_shm::aggregation::Pending;

use crate::context::Comm;
use crate::interface::{Error, SUCCESS};

/// Time between a waiter's checks whether the other processes are alive.
const PATIENCE: Duration = Duration::from_millis(20);
/// Tests of a request between looks at the clock.
const TESTS: u32 = 1024;

/// What a handle of an operation points to.
pub struct Request {
    comm: *const Comm,
    number: u64,
    what: &'static str,
    tests: Cell<u32>,
    checked: Cell<Option<Instant>>,
}

impl Request {
    /// Begins an operation.
    pub fn begin(comm: &Comm, pending: Pending, what: &'static str) -> Request {
        let number = comm.queue().add(pending);
        Request { comm, number, what, tests: Cell::new(0), checked: Cell::new(None) }
    }

    /// The outcome. None: it is not over.
    ///
    /// # Safety
    /// The communicator has not been destroyed.
    pub unsafe fn test(&self) -> Option<c_int> {
        // SAFETY: by this function's contract.
        let comm = unsafe { &*self.comm };
        let mut queue = comm.queue();
        if queue.outcome(self.number).is_none() {
            queue.advance();
        }
        let outcome = queue.outcome(self.number);
        if outcome.is_none() {
            self.tests.set(self.tests.get().wrapping_add(1));
            if self.tests.get() % TESTS == 0 {
                let since = self.checked.get().unwrap_or_else(Instant::now);
                self.checked.set(Some(since));
                if since.elapsed() >= PATIENCE {
                    queue.check_members();
                    self.checked.set(Some(Instant::now()));
                }
            }
        }
        drop(queue);
        outcome.map(|outcome| match outcome {
            Ok(()) => SUCCESS,
            Err(failure) => {
                comm.report(self.what, &failure);
                code_of(failure) as c_int
            }
        })
    }

    /// Waits for the outcome.
    ///
    /// # Safety
    /// As for [`Request::test`].
    pub unsafe fn wait(&self) -> c_int {
        for turn in 1u32.. {
            // SAFETY: by this function's contract.
            if let Some(code) = unsafe { self.test() } {
                return code;
            }
            match turn % 256 {
                0 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
        Error::General as c_int
    }

    /// The caller needs it no more. One that is not over is carried on by the communicator's other operations.
    ///
    /// # Safety
    /// As for [`Request::test`].
    pub unsafe fn end(&self) {
        // SAFETY: by this function's contract.
        unsafe { &*self.comm }.queue().take(self.number);
    }
}

fn code_of(failure: Failure) -> Error {
    match failure {
        Failure::OperationMismatch | Failure::NoSuchOperation | Failure::TooLong => Error::Invalid,
        Failure::NoRoom => Error::NoMemory,
        _ => Error::General,
    }
}
