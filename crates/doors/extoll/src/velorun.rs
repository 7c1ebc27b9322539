// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `velorun_*` (`include/velorun.h`): rank, size and start-up exchange of a program started by velorun (seed 002,
//! section 2.3.2: the class Atollrun).

use std::ffi::{c_char, c_void};

use selvedge_process::launched;

#[unsafe(no_mangle)]
pub extern "C" fn velorun_init() -> i32 {
    launched::init()
}

#[unsafe(no_mangle)]
pub extern "C" fn velorun_finalize() {
    launched::finalize();
}

#[unsafe(no_mangle)]
pub extern "C" fn velorun_rank() -> i32 {
    launched::rank()
}

#[unsafe(no_mangle)]
pub extern "C" fn velorun_size() -> i32 {
    launched::size()
}

#[unsafe(no_mangle)]
pub extern "C" fn velorun_barrier() -> i32 {
    launched::barrier()
}

/// # Safety
/// As `velorun.h` says: `mine` has `bytes` bytes, and `all` has room for `bytes` of each rank, or they are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn velorun_exchange(mine: *const c_void, bytes: usize, all: *mut c_void) -> i32 {
    // SAFETY: the caller's.
    unsafe { launched::exchange(mine, bytes, all) }
}

/// # Safety
/// As `velorun.h` says: `why` is a string or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn velorun_abort(status: i32, why: *const c_char) {
    // SAFETY: the caller's.
    unsafe { launched::abort("velorun", status, why) }
}
