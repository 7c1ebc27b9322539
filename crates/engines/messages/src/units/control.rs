// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages and notifications at the port for messages: control, reports of taken messages, and the end of a peer.

use std::collections::BTreeSet;

use selvedge_host::Interface;
use selvedge_nic::portals::fail;
use selvedge_nic::rma::{Notification, code, spec};

use super::Units;
use super::credits::{BOUNCES, SLOTS};
use super::links::{Route, ask_for_report};
use super::wire::{Control, Report, mtt};
use crate::bindings::Orders;
use crate::error::Fault;
use crate::flow::Flows;
use crate::in_flight::InFlight;
use crate::peers::{Link, Peer, Peers};

/// A fetch whose gets have ended: its number, and the reply.
pub(crate) type GetsEnded = (usize, u8);

impl Units {
    /// Empties the mailbox.
    pub fn take_mail(&mut self, flight: &mut InFlight) -> bool {
        let mut any = false;
        while let Some(message) = self.port.next_message() {
            any = true;
            let id = u64::from(message.label.source().node);
            if message.label.mtt() != mtt::CONTROL {
                self.grants.keep_or_refuse(&mut self.port, id, &message);
                continue;
            }
            match Control::decode(message.payload()) {
                Some(Control::Ask { number }) => self.grants.keep_question(&mut self.port, id, number),
                Some(control) => self.take_control(flight, id, control),
                None => self.grants.cut_off(id),
            }
        }
        any
    }

    fn take_control(&mut self, flight: &mut InFlight, id: u64, control: Control) {
        let Units { port, links, grants, one_sided, .. } = self;
        match control {
            Control::Hello => {
                let answer = grants.grant(port, id);
                port.control(id, answer);
            }
            Control::Open { slots: SLOTS, bounces: BOUNCES, nla } => links.open(flight, id, nla),
            Control::Open { .. } | Control::Refused => links.end(flight, id),
            Control::Ask { .. } => {}
            Control::Withdrawn => links.withdrawn(flight, id),
            Control::Closed => self.lose_peer(flight, id),
            Control::Forget { round } => one_sided.forget(id, round),
            Control::Forgotten { round } => one_sided.is_forgotten_by(id, round),
        }
    }

    /// Handles a notification. Returns a fetch that ended with it.
    pub fn take_notification(&mut self, flight: &mut InFlight, notification: &Notification) -> Option<GetsEnded> {
        let Notification { word0, size, node, unit, code, error, .. } = *notification;
        let id = u64::from(node);
        match (code, unit) {
            // A command of ours was refused: its target has closed its NIC or has died.
            (code::NOTIFICATION_PUT, _) if error != 0 => self.lose_peer(flight, id),
            (code::BT_PUT, _) if error != 0 => {
                self.port.give_staging(word0);
                self.lose_peer(flight, id);
            }
            (code::BT_GET, _) if error != 0 => return self.gets_ended(flight, (id, word0), fail::UNDELIVERABLE),
            (code::NOTIFICATION_PUT, _) => match Report::decode(word0, size as u8) {
                Some(Report::Taken(taken)) => self.links.take_report(flight, id, taken),
                Some(Report::Released { token }) => released(flight, id, token),
                None => log::warn!("process {id} sent an invalid report"),
            },
            (code::BT_PUT, spec::COMPLETER) => {
                let slot_bytes = self.port.slot_bytes;
                if self.grants.keep_put(slot_bytes, id, (word0, size as usize + 1)).is_err() {
                    self.grants.cut_off(id);
                }
            }
            (code::BT_PUT, _) => {
                self.port.give_staging(word0);
            }
            (code::GET_BT_RSP, _) => return self.gets_ended(flight, (id, word0), fail::OK),
            (code::BT_GET, spec::RESPONDER) => source_was_read(flight, id, word0),
            _ => log::warn!("a notification from process {id} belongs to no command of this library"),
        }
        None
    }

    fn gets_ended(&self, flight: &mut InFlight, memory: (u64, u64), failed: u8) -> Option<GetsEnded> {
        let number = self.port.gets_ended(flight, memory, failed)?;
        Some((number, failed))
    }

    // ---- routes and their order ----

    /// Asks a peer for a grant, unless it was asked before.
    #[cold]
    pub fn say_hello(&mut self, flight: &mut InFlight, number: u32) {
        self.links.say_hello(&mut self.port, flight, number);
    }

    /// The current route of messages to a portal table entry of a peer. `None`: any message or request.
    pub fn route_to(
        &mut self,
        flight: &mut InFlight,
        flows: &mut Flows,
        (number, portal): (u32, Option<u32>),
    ) -> Route {
        self.links.route_to(&mut self.port, flight, flows, (number, portal))
    }

    /// Whether an access may go to a peer over the units now.
    pub(super) fn admits_access(&mut self, peers: &mut Peers, number: u32, orders: Orders) -> bool {
        let Some(peer) = peers.get(number) else { return false };
        if orders != Orders::NONE && peer.in_flight != 0 {
            return false;
        }
        let waits = orders.messages && matches!(&peer.link, Link::Open(outbound) if !outbound.is_idle());
        if waits {
            ask_for_report(&mut self.port, peers, number);
        }
        !waits
    }

    // ---- regions ----

    /// Asks peers to forget the network logical addresses of closed regions, if there are enough of them.
    pub fn reuse_addresses(&mut self) {
        let (holders, round) = self.one_sided.begin_round();
        for id in holders {
            self.port.control(id, Control::Forget { round });
        }
    }

    // ---- ends ----

    /// Handles the loss of a peer: it has closed its NIC or has died, or an earlier NIC with its id was closed.
    fn lose_peer(&mut self, flight: &mut InFlight, id: u64) {
        // Messages that it has sent stay queued.
        self.links.end(flight, id);
        if let Some(round) = self.one_sided.is_closed_by(id) {
            self.port.control(id, Control::Forget { round });
        }
        let sends = flight.operations.sends_over_units().filter(|(_, outgoing)| outgoing.target.0 == id);
        let lost: Vec<usize> = sends.map(|(number, _)| number).collect();
        for number in lost {
            flight.end_send(number, Err(Fault::PeerGone));
        }
    }

    /// Checks that peers are alive that have untaken messages or an unfetched payload.
    #[cold]
    pub fn look_after_peers(&mut self, flight: &mut InFlight) {
        let interface = &flight.nic.interface;
        let is_dead = |interface: &Interface, peer: &Peer| !interface.check_alive(peer.id, peer.owner);
        let waits = |peer: &Peer| matches!(&peer.link, Link::Open(outbound) if !outbound.is_idle());
        let waiting = flight.peers.iter().filter(|peer| waits(peer) && is_dead(interface, peer));
        let mut lost: Vec<u64> = waiting.map(|peer| peer.id).collect();
        let mut targets: Vec<(u64, u64)> =
            flight.operations.sends_over_units().map(|(_, outgoing)| outgoing.target).collect();
        targets.dedup();
        lost.extend(targets.into_iter().filter(|to| !interface.check_alive(to.0, to.1)).map(|to| to.0));
        for id in lost {
            self.lose_peer(flight, id);
        }
        self.one_sided.probe_holders();
    }

    /// Makes peers send packets from now on, so that the NIC matches them without this program.
    pub fn withdraw(&mut self) {
        for id in self.grants.withdraw() {
            self.port.control(id, Control::Withdrawn);
        }
    }

    /// Tells the peers that this NIC is closed.
    pub fn close(&mut self, peers: &Peers) {
        let open = peers.iter().filter(|peer| matches!(peer.link, Link::Open(_))).map(|peer| peer.id);
        let accessed = self.one_sided.marked_targets();
        let known = self.grants.senders.keys().copied().chain(self.one_sided.holders()).chain(accessed);
        let all: BTreeSet<u64> = known.chain(open).collect();
        for id in all {
            self.port.control(id, Control::Closed);
        }
    }
}

/// Handles the notification that a peer has read the payload of a send.
fn source_was_read(flight: &mut InFlight, peer: u64, nla: u64) {
    if let Some(number) = flight.operations.sources.at(peer, nla) {
        flight.end_send(number, Ok(()));
    }
}

/// Ends a send whose receiver does not want the payload.
fn released(flight: &mut InFlight, id: u64, token: u32) {
    let mut sends = flight.operations.sends_over_units();
    let found = sends.find(|(_, outgoing)| outgoing.token == token && outgoing.target.0 == id);
    if let Some((number, _)) = found {
        drop(sends);
        flight.end_send(number, Ok(()));
    }
}
