// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of searching plain ordered lists, for a machine without a hash.
//!
//! The NIC's tables find an entry by hash, but every entry and header has a sequence number. So the entries that a
//! search of the list would have compared are known: the found entry and those before it, or the whole list.
//!
//! Each function costs O(slots up to the last one of the list).

use selvedge_nic::portals::{list, options};
use selvedge_nic::tables::{Entry, Header, Request, entry, header, slot};
use selvedge_nic::{Nic, NoMemory};

/// A search: entries compared, and length of the lists searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ListSearch {
    pub compared: u64,
    pub length: u64,
}

/// Returns the search for the entry that matches a request: the priority list, then the overflow list.
pub(super) fn request_search(nic: &mut Nic<'_>, request: &Request) -> ListSearch {
    let Some(record) = nic.tables.portals.get(request.portal as usize) else { return ListSearch::default() };
    let lengths = record.entries;
    let mut search = ListSearch::default();
    for which in [list::PRIORITY, list::OVERFLOW] {
        let length = u64::from(lengths[usize::from(which)]);
        search.length += length;
        match nic.match_queue().peek(&mut NoMemory, request, which) {
            Some(found) => {
                search.compared += 1 + entries_before(nic, request.portal, which, found);
                return search;
            }
            None => search.compared += length,
        }
    }
    search
}

fn entries_before(nic: &Nic<'_>, portal: u32, which: u8, found: u32) -> u64 {
    let status = if which == list::PRIORITY { entry::PRIORITY } else { entry::OVERFLOW };
    let Some(sequence) = nic.tables.entries.get(found as usize).map(|record| record.sequence) else { return 0 };
    let length = nic.tables.portals.get(portal as usize).map_or(0, |record| record.entries[usize::from(which & 1)]);
    let on_list = |record: &&Entry| slot::status(record.slot) == status && u32::from(record.portal) == portal;
    // Slots are allocated from the front: after the last entry of the list the table has none.
    let listed = nic.tables.entries.iter().filter(on_list).take(length as usize);
    listed.filter(|record| record.sequence < sequence).count() as u64
}

/// Returns the search for the unexpected header `found` of a portal table entry: headers compared, list length.
pub(crate) fn header_search(nic: &Nic<'_>, portal: u32, found: Option<u32>) -> (u64, u64) {
    let Ok(record) = nic.portal(portal) else { return (0, 0) };
    let length = u64::from(record.headers);
    let Some(sequence) = found.and_then(|found| nic.unexpected(found)).map(|record| record.sequence) else {
        return (length, length);
    };
    let on_list = |record: &&Header| slot::status(record.slot) == header::LIVE && u32::from(record.portal) == portal;
    let listed = nic.tables.headers.iter().filter(on_list).take(length as usize);
    (listed.filter(|record| record.sequence < sequence).count() as u64 + 1, length)
}

/// Returns up to 8 use-once entries of a NIC's priority lists, as text for the user.
pub(super) fn posted_receives(nic: &Nic<'_>) -> Vec<String> {
    let waits =
        |record: &&Entry| slot::status(record.slot) == entry::PRIORITY && record.options & options::USE_ONCE != 0;
    let source = |record: &Entry| match record.source_ignore {
        0 => record.source.to_string(),
        _ => "any".to_owned(),
    };
    let show = |record: &Entry| {
        format!(
            "portal {} source {} bits {:#x}/{:#x}",
            record.portal,
            source(record),
            record.match_bits,
            record.ignore_bits
        )
    };
    nic.tables.entries.iter().filter(waits).take(8).map(show).collect()
}
