// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operations under way, as callers see them.

use std::ffi::c_int;

use selvedge_collectives::one_host::Pending;
use selvedge_host::backoff::SpinWait;
use selvedge_nic::aggregation::Failure;

use crate::context::Comm;
use crate::interface::{Error, SUCCESS};

/// The object behind a handle of an operation.
pub struct Request {
    comm: *const Comm,
    number: u64,
    what: &'static str,
}

impl Request {
    /// Starts an operation.
    pub fn begin(comm: &Comm, pending: Pending, what: &'static str) -> Request {
        let number = comm.operations().add(pending);
        Request { comm, number, what }
    }

    /// Returns the outcome, or `None` if the operation is not over.
    ///
    /// # Safety
    /// The communicator has not been destroyed.
    pub unsafe fn test(&self) -> Option<c_int> {
        // SAFETY: by this function's contract.
        let comm = unsafe { &*self.comm };
        let outcome = comm.operations().test(self.number);
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
        let mut looks = SpinWait::new();
        loop {
            // SAFETY: by this function's contract.
            if let Some(code) = unsafe { self.test() } {
                return code;
            }
            looks.rest();
        }
    }

    /// Ends the caller's use of the request. The communicator's other operations advance an unfinished one.
    ///
    /// # Safety
    /// As for [`Request::test`].
    pub unsafe fn end(&self) {
        // SAFETY: by this function's contract.
        unsafe { &*self.comm }.operations().take(self.number);
    }
}

fn code_of(failure: Failure) -> Error {
    match failure {
        Failure::OperationMismatch | Failure::NoSuchOperation | Failure::TooLong => Error::Invalid,
        Failure::NoRoom => Error::NoMemory,
        _ => Error::General,
    }
}
