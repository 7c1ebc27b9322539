// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receives of an owner that dequeues its messages itself.
//!
//! A program that calls its library for every message (a libfabric provider under MPI) needs neither the events nor the
//! recorded intents of [`super::deliver`]. The call itself returns the match, and if the owner dies, its NIC ends too.
//! These transitions match on the same lists with the same code. Peers deliver to the entries made here by
//! [`Nic::deliver`], and then there is an event.
//!
//! Rules
//! 1. A receive is a use-once entry of the priority list. Any put that matches may use it, and is cut to its length.
//! 2. If an unexpected header matches, [`Receives::post`] links no entry. It returns the header. The owner reads the
//!    payload and then drops the header ([`Receives::drop_unexpected`]).
//! 3. [`Receives::take`] fills the entry that `deliver` would have matched, and frees it if it is used up: a use-once
//!    entry, or a locally managed one with less than its least room left. It does nothing if no entry matches, or if
//!    the entry is of another kind (persistent, counted, with an I/O vector). The message then goes to
//!    [`Nic::deliver_own`].
//! 4. A claimed header ([`Receives::claim_unexpected`]) is on no list. Its payload stays in place until the header is
//!    dropped.
//!
//! Cost: a receive at the head of the short list takes one record, no event and no intent.

use super::constants::{list, options};
use super::entry::{EntrySpec, fill};
use super::errors::{AppendError, Revoking};
use super::posted::{Posted, Receive};
use super::put::{Put, move_payload};
use super::search::Key;
use crate::bus::Bus;
use crate::errors::Full;
use crate::nic::Nic;
use crate::registers::Register;
use crate::tables::{Entry, Header, PortalEntry, Tables, entry, header, portal, slot};
use crate::tap::Transition;

/// The head of a priority list, in its short list.
pub struct Head<'a> {
    portal: &'a mut PortalEntry,
    /// The short list's slots.
    ring: &'a [u32],
    entries: &'a mut [Entry],
    free_entry: &'a mut u32,
    generations: u32,
}

impl Head<'_> {
    /// The number of posted receives.
    #[inline(always)]
    pub fn posted_count(&self) -> u32 {
        self.portal.entries[0]
    }

    /// [`Receives::take`], if the first entry of the list matches.
    #[inline(always)]
    pub fn take_receive<B: Bus>(
        &mut self,
        bus: &mut B,
        put: &Put,
        wanted: impl Fn(&Receive) -> bool,
    ) -> Option<Receive> {
        let number = self.portal.short_head;
        let last = self.ring.len().wrapping_sub(1);
        if number == self.portal.short_tail {
            return None;
        }
        let index = *self.ring.get(number as usize & last)?;
        let record = self.entries.get_mut(index as usize)?;
        let matches = (record.match_bits ^ put.match_bits) & !record.ignore_bits
            | (record.source ^ put.initiator) & !record.source_ignore;
        if matches != 0 {
            return None;
        }
        let receive = Receive::of(record).filter(|receive| wanted(receive))?;
        move_payload(bus, (receive.start, receive.length), put.remote_offset, put)?;
        let next = slot::generation(record.slot) + 1;
        record.slot = slot::word(if next >= self.generations { 0 } else { next }, slot::FREE);
        record.next = slot::link(index, core::mem::replace(self.free_entry, index));
        self.portal.short_head = number.wrapping_add(1);
        self.portal.entries[0] = self.portal.entries[0].wrapping_sub(1);
        Some(receive)
    }
}

/// The receives of an owner that takes its messages itself, and its unexpected messages.
pub struct Receives<'n, 'a> {
    pub(crate) nic: &'n mut Nic<'a>,
}

impl<'n> Receives<'n, '_> {
    /// Posts a receive at the end of the priority list, unless an unexpected message matches it.
    #[inline]
    pub fn post<B: Bus>(self, bus: &mut B, index: u32, spec: &EntrySpec) -> Result<Posted, AppendError> {
        if self.nic.tap.is_open() {
            return self.nic.tapped(
                |nic| nic.receives().post(bus, index, spec),
                |posted| Some(Transition::PostReceive { portal: index, spec: *spec, posted: posted.ok() }),
            );
        }
        match self.nic.receives().post_to_short_list(index, spec) {
            Some(at) => {
                let encoding = self.nic.signals.encodings.entries;
                Ok(Posted::Linked(encoding.encode(at, slot::generation(self.nic.tables.entries[at as usize].slot))))
            }
            None => self.nic.receives().post_behind(bus, index, spec),
        }
    }

    /// Posts a receive at the end of the short list. Returns its index. None: there are unexpected messages, or the
    /// list is long or full; nothing has changed.
    #[inline(always)]
    pub fn post_to_short_list(self, index: u32, spec: &EntrySpec) -> Option<u32> {
        // The caller then uses `post`, which shows it to the tap.
        if self.nic.tap.is_open() {
            return None;
        }
        let Tables { control, portals, short_lists, entries, short_list, .. } = &mut self.nic.tables;
        let portal = portals.get_mut(index as usize)?;
        let (length, number) = (portal.short_length(), portal.short_tail);
        let has_grant = length == 1 && control.granted != 0;
        if length != portal.entries[0] || length >= *short_list || portal.headers != 0 || has_grant {
            return None;
        }
        let at = control.free_entry;
        let record = entries.get_mut(at as usize)?;
        let place = index as usize * *short_list as usize + (number & (*short_list - 1)) as usize;
        *short_lists.get_mut(place)? = at;
        control.free_entry = slot::next(at, record.next);
        control.sequence = control.sequence.wrapping_add(1);
        let generation = slot::generation(record.slot);
        fill(record, index, spec);
        record.sequence = control.sequence;
        record.slot = slot::word(generation, entry::PRIORITY);
        portal.short_tail = number.wrapping_add(1);
        portal.entries[0] = length + 1;
        Some(at)
    }

    /// The general case of `post`: there are unexpected messages, or the list is long or full.
    #[inline(never)]
    fn post_behind<B: Bus>(self, bus: &mut B, index: u32, spec: &EntrySpec) -> Result<Posted, AppendError> {
        let record = self.nic.portal(index).map_err(|_| AppendError::Portal)?;
        let (headers, length) = (record.headers, record.entries[0]);
        if headers != 0 {
            if let Some(found) = self.nic.receives().find_unexpected(bus, index, spec) {
                return Ok(Posted::Matched(found));
            }
        }
        if length >= self.nic.tables.list_max {
            return Err(AppendError::TooLong);
        }
        self.nic.grants().revoke_at_portal(index)?;
        let reference = self.nic.lists().reserve(index, spec).map_err(|Full| AppendError::Full)?;
        let Some(at) = self.nic.entry_index(reference) else { return Err(AppendError::Full) };
        self.nic.lists().put_on_list(at, entry::PRIORITY);
        Ok(Posted::Linked(reference))
    }

    /// The head of a portal table entry's priority list, for an owner that takes many messages. None: the portal table
    /// entry is not enabled.
    #[inline(always)]
    pub fn head(self, index: u32) -> Option<Head<'n>> {
        let generations = self.nic.signals.encodings.entries.generations();
        let Tables { control, portals, short_lists, entries, short_list, .. } = &mut self.nic.tables;
        let portal = portals.get_mut(index as usize).filter(|portal| portal.status == portal::ENABLED)?;
        let slots = *short_list as usize;
        let first = index as usize * slots;
        // With a tap, the list looks empty, so that the caller uses `Receives::take`, which shows each message.
        let slots = if self.nic.tap.is_set() { 0 } else { slots };
        let ring = short_lists.get(first..)?.get(..slots)?;
        Some(Head { portal, ring, entries, free_entry: &mut control.free_entry, generations })
    }

    /// Puts a message into the receive that it matches, if that is a plain or a locally managed one, and frees the
    /// receive if the message uses it up. None: nothing has happened.
    ///
    /// The owner counts the messages taken ([`crate::registers::Registers::count_taken`]), many at once.
    #[inline(always)]
    pub fn take<B: Bus>(self, bus: &mut B, put: &Put) -> Option<Receive> {
        if self.nic.tap.is_open() {
            return self.nic.tapped(
                |nic| nic.receives().take_now(bus, put),
                |taken| taken.map(|receive| Transition::TakeReceive { put: *put, receive }),
            );
        }
        self.nic.receives().take_now(bus, put)
    }

    #[inline(always)]
    fn take_now<B: Bus>(self, bus: &mut B, put: &Put) -> Option<Receive> {
        let record = self.nic.tables.portals.get(put.portal as usize)?;
        if record.status != portal::ENABLED || record.entries[0] == 0 {
            return None;
        }
        let found = self.nic.match_queue().find_entry(bus, put.portal, usize::from(list::PRIORITY), &put.into())?;
        let record = self.nic.tables.entries.get(found.entry as usize)?;
        let receive = Receive::or_rest_of(record, put.length)?;
        let offset = if record.options & options::MANAGE_LOCAL != 0 { 0 } else { put.remote_offset };
        let moved = move_payload(bus, (receive.start, receive.length), offset, put)?;
        match receive.uses_up {
            true => self.nic.lists().use_up(found),
            false => {
                let record = &mut self.nic.tables.entries[found.entry as usize];
                record.local_offset = record.local_offset.wrapping_add(moved.mlength);
            }
        }
        if moved.mlength < put.length {
            self.nic.signals.registers.add(Register::Truncated, 1);
        }
        Some(receive)
    }

    /// The number of receives posted at a portal table entry.
    #[inline(always)]
    pub fn posted_count(self, index: u32) -> u32 {
        self.nic.tables.portals.get(index as usize).map_or(0, |record| record.entries[0])
    }

    /// Finds the oldest unexpected message that an entry of this kind would take; it stays in place.
    pub fn find_unexpected<B: Bus>(self, bus: &mut B, index: u32, spec: &EntrySpec) -> Option<u32> {
        self.nic.match_queue().find_header(bus, index, &spec.into()).map(|found| found.index)
    }

    /// Takes an unexpected message off its list for one receive. Its payload stays until the message is dropped.
    pub fn claim_unexpected(self, found: u32) {
        let Some(record) = self.nic.tables.headers.get(found as usize) else { return };
        if slot::status(record.slot) != header::LIVE {
            return;
        }
        if self.nic.tap.is_open() {
            let Header { portal, source, match_bits, .. } = *record;
            let (header, portal) = (found, portal.into());
            return self.nic.tapped(
                |nic| nic.receives().claim_unexpected(found),
                |()| Some(Transition::ClaimUnexpected { header, portal, source, match_bits }),
            );
        }
        self.nic.match_queue().unchain_header(found.into());
        let record = &mut self.nic.tables.headers[found as usize];
        record.slot = slot::word(slot::generation(record.slot), header::CLAIMED);
    }

    /// Drops an unexpected message. This may free the overflow entry that has its payload.
    pub fn drop_unexpected(self, found: u32) {
        let Some(record) = self.nic.tables.headers.get(found as usize) else { return };
        if self.nic.tap.is_open() {
            let Header { portal, source, match_bits, .. } = *record;
            let (header, portal) = (found, portal.into());
            let is_kept = slot::status(record.slot) != slot::FREE;
            return self.nic.tapped(
                |nic| nic.receives().drop_unexpected(found),
                |()| is_kept.then_some(Transition::DropUnexpected { header, portal, source, match_bits }),
            );
        }
        match slot::status(record.slot) {
            header::LIVE => self.nic.lists().drop_header(found),
            header::CLAIMED => self.nic.lists().free_header(found),
            _ => {}
        }
    }

    /// Drops all unexpected messages of a portal table entry.
    pub fn clear_unexpected(self, index: u32) {
        for _ in 0..self.nic.tables.headers.len() {
            let Some(found) = self.nic.match_queue().first_header(index) else { return };
            self.nic.receives().drop_unexpected(found);
        }
    }

    /// Unlinks the first entry of a portal table entry's priority list that has this `user_ptr`. False: there was none.
    pub fn unlink_by_user_ptr(self, index: u32, user_ptr: u64) -> bool {
        let is_it = |&at: &usize| {
            let record = &self.nic.tables.entries[at];
            record.user_ptr == user_ptr
                && u32::from(record.portal) == index
                && slot::status(record.slot) == entry::PRIORITY
                && record.headers == 0
        };
        let first =
            (0..self.nic.tables.entries.len()).filter(is_it).min_by_key(|&at| self.nic.tables.entries[at].sequence);
        if let Some(at) = first {
            self.nic.receives().show_unlink(at);
            self.nic.match_queue().unchain_entry(at as u32);
            self.nic.lists().free_entry(at as u32);
        }
        first.is_some()
    }

    /// Unlinks all entries of a portal table entry's priority list.
    pub fn clear_priority(self, index: u32) -> Result<(), Revoking> {
        self.nic.grants().revoke_at_portal(index)?;
        for at in 0..self.nic.tables.entries.len() {
            // Most lists are short, and begin at the start of the table.
            if self.nic.portal(index).is_ok_and(|portal| portal.entries[usize::from(list::PRIORITY)] == 0) {
                break;
            }
            let record = &self.nic.tables.entries[at];
            let is_its = slot::status(record.slot) == entry::PRIORITY && u32::from(record.portal) == index;
            if is_its && record.headers == 0 {
                self.nic.receives().show_unlink(at);
                self.nic.match_queue().unchain_entry(at as u32);
                self.nic.lists().free_entry(at as u32);
            }
        }
        Ok(())
    }

    /// Shows that a linked entry is about to be unlinked.
    fn show_unlink(self, at: usize) {
        if self.nic.tap.is_open() {
            let generation = slot::generation(self.nic.tables.entries[at].slot);
            let entry = self.nic.signals.encodings.entries.encode(at as u32, generation);
            self.nic.show(&Transition::Unlink { entry, is_done: true });
        }
    }

    /// The memory to which a put with this key would be written, and the entry's `user_ptr`. None: no entry of the
    /// priority list matches, or the entry's memory is in several pieces.
    pub fn find<B: Bus>(self, bus: &mut B, index: u32, key: &Key) -> Option<Receive> {
        let found = self.nic.match_queue().find_entry(bus, index, usize::from(list::PRIORITY), key)?;
        let record = self.nic.tables.entries.get(found.entry as usize)?;
        let offset = if record.options & options::MANAGE_LOCAL != 0 { record.local_offset } else { key.remote_offset };
        let (start, length) = (record.start.wrapping_add(offset), record.length.saturating_sub(offset));
        let uses_up = record.options & options::USE_ONCE != 0;
        (record.options & options::IOVEC == 0).then_some(Receive { start, length, user_ptr: record.user_ptr, uses_up })
    }

    /// Whether a request of no bytes with these match bits would find an entry of the priority list.
    pub fn has_entry<B: Bus>(self, bus: &mut B, index: u32, match_bits: u64, source: u64) -> bool {
        self.nic.receives().has_receive(bus, index, &Key { match_bits, source, length: 0, remote_offset: 0 })
    }

    /// Whether a put with this key would find an entry of the priority list.
    pub fn has_receive<B: Bus>(self, bus: &mut B, index: u32, key: &Key) -> bool {
        self.nic.match_queue().find_entry(bus, index, usize::from(list::PRIORITY), key).is_some()
    }
}
