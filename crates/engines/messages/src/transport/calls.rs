// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls of a front door: messages, receives, accesses to registered memory, deferred work. A call without room
//! polls, and tries once more.

use std::ffi::c_void;

use libc::iovec;
use selvedge_host::rings::Envelope;
use selvedge_nic::portals::triggered::Action;

use super::Transport;
use crate::bindings::{Bindings, Orders};
use crate::error::{Fault, Refusal};
use crate::message::{Message, SendEnd};
use crate::peers::{Peer, PeerRing};
use crate::pieces::{gather, total};
use crate::posted::{PlainReceive, ReceiveRequest};
use crate::protocols::{Protocol, length_of};
use crate::receive::CancelOutcome;
use crate::ticket::{Kind, Ticket};
use crate::transfer::{Atomic, Note, Transfer};
use crate::units::links::Route;
use crate::units::one_sided::NotPosted;
use crate::work::Work;

impl Transport {
    // ---- messages ----

    /// Sends a message. After [`Refusal::NoRoom`] nothing has happened, and the program tries again.
    #[inline]
    pub fn send(&mut self, message: &Message<'_>) -> Result<(), Refusal> {
        let length = total(message.pieces);
        let Some(peer) = self.met(message.peer) else { return Err(Refusal::Invalid) };
        let protocol = peer.protocols.of(length, message.end);
        let Transport { flight, sends, .. } = self;
        let is_sent = match protocol {
            Protocol::Ring => sends.enqueue(flight, message, length),
            Protocol::DirectElseRing => {
                sends.put_in_place(flight, message, length) || sends.enqueue(flight, message, length)
            }
            // These protocols use no ring.
            Protocol::Direct | Protocol::Rendezvous => false,
            Protocol::Tiny | Protocol::Small | Protocol::Medium | Protocol::Long => false,
        };
        match is_sent {
            true => Ok(()),
            false if self.units.is_some() => self.send_behind_accesses(message, length),
            false => self.send_directly(message, length),
        }
    }

    /// Returns a peer, after fixing its protocols if they were not fixed before.
    #[inline(always)]
    fn met(&mut self, number: u32) -> Option<&mut Peer> {
        if self.flight.peers.get(number)?.has_to_meet() {
            self.meet(number);
        }
        self.flight.peers.get_mut(number)
    }

    #[cold]
    fn meet(&mut self, number: u32) {
        let Transport { flight, sends, units, .. } = self;
        sends.deliveries.lose_ring(flight, number);
        flight.peers.meet(number, &flight.nic.interface);
        if let Some(units) = units {
            units.say_hello(flight, number);
        }
    }

    /// Enqueues a message in the target's ring. Needs a ring with room and a message of the class `LENGTH`
    /// ([`length_of`]). The send is then over. False: nothing has happened; use [`Transport::send`].
    ///
    /// The envelope is built only when there is room. Until then the registers hold the caller's arguments.
    ///
    /// # Safety
    /// `from` is readable for `length` bytes.
    #[inline(always)]
    pub unsafe fn enqueue_one<const LENGTH: u8>(
        &mut self,
        peer: u32,
        (from, length): (*const u8, usize),
        envelope: impl FnOnce() -> Envelope,
    ) -> bool {
        let Some(peer) = self.flight.peers.get_mut(peer) else { return false };
        let below = if LENGTH == length_of::MORE { peer.protocols.long_below } else { peer.protocols.inline_below };
        if !length_of::is::<LENGTH>(length) || length >= below {
            return false;
        }
        let PeerRing::Open(ring) = &mut peer.ring else { return false };
        if !ring.is_open() || (LENGTH != length_of::MORE && !ring.has_room()) {
            return false;
        }
        let (envelope, round) = (envelope(), self.flight.polling.round);
        // SAFETY: by this function's contract `from` is readable for `length` bytes, and `LENGTH` allows this length.
        unsafe {
            match LENGTH {
                length_of::A_WORD => ring.enqueue_word(&envelope, from, length, round),
                length_of::A_SLOT => ring.enqueue(&envelope, from, length, round),
                _ if !ring.enqueue_long(&envelope, from, length, round) => return false,
                _ => {}
            }
        }
        self.flight.polling.sent = true;
        true
    }

    /// Sends a message that goes through no ring, behind the accesses that it may not overtake.
    fn send_behind_accesses(&mut self, message: &Message<'_>, length: usize) -> Result<(), Refusal> {
        if !self.admits_message(message) {
            return Err(Refusal::NoRoom);
        }
        // The peer may have answered meanwhile, and use other rows now.
        match self.flight.peers.get(message.peer).map(|peer| peer.protocols.of(length, message.end)) {
            Some(row @ (Protocol::Tiny | Protocol::Small | Protocol::Medium | Protocol::Long)) => {
                self.send_over_units(message, length, row)
            }
            _ => self.send_directly(message, length),
        }
    }

    fn send_over_units(&mut self, message: &Message<'_>, length: usize, row: Protocol) -> Result<(), Refusal> {
        let portal = message.kind.portal(message.endpoint);
        for has_polled in [false, true] {
            let Transport { flight, units: Some(units), sends, .. } = self else { return Err(Refusal::Invalid) };
            match units.route_to(flight, &mut sends.flows, (message.peer, Some(portal))) {
                Route::Packets => return self.send_directly(message, length),
                Route::Units => match units.send(flight, message, (length, row)) {
                    Err(Refusal::NoRoom) => {}
                    Ok(()) => {
                        flight.polling.sent = true;
                        return Ok(());
                    }
                    refused => return refused,
                },
                Route::Neither => {}
            }
            if !has_polled {
                self.progress();
            }
        }
        Err(Refusal::NoRoom)
    }

    #[inline(never)]
    fn send_directly(&mut self, message: &Message<'_>, length: usize) -> Result<(), Refusal> {
        let mut send = self.sends.direct(&self.flight, message, length)?;
        let epoch = self.epoch_or_progress(message.peer, send.portal()).ok_or(Refusal::NoRoom)?;
        send.set_epoch(epoch);
        if self.sends.deliver_to_posted(&self.flight, &send)? {
            return Ok(());
        }
        if !self.flight.operations.has_room_for_send() {
            self.progress();
            if !self.flight.operations.has_room_for_send() {
                return Err(Refusal::NoRoom);
            }
            let epoch = self.sends.flows.epoch_now(message.peer, send.portal()).ok_or(Refusal::NoRoom)?;
            send.set_epoch(epoch);
        }
        self.sends.deliver(&mut self.flight, send)
    }

    /// The epoch for a message to a portal table entry ([`crate::flow::Flows::epoch_now`]). If earlier messages go
    /// first, this polls once and tries again.
    fn epoch_or_progress(&mut self, peer: u32, portal: u32) -> Option<u64> {
        let epoch = self.sends.flows.epoch_now(peer, portal);
        if epoch.is_some() {
            return epoch;
        }
        self.progress();
        self.sends.flows.epoch_now(peer, portal)
    }

    // ---- receives ----

    /// Posts a plain receive, or fills it with an unexpected message that matches. Returns false if nothing has
    /// happened. The caller then calls [`Transport::receive`].
    #[inline(always)]
    pub fn receive_plainly(&mut self, receive: PlainReceive) -> bool {
        self.receives.post_plainly(&mut self.flight, &mut self.units, receive)
    }

    /// Posts a receive, or fills it with an unexpected message that matches.
    pub fn receive(&mut self, wanted: &ReceiveRequest<'_>) -> Result<(), Refusal> {
        self.receives.post(&mut self.flight, &mut self.units, wanted)
    }

    /// Looks for an unexpected message (`FI_PEEK`). `claim` keeps it for this context, `discard` drops it.
    pub fn peek(&mut self, wanted: &ReceiveRequest<'_>, claim: bool, discard: bool) {
        self.flight.polling.expects_messages();
        self.progress();
        self.receives.peek(&mut self.flight, &mut self.units, wanted, (claim, discard));
    }

    /// Receives a message that was claimed with this context (`FI_CLAIM`), or discards it.
    pub fn receive_claimed(&mut self, wanted: &ReceiveRequest<'_>, discard: bool) -> Result<(), Refusal> {
        self.receives.receive_claimed(&mut self.flight, &mut self.units, wanted, discard)
    }

    /// Cancels the operation with this context, which then ends with an error. Returns whether it was found.
    pub fn cancel(&mut self, bindings: *mut Bindings, context: *mut c_void) -> bool {
        // A message that has already come completes first and cannot be cancelled.
        self.progress();
        let Transport { flight, receives, sends, .. } = self;
        if receives.cancel_plain(flight, bindings, context) {
            return true;
        }
        if let Some(ticket) = sends.flows.cancel_refused(flight, bindings, context) {
            flight.nic.fail_transmit(&ticket, Fault::Cancelled);
            return true;
        }
        match receives.cancel(flight, bindings, context) {
            CancelOutcome::NotFound => false,
            CancelOutcome::Ended => true,
            CancelOutcome::Unlinked(number) => {
                // A sender may have filled a part of the buffer since the poll. Its message completes first.
                self.take_events();
                self.flight.receive_used_up(number);
                true
            }
        }
    }

    // ---- accesses to others' memory ----

    /// Reads or writes.
    pub fn transfer(&mut self, transfer: &Transfer<'_>) -> Result<(), Refusal> {
        if !transfer.fits() {
            return Err(Refusal::Invalid);
        }
        let length = total(transfer.pieces);
        if self.units.is_some() {
            if let Some(outcome) = self.transfer_over_units(transfer, length) {
                return outcome;
            }
        }
        if !self.admits_packets(transfer.peer, &transfer.ticket) {
            return Err(Refusal::NoRoom);
        }
        let Transport { flight, accesses, .. } = self;
        let number = flight.operations.begin_access(transfer.ticket, transfer.peer, transfer.note());
        let mut pieces = transfer.pieces;
        let copied;
        if transfer.inject && accesses.is_slow() {
            let mut bytes = vec![0u8; length].into_boxed_slice();
            // SAFETY: the program's pieces are readable, and the buffer is as long as their sum.
            unsafe { gather(transfer.pieces, bytes.as_mut_ptr()) };
            copied = [iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length }];
            if let Some(pending) = flight.operations.access(number) {
                pending.staging.operands = Some(bytes);
            }
            pieces = &copied;
        }
        let operation = (number, transfer.peer);
        let outcome = accesses.launch_transfer(flight, operation, transfer.write, pieces, transfer.remote);
        self.end_launch(number, outcome)
    }

    /// Runs an atomic operation.
    pub fn atomic(&mut self, atomic: &Atomic<'_>) -> Result<(), Refusal> {
        if !atomic.fits() {
            return Err(Refusal::Invalid);
        }
        if !self.admits_packets(atomic.peer, &atomic.ticket) {
            return Err(Refusal::NoRoom);
        }
        let number = self.flight.operations.begin_access(atomic.ticket, atomic.peer, None);
        let outcome = self.accesses.launch_atomic(&mut self.flight, number, atomic);
        self.end_launch(number, outcome)
    }

    /// Called when all requests of an access are launched, or one was refused.
    pub(super) fn end_launch(&mut self, number: usize, outcome: Result<(), Fault>) -> Result<(), Refusal> {
        if self.flight.end_launch(number, outcome)? {
            self.end_access(number);
        }
        Ok(())
    }

    /// Sends the notification of a write to the target's program. If accesses keep their order, it waits behind
    /// accesses that the target has refused.
    pub(super) fn notify(&mut self, ticket: &Ticket, note: Note) {
        let ticket = Ticket { wanted: false, flags: 0, ..*ticket };
        if self.flight.peers.has_refused(note.peer, &ticket) {
            return self.accesses.notes.push_back((note, ticket));
        }
        let message = Message {
            kind: Kind::Note,
            peer: note.peer,
            endpoint: note.endpoint,
            tag: note.bytes,
            data: Some(note.data),
            pieces: &[],
            ticket,
            inject: true,
            end: SendEnd::Sent,
        };
        if self.send(&message) == Err(Refusal::NoRoom) {
            self.accesses.notes.push_back((note, ticket));
        }
    }

    /// Sends the notifications that found no room.
    pub(super) fn send_notes_again(&mut self) {
        for _ in 0..self.accesses.notes.len() {
            let Some((note, ticket)) = self.accesses.notes.pop_front() else { return };
            self.notify(&ticket, note);
        }
    }

    /// Reads or writes over the units. `None`: the access travels as packets.
    fn transfer_over_units(&mut self, transfer: &Transfer<'_>, length: usize) -> Option<Result<(), Refusal>> {
        if length == 0 || !self.reaches_by_units(transfer.peer) {
            return None;
        }
        // Take mail first: it may say that the peer has closed its NIC, so that its translations are invalid.
        if let Transport { flight, units: Some(units), .. } = self {
            units.take_mail(flight);
        }
        for has_polled in [false, true] {
            let Transport { flight, units: Some(units), .. } = self else { return None };
            match units.start_access(flight, transfer, length) {
                Ok((number, outcome)) => {
                    let _ = self.end_launch(number, outcome);
                    return Some(Ok(()));
                }
                Err(NotPosted::Packets) => return None,
                Err(NotPosted::NotMapped) => return Some(Err(Refusal::NotMapped)),
                Err(NotPosted::Invalid | NotPosted::NotPermitted) => return Some(Err(Refusal::Invalid)),
                Err(NotPosted::Later) => {}
            }
            if !has_polled {
                self.progress();
            }
        }
        Some(Err(Refusal::NoRoom))
    }

    /// Whether accesses to a peer use the units: it has no ring for us, and is the process that the program means.
    fn reaches_by_units(&mut self, number: u32) -> bool {
        let Some(peer) = self.met(number) else { return false };
        let (has_ring, id, owner) = (peer.ring().is_some(), peer.id, peer.owner);
        // A packet's reply reports that another process has the id.
        if has_ring || !self.flight.nic.interface.is_answered_by(id, owner) {
            return false;
        }
        if let Some(units) = &mut self.units {
            units.one_sided.belongs_to(id, owner);
        }
        true
    }

    // ---- the order of messages and accesses ----

    /// Whether a message may follow the accesses to its peer.
    fn admits_message(&mut self, message: &Message<'_>) -> bool {
        if message.kind == Kind::Note {
            // It has waited for earlier accesses ([`Transport::notify`]).
            return true;
        }
        // SAFETY: a ticket of a new message names an open endpoint.
        let orders = unsafe { (*message.ticket.bindings).orders };
        !orders.messages || self.accesses_are_done(message.peer)
    }

    /// Whether an access that travels as a packet may go to a peer now, after earlier messages and accesses.
    fn admits_packets(&mut self, number: u32, ticket: &Ticket) -> bool {
        if self.units.is_none() {
            return true;
        }
        // SAFETY: a ticket of a new operation names an open endpoint.
        let orders = unsafe { (*ticket.bindings).orders };
        if orders.messages && self.route_to(number) != Route::Packets {
            self.progress();
            if self.route_to(number) != Route::Packets {
                return false;
            }
        }
        orders == Orders::NONE || self.accesses_are_done(number)
    }

    /// The route of any message or request to a peer.
    fn route_to(&mut self, number: u32) -> Route {
        let Transport { flight, units: Some(units), sends, .. } = self else { return Route::Packets };
        units.route_to(flight, &mut sends.flows, (number, None))
    }

    /// Whether a message or a packet may follow the accesses to a peer.
    fn accesses_are_done(&mut self, number: u32) -> bool {
        let Some(id) = self.flight.peers.get(number).map(|peer| peer.id) else { return true };
        let is_idle = |transport: &Transport| transport.units.as_ref().is_none_or(|units| units.one_sided.is_idle(id));
        if is_idle(self) {
            return true;
        }
        self.progress();
        is_idle(self)
    }

    // ---- deferred work ----

    /// Queues a change of a counter.
    pub fn defer_count(&mut self, work: &Work, action: Action<'_>) -> Result<(), Refusal> {
        self.works.defer_count(&mut self.flight, work, action)
    }

    /// Queues a read or write.
    pub fn defer_transfer(&mut self, work: &Work, transfer: &Transfer<'_>) -> Result<(), Refusal> {
        self.works.defer_transfer(&mut self.flight, work, transfer)
    }

    /// Queues an atomic operation.
    pub fn defer_atomic(&mut self, work: &Work, atomic: &Atomic<'_>) -> Result<(), Refusal> {
        self.works.defer_atomic(&mut self.flight, work, atomic)
    }

    /// Queues a send.
    pub fn defer_send(&mut self, work: &Work, message: &Message<'_>) -> Result<(), Refusal> {
        self.works.defer_send(&mut self.flight, work, message)
    }

    /// Queues a receive.
    pub fn defer_receive(&mut self, work: &Work, wanted: &ReceiveRequest<'_>) -> Result<(), Refusal> {
        self.works.defer_receive(&mut self.flight, work, wanted)
    }

    /// Cancels a work that has not fired. False: there is no such work.
    pub fn cancel_work(&mut self, id: usize) -> bool {
        self.works.cancel(&mut self.flight, id)
    }

    /// Cancels the works that wait for this counter, or all.
    pub fn flush_works(&mut self, trigger: Option<u32>) {
        self.works.flush(&mut self.flight, trigger);
    }
}
