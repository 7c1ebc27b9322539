// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a process runs its NICs.

use std::path::PathBuf;

/// The number of the NIC with which a process is a member of groups of aggregation.
pub const MEMBER_NI: u32 = 10;

/// Portals process ids are below this: `PTL_PID_MAX` is the largest.
pub const PID_LIMIT: usize = 1025;

/// Stands for the process of another host where this host's processes have their words. No process here has it.
pub const REMOTE: u64 = u64::MAX;

/// VELO messages from one port to a port of another host that may be unanswered: each is answered when it is in its mailbox.
pub const UNANSWERED_MAX: u32 = 64;

/// Which processes run a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every process that sends to it.
    Nic,
    /// Only its owner, when the owner's program calls in.
    Host,
}

/// How the memory of another process is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Directly in the shared arena, else by cross-memory attach, else through a ring, by the owner.
    Auto,
    /// Directly mapped memory only; other memory is refused.
    Shared,
    /// By cross-memory attach only.
    Cma,
    /// Through a ring only, by the owner.
    Bounce,
}

impl Mode {
    /// Whether processes of a host store directly to each other's memory, on this path.
    pub fn maps_peers(self, path: Path) -> bool {
        self == Mode::Nic && matches!(path, Path::Auto | Path::Shared)
    }
}

/// How a process runs its NICs.
#[derive(Clone, Debug)]
pub struct Config {
    pub mode: Mode,
    pub path: Path,
    /// How long a wait spins before it sleeps.
    pub spin_ns: u64,
    /// The longest sleep. If peers store to memory without waking its owner, the owner must poll by itself.
    pub nap_ns: u64,
    /// The job's directory.
    pub directory: PathBuf,
    /// The number of this host in the job: the upper half of the ids of its processes.
    pub nid: u32,
    /// By which others recognise this process's NIC, masked with the host; 0: they need not.
    pub token: u64,
}
