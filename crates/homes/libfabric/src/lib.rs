// SPDX-License-Identifier: Apache-2.0 OR MIT
//! libfabric's C types and constants, made by `build.rs` from its headers, and this process's libfabric ([`Library`]).
//!
//! Nothing is linked, because a machine may have several libfabrics (the system's, one in each MPI). The provider must
//! call the one that loaded it. Links between hosts should use the one that the program has already loaded.

mod library;

/// Bindings that `build.rs` makes.
// Generated bindings have no SAFETY comments.
#[allow(
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    unsafe_op_in_unsafe_fn,
    dead_code,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/libfabric.rs"));
}

pub use bindings::*;
pub use library::{LOAD_NAME, Library, LoadError};
