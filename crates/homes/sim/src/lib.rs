// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulated home: the same NIC in virtual time, on modelled machines.
//!
//! | file | subject |
//! |---|---|
//! | [`time`], [`queue`], [`random`] | virtual time in picoseconds; the event queue; random numbers from a seed |
//! | [`congestion`] | congestion control of the nodes: windows under ECN, credits of receivers |
//! | [`machine`] | a machine's description: TOML in, costs out |
//! | [`node`] | hosts, NICs and programs, connected by the fabric: the simulation |
//! | [`program`] | ranks that are futures |
//! | [`jobs`] | several jobs on one machine: programs, traces, traffic in the background |
//! | [`processes`] | ranks that are real processes |
//! | [`network`] | the fabric in virtual time: packets with virtual channels, credits and faults; or whole messages |
//! | [`observers`] | observers of the network that write files |
//! | [`phits`] | dumps of a link, phit by phit, and their check |
//! | [`rerouting`] | managers of the routers: new routes after a failure |
//! | [`traffic`] | synthetic traffic on the network alone |
//! | [`report`] | tables, JSON, pictures, an HTML page, a timeline |
//! | [`validate`] | the claims of the seeds beside the simulator's predictions |
#![forbid(unsafe_code)]

pub mod congestion;
pub mod jobs;
pub mod machine;
pub mod network;
pub mod node;
pub mod observers;
pub mod phits;
pub mod processes;
pub mod program;
pub mod queue;
pub mod random;
pub mod report;
pub mod rerouting;
pub mod time;
pub mod traffic;
pub mod validate;
