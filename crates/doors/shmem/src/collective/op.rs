// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The operations of reductions and scans on elements (OpenSHMEM, "Reductions": and, or, xor, max, min, sum, prod).
//!
//! Invariants
//! 1. Integers wrap.
//! 2. Floating point rounds to nearest. Maximum and minimum return one of the two values unchanged: a NaN loses to a
//!    number, and -0 is less than +0. So they agree with the NIC (`selvedge_nic::arithmetic`).
//! 3. A complex product whose parts are both NaN is computed again by C's rules for infinities.
//! 4. A long double is computed by the NIC's software arithmetic. The result has the padding of the left operand.
//!
//! Costs: a [`Kernel`] is one indirect call for any number of elements, in a loop that the compiler vectorises, with
//! AVX2 if the processor has it.

use selvedge_collectives::one_host::Elements;
use selvedge_process::nic::arithmetic::{Datatype, Operation, apply};

use crate::types::{Complex, Element, LongDouble};

/// An operation on elements of one type.
pub trait Operator<T: Element> {
    /// Its name in the NIC.
    const OPERATION: Operation;
    fn fold(left: T, right: T) -> T;
}

/// Bitwise and.
pub struct And;
/// Bitwise or.
pub struct Or;
/// Bitwise exclusive or.
pub struct Xor;
/// The greatest.
pub struct Max;
/// The least.
pub struct Min;
/// The sum.
pub struct Sum;
/// The product.
pub struct Prod;

/// An operation without its element type, for code that all element types share.
#[derive(Clone, Copy)]
pub struct Kernel {
    /// Size of an element.
    pub size: usize,
    combine: unsafe fn(*mut u8, *const u8, *const u8, usize),
    /// Its name in the NIC. `None`: the NIC does not support the type.
    reduction: Option<(Operation, Datatype)>,
}

impl Kernel {
    #[inline(always)]
    pub const fn of<T: Element, O: Operator<T>>() -> Kernel {
        Kernel { size: size_of::<T>(), combine: combine_all::<T, O>, reduction: reduction_of::<T, O>() }
    }

    /// `into = left op right`, element by element.
    ///
    /// # Safety
    /// Each pointer has `count` elements, at any address. `into` may be written; it is one of the others or overlaps
    /// neither.
    #[inline(always)]
    pub unsafe fn combine(self, into: *mut u8, left: *const u8, right: *const u8, count: usize) {
        // SAFETY: the contract of this function: `count` elements at each pointer, at any address; `into` is one of the
        // others or overlaps neither.
        unsafe { (self.combine)(into, left, right, count) }
    }

    /// The reduction's name for an aggregation node. `None`: nodes do not support it.
    #[inline]
    pub fn elements(self) -> Option<Elements> {
        self.reduction.and_then(|(operation, datatype)| Elements::of_values(operation, datatype))
    }

    /// `left = left op right`, element by element.
    ///
    /// # Safety
    /// As [`Kernel::combine`].
    #[inline(always)]
    pub unsafe fn fold(self, left: *mut u8, right: *const u8, count: usize) {
        // SAFETY: the contract of this function: `count` elements at each pointer, the same or without overlap.
        unsafe { (self.combine)(left, left, right, count) }
    }
}

/// The NIC's name of an operation on elements of a type.
const fn reduction_of<T: Element, O: Operator<T>>() -> Option<(Operation, Datatype)> {
    match T::DATATYPE {
        Some(datatype) => Some((O::OPERATION, datatype)),
        None => None,
    }
}

/// Elements from which on the test for wide registers pays.
const VECTOR_MIN: usize = 16;

unsafe fn combine_all<T: Element, O: Operator<T>>(into: *mut u8, left: *const u8, right: *const u8, count: usize) {
    let (into, left, right) = (into.cast::<T>(), left.cast::<T>(), right.cast::<T>());
    // SAFETY: the contract of this function: `count` elements at each pointer, at any address; `into` is one of the
    // others or overlaps neither. The wide form is called only where the processor has AVX2.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if count >= VECTOR_MIN && is_x86_feature_detected!("avx2") {
            return combine_wide::<T, O>(into, left, right, count);
        }
        combine_each::<T, O>(into, left, right, count);
    }
}

/// As `combine_each`, compiled for wider registers. Elements are still computed one by one, so results are the same.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn combine_wide<T: Element, O: Operator<T>>(into: *mut T, left: *const T, right: *const T, count: usize) {
    // SAFETY: the contract of this function: `count` elements at each pointer, at any address; `into` is one of the
    // others or overlaps neither.
    unsafe { combine_each::<T, O>(into, left, right, count) }
}

#[inline(always)]
unsafe fn combine_each<T: Element, O: Operator<T>>(into: *mut T, left: *const T, right: *const T, count: usize) {
    // Two loops: the compiler vectorises a loop only if its memory does not overlap.
    if into.cast_const() == left {
        for index in 0..count {
            // SAFETY: the contract of this function, at an index below `count`.
            unsafe {
                let combined = O::fold(into.add(index).read_unaligned(), right.add(index).read_unaligned());
                into.add(index).write_unaligned(combined);
            }
        }
        return;
    }
    for index in 0..count {
        // SAFETY: the contract of this function, at an index below `count`.
        unsafe {
            let combined = O::fold(left.add(index).read_unaligned(), right.add(index).read_unaligned());
            into.add(index).write_unaligned(combined);
        }
    }
}

macro_rules! operation_named {
    (And) => {
        Operation::Band
    };
    (Or) => {
        Operation::Bor
    };
    (Xor) => {
        Operation::Bxor
    };
    ($other:ident) => {
        Operation::$other
    };
}

macro_rules! operators {
    ($types:tt: $($operator:ident |$left:ident, $right:ident| $result:expr;)*) => {
        $(operators!(@ $types $operator |$left, $right| $result);)*
    };
    (@ ($($type:ty)*) $operator:ident |$left:ident, $right:ident| $result:expr) => {
        $(impl Operator<$type> for $operator {
            const OPERATION: Operation = operation_named!($operator);

            #[inline(always)]
            fn fold($left: $type, $right: $type) -> $type {
                $result
            }
        })*
    };
}

operators! { (i8 i16 i32 i64 u8 u16 u32 u64):
    And |left, right| left & right;
    Or |left, right| left | right;
    Xor |left, right| left ^ right;
    Max |left, right| left.max(right);
    Min |left, right| left.min(right);
    Sum |left, right| left.wrapping_add(right);
    Prod |left, right| left.wrapping_mul(right);
}

operators! { (f32 f64):
    // Without branches, so that the loop is vectorised.
    Max |left, right| {
        let yields = (left < right) | left.is_nan() | ((left == right) & left.is_sign_negative());
        if yields { right } else { left }
    };
    Min |left, right| {
        let yields = (left > right) | left.is_nan() | ((left == right) & right.is_sign_negative());
        if yields { right } else { left }
    };
    Sum |left, right| left + right;
    Prod |left, right| left * right;
}

operators! { (LongDouble):
    Max |left, right| by_nic(Operation::Max, Datatype::LongDouble, left, right);
    Min |left, right| by_nic(Operation::Min, Datatype::LongDouble, left, right);
    Sum |left, right| by_nic(Operation::Sum, Datatype::LongDouble, left, right);
    Prod |left, right| by_nic(Operation::Prod, Datatype::LongDouble, left, right);
}

macro_rules! complex {
    ($($part:ty: $datatype:ident)*) => {
        $(impl Operator<Complex<$part>> for Sum {
            const OPERATION: Operation = Operation::Sum;

            #[inline(always)]
            fn fold(left: Complex<$part>, right: Complex<$part>) -> Complex<$part> {
                Complex { re: left.re + right.re, im: left.im + right.im }
            }
        }

        impl Operator<Complex<$part>> for Prod {
            const OPERATION: Operation = Operation::Prod;

            #[inline(always)]
            fn fold(left: Complex<$part>, right: Complex<$part>) -> Complex<$part> {
                let re = left.re * right.re - left.im * right.im;
                let im = left.re * right.im + left.im * right.re;
                if re.is_nan() && im.is_nan() {
                    return by_nic(Operation::Prod, Datatype::$datatype, left, right);
                }
                Complex { re, im }
            }
        })*
    };
}

complex! { f32: FloatComplex f64: DoubleComplex }

/// Computes one element by the NIC's arithmetic.
#[inline(never)]
fn by_nic<T: Element>(operation: Operation, datatype: Datatype, mut left: T, right: T) -> T {
    debug_assert_eq!(datatype.size_bytes(), size_of::<T>());
    let bytes = size_of::<T>();
    // SAFETY: elements are plain data of C, and any bytes are such an element. Each slice is the bytes of one local
    // variable, for as long as it lives.
    let (target, operand) = unsafe {
        let target = std::slice::from_raw_parts_mut((&raw mut left).cast::<u8>(), bytes);
        (target, std::slice::from_raw_parts((&raw const right).cast::<u8>(), bytes))
    };
    apply(operation, datatype, target, operand);
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded<T: Element, O: Operator<T>, const N: usize>(left: [T; N], right: [T; N]) -> [T; N] {
        let mut left = left;
        // SAFETY: both arrays have N elements and do not overlap.
        unsafe { Kernel::of::<T, O>().fold(left.as_mut_ptr().cast(), right.as_ptr().cast(), N) };
        left
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(folded::<i8, Sum, 3>([127, -128, 5], [1, -1, 6]), [-128, 127, 11]);
        assert_eq!(folded::<u64, Prod, 2>([u64::MAX, 3], [2, 4]), [u64::MAX - 1, 12]);
        assert_eq!(folded::<u16, And, 2>([0xff00, 7], [0x0ff0, 5]), [0x0f00, 5]);
        assert_eq!(folded::<i32, Or, 1>([-8], [3]), [-5]);
        assert_eq!(folded::<u8, Xor, 1>([0xaa], [0xff]), [0x55]);
        assert_eq!(folded::<i64, Min, 2>([-3, 4], [2, 3]), [-3, 3]);
        assert_eq!(folded::<u32, Max, 2>([1, u32::MAX], [2, 0]), [2, u32::MAX]);
    }

    #[test]
    fn reals_prefer_numbers_and_know_signed_zero() {
        let nan = f64::NAN;
        let bits = |values: [f64; 4]| values.map(f64::to_bits);
        assert_eq!(
            bits(folded::<f64, Max, 4>([nan, 1.0, -0.0, 0.0], [2.0, nan, 0.0, -0.0])),
            bits([2.0, 1.0, 0.0, 0.0])
        );
        assert_eq!(
            bits(folded::<f64, Min, 4>([nan, 1.0, -0.0, 0.0], [2.0, nan, 0.0, -0.0])),
            bits([2.0, 1.0, -0.0, -0.0])
        );
        assert_eq!(folded::<f32, Prod, 2>([1.5, -2.0], [2.0, 0.5]), [3.0, -1.0]);
    }

    #[test]
    fn unaligned_and_empty() {
        let mut left = [0u8; 17];
        let right = [1u8; 17];
        // SAFETY: 17 bytes hold two elements from the odd address 1.
        unsafe { Kernel::of::<u64, Sum>().fold(left.as_mut_ptr().add(1), right.as_ptr().add(1), 2) };
        assert_eq!((left[0], left[1], left[16]), (0, 1, 1));
        // SAFETY: no element is read or written.
        unsafe { Kernel::of::<u64, Sum>().fold(left.as_mut_ptr(), right.as_ptr(), 0) };
        assert_eq!((left[0], left[1]), (0, 1));
    }

    #[test]
    fn complex_products() {
        let c = |re: f64, im: f64| Complex { re, im };
        let product = Prod::fold(c(1.0, 2.0), c(3.0, 4.0));
        assert_eq!((product.re, product.im), (-5.0, 10.0));
        let sum = Sum::fold(Complex { re: 1.0f32, im: 2.0 }, Complex { re: 0.5, im: -2.0 });
        assert_eq!((sum.re, sum.im), (1.5, 0.0));
        // An infinity times a number that is not zero stays infinite.
        let product = Prod::fold(c(f64::INFINITY, f64::NAN), c(1.0, 1.0));
        assert!(product.re.is_infinite() || product.im.is_infinite());
    }

    #[test]
    fn long_doubles() {
        let make = |sign_exponent: u16, significand: u64| {
            let mut bytes = [0u8; 16];
            bytes[..8].copy_from_slice(&significand.to_le_bytes());
            bytes[8..10].copy_from_slice(&sign_exponent.to_le_bytes());
            // SAFETY: 16 bytes of plain data become a type of 16 bytes that is valid for any bytes.
            unsafe { std::mem::transmute_copy::<[u8; 16], LongDouble>(&bytes) }
        };
        // SAFETY: a long double is 16 bytes of plain data here, all of them initialised.
        let bytes = |value: LongDouble| unsafe { std::mem::transmute_copy::<LongDouble, [u8; 16]>(&value) };
        let (one, two) = (make(0x3fff, 1 << 63), make(0x4000, 1 << 63));
        assert_eq!(bytes(Sum::fold(one, one)), bytes(two));
        assert_eq!(bytes(Prod::fold(one, two)), bytes(two));
        assert_eq!(bytes(Max::fold(one, two)), bytes(two));
        assert_eq!(bytes(Min::fold(one, two)), bytes(one));
    }
}
