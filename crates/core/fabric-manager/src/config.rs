// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of a manager: its host, its times, its limits.
use crate::id::{Boot, HostId};
use alloc::string::String;
use core::net::IpAddr;

/// The most ports of a host: an announcement names all links, and fits a frame.
pub const PORTS_MAX: u16 = 48;
/// The most hosts of a table.
pub const HOSTS_MAX: u32 = 8192;

const MS: u64 = 1_000_000;

/// A manager's host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub host: HostId,
    pub boot: Boot,
    /// Shown to people. At most [`NAME_BYTES_MAX`](crate::id::NAME_BYTES_MAX) bytes; a longer one is cut.
    pub name: String,
    /// The address by which others reach the host; routes lead to it.
    pub address: Option<IpAddr>,
    /// Column and row on a mesh, for west-first.
    pub position: Option<[u16; 2]>,
    /// Ports, numbered from 0; at most [`PORTS_MAX`].
    pub ports: u16,
    pub strategy: Strategy,
    pub limits: Limits,
    pub timing: Timing,
}

/// The routes that leases get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// The path that the kernels' routes take.
    #[default]
    Shortest,
    /// Free of deadlock on any fabric.
    UpDown,
    /// Free of deadlock; where it does not fit, all hosts take up*/down*.
    WestFirst,
}

/// Sizes that no input exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Hosts of the table, at most [`HOSTS_MAX`].
    pub hosts: u32,
    pub leases: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { hosts: 1024, leases: 4096 }
    }
}

/// Times, in nanoseconds. All hosts of a fabric have about the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Between hellos of a port.
    pub hello_ns: u64,
    /// Without a hello until the other end counts as silent.
    pub silence_ns: u64,
    /// With a carrier and without any hello, until hellos are sent ten times less often.
    pub quiet_ns: u64,
    /// Until an announcement is sent again that was not acknowledged.
    pub repeat_ns: u64,
    /// Between frames of announcements at a port: those of this time share frames.
    pub gather_ns: u64,
    /// Between announcements of the own links.
    pub announce_ns: u64,
    /// From the first link to the first announcement.
    pub claim_ns: u64,
    /// From a change to the new map.
    pub settle_ns: u64,
    /// Lifetime of an announcement; its host renews it after a third.
    pub lifetime_ns: u64,
    /// Until an announcement is dropped whose host cannot be reached.
    pub unreachable_ns: u64,
    /// Memory of drops of a link.
    pub drops_ns: u64,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            hello_ns: 100 * MS,
            silence_ns: 350 * MS,
            quiet_ns: 5_000 * MS,
            repeat_ns: 100 * MS,
            gather_ns: MS,
            announce_ns: 20 * MS,
            claim_ns: 100 * MS,
            settle_ns: 20 * MS,
            lifetime_ns: 90_000 * MS,
            unreachable_ns: 5_000 * MS,
            drops_ns: 10_000 * MS,
        }
    }
}

impl Timing {
    /// All times divided, for links that are faster than those of hosts.
    pub fn faster(self, by: u64) -> Timing {
        let by = by.max(1);
        Timing {
            hello_ns: self.hello_ns / by,
            silence_ns: self.silence_ns / by,
            quiet_ns: self.quiet_ns / by,
            repeat_ns: self.repeat_ns / by,
            gather_ns: self.gather_ns / by,
            announce_ns: self.announce_ns / by,
            claim_ns: self.claim_ns / by,
            settle_ns: self.settle_ns / by,
            lifetime_ns: self.lifetime_ns / by,
            unreachable_ns: self.unreachable_ns / by,
            drops_ns: self.drops_ns / by,
        }
        .clamped()
    }

    /// The nearest times with which a manager works: none is 0, and a host outlives its renewals.
    pub(crate) fn clamped(self) -> Timing {
        const YEAR_NS: u64 = 365 * 86_400 * 1_000 * MS;
        let at_least = |time: u64, least: u64| time.clamp(least, YEAR_NS);
        let hello_ns = at_least(self.hello_ns, 1_000);
        Timing {
            hello_ns,
            silence_ns: at_least(self.silence_ns, 2 * hello_ns),
            quiet_ns: at_least(self.quiet_ns, hello_ns),
            repeat_ns: at_least(self.repeat_ns, 1_000),
            gather_ns: at_least(self.gather_ns, 1),
            announce_ns: at_least(self.announce_ns, 1),
            claim_ns: at_least(self.claim_ns, 1),
            settle_ns: at_least(self.settle_ns, 1),
            // The wire carries lifetimes in milliseconds of 32 bits.
            lifetime_ns: at_least(self.lifetime_ns, 10 * hello_ns).min(u64::from(u32::MAX) * MS),
            unreachable_ns: at_least(self.unreachable_ns, hello_ns),
            drops_ns: at_least(self.drops_ns, hello_ns),
        }
    }
}
