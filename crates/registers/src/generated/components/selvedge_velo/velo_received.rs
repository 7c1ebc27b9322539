// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Register: velo_received

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code






/// velo_received
///
/// VELO messages written to a mailbox, or taken from a ring.
#[repr(transparent)]
#[derive(Copy, Clone, Eq, PartialEq)]
pub struct VeloReceived(u64);

unsafe impl Send for VeloReceived {}
unsafe impl Sync for VeloReceived {}

impl core::default::Default for VeloReceived {
    fn default() -> Self {
        Self(0x0)
    }
}

impl peakrdl_rust::reg::Register for VeloReceived {
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

impl VeloReceived {
    pub const COUNT_OFFSET: usize = 0;
    pub const COUNT_WIDTH: usize = 64;
    pub const COUNT_MASK: u64 = 0xFFFF_FFFF_FFFF_FFFF;

    /// count
    #[inline(always)]
    #[allow(clippy::missing_panics_doc)]
    #[must_use]
    pub fn count(&self) -> u64 {
        let val = (self.0 >> Self::COUNT_OFFSET) & Self::COUNT_MASK;
        val
    }



}

impl core::fmt::Debug for VeloReceived {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("VeloReceived")
            .field("count", &self.count())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_default() {
        let reg = VeloReceived::default();
        assert_eq!(reg.count(), 0);
    }
}
