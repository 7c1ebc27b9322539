// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program's description of an entry to append or to search with, and the record made from it.

use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

use crate::handle::NONE;
use crate::tables::{CLASS_SHORT, Entry};

/// A program's description of an entry. Addresses are the program's own; the I/O vector is already in the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntrySpec {
    pub options: u32,
    pub start: u64,
    /// Bytes in total.
    pub length: u64,
    pub iov: u32,
    pub iov_count: u32,
    pub match_bits: u64,
    pub ignore_bits: u64,
    pub source: u64,
    pub source_ignore: u64,
    pub min_free: u64,
    pub user_ptr: u64,
    pub counter: u32,
    pub uid: u32,
}

/// Fills a free record. The slot's status is stored last, so the record stays free until it is complete.
#[inline(always)]
pub(super) fn fill(record: &mut Entry, portal: u32, spec: &EntrySpec) {
    *record = Entry {
        slot: record.slot,
        options: spec.options,
        match_bits: spec.match_bits,
        ignore_bits: spec.ignore_bits,
        source: spec.source,
        source_ignore: spec.source_ignore,
        start: spec.start,
        length: spec.length,
        user_ptr: spec.user_ptr,
        sequence: 0,
        next: NONE,
        prev: NONE,
        min_free: spec.min_free,
        local_offset: 0,
        counter: spec.counter,
        uid: spec.uid,
        iov: spec.iov,
        iov_count: spec.iov_count,
        headers: 0,
        portal: portal as u16,
        class: CLASS_SHORT,
        reserved: 0,
    };
    compiler_fence(SeqCst);
}

/// A record that is only used for a search.
pub(crate) fn search_entry(portal: u32, spec: &EntrySpec) -> Entry {
    Entry {
        options: spec.options,
        match_bits: spec.match_bits,
        ignore_bits: spec.ignore_bits,
        source: spec.source,
        source_ignore: spec.source_ignore,
        start: spec.start,
        length: spec.length,
        min_free: spec.min_free,
        user_ptr: spec.user_ptr,
        counter: spec.counter,
        uid: spec.uid,
        iov: NONE,
        portal: portal as u16,
        ..Entry::default()
    }
}
