// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Register: Lock size

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code






/// Lock size
///
/// The size of the lock space: 4096 bytes for each VPID.
#[repr(transparent)]
#[derive(Copy, Clone, Eq, PartialEq)]
pub struct LockSize(u64);

unsafe impl Send for LockSize {}
unsafe impl Sync for LockSize {}

impl core::default::Default for LockSize {
    fn default() -> Self {
        Self(0x0)
    }
}

impl peakrdl_rust::reg::Register for LockSize {
    type Regwidth = u64;
    type Accesswidth = u64;
    type Access = peakrdl_rust::access::RW;
    type ByteEndian = peakrdl_rust::endian::LittleEndian;
    type WordEndian = peakrdl_rust::endian::LittleEndian;

    unsafe fn from_raw(val: Self::Regwidth) -> Self {
        Self(val)
    }

    fn to_raw(self) -> Self::Regwidth {
        self.0
    }
}

impl LockSize {
    pub const SIZE_OFFSET: usize = 0;
    pub const SIZE_WIDTH: usize = 64;
    pub const SIZE_MASK: u64 = 0xFFFF_FFFF_FFFF_FFFF;

    /// size
    ///
    /// The size.
    #[inline(always)]
    #[allow(clippy::missing_panics_doc)]
    #[must_use]
    pub fn size(&self) -> u64 {
        let val = (self.0 >> Self::SIZE_OFFSET) & Self::SIZE_MASK;
        val
    }


    /// size
    ///
    /// The size.
    #[inline(always)]
    pub fn set_size(&mut self, val: u64) {
        let val = val as u64;
        self.0 = (self.0 & !(Self::SIZE_MASK << Self::SIZE_OFFSET)) | ((val & Self::SIZE_MASK) << Self::SIZE_OFFSET);
    }


}

impl core::fmt::Debug for LockSize {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LockSize")
            .field("size", &self.size())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_default() {
        let reg = LockSize::default();
        assert_eq!(reg.size(), 0);
    }
}
