// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge_*` (`include/selvedge.h`): rank, size, start-up exchange and shared memory, for Portals programs without a runtime of
//! their own.
//!
//! Invariant: a function that returns int returns 0, or the number asked for, on success, and a negative errno value on failure.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use selvedge_transport::Process;
use selvedge_transport::process::ProcessError;

const EINVAL: i32 = -22;
const EIO: i32 = -5;

static VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"",
};

fn current() -> Result<Arc<Process>, i32> {
    Process::current().map_err(|error| report(&error))
}

fn report(error: &ProcessError) -> i32 {
    log::error!("{error}");
    EIO
}

fn code(result: Result<(), i32>) -> i32 {
    result.err().unwrap_or(0)
}

#[unsafe(no_mangle)]
pub extern "C" fn selvedge_init() -> i32 {
    code(current().and_then(|process| process.join().map_err(|error| report(&error))))
}

#[unsafe(no_mangle)]
pub extern "C" fn selvedge_finalize() {
    if let Some(process) = Process::existing() {
        process.finalize();
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn selvedge_rank() -> i32 {
    current().map_or(0, |process| process.rank() as i32)
}

#[unsafe(no_mangle)]
pub extern "C" fn selvedge_size() -> i32 {
    current().map_or(1, |process| process.size() as i32)
}

#[unsafe(no_mangle)]
pub extern "C" fn selvedge_barrier() -> i32 {
    code(current().and_then(|process| process.barrier().map_err(|error| report(&error))))
}

#[unsafe(no_mangle)]
pub extern "C" fn selvedge_exchange(mine: *const c_void, bytes: usize, all: *mut c_void) -> i32 {
    code((|| {
        let process = current()?;
        if bytes == 0 {
            return process.barrier().map_err(|error| report(&error));
        }
        if mine.is_null() || all.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: not null; `selvedge.h` says that `mine` has `bytes` bytes, which do not change during the call.
        let own = unsafe { std::slice::from_raw_parts(mine.cast::<u8>(), bytes) };
        let everyone = process.exchange(own).map_err(|error| report(&error))?;
        // SAFETY: not null; `selvedge.h` says that `all` has room for `bytes` of every rank, and the exchange returns as many. The
        // result is memory of this function, so the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(everyone.as_ptr(), all.cast::<u8>(), everyone.len()) };
        Ok(())
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn selvedge_alloc(bytes: usize) -> *mut c_void {
    let memory = current().ok().and_then(|process| process.alloc(bytes));
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
    let why = if why.is_null() {
        "no reason given".into()
    } else {
        // SAFETY: not null; `selvedge.h` says that it is a string, which ends with a zero and does not change during the call.
        unsafe { CStr::from_ptr(why) }.to_string_lossy()
    };
    match Process::current() {
        Ok(process) => process.abort(status, &why),
        Err(error) => {
            eprintln!("selvedge: {why} ({error})");
            std::process::exit(status)
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn selvedge_version() -> *const c_char {
    VERSION.as_ptr()
}
