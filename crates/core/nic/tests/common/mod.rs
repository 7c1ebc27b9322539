// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared by the tests: a home for a NIC, the oracle, both side by side, and the invariants of tables.
#![allow(dead_code)]

pub mod aggregation;
pub mod home;
pub mod model;
pub mod pair;
pub mod rma;
pub mod rma_model;
pub mod sane;
pub mod watch;

pub use home::*;
