// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Address ranges, disjoint and in ascending order. A call costs O(log n) in their number for each range that it changes.

use std::collections::BTreeMap;
use std::ops::Range;

/// The ends of the ranges, by their starts. Ranges that touch are one.
#[derive(Debug)]
pub struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub const fn new() -> Ranges {
        Ranges(BTreeMap::new())
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + Clone {
        self.0.iter().map(|(start, end)| *start..*end)
    }

    /// The last range that has some of these addresses.
    fn last_in(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let (start, end) = self.0.range(..range.end).next_back()?;
        (*end > range.start && !range.is_empty()).then_some(*start..*end)
    }

    /// Whether some of a range is here.
    pub fn meets(&self, range: &Range<u64>) -> bool {
        self.last_in(range).is_some()
    }

    /// Adds a range, some of which may be there already.
    pub fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.remove(&range);
        let Range { mut start, mut end } = range;
        if let Some((&before, _)) = self.0.range(..start).next_back().filter(|(_, end)| **end == start) {
            start = before;
        }
        if let Some(behind) = self.0.remove(&end) {
            end = behind;
        }
        self.0.insert(start, end);
    }

    /// Removes a range, some of which may be missing.
    pub fn remove(&mut self, range: &Range<u64>) {
        while let Some(Range { start, end }) = self.last_in(range) {
            self.0.remove(&start);
            if start < range.start {
                self.0.insert(start, range.start);
            }
            if end > range.end {
                self.0.insert(range.end, end);
            }
        }
    }

    /// Removes all ranges. Frees and allocates nothing: their memory is lost.
    pub fn forget(&mut self) {
        std::mem::forget(std::mem::take(&mut self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_what_was_added_and_not_removed() {
        let mut ranges = Ranges::new();
        let mut model = [false; 40];
        let mut seed = 1_u64;
        for _ in 0..2000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (start, length, add) = ((seed >> 33) % 30, (seed >> 40) % 10, seed >> 62 != 0);
            let range = start..start + length;
            model[start as usize..(start + length) as usize].fill(add);
            if add {
                ranges.add(range)
            } else {
                ranges.remove(&range)
            }
            let count = |at: u64| ranges.iter().filter(|range| range.contains(&at)).count();
            for (at, expected) in model.iter().enumerate() {
                assert_eq!(count(at as u64), usize::from(*expected), "{at} {ranges:?}");
            }
            assert!(ranges.iter().all(|range| range.start < range.end));
            assert!(ranges.iter().zip(ranges.iter().skip(1)).all(|(one, next)| one.end < next.start), "{ranges:?}");
            let held = model[7..19].iter().any(|held| *held);
            assert_eq!(ranges.meets(&(7..19)), held);
            assert_eq!(ranges.is_empty(), model.iter().all(|held| !held));
        }
        ranges.forget();
        assert!(ranges.is_empty());
    }
}
