// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sending messages.
//!
//! A small message is enqueued in the target's ring, and the send is then over. Any other message is delivered by the
//! sender, which runs the target's NIC and copies the payload once, into the posted receive. If no receive is posted,
//! the header becomes an unexpected header at the target. The payload stays here under a token, which the header
//! carries, until the target fetches it.

use std::ffi::c_int;

use selvedge_nic::handle::NONE;
use selvedge_nic::portals::{Delivery, EntrySpec, ack, fail, list, options};
use selvedge_nic::tables::{Command, Request, Side as Memory, kind};
use selvedge_shm::direct::{RING_HAS_DATA, Told};
use selvedge_shm::os::copy;
use selvedge_shm::rings::Envelope;

use super::flow::Stage;
use super::peers::Lane;
use super::{Core, Kind, OUTSTANDING, Operation, PORTAL_TOKEN, Peer, Side, Ticket, gather, total};
use crate::constants::*;
use crate::endpoint::Endpoint;
use crate::ffi::{fi_cq_tagged_entry, iovec};
use crate::info::{INJECT_BYTES, MESSAGE_BYTES_MAX};

/// The point at which a send completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendEnd {
    /// The message has left (`FI_INJECT_COMPLETE`, `FI_TRANSMIT_COMPLETE`).
    Sent,
    /// The payload, if any, is in the receive's buffer (`FI_DELIVERY_COMPLETE`).
    Delivered,
    /// The message is matched with a receive (`FI_MATCH_COMPLETE`).
    Matched,
}

impl SendEnd {
    /// The end that an operation's flags ask for.
    pub fn of(flags: u64) -> SendEnd {
        match flags {
            _ if flags & MATCH_COMPLETE != 0 => SendEnd::Matched,
            _ if flags & DELIVERY_COMPLETE != 0 => SendEnd::Delivered,
            _ => SendEnd::Sent,
        }
    }
}

/// A message that the program sends.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    pub kind: Kind,
    /// The target: the number of a peer, and the number of one of its endpoints.
    pub peer: u32,
    pub endpoint: u16,
    pub tag: u64,
    /// Data for the target's completion.
    pub data: Option<u64>,
    pub pieces: &'a [iovec],
    pub ticket: Ticket,
    /// The program may reuse its buffers when the call returns.
    pub inject: bool,
    pub end: SendEnd,
}

/// A send that has not ended yet.
pub struct Outgoing {
    pub ticket: Ticket,
    /// The match entry through which the target fetches the payload.
    pub entry: Option<u32>,
    /// A copy of the payload: gathered from several pieces, or injected.
    _bytes: Option<Box<[u8]>>,
    /// The process that gets the header.
    pub target: (u64, u64),
    pub peer: u32,
    pub command: Command,
    pub stage: Stage,
    /// Its sequence number among the packets to the same portal table entry.
    pub sequence: u64,
    /// The payload was fetched before the reply came.
    pub fetched: bool,
    pub is_injected: bool,
}

impl Outgoing {
    /// Whether its endpoint has been closed.
    pub fn is_forgotten(&self) -> bool {
        self.ticket.endpoint.is_null()
    }
}

/// The envelope of a message of one of our endpoints in a ring.
#[inline(always)]
pub fn envelope(portal: u8, ring_flags: u8, tag: u64, data: Option<u64>) -> Envelope {
    let flags = if data.is_some() { ring_flags | RING_HAS_DATA } else { ring_flags };
    Envelope { portal, flags, match_bits: tag, header_data: data.unwrap_or(0) }
}

/// Classes of message lengths. Each class has its own code for rings.
pub mod length_of {
    use selvedge_shm::os::copy;
    use selvedge_shm::rings::INLINE_BYTES;

    /// Nothing, half a word or a word.
    pub const A_WORD: u8 = 0;
    /// As much as fits into one slot.
    pub const A_CELL: u8 = 1;
    /// Longer than a slot, and short enough for a ring even if a receive is posted in directly mapped memory.
    pub const MORE: u8 = 2;

    /// Whether a length belongs to the class `LENGTH`.
    #[inline(always)]
    pub fn is<const LENGTH: u8>(bytes: usize) -> bool {
        match LENGTH {
            A_WORD => copy::is_word(bytes),
            A_CELL => bytes <= INLINE_BYTES,
            _ => bytes > INLINE_BYTES,
        }
    }
}

impl Core {
    /// Sends a message. Returns 0 or a negative error. After `-FI_EAGAIN` nothing has happened, and the program tries
    /// again.
    #[inline]
    pub fn send(&mut self, message: &Message<'_>) -> isize {
        let length = total(message.pieces);
        if length <= self.lane_max && message.end == SendEnd::Sent {
            if length > self.small_max && self.put_in_place(message, length) {
                return 0;
            }
            let Core { peers, interface, own_lane, round, sent, .. } = self;
            let Some(peer) = peers.get_mut(message.peer as usize) else { return -(EINVAL as isize) };
            if peer.has_to_ask() {
                peer.open_lane(interface);
                if let (true, Lane::Open(lane)) = (peer.id == interface.id(), &peer.lane) {
                    *own_lane = 1 << lane.index();
                }
            }
            if let Lane::Open(lane) = &mut peer.lane {
                // SAFETY: a ticket of a new message names an open endpoint.
                let ring_flags = unsafe { (*message.ticket.endpoint).ring_flags };
                let portal = message.kind.portal(message.endpoint) as u8;
                let envelope = envelope(portal, ring_flags, message.tag, message.data);
                let pieces = message.pieces;
                // SAFETY: the program's pieces are readable for their lengths, and the ring offers room for `length`
                // bytes, their sum.
                if lane.is_open() && lane.enqueue_with(&envelope, length, *round, |to| unsafe { copy_in(pieces, to) }) {
                    *sent = true;
                    self.sent(&message.ticket);
                    return 0;
                }
            }
        }
        self.send_directly(message, length)
    }

    /// Enqueues a message in the target's ring. This needs a ring with room and a message of the class `LENGTH`
    /// ([`length_of`]). The send is then over. Returns false if nothing has happened; the caller then uses
    /// [`Core::send`].
    ///
    /// The envelope is built only when the message is sure to be enqueued. Until then the registers hold the caller's
    /// arguments.
    ///
    /// # Safety
    /// `from` is readable for `length` bytes.
    #[inline(always)]
    pub unsafe fn leave<const LENGTH: u8>(
        &mut self,
        peer: u32,
        (from, length): (*const u8, usize),
        envelope: impl FnOnce() -> Envelope,
    ) -> bool {
        let longest = if LENGTH == length_of::MORE { self.long_max } else { self.cell_max };
        if !length_of::is::<LENGTH>(length) || length > longest {
            return false;
        }
        let Some(Peer { lane: Lane::Open(lane), .. }) = self.peers.get_mut(peer as usize) else { return false };
        if !lane.is_open() || (LENGTH != length_of::MORE && !lane.has_room()) {
            return false;
        }
        let envelope = envelope();
        // SAFETY: by this function's contract `from` is readable for `length` bytes, and `LENGTH` allows this length.
        unsafe {
            match LENGTH {
                length_of::A_WORD => lane.enqueue_word(&envelope, from, length, self.round),
                length_of::A_CELL => lane.enqueue(&envelope, from, length, self.round),
                _ if !lane.enqueue_long(&envelope, from, length, self.round) => return false,
                _ => {}
            }
        }
        self.sent = true;
        true
    }

    /// Completes a send.
    #[inline(always)]
    pub(super) fn sent(&self, ticket: &Ticket) {
        // SAFETY: a ticket of a send that ends within its call names an open endpoint.
        let counts = unsafe { !(*ticket.endpoint).counter_for(ticket.flags).is_null() };
        if ticket.wanted || counts {
            self.complete(ticket, Side::Transmit, own_entry(ticket), ADDR_ANY);
        }
    }

    /// Copies a message straight into a posted receive whose memory is directly mapped. This takes one copy instead of
    /// two, and the receiver copies nothing. Returns false if nothing has happened.
    #[inline(never)]
    fn put_in_place(&mut self, message: &Message<'_>, length: usize) -> bool {
        let portal = message.kind.portal(message.endpoint);
        let ([piece], Some(epoch)) = (message.pieces, self.flows.epoch_now(message.peer, portal)) else { return false };
        let mut request = self.request(message, length, 0);
        request.operand[1] = epoch;
        let source = Memory {
            start: piece.iov_base as u64,
            options: options::MD_EVENT_SEND_DISABLE,
            queue: self.own_queue,
            ..Memory::NOWHERE
        };
        let Some(peer) = self.peers.get_mut(message.peer as usize) else { return false };
        // Without a ring the message takes the direct path anyway.
        if peer.lane().is_none_or(|lane| !lane.is_open()) || !peer.trial.is_due() {
            return false;
        }
        let command = Command { request, target: peer.id, user_ptr: 0, source, sink: Memory::NOWHERE };
        let told = self.interface.deliver_in_place(&command, peer.owner, peer.lane());
        // A fault in the receive's memory also ends the send: it is the receiver's error, and the receiver gets an
        // event.
        let done = matches!(told, Some(Told::Done(Delivery { fail: fail::OK | fail::SEGV, .. })));
        peer.trial.ended(done);
        if done {
            self.sent(&message.ticket);
        }
        done
    }

    #[inline(never)]
    fn send_directly(&mut self, message: &Message<'_>, length: usize) -> isize {
        if length > MESSAGE_BYTES_MAX {
            return -(EMSGSIZE as isize);
        }
        let Some(peer) = self.peers.get(message.peer as usize) else { return -(EINVAL as isize) };
        let target = (peer.id, peer.owner);
        // With delivery completion the payload stays here until the receive fetches it: a copy in an overflow buffer of
        // the target's NIC is not a delivery. In virtual time the target's reply reports the delivery.
        let stays = match message.end {
            SendEnd::Sent => false,
            SendEnd::Delivered => length != 0 && !self.is_simulated,
            SendEnd::Matched => true,
        };
        let large = length > self.lane_max.max(INJECT_BYTES) || stays;
        let portal = message.kind.portal(message.endpoint);
        let Some(epoch) = self.epoch_or_progress(message.peer, portal) else { return -(EAGAIN as isize) };
        let mut command = Command {
            request: self.request(message, length, 0),
            target: target.0,
            user_ptr: 0,
            source: Memory { options: options::MD_EVENT_SEND_DISABLE, queue: self.own_queue, ..Memory::NOWHERE },
            sink: Memory::NOWHERE,
        };
        command.request.operand[1] = epoch;
        if let (true, [piece]) = (large && !self.is_simulated, message.pieces) {
            // If a receive is posted, the send ends within this call and needs no record.
            let start = piece.iov_base as u64;
            let command = Command { source: Memory { start, ..command.source }, ..command };
            let told = self.interface.deliver_posted(&command, target.1, self.peers[message.peer as usize].lane());
            match told {
                None | Some(Told::Elsewhere) => {}
                // A fault in the receive's memory also ends the send: it is the receiver's error, and the receiver gets
                // an event.
                Some(Told::Done(Delivery { fail: fail::OK | fail::SEGV, .. })) => {
                    self.sent(&message.ticket);
                    return 0;
                }
                Some(Told::Done(delivery)) => {
                    self.refused(message.peer, portal, &delivery);
                    return -(EAGAIN as isize);
                }
                Some(Told::Full) => return -(EAGAIN as isize),
                Some(Told::Gone) => return -(EHOSTDOWN as isize),
                Some(Told::Memory) => return -(EFAULT as isize),
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
        // A message that leaves after this call must be in one piece. If it is injected, it must be in our memory.
        let gathered = (message.pieces.len() > 1 || (message.inject && length != 0)).then(|| {
            let mut bytes = Box::new_uninit_slice(length);
            // SAFETY: the program's pieces are readable, and the buffer is as long as their sum. `gather` writes all of
            // it.
            unsafe {
                gather(message.pieces, bytes.as_mut_ptr().cast());
                bytes.assume_init()
            }
        });
        let start = match &gathered {
            Some(bytes) => bytes.as_ptr() as u64,
            None => message.pieces.first().map_or(0, |piece| piece.iov_base as u64),
        };
        let token = if large { self.new_token() } else { 0 };
        let number = self.operations.vacant_key();
        (command.user_ptr, command.source.start) = (number as u64, start);
        command.request.operand[0] = token.into();
        self.outstanding += 1;
        self.operations.insert(Operation::Send(Box::new(Outgoing {
            ticket: message.ticket,
            entry: None,
            _bytes: gathered,
            target,
            peer: message.peer,
            command,
            stage: Stage::Waits,
            sequence: 0,
            fetched: false,
            is_injected: message.inject,
        })));
        if large {
            let entry = self.append(PORTAL_TOKEN, list::PRIORITY, &token_entry(token, start, length, number));
            let Some(entry) = entry else { return self.withdraw(number, EAGAIN) };
            if let Some(Operation::Send(outgoing)) = self.operations.get_mut(number) {
                outgoing.entry = Some(entry);
            }
        }
        match self.interface.deliver_now(&command, target.1, self.peers[message.peer as usize].lane()) {
            Told::Done(delivery) => self.answered(number, &delivery, &command),
            Told::Full => self.withdraw(number, EAGAIN),
            Told::Gone => self.withdraw(number, EHOSTDOWN),
            Told::Memory => self.withdraw(number, EFAULT),
            Told::Elsewhere => match self.send_packet(number) {
                Ok(()) => 0,
                Err(error) => self.withdraw(number, error),
            },
        }
    }

    /// The epoch for a message to a portal table entry ([`super::flow::Flows::epoch_now`]). If earlier messages go
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

    /// The request of a message to its target's NIC. With a token the target can fetch the payload from here.
    pub(super) fn request(&self, message: &Message<'_>, length: usize, token: u32) -> Request {
        // SAFETY: a ticket of a new message names an open endpoint.
        let own = unsafe { (*message.ticket.endpoint).index };
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
    pub(super) fn take_send(&mut self, number: usize) -> Option<Ticket> {
        if !matches!(self.operations.get(number), Some(Operation::Send(_))) {
            return None;
        }
        let Operation::Send(outgoing) = self.operations.remove(number) else { return None };
        self.outstanding -= 1;
        self.unlink(outgoing.entry);
        Some(outgoing.ticket)
    }

    /// The target has fetched the payload that waited here.
    pub(super) fn send_fetched(&mut self, number: usize) {
        match self.operations.get_mut(number) {
            Some(Operation::Send(outgoing)) if outgoing.stage == Stage::UnderWay => outgoing.fetched = true,
            _ => self.end_send(number, 0),
        }
    }

    /// Fails the sends whose header is at a process that has ended.
    pub(super) fn fail_lost_sends(&mut self) {
        // Most sends wait for the same process, so the result of the last check is kept.
        let mut last = ((0, 0), true);
        let mut is_lost = |target: (u64, u64)| {
            if last.0 != target {
                last = (target, self.interface.look_alive(target.0, target.1));
            }
            !last.1
        };
        let lost: Vec<usize> = self
            .operations
            .iter()
            .filter_map(|(number, operation)| match operation {
                // Sends in other stages get a reply, or find out that the process has ended when they are sent again.
                Operation::Send(outgoing) if outgoing.stage == Stage::Waits && is_lost(outgoing.target) => Some(number),
                _ => None,
            })
            .collect();
        for number in lost {
            self.end_send(number, EHOSTDOWN);
        }
    }

    pub(super) fn new_token(&mut self) -> u32 {
        let token = self.token_next;
        self.token_next = self.token_next.wrapping_add(1).max(1);
        token
    }
}

/// Whether a message that was delivered to a list has left its payload here, to be fetched.
pub(super) fn stays_here(command: &Command, delivered_to: u8) -> bool {
    delivered_to == list::OVERFLOW && command.request.token() != 0
}

/// The sender's own completion: its context and its flags.
pub fn own_entry(ticket: &Ticket) -> fi_cq_tagged_entry {
    fi_cq_tagged_entry { op_context: ticket.context, flags: ticket.flags, ..Default::default() }
}

/// The match entry through which the target fetches the payload, once, in any length.
pub(super) fn token_entry(token: u32, start: u64, length: usize, number: usize) -> EntrySpec {
    EntrySpec {
        options: options::OP_GET | options::USE_ONCE | options::EVENT_LINK_DISABLE | options::EVENT_UNLINK_DISABLE,
        start,
        length: length as u64,
        iov: NONE,
        iov_count: 0,
        match_bits: token.into(),
        ignore_bits: 0,
        source: 0,
        source_ignore: u64::MAX,
        min_free: 0,
        user_ptr: number as u64,
        counter: NONE,
        uid: u32::MAX,
    }
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

impl Endpoint {
    /// The ticket for a message of this endpoint.
    #[inline(always)]
    pub fn ticket(&mut self, context: *mut std::ffi::c_void, flags: u64, wanted: bool) -> Ticket {
        Ticket { endpoint: self.base, context, flags, wanted }
    }
}
