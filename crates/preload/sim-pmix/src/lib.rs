// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `libselvedge_sim_pmix.so`: PMIx for ranks that `selvedge sim` starts.
//!
//! Open MPI finds its ranks through a PMIx server; without one it runs as a job of one rank. `selvedge sim` has no such
//! server: it speaks PMI-1. This library is loaded before `libpmix` (`LD_PRELOAD`) and replaces the calls by which a
//! program finds its job: its rank, its peers' published values, fences, finalize. Calls that need no server (values,
//! lists of directives) stay with `libpmix`. The library starts no thread, and reads from a socket only in a fence, so
//! a rank in virtual time behaves identically in every run.
//!
//! | file | subject |
//! |---|---|
//! | [`calls`] | the functions of `pmix.h` |
//! | [`packing`] | values in buffers, which programs send to peers |
//! | [`session`] | this rank in its job: its place, and the published values |
//! | [`store`] | values that ranks publish, and their encoding |
//! | [`sys`] | structures of `pmix.h`, in its layout |
//!
//! Invariants
//! 1. Arguments are trusted to be as `pmix.h` requires; input from peers is checked.
//! 2. Memory passed to the program comes from the C library's allocator: the program frees it.
//! 3. No lock is held while a callback runs.
//!
//! Not supported (`PMIX_ERR_NOT_SUPPORTED`): fences and groups of a subset of the ranks, spawning, connecting,
//! publishing by name, queries.
//!
//! Each rank seems to be on its own node, as for MPICH, so that all messages go to the simulated network.

mod calls;
mod packing;
mod session;
mod store;
mod sys;
