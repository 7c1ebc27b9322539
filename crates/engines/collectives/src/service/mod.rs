// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Aggregation on hosts (seed 001, section III.A: an aggregation node may be "a process in a server").
//!
//! ```text
//!        selvedge manager: [`manager`] around selvedge_manager::Manager
//!           │ sessions: steps, shares, losses ([`wire`])
//!   ┌───────┴────────┬──────────────────┐
//! aggregator       aggregator        processes of jobs ([`session`])
//! ([`node`]) <═══> ([`node`]) <═════════════╛   links between hosts: requests, results
//! ```
//!
//! A node is the value of `selvedge_nic::aggregation` with tables in this process. When the process ends, its groups end, and members and
//! neighbours learn it from their links. So nothing needs a recovery.
//!
//! Costs: a session and a thread for each node and for each process that leads a host's members; a link for each pair of neighbours in a tree.

pub mod manager;
pub mod node;
pub mod session;
mod store;
pub mod wire;

/// Aggregation nodes have this network id in trees, and their number as process id.
pub const NODES_AT: u64 = 0xffff_fff0 << 32;
/// The time after which a silent host is lost.
pub const SILENCE: std::time::Duration = std::time::Duration::from_secs(5);
