// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Register: Interrupt

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code






/// Interrupt
///
/// A message has arrived since the interrupt was cleared. It is kept whether it is masked or not.
#[repr(transparent)]
#[derive(Copy, Clone, Eq, PartialEq)]
pub struct Interrupt(u64);

unsafe impl Send for Interrupt {}
unsafe impl Sync for Interrupt {}

impl core::default::Default for Interrupt {
    fn default() -> Self {
        Self(0x0)
    }
}

impl peakrdl_rust::reg::Register for Interrupt {
    type Regwidth = u64;
    type Accesswidth = u64;
    type Access = peakrdl_rust::access::R;
    type ByteEndian = peakrdl_rust::endian::LittleEndian;
    type WordEndian = peakrdl_rust::endian::LittleEndian;

    unsafe fn from_raw(val: Self::Regwidth) -> Self {
        Self(val)
    }

    fn to_raw(self) -> Self::Regwidth {
        self.0
    }
}

impl Interrupt {
    pub const MESSAGE_OFFSET: usize = 0;
    pub const MESSAGE_WIDTH: usize = 1;
    pub const MESSAGE_MASK: u64 = 0x1;

    /// message
    ///
    /// A message has arrived.
    #[inline(always)]
    #[allow(clippy::missing_panics_doc)]
    #[must_use]
    pub fn message(&self) -> bool {
        let val = (self.0 >> Self::MESSAGE_OFFSET) & Self::MESSAGE_MASK;
        val != 0
    }



}

impl core::fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Interrupt")
            .field("message", &self.message())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_default() {
        let reg = Interrupt::default();
        assert_eq!(reg.message(), false);
    }
}
