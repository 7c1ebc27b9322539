// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The library that has called a function of ours, for functions that stand before the C library's.
//!
//! Cost: a walk over the frames of this library and one more, some microseconds. It allocates nothing.

use std::ffi::{CStr, c_int, c_void};
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
    /// The caller, and its caller.
    found: [Option<libc::Dl_info>; 2],
    frames: usize,
}

extern "C" fn visit(frame: *mut c_void, search: *mut c_void) -> c_int {
    // SAFETY: `callers` passes its `Search`, which nothing else uses during the walk. The frame is the walk's.
    let (search, address) = unsafe { (&mut *search.cast::<Search>(), _Unwind_GetIP(frame)) };
    // A return address may be the first of the next function; the call is before it.
    match object_at(address.wrapping_sub(1)) {
        Some(object) if search.frames == 0 && object.dli_fbase == search.own => GO_ON,
        object => {
            search.found[search.frames] = object;
            search.frames += 1;
            if search.frames < search.found.len() { GO_ON } else { END }
        }
    }
}

/// The file and the function of code that has called another function. They are named while the file is loaded.
pub struct Caller(libc::Dl_info);

impl Caller {
    /// The file and the function of this code. `None`: no loaded file has it.
    pub fn at(code: usize) -> Option<Self> {
        object_at(code).map(Self)
    }

    /// The name of the file, without its directory.
    pub fn file(&self) -> &[u8] {
        // SAFETY: the loader keeps the name of a loaded library, whose code is running.
        let path = unsafe { self.0.dli_fname.as_ref().map_or(&[][..], |name| CStr::from_ptr(name).to_bytes()) };
        path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
    }

    /// The name of the function, or nothing if the file does not export it.
    pub fn function(&self) -> &[u8] {
        // SAFETY: as in `file`.
        unsafe { self.0.dli_sname.as_ref().map_or(&[][..], |name| CStr::from_ptr(name).to_bytes()) }
    }
}

/// The first caller outside of this library, and its caller.
#[inline(never)]
pub fn callers() -> [Option<Caller>; 2] {
    let Some(own) = object_at(callers as *const () as usize) else { return [None, None] };
    let mut search = Search { own: own.dli_fbase, found: [None; 2], frames: 0 };
    // SAFETY: `visit` has the type that the function wants, does not unwind, and gets the argument that it expects.
    unsafe { _Unwind_Backtrace(visit, (&raw mut search).cast()) };
    search.found.map(|found| found.map(Caller))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    use super::*;

    static CALLED_BY_C: AtomicBool = AtomicBool::new(false);

    extern "C" fn compare(_: *const c_void, _: *const c_void) -> c_int {
        CALLED_BY_C.store(callers()[0].as_ref().is_some_and(|caller| caller.file() == b"libc.so.6"), SeqCst);
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
