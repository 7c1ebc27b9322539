// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Linking entries against unexpected headers, searching, unlinking (Portals 4.3, `PtlMEAppend`, `PtlMESearch`,
//! `PtlMEUnlink` and their forms for list entries).
//!
//! Rules
//! 1. An entry for the priority list first takes the unexpected headers that match it, oldest first; a use-once entry
//!    that took one is never linked, and its AUTO_UNLINK follows its overflow event.
//! 2. With LOCAL_INC_UH_RLENGTH each header that a locally managed entry takes moves its offset by the header's
//!    requested length, and `min_free` is checked after each.
//! 3. A search always posts an event, never changes status registers, and counts on its counter: successes for matches;
//!    one failure when a use-once search found nothing, or when a persistent search is complete.
//! 4. An overflow entry that was unlinked automatically drains: when its last header goes, AUTO_FREE follows and its
//!    slot is free. An entry with headers cannot be unlinked by hand (`InUse`), nor one to whose memory a payload is
//!    being fetched ([`super::placement`]).

use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

use super::constants::{event_kind, fail, list, options};
use super::entry::{EntrySpec, fill, search_entry};
use super::errors::{AppendError, UnlinkError};
use super::event::{Event, entry_event, header_event, overflow_kind};
use super::search::{EntryView, FoundEntry, FoundHeader, accepts};
use crate::bus::Bus;
use crate::errors::Full;
use crate::handle::NONE;
use crate::nic::Nic;
use crate::registers::Register;
use crate::tables::{Entry, Header, Request, entry, header, slot};
use crate::tap::Transition;

/// The lists of the portal table: entries and unexpected headers, with their events and counts.
pub struct Lists<'n, 'a> {
    pub(crate) nic: &'n mut Nic<'a>,
}

impl Lists<'_, '_> {
    /// Appends an entry to a list (`list::PRIORITY` or `list::OVERFLOW`). Returns its reference.
    pub fn append<B: Bus>(self, bus: &mut B, portal: u32, which: u8, spec: &EntrySpec) -> Result<u32, AppendError> {
        if self.nic.tap.is_open() {
            return self.nic.tapped(
                |nic| nic.lists().append(bus, portal, which, spec),
                |entry| Some(Transition::Append { portal, list: which, spec: *spec, entry: entry.ok() }),
            );
        }
        let record = self.nic.portal(portal).map_err(|_| AppendError::Portal)?;
        let length = record.entries[usize::from(which & 1)];
        if self.nic.tables.entries.get(self.nic.tables.control.free_entry as usize).is_none() {
            return Err(AppendError::Full);
        }
        if length >= self.nic.tables.list_max {
            return Err(AppendError::TooLong);
        }
        let queue = record.queue;
        let once = which == list::PRIORITY && spec.options & options::USE_ONCE != 0 && spec.iov == NONE;
        if once {
            if let Some(reference) = self.nic.lists().match_unexpected(bus, portal, spec, queue) {
                return Ok(reference);
            }
        }
        if which != list::OVERFLOW {
            self.nic.grants().revoke_at_portal(portal)?;
        }
        let reference = self.nic.lists().reserve(portal, spec).map_err(|Full| AppendError::Full)?;
        if once {
            self.nic.lists().link_unmatched(reference, which)
        } else {
            self.nic.lists().link_reserved(bus, reference, which)
        }
        Ok(reference)
    }

    /// Matches a use-once entry against the unexpected headers. If one matches, the entry takes it and is never linked;
    /// the returned reference then names an entry that is gone.
    fn match_unexpected<B: Bus>(self, bus: &mut B, portal: u32, spec: &EntrySpec, queue: u32) -> Option<u32> {
        let view = &EntryView::from(spec);
        let found = self.nic.match_queue().find_header(bus, portal, view)?;
        self.nic.lists().overflow_event(found.index, view, queue, None);
        self.nic.lists().drop_found(found);
        if spec.options & options::EVENT_UNLINK_DISABLE == 0 {
            self.nic
                .queues()
                .post(queue, &entry_event(&search_entry(portal, spec), event_kind::AUTO_UNLINK, list::PRIORITY));
        }
        let encoding = self.nic.signals.encodings.entries;
        let index = self.nic.tables.control.free_entry;
        let spent = self.nic.tables.entries.get_mut(index as usize)?;
        let generation = slot::generation(spent.slot);
        spent.slot = slot::word(encoding.next_generation(generation), slot::FREE);
        Some(encoding.encode(index, generation))
    }

    /// Takes a slot for an entry and fills it. [`Lists::link_reserved`] links it.
    #[inline]
    pub fn reserve(self, portal: u32, spec: &EntrySpec) -> Result<u32, Full> {
        if self.nic.tap.is_open() {
            return self.nic.tapped(
                |nic| nic.lists().reserve(portal, spec),
                |entry| Some(Transition::Reserve { portal, spec: *spec, entry: entry.ok() }),
            );
        }
        let index = self.nic.tables.control.free_entry;
        let record = self.nic.tables.entries.get_mut(index as usize).ok_or(Full)?;
        self.nic.tables.control.free_entry = slot::next(index, record.next);
        let generation = slot::generation(record.slot);
        fill(record, portal, spec);
        record.slot = slot::word(generation, entry::RESERVED);
        Ok(self.nic.signals.encodings.entries.encode(index, generation))
    }

    /// Links a reserved entry, after it took the unexpected headers that match. The grants at its portal table entry
    /// are revoked already.
    pub(crate) fn link_reserved<B: Bus>(self, bus: &mut B, reference: u32, which: u8) {
        let Some(index) = self.nic.entry_index(reference) else { return };
        let mut record = self.nic.tables.entries[index as usize];
        if slot::status(record.slot) != entry::RESERVED {
            return;
        }
        let portal = u32::from(record.portal);
        let Ok(queue) = self.nic.portal(portal).map(|portal| portal.queue) else {
            return self.nic.lists().free_entry(index);
        };
        if which == list::PRIORITY && self.nic.lists().take_headers(bus, &mut record, queue) {
            if record.options & options::EVENT_UNLINK_DISABLE == 0 {
                self.nic.queues().post(queue, &entry_event(&record, event_kind::AUTO_UNLINK, which));
            }
            return self.nic.lists().free_entry(index);
        }
        self.nic.tables.entries[index as usize].local_offset = record.local_offset;
        self.nic.lists().link_unmatched(reference, which);
    }

    /// Links a reserved entry. Either no unexpected header matches it, or it goes to the overflow list.
    fn link_unmatched(self, reference: u32, which: u8) {
        let Some(index) = self.nic.entry_index(reference) else { return };
        self.nic.lists().put_on_list(index, if which == list::OVERFLOW { entry::OVERFLOW } else { entry::PRIORITY });
        let record = &self.nic.tables.entries[index as usize];
        let portal = u32::from(record.portal);
        let event = entry_event(record, event_kind::LINK, which);
        let quiet = record.options & options::EVENT_LINK_DISABLE != 0;
        if let Some(queue) = self.nic.portal(portal).ok().map(|portal| portal.queue).filter(|_| !quiet) {
            self.nic.queues().post(queue, &event);
        }
    }

    #[inline]
    pub(super) fn put_on_list(self, index: u32, status: u32) {
        let sequence = self.nic.tables.control.next_sequence();
        let record = &mut self.nic.tables.entries[index as usize];
        record.sequence = sequence;
        record.slot = slot::word(slot::generation(record.slot), status);
        self.nic.match_queue().chain_entry(index);
    }

    /// Gives an entry the unexpected headers that match it. True: the entry is used up and must not be linked.
    fn take_headers<B: Bus>(self, bus: &mut B, record: &mut Entry, queue: u32) -> bool {
        let portal = u32::from(record.portal);
        let local = options::MANAGE_LOCAL | options::LOCAL_INC_UH_RLENGTH;
        for _ in 0..=self.nic.tables.headers.len() {
            let view = &EntryView::from(&*record);
            let Some(found) = self.nic.match_queue().find_header(bus, portal, view) else { return false };
            let rlength = self.nic.tables.headers[found.index as usize].rlength;
            self.nic.lists().overflow_event(found.index, view, queue, None);
            self.nic.lists().drop_found(found);
            if record.options & options::USE_ONCE != 0 {
                return true;
            }
            if record.options & local == local {
                record.local_offset = record.local_offset.saturating_add(rlength);
                if record.length.saturating_sub(record.local_offset) < record.min_free {
                    return true;
                }
            }
        }
        false
    }

    /// Searches the unexpected headers (`PTL_SEARCH_ONLY`, or with `delete` `PTL_SEARCH_DELETE`). The search is
    /// complete when this returns.
    pub fn search<B: Bus>(self, bus: &mut B, portal: u32, spec: &EntrySpec, delete: bool) -> Result<(), AppendError> {
        if self.nic.tap.is_open() {
            return self.nic.tapped(
                |nic| nic.lists().search(bus, portal, spec, delete),
                |done| Some(Transition::Search { portal, spec: *spec, deletes: delete, is_done: done.is_ok() }),
            );
        }
        let queue = self.nic.portal(portal).map_err(|_| AppendError::Portal)?.queue;
        let view = &EntryView::from(spec);
        let once = spec.options & options::USE_ONCE != 0;
        let mut matches = 0u64;
        if !delete && !once {
            matches = self.nic.lists().search_all(portal, view, queue);
        } else {
            while let Some(found) = self.nic.match_queue().find_header(bus, portal, view) {
                matches += 1;
                self.nic.lists().overflow_event(found.index, view, queue, (!delete).then_some(event_kind::SEARCH));
                if delete {
                    self.nic.lists().drop_found(found);
                }
                if once {
                    break;
                }
            }
        }
        if matches == 0 && spec.options & options::EVENT_COMM_DISABLE == 0 {
            let about = entry_event(&search_entry(portal, spec), event_kind::SEARCH, list::OVERFLOW);
            self.nic.queues().post(queue, &Event { fail: fail::NO_MATCH, ..about });
        }
        if spec.options & options::EVENT_CT_OVERFLOW != 0 && (matches == 0 || !once) {
            self.nic.counters().increment(spec.counter, 0, 1);
        }
        Ok(())
    }

    /// A search-only pass for a persistent entry: one event for each header that matches, in order of arrival.
    fn search_all(self, portal: u32, view: &EntryView, queue: u32) -> u64 {
        let mut matches = 0;
        let mut at = self.nic.tables.portals[portal as usize].header_head;
        for _ in 0..self.nic.tables.headers.len() {
            let Some(&found) = self.nic.tables.headers.get(at as usize) else { break };
            if slot::status(found.slot) == header::LIVE && accepts(view, &(&found).into()) {
                matches += 1;
                self.nic.lists().overflow_event(at, view, queue, Some(event_kind::SEARCH));
            }
            at = found.links[0][0];
        }
        matches
    }

    /// Posts the event and the count for a header that an entry takes.
    #[inline(always)]
    fn overflow_event(self, found: u32, view: &EntryView, queue: u32, kind: Option<u8>) {
        let Some(header) = self.nic.tables.headers.get(found as usize) else { return };
        let mlength = header.mlength;
        let own = if kind.is_some() { options::EVENT_COMM_DISABLE } else { options::EVENT_OVER_DISABLE };
        let quiet = own | options::EVENT_SUCCESS_DISABLE;
        if view.options & quiet == 0 {
            let kind = kind.unwrap_or_else(|| overflow_kind(header.kind));
            let event = Event { kind, list: list::OVERFLOW, ..header_event(header, view.user_ptr) };
            self.nic.queues().post_here(queue, &event);
        }
        if view.options & options::EVENT_CT_OVERFLOW != 0 {
            let in_bytes = view.options & options::EVENT_CT_BYTES != 0;
            self.nic.counters().count_outcome(view.counter, true, in_bytes, mlength);
        }
    }

    pub(crate) fn drop_header(self, index: u32) {
        self.nic.lists().drop_found(index.into());
    }

    /// [`Lists::drop_header`] for a header that a search found.
    #[inline(always)]
    pub(crate) fn drop_found(self, found: FoundHeader) {
        self.nic.match_queue().unchain_header(found);
        self.nic.lists().free_header(found.index);
    }

    #[inline(always)]
    pub(super) fn free_header(self, index: u32) {
        let Some(record) = self.nic.tables.headers.get_mut(index as usize) else { return };
        let owner = record.entry;
        record.slot = slot::word(slot::generation(record.slot).wrapping_add(1) & 0xff_ffff, slot::FREE);
        record.links[0][0] = slot::link(index, self.nic.tables.control.free_header);
        self.nic.tables.control.free_header = index;
        let Some(overflow) = self.nic.tables.entries.get_mut(owner as usize) else { return };
        overflow.headers = overflow.headers.saturating_sub(1);
        if overflow.headers == 0 && slot::status(overflow.slot) == entry::DRAINING {
            self.nic.lists().finish_draining(owner);
        }
    }

    /// Posts AUTO_FREE for an overflow entry that was unlinked automatically and has no headers left, and frees its
    /// slot.
    pub(crate) fn finish_draining(self, index: u32) {
        let record = self.nic.tables.entries[index as usize];
        if record.options & options::EVENT_UNLINK_DISABLE == 0 {
            if let Ok(portal) = self.nic.portal(u32::from(record.portal)) {
                let queue = portal.queue;
                self.nic.queues().post(queue, &entry_event(&record, event_kind::AUTO_FREE, list::OVERFLOW));
            }
        }
        self.nic.lists().free_entry(index);
    }

    /// Unlinks an entry.
    pub fn unlink(self, reference: u32) -> Result<(), UnlinkError> {
        if self.nic.tap.is_open() {
            return self.nic.tapped(
                |nic| nic.lists().unlink(reference),
                |done| Some(Transition::Unlink { entry: reference, is_done: done.is_ok() }),
            );
        }
        let index = self.nic.entry_index(reference).ok_or(UnlinkError::Invalid)?;
        let record = self.nic.tables.entries[index as usize];
        match slot::status(record.slot) {
            entry::PRIORITY | entry::OVERFLOW if record.headers == 0 => {
                if slot::status(record.slot) == entry::PRIORITY {
                    self.nic.grants().revoke_at_portal(u32::from(record.portal))?;
                }
                self.nic.match_queue().unchain_entry(index);
                self.nic.lists().free_entry(index);
                Ok(())
            }
            entry::DRAINING | entry::RESERVED | entry::OVERFLOW | entry::PRIORITY => Err(UnlinkError::InUse),
            _ => Err(UnlinkError::Invalid),
        }
    }

    /// Frees an entry's slot. The entry is in no list.
    pub(crate) fn free_entry(self, index: u32) {
        let encoding = self.nic.signals.encodings.entries;
        let record = &mut self.nic.tables.entries[index as usize];
        let iov = core::mem::replace(&mut record.iov, NONE);
        let generation = encoding.next_generation(slot::generation(record.slot));
        record.slot = slot::word(generation, slot::FREE);
        record.next = slot::link(index, self.nic.tables.control.free_entry);
        self.nic.tables.control.free_entry = index;
        self.nic.heap().free_iov(iov);
    }

    pub(super) fn keep_header(self, index: u32, start: u64, mlength: u64, request: &Request) {
        if let Some(header) = self.nic.lists().take_header(index, start, mlength, request, header::LIVE) {
            self.nic.match_queue().chain_header(header);
            self.nic.signals.registers.add(Register::Unexpected, 1);
        }
    }

    /// Records a message in a header that refers to entry `index`, on no list. None: there is no free header.
    pub(super) fn take_header(
        self,
        index: u32,
        start: u64,
        mlength: u64,
        request: &Request,
        status: u32,
    ) -> Option<u32> {
        let free = self.nic.tables.control.free_header;
        let sequence = self.nic.tables.control.next_sequence();
        let record = self.nic.tables.headers.get_mut(free as usize)?;
        self.nic.tables.control.free_header = slot::next(free, record.links[0][0]);
        let generation = slot::generation(record.slot);
        *record = Header {
            slot: slot::word(generation, slot::FREE),
            entry: index,
            source: request.initiator,
            match_bits: request.match_bits,
            sequence,
            start,
            rlength: request.length,
            mlength,
            remote_offset: request.remote_offset,
            header_data: request.header_data,
            uid: request.uid,
            portal: request.portal as u16,
            kind: request.kind,
            operation: request.operation,
            datatype: request.datatype,
            token: request.token(),
            ..Header::default()
        };
        compiler_fence(SeqCst);
        record.slot = slot::word(generation, status);
        let kept = &mut self.nic.tables.entries[index as usize].headers;
        *kept = kept.wrapping_add(1);
        Some(free)
    }

    /// Takes a used-up entry off its list. The record stays until its events are written.
    pub(crate) fn auto_unlink(self, index: u32) {
        self.nic.match_queue().unchain_entry(index);
        let record = &mut self.nic.tables.entries[index as usize];
        record.slot = slot::word(slot::generation(record.slot), entry::DRAINING);
    }

    /// Called after the events of an automatic unlink: frees the entry, or lets it drain.
    pub(super) fn after_unlink(self, index: u32, which: u8) {
        if which == list::PRIORITY {
            self.nic.lists().free_entry(index);
        } else if self.nic.tables.entries[index as usize].headers == 0 {
            self.nic.lists().finish_draining(index);
        }
    }

    /// Frees an entry of the priority list that a message used up.
    #[inline(always)]
    pub(super) fn use_up(self, found: FoundEntry) {
        self.nic.match_queue().unchain_found(found, usize::from(list::PRIORITY));
        self.nic.lists().free_entry(found.entry);
    }
}
