// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of the libfabric of this process.
//!
//! The version is that of the loaded library, not of the headers. The structures in use have not changed since 1.17.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;

use crate::{fi_fabric_attr, fi_info, fi_log_level, fi_log_subsys, fi_provider, fid_fabric};

/// File that [`Library::load`] opens if this process has no libfabric yet.
pub const LOAD_NAME: &CStr = c"libfabric.so.1";

type GetInfo = unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const fi_info, *mut *mut fi_info) -> c_int;
type DupInfo = unsafe extern "C" fn(*const fi_info) -> *mut fi_info;
type FreeInfo = unsafe extern "C" fn(*mut fi_info);
type OpenFabric = unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int;
type ErrorText = unsafe extern "C" fn(c_int) -> *const c_char;
type Log =
    unsafe extern "C" fn(*const fi_provider, fi_log_level, fi_log_subsys, *const c_char, c_int, *const c_char, ...);

/// Reason why no libfabric can be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The dynamic loader's message.
    Loader(String),
    /// The library lacks a function of libfabric 1.17.
    TooOld,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Loader(why) => f.write_str(why),
            LoadError::TooOld => f.write_str("it lacks functions of libfabric 1.17; install that or a newer version"),
        }
    }
}

impl std::error::Error for LoadError {}

/// The functions of a libfabric.
pub struct Library {
    /// The result of `fi_version`: major << 16 | minor.
    pub version: u32,
    pub getinfo: GetInfo,
    pub dupinfo: DupInfo,
    pub freeinfo: FreeInfo,
    pub fabric: OpenFabric,
    pub strerror: ErrorText,
    pub log_enabled: Option<unsafe extern "C" fn(*const fi_provider, fi_log_level, fi_log_subsys) -> c_int>,
    pub log: Option<Log>,
}

impl Library {
    /// Returns the library that this process has loaded; `None` if it has loaded none.
    pub fn of_process() -> Option<Library> {
        // SAFETY: dlsym takes any name, and RTLD_DEFAULT is a handle.
        if !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"fi_version".as_ptr()) }.is_null() {
            return Library::of(libc::RTLD_DEFAULT);
        }
        let mut found: *mut c_void = std::ptr::null_mut();
        // SAFETY: the callback gets the pointer to `found`, which lives across the call.
        unsafe { libc::dl_iterate_phdr(Some(offers_fi_version), (&raw mut found).cast()) };
        if found.is_null() { None } else { Library::of(found) }
    }

    /// Returns the library that this process has loaded, else loads the system's.
    pub fn load() -> Result<Library, LoadError> {
        if let Some(library) = Library::of_process() {
            return Ok(library);
        }
        let _handlers = SignalHandlers::save();
        // SAFETY: the name is a C string. The handle is never closed, so what is found in it stays valid. dlerror returns a C string or
        // null, which no other thread changes, because the message belongs to this thread.
        unsafe {
            let handle = libc::dlopen(LOAD_NAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            if handle.is_null() {
                let why = libc::dlerror();
                return Err(LoadError::Loader(match why.is_null() {
                    true => "unknown error".into(),
                    false => CStr::from_ptr(why).to_string_lossy().into_owned(),
                }));
            }
            Library::of(handle).ok_or(LoadError::TooOld)
        }
    }

    fn of(handle: *mut c_void) -> Option<Library> {
        let symbol = |name: &CStr| {
            // SAFETY: the handle is open and never closed, and the name is a C string.
            let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
            (!address.is_null()).then_some(address)
        };
        // SAFETY: the functions have the types that libfabric's headers give them, in every version with these names.
        unsafe {
            let version: unsafe extern "C" fn() -> u32 = std::mem::transmute(symbol(c"fi_version")?);
            Some(Library {
                version: version(),
                getinfo: std::mem::transmute::<*mut c_void, GetInfo>(symbol(c"fi_getinfo")?),
                dupinfo: std::mem::transmute::<*mut c_void, DupInfo>(symbol(c"fi_dupinfo")?),
                freeinfo: std::mem::transmute::<*mut c_void, FreeInfo>(symbol(c"fi_freeinfo")?),
                fabric: std::mem::transmute::<*mut c_void, OpenFabric>(symbol(c"fi_fabric")?),
                strerror: std::mem::transmute::<*mut c_void, ErrorText>(symbol(c"fi_strerror")?),
                log_enabled: symbol(c"fi_log_enabled").map(|address| std::mem::transmute(address)),
                log: symbol(c"fi_log").map(|address| std::mem::transmute(address)),
            })
        }
    }

    /// Returns the text of a libfabric error number, without its sign.
    pub fn error_text(&self, code: i32) -> String {
        // SAFETY: fi_strerror(3) returns a static C string for every number.
        unsafe { CStr::from_ptr((self.strerror)(code.wrapping_abs())) }.to_string_lossy().into_owned()
    }
}

/// Handlers of the signals that end a process, restored on drop. Some libraries below libfabric install their own when
/// they are loaded, which would change how a crash of the program ends.
struct SignalHandlers([Option<libc::sigaction>; SIGNALS.len()]);

const SIGNALS: [c_int; 9] = [
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGHUP,
    libc::SIGILL,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGSEGV,
    libc::SIGTERM,
];

impl SignalHandlers {
    fn save() -> SignalHandlers {
        SignalHandlers(SIGNALS.map(|signal| {
            // SAFETY: all bytes 0 are a valid `sigaction`, and the call fills it and changes nothing.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                (libc::sigaction(signal, std::ptr::null(), &mut action) == 0).then_some(action)
            }
        }))
    }
}

impl Drop for SignalHandlers {
    fn drop(&mut self) {
        for (signal, action) in SIGNALS.into_iter().zip(&self.0) {
            if let Some(action) = action {
                // SAFETY: the action was in force before, and lives across the call.
                unsafe { libc::sigaction(signal, action, std::ptr::null_mut()) };
            }
        }
    }
}

/// Called for each library of this process. Stops at the first one whose name contains libfabric and that offers
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
