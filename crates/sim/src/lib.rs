// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulated home: the same NIC in virtual time, on machines that need not exist.
//!
//! | file | what |
//! |---|---|
//! | [`time`], [`queue`], [`random`] | picoseconds; events in order; numbers from a seed |
//! | [`machine`] | a machine's description: TOML in, costs out |
//! | [`node`] | hosts, NICs and programs, joined by the fabric: the simulation |
//! | [`program`] | programs as futures |
//! | [`processes`] | programs as processes |
//! | [`network`] | the fabric in virtual time: switches, virtual channels, credits, faults; or messages as wholes |
//! | [`traffic`] | synthetic traffic on the network alone |
//! | [`report`] | tables, JSON, pictures, a page, a timeline |
//! | [`validate`] | what the seeds claim, against what comes out here |
#![forbid(unsafe_code)]

pub mod machine;
pub mod network;
pub mod node;
pub mod processes;
pub mod program;
pub mod queue;
pub mod random;
pub mod report;
pub mod time;
pub mod traffic;
pub mod validate;
