// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings of the manager as a service, and the reasons why there is none.

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
    /// A node that is silent for so long is lost.
    pub silence: Duration,
    /// The most hosts.
    pub hosts: u32,
    /// Of each aggregation node.
    pub limits: Limits,
    /// The most children of a node of a tree.
    pub radix: u32,
    /// The share of a job of a node, in percent.
    pub share: u32,
    /// Bytes of an operation.
    pub bytes: u32,
    /// The file of the state. None: it is not kept.
    pub state: Option<PathBuf>,
    /// The time for nodes and processes to come back after a restart of the service.
    pub grace: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            secret: Vec::new(),
            silence: crate::service::SILENCE,
            hosts: 256,
            // 64 MB for operands, which the system gives as they are used: a job's share is some credits for each of its groups.
            limits: Limits { credits: 8, operand_blocks: 1 << 20, ..Limits::DEFAULT },
            radix: Limits::DEFAULT.children,
            share: selvedge_manager::SHARE_DEFAULT,
            bytes: 2048,
            state: None,
            grace: GRACE,
        }
    }
}

/// The reason why there is no service.
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
