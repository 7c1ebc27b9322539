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
//! A node is the value of `selvedge_nic::aggregation` with tables in its process. When the process ends, its groups
//! end. Members and neighbours learn it from their links. So no recovery is needed.
//!
//! Costs: a session and a thread for each node and each leader of a host's members; a link for each edge of a tree.

pub mod manager;
pub mod node;
pub mod session;
mod store;
pub mod wire;

/// Network id of aggregation nodes in trees. Their process id is their number.
pub const NODES_AT: u64 = 0xffff_fff0 << 32;
/// The time after which a silent host is lost.
pub const SILENCE: std::time::Duration = std::time::Duration::from_secs(5);
