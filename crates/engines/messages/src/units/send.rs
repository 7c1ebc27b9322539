// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sending over the units: tiny, small, medium, long.
//!
//! | row | the sender | completes when |
//! |---|---|---|
//! | tiny | sends one VELO message with the payload | it has left; taken, if the send ends with its delivery |
//! | small | sends several VELO messages | the same |
//! | medium | copies the payload to staging memory, and puts it into its slot of the peer's bounce memory | the same |
//! | long | registers the payload, and sends its address in a VELO message | the responder has notified the last get |
//!
//! A message without room is refused, and nothing has changed.

use std::sync::Arc;

use selvedge_nic::rma::{Operation as Rma, code, spec};
use selvedge_nic::tables::Command;

use super::Units;
use super::credits::{BOUNCED, mailed};
use super::limits::slots_of;
use super::memory::Registered;
use super::wire::{self, BOUNCE_HEADING_BYTES, Counts, Fragment, Heading, Request, VELO_BYTES, mtt};
use crate::error::Refusal;
use crate::in_flight::InFlight;
use crate::message::{Message, Outgoing, SendEnd, Stage, envelope};
use crate::peers::Peers;
use crate::pieces::gather;
use crate::protocols::Protocol;
use selvedge_process::device::DeviceError;

impl Units {
    /// Sends a message by one of the four rows.
    pub fn send(
        &mut self,
        flight: &mut InFlight,
        message: &Message<'_>,
        (length, row): (usize, Protocol),
    ) -> Result<(), Refusal> {
        // SAFETY: a ticket of a new message names an open endpoint.
        let ring_flags = unsafe { (*message.ticket.bindings).ring_flags };
        let portal = message.kind.portal(message.endpoint) as u8;
        let heading = Heading {
            envelope: envelope(portal, ring_flags, message.tag, message.data),
            reports: message.end == SendEnd::Delivered && message.ticket.reports(),
        };
        let counts = match row {
            Protocol::Tiny if heading.bytes() + length <= VELO_BYTES => {
                self.send_tiny(flight, message, &heading, length)?
            }
            Protocol::Tiny | Protocol::Small => self.send_small(flight, message, &heading, length)?,
            Protocol::Medium => self.send_medium(flight, message, &heading, length)?,
            _ => return self.send_long(flight, message, &heading, length),
        };
        let Some(outbound) = flight.peers.outbound(message.peer) else { return Ok(()) };
        let number = outbound.sent(counts);
        match heading.reports {
            true => outbound.undelivered.push_back((number, message.ticket)),
            false => flight.nic.sent(&message.ticket),
        }
        Ok(())
    }

    /// Finds room for a message at a peer. Returns peer id, message number, and bounce slot address.
    fn room_at(&self, peers: &mut Peers, peer: u32, message: Counts) -> Result<(u64, u16, u64), Refusal> {
        let id = peers.get(peer).map_or(0, |peer| peer.id);
        let outbound = peers.outbound(peer).ok_or(Refusal::Invalid)?;
        match outbound.has_room(message) {
            true => {
                let slot = u64::from(outbound.bounce()) * self.port.slot_bytes as u64;
                Ok((id, outbound.number(), outbound.nla + slot))
            }
            false => Err(Refusal::NoRoom),
        }
    }

    fn send_tiny(
        &mut self,
        flight: &mut InFlight,
        message: &Message<'_>,
        heading: &Heading,
        length: usize,
    ) -> Result<Counts, Refusal> {
        let mut fragment = Fragment::new(heading);
        // SAFETY: the program's pieces are readable, and the caller has checked that the fragment has room for all of them.
        unsafe { gather(message.pieces, fragment.bytes.as_mut_ptr().add(fragment.length)) };
        fragment.length += length;
        let room = mailed(slots_of(fragment.length));
        let (id, number, _) = self.room_at(&mut flight.peers, message.peer, room)?;
        self.mail(id, (mtt::TINY, wire::tag(number, heading.is_short())), &fragment.bytes[..fragment.length])?;
        Ok(room)
    }

    fn send_small(
        &mut self,
        flight: &mut InFlight,
        message: &Message<'_>,
        heading: &Heading,
        length: usize,
    ) -> Result<Counts, Refusal> {
        let mut first = Fragment::new(heading);
        let segments = wire::segments(first.length, length);
        first.push(wire::small_word(length, segments));
        let mut bytes = vec![0u8; length];
        // SAFETY: the program's pieces are readable, and the buffer is as long as their sum.
        unsafe { gather(message.pieces, bytes.as_mut_ptr()) };
        let (begin, rest) = bytes.split_at(first.room().min(length));
        first.bytes[first.length..first.length + begin.len()].copy_from_slice(begin);
        let slots: u16 = rest.chunks(VELO_BYTES).map(|segment| slots_of(segment.len())).sum();
        let room = mailed(slots_of(VELO_BYTES) + slots);
        let (id, number, _) = self.room_at(&mut flight.peers, message.peer, room)?;
        let tag = wire::tag(number, heading.is_short());
        self.mail(id, (mtt::SMALL, tag), &first.bytes)?;
        for segment in rest.chunks(VELO_BYTES) {
            // The first segment has left, so the others must leave, too. Poll until the unit has room.
            while let Err(Refusal::NoRoom) = self.mail(id, (mtt::SMALL, tag), segment) {
                flight.nic.interface.poll();
            }
        }
        Ok(room)
    }

    fn send_medium(
        &mut self,
        flight: &mut InFlight,
        message: &Message<'_>,
        heading: &Heading,
        length: usize,
    ) -> Result<Counts, Refusal> {
        let (id, number, write) = self.room_at(&mut flight.peers, message.peer, BOUNCED)?;
        let slot = self.port.take_staging().ok_or(Refusal::NoRoom)?;
        let begin = wire::encode_bounced(heading, number, length);
        // SAFETY: the slot was free, so only this function uses it. It has room for the heading and for the longest medium message. The
        // program's pieces are readable.
        unsafe {
            let to = slot.start as *mut u8;
            std::ptr::copy_nonoverlapping(begin.as_ptr(), to, begin.len());
            gather(message.pieces, to.add(begin.len()));
        }
        flight.nic.interface.charge_copy(length as u64);
        let bytes = (BOUNCE_HEADING_BYTES + length) as u32;
        let put = Rma::Put { read: slot.nla, write, bytes };
        if self.port.post(id, code::BT_PUT, spec::REQUESTER | spec::COMPLETER, put).is_err() {
            self.port.give_staging(slot.nla);
            return Err(Refusal::NoRoom);
        }
        Ok(BOUNCED)
    }

    fn send_long(
        &mut self,
        flight: &mut InFlight,
        message: &Message<'_>,
        heading: &Heading,
        length: usize,
    ) -> Result<(), Refusal> {
        let mut fragment = Fragment::new(heading);
        let room = mailed(slots_of(fragment.length + 24));
        let (id, number, _) = self.room_at(&mut flight.peers, message.peer, room)?;
        if !flight.operations.has_room_for_send() {
            return Err(Refusal::NoRoom);
        }
        let gathered = message.gathered(length);
        let start = match &gathered {
            Some(bytes) => bytes.as_ptr() as u64,
            None => message.pieces.first().map_or(0, |piece| piece.iov_base as u64),
        };
        let token = flight.operations.new_token();
        let slot = flight.operations.next_number();
        let region = self.register(flight, (id, slot), (start, length))?;
        let nla = region.as_ref().map_or(0, |(_, nla)| *nla);
        let request = Request { nla, length: length as u64, token };
        request.words().into_iter().for_each(|word| fragment.push(word));
        let tag = wire::tag(number, heading.is_short());
        if let Err(refused) = self.mail(id, (mtt::LONG, tag), &fragment.bytes[..fragment.length]) {
            flight.operations.sources.remove(id, nla);
            return Err(refused);
        }
        let Some(outbound) = flight.peers.outbound(message.peer) else { return Ok(()) };
        outbound.sent(room);
        let mut ticket = message.ticket;
        if heading.reports {
            // The report ends the send. The record keeps the memory.
            outbound.undelivered.push_back((number, ticket));
            ticket.bindings = std::ptr::null_mut();
        }
        let owner = flight.peers.get(message.peer).map_or(0, |peer| peer.owner);
        let command = Command { target: id, ..flight.command(message, length, 0) };
        flight.operations.insert_send(Outgoing {
            ticket,
            entry: None,
            region,
            token,
            _bytes: gathered,
            target: (id, owner),
            peer: message.peer,
            command,
            stage: Stage::Waits,
            sequence: 0,
            fetched: false,
            is_injected: message.inject,
        });
        Ok(())
    }

    fn mail(&self, id: u64, (mtt, tag): (u8, u8), bytes: &[u8]) -> Result<(), Refusal> {
        self.port.mail(id, mtt, tag, bytes).map_err(|_| Refusal::NoRoom)
    }

    /// Registers memory of the program for gets of a peer. `None`: there are no bytes.
    fn register(
        &mut self,
        flight: &mut InFlight,
        operation: (u64, usize),
        (start, length): (u64, usize),
    ) -> Result<Option<(Arc<Registered>, u64)>, Refusal> {
        if length == 0 {
            return Ok(None);
        }
        let sources = &mut flight.operations.sources;
        let registered = self.port.register(sources, operation, (start, length as u64), false);
        registered.map(Some).map_err(|error| match error {
            DeviceError::TablesFull { .. } if self.port.can_register(length as u64) => Refusal::NoRoom,
            DeviceError::TablesFull { .. } => Refusal::TooLong,
            _ => Refusal::NotMapped,
        })
    }
}
