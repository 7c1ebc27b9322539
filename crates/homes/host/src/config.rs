// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings with which a process runs its NICs.

use std::path::PathBuf;

/// The number of the NIC by which a process is a member of aggregation groups.
pub const MEMBER_NI: u32 = 10;

/// The library that opens a NIC of this number, for people.
pub fn kind_of(ni: u32) -> &'static str {
    match ni {
        0..=3 => "portals",
        4 => "openshmem",
        8 => "mpi",
        9 => "extoll",
        MEMBER_NI => "collectives",
        _ => "other",
    }
}

/// Portals process ids are below this: `PTL_PID_MAX` is the largest.
pub const PID_LIMIT: usize = 1025;

/// Ids of NICs on a host are below this. Those of Portals come first, then those that only transports in virtual time have.
pub const ID_LIMIT: usize = 4097;

/// Stands for a process of another host in place of the word of a process of this host. No process here has it.
pub const REMOTE: u64 = u64::MAX;

/// Limit of unanswered VELO messages from one port to a port of another host. A message is answered when it is in its
/// mailbox.
pub const UNANSWERED_MAX: u32 = 64;

/// The processes that run a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every process that sends to it.
    Nic,
    /// Only its owner, when the owner's program calls in.
    Host,
}

/// The way to the memory of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Directly in the shared arena, else by cross-memory attach, else through a ring, by the owner.
    Auto,
    /// Only directly mapped memory; other memory is refused.
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

/// Settings with which a process runs its NICs.
#[derive(Clone, Debug)]
pub struct Config {
    pub mode: Mode,
    pub path: Path,
    /// The time that a wait spins before it sleeps.
    pub spin_ns: u64,
    /// The longest sleep. If peers store to memory without waking its owner, the owner must poll.
    pub nap_ns: u64,
    /// The job's directory.
    pub directory: PathBuf,
    /// The number of this host in the job: the upper half of the ids of its processes.
    pub nid: u32,
    /// Marks this process's NIC for others, masked with the host; 0 if they need not recognise it.
    pub token: u64,
}
