// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `libselvedge_openmpi_preload.so`: mends faults of btl/ofi and mtl/ofi, Open MPI's components for libfabric.
//!
//! `selvedge mpirun`, `selvedge env openmpi` and `selvedge sim` load this library before Open MPI (`LD_PRELOAD`):
//!
//! | file | subject |
//! |---|---|
//! | [`sleeps`] | a sleep of one second at the end of each job is left out |
//! | [`atomics`] | operations by which windows of 4.1 crash, abort, or wait for themselves |
//! | [`errors`] | failures of messages without a request, by which a process crashes |
//!
//! A component's own references to its functions go through the loader, which prefers a preloaded library. In the
//! processes of other MPIs nothing calls these functions.

mod atomics;
mod errors;
mod sleeps;
