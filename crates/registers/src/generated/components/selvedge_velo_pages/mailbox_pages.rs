// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Regfile: mailbox_pages

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code

// Anonymous component instances
pub mod read_pointer;




/// mailbox_pages
#[derive(Eq, PartialEq)]
pub struct MailboxPages<'io, IO = peakrdl_rust::io::PtrIO> {
    ptr: *mut u8,
    io: &'io IO,
}

unsafe impl<IO: Sync> Send for MailboxPages<'_, IO> {}
unsafe impl<IO: Sync> Sync for MailboxPages<'_, IO> {}

// manually implement Copy to ease generic bounds
// (IO does not need to be Copy)
impl<IO> Copy for MailboxPages<'_, IO> {}

// manually implement Clone to ease generic bounds
// (IO does not need to be Clone)
impl<IO> Clone for MailboxPages<'_, IO> {
    fn clone(&self) -> Self {
        *self
    }
}

impl MailboxPages<'static> {
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

impl<'io, IO> MailboxPages<'io, IO> {
    /// Size in bytes of the underlying memory
    pub const SIZE: usize = 0x8;

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

impl<'io, IO: peakrdl_rust::io::RegisterIO> MailboxPages<'io, IO> {
    /// Read pointer lookup table (RPLT)
    ///
    /// Slots of each mailbox that its program has given back since its VPID was opened.
    #[inline(always)]
    #[must_use]
    pub const fn read_pointer(&self) -> peakrdl_rust::reg::Reg<'io, read_pointer::ReadPointer, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x0).cast(), self.io) }
    }



}