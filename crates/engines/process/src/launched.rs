// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rank, size and start-up exchange for C programs: the common part of `selvedge_*` and `velorun_*`.
//!
//! Invariant: a function that returns `i32` returns 0, or the requested number, on success, and a negative errno value
//! on failure.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

use crate::process::{Process, ProcessError};

/// Returns the process in its job; an error is written to the log.
pub fn current() -> Result<Arc<Process>, i32> {
    Process::current().map_err(|error| report(&error))
}

fn report(error: &ProcessError) -> i32 {
    log::error!("{error}");
    -libc::EIO
}

fn code(result: Result<(), i32>) -> i32 {
    result.err().unwrap_or(0)
}

pub fn init() -> i32 {
    code(current().and_then(|process| process.join().map_err(|error| report(&error))))
}

pub fn finalize() {
    if let Some(process) = Process::existing() {
        process.finalize();
    }
}

pub fn rank() -> i32 {
    current().map_or(0, |process| process.rank() as i32)
}

pub fn size() -> i32 {
    current().map_or(1, |process| process.size() as i32)
}

pub fn barrier() -> i32 {
    code(current().and_then(|process| process.barrier().map_err(|error| report(&error))))
}

/// Gathers `bytes` bytes of each rank in `all`, in rank order. With 0 bytes it is a barrier.
///
/// # Safety
/// `mine` has `bytes` bytes, which do not change during the call, and `all` has room for `bytes` of each rank, or they
/// are NULL.
pub unsafe fn exchange(mine: *const c_void, bytes: usize, all: *mut c_void) -> i32 {
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
        // SAFETY: not null; the caller says that `all` has room for `bytes` of each rank, and the exchange returns as many. The
        // result is memory of this function, so the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(everyone.as_ptr(), all.cast::<u8>(), everyone.len()) };
        Ok(())
    })())
}

/// Ends the whole job. `name` is the interface for the message of a process outside any job.
///
/// # Safety
/// `why` is a string, which does not change during the call, or NULL.
pub unsafe fn abort(name: &str, status: i32, why: *const c_char) -> ! {
    let why = if why.is_null() {
        "no reason given".into()
    } else {
        // SAFETY: not null; the caller says that it is a string.
        unsafe { CStr::from_ptr(why) }.to_string_lossy()
    };
    match Process::current() {
        Ok(process) => process.abort(status, &why),
        Err(error) => {
            eprintln!("{name}: {why} ({error})");
            std::process::exit(status)
        }
    }
}
