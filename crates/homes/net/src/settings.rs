// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings of a process's links: network, secret, checks, progress, time-out.

use std::net::IpAddr;
use std::time::Duration;

use crate::faults::Faults;
use crate::frame::Seal;
use crate::greeting::Key;

/// The check of frames. Both sides of a link must use the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// No check: the transport below is trusted.
    None,
    /// A CRC-32C of each frame. Damaged and lost frames are repeated.
    Crc,
    /// A tag of each frame that only holders of the key can make. Damaged and lost frames are repeated.
    Mac,
}

impl Check {
    pub(crate) fn number(self) -> u8 {
        match self {
            Check::None => 0,
            Check::Crc => 1,
            Check::Mac => 2,
        }
    }

    /// Returns the bytes of a frame's seal.
    pub(crate) fn seal_bytes(self) -> usize {
        match self {
            Check::None | Check::Crc => Seal::None.bytes(),
            Check::Mac => Seal::Mac([0; 32]).bytes(),
        }
    }

    /// Returns the seal of the frames of a link that was greeted with this key.
    pub(crate) fn seal(self, key: &Key) -> Seal {
        match self {
            Check::None => Seal::None,
            Check::Crc => Seal::Crc,
            Check::Mac => Seal::Mac(key.derived(b"frames  ")),
        }
    }
}

/// The threads that make progress on links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A progress thread, while the program does not poll.
    Thread,
    /// The program's calls; a progress thread from the first link on.
    ThreadLater,
    /// The program's calls only.
    Calls,
}

/// The settings of a process. They hold a secret, and are not printed.
#[derive(Clone)]
pub struct Settings {
    /// The address of this host for others.
    pub at: IpAddr,
    /// libfabric's provider; None for libfabric's first.
    pub provider: Option<String>,
    /// The job's secret. If it is empty, the addresses alone are the proof.
    pub secret: Vec<u8>,
    /// The number of this host in the job; None without a job that numbers hosts.
    pub nid: Option<u32>,
    pub check: Check,
    pub progress: Progress,
    /// Open links to other processes, beyond which idle ones are closed, and as many from others.
    pub links_max: usize,
    /// The silence after which a host is lost.
    pub timeout: Duration,
    /// Faults of the network, for tests.
    pub faults: Option<Faults>,
}
