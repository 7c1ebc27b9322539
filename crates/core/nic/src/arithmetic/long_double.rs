// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The long double of x86: 80 bits of value in a slot of 16 bytes, computed in software.

use rustc_apfloat::Float as _;
use rustc_apfloat::ieee::X87DoubleExtended;

use super::complex::Part;
use super::element::{Element, Ordered};
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
    type Bits = [u8; Self::VALUE_BYTES];
    const SLOT_BYTES: usize = 16;

    fn read(slot: &[u8]) -> Self::Bits {
        slot.first_chunk().copied().unwrap_or_default()
    }

    fn write(bits: Self::Bits, slot: &mut [u8]) {
        if let Some(bytes) = slot.first_chunk_mut() {
            *bytes = bits;
        }
    }

    fn from_bits(bits: Self::Bits) -> Self {
        let value = bits.iter().rev().fold(0, |value, &byte| value << 8 | u128::from(byte));
        Self(X87DoubleExtended::from_bits(value))
    }

    fn to_bits(self) -> Self::Bits {
        self.0.to_bits().to_le_bytes().first_chunk().copied().unwrap_or_default()
    }
}

impl Ordered for LongDouble {
    fn is_nan(self) -> bool {
        self.0.is_nan()
    }
}

impl Real for LongDouble {
    fn sum(self, other: Self) -> Self {
        Self::canonical((self.0 + other.0).value)
    }

    fn product(self, other: Self) -> Self {
        Self::canonical((self.0 * other.0).value)
    }

    fn lesser(target_bits: Self::Bits, operand_bits: Self::Bits) -> Self::Bits {
        let (target, operand) = (Self::from_bits(target_bits), Self::from_bits(operand_bits));
        let takes = operand < target
            || (target.is_nan() && !operand.is_nan())
            || (operand == target && operand.0.is_negative());
        if takes { operand_bits } else { target_bits }
    }

    fn greater(target_bits: Self::Bits, operand_bits: Self::Bits) -> Self::Bits {
        let (target, operand) = (Self::from_bits(target_bits), Self::from_bits(operand_bits));
        let takes =
            operand > target || (target.is_nan() && !operand.is_nan()) || (operand == target && target.0.is_negative());
        if takes { operand_bits } else { target_bits }
    }
}

impl Part for LongDouble {
    const INFINITY: Self = Self(X87DoubleExtended::INFINITY);

    fn difference(self, other: Self) -> Self {
        Self::canonical((self.0 - other.0).value)
    }

    fn is_infinite(self) -> bool {
        self.0.is_infinite()
    }

    fn unit(self, one: bool) -> Self {
        Self(X87DoubleExtended::from_u128(u128::from(one)).value.copy_sign(self.0))
    }
}
