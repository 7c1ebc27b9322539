// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host's own announcement: when it is made, and what happens to others of the same number.
//!
//! # Invariants
//!
//! 1. Nothing is announced before the first table had time to arrive, because an older announcement of this host may
//!    stand in it.
//! 2. An announcement of this number and an earlier boot is overbid. One of another live host, to which reachable hosts
//!    announce links, is not, if that host has the smaller boot: this host then stays out of the fabric.
use super::Manager;
use crate::announcement::{Announced, Announcement, DRAINED, LinkEnd};
use crate::config::{Config, Timing};
use crate::event::Event;
use crate::id::Boot;
use crate::port::LinkPort;
use crate::wire::{Edition, SEQUENCE_MAX};
use alloc::boxed::Box;

/// The state of the own announcement.
#[derive(Clone, Debug, Default)]
pub(super) struct Own {
    pub sequence: u64,
    pub reports: u64,
    /// Whether this host announces itself.
    pub is_claimed: bool,
    claim_at_ns: Option<u64>,
    /// The body of the last announcement.
    body: Box<[u8]>,
    /// The links may have changed since the last announcement.
    pub is_stale: bool,
    /// Another announcement has to be overbid.
    is_overbid: bool,
    next_ns: u64,
    renew_ns: u64,
    rival: Option<Rival>,
    noted_rival: Option<Boot>,
}

/// An announcement of the own number that this manager did not make.
#[derive(Clone, Copy, Debug)]
struct Rival {
    boot: Boot,
    sequence: u64,
    since_ns: u64,
}

impl Own {
    /// A link has come up: the first one sets the time of the first announcement.
    pub fn first_link(&mut self, now_ns: u64, timing: &Timing) {
        self.claim_at_ns.get_or_insert(now_ns + timing.claim_ns);
    }
}

/// The announcement that follows from the ports that are up.
pub(super) fn announcement<'a>(config: &Config, ports: impl Iterator<Item = &'a LinkPort>) -> Announcement {
    let link = |port: &LinkPort| {
        let neighbour = port.up()?;
        Some(LinkEnd {
            port: port.number(),
            neighbour: neighbour.host,
            check: neighbour.boot.check(),
            neighbour_port: neighbour.port,
            cost: if port.is_drained() { DRAINED } else { 1 },
            mtu: port.mtu().unwrap_or(0).min(u16::MAX.into()) as u16,
        })
    };
    Announcement {
        name: config.name.clone(),
        address: config.address,
        position: config.position,
        links: ports.filter_map(link).collect(),
    }
}

impl Manager {
    /// Puts a first announcement into the table, which keeps its place there; it is not sent.
    pub(super) fn prepare_own(&mut self) {
        self.own.body = self.announcement().encode();
        self.store_own();
    }

    /// The own announcement is made, and everyone has it.
    pub(super) fn rest_own(&mut self) {
        self.own.body = self.announcement().encode();
        (self.own.sequence, self.own.is_claimed) = (1, true);
        self.own.claim_at_ns = Some(self.now_ns);
        self.own.renew_ns = self.now_ns + self.timing.lifetime_ns / 3;
        self.store_own();
    }

    fn store_own(&mut self) {
        let edition = Edition { host: self.config.host, boot: self.config.boot, sequence: self.own.sequence };
        let lifetime_ms = (self.timing.lifetime_ns / 1_000_000).clamp(1, u32::MAX.into()) as u32;
        let announced = Announced { edition, lifetime_ms, body: self.own.body.clone() };
        self.table.accept(self.now_ns, announced, u64::MAX / 4);
    }

    pub(super) fn own_due_ns(&self) -> u64 {
        let own = &self.own;
        if !own.is_claimed {
            return own.claim_at_ns.filter(|_| own.rival.is_none()).unwrap_or(u64::MAX);
        }
        if own.sequence >= SEQUENCE_MAX {
            return u64::MAX;
        }
        match own.is_overbid || own.is_stale {
            true => own.next_ns,
            false => own.renew_ns,
        }
    }

    /// Announces the own links if they have changed, or the announcement must be renewed.
    pub(super) fn announce(&mut self) {
        let now_ns = self.now_ns;
        if !self.own.is_claimed {
            let is_due = self.own.claim_at_ns.is_some_and(|at_ns| at_ns <= now_ns);
            if !is_due || self.own.rival.is_some() {
                return;
            }
            self.own.is_claimed = true;
            self.own.is_overbid = true;
        }
        if now_ns < self.own.next_ns || self.own.sequence >= SEQUENCE_MAX {
            return;
        }
        if !self.own.is_stale && !self.own.is_overbid && now_ns < self.own.renew_ns {
            return;
        }
        self.own.is_stale = false;
        let body = self.announcement().encode();
        if self.own.is_overbid || now_ns >= self.own.renew_ns || body != self.own.body {
            self.own.body = body;
            self.own.sequence += 1;
            self.own.is_overbid = false;
            self.own.next_ns = now_ns + self.timing.announce_ns;
            self.own.renew_ns = now_ns + self.timing.lifetime_ns / 3;
            self.store_own();
            self.offer(self.config.host, None);
        }
    }

    /// An announcement of the own number has arrived.
    pub(super) fn take_own(&mut self, at: usize, edition: Edition) {
        let ours = Edition { host: self.config.host, boot: self.config.boot, sequence: self.own.sequence };
        if edition == ours && self.own.is_claimed {
            return self.lines[at].flood.settled(edition.host);
        }
        if edition <= ours {
            if self.own.is_claimed {
                self.lines[at].flood.answer(edition.host);
            }
            return;
        }
        let since_ns = match self.own.rival {
            Some(rival) if rival.boot == edition.boot => rival.since_ns,
            _ => self.now_ns,
        };
        self.own.rival = Some(Rival { boot: edition.boot, sequence: edition.sequence, since_ns });
        self.stale(false);
    }

    /// Decides about an announcement of the own number, with the new map.
    pub(super) fn settle_rival(&mut self) {
        let Some(rival) = self.own.rival else { return };
        let is_live = rival.boot != self.config.boot && self.map.is_claimed(rival.boot);
        let yields = is_live && rival.boot < self.config.boot;
        let lasts = self.now_ns - rival.since_ns > self.timing.silence_ns + 10 * self.timing.hello_ns;
        if is_live && lasts && self.own.noted_rival != Some(rival.boot) {
            self.own.noted_rival = Some(rival.boot);
            self.event(Event::SameHost { boot: rival.boot, yields });
        }
        if yields {
            if core::mem::replace(&mut self.own.is_claimed, false) {
                self.lines.iter_mut().for_each(|line| line.flood.settled(self.config.host));
            }
            return;
        }
        if (self.own.sequence, self.config.boot) < (rival.sequence, rival.boot) {
            self.own.sequence = rival.sequence;
            self.own.is_overbid = true;
        }
        if is_live {
            // Two hosts that overbid each other do so slowly.
            self.own.next_ns = self.own.next_ns.max(self.now_ns + self.timing.silence_ns);
            if !lasts {
                return;
            }
        }
        self.own.rival = None;
    }

    pub(super) fn has_rival(&self) -> bool {
        self.own.rival.is_some()
    }
}
