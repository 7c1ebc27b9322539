// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Register: Interrupt mask

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code






/// Interrupt mask
///
/// 1: the interrupt reaches the processor. A program that polls leaves it 0.
#[repr(transparent)]
#[derive(Copy, Clone, Eq, PartialEq)]
pub struct Mask(u64);

unsafe impl Send for Mask {}
unsafe impl Sync for Mask {}

impl core::default::Default for Mask {
    fn default() -> Self {
        Self(0x0)
    }
}

impl peakrdl_rust::reg::Register for Mask {
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

impl Mask {
    pub const MESSAGE_OFFSET: usize = 0;
    pub const MESSAGE_WIDTH: usize = 1;
    pub const MESSAGE_MASK: u64 = 0x1;

    /// message
    ///
    /// Messages interrupt.
    #[inline(always)]
    #[allow(clippy::missing_panics_doc)]
    #[must_use]
    pub fn message(&self) -> bool {
        let val = (self.0 >> Self::MESSAGE_OFFSET) & Self::MESSAGE_MASK;
        val != 0
    }


    /// message
    ///
    /// Messages interrupt.
    #[inline(always)]
    pub fn set_message(&mut self, val: bool) {
        let val = val as u64;
        self.0 = (self.0 & !(Self::MESSAGE_MASK << Self::MESSAGE_OFFSET)) | ((val & Self::MESSAGE_MASK) << Self::MESSAGE_OFFSET);
    }


}

impl core::fmt::Debug for Mask {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Mask")
            .field("message", &self.message())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_default() {
        let reg = Mask::default();
        assert_eq!(reg.message(), false);
    }
}
