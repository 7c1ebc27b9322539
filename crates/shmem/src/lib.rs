// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `libsma`: OpenSHMEM 1.6 (`include/shmem.h`) over the host interface, with the counting puts of seed 004.
//!
//! Every function of the C interface is a row of the table in `api/`. The header, the exports and the reference page
//! are generated from it. A row names the Rust function that carries it out:
//!
//! | file | functions |
//! |---|---|
//! | [`mod@world`] | set-up, queries, `shmem_ptr`, ending |
//! | [`symmetric`] | the symmetric heap and the static data |
//! | [`context`], [`order`] | contexts and sessions; fence and quiet |
//! | [`rma`] | put, get, and their strided and non-blocking forms |
//! | [`counting`] | counting puts |
//! | [`amo`], [`signal`], [`wait`], [`lock`] | atomics, put with signal, waiting, locks |
//! | [`team`], [`collective`], [`active_set`] | teams and collectives |
//! | [`info`] | versions, names, routines without effect |
//!
//! These functions use
//!
//! | file | what |
//! |---|---|
//! | [`remote`] | a symmetric address at a PE: directly mapped, or reached by commands of the NIC |
//! | [`mapped`] | the short path to directly mapped memory |
//! | [`check`] | reports of refused calls |
//! | [`types`] | the element types |
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
pub mod info;
pub mod lock;
mod mapped;
pub mod order;
pub mod remote;
pub mod rma;
pub mod signal;
pub mod symmetric;
pub mod team;
pub mod types;
pub mod wait;
pub mod world;

pub use remote::{NicAddress, Reach, SymAddress, SymOffset};
pub use world::{World, world};

/// The name of the C function that was called, for reports.
pub type Call = &'static str;

/// `shmem_ctx_t`: 0 is invalid, 1 the default context; other values hold an index and a generation.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ctx(pub usize);

impl Ctx {
    pub const INVALID: Ctx = Ctx(0);
    pub const DEFAULT: Ctx = Ctx(1);
}

/// `shmem_team_t`: 0 is invalid, 1 the world, 2 the PEs that share memory; other values hold an index and a generation.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Team(pub usize);

impl Team {
    pub const INVALID: Team = Team(0);
    pub const WORLD: Team = Team(1);
    pub const SHARED: Team = Team(2);
}

/// `shmem_ct_t`: a counter of counting puts; 0 is invalid.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ct(pub usize);

impl Ct {
    pub const INVALID: Ct = Ct(0);
}
