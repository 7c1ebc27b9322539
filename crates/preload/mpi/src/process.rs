// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The environment and the `errno` of this process.

use std::ffi::c_char;

use selvedge_os::program::static_data;
use selvedge_os::sanitizer;

/// Whether memory is to be shared: not in simulated ranks, and not if the settings forbid it. The first `malloc` may ask,
/// so this reports nothing: a report looks for symbols, which may call `malloc`.
pub fn is_sharing_wanted() -> bool {
    std::env::var_os("SELVEDGE_SIM").is_none()
        && selvedge_settings::value("SELVEDGE_SHARED_MALLOC").is_none_or(|value| value != "0")
}

/// Writes a line on standard error if `SELVEDGE_LOG` asks for lines of level `info`.
pub fn inform(words: &[&[u8]]) {
    if !matches!(selvedge_settings::text("SELVEDGE_LOG").as_deref(), Some("info" | "debug" | "trace")) {
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
