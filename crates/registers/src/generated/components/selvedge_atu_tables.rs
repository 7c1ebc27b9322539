// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Addrmap: ATU tables

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code

// Anonymous component instances
pub mod flush_request;
pub mod table_bases;




/// ATU tables
///
/// The bases of the global address tables, and the flush request.
#[derive(Eq, PartialEq)]
pub struct SelvedgeAtuTables<'io, IO = peakrdl_rust::io::PtrIO> {
    ptr: *mut u8,
    io: &'io IO,
}

unsafe impl<IO: Sync> Send for SelvedgeAtuTables<'_, IO> {}
unsafe impl<IO: Sync> Sync for SelvedgeAtuTables<'_, IO> {}

// manually implement Copy to ease generic bounds
// (IO does not need to be Copy)
impl<IO> Copy for SelvedgeAtuTables<'_, IO> {}

// manually implement Clone to ease generic bounds
// (IO does not need to be Clone)
impl<IO> Clone for SelvedgeAtuTables<'_, IO> {
    fn clone(&self) -> Self {
        *self
    }
}

impl SelvedgeAtuTables<'static> {
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

impl<'io, IO> SelvedgeAtuTables<'io, IO> {
    /// Size in bytes of the underlying memory
    pub const SIZE: usize = 0x2000;

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

impl<'io, IO: peakrdl_rust::io::RegisterIO> SelvedgeAtuTables<'io, IO> {
    /// Flush request
    ///
    /// Writing it starts a flush: entries leave the TLB, and the units answer when no transfer uses the pages. When all have answered, atu_flushes has grown by one.
    #[inline(always)]
    #[must_use]
    pub const fn flush_request(&self) -> peakrdl_rust::reg::Reg<'io, flush_request::FlushRequest, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x0).cast(), self.io) }
    }



    /// Base addresses of the global address tables
    ///
    /// The base of each table, of 2^18 entries of 8 bytes; bit 0: the table is there. In shared memory: its offset in the NIC's segment.
    #[inline(always)]
    #[must_use]
    pub const fn table_bases(&self) -> table_bases::TableBases<'io, IO> {
        unsafe { table_bases::TableBases::from_ptr_with(self.ptr.wrapping_byte_add(0x1000).cast(), self.io) }
    }

}