// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C library's `malloc`, but that large blocks lie where peers reach them in place.
//!
//! Blocks of [`LARGE_BYTES`] (a page) and more are taken from a file in memory that the processes of a job map of each other
//! ([`crate::pool`]). A long message between two unchanged programs is then one copy by the processor; by cross-memory attach, what
//! else would be left, it costs three to four times as much, for the kernel looks up each page. Smaller blocks are the C library's, to
//! which all calls are passed on.
//!
//! Not shared: stacks, what a program maps itself, blocks that huge pages are worth more to ([`crate::huge`]); nothing at all where
//! limits on address space or on the size of files (`ulimit -v`, `-f`) leave no room.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::pool::{Block, Pool};
use crate::{fork, keeping_errno, system, wanted};

/// Blocks of this many bytes and more are shared.
pub const LARGE_BYTES: usize = 4 << 10;

pub static POOL: Pool = Pool::new();

/// Makes the pool at its first use.
pub fn begin() {
    if POOL.begin(wanted) {
        fork::install();
    }
}

/// A large block, if this is one and there is room.
#[inline(always)]
fn take(bytes: usize, align: usize) -> Option<Block> {
    if bytes < LARGE_BYTES { None } else { take_large(bytes, align) }
}

#[cold]
fn take_large(bytes: usize, align: usize) -> Option<Block> {
    keeping_errno(|| {
        begin();
        POOL.take(bytes, align)
    })
}

fn fail(error: c_int) -> *mut c_void {
    // SAFETY: the thread's own word.
    unsafe { *libc::__errno_location() = error };
    ptr::null_mut()
}

/// The program has given an address that begins no block: as the C library does, it is ended.
#[cold]
fn invalid(function: &str) -> ! {
    let text = [function.as_bytes(), b": invalid pointer (selvedge: no large block begins there)\n"].concat();
    // SAFETY: writes that many bytes.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
    std::process::abort()
}

/// The C library's functions (ISO C 7.24.3, POSIX `posix_memalign`, glibc's manual, "Replacing malloc").
///
/// In tests they are not put in the place of the system's.
#[cfg_attr(test, allow(dead_code))]
mod exported {
    use super::*;

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
        match take(bytes, 1) {
            Some(block) => block.start.cast(),
            // SAFETY: no preconditions.
            None => unsafe { system::malloc(bytes) },
        }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
        let Some(all) = count.checked_mul(bytes) else { return fail(libc::ENOMEM) };
        match take(all, 1) {
            Some(block) => {
                if !block.zeroed {
                    // SAFETY: a block of that many bytes.
                    unsafe { ptr::write_bytes(block.start, 0, all) };
                }
                block.start.cast()
            }
            // SAFETY: no preconditions.
            None => unsafe { system::calloc(count, bytes) },
        }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
        let large = POOL.holds(block.cast());
        if !large && (block.is_null() || bytes < LARGE_BYTES) {
            // SAFETY: the caller's block is the C library's, or null.
            return if block.is_null() { unsafe { malloc(bytes) } } else { unsafe { system::realloc(block, bytes) } };
        }
        if large && bytes == 0 {
            // SAFETY: the caller's block.
            unsafe { free(block) };
            return ptr::null_mut();
        }
        if large && bytes >= LARGE_BYTES && keeping_errno(|| POOL.resize(block.cast(), bytes)) {
            return block;
        }
        let held = if large {
            POOL.size(block.cast()).unwrap_or_else(|| invalid("realloc()"))
        } else {
            // SAFETY: a block of the C library's.
            unsafe { system::usable_size(block) }
        };
        let to = match take(bytes, 1) {
            Some(block) => block.start.cast(),
            // SAFETY: the caller's block is the C library's.
            None if !large => return unsafe { system::realloc(block, bytes) },
            // SAFETY: no preconditions.
            None => unsafe { system::malloc(bytes) },
        };
        if !to.is_null() {
            // SAFETY: both are as long as that; the old block is the caller's.
            unsafe {
                ptr::copy_nonoverlapping(block.cast::<u8>(), to.cast::<u8>(), held.min(bytes));
                free(block);
            }
        }
        to
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, bytes: usize) -> *mut c_void {
        match count.checked_mul(bytes) {
            // SAFETY: the caller's block.
            Some(all) => unsafe { realloc(block, all) },
            None => fail(libc::ENOMEM),
        }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn free(block: *mut c_void) {
        if !POOL.holds(block.cast()) {
            // SAFETY: the caller's block is the C library's, or null.
            return unsafe { system::free(block) };
        }
        if !keeping_errno(|| POOL.give(block.cast())) {
            invalid("free()");
        }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn free_sized(block: *mut c_void, _: usize) {
        // SAFETY: the caller's block.
        unsafe { free(block) }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn free_aligned_sized(block: *mut c_void, _: usize, _: usize) {
        // SAFETY: the caller's block.
        unsafe { free(block) }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn memalign(align: usize, bytes: usize) -> *mut c_void {
        let block = if align.is_power_of_two() { take(bytes, align) } else { None };
        match block {
            Some(block) => block.start.cast(),
            // SAFETY: no preconditions.
            None => unsafe { system::memalign(align, bytes) },
        }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn aligned_alloc(align: usize, bytes: usize) -> *mut c_void {
        if !align.is_power_of_two() {
            return fail(libc::EINVAL);
        }
        // SAFETY: no preconditions.
        unsafe { memalign(align, bytes) }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn posix_memalign(block: *mut *mut c_void, align: usize, bytes: usize) -> c_int {
        if !align.is_power_of_two() || align % size_of::<usize>() != 0 {
            return libc::EINVAL;
        }
        // SAFETY: no preconditions.
        let found = keeping_errno(|| unsafe { memalign(align, bytes) });
        if found.is_null() {
            return libc::ENOMEM;
        }
        // SAFETY: the caller's.
        unsafe { block.write(found) };
        0
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn valloc(bytes: usize) -> *mut c_void {
        // SAFETY: no preconditions.
        unsafe { memalign(rustix::param::page_size(), bytes) }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
        match bytes.checked_next_multiple_of(rustix::param::page_size()) {
            // SAFETY: no preconditions.
            Some(whole) => unsafe { valloc(whole) },
            None => fail(libc::ENOMEM),
        }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
        if POOL.holds(block.cast()) {
            return POOL.size(block.cast()).unwrap_or_else(|| invalid("malloc_usable_size()"));
        }
        // SAFETY: the caller's block is the C library's, or null.
        unsafe { system::usable_size(block) }
    }
}
