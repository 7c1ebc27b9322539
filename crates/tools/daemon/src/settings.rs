// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The daemon's settings, and the reasons for which it does not start.
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::protocol::{DumpView, DumpWhat};
use crate::seal::KeyError;

/// A reader of NICs: the path of a segment, its user, and what is wanted.
pub type ReadNic = fn(&Path, u32, DumpWhat) -> Result<DumpView, String>;

/// Says why a daemon with the same command line would not start now: its files may have changed. It does not wait.
pub type CheckStart = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The daemon's settings.
#[derive(Clone)]
pub struct Settings {
    /// Names of interfaces, which may end in `*`. None: all but the loopback interface.
    pub interfaces: Vec<String>,
    /// None: one that the host's number gives.
    pub address: Option<Ipv4Addr>,
    pub key: Option<PathBuf>,
    pub set_sysctls: bool,
    pub socket: PathBuf,
    /// `/sys`, but for tests.
    pub sysfs: PathBuf,
    /// Reads a NIC of a user: its registers or its mailboxes, by the file of its segment. Called by a thread of its
    /// own, because the file system may give no answer.
    pub read_nic: ReadNic,
    /// Asked before the daemon executes itself anew.
    pub check_start: CheckStart,
}

/// Reasons for which the daemon does not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("--socket {}: {error}", .path.display())]
    Socket { path: PathBuf, error: io::Error },
    #[error("--address {0}: give a unicast address that other hosts can use, such as 10.1.0.1")]
    Address(Ipv4Addr),
    #[error("{what}: {error}")]
    Kernel { what: &'static str, error: io::Error },
}

pub(crate) fn kernel_error(what: &'static str) -> impl Fn(io::Error) -> DaemonError {
    move |error| DaemonError::Kernel { what, error }
}

/// Whether other hosts can use the address.
pub(crate) fn is_usable(address: Ipv4Addr) -> bool {
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_link_local())
}
