// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C library's functions that ours replace: the next symbols of the same names, looked up at first use.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Acquire, Ordering::Release};

/// A function of the C library.
pub struct NextSymbol {
    name: &'static CStr,
    address: AtomicPtr<libc::c_void>,
}

impl NextSymbol {
    pub const fn new(name: &'static CStr) -> NextSymbol {
        NextSymbol { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Its address, or null if there is no such function.
    pub fn address(&self) -> *mut libc::c_void {
        let known = self.address.load(Acquire);
        if !known.is_null() {
            return known;
        }
        // SAFETY: `name` is a C string that lives for ever; `dlsym` only reads it.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(found, Release);
        found
    }
}

/// Calls the C library's function of this name and type. If there is none, fails with `ENOSYS`. The cancellation of a thread
/// in that call unwinds our frames.
macro_rules! next {
    ($name:ident ( $($value:expr),* ) : fn($($type:ty),*) -> $result:ty) => {{
        static NEXT: crate::real::NextSymbol = crate::real::NextSymbol::new({
            match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name"),
            }
        });
        let address = NEXT.address();
        if address.is_null() {
            crate::refuse(libc::ENOSYS) as $result
        } else {
            // SAFETY: the C library's function of this name has this type in its header. The arguments are those that C code
            // passed to our replacement, which has the same contract.
            unsafe {
                let function: unsafe extern "C-unwind" fn($($type),*) -> $result = std::mem::transmute(address);
                function($($value),*)
            }
        }
    }};
}
pub(crate) use next;
