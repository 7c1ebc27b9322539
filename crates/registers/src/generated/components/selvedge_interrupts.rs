// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Regfile: mailbox_interrupts

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code

// Anonymous component instances
pub mod interrupt;
pub mod mask;
pub mod clear;




/// mailbox_interrupts
#[derive(Eq, PartialEq)]
pub struct SelvedgeInterrupts<'io, IO = peakrdl_rust::io::PtrIO> {
    ptr: *mut u8,
    io: &'io IO,
}

unsafe impl<IO: Sync> Send for SelvedgeInterrupts<'_, IO> {}
unsafe impl<IO: Sync> Sync for SelvedgeInterrupts<'_, IO> {}

// manually implement Copy to ease generic bounds
// (IO does not need to be Copy)
impl<IO> Copy for SelvedgeInterrupts<'_, IO> {}

// manually implement Clone to ease generic bounds
// (IO does not need to be Clone)
impl<IO> Clone for SelvedgeInterrupts<'_, IO> {
    fn clone(&self) -> Self {
        *self
    }
}

impl SelvedgeInterrupts<'static> {
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

impl<'io, IO> SelvedgeInterrupts<'io, IO> {
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

impl<'io, IO: peakrdl_rust::io::RegisterIO> SelvedgeInterrupts<'io, IO> {
    /// Interrupt
    ///
    /// A message has arrived since the interrupt was cleared. It is kept whether it is masked or not.
    #[inline(always)]
    #[must_use]
    pub const fn interrupt(&self) -> peakrdl_rust::reg::Reg<'io, interrupt::Interrupt, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x0).cast(), self.io) }
    }

    /// Interrupt mask
    ///
    /// 1: the interrupt reaches the processor. A program that polls leaves it 0.
    #[inline(always)]
    #[must_use]
    pub const fn mask(&self) -> peakrdl_rust::reg::Reg<'io, mask::Mask, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x8).cast(), self.io) }
    }

    /// Interrupt clear
    ///
    /// Writing 1 clears the interrupt. It reads as 0.
    #[inline(always)]
    #[must_use]
    pub const fn clear(&self) -> peakrdl_rust::reg::Reg<'io, clear::Clear, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x10).cast(), self.io) }
    }



}