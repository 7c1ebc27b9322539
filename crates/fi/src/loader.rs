// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The libfabric that loaded this provider, and the functions of it that the provider calls.
//!
//! The provider is linked to no libfabric: a machine may have several (the system's, one in each MPI), and the provider
//! must call the one that loaded it. That is the library of this process that offers `fi_version`. The provider reports
//! that version as the one that it was made for; the structures in use have been the same since 1.17.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::ffi::{fi_info, fi_log_level, fi_log_subsys, fi_provider};

/// The functions.
pub struct Library {
    /// The result of `fi_version`: major << 16 | minor.
    pub version: u32,
    pub dupinfo: unsafe extern "C" fn(*const fi_info) -> *mut fi_info,
    pub freeinfo: unsafe extern "C" fn(*mut fi_info),
    pub log_enabled: Option<unsafe extern "C" fn(*const fi_provider, fi_log_level, fi_log_subsys) -> c_int>,
    pub log: Option<
        unsafe extern "C" fn(*const fi_provider, fi_log_level, fi_log_subsys, *const c_char, c_int, *const c_char, ...),
    >,
}

/// The library; None if there is none.
pub fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    LIBRARY.get_or_init(find).as_ref()
}

fn find() -> Option<Library> {
    // SAFETY: the handle is never closed, so it stays valid; the library that loaded the provider stays loaded.
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

/// Called for each library of this process. It stops at the first whose name contains libfabric and that offers
/// `fi_version`, and stores its handle in `found`.
unsafe extern "C" fn offers_fi_version(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the linker passes a structure whose name is a C string or null. The last argument is the pointer that
    // `dl_iterate_phdr` was called with, to a value in its caller's frame.
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

/// Writes a line to libfabric's log (`FI_LOG_LEVEL`) under the provider's name.
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

/// The log of the layers below, which goes to libfabric's log.
struct Forward;

impl log::Log for Forward {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Info
    }

    fn log(&self, record: &log::Record<'_>) {
        let level = if record.level() <= log::Level::Warn { crate::ffi::FI_LOG_WARN } else { crate::ffi::FI_LOG_INFO };
        say(level, *record.args());
    }

    fn flush(&self) {}
}

/// Sends the log of the layers below to libfabric's log.
pub fn forward_log() {
    if log::set_logger(&Forward).is_ok() {
        log::set_max_level(log::LevelFilter::Info);
    }
}

/// A log line about a refusal or an error, with advice.
#[macro_export]
macro_rules! warn_line {
    ($($part:tt)*) => { $crate::loader::say($crate::ffi::FI_LOG_WARN, format_args!($($part)*)) };
}

/// A log line that explains an answer.
#[macro_export]
macro_rules! info_line {
    ($($part:tt)*) => { $crate::loader::say($crate::ffi::FI_LOG_INFO, format_args!($($part)*)) };
}
