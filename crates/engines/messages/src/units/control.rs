// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Grants: asking for one, giving one, taking one back; reports of what was taken; the end of a peer.

use selvedge_host::{Interface, StartError};

use super::link::{BOUNCES, Inbound, Outbound, SLOTS};
use super::memory::Block;
use super::wire::{Control, Counts, mtt};
use super::{Granted, Units, VPID};
use crate::bindings::{Orders, Side};
use crate::flags::EHOSTDOWN;
use crate::peers::{Link, Peer};
use crate::ticket::Ticket;
use crate::transport::Transport;

/// How messages to a peer travel now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Units,
    Packets,
    /// What is under way on one of the two has to arrive first.
    Neither,
}

impl Units {
    /// Sends a control message. Where there is no room for the command now, it leaves at a later poll, behind those that wait.
    pub(super) fn control(&mut self, id: u64, control: Control) {
        if self.unsent.is_empty() && self.try_control(id, control) || self.unsent.contains(&(id, control)) {
            return;
        }
        self.unsent.push_back((id, control));
    }

    /// Sends the control messages that found no room.
    fn send_unsent(&mut self) {
        while let Some((id, control)) = self.unsent.front().copied() {
            if !self.try_control(id, control) {
                return;
            }
            self.unsent.pop_front();
        }
    }

    /// False: there is no room now.
    fn try_control(&self, id: u64, control: Control) -> bool {
        let sent = self.mail(id, mtt::CONTROL, 0, &control.encode());
        if sent == Err(StartError::Memory) {
            log::error!("process {id} is not told {control:?}: the home does not take the command");
        }
        sent != Err(StartError::NoSpace)
    }

    /// Grants room to a sender, if there is any.
    fn grant(&mut self, id: u64) -> Control {
        if self.is_withdrawn {
            return Control::Refused;
        }
        if !self.granted.contains_key(&id) {
            if self.granted.len() >= self.granted_max {
                return Control::Refused;
            }
            let bounce = match Block::new(&self.device, VPID, usize::from(BOUNCES) * self.slot_bytes) {
                Ok(bounce) => bounce,
                Err(error) => {
                    log::warn!("process {id} sends packets, because there is no memory for its messages: {error}");
                    return Control::Refused;
                }
            };
            self.granted.insert(id, Granted { inbound: Inbound::default(), bounce });
        }
        let Some(granted) = self.granted.get_mut(&id) else { return Control::Refused };
        // A process that asks again is another one, or has opened its NIC again.
        if !granted.inbound.is_empty() {
            return Control::Refused;
        }
        granted.inbound = Inbound::default();
        Control::Open { slots: SLOTS, bounces: BOUNCES, nla: granted.bounce.nla() }
    }
}

impl Transport {
    /// Asks a peer for room, if it was not asked before.
    #[cold]
    pub(crate) fn say_hello(&mut self, number: u32) {
        let (Some(units), Some(peer)) = (&mut self.units, self.peers.get_mut(number)) else { return };
        let is_own = peer.id == self.interface.id();
        if peer.ring().is_some() || is_own || !matches!(peer.link, Link::Unasked) {
            return;
        }
        peer.link = Link::Asked;
        units.peers.insert(peer.id, number);
        units.control(peer.id, Control::Hello);
    }

    /// Handles a control message.
    pub(super) fn take_control(&mut self, id: u64, control: Control) {
        let Some(units) = &mut self.units else { return };
        let number = units.peers.get(&id).copied();
        match control {
            Control::Hello => {
                let answer = units.grant(id);
                units.control(id, answer);
            }
            Control::Open { slots: SLOTS, bounces: BOUNCES, nla } => {
                let Some(peer) = number.and_then(|number| self.peers.get_mut(number)) else { return };
                if let Link::Asked = peer.link {
                    peer.link = Link::Open(Box::new(Outbound::new(SLOTS, BOUNCES, nla)));
                    self.peers.find_rows(number.unwrap_or(u32::MAX), &self.interface);
                }
            }
            Control::Open { .. } | Control::Refused => self.end_link(id),
            Control::Ask { .. } => {}
            Control::Withdrawn => {
                if let Some(Link::Open(outbound)) =
                    number.and_then(|number| self.peers.get_mut(number)).map(|peer| &mut peer.link)
                {
                    outbound.is_withdrawn = true;
                }
            }
            Control::Closed => self.lose_peer(id),
            Control::Forget { round } => units.one_sided.forget(id, round),
            Control::Forgotten { round } => units.one_sided.is_forgotten_by(id, round),
        }
    }

    /// Has peers forget the network logical addresses of closed regions, if there are enough of them.
    pub(crate) fn reuse_addresses(&mut self) {
        let Some(units) = &mut self.units else { return };
        let (holders, round) = units.one_sided.begin_round();
        for id in holders {
            units.control(id, Control::Forget { round });
        }
    }

    /// Sends the control messages that found no room.
    pub(super) fn send_controls_again(&mut self) {
        if let Some(units) = &mut self.units {
            units.send_unsent();
        }
    }

    /// A peer has taken messages.
    pub(super) fn take_report(&mut self, id: u64, taken: Counts) {
        let Some(number) = self.units.as_ref().and_then(|units| units.peers.get(&id).copied()) else { return };
        let Some(Link::Open(outbound)) = self.peers.get_mut(number).map(|peer| &mut peer.link) else { return };
        if !outbound.report(taken) {
            log::warn!("process {id} reports messages that were not sent to it");
            return;
        }
        while let Some(ticket) = self.next_delivered(number) {
            self.sent(&ticket);
        }
    }

    fn next_delivered(&mut self, number: u32) -> Option<Ticket> {
        match self.peers.get_mut(number).map(|peer| &mut peer.link) {
            Some(Link::Open(outbound)) => outbound.next_delivered(),
            _ => None,
        }
    }

    /// How messages to a portal table entry of a peer travel now. `None`: any message or request.
    pub(crate) fn way_to(&mut self, number: u32, portal: Option<u32>) -> Way {
        let has_refused = portal.is_some_and(|portal| self.flows.epoch_now(number, portal).is_none());
        let Some(peer) = self.peers.get_mut(number) else { return Way::Packets };
        let (id, in_flight) = (peer.id, peer.in_flight);
        let Link::Open(outbound) = &mut peer.link else { return Way::Packets };
        let stays = !outbound.is_withdrawn && !outbound.is_named_again;
        if portal.is_some() && in_flight == 0 && !has_refused && stays {
            return Way::Units;
        }
        // A stream of packets ends here: there are more and more of them otherwise.
        if portal.is_some() && outbound.is_fresh() && in_flight != 0 && !has_refused && stays {
            return Way::Neither;
        }
        if !outbound.is_idle() {
            self.ask_for_report(number);
            return Way::Neither;
        }
        let asks_again = outbound.is_named_again && !outbound.is_withdrawn;
        if !stays {
            self.end_link(id);
        }
        if let (true, Some(peer)) = (asks_again, self.peers.get_mut(number)) {
            peer.link = Link::Unasked;
            self.say_hello(number);
        }
        Way::Packets
    }

    /// Asks a peer to report what it has taken, if that is not all and no such question is under way.
    fn ask_for_report(&mut self, number: u32) {
        let (Some(units), Some(peer)) = (&mut self.units, self.peers.get_mut(number)) else { return };
        let Link::Open(outbound) = &mut peer.link else { return };
        if outbound.asks() {
            units.control(peer.id, Control::Ask { number: outbound.number() as u8 & (super::wire::NUMBERS - 1) });
        }
    }

    /// Whether an access that travels as a packet may go to a peer now: it comes after messages and accesses that were sent before it.
    pub(crate) fn admits_packets(&mut self, number: u32, ticket: &Ticket) -> bool {
        if self.units.is_none() {
            return true;
        }
        // SAFETY: a ticket of a new operation names an open endpoint.
        let orders = unsafe { (*ticket.bindings).orders };
        if orders.messages && self.way_to(number, None) != Way::Packets {
            self.progress();
            if self.way_to(number, None) != Way::Packets {
                return false;
            }
        }
        orders == Orders::NONE || self.accesses_are_done(number)
    }

    /// Whether an access over the units may go to a peer now.
    pub(super) fn admits_access(&mut self, number: u32, orders: Orders) -> bool {
        let Some(peer) = self.peers.get(number) else { return false };
        if orders != Orders::NONE && peer.in_flight != 0 {
            return false;
        }
        let waits = orders.messages && matches!(&peer.link, Link::Open(outbound) if !outbound.is_idle());
        if waits {
            self.ask_for_report(number);
        }
        !waits
    }

    /// Messages to this peer are packets from now on.
    fn end_link(&mut self, id: u64) {
        let Some(number) = self.units.as_ref().and_then(|units| units.peers.get(&id).copied()) else { return };
        let Some(peer) = self.peers.get_mut(number) else { return };
        let link = std::mem::replace(&mut peer.link, Link::Refused);
        self.peers.find_rows(number, &self.interface);
        if let Link::Open(outbound) = link {
            for (_, ticket) in outbound.undelivered {
                self.fail(&ticket, Side::Transmit, ticket.completion(), 0, EHOSTDOWN);
            }
        }
    }

    /// A peer has closed its NIC, or has died; or an earlier NIC with its id was closed.
    pub(super) fn lose_peer(&mut self, id: u64) {
        // What it has sent stays.
        self.end_link(id);
        if let Some(units) = &mut self.units {
            if let Some(round) = units.one_sided.is_closed_by(id) {
                units.control(id, Control::Forget { round });
            }
        }
        let lost: Vec<usize> = self.sends_over_units(|outgoing| outgoing.target.0 == id).collect();
        for number in lost {
            self.end_send(number, EHOSTDOWN);
        }
    }

    /// Looks whether the peers are alive that have not taken messages, or not fetched their payload.
    #[cold]
    pub(super) fn look_after_peers(&mut self) {
        let is_dead = |interface: &Interface, peer: &Peer| !interface.look_alive(peer.id, peer.owner);
        let waits = |peer: &Peer| matches!(&peer.link, Link::Open(outbound) if !outbound.is_idle());
        let waiting = self.peers.iter().filter(|peer| waits(peer) && is_dead(&self.interface, peer));
        let mut lost: Vec<u64> = waiting.map(|peer| peer.id).collect();
        let mut targets: Vec<(u64, u64)> = self.outgoing_over_units().map(|outgoing| outgoing.target).collect();
        targets.dedup();
        lost.extend(targets.into_iter().filter(|to| !self.interface.look_alive(to.0, to.1)).map(|to| to.0));
        for id in lost {
            self.lose_peer(id);
        }
        if let Some(units) = &mut self.units {
            units.one_sided.probe_holders();
        }
    }

    /// Peers send packets from now on, so that the NIC matches them without this program.
    pub fn withdraw_units(&mut self) {
        let Some(units) = &mut self.units else { return };
        if std::mem::replace(&mut units.is_withdrawn, true) {
            return;
        }
        for granted in units.granted.values_mut() {
            granted.inbound.reports_all = true;
        }
        let told: Vec<u64> = units.granted.keys().copied().collect();
        for id in told {
            units.control(id, Control::Withdrawn);
        }
    }

    /// Tells the peers that this NIC is closed.
    pub(crate) fn close_units(&mut self) {
        let Some(units) = &mut self.units else { return };
        let open = self.peers.iter().filter(|peer| matches!(peer.link, Link::Open(_))).map(|peer| peer.id);
        let accessed = units.one_sided.marked_targets();
        let known = units.granted.keys().copied().chain(units.one_sided.holders()).chain(accessed);
        let all: std::collections::BTreeSet<u64> = known.chain(open).collect();
        for id in all {
            units.control(id, Control::Closed);
        }
    }
}
