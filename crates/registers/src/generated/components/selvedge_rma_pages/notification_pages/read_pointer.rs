// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Register: Notification read pointers

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code






/// Notification read pointers
///
/// Notifications that the program of each VPID has read since it was opened.
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
    pub const ENTRIES_OFFSET: usize = 0;
    pub const ENTRIES_WIDTH: usize = 64;
    pub const ENTRIES_MASK: u64 = 0xFFFF_FFFF_FFFF_FFFF;

    /// entries
    ///
    /// Notifications that were read.
    #[inline(always)]
    #[allow(clippy::missing_panics_doc)]
    #[must_use]
    pub fn entries(&self) -> u64 {
        let val = (self.0 >> Self::ENTRIES_OFFSET) & Self::ENTRIES_MASK;
        val
    }


    /// entries
    ///
    /// Notifications that were read.
    #[inline(always)]
    pub fn set_entries(&mut self, val: u64) {
        let val = val as u64;
        self.0 = (self.0 & !(Self::ENTRIES_MASK << Self::ENTRIES_OFFSET)) | ((val & Self::ENTRIES_MASK) << Self::ENTRIES_OFFSET);
    }


}

impl core::fmt::Debug for ReadPointer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ReadPointer")
            .field("entries", &self.entries())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_default() {
        let reg = ReadPointer::default();
        assert_eq!(reg.entries(), 0);
    }
}
