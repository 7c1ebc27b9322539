// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The libfabric that loaded this provider, and what is called of it.
//!
//! Nothing is linked: a machine may have several libfabrics (the system's, one in each MPI), and the provider must speak
//! to the one that loaded it. It is found among the libraries of this process: the one that offers `fi_version`. Its
//! number is what the provider says that it was made for; the structures that are used have been the same since 1.17.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::ffi::{fi_info, fi_log_level, fi_log_subsys, fi_provider};

/// The functions.
pub struct Library {
    /// As `fi_version` gives it: major << 16 | minor.
    pub version: u32,
    pub dupinfo: unsafe extern "C" fn(*const fi_info) -> *mut fi_info,
    pub freeinfo: unsafe extern "C" fn(*mut fi_info),
    pub log_enabled: Option<unsafe extern "C" fn(*const fi_provider, fi_log_level, fi_log_subsys) -> c_int>,
    pub log: Option<
        unsafe extern "C" fn(*const fi_provider, fi_log_level, fi_log_subsys, *const c_char, c_int, *const c_char, ...),
    >,
}

/// The library; None where there is none.
pub fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    LIBRARY.get_or_init(find).as_ref()
}

fn find() -> Option<Library> {
    // SAFETY: the handle is good for the rest of the process: it is never closed, and who loaded us stays.
    unsafe {
        let mut handle = libc::RTLD_DEFAULT;
        if libc::dlsym(handle, c"fi_version".as_ptr()).is_null() {
            let mut found: *mut c_void = std::ptr::null_mut();
            libc::dl_iterate_phdr(Some(offers_fi_version), (&raw mut found).cast());
            handle = found;
            if handle.is_null() {
                return None;
            }
        }
        let symbol = |name: &CStr| {
            let address = libc::dlsym(handle, name.as_ptr());
            (!address.is_null()).then_some(address)
        };
        let version: unsafe extern "C" fn() -> u32 = std::mem::transmute(symbol(c"fi_version")?);
        Some(Library {
            version: version(),
            dupinfo: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const fi_info) -> *mut fi_info>(symbol(
                c"fi_dupinfo",
            )?),
            freeinfo: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut fi_info)>(symbol(c"fi_freeinfo")?),
            log_enabled: symbol(c"fi_log_enabled").map(|address| std::mem::transmute(address)),
            log: symbol(c"fi_log").map(|address| std::mem::transmute(address)),
        })
    }
}

/// Of the libraries of this process, stops at the first whose name says libfabric and that offers `fi_version`; its handle
/// goes to `found`.
unsafe extern "C" fn offers_fi_version(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the linker gives a structure whose name is a C string or null, and the pointer that `dl_iterate_phdr` was called with: a
    // structure of its caller's frame.
    unsafe {
        let name = (*info).dlpi_name;
        if name.is_null() || !CStr::from_ptr(name).to_bytes().windows(9).any(|part| part == b"libfabric") {
            return 0;
        }
        let handle = libc::dlopen(name, libc::RTLD_NOW | libc::RTLD_NOLOAD);
        if handle.is_null() || libc::dlsym(handle, c"fi_version".as_ptr()).is_null() {
            return 0;
        }
        *found.cast::<*mut c_void>() = handle;
        1
    }
}

/// Says something in libfabric's log (`FI_LOG_LEVEL`), under the provider's name.
pub fn say(level: fi_log_level, what: std::fmt::Arguments<'_>) {
    let Some(Library { log_enabled: Some(enabled), log: Some(log), .. }) = library() else { return };
    let provider = crate::fi_prov_ini();
    // SAFETY: libfabric's own functions, with arguments as its header has them.
    unsafe {
        if enabled(provider, level, crate::ffi::FI_LOG_CORE) != 0 {
            let text = std::ffi::CString::new(format!("{what}\n")).unwrap_or_default();
            log(provider, level, crate::ffi::FI_LOG_CORE, c"selvedge".as_ptr(), 0, c"%s".as_ptr(), text.as_ptr());
        }
    }
}

/// A line about something that was refused or went wrong, with what to do about it.
#[macro_export]
macro_rules! warn_line {
    ($($part:tt)*) => { $crate::loader::say($crate::ffi::FI_LOG_WARN, format_args!($($part)*)) };
}

/// A line for who looks for the reason of an answer.
#[macro_export]
macro_rules! info_line {
    ($($part:tt)*) => { $crate::loader::say($crate::ffi::FI_LOG_INFO, format_args!($($part)*)) };
}
