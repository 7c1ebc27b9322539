// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `libselvedge_mpich_preload.so`: MPICH's communicators and windows of shared memory, and long puts and gets.
//!
//! Messages within a host reach our provider only if MPICH assumes that every rank is on its own host
//! (`MPIR_CVAR_NOLOCAL`). Then its communicators of `MPI_COMM_TYPE_SHARED` have one rank, and `MPI_Win_allocate_shared`
//! fails. This library, which `selvedge mpirun` and `selvedge env mpich` load before MPICH (`LD_PRELOAD`), replaces:
//!
//! | function | effect |
//! |---|---|
//! | `MPI_Comm_split_type` | with `MPI_COMM_TYPE_SHARED`: splits by host ([`host`]) |
//! | `MPI_Win_allocate_shared` | maps one memory file in all ranks, and makes a window over each rank's part ([`window`]) |
//! | `MPI_Win_shared_query` | returns the parts of such a window |
//! | `MPI_Win_get_attr` | returns its flavor |
//! | `MPI_Win_free` | unmaps the file |
//! | `MPI_Put`, `MPI_Get` and their variants | long ones of mixed numbers move as bytes ([`transfers`]) |
//!
//! All else is MPICH's ([`mpich`]): puts, gets and accumulates on these windows go to the provider like all others.
//! Programs of another MPI, or of MPICH's library for the standard ABI (`libmpi_abi.so`), get their own library's
//! functions.

/// Calls the process's MPI, which has the function without this library.
macro_rules! forward {
    ($next:ident ($($argument:expr),*) as $type:ty) => {{
        let Some(function) = $next.find() else { return mpich::ERR_OTHER };
        // SAFETY: the function of this name has these arguments, which the program gave, or equivalent ones.
        unsafe { std::mem::transmute::<*mut c_void, $type>(function)($($argument),*) }
    }};
}

/// Exports a function under its name and under that of the profiling interface (MPI 4.1, 15.2), by which MPICH's `mpi_f08` calls it.
macro_rules! export {
    ($($mpi:ident $pmpi:ident = $function:ident($($argument:ident: $type:ty),*);)*) => {
        $(export!(@one $mpi $function($($argument: $type),*));
        export!(@one $pmpi $function($($argument: $type),*));)*
    };
    (@one $name:ident $function:ident($($argument:ident: $type:ty),*)) => {
        /// # Safety
        /// The arguments are those of the standard's function.
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            static NEXT: Next = Next::new(
                match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("the name has no NUL"),
                },
            );
            // SAFETY: this function has the same contract.
            unsafe { $function(&NEXT, $($argument),*) }
        }
    };
}

mod bytes;
mod datatypes;
mod host;
mod mpich;
mod transfers;
mod window;

use std::ffi::{c_int, c_void};

use mpich::{Handle, Mpich, Next, library};

type SplitType = unsafe extern "C" fn(Handle, c_int, c_int, Handle, *mut i32) -> c_int;
type AllocateShared = unsafe extern "C" fn(isize, c_int, Handle, Handle, *mut c_void, *mut i32) -> c_int;
type AllocateSharedLarge = unsafe extern "C" fn(isize, isize, Handle, Handle, *mut c_void, *mut i32) -> c_int;
type SharedQuery = unsafe extern "C" fn(Handle, c_int, *mut isize, *mut c_int, *mut c_void) -> c_int;
type SharedQueryLarge = unsafe extern "C" fn(Handle, c_int, *mut isize, *mut isize, *mut c_void) -> c_int;
type GetAttribute = unsafe extern "C" fn(Handle, c_int, *mut c_void, *mut c_int) -> c_int;
type Free = unsafe extern "C" fn(*mut i32) -> c_int;

export! {
    MPI_Comm_split_type PMPI_Comm_split_type =
        comm_split_type(comm: Handle, split_type: c_int, key: c_int, info: Handle, new: *mut i32);
    MPI_Win_allocate_shared PMPI_Win_allocate_shared =
        win_allocate_shared(size: isize, unit: c_int, info: Handle, comm: Handle, base: *mut c_void, win: *mut i32);
    MPI_Win_allocate_shared_c PMPI_Win_allocate_shared_c =
        win_allocate_shared_c(size: isize, unit: isize, info: Handle, comm: Handle, base: *mut c_void, win: *mut i32);
    MPI_Win_shared_query PMPI_Win_shared_query =
        win_shared_query(win: Handle, rank: c_int, size: *mut isize, unit: *mut c_int, base: *mut c_void);
    MPI_Win_shared_query_c PMPI_Win_shared_query_c =
        win_shared_query_c(win: Handle, rank: c_int, size: *mut isize, unit: *mut isize, base: *mut c_void);
    MPI_Win_get_attr PMPI_Win_get_attr = win_get_attr(win: Handle, key: c_int, value: *mut c_void, found: *mut c_int);
    MPI_Win_free PMPI_Win_free = win_free(win: *mut i32);
}

/// `MPI_Comm_split_type` (MPI 4.1, 7.4.2).
///
/// # Safety
/// The arguments are those of the standard's function.
unsafe fn comm_split_type(
    next: &Next,
    comm: Handle,
    split_type: c_int,
    key: c_int,
    info: Handle,
    new: *mut i32,
) -> c_int {
    let split = |mpich: &Mpich| host::split(mpich, comm as i32, split_type, key);
    match library().and_then(split) {
        Some(Ok(made)) => {
            // SAFETY: the standard requires a place for the communicator.
            unsafe { new.write(made) };
            mpich::SUCCESS
        }
        Some(Err(error)) => error,
        None => forward!(next(comm, split_type, key, info, new) as SplitType),
    }
}

/// `MPI_Win_allocate_shared` (MPI 4.1, 12.2.3).
///
/// # Safety
/// The arguments are those of the standard's function.
unsafe fn win_allocate_shared(
    next: &Next,
    size: isize,
    unit: c_int,
    info: Handle,
    comm: Handle,
    base: *mut c_void,
    win: *mut i32,
) -> c_int {
    match library() {
        // SAFETY: this function has the same contract.
        Some(mpich) => unsafe { window::allocate(mpich, size, unit, info as i32, comm as i32, base.cast(), win) },
        None => forward!(next(size, unit, info, comm, base, win) as AllocateShared),
    }
}

/// As `MPI_Win_allocate_shared`, with a displacement unit of the size of an address.
///
/// # Safety
/// The arguments are those of the standard's function.
unsafe fn win_allocate_shared_c(
    next: &Next,
    size: isize,
    unit: isize,
    info: Handle,
    comm: Handle,
    base: *mut c_void,
    win: *mut i32,
) -> c_int {
    match library() {
        // SAFETY: this function has the same contract. A unit that is too large is refused as one that is not positive.
        Some(mpich) => unsafe {
            let unit = c_int::try_from(unit).unwrap_or(-1);
            window::allocate(mpich, size, unit, info as i32, comm as i32, base.cast(), win)
        },
        None => forward!(next(size, unit, info, comm, base, win) as AllocateSharedLarge),
    }
}

/// Writes start and length of a part of a window. Returns its displacement unit. `None`: the window is not ours.
///
/// # Safety
/// `size` and `base` are places for the results.
unsafe fn query(win: Handle, rank: c_int, size: *mut isize, base: *mut c_void) -> Option<Result<c_int, c_int>> {
    let found = window::query(library()?, win as i32, rank)?;
    Some(found.map(|part| {
        // SAFETY: this function requires places for the results.
        unsafe {
            size.write(part.bytes);
            base.cast::<*mut u8>().write(part.start);
        }
        part.unit
    }))
}

/// `MPI_Win_shared_query` (MPI 4.1, 12.2.3). `rank` may be `MPI_PROC_NULL`.
///
/// # Safety
/// The arguments are those of the standard's function.
unsafe fn win_shared_query(
    next: &Next,
    win: Handle,
    rank: c_int,
    size: *mut isize,
    unit: *mut c_int,
    base: *mut c_void,
) -> c_int {
    // SAFETY: this function has the same contract.
    match unsafe { query(win, rank, size, base) } {
        Some(Ok(found)) => {
            // SAFETY: the standard requires a place for the unit.
            unsafe { unit.write(found) };
            mpich::SUCCESS
        }
        Some(Err(error)) => error,
        None => forward!(next(win, rank, size, unit, base) as SharedQuery),
    }
}

/// As `MPI_Win_shared_query`, with a displacement unit of the size of an address.
///
/// # Safety
/// The arguments are those of the standard's function.
unsafe fn win_shared_query_c(
    next: &Next,
    win: Handle,
    rank: c_int,
    size: *mut isize,
    unit: *mut isize,
    base: *mut c_void,
) -> c_int {
    // SAFETY: this function has the same contract.
    match unsafe { query(win, rank, size, base) } {
        Some(Ok(found)) => {
            // SAFETY: the standard requires a place for the unit.
            unsafe { unit.write(found as isize) };
            mpich::SUCCESS
        }
        Some(Err(error)) => error,
        None => forward!(next(win, rank, size, unit, base) as SharedQueryLarge),
    }
}

/// `MPI_Win_get_attr` (MPI 4.1, 7.7.3 and 12.2.6).
///
/// # Safety
/// The arguments are those of the standard's function.
unsafe fn win_get_attr(next: &Next, win: Handle, key: c_int, value: *mut c_void, found: *mut c_int) -> c_int {
    if key == mpich::WIN_CREATE_FLAVOR && library().is_some() && window::is_shared(win as i32) {
        // SAFETY: the standard requires places for the address of the value, which is static, and for the flag.
        unsafe {
            value.cast::<*const c_int>().write(&mpich::WIN_FLAVOR_SHARED);
            found.write(1);
        }
        return mpich::SUCCESS;
    }
    forward!(next(win, key, value, found) as GetAttribute)
}

/// `MPI_Win_free` (MPI 4.1, 12.2.5).
///
/// # Safety
/// The arguments are those of the standard's function.
unsafe fn win_free(next: &Next, win: *mut i32) -> c_int {
    // The window stays in the table during the call, because callbacks of the program that MPICH calls may query it.
    // SAFETY: the standard requires a window there.
    let window_to_free = library().and_then(|_| window::find(unsafe { *win }));
    let outcome = forward!(next(win) as Free);
    if let (Some(window_to_free), mpich::SUCCESS) = (window_to_free, outcome) {
        window::free(window_to_free);
    }
    outcome
}
