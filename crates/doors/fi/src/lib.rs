// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `libselvedge-fi`: a libfabric provider, named `selvedge`, through which stock MPI libraries use the NIC.
//!
//! libfabric loads it from the directory that `FI_PROVIDER_PATH` names and calls [`fi_prov_ini`]. An object of
//! libfabric (a fabric, a domain, ...) is a structure here that begins with libfabric's own structure and a table of
//! functions. Everything in flight is in [`selvedge_messages`]; this crate translates.
//!
//! | folder, file | contents |
//! |---|---|
//! | [`calls`] | the functions that libfabric calls, one file for each man page |
//! | [`objects`] | the state of libfabric's objects, and its lock |
//! | [`info`], [`name`] | `fi_getinfo`: the provider's attributes, matched with a program's hints; nodes and services |
//! | [`ffi`], [`constants`] | libfabric's C types from its headers; its flags and error numbers in one width |
//! | [`errors`] | the numbers of errors |
//! | [`loader`] | the libfabric that loaded the provider, and its log |
//!
//! Each domain has one lock. It is not taken if the program promises that one thread at a time uses the domain, or if
//! the process has one thread. A receive is a match entry of the NIC, an unexpected message an unexpected header, a
//! registered region an entry under its key, a counter a counting event, and deferred work a triggered operation.

// The callers are C programs. They guarantee their pointers by libfabric's rules.
#![allow(clippy::not_unsafe_ptr_arg_deref, clippy::too_many_arguments, clippy::missing_safety_doc)]

pub mod calls;
pub mod constants;
pub mod errors;
pub mod info;
pub mod loader;
pub mod name;
pub mod objects;

use std::sync::OnceLock;

pub use selvedge_libfabric as ffi;

/// A C structure that is made once and then only read.
struct Table<T>(T);
// SAFETY: the table is never written after it was made.
unsafe impl<T> Send for Table<T> {}
// SAFETY: threads only read the table.
unsafe impl<T> Sync for Table<T> {}

/// The provider's own version, as libfabric writes versions.
pub const PROVIDER_VERSION: u32 = 1 << 16;
/// The provider's name.
pub const NAME: &std::ffi::CStr = c"selvedge";

/// libfabric calls this after it has loaded the provider.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut ffi::fi_provider {
    static PROVIDER: OnceLock<Table<ffi::fi_provider>> = OnceLock::new();
    let Some(library) = loader::library() else {
        eprintln!("selvedge: cannot find the libfabric that loads this provider; the provider stays disabled");
        return std::ptr::null_mut();
    };
    let made = PROVIDER.get_or_init(|| {
        loader::forward_log();
        Table(ffi::fi_provider {
            version: PROVIDER_VERSION,
            fi_version: library.version,
            name: NAME.as_ptr(),
            getinfo: Some(info::getinfo),
            fabric: Some(calls::fabric::open),
            cleanup: Some(cleanup),
            ..Default::default()
        })
    });
    (&raw const made.0).cast_mut()
}

extern "C" fn cleanup() {}
