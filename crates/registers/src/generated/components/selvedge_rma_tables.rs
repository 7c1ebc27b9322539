// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Addrmap: RMA, per VPID

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code

// Anonymous component instances
pub mod completer_enables;
pub mod notification_queue_size;
pub mod lock_base;
pub mod lock_size;
pub mod notification_write_pointers;




/// RMA, per VPID
///
/// The notification queues and the lock space. A register with an index has one entry for each VPID.
#[derive(Eq, PartialEq)]
pub struct SelvedgeRmaTables<'io, IO = peakrdl_rust::io::PtrIO> {
    ptr: *mut u8,
    io: &'io IO,
}

unsafe impl<IO: Sync> Send for SelvedgeRmaTables<'_, IO> {}
unsafe impl<IO: Sync> Sync for SelvedgeRmaTables<'_, IO> {}

// manually implement Copy to ease generic bounds
// (IO does not need to be Copy)
impl<IO> Copy for SelvedgeRmaTables<'_, IO> {}

// manually implement Clone to ease generic bounds
// (IO does not need to be Clone)
impl<IO> Clone for SelvedgeRmaTables<'_, IO> {
    fn clone(&self) -> Self {
        *self
    }
}

impl SelvedgeRmaTables<'static> {
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

impl<'io, IO> SelvedgeRmaTables<'io, IO> {
    /// Size in bytes of the underlying memory
    pub const SIZE: usize = 0x1000;

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

impl<'io, IO: peakrdl_rust::io::RegisterIO> SelvedgeRmaTables<'io, IO> {
    /// Completer enables
    ///
    /// The units accept commands for a VPID: a program has it open.
    #[inline(always)]
    #[must_use]
    pub const fn completer_enables(&self) -> [peakrdl_rust::reg::Reg<'io, completer_enables::CompleterEnables, IO>; 4] {
        // SAFETY: We will initialize every element before using the array
        let mut array = [core::mem::MaybeUninit::uninit(); 4];

        let mut i0 = 0;
        while i0 < 4 {
            array[i0].write(unsafe { peakrdl_rust::reg::Reg::<'io, completer_enables::CompleterEnables, IO>::from_ptr_with(self.ptr.wrapping_byte_add(0x0 + i0 * 0x8).cast(), self.io) });
            i0 += 1;
        }

        // SAFETY: All elements have been initialized above
        unsafe { core::mem::transmute(array) }
    }

    /// Notification queue size
    ///
    /// The size of every notification queue, a power of two.
    #[inline(always)]
    #[must_use]
    pub const fn notification_queue_size(&self) -> peakrdl_rust::reg::Reg<'io, notification_queue_size::NotificationQueueSize, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x20).cast(), self.io) }
    }

    /// Lock base
    ///
    /// The base of the lock space: lock n of VPID v is the 32-bit word at base + 4096 v + 4 n. In shared memory: an offset in the NIC's segment.
    #[inline(always)]
    #[must_use]
    pub const fn lock_base(&self) -> peakrdl_rust::reg::Reg<'io, lock_base::LockBase, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x28).cast(), self.io) }
    }

    /// Lock size
    ///
    /// The size of the lock space: 4096 bytes for each VPID.
    #[inline(always)]
    #[must_use]
    pub const fn lock_size(&self) -> peakrdl_rust::reg::Reg<'io, lock_size::LockSize, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x30).cast(), self.io) }
    }



    /// Notification write pointers
    ///
    /// Notifications that were written to each queue since its VPID was opened.
    #[inline(always)]
    #[must_use]
    pub const fn notification_write_pointers(&self) -> notification_write_pointers::NotificationWritePointers<'io, IO> {
        unsafe { notification_write_pointers::NotificationWritePointers::from_ptr_with(self.ptr.wrapping_byte_add(0x800).cast(), self.io) }
    }

}