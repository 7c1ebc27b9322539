// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The PEs of a team as a first PE, a stride and a size, in ranks of the world.
//!
//! Carries out the triplets of `shmem_team_split_strided` and the grid of `shmem_team_split_2d` (OpenSHMEM, "Team
//! Management Routines"). Part of a span is a span, for any stride.
//!
//! Costs: all O(1).

use std::ffi::c_int;

/// PEs of the world: the first, the distance from each to the next, and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: c_int,
    pub stride: c_int,
    pub size: c_int,
}

impl Span {
    /// World rank of a member. The caller has checked that `pe` is one.
    #[inline(always)]
    pub fn world_rank(self, pe: c_int) -> usize {
        (self.start + pe * self.stride) as usize
    }

    /// The member number of a world rank, if it is a member.
    pub fn member(self, pe: usize) -> Option<c_int> {
        let distance = pe as i64 - i64::from(self.start);
        let index = match i64::from(self.stride) {
            0 => distance,
            stride if distance % stride == 0 => distance / stride,
            _ => return None,
        };
        (0..i64::from(self.size)).contains(&index).then_some(index as c_int)
    }

    /// A part of the members. `None`: one of them does not exist, or occurs twice.
    pub fn part(self, start: c_int, stride: c_int, size: c_int) -> Option<Span> {
        if size < 1 || (stride == 0 && size != 1) {
            return None;
        }
        let last = i64::from(start) + i64::from(stride) * i64::from(size - 1);
        let members = 0..i64::from(self.size);
        if !members.contains(&i64::from(start)) || !members.contains(&last) {
            return None;
        }
        let start = self.world_rank(start) as c_int;
        // The stride of one PE alone may be any number.
        let stride = if size == 1 { 1 } else { stride * self.stride };
        Some(Span { start, stride, size })
    }

    /// The row and the column of a member, in rows of `xrange`: the members with the same y, and those with the same x.
    pub fn row_and_column(self, xrange: c_int, pe: c_int) -> Option<(Span, Span)> {
        let xrange = xrange.min(self.size);
        if xrange < 1 {
            return None;
        }
        let (x, y) = (pe % xrange, pe / xrange);
        let row = self.part(y * xrange, 1, xrange.min(self.size - y * xrange))?;
        let column = self.part(x, xrange, (self.size - x - 1) / xrange + 1)?;
        Some((row, column))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORLD: Span = Span { start: 0, stride: 1, size: 10 };

    fn members(span: Span) -> Vec<usize> {
        (0..span.size).map(|pe| span.world_rank(pe)).collect()
    }

    #[test]
    fn parts_of_parts() {
        let even = WORLD.part(0, 2, 5).expect("all are there");
        assert_eq!(members(even), [0, 2, 4, 6, 8]);
        let back = even.part(4, -2, 3).expect("all are there");
        assert_eq!(members(back), [8, 4, 0]);
        assert_eq!(members(back.part(2, -1, 3).expect("all are there")), [0, 4, 8]);
        assert_eq!(members(back.part(1, 0, 1).expect("one PE")), [4]);
        assert_eq!(members(back.part(1, 7, 1).expect("one PE")), [4]);
        for (index, pe) in [(0, 8), (1, 4), (2, 0)] {
            assert_eq!(back.member(pe), Some(index));
        }
        for pe in [1, 2, 6, 12] {
            assert_eq!(back.member(pe), None);
        }
    }

    #[test]
    fn triplets_that_are_refused() {
        for (start, stride, size) in [
            (0, 1, 0),
            (0, 1, 11),
            (-1, 1, 2),
            (10, 1, 1),
            (0, 0, 2),
            (3, 4, 3),
            (2, -1, 4),
            (0, c_int::MAX, 3),
            (0, 1, -1),
        ] {
            assert_eq!(WORLD.part(start, stride, size), None, "{start} {stride} {size}");
        }
    }

    #[test]
    fn every_split_names_who_is_in_it() {
        for n in 1..=12 {
            let world = Span { start: 0, stride: 1, size: n };
            for start in -1..=n {
                for stride in -4..=4 {
                    for size in 0..=n + 1 {
                        let expected: Vec<i64> =
                            (0..size).map(|index| i64::from(start) + i64::from(stride) * i64::from(index)).collect();
                        let fits = size > 0
                            && (stride != 0 || size == 1)
                            && expected.iter().all(|pe| (0..i64::from(n)).contains(pe));
                        let part = world.part(start, stride, size);
                        assert_eq!(part.is_some(), fits, "{start} {stride} {size} of {n}");
                        let Some(part) = part else { continue };
                        for pe in 0..n as usize {
                            let index = expected.iter().position(|member| *member == pe as i64);
                            assert_eq!(part.member(pe), index.map(|index| index as c_int));
                        }
                    }
                }
            }
        }
    }

    /// The grid of the specification: 10 PEs in rows of 3.
    #[test]
    fn rows_and_columns() {
        let rows: [&[usize]; 4] = [&[0, 1, 2], &[3, 4, 5], &[6, 7, 8], &[9]];
        let columns: [&[usize]; 3] = [&[0, 3, 6, 9], &[1, 4, 7], &[2, 5, 8]];
        for pe in 0..10 {
            let (row, column) = WORLD.row_and_column(3, pe).expect("a grid");
            let (x, y) = (pe % 3, pe / 3);
            assert_eq!(members(row), rows[y as usize]);
            assert_eq!(members(column), columns[x as usize]);
            assert_eq!((row.member(pe as usize), column.member(pe as usize)), (Some(x), Some(y)));
        }
        assert_eq!(WORLD.row_and_column(0, 0), None);
        assert_eq!(WORLD.row_and_column(-3, 0), None);
        let (row, column) = WORLD.row_and_column(100, 7).expect("one row");
        assert_eq!((row, members(column)), (WORLD, vec![7]));
    }
}
