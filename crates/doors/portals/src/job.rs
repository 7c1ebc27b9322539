// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge_*` (`include/selvedge.h`): rank, size, start-up exchange and shared memory, without another runtime.
//!
//! Invariant: functions that return int return 0 or the requested number, or a negative errno on failure.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;

use selvedge_process::{Process, launched, regions};

static VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"",
};

#[unsafe(no_mangle)]
pub extern "C" fn selvedge_init() -> i32 {
    launched::init()
}

#[unsafe(no_mangle)]
pub extern "C" fn selvedge_finalize() {
    launched::finalize();
}

#[unsafe(no_mangle)]
pub extern "C" fn selvedge_rank() -> i32 {
    launched::rank()
}

#[unsafe(no_mangle)]
pub extern "C" fn selvedge_size() -> i32 {
    launched::size()
}

#[unsafe(no_mangle)]
pub extern "C" fn selvedge_barrier() -> i32 {
    launched::barrier()
}

#[unsafe(no_mangle)]
pub extern "C" fn selvedge_exchange(mine: *const c_void, bytes: usize, all: *mut c_void) -> i32 {
    // SAFETY: as `selvedge.h` says: `mine` has `bytes` bytes, `all` has room for `bytes` of each rank, or they are NULL.
    unsafe { launched::exchange(mine, bytes, all) }
}

#[unsafe(no_mangle)]
pub extern "C" fn selvedge_alloc(bytes: usize) -> *mut c_void {
    let memory = launched::current().ok().and_then(|process| process.alloc(bytes));
    memory.map_or(std::ptr::null_mut(), |memory| memory.as_ptr().cast())
}

#[unsafe(no_mangle)]
pub extern "C" fn selvedge_free(memory: *mut c_void) {
    if let (Some(memory), Some(process)) = (NonNull::new(memory.cast::<u8>()), Process::existing()) {
        process.free(memory);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn selvedge_abort(status: i32, why: *const c_char) {
    // SAFETY: as `selvedge.h` says: `why` is a string or NULL.
    unsafe { launched::abort("selvedge", status, why) }
}

/// The name of a region. `None`: NULL.
///
/// # Safety
/// `name` is a string or NULL.
unsafe fn region<'a>(name: *const c_char) -> Option<Cow<'a, str>> {
    // SAFETY: not null; the caller says that it is a string.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy())
}

#[unsafe(no_mangle)]
pub extern "C" fn selvedge_region_begin(name: *const c_char) {
    // SAFETY: as `selvedge.h` says: `name` is a string or NULL.
    if let Some(name) = unsafe { region(name) } {
        regions::begin(&name);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn selvedge_region_end(name: *const c_char) {
    // SAFETY: as `selvedge.h` says: `name` is a string or NULL.
    if let Some(name) = unsafe { region(name) } {
        regions::end(&name);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn selvedge_version() -> *const c_char {
    VERSION.as_ptr()
}
