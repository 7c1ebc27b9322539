// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C library's own allocator, by glibc's second names for its functions; those without one are looked up.

#[cfg(not(test))]
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{CStr, c_void};
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

/// Allocates Rust's memory from the C library.
#[cfg(not(test))]
pub struct Allocator;

/// The alignment of every block of the C library.
#[cfg(not(test))]
const ALIGN: usize = 16;

// SAFETY: every method calls the C library's allocator, whose blocks all go back to its `free`; `malloc` aligns to ALIGN, and
// larger alignments use `memalign`.
#[cfg(not(test))]
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: allocating has no preconditions; `layout.align()` is a power of two.
        unsafe {
            if layout.align() <= ALIGN { malloc(layout.size()) } else { memalign(layout.align(), layout.size()) }.cast()
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGN {
            // SAFETY: allocating has no preconditions; `layout.align()` is a power of two.
            return unsafe { calloc(1, layout.size()).cast() };
        }
        // SAFETY: `alloc` returned null or a block of `layout.size()` bytes.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: `GlobalAlloc` requires that `block` came from this allocator, which always uses the C library's.
        unsafe { free(block.cast()) }
    }
}

/// The function of this name in the libraries after this one, or null. The first call looks it up and caches it.
pub fn next(kept: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let mut function = kept.load(Relaxed);
    if function.is_null() {
        // SAFETY: the name is a C string, and `dlsym` only reads it.
        function = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        kept.store(function, Relaxed);
    }
    function
}

/// `malloc_usable_size` has no second name, so it is looked up.
///
/// # Safety
/// `block` is null or a block of the C library.
pub unsafe fn usable_size(block: *mut c_void) -> usize {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let next = next(&NEXT, c"malloc_usable_size");
    if next.is_null() {
        return 0;
    }
    // SAFETY: the C library's function of this name has this type, and this function requires a block of the C library or null.
    unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> usize>(next)(block) }
}
