// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replaces `sleep`, so that Open MPI 4.1 ends without a second's sleep.
//!
//! Its component btl/ofi sleeps for one second when it closes, for a provider that had threads of its own. Ours does
//! nothing that the sleep could wait for. Every other call is the C library's.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::AtomicPtr;

use selvedge_os::caller;

use crate::system;

type Sleep = unsafe extern "C" fn(c_uint) -> c_uint;

/// POSIX `sleep`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn sleep(seconds: c_uint) -> c_uint {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    if caller::is_end_of_openmpi(seconds) {
        return 0;
    }
    let next = system::next(&NEXT, c"sleep");
    if next.is_null() {
        return seconds;
    }
    // SAFETY: the C library's function of this name has this type.
    unsafe { std::mem::transmute::<*mut c_void, Sleep>(next)(seconds) }
}
