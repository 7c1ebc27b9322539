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
    /// The last time at which a neighbour sent it.
    pub heard_ns: u64,
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
                let entry =
                    Entry { edition, body, expires_ns, unreachable_since_ns: None, heard_ns: now_ns, load: None };
                self.entries.insert(edition.host, entry);
            }
            Some(entry) => {
                // A neighbour has it, and will not send it again: the time begins anew.
                entry.heard_ns = now_ns;
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

    /// Notes which hosts can be reached now. Returns those that could not be reached for at least `absent_ns`: others may
    /// have dropped their announcements meanwhile.
    pub fn note_reachable(
        &mut self,
        now_ns: u64,
        absent_ns: u64,
        is_reachable: impl Fn(HostId) -> bool,
    ) -> Vec<HostId> {
        let mut back = Vec::new();
        for (&host, entry) in &mut self.entries {
            match is_reachable(host) {
                true => {
                    let since_ns = entry.unreachable_since_ns.take();
                    back.extend(since_ns.filter(|since_ns| since_ns + absent_ns <= now_ns).map(|_| host));
                }
                false => _ = entry.unreachable_since_ns.get_or_insert(now_ns),
            }
        }
        back
    }

    /// Drops announcements that have ended. The own one has no end here: its host renews it.
    pub fn sweep(&mut self, now_ns: u64, own: HostId, unreachable_ns: u64) -> Vec<HostId> {
        let is_over = |entry: &Entry| {
            let lost = entry
                .unreachable_since_ns
                .is_some_and(|since_ns| since_ns.max(entry.heard_ns) + unreachable_ns <= now_ns);
            entry.edition.host != own && (entry.expires_ns <= now_ns || lost)
        };
        let over: Vec<HostId> = self.entries.values().filter(|entry| is_over(entry)).map(|e| e.edition.host).collect();
        over.iter().for_each(|host| _ = self.entries.remove(host));
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Boot;
    use proptest::prelude::*;

    const LIFETIME_NS: u64 = 1_000_000 * MS;

    fn announced(host: u64, sequence: u64, boot: u64, name: &str) -> Announced {
        let body = Announcement { name: name.into(), ..Announcement::default() }.encode();
        Announced { edition: Edition { host: HostId(host), sequence, boot: Boot(boot) }, lifetime_ms: 1_000, body }
    }

    #[test]
    fn newer_replaces_older_and_renewals_are_no_change() {
        let mut table = Table::new(8);
        let mut accept = |sequence, boot, name| table.accept(0, announced(1, sequence, boot, name), LIFETIME_NS);
        assert_eq!(accept(5, 1, "a"), Verdict::New { changed: true });
        assert_eq!(accept(5, 1, "a"), Verdict::Same);
        assert_eq!(accept(4, 9, "z"), Verdict::Older);
        assert_eq!(accept(6, 1, "a"), Verdict::New { changed: false });
        assert_eq!(accept(7, 1, "b"), Verdict::New { changed: true });
        assert_eq!(accept(7, 2, "b"), Verdict::New { changed: true });
        assert_eq!(accept(7, 1, "b"), Verdict::Older);
        // Two announcements with one edition: the larger bytes win.
        assert_eq!(accept(7, 2, "c"), Verdict::New { changed: true });
        assert_eq!(accept(7, 2, "b"), Verdict::Older);
    }

    #[test]
    fn a_full_table_refuses_new_hosts_and_stays_as_it_was() {
        let mut table = Table::new(2);
        for host in [1, 2] {
            table.accept(0, announced(host, 1, 1, "a"), LIFETIME_NS);
        }
        let before = std::format!("{table:?}");
        assert_eq!(table.accept(0, announced(3, 1, 1, "a"), LIFETIME_NS), Verdict::Full);
        assert_eq!(std::format!("{table:?}"), before);
        assert_eq!(table.accept(0, announced(2, 2, 1, "a"), LIFETIME_NS), Verdict::New { changed: false });
    }

    #[test]
    fn announcements_end_with_their_lifetime_or_when_nobody_reaches_their_host() {
        let mut table = Table::new(8);
        for host in [1, 2, 3] {
            table.accept(0, announced(host, 1, 1, "a"), LIFETIME_NS);
        }
        assert_eq!(table.announced(400 * MS, HostId(2)).unwrap().lifetime_ms, 599);
        assert_eq!(table.announced(999 * MS, HostId(2)), None, "too short to travel");
        assert_eq!(table.note_reachable(0, 50 * MS, |host| host != HostId(3)), []);
        assert_eq!(table.sweep(99 * MS, HostId(1), 100 * MS), []);
        // A neighbour sends it again.
        table.accept(99 * MS, announced(3, 1, 1, "a"), LIFETIME_NS);
        assert_eq!(table.sweep(198 * MS, HostId(1), 100 * MS), []);
        let mut other = table.clone();
        assert_eq!(other.note_reachable(49 * MS, 50 * MS, |_| true), [], "a short absence");
        let mut other = table.clone();
        assert_eq!(other.note_reachable(50 * MS, 50 * MS, |_| true), [HostId(3)]);
        assert_eq!(table.sweep(199 * MS, HostId(1), 100 * MS), [HostId(3)]);
        assert_eq!(table.sweep(1_000 * MS, HostId(1), 100 * MS), [HostId(2)], "the own one stays");
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn loads_are_those_of_the_announced_boot() {
        let mut table = Table::new(8);
        let report = |boot, number| LoadReport { host: HostId(1), boot: Boot(boot), number, ..LoadReport::default() };
        assert!(!table.accept_load(&report(1, 1)), "no announcement");
        table.accept(0, announced(1, 1, 1, "a"), LIFETIME_NS);
        assert!(
            table.accept_load(&report(1, 5)) && !table.accept_load(&report(1, 5)) && !table.accept_load(&report(2, 9))
        );
        table.accept(0, announced(1, 2, 1, "a"), LIFETIME_NS);
        assert!(table.get(HostId(1)).unwrap().load.is_some());
        table.accept(0, announced(1, 3, 2, "a"), LIFETIME_NS);
        assert!(table.get(HostId(1)).unwrap().load.is_none());
        assert!(table.accept_load(&report(2, 1)));
    }

    proptest! {
        #[test]
        fn every_order_gives_the_same_table(
            all in proptest::collection::vec((0u64..3, 0u64..4, 1u64..4, 0usize..3), 0..12), rotation in 0usize..12
        ) {
            let fill = |order: &[(u64, u64, u64, usize)]| {
                let mut table = Table::new(8);
                for &(host, sequence, boot, name) in order {
                    table.accept(0, announced(host, sequence, boot, ["a", "b", "c"][name]), LIFETIME_NS);
                }
                std::format!("{table:?}")
            };
            let mut other = all.clone();
            other.reverse();
            let at = rotation.min(other.len());
            other.rotate_left(at);
            prop_assert_eq!(fill(&all), fill(&other));
        }
    }
}
