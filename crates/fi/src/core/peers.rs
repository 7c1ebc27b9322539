// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Other processes' NICs: our rings there, what we learned about them, and the names of their endpoints in address
//! vectors.
//!
//! A peer is one process behind an id. If another process takes the same id, that is another peer. A peer keeps its
//! number.

use std::collections::HashMap;

use selvedge_shm::rings::{Rings, Sender};
use selvedge_shm::{Interface, Mode};

use super::{Core, NI};
use crate::address::Address;
use crate::constants::ADDR_ANY;

/// Another process's NIC.
pub struct Peer {
    pub id: u64,
    /// The process, by the word that names it in locks.
    pub owner: u64,
    pub(super) lane: Lane,
    pub(super) trial: Trial,
}

impl Peer {
    /// Our ring there, if there is one.
    pub(super) fn lane(&self) -> Option<&Sender> {
        match &self.lane {
            Lane::Open(lane) if !lane.is_closed() => Some(lane),
            _ => None,
        }
    }

    /// Whether we do not know if there is a ring: we have never asked, or the process has closed that NIC since.
    #[inline(always)]
    pub(super) fn has_to_ask(&self) -> bool {
        match &self.lane {
            Lane::Unknown => true,
            Lane::None => false,
            Lane::Open(lane) => lane.is_closed(),
        }
    }

    /// Claims a ring there, if other messages can bypass it: all of the peer's memory must be directly mapped.
    #[cold]
    pub(super) fn open_lane(&mut self, interface: &Interface) {
        let usable = interface.config.mode == Mode::Nic
            && interface.is_answered_by(self.id, self.owner)
            && interface.reaches_all_of(self.id);
        let lane = usable
            .then(|| Rings::open(&interface.config.directory, self.id, NI, self.owner))
            .flatten()
            .and_then(|lanes| lanes.claim(interface.word(), interface.id()));
        self.lane = match lane {
            Some(lane) => Lane::Open(Box::new(lane)),
            None => Lane::None,
        };
    }
}

/// Whether a peer has a ring for us.
pub(super) enum Lane {
    Unknown,
    None,
    Open(Box<Sender>),
}

/// Whether to try a direct delivery at a peer. After failures in a row, a number of messages are sent without a try.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trial {
    pause: u32,
    left: u32,
}

impl Trial {
    const PAUSE_MAX: u32 = 64;

    pub(super) fn is_due(&mut self) -> bool {
        let due = self.left == 0;
        self.left = self.left.saturating_sub(1);
        due
    }

    pub(super) fn ended(&mut self, found: bool) {
        self.pause = if found { 0 } else { (2 * self.pause).clamp(1, Trial::PAUSE_MAX) };
        self.left = self.pause;
    }
}

impl Core {
    /// The number of a peer.
    pub fn peer(&mut self, id: u64, owner: u64) -> u32 {
        let peers = &mut self.peers;
        let number = *self.peer_numbers.entry((id, owner)).or_insert_with(|| {
            peers.push(Peer { id, owner, lane: Lane::Unknown, trial: Trial::default() });
            peers.len() as u32 - 1
        });
        // A process that is named again may have reopened its NIC, so we ask again.
        if let Lane::None = peers[number as usize].lane {
            peers[number as usize].lane = Lane::Unknown;
        }
        number
    }

    /// Records an address vector's number for an endpoint.
    pub fn name_source(&mut self, address: &Address, number: u64) {
        self.sources.entry(address.source()).or_default().push(number);
    }

    pub fn forget_source(&mut self, address: &Address, number: u64) {
        let source = address.source();
        if let Some(names) = self.sources.get_mut(&source) {
            names.retain(|&other| other != number);
            if names.is_empty() {
                self.sources.remove(&source);
            }
        }
    }

    /// The number that address vectors have for a source.
    pub fn source_name(&self, source: u64) -> u64 {
        name_of(&self.sources, source)
    }
}

/// The first number of a source.
#[inline(never)]
pub(super) fn name_of(sources: &HashMap<u64, Vec<u64>>, source: u64) -> u64 {
    sources.get(&source).and_then(|names| names.first().copied()).unwrap_or(ADDR_ANY)
}
