// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings of a process's links: network, secret, checks, progress, time-out.

use std::net::IpAddr;
use std::time::Duration;

use crate::faults::Faults;
use crate::frame::Seal;
use crate::greeting::Key;

/// How frames are checked. Both sides of a link must do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Not at all: the transport below is trusted.
    None,
    /// By a CRC-32C of each frame. Damaged and lost frames are repeated.
    Crc,
    /// By a tag of each frame, which nobody else can make. Damaged and lost frames are repeated.
    Mac,
}

impl Check {
    /// Its number in a greeting.
    pub(crate) fn number(self) -> u8 {
        match self {
            Check::None => 0,
            Check::Crc => 1,
            Check::Mac => 2,
        }
    }

    /// The seal of the frames of a link that was greeted with this key.
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
    /// A thread, while the program does not poll.
    Thread,
    /// The program's calls; from the first link on a thread.
    ThreadLater,
    /// The program's calls only.
    Calls,
}

/// The settings of a process. They hold a secret, and are not printed.
#[derive(Clone)]
pub struct Settings {
    /// The address of this host at which others reach it.
    pub at: IpAddr,
    /// libfabric's provider; None: libfabric's first.
    pub provider: Option<String>,
    /// The job's secret; empty: the addresses alone are the proof.
    pub secret: Vec<u8>,
    /// The number of this host in the job; None: there is no job that numbers hosts.
    pub nid: Option<u32>,
    pub check: Check,
    pub progress: Progress,
    /// After this time of silence a host is lost.
    pub timeout: Duration,
    /// Faults of the network, for tests.
    pub faults: Option<Faults>,
}
