// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions that the component of Open MPI 4.1 calls (`mca/coll_selvedge.c`): the same operations as under MPI's
//! names. Inside of the MPI some things differ:
//!
//! | | under MPI's names | in the component |
//! |---|---|---|
//! | a request | a generalized one; the calls that complete requests report its failure | of the component's own class, with its code |
//! | a failure | this library calls the error handler | the MPI does |
//! | the end of a communicator | an attribute | the end of its module |
//! | yields of a waiting MPI | in `MPI_Wait` | whenever the MPI makes progress ([`outstanding`](crate::outstanding)) |
//!
//! Invariant: a non-blocking all-reduce of one `MPI_INT` by maximum or minimum is left to the MPI. `MPI_Comm_idup` uses
//! these. Each process starts them when it makes progress, so their place among the program's operations differs
//! between processes. All ranks decide alike.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use selvedge_collectives::one_host::log;

use crate::call::Form;
use crate::component::{self, Requests};
use crate::mpi::{Handle, Mpi, library};
use crate::{calls, groups};

/// Returned for an operation that is left to the MPI.
const BENEATH: c_int = c_int::MIN;

/// Whether the component was compiled for the version of the process's MPI, whose internal structures it uses.
///
/// # Safety
/// The version is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_coll_is_for(version: *const c_char) -> bool {
    // SAFETY: by this function's contract.
    let wanted = unsafe { CStr::from_ptr(version) }.to_string_lossy();
    let text = library().map_or(String::new(), Mpi::version);
    let is_wanted = is_of_version(&text, &wanted);
    if !is_wanted {
        log::info(|| {
            format!("the component coll selvedge is for Open MPI {wanted}, but this is \"{text}\": it is not used")
        });
    }
    is_wanted
}

/// Whether the text of `MPI_Get_library_version` names an Open MPI of this version.
fn is_of_version(text: &str, wanted: &str) -> bool {
    let version = text.strip_prefix("Open MPI v").and_then(|rest| rest.split(',').next());
    version.is_some_and(|version| version.trim_end() == wanted)
}

/// Makes the component carry operations out from now on.
///
/// # Safety
/// The functions of requests stay valid, and do what [`Requests`] says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_coll_takes_over(requests: *const Requests) {
    // SAFETY: by this function's contract.
    component::take_over(unsafe { *requests });
}

/// Ends a communicator's group.
#[unsafe(no_mangle)]
pub extern "C" fn selvedge_coll_ends(comm: Handle) {
    groups::end(comm);
}

/// The form of a call: blocking if there is no pointer for a request.
fn form(request: *mut c_void) -> Form {
    if request.is_null() { Form::Blocking } else { Form::Nonblocking(request) }
}

/// Exports the functions of operations.
macro_rules! export {
    ($($name:ident($($argument:ident: $type:ty),*) = $form:ident => $call:expr;)*) => {
        $(/// # Safety
        /// The arguments are those of the standard's function. `request` is null for a blocking call.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type,)* comm: Handle, request: *mut c_void) -> c_int {
            let $form = (form(request), comm);
            // SAFETY: this function has the same contract.
            #[allow(unused_unsafe)]
            unsafe { $call }.unwrap_or(BENEATH)
        })*
    };
}

export! {
    selvedge_coll_barrier() = it => calls::barrier(it.0, it.1);
    selvedge_coll_bcast(memory: *mut u8, count: c_int, datatype: usize, root: c_int) =
        it => calls::bcast(it.0, memory, count, datatype, root, it.1);
    selvedge_coll_allreduce(from: *const u8, to: *mut u8, count: c_int, datatype: usize, op: usize) =
        it => match is_of_the_mpi(it.0, count, datatype, op) {
            true => None,
            false => calls::allreduce(it.0, from, to, count, datatype, op, it.1),
        };
    selvedge_coll_reduce(from: *const u8, to: *mut u8, count: c_int, datatype: usize, op: usize, root: c_int) =
        it => calls::reduce(it.0, from, to, count, datatype, op, root, it.1);
    selvedge_coll_reduce_scatter(from: *const u8, to: *mut u8, counts: *const c_int, datatype: usize, op: usize) =
        it => calls::reduce_scatter(it.0, from, to, counts, datatype, op, it.1);
    selvedge_coll_reduce_scatter_block(from: *const u8, to: *mut u8, count: c_int, datatype: usize, op: usize) =
        it => calls::reduce_scatter_block(it.0, from, to, count, datatype, op, it.1);
    selvedge_coll_allgather(
        from: *const u8, from_count: c_int, from_type: usize, to: *mut u8, to_count: c_int, to_type: usize
    ) =
        it => calls::allgather(it.0, (from, from_count, from_type), (to, to_count, to_type), it.1);
}

/// Whether the operation may be one of `MPI_Comm_idup`.
fn is_of_the_mpi(form: Form, count: c_int, datatype: Handle, op: Handle) -> bool {
    static INT: OnceLock<Option<(Handle, [Handle; 2])>> = OnceLock::new();
    if count != 1 || matches!(form, Form::Blocking) {
        return false;
    }
    let int = INT.get_or_init(|| {
        let mpi = library()?;
        let operations = [mpi.object(c"ompi_mpi_op_max")?, mpi.object(c"ompi_mpi_op_min")?];
        Some((mpi.object(c"ompi_mpi_int")?, operations))
    });
    int.is_none_or(|(int, operations)| datatype == int && operations.contains(&op))
}

#[cfg(test)]
mod tests {
    use super::is_of_version;

    #[test]
    fn only_the_same_version_is_taken() {
        let text = |version: &str| format!("Open MPI v{version}, package: Debian OpenMPI, ident: {version}");
        assert!(is_of_version(&text("4.1.4"), "4.1.4"));
        for other in ["4.1.40", "4.1.4rc1", "4.1.5", "5.0.8", ""] {
            assert!(!is_of_version(&text(other), "4.1.4"), "{other}");
        }
        assert!(!is_of_version("MPICH Version: 4.1.4", "4.1.4") && !is_of_version("", "4.1.4"));
    }
}
