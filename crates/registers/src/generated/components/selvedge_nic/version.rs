// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Register: Version

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code






/// Version
///
/// The version of the layout of the NIC's memory, these registers included. Software compares it with its own before it reads anything else.
#[repr(transparent)]
#[derive(Copy, Clone, Eq, PartialEq)]
pub struct Version(u64);

unsafe impl Send for Version {}
unsafe impl Sync for Version {}

impl core::default::Default for Version {
    fn default() -> Self {
        Self(0xD)
    }
}

impl peakrdl_rust::reg::Register for Version {
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

impl Version {
    pub const LAYOUT_OFFSET: usize = 0;
    pub const LAYOUT_WIDTH: usize = 64;
    pub const LAYOUT_MASK: u64 = 0xFFFF_FFFF_FFFF_FFFF;

    /// layout
    ///
    /// The version.
    #[inline(always)]
    #[allow(clippy::missing_panics_doc)]
    #[must_use]
    pub fn layout(&self) -> u64 {
        let val = (self.0 >> Self::LAYOUT_OFFSET) & Self::LAYOUT_MASK;
        val
    }



}

impl core::fmt::Debug for Version {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Version")
            .field("layout", &self.layout())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_default() {
        let reg = Version::default();
        assert_eq!(reg.layout(), 13);
    }
}
