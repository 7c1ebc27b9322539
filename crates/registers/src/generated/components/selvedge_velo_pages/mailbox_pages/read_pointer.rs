// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Register: Read pointer lookup table (RPLT)

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code






/// Read pointer lookup table (RPLT)
///
/// Slots of each mailbox that its program has given back since its VPID was opened.
#[repr(transparent)]
#[derive(Copy, Clone, Eq, PartialEq)]
pub struct ReadPointer(u64);

unsafe impl Send for ReadPointer {}
unsafe impl Sync for ReadPointer {}

impl core::default::Default for ReadPointer {
    fn default() -> Self {
        Self(0x0)
    }
}

impl peakrdl_rust::reg::Register for ReadPointer {
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

impl ReadPointer {
    pub const SLOTS_OFFSET: usize = 0;
    pub const SLOTS_WIDTH: usize = 64;
    pub const SLOTS_MASK: u64 = 0xFFFF_FFFF_FFFF_FFFF;

    /// slots
    ///
    /// Slots that were read.
    #[inline(always)]
    #[allow(clippy::missing_panics_doc)]
    #[must_use]
    pub fn slots(&self) -> u64 {
        let val = (self.0 >> Self::SLOTS_OFFSET) & Self::SLOTS_MASK;
        val
    }


    /// slots
    ///
    /// Slots that were read.
    #[inline(always)]
    pub fn set_slots(&mut self, val: u64) {
        let val = val as u64;
        self.0 = (self.0 & !(Self::SLOTS_MASK << Self::SLOTS_OFFSET)) | ((val & Self::SLOTS_MASK) << Self::SLOTS_OFFSET);
    }


}

impl core::fmt::Debug for ReadPointer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ReadPointer")
            .field("slots", &self.slots())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_default() {
        let reg = ReadPointer::default();
        assert_eq!(reg.slots(), 0);
    }
}
