// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unexpected headers: the list of a portal table entry in order of arrival, and the chains by which an appended entry
//! finds the first that it accepts. [`super`] has the invariants.

use super::{MatchQueue, bucket_of, key_hash};
use crate::bus::{Bus, Step};
use crate::handle::NONE;
use crate::portals::search::{EntryView, FoundHeader, accepts};
use crate::registers::Register;
use crate::tables::{Bucket, CLASS_OTHER, CLASSES, Header, Tables, header, slot};

impl<'a> MatchQueue<'_, 'a> {
    /// The class by whose chains headers are searched for a pattern.
    #[inline]
    fn searched_class_for(mut self, portal: u32, ignore_bits: u64, source_ignore: u64) -> u8 {
        let Some(entry) = self.tables.portals.get(portal as usize) else { return CLASS_OTHER };
        let has = |&number: &usize| {
            let class = &entry.classes[number];
            entry.searched >> number & 1 != 0
                && class.ignore_bits == ignore_bits
                && class.source_ignore == source_ignore
        };
        if let Some(number) = (0..CLASSES).find(has) {
            return number as u8;
        }
        self.reborrow().new_searched_class_for(portal, ignore_bits, source_ignore)
    }

    #[inline(never)]
    fn new_searched_class_for(mut self, portal: u32, ignore_bits: u64, source_ignore: u64) -> u8 {
        let class = self.reborrow().class_for(portal, ignore_bits, source_ignore);
        let Some(entry) = self.tables.portals.get_mut(portal as usize) else { return class };
        let first = entry.header_head;
        if class != CLASS_OTHER && entry.searched >> class & 1 == 0 {
            entry.searched |= 1 << class;
            self.reborrow().each_header(first, |queue, index| queue.chain_header_class(index, class));
        }
        class
    }

    pub(super) fn each_header(mut self, first: u32, mut visit: impl FnMut(MatchQueue<'_, 'a>, u32)) {
        let mut at = first;
        for _ in 0..self.tables.headers.len() {
            let Some(record) = self.tables.headers.get(at as usize) else { return };
            let next = record.links[0][0];
            visit(self.reborrow(), at);
            at = next;
        }
    }

    #[inline(always)]
    pub(crate) fn find_header<B: Bus>(mut self, bus: &mut B, portal: u32, view: &EntryView) -> Option<FoundHeader> {
        let record = self.tables.portals.get(portal as usize)?;
        if record.headers == 0 {
            return None;
        }
        let class = match record.searched == 0 && record.headers <= self.in_order() {
            true => CLASS_OTHER,
            false => self.reborrow().searched_class_for(portal, view.ignore_bits, view.source_ignore),
        };
        let headers = &*self.tables.headers;
        let matches = |index: u32| {
            headers.get(index as usize).is_some_and(|record| {
                slot::status(record.slot) == header::LIVE
                    && u32::from(record.portal) == portal
                    && accepts(view, &record.into())
            })
        };
        let capacity = self.tables.headers.len();
        let mut steps = 0;
        let mut found = None;
        if class == CLASS_OTHER {
            let mut at = self.tables.portals[portal as usize].header_head;
            while (at as usize) < capacity && steps <= capacity {
                steps += 1;
                bus.charge(Step::EntrySearched);
                if matches(at) {
                    found = Some(FoundHeader { index: at, chain: None });
                    break;
                }
                at = self.tables.headers[at as usize].links[0][0];
            }
        } else {
            let bits = view.match_bits & !view.ignore_bits;
            let source = view.source & !view.source_ignore;
            let hash = key_hash(portal, 0, class, bits, source);
            let (bucket, folded) = (bucket_of(hash, self.tables.header_buckets.len()), self.tables.folded.headers);
            let mut passed = 0;
            bus.prefetch_write(&self.tables.header_buckets[bucket]);
            let mut node = self.tables.header_buckets[bucket].head;
            self.prefetch_header(bus, node_parts(node).0);
            while node != NONE && steps <= capacity * CLASSES {
                let (index, node_class) = node_parts(node);
                if folded != 0 && passed <= capacity * CLASSES {
                    let Some(record) = headers.get(index as usize) else { break };
                    if header_hash(self.tables, record, node_class).is_some_and(|other| (other ^ hash) & folded != 0) {
                        passed += 1;
                        node = record.links[1 + usize::from(node_class)][0];
                        continue;
                    }
                }
                steps += 1;
                bus.charge(Step::EntrySearched);
                if node_class == class && matches(index) {
                    found = Some(FoundHeader { index, chain: Some((class, bucket)) });
                    break;
                }
                let Some(record) = self.tables.headers.get(index as usize) else { break };
                node = record.links[1 + usize::from(node_class)][0];
            }
        }
        self.registers.add(Register::ListSteps, steps as u64);
        if let Some(record) = found.and_then(|found: FoundHeader| self.tables.headers.get(found.index as usize)) {
            // The links of its neighbours are about to change, and a receiver often takes one of them next.
            let [next, prev] = record.links[0];
            self.prefetch_header(bus, next);
            self.prefetch_header(bus, prev);
        }
        found
    }

    #[inline(always)]
    fn prefetch_header<B: Bus>(&self, bus: &mut B, index: u32) {
        if let Some(record) = self.tables.headers.get(index as usize) {
            bus.prefetch_write(record);
        }
    }

    pub(crate) fn first_header(&self, portal: u32) -> Option<u32> {
        let head = self.tables.portals.get(portal as usize)?.header_head;
        self.tables.headers.get(head as usize).filter(|record| slot::status(record.slot) == header::LIVE)?;
        Some(head)
    }

    /// Puts a filled header at the end of its portal table entry's unexpected list.
    pub(crate) fn chain_header(mut self, index: u32) {
        let Some(&Header { portal, .. }) = self.tables.headers.get(index as usize) else { return };
        let Some(entry) = self.tables.portals.get_mut(usize::from(portal)) else { return };
        let tail = core::mem::replace(&mut entry.header_tail, index);
        entry.headers = entry.headers.wrapping_add(1);
        if tail == NONE {
            entry.header_head = index;
        } else if let Some(last) = self.tables.headers.get_mut(tail as usize) {
            last.links[0][0] = index;
        }
        let record = &mut self.tables.headers[index as usize];
        record.links[0] = [NONE, tail];
        record.chained = 0;
        let mut searched = self.tables.portals[usize::from(portal)].searched;
        while searched != 0 {
            self.reborrow().chain_header_class(index, searched.trailing_zeros() as u8);
            searched &= searched - 1;
        }
    }

    /// Takes a header off all of its chains.
    #[inline(always)]
    pub(crate) fn unchain_header(mut self, FoundHeader { index, chain }: FoundHeader) {
        let Some(record) = self.tables.headers.get(index as usize) else { return };
        let (mut chained, [next, prev], portal) = (record.chained, record.links[0], usize::from(record.portal));
        if let Some((class, bucket)) = chain {
            self.reborrow().unchain_header_from(index, class, bucket);
            chained &= !(1 << class);
        }
        while chained != 0 {
            self.reborrow().unchain_header_class(index, chained.trailing_zeros() as u8);
            chained &= chained - 1;
        }
        match self.tables.headers.get_mut(prev as usize) {
            Some(before) => before.links[0][0] = next,
            None => {
                if let Some(entry) = self.tables.portals.get_mut(portal) {
                    entry.header_head = next;
                }
            }
        }
        match self.tables.headers.get_mut(next as usize) {
            Some(after) => after.links[0][1] = prev,
            None => {
                if let Some(entry) = self.tables.portals.get_mut(portal) {
                    entry.header_tail = prev;
                }
            }
        }
        if let Some(entry) = self.tables.portals.get_mut(portal) {
            entry.headers = entry.headers.saturating_sub(1);
        }
    }

    pub(super) fn chain_header_class(self, index: u32, class: u8) {
        let Some(record) = self.tables.headers.get(index as usize) else { return };
        let Some(bucket) = header_bucket(self.tables, record, class) else { return };
        let node = node_of(index, class);
        let Bucket { tail, .. } = self.tables.header_buckets[bucket];
        let (last, last_class) = node_parts(tail);
        match self.tables.headers.get_mut(last as usize) {
            Some(last) if tail != NONE => last.links[1 + usize::from(last_class)][0] = node,
            _ => self.tables.header_buckets[bucket].head = node,
        }
        self.tables.header_buckets[bucket].tail = node;
        let record = &mut self.tables.headers[index as usize];
        record.links[1 + usize::from(class)] = [NONE, tail];
        record.chained |= 1 << class;
    }

    pub(super) fn unchain_header_class(mut self, index: u32, class: u8) {
        let Some(record) = self.tables.headers.get(index as usize) else { return };
        if record.chained & 1 << class == 0 {
            return;
        }
        let Some(bucket) = header_bucket(self.tables, record, class) else { return };
        self.reborrow().unchain_header_from(index, class, bucket);
    }

    /// Takes a header off the chain of a class, which is in this bucket.
    #[inline(always)]
    fn unchain_header_from(self, index: u32, class: u8, bucket: usize) {
        let Some(record) = self.tables.headers.get(index as usize) else { return };
        let [next, prev] = record.links[1 + usize::from(class)];
        let (before, before_class) = node_parts(prev);
        match self.tables.headers.get_mut(before as usize) {
            Some(before) if prev != NONE => before.links[1 + usize::from(before_class)][0] = next,
            _ => self.tables.header_buckets[bucket].head = next,
        }
        let (after, after_class) = node_parts(next);
        match self.tables.headers.get_mut(after as usize) {
            Some(after) if next != NONE => after.links[1 + usize::from(after_class)][1] = prev,
            _ => self.tables.header_buckets[bucket].tail = prev,
        }
        self.tables.headers[index as usize].chained &= !(1 << class);
    }
}

fn header_bucket(tables: &Tables<'_>, record: &Header, class: u8) -> Option<usize> {
    header_hash(tables, record, class).map(|hash| bucket_of(hash, tables.header_buckets.len()))
}

fn header_hash(tables: &Tables<'_>, record: &Header, class: u8) -> Option<u32> {
    let entry = tables.portals.get(usize::from(record.portal))?;
    let pattern = entry.classes.get(usize::from(class))?;
    let bits = record.match_bits & !pattern.ignore_bits;
    let source = record.source & !pattern.source_ignore;
    Some(key_hash(record.portal.into(), 0, class, bits, source))
}

/// A link of the headers' index: a header and one of its chains.
fn node_of(index: u32, class: u8) -> u32 {
    index * CLASSES as u32 + u32::from(class)
}

pub(super) fn node_parts(node: u32) -> (u32, u8) {
    (node / CLASSES as u32, (node % CLASSES as u32) as u8)
}
