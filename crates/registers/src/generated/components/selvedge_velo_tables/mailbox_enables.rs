// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Register: Mailbox enables

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code






/// Mailbox enables
///
/// A mailbox takes messages: its VPID is open, and the mailbox is not disabled.
#[repr(transparent)]
#[derive(Copy, Clone, Eq, PartialEq)]
pub struct MailboxEnables(u64);

unsafe impl Send for MailboxEnables {}
unsafe impl Sync for MailboxEnables {}

impl core::default::Default for MailboxEnables {
    fn default() -> Self {
        Self(0x0)
    }
}

impl peakrdl_rust::reg::Register for MailboxEnables {
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

impl MailboxEnables {
    pub const VPIDS_OFFSET: usize = 0;
    pub const VPIDS_WIDTH: usize = 64;
    pub const VPIDS_MASK: u64 = 0xFFFF_FFFF_FFFF_FFFF;

    /// vpids
    ///
    /// Bit i of word w: VPID 64 w + i.
    #[inline(always)]
    #[allow(clippy::missing_panics_doc)]
    #[must_use]
    pub fn vpids(&self) -> u64 {
        let val = (self.0 >> Self::VPIDS_OFFSET) & Self::VPIDS_MASK;
        val
    }


    /// vpids
    ///
    /// Bit i of word w: VPID 64 w + i.
    #[inline(always)]
    pub fn set_vpids(&mut self, val: u64) {
        let val = val as u64;
        self.0 = (self.0 & !(Self::VPIDS_MASK << Self::VPIDS_OFFSET)) | ((val & Self::VPIDS_MASK) << Self::VPIDS_OFFSET);
    }


}

impl core::fmt::Debug for MailboxEnables {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("MailboxEnables")
            .field("vpids", &self.vpids())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_default() {
        let reg = MailboxEnables::default();
        assert_eq!(reg.vpids(), 0);
    }
}
