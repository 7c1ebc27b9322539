// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `libportals`: the Portals 4.3 API (`include/portals4.h`) and Selvedge's own functions (`include/selvedge.h`).
//!
//! A front door translates and never decides: it checks arguments, turns handles into references and C structures into
//! the NIC's, and maps every error to its code in one place ([`codes`]).
//!
//! | file | functions |
//! |---|---|
//! | [`abi`] | the C types, laid out as in the header |
//! | [`codes`] | return codes, and their errors |
//! | [`state`] | the open interfaces, handles |
//! | [`interface`] | PtlInit .. PtlNIStatus, maps, identities |
//! | [`table`] | portal table entries |
//! | [`lists`] | list and match entries: append, unlink, search |
//! | [`objects`] | memory descriptors, counting events, event queues |
//! | [`plan`] | a checked operation, and its command |
//! | [`mod@put`], [`route_cache`] | put, and its cached routes |
//! | [`operations`], [`triggered`] | get, atomics and swaps; triggered operations |
//! | [`job`] | selvedge_* |
//!
//! Invariants
//! 1. Every function may be called from any thread.
//! 2. A function checks handles, ranges, null pointers, and whether memory is mapped. As in any C API, the program
//!    promises that a pointer leads to an object of its type.

// C programs call these functions. Pointers cannot be checked further, and the specification sets the argument lists.
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
