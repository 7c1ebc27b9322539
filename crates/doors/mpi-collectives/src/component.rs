// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the component of Open MPI 4.1 (`mca/coll_selvedge.c`) has taken over, and its requests.
//!
//! Invariant: a process's operations come either from the component or from the functions under MPI's names. Once the
//! component has taken over, the latter pass their calls on ([`is_active`]). It does so in `MPI_Init`, before any
//! operation.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::mpi::Handle;

/// The functions by which requests of the component begin and end.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Requests {
    /// Returns null if there is no memory.
    begin: unsafe extern "C" fn(Handle, *mut c_void) -> *mut c_void,
    end: unsafe extern "C" fn(*mut c_void, c_int),
}

impl Requests {
    /// # Safety
    /// The communicator is valid, and a handle can be written to `place`.
    pub unsafe fn begin(&self, comm: Handle, place: *mut c_void) -> Option<Handle> {
        // SAFETY: by this function's contract.
        let request = unsafe { (self.begin)(comm, place) };
        (!request.is_null()).then_some(request as Handle)
    }

    /// # Safety
    /// `begin` has returned the request, and it has not ended.
    pub unsafe fn end(&self, request: Handle, code: c_int) {
        // SAFETY: by this function's contract.
        unsafe { (self.end)(request as *mut c_void, code) }
    }
}

static REQUESTS: OnceLock<Requests> = OnceLock::new();
static IS_ACTIVE: AtomicBool = AtomicBool::new(false);

/// Whether operations come from the component.
#[inline(always)]
pub fn is_active() -> bool {
    IS_ACTIVE.load(Relaxed)
}

/// The functions of its requests, if the component is active.
pub fn requests() -> Option<&'static Requests> {
    REQUESTS.get()
}

/// Makes the component carry operations out from now on.
pub fn take_over(requests: Requests) {
    REQUESTS.get_or_init(|| requests);
    IS_ACTIVE.store(true, Relaxed);
}
