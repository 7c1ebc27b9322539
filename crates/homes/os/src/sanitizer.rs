// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runtime library of a sanitizer (AddressSanitizer, LeakSanitizer, ThreadSanitizer) in this process, if it has one.
//!
//! Cost: one look-up in the loader's tables for each call.

use std::ffi::{CStr, c_void};

use crate::library;

/// Beginnings of the names of runtime libraries that must come first in the list of loaded libraries, because they
/// replace functions of the C library: GCC's and LLVM's.
const RUNTIMES: [&[u8]; 7] = [
    b"libasan.so",
    b"libhwasan.so",
    b"liblsan.so",
    b"libtsan.so",
    b"libclang_rt.asan",
    b"libclang_rt.hwasan",
    b"libclang_rt.tsan",
];

/// Whether a library's name or path is that of a runtime that must come first.
pub fn is_runtime(library: &[u8]) -> bool {
    let name = library.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    RUNTIMES.iter().any(|runtime| name.starts_with(runtime))
}

/// Lets the search for leaks look for pointers in memory that the runtime does not know as the program's. All of it must
/// be readable.
pub fn has_pointers(start: *const u8, bytes: usize) {
    type Register = unsafe extern "C" fn(*const c_void, usize);
    // SAFETY: `RTLD_DEFAULT` is a handle, and the runtime's function has this type. A runtime is never unloaded.
    let register = unsafe { library::symbol::<Register>(libc::RTLD_DEFAULT, REGISTER) };
    if let Some(register) = register {
        // SAFETY: the function records the range, which is readable by this function's contract.
        unsafe { register(start.cast(), bytes) };
    }
}

const REGISTER: &CStr = c"__lsan_register_root_region";

/// Removes a runtime that leads `LD_PRELOAD` from this process's environment, if the program itself is linked to it. The
/// launcher has put it there for this program; other programs that it starts run without it.
///
/// # Safety
/// No other thread reads or changes the environment.
pub unsafe fn keep_from_children(environment: *const *mut libc::c_char, linked: &[String]) {
    const NAME: &[u8] = b"LD_PRELOAD=";
    // SAFETY: `environment` is null, or an array of C strings that ends with a null pointer, which this thread alone
    // uses. The shorter text is written into the place of the longer one.
    unsafe {
        let mut at = environment;
        while !at.is_null() && !(*at).is_null() {
            let text = CStr::from_ptr(*at).to_bytes();
            if let Some(rest) = text.strip_prefix(NAME).and_then(|value| without_runtime(value, linked)) {
                let (from, bytes) = (rest.as_ptr(), rest.len());
                let to = (*at).cast::<u8>().add(NAME.len());
                std::ptr::copy(from, to, bytes + 1);
            }
            at = at.add(1);
        }
    }
}

/// The part of a list of libraries after the runtime that leads it.
fn without_runtime<'a>(list: &'a [u8], linked: &[String]) -> Option<&'a [u8]> {
    let end = list.iter().position(|byte| *byte == b':').unwrap_or(list.len());
    let first = &list[..end];
    let is_own = is_runtime(first) && linked.iter().any(|name| name.as_bytes() == first);
    is_own.then(|| &list[(end + 1).min(list.len())..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_are_known_by_their_names() {
        for name in ["libasan.so.8", "/usr/lib/libtsan.so.2", "liblsan.so", "libclang_rt.asan-x86_64.so"] {
            assert!(is_runtime(name.as_bytes()), "{name}");
        }
        for name in ["libubsan.so.1", "libc.so.6", "/opt/libasan.so.8/libm.so.6", ""] {
            assert!(!is_runtime(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn children_do_not_get_the_runtime_of_their_parent() {
        let left = |list: &str, linked: &[&str]| {
            let linked: Vec<String> = linked.iter().map(|name| (*name).to_owned()).collect();
            let mut text = format!("LD_PRELOAD={list}\0").into_bytes();
            let environment = [text.as_mut_ptr().cast(), std::ptr::null_mut()];
            // SAFETY: the array has one C string, which only this test uses.
            unsafe { keep_from_children(environment.as_ptr(), &linked) };
            let end = text.iter().position(|byte| *byte == 0).unwrap();
            String::from_utf8(text[..end].to_vec()).unwrap()
        };
        assert_eq!(left("libasan.so.8:/a.so:/b.so", &["libasan.so.8", "libc.so.6"]), "LD_PRELOAD=/a.so:/b.so");
        assert_eq!(left("libasan.so.8", &["libasan.so.8"]), "LD_PRELOAD=");
        assert_eq!(left("libasan.so.8:/a.so", &["libc.so.6"]), "LD_PRELOAD=libasan.so.8:/a.so", "the user's");
        assert_eq!(left("/a.so:libasan.so.8", &["libasan.so.8"]), "LD_PRELOAD=/a.so:libasan.so.8");
    }
}
