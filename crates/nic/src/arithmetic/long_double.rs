// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The long double of x86: 80 bits of value in a slot of 16 bytes, computed in software.

use rustc_apfloat::Float as _;
use rustc_apfloat::ieee::X87DoubleExtended;

use super::element::Element;
use super::real::Real;

/// The x87 80-bit format. The encodings that are invalid for an x87 (unnormal, pseudo-infinity, pseudo-NaN) are NaN.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct LongDouble(X87DoubleExtended);

impl LongDouble {
    const VALUE_BYTES: usize = 10;
    const QUIET_NAN_BITS: u128 = 0x7fff_c000_0000_0000_0000;

    fn canonical(value: X87DoubleExtended) -> Self {
        if value.is_nan() { Self(X87DoubleExtended::from_bits(Self::QUIET_NAN_BITS)) } else { Self(value) }
    }
}

impl Element for LongDouble {
    const SLOT_BYTES: usize = 16;
    const VALUE_BYTES: usize = Self::VALUE_BYTES;

    fn load(slot: &[u8]) -> Self {
        let value = slot.iter().take(Self::VALUE_BYTES).rev().fold(0, |bits, &byte| bits << 8 | u128::from(byte));
        Self(X87DoubleExtended::from_bits(value))
    }

    fn store(self, slot: &mut [u8]) {
        for (slot, byte) in slot.iter_mut().zip(self.0.to_bits().to_le_bytes()).take(Self::VALUE_BYTES) {
            *slot = byte;
        }
    }
}

impl Real for LongDouble {
    const INFINITY: Self = Self(X87DoubleExtended::INFINITY);

    fn sum(self, other: Self) -> Self {
        Self::canonical((self.0 + other.0).value)
    }
    fn difference(self, other: Self) -> Self {
        Self::canonical((self.0 - other.0).value)
    }
    fn product(self, other: Self) -> Self {
        Self::canonical((self.0 * other.0).value)
    }
    fn is_nan(self) -> bool {
        self.0.is_nan()
    }
    fn is_infinite(self) -> bool {
        self.0.is_infinite()
    }
    fn is_negative(self) -> bool {
        self.0.is_negative()
    }
    fn unit(self, one: bool) -> Self {
        Self(X87DoubleExtended::from_u128(u128::from(one)).value.copy_sign(self.0))
    }
}
