// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Register: Lock base

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code






/// Lock base
///
/// The base of the lock space: lock n of VPID v is the 32-bit word at base + 4096 v + 4 n. In shared memory: an offset in the NIC's segment.
#[repr(transparent)]
#[derive(Copy, Clone, Eq, PartialEq)]
pub struct LockBase(u64);

unsafe impl Send for LockBase {}
unsafe impl Sync for LockBase {}

impl core::default::Default for LockBase {
    fn default() -> Self {
        Self(0x0)
    }
}

impl peakrdl_rust::reg::Register for LockBase {
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

impl LockBase {
    pub const ADDRESS_OFFSET: usize = 0;
    pub const ADDRESS_WIDTH: usize = 64;
    pub const ADDRESS_MASK: u64 = 0xFFFF_FFFF_FFFF_FFFF;

    /// address
    ///
    /// The base.
    #[inline(always)]
    #[allow(clippy::missing_panics_doc)]
    #[must_use]
    pub fn address(&self) -> u64 {
        let val = (self.0 >> Self::ADDRESS_OFFSET) & Self::ADDRESS_MASK;
        val
    }


    /// address
    ///
    /// The base.
    #[inline(always)]
    pub fn set_address(&mut self, val: u64) {
        let val = val as u64;
        self.0 = (self.0 & !(Self::ADDRESS_MASK << Self::ADDRESS_OFFSET)) | ((val & Self::ADDRESS_MASK) << Self::ADDRESS_OFFSET);
    }


}

impl core::fmt::Debug for LockBase {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LockBase")
            .field("address", &self.address())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_default() {
        let reg = LockBase::default();
        assert_eq!(reg.address(), 0);
    }
}
