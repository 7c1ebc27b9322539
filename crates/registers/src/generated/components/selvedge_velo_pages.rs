// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Addrmap: VELO, pages

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code

// Anonymous component instances
pub mod mailbox_pages;




/// VELO, pages
///
/// Registers of a mailbox that its program writes: a page for each VPID.
#[derive(Eq, PartialEq)]
pub struct SelvedgeVeloPages<'io, IO = peakrdl_rust::io::PtrIO> {
    ptr: *mut u8,
    io: &'io IO,
}

unsafe impl<IO: Sync> Send for SelvedgeVeloPages<'_, IO> {}
unsafe impl<IO: Sync> Sync for SelvedgeVeloPages<'_, IO> {}

// manually implement Copy to ease generic bounds
// (IO does not need to be Copy)
impl<IO> Copy for SelvedgeVeloPages<'_, IO> {}

// manually implement Clone to ease generic bounds
// (IO does not need to be Clone)
impl<IO> Clone for SelvedgeVeloPages<'_, IO> {
    fn clone(&self) -> Self {
        *self
    }
}

impl SelvedgeVeloPages<'static> {
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

impl<'io, IO> SelvedgeVeloPages<'io, IO> {
    /// Size in bytes of the underlying memory
    pub const SIZE: usize = 0x10_0000;

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

impl<'io, IO: peakrdl_rust::io::RegisterIO> SelvedgeVeloPages<'io, IO> {

    /// mailbox_pages
    #[inline(always)]
    #[must_use]
    pub const fn mailbox_pages(&self) -> [mailbox_pages::MailboxPages<'io, IO>; 256] {
        // SAFETY: We will initialize every element before using the array
        let mut array = [core::mem::MaybeUninit::uninit(); 256];

        let mut i0 = 0;
        while i0 < 256 {
            array[i0].write(unsafe { mailbox_pages::MailboxPages::<IO>::from_ptr_with(self.ptr.wrapping_byte_add(0x0 + i0 * 0x1000).cast(), self.io) });
            i0 += 1;
        }

        // SAFETY: All elements have been initialized above
        unsafe { core::mem::transmute(array) }
    }


}