// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The front door `libnccl-net-selvedge.so`: NCCL's collective network (`ncclCollNetPlugin_v6` to `_v12`) over
//! aggregation nodes (seed 001). Each rank is a process. All ranks of a communicator are on one host and share a live
//! group ([`selvedge_collectives::one_host`]).
//!
//! | file | subject |
//! |---|---|
//! | [`interface`] | numbers and structures of NCCL's interface, in each version |
//! | [`bootstrap`] | the bootstrap of a group: sockets of ranks that know each other's handles |
//! | [`comm`] | a communicator, its operations under way |
//! | [`exports`] | the functions, and the tables of them |
//! | [`log`] | NCCL's logger |
//!
//! Invariants
//! 1. A function never unwinds into C, and returns an error for a null pointer.
//! 2. Only `connect` waits. It ends when a rank has died or refused.
//! 3. A request keeps its communicator's group until it is over, even after NCCL has closed the communicator.
//!
//! Not here: device memory, and the point-to-point network (`ncclNetPlugin`) that NCCL looks up in the same library.

mod bootstrap;
mod comm;
mod exports;
mod interface;
mod log;
