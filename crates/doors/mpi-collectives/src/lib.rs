// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `libselvedge_mpi_collectives.so`: collective operations of a stock MPI in aggregation nodes.
//!
//! `selvedge mpirun` and `selvedge env` load this library before the MPI (`LD_PRELOAD`). It replaces these functions;
//! all others are the MPI's.
//!
//! | function | supported by groups |
//! |---|---|
//! | `MPI_Barrier`, `MPI_Bcast`, `MPI_Allgather` | for data of any type |
//! | `MPI_Allreduce`, `MPI_Reduce`, `MPI_Reduce_scatter`, `MPI_Reduce_scatter_block` | for the operations and types of the standard |
//! | `MPI_Ibarrier` and the other non-blocking forms | as the blocking ones, with a request of the MPI's |
//! | `MPI_Wait`, `MPI_Test` and the others that complete requests | by the MPI; failures of such requests are reported |
//!
//! Under Open MPI 4.1 a component of the MPI calls the same operations ([`component_calls`]); then the functions above
//! only pass calls on.
//!
//! A call goes to the MPI if no group can do it: processes on several hosts without nodes, intercommunicators, the
//! program's own operations, reductions of derived types ([`calls`]). `SELVEDGE_LOG=info` logs the reason for each
//! communicator.
//!
//! | file | subject |
//! |---|---|
//! | [`mpi`] | the MPI of the process: Open MPI or MPICH |
//! | [`types`] | its types and operations |
//! | [`component`] | whether Open MPI's component has taken over, and its requests |
//! | [`call`], [`buffers`] | a call; the program's buffers, packed if they have gaps |
//! | [`requests`] | requests of non-blocking operations |
//! | [`group`], [`outstanding`] | a communicator's group; groups with outstanding operations, and their progress |
//! | [`groups`] | the groups of all communicators |
//! | [`calls`] | the operations |
//! | [`completions`] | calls that complete requests |
//! | [`component_calls`] | the functions that Open MPI's component calls |
//!
//! Each file uses only those above it.
//!
//! Reductions are in the order of the processes, so a result has the same bits in every run, for every length.

mod buffers;
mod call;
mod calls;
mod completions;
mod component;
mod component_calls;
mod group;
mod groups;
mod mpi;
mod outstanding;
mod requests;
mod types;

use std::ffi::{CStr, c_int, c_void};

use call::Form;
use completions::Statuses;

/// The name of a function of the profiling interface.
macro_rules! profiling_name {
    ($name:ident) => {{
        const NAME: &CStr = match CStr::from_bytes_with_nul(concat!("P", stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!("the name has no NUL"),
        };
        NAME
    }};
}

/// Exports a function: a group carries it out, or else the MPI's function of that name.
macro_rules! export {
    ($($name:ident($($argument:ident: $type:ty),*) = $call:expr;)*) => {
        $(/// # Safety
        /// The arguments are those of the standard's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: this function has the same contract.
            #[allow(unused_unsafe)]
            let done = if component::is_active() { None } else { unsafe { $call } };
            if let Some(code) = done {
                return code;
            }
            static NEXT: Next = Next::new();
            let Some(function) = NEXT.function(profiling_name!($name)) else { return ERR_OTHER };
            // SAFETY: the function of this name has these arguments, which the program gave.
            unsafe {
                let function: unsafe extern "C" fn($($type),*) -> c_int = std::mem::transmute(function);
                function($($argument),*)
            }
        })*
    };
}

/// Returned if there is no MPI in the process. Any code but success will do.
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

/// Exports a blocking function and its non-blocking form, which takes a pointer for a request, too.
macro_rules! export_both {
    ($($name:ident, $nonblocking:ident ($($argument:ident: $type:ty),*) = $form:ident => $call:expr;)*) => {
        export! {
            $($name($($argument: $type),*) = {
                let $form = Form::Blocking;
                $call
            };
            $nonblocking($($argument: $type),*, request: *mut c_void) = {
                let $form = Form::Nonblocking(request);
                $call
            };)*
        }
    };
}

/// Exports a function that tests requests or waits for them. It calls the MPI's function, and then reports failures of
/// this library's requests. A wait names the test that it repeats until that succeeds.
macro_rules! export_completion {
    ($($name:ident($($argument:ident: $type:ty),*) writes $statuses:expr
        $(, looks by $look:ident($($given:expr => $given_type:ty),*) with $flag:ident until $found:expr)?;)*) => {
        $(/// # Safety
        /// The arguments are those of the standard's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            static NEXT: Next = Next::new();
            let Some(function) = NEXT.function(profiling_name!($name)) else { return ERR_OTHER };
            // SAFETY: the functions of these names have these arguments, which the program gave; and the statuses are those that they have
            // written.
            unsafe {
                let function: unsafe extern "C" fn($($type),*) -> c_int = std::mem::transmute(function);
                if !requests::are_open() {
                    return function($($argument),*);
                }
                let waited: Option<c_int> = None;
                $(static LOOK: Next = Next::new();
                let Some(look) = LOOK.function(profiling_name!($look)) else { return ERR_OTHER };
                let look: unsafe extern "C" fn($($given_type),*) -> c_int = std::mem::transmute(look);
                let waited = waited.or_else(|| completions::wait(|| {
                    let mut $flag: c_int = 0;
                    let code = look($($given),*);
                    (code != mpi::SUCCESS || $found).then_some(code)
                }));)?
                let code = waited.unwrap_or_else(|| function($($argument),*));
                mpi::library().map_or(code, |mpi| completions::report(mpi, code, $statuses))
            }
        })*
    };
}

export_both! {
    MPI_Barrier, MPI_Ibarrier(comm: usize) =
        form => calls::barrier(form, comm);
    MPI_Bcast, MPI_Ibcast(memory: *mut u8, count: c_int, datatype: usize, root: c_int, comm: usize) =
        form => calls::bcast(form, memory, count, datatype, root, comm);
    MPI_Allreduce, MPI_Iallreduce(
        from: *const u8, to: *mut u8, count: c_int, datatype: usize, op: usize, comm: usize
    ) =
        form => calls::allreduce(form, from, to, count, datatype, op, comm);
    MPI_Reduce, MPI_Ireduce(
        from: *const u8, to: *mut u8, count: c_int, datatype: usize, op: usize, root: c_int, comm: usize
    ) =
        form => calls::reduce(form, from, to, count, datatype, op, root, comm);
    MPI_Reduce_scatter, MPI_Ireduce_scatter(
        from: *const u8, to: *mut u8, counts: *const c_int, datatype: usize, op: usize, comm: usize
    ) =
        form => calls::reduce_scatter(form, from, to, counts, datatype, op, comm);
    MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block(
        from: *const u8, to: *mut u8, count: c_int, datatype: usize, op: usize, comm: usize
    ) =
        form => calls::reduce_scatter_block(form, from, to, count, datatype, op, comm);
    MPI_Allgather, MPI_Iallgather(
        from: *const u8, from_count: c_int, from_type: usize, to: *mut u8, to_count: c_int, to_type: usize, comm: usize
    ) =
        form => calls::allgather(form, (from, from_count, from_type), (to, to_count, to_type), comm);
}

export_completion! {
    MPI_Test(request: *mut c_void, flag: *mut c_int, status: *mut c_void) writes Statuses::One(status);
    MPI_Testany(
        count: c_int, requests: *mut c_void, index: *mut c_int, flag: *mut c_int, status: *mut c_void
    ) writes Statuses::One(status);
    MPI_Testall(count: c_int, requests: *mut c_void, flag: *mut c_int, statuses: *mut c_void)
        writes Statuses::Each(statuses, count);
    MPI_Testsome(
        count: c_int, requests: *mut c_void, done: *mut c_int, indices: *mut c_int, statuses: *mut c_void
    ) writes Statuses::Each(statuses, *done);
    MPI_Request_get_status(request: usize, flag: *mut c_int, status: *mut c_void) writes Statuses::One(status);

    MPI_Wait(request: *mut c_void, status: *mut c_void) writes Statuses::One(status),
        looks by MPI_Test(request => *mut c_void, &mut flag => *mut c_int, status => *mut c_void) with flag until flag != 0;
    MPI_Waitany(count: c_int, requests: *mut c_void, index: *mut c_int, status: *mut c_void) writes Statuses::One(status),
        looks by MPI_Testany(
            count => c_int, requests => *mut c_void, index => *mut c_int, &mut flag => *mut c_int, status => *mut c_void
        ) with flag until flag != 0;
    MPI_Waitall(count: c_int, requests: *mut c_void, statuses: *mut c_void) writes Statuses::Each(statuses, count),
        looks by MPI_Testall(
            count => c_int, requests => *mut c_void, &mut flag => *mut c_int, statuses => *mut c_void
        ) with flag until flag != 0;
    MPI_Waitsome(
        count: c_int, requests: *mut c_void, done: *mut c_int, indices: *mut c_int, statuses: *mut c_void
    ) writes Statuses::Each(statuses, *done),
        looks by MPI_Testsome(
            count => c_int, requests => *mut c_void, done => *mut c_int, indices => *mut c_int, statuses => *mut c_void
        ) with _flag until *done != 0;
}
