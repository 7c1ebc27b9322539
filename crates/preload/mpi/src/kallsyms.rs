// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replaces `fopen`, so that `/proc/kallsyms` seems to be missing ([`is_hidden`]).

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::AtomicPtr;

use selvedge_os::hidden::is_hidden;

use crate::system;

type Fopen = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut libc::FILE;

/// Opens a file by the function of this name in the libraries after this one, unless the file is hidden.
///
/// # Safety
/// `path` and `mode` are C strings. A function `name` has the type [`Fopen`].
unsafe fn open(kept: &AtomicPtr<c_void>, name: &CStr, path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    let function = system::next(kept, name);
    // SAFETY: `path` is a C string.
    let error = match (function.is_null(), is_hidden(unsafe { CStr::from_ptr(path) })) {
        (true, _) => libc::ENOSYS,
        (_, true) => libc::ENOENT,
        // SAFETY: the function has this type, and its arguments are C strings.
        _ => return unsafe { std::mem::transmute::<*mut c_void, Fopen>(function)(path, mode) },
    };
    // SAFETY: the C library returns the address of this thread's `errno`, which is always valid.
    unsafe { *libc::__errno_location() = error };
    std::ptr::null_mut()
}

/// The functions that replace the C library's (ISO C 7.21.5.3, and its variant for large files).
#[cfg_attr(test, allow(dead_code))]
mod exported {
    use super::*;

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
        static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
        // SAFETY: C requires two C strings.
        unsafe { open(&NEXT, c"fopen", path, mode) }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
        static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
        // SAFETY: C requires two C strings.
        unsafe { open(&NEXT, c"fopen64", path, mode) }
    }
}
