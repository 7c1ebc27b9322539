// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls that complete requests: waiting, and reporting failures.
//!
//! Cost in a program without requests of this library: a load.

use std::ffi::{c_int, c_void};

use selvedge_host::backoff::SpinWait;

use crate::mpi::{Mpi, SUCCESS};
use crate::requests::{FAILED_TAG, FailedRequest, Status, UNDEFINED, take_failures};
use crate::{groups, outstanding};

/// A wait tests its requests once in this many polls of the operations: a poll takes some 20 ns, a test some 200.
const LOOK_EVERY: u32 = 16;

/// The statuses written by a call.
#[derive(Clone, Copy)]
pub enum Statuses {
    /// Status of one request: the call's own code is its error.
    One(*mut c_void),
    /// An array of statuses, and their number.
    Each(*mut c_void, c_int),
}

/// Reports failures of requests that the MPI's call has completed. Returns the code for the replaced call.
///
/// # Safety
/// The statuses are those passed to the call, which has written them.
#[inline]
pub unsafe fn report(mpi: &'static Mpi, code: c_int, statuses: Statuses) -> c_int {
    let failed = take_failures();
    match failed.is_empty() {
        true => code,
        // SAFETY: by this function's contract.
        false => unsafe { report_all(mpi, code, statuses, &failed) },
    }
}

#[cold]
unsafe fn report_all(mpi: &'static Mpi, code: c_int, statuses: Statuses, failed: &[FailedRequest]) -> c_int {
    let (at, count, own) = match statuses {
        Statuses::One(at) => (at, 1, failed[0].code),
        Statuses::Each(at, count) => (at, usize::try_from(count).unwrap_or(0), mpi.err_in_status()),
    };
    let layout = Status::of(mpi.kind, FAILED_TAG);
    let is_ignored = at.is_null() || at.addr() == 1;
    for number in (0..count).filter(|_| !is_ignored) {
        let words = at.cast::<c_int>().wrapping_add(number * layout.count);
        // SAFETY: the caller's contract gives this number of statuses.
        unsafe {
            let has_failed = words.add(layout.tag).read() == FAILED_TAG;
            if has_failed {
                words.add(layout.tag).write(UNDEFINED);
            }
            if matches!(statuses, Statuses::Each(..)) && code == SUCCESS {
                words.add(layout.error).write(if has_failed { mpi.err_other() } else { SUCCESS });
            }
        }
    }
    for FailedRequest { call, group, code, failure } in failed {
        if let Some(failure) = failure {
            // The communicator may have been freed.
            let comm = if groups::is_of(call.comm, *group) { call.comm } else { mpi.comm_world() };
            call.log(*failure);
            mpi.fail(comm, *code);
        }
    }
    if code == SUCCESS { own } else { code }
}

/// Waits for requests. `look` tests them once. Returns the code of `look`, or `None` when no operation of this library
/// is outstanding, so that the MPI can wait. The MPI's wait would spin; this one yields, because the peer may need this
/// core.
pub fn wait(mut look: impl FnMut() -> Option<c_int>) -> Option<c_int> {
    let mut looks = SpinWait::new();
    while outstanding::are_any() {
        let have_ended = outstanding::advance();
        if have_ended || looks.yields() || looks.count() % LOOK_EVERY == 0 {
            if let Some(code) = look() {
                return Some(code);
            }
        }
        looks.rest();
    }
    None
}
