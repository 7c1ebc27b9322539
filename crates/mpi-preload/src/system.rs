// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C library's own allocator, by the names that glibc gives it beside the usual ones.

#[cfg(not(test))]
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

unsafe extern "C" {
    #[link_name = "__libc_malloc"]
    pub fn malloc(bytes: usize) -> *mut c_void;
    #[link_name = "__libc_calloc"]
    pub fn calloc(count: usize, bytes: usize) -> *mut c_void;
    #[link_name = "__libc_realloc"]
    pub fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void;
    #[link_name = "__libc_memalign"]
    pub fn memalign(align: usize, bytes: usize) -> *mut c_void;
    #[link_name = "__libc_free"]
    pub fn free(block: *mut c_void);
}

/// Memory of the C library's for Rust.
#[cfg(not(test))]
pub struct Allocator;

/// What every block of the C library's is aligned to.
#[cfg(not(test))]
const ALIGN: usize = 16;

// SAFETY: the C library's allocator, by the functions that go with each other.
#[cfg(not(test))]
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: no preconditions.
        unsafe {
            if layout.align() <= ALIGN { malloc(layout.size()) } else { memalign(layout.align(), layout.size()) }.cast()
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGN {
            // SAFETY: no preconditions.
            return unsafe { calloc(1, layout.size()).cast() };
        }
        // SAFETY: the caller's; a block of that many bytes, if there is one.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller's.
        unsafe { free(block.cast()) }
    }
}

/// `malloc_usable_size` has no second name.
///
/// # Safety
/// `block` is one of the C library's, or null.
pub unsafe fn usable_size(block: *mut c_void) -> usize {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let mut next = NEXT.load(Relaxed);
    if next.is_null() {
        // SAFETY: a string that lives for ever.
        next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"malloc_usable_size".as_ptr()) };
        NEXT.store(next, Relaxed);
    }
    if next.is_null() {
        return 0;
    }
    // SAFETY: the C library's function of this name has this type.
    unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> usize>(next)(block) }
}
