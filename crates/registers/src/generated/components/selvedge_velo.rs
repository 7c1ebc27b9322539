// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Regfile: VELO

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code

// Anonymous component instances
pub mod velo_sent;
pub mod velo_received;
pub mod velo_discarded;




/// VELO
///
/// Counters of the VELO unit (table 7-1: sent, received, discarded).
#[derive(Eq, PartialEq)]
pub struct SelvedgeVelo<'io, IO = peakrdl_rust::io::PtrIO> {
    ptr: *mut u8,
    io: &'io IO,
}

unsafe impl<IO: Sync> Send for SelvedgeVelo<'_, IO> {}
unsafe impl<IO: Sync> Sync for SelvedgeVelo<'_, IO> {}

// manually implement Copy to ease generic bounds
// (IO does not need to be Copy)
impl<IO> Copy for SelvedgeVelo<'_, IO> {}

// manually implement Clone to ease generic bounds
// (IO does not need to be Clone)
impl<IO> Clone for SelvedgeVelo<'_, IO> {
    fn clone(&self) -> Self {
        *self
    }
}

impl SelvedgeVelo<'static> {
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

impl<'io, IO> SelvedgeVelo<'io, IO> {
    /// Size in bytes of the underlying memory
    pub const SIZE: usize = 0x18;

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

impl<'io, IO: peakrdl_rust::io::RegisterIO> SelvedgeVelo<'io, IO> {
    /// velo_sent
    ///
    /// VELO messages that this process sent.
    #[inline(always)]
    #[must_use]
    pub const fn velo_sent(&self) -> peakrdl_rust::reg::Reg<'io, velo_sent::VeloSent, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x0).cast(), self.io) }
    }

    /// velo_received
    ///
    /// VELO messages written to a mailbox, or taken from a ring.
    #[inline(always)]
    #[must_use]
    pub const fn velo_received(&self) -> peakrdl_rust::reg::Reg<'io, velo_received::VeloReceived, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x8).cast(), self.io) }
    }

    /// velo_discarded
    ///
    /// VELO messages discarded: the mailbox is full, disabled or not there.
    #[inline(always)]
    #[must_use]
    pub const fn velo_discarded(&self) -> peakrdl_rust::reg::Reg<'io, velo_discarded::VeloDiscarded, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x10).cast(), self.io) }
    }



}