// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replaces `sleep`, so that Open MPI ends without a second's sleep.
//!
//! Its component btl/ofi sleeps for one second when it closes, for a provider that had threads of its own. Ours does
//! nothing that the sleep could wait for. Every other call is the C library's.

use std::ffi::{c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use selvedge_os::caller::callers;
use selvedge_os::library;

type Sleep = unsafe extern "C" fn(c_uint) -> c_uint;

/// POSIX `sleep`.
#[unsafe(no_mangle)]
pub extern "C" fn sleep(seconds: c_uint) -> c_uint {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    if seconds == 1 && is_closing_component() {
        return 0;
    }
    let mut next = NEXT.load(Relaxed);
    if next.is_null() {
        let Some(found) = library::next(c"sleep", std::iter::empty()) else { return seconds };
        next = found;
        NEXT.store(next, Relaxed);
    }
    // SAFETY: the next function of this name, the C library's or that of virtual time, has this type.
    unsafe { std::mem::transmute::<*mut c_void, Sleep>(next)(seconds) }
}

/// Whether the caller closes the component: in a library of its own in 4.1, in Open MPI's library in 5.
fn is_closing_component() -> bool {
    let [Some(caller), before] = callers() else { return false };
    match caller.file() {
        b"mca_btl_ofi.so" => true,
        file if file.starts_with(b"libopen-pal.so") => {
            before.is_some_and(|before| before.function() == b"mca_base_component_close")
        }
        _ => false,
    }
}
