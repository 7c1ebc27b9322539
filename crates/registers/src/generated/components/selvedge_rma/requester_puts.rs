// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Register: requester_puts

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code






/// requester_puts
///
/// Puts that the RMA requester started, notification and immediate puts too.
#[repr(transparent)]
#[derive(Copy, Clone, Eq, PartialEq)]
pub struct RequesterPuts(u64);

unsafe impl Send for RequesterPuts {}
unsafe impl Sync for RequesterPuts {}

impl core::default::Default for RequesterPuts {
    fn default() -> Self {
        Self(0x0)
    }
}

impl peakrdl_rust::reg::Register for RequesterPuts {
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

impl RequesterPuts {
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

impl core::fmt::Debug for RequesterPuts {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RequesterPuts")
            .field("count", &self.count())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_default() {
        let reg = RequesterPuts::default();
        assert_eq!(reg.count(), 0);
    }
}
