// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Network logical addresses (seed 002, section 5.3 and figure 5-8).
//!
//! An NLA has 39 bits. From the highest: 9 bits name the global address table, 18 bits the entry in it, 12 bits the
//! byte in the page. So 512 tables address 512 GiB.
//!
//! Invariants
//! 1. An [`Nla`] has at most 39 bits, an [`NlaPage`] at most 27.
//! 2. Arithmetic that would leave that range gives [`OutOfRange`].

use crate::tables::PAGES;

/// Bits of the offset in a page.
pub const PAGE_BITS: u32 = 12;
/// Bits of the entry's number in its table.
pub const ENTRY_BITS: u32 = PAGES.trailing_zeros();
/// Bits of the table's number.
pub const TABLE_BITS: u32 = 9;
/// Bits of an NLA.
pub const NLA_BITS: u32 = TABLE_BITS + ENTRY_BITS + PAGE_BITS;
/// Bytes of a page that an entry maps.
pub const PAGE_BYTES: u64 = 1 << PAGE_BITS;
/// Bits of a page's number.
pub const NLA_PAGE_BITS: u32 = TABLE_BITS + ENTRY_BITS;

/// The address has more than 39 bits, or is beyond the tables that the NIC has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange;

/// A network logical address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nla(u64);

impl Nla {
    /// The address with these bits.
    #[inline(always)]
    pub const fn new(raw: u64) -> Result<Nla, OutOfRange> {
        if raw >> NLA_BITS == 0 { Ok(Nla(raw)) } else { Err(OutOfRange) }
    }

    /// Byte `offset` of the page that an entry of a table maps.
    pub const fn from_parts(table: u32, entry: u32, offset: u32) -> Result<Nla, OutOfRange> {
        if table >> TABLE_BITS != 0 || entry >> ENTRY_BITS != 0 || offset >> PAGE_BITS != 0 {
            return Err(OutOfRange);
        }
        Ok(Nla(((((table as u64) << ENTRY_BITS) | entry as u64) << PAGE_BITS) | offset as u64))
    }

    /// Its bits.
    #[inline(always)]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The number of its table.
    pub const fn table(self) -> u32 {
        (self.0 >> (ENTRY_BITS + PAGE_BITS)) as u32
    }

    /// The number of its entry in the table.
    pub const fn entry(self) -> u32 {
        (self.0 >> PAGE_BITS) as u32 & ((1 << ENTRY_BITS) - 1)
    }

    /// Its byte in the page.
    #[inline(always)]
    pub const fn offset(self) -> u64 {
        self.0 & (PAGE_BYTES - 1)
    }

    /// Its page: table and entry.
    #[inline(always)]
    pub const fn page(self) -> NlaPage {
        NlaPage((self.0 >> PAGE_BITS) as u32)
    }

    /// The address `bytes` after this one.
    #[inline(always)]
    pub const fn checked_add(self, bytes: u64) -> Result<Nla, OutOfRange> {
        match self.0.checked_add(bytes) {
            Some(raw) => Nla::new(raw),
            None => Err(OutOfRange),
        }
    }
}

/// The number of a page: the index of its entry among all tables, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NlaPage(u32);

impl NlaPage {
    /// The page with this number.
    #[inline(always)]
    pub const fn new(number: u64) -> Result<NlaPage, OutOfRange> {
        if number >> NLA_PAGE_BITS == 0 { Ok(NlaPage(number as u32)) } else { Err(OutOfRange) }
    }

    /// Its number.
    #[inline(always)]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The index of its entry in [`Tables::address_tables`](crate::Tables::address_tables).
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The address of its first byte.
    pub const fn start(self) -> Nla {
        Nla((self.0 as u64) << PAGE_BITS)
    }

    /// The page `pages` after this one.
    #[inline(always)]
    pub const fn checked_add(self, pages: u64) -> Result<NlaPage, OutOfRange> {
        match (self.0 as u64).checked_add(pages) {
            Some(number) => NlaPage::new(number),
            None => Err(OutOfRange),
        }
    }
}

const _: () = assert!(NLA_BITS == 39);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_an_address() {
        let nla = Nla::from_parts(511, 5, 7).unwrap();
        assert_eq!((nla.table(), nla.entry(), nla.offset()), (511, 5, 7));
        assert_eq!(nla.raw(), ((511 << 18) | 5) << 12 | 7);
        assert_eq!(nla.page().number(), (511 << 18) | 5);
        assert_eq!(nla.page().start(), Nla::new(nla.raw() - 7).unwrap());
        assert_eq!(Nla::from_parts(512, 0, 0), Err(OutOfRange));
        assert_eq!(Nla::from_parts(0, 1 << 18, 0), Err(OutOfRange));
        assert_eq!(Nla::from_parts(0, 0, 1 << 12), Err(OutOfRange));
    }

    #[test]
    fn arithmetic_at_the_ends_of_the_range() {
        let last = Nla::new((1 << 39) - 1).unwrap();
        assert_eq!(Nla::new(1 << 39), Err(OutOfRange));
        assert_eq!(last.checked_add(0), Ok(last));
        assert_eq!(last.checked_add(1), Err(OutOfRange));
        assert_eq!(last.checked_add(u64::MAX), Err(OutOfRange));
        assert_eq!(NlaPage::new(1 << 27), Err(OutOfRange));
        assert_eq!(last.page().checked_add(1), Err(OutOfRange));
        assert_eq!(last.page().checked_add(u64::MAX), Err(OutOfRange));
        assert_eq!(NlaPage::new(3).unwrap().checked_add(4), NlaPage::new(7));
    }
}
