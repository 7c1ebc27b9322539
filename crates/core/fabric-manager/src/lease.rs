// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Leases: routes handed to clients, and withdrawn when the map changes (seed 002, section 2.3, "Routing service").
//!
//! # Invariants
//!
//! 1. A lease's path is that of its pair on the current map. One that no longer is has been withdrawn.
//! 2. A number is never given twice.
//! 3. There are at most as many leases as the limit says.
use crate::id::HostId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use selvedge_fabric::Path;

/// A client of the manager, as its caller numbers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client(pub u64);

/// The number of a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

/// A route handed to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub id: LeaseId,
    pub client: Client,
    pub to: HostId,
    pub address: Option<IpAddr>,
    /// Number of the map from which the route was made: it grows with each change.
    pub generation: u64,
    /// A port for each link on the way.
    pub path: Path,
}

/// Reasons for which a lease is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    #[error("{host} cannot be reached: wait until it is in the fabric, or check its links")]
    Unreachable { host: HostId },
    #[error("{host} is this host: its messages do not enter the fabric")]
    Own { host: HostId },
    #[error("all {limit} leases are in use: release some, or raise the limit of leases")]
    Full { limit: u32 },
    #[error("no routes can be made free of deadlock")]
    NoRoutes,
}

/// Causes of a withdrawal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// The host is gone, or no path leads to it.
    Unreachable,
    /// The path has changed: the client asks for the new one.
    Rerouted,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Leases {
    leases: BTreeMap<LeaseId, Lease>,
    last: u64,
    limit: u32,
}

impl Leases {
    pub fn new(limit: u32) -> Leases {
        Leases { leases: BTreeMap::new(), last: 0, limit }
    }

    pub fn is_full(&self) -> Option<LeaseError> {
        (self.leases.len() >= self.limit as usize).then_some(LeaseError::Full { limit: self.limit })
    }

    pub fn add(&mut self, lease: Lease) -> Result<Lease, LeaseError> {
        if let Some(full) = self.is_full() {
            return Err(full);
        }
        self.last += 1;
        let lease = Lease { id: LeaseId(self.last), ..lease };
        self.leases.insert(lease.id, lease.clone());
        Ok(lease)
    }

    pub fn release(&mut self, id: LeaseId) -> bool {
        self.leases.remove(&id).is_some()
    }

    pub fn release_client(&mut self, client: Client) {
        self.leases.retain(|_, lease| lease.client != client);
    }

    pub fn iter(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values()
    }

    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// Removes the leases whose path is not `path_now(to)`, and returns them with the cause.
    pub fn withdraw(&mut self, path_now: impl Fn(HostId) -> Option<Path>) -> Vec<(Lease, Withdrawal)> {
        let mut paths: BTreeMap<HostId, Option<Path>> = BTreeMap::new();
        let mut withdrawn = Vec::new();
        self.leases.retain(|_, lease| {
            let now = paths.entry(lease.to).or_insert_with(|| path_now(lease.to));
            let cause = match now {
                None => Withdrawal::Unreachable,
                Some(path) if *path != lease.path => Withdrawal::Rerouted,
                Some(_) => return true,
            };
            withdrawn.push((lease.clone(), cause));
            false
        });
        withdrawn
    }
}
