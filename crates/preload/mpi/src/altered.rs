// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of the shared memory to which the program has done what the kernel or peers see: the pool's lock guards them.
//!
//! Invariants
//! 1. A page at which the program has mapped something else, or nothing, is *lost*: peers read in the file's last page
//!    that the file is not its memory ([`Lost`]). They know before the call that replaces it returns.
//! 2. Lost pages, and pages with another protection, become the pool's again when their block ends: the file is mapped over
//!    them.
//! 3. *Wiped* pages are zero in forked children.

use std::ops::Range;
use std::os::fd::RawFd;

use selvedge_os::raw;
use selvedge_os::shared::{Lost, SharedRange};

use crate::ranges::Ranges;

/// Shared memory of this process.
#[derive(Clone, Copy)]
pub struct Place {
    pub range: SharedRange,
    pub lost: &'static Lost,
}

impl Place {
    /// # Safety
    /// A [`Lost`] is at the address `lost`, and stays there.
    pub unsafe fn new(base: u64, bytes: u64, lost: u64, descriptor: RawFd) -> Place {
        // SAFETY: by this function's contract.
        Place { range: SharedRange { base, bytes, lost, descriptor }, lost: unsafe { &*(lost as *const Lost) } }
    }

    pub fn addresses(&self) -> Range<u64> {
        self.range.base..self.range.base + self.range.bytes
    }

    /// The file, and the offset of an address in it.
    pub fn file_at(&self, address: u64) -> (RawFd, u64) {
        (self.range.descriptor, address - self.range.base)
    }

    /// The part of a range that is here. `None`: no byte.
    pub fn part_of(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let all = self.addresses();
        let part = range.start.max(all.start)..range.end.min(all.end);
        (part.start < part.end).then_some(part)
    }
}

pub struct Altered {
    pub wiped: Ranges,
    lost: Ranges,
    /// Pages of the pool that have another protection, or other properties.
    changed: Ranges,
}

impl Altered {
    pub const fn new() -> Altered {
        Altered { wiped: Ranges::new(), lost: Ranges::new(), changed: Ranges::new() }
    }

    /// Records that these pages no longer map the file, for peers to know.
    pub fn lose(&mut self, pages: Range<u64>, place: &Place) {
        self.lost.add(pages);
        self.publish(place);
    }

    /// Records that these pages have other properties than new ones.
    pub fn change(&mut self, pages: Range<u64>) {
        self.changed.add(pages);
    }

    fn publish(&self, place: &Place) {
        let parts = self.lost.iter().filter_map(|part| place.part_of(&part));
        place.lost.replace(parts.map(|part| part.start - place.range.base..part.end - place.range.base));
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.lost.is_empty() && self.changed.is_empty() && self.wiped.is_empty()
    }

    /// Maps the file over pages of a block that ends, if they were altered, so that they are like new ones. Returns false
    /// if the kernel has no room for one more mapping: then the pages cannot be used again.
    pub fn restore(&mut self, pages: &Range<u64>, place: &Place) -> bool {
        self.wiped.remove(pages);
        let is_lost = self.lost.meets(pages);
        if !is_lost && !self.changed.meets(pages) {
            return true;
        }
        let (descriptor, offset) = place.file_at(pages.start);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let (start, bytes) = (pages.start as usize, (pages.end - pages.start) as usize);
        let arguments = [start, bytes, protection as usize, flags as usize, descriptor as usize, offset as usize];
        // SAFETY: the pages belong to the pool and to a block that has ended: whatever is mapped there is no longer used.
        if unsafe { raw::call(libc::SYS_mmap, arguments) } < 0 {
            return false;
        }
        self.changed.remove(pages);
        if is_lost {
            self.lost.remove(pages);
            self.publish(place);
        }
        true
    }
}
