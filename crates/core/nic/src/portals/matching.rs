// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The match queue: the results of ordered lists, at a cost that does not grow with the list.
//!
//! Portals 4.3 defines matching on ordered lists (section 3.12): a request takes the first entry of the priority list
//! that matches, else the first of the overflow list; an appended entry takes unexpected headers in order of arrival.
//! This module alone matches messages and entries, for every front door and in every home. This file has the lists of
//! entries; [`headers`] has those of unexpected headers.
//!
//! A priority list has two parts. The *short list* holds its first entries in order, as indices in a small ring; they
//! are compared one by one. The *index* holds the entries behind them. Indexed entries are grouped by their *class*:
//! the match bits and the parts of the source that they ignore. Programs use few classes (exact; any source; any tag),
//! and within a class matching is equality of the remaining bits, so a hash finds the entry. Every entry carries a
//! sequence number; of the candidates of all classes the lowest wins. A search compares at most [`IN_ORDER`] entries of
//! the short list. If none matches and there are more entries, it indexes the short list too. Unexpected headers are on
//! one list in order of arrival. A list of at most [`IN_ORDER`] headers is searched in that order. From the first
//! search of a longer one on, each header is also on a chain of every class that the list was searched by.
//!
//! Invariants
//! 1. Every entry of the short list is older than every indexed entry of its priority list: an entry goes to the short
//!    list only while none is indexed. So a search that finds a match in the short list is done.
//! 2. A chain of the index is in order of sequence; a bucket may hold several keys, so the search compares them.
//! 3. A portal table entry has at most [`CLASSES`](crate::tables::CLASSES) classes with an index. Entries of further
//!    classes share one chain per list ([`CLASS_OTHER`]), and headers are then searched in order: still right, but no
//!    longer O(1).
//! 4. `searched` names the classes that the unexpected headers of a portal table entry are chained by; each header is
//!    on the chain of each of them (`chained`). No class is named until a list of more than [`IN_ORDER`] headers is
//!    searched.
//! 5. While a table is smaller than its limit, several chains of the full index share a bucket (`growth.rs`). A search
//!    passes entries of other chains without a step, so its results and its counted steps are those of the full index.
//! 6. Walks are bounded by the table's capacity, whatever the links are.
//!
//! Cost of a search: the short list as far as the match, at most [`IN_ORDER`] records; then one bucket and one entry
//! per class in use. An entry moves from the short list to the index at most once.

use super::constants::options;
use super::put::Put;
use super::search::{FoundEntry, Key, accepts};
use crate::bus::{Bus, Step};
use crate::handle::NONE;
use crate::registers::{Register, Registers};
use crate::tables::{
    Bucket, CLASS_OTHER, CLASS_SHORT, Class, Entry, PortalEntry, Request, Tables, entry, portal, slot,
};

mod growth;
mod headers;

/// The most entries of a short list, and unexpected headers, that a search compares before it uses the index
/// ([`MatchQueue::in_order`]).
const IN_ORDER: u32 = 8;

/// The list of an entry, 0 (priority) or 1 (overflow).
#[inline]
pub(crate) fn list_of(record: &Entry) -> Option<usize> {
    match slot::status(record.slot) {
        entry::PRIORITY => Some(0),
        entry::OVERFLOW => Some(1),
        _ => None,
    }
}

/// The hash of a key; its lowest bits select the bucket. Keys that differ in their lowest bits only, as the tags of
/// neighbouring messages do, share a cache line of buckets.
#[inline(always)]
fn key_hash(portal: u32, list: u32, class: u8, bits: u64, source: u64) -> u32 {
    let place = u64::from(portal) << 8 | u64::from(list) << 7 | u64::from(class);
    let mut hash = (bits >> LINE_BITS ^ place.wrapping_mul(0xd6e8_feb8_6659_fd93)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 32 ^ source).wrapping_mul(0xff51_afd7_ed55_8ccd);
    ((hash ^ hash >> 33) ^ bits & ((1 << LINE_BITS) - 1)) as u32
}

/// The bucket of a hash, in an index with this number of buckets.
#[inline(always)]
fn bucket_of(hash: u32, buckets: usize) -> usize {
    hash as usize & (buckets - 1)
}

fn entry_hash(record: &Entry, class: u8, list: usize) -> u32 {
    let (bits, source) = if class == CLASS_OTHER {
        (0, 0)
    } else {
        (record.match_bits & !record.ignore_bits, record.source & !record.source_ignore)
    };
    key_hash(record.portal.into(), list as u32, class, bits, source)
}

fn entry_bucket(buckets: usize, record: &Entry, class: u8, list: usize) -> usize {
    bucket_of(entry_hash(record, class, list), buckets)
}

/// Whether an entry of a chain is in another bucket of the full index. A search passes it without a step.
#[cold]
fn is_elsewhere(record: &Entry, hash: u32, folded: u32) -> bool {
    list_of(record).is_some_and(|list| entry_hash(record, record.class.min(CLASS_OTHER), list) & folded != hash)
}

/// Buckets of a cache line, as a power of two.
const LINE_BITS: u32 = (64 / size_of::<Bucket>()).ilog2();

#[derive(Clone, Copy)]
enum End {
    Front,
    Back,
}

/// The lists of entries and of unexpected headers, with their index.
pub struct MatchQueue<'n, 'a> {
    pub(crate) tables: &'n mut Tables<'a>,
    pub(crate) registers: &'n Registers,
}

impl<'a> MatchQueue<'_, 'a> {
    /// The same view, for a function that is not inlined: it passes two registers, not an address in memory.
    #[inline(always)]
    fn reborrow(&mut self) -> MatchQueue<'_, 'a> {
        MatchQueue { tables: self.tables, registers: self.registers }
    }

    /// The index of the entry in a list (`list::PRIORITY`, `list::OVERFLOW`) that a request would match. No list
    /// changes, but a search may index the short list.
    pub fn peek<B: Bus>(mut self, bus: &mut B, request: &Request, which: u8) -> Option<u32> {
        self.reborrow()
            .find_entry(bus, request.portal, usize::from(which & 1), &request.into())
            .map(|found| found.entry)
    }

    /// The entry of a list (0 priority, 1 overflow) that the ordered list would give.
    #[inline(always)]
    pub(crate) fn find_entry<B: Bus>(mut self, bus: &mut B, portal: u32, list: usize, key: &Key) -> Option<FoundEntry> {
        if list == 0 && self.tables.portals.get(portal as usize)?.short_length() != 0 {
            let found = self.reborrow().find_in_short_list(bus, portal, key);
            if found.is_some() {
                return found;
            }
        }
        match self.tables.portals.get(portal as usize)?.active[list] {
            0 => None,
            one if one.is_power_of_two() => {
                self.reborrow().find_in_chain(bus, portal, list, one.trailing_zeros() as u8, key)
            }
            _ => self.reborrow().find_by_class(bus, portal, list, key),
        }
    }

    /// The first match of the short list, most often its first entry. None: no match, or all entries are in the index
    /// now.
    #[inline(always)]
    fn find_in_short_list<B: Bus>(mut self, bus: &mut B, portal: u32, key: &Key) -> Option<FoundEntry> {
        let place = self.tables.portals.get(portal as usize)?.short_head;
        let entry = self.short_entry(portal, place)?;
        bus.charge(Step::EntrySearched);
        self.registers.add(Register::ListSteps, 1);
        if accepts(&self.tables.entries.get(entry as usize)?.into(), key) {
            return Some(FoundEntry { entry, place });
        }
        self.reborrow().find_later_in_short_list(bus, portal, key)
    }

    #[inline(never)]
    fn find_later_in_short_list<B: Bus>(mut self, bus: &mut B, portal: u32, key: &Key) -> Option<FoundEntry> {
        let record = self.tables.portals.get(portal as usize)?;
        let (head, length) = (record.short_head, record.short_length());
        let has_more = length > self.in_order() || record.active[0] != 0;
        let mut steps = 0;
        let found = (1..length.min(self.in_order())).find_map(|step| {
            let place = head.wrapping_add(step);
            let entry = self.short_entry(portal, place)?;
            steps += 1;
            bus.charge(Step::EntrySearched);
            accepts(&self.tables.entries.get(entry as usize)?.into(), key).then_some(FoundEntry { entry, place })
        });
        self.registers.add(Register::ListSteps, steps);
        if found.is_none() && has_more {
            self.reborrow().index_short_list(portal);
        }
        found
    }

    /// The number of records that a search compares one by one.
    #[inline(always)]
    fn in_order(&self) -> u32 {
        self.tables.short_list.min(IN_ORDER)
    }

    /// Moves the entries of the short list to the index, the last one first: they are older than all indexed entries.
    fn index_short_list(mut self, portal: u32) {
        for _ in 0..self.tables.short_list {
            let Some(record) = self.tables.portals.get_mut(portal as usize) else { return };
            if record.short_length() == 0 {
                return;
            }
            record.short_tail = record.short_tail.wrapping_sub(1);
            let last = record.short_tail;
            if let Some(entry) = self.short_entry(portal, last) {
                self.reborrow().index_entry(entry, 0, End::Front);
            }
        }
    }

    /// The slot in memory of a number of a portal table entry's short list.
    #[inline(always)]
    fn short_slot(&self, portal: u32, number: u32) -> usize {
        let slots = self.tables.short_list;
        portal as usize * slots as usize + (number & slots.wrapping_sub(1)) as usize
    }

    #[inline(always)]
    fn short_entry(&self, portal: u32, number: u32) -> Option<u32> {
        self.tables.short_lists.get(self.short_slot(portal, number)).copied()
    }

    /// The entry that is alone on its priority list, if it is in the short list.
    #[inline(always)]
    fn only_entry(&self, portal: u32) -> Option<u32> {
        let record = self.tables.portals.get(portal as usize)?;
        let alone = record.entries[0] == 1 && record.short_length() == 1;
        alone.then(|| self.short_entry(portal, record.short_head)).flatten()
    }

    /// The portal table entry, if it is enabled and has no flow control.
    #[inline(always)]
    pub(super) fn plain_portal(&self, portal: u32) -> Option<&PortalEntry> {
        let record = self.tables.portals.get(portal as usize)?;
        (record.status == portal::ENABLED && record.options & options::PT_FLOWCTRL == 0).then_some(record)
    }

    /// The only entry of its list, if it accepts this put, and the event queue of its portal table entry.
    #[inline(always)]
    pub(super) fn only_entry_for(&self, put: &Put) -> Option<(u32, u32)> {
        let queue = self.plain_portal(put.portal)?.queue;
        let only = self.only_entry(put.portal)?;
        let accepted = accepts(&self.tables.entries.get(only as usize)?.into(), &put.into());
        accepted.then_some((only, queue))
    }

    /// The first match over the classes that have entries.
    fn find_by_class<B: Bus>(mut self, bus: &mut B, portal: u32, list: usize, key: &Key) -> Option<FoundEntry> {
        let mut active = self.tables.portals.get(portal as usize)?.active[list];
        let mut best: Option<(u64, FoundEntry)> = None;
        while active != 0 {
            let found = self.reborrow().find_in_chain(bus, portal, list, active.trailing_zeros() as u8, key);
            active &= active - 1;
            let Some(found) = found else { continue };
            let sequence = self.tables.entries[found.entry as usize].sequence;
            if best.is_none_or(|(least, _)| sequence < least) {
                best = Some((sequence, found));
            }
        }
        best.map(|(_, found)| found)
    }

    /// The first match of the class whose bit in `active` has this number.
    #[inline(always)]
    fn find_in_chain<B: Bus>(self, bus: &mut B, portal: u32, list: usize, class: u8, key: &Key) -> Option<FoundEntry> {
        let class = class.min(CLASS_OTHER);
        let (bits, source) = match self.tables.portals.get(portal as usize)?.classes.get(usize::from(class)) {
            Some(class) => (key.match_bits & !class.ignore_bits, key.source & !class.source_ignore),
            None => (0, 0),
        };
        let hash = key_hash(portal, list as u32, class, bits, source);
        let (bucket, folded) = (bucket_of(hash, self.tables.entry_buckets.len()), self.tables.folded.entries);
        bus.prefetch_write(&self.tables.entry_buckets[bucket]);
        let mut at = self.tables.entry_buckets[bucket].head;
        if let Some(record) = self.tables.entries.get(at as usize) {
            bus.prefetch_write(record);
        }
        let (mut steps, mut passed) = (0, 0);
        let mut found = None;
        while let Some(record) = self.tables.entries.get(at as usize) {
            if folded != 0 && passed <= self.tables.entries.len() && is_elsewhere(record, hash & folded, folded) {
                passed += 1;
                at = record.next;
                continue;
            }
            steps += 1;
            bus.charge(Step::EntrySearched);
            if record.class == class
                && u32::from(record.portal) == portal
                && list_of(record) == Some(list)
                && accepts(&record.into(), key)
            {
                found = Some(FoundEntry { entry: at, place: bucket as u32 });
                break;
            }
            if steps > self.tables.entries.len() {
                break;
            }
            at = record.next;
        }
        self.registers.add(Register::ListSteps, steps as u64);
        found
    }

    /// Puts a filled entry at the end of its list, which its status names.
    #[inline]
    pub(crate) fn chain_entry(mut self, index: u32) {
        let Some(record) = self.tables.entries.get(index as usize) else { return };
        let (portal, Some(list)) = (u32::from(record.portal), list_of(record)) else { return };
        if list == 0 && self.reborrow().put_on_short_list(portal, index) {
            return;
        }
        if let Some(entry) = self.tables.portals.get_mut(portal as usize) {
            entry.entries[list] = entry.entries[list].wrapping_add(1);
        }
        self.reborrow().index_entry(index, list, End::Back);
    }

    /// Puts an entry at the end of its priority list, if that end is in the short list. False: nothing has changed.
    #[inline(always)]
    pub(super) fn put_on_short_list(self, portal: u32, index: u32) -> bool {
        let slots = self.tables.short_list;
        let Some(record) = self.tables.portals.get(portal as usize) else { return false };
        let (length, tail) = (record.short_length(), record.short_tail);
        if length != record.entries[0] || length >= slots {
            return false;
        }
        let slot = self.short_slot(portal, tail);
        let (Some(place), Some(entry)) =
            (self.tables.short_lists.get_mut(slot), self.tables.entries.get_mut(index as usize))
        else {
            return false;
        };
        *place = index;
        entry.class = CLASS_SHORT;
        let record = &mut self.tables.portals[portal as usize];
        record.short_tail = tail.wrapping_add(1);
        record.entries[0] = length + 1;
        true
    }

    /// Takes an entry out of the short list. The shorter side, before or behind it, moves up.
    #[inline(always)]
    fn take_off_short_list(mut self, portal: u32, number: u32) {
        let Some(record) = self.tables.portals.get_mut(portal as usize) else { return };
        record.entries[0] = record.entries[0].saturating_sub(1);
        if number == record.short_head {
            record.short_head = number.wrapping_add(1);
        } else {
            self.reborrow().close_gap(portal, number);
        }
    }

    #[inline(never)]
    fn close_gap(self, portal: u32, number: u32) {
        let Some(&PortalEntry { short_head, short_tail, .. }) = self.tables.portals.get(portal as usize) else {
            return;
        };
        let (before, behind) = (number.wrapping_sub(short_head), short_tail.wrapping_sub(number));
        let slots = self.tables.short_list;
        let mut step = |to: u32, from: u32| {
            if let Some(entry) = self.short_entry(portal, from) {
                let slot = self.short_slot(portal, to);
                self.tables.short_lists[slot] = entry;
            }
        };
        if before < behind {
            for back in 0..before.min(slots) {
                let to = number.wrapping_sub(back);
                step(to, to.wrapping_sub(1));
            }
            self.tables.portals[portal as usize].short_head = short_head.wrapping_add(1);
        } else {
            for on in 0..behind.saturating_sub(1).min(slots) {
                let to = number.wrapping_add(on);
                step(to, to.wrapping_add(1));
            }
            self.tables.portals[portal as usize].short_tail = short_tail.wrapping_sub(1);
        }
    }

    #[inline]
    fn place_in_short_list(&self, portal: u32, index: u32) -> Option<u32> {
        let record = self.tables.portals.get(portal as usize)?;
        (0..record.short_length().min(self.tables.short_list))
            .map(|step| record.short_head.wrapping_add(step))
            .find(|&number| self.short_entry(portal, number) == Some(index))
    }

    /// Puts an entry at one end of its chain in the index.
    fn index_entry(mut self, index: u32, list: usize, end: End) {
        let Some(record) = self.tables.entries.get(index as usize) else { return };
        let portal = u32::from(record.portal);
        let (ignore_bits, source_ignore) = (record.ignore_bits, record.source_ignore);
        let class = self.reborrow().class_for(portal, ignore_bits, source_ignore);
        let hash = entry_hash(&self.tables.entries[index as usize], class, list);
        self.tables.entries[index as usize].class = class;
        self.reborrow().put_in_chain(index, hash, end);
        if let Some(entry) = self.tables.portals.get_mut(portal as usize) {
            entry.active[list] |= 1 << class;
            match entry.classes.get_mut(class as usize) {
                Some(class) => class.entries[list] = class.entries[list].wrapping_add(1),
                None => entry.others[list] = entry.others[list].wrapping_add(1),
            }
        }
    }

    /// Puts an entry at one end of the chain of a hash.
    fn put_in_chain(self, index: u32, hash: u32, end: End) {
        let bucket = bucket_of(hash, self.tables.entry_buckets.len());
        let chain = self.tables.entry_buckets[bucket];
        let (prev, next) = match end {
            End::Front => (NONE, chain.head),
            End::Back => (chain.tail, NONE),
        };
        {
            let record = &mut self.tables.entries[index as usize];
            (record.next, record.prev) = (next, prev);
        }
        match self.tables.entries.get_mut(prev as usize) {
            Some(before) => before.next = index,
            None => self.tables.entry_buckets[bucket].head = index,
        }
        match self.tables.entries.get_mut(next as usize) {
            Some(after) => after.prev = index,
            None => self.tables.entry_buckets[bucket].tail = index,
        }
    }

    /// Takes an entry off its list, which its status still names.
    #[inline]
    pub(crate) fn unchain_entry(mut self, index: u32) {
        let Some(record) = self.tables.entries.get(index as usize) else { return };
        let Some(list) = list_of(record) else { return };
        let place = match record.class {
            CLASS_SHORT => {
                let portal = record.portal.into();
                match self.place_in_short_list(portal, index) {
                    Some(place) => place,
                    None => return,
                }
            }
            class => entry_bucket(self.tables.entry_buckets.len(), record, class.min(CLASS_OTHER), list) as u32,
        };
        self.reborrow().unchain_found(FoundEntry { entry: index, place }, list);
    }

    /// As `unchain_entry`, for an entry that was found on this list.
    #[inline(always)]
    pub(super) fn unchain_found(mut self, FoundEntry { entry: index, place }: FoundEntry, list: usize) {
        let Some(record) = self.tables.entries.get(index as usize) else { return };
        if record.class == CLASS_SHORT {
            let portal = record.portal.into();
            return self.reborrow().take_off_short_list(portal, place);
        }
        let (class, portal, prev, next) = (record.class, record.portal, record.prev, record.next);
        let Some(bucket) = self.tables.entry_buckets.get_mut(place as usize) else { return };
        match self.tables.entries.get_mut(prev as usize) {
            Some(before) => before.next = next,
            None => bucket.head = next,
        }
        match self.tables.entries.get_mut(next as usize) {
            Some(after) => after.prev = prev,
            None => bucket.tail = prev,
        }
        if let Some(entry) = self.tables.portals.get_mut(usize::from(portal)) {
            entry.entries[list] = entry.entries[list].saturating_sub(1);
            let count = match entry.classes.get_mut(usize::from(class)) {
                Some(class) => &mut class.entries[list],
                None => &mut entry.others[list],
            };
            *count = count.saturating_sub(1);
            if *count == 0 {
                entry.active[list] &= !(1 << class.min(CLASS_OTHER));
            }
        }
    }

    /// The class of a wildcard pattern: an existing one, a free one, or one without entries.
    fn class_for(mut self, portal: u32, ignore_bits: u64, source_ignore: u64) -> u8 {
        let Some(entry) = self.tables.portals.get(portal as usize) else { return CLASS_OTHER };
        let has =
            |class: &Class| class.used != 0 && class.ignore_bits == ignore_bits && class.source_ignore == source_ignore;
        if let Some(number) = entry.classes.iter().position(has) {
            return number as u8;
        }
        let free = entry.classes.iter().position(|class| class.used == 0);
        let Some(number) = free.or_else(|| entry.classes.iter().position(|class| class.entries == [0, 0])) else {
            return CLASS_OTHER;
        };
        if entry.searched >> number & 1 != 0 {
            let first = entry.header_head;
            self.reborrow().each_header(first, |queue, index| queue.unchain_header_class(index, number as u8));
        }
        let entry = &mut self.tables.portals[portal as usize];
        entry.searched &= !(1 << number);
        entry.classes[number] = Class { ignore_bits, source_ignore, used: 1, ..Class::default() };
        number as u8
    }
}
