// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The library that has called a function of ours, for functions that stand before the C library's.
//!
//! Cost: a walk over the frames of this library and one more, some microseconds. It allocates nothing.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::mem::MaybeUninit;

type Visit = extern "C" fn(*mut c_void, *mut c_void) -> c_int;

/// `_Unwind_Reason_Code`: the walk goes on, or ends.
const GO_ON: c_int = 0;
const END: c_int = 4;

// The interface of the C++ ABI for Itanium, level I (1.6), which Rust's standard library links for panics.
unsafe extern "C" {
    fn _Unwind_Backtrace(visit: Visit, argument: *mut c_void) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

/// The library or program that has code at this address. `None`: no loaded file has.
fn object_at(address: usize) -> Option<libc::Dl_info> {
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: `dladdr` takes any address, and has written `info` if its result is not 0.
    unsafe { (libc::dladdr(address as *const c_void, info.as_mut_ptr()) != 0).then(|| info.assume_init()) }
}

struct Search {
    own: *mut c_void,
    found: Option<libc::Dl_info>,
}

extern "C" fn visit(frame: *mut c_void, search: *mut c_void) -> c_int {
    // SAFETY: `caller` passes its `Search`, which nothing else uses during the walk. The frame is the walk's.
    let (search, address) = unsafe { (&mut *search.cast::<Search>(), _Unwind_GetIP(frame)) };
    // A return address may be the first of the next function; the call is before it.
    match object_at(address.wrapping_sub(1)) {
        Some(object) if object.dli_fbase == search.own => GO_ON,
        object => {
            search.found = object;
            END
        }
    }
}

/// Whether a call of `sleep` is the one by which Open MPI 4.1 closes its component btl/ofi.
#[inline]
pub fn is_end_of_openmpi(seconds: c_uint) -> bool {
    seconds == 1 && is_in(c"mca_btl_ofi.so")
}

/// Whether the first caller outside of this library is code of a file with this name.
#[inline(never)]
fn is_in(file: &CStr) -> bool {
    let Some(own) = object_at(is_in as *const () as usize) else { return false };
    let mut search = Search { own: own.dli_fbase, found: None };
    // SAFETY: `visit` has the type that the function wants, does not unwind, and gets the argument that it expects.
    unsafe { _Unwind_Backtrace(visit, (&raw mut search).cast()) };
    let Some(name) = search.found.map(|object| object.dli_fname).filter(|name| !name.is_null()) else { return false };
    // SAFETY: the loader keeps the name of a loaded library, whose code is running.
    let path = unsafe { CStr::from_ptr(name) }.to_bytes();
    path.rsplit(|byte| *byte == b'/').next() == Some(file.to_bytes())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    use super::*;

    static CALLED_BY_C: AtomicBool = AtomicBool::new(false);

    extern "C" fn compare(_: *const c_void, _: *const c_void) -> c_int {
        CALLED_BY_C.store(is_in(c"libc.so.6") && !is_in(c"libc.so") && !is_in(c"mca_btl_ofi.so"), SeqCst);
        0
    }

    #[test]
    fn the_library_of_the_caller_is_found() {
        let mut numbers = [2, 1];
        // SAFETY: the array has two elements of this size.
        unsafe { libc::qsort(numbers.as_mut_ptr().cast(), 2, size_of::<i32>(), Some(compare)) };
        assert!(CALLED_BY_C.load(SeqCst));
    }
}
