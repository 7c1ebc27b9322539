// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames that arrive, and the sets of announcements that go on to other ports.
//!
//! # Invariants
//!
//! 1. Announcements, acknowledgements and loads are taken only from the neighbour with which the port is up.
//! 2. An announcement is never sent back to the port from which it came, and goes on only if it is newer.
use super::Manager;
use crate::announcement::Announced;
use crate::config::PORTS_MAX;
use crate::event::{Block, Event};
use crate::id::HostId;
use crate::load::LoadReport;
use crate::table::Verdict;
use crate::wire::{Body, Frame, FrameError};
use alloc::vec::Vec;

impl Manager {
    pub(super) fn receive(&mut self, at: usize, bytes: &[u8]) {
        let line = &mut self.lines[at];
        line.port.counters.frames_received += 1;
        let frame = match Frame::decode(bytes) {
            Ok(frame) if frame.sender.port.0 < PORTS_MAX => frame,
            Ok(_) => return self.refuse(at, FrameError::Malformed { part: "sender" }),
            Err(error) => return self.refuse(at, error),
        };
        if let Body::Hello(hello) = frame.body {
            let mut events = Vec::new();
            line.port.hear(self.now_ns, frame.sender, &hello, &self.timing, &mut events);
            events.into_iter().for_each(|event| self.event(event));
            // Before the frames that follow the hello.
            return self.update(at);
        }
        if line.port.up() != Some(frame.sender) {
            line.port.counters.frames_refused += 1;
            return;
        }
        match frame.body {
            Body::Hello(_) => {}
            Body::Announcements(all) => all.into_iter().for_each(|announced| self.take(at, announced)),
            Body::Acknowledgements(all) => {
                all.into_iter().for_each(|edition| self.lines[at].flood.acknowledged(&self.table, edition));
            }
            Body::Loads(report) => self.take_load(at, &report),
        }
    }

    fn refuse(&mut self, at: usize, error: FrameError) {
        let block = match error {
            FrameError::Version { is } => Some(Block::Version { is }),
            _ => None,
        };
        let line = &mut self.lines[at];
        if line.port.refuse(self.now_ns, block, &self.timing) {
            let port = line.port.number();
            self.event(Event::Refused { port, error });
        }
    }

    fn take(&mut self, at: usize, announced: Announced) {
        let edition = announced.edition;
        self.lines[at].flood.acknowledge(edition);
        if edition.host == self.config.host {
            return self.take_own(at, edition);
        }
        if announced.lifetime_ms == 0 {
            return;
        }
        match self.table.accept(self.now_ns, announced, 4 * self.timing.lifetime_ns) {
            Verdict::New { changed } => {
                self.lines[at].flood.settled(edition.host);
                self.offer(edition.host, Some(at));
                if changed {
                    self.stale(false);
                }
            }
            Verdict::Same => self.lines[at].flood.settled(edition.host),
            Verdict::Older => self.lines[at].flood.answer(edition.host),
            Verdict::Full if self.noted_full => {}
            Verdict::Full => {
                self.noted_full = true;
                self.event(Event::TableFull { host: edition.host, limit: self.config.limits.hosts });
            }
        }
    }

    fn take_load(&mut self, at: usize, report: &LoadReport) {
        if report.host != self.config.host && self.table.accept_load(report) {
            self.offer_load(report.host, Some(at));
        }
    }

    /// Queues an announcement of the table at all ports that are up, except one.
    pub(super) fn offer(&mut self, host: HostId, except: Option<usize>) {
        for (at, line) in self.lines.iter_mut().enumerate() {
            if line.up.is_some() && Some(at) != except {
                line.flood.offer(host);
            }
        }
    }

    pub(super) fn offer_load(&mut self, host: HostId, except: Option<usize>) {
        for (at, line) in self.lines.iter_mut().enumerate() {
            if line.up.is_some() && Some(at) != except {
                line.flood.offer_load(host);
            }
        }
    }

    /// Queues the whole table at a port that has come up.
    pub(super) fn offer_table(&mut self, at: usize) {
        let own = self.config.host;
        for host in self.table.hosts().filter(|&host| host != own || self.own.is_claimed) {
            self.lines[at].flood.offer(host);
            if self.table.get(host).is_some_and(|entry| entry.load.is_some()) {
                self.lines[at].flood.offer_load(host);
            }
        }
    }
}
