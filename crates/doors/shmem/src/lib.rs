// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `libsma`: OpenSHMEM 1.6 (`include/shmem.h`) over the host interface, with the counting puts of seed 004.
//!
//! Every function of the C interface is a row of the table in `api/`. The header, the exports and the reference page
//! are generated from it. A row names the Rust function that carries it out:
//!
//! | file | functions |
//! |---|---|
//! | [`start`], [`query`] | set-up and ending; queries, `shmem_ptr` |
//! | [`symmetric`] | the symmetric heap |
//! | [`context`], [`order`] | contexts and sessions; fence and quiet |
//! | [`rma`] | put, get, and their strided and non-blocking forms |
//! | [`counting`] | counting puts |
//! | [`amo`], [`signal`], [`wait`], [`lock`] | atomics, put with signal, waiting, locks |
//! | [`team`], [`collective`], [`active_set`] | teams and collectives |
//! | [`info`] | versions, names, routines without effect |
//!
//! These functions use
//!
//! | file | subject |
//! |---|---|
//! | [`mapped`] | the short path to directly mapped memory |
//! | [`remote`] | the general path: by directly mapped memory, or by commands of the NIC |
//! | [`mod@world`] | this PE, its tables, and its records of other PEs |
//! | [`check`] | reports of refused calls |
//! | [`handles`], [`types`] | the handles and the elements of C programs |
//!
//! A file imports only files that stand below it: at the bottom `handles`, `types` and `check`, then the records in
//! `world/`, then `world`, then `mapped` and `remote`, then the functions, and at the top `start` and `exports`. Nothing
//! imports this file.
//!
//! Invariants
//! 1. The memory of a peer is directly mapped where the job's processes may map it, and else reached by commands of the
//!    NIC (host mode, forced paths). The job settles this for all PEs when it starts.
//! 2. A call with a bad argument does nothing and is reported ([`check`]); the program goes on.
//! 3. A symmetric argument is checked before it is used. Of another pointer, such as the source of a put, only the
//!    program can know that it leads to as many elements as its clause of the standard says: that is the safety
//!    contract of the `unsafe` functions here.

// C programs call these functions: a pointer cannot be checked further, and the standard sets the argument lists.
#![allow(clippy::missing_safety_doc, clippy::not_unsafe_ptr_arg_deref, clippy::too_many_arguments)]

pub mod active_set;
pub mod amo;
pub mod check;
pub mod collective;
pub mod context;
pub mod counting;
pub mod exports;
pub mod handles;
pub mod info;
pub mod lock;
mod mapped;
pub mod order;
pub mod query;
pub mod remote;
pub mod rma;
pub mod signal;
pub mod start;
pub mod symmetric;
pub mod team;
pub mod types;
pub mod wait;
pub mod world;

pub use check::Call;
pub use handles::{Ct, Ctx, Team};
pub use world::address::{NicAddress, Reach, SymAddress, SymOffset};
pub use world::{World, world};
