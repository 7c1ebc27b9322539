// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The component of Open MPI 4.1 (`mca/coll_selvedge.c`), if it has taken over: its requests.
//!
//! Invariant: one of the two doors carries out the operations of a process. Once the component has taken over, the functions under MPI's names
//! pass their calls on ([`is_active`]). It takes over in `MPI_Init`, before there is an operation.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::mpi::Handle;

/// The functions by which requests of the component begin and end.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Requests {
    /// Null: there is no memory.
    begin: unsafe extern "C" fn(Handle, *mut c_void) -> *mut c_void,
    end: unsafe extern "C" fn(*mut c_void, c_int),
}

impl Requests {
    /// # Safety
    /// The communicator is one, and `place` can be written for a handle.
    pub unsafe fn begin(&self, comm: Handle, place: *mut c_void) -> Option<Handle> {
        // SAFETY: by this function's contract.
        let request = unsafe { (self.begin)(comm, place) };
        (!request.is_null()).then_some(request as Handle)
    }

    /// # Safety
    /// `begin` has given the request, and it has not ended.
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

/// Its requests, if there is the component.
pub fn requests() -> Option<&'static Requests> {
    REQUESTS.get()
}

/// From now on the component carries operations out.
pub fn take_over(requests: Requests) {
    REQUESTS.get_or_init(|| requests);
    IS_ACTIVE.store(true, Relaxed);
}
