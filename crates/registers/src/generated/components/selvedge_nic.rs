// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Addrmap: Registers of a NIC

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code

// Anonymous component instances
pub mod version;


// Instances of named component types
pub use _root::components::selvedge_portals as portals;
pub use _root::components::selvedge_velo as velo;
pub use _root::components::selvedge_rma as rma;
pub use _root::components::selvedge_atu as atu;
pub use _root::components::selvedge_velo_tables as velo_tables;
pub use _root::components::selvedge_velo_pages as velo_pages;
pub use _root::components::selvedge_rma_tables as rma_tables;
pub use _root::components::selvedge_rma_pages as rma_pages;
pub use _root::components::selvedge_atu_tables as atu_tables;


/// Registers of a NIC
///
/// The registers of one NIC: version and counters, and for each unit its tables and enable bits.
#[derive(Eq, PartialEq)]
pub struct SelvedgeNic<'io, IO = peakrdl_rust::io::PtrIO> {
    ptr: *mut u8,
    io: &'io IO,
}

unsafe impl<IO: Sync> Send for SelvedgeNic<'_, IO> {}
unsafe impl<IO: Sync> Sync for SelvedgeNic<'_, IO> {}

// manually implement Copy to ease generic bounds
// (IO does not need to be Copy)
impl<IO> Copy for SelvedgeNic<'_, IO> {}

// manually implement Clone to ease generic bounds
// (IO does not need to be Clone)
impl<IO> Clone for SelvedgeNic<'_, IO> {
    fn clone(&self) -> Self {
        *self
    }
}

impl SelvedgeNic<'static> {
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

impl<'io, IO> SelvedgeNic<'io, IO> {
    /// Size in bytes of the underlying memory
    pub const SIZE: usize = 0x60_2000;

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

impl<'io, IO: peakrdl_rust::io::RegisterIO> SelvedgeNic<'io, IO> {
    /// Version
    ///
    /// The version of the layout of the NIC's memory, these registers included. Software compares it with its own before it reads anything else.
    #[inline(always)]
    #[must_use]
    pub const fn version(&self) -> peakrdl_rust::reg::Reg<'io, version::Version, IO> {
        unsafe { peakrdl_rust::reg::Reg::from_ptr_with(self.ptr.wrapping_byte_add(0x0).cast(), self.io) }
    }


    /// Portals
    ///
    /// Counters of the Portals unit, and of the NIC as a whole.
    #[inline(always)]
    #[must_use]
    pub const fn portals(&self) -> portals::SelvedgePortals<'io, IO> {
        unsafe { portals::SelvedgePortals::from_ptr_with(self.ptr.wrapping_byte_add(0x8).cast(), self.io) }
    }

    /// VELO
    ///
    /// Counters of the VELO unit (table 7-1: sent, received, discarded).
    #[inline(always)]
    #[must_use]
    pub const fn velo(&self) -> velo::SelvedgeVelo<'io, IO> {
        unsafe { velo::SelvedgeVelo::from_ptr_with(self.ptr.wrapping_byte_add(0x100).cast(), self.io) }
    }

    /// RMA
    ///
    /// Counters of the three parts of the RMA unit.
    #[inline(always)]
    #[must_use]
    pub const fn rma(&self) -> rma::SelvedgeRma<'io, IO> {
        unsafe { rma::SelvedgeRma::from_ptr_with(self.ptr.wrapping_byte_add(0x140).cast(), self.io) }
    }

    /// ATU
    ///
    /// Counters of the address translation unit.
    #[inline(always)]
    #[must_use]
    pub const fn atu(&self) -> atu::SelvedgeAtu<'io, IO> {
        unsafe { atu::SelvedgeAtu::from_ptr_with(self.ptr.wrapping_byte_add(0x180).cast(), self.io) }
    }

    /// VELO, per VPID
    ///
    /// The mailboxes: their enable bits, their tables, their interrupts. A register with an index has one entry for each VPID.
    #[inline(always)]
    #[must_use]
    pub const fn velo_tables(&self) -> velo_tables::SelvedgeVeloTables<'io, IO> {
        unsafe { velo_tables::SelvedgeVeloTables::from_ptr_with(self.ptr.wrapping_byte_add(0x20_0000).cast(), self.io) }
    }

    /// VELO, pages
    ///
    /// Registers of a mailbox that its program writes: a page for each VPID.
    #[inline(always)]
    #[must_use]
    pub const fn velo_pages(&self) -> velo_pages::SelvedgeVeloPages<'io, IO> {
        unsafe { velo_pages::SelvedgeVeloPages::from_ptr_with(self.ptr.wrapping_byte_add(0x30_0000).cast(), self.io) }
    }

    /// RMA, per VPID
    ///
    /// The notification queues and the lock space. A register with an index has one entry for each VPID.
    #[inline(always)]
    #[must_use]
    pub const fn rma_tables(&self) -> rma_tables::SelvedgeRmaTables<'io, IO> {
        unsafe { rma_tables::SelvedgeRmaTables::from_ptr_with(self.ptr.wrapping_byte_add(0x40_0000).cast(), self.io) }
    }

    /// RMA, pages
    ///
    /// Registers of a notification queue that its program writes: a page for each VPID.
    #[inline(always)]
    #[must_use]
    pub const fn rma_pages(&self) -> rma_pages::SelvedgeRmaPages<'io, IO> {
        unsafe { rma_pages::SelvedgeRmaPages::from_ptr_with(self.ptr.wrapping_byte_add(0x50_0000).cast(), self.io) }
    }

    /// ATU tables
    ///
    /// The bases of the global address tables, and the flush request.
    #[inline(always)]
    #[must_use]
    pub const fn atu_tables(&self) -> atu_tables::SelvedgeAtuTables<'io, IO> {
        unsafe { atu_tables::SelvedgeAtuTables::from_ptr_with(self.ptr.wrapping_byte_add(0x60_0000).cast(), self.io) }
    }


}