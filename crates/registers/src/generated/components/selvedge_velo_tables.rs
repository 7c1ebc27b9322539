// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Addrmap: VELO, per VPID

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code

// Anonymous component instances
pub mod mailbox_enables;
pub mod mailbox_bases;
pub mod mailbox_sizes;
pub mod mailbox_write_pointers;


// Instances of named component types
pub use _root::components::selvedge_interrupts as mailbox_interrupts;


/// VELO, per VPID
///
/// The mailboxes: their enable bits, their tables, their interrupts. A register with an index has one entry for each VPID.
#[derive(Eq, PartialEq)]
pub struct SelvedgeVeloTables<'io, IO = peakrdl_rust::io::PtrIO> {
    ptr: *mut u8,
    io: &'io IO,
}

unsafe impl<IO: Sync> Send for SelvedgeVeloTables<'_, IO> {}
unsafe impl<IO: Sync> Sync for SelvedgeVeloTables<'_, IO> {}

// manually implement Copy to ease generic bounds
// (IO does not need to be Copy)
impl<IO> Copy for SelvedgeVeloTables<'_, IO> {}

// manually implement Clone to ease generic bounds
// (IO does not need to be Clone)
impl<IO> Clone for SelvedgeVeloTables<'_, IO> {
    fn clone(&self) -> Self {
        *self
    }
}

impl SelvedgeVeloTables<'static> {
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

impl<'io, IO> SelvedgeVeloTables<'io, IO> {
    /// Size in bytes of the underlying memory
    pub const SIZE: usize = 0x4000;

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

impl<'io, IO: peakrdl_rust::io::RegisterIO> SelvedgeVeloTables<'io, IO> {
    /// Mailbox enables
    ///
    /// A mailbox takes messages: its VPID is open, and the mailbox is not disabled.
    #[inline(always)]
    #[must_use]
    pub const fn mailbox_enables(&self) -> [peakrdl_rust::reg::Reg<'io, mailbox_enables::MailboxEnables, IO>; 4] {
        // SAFETY: We will initialize every element before using the array
        let mut array = [core::mem::MaybeUninit::uninit(); 4];

        let mut i0 = 0;
        while i0 < 4 {
            array[i0].write(unsafe { peakrdl_rust::reg::Reg::<'io, mailbox_enables::MailboxEnables, IO>::from_ptr_with(self.ptr.wrapping_byte_add(0x0 + i0 * 0x8).cast(), self.io) });
            i0 += 1;
        }

        // SAFETY: All elements have been initialized above
        unsafe { core::mem::transmute(array) }
    }


    /// mailbox_interrupts
    #[inline(always)]
    #[must_use]
    pub const fn mailbox_interrupts(&self) -> [mailbox_interrupts::SelvedgeInterrupts<'io, IO>; 256] {
        // SAFETY: We will initialize every element before using the array
        let mut array = [core::mem::MaybeUninit::uninit(); 256];

        let mut i0 = 0;
        while i0 < 256 {
            array[i0].write(unsafe { mailbox_interrupts::SelvedgeInterrupts::<IO>::from_ptr_with(self.ptr.wrapping_byte_add(0x2000 + i0 * 0x20).cast(), self.io) });
            i0 += 1;
        }

        // SAFETY: All elements have been initialized above
        unsafe { core::mem::transmute(array) }
    }


    /// Base address lookup table (BALT)
    ///
    /// The base of each mailbox. In shared memory: its offset in the NIC's segment.
    #[inline(always)]
    #[must_use]
    pub const fn mailbox_bases(&self) -> mailbox_bases::MailboxBases<'io, IO> {
        unsafe { mailbox_bases::MailboxBases::from_ptr_with(self.ptr.wrapping_byte_add(0x800).cast(), self.io) }
    }

    /// Mailbox size lookup table (MSLT)
    ///
    /// The size of each mailbox, a power of two.
    #[inline(always)]
    #[must_use]
    pub const fn mailbox_sizes(&self) -> mailbox_sizes::MailboxSizes<'io, IO> {
        unsafe { mailbox_sizes::MailboxSizes::from_ptr_with(self.ptr.wrapping_byte_add(0x1000).cast(), self.io) }
    }

    /// Write pointer lookup table (WPLT)
    ///
    /// Slots of each mailbox that were written since its VPID was opened. The completer advances it.
    #[inline(always)]
    #[must_use]
    pub const fn mailbox_write_pointers(&self) -> mailbox_write_pointers::MailboxWritePointers<'io, IO> {
        unsafe { mailbox_write_pointers::MailboxWritePointers::from_ptr_with(self.ptr.wrapping_byte_add(0x1800).cast(), self.io) }
    }

}