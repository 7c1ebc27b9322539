// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The announcements that a host has: one of each host, with the last report of its loads.
//!
//! # Invariants
//!
//! 1. A newer announcement replaces an older one, and never the other way round. Newer: the larger sequence number, then
//!    the larger boot, then the larger bytes. All hosts choose the same one, in whatever order they come.
//! 2. The table never has more hosts than its limit. A full one refuses a host that it does not have, and stays as it
//!    was.
//! 3. An announcement ends at the end of its lifetime, or after its host could not be reached for a time in which no
//!    neighbour sent it. A neighbour that has sent it relies on this table to keep it.
use crate::announcement::{Announced, Announcement};
use crate::id::HostId;
use crate::load::LoadReport;
use crate::wire::Edition;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

const MS: u64 = 1_000_000;

/// A host's announcement, as bytes: most of them are only passed on.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub edition: Edition,
    pub body: Box<[u8]>,
    pub expires_ns: u64,
    pub unreachable_since_ns: Option<u64>,
    pub load: Option<Box<LoadReport>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// `changed`: more than the sequence number and the lifetime are new.
    New {
        changed: bool,
    },
    Same,
    Older,
    Full,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    entries: BTreeMap<HostId, Entry>,
    limit: usize,
}

impl Table {
    pub fn new(limit: usize) -> Table {
        Table { entries: BTreeMap::new(), limit }
    }

    pub fn get(&self, host: HostId) -> Option<&Entry> {
        self.entries.get(&host)
    }

    pub fn hosts(&self) -> impl Iterator<Item = HostId> + '_ {
        self.entries.keys().copied()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Stores an announcement if it is newer. `lifetime_ns_max` limits its lifetime.
    pub fn accept(&mut self, now_ns: u64, announced: Announced, lifetime_ns_max: u64) -> Verdict {
        let Announced { edition, lifetime_ms, body } = announced;
        let expires_ns = now_ns + (u64::from(lifetime_ms) * MS).min(lifetime_ns_max);
        let mut changed = true;
        let has_room = self.entries.len() < self.limit;
        match self.entries.get_mut(&edition.host) {
            None if !has_room => return Verdict::Full,
            None => {
                let entry = Entry { edition, body, expires_ns, unreachable_since_ns: None, load: None };
                self.entries.insert(edition.host, entry);
            }
            Some(entry) => {
                // A neighbour has it, and will not send it again: the time begins anew.
                entry.unreachable_since_ns = entry.unreachable_since_ns.map(|_| now_ns);
                match (edition, &body).cmp(&(entry.edition, &entry.body)) {
                    core::cmp::Ordering::Less => return Verdict::Older,
                    core::cmp::Ordering::Equal => return Verdict::Same,
                    core::cmp::Ordering::Greater => {}
                }
                changed = (entry.edition.boot, &entry.body) != (edition.boot, &body);
                let load = entry.load.take().filter(|load| load.boot == edition.boot);
                *entry = Entry { edition, body, expires_ns, load, ..*entry };
            }
        }
        Verdict::New { changed }
    }

    /// Stores a report of loads if it is newer; returns whether it is. Its host must have announced itself.
    pub fn accept_load(&mut self, report: &LoadReport) -> bool {
        let Some(entry) = self.entries.get_mut(&report.host) else { return false };
        let is_newer = entry.load.as_ref().is_none_or(|load| load.number < report.number);
        if entry.edition.boot != report.boot || !is_newer {
            return false;
        }
        entry.load = Some(Box::new(report.clone()));
        true
    }

    /// The announcement of a host, to be sent. None: there is none, or its lifetime ends.
    pub fn announced(&self, now_ns: u64, host: HostId) -> Option<Announced> {
        let entry = self.entries.get(&host)?;
        // At least a millisecond goes with each link, so nothing circulates for ever.
        let left_ms = (entry.expires_ns.saturating_sub(now_ns) / MS).saturating_sub(1).min(u32::MAX.into());
        (left_ms > 0).then(|| Announced {
            edition: entry.edition,
            lifetime_ms: left_ms as u32,
            body: entry.body.clone(),
        })
    }

    /// All announcements, decoded.
    pub fn decoded(&self) -> impl Iterator<Item = (Edition, Announcement)> + '_ {
        self.entries
            .values()
            .filter_map(|entry| Some((entry.edition, Announcement::decode(entry.edition.host, &entry.body)?)))
    }

    /// Notes which hosts can be reached now.
    pub fn note_reachable(&mut self, now_ns: u64, is_reachable: impl Fn(HostId) -> bool) {
        for (&host, entry) in &mut self.entries {
            match is_reachable(host) {
                true => entry.unreachable_since_ns = None,
                false => _ = entry.unreachable_since_ns.get_or_insert(now_ns),
            }
        }
    }

    /// Drops announcements that have ended. The own one has no end here: its host renews it.
    pub fn sweep(&mut self, now_ns: u64, own: HostId, unreachable_ns: u64) -> Vec<HostId> {
        let is_over = |entry: &Entry| {
            let lost = entry.unreachable_since_ns.is_some_and(|since_ns| since_ns + unreachable_ns <= now_ns);
            entry.edition.host != own && (entry.expires_ns <= now_ns || lost)
        };
        let over: Vec<HostId> = self.entries.values().filter(|entry| is_over(entry)).map(|e| e.edition.host).collect();
        over.iter().for_each(|host| _ = self.entries.remove(host));
        over
    }
}
