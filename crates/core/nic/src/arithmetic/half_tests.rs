// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The numbers of 16 bits against binary64: every value, every tie, and every value with operands at edges.

use super::super::tests::check_extremes;
use super::super::{Datatype, Operation, apply};
use super::*;
use proptest::prelude::*;
use rustc_apfloat::{Float as _, FloatConvert as _, ieee};
use std::vec::Vec;

/// A format of 16 bits, described independently of the code under test.
struct Format {
    datatype: Datatype,
    fraction_bits: u32,
    bias: i32,
    infinity: u16,
    quiet_nan: u16,
    widen: fn(u16) -> f32,
    narrow: fn(f32) -> u16,
}

const HALF: Format = Format {
    datatype: Datatype::Half,
    fraction_bits: 10,
    bias: 15,
    infinity: 0x7c00,
    quiet_nan: 0x7e00,
    widen: |bits| Half(bits).widen(),
    narrow: |value| Half::narrow(value).0,
};

const BFLOAT16: Format = Format {
    datatype: Datatype::Bfloat16,
    fraction_bits: 7,
    bias: 127,
    infinity: 0x7f80,
    quiet_nan: 0x7fc0,
    widen: |bits| Bfloat16(bits).widen(),
    narrow: |value| Bfloat16::narrow(value).0,
};

impl Format {
    /// The value of these bits by the definition of the format.
    fn value(&self, bits: u16) -> f64 {
        let fraction = f64::from(bits & ((1 << self.fraction_bits) - 1));
        let exponent = i32::from((bits & 0x7fff) >> self.fraction_bits);
        let whole = f64::from(1u16 << self.fraction_bits);
        let magnitude = match bits & 0x7fff {
            magnitude if magnitude > self.infinity => f64::NAN,
            magnitude if magnitude == self.infinity => f64::INFINITY,
            _ if exponent == 0 => fraction / whole * 2f64.powi(1 - self.bias),
            _ => (1.0 + fraction / whole) * 2f64.powi(exponent - self.bias),
        };
        if bits & 0x8000 == 0 { magnitude } else { -magnitude }
    }

    /// The bits of the nearest of all values. Of two equally near, the one with the even fraction.
    fn nearest(&self, values: &[f64], value: f64) -> u16 {
        if value.is_nan() {
            return self.quiet_nan;
        }
        let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
        let above = values.partition_point(|candidate| *candidate < value.abs());
        let nearest = if above == 0 {
            0
        } else if above >= usize::from(self.infinity) {
            // Beyond the largest number, rounding works as if the next number had the bits of infinity.
            let largest = values[usize::from(self.infinity) - 1];
            let step = largest - values[usize::from(self.infinity) - 2];
            usize::from(self.infinity) - usize::from(value.abs() < largest + step / 2.0)
        } else {
            let (below, over) = (value.abs() - values[above - 1], values[above] - value.abs());
            if below < over || (below == over && above % 2 == 1) { above - 1 } else { above }
        };
        nearest as u16 | sign
    }

    /// The numbers from 0 up, infinity the last, at the index that is their bits.
    fn values(&self) -> Vec<f64> {
        (0..=self.infinity).map(|bits| self.value(bits)).collect()
    }

    fn memory(&self) -> Vec<u8> {
        (0..=u16::MAX).flat_map(u16::to_le_bytes).collect()
    }

    /// Operands at edges: zeros, the least, the largest, subnormal ones, infinities, NaN, and some from the middle.
    fn edges(&self) -> Vec<u16> {
        let one = (self.bias as u16) << self.fraction_bits;
        let normal = 1 << self.fraction_bits;
        let magnitudes = [
            0,
            1,
            2,
            normal - 1,
            normal,
            normal + 1,
            one / 2,
            one - 1,
            one,
            one + 1,
            one + normal / 2 + 1,
            one + 3 * normal,
            self.infinity - normal,
            self.infinity - 1,
            self.infinity,
            self.infinity + 1,
            self.quiet_nan,
        ];
        magnitudes.into_iter().flat_map(|magnitude| [magnitude, magnitude | 0x8000]).collect()
    }
}

#[test]
fn every_value_widens_exactly_and_narrows_to_itself() {
    for format in [HALF, BFLOAT16] {
        for bits in 0..=u16::MAX {
            let (wide, value) = ((format.widen)(bits), format.value(bits));
            if value.is_nan() {
                assert!(wide.is_nan());
                assert_eq!((format.narrow)(wide), format.quiet_nan, "{bits:#x}");
            } else {
                assert_eq!(f64::from(wide).to_bits(), value.to_bits(), "{bits:#x}");
                assert_eq!((format.narrow)(wide), bits);
            }
        }
        for nan in [0x7f80_0001, 0xff80_0001, 0x7fc0_0000, 0xffff_ffff] {
            assert_eq!((format.narrow)(f32::from_bits(nan)), format.quiet_nan);
        }
    }
}

#[test]
fn every_tie_goes_to_the_even_one() {
    for format in [HALF, BFLOAT16] {
        for below in 0..format.infinity {
            let above = below + 1;
            // Between the largest number and infinity, the middle is that of one more step.
            let middle = match above == format.infinity {
                false => (format.value(below) + format.value(above)) / 2.0,
                true => format.value(below) + (format.value(below) - format.value(below - 1)) / 2.0,
            };
            let middle = middle as f32;
            let even = if below % 2 == 0 { below } else { above };
            for (value, expected) in [
                (f32::from_bits(middle.to_bits() - 1), below),
                (middle, even),
                (f32::from_bits(middle.to_bits() + 1), above),
            ] {
                assert_eq!((format.narrow)(value), expected, "{below:#x} {value:e}");
                assert_eq!((format.narrow)(-value), expected | 0x8000, "{below:#x} -{value:e}");
            }
        }
        assert_eq!((format.narrow)(f32::MAX), format.infinity);
        assert_eq!((format.narrow)(f32::from_bits(1)), 0);
        assert_eq!((format.narrow)(-f32::from_bits(1)), 0x8000);
    }
}

/// Every value with every edge, in one slice, against binary64. The sum or product there has 53 digits, so the second
/// rounding is harmless.
#[test]
fn sums_and_products_match_binary64() {
    for format in [HALF, BFLOAT16] {
        let (targets, values) = (format.memory(), format.values());
        for edge in format.edges() {
            let operands = edge.to_le_bytes().repeat(1 << 16);
            let (mut sums, mut products) = (targets.clone(), targets.clone());
            apply(Operation::Sum, format.datatype, &mut sums, &operands);
            apply(Operation::Prod, format.datatype, &mut products, &operands);
            for bits in 0..=u16::MAX {
                let (left, right) = (format.value(bits), format.value(edge));
                let at = usize::from(bits) * 2;
                let sum = u16::from_le_bytes([sums[at], sums[at + 1]]);
                assert_eq!(sum, format.nearest(&values, left + right), "{bits:#x} + {edge:#x}");
                // Invariant 1's exception is rounded twice.
                let exact = left * right;
                let once = if exact.abs() < f64::from(f32::MIN_POSITIVE) { f64::from(exact as f32) } else { exact };
                let product = u16::from_le_bytes([products[at], products[at + 1]]);
                assert_eq!(product, format.nearest(&values, once), "{bits:#x} * {edge:#x}");
            }
        }
    }
}

#[test]
fn minimum_and_maximum_are_one_of_the_two_to_the_bit() {
    for format in [HALF, BFLOAT16] {
        let value = |bits: u128| format.value(bits as u16);
        let every = (0..=u16::MAX).step_by(251).chain(format.edges()).map(u128::from).collect::<Vec<u128>>();
        let less = |left, right| value(left) < value(right);
        check_extremes(format.datatype, &every, less, |bits| value(bits).is_nan());
    }
}

proptest! {
    /// Against an independent implementation, which computes in the format itself.
    #[test]
    fn sums_and_products_match_software(left: u16, right: u16, wide: u32) {
        let canonical = |bits: u128, nan: bool, format: &Format| if nan { format.quiet_nan } else { bits as u16 };
        let mut loses = false;

        let (l, r) = (ieee::Half::from_bits(left.into()), ieee::Half::from_bits(right.into()));
        let (sum, product) = ((l + r).value, (l * r).value);
        prop_assert_eq!(Half(left).sum(Half(right)).0, canonical(sum.to_bits(), sum.is_nan(), &HALF));
        prop_assert_eq!(Half(left).product(Half(right)).0, canonical(product.to_bits(), product.is_nan(), &HALF));
        let narrow: ieee::Half = ieee::Single::from_bits(wide.into()).convert(&mut loses).value;
        prop_assert_eq!((HALF.narrow)(f32::from_bits(wide)), canonical(narrow.to_bits(), narrow.is_nan(), &HALF));

        let (l, r) = (ieee::BFloat::from_bits(left.into()), ieee::BFloat::from_bits(right.into()));
        let sum = (l + r).value;
        let result = Bfloat16(left).sum(Bfloat16(right)).0;
        prop_assert_eq!(result, canonical(sum.to_bits(), sum.is_nan(), &BFLOAT16));
        let narrow: ieee::BFloat = ieee::Single::from_bits(wide.into()).convert(&mut loses).value;
        let result = (BFLOAT16.narrow)(f32::from_bits(wide));
        prop_assert_eq!(result, canonical(narrow.to_bits(), narrow.is_nan(), &BFLOAT16));
    }
}
