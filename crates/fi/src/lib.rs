// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `libselvedge-fi`: a libfabric provider, named `selvedge`, through which stock MPI libraries use the NIC.
//!
//! libfabric loads it from the directory that `FI_PROVIDER_PATH` names and calls [`fi_prov_ini`]. An object of
//! libfabric (a fabric, a domain, ...) is a structure here that begins with libfabric's own structure and a table of
//! functions. Each file has one kind of object.
//!
//! | file | what |
//! |---|---|
//! | [`ffi`], [`constants`] | libfabric's C types from its headers; its flags and error numbers in one width |
//! | [`loader`] | the functions of the libfabric that loaded the provider |
//! | [`info`], [`name`] | `fi_getinfo`: the provider's attributes, matched with a program's hints; nodes and services |
//! | [`fabric`], [`domain`], [`queue`], [`address`] | the objects |
//! | [`completion`], [`counter`], [`region`], [`endpoint`] | more objects |
//! | [`message`], [`rma`], [`atomic`], [`deferred`] | data transfer: from C arguments ([`arguments`]) to operations |
//! | [`at_hand`] | the fast path of common messages |
//! | [`core`] | the domain's NIC and everything in flight: sends, receives, progress |
//!
//! Each domain has one lock. It is left out if the program promises to use the domain from one thread at a time, and
//! while the process has only one thread. A receive is a match entry of the NIC, an unexpected message an unexpected
//! header, a registered region an entry under its key, a counter a counting event, and deferred work a triggered
//! operation.

// The callers are C, so they guarantee their pointers by libfabric's rules.
#![allow(clippy::not_unsafe_ptr_arg_deref, clippy::too_many_arguments, clippy::missing_safety_doc)]

pub mod address;
pub mod arguments;
pub mod at_hand;
pub mod atomic;
pub mod completion;
pub mod constants;
pub mod counter;
pub mod deferred;
pub mod domain;
pub mod endpoint;
pub mod fabric;
pub mod ffi;
pub mod info;
pub mod loader;
pub mod message;
pub mod name;
pub mod object;
pub mod queue;
pub mod region;
pub mod rma;

use std::sync::OnceLock;

/// A C structure that is made once and only read.
struct Table<T>(T);
// SAFETY: the table is never written after it was made.
unsafe impl<T> Send for Table<T> {}
// SAFETY: threads only read the table.
unsafe impl<T> Sync for Table<T> {}

/// The provider's own version, as libfabric writes versions.
pub const PROVIDER_VERSION: u32 = 1 << 16;
/// Its name.
pub const NAME: &std::ffi::CStr = c"selvedge";

/// libfabric calls this after it has loaded the provider.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut ffi::fi_provider {
    static PROVIDER: OnceLock<Table<ffi::fi_provider>> = OnceLock::new();
    let Some(library) = loader::library() else {
        eprintln!("selvedge: the libfabric that loads this provider cannot be found; the provider stays away");
        return std::ptr::null_mut();
    };
    let made = PROVIDER.get_or_init(|| {
        loader::forward_log();
        Table(ffi::fi_provider {
            version: PROVIDER_VERSION,
            fi_version: library.version,
            name: NAME.as_ptr(),
            getinfo: Some(info::getinfo),
            fabric: Some(fabric::open),
            cleanup: Some(cleanup),
            ..Default::default()
        })
    });
    (&raw const made.0).cast_mut()
}

extern "C" fn cleanup() {}
