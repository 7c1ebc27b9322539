// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of processes and NICs, as links know them.

/// A process of another host, as this process numbers them.
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
