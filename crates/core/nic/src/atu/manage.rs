// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The driver's side: entries of the global address tables, and their flushes (seed 002, section 5.3).
//!
//! To register a page, the driver writes its entry. To deregister it, the driver clears the entry, starts a flush, and
//! waits until the flush is complete. Only then it reuses the memory or the entry.
//!
//! Invariants
//! 1. A page beyond the tables is refused, and nothing changes.
//! 2. Writing and clearing change the tables only. The TLB and the units keep their copies until a flush.
//!
//! Cost: O(entries).

use super::entry::AddressEntry;
use super::flush::{Flush, FlushMode, FlushTarget};
use super::lookup::Atu;
use super::nla::{NlaPage, OutOfRange};

impl Atu<'_> {
    /// Reads the entry of a page from its table.
    pub fn read_entry(&self, page: NlaPage) -> Result<AddressEntry, OutOfRange> {
        self.address_tables.get(page.index()).map(|&word| AddressEntry::from_bits(word)).ok_or(OutOfRange)
    }

    /// Registers a page of 4 KiB.
    pub fn write_entry(&mut self, page: NlaPage, entry: AddressEntry) -> Result<(), OutOfRange> {
        self.entries(page, 1)?.fill(entry.bits());
        Ok(())
    }

    /// Registers a whole page of the entry's size: all its entries get the same word. The NLA must have the page's
    /// alignment.
    pub fn write_large_page(&mut self, first: NlaPage, entry: AddressEntry) -> Result<(), OutOfRange> {
        let pages = entry.size().ok_or(OutOfRange)?.pages();
        if u64::from(first.number()) & (pages - 1) != 0 {
            return Err(OutOfRange);
        }
        self.entries(first, pages as u32)?.fill(entry.bits());
        Ok(())
    }

    /// Overwrites the entries of `count` pages with zeroes.
    pub fn clear_entries(&mut self, first: NlaPage, count: u32) -> Result<(), OutOfRange> {
        self.entries(first, count)?.fill(AddressEntry::INVALID.bits());
        Ok(())
    }

    /// Flushes `count` pages from `first` on.
    pub fn flush_entries(&mut self, first: NlaPage, count: u32, mode: FlushMode) -> Result<Flush, OutOfRange> {
        self.entries(first, count)?;
        Ok(self.flush(FlushTarget::Pages { first, count }, mode))
    }

    /// Flushes all pages of a VPID.
    pub fn flush_vpid(&mut self, vpid: u16, mode: FlushMode) -> Flush {
        self.flush(FlushTarget::Vpid(vpid), mode)
    }

    fn entries(&mut self, first: NlaPage, count: u32) -> Result<&mut [u64], OutOfRange> {
        let end = first.index().checked_add(count as usize).ok_or(OutOfRange)?;
        self.address_tables.get_mut(first.index()..end).ok_or(OutOfRange)
    }
}
