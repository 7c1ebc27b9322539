// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Memory: Notification write pointers

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code





/// Notification write pointers
///
/// Notifications that were written to each queue since its VPID was opened.
#[derive(Eq, PartialEq)]
pub struct NotificationWritePointers<'io, IO = peakrdl_rust::io::PtrIO> {
    ptr: *mut u64,
    io: &'io IO,
}

unsafe impl<IO: Sync> Send for NotificationWritePointers<'_, IO> {}
unsafe impl<IO: Sync> Sync for NotificationWritePointers<'_, IO> {}

// manually implement Copy to ease generic bounds
// (IO does not need to be Copy)
impl<IO> Copy for NotificationWritePointers<'_, IO> {}

// manually implement Clone to ease generic bounds
// (IO does not need to be Clone)
impl<IO> Clone for NotificationWritePointers<'_, IO> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<IO> peakrdl_rust::mem::Memory for NotificationWritePointers<'_, IO> {
    type Memwidth = u64;
    type Access = peakrdl_rust::access::R;
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

impl NotificationWritePointers<'static> {
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

impl<'io, IO> NotificationWritePointers<'io, IO> {
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

