// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The block table: one word for each page of the range, and short free blocks kept for reuse.
//!
//! Invariants
//! 1. The word of a block's first page holds its number of pages; the words of all other pages are 0.
//! 2. The word of a short block that is kept for reuse is marked, so that freeing it twice is detected.
//!
//! Costs: a lookup is one load. The table uses memory only where blocks have been: 4 bytes for each of their pages.

use std::ptr;

use rustix::mm::{MapFlags, ProtFlags};

/// Free blocks of at most this many pages are kept for reuse, ...
const SHORT_PAGES: u64 = 8;
/// ... at most this many of each length.
const KEPT_MAX: usize = 32;
/// Flag in a word: the block is free and kept for reuse.
const KEPT: u32 = 1 << 31;
/// Limit of a block's pages.
pub const PAGES_MAX: u64 = KEPT as u64 - 1;

/// The blocks of a range of pages.
pub struct Blocks {
    table: &'static mut [u32],
    /// No block has ever had pages from here on.
    end: u64,
    pages: u64,
    /// First pages of the blocks that are kept for reuse, by their number of pages.
    kept: Box<[Vec<u64>]>,
}

/// The result of freeing a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freed {
    /// It is kept for reuse.
    Kept,
    /// This many pages are free.
    Pages(u64),
    /// No block begins there.
    None,
}

impl Blocks {
    /// Makes the table for a range of pages. `None`: there is no address space for it.
    pub fn new(pages: u64) -> Option<Blocks> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        let bytes = pages as usize * size_of::<u32>();
        // SAFETY: the mapping is new, zeroed, page-aligned and never unmapped, and has room for `pages` words; nothing else uses it.
        let table = unsafe {
            let start = rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, protection, flags).ok()?;
            std::slice::from_raw_parts_mut(start.cast::<u32>(), pages as usize)
        };
        let kept = (0..=SHORT_PAGES).map(|_| Vec::with_capacity(KEPT_MAX)).collect();
        Some(Blocks { table, end: 0, pages: 0, kept })
    }

    /// The number of pages of the allocated block that begins here.
    #[inline(always)]
    pub fn get(&self, first: u64) -> Option<u64> {
        let word = self.table.get(first as usize).copied().unwrap_or(0);
        (word != 0 && word & KEPT == 0).then_some(word.into())
    }

    /// The number of pages in allocated blocks.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Records an allocated block, or a new number of pages for one.
    pub fn put(&mut self, first: u64, pages: u64) {
        self.pages = self.pages + pages - self.get(first).unwrap_or(0);
        self.table[first as usize] = pages as u32;
        self.end = self.end.max(first + pages);
    }

    /// Allocates a kept block of this many pages.
    #[inline(always)]
    pub fn take_kept(&mut self, pages: u64) -> Option<u64> {
        let first = self.kept.get_mut(pages as usize)?.pop()?;
        self.table[first as usize] = pages as u32;
        self.pages += pages;
        Some(first)
    }

    /// Frees a block. A short one is kept for reuse if `may_keep`.
    #[inline(always)]
    pub fn give(&mut self, first: u64, may_keep: bool) -> Freed {
        let Some(pages) = self.get(first) else { return Freed::None };
        self.pages -= pages;
        if let Some(kept) = self.kept.get_mut(pages as usize).filter(|all| may_keep && all.len() < KEPT_MAX) {
            kept.push(first);
            self.table[first as usize] = KEPT | pages as u32;
            return Freed::Kept;
        }
        self.table[first as usize] = 0;
        Freed::Pages(pages)
    }

    /// Frees the pages of one kept block: first page, number of pages.
    pub fn release_kept(&mut self) -> Option<(u64, u64)> {
        let (pages, first) = self.kept.iter_mut().enumerate().find_map(|(pages, all)| Some((pages, all.pop()?)))?;
        self.table[first as usize] = 0;
        Some((first, pages as u64))
    }

    /// Runs of pages in allocated blocks, adjacent blocks as one run: first page, number of pages. Allocates nothing.
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
    fn short_blocks_are_kept_and_freed_once() {
        let mut blocks = Blocks::new(1 << 20).unwrap();
        blocks.put(5, 3);
        blocks.put(100, SHORT_PAGES + 1);
        assert_eq!((blocks.get(5), blocks.get(6), blocks.get(1 << 20), blocks.pages()), (Some(3), None, None, 12));
        assert_eq!((blocks.give(5, true), blocks.give(5, true), blocks.get(5)), (Freed::Kept, Freed::None, None));
        assert_eq!((blocks.take_kept(2), blocks.take_kept(3), blocks.get(5)), (None, Some(5), Some(3)));
        assert_eq!((blocks.give(5, false), blocks.take_kept(3)), (Freed::Pages(3), None));
        assert_eq!(blocks.give(100, true), Freed::Pages(SHORT_PAGES + 1), "too long to be kept");
        assert_eq!((blocks.pages(), blocks.release_kept()), (0, None));
    }

    #[test]
    fn the_number_of_kept_blocks_is_limited() {
        let mut blocks = Blocks::new(1000).unwrap();
        for first in 0..100 {
            blocks.put(first, 1);
        }
        let were_kept = (0..100).filter(|first| blocks.give(*first, true) == Freed::Kept).count();
        assert_eq!(were_kept, KEPT_MAX);
        let released = std::iter::from_fn(|| blocks.release_kept()).inspect(|(_, pages)| assert_eq!(*pages, 1)).count();
        assert_eq!((released, blocks.get(0), blocks.pages()), (KEPT_MAX, None, 0));
    }

    #[test]
    fn runs_are_of_blocks_that_touch() {
        let mut blocks = Blocks::new(1000).unwrap();
        assert_eq!(blocks.runs().next(), None);
        for (first, pages) in [(2, 3), (5, 1), (7, 10), (17, 2), (30, 1), (31, 4)] {
            blocks.put(first, pages);
        }
        blocks.put(17, 1);
        assert_eq!(blocks.give(30, true), Freed::Kept);
        assert_eq!(blocks.runs().collect::<Vec<_>>(), [(2, 4), (7, 11), (31, 4)]);
    }
}
