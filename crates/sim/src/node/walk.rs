// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a search of plain ordered lists would have cost, where a machine has no hash.
//!
//! The tables find their entry by hash; every entry and header carries its place in the order. So the entries that a walk
//! would have compared are those of the list that come before the one that was found, and it; or the whole list.
//!
//! O(slots up to the last of the list) each.

use selvedge_nic::portals::{list, options};
use selvedge_nic::tables::{Entry, Header, Request, entry, header, slot};
use selvedge_nic::{Nic, NoMemory};

/// Entries compared, and how many the lists hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Walk {
    pub compared: u64,
    pub length: u64,
}

/// What finding the entry of a request costs: the priority list, then, if nothing there matches, the overflow list.
pub(super) fn of_request(nic: &mut Nic<'_>, request: &Request) -> Walk {
    let Some(record) = nic.tables.portals.get(request.portal as usize) else { return Walk::default() };
    let lengths = record.entries;
    let mut walk = Walk::default();
    for which in [list::PRIORITY, list::OVERFLOW] {
        let length = u64::from(lengths[usize::from(which)]);
        walk.length += length;
        match nic.peek_entry(&mut NoMemory, request, which) {
            Some(found) => {
                walk.compared += 1 + entries_before(nic, request.portal, which, found);
                return walk;
            }
            None => walk.compared += length,
        }
    }
    walk
}

fn entries_before(nic: &Nic<'_>, portal: u32, which: u8, found: u32) -> u64 {
    let status = if which == list::PRIORITY { entry::PRIORITY } else { entry::OVERFLOW };
    let Some(sequence) = nic.tables.entries.get(found as usize).map(|record| record.sequence) else { return 0 };
    let length = nic.tables.portals.get(portal as usize).map_or(0, |record| record.entries[usize::from(which & 1)]);
    let on_list = |record: &&Entry| slot::status(record.slot) == status && u32::from(record.portal) == portal;
    // Slots are handed out from the front: when all that the list holds have been seen, the rest of the table is empty for it.
    let listed = nic.tables.entries.iter().filter(on_list).take(length as usize);
    listed.filter(|record| record.sequence < sequence).count() as u64
}

/// What finding the unexpected header `found` of a portal table entry costs; None: there is none for whoever asked.
pub(crate) fn of_headers(nic: &Nic<'_>, portal: u32, found: Option<u32>) -> (u64, u64) {
    let Ok(record) = nic.portal(portal) else { return (0, 0) };
    let length = u64::from(record.headers);
    let Some(sequence) = found.and_then(|found| nic.unexpected(found)).map(|record| record.sequence) else {
        return (length, length);
    };
    let on_list = |record: &&Header| slot::status(record.slot) == header::LIVE && u32::from(record.portal) == portal;
    let listed = nic.tables.headers.iter().filter(on_list).take(length as usize);
    (listed.filter(|record| record.sequence < sequence).count() as u64 + 1, length)
}

/// The entries of a NIC's priority lists that wait for one message, as a user would name them.
pub(super) fn receives(nic: &Nic<'_>) -> Vec<String> {
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
