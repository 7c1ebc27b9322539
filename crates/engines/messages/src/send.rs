// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sending messages through a ring, directly, or as packets.
//!
//! A small message is enqueued in the target's ring. The send is then over, or ends when the message is dequeued
//! ([`super::delivered`]). The sender delivers any other message: it runs the target's NIC and copies the payload once,
//! into the posted receive. If no receive is posted, the header becomes an unexpected header at the target. The payload
//! stays here under a token, which the header carries, until the target fetches it. A message that this process cannot
//! deliver travels as a packet ([`super::flow_control`]).
//!
//! [`Transport::send`](crate::Transport::send) chooses among these.

use libc::iovec;
use selvedge_host::direct::DirectOutcome;
use selvedge_nic::portals::{Delivery, fail, list};
use selvedge_nic::tables::Command;
use selvedge_os::copy;

use crate::delivered::Deliveries;
use crate::error::Refusal;
use crate::flow::Flows;
use crate::in_flight::InFlight;
use crate::message::{Message, Outgoing, SendEnd, Stage, envelope, stays_here, token_entry};
use crate::peers::{Peer, PeerRing};
use crate::pieces::gather;
use crate::protocols::{MESSAGE_BYTES_MAX, Protocol};
use crate::ticket::PORTAL_TOKEN;

/// The messages under way to peers.
#[derive(Default)]
pub(crate) struct Sends {
    pub flows: Flows,
    pub deliveries: Deliveries,
}

/// A message that goes through no ring, and has no record yet.
pub(crate) struct DirectSend<'a> {
    pub message: &'a Message<'a>,
    length: usize,
    /// The payload of an unexpected message stays at the sender.
    stays: bool,
    /// The process of the peer.
    owner: u64,
    command: Command,
}

impl DirectSend<'_> {
    /// The portal table entry of the target.
    pub fn portal(&self) -> u32 {
        self.command.request.portal
    }

    /// Sets the epoch of the portal table entry.
    pub fn set_epoch(&mut self, epoch: u64) {
        self.command.request.operand[1] = epoch;
    }
}

impl Sends {
    /// Enqueues a message in the target's ring, and completes the send, unless it ends with its delivery. Returns false
    /// if nothing has happened: there is no ring, or no room.
    pub fn enqueue(&mut self, flight: &mut InFlight, message: &Message<'_>, length: usize) -> bool {
        let Sends { flows, deliveries } = self;
        let InFlight { nic, peers, polling, .. } = flight;
        let Some(peer) = peers.get_mut(message.peer) else { return false };
        let portal = message.kind.portal(message.endpoint);
        let overtakes =
            peer.in_flight != 0 || !nic.interface.runs_peers() && flows.epoch_now(message.peer, portal).is_none();
        let target = peer.id;
        let PeerRing::Open(ring) = &mut peer.ring else { return false };
        // SAFETY: a ticket of a new message names an open endpoint.
        let ring_flags = unsafe { (*message.ticket.bindings).ring_flags };
        let envelope = envelope(portal as u8, ring_flags, message.tag, message.data);
        let (pieces, round) = (message.pieces, polling.round);
        // SAFETY: the program's pieces are readable, and the ring has room for `length` bytes, their sum.
        let fill = |to: *mut u8| unsafe { copy_in(pieces, to) };
        if overtakes || !ring.is_open() || !nic.interface.enqueue(target, ring, &envelope, length, round, fill) {
            return false;
        }
        let number = ring.enqueued().wrapping_sub(1);
        polling.sent = true;
        match message.end {
            SendEnd::Delivered => deliveries.await_delivery(peers, message.peer, number, &message.ticket),
            SendEnd::Sent | SendEnd::Matched => nic.sent(&message.ticket),
        }
        true
    }

    /// Copies a message into a posted receive whose memory is directly mapped. This takes one copy instead of two, and
    /// the receiver copies nothing. Returns false if nothing has happened.
    #[inline(never)]
    pub fn put_in_place(&mut self, flight: &mut InFlight, message: &Message<'_>, length: usize) -> bool {
        let portal = message.kind.portal(message.endpoint);
        let ([_], Some(epoch)) = (message.pieces, self.flows.epoch_now(message.peer, portal)) else { return false };
        let mut command = flight.command(message, length, epoch);
        let Some(peer) = flight.peers.get_mut(message.peer) else { return false };
        // Without a ring the message takes the direct path anyway.
        if peer.ring().is_none_or(|ring| !ring.is_open()) || !peer.in_place.is_due() {
            return false;
        }
        command.target = peer.id;
        let outcome = flight.nic.interface.deliver_in_place(&command, peer.owner, peer.ring());
        // A fault in the receive's memory also ends the send: it is the receiver's error, reported to it.
        let done = matches!(outcome, Some(DirectOutcome::Done(Delivery { fail: fail::OK | fail::SEGV, .. })));
        peer.in_place.ended(done);
        if done {
            flight.nic.sent(&message.ticket);
        }
        done
    }

    /// Prepares a message that goes through no ring. The caller sets its epoch.
    pub fn direct<'a>(
        &self,
        flight: &InFlight,
        message: &'a Message<'a>,
        length: usize,
    ) -> Result<DirectSend<'a>, Refusal> {
        if length > MESSAGE_BYTES_MAX {
            return Err(Refusal::TooLong);
        }
        let Some(peer) = flight.peers.get(message.peer) else { return Err(Refusal::Invalid) };
        let stays = peer.protocols.without_ring(length, message.end) == Protocol::Rendezvous;
        let command = Command { target: peer.id, ..flight.command(message, length, 0) };
        Ok(DirectSend { message, length, stays, owner: peer.owner, command })
    }

    /// Ends a rendezvous within the call, without a record, if a receive is posted. Returns false if nothing has happened.
    pub fn deliver_to_posted(&mut self, flight: &InFlight, send: &DirectSend<'_>) -> Result<bool, Refusal> {
        let DirectSend { message, stays, owner, command, .. } = send;
        let (true, [_]) = (*stays, message.pieces) else { return Ok(false) };
        let ring = flight.peers.get(message.peer).and_then(Peer::ring);
        match flight.nic.interface.deliver_posted(command, *owner, ring) {
            None | Some(DirectOutcome::OutOfReach) => Ok(false),
            // A fault in the receive's memory also ends the send: it is the receiver's error, reported to it.
            Some(DirectOutcome::Done(Delivery { fail: fail::OK | fail::SEGV, .. })) => {
                flight.nic.sent(&message.ticket);
                Ok(true)
            }
            Some(DirectOutcome::Done(delivery)) => {
                self.flows.refused_in_call(message.peer, command.request.portal, &delivery);
                Err(Refusal::NoRoom)
            }
            Some(DirectOutcome::Full) => Err(Refusal::NoRoom),
            Some(DirectOutcome::Gone) => Err(Refusal::PeerGone),
            Some(DirectOutcome::Memory) => Err(Refusal::NotMapped),
        }
    }

    /// Delivers a message by running its target's NIC, or sends it as a packet. The table of operations has room for it.
    pub fn deliver(&mut self, flight: &mut InFlight, send: DirectSend<'_>) -> Result<(), Refusal> {
        let DirectSend { message, length, stays, owner, mut command } = send;
        let gathered = message.gathered(length);
        if let Some(bytes) = &gathered {
            command.source.start = bytes.as_ptr() as u64;
        }
        let start = command.source.start;
        let token = if stays { flight.operations.new_token() } else { 0 };
        let number = flight.operations.next_number();
        command.user_ptr = number as u64;
        command.request.operand[0] = token.into();
        flight.operations.insert_send(Outgoing {
            ticket: message.ticket,
            entry: None,
            region: None,
            token: 0,
            _bytes: gathered,
            target: (command.target, owner),
            peer: message.peer,
            command,
            stage: Stage::Waits,
            sequence: 0,
            fetched: false,
            is_injected: message.inject,
        });
        let outcome = self.deliver_recorded(flight, number, &command, (start, length, token));
        if outcome.is_err() {
            // The program gets the error and keeps its buffer.
            flight.take_send(number);
        }
        outcome
    }

    fn deliver_recorded(
        &mut self,
        flight: &mut InFlight,
        number: usize,
        command: &Command,
        (start, length, token): (u64, usize, u32),
    ) -> Result<(), Refusal> {
        let Some(Outgoing { peer, target, .. }) = flight.operations.send(number) else { return Ok(()) };
        let (peer, owner) = (*peer, target.1);
        if token != 0 {
            let entry = flight.nic.append(PORTAL_TOKEN, list::PRIORITY, &token_entry(token, start, length, number));
            let Some(outgoing) = flight.operations.send(number).filter(|_| entry.is_some()) else {
                return Err(Refusal::NoRoom);
            };
            outgoing.entry = entry;
        }
        let ring = flight.peers.get(peer).and_then(Peer::ring);
        match flight.nic.interface.deliver_now(command, owner, ring) {
            DirectOutcome::Done(delivery) => match delivery.fail {
                fail::OK if stays_here(command, delivery.list) => Ok(()),
                // A fault in the receive's memory also ends the send: it is the receiver's error, reported to it.
                fail::OK | fail::SEGV => {
                    flight.end_send(number, Ok(()));
                    Ok(())
                }
                _ => {
                    self.flows.refused_in_call(peer, command.request.portal, &delivery);
                    Err(Refusal::NoRoom)
                }
            },
            DirectOutcome::Full => Err(Refusal::NoRoom),
            DirectOutcome::Gone => Err(Refusal::PeerGone),
            DirectOutcome::Memory => Err(Refusal::NotMapped),
            DirectOutcome::OutOfReach => self.flows.send_packet(flight, number),
        }
    }
}

/// # Safety
/// The pieces are readable, and `to` has room for the sum of their lengths.
#[inline(always)]
unsafe fn copy_in(pieces: &[iovec], to: *mut u8) {
    // SAFETY: this function's contract.
    unsafe {
        match pieces {
            [piece] => copy::short(piece.iov_base.cast(), to, piece.iov_len),
            _ => gather(pieces, to),
        }
    }
}
