// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arithmetic of complex numbers: a real part and an imaginary part of one real type, side by side.

use core::cmp::Ordering;

use super::Operation;
use super::element::{Element, each, each_bits};
use super::real::Real;

/// Applies `op` to complex numbers with parts of type `R`, or to their parts where that is the same.
pub(super) fn apply<R: Part>(op: Operation, target: &mut [u8], operand: &[u8]) {
    let whole_bytes = target.len().min(operand.len()) & !(Complex::<R>::SLOT_BYTES - 1);
    let (Some(target), Some(operand)) = (target.get_mut(..whole_bytes), operand.get(..whole_bytes)) else { return };
    match op {
        Operation::Sum => each(target, operand, R::sum),
        Operation::Prod => each(target, operand, Complex::<R>::product),
        Operation::Swap => each_bits::<R>(target, operand, |_, operand| operand),
        _ => {}
    }
}

pub(super) trait Part: Real {
    const INFINITY: Self;
    fn difference(self, other: Self) -> Self;
    fn is_infinite(self) -> bool;
    /// 0 or 1, with the sign of `self`.
    fn unit(self, one: bool) -> Self;
}

macro_rules! part {
    ($($primitive:ty),*) => {$(
        impl Part for $primitive {
            const INFINITY: Self = Self::INFINITY;
            #[inline]
            fn difference(self, other: Self) -> Self {
                self.sum(-other)
            }
            #[inline]
            fn is_infinite(self) -> bool {
                <$primitive>::is_infinite(self)
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
    )*};
}
part!(f32, f64);

#[derive(Clone, Copy, PartialEq)]
pub(super) struct Complex<R> {
    real: R,
    imaginary: R,
}

/// Complex numbers have no order: they are equal or unordered.
impl<R: Part> PartialOrd for Complex<R> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl<R: Part> Element for Complex<R> {
    type Bits = [R::Bits; 2];
    const SLOT_BYTES: usize = 2 * R::SLOT_BYTES;

    #[inline]
    fn read(slot: &[u8]) -> Self::Bits {
        let (real, imaginary) = slot.split_at_checked(R::SLOT_BYTES).unwrap_or((slot, &[]));
        [R::read(real), R::read(imaginary)]
    }

    #[inline]
    fn write([real, imaginary]: Self::Bits, slot: &mut [u8]) {
        if let Some((slot_of_real, slot_of_imaginary)) = slot.split_at_mut_checked(R::SLOT_BYTES) {
            R::write(real, slot_of_real);
            R::write(imaginary, slot_of_imaginary);
        }
    }

    #[inline]
    fn from_bits([real, imaginary]: Self::Bits) -> Self {
        Self { real: R::from_bits(real), imaginary: R::from_bits(imaginary) }
    }

    #[inline]
    fn to_bits(self) -> Self::Bits {
        [self.real.to_bits(), self.imaginary.to_bits()]
    }
}

impl<R: Part> Complex<R> {
    /// The product as C defines it (Annex G.5.1). If a factor is infinite, the product is infinite too, even if the
    /// plain formula gives NaN + NaN i.
    #[inline]
    fn product(self, other: Self) -> Self {
        let plain = self.product_plain(other);
        if plain.real.is_nan() && plain.imaginary.is_nan() { self.product_of_infinities(other, plain) } else { plain }
    }

    #[cold]
    #[inline(never)]
    fn product_of_infinities(self, other: Self, plain: Self) -> Self {
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

    #[inline]
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
