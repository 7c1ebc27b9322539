// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts whose payload comes after their header: first the match, then the bytes, last the events.
//!
//! A home that fetches a long payload from the sender's memory asks for its destination and fetches it directly there
//! ([`Target::place`]). When it is complete, or has failed, [`Target::finish_placed`] posts the events that
//! [`Nic::deliver`](crate::Nic::deliver) would have posted.
//!
//! Rules
//! 1. A put is placed only if an entry of the priority list takes it, into one piece of memory at the put's own offset.
//!    The home delivers any other put as a whole.
//! 2. Between the two steps the entry is held. A use-once entry has left its list and drains. Another stays in its
//!    list, and cannot be unlinked (`InUse`). A claimed header ([`super::receive`]) has the fields of the put, so a
//!    rebuilt table still has both.
//! 3. With flow control the event queue reserves room for the put's events. Without room it is refused, as a delivery
//!    would be.
//! 4. Only the owner places, as only the owner claims headers: if it dies, its NIC ends.

use super::constants::{fail, list, options};
use super::deliver::Target;
use super::delivery::Delivery;
use super::event::{Event, header_event};
use super::plan::Plan;
use super::search::Key;
use crate::bus::{Bus, Step};
use crate::handle::NONE;
use crate::registers::Register;
use crate::tables::{Request, entry, header, kind, portal, slot};

/// The decision on a payload that is still in its sender's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Fetch it, and deliver the request with it.
    Whole,
    /// No byte of it is needed: deliver the request without it.
    Nothing,
    /// No receive is posted for it. Retry when the program has had time to post one.
    NotYet,
    /// Fetch these bytes of it to this memory of the owner, then finish.
    At(Placed),
}

/// A put that has matched and waits for its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The claimed header: its index, and its generation in the upper half.
    pub header: u64,
    pub start: u64,
    pub bytes: u64,
    /// The entry stays, so the program may read its memory without waiting for an event. Bytes must not arrive there
    /// before those of earlier puts of the same sender.
    pub in_order: bool,
}

impl Target<'_, '_> {
    /// Matches a put whose payload is to come. `may_wait`: the caller can retry. `is_usable(address, bytes)`: whether
    /// the payload can be fetched to there.
    pub fn place<B: Bus>(
        self,
        bus: &mut B,
        request: &Request,
        may_wait: bool,
        is_usable: impl FnOnce(u64, u64) -> bool,
    ) -> Placement {
        // A tap is shown whole deliveries.
        if self.nic.tap.is_set() || request.kind != kind::PUT {
            return Placement::Whole;
        }
        let Some(record) = self.nic.tables.portals.get(request.portal as usize) else { return Placement::Nothing };
        let (queue, flow_controlled) = (record.queue, record.options & options::PT_FLOWCTRL != 0);
        let is_late = flow_controlled && request.epoch() != 0 && request.epoch() != record.epoch();
        if record.status != portal::ENABLED || is_late {
            return Placement::Nothing;
        }
        let key = Key::from(request);
        let Some(found) = self.nic.match_queue().find_entry(bus, request.portal, usize::from(list::PRIORITY), &key)
        else {
            if may_wait {
                return Placement::NotYet;
            }
            // A put with a token needs no payload here: the program fetches it when it takes the header.
            let is_dropped =
                self.nic.match_queue().find_entry(bus, request.portal, usize::from(list::OVERFLOW), &key).is_none();
            return if is_dropped || request.token() != 0 { Placement::Nothing } else { Placement::Whole };
        };
        let record = self.nic.tables.entries[found.entry as usize];
        let is_allowed = record.uid == u32::MAX || record.uid == request.uid;
        if !is_allowed || record.options & options::OP_PUT == 0 {
            return Placement::Nothing;
        }
        let plan = Plan::new(&record, list::PRIORITY, request);
        if plan.mlength == 0 || flow_controlled && self.nic.queues().room(queue) < plan.events {
            return Placement::Nothing;
        }
        let start = record.start.wrapping_add(plan.offset);
        let is_plain = record.iov == NONE && record.options & options::MANAGE_LOCAL == 0;
        if !is_plain || !is_usable(start, plan.mlength) {
            return Placement::Whole;
        }
        let Some(index) = self.nic.lists().take_header(found.entry, start, plan.mlength, request, header::CLAIMED)
        else {
            return Placement::Whole;
        };
        if flow_controlled {
            self.nic.queues().hold_room(queue, plan.events);
        }
        if plan.unlinks {
            bus.charge(Step::TableAccess);
            self.nic.lists().auto_unlink(found.entry);
        }
        let generation = slot::generation(self.nic.tables.headers[index as usize].slot);
        let header = u64::from(index) | u64::from(generation) << 32;
        Placement::At(Placed { header, start, bytes: plan.mlength, in_order: !plan.unlinks })
    }

    /// Ends a placed put: its payload is there, or `fail` is the reason for which it never will be. The entry is used
    /// either way. None: there is no such put.
    pub fn finish_placed<B: Bus>(self, bus: &mut B, placed: u64, fail: u8) -> Option<Delivery> {
        let index = placed as u32;
        let header = *self.nic.tables.headers.get(index as usize)?;
        if header.slot != slot::word((placed >> 32) as u32, header::CLAIMED) {
            return None;
        }
        let record = *self.nic.tables.entries.get(header.entry as usize)?;
        let unlinks = slot::status(record.slot) == entry::DRAINING;
        let mlength = if fail == fail::OK { header.mlength } else { 0 };
        let portal = self.nic.portal(header.portal.into()).ok().copied();
        let queue = portal.map_or(NONE, |portal| portal.queue);
        if portal.is_some_and(|portal| portal.options & options::PT_FLOWCTRL != 0) {
            self.nic.queues().give_room_back(queue, Plan::events(record.options, unlinks));
        }
        let event = Event { mlength, fail, ..header_event(&header, record.user_ptr) };
        bus.charge(Step::Transfer(mlength));
        self.nic.target().report(bus, queue, &record, unlinks, &event);
        if unlinks {
            // The entry was in the priority list: nothing follows its unlink.
            self.nic.tables.headers[index as usize].entry = NONE;
            self.nic.lists().free_entry(header.entry);
        }
        self.nic.lists().free_header(index);
        let registers = self.nic.signals.registers;
        registers.add(Register::Requests, 1);
        registers.add(Register::MatchedPriority, 1);
        registers.add(Register::BytesIn, mlength);
        if header.mlength < header.rlength && header.token == 0 {
            registers.add(Register::Truncated, 1);
        }
        let ack_disabled = record.options & options::ACK_DISABLE != 0;
        Some(Delivery { fail, mlength, remote_offset: header.remote_offset, ack_disabled, list: list::PRIORITY })
    }
}
