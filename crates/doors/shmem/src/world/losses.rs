// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PEs that have ended early: the first one that this PE knows of, and the data with which it looks for one
//! (`waiting.rs`).

use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

/// Length of a host's name in a PE's start record. A longer name is cut.
pub(crate) const HOST_NAME_BYTES: usize = 32;

pub(crate) struct Losses {
    /// The name of each PE's host.
    hosts: Box<[[u8; HOST_NAME_BYTES]]>,
    /// The launcher records lost ranks of all hosts.
    pub is_recorded: bool,
    /// A PE of the next host. None in a job on one host.
    pub watched: Option<usize>,
    /// A moment in the past: the deadline of the first part of a wait.
    pub past: Instant,
    pub first: OnceLock<LostPe>,
    /// The next PE of this host to check.
    pub next_near: AtomicUsize,
}

/// A PE that has ended without `shmem_finalize`.
pub(crate) struct LostPe {
    pub pe: usize,
    pub why: String,
    /// The time at which this PE learned of it.
    pub since: Instant,
    /// A wait that has lasted this long after the loss ends this PE.
    pub patience: Duration,
}

impl Losses {
    /// `ids`: the Portals ids of all PEs.
    pub fn new(
        hosts: Box<[[u8; HOST_NAME_BYTES]]>,
        is_recorded: bool,
        me: usize,
        ids: impl Iterator<Item = u64> + Clone,
    ) -> Losses {
        Losses {
            hosts,
            is_recorded,
            watched: watched_pe(me, ids),
            past: Instant::now(),
            first: OnceLock::new(),
            next_near: AtomicUsize::new(me),
        }
    }

    /// The name of a PE's host.
    pub fn host_of(&self, pe: usize) -> String {
        String::from_utf8_lossy(name_of(&self.hosts[pe])).into_owned()
    }
}

/// This host's name, for the start record.
pub(crate) fn own_host_name() -> [u8; HOST_NAME_BYTES] {
    let mut name = [0u8; HOST_NAME_BYTES];
    // SAFETY: the buffer has this length. The last byte stays zero, so the name ends there at the latest.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), HOST_NAME_BYTES - 1) };
    name
}

fn name_of(bytes: &[u8; HOST_NAME_BYTES]) -> &[u8] {
    CStr::from_bytes_until_nul(bytes).map_or(&bytes[..], CStr::to_bytes)
}

/// Returns the first PE of the host that follows that of PE `me`, in a ring of all hosts.
fn watched_pe(me: usize, ids: impl Iterator<Item = u64> + Clone) -> Option<usize> {
    let hosts = || ids.clone().map(|id| id >> 32);
    let own = hosts().nth(me)?;
    let next = hosts().filter(|&host| host > own).min().or_else(|| hosts().min())?;
    if next == own { None } else { hosts().position(|host| host == next) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_watches_the_next_one_in_a_ring() {
        let ids = [0u64, 0, 1, 3, 3, 2].map(|host| host << 32 | 9);
        let watched = |me| watched_pe(me, ids.iter().copied());
        assert_eq!([0, 1, 2, 5, 3, 4].map(watched), [Some(2), Some(2), Some(5), Some(3), Some(0), Some(0)]);
        assert_eq!(watched_pe(1, [7u64 << 32, 7 << 32].into_iter()), None, "one host");
    }

    #[test]
    fn a_host_name_is_cut_and_ends() {
        let mut long = [b'a'; HOST_NAME_BYTES];
        assert_eq!(name_of(&long).len(), HOST_NAME_BYTES);
        long[3] = 0;
        assert_eq!(name_of(&long), b"aaa");
        assert!(!name_of(&own_host_name()).is_empty());
    }
}
