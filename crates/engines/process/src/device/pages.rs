// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The free entries of the global address tables, and those of each region.
//!
//! A region takes one run of entries, so its network logical addresses are contiguous, also across tables. A single
//! page takes the smallest free run. So single pages fill the gaps, and long runs stay whole (seed 002, section 5.3).
//!
//! Cost: O(log n) in the number of free runs and of regions.

use std::collections::BTreeMap;

use crate::Extents;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Region {
    vpid: u16,
    pages: u64,
}

/// The free entries, and the regions by their first entry.
#[derive(Debug, Default)]
pub struct FreePages {
    free: Extents,
    regions: BTreeMap<u64, Region>,
}

impl FreePages {
    /// Makes a set of `entries` free entries.
    pub fn new(entries: u64) -> FreePages {
        let mut free = Extents::default();
        if entries != 0 {
            free.give(0, entries);
        }
        FreePages { free, regions: BTreeMap::new() }
    }

    /// Takes a run of entries. None if no free run is long enough.
    pub fn take(&mut self, vpid: u16, pages: u64) -> Option<u64> {
        let first = self.free.take(pages)?;
        self.regions.insert(first, Region { vpid, pages });
        Some(first)
    }

    /// Gives a region's run back.
    pub fn give(&mut self, first: u64) {
        if let Some(region) = self.regions.remove(&first) {
            self.free.give(first, region.pages);
        }
    }

    /// Returns the number of pages of a port's region that begins at this entry.
    pub fn pages_of(&self, vpid: u16, first: u64) -> Option<u64> {
        self.regions.get(&first).filter(|region| region.vpid == vpid).map(|region| region.pages)
    }

    /// Returns the regions of a port: first entry, pages.
    pub fn regions_of(&self, vpid: u16) -> Vec<(u64, u64)> {
        let of_port = self.regions.iter().filter(|(_, region)| region.vpid == vpid);
        of_port.map(|(first, region)| (*first, region.pages)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_taken_once_and_come_back() {
        let mut pages = FreePages::new(10);
        let long = pages.take(1, 7).expect("there is room");
        let short = pages.take(2, 3).expect("there is room");
        assert_eq!(pages.take(1, 1), None);
        assert_eq!(pages.pages_of(1, long), Some(7));
        assert_eq!(pages.pages_of(2, long), None, "the region of another port");
        assert_eq!(pages.pages_of(1, long + 1), None, "no region begins there");
        pages.give(long);
        assert_eq!(pages.take(3, 8), None, "the rest is taken");
        pages.give(short);
        assert_eq!(pages.take(3, 10), Some(0));
        assert_eq!(pages.regions_of(3), [(0, 10)]);
        assert_eq!(FreePages::new(0).take(0, 1), None);
    }
}
