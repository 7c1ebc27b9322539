// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sending over the units: tiny, small, medium, long.
//!
//! | row | what the sender does | it is done when |
//! |---|---|---|
//! | tiny | one VELO message with the payload | it has left; taken, if the send is to end with its delivery |
//! | small | several VELO messages | the same |
//! | medium | copies the payload to staging memory, and puts it into its slot of the peer's bounce memory | the same |
//! | long | registers the payload, and sends its address in a VELO message | the responder has notified the last get |
//!
//! A message for which there is no room is refused, and nothing has changed.

use std::sync::Arc;

use selvedge_nic::rma::{Operation as Rma, code, spec};
use selvedge_nic::tables::Command;

use super::control::Way;
use super::fetch::End;
use super::link::{BOUNCED, Outbound, mailed};
use super::memory::{Block, Registered};
use super::wire::{self, BOUNCE_HEADING_BYTES, Counts, Fragment, Heading, Request, VELO_BYTES, mtt};
use super::{STAGING_SLOTS, Units, VPID, slots_of};
use crate::flags::{EAGAIN, EFAULT, EINVAL, EMSGSIZE};
use crate::message::{Message, Outgoing, SendEnd, Stage, envelope};
use crate::operation::Operation;
use crate::peers::Link;
use crate::pieces::gather;
use crate::protocols::Protocol;
use crate::send::reports;
use crate::transport::{OUTSTANDING, Transport};
use selvedge_process::device::DeviceError;
use selvedge_process::device::staging::{Staging, StagingSlot};

/// Why a row does not take a message now.
enum Refused {
    /// There is no room. Nothing has changed.
    NoRoom,
    /// An error for the program.
    Error(std::ffi::c_int),
}

impl Transport {
    /// Sends a message that goes through no ring, behind the accesses that it may not overtake. Returns 0 or a negative error. After
    /// `-EAGAIN` nothing has happened.
    pub(crate) fn send_behind_accesses(&mut self, message: &Message<'_>, length: usize) -> isize {
        if !self.admits_message(message) {
            return -(EAGAIN as isize);
        }
        // The peer may have answered meanwhile, and take other rows now.
        match self.peers.get(message.peer).map(|peer| peer.protocols.of(length, message.end)) {
            Some(row @ (Protocol::Tiny | Protocol::Small | Protocol::Medium | Protocol::Long)) => {
                self.send_over_units(message, length, row)
            }
            _ => self.send_directly(message, length),
        }
    }

    /// Sends a message by one of the four rows. Returns 0 or a negative error. After `-EAGAIN` nothing has happened.
    fn send_over_units(&mut self, message: &Message<'_>, length: usize, row: Protocol) -> isize {
        let portal = message.kind.portal(message.endpoint);
        for has_polled in [false, true] {
            match self.way_to(message.peer, Some(portal)) {
                Way::Packets => return self.send_directly(message, length),
                Way::Units => match self.send_by(message, length, row) {
                    Ok(()) => {
                        self.polling.sent = true;
                        return 0;
                    }
                    Err(Refused::Error(error)) => return -(error as isize),
                    Err(Refused::NoRoom) => {}
                },
                Way::Neither => {}
            }
            if !has_polled {
                self.progress();
            }
        }
        -(EAGAIN as isize)
    }

    fn send_by(&mut self, message: &Message<'_>, length: usize, row: Protocol) -> Result<(), Refused> {
        // SAFETY: a ticket of a new message names an open endpoint.
        let ring_flags = unsafe { (*message.ticket.bindings).ring_flags };
        let portal = message.kind.portal(message.endpoint) as u8;
        let heading = Heading {
            envelope: envelope(portal, ring_flags, message.tag, message.data),
            reports: message.end == SendEnd::Delivered && reports(&message.ticket),
        };
        let counts = match row {
            Protocol::Tiny if heading.bytes() + length <= VELO_BYTES => self.send_tiny(message, &heading, length)?,
            Protocol::Tiny | Protocol::Small => self.send_small(message, &heading, length)?,
            Protocol::Medium => self.send_medium(message, &heading, length)?,
            _ => return self.send_long(message, &heading, length),
        };
        let Some(outbound) = self.outbound(message.peer) else { return Ok(()) };
        let number = outbound.sent(counts);
        match heading.reports {
            true => outbound.undelivered.push_back((number, message.ticket)),
            false => self.sent(&message.ticket),
        }
        Ok(())
    }

    fn outbound(&mut self, number: u32) -> Option<&mut Outbound> {
        match self.peers.get_mut(number).map(|peer| &mut peer.link) {
            Some(Link::Open(outbound)) => Some(outbound),
            _ => None,
        }
    }

    /// What a row needs of a peer: its id, the number of the next message, and its bounce slot. None: there is no room for a message
    /// of this size.
    fn admitted(&mut self, peer: u32, message: Counts) -> Result<(u64, u16, u64), Refused> {
        let id = self.peers.get(peer).map_or(0, |peer| peer.id);
        let slot_bytes = self.units.as_ref().map_or(0, |units| units.slot_bytes) as u64;
        let outbound = self.outbound(peer).ok_or(Refused::Error(EINVAL))?;
        match outbound.has_room(message) {
            true => Ok((id, outbound.number(), outbound.nla + u64::from(outbound.bounce()) * slot_bytes)),
            false => Err(Refused::NoRoom),
        }
    }

    fn send_tiny(&mut self, message: &Message<'_>, heading: &Heading, length: usize) -> Result<Counts, Refused> {
        let mut fragment = Fragment::new(heading);
        // SAFETY: the program's pieces are readable, and the caller has checked that the fragment has room for all of them.
        unsafe { gather(message.pieces, fragment.bytes.as_mut_ptr().add(fragment.length)) };
        fragment.length += length;
        let room = mailed(slots_of(fragment.length));
        let (id, number, _) = self.admitted(message.peer, room)?;
        self.mail(id, mtt::TINY, wire::tag(number, heading.is_short()), &fragment.bytes[..fragment.length])?;
        Ok(room)
    }

    fn send_small(&mut self, message: &Message<'_>, heading: &Heading, length: usize) -> Result<Counts, Refused> {
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
        let (id, number, _) = self.admitted(message.peer, room)?;
        let tag = wire::tag(number, heading.is_short());
        self.mail(id, mtt::SMALL, tag, &first.bytes)?;
        for segment in rest.chunks(VELO_BYTES) {
            // The first segment has left, so the others do: the unit takes them as it has room.
            while let Err(Refused::NoRoom) = self.mail(id, mtt::SMALL, tag, segment) {
                self.interface.poll();
            }
        }
        Ok(room)
    }

    fn mail(&self, id: u64, mtt: u8, tag: u8, bytes: &[u8]) -> Result<(), Refused> {
        match &self.units {
            Some(units) => units.mail(id, mtt, tag, bytes).map_err(|_| Refused::NoRoom),
            None => Err(Refused::Error(EINVAL)),
        }
    }

    fn send_medium(&mut self, message: &Message<'_>, heading: &Heading, length: usize) -> Result<Counts, Refused> {
        let (id, number, write) = self.admitted(message.peer, BOUNCED)?;
        let units = self.units.as_mut().ok_or(Refused::Error(EINVAL))?;
        let slot = units.take_staging()?;
        let begin = wire::encode_bounced(heading, number, length);
        // SAFETY: the slot was free, so only this function uses it. It has room for the heading and for the longest medium message. The
        // program's pieces are readable.
        unsafe {
            let to = slot.start as *mut u8;
            std::ptr::copy_nonoverlapping(begin.as_ptr(), to, begin.len());
            gather(message.pieces, to.add(begin.len()));
        }
        self.interface.charge_copy(length as u64);
        let bytes = (BOUNCE_HEADING_BYTES + length) as u32;
        let put = Rma::Put { read: slot.nla, write, bytes };
        if units.post(id, code::BT_PUT, spec::REQUESTER | spec::COMPLETER, put).is_err() {
            units.give_staging(slot.nla);
            return Err(Refused::NoRoom);
        }
        Ok(BOUNCED)
    }

    fn send_long(&mut self, message: &Message<'_>, heading: &Heading, length: usize) -> Result<(), Refused> {
        let mut fragment = Fragment::new(heading);
        let room = mailed(slots_of(fragment.length + 24));
        let (id, number, _) = self.admitted(message.peer, room)?;
        if self.outstanding >= OUTSTANDING {
            return Err(Refused::NoRoom);
        }
        let gathered = self.gathered(message, length);
        let start = match &gathered {
            Some(bytes) => bytes.as_ptr() as u64,
            None => message.pieces.first().map_or(0, |piece| piece.iov_base as u64),
        };
        let token = self.new_token();
        let slot = self.operations.vacant_key();
        let region = self.register(id, start, length, slot)?;
        let nla = region.as_ref().map_or(0, |(_, nla)| *nla);
        let request = Request { nla, length: length as u64, token };
        request.words().into_iter().for_each(|word| fragment.push(word));
        let tag = wire::tag(number, heading.is_short());
        if let Err(refused) = self.mail(id, mtt::LONG, tag, &fragment.bytes[..fragment.length]) {
            if let Some(units) = &mut self.units {
                units.forget_source(id, nla);
            }
            return Err(refused);
        }
        let Some(outbound) = self.outbound(message.peer) else { return Ok(()) };
        outbound.sent(room);
        let mut ticket = message.ticket;
        if heading.reports {
            // The report ends the send. The record keeps the memory.
            outbound.undelivered.push_back((number, ticket));
            ticket.bindings = std::ptr::null_mut();
        }
        let owner = self.peers.get(message.peer).map_or(0, |peer| peer.owner);
        let command = Command { target: id, ..self.command(message, length, 0) };
        self.outstanding += 1;
        self.operations.insert(Operation::Send(Box::new(Outgoing {
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
        })));
        Ok(())
    }

    /// Registers memory of the program for gets of a peer. None: there are no bytes.
    fn register(
        &mut self,
        peer: u64,
        start: u64,
        length: usize,
        number: usize,
    ) -> Result<Option<(Arc<Registered>, u64)>, Refused> {
        let Some(units) = self.units.as_mut().filter(|_| length != 0) else { return Ok(None) };
        units.span(End::Source, peer, (start, length as u64), number).map(Some).map_err(|error| match error {
            DeviceError::TablesFull { .. } if units.can_register(length as u64) => Refused::NoRoom,
            DeviceError::TablesFull { .. } => Refused::Error(EMSGSIZE),
            _ => Refused::Error(EFAULT),
        })
    }

    /// The sends whose payload waits for gets.
    pub(super) fn outgoing_over_units(&self) -> impl Iterator<Item = &Outgoing> {
        self.operations.iter().filter_map(|(_, operation)| match operation {
            Operation::Send(outgoing) if outgoing.token != 0 => Some(&**outgoing),
            _ => None,
        })
    }

    /// The numbers of the sends whose payload waits for gets, and for which `picks` is true.
    pub(super) fn sends_over_units(&self, picks: impl Fn(&Outgoing) -> bool) -> impl Iterator<Item = usize> {
        self.operations.iter().filter_map(move |(number, operation)| match operation {
            Operation::Send(outgoing) if outgoing.token != 0 && picks(outgoing) => Some(number),
            _ => None,
        })
    }
}

impl Units {
    /// Whether the address tables are large enough for so many bytes, if nothing else is registered.
    pub(super) fn can_register(&self, bytes: u64) -> bool {
        bytes < u64::from(self.interface().limits().address_tables) << 30
    }

    /// Takes a slot of staging memory, which is made at the first use.
    fn take_staging(&mut self) -> Result<StagingSlot, Refused> {
        if self.staging.is_none() {
            let block = Block::new(&self.device, VPID, STAGING_SLOTS as usize * self.slot_bytes).map_err(|error| {
                log::error!("there is no memory to send from: {error}");
                Refused::NoRoom
            })?;
            let staging = Staging::new(block.start(), block.nla(), self.slot_bytes as u64, STAGING_SLOTS);
            self.staging = Some((staging, block));
        }
        self.staging.as_mut().and_then(|(staging, _)| staging.take()).ok_or(Refused::NoRoom)
    }

    /// The requester has read this address. False: it is not in staging memory.
    pub(super) fn give_staging(&mut self, nla: u64) -> bool {
        self.staging.as_mut().is_some_and(|(staging, _)| staging.give_back(nla))
    }
}
