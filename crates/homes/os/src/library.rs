// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions of loaded libraries, by name, for Selvedge's libraries that stand before those.
//!
//! Cost: a look-up in the loader's tables, which takes its lock. Callers keep the result.

use std::ffi::{CStr, c_void};

/// Returns the library with this name, if the process has loaded it.
pub fn loaded(file: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is a C string. With RTLD_NOLOAD no code of a library runs.
    let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    (!handle.is_null()).then_some(handle)
}

/// Returns the address of a symbol of a library.
///
/// # Safety
/// `library` is a handle of the loader's, or `RTLD_NEXT` or `RTLD_DEFAULT`.
pub unsafe fn address(library: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is a C string, which `dlsym` only reads, and the handle is one.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Returns a function of a library.
///
/// # Safety
/// As for [`address`]. The library stays loaded, and `F` is the type of the function.
pub unsafe fn symbol<F: Copy>(library: *mut c_void, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: by this function's contract, the address is that of a function of type `F`.
    unsafe { address(library, name).map(|found| std::mem::transmute_copy(&found)) }
}

/// Returns the address that a symbol would have without the calling library. A library that was loaded for one module
/// of a program alone (Python's mpi4py) is found by its name: one of `files`.
pub fn next<'a>(name: &CStr, files: impl Iterator<Item = &'a CStr>) -> Option<*mut c_void> {
    let mut handles = [libc::RTLD_NEXT].into_iter().chain(files.filter_map(loaded));
    // SAFETY: these are handles.
    handles.find_map(|handle| unsafe { address(handle, name) })
}
