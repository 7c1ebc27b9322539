// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real numbers of 16 bits: IEEE 754 binary16 ([`Half`]) and bfloat16 ([`Bfloat16`]), the upper half of a binary32.
//!
//! Portals has neither. Reductions of SHARP have both (`FLOAT_SHORT` and `BFLOAT16` in `sharp_datatype`).
//!
//! Invariants
//! 1. A value is widened to binary32, exactly. Sums and products are computed there and rounded to 16 bits, to nearest,
//!    ties to even. This is the correctly rounded result: binary32 has 24 digits, twice the 11 of binary16 and two
//!    more, so the first rounding is harmless. The exception is a product of two bfloat16 below 2^-126: there binary32
//!    has fewer digits.
//! 2. Each NaN that arithmetic produces is the quiet NaN with a clear sign and no payload.
//! 3. Minimum and maximum compare the 16 bits, and are one of the two values to the bit.
//!
//! Costs: no branches and no tables, so the loops are vectorised, without instructions for 16 bits.

use core::cmp::Ordering;

use super::element::{Element, Ordered};
use super::real::Real;

/// IEEE 754 binary16: 5 bits of exponent, 10 of fraction.
#[derive(Clone, Copy)]
pub(super) struct Half(u16);

/// The format bfloat16: 8 bits of exponent, 7 of fraction.
#[derive(Clone, Copy)]
pub(super) struct Bfloat16(u16);

impl Half {
    const INFINITY_BITS: u16 = 0x7c00;
    const QUIET_NAN_BITS: u16 = 0x7e00;

    #[inline]
    fn widen(self) -> f32 {
        /// The difference of the biases of binary32 and binary16, in the exponent's field.
        const BIAS: u32 = (127 - 15) << 23;
        let magnitude = u32::from(self.0 & 0x7fff) << 13;
        let normal = magnitude + BIAS;
        // An exponent field of 1 in place of 0 adds a leading 1 to the fraction. The subtraction removes it.
        let subnormal = f32::from_bits(normal + (1 << 23)) - f32::from_bits(BIAS + (1 << 23));
        let bits = if magnitude < 1 << 23 {
            subnormal.to_bits()
        } else if magnitude < u32::from(Self::INFINITY_BITS) << 13 {
            normal
        } else {
            normal + BIAS
        };
        f32::from_bits(bits | u32::from(self.0 & 0x8000) << 16)
    }

    #[inline]
    fn narrow(value: f32) -> Self {
        const NORMAL_MIN: u32 = 113 << 23;
        const TOO_LARGE: u32 = (127 + 16) << 23;
        let magnitude = value.to_bits() & 0x7fff_ffff;
        let sign = (value.to_bits() >> 16) as u16 & 0x8000;
        // Rounding may carry into the exponent, up to infinity, which is right: the next value has these bits.
        let rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
        let normal = (rounded.wrapping_sub(112 << 23) >> 13) as u16;
        // From 0.5 to 1 the values of binary32 are multiples of the least Half. So the addition rounds to one of these.
        let subnormal = ((f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits())) as u16;
        let finite = if magnitude < NORMAL_MIN { subnormal } else { normal };
        let number = if magnitude < TOO_LARGE { finite } else { Self::INFINITY_BITS };
        Self(if value.is_nan() { Self::QUIET_NAN_BITS } else { number | sign })
    }
}

impl Bfloat16 {
    const INFINITY_BITS: u16 = 0x7f80;
    const QUIET_NAN_BITS: u16 = 0x7fc0;

    #[inline]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    #[inline]
    fn narrow(value: f32) -> Self {
        let bits = value.to_bits();
        // Rounding may carry into the exponent, up to infinity.
        let rounded = (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16;
        Self(if value.is_nan() { Self::QUIET_NAN_BITS } else { rounded })
    }
}

/// Rank of a number in the order of all numbers, -0 before +0: a negative one has the bits of its magnitude inverted.
#[inline]
fn place(bits: u16) -> i16 {
    let bits = bits as i16;
    bits ^ (bits >> 15 & 0x7fff)
}

macro_rules! sixteen_bits {
    ($($type:ident),*) => {$(
        impl Element for $type {
            type Bits = u16;
            const SLOT_BYTES: usize = 2;
            #[inline]
            fn read(slot: &[u8]) -> u16 {
                u16::read(slot)
            }
            #[inline]
            fn write(bits: u16, slot: &mut [u8]) {
                u16::write(bits, slot);
            }
            #[inline]
            fn from_bits(bits: u16) -> Self {
                Self(bits)
            }
            #[inline]
            fn to_bits(self) -> u16 {
                self.0
            }
        }

        impl PartialEq for $type {
            #[inline]
            fn eq(&self, other: &Self) -> bool {
                self.widen() == other.widen()
            }
        }

        impl PartialOrd for $type {
            #[inline]
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                self.widen().partial_cmp(&other.widen())
            }
        }

        impl Ordered for $type {
            #[inline]
            fn is_nan(self) -> bool {
                self.0 & 0x7fff > Self::INFINITY_BITS
            }
        }

        impl Real for $type {
            #[inline]
            fn sum(self, other: Self) -> Self {
                Self::narrow(self.widen() + other.widen())
            }
            #[inline]
            fn product(self, other: Self) -> Self {
                Self::narrow(self.widen() * other.widen())
            }
            #[inline]
            fn lesser(target: u16, operand: u16) -> u16 {
                let less = place(operand) < place(target);
                let takes = (less | Self(target).is_nan()) & !Self(operand).is_nan();
                if takes { operand } else { target }
            }
            #[inline]
            fn greater(target: u16, operand: u16) -> u16 {
                let greater = place(operand) > place(target);
                let takes = (greater | Self(target).is_nan()) & !Self(operand).is_nan();
                if takes { operand } else { target }
            }
        }
    )*};
}
sixteen_bits!(Half, Bfloat16);

#[cfg(test)]
#[path = "half_tests.rs"]
mod tests;
