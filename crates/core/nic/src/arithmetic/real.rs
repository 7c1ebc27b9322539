// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arithmetic of real numbers: IEEE 754 binary32 and binary64, and any type with [`Real`].

use super::Operation;
use super::element::{Ordered, each, each_bits};

pub(super) fn apply<R: Real>(op: Operation, target: &mut [u8], operand: &[u8]) {
    match op {
        Operation::Min => each_bits::<R>(target, operand, R::lesser),
        Operation::Max => each_bits::<R>(target, operand, R::greater),
        Operation::Sum => each(target, operand, R::sum),
        Operation::Prod => each(target, operand, R::product),
        Operation::Swap => each_bits::<R>(target, operand, |_, operand| operand),
        _ => {}
    }
}

/// Arithmetic that produces only one NaN (invariant 4 of [`super`]).
pub(super) trait Real: Ordered {
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    /// The minimum of the target and the operand, with the bits of one of them (invariant 5).
    fn lesser(target: Self::Bits, operand: Self::Bits) -> Self::Bits;
    fn greater(target: Self::Bits, operand: Self::Bits) -> Self::Bits;
}

macro_rules! real {
    ($primitive:ty, $quiet_nan:literal) => {
        impl Ordered for $primitive {
            #[inline]
            fn is_nan(self) -> bool {
                <$primitive>::is_nan(self)
            }
        }

        // The form of the comparisons matters for speed: `!(a <= b)` is one instruction, `a > b` or NaN are three.
        #[allow(clippy::neg_cmp_op_on_partial_ord)]
        impl Real for $primitive {
            #[inline]
            fn sum(self, other: Self) -> Self {
                let result = self + other;
                if result.is_nan() { Self::from_bits($quiet_nan) } else { result }
            }
            #[inline]
            fn product(self, other: Self) -> Self {
                let result = self * other;
                if result.is_nan() { Self::from_bits($quiet_nan) } else { result }
            }
            #[inline]
            fn lesser(target_bits: Self::Bits, operand_bits: Self::Bits) -> Self::Bits {
                let (target, operand) = (Self::from_bits(target_bits), Self::from_bits(operand_bits));
                let takes = !(target <= operand) & !operand.is_nan();
                // Equal values have the same bits, or they are zeros: then either negative sign makes the minimum -0.
                let kept = if target == operand { target_bits | operand_bits } else { target_bits };
                if takes { operand_bits } else { kept }
            }
            #[inline]
            fn greater(target_bits: Self::Bits, operand_bits: Self::Bits) -> Self::Bits {
                let (target, operand) = (Self::from_bits(target_bits), Self::from_bits(operand_bits));
                let takes = !(target >= operand) & !operand.is_nan();
                let kept = if target == operand { target_bits & operand_bits } else { target_bits };
                if takes { operand_bits } else { kept }
            }
        }
    };
}
real!(f32, 0x7fc0_0000);
real!(f64, 0x7ff8_0000_0000_0000);
