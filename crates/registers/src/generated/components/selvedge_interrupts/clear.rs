// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Register: Interrupt clear

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code






/// Interrupt clear
///
/// Writing 1 clears the interrupt. It reads as 0.
#[repr(transparent)]
#[derive(Copy, Clone, Eq, PartialEq)]
pub struct Clear(u64);

unsafe impl Send for Clear {}
unsafe impl Sync for Clear {}

impl core::default::Default for Clear {
    fn default() -> Self {
        Self(0x0)
    }
}

impl peakrdl_rust::reg::Register for Clear {
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

impl Clear {
    pub const MESSAGE_OFFSET: usize = 0;
    pub const MESSAGE_WIDTH: usize = 1;
    pub const MESSAGE_MASK: u64 = 0x1;


    /// message
    ///
    /// Clears the interrupt.
    #[inline(always)]
    pub fn set_message(&mut self, val: bool) {
        let val = val as u64;
        self.0 = (self.0 & !(Self::MESSAGE_MASK << Self::MESSAGE_OFFSET)) | ((val & Self::MESSAGE_MASK) << Self::MESSAGE_OFFSET);
    }


}

impl core::fmt::Debug for Clear {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Clear")
            .finish()
    }
}

