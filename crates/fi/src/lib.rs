// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `libselvedge-fi`: a libfabric provider, named `selvedge`, through which stock MPI libraries use the NIC.
//!
//! libfabric loads it from the directory that `FI_PROVIDER_PATH` names and calls [`fi_prov_ini`]. What libfabric's
//! headers call an object (a fabric, a domain, ...) is here a structure that begins with libfabric's own and a table of
//! functions; each file has one kind of object.
//!
//! | file | what |
//! |---|---|
//! | [`ffi`], [`constants`] | libfabric's C types, from its headers; its flags and error numbers, in one width |
//! | [`loader`] | what is called of the libfabric that loaded us |
//! | [`info`], [`name`] | `fi_getinfo`: what the provider is, held against what a program asks for; nodes and services |
//! | [`fabric`], [`domain`], [`queue`], [`address`], [`completion`], [`counter`], [`region`], [`endpoint`] | the objects |
//! | [`message`], [`rma`], [`atomic`], [`deferred`] | the data transfer functions: arguments to operations ([`arguments`]) |
//! | [`at_hand`] | the shortest way of the usual messages |
//! | [`core`] | the domain's NIC and everything in flight: sends, receives, progress |
//!
//! One lock for each domain, left out where the program promises to use a domain from one thread at a time, and as long as its process
//! has one. A receive is a match entry of the NIC, an unexpected message an unexpected header, a registered region an entry under its
//! key, a counter a counting event, deferred work a triggered operation.

// Who calls is C: its pointers are its promise.
#![allow(clippy::not_unsafe_ptr_arg_deref, clippy::too_many_arguments, clippy::missing_safety_doc)]

pub mod address;
pub mod arguments;
pub mod at_hand;
pub mod atomic;
pub mod completion;
pub mod constants;
pub mod core;
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

/// A structure of C that is made once and only read.
struct Table<T>(T);
// SAFETY: the table is never written after it was made.
unsafe impl<T> Send for Table<T> {}
// SAFETY: threads only read the table.
unsafe impl<T> Sync for Table<T> {}

/// The provider's own version, as libfabric writes versions.
pub const PROVIDER_VERSION: u32 = 1 << 16;
/// Its name.
pub const NAME: &std::ffi::CStr = c"selvedge";

/// What libfabric calls in a provider that it loaded.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut ffi::fi_provider {
    static PROVIDER: OnceLock<Table<ffi::fi_provider>> = OnceLock::new();
    let Some(library) = loader::library() else {
        eprintln!("selvedge: the libfabric that loads this provider cannot be found; the provider stays away");
        return std::ptr::null_mut();
    };
    let made = PROVIDER.get_or_init(|| {
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
