// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Other processes' NICs: our rings there, protocols, and the names of their endpoints in address vectors.
//!
//! A peer is one process with an id. If another process takes the same id, it is another peer. A peer keeps its number.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{Ordering::Acquire, fence};

use selvedge_host::Interface;
use selvedge_host::backoff::Backoff;
use selvedge_host::rings::{Rings, Sender};

use crate::flags::ADDR_ANY;
use crate::protocols::{Limits, Protocols};
use crate::ticket::Ticket;
use crate::units::credits::Outbound;

/// Another process's NIC.
pub struct Peer {
    pub id: u64,
    /// The process, by the word that names it in locks.
    pub owner: u64,
    pub(crate) protocols: Protocols,
    pub(crate) ring: PeerRing,
    /// Sends that end when their messages are dequeued from our ring, in the ring's order.
    pub(crate) undelivered: VecDeque<Undelivered>,
    /// Backoff of deliveries into posted receives in mapped memory.
    pub(crate) in_place: Backoff,
    /// Packets to it that have not been answered.
    pub(crate) in_flight: u32,
    /// The number of unfinished accesses over the units that it has refused, in whole or in part.
    pub(crate) refused: u32,
    /// Whether it takes messages over VELO and RMA.
    pub(crate) link: Link,
}

impl Peer {
    /// Our ring there, if any.
    pub(crate) fn ring(&self) -> Option<&Sender> {
        match &self.ring {
            PeerRing::Open(ring) if !ring.is_closed() => Some(ring),
            _ => None,
        }
    }

    /// The number of the first message in our ring there that has not been dequeued, and whether it never will be,
    /// because the peer is `lost` or has closed its rings.
    pub(crate) fn dequeued(&self, lost: bool) -> (u64, bool) {
        let PeerRing::Open(ring) = &self.ring else { return (0, true) };
        let is_closed = ring.is_closed();
        // The owner closes its rings after the last message that it dequeues, so the cursor is loaded afterwards. Pairs
        // with the store of the routing word.
        fence(Acquire);
        (ring.dequeued(), lost || is_closed)
    }

    /// Whether the ring must be looked up: it never was, or the process has closed that NIC since.
    #[inline(always)]
    pub(crate) fn has_to_meet(&self) -> bool {
        match &self.ring {
            PeerRing::Unknown => true,
            PeerRing::None => false,
            PeerRing::Open(ring) => ring.is_closed(),
        }
    }

    /// Meets the peer: claims a ring there, if the home allows it, and fixes the protocols.
    fn meet(&mut self, interface: &Interface, limits: &Limits) {
        // A message to this process itself comes before messages that others send later. Events and rings together keep
        // that order only if the message is in its ring at once.
        let is_late = self.id == interface.id() && !interface.publishes_here();
        let usable = !is_late && interface.is_answered_by(self.id, self.owner) && interface.reaches_rings(self.id);
        let open = || {
            let rings = Rings::open(&interface.config.directory, self.id, interface.number(), self.owner);
            rings.inspect_err(|shortage| log::warn!("messages to process {} take a slower way: {shortage}", self.id))
        };
        let ring =
            usable.then(|| open().ok().flatten()).flatten().and_then(|rings| interface.claim_ring(rings, self.id));
        self.ring = match ring {
            Some(ring) => PeerRing::Open(Box::new(ring)),
            None => PeerRing::None,
        };
        self.find_rows(interface, limits);
    }

    fn find_rows(&mut self, interface: &Interface, limits: &Limits) {
        let has_ring = matches!(self.ring, PeerRing::Open(_));
        self.protocols = match self.link {
            Link::Open(_) => Protocols::over_units(limits),
            _ if interface.is_remote(self.id) => Protocols::elsewhere(limits),
            _ => Protocols::new(limits, has_ring, interface.publishes_here()),
        };
    }
}

/// A send that ends when its message is dequeued from our ring.
pub(crate) struct Undelivered {
    /// The number of the message in the ring.
    pub number: u64,
    pub ticket: Ticket,
}

/// Whether a peer takes messages over VELO and RMA.
pub(crate) enum Link {
    Unasked,
    /// It was asked, and has not answered. Meanwhile it gets packets.
    Asked,
    Open(Box<Outbound>),
    /// It takes packets only.
    Refused,
}

/// Whether a peer has a ring for us.
pub(crate) enum PeerRing {
    Unknown,
    None,
    Open(Box<Sender>),
}

pub(crate) struct Peers {
    list: Vec<Peer>,
    /// By id and owner.
    numbers: HashMap<(u64, u64), u32>,
    /// The address vectors' numbers of each source, in order of insertion.
    sources: HashMap<u64, Vec<u64>>,
    limits: Limits,
    /// The bit of the ring from this process to itself; 0 if there is no ring.
    pub own_ring: u64,
}

impl Peers {
    pub fn new(limits: Limits) -> Peers {
        Peers { list: Vec::new(), numbers: HashMap::new(), sources: HashMap::new(), limits, own_ring: 0 }
    }

    /// Returns the number of a peer, which is new if needed.
    pub fn number(&mut self, id: u64, owner: u64) -> u32 {
        let (list, limits) = (&mut self.list, &self.limits);
        let number = *self.numbers.entry((id, owner)).or_insert_with(|| {
            let protocols = Protocols::new(limits, false, true);
            list.push(Peer {
                id,
                owner,
                protocols,
                ring: PeerRing::Unknown,
                undelivered: VecDeque::new(),
                in_place: Backoff::default(),
                in_flight: 0,
                refused: 0,
                link: Link::Unasked,
            });
            list.len() as u32 - 1
        });
        // A process that is named again may have reopened its NIC, so the ring is looked up again.
        let peer = &mut list[number as usize];
        if let PeerRing::None = peer.ring {
            peer.ring = PeerRing::Unknown;
        }
        match &mut peer.link {
            Link::Refused => peer.link = Link::Unasked,
            Link::Open(outbound) => outbound.is_named_again = true,
            Link::Unasked | Link::Asked => {}
        }
        number
    }

    #[inline(always)]
    pub fn get(&self, number: u32) -> Option<&Peer> {
        self.list.get(number as usize)
    }

    #[inline(always)]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Peer> {
        self.list.get_mut(number as usize)
    }

    /// The credits at a peer that takes messages over VELO and RMA.
    pub fn outbound(&mut self, number: u32) -> Option<&mut Outbound> {
        match self.get_mut(number).map(|peer| &mut peer.link) {
            Some(Link::Open(outbound)) => Some(outbound),
            _ => None,
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.list.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.list.iter_mut()
    }

    /// Fixes the protocols of a peer anew, because whether it takes messages over the units has changed.
    #[cold]
    pub fn find_rows(&mut self, number: u32, interface: &Interface) {
        if let Some(peer) = self.list.get_mut(number as usize) {
            peer.find_rows(interface, &self.limits);
        }
    }

    /// Longest message in a ring, in bytes.
    pub fn ring_max(&self) -> usize {
        self.limits.ring_max
    }

    /// Meets a peer: claims a ring there, and fixes the protocols.
    #[cold]
    pub fn meet(&mut self, number: u32, interface: &Interface) {
        if let Some(peer) = self.list.get_mut(number as usize) {
            peer.meet(interface, &self.limits);
            if let Some(ring) = peer.ring().filter(|_| peer.id == interface.id()) {
                self.own_ring = 1 << ring.index();
            }
        }
    }

    /// Whether a peer has refused accesses that have not ended, and the endpoint keeps accesses in order.
    pub fn has_refused(&self, number: u32, ticket: &Ticket) -> bool {
        let any = self.get(number).is_some_and(|peer| peer.refused != 0);
        // SAFETY: a ticket names an open endpoint: operations and notifications are removed with their endpoint.
        any && unsafe { (*ticket.bindings).orders.accesses }
    }

    /// Records that a packet has left for a peer.
    pub fn packet_left(&mut self, number: u32) {
        if let Some(peer) = self.get_mut(number) {
            peer.in_flight += 1;
        }
    }

    /// Records that a peer has answered a packet.
    pub fn packet_answered(&mut self, number: u32) {
        if let Some(peer) = self.get_mut(number) {
            peer.in_flight = peer.in_flight.saturating_sub(1);
        }
    }

    /// Records an address vector's number for a source.
    pub fn name_source(&mut self, source: u64, number: u64) {
        self.sources.entry(source).or_default().push(number);
    }

    pub fn forget_source(&mut self, source: u64, number: u64) {
        if let Some(names) = self.sources.get_mut(&source) {
            names.retain(|&other| other != number);
            if names.is_empty() {
                self.sources.remove(&source);
            }
        }
    }

    /// The first number that address vectors have for a source.
    #[inline(never)]
    pub fn source_name(&self, source: u64) -> u64 {
        self.sources.get(&source).and_then(|names| names.first().copied()).unwrap_or(ADDR_ANY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers() -> Peers {
        Peers::new(Limits { ring_max: 16 << 10, small_max: 2 << 10, tiny_max: 56, velo_max: 512, bounce_max: 4 << 10 })
    }

    #[test]
    fn a_process_keeps_its_number_and_another_process_gets_another() {
        let mut peers = peers();
        let first = peers.number(5, 100);
        let second = peers.number(5, 200);
        assert_ne!(first, second, "another process has the id");
        assert_eq!((peers.number(5, 100), peers.number(5, 200)), (first, second));
        assert!(peers.get(first).is_some_and(|peer| peer.has_to_meet() && peer.ring().is_none()));
        assert!(peers.get(99).is_none());
    }

    #[test]
    fn a_peer_without_a_ring_is_asked_again_when_it_is_named_again() {
        let mut peers = peers();
        let number = peers.number(5, 100);
        peers.get_mut(number).expect("known").ring = PeerRing::None;
        assert!(!peers.get(number).expect("known").has_to_meet());
        peers.number(5, 100);
        assert!(peers.get(number).expect("known").has_to_meet());
    }

    #[test]
    fn a_source_has_the_first_of_its_names() {
        let mut peers = peers();
        assert_eq!(peers.source_name(7), ADDR_ANY);
        peers.name_source(7, 1);
        peers.name_source(7, 2);
        assert_eq!(peers.source_name(7), 1);
        peers.forget_source(7, 1);
        assert_eq!(peers.source_name(7), 2);
        peers.forget_source(7, 2);
        peers.forget_source(8, 2);
        assert_eq!(peers.source_name(7), ADDR_ANY);
    }

    #[test]
    fn direct_deliveries_are_tried_less_often_while_they_fail() {
        let mut backoff = Backoff::default();
        let mut tries = 0;
        for _ in 0..1000 {
            if backoff.is_due() {
                tries += 1;
                backoff.ended(false);
            }
        }
        assert!((10..40).contains(&tries), "{tries}");
        while !backoff.is_due() {}
        backoff.ended(true);
        assert!(backoff.is_due() && backoff.is_due(), "after a success each message tries");
    }

    #[test]
    fn packets_in_flight_are_counted_for_each_peer() {
        let mut peers = peers();
        let number = peers.number(1, 1);
        peers.packet_left(number);
        peers.packet_left(number);
        peers.packet_answered(number);
        assert_eq!(peers.get(number).expect("known").in_flight, 1);
        peers.packet_answered(number);
        peers.packet_answered(number);
        assert_eq!(peers.get(number).expect("known").in_flight, 0);
    }
}
