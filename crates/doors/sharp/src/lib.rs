// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The front door `libsharp_coll.so.5`: the interface that UCC, NCCL's plugin and MVAPICH call for SHARP
//! (`include/sharp/api/sharp_coll.h`), over aggregation nodes. No hardware is needed: a communicator is a group of any
//! kind ([`selvedge_collectives::CollectiveGroup`]), of processes of one host or of several.
//!
//! | file | subject |
//! |---|---|
//! | [`interface`] | the structures and numbers of the header |
//! | [`context`] | a process, its communicators |
//! | [`operations`] | conversion of callers' requests to operations of a group |
//! | [`requests`] | operations under way |
//! | [`exports`] | the functions |
//!
//! Invariants
//! 1. A function never unwinds into C, and returns an error for a null pointer.
//! 2. Fields that an operation does not need are not read: callers leave them unset (UCC, NCCL's plugin).
//!
//! Not here: device memory, and vectors of buffers, which return `SHARP_COLL_ENOT_SUPP`.

mod context;
mod exports;
mod interface;
mod operations;
mod requests;
