// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Memory: Base address lookup table (BALT)

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code





/// Base address lookup table (BALT)
///
/// The base of each mailbox. In shared memory: its offset in the NIC's segment.
#[derive(Eq, PartialEq)]
pub struct MailboxBases<'io, IO = peakrdl_rust::io::PtrIO> {
    ptr: *mut u64,
    io: &'io IO,
}

unsafe impl<IO: Sync> Send for MailboxBases<'_, IO> {}
unsafe impl<IO: Sync> Sync for MailboxBases<'_, IO> {}

// manually implement Copy to ease generic bounds
// (IO does not need to be Copy)
impl<IO> Copy for MailboxBases<'_, IO> {}

// manually implement Clone to ease generic bounds
// (IO does not need to be Clone)
impl<IO> Clone for MailboxBases<'_, IO> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<IO> peakrdl_rust::mem::Memory for MailboxBases<'_, IO> {
    type Memwidth = u64;
    type Access = peakrdl_rust::access::RW;
    type Endian = peakrdl_rust::endian::LittleEndian;

    fn first_entry_ptr(&self) -> *mut Self::Memwidth {
        self.ptr
    }

    fn num_entries(&self) -> usize {
        256
    }

    fn width(&self) -> usize {
        64
    }
}

impl MailboxBases<'static> {
    /// # Safety
    ///
    /// The caller must guarantee that the provided address points to a
    /// hardware memory implementing this interface.
    #[inline(always)]
    #[must_use]
    pub const unsafe fn from_ptr(ptr: *mut u64) -> Self {
        Self { ptr, io: &peakrdl_rust::io::PtrIO }
    }
}

impl<'io, IO> MailboxBases<'io, IO> {
    /// Size in bytes of the memory
    pub const SIZE: usize = 0x800;

    /// # Safety
    ///
    /// The caller must guarantee that the provided address points to a
    /// hardware memory implementing this interface.
    #[inline(always)]
    #[must_use]
    pub const unsafe fn from_ptr_with(ptr: *mut u64, io: &'io IO) -> Self {
        Self { ptr, io }
    }

    #[inline(always)]
    #[must_use]
    pub const fn as_ptr(&self) -> *mut u64 {
        self.ptr
    }
}

