// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Regfile: RMA

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code

// Anonymous component instances
pub mod requester_puts;
pub mod requester_gets;
pub mod responder_gets;
pub mod responder_locks;
pub mod completer_puts;
pub mod completer_gets;
pub mod notifications_discarded;




/// RMA
///
/// Counters of the three parts of the RMA unit.
#[derive(Eq, PartialEq)]
pub struct SelvedgeRma<'io, IO = peakrdl_rust::io::PtrIO> {
    ptr: *mut u8,
    io: &'io IO,
}

unsafe impl<IO: Sync> Send for SelvedgeRma<'_, IO> {}
unsafe impl<IO: Sync> Sync for SelvedgeRma<'_, IO> {}

// manually implement Copy to ease generic bounds
// (IO does not need to be Copy)
impl<IO> Copy for SelvedgeRma<'_, IO> {}

// manually implement Clone to ease generic bounds
// (IO does not need to be Clone)
impl<IO> Clone for SelvedgeRma<'_, IO> {
    fn clone(&self) -> Self {
        *self
    }
}

impl SelvedgeRma<'static> {
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

impl<'io, IO> SelvedgeRma<'io, IO> {
    /// Size in bytes of the underlying memory
    pub const SIZE: usize = 0x38;

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

impl<'io, IO: peakrdl_rust::io::RegisterIO> SelvedgeRma<'io, IO> {
    /// requester_puts
    ///
    /// Puts that the RMA requester started, notification and immediate puts too.
    #[inline(always)]
    #[must_use]
    pub const fn requester_puts(&self) -> peakrdl_rust::reg::Reg<'io, requester_puts::RequesterPuts, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x0).cast(), self.io) }
    }

    /// requester_gets
    ///
    /// Gets that the RMA requester started.
    #[inline(always)]
    #[must_use]
    pub const fn requester_gets(&self) -> peakrdl_rust::reg::Reg<'io, requester_gets::RequesterGets, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x8).cast(), self.io) }
    }

    /// responder_gets
    ///
    /// Gets that the RMA responder answered.
    #[inline(always)]
    #[must_use]
    pub const fn responder_gets(&self) -> peakrdl_rust::reg::Reg<'io, responder_gets::ResponderGets, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x10).cast(), self.io) }
    }

    /// responder_locks
    ///
    /// Lock requests that the RMA responder answered.
    #[inline(always)]
    #[must_use]
    pub const fn responder_locks(&self) -> peakrdl_rust::reg::Reg<'io, responder_locks::ResponderLocks, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x18).cast(), self.io) }
    }

    /// completer_puts
    ///
    /// Puts that the RMA completer finished.
    #[inline(always)]
    #[must_use]
    pub const fn completer_puts(&self) -> peakrdl_rust::reg::Reg<'io, completer_puts::CompleterPuts, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x20).cast(), self.io) }
    }

    /// completer_gets
    ///
    /// Responses to gets that the RMA completer finished.
    #[inline(always)]
    #[must_use]
    pub const fn completer_gets(&self) -> peakrdl_rust::reg::Reg<'io, completer_gets::CompleterGets, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x28).cast(), self.io) }
    }

    /// notifications_discarded
    ///
    /// Notifications lost because a queue was full.
    #[inline(always)]
    #[must_use]
    pub const fn notifications_discarded(&self) -> peakrdl_rust::reg::Reg<'io, notifications_discarded::NotificationsDiscarded, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x30).cast(), self.io) }
    }



}