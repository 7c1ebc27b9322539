// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The NICs that processes of this host have registered. A registration ends with its process's connection.
//!
//! # Invariants
//!
//! 1. A number is never given twice.
//! 2. A process has at most [`NICS_OF_CLIENT_MAX`] registrations, and leases at most [`LEASES_OF_CLIENT_MAX`] routes, so
//!    the number of clients bounds both.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use selvedge_fabric_manager::{Client, Manager};

use crate::control::User;
use crate::protocol::{NicView, Registration};
use crate::views;

const NICS_OF_CLIENT_MAX: usize = 16;
/// PALMS has at most so many channels to hosts in common jobs.
const LEASES_OF_CLIENT_MAX: usize = 1024;

struct Nic {
    client: u64,
    user: User,
    registration: Registration,
}

/// A registered NIC's segment, and its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub path: PathBuf,
    pub user: u32,
}

/// The registered NICs.
#[derive(Default)]
pub struct Registry {
    nics: BTreeMap<u64, Nic>,
    last: u64,
}

impl Registry {
    /// Registers a NIC of a client, and returns its number.
    pub fn register(&mut self, client: u64, user: User, registration: Registration) -> Result<u64, String> {
        let texts = [Some(registration.kind.as_str()), registration.job.as_deref(), registration.segment.to_str()];
        if texts.iter().flatten().any(|text| text.chars().any(char::is_control)) {
            return Err("names of a NIC have no control characters".into());
        }
        if self.nics.values().filter(|nic| nic.client == client).count() >= NICS_OF_CLIENT_MAX {
            return Err(format!("a process registers at most {NICS_OF_CLIENT_MAX} NICs"));
        }
        self.last += 1;
        self.nics.insert(self.last, Nic { client, user, registration });
        Ok(self.last)
    }

    /// Ends the registration of a NIC by its segment.
    pub fn unregister(&mut self, client: u64, segment: &Path) {
        self.nics.retain(|_, nic| nic.client != client || nic.registration.segment != segment);
    }

    /// Ends the registrations of a client that has gone.
    pub fn remove_client(&mut self, client: u64) {
        self.nics.retain(|_, nic| nic.client != client);
    }

    pub fn segment(&self, nic: u64) -> Option<Segment> {
        let nic = self.nics.get(&nic)?;
        Some(Segment { path: nic.registration.segment.clone(), user: nic.user.user })
    }

    /// All NICs, with the leases of their processes.
    pub fn views(&self, manager: &Manager) -> Vec<NicView> {
        let map = manager.map().0;
        let view = |(&id, nic): (&u64, &Nic)| NicView {
            id,
            job: nic.registration.job.clone(),
            rank: nic.registration.rank,
            // The kernel gives no number for a process of another PID namespace.
            process: nic.user.process.unwrap_or(nic.registration.process),
            user: nic.user.user,
            kind: nic.registration.kind.clone(),
            host: manager.config().name.clone(),
            leases: manager
                .leases()
                .filter(|lease| lease.client == Client(nic.client))
                .map(|lease| views::lease(map, lease))
                .collect(),
        };
        self.nics.iter().map(view).collect()
    }
}

/// Whether a client may have one more lease.
pub fn may_lease(manager: &Manager, client: u64) -> Result<(), String> {
    match manager.leases().filter(|lease| lease.client == Client(client)).count() < LEASES_OF_CLIENT_MAX {
        true => Ok(()),
        false => Err(format!("a process has at most {LEASES_OF_CLIENT_MAX} leases: release some")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registration(segment: &str) -> Registration {
        let (kind, job) = ("extoll".into(), Some("job".into()));
        Registration { kind, job, rank: Some(1), process: 7, segment: segment.into() }
    }

    const USER: User = User { user: 5, process: Some(9) };

    #[test]
    fn nics_come_and_go_with_their_clients() {
        let mut registry = Registry::default();
        assert_eq!(registry.register(1, USER, registration("/a")), Ok(1));
        assert_eq!(registry.register(1, USER, registration("/b")), Ok(2));
        assert_eq!(registry.register(2, USER, registration("/a")), Ok(3));
        registry.unregister(1, Path::new("/a"));
        assert_eq!(registry.segment(1), None);
        assert_eq!(registry.segment(2), Some(Segment { path: "/b".into(), user: 5 }));
        registry.remove_client(1);
        assert!(registry.segment(2).is_none() && registry.segment(3).is_some());
        assert_eq!(registry.register(1, USER, registration("/a")), Ok(4));
    }

    #[test]
    fn registrations_are_bounded_and_printable() {
        let mut registry = Registry::default();
        for _ in 0..NICS_OF_CLIENT_MAX {
            registry.register(1, USER, registration("/a")).unwrap();
        }
        assert!(registry.register(1, USER, registration("/a")).is_err());
        let escape = Registration { job: Some("\u{1b}[2J".into()), ..registration("/a") };
        assert!(registry.register(2, USER, escape).is_err());
    }

    #[test]
    fn the_requests_of_processes_are_of_the_protocol() {
        let line = selvedge_job::fabric::register_request("extoll", Some("job"), Some(1), "/a").to_string();
        let expected = Registration { process: std::process::id(), ..registration("/a") };
        let read: crate::protocol::Request = serde_json::from_str(&line).unwrap();
        assert_eq!(read, crate::protocol::Request::Register(expected));
    }
}
