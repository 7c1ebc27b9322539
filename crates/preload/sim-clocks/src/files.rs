// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `fopen` of a simulated rank, which hides files that would only cost time ([`is_hidden`]).

use std::ffi::{CStr, c_char};

use selvedge_os::hidden::is_hidden;
use selvedge_sim_protocol::RankEnd;

use crate::real::NextSymbol;

type Fopen = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut libc::FILE;

/// Opens a file by the C library's function, unless it is hidden.
///
/// # Safety
/// `path` and `mode` are C strings. The symbol has the type [`Fopen`].
unsafe fn open(next: &NextSymbol, path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    let function = next.address();
    // SAFETY: `path` is a C string.
    let is_missing = RankEnd::of_process().is_some() && is_hidden(unsafe { CStr::from_ptr(path) });
    let error = match (function.is_null(), is_missing) {
        (true, _) => libc::ENOSYS,
        (_, true) => libc::ENOENT,
        // SAFETY: the function has this type, and its arguments are C strings.
        _ => return unsafe { std::mem::transmute::<*mut libc::c_void, Fopen>(function)(path, mode) },
    };
    crate::refuse(error);
    std::ptr::null_mut()
}

/// ISO C 7.21.5.3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    static NEXT: NextSymbol = NextSymbol::new(c"fopen");
    // SAFETY: C requires two C strings.
    unsafe { open(&NEXT, path, mode) }
}

/// The variant for large files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    static NEXT: NextSymbol = NextSymbol::new(c"fopen64");
    // SAFETY: C requires two C strings.
    unsafe { open(&NEXT, path, mode) }
}
