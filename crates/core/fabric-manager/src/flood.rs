// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The announcements that a neighbour does not have yet, and those that wait for its acknowledgement.
//!
//! # Invariants
//!
//! 1. A host stands in at most one of the two sets. Sets hold hosts, not announcements: a newer one takes the place of
//!    an older one that was not sent yet.
//! 2. At most [`WINDOW`] announcements wait for acknowledgement, so a whole table does not overrun the receiver.
use crate::announcement::Announced;
use crate::id::{End, HostId};
use crate::table::Table;
use crate::wire::{ACKS_MAX, ANNOUNCED_BYTES, Body, Edition, FRAME_BYTES_MAX, Frame, HEADER_BYTES};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Most announcements without an acknowledgement.
pub(crate) const WINDOW: usize = 256;

#[derive(Clone, Debug, Default)]
pub(crate) struct Flood {
    unsent: BTreeSet<HostId>,
    /// With the time of sending.
    waiting: BTreeMap<HostId, u64>,
    /// No announcement that waits was sent before.
    oldest_ns: Option<u64>,
    acks: Vec<Edition>,
    loads: BTreeSet<HostId>,
    /// The earliest time of the next frames.
    next_ns: u64,
}

impl Flood {
    pub fn clear(&mut self) {
        *self = Flood::default();
    }

    pub fn offer(&mut self, host: HostId) {
        self.waiting.remove(&host);
        self.unsent.insert(host);
    }

    /// As `offer`, unless the same announcement waits for its acknowledgement.
    pub fn answer(&mut self, host: HostId) {
        if !self.waiting.contains_key(&host) {
            self.unsent.insert(host);
        }
    }

    pub fn offer_load(&mut self, host: HostId) {
        self.loads.insert(host);
    }

    /// The neighbour has the host's announcement of the table.
    pub fn settled(&mut self, host: HostId) {
        self.unsent.remove(&host);
        self.waiting.remove(&host);
    }

    pub fn acknowledge(&mut self, edition: Edition) {
        self.acks.push(edition);
    }

    /// The neighbour acknowledges an announcement.
    pub fn acknowledged(&mut self, table: &Table, edition: Edition) {
        let is_ours = table.get(edition.host).is_none_or(|entry| entry.edition <= edition);
        if is_ours {
            self.settled(edition.host);
        }
    }

    /// The neighbour lacks nothing that it has not been sent, and has acknowledged all.
    pub fn is_settled(&self) -> bool {
        self.unsent.is_empty() && self.waiting.is_empty()
    }

    pub fn due_ns(&self, repeat_ns: u64) -> u64 {
        match self.has_news() {
            true => self.next_ns,
            false => self.oldest_ns.map_or(u64::MAX, |sent_ns| sent_ns + repeat_ns),
        }
    }

    fn has_news(&self) -> bool {
        let has_window = self.waiting.len() < WINDOW;
        !self.acks.is_empty() || !self.loads.is_empty() || has_window && !self.unsent.is_empty()
    }

    /// Queues again what was not acknowledged in time; returns the count.
    pub fn repeat(&mut self, now_ns: u64, repeat_ns: u64) -> u64 {
        if self.oldest_ns.is_none_or(|sent_ns| now_ns < sent_ns + repeat_ns) {
            return 0;
        }
        let late: Vec<HostId> =
            self.waiting.iter().filter(|(_, sent_ns)| *sent_ns + repeat_ns <= now_ns).map(|(&host, _)| host).collect();
        late.iter().for_each(|&host| self.offer(host));
        self.oldest_ns = self.waiting.values().min().copied();
        late.len() as u64
    }

    /// Makes the frames that are due now; further ones are due after `gather_ns`.
    pub fn frames(&mut self, now_ns: u64, gather_ns: u64, sender: End, table: &Table) -> Vec<Frame> {
        let mut bodies = Vec::new();
        if now_ns < self.next_ns || !self.has_news() {
            return Vec::new();
        }
        self.next_ns = now_ns + gather_ns;
        if !self.acks.is_empty() {
            let acks = core::mem::take(&mut self.acks);
            bodies.extend(acks.chunks(ACKS_MAX).map(|some| Body::Acknowledgements(some.to_vec())));
        }
        let mut some: Vec<Announced> = Vec::new();
        let mut room = FRAME_BYTES_MAX - HEADER_BYTES;
        while self.waiting.len() < WINDOW {
            let Some(host) = self.unsent.pop_first() else { break };
            let Some(announced) = table.announced(now_ns, host) else { continue };
            let bytes = ANNOUNCED_BYTES + announced.body.len();
            if bytes > room {
                bodies.push(Body::Announcements(core::mem::take(&mut some)));
                room = FRAME_BYTES_MAX - HEADER_BYTES;
            }
            room -= bytes;
            some.push(announced);
            self.waiting.insert(host, now_ns);
            self.oldest_ns.get_or_insert(now_ns);
        }
        if !some.is_empty() {
            bodies.push(Body::Announcements(some));
        }
        let loads = core::mem::take(&mut self.loads);
        let reports = loads.into_iter().filter_map(|host| table.get(host)?.load.as_ref());
        bodies.extend(reports.map(|report| Body::Loads((**report).clone())));
        bodies.into_iter().map(|body| Frame { sender, body }).collect()
    }
}
