// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The NICs that processes of this host have registered. A registration ends with its process's connection.
//!
//! # Invariants
//!
//! 1. A number is never given twice.
//! 2. A process has at most [`NICS_OF_CLIENT_MAX`] registrations, whose texts are short, and leases at most
//!    [`LEASES_OF_CLIENT_MAX`] routes, so the number of clients bounds both.
//! 3. The processes of a user who is no operator have at most a quarter of all leases.
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use selvedge_fabric_manager::Manager;
use selvedge_job::fabric::JOB_BYTES_MAX;

use crate::control::User;
use crate::counters::PageOf;
use crate::protocol::{LeaseView, LinksView, NicView, Registration};
use crate::views;

const NICS_OF_CLIENT_MAX: usize = 16;
const KIND_BYTES_MAX: usize = 32;
const SEGMENT_BYTES_MAX: usize = 1024;
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
        let lengths = [
            ("kind of a NIC", registration.kind.len(), KIND_BYTES_MAX),
            ("name of a job", registration.job.as_ref().map_or(0, String::len), JOB_BYTES_MAX),
            ("path of a segment", registration.segment.as_os_str().len(), SEGMENT_BYTES_MAX),
        ];
        if let Some((of, bytes, most)) = lengths.into_iter().find(|(_, bytes, most)| bytes > most) {
            return Err(format!("the {of} has at most {most} bytes, and not {bytes}: give a shorter one"));
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

    /// The pages of link counters, one of each process: in the folder of its first NIC, by the number that the process
    /// has for itself.
    pub fn pages(&self) -> Vec<PageOf> {
        let mut known = BTreeSet::new();
        let first = self.nics.values().filter(|nic| known.insert(nic.client));
        let page = |nic: &Nic| {
            let (process, folder) = (nic.registration.process, nic.registration.segment.parent()?);
            let path = folder.join(format!("{process}.links"));
            Some(PageOf { client: nic.client, user: nic.user.user, process, path })
        };
        first.filter_map(page).collect()
    }

    /// Adds the links of each process to its first NIC. `links`: of a client and its user; it is told whether the folder
    /// of the process has the NIC of a process id and interface.
    pub fn add_links(
        &self,
        views: &mut [NicView],
        mut links: impl FnMut(u64, u32, &dyn Fn(u32, u32) -> bool) -> LinksView,
    ) {
        let open: BTreeSet<&Path> = self.nics.values().map(|nic| nic.registration.segment.as_path()).collect();
        let mut known = BTreeSet::new();
        for view in views {
            let Some(nic) = self.nics.get(&view.id).filter(|nic| known.insert(nic.client)) else { continue };
            let folder = nic.registration.segment.parent();
            let is_open = |pid: u32, ni: u32| {
                folder.is_some_and(|folder| open.contains(folder.join(format!("{pid}.{ni}.nic")).as_path()))
            };
            view.links = Some(links(nic.client, nic.user.user, &is_open));
        }
    }

    /// All NICs. The leases of a process are with its first NIC.
    pub fn views(&self, manager: &Manager) -> Vec<NicView> {
        let map = manager.map().0;
        let mut leases: BTreeMap<u64, Vec<LeaseView>> = BTreeMap::new();
        for lease in manager.leases() {
            leases.entry(lease.client.0).or_default().push(views::lease(map, lease));
        }
        let view = |(&id, nic): (&u64, &Nic)| NicView {
            id,
            job: nic.registration.job.clone(),
            rank: nic.registration.rank,
            // The kernel gives no number for a process of another PID namespace.
            process: nic.user.process.unwrap_or(nic.registration.process),
            user: nic.user.user,
            kind: nic.registration.kind.clone(),
            host: manager.config().name.clone(),
            leases: leases.remove(&nic.client).unwrap_or_default(),
            links: None,
        };
        self.nics.iter().map(view).collect()
    }
}

/// Whether a client may have one more lease. `clients`: of each lease. `limit`: of all leases. `shares`: whether a client
/// is of the same user; None for an operator.
pub fn may_lease(
    clients: impl Iterator<Item = u64>,
    limit: usize,
    client: u64,
    shares: Option<impl Fn(u64) -> bool>,
) -> Result<(), String> {
    let (mut own, mut of_user) = (0, 0);
    for of in clients {
        own += usize::from(of == client);
        of_user += usize::from(shares.as_ref().is_some_and(|shares| shares(of)));
    }
    if own >= LEASES_OF_CLIENT_MAX {
        return Err(format!("a process has at most {LEASES_OF_CLIENT_MAX} leases: release some"));
    }
    if of_user >= limit / 4 {
        return Err(format!("the processes of a user have at most {} leases: release some", limit / 4));
    }
    Ok(())
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
    fn a_process_has_one_page_of_counters() {
        let mut registry = Registry::default();
        for (client, segment) in [(1, "/job/3.0.nic"), (1, "/job/3.1.nic"), (2, "/job/4.0.nic")] {
            registry.register(client, USER, registration(segment)).unwrap();
        }
        let page = |client| PageOf { client, user: 5, process: 7, path: "/job/7.links".into() };
        assert_eq!(registry.pages(), [page(1), page(2)]);
        let view = |id| NicView { id, ..NicView::default() };
        let mut views = vec![view(1), view(2), view(3)];
        let mut asked = Vec::new();
        registry.add_links(&mut views, |client, user, is_open| {
            asked.push((client, user));
            assert!(is_open(4, 0) && is_open(3, 1) && !is_open(4, 1));
            LinksView::unseen("")
        });
        assert_eq!(asked, [(1, 5), (2, 5)]);
        assert_eq!(views.iter().map(|view| view.links.is_some()).collect::<Vec<_>>(), [true, false, true]);
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
        let of = |kind: usize, job: usize, segment: usize| {
            let [kind, job, segment] = [kind, job, segment].map(|bytes| "x".repeat(bytes));
            Registration { kind, job: Some(job), ..registration(&segment) }
        };
        registry.register(2, USER, of(32, 128, 1024)).unwrap();
        for (kind, job, segment) in [(33, 1, 1), (1, 129, 1), (1, 1, 1025)] {
            let refused = registry.register(2, USER, of(kind, job, segment)).unwrap_err();
            assert!(refused.contains("give a shorter one"), "{refused}");
        }
    }

    #[test]
    fn a_user_who_is_no_operator_has_a_quarter_of_the_leases() {
        // Clients 1 to 3 are of one user, and 4 of another.
        let leases = |count: u64| (0..count).map(|at| 1 + at % 3);
        let shares = |of: u64| of <= 3;
        may_lease(leases(24), 100, 1, Some(shares)).unwrap();
        assert!(may_lease(leases(25), 100, 1, Some(shares)).unwrap_err().contains("at most 25"));
        may_lease(leases(25), 100, 4, Some(|of| of == 4)).unwrap();
        may_lease(leases(99), 100, 1, None::<fn(u64) -> bool>).unwrap();
        let of_process = std::iter::repeat_n(1, LEASES_OF_CLIENT_MAX);
        assert!(may_lease(of_process, 1 << 20, 1, None::<fn(u64) -> bool>).unwrap_err().contains("a process"));
    }

    #[test]
    fn the_requests_of_processes_are_of_the_protocol() {
        let line = selvedge_job::fabric::register_request("extoll", Some("job"), Some(1), "/a").to_string();
        let expected = Registration { process: std::process::id(), ..registration("/a") };
        let read: crate::protocol::Request = serde_json::from_str(&line).unwrap();
        assert_eq!(read, crate::protocol::Request::Register(expected));
    }
}
