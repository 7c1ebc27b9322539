// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends in rings that end with their delivery (`FI_DELIVERY_COMPLETE`, fi_cq(3)).
//!
//! The cursor by which a target frees slots also says which messages its NIC has taken. So the sender keeps the number
//! of such a message in the ring and its ticket, and nothing more is sent, or stored at the target.
//!
//! Invariants
//! 1. The target stores the cursor after the payload is in its receive, or in a buffer for unexpected messages.
//! 2. Sends to one peer end in the order of their messages.
//! 3. When the peer has died or closed its rings, what it has not dequeued ends with an error.
//! 4. A target need not call its library. A sender that has waited for long delivers what is in its ring itself, where
//!    it may run the target's NIC.
//!
//! Cost: a poll that finds no message loads one line for each peer with such sends. A send takes 40 bytes.

use crate::bindings::{Bindings, Side};
use crate::flags::EHOSTDOWN;
use crate::peers::{Link, Undelivered};
use crate::send::reports;
use crate::ticket::Ticket;
use crate::transport::Transport;

/// Polls without a delivery before the sender assumes that the target does not poll.
const POLLS_MAX: u32 = 400;

/// A peer whose ring has such sends.
pub(crate) struct Delivering {
    peer: u32,
    /// Polls since one of them ended.
    polls: u32,
}

impl Transport {
    /// Keeps a send until its message, which has this number in our ring at the peer, is dequeued.
    pub(crate) fn await_delivery(&mut self, peer: u32, number: u64, ticket: &Ticket) {
        let Some(to) = self.peers.get_mut(peer).filter(|_| reports(ticket)) else { return };
        if to.undelivered.is_empty() {
            self.delivering.push(Delivering { peer, polls: 0 });
        }
        to.undelivered.push_back(Undelivered { number, ticket: *ticket });
    }

    /// Ends the sends whose messages have been dequeued. Returns whether there were any.
    pub(crate) fn end_delivered(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.delivering.len() {
            let peer = self.delivering[at].peer;
            let has_ended = self.end_delivered_to(peer, false);
            any |= has_ended;
            let polls = &mut self.delivering[at].polls;
            *polls = if has_ended { 0 } else { *polls + 1 };
            if *polls == POLLS_MAX {
                *polls = 0;
                self.deliver_to_idle(peer);
            }
        }
        self.forget_delivered();
        any
    }

    /// Fails the sends to a peer that has ended, or else delivers the messages in our ring there, if this process may.
    #[cold]
    fn deliver_to_idle(&mut self, number: u32) {
        let Some(peer) = self.peers.get(number) else { return };
        if !self.interface.look_alive(peer.id, peer.owner) {
            self.end_delivered_to(number, true);
        } else if let Some(ring) = peer.ring() {
            self.interface.deliver_ring(peer.id, peer.owner, ring);
        }
    }

    /// Ends the sends to a peer whose messages have been dequeued, and fails the others if it is `lost` or has closed its
    /// rings. Returns whether there were any.
    fn end_delivered_to(&mut self, number: u32, lost: bool) -> bool {
        let (mut dequeued, mut any) = (None, false);
        while let Some(peer) = self.peers.get_mut(number) {
            let Some(first) = peer.undelivered.front() else { break };
            let (head, lost) = *dequeued.get_or_insert_with(|| peer.dequeued(lost));
            let is_delivered = first.number < head;
            if !is_delivered && !lost {
                break;
            }
            let Some(Undelivered { ticket, .. }) = peer.undelivered.pop_front() else { break };
            any = true;
            match is_delivered {
                true => self.sent(&ticket),
                false => self.fail(&ticket, Side::Transmit, ticket.completion(), 0, EHOSTDOWN),
            }
        }
        any
    }

    /// Ends all sends in a ring that the peer has closed.
    pub(crate) fn lose_ring(&mut self, peer: u32) {
        self.end_delivered_to(peer, true);
        self.forget_delivered();
    }

    /// Removes the sends of an endpoint that is closed.
    pub(crate) fn forget_undelivered(&mut self, bindings: *mut Bindings) {
        for to in &self.delivering {
            if let Some(peer) = self.peers.get_mut(to.peer) {
                peer.undelivered.retain(|send| send.ticket.bindings != bindings);
            }
        }
        for peer in self.peers.iter_mut() {
            if let Link::Open(outbound) = &mut peer.link {
                outbound.undelivered.retain(|(_, ticket)| ticket.bindings != bindings);
            }
        }
        self.forget_delivered();
    }

    /// Takes the peers without such sends off the list.
    fn forget_delivered(&mut self) {
        let peers = &self.peers;
        self.delivering.retain(|to| peers.get(to.peer).is_some_and(|peer| !peer.undelivered.is_empty()));
    }
}
