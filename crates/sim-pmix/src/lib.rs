// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `libselvedge_sim_pmix.so`: PMIx for ranks that `selvedge sim` starts.
//!
//! Open MPI learns its ranks from a PMIx server, and without one takes itself for a job of one. Our launcher is none: it speaks
//! PMI-1. Put before the system's libraries (`LD_PRELOAD`), this answers for the calls of `libpmix` by which a program finds its
//! job: who it is, what its peers have published, fences, the end. What needs no server (values, lists of directives) stays with
//! `libpmix`. No thread is started, and nothing is read from a socket but at a fence, so that a rank in virtual time does the same
//! in every run.
//!
//! | file | what |
//! |---|---|
//! | [`calls`] | the functions of `pmix.h` |
//! | [`session`] | this rank in its job: places, what is published |
//! | [`store`] | what ranks have published, and how it travels |
//! | [`sys`] | structures of `pmix.h`, in its layout |
//!
//! Invariants
//! 1. What comes from a caller is taken as `pmix.h` says; what comes from peers is checked.
//! 2. Memory that is handed out is the C library's: who gets it frees it.
//! 3. No lock is held while a function of the caller's runs.
//!
//! Not offered, and refused as such: fences and groups of some of the ranks, spawning, connecting, publishing by name, queries.
//!
//! Each rank is on a node of its own, as the launcher tells programs of MPICH, too: all messages go to the simulated network.

mod calls;
mod session;
mod store;
mod sys;
