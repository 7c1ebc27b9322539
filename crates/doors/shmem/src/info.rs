// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Versions and names, `SHMEM_INFO` and `SHMEM_VERSION`, and routines that have no effect here (OpenSHMEM 1.6, "Library
//! Setup, Exit, and Query Routines").

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;
use std::time::Instant;

use selvedge_process::regions;
use selvedge_process::settings::VARIABLES;

use crate::check::{self, Call};
use crate::world::World;

/// The version of the standard.
pub const MAJOR: c_int = 1;
pub const MINOR: c_int = 6;
/// `SHMEM_MAX_NAME_LEN`, the closing zero included.
const NAME_BYTES: usize = 256;
/// `SHMEM_VENDOR_STRING`.
pub const VENDOR: &str = concat!("Selvedge ", env!("CARGO_PKG_VERSION"));

/// Prints, at PE 0, the version and settings that the environment requests.
pub(crate) fn announce(world: &World) {
    if world.me() != 0 {
        return;
    }
    if check::variable("VERSION").is_some() {
        println!("{VENDOR}, OpenSHMEM {MAJOR}.{MINOR}");
    }
    if check::variable("INFO").is_some() {
        for variable in VARIABLES.iter().filter(|variable| variable.group == "OpenSHMEM") {
            let (name, values, default, text) = (variable.name, variable.values, variable.default, variable.text);
            let set = std::env::var_os(name).map(|value| format!(" = {}", value.to_string_lossy())).unwrap_or_default();
            println!("{name}{set}\n    {text}\n    {values}; default {default}");
        }
        println!("Names may also start with SMA_ instead of SHMEM_. More: selvedge info");
    }
}

pub unsafe fn get_version(_call: Call, major: *mut c_int, minor: *mut c_int) {
    // SAFETY: null, or the `int` that the clause of `shmem_info_get_version` says is written.
    if let Some(major) = unsafe { major.as_mut() } {
        *major = MAJOR;
    }
    // SAFETY: null, or the `int` that the clause of `shmem_info_get_version` says is written.
    if let Some(minor) = unsafe { minor.as_mut() } {
        *minor = MINOR;
    }
}

pub unsafe fn get_name(call: Call, name: *mut c_char) {
    if name.is_null() {
        check::refuse(call, "name", format_args!("null"));
        return;
    }
    let bytes = VENDOR.len().min(NAME_BYTES - 1);
    // SAFETY: not null; the clause of `shmem_info_get_name` says that `name` has room for SHMEM_MAX_NAME_LEN bytes, the
    // closing zero included.
    unsafe {
        name.cast::<u8>().copy_from_nonoverlapping(VENDOR.as_ptr(), bytes);
        name.add(bytes).write(0);
    }
}

/// `shmem_pcontrol`: a switch of the region `main`. Profiling tools intercept it.
pub fn pcontrol(_call: Call, level: c_int) {
    regions::switch::set(level);
}

/// The name of a region. `None`: it has been reported.
unsafe fn region_name<'a>(call: Call, name: *const c_char) -> Option<Cow<'a, str>> {
    if name.is_null() {
        check::refuse(call, "name", format_args!("null"));
        return None;
    }
    // SAFETY: not null; a string by the contract of the C function.
    Some(unsafe { CStr::from_ptr(name) }.to_string_lossy())
}

pub unsafe fn region_begin(call: Call, name: *const c_char) {
    // SAFETY: the contract of the C function.
    if let Some(name) = unsafe { region_name(call, name) } {
        regions::begin(&name);
    }
}

pub unsafe fn region_end(call: Call, name: *const c_char) {
    // SAFETY: the contract of the C function.
    if let Some(name) = unsafe { region_name(call, name) } {
        regions::end(&name);
    }
}

/// The cache routines, which have no effect here.
pub fn nothing(_call: Call) {}

/// Seconds since a fixed moment in the past.
pub fn wtime(_call: Call) -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs_f64()
}

/// This machine's name. The string belongs to the library.
pub fn nodename(_call: Call) -> *mut c_char {
    static NAME: OnceLock<[u8; 256]> = OnceLock::new();
    let name = NAME.get_or_init(|| {
        let mut name = [0u8; 256];
        // SAFETY: `gethostname` writes at most 255 bytes into 256 zeroes, so a zero follows the name.
        unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
        name
    });
    name.as_ptr().cast::<c_char>().cast_mut()
}
