// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Regfile: Portals

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code

// Anonymous component instances
pub mod requests;
pub mod matched_priority;
pub mod list_steps;
pub mod bytes_in;
pub mod bytes_out;
pub mod matched_overflow;
pub mod unexpected;
pub mod truncated;
pub mod dropped;
pub mod permission_violations;
pub mod operation_violations;
pub mod segv;
pub mod events;
pub mod events_overwritten;
pub mod flow_control;
pub mod refused_disabled;
pub mod triggered_fired;
pub mod undeliverable;
pub mod packets;
pub mod recoveries;




/// Portals
///
/// Counters of the Portals unit, and of the NIC as a whole.
#[derive(Eq, PartialEq)]
pub struct SelvedgePortals<'io, IO = peakrdl_rust::io::PtrIO> {
    ptr: *mut u8,
    io: &'io IO,
}

unsafe impl<IO: Sync> Send for SelvedgePortals<'_, IO> {}
unsafe impl<IO: Sync> Sync for SelvedgePortals<'_, IO> {}

// manually implement Copy to ease generic bounds
// (IO does not need to be Copy)
impl<IO> Copy for SelvedgePortals<'_, IO> {}

// manually implement Clone to ease generic bounds
// (IO does not need to be Clone)
impl<IO> Clone for SelvedgePortals<'_, IO> {
    fn clone(&self) -> Self {
        *self
    }
}

impl SelvedgePortals<'static> {
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

impl<'io, IO> SelvedgePortals<'io, IO> {
    /// Size in bytes of the underlying memory
    pub const SIZE: usize = 0xA0;

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

impl<'io, IO: peakrdl_rust::io::RegisterIO> SelvedgePortals<'io, IO> {
    /// requests
    ///
    /// Requests that arrived: puts, gets, atomics, swaps.
    #[inline(always)]
    #[must_use]
    pub const fn requests(&self) -> peakrdl_rust::reg::Reg<'io, requests::Requests, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x0).cast(), self.io) }
    }

    /// matched_priority
    ///
    /// Requests that matched an entry of a priority list.
    #[inline(always)]
    #[must_use]
    pub const fn matched_priority(&self) -> peakrdl_rust::reg::Reg<'io, matched_priority::MatchedPriority, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x8).cast(), self.io) }
    }

    /// list_steps
    ///
    /// List entries and unexpected headers that were compared.
    #[inline(always)]
    #[must_use]
    pub const fn list_steps(&self) -> peakrdl_rust::reg::Reg<'io, list_steps::ListSteps, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x10).cast(), self.io) }
    }

    /// bytes_in
    ///
    /// Bytes written to this process's memory.
    #[inline(always)]
    #[must_use]
    pub const fn bytes_in(&self) -> peakrdl_rust::reg::Reg<'io, bytes_in::BytesIn, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x18).cast(), self.io) }
    }

    /// bytes_out
    ///
    /// Bytes read from this process's memory for others.
    #[inline(always)]
    #[must_use]
    pub const fn bytes_out(&self) -> peakrdl_rust::reg::Reg<'io, bytes_out::BytesOut, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x20).cast(), self.io) }
    }

    /// matched_overflow
    ///
    /// Requests that matched an entry of an overflow list.
    #[inline(always)]
    #[must_use]
    pub const fn matched_overflow(&self) -> peakrdl_rust::reg::Reg<'io, matched_overflow::MatchedOverflow, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x28).cast(), self.io) }
    }

    /// unexpected
    ///
    /// Headers kept on an unexpected list.
    #[inline(always)]
    #[must_use]
    pub const fn unexpected(&self) -> peakrdl_rust::reg::Reg<'io, unexpected::Unexpected, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x30).cast(), self.io) }
    }

    /// truncated
    ///
    /// Requests cut to the memory that their entry had left.
    #[inline(always)]
    #[must_use]
    pub const fn truncated(&self) -> peakrdl_rust::reg::Reg<'io, truncated::Truncated, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x38).cast(), self.io) }
    }

    /// dropped
    ///
    /// Messages dropped: no entry, no portal table entry, or no resources (PTL_SR_DROP_COUNT).
    #[inline(always)]
    #[must_use]
    pub const fn dropped(&self) -> peakrdl_rust::reg::Reg<'io, dropped::Dropped, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x40).cast(), self.io) }
    }

    /// permission_violations
    ///
    /// Messages refused for their user id (PTL_SR_PERMISSION_VIOLATIONS).
    #[inline(always)]
    #[must_use]
    pub const fn permission_violations(&self) -> peakrdl_rust::reg::Reg<'io, permission_violations::PermissionViolations, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x48).cast(), self.io) }
    }

    /// operation_violations
    ///
    /// Messages refused for their operation (PTL_SR_OPERATION_VIOLATIONS).
    #[inline(always)]
    #[must_use]
    pub const fn operation_violations(&self) -> peakrdl_rust::reg::Reg<'io, operation_violations::OperationViolations, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x50).cast(), self.io) }
    }

    /// segv
    ///
    /// Requests that met memory which is not mapped (PTL_NI_SEGV).
    #[inline(always)]
    #[must_use]
    pub const fn segv(&self) -> peakrdl_rust::reg::Reg<'io, segv::Segv, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x58).cast(), self.io) }
    }

    /// events
    ///
    /// Full events written.
    #[inline(always)]
    #[must_use]
    pub const fn events(&self) -> peakrdl_rust::reg::Reg<'io, events::Events, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x60).cast(), self.io) }
    }

    /// events_overwritten
    ///
    /// Full events lost because a queue was full.
    #[inline(always)]
    #[must_use]
    pub const fn events_overwritten(&self) -> peakrdl_rust::reg::Reg<'io, events_overwritten::EventsOverwritten, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x68).cast(), self.io) }
    }

    /// flow_control
    ///
    /// Times that a portal table entry was disabled for lack of resources.
    #[inline(always)]
    #[must_use]
    pub const fn flow_control(&self) -> peakrdl_rust::reg::Reg<'io, flow_control::FlowControl, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x70).cast(), self.io) }
    }

    /// refused_disabled
    ///
    /// Messages refused because their portal table entry was disabled.
    #[inline(always)]
    #[must_use]
    pub const fn refused_disabled(&self) -> peakrdl_rust::reg::Reg<'io, refused_disabled::RefusedDisabled, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x78).cast(), self.io) }
    }

    /// triggered_fired
    ///
    /// Triggered operations that fired.
    #[inline(always)]
    #[must_use]
    pub const fn triggered_fired(&self) -> peakrdl_rust::reg::Reg<'io, triggered_fired::TriggeredFired, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x80).cast(), self.io) }
    }

    /// undeliverable
    ///
    /// Requests of this process that found no living target.
    #[inline(always)]
    #[must_use]
    pub const fn undeliverable(&self) -> peakrdl_rust::reg::Reg<'io, undeliverable::Undeliverable, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x88).cast(), self.io) }
    }

    /// packets
    ///
    /// Packets that waited in rings for the owner.
    #[inline(always)]
    #[must_use]
    pub const fn packets(&self) -> peakrdl_rust::reg::Reg<'io, packets::Packets, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x90).cast(), self.io) }
    }

    /// recoveries
    ///
    /// Times that the tables were rebuilt after a process died in the middle of a change.
    #[inline(always)]
    #[must_use]
    pub const fn recoveries(&self) -> peakrdl_rust::reg::Reg<'io, recoveries::Recoveries, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x98).cast(), self.io) }
    }



}