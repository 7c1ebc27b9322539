// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The front door for programs written to EXTOLL and ATOLL: libvelo2 (`include/velo2.h`), librma2 (`include/rma2.h`),
//! GASNet's core API (`include/gasnet.h`), libatoll (`include/atoll.h`) and libswordfish (`include/swordfish.h`).
//!
//! One shared library, under five names, has all interfaces, because all use the one device of the process
//! ([`selvedge_process::device`]). The functions check arguments and translate; the units decide.
//!
//! Invariants
//! 1. A function never unwinds into C, and never follows a pointer that the headers allow to be NULL.
//! 2. A port and a connection start with a mark, which is cleared when they are closed. Their memory is never freed, so
//!    a closed one is recognised and refused.

pub mod atoll;
pub mod c_object;
mod codes;
pub mod gasnet;
pub mod rma2;
pub mod swordfish;
pub mod velo2;
pub mod velorun;
