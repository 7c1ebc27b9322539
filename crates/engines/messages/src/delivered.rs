// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends in rings that end with their delivery (`FI_DELIVERY_COMPLETE`, fi_cq(3)).
//!
//! The cursor by which a target frees slots also says which messages its NIC has taken. So the sender keeps the number
//! of such a message in the ring and its ticket. Nothing more is sent, or stored at the target.
//!
//! Invariants
//! 1. The target stores the cursor after the payload is in its receive, or in a buffer for unexpected messages.
//! 2. Sends to one peer end in the order of their messages.
//! 3. When the peer has died or closed its rings, messages that it has not dequeued end with an error.
//! 4. A target need not call its library. After a long wait the sender delivers the messages in its ring itself, if it
//!    may run the target's NIC.
//!
//! Cost: a poll that finds no message loads one line for each peer with such sends. A send takes 40 bytes.

use crate::bindings::Bindings;
use crate::error::Fault;
use crate::in_flight::InFlight;
use crate::peers::{Link, Peers, Undelivered};
use crate::ticket::Ticket;

/// Polls without a delivery before the sender assumes that the target does not poll.
const POLLS_MAX: u32 = 400;

/// A peer whose ring has such sends.
struct Delivering {
    peer: u32,
    /// The number of polls since one of them ended.
    polls: u32,
}

/// The peers whose rings have such sends.
#[derive(Default)]
pub(crate) struct Deliveries {
    peers: Vec<Delivering>,
}

impl Deliveries {
    /// Whether there are such sends.
    #[inline(always)]
    pub fn any(&self) -> bool {
        !self.peers.is_empty()
    }

    /// Keeps a send until its message, which has this number in our ring at the peer, is dequeued.
    pub fn await_delivery(&mut self, peers: &mut Peers, peer: u32, number: u64, ticket: &Ticket) {
        let Some(to) = peers.get_mut(peer).filter(|_| ticket.reports()) else { return };
        if to.undelivered.is_empty() {
            self.peers.push(Delivering { peer, polls: 0 });
        }
        to.undelivered.push_back(Undelivered { number, ticket: *ticket });
    }

    /// Ends the sends whose messages have been dequeued. Returns whether there were any.
    pub fn end_delivered(&mut self, flight: &mut InFlight) -> bool {
        let mut any = false;
        for at in 0..self.peers.len() {
            let peer = self.peers[at].peer;
            let has_ended = end_delivered_to(flight, peer, false);
            any |= has_ended;
            let polls = &mut self.peers[at].polls;
            *polls = if has_ended { 0 } else { *polls + 1 };
            if *polls == POLLS_MAX {
                *polls = 0;
                deliver_to_idle(flight, peer);
            }
        }
        self.forget_delivered(&flight.peers);
        any
    }

    /// Ends all sends in a ring that the peer has closed.
    pub fn lose_ring(&mut self, flight: &mut InFlight, peer: u32) {
        end_delivered_to(flight, peer, true);
        self.forget_delivered(&flight.peers);
    }

    /// Removes the sends of an endpoint that is closed.
    pub fn forget_undelivered(&mut self, peers: &mut Peers, bindings: *mut Bindings) {
        for to in &self.peers {
            if let Some(peer) = peers.get_mut(to.peer) {
                peer.undelivered.retain(|send| send.ticket.bindings != bindings);
            }
        }
        for peer in peers.iter_mut() {
            if let Link::Open(outbound) = &mut peer.link {
                outbound.undelivered.retain(|(_, ticket)| ticket.bindings != bindings);
            }
        }
        self.forget_delivered(peers);
    }

    /// Removes the peers without such sends from the list.
    fn forget_delivered(&mut self, peers: &Peers) {
        self.peers.retain(|to| peers.get(to.peer).is_some_and(|peer| !peer.undelivered.is_empty()));
    }
}

/// Fails the sends to a peer that has ended. Otherwise delivers the messages in our ring there, if this process may.
#[cold]
fn deliver_to_idle(flight: &mut InFlight, number: u32) {
    let Some(peer) = flight.peers.get(number) else { return };
    if !flight.nic.interface.check_alive(peer.id, peer.owner) {
        end_delivered_to(flight, number, true);
    } else if let Some(ring) = peer.ring() {
        flight.nic.interface.deliver_ring(peer.id, peer.owner, ring);
    }
}

/// Ends the sends to a peer whose messages have been dequeued. Fails the others if the peer is `lost` or has closed its
/// rings. Returns whether any send ended.
fn end_delivered_to(flight: &mut InFlight, number: u32, lost: bool) -> bool {
    let (mut dequeued, mut any) = (None, false);
    while let Some(peer) = flight.peers.get_mut(number) {
        let Some(first) = peer.undelivered.front() else { break };
        let (head, lost) = *dequeued.get_or_insert_with(|| peer.dequeued(lost));
        let is_delivered = first.number < head;
        if !is_delivered && !lost {
            break;
        }
        let Some(Undelivered { ticket, .. }) = peer.undelivered.pop_front() else { break };
        any = true;
        match is_delivered {
            true => flight.nic.sent(&ticket),
            false => flight.nic.fail_transmit(&ticket, Fault::PeerGone),
        }
    }
    any
}
