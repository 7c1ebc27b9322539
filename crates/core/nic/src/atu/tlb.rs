// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The translation lookaside buffer (TLB): set associative (seed 002, sections 5.3 and 5.7). One way: direct mapped.
//!
//! The low bits of a page's number choose its set. A set's entries lie newest first, so their order is their age, and a
//! full set loses its last entry: the oldest. Removal leaves a hole, which the next insertion into the set uses.
//!
//! Invariants
//! 1. A page is in its set at most once.
//! 2. The entries of a set, holes left out, lie in the order of their insertion, newest first.
//! 3. A TLB whose sizes are not powers of two, or that holds other words, finds wrong entries or none, but nothing
//!    panics.
//!
//! Cost: O(ways); removal of many pages or of a VPID: O(entries) at most. 16 bytes for each entry.

use core::ops::Range;

use super::entry::AddressEntry;
use super::nla::NlaPage;
use crate::tables::TlbEntry;

const HOLE: TlbEntry = TlbEntry { page: 0, entry: 0 };

#[inline(always)]
fn set(entries: usize, ways: u32, page: NlaPage) -> Range<usize> {
    let ways_shift = ways.trailing_zeros().min(31);
    let sets = entries >> ways_shift;
    let start = (page.index() & sets.wrapping_sub(1)) << ways_shift;
    start..start.wrapping_add(ways as usize)
}

/// The entry of a page, if the TLB has it.
#[inline]
pub fn find(tlb: &[TlbEntry], ways: u32, page: NlaPage) -> Option<AddressEntry> {
    let set = tlb.get(set(tlb.len(), ways, page))?;
    let holds = |slot: &&TlbEntry| slot.entry != 0 && slot.page == u64::from(page.number());
    set.iter().find(holds).map(|slot| AddressEntry::from_bits(slot.entry))
}

/// Adds an entry that was read. It replaces an entry of the same page, and takes its age.
pub fn insert(tlb: &mut [TlbEntry], ways: u32, page: NlaPage, entry: AddressEntry) {
    let range = set(tlb.len(), ways, page);
    let Some(set) = tlb.get_mut(range) else { return };
    let added = TlbEntry { page: page.number().into(), entry: entry.bits() };
    if let Some(same) = set.iter_mut().find(|slot| slot.entry != 0 && slot.page == added.page) {
        *same = added;
        return;
    }
    let place = set.iter().position(|slot| slot.entry == 0).unwrap_or(set.len().saturating_sub(1));
    set.copy_within(..place, place.min(1));
    if let Some(newest) = set.first_mut() {
        *newest = added;
    }
}

/// Removes the entries of `count` pages from `first` on. Returns the number removed.
pub fn remove(tlb: &mut [TlbEntry], ways: u32, first: NlaPage, count: u32) -> u64 {
    let first_number = u64::from(first.number());
    let pages = first_number..first_number + u64::from(count);
    // For a few pages, searches their sets; for many, all sets.
    if (count as usize).saturating_mul(ways as usize) >= tlb.len() {
        return clear(tlb, |slot| pages.contains(&slot.page));
    }
    let mut removed = 0;
    for number in pages {
        let Ok(page) = NlaPage::new(number) else { break };
        let range = set(tlb.len(), ways, page);
        removed += clear(tlb.get_mut(range).unwrap_or_default(), |slot| slot.page == number);
    }
    removed
}

/// Removes the entries of a VPID. Returns the number removed.
pub fn remove_vpid(tlb: &mut [TlbEntry], vpid: u16) -> u64 {
    clear(tlb, |slot| AddressEntry::from_bits(slot.entry).vpid() == vpid)
}

fn clear(slots: &mut [TlbEntry], which: impl Fn(&TlbEntry) -> bool) -> u64 {
    let mut removed = 0;
    for slot in slots.iter_mut().filter(|slot| slot.entry != 0 && which(slot)) {
        *slot = HOLE;
        removed += 1;
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(number: u64) -> NlaPage {
        NlaPage::new(number).unwrap()
    }

    fn entry(bits: u64) -> AddressEntry {
        AddressEntry::from_bits(bits)
    }

    #[test]
    fn the_oldest_of_a_set_goes_first() {
        let mut tlb = [HOLE; 8];
        // Four sets of two. Pages 1, 5, 9 and 13 are in set 1.
        for number in [1, 2, 5, 9] {
            insert(&mut tlb, 2, page(number), entry(number + 100));
        }
        let found = |tlb: &[TlbEntry], number| find(tlb, 2, page(number)).map(AddressEntry::bits);
        assert_eq!([1, 2, 5, 9].map(|number| found(&tlb, number)), [None, Some(102), Some(105), Some(109)]);
        // A replacement keeps the age of the old entry.
        insert(&mut tlb, 2, page(5), entry(7));
        assert_eq!(found(&tlb, 5), Some(7));
        insert(&mut tlb, 2, page(13), entry(1));
        assert_eq!([5, 9, 13].map(|number| found(&tlb, number)), [None, Some(109), Some(1)]);
        // A hole is used before the oldest entry is dropped.
        assert_eq!(remove(&mut tlb, 2, page(13), 1), 1);
        insert(&mut tlb, 2, page(1), entry(2));
        assert_eq!([1, 9, 13].map(|number| found(&tlb, number)), [Some(2), Some(109), None]);
        insert(&mut tlb, 2, page(5), entry(3));
        assert_eq!([1, 5, 9].map(|number| found(&tlb, number)), [Some(2), Some(3), None]);
    }

    #[test]
    fn removal_of_ranges_and_vpids() {
        for ways in [1, 2, 4, 8] {
            let fill = || {
                let mut tlb = [HOLE; 8];
                (0..8).for_each(|number| insert(&mut tlb, ways, page(number), entry(1 | (number & 1) << 2)));
                tlb
            };
            let mut tlb = fill();
            assert_eq!(remove(&mut tlb, ways, page(6), 1), 1);
            assert_eq!(remove(&mut tlb, ways, page(6), 1), 0);
            assert_eq!(remove(&mut tlb, ways, page(5), u32::MAX), 2);
            assert_eq!(remove(&mut tlb, ways, page((1 << 27) - 1), 2), 0);
            assert_eq!(remove_vpid(&mut tlb, 1), 2);
            assert_eq!(remove_vpid(&mut tlb, 2), 0);
            assert_eq!(remove(&mut tlb, ways, page(0), 8), 3);
        }
    }

    /// Sizes that no NIC has.
    #[test]
    fn odd_sizes_do_no_harm() {
        for entries in 0..10 {
            for ways in [0, 1, 2, 3, 5, 8, 16, 1 << 31, u32::MAX] {
                let mut tlb = [HOLE; 10];
                let tlb = &mut tlb[..entries];
                for number in [0, 1, 7, (1 << 27) - 1] {
                    insert(tlb, ways, page(number), entry(1));
                    find(tlb, ways, page(number));
                    remove(tlb, ways, page(number), 3);
                }
                remove_vpid(tlb, 0);
            }
        }
    }
}
