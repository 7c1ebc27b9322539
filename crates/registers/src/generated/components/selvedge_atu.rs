// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Regfile: ATU

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code

// Anonymous component instances
pub mod tlb_hits;
pub mod tlb_misses;
pub mod tlb_flushes;
pub mod atu_flushes;
pub mod translation_faults;




/// ATU
///
/// Counters of the address translation unit.
#[derive(Eq, PartialEq)]
pub struct SelvedgeAtu<'io, IO = peakrdl_rust::io::PtrIO> {
    ptr: *mut u8,
    io: &'io IO,
}

unsafe impl<IO: Sync> Send for SelvedgeAtu<'_, IO> {}
unsafe impl<IO: Sync> Sync for SelvedgeAtu<'_, IO> {}

// manually implement Copy to ease generic bounds
// (IO does not need to be Copy)
impl<IO> Copy for SelvedgeAtu<'_, IO> {}

// manually implement Clone to ease generic bounds
// (IO does not need to be Clone)
impl<IO> Clone for SelvedgeAtu<'_, IO> {
    fn clone(&self) -> Self {
        *self
    }
}

impl SelvedgeAtu<'static> {
    /// # Safety
    ///
    /// The caller must guarantee that the provided address points to a
    /// hardware register block implementing this interface.
    #[inline(always)]
    #[must_use]
    pub const unsafe fn from_ptr(ptr: *mut ()) -> Self {
        Self { ptr: ptr.cast::<u8>(), io: &peakrdl_rust::io::PtrIO }
    }
}

impl<'io, IO> SelvedgeAtu<'io, IO> {
    /// Size in bytes of the underlying memory
    pub const SIZE: usize = 0x28;

    /// # Safety
    ///
    /// The caller must guarantee that the provided address points to a
    /// hardware register block implementing this interface.
    #[inline(always)]
    #[must_use]
    pub const unsafe fn from_ptr_with(ptr: *mut (), io: &'io IO) -> Self {
        Self { ptr: ptr.cast::<u8>(), io }
    }

    #[inline(always)]
    #[must_use]
    pub const fn as_ptr(&self) -> *mut () {
        self.ptr.cast::<()>()
    }
}

impl<'io, IO: peakrdl_rust::io::RegisterIO> SelvedgeAtu<'io, IO> {
    /// tlb_hits
    ///
    /// Translations that the TLB had.
    #[inline(always)]
    #[must_use]
    pub const fn tlb_hits(&self) -> peakrdl_rust::reg::Reg<'io, tlb_hits::TlbHits, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x0).cast(), self.io) }
    }

    /// tlb_misses
    ///
    /// Translations that were read from a global address table.
    #[inline(always)]
    #[must_use]
    pub const fn tlb_misses(&self) -> peakrdl_rust::reg::Reg<'io, tlb_misses::TlbMisses, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x8).cast(), self.io) }
    }

    /// tlb_flushes
    ///
    /// Entries that were removed from the TLB.
    #[inline(always)]
    #[must_use]
    pub const fn tlb_flushes(&self) -> peakrdl_rust::reg::Reg<'io, tlb_flushes::TlbFlushes, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x10).cast(), self.io) }
    }

    /// atu_flushes
    ///
    /// Flush requests that the functional units have answered.
    #[inline(always)]
    #[must_use]
    pub const fn atu_flushes(&self) -> peakrdl_rust::reg::Reg<'io, atu_flushes::AtuFlushes, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x18).cast(), self.io) }
    }

    /// translation_faults
    ///
    /// Translations refused: no such page, another VPID, or no right.
    #[inline(always)]
    #[must_use]
    pub const fn translation_faults(&self) -> peakrdl_rust::reg::Reg<'io, translation_faults::TranslationFaults, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x20).cast(), self.io) }
    }



}