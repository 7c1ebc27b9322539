// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arithmetic of complex numbers: a real part and an imaginary part of one real type, side by side.

use core::cmp::Ordering;

use super::Operation;
use super::element::{Element, each, select};
use super::real::Real;

pub(super) fn apply<R: Real>(op: Operation, target: &mut [u8], operand: &[u8]) {
    match op {
        Operation::Sum => each(target, operand, Complex::<R>::sum),
        Operation::Prod => each(target, operand, Complex::<R>::product),
        // The parts are swapped separately, so that the padding between them stays.
        Operation::Swap => {
            let whole_bytes = target.len().min(operand.len()) & !(2 * R::SLOT_BYTES - 1);
            if let (Some(target), Some(operand)) = (target.get_mut(..whole_bytes), operand.get(..whole_bytes)) {
                select::<R>(target, operand, |_, _| true);
            }
        }
        _ => {}
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(super) struct Complex<R> {
    real: R,
    imaginary: R,
}

/// Complex numbers have no order: they are equal or unordered.
impl<R: Real> PartialOrd for Complex<R> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl<R: Real> Element for Complex<R> {
    const SLOT_BYTES: usize = 2 * R::SLOT_BYTES;
    const VALUE_BYTES: usize = R::SLOT_BYTES + R::VALUE_BYTES;

    fn load(slot: &[u8]) -> Self {
        let (real, imaginary) = slot.split_at_checked(R::SLOT_BYTES).unwrap_or((slot, &[]));
        Self { real: R::load(real), imaginary: R::load(imaginary) }
    }

    fn store(self, slot: &mut [u8]) {
        if let Some((real, imaginary)) = slot.split_at_mut_checked(R::SLOT_BYTES) {
            self.real.store(real);
            self.imaginary.store(imaginary);
        }
    }
}

impl<R: Real> Complex<R> {
    fn sum(self, other: Self) -> Self {
        Self { real: self.real.sum(other.real), imaginary: self.imaginary.sum(other.imaginary) }
    }

    /// The product as C defines it (Annex G.5.1). If a factor is infinite, the product is infinite too, even if the
    /// plain formula gives NaN + NaN i.
    fn product(self, other: Self) -> Self {
        let plain = self.product_plain(other);
        if !(plain.real.is_nan() && plain.imaginary.is_nan()) {
            return plain;
        }
        let (left, right) = match (self.is_infinite(), other.is_infinite()) {
            (true, true) => (self.direction(), other.direction()),
            (true, false) => (self.direction(), other.without_nan()),
            (false, true) => (self.without_nan(), other.direction()),
            (false, false) if self.overflows_against(other) => (self.without_nan(), other.without_nan()),
            (false, false) => return plain,
        };
        let turned = left.product_plain(right);
        Self { real: R::INFINITY.product(turned.real), imaginary: R::INFINITY.product(turned.imaginary) }
    }

    fn product_plain(self, other: Self) -> Self {
        let real = self.real.product(other.real).difference(self.imaginary.product(other.imaginary));
        let imaginary = self.real.product(other.imaginary).sum(self.imaginary.product(other.real));
        Self { real, imaginary }
    }

    fn is_infinite(self) -> bool {
        self.real.is_infinite() || self.imaginary.is_infinite()
    }

    /// The direction of an infinite number: each infinite part becomes 1, each finite part 0, with its sign.
    fn direction(self) -> Self {
        Self {
            real: self.real.unit(self.real.is_infinite()),
            imaginary: self.imaginary.unit(self.imaginary.is_infinite()),
        }
    }

    /// The number with each NaN part replaced by a zero with the same sign.
    fn without_nan(self) -> Self {
        let zeroed = |part: R| if part.is_nan() { part.unit(false) } else { part };
        Self { real: zeroed(self.real), imaginary: zeroed(self.imaginary) }
    }

    /// Whether a partial product is infinite. The factors are finite or NaN.
    fn overflows_against(self, other: Self) -> bool {
        self.real.product(other.real).is_infinite()
            || self.imaginary.product(other.imaginary).is_infinite()
            || self.real.product(other.imaginary).is_infinite()
            || self.imaginary.product(other.real).is_infinite()
    }
}
