// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions behind ours: the next ones of their names, found at first use.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Acquire, Ordering::Release};

/// A function of the system.
pub struct Next {
    name: &'static CStr,
    at: AtomicPtr<libc::c_void>,
}

impl Next {
    pub const fn new(name: &'static CStr) -> Next {
        Next { name, at: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Its address; null where the system has none.
    pub fn address(&self) -> *mut libc::c_void {
        let known = self.at.load(Acquire);
        if !known.is_null() {
            return known;
        }
        // SAFETY: a string that lives for ever.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.at.store(found, Release);
        found
    }
}

/// Calls the system's function of this name and type; without one, fails as a system call that does not exist.
macro_rules! next {
    ($name:ident ( $($value:expr),* ) : fn($($type:ty),*) -> $result:ty) => {{
        static NEXT: crate::real::Next = crate::real::Next::new({
            match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name"),
            }
        });
        let address = NEXT.address();
        if address.is_null() {
            crate::refuse(libc::ENOSYS) as $result
        } else {
            // SAFETY: the system's function of this name has this type; the arguments are the caller's.
            unsafe {
                let function: unsafe extern "C" fn($($type),*) -> $result = std::mem::transmute(address);
                function($($value),*)
            }
        }
    }};
}
pub(crate) use next;
