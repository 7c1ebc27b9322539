// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The operations in flight, with the NIC of their events, their peers, and their polling: the base of other parts.

use selvedge_nic::portals::{ack, options};
use selvedge_nic::tables::{Command, Request, Side as Memory, kind};

use crate::error::Fault;
use crate::message::{Message, Outgoing, Stage};
use crate::operations::Operations;
use crate::own_nic::OwnNic;
use crate::peers::Peers;
use crate::polling::Polling;

pub(crate) struct InFlight {
    pub nic: OwnNic,
    pub operations: Operations,
    pub peers: Peers,
    pub polling: Polling,
}

impl InFlight {
    // ---- messages ----

    /// The command of a message whose payload starts with its first piece. The caller sets the target.
    pub fn command(&self, message: &Message<'_>, length: usize, epoch: u64) -> Command {
        let mut request = self.request(message, length, 0);
        request.operand[1] = epoch;
        let source = Memory {
            start: message.pieces.first().map_or(0, |piece| piece.iov_base as u64),
            options: options::MD_EVENT_SEND_DISABLE | options::MD_PAYLOAD_STAYS,
            queue: self.nic.own_queue,
            ..Memory::NOWHERE
        };
        Command { request, target: 0, user_ptr: 0, source, sink: Memory::NOWHERE }
    }

    /// The request of a message to its target's NIC. With a token the target can fetch the payload.
    pub fn request(&self, message: &Message<'_>, length: usize, token: u32) -> Request {
        // SAFETY: a ticket of a new message names an open endpoint.
        let own = unsafe { (*message.ticket.bindings).index };
        Request {
            kind: kind::PUT,
            ack: ack::FULL,
            portal: message.kind.portal(message.endpoint),
            uid: u32::from(message.data.is_some()),
            initiator: self.nic.source(own),
            match_bits: message.tag,
            header_data: message.data.unwrap_or(0),
            length: length as u64,
            operand: [token.into(), 0, 0, 0],
            ..Request::default()
        }
    }

    // ---- ends of sends ----

    /// Removes the record of a finished send and unlinks its token entry.
    pub fn take_send(&mut self, number: usize) -> Option<Box<Outgoing>> {
        let outgoing = self.operations.take_send(number)?;
        self.nic.unlink(outgoing.entry);
        Some(outgoing)
    }

    /// Ends a send.
    pub fn end_send(&mut self, number: usize, outcome: Result<(), Fault>) {
        let Some(outgoing) = self.take_send(number) else { return };
        let ticket = outgoing.ticket;
        match outcome {
            _ if outgoing.is_forgotten() => {}
            Ok(()) => self.nic.sent(&ticket),
            Err(fault) => self.nic.fail_transmit(&ticket, fault),
        }
    }

    /// Ends a send whose payload waited here, after the target has fetched it.
    pub fn send_fetched(&mut self, number: usize) {
        match self.operations.send(number) {
            Some(outgoing) if outgoing.stage == Stage::UnderWay => outgoing.fetched = true,
            _ => self.end_send(number, Ok(())),
        }
    }

    /// The sends whose header is at a process that has ended.
    pub fn lost_sends(&self) -> Vec<usize> {
        // Most sends wait for the same process, so the result of the last check is kept.
        let mut last = ((0, 0), true);
        let mut is_lost = |target: (u64, u64)| {
            if last.0 != target {
                last = (target, self.nic.interface.check_alive(target.0, target.1));
            }
            !last.1
        };
        // Sends in other stages get a reply, or learn at their retry that the process has ended.
        let sends = self.operations.all_sends();
        sends
            .filter(|(_, outgoing)| outgoing.stage == Stage::Waits && is_lost(outgoing.target))
            .map(|(number, _)| number)
            .collect()
    }

    // ---- refused accesses ----

    /// Records that a peer has refused a command of an access over the units.
    pub fn access_refused(&mut self, number: usize) {
        let InFlight { operations, peers, .. } = self;
        let Some(pending) = operations.access(number) else { return };
        let Some(over_units) = &mut pending.over_units else { return };
        over_units.is_refused = true;
        if !std::mem::replace(&mut pending.was_refused, true) {
            if let Some(peer) = peers.get_mut(pending.peer) {
                peer.refused += 1;
            }
        }
    }

    /// Recounts the accesses that peers have refused, after an endpoint was closed.
    pub fn count_refused(&mut self) {
        let InFlight { operations, peers, .. } = self;
        peers.iter_mut().for_each(|peer| peer.refused = 0);
        for pending in operations.all_accesses() {
            if let Some(peer) = peers.get_mut(pending.peer).filter(|_| pending.was_refused) {
                peer.refused += 1;
            }
        }
    }
}
