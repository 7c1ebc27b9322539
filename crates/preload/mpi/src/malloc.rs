// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replaces the C library's `malloc`: large blocks are shared memory that peers can map.
//!
//! Blocks of [`LARGE_BYTES`] (a page) and more come from a memory file that the processes of a job map
//! ([`crate::pool`]). A long message between two unchanged programs is then one copy by the processor. Cross-memory
//! attach would cost three to four times as much, because the kernel looks up each page. Smaller blocks come from the C
//! library. If another allocator is behind this library, all blocks come from it ([`system`]).
//!
//! Not shared: stacks, memory that a program maps itself, and blocks that gain more from huge pages ([`crate::huge`]).
//! Nothing is shared if limits on address space or file size (`ulimit -v`, `-f`) leave no room.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::fork;
use crate::pool::{Block, LARGE_BYTES, POOL};
use crate::process::{is_sharing_wanted, keeping_errno};
use crate::system::{self, first_of, own};

/// Makes the pool at its first use, unless another allocator than the C library's is behind this library.
pub fn begin() {
    if system::is_c_library() && POOL.begin(is_sharing_wanted) {
        fork::install();
    }
}

/// Allocates a large block. `None`: the size is small, or there is no room.
#[inline(always)]
fn take(bytes: usize, align: usize) -> Option<Block> {
    if bytes < LARGE_BYTES { None } else { take_large(bytes, align) }
}

#[cold]
fn take_large(bytes: usize, align: usize) -> Option<Block> {
    if !system::is_c_library() {
        return None;
    }
    keeping_errno(|| {
        begin();
        POOL.take(bytes, align)
    })
}

fn fail(error: c_int) -> *mut c_void {
    // SAFETY: the C library returns the address of this thread's `errno`, which is always valid.
    unsafe { *libc::__errno_location() = error };
    ptr::null_mut()
}

/// Aborts, as the C library does, because no block begins at an address that the program has passed.
#[cold]
fn invalid(function: &str) -> ! {
    let text = [function.as_bytes(), b": invalid pointer (selvedge: no large block begins there)\n"].concat();
    // SAFETY: `write` reads `text.len()` bytes of `text`, which lives across the call.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
    std::process::abort()
}

/// The functions that replace the C library's (ISO C 7.24.3, POSIX `posix_memalign`, glibc's manual, "Replacing
/// malloc"). Tests use them under other names, and keep the C library's own.
#[cfg_attr(test, allow(dead_code))]
mod exported {
    use super::*;

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
        match take(bytes, 1) {
            Some(block) => block.start.cast(),
            // SAFETY: allocating has no preconditions.
            None => unsafe { system::malloc(bytes) },
        }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
        let Some(all) = count.checked_mul(bytes) else { return fail(libc::ENOMEM) };
        match take(all, 1) {
            Some(block) => {
                if !block.zeroed {
                    // SAFETY: the pool has just allocated a block of at least `all` bytes.
                    unsafe { ptr::write_bytes(block.start, 0, all) };
                }
                block.start.cast()
            }
            // SAFETY: allocating has no preconditions.
            None => unsafe { system::calloc(count, bytes) },
        }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
        let large = POOL.holds(block.cast());
        if !large && (block.is_null() || bytes < LARGE_BYTES || !system::is_c_library()) {
            // SAFETY: C requires `block` to be null or an allocated block; it is not in the pool, so it is the allocator's.
            return if block.is_null() { unsafe { malloc(bytes) } } else { unsafe { system::realloc(block, bytes) } };
        }
        if large && bytes == 0 {
            // SAFETY: C requires `block` to be an allocated block, and it is not used again.
            unsafe { free(block) };
            return ptr::null_mut();
        }
        if large && bytes >= LARGE_BYTES && keeping_errno(|| POOL.resize(block.cast(), bytes)) {
            return block;
        }
        let held = if large {
            POOL.size(block.cast()).unwrap_or_else(|| invalid("realloc()"))
        } else {
            // SAFETY: `block` is not null and not in the pool, so it is an allocated block of the allocator.
            unsafe { system::usable_size(block) }
        };
        let to = match take(bytes, 1) {
            Some(block) => block.start.cast(),
            // SAFETY: `block` is not null and not in the pool, so it is an allocated block of the allocator.
            None if !large => return unsafe { system::realloc(block, bytes) },
            // SAFETY: allocating has no preconditions.
            None => unsafe { system::malloc(bytes) },
        };
        if !to.is_null() {
            // SAFETY: the old block has `held` bytes and the new one at least `bytes`, and they do not overlap. C requires that
            // the old block is allocated, and it is not used again.
            unsafe {
                ptr::copy_nonoverlapping(block.cast::<u8>(), to.cast::<u8>(), held.min(bytes));
                free(block);
            }
        }
        to
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, bytes: usize) -> *mut c_void {
        if let Some(other) = own::REALLOCARRAY.get() {
            // SAFETY: this function has the contract of the other allocator's.
            return unsafe { other(block, count, bytes) };
        }
        match count.checked_mul(bytes) {
            // SAFETY: this function has the contract of `realloc` for `block`.
            Some(all) => unsafe { first_of::realloc(block, all) },
            None => fail(libc::ENOMEM),
        }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn free(block: *mut c_void) {
        if !POOL.holds(block.cast()) {
            // SAFETY: C requires `block` to be null or an allocated block; it is not in the pool, so it is the allocator's.
            return unsafe { system::free(block) };
        }
        if !keeping_errno(|| POOL.give(block.cast())) {
            invalid("free()");
        }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn free_sized(block: *mut c_void, bytes: usize) {
        if let Some(other) = own::FREE_SIZED.get() {
            // SAFETY: this function has the contract of the other allocator's.
            return unsafe { other(block, bytes) };
        }
        // SAFETY: this function has the contract of `free`.
        unsafe { first_of::free(block) }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn free_aligned_sized(block: *mut c_void, align: usize, bytes: usize) {
        if let Some(other) = own::FREE_ALIGNED_SIZED.get() {
            // SAFETY: this function has the contract of the other allocator's.
            return unsafe { other(block, align, bytes) };
        }
        // SAFETY: this function has the contract of `free`.
        unsafe { first_of::free(block) }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn memalign(align: usize, bytes: usize) -> *mut c_void {
        let block = if align.is_power_of_two() { take(bytes, align) } else { None };
        match block {
            Some(block) => block.start.cast(),
            // SAFETY: allocating has no preconditions.
            None => unsafe { system::memalign(align, bytes) },
        }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn aligned_alloc(align: usize, bytes: usize) -> *mut c_void {
        if let Some(other) = own::ALIGNED_ALLOC.get() {
            // SAFETY: this function has the contract of the other allocator's.
            return unsafe { other(align, bytes) };
        }
        if !align.is_power_of_two() {
            return fail(libc::EINVAL);
        }
        // SAFETY: allocating has no preconditions.
        unsafe { first_of::memalign(align, bytes) }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn posix_memalign(block: *mut *mut c_void, align: usize, bytes: usize) -> c_int {
        if let Some(other) = own::POSIX_MEMALIGN.get() {
            // SAFETY: this function has the contract of the other allocator's.
            return unsafe { other(block, align, bytes) };
        }
        if !align.is_power_of_two() || align % size_of::<usize>() != 0 {
            return libc::EINVAL;
        }
        // SAFETY: allocating has no preconditions.
        let found = keeping_errno(|| unsafe { first_of::memalign(align, bytes) });
        if found.is_null() {
            return libc::ENOMEM;
        }
        // SAFETY: POSIX requires `block` to point to a place for the result.
        unsafe { block.write(found) };
        0
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn valloc(bytes: usize) -> *mut c_void {
        if let Some(other) = own::VALLOC.get() {
            // SAFETY: this function has the contract of the other allocator's.
            return unsafe { other(bytes) };
        }
        // SAFETY: allocating has no preconditions.
        unsafe { first_of::memalign(rustix::param::page_size(), bytes) }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
        if let Some(other) = own::PVALLOC.get() {
            // SAFETY: this function has the contract of the other allocator's.
            return unsafe { other(bytes) };
        }
        match bytes.checked_next_multiple_of(rustix::param::page_size()) {
            // SAFETY: allocating has no preconditions.
            Some(whole) => unsafe { valloc(whole) },
            None => fail(libc::ENOMEM),
        }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
        if POOL.holds(block.cast()) {
            return POOL.size(block.cast()).unwrap_or_else(|| invalid("malloc_usable_size()"));
        }
        // SAFETY: C requires `block` to be null or an allocated block; it is not in the pool, so it is the allocator's.
        unsafe { system::usable_size(block) }
    }
}
