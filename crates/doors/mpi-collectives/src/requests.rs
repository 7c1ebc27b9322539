// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The requests of non-blocking operations: generalized requests of the MPI (MPI 4.1, 13.2), which its own calls wait for, test, and mix with
//! others.
//!
//! A failure is reported to the error handler of the operation's communicator. An MPI would report it to that of another, as it does not know to
//! which a generalized request belongs. So for the MPI such a request has succeeded, with a tag that no message has; and the calls that
//! complete requests, which this library has too, look for it ([`report`]).
//!
//! The component of Open MPI has requests of its own ([`component`]), whose failures the MPI reports as it should.
//!
//! Cost of those calls in a program without such requests: a load.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use selvedge_host::looks::Looks;
use selvedge_nic::aggregation::Failure;

use crate::calls::{After, Call};
use crate::component;
use crate::groups::{self, Known};
use crate::mpi::{Handle, Kind, Mpi, SUCCESS};
use crate::under_way;

/// The state of a request.
pub struct Request {
    call: Call,
    /// Only to compare: it may have ended.
    group: *const Known,
    progress: Mutex<Progress>,
}

struct Progress {
    outcome: Result<(), Failure>,
    /// What is to be done when it is over, before the program hears of it.
    after: Option<Box<After>>,
    /// Its failure, since the MPI has first asked for it.
    failed: Option<Failed>,
}

/// A request whose operation is under way.
pub struct Started {
    state: *const Request,
    request: Handle,
}

/// Requests of which the program has a handle.
static OPEN: AtomicUsize = AtomicUsize::new(0);

impl Request {
    /// Begins a request, whose handle goes to `handle`.
    ///
    /// # Safety
    /// `handle` can be written for a handle.
    pub unsafe fn begin(
        call: Call,
        group: &'static Known,
        after: Option<Box<After>>,
        handle: *mut c_void,
    ) -> Result<Started, c_int> {
        let progress = Mutex::new(Progress { outcome: Ok(()), after, failed: None });
        let state = Box::into_raw(Box::new(Request { call, group, progress }));
        let begun = match component::requests() {
            // SAFETY: by this function's contract.
            Some(requests) => unsafe { requests.begin(call.comm, handle) }.ok_or(call.mpi.err_other()),
            // SAFETY: `free` ends what this makes, and each is called with it.
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

    /// The operation is over: what the program gets is put in its place. Once.
    fn finish(&self) -> Option<Failed> {
        let Request { call, group, .. } = *self;
        let mut progress = self.progress();
        let failed = |code, failure| Failed { call, group, code, failure };
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
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Started {
    /// The operation is over.
    pub fn end(self, outcome: Result<(), Failure>) {
        if let Some(requests) = component::requests() {
            // SAFETY: `begin` has made it, and nobody else has it.
            let state = unsafe { Box::from_raw(self.state.cast_mut()) };
            state.progress().outcome = outcome;
            let failed = state.finish();
            if let Some(Failed { call, failure: Some(failure), .. }) = failed {
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

/// A failure of which the MPI tells nobody.
#[derive(Clone, Copy)]
struct Failed {
    call: Call,
    group: *const Known,
    code: c_int,
    /// What the node says. None: the MPI has reported it.
    failure: Option<Failure>,
}

/// A waiter looks at its requests once in so many looks at the operations: the latter take some 20 ns, the former some 200.
const LOOK_EVERY: u32 = 16;

thread_local! {
    static FAILED: RefCell<Vec<Failed>> = const { RefCell::new(Vec::new()) };
}

/// The request is over, and the program is about to hear of it: what it gets is put in its place. Some MPIs ask more than once.
unsafe extern "C" fn query(state: *mut c_void, status: *mut c_void) -> c_int {
    // SAFETY: `begin` has made it, and it is not freed.
    let request = unsafe { &*state.cast::<Request>() };
    let failed = request.finish();
    let mut progress = request.progress();
    progress.failed = progress.failed.or(failed);
    Status::of(request.call.mpi.kind, if progress.failed.is_some() { FAILED_TAG } else { UNDEFINED }).write(status);
    SUCCESS
}

/// The program has no handle any more: the call under way has completed the request.
unsafe extern "C" fn free(state: *mut c_void) -> c_int {
    // SAFETY: `begin` has made it, and the MPI calls this last, once.
    let request = unsafe { Box::from_raw(state.cast::<Request>()) };
    if let Some(failed) = request.progress().failed {
        // A thread that ends has no list any more.
        let _ = FAILED.try_with(|all| all.borrow_mut().push(failed));
    }
    OPEN.fetch_sub(1, Relaxed);
    SUCCESS
}

/// Such a request cannot be cancelled (MPI 4.1, 6.12).
unsafe extern "C" fn cancel(_: *mut c_void, _: c_int) -> c_int {
    SUCCESS
}

const UNDEFINED: c_int = -32766;
/// The tag of a request that has failed.
const FAILED_TAG: c_int = c_int::MIN + 0x5e1;

/// What MPI says of a request.
struct Status {
    words: [c_int; 6],
    /// Words that it has, and the places of its tag and its error.
    count: usize,
    tag: usize,
    error: usize,
}

impl Status {
    /// Of nothing that was received.
    fn of(kind: Kind, tag: c_int) -> Status {
        match kind {
            Kind::OpenMpi => Status { words: [UNDEFINED, tag, SUCCESS, 0, 0, 0], count: 6, tag: 1, error: 2 },
            Kind::Mpich => Status { words: [0, 0, UNDEFINED, tag, SUCCESS, 0], count: 5, tag: 3, error: 4 },
        }
    }

    /// Writes it, but for the error, which is the MPI's.
    fn write(&self, to: *mut c_void) {
        for (at, &word) in self.words.iter().enumerate().take(self.count).filter(|(at, _)| *at != self.error) {
            // SAFETY: the caller has a place for the MPI's status, which has so many words.
            unsafe { to.cast::<c_int>().add(at).write(word) };
        }
    }
}

/// Whether the program has requests that this library must look at.
#[inline(always)]
pub fn are_open() -> bool {
    OPEN.load(Relaxed) != 0
}

/// The statuses that a call has written.
#[derive(Clone, Copy)]
pub enum Statuses {
    /// Of one request: the call's own code is its error.
    One(*mut c_void),
    /// Of so many.
    Each(*mut c_void, c_int),
}

/// Reports failures of requests that a call of the MPI's has completed. Returns what that call is to return.
///
/// # Safety
/// The statuses are what the call was given, and has written.
#[inline]
pub unsafe fn report(mpi: &'static Mpi, code: c_int, statuses: Statuses) -> c_int {
    match FAILED.try_with(|all| std::mem::take(&mut *all.borrow_mut())) {
        // SAFETY: by this function's contract.
        Ok(failed) if !failed.is_empty() => unsafe { report_all(mpi, code, statuses, &failed) },
        _ => code,
    }
}

#[cold]
unsafe fn report_all(mpi: &'static Mpi, code: c_int, statuses: Statuses, failed: &[Failed]) -> c_int {
    let (at, count, own) = match statuses {
        Statuses::One(at) => (at, 1, failed[0].code),
        Statuses::Each(at, count) => (at, usize::try_from(count).unwrap_or(0), mpi.err_in_status()),
    };
    let layout = Status::of(mpi.kind, FAILED_TAG);
    let is_ignored = at.is_null() || at.addr() == 1;
    for number in (0..count).filter(|_| !is_ignored) {
        let words = at.cast::<c_int>().wrapping_add(number * layout.count);
        // SAFETY: by the caller's contract there are so many statuses.
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
    for Failed { call, group, code, failure } in failed {
        if let Some(failure) = failure {
            // The communicator may be freed.
            let comm = if groups::is_of(call.comm, *group) { call.comm } else { mpi.comm_world() };
            call.log(*failure);
            mpi.fail(comm, *code);
        }
    }
    if code == SUCCESS { own } else { code }
}

/// Waits for requests by what looks at them once: Some with what the MPI said if that is all. None: no operation of this library is under way any
/// more, so the MPI can wait. It would spin, and this gives its core to others, as calls that wait do: one of them may be the peer.
pub fn wait(mut look: impl FnMut() -> Option<c_int>) -> Option<c_int> {
    let mut looks = Looks::new();
    while under_way::are_some() {
        let have_ended = under_way::carry_on();
        if have_ended || looks.are_shared() || looks.count() % LOOK_EVERY == 0 {
            if let Some(code) = look() {
                return Some(code);
            }
        }
        looks.rest();
    }
    None
}
