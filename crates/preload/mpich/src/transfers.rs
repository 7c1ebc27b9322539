// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts, gets, and accumulates with a result: MPICH's functions, with layouts in bytes where MPICH would lose data
//! ([`bytes`](crate::bytes)).
//!
//! An accumulate needs the numbers of origin and target. MPICH moves those whole, so only the datatype of the result is
//! replaced.

use std::ffi::{c_int, c_void};

use crate::bytes::in_bytes;
use crate::mpich::{self, Handle, Next};

/// Part of a buffer: its address, and how many elements of which datatype. `C` is the type of counts.
type Transfer<C> = unsafe extern "C" fn(*mut c_void, C, Handle, c_int, isize, C, Handle, Handle) -> c_int;
type Requested<C> = unsafe extern "C" fn(*mut c_void, C, Handle, c_int, isize, C, Handle, Handle, *mut c_void) -> c_int;
type Accumulate<C> = unsafe extern "C" fn(
    *mut c_void,
    C,
    Handle,
    *mut c_void,
    C,
    Handle,
    c_int,
    isize,
    C,
    Handle,
    Handle,
    Handle,
) -> c_int;
type RequestedAccumulate<C> = unsafe extern "C" fn(
    *mut c_void,
    C,
    Handle,
    *mut c_void,
    C,
    Handle,
    c_int,
    isize,
    C,
    Handle,
    Handle,
    Handle,
    *mut c_void,
) -> c_int;

/// Exports `MPI_Put` and functions with the same arguments. The first argument is the type of counts.
macro_rules! export_transfers {
    ($count:ty: $($mpi:ident $pmpi:ident)*) => { export! { $(
        $mpi $pmpi = transfer(
            origin: *mut c_void, origin_count: $count, origin_type: Handle,
            target: c_int, at: isize, target_count: $count, target_type: Handle, win: Handle
        );
    )* } };
}

/// Exports `MPI_Rput` and functions with the same arguments.
macro_rules! export_requested {
    ($count:ty: $($mpi:ident $pmpi:ident)*) => { export! { $(
        $mpi $pmpi = requested(
            origin: *mut c_void, origin_count: $count, origin_type: Handle,
            target: c_int, at: isize, target_count: $count, target_type: Handle, win: Handle, request: *mut c_void
        );
    )* } };
}

macro_rules! export_accumulates {
    ($count:ty: $mpi:ident $pmpi:ident, $mpi_requested:ident $pmpi_requested:ident) => {
        export! {
            $mpi $pmpi = accumulate(
                origin: *mut c_void, origin_count: $count, origin_type: Handle,
                result: *mut c_void, result_count: $count, result_type: Handle,
                target: c_int, at: isize, target_count: $count, target_type: Handle, operation: Handle, win: Handle
            );
            $mpi_requested $pmpi_requested = requested_accumulate(
                origin: *mut c_void, origin_count: $count, origin_type: Handle,
                result: *mut c_void, result_count: $count, result_type: Handle,
                target: c_int, at: isize, target_count: $count, target_type: Handle, operation: Handle, win: Handle,
                request: *mut c_void
            );
        }
    };
}

export_transfers!(c_int: MPI_Put PMPI_Put MPI_Get PMPI_Get);
export_transfers!(i64: MPI_Put_c PMPI_Put_c MPI_Get_c PMPI_Get_c);
export_requested!(c_int: MPI_Rput PMPI_Rput MPI_Rget PMPI_Rget);
export_requested!(i64: MPI_Rput_c PMPI_Rput_c MPI_Rget_c PMPI_Rget_c);
export_accumulates!(c_int: MPI_Get_accumulate PMPI_Get_accumulate, MPI_Rget_accumulate PMPI_Rget_accumulate);
export_accumulates!(i64: MPI_Get_accumulate_c PMPI_Get_accumulate_c, MPI_Rget_accumulate_c PMPI_Rget_accumulate_c);

/// `MPI_Put` and `MPI_Get` (MPI 4.1, 12.3).
///
/// # Safety
/// The arguments are those of the standard's function.
#[allow(clippy::too_many_arguments)]
unsafe fn transfer<C: Copy + Into<i64>>(
    next: &Next,
    origin: *mut c_void,
    origin_count: C,
    origin_type: Handle,
    target: c_int,
    at: isize,
    target_count: C,
    target_type: Handle,
    win: Handle,
) -> c_int {
    let origin_type = in_bytes(origin_type, origin_count.into());
    let target_type = in_bytes(target_type, target_count.into());
    forward!(next(origin, origin_count, origin_type.handle, target, at, target_count, target_type.handle, win)
        as Transfer<C>)
}

/// `MPI_Rput` and `MPI_Rget` (MPI 4.1, 12.3.5).
///
/// # Safety
/// The arguments are those of the standard's function.
#[allow(clippy::too_many_arguments)]
unsafe fn requested<C: Copy + Into<i64>>(
    next: &Next,
    origin: *mut c_void,
    origin_count: C,
    origin_type: Handle,
    target: c_int,
    at: isize,
    target_count: C,
    target_type: Handle,
    win: Handle,
    request: *mut c_void,
) -> c_int {
    let origin_type = in_bytes(origin_type, origin_count.into());
    let target_type = in_bytes(target_type, target_count.into());
    forward!(next(origin, origin_count, origin_type.handle, target, at, target_count, target_type.handle, win, request)
        as Requested<C>)
}

/// `MPI_Get_accumulate` (MPI 4.1, 12.3.4).
///
/// # Safety
/// The arguments are those of the standard's function.
#[allow(clippy::too_many_arguments)]
unsafe fn accumulate<C: Copy + Into<i64>>(
    next: &Next,
    origin: *mut c_void,
    origin_count: C,
    origin_type: Handle,
    result: *mut c_void,
    result_count: C,
    result_type: Handle,
    target: c_int,
    at: isize,
    target_count: C,
    target_type: Handle,
    operation: Handle,
    win: Handle,
) -> c_int {
    let result_type = in_bytes(result_type, result_count.into());
    forward!(next(
        origin,
        origin_count,
        origin_type,
        result,
        result_count,
        result_type.handle,
        target,
        at,
        target_count,
        target_type,
        operation,
        win
    ) as Accumulate<C>)
}

/// `MPI_Rget_accumulate` (MPI 4.1, 12.3.5).
///
/// # Safety
/// The arguments are those of the standard's function.
#[allow(clippy::too_many_arguments)]
unsafe fn requested_accumulate<C: Copy + Into<i64>>(
    next: &Next,
    origin: *mut c_void,
    origin_count: C,
    origin_type: Handle,
    result: *mut c_void,
    result_count: C,
    result_type: Handle,
    target: c_int,
    at: isize,
    target_count: C,
    target_type: Handle,
    operation: Handle,
    win: Handle,
    request: *mut c_void,
) -> c_int {
    let result_type = in_bytes(result_type, result_count.into());
    forward!(next(
        origin,
        origin_count,
        origin_type,
        result,
        result_count,
        result_type.handle,
        target,
        at,
        target_count,
        target_type,
        operation,
        win,
        request
    ) as RequestedAccumulate<C>)
}
