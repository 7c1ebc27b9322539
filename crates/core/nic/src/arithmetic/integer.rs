// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arithmetic of integers. They wrap; logical operations give 0 or 1.

use super::Operation;
use super::element::{Ordered, each, each_bits};

pub(super) fn apply<I: Integer>(op: Operation, target: &mut [u8], operand: &[u8]) {
    let truth = |value: I| value != I::FALSE;
    let number = |truth: bool| if truth { I::TRUE } else { I::FALSE };
    match op {
        Operation::Min => each(target, operand, I::min),
        Operation::Max => each(target, operand, I::max),
        Operation::Sum => each(target, operand, I::sum),
        Operation::Prod => each(target, operand, I::product),
        Operation::Lor => each(target, operand, |t, o| number(truth(t) | truth(o))),
        Operation::Land => each(target, operand, |t, o| number(truth(t) & truth(o))),
        Operation::Lxor => each(target, operand, |t, o| number(truth(t) ^ truth(o))),
        Operation::Bor => each(target, operand, I::bitor),
        Operation::Band => each(target, operand, I::bitand),
        Operation::Bxor => each(target, operand, I::bitxor),
        Operation::Swap => each_bits::<I>(target, operand, |_, operand| operand),
        _ => {}
    }
}

pub(super) trait Integer: Ordered + Ord {
    const FALSE: Self;
    const TRUE: Self;
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    fn bitor(self, other: Self) -> Self;
    fn bitand(self, other: Self) -> Self;
    fn bitxor(self, other: Self) -> Self;
}

macro_rules! integer {
    ($($primitive:ty),*) => {$(
        impl Ordered for $primitive {}

        impl Integer for $primitive {
            const FALSE: Self = 0;
            const TRUE: Self = 1;
            #[inline]
            fn sum(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline]
            fn product(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline]
            fn bitor(self, other: Self) -> Self { self | other }
            #[inline]
            fn bitand(self, other: Self) -> Self { self & other }
            #[inline]
            fn bitxor(self, other: Self) -> Self { self ^ other }
        }
    )*};
}
integer!(i8, u8, i16, u16, i32, u32, i64, u64);
