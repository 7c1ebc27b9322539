// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The peers of a process, by number, and the peers whose links have something to send.
//!
//! Cost: a peer without a link is some 400 bytes.

use std::collections::HashMap;
use std::ops::{Index, IndexMut};
use std::time::Instant;

use selvedge_host::backend::Loss;

use crate::address::LinkAddress;
use crate::greeting::NO_HOST;
use crate::ids::PeerId;
use crate::outgoing::Outgoing;
use crate::settings::Check;

pub(super) struct Peer {
    pub(super) address: LinkAddress,
    pub(super) nid: u32,
    pub(super) outgoing: Outgoing,
    /// Its end, once it is lost.
    pub(super) loss: Option<Box<Loss>>,
    /// The program waits for it, and wants to know its end.
    pub(super) is_watched: bool,
    /// The last time at which the program asked whether it still answers.
    pub(super) asked_about: Option<Instant>,
    /// It is in the list of [`Peers::mark_busy`].
    is_busy: bool,
}

pub(super) struct Peers {
    peers: Vec<Peer>,
    numbers: HashMap<LinkAddress, PeerId>,
    busy: Vec<PeerId>,
    check: Check,
}

impl Peers {
    pub(super) fn new(check: Check) -> Peers {
        Peers { peers: Vec::new(), numbers: HashMap::new(), busy: Vec::new(), check }
    }

    /// Returns the number of the peer with an address, a new one if the address is new. `nid`: the number of its host,
    /// or [`NO_HOST`].
    pub(super) fn number_of(&mut self, address: LinkAddress, nid: u32) -> PeerId {
        let next = PeerId(self.peers.len() as u32);
        let number = *self.numbers.entry(address).or_insert(next);
        if number == next {
            // Grows by a quarter only, because most processes of a large job never become peers.
            if self.peers.len() == self.peers.capacity() {
                self.peers.reserve_exact(self.peers.len() / 4 + 16);
            }
            self.peers.push(Peer {
                address,
                nid,
                outgoing: Outgoing::new(self.check),
                loss: None,
                is_watched: false,
                asked_about: None,
                is_busy: false,
            });
        }
        if nid != NO_HOST {
            self[number].nid = nid;
        }
        number
    }

    /// Returns the number of a peer's host; None if it gave none, or there is no such peer.
    pub(super) fn nid_of(&self, peer: PeerId) -> Option<u32> {
        self.get(peer).map(|peer| peer.nid).filter(|&nid| nid != NO_HOST)
    }

    pub(super) fn with_address(&self, address: &LinkAddress) -> Option<PeerId> {
        self.numbers.get(address).copied()
    }

    pub(super) fn get(&self, peer: PeerId) -> Option<&Peer> {
        self.peers.get(peer.0 as usize)
    }

    pub(super) fn get_mut(&mut self, peer: PeerId) -> Option<&mut Peer> {
        self.peers.get_mut(peer.0 as usize)
    }

    /// Returns the number of links to peers that have a connection, or make one.
    pub(super) fn in_use(&self) -> usize {
        self.peers.iter().filter(|peer| peer.outgoing.connection.is_in_use()).count()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (PeerId, &mut Peer)> {
        (0..).map(PeerId).zip(&mut self.peers)
    }

    /// Notes that the link to a peer has something to send, or is in its greeting.
    pub(super) fn mark_busy(&mut self, peer: PeerId) {
        let target = &mut self[peer];
        if !target.is_busy {
            target.is_busy = true;
            self.busy.push(peer);
        }
    }

    pub(super) fn has_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Takes the list of busy peers. Each of them is unmarked with [`Peers::unmark_busy`].
    pub(super) fn take_busy(&mut self) -> Vec<PeerId> {
        std::mem::take(&mut self.busy)
    }

    pub(super) fn unmark_busy(&mut self, peer: PeerId) -> &mut Peer {
        let target = &mut self[peer];
        target.is_busy = false;
        target
    }
}

impl Index<PeerId> for Peers {
    type Output = Peer;

    fn index(&self, peer: PeerId) -> &Peer {
        &self.peers[peer.0 as usize]
    }
}

impl IndexMut<PeerId> for Peers {
    fn index_mut(&mut self, peer: PeerId) -> &mut Peer {
        &mut self.peers[peer.0 as usize]
    }
}
