// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Free runs of units (pages, blocks) in one range: best fit, lowest address among equals, neighbours joined.
//!
//! The result depends only on the earlier calls: two processes that make the same calls get the same runs. A call costs
//! O(log n) in the number of free runs; a run takes some 100 bytes.

use std::collections::{BTreeMap, BTreeSet};

/// Free runs of units. No two are adjacent.
#[derive(Debug, Default)]
pub struct Extents {
    /// First unit, units.
    by_place: BTreeMap<u64, u64>,
    /// Units, first unit.
    by_size: BTreeSet<(u64, u64)>,
}

impl Extents {
    /// Takes a run out of the smallest extent that is long enough.
    pub fn take(&mut self, units: u64) -> Option<u64> {
        let (_, first) = *self.by_size.range((units, 0)..).next()?;
        self.take_at(first, units).then_some(first)
    }

    /// Takes exactly this run from the beginning of an extent. False: it is not free there, and nothing has changed.
    pub fn take_at(&mut self, first: u64, units: u64) -> bool {
        let Some(length) = self.by_place.get(&first).copied().filter(|length| *length >= units) else { return false };
        self.remove(first, length);
        if length > units {
            self.insert(first + units, length - units);
        }
        true
    }

    /// Adds a run, and joins it with the adjacent extents.
    pub fn give(&mut self, first: u64, units: u64) {
        let (mut first, mut units) = (first, units);
        let before = self.by_place.range(..first).next_back().map(|(place, length)| (*place, *length));
        if let Some((place, length)) = before.filter(|(place, length)| place + length == first) {
            self.remove(place, length);
            (first, units) = (place, length + units);
        }
        if let Some(length) = self.by_place.get(&(first + units)).copied() {
            self.remove(first + units, length);
            units += length;
        }
        self.insert(first, units);
    }

    /// Takes the longest extent. Returns first unit, units.
    pub fn take_longest(&mut self) -> Option<(u64, u64)> {
        let (units, first) = *self.by_size.last()?;
        self.remove(first, units);
        Some((first, units))
    }

    /// Returns the length of the extent that ends at `end`.
    pub fn tail(&self, end: u64) -> u64 {
        let last = self.by_place.last_key_value();
        last.filter(|(first, units)| *first + *units == end).map_or(0, |(_, units)| *units)
    }

    /// Returns the extents in the order of their places: first unit, units.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> {
        self.by_place.iter().map(|(first, units)| (*first, *units))
    }

    /// Panics unless both tables hold the same extents and no two are adjacent.
    #[cfg(any(test, feature = "testing"))]
    pub fn check(&self) {
        assert_eq!(self.by_size, self.runs().map(|(first, units)| (units, first)).collect());
        let ends_before = |(end, next): (u64, u64)| end < next;
        let ends = self.runs().map(|(first, units)| first + units);
        assert!(ends.zip(self.runs().skip(1).map(|(first, _)| first)).all(ends_before), "free extents touch");
    }

    fn insert(&mut self, first: u64, units: u64) {
        self.by_place.insert(first, units);
        self.by_size.insert((units, first));
    }

    fn remove(&mut self, first: u64, units: u64) {
        self.by_place.remove(&first);
        self.by_size.remove(&(units, first));
    }
}
