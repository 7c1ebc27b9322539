// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `libsma`: OpenSHMEM 1.6 (`include/shmem.h`) over the host interface, with the counting puts of seed 004.
//!
//! Every C function is a row of the table in `api/`, from which the header, the exports and the reference page are
//! generated. A row names the Rust function that carries it out:
//!
//! | file | functions |
//! |---|---|
//! | [`start`], [`query`] | start and end; queries, `shmem_ptr` |
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
//! | [`waiting`] | waits, and lost PEs |
//! | [`mapped`] | the short path to directly mapped memory |
//! | [`remote`] | the general path: by directly mapped memory, or by commands of the NIC |
//! | [`mod@world`] | this PE, its tables, and its records of other PEs |
//! | [`calls`] | the recording of calls for a trace in OTF2 |
//! | [`check`] | reports of refused calls |
//! | [`handles`], [`types`] | handles and elements of C programs |
//!
//! A file imports only files below it. From the bottom: `handles`, `types` and `check`; the records in `world/`;
//! `world`; `waiting`; `mapped` and `remote`; `calls`; the functions; `start` and `exports`. No file imports this one.
//!
//! Invariants
//! 1. A peer's memory is directly mapped if the job's processes may map it; else commands of the NIC reach it (host
//!    mode, forced paths). The job decides this for all PEs when it starts.
//! 2. A call with a bad argument does nothing and is reported ([`check`]); the program continues.
//! 3. A symmetric argument is checked before it is used. Another pointer, such as the source of a put, cannot be
//!    checked. That it points to the elements of its clause in the standard is the safety contract of the `unsafe`
//!    functions here.

// C programs call these functions. Pointers cannot be checked further, and the standard sets the argument lists.
#![allow(clippy::missing_safety_doc, clippy::not_unsafe_ptr_arg_deref, clippy::too_many_arguments)]

pub mod active_set;
pub mod amo;
pub mod calls;
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
mod waiting;
pub mod world;

pub use check::Call;
pub use handles::{Ct, Ctx, Team};
pub use world::address::{NicAddress, Reach, SymAddress, SymOffset};
pub use world::{World, world};
