// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Look-up of a page's entry: in the TLB, or else in its global address table (seed 002, figure 5-9, steps 8 to 10).
//!
//! Invariant: [`Atu::cache`] keeps no entry that translates for no VPID. So the entry of an unregistered page is read
//! from its table each time.

use super::entry::AddressEntry;
use super::nla::NlaPage;
use super::tlb;
use crate::registers::{Register, Registers};
use crate::signals::Signals;
use crate::tables::{Tables, TlbEntry};

/// The unit: its TLB, and the global address tables in memory.
pub struct Atu<'n> {
    pub(super) tlb: &'n mut [TlbEntry],
    /// Entries of the TLB in which an address may be (associativity).
    pub(super) tlb_ways: u32,
    pub(super) address_tables: &'n mut [u64],
    pub(super) registers: &'n Registers,
}

impl<'n> Atu<'n> {
    #[inline(always)]
    pub(crate) fn of(tables: &'n mut Tables<'_>, signals: &Signals<'n>) -> Atu<'n> {
        let Tables { tlb, tlb_ways, address_tables, .. } = tables;
        Atu { tlb, tlb_ways: *tlb_ways, address_tables, registers: signals.registers }
    }

    /// Whether the NIC has the table of this page.
    #[inline(always)]
    pub fn has_page(&self, page: NlaPage) -> bool {
        page.index() < self.address_tables.len()
    }

    /// The entry that the TLB has for a page.
    #[inline(always)]
    pub fn tlb_entry(&self, page: NlaPage) -> Option<AddressEntry> {
        tlb::find(self.tlb, self.tlb_ways, page)
    }

    /// The entry that the table has for a page. Beyond the tables every entry is invalid.
    #[inline(always)]
    pub fn table_entry(&self, page: NlaPage) -> AddressEntry {
        AddressEntry::from_bits(self.address_tables.get(page.index()).copied().unwrap_or(0))
    }

    /// Stores an entry that was read in the TLB.
    #[inline]
    pub fn cache(&mut self, page: NlaPage, entry: AddressEntry) {
        if entry.is_valid() {
            tlb::insert(self.tlb, self.tlb_ways, page, entry);
        }
    }

    /// Counts an access that was refused.
    pub(super) fn count_fault(&mut self) {
        self.registers.add(Register::TranslationFaults, 1);
    }
}
