// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arithmetic of real numbers: IEEE 754 binary32 and binary64, and any type with [`Real`].

use super::Operation;
use super::element::{Element, each, select};

pub(super) fn apply<R: Real>(op: Operation, target: &mut [u8], operand: &[u8]) {
    match op {
        Operation::Min => {
            select::<R>(target, operand, |t, o| o < t || (t.is_nan() && !o.is_nan()) || (o == t && o.is_negative()))
        }
        Operation::Max => {
            select::<R>(target, operand, |t, o| o > t || (t.is_nan() && !o.is_nan()) || (o == t && t.is_negative()))
        }
        Operation::Sum => each(target, operand, R::sum),
        Operation::Prod => each(target, operand, R::product),
        Operation::Swap => select::<R>(target, operand, |_, _| true),
        _ => {}
    }
}

/// Arithmetic that gives only one NaN (invariant 4 of [`super`]).
pub(super) trait Real: Element + PartialOrd {
    const INFINITY: Self;
    fn sum(self, other: Self) -> Self;
    fn difference(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    fn is_nan(self) -> bool;
    fn is_infinite(self) -> bool;
    fn is_negative(self) -> bool;
    /// 0 or 1, with the sign of `self`.
    fn unit(self, one: bool) -> Self;
}

macro_rules! real {
    ($primitive:ty, $quiet_nan:literal) => {
        impl Real for $primitive {
            const INFINITY: Self = Self::INFINITY;
            #[inline]
            fn sum(self, other: Self) -> Self {
                let result = self + other;
                if result.is_nan() { Self::from_bits($quiet_nan) } else { result }
            }
            fn difference(self, other: Self) -> Self {
                let result = self - other;
                if result.is_nan() { Self::from_bits($quiet_nan) } else { result }
            }
            fn product(self, other: Self) -> Self {
                let result = self * other;
                if result.is_nan() { Self::from_bits($quiet_nan) } else { result }
            }
            fn is_nan(self) -> bool {
                <$primitive>::is_nan(self)
            }
            fn is_infinite(self) -> bool {
                <$primitive>::is_infinite(self)
            }
            fn is_negative(self) -> bool {
                self.is_sign_negative()
            }
            fn unit(self, one: bool) -> Self {
                match (one, self.is_sign_negative()) {
                    (false, false) => 0.0,
                    (false, true) => -0.0,
                    (true, false) => 1.0,
                    (true, true) => -1.0,
                }
            }
        }
    };
}
real!(f32, 0x7fc0_0000);
real!(f64, 0x7ff8_0000_0000_0000);
