// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ends the job when a message has failed that Open MPI cannot report.
//!
//! Its component mtl/ofi injects short messages of blocking sends: they are complete at once, and have no context. If
//! one of them fails later, as its peer is dead or the network has lost it, the component takes the missing context for
//! that of a request, and crashes. The provider calls [`selvedge_openmpi_failed`] before.

use std::ffi::{CStr, c_char, c_int, c_void};

use selvedge_os::library;

type Abort = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// `MPI_ERR_OTHER`, with which Open MPI's own handler ends a job for such an error.
const OTHER: c_int = 16;

/// Says why a message without a context has failed, and calls `MPI_Abort`. Returns if the caller of libfabric, a file
/// without its directory, is not Open MPI.
///
/// # Safety
/// `file` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_openmpi_failed(error: c_int, file: *const c_char, length: usize) {
    // SAFETY: by this function's contract.
    let file = unsafe { std::slice::from_raw_parts(file.cast::<u8>(), length) };
    // A library of its own in 4.1, in Open MPI's library in 5.
    if file != b"mca_mtl_ofi.so" && !file.starts_with(b"libmpi.so") {
        return;
    }
    let files = || [c"libmpi.so.40"].into_iter();
    // A program that names the communicator has a copy of it, which Open MPI uses too.
    // SAFETY: this is a handle.
    let copy = unsafe { library::address(libc::RTLD_DEFAULT, c"ompi_mpi_comm_world") };
    let world = copy.or_else(|| library::next(c"ompi_mpi_comm_world", files()));
    let (Some(abort), Some(world)) = (library::next(c"PMPI_Abort", files()), world) else { return };
    // SAFETY: `strerror` returns a string for every number, and it is copied at once.
    let why = unsafe { CStr::from_ptr(libc::strerror(error)) }.to_string_lossy().into_owned();
    eprintln!(
        "selvedge: a short message of this process was lost after its send had returned ({why}): its peer is dead, or the \
         network has lost it; MPI_Abort ends the job, because Open MPI has no request to report it with"
    );
    // SAFETY: this is Open MPI's function of this type, and the address of its predefined communicator.
    unsafe { std::mem::transmute::<*mut c_void, Abort>(abort)(world, OTHER) };
}
