// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Register: Flush request

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code



// Instances of named component types
pub use _root::components::selvedge_flush_kind as kind;
pub use _root::components::selvedge_flush_mode as mode;



/// Flush request
///
/// Writing it starts a flush: entries leave the TLB, and the units answer when no transfer uses the pages. When all have answered, atu_flushes has grown by one.
#[repr(transparent)]
#[derive(Copy, Clone, Eq, PartialEq)]
pub struct FlushRequest(u64);

unsafe impl Send for FlushRequest {}
unsafe impl Sync for FlushRequest {}

impl core::default::Default for FlushRequest {
    fn default() -> Self {
        Self(0x0)
    }
}

impl peakrdl_rust::reg::Register for FlushRequest {
    type Regwidth = u64;
    type Accesswidth = u64;
    type Access = peakrdl_rust::access::W;
    type ByteEndian = peakrdl_rust::endian::LittleEndian;
    type WordEndian = peakrdl_rust::endian::LittleEndian;

    unsafe fn from_raw(val: Self::Regwidth) -> Self {
        Self(val)
    }

    fn to_raw(self) -> Self::Regwidth {
        self.0
    }
}

impl FlushRequest {
    pub const FIRST_OFFSET: usize = 0;
    pub const FIRST_WIDTH: usize = 27;
    pub const FIRST_MASK: u64 = 0x7FF_FFFF;


    /// first
    ///
    /// The first page: the number of its table, shifted by 18, and the number of the page in it.
    #[inline(always)]
    pub fn set_first(&mut self, val: u32) {
        let val = val as u64;
        self.0 = (self.0 & !(Self::FIRST_MASK << Self::FIRST_OFFSET)) | ((val & Self::FIRST_MASK) << Self::FIRST_OFFSET);
    }


    pub const EXTENT_OFFSET: usize = 27;
    pub const EXTENT_WIDTH: usize = 10;
    pub const EXTENT_MASK: u64 = 0x3FF;


    /// extent
    ///
    /// Of pages: how many, less one. Of a VPID: the VPID.
    #[inline(always)]
    pub fn set_extent(&mut self, val: u16) {
        let val = val as u64;
        self.0 = (self.0 & !(Self::EXTENT_MASK << Self::EXTENT_OFFSET)) | ((val & Self::EXTENT_MASK) << Self::EXTENT_OFFSET);
    }


    pub const KIND_OFFSET: usize = 40;
    pub const KIND_WIDTH: usize = 2;
    pub const KIND_MASK: u64 = 0x3;


    /// kind
    ///
    /// What is flushed.
    #[inline(always)]
    pub fn set_kind(&mut self, val: kind::SelvedgeFlushKind) {
        let val = val.bits() as u64;
        self.0 = (self.0 & !(Self::KIND_MASK << Self::KIND_OFFSET)) | ((val & Self::KIND_MASK) << Self::KIND_OFFSET);
    }


    pub const MODE_OFFSET: usize = 42;
    pub const MODE_WIDTH: usize = 2;
    pub const MODE_MASK: u64 = 0x3;


    /// mode
    ///
    /// From where.
    #[inline(always)]
    pub fn set_mode(&mut self, val: mode::SelvedgeFlushMode) {
        let val = val.bits() as u64;
        self.0 = (self.0 & !(Self::MODE_MASK << Self::MODE_OFFSET)) | ((val & Self::MODE_MASK) << Self::MODE_OFFSET);
    }


}

impl core::fmt::Debug for FlushRequest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FlushRequest")
            .finish()
    }
}

