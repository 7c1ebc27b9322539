// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The search for leaks at the end of a rank, by the runtime of a sanitizer.
//!
//! While the runtime has locked its allocator, it yields until another process has stopped this one and looked at its
//! memory. These yields are real: they would take virtual time by the speed of this computer, and a rank that waits for
//! its turn allocates. The runtime yields in a callback of `dl_iterate_phdr`, as no program does.

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use crate::real::next;

type Callback = unsafe extern "C" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> c_int;

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in a callback of `dl_iterate_phdr`.
pub fn are_searched() -> bool {
    IN_CALLBACK.get()
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn dl_iterate_phdr(callback: Option<Callback>, data: *mut c_void) -> c_int {
    let before = IN_CALLBACK.replace(true);
    let result = next!(dl_iterate_phdr(callback, data): fn(Option<Callback>, *mut c_void) -> c_int);
    IN_CALLBACK.set(before);
    result
}
