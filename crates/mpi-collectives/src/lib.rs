// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `libselvedge_mpi_collectives.so`: collective operations of a stock MPI in aggregation nodes.
//!
//! `selvedge mpirun` and `selvedge env` load this library before the MPI (`LD_PRELOAD`). It has these functions; all others are the MPI's.
//!
//! | function | how |
//! |---|---|
//! | `MPI_Barrier`, `MPI_Bcast`, `MPI_Allgather` | as they are, for data of any type |
//! | `MPI_Allreduce`, `MPI_Reduce`, `MPI_Reduce_scatter`, `MPI_Reduce_scatter_block` | for the operations and types of the standard |
//!
//! A call goes on to the MPI where a group cannot do it: processes on several hosts, intercommunicators, operations of the program's own,
//! reductions of derived types ([`calls`]). `SELVEDGE_LOG=info` says of each communicator why.
//!
//! | file | what |
//! |---|---|
//! | [`mpi`] | the MPI of the process: Open MPI or MPICH |
//! | [`types`] | its types and operations |
//! | [`groups`] | communicators as groups |
//! | [`calls`] | the operations |
//!
//! Reductions are in the order of the processes, so a result has the same bits in every run, for every length.

mod calls;
mod groups;
mod mpi;
mod types;

use std::ffi::{CStr, c_int, c_void};

/// Exports a function: what a group does, or else the MPI's function of that name.
macro_rules! export {
    ($($name:ident($($argument:ident: $type:ty),*) = $call:expr;)*) => {
        $(/// # Safety
        /// The arguments are those of the standard's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: this function has the same contract.
            #[allow(unused_unsafe)]
            if let Some(code) = unsafe { $call } {
                return code;
            }
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!("P", stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("the name has no NUL"),
            };
            static NEXT: Next = Next::new();
            let Some(function) = NEXT.function(NAME) else { return ERR_OTHER };
            // SAFETY: the function of this name has these arguments, which the program gave.
            unsafe {
                let function: unsafe extern "C" fn($($type),*) -> c_int = std::mem::transmute(function);
                function($($argument),*)
            }
        })*
    };
}

/// There is no MPI in the process. Any code but success.
const ERR_OTHER: c_int = 16;

/// The MPI's function of a name, looked up once.
struct Next(std::sync::atomic::AtomicPtr<c_void>);

impl Next {
    const fn new() -> Next {
        Next(std::sync::atomic::AtomicPtr::new(std::ptr::null_mut()))
    }

    fn function(&self, name: &CStr) -> Option<*mut c_void> {
        use std::sync::atomic::Ordering::Relaxed;
        let known = self.0.load(Relaxed);
        if !known.is_null() {
            return Some(known);
        }
        let found = mpi::next(name)?;
        self.0.store(found, Relaxed);
        Some(found)
    }
}

export! {
    MPI_Barrier(comm: usize) = calls::barrier(comm);
    MPI_Bcast(memory: *mut u8, count: c_int, datatype: usize, root: c_int, comm: usize) =
        calls::bcast(memory, count, datatype, root, comm);
    MPI_Allreduce(from: *const u8, to: *mut u8, count: c_int, datatype: usize, op: usize, comm: usize) =
        calls::allreduce(from, to, count, datatype, op, comm);
    MPI_Reduce(from: *const u8, to: *mut u8, count: c_int, datatype: usize, op: usize, root: c_int, comm: usize) =
        calls::reduce(from, to, count, datatype, op, root, comm);
    MPI_Reduce_scatter(from: *const u8, to: *mut u8, counts: *const c_int, datatype: usize, op: usize, comm: usize) =
        calls::reduce_scatter(from, to, counts, datatype, op, comm);
    MPI_Reduce_scatter_block(from: *const u8, to: *mut u8, count: c_int, datatype: usize, op: usize, comm: usize) =
        calls::reduce_scatter_block(from, to, count, datatype, op, comm);
    MPI_Allgather(
        from: *const u8,
        from_count: c_int,
        from_type: usize,
        to: *mut u8,
        to_count: c_int,
        to_type: usize,
        comm: usize
    ) = calls::allgather((from, from_count, from_type), (to, to_count, to_type), comm);
}
