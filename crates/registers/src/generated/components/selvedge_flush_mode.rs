// SPDX-License-Identifier: Apache-2.0 OR MIT
// Made by `make registers` from registers/*.rdl; not to be edited.
//! Field Enum: mode

#[allow(unused_imports)]
use super::_root; // alias to root module of generated code






#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelvedgeFlushMode {
    /// From the TLB and from the units.
    Both = 0,
    /// From the TLB only.
    Tlb = 1,
    /// From the units only.
    Units = 2,
}

impl SelvedgeFlushMode {
    /// Decode a bit pattern into an encoded enum variant.
    ///
    /// # Errors
    /// Returns an error if the bit pattern does not match any encoded variants.
    pub const fn from_bits(bits: u8) -> Result<Self, peakrdl_rust::encode::UnknownVariant<u8>> {
        match bits {
            0 => Ok(Self::Both),
            1 => Ok(Self::Tlb),
            2 => Ok(Self::Units),
            bits => Err(peakrdl_rust::encode::UnknownVariant::new(bits)),
        }
    }

    /// The bit pattern of the variant
    #[must_use]
    pub const fn bits(&self) -> u8 {
        *self as u8
    }
}