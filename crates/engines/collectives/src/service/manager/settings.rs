// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings of the manager as a service, and its errors at the start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use selvedge_fabric::{TopologyError, TreeError};
use selvedge_nic::aggregation::Limits;

/// [`Settings::grace`] by default.
pub const GRACE: Duration = Duration::from_secs(30);

/// The settings of a service.
#[derive(Clone, Debug)]
pub struct Settings {
    pub secret: Vec<u8>,
    /// Time of silence after which a node is lost.
    pub silence: Duration,
    /// Largest number of hosts.
    pub hosts: u32,
    /// Limits of each aggregation node.
    pub limits: Limits,
    /// Largest number of children of a node of a tree.
    pub radix: u32,
    /// The share of a job of a node, in percent.
    pub share: u32,
    /// Longest operation, in bytes.
    pub bytes: u32,
    /// The file of the state. `None`: the state is not stored.
    pub state: Option<PathBuf>,
    /// The time for nodes and processes to reconnect after a restart of the service.
    pub grace: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            secret: Vec::new(),
            silence: crate::service::SILENCE,
            hosts: 256,
            // 64 MB for operands, allocated on first use: a job's share is some credits for each of its groups.
            limits: Limits { credits: 8, operand_blocks: 1 << 20, ..Limits::DEFAULT },
            radix: Limits::DEFAULT.children,
            share: selvedge_manager::SHARE_DEFAULT,
            bytes: 2048,
            state: None,
            grace: GRACE,
        }
    }
}

/// The reason why the service cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error("cannot listen at {at}: {error}")]
    Listen { at: SocketAddr, error: io::Error },
    #[error("{}: {why}", path.display())]
    State { path: PathBuf, why: String },
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error(transparent)]
    Tree(#[from] TreeError),
}
