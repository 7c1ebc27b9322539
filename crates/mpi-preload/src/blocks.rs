// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which pages are whose: a table with a word for each page of the range, and short blocks that were given back and are soon wanted
//! again.
//!
//! Invariants
//! 1. The word of a block's first page has its pages; the words of all others are 0.
//! 2. A short block that waits to be taken again is marked there, so that giving it twice is seen.
//!
//! Costs: a look is one load. The table takes up memory only where blocks have been: 4 bytes for each of their pages.

use std::ptr;

use rustix::mm::{MapFlags, ProtFlags};

/// Blocks of up to so many pages wait here, ...
const SHORT_PAGES: u64 = 8;
/// ... so many of each length.
const WAITING_MAX: usize = 32;
/// Of a word: the block waits.
const WAITS: u32 = 1 << 31;
/// Most pages of a block.
pub const PAGES_MAX: u64 = WAITS as u64 - 1;

/// The blocks of a range of pages.
pub struct Blocks {
    /// By page.
    table: &'static mut [u32],
    /// No block has ever had pages behind this one.
    end: u64,
    /// In blocks that are somebody's.
    pages: u64,
    /// First pages of blocks that wait, by their pages.
    waiting: Box<[Vec<u64>]>,
}

/// What became of a block that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// It waits.
    Kept,
    /// So many pages are nobody's.
    Free(u64),
    /// There is no such block.
    None,
}

impl Blocks {
    /// For a range of so many pages. None: there is no address space for the table.
    pub fn new(pages: u64) -> Option<Blocks> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        let bytes = pages as usize * size_of::<u32>();
        // SAFETY: a new mapping, of zeroes, that stays: that many words.
        let table = unsafe {
            let start = rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, protection, flags).ok()?;
            std::slice::from_raw_parts_mut(start.cast::<u32>(), pages as usize)
        };
        let waiting = (0..=SHORT_PAGES).map(|_| Vec::with_capacity(WAITING_MAX)).collect();
        Some(Blocks { table, end: 0, pages: 0, waiting })
    }

    /// Pages of the block that begins here and is somebody's.
    #[inline(always)]
    pub fn get(&self, first: u64) -> Option<u64> {
        let word = self.table.get(first as usize).copied().unwrap_or(0);
        (word != 0 && word & WAITS == 0).then_some(word.into())
    }

    /// How many pages are somebody's.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// A block of so many pages, or the same one with another number of them.
    pub fn put(&mut self, first: u64, pages: u64) {
        self.pages = self.pages + pages - self.get(first).unwrap_or(0);
        self.table[first as usize] = pages as u32;
        self.end = self.end.max(first + pages);
    }

    /// Takes one of so many pages that waits.
    #[inline(always)]
    pub fn take_waiting(&mut self, pages: u64) -> Option<u64> {
        let first = self.waiting.get_mut(pages as usize)?.pop()?;
        self.table[first as usize] = pages as u32;
        self.pages += pages;
        Some(first)
    }

    /// Gives a block back; a short one is kept if it `may_wait`.
    #[inline(always)]
    pub fn give(&mut self, first: u64, may_wait: bool) -> Given {
        let Some(pages) = self.get(first) else { return Given::None };
        self.pages -= pages;
        if let Some(waiting) = self.waiting.get_mut(pages as usize).filter(|all| may_wait && all.len() < WAITING_MAX) {
            waiting.push(first);
            self.table[first as usize] = WAITS | pages as u32;
            return Given::Kept;
        }
        self.table[first as usize] = 0;
        Given::Free(pages)
    }

    /// One that waits, which is nobody's from now on: first page, pages.
    pub fn release_waiting(&mut self) -> Option<(u64, u64)> {
        let (pages, first) = self.waiting.iter_mut().enumerate().find_map(|(pages, all)| Some((pages, all.pop()?)))?;
        self.table[first as usize] = 0;
        Some((first, pages as u64))
    }

    /// Runs of pages that are somebody's, blocks that touch as one: first page, pages. Allocates nothing.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            while at < self.end && self.get(at).is_none() {
                at += 1;
            }
            let first = at;
            while let Some(pages) = self.get(at) {
                at += pages;
            }
            (at > first).then_some((first, at - first))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_blocks_wait_and_are_given_once() {
        let mut blocks = Blocks::new(1 << 20).unwrap();
        blocks.put(5, 3);
        blocks.put(100, SHORT_PAGES + 1);
        assert_eq!((blocks.get(5), blocks.get(6), blocks.get(1 << 20), blocks.pages()), (Some(3), None, None, 12));
        assert_eq!((blocks.give(5, true), blocks.give(5, true), blocks.get(5)), (Given::Kept, Given::None, None));
        assert_eq!((blocks.take_waiting(2), blocks.take_waiting(3), blocks.get(5)), (None, Some(5), Some(3)));
        assert_eq!((blocks.give(5, false), blocks.take_waiting(3)), (Given::Free(3), None));
        assert_eq!(blocks.give(100, true), Given::Free(SHORT_PAGES + 1), "too long to wait");
        assert_eq!((blocks.pages(), blocks.release_waiting()), (0, None));
    }

    #[test]
    fn no_more_wait_than_there_is_room_for() {
        let mut blocks = Blocks::new(1000).unwrap();
        for first in 0..100 {
            blocks.put(first, 1);
        }
        let kept = (0..100).filter(|first| blocks.give(*first, true) == Given::Kept).count();
        assert_eq!(kept, WAITING_MAX);
        let released =
            std::iter::from_fn(|| blocks.release_waiting()).inspect(|(_, pages)| assert_eq!(*pages, 1)).count();
        assert_eq!((released, blocks.get(0), blocks.pages()), (WAITING_MAX, None, 0));
    }

    #[test]
    fn runs_are_of_blocks_that_touch() {
        let mut blocks = Blocks::new(1000).unwrap();
        assert_eq!(blocks.runs().next(), None);
        for (first, pages) in [(2, 3), (5, 1), (7, 10), (17, 2), (30, 1), (31, 4)] {
            blocks.put(first, pages);
        }
        blocks.put(17, 1);
        assert_eq!(blocks.give(30, true), Given::Kept);
        assert_eq!(blocks.runs().collect::<Vec<_>>(), [(2, 4), (7, 11), (31, 4)]);
    }
}
