// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of processes and NICs in links.

/// This process's number for a process of another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u32);

/// The NIC that a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NicName {
    /// The Portals process id.
    pub pid: u32,
    /// The number of the NIC in its process.
    pub ni: u16,
}
