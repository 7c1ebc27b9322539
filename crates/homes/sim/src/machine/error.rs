// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors in a description. They name the file, the line if known, and the remedy.

use std::path::PathBuf;

use selvedge_fabric::{RoutingError, TopologyError};

/// Reason why a description gives no machine.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    #[error("{path}: {error}")]
    Read { path: PathBuf, error: std::io::Error },
    #[error("{path}: {error}")]
    Parse { path: PathBuf, error: Box<toml::de::Error> },
    #[error("{path}{}: [{section}] {key}: {why}", line.map(|line| format!(":{line}")).unwrap_or_default())]
    Value { path: PathBuf, line: Option<usize>, section: String, key: String, why: String },
    #[error("{path}{}: [topology] {error}", line.map(|line| format!(":{line}")).unwrap_or_default())]
    Topology { path: PathBuf, line: Option<usize>, error: TopologyError },
    #[error("{path}: {error}")]
    Graphml { path: PathBuf, error: super::GraphmlError },
    #[error("{path}{}: [routing] {error}", line.map(|line| format!(":{line}")).unwrap_or_default())]
    Routing { path: PathBuf, line: Option<usize>, error: RoutingError },
    #[error("{path}: base: {why}")]
    Base { path: PathBuf, why: String },
    #[error("'{0}' is not of the form section.key=value, as in link.latency_ns=20")]
    Override(String),
}
