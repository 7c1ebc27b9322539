// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The environment and the `errno` of this process.

use std::ffi::{CStr, c_char};

use selvedge_os::program::static_data;
use selvedge_os::sanitizer;

/// The value of an environment variable.
pub fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: `name` is a C string. `getenv` returns null or a C string of the environment, which stays unless the program
    // changes that variable; this library reads its variables before the program's own code runs, or at the first call.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes())
    }
}

/// Whether memory is to be shared: not in simulated ranks, and not if the environment forbids it.
pub fn is_sharing_wanted() -> bool {
    variable(c"SELVEDGE_SHARED_MALLOC") != Some(b"0") && variable(c"SELVEDGE_SIM").is_none()
}

/// Writes a line on standard error if `SELVEDGE_LOG` asks for lines of level `info`.
pub fn inform(words: &[&[u8]]) {
    if !matches!(variable(c"SELVEDGE_LOG"), Some(b"info" | b"debug" | b"trace")) {
        return;
    }
    let line = [&b"selvedge: "[..], words.concat().as_slice(), b"\n"].concat();
    // SAFETY: `write` reads `line.len()` bytes of `line`, which lives across the call.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}

unsafe extern "C" {
    static environ: *const *mut c_char;
}

/// Programs that this one starts do not load the runtime of its sanitizer. For the start of the process.
pub fn keep_sanitizer_from_children() {
    let linked = static_data().map(|data| data.libraries).unwrap_or_default();
    // SAFETY: the C library's `environ`, which no other thread uses before `main` runs.
    unsafe { sanitizer::keep_from_children(environ, &linked) };
}

/// Runs `call` and restores `errno` afterwards.
pub fn keeping_errno<T>(call: impl FnOnce() -> T) -> T {
    // SAFETY: the C library returns the address of this thread's `errno`, which is always valid.
    unsafe {
        let error = *libc::__errno_location();
        let value = call();
        *libc::__errno_location() = error;
        value
    }
}
