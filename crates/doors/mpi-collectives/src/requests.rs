// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The requests of non-blocking operations: generalized requests of the MPI (MPI 4.1, 13.2), which its own calls wait
//! for, test, and mix with others.
//!
//! A failure is reported to the error handler of the operation's communicator. The MPI does not know the communicator
//! of a generalized request, and would use another handler. So for the MPI a failed request has succeeded, with a tag
//! that no message has. The calls that complete requests, which this library replaces, too, look for this tag
//! (`completions.rs`).
//!
//! The component of Open MPI has its own requests ([`component`]), whose failures the MPI reports correctly.
//!
//! Cost of those calls in a program without such requests: a load.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use selvedge_nic::aggregation::Failure;
use selvedge_os::sync::IgnorePoison;

use crate::buffers::Completion;
use crate::call::Call;
use crate::component;
use crate::mpi::{Handle, Kind, SUCCESS};

/// The state of a request.
pub struct Request {
    call: Call,
    /// Identity of the group, for comparison only: the group may have ended.
    group: *const (),
    progress: Mutex<Progress>,
}

struct Progress {
    outcome: Result<(), Failure>,
    /// The work left when the operation is over, before the program learns of it.
    after: Option<Box<Completion>>,
    /// Its failure; set when the MPI first queries the request.
    failed: Option<FailedRequest>,
}

/// A request whose operation is under way.
pub struct Started {
    state: *const Request,
    request: Handle,
}

/// Number of requests for which the program has a handle.
static OPEN: AtomicUsize = AtomicUsize::new(0);

impl Request {
    /// Starts a request, and stores its handle in `handle`. `group` is the identity of its group.
    ///
    /// # Safety
    /// `handle` can be written for a handle.
    pub unsafe fn begin(
        call: Call,
        group: *const (),
        after: Option<Box<Completion>>,
        handle: *mut c_void,
    ) -> Result<Started, c_int> {
        let progress = Mutex::new(Progress { outcome: Ok(()), after, failed: None });
        let state = Box::into_raw(Box::new(Request { call, group, progress }));
        let begun = match component::requests() {
            // SAFETY: by this function's contract.
            Some(requests) => unsafe { requests.begin(call.comm, handle) }.ok_or(call.mpi.err_other()),
            // SAFETY: `free` frees `state`; all three functions get it.
            None => unsafe { call.mpi.start_request((query, free, cancel), state.cast(), handle) }
                .inspect(|_| _ = OPEN.fetch_add(1, Relaxed)),
        };
        match begun {
            Ok(request) => Ok(Started { state, request }),
            Err(code) => {
                // SAFETY: the MPI has not taken it.
                let request = unsafe { Box::from_raw(state) };
                if let Some(after) = &request.progress().after {
                    after.release(call.mpi);
                }
                Err(code)
            }
        }
    }

    /// Writes the results for the program, once, after the operation is over.
    fn finish(&self) -> Option<FailedRequest> {
        let Request { call, group, .. } = *self;
        let mut progress = self.progress();
        let failed = |code, failure| FailedRequest { call, group, code, failure };
        match (progress.outcome, progress.after.take()) {
            (Err(failure), after) => {
                if let Some(after) = after {
                    after.release(call.mpi);
                }
                Some(failed(call.mpi.err_other(), Some(failure)))
            }
            // SAFETY: the program's buffers are there until it has heard that the operation is over.
            (Ok(()), Some(after)) => unsafe { after.finish(call.mpi) }.err().map(|code| failed(code, None)),
            (Ok(()), None) => None,
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().ignore_poison()
    }
}

impl Started {
    /// Ends the request with the operation's outcome.
    pub fn end(self, outcome: Result<(), Failure>) {
        if let Some(requests) = component::requests() {
            // SAFETY: `begin` has made it, and this is the only reference.
            let state = unsafe { Box::from_raw(self.state.cast_mut()) };
            state.progress().outcome = outcome;
            let failed = state.finish();
            if let Some(FailedRequest { call, failure: Some(failure), .. }) = failed {
                call.log(failure);
            }
            // SAFETY: the component has given it, and it ends once.
            return unsafe { requests.end(self.request, failed.map_or(SUCCESS, |failed| failed.code)) };
        }
        // SAFETY: the MPI frees it after the request is complete.
        let state = unsafe { &*self.state };
        let mpi = state.call.mpi;
        state.progress().outcome = outcome;
        // SAFETY: it is a generalized request, which ends once. `state` is not used any more.
        unsafe { mpi.complete_request(self.request) };
    }
}

/// A failure that the MPI does not report.
#[derive(Clone, Copy)]
pub struct FailedRequest {
    pub call: Call,
    /// Identity of its group, which may have ended.
    pub group: *const (),
    pub code: c_int,
    /// The node's failure. `None`: the MPI has reported it.
    pub failure: Option<Failure>,
}

thread_local! {
    static FAILED: RefCell<Vec<FailedRequest>> = const { RefCell::new(Vec::new()) };
}

/// Writes the results and the status, before the program learns of the completion. Some MPIs call it more than once.
unsafe extern "C" fn query(state: *mut c_void, status: *mut c_void) -> c_int {
    // SAFETY: `begin` has made it, and it is not freed.
    let request = unsafe { &*state.cast::<Request>() };
    let failed = request.finish();
    let mut progress = request.progress();
    progress.failed = progress.failed.or(failed);
    Status::of(request.call.mpi.kind, if progress.failed.is_some() { FAILED_TAG } else { UNDEFINED }).write(status);
    SUCCESS
}

/// Frees the request: the program has no handle any more, because the current call has completed it.
unsafe extern "C" fn free(state: *mut c_void) -> c_int {
    // SAFETY: `begin` has made it, and the MPI calls this last, once.
    let request = unsafe { Box::from_raw(state.cast::<Request>()) };
    if let Some(failed) = request.progress().failed {
        // A thread that is ending has no list any more.
        let _ = FAILED.try_with(|all| all.borrow_mut().push(failed));
    }
    OPEN.fetch_sub(1, Relaxed);
    SUCCESS
}

/// Does nothing: such a request cannot be cancelled (MPI 4.1, 6.12).
unsafe extern "C" fn cancel(_: *mut c_void, _: c_int) -> c_int {
    SUCCESS
}

pub const UNDEFINED: c_int = -32766;
/// Tag in the status of a failed request.
pub const FAILED_TAG: c_int = c_int::MIN + 0x5e1;

/// Layout and words of the MPI's status of a request.
pub struct Status {
    words: [c_int; 6],
    /// Number of its words, and the places of its tag and its error.
    pub count: usize,
    pub tag: usize,
    pub error: usize,
}

impl Status {
    /// A status for a request that received no message.
    pub fn of(kind: Kind, tag: c_int) -> Status {
        match kind {
            Kind::OpenMpi => Status { words: [UNDEFINED, tag, SUCCESS, 0, 0, 0], count: 6, tag: 1, error: 2 },
            Kind::Mpich => Status { words: [0, 0, UNDEFINED, tag, SUCCESS, 0], count: 5, tag: 3, error: 4 },
        }
    }

    /// Writes all but the error, which the MPI writes.
    fn write(&self, to: *mut c_void) {
        for (at, &word) in self.words.iter().enumerate().take(self.count).filter(|(at, _)| *at != self.error) {
            // SAFETY: the caller passes memory for the MPI's status, which has this number of words.
            unsafe { to.cast::<c_int>().add(at).write(word) };
        }
    }
}

/// Whether the program has requests of this library.
#[inline(always)]
pub fn are_open() -> bool {
    OPEN.load(Relaxed) != 0
}

/// Takes the failures of requests that the current call has completed.
#[inline]
pub fn take_failures() -> Vec<FailedRequest> {
    FAILED.try_with(|all| std::mem::take(&mut *all.borrow_mut())).unwrap_or_default()
}
