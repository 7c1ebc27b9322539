// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `velorun_*` (`include/velorun.h`): rank, size and start-up exchange of a program that velorun has started (seed 002, section
//! 2.3.2: the class Atollrun).
//!
//! Invariant: a function that returns int returns 0, or the number asked for, on success, and a negative errno value on failure.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

use selvedge_transport::Process;
use selvedge_transport::process::ProcessError;

fn current() -> Result<Arc<Process>, i32> {
    Process::current().map_err(|error| report(&error))
}

fn report(error: &ProcessError) -> i32 {
    log::error!("velorun: {error}");
    -libc::EIO
}

fn code(result: Result<(), i32>) -> i32 {
    result.err().unwrap_or(0)
}

#[unsafe(no_mangle)]
pub extern "C" fn velorun_init() -> i32 {
    code(current().and_then(|process| process.join().map_err(|error| report(&error))))
}

#[unsafe(no_mangle)]
pub extern "C" fn velorun_finalize() {
    if let Some(process) = Process::existing() {
        process.finalize();
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn velorun_rank() -> i32 {
    current().map_or(0, |process| process.rank() as i32)
}

#[unsafe(no_mangle)]
pub extern "C" fn velorun_size() -> i32 {
    current().map_or(1, |process| process.size() as i32)
}

#[unsafe(no_mangle)]
pub extern "C" fn velorun_barrier() -> i32 {
    code(current().and_then(|process| process.barrier().map_err(|error| report(&error))))
}

/// # Safety
/// As `velorun.h` says: `mine` has `bytes` bytes, and `all` has room for `bytes` of each rank, or they are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn velorun_exchange(mine: *const c_void, bytes: usize, all: *mut c_void) -> i32 {
    code((|| {
        let process = current()?;
        if bytes == 0 {
            return process.barrier().map_err(|error| report(&error));
        }
        if mine.is_null() || all.is_null() {
            return Err(-libc::EINVAL);
        }
        // SAFETY: not null; the caller says that `mine` has `bytes` bytes.
        let own = unsafe { std::slice::from_raw_parts(mine.cast::<u8>(), bytes) };
        let everyone = process.exchange(own).map_err(|error| report(&error))?;
        // SAFETY: not null; the caller says that `all` has room for this. The result is memory of this function.
        unsafe { std::ptr::copy_nonoverlapping(everyone.as_ptr(), all.cast::<u8>(), everyone.len()) };
        Ok(())
    })())
}

/// # Safety
/// As `velorun.h` says: `why` is a string or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn velorun_abort(status: i32, why: *const c_char) {
    let why = if why.is_null() {
        "no reason given".into()
    } else {
        // SAFETY: not null; the caller says that it is a string.
        unsafe { CStr::from_ptr(why) }.to_string_lossy()
    };
    match Process::current() {
        Ok(process) => process.abort(status, &why),
        Err(error) => {
            eprintln!("velorun: {why} ({error})");
            std::process::exit(status)
        }
    }
}
