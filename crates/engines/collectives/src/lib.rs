// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collective operations that aggregation nodes carry out (seed 001).
//!
//! | module | subject |
//! |---|---|
//! | [`one_host`] | groups of processes of one host: a node that the members share and run |
//! | [`between_hosts`] | groups whose nodes are in switches of a simulated machine or on hosts |
//! | [`CollectiveGroup`] | a group of any kind, and its outstanding operations |
//! | [`service`] | the manager and the nodes of hosts, and a process's session with them |
//!
//! All three run the transitions of `selvedge_nic::aggregation`.

pub mod between_hosts;
mod collective_group;
pub mod one_host;
pub mod service;

pub use collective_group::CollectiveGroup;
