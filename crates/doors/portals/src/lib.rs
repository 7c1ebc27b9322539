// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `libportals`: the Portals 4.3 API (`include/portals4.h`) and Selvedge's own functions (`include/selvedge.h`).
//!
//! A front door translates and never decides: it checks arguments, turns handles into references and C structures into
//! the NIC's, and maps every error to its code in one place ([`codes`]).
//!
//! | file | functions |
//! |---|---|
//! | [`abi`] | the C types, laid out as the header says |
//! | [`codes`] | return codes, and how errors become them |
//! | [`state`] | the open interfaces, handles |
//! | [`interface`] | PtlInit .. PtlNIStatus, maps, identities |
//! | [`table`] | portal table entries |
//! | [`lists`] | list and match entries: append, unlink, search |
//! | [`objects`] | memory descriptors, counting events, event queues |
//! | [`plan`] | a checked operation, and the command that is made from it |
//! | [`mod@put`], [`route_cache`] | put, and the routes that it has found |
//! | [`operations`], [`triggered`] | get, atomics and swaps; triggered operations |
//! | [`job`] | selvedge_* |
//!
//! Invariants
//! 1. Every function may be called from any thread.
//! 2. A function checks each argument that it can check: handles, ranges, null pointers, and whether memory is mapped. That a
//!    pointer of C leads to an object of its type is the program's promise, as in any C API.

// C programs call these functions: a pointer cannot be checked further, and the specification sets the argument lists.
#![allow(clippy::not_unsafe_ptr_arg_deref, clippy::too_many_arguments)]

pub mod abi;
pub mod codes;
pub mod interface;
pub mod job;
pub mod lists;
pub mod objects;
pub mod operations;
pub(crate) mod plan;
pub mod put;
pub mod route_cache;
pub mod state;
pub mod table;
pub mod triggered;
