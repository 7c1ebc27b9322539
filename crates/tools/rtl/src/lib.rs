// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine in SystemVerilog (`rtl/`), run by Verilator in one process with its model [`selvedge_nic`].
//!
//! A [`Unit`] is one unit of the RTL: it takes commands, and returns answers and the writes to its banks, with their
//! cycles. A unit's module packs its commands, maps its words of SRAM to records of `nic`, and runs both sides in
//! lockstep (docs/design/rtl-lockstep.md).

pub mod allocator;
pub mod arithmetic;
pub mod atu;
pub mod bits;
pub mod counters;
pub mod descriptors;
pub mod error;
pub mod home;
pub mod lists;
pub mod pac;
pub mod ports;
pub mod records;
pub mod refinement;
pub mod replay;
pub mod shadow;
pub mod unit;

pub use error::LockstepError;
pub use unit::Unit;
