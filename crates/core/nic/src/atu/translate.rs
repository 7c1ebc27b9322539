// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translation of ranges of network logical addresses (seed 002, section 5.3, figure 5-9).
//!
//! Invariants
//! 1. A call looks all its pages up in the TLB as it finds it. Afterwards the entries that it read from tables are put
//!    into the TLB, in the order of their pages. So the outcome for a page does not depend on the other pages.
//! 2. [`Atu::translate_all`] checks every page before it visits the first.
//! 3. Each look-up of a page is counted once, as a hit or a miss, and priced. A page beyond the tables is neither.
//!
//! Cost: O(pages of the range), each O(ways of the TLB). [`Atu::translate_all`] looks a range that is not contiguous up
//! twice.

use super::entry::{Access, TranslationFault};
use super::lookup::Atu;
use super::nla::{Nla, NlaPage, PAGE_BITS, PAGE_BYTES};
use crate::bus::{Bus, Step};
use crate::registers::Register;

/// A run of the target's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translated {
    pub address: u64,
    pub bytes: u64,
}

/// A unit's access, checked for each page.
#[derive(Clone, Copy)]
struct Ask {
    vpid: u16,
    access: Access,
}

/// Pages that were looked up, one after the other.
#[derive(Clone, Copy, Default)]
pub(crate) struct Looked {
    hits: u64,
    misses: u64,
}

impl Looked {
    /// Packs the counts as in [`Request::lookups`](crate::tables::Request::lookups). Larger numbers saturate.
    #[inline]
    pub fn packed(self) -> u32 {
        let half = |count: u64| count.min(u16::MAX.into()) as u32;
        half(self.hits) | half(self.misses) << 16
    }
}

impl Atu<'_> {
    /// Translates the start of a range. The run continues over the following pages while the access is permitted and
    /// their memory is contiguous; a page without permission ends the run without a fault. A range of 0 bytes gives the
    /// address of its first page, if permitted.
    #[inline]
    pub fn translate<B: Bus>(
        &mut self,
        bus: &mut B,
        vpid: u16,
        nla: u64,
        bytes: u64,
        access: Access,
    ) -> Result<Translated, TranslationFault> {
        self.translate_counting(bus, vpid, (nla, bytes), access).map(|(run, _)| run)
    }

    /// As [`Atu::translate`]; also returns the look-ups.
    #[inline]
    pub(crate) fn translate_counting<B: Bus>(
        &mut self,
        bus: &mut B,
        vpid: u16,
        (nla, bytes): (u64, u64),
        access: Access,
    ) -> Result<(Translated, Looked), TranslationFault> {
        let nla = self.address(nla)?;
        let mut looked = Looked::default();
        let run = self.run(Ask { vpid, access }, nla, bytes, &mut looked);
        self.account(bus, nla.page(), looked);
        match run {
            Ok(run) => Ok((run, looked)),
            Err(fault) => {
                self.count_fault();
                Err(fault)
            }
        }
    }

    /// Translates a whole range: visits its runs in order, `visit(bus, address, offset in the range, bytes)`. If a page
    /// is not permitted, nothing is visited, and the fault is that of the first such page. A visitor's error ends the
    /// visits. An empty range has no pages to check.
    pub fn translate_all<B: Bus, E: From<TranslationFault>>(
        &mut self,
        bus: &mut B,
        vpid: u16,
        nla: u64,
        bytes: u64,
        access: Access,
        mut visit: impl FnMut(&mut B, u64, u64, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        if bytes == 0 {
            return Ok(());
        }
        let ask = Ask { vpid, access };
        let nla = self.address(nla)?;
        let mut looked = Looked::default();
        let result = match self.check_all(ask, nla, bytes, &mut looked) {
            Ok(first) => {
                self.visit_all(ask, nla, bytes, first, |address, offset, bytes| visit(bus, address, offset, bytes))
            }
            Err(fault) => {
                self.count_fault();
                Err(fault.into())
            }
        };
        self.account(bus, nla.page(), looked);
        result
    }

    fn address(&mut self, nla: u64) -> Result<Nla, TranslationFault> {
        Nla::new(nla).map_err(|_| {
            self.count_fault();
            TranslationFault::NotRegistered
        })
    }

    /// Counts, prices and caches the look-ups of the pages from `first` on.
    #[inline]
    fn account<B: Bus>(&mut self, bus: &mut B, first: NlaPage, looked: Looked) {
        self.registers.add(Register::TlbHits, looked.hits);
        self.registers.add(Register::TlbMisses, looked.misses);
        (0..looked.hits).for_each(|_| bus.charge(Step::TlbHit));
        (0..looked.misses).for_each(|_| bus.charge(Step::AddressTableRead));
        if looked.misses != 0 && !self.tlb.is_empty() {
            self.cache_pages(first, looked.hits + looked.misses);
        }
    }
}

impl Atu<'_> {
    #[inline(always)]
    fn target_page(&self, ask: Ask, page: NlaPage, looked: &mut Looked) -> Result<u64, TranslationFault> {
        if !self.has_page(page) {
            return Err(TranslationFault::NotRegistered);
        }
        let entry = match self.tlb_entry(page) {
            Some(entry) => {
                looked.hits += 1;
                entry
            }
            None => {
                looked.misses += 1;
                self.table_entry(page)
            }
        };
        entry.check(page, ask.vpid, ask.access)
    }

    #[inline]
    fn run(&self, ask: Ask, nla: Nla, bytes: u64, looked: &mut Looked) -> Result<Translated, TranslationFault> {
        let (mut page, mut target) = (nla.page(), self.target_page(ask, nla.page(), looked)?);
        let mut run = first_page(nla, target, bytes);
        while run.bytes < bytes {
            let Ok(next) = page.checked_add(1) else { break };
            if self.target_page(ask, next, looked) != Ok(target + 1) {
                break;
            }
            (page, target) = (next, target + 1);
            run.bytes += PAGE_BYTES.min(bytes - run.bytes);
        }
        Ok(run)
    }

    /// Checks all pages of a range. Returns the run at its start.
    #[inline]
    fn check_all(&self, ask: Ask, nla: Nla, bytes: u64, looked: &mut Looked) -> Result<Translated, TranslationFault> {
        let (mut page, mut target) = (nla.page(), self.target_page(ask, nla.page(), looked)?);
        let mut run = first_page(nla, target, bytes);
        let (mut checked, mut contiguous) = (run.bytes, true);
        while checked < bytes {
            page = page.checked_add(1).map_err(|_| TranslationFault::NotRegistered)?;
            let next = self.target_page(ask, page, looked)?;
            let piece = PAGE_BYTES.min(bytes - checked);
            contiguous &= next == target + 1;
            if contiguous {
                run.bytes += piece;
            }
            (target, checked) = (next, checked + piece);
        }
        Ok(run)
    }

    /// Visits the runs of a range that was checked; the first run is known. The tables have not changed since, so every
    /// page translates again.
    fn visit_all<E: From<TranslationFault>>(
        &self,
        ask: Ask,
        nla: Nla,
        bytes: u64,
        first: Translated,
        mut visit: impl FnMut(u64, u64, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        visit(first.address, 0, first.bytes)?;
        let mut offset = first.bytes;
        while offset < bytes {
            let at = nla.checked_add(offset).map_err(|_| TranslationFault::NotRegistered)?;
            let run = self.run(ask, at, bytes - offset, &mut Looked::default())?;
            visit(run.address, offset, run.bytes)?;
            offset += run.bytes;
        }
        Ok(())
    }

    /// Caches the entries of pages that the TLB lacks.
    fn cache_pages(&mut self, first: NlaPage, count: u64) {
        for page in (0..count).map_while(|offset| first.checked_add(offset).ok()) {
            if self.tlb_entry(page).is_none() {
                self.cache(page, self.table_entry(page));
            }
        }
    }
}

/// The part of a range in its first page.
#[inline(always)]
fn first_page(nla: Nla, target: u64, bytes: u64) -> Translated {
    Translated { address: (target << PAGE_BITS) | nla.offset(), bytes: (PAGE_BYTES - nla.offset()).min(bytes) }
}
