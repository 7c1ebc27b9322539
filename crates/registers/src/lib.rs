// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Access to the registers of a NIC that lies behind an address, or behind a bus: for drivers, and for the register block
//! in SystemVerilog. All of it is made from `registers/selvedge.rdl` by PeakRDL (`make registers`).
//!
//! A NIC as a value needs none of this: `selvedge_nic::registers` has the same names and addresses without pointers.
//!
//! ```
//! use peakrdl_rust::io::RegisterIO;
//! use selvedge_registers::SelvedgeNic;
//!
//! fn requests<IO: RegisterIO>(nic: &SelvedgeNic<'_, IO>) -> u64 {
//!     nic.portals().requests().read().count()
//! }
//! ```
#![no_std]

// The generator writes no SAFETY lines: whoever makes a `SelvedgeNic` of a pointer promises what lies behind it.
#[allow(clippy::undocumented_unsafe_blocks, clippy::missing_safety_doc, clippy::too_long_first_doc_paragraph)]
#[allow(clippy::bool_assert_comparison, unsafe_op_in_unsafe_fn, missing_docs)]
#[rustfmt::skip]
mod generated;

pub use generated::{PEAKRDL_RUST_VERSION, SelvedgeNic, components};
