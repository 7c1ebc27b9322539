// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The terms of a search, and its results.
//!
//! A request brings a [`Key`]. An entry, or a search of the unexpected headers, brings a [`EntryView`]. [`accepts`] is
//! the rule by which the two match. [`super::matching`] searches the lists by this rule.

use super::constants::options;
use super::entry::EntrySpec;
use crate::tables::{Entry, Header, Request};

/// The fields of a request that matching compares.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    pub match_bits: u64,
    pub source: u64,
    pub length: u64,
    pub remote_offset: u64,
}

impl From<&Request> for Key {
    #[inline(always)]
    fn from(request: &Request) -> Key {
        Key {
            match_bits: request.match_bits,
            source: request.initiator,
            length: request.length,
            remote_offset: request.remote_offset,
        }
    }
}

impl From<&Header> for Key {
    #[inline(always)]
    fn from(record: &Header) -> Key {
        Key {
            match_bits: record.match_bits,
            source: record.source,
            length: record.rlength,
            remote_offset: record.remote_offset,
        }
    }
}

/// An entry that a search found, and its number in the short list or its bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundEntry {
    pub entry: u32,
    pub place: u32,
}

/// An unexpected header that a search found, with the class and bucket if it was found on a class's chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundHeader {
    pub index: u32,
    pub(super) chain: Option<(u8, usize)>,
}

/// The fields of an entry that matching and its events read. The entry is linked, is about to be linked, or describes a
/// search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryView {
    pub match_bits: u64,
    pub ignore_bits: u64,
    pub source: u64,
    pub source_ignore: u64,
    pub options: u32,
    pub counter: u32,
    pub length: u64,
    pub local_offset: u64,
    pub user_ptr: u64,
}

impl From<&Entry> for EntryView {
    #[inline(always)]
    fn from(record: &Entry) -> EntryView {
        EntryView {
            match_bits: record.match_bits,
            ignore_bits: record.ignore_bits,
            source: record.source,
            source_ignore: record.source_ignore,
            options: record.options,
            counter: record.counter,
            length: record.length,
            local_offset: record.local_offset,
            user_ptr: record.user_ptr,
        }
    }
}

impl From<&EntrySpec> for EntryView {
    #[inline(always)]
    fn from(spec: &EntrySpec) -> EntryView {
        EntryView {
            match_bits: spec.match_bits,
            ignore_bits: spec.ignore_bits,
            source: spec.source,
            source_ignore: spec.source_ignore,
            options: spec.options,
            counter: spec.counter,
            length: spec.length,
            local_offset: 0,
            user_ptr: spec.user_ptr,
        }
    }
}

/// Whether an entry or a search accepts a request: bits, source, and length where it may not be cut.
#[inline(always)]
pub(crate) fn accepts(view: &EntryView, key: &Key) -> bool {
    if (view.match_bits ^ key.match_bits) & !view.ignore_bits != 0
        || (view.source ^ key.source) & !view.source_ignore != 0
    {
        return false;
    }
    if view.options & options::NO_TRUNCATE == 0 {
        return true;
    }
    let offset = if view.options & options::MANAGE_LOCAL != 0 { view.local_offset } else { key.remote_offset };
    offset.checked_add(key.length).is_some_and(|end| end <= view.length)
}

impl From<u32> for FoundHeader {
    /// A header that was not found by a search.
    fn from(index: u32) -> FoundHeader {
        FoundHeader { index, chain: None }
    }
}
