// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links: whether peers take messages over the units, and the current route of a message. Credits: [`super::credits`].

use std::collections::BTreeMap;

use super::credits::{BOUNCES, Outbound, SLOTS};
use super::port::MessagePort;
use super::wire::{Control, Counts, NUMBERS};
use crate::error::Fault;
use crate::flow::Flows;
use crate::in_flight::InFlight;
use crate::peers::{Link, Peers};

/// The current route of messages to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Units,
    Packets,
    /// Messages under way on one of the two must arrive first.
    Neither,
}

/// The peers to which this process has said hello.
#[derive(Default)]
pub(crate) struct Links {
    numbers: BTreeMap<u64, u32>,
}

impl Links {
    pub fn number_of(&self, id: u64) -> Option<u32> {
        self.numbers.get(&id).copied()
    }

    fn link<'a>(&self, peers: &'a mut Peers, id: u64) -> Option<&'a mut Link> {
        Some(&mut peers.get_mut(self.number_of(id)?)?.link)
    }

    /// Asks a peer for a grant, unless it was asked before.
    #[cold]
    pub fn say_hello(&mut self, port: &mut MessagePort, flight: &mut InFlight, number: u32) {
        let Some(peer) = flight.peers.get_mut(number) else { return };
        let is_own = peer.id == flight.nic.interface.id();
        if peer.ring().is_some() || is_own || !matches!(peer.link, Link::Unasked) {
            return;
        }
        peer.link = Link::Asked;
        self.numbers.insert(peer.id, number);
        port.control(peer.id, Control::Hello);
    }

    /// Opens the link to a peer that has granted room.
    pub fn open(&mut self, flight: &mut InFlight, id: u64, nla: u64) {
        let Some(number) = self.number_of(id) else { return };
        let Some(link @ Link::Asked) = self.link(&mut flight.peers, id) else { return };
        *link = Link::Open(Box::new(Outbound::new(SLOTS, BOUNCES, nla)));
        flight.peers.find_rows(number, &flight.nic.interface);
    }

    /// Records that a peer wants no more messages over the units.
    pub fn withdrawn(&mut self, flight: &mut InFlight, id: u64) {
        if let Some(Link::Open(outbound)) = self.link(&mut flight.peers, id) {
            outbound.is_withdrawn = true;
        }
    }

    /// Handles the report of a peer that has taken messages.
    pub fn take_report(&mut self, flight: &mut InFlight, id: u64, taken: Counts) {
        let InFlight { nic, peers, .. } = flight;
        let Some(Link::Open(outbound)) = self.link(peers, id) else { return };
        if !outbound.report(taken) {
            log::warn!("process {id} reports messages that were not sent to it");
            return;
        }
        while let Some(ticket) = outbound.next_delivered() {
            nic.sent(&ticket);
        }
    }

    /// The current route of messages to a portal table entry of a peer. `None`: any message or request.
    pub fn route_to(
        &mut self,
        port: &mut MessagePort,
        flight: &mut InFlight,
        flows: &mut Flows,
        (number, portal): (u32, Option<u32>),
    ) -> Route {
        let has_refused = portal.is_some_and(|portal| flows.epoch_now(number, portal).is_none());
        let Some(peer) = flight.peers.get_mut(number) else { return Route::Packets };
        let (id, in_flight) = (peer.id, peer.in_flight);
        let Link::Open(outbound) = &mut peer.link else { return Route::Packets };
        let stays = !outbound.is_withdrawn && !outbound.is_named_again;
        if portal.is_some() && in_flight == 0 && !has_refused && stays {
            return Route::Units;
        }
        // Stop here, or the stream of packets would never end.
        if portal.is_some() && outbound.is_fresh() && in_flight != 0 && !has_refused && stays {
            return Route::Neither;
        }
        if !outbound.is_idle() {
            ask_for_report(port, &mut flight.peers, number);
            return Route::Neither;
        }
        let asks_again = outbound.is_named_again && !outbound.is_withdrawn;
        if !stays {
            self.end(flight, id);
        }
        if let (true, Some(peer)) = (asks_again, flight.peers.get_mut(number)) {
            peer.link = Link::Unasked;
            self.say_hello(port, flight, number);
        }
        Route::Packets
    }

    /// Ends the link to a peer. Messages to it travel as packets from now on.
    pub fn end(&mut self, flight: &mut InFlight, id: u64) {
        let Some(number) = self.number_of(id) else { return };
        let Some(peer) = flight.peers.get_mut(number) else { return };
        let link = std::mem::replace(&mut peer.link, Link::Refused);
        flight.peers.find_rows(number, &flight.nic.interface);
        if let Link::Open(outbound) = link {
            for (_, ticket) in outbound.undelivered {
                flight.nic.fail_transmit(&ticket, Fault::PeerGone);
            }
        }
    }
}

/// Asks a peer for a report, unless it has reported everything or a question is under way.
pub(super) fn ask_for_report(port: &mut MessagePort, peers: &mut Peers, number: u32) {
    let Some(peer) = peers.get_mut(number) else { return };
    let Link::Open(outbound) = &mut peer.link else { return };
    if outbound.asks() {
        port.control(peer.id, Control::Ask { number: outbound.number() as u8 & (NUMBERS - 1) });
    }
}
