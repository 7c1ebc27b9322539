// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An entry of a global address table (GATe), in the layout of the later generation of seed 002's hardware.
//!
//! | bits | field | |
//! |---|---|---|
//! | 0-1 | valid | 0 invalid, 1 read only, 2 write only, 3 read and write |
//! | 2-11 | vpid | the VPID that may use the page |
//! | 12-51 | page number | of the target's memory, in units of 4 KiB: physical in hardware, virtual in a process |
//! | 52-58 | reserved | software writes 0; the ATU ignores them |
//! | 59-63 | size | 0 for 4 KiB, 4 for 64 KiB, 9 for 2 MiB, 18 for 1 GiB |
//!
//! A large page takes as many entries as it has pages of 4 KiB, all of them with the same word. The page number is that
//! of the large page's first 4 KiB. As many low bits as the size says are replaced by those of the NLA's page. So the
//! NLA of a large page has the same alignment as the page.
//!
//! Invariants
//! 1. Any word translates or is refused. A word with another size is refused as if it were invalid.
//! 2. A target page has at most 40 bits, and an address at most 52.

use super::nla::NlaPage;

/// Bits of a VPID in an entry.
pub const VPID_BITS: u32 = 10;
/// Bits of a page number of the target's memory.
pub const TARGET_PAGE_BITS: u32 = 40;

const VPID_AT: u32 = 2;
const PAGE_AT: u32 = 12;
const SIZE_AT: u32 = 59;

/// The access that a unit needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    Read,
    Write,
}

/// The accesses that an entry permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rights {
    ReadOnly = 1,
    WriteOnly = 2,
    ReadWrite = 3,
}

impl Rights {
    /// Whether the rights include this access.
    #[inline(always)]
    pub const fn grant(self, access: Access) -> bool {
        let wanted = match access {
            Access::Read => Rights::ReadOnly,
            Access::Write => Rights::WriteOnly,
        };
        self as u64 & wanted as u64 != 0
    }
}

/// The size of a page of the target's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageSize {
    Kib4 = 0,
    Kib64 = 4,
    Mib2 = 9,
    Gib1 = 18,
}

impl PageSize {
    pub const ALL: [PageSize; 4] = [PageSize::Kib4, PageSize::Kib64, PageSize::Mib2, PageSize::Gib1];

    /// Pages of 4 KiB in it.
    #[inline(always)]
    pub const fn pages(self) -> u64 {
        1 << self as u32
    }
}

/// Reasons for which an address was not translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TranslationFault {
    /// The page has no valid entry, or is beyond the tables.
    NotRegistered,
    /// The page belongs to another VPID.
    WrongVpid,
    /// The page does not permit this access.
    NoRight,
}

/// A value has more bits than its field, or a large page's number is not that of its first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unencodable;

/// An entry of a global address table: any word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressEntry(u64);

impl AddressEntry {
    /// The entry of a page that is not registered.
    pub const INVALID: AddressEntry = AddressEntry(0);

    /// Makes the entry of a page. `target_page`: the number of the target's page in units of 4 KiB; for a large page,
    /// that of its first 4 KiB.
    pub const fn new(rights: Rights, vpid: u16, target_page: u64, size: PageSize) -> Result<AddressEntry, Unencodable> {
        if vpid >> VPID_BITS != 0 || target_page >> TARGET_PAGE_BITS != 0 || target_page & (size.pages() - 1) != 0 {
            return Err(Unencodable);
        }
        let word = rights as u64 | ((vpid as u64) << VPID_AT) | (target_page << PAGE_AT) | ((size as u64) << SIZE_AT);
        Ok(AddressEntry(word))
    }

    /// The entry with these bits.
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> AddressEntry {
        AddressEntry(bits)
    }

    /// The bits.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The rights; None: the entry is invalid.
    #[inline(always)]
    pub const fn rights(self) -> Option<Rights> {
        match self.0 & 3 {
            1 => Some(Rights::ReadOnly),
            2 => Some(Rights::WriteOnly),
            3 => Some(Rights::ReadWrite),
            _ => None,
        }
    }

    /// The VPID that the entry belongs to.
    #[inline(always)]
    pub const fn vpid(self) -> u16 {
        (self.0 >> VPID_AT) as u16 & ((1 << VPID_BITS) - 1)
    }

    /// The number of the target's page, as written.
    #[inline(always)]
    pub const fn target_page(self) -> u64 {
        (self.0 >> PAGE_AT) & ((1 << TARGET_PAGE_BITS) - 1)
    }

    /// The size of the page; None: unknown size.
    #[inline(always)]
    pub const fn size(self) -> Option<PageSize> {
        match self.0 >> SIZE_AT {
            0 => Some(PageSize::Kib4),
            4 => Some(PageSize::Kib64),
            9 => Some(PageSize::Mib2),
            18 => Some(PageSize::Gib1),
            _ => None,
        }
    }

    /// Whether the entry translates for any VPID.
    #[inline(always)]
    pub const fn is_valid(self) -> bool {
        self.rights().is_some() && self.size().is_some()
    }

    /// Checks a use of the entry of `page`. Returns the number of the target's page of 4 KiB.
    #[inline(always)]
    pub const fn check(self, page: NlaPage, vpid: u16, access: Access) -> Result<u64, TranslationFault> {
        let (Some(rights), Some(size)) = (self.rights(), self.size()) else {
            return Err(TranslationFault::NotRegistered);
        };
        if self.vpid() != vpid {
            return Err(TranslationFault::WrongVpid);
        }
        if !rights.grant(access) {
            return Err(TranslationFault::NoRight);
        }
        let from_nla = size.pages() - 1;
        Ok((self.target_page() & !from_nla) | (page.number() as u64 & from_nla))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: NlaPage = match NlaPage::new(0x2_3456) {
        Ok(page) => page,
        Err(_) => panic!(),
    };

    #[test]
    fn fields_lie_where_the_hardware_has_them() {
        let entry = AddressEntry::new(Rights::ReadWrite, 0x3ff, (1 << 40) - 1, PageSize::Kib4).unwrap();
        assert_eq!(entry.bits(), (1 << 52) - 1);
        let entry = AddressEntry::new(Rights::ReadOnly, 1, 1 << 18, PageSize::Gib1).unwrap();
        assert_eq!(entry.bits(), 1 | 1 << 2 | 1 << 30 | 18 << 59);
        for (vpid, page, size) in [(1024, 0, PageSize::Kib4), (0, 1 << 40, PageSize::Kib4), (0, 8, PageSize::Kib64)] {
            assert_eq!(AddressEntry::new(Rights::ReadOnly, vpid, page, size), Err(Unencodable));
        }
    }

    #[test]
    fn checks_of_all_kinds_of_entries() {
        for (valid, reads, writes) in [(0, false, false), (1, true, false), (2, false, true), (3, true, true)] {
            for size in 0..32u64 {
                let word = valid | 9 << 2 | 0xab_cdef_0000 << 12 | 0x55 << 52 | size << 59;
                let entry = AddressEntry::from_bits(word);
                for (access, granted) in [(Access::Read, reads), (Access::Write, writes)] {
                    let known = [0, 4, 9, 18].contains(&size) && valid != 0;
                    assert_eq!(entry.is_valid(), known);
                    let low = (1u64 << size) - 1;
                    let expected = match (known, granted) {
                        (false, _) => Err(TranslationFault::NotRegistered),
                        (true, false) => Err(TranslationFault::NoRight),
                        (true, true) => Ok((0xab_cdef_0000 & !low) | (0x2_3456 & low)),
                    };
                    assert_eq!(entry.check(PAGE, 9, access), expected);
                    let other = if known { TranslationFault::WrongVpid } else { TranslationFault::NotRegistered };
                    assert_eq!(entry.check(PAGE, 8, access), Err(other));
                    assert_eq!(entry.check(PAGE, 9 | 1 << 10, access), Err(other), "a VPID of more bits is another");
                }
            }
        }
    }
}
