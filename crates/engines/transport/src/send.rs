// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sending messages.
//!
//! A small message is enqueued in the target's ring. The send is then over, or ends when the message is dequeued
//! ([`super::delivered`]). Any other message is delivered by the sender, which runs the target's NIC and copies the
//! payload once, into the posted receive. If no receive is posted, the header becomes an unexpected header at the
//! target. The payload stays here under a token, which the header carries, until the target fetches it.

use std::ffi::c_int;

use libc::iovec;
use selvedge_host::direct::DirectOutcome;
use selvedge_host::os::copy;
use selvedge_host::rings::{Envelope, Sender};
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::{Delivery, ack, fail, list, options};
use selvedge_nic::tables::{Command, Request, Side as Memory, kind};

use crate::bindings::Side;
use crate::flags::{ADDR_ANY, EAGAIN, EFAULT, EHOSTDOWN, EINVAL, EMSGSIZE};
use crate::message::{Message, Outgoing, SendEnd, Stage, envelope, stays_here, token_entry};
use crate::operation::Operation;
use crate::peers::{Peer, PeerRing};
use crate::pieces::{gather, total};
use crate::protocols::{MESSAGE_BYTES_MAX, Protocol, length_of};
use crate::ticket::{PORTAL_TOKEN, Ticket};
use crate::transport::{OUTSTANDING, Transport};

impl Transport {
    /// Sends a message. Returns 0 or a negative error. After `-EAGAIN` nothing has happened, and the program tries
    /// again.
    #[inline]
    pub fn send(&mut self, message: &Message<'_>) -> isize {
        let length = total(message.pieces);
        let Some(peer) = self.met(message.peer) else { return -(EINVAL as isize) };
        let is_sent = match peer.protocols.of(length, message.end) {
            Protocol::Ring => self.enqueue(message, length),
            Protocol::DirectElseRing => self.put_in_place(message, length) || self.enqueue(message, length),
            // These have no ring.
            Protocol::Direct | Protocol::Rendezvous => false,
            Protocol::Tiny | Protocol::Small | Protocol::Medium | Protocol::Long => false,
        };
        match is_sent {
            true => 0,
            false if self.units.is_some() => self.send_behind_accesses(message, length),
            false => self.send_directly(message, length),
        }
    }

    /// A peer, whose protocols are fixed now if they were not before.
    #[inline(always)]
    pub(crate) fn met(&mut self, number: u32) -> Option<&mut Peer> {
        if self.peers.get(number)?.has_to_meet() {
            self.meet(number);
        }
        self.peers.get_mut(number)
    }

    #[cold]
    fn meet(&mut self, number: u32) {
        self.lose_ring(number);
        self.peers.meet(number, &self.interface);
        let own = self.peers.get(number).filter(|peer| peer.id == self.interface.id());
        if let Some(ring) = own.and_then(Peer::ring) {
            self.own_ring = 1 << ring.index();
        }
        if self.units.is_some() {
            self.say_hello(number);
        }
    }

    /// Enqueues a message in the target's ring, and completes the send, unless that ends with its delivery. Returns false
    /// if nothing has happened: there is no ring, or no room.
    fn enqueue(&mut self, message: &Message<'_>, length: usize) -> bool {
        let Some(peer) = self.peers.get_mut(message.peer) else { return false };
        let portal = message.kind.portal(message.endpoint);
        let overtakes =
            peer.in_flight != 0 || !self.interface.runs_peers() && self.flows.epoch_now(message.peer, portal).is_none();
        let target = peer.id;
        let PeerRing::Open(ring) = &mut peer.ring else { return false };
        // SAFETY: a ticket of a new message names an open endpoint.
        let ring_flags = unsafe { (*message.ticket.bindings).ring_flags };
        let envelope = envelope(portal as u8, ring_flags, message.tag, message.data);
        let (pieces, round) = (message.pieces, self.polling.round);
        // SAFETY: the program's pieces are readable for their lengths, and the ring offers room for `length` bytes,
        // their sum.
        let fill = |to: *mut u8| unsafe { copy_in(pieces, to) };
        if overtakes || !ring.is_open() || !self.interface.enqueue(target, ring, &envelope, length, round, fill) {
            return false;
        }
        let number = ring.enqueued().wrapping_sub(1);
        self.polling.sent = true;
        match message.end {
            SendEnd::Delivered => self.await_delivery(message.peer, number, &message.ticket),
            SendEnd::Sent | SendEnd::Matched => self.sent(&message.ticket),
        }
        true
    }

    /// Enqueues a message in the target's ring. This needs a ring with room and a message of the class `LENGTH`
    /// ([`length_of`]). The send is then over. Returns false if nothing has happened; the caller then uses
    /// [`Transport::send`].
    ///
    /// The envelope is built only when the message is sure to be enqueued. Until then the registers hold the caller's
    /// arguments.
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
        let Some(peer) = self.peers.get_mut(peer) else { return false };
        let below = if LENGTH == length_of::MORE { peer.protocols.long_below } else { peer.protocols.inline_below };
        if !length_of::is::<LENGTH>(length) || length >= below {
            return false;
        }
        let PeerRing::Open(ring) = &mut peer.ring else { return false };
        if !ring.is_open() || (LENGTH != length_of::MORE && !ring.has_room()) {
            return false;
        }
        let (envelope, round) = (envelope(), self.polling.round);
        // SAFETY: by this function's contract `from` is readable for `length` bytes, and `LENGTH` allows this length.
        unsafe {
            match LENGTH {
                length_of::A_WORD => ring.enqueue_word(&envelope, from, length, round),
                length_of::A_SLOT => ring.enqueue(&envelope, from, length, round),
                _ if !ring.enqueue_long(&envelope, from, length, round) => return false,
                _ => {}
            }
        }
        self.polling.sent = true;
        true
    }

    /// Completes a send.
    #[inline(always)]
    pub(crate) fn sent(&self, ticket: &Ticket) {
        if reports(ticket) {
            self.complete(ticket, Side::Transmit, ticket.completion(), ADDR_ANY);
        }
    }

    /// Copies a message straight into a posted receive whose memory is directly mapped. This takes one copy instead of
    /// two, and the receiver copies nothing. Returns false if nothing has happened.
    #[inline(never)]
    fn put_in_place(&mut self, message: &Message<'_>, length: usize) -> bool {
        let portal = message.kind.portal(message.endpoint);
        let ([_], Some(epoch)) = (message.pieces, self.flows.epoch_now(message.peer, portal)) else { return false };
        let mut command = self.command(message, length, epoch);
        let Some(peer) = self.peers.get_mut(message.peer) else { return false };
        // Without a ring the message takes the direct path anyway.
        if peer.ring().is_none_or(|ring| !ring.is_open()) || !peer.in_place.is_due() {
            return false;
        }
        command.target = peer.id;
        let outcome = self.interface.deliver_in_place(&command, peer.owner, peer.ring());
        // A fault in the receive's memory also ends the send: it is the receiver's error, and the receiver gets an
        // event.
        let done = matches!(outcome, Some(DirectOutcome::Done(Delivery { fail: fail::OK | fail::SEGV, .. })));
        peer.in_place.ended(done);
        if done {
            self.sent(&message.ticket);
        }
        done
    }

    #[inline(never)]
    pub(crate) fn send_directly(&mut self, message: &Message<'_>, length: usize) -> isize {
        if length > MESSAGE_BYTES_MAX {
            return -(EMSGSIZE as isize);
        }
        let Some(peer) = self.peers.get(message.peer) else { return -(EINVAL as isize) };
        let target = (peer.id, peer.owner);
        let stays = peer.protocols.without_ring(length, message.end) == Protocol::Rendezvous;
        let portal = message.kind.portal(message.endpoint);
        let Some(epoch) = self.epoch_or_progress(message.peer, portal) else { return -(EAGAIN as isize) };
        let mut command = Command { target: target.0, ..self.command(message, length, epoch) };
        if let (true, [_]) = (stays, message.pieces) {
            // If a receive is posted, the send ends within this call and needs no record.
            let outcome = self.interface.deliver_posted(&command, target.1, self.ring_to(message.peer));
            match outcome {
                None | Some(DirectOutcome::OutOfReach) => {}
                // A fault in the receive's memory also ends the send: it is the receiver's error, and the receiver gets
                // an event.
                Some(DirectOutcome::Done(Delivery { fail: fail::OK | fail::SEGV, .. })) => {
                    self.sent(&message.ticket);
                    return 0;
                }
                Some(DirectOutcome::Done(delivery)) => {
                    self.refused(message.peer, portal, &delivery);
                    return -(EAGAIN as isize);
                }
                Some(DirectOutcome::Full) => return -(EAGAIN as isize),
                Some(DirectOutcome::Gone) => return -(EHOSTDOWN as isize),
                Some(DirectOutcome::Memory) => return -(EFAULT as isize),
            }
        }
        if self.outstanding >= OUTSTANDING {
            self.progress();
            if self.outstanding >= OUTSTANDING {
                return -(EAGAIN as isize);
            }
            let Some(epoch) = self.flows.epoch_now(message.peer, portal) else { return -(EAGAIN as isize) };
            command.request.operand[1] = epoch;
        }
        let gathered = self.gathered(message, length);
        if let Some(bytes) = &gathered {
            command.source.start = bytes.as_ptr() as u64;
        }
        let start = command.source.start;
        let token = if stays { self.new_token() } else { 0 };
        let number = self.operations.vacant_key();
        command.user_ptr = number as u64;
        command.request.operand[0] = token.into();
        self.outstanding += 1;
        self.operations.insert(Operation::Send(Box::new(Outgoing {
            ticket: message.ticket,
            entry: None,
            region: None,
            token: 0,
            _bytes: gathered,
            target,
            peer: message.peer,
            command,
            stage: Stage::Waits,
            sequence: 0,
            fetched: false,
            is_injected: message.inject,
        })));
        if stays {
            let entry = self.append(PORTAL_TOKEN, list::PRIORITY, &token_entry(token, start, length, number));
            let Some(entry) = entry else { return self.withdraw(number, EAGAIN) };
            if let Some(Operation::Send(outgoing)) = self.operations.get_mut(number) {
                outgoing.entry = Some(entry);
            }
        }
        match self.interface.deliver_now(&command, target.1, self.ring_to(message.peer)) {
            DirectOutcome::Done(delivery) => self.answered(number, &delivery, &command),
            DirectOutcome::Full => self.withdraw(number, EAGAIN),
            DirectOutcome::Gone => self.withdraw(number, EHOSTDOWN),
            DirectOutcome::Memory => self.withdraw(number, EFAULT),
            DirectOutcome::OutOfReach => match self.send_packet(number) {
                Ok(()) => 0,
                Err(error) => self.withdraw(number, error),
            },
        }
    }

    /// A copy of a message that leaves after this call, if it needs one: it must be in one piece, and if it is injected, it
    /// must be in our memory.
    pub(crate) fn gathered(&self, message: &Message<'_>, length: usize) -> Option<Box<[u8]>> {
        (message.pieces.len() > 1 || (message.inject && length != 0)).then(|| {
            let mut bytes = Box::new_uninit_slice(length);
            // SAFETY: the program's pieces are readable, and the buffer is as long as their sum. `gather` writes all of
            // it.
            unsafe {
                gather(message.pieces, bytes.as_mut_ptr().cast());
                bytes.assume_init()
            }
        })
    }

    /// Our ring at a peer, if there is one.
    fn ring_to(&self, peer: u32) -> Option<&Sender> {
        self.peers.get(peer).and_then(Peer::ring)
    }

    /// The epoch for a message to a portal table entry ([`crate::flow::Flows::epoch_now`]). If earlier messages go
    /// first, this polls once and tries again.
    fn epoch_or_progress(&mut self, peer: u32, portal: u32) -> Option<u64> {
        let epoch = self.flows.epoch_now(peer, portal);
        if epoch.is_some() {
            return epoch;
        }
        self.progress();
        self.flows.epoch_now(peer, portal)
    }

    /// Records that a portal table entry has refused a message within the call.
    fn refused(&mut self, peer: u32, portal: u32, delivery: &Delivery) {
        if delivery.fail == fail::PT_DISABLED {
            self.flows.refuse(peer, portal, delivery.remote_offset);
        }
    }

    /// The command of a message whose payload starts with its first piece. The caller sets the target.
    pub(crate) fn command(&self, message: &Message<'_>, length: usize, epoch: u64) -> Command {
        let mut request = self.request(message, length, 0);
        request.operand[1] = epoch;
        let source = Memory {
            start: message.pieces.first().map_or(0, |piece| piece.iov_base as u64),
            options: options::MD_EVENT_SEND_DISABLE | options::MD_PAYLOAD_STAYS,
            queue: self.own_queue,
            ..Memory::NOWHERE
        };
        Command { request, target: 0, user_ptr: 0, source, sink: Memory::NOWHERE }
    }

    /// The request of a message to its target's NIC. With a token the target can fetch the payload from here.
    pub(crate) fn request(&self, message: &Message<'_>, length: usize, token: u32) -> Request {
        // SAFETY: a ticket of a new message names an open endpoint.
        let own = unsafe { (*message.ticket.bindings).index };
        Request {
            kind: kind::PUT,
            ack: ack::FULL,
            portal: message.kind.portal(message.endpoint),
            uid: u32::from(message.data.is_some()),
            initiator: self.source(own),
            match_bits: message.tag,
            header_data: message.data.unwrap_or(0),
            length: length as u64,
            operand: [token.into(), 0, 0, 0],
            ..Request::default()
        }
    }

    /// Withdraws a send. The program gets the error and keeps its buffer.
    fn withdraw(&mut self, number: usize, error: c_int) -> isize {
        self.take_send(number);
        -(error as isize)
    }

    /// Handles a reply that came within the call. Returns 0 or the error for the program.
    fn answered(&mut self, number: usize, delivery: &Delivery, command: &Command) -> isize {
        match delivery.fail {
            fail::OK if stays_here(command, delivery.list) => 0,
            // A fault in the receive's memory also ends the send: it is the receiver's error, and the receiver gets an
            // event.
            fail::OK | fail::SEGV => {
                self.end_send(number, 0);
                0
            }
            _ => {
                if let Some(Operation::Send(outgoing)) = self.operations.get(number) {
                    self.refused(outgoing.peer, command.request.portal, delivery);
                }
                self.withdraw(number, EAGAIN)
            }
        }
    }

    /// Removes the record of a finished send and unlinks its token entry.
    pub(crate) fn take_send(&mut self, number: usize) -> Option<Ticket> {
        if !matches!(self.operations.get(number), Some(Operation::Send(_))) {
            return None;
        }
        let Operation::Send(outgoing) = self.operations.remove(number) else { return None };
        self.outstanding -= 1;
        self.unlink(outgoing.entry);
        if let (Some(units), Some((_, nla))) = (&mut self.units, &outgoing.region) {
            units.forget_source(outgoing.target.0, *nla);
        }
        Some(outgoing.ticket)
    }

    /// The target has fetched the payload that waited here.
    pub(crate) fn send_fetched(&mut self, number: usize) {
        match self.operations.get_mut(number) {
            Some(Operation::Send(outgoing)) if outgoing.stage == Stage::UnderWay => outgoing.fetched = true,
            _ => self.end_send(number, 0),
        }
    }

    /// Fails the sends whose header is at a process that has ended.
    pub(crate) fn fail_lost_sends(&mut self) {
        if self.lost_sends().is_empty() {
            return;
        }
        // The process may have fetched a payload before it ended. Its event is in the queue by now, so take that first.
        self.take_events();
        for number in self.lost_sends() {
            self.end_send(number, EHOSTDOWN);
        }
    }

    fn lost_sends(&self) -> Vec<usize> {
        // Most sends wait for the same process, so the result of the last check is kept.
        let mut last = ((0, 0), true);
        let mut is_lost = |target: (u64, u64)| {
            if last.0 != target {
                last = (target, self.interface.look_alive(target.0, target.1));
            }
            !last.1
        };
        self.operations
            .iter()
            .filter_map(|(number, operation)| match operation {
                // Sends in other stages get a reply, or find out that the process has ended when they are sent again.
                Operation::Send(outgoing) if outgoing.stage == Stage::Waits && is_lost(outgoing.target) => Some(number),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn new_token(&mut self) -> u32 {
        let token = self.token_next;
        self.token_next = self.token_next.wrapping_add(1).max(1);
        token
    }
}

/// Whether the end of a send is a completion or a count.
#[inline(always)]
pub(crate) fn reports(ticket: &Ticket) -> bool {
    // SAFETY: a ticket of a send that has not ended names an open endpoint.
    ticket.wanted || unsafe { (*ticket.bindings).counter_for(ticket.flags) != NONE }
}

#[inline(always)]
unsafe fn copy_in(pieces: &[iovec], to: *mut u8) {
    // SAFETY: the only caller passes the program's readable pieces, and a slot with room for the sum of their lengths.
    unsafe {
        match pieces {
            [piece] => copy::short(piece.iov_base.cast(), to, piece.iov_len),
            _ => gather(pieces, to),
        }
    }
}
