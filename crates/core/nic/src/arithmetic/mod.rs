// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arithmetic of the NIC: the operations, the datatypes, which go together, and their effect on bytes.
//!
//! All units compute here: the Portals unit its atomics (Portals 4.3, "Atomic Operations"; what only Portals has is in
//! [`portals::operation`](crate::portals::operation)), and an aggregation node its reductions (seed 001, section
//! III.F). The functions are not atomic. The caller holds the NIC's lock, or no other thread can reach the bytes.
//!
//! * [`Operation`] and [`Datatype`] have the numbers of Portals' header. [`reduces`] says which go together.
//! * [`apply`] computes. [`apply_located`] finds minima and maxima with their places, in pairs ([`Located`]).
//! * `element`: values in memory. `integer`, `real`, `half`, `long_double`, `complex`: the kinds of values.
//!
//! Invariants
//! 1. Only bytes of `target` change, and only whole elements. A combination that [`reduces`] refuses changes nothing.
//! 2. Memory is little-endian and may lie at any address.
//! 3. Integers wrap. Logical operations give 0 or 1.
//! 4. Floating point rounds to nearest, ties to even. The result has the same bits on every host. So each NaN that
//!    arithmetic produces is the quiet NaN with a clear sign and no payload.
//! 5. Minimum and maximum follow C's `fmin` and `fmax`. Of a NaN and a number, the number is the result; of two NaNs,
//!    the target stays. -0 is less than +0. The result is one of the two values, with the same bits.
//!    Pairs go by other rules, MPI's (`located`).
//! 6. A long double is the 80-bit x87 format in a slot of 16 bytes. The last six bytes of a slot are padding. The
//!    padding of the target is never written.
//!
//! Costs: O(elements), no allocation. A sum of one 8-byte element is a load, an add and a store. The loops over integers
//! and reals are vectorised, those over complex products and pairs are not. Long doubles are computed in software
//! (`rustc_apfloat`), at tens of nanoseconds each.

mod complex;
mod element;
mod half;
mod integer;
mod located;
mod long_double;
mod real;
#[cfg(test)]
pub(crate) mod tests;

use core::cmp::Ordering;

use complex::Complex;
use element::{Element, each};
use half::{Bfloat16, Half};
pub use located::{Located, apply_located};
use long_double::LongDouble;
use real::Real;

/// An operation on elements, with the number that it has in Portals' header (`ptl_op_t`).
///
/// The first ten reduce two values to one. The others write the operand over the target: [`Operation::Swap`] always, and
/// those after it, which only Portals has, under a condition ([`apply_swap`](crate::portals::operation::apply_swap)).
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// The target becomes the lesser value.
    Min = 0,
    /// The target becomes the greater value.
    Max = 1,
    /// Sum.
    Sum = 2,
    /// Product.
    Prod = 3,
    /// Logical or.
    Lor = 4,
    /// Logical and.
    Land = 5,
    /// Bitwise or.
    Bor = 6,
    /// Bitwise and.
    Band = 7,
    /// Logical exclusive or.
    Lxor = 8,
    /// Bitwise exclusive or.
    Bxor = 9,
    /// The target is overwritten.
    Swap = 10,
    /// The target is overwritten if the comparand equals it.
    CompareSwap = 11,
    /// The target is overwritten if the comparand differs from it.
    CompareSwapNe = 12,
    /// The target is overwritten if comparand <= target.
    CompareSwapLe = 13,
    /// The target is overwritten if comparand < target.
    CompareSwapLt = 14,
    /// The target is overwritten if comparand >= target.
    CompareSwapGe = 15,
    /// The target is overwritten if comparand > target.
    CompareSwapGt = 16,
    /// The bits of the target that the mask selects are overwritten.
    MaskedSwap = 17,
}

impl Operation {
    pub(crate) const ALL: [Self; 18] = [
        Self::Min,
        Self::Max,
        Self::Sum,
        Self::Prod,
        Self::Lor,
        Self::Land,
        Self::Bor,
        Self::Band,
        Self::Lxor,
        Self::Bxor,
        Self::Swap,
        Self::CompareSwap,
        Self::CompareSwapNe,
        Self::CompareSwapLe,
        Self::CompareSwapLt,
        Self::CompareSwapGe,
        Self::CompareSwapGt,
        Self::MaskedSwap,
    ];

    /// The operation with this `ptl_op_t` value. None: there is no such operation.
    #[inline]
    pub fn from_u32(value: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(value).ok()?).copied()
    }
}

/// The type of elements, with the number that it has in Portals' header (`ptl_datatype_t`). The last two are not there.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Datatype {
    /// 8-bit signed integer.
    Int8 = 0,
    /// 8-bit unsigned integer.
    Uint8 = 1,
    /// 16-bit signed integer.
    Int16 = 2,
    /// 16-bit unsigned integer.
    Uint16 = 3,
    /// 32-bit signed integer.
    Int32 = 4,
    /// 32-bit unsigned integer.
    Uint32 = 5,
    /// IEEE 754 binary32.
    Float = 6,
    /// 64-bit signed integer.
    Int64 = 7,
    /// 64-bit unsigned integer.
    Uint64 = 8,
    /// IEEE 754 binary64.
    Double = 9,
    /// Two binary32: real, imaginary.
    FloatComplex = 10,
    /// Two binary64: real, imaginary.
    DoubleComplex = 11,
    /// x87 80-bit extended in a slot of 16 bytes.
    LongDouble = 12,
    /// Two x87 slots: real, imaginary.
    LongDoubleComplex = 13,
    /// IEEE 754 binary16.
    Half = 14,
    /// bfloat16: the upper 16 bits of a binary32.
    Bfloat16 = 15,
}

impl Datatype {
    /// Size of the largest datatype.
    pub const SIZE_BYTES_MAX: usize = 32;

    pub(crate) const ALL: [Self; 16] = [
        Self::Int8,
        Self::Uint8,
        Self::Int16,
        Self::Uint16,
        Self::Int32,
        Self::Uint32,
        Self::Float,
        Self::Int64,
        Self::Uint64,
        Self::Double,
        Self::FloatComplex,
        Self::DoubleComplex,
        Self::LongDouble,
        Self::LongDoubleComplex,
        Self::Half,
        Self::Bfloat16,
    ];

    /// The datatype with this number, also one that Portals lacks. None: there is no such datatype.
    #[inline]
    pub fn from_number(value: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(value).ok()?).copied()
    }

    /// Size of one element with its padding: a power of two.
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 | Self::Half | Self::Bfloat16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float => 4,
            Self::Int64 | Self::Uint64 | Self::Double | Self::FloatComplex => 8,
            Self::DoubleComplex | Self::LongDouble => 16,
            Self::LongDoubleComplex => 32,
        }
    }

    pub(crate) const fn class(self) -> Class {
        match self {
            Self::Int8 | Self::Uint8 | Self::Int16 | Self::Uint16 => Class::Integer,
            Self::Int32 | Self::Uint32 | Self::Int64 | Self::Uint64 => Class::Integer,
            Self::Float | Self::Double | Self::LongDouble | Self::Half | Self::Bfloat16 => Class::Real,
            Self::FloatComplex | Self::DoubleComplex | Self::LongDoubleComplex => Class::Complex,
        }
    }
}

/// What operations a datatype has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Integer,
    Real,
    Complex,
}

/// Whether the operation reduces elements of this datatype: whether [`apply`] computes `target = target op operand`.
///
/// | operation | integer | real | complex |
/// |---|---|---|---|
/// | minimum, maximum | yes | yes | no |
/// | sum, product | yes | yes | yes |
/// | logical, bitwise | yes | no | no |
/// | swap, conditional swaps | no | no | no |
pub const fn reduces(op: Operation, datatype: Datatype) -> bool {
    use Operation::*;
    match op {
        Sum | Prod => true,
        Min | Max => !matches!(datatype.class(), Class::Complex),
        Lor | Land | Bor | Band | Lxor | Bxor => matches!(datatype.class(), Class::Integer),
        Swap | CompareSwap | CompareSwapNe | CompareSwapLe | CompareSwapLt | CompareSwapGe | CompareSwapGt
        | MaskedSwap => false,
    }
}

/// Computes `target = target op operand` for each element. [`Operation::Swap`] overwrites the target.
///
/// This changes as many whole elements as both slices hold. The rest stays as it is. Operations that need a comparand,
/// and combinations that [`reduces`] refuses, change nothing.
#[inline]
pub fn apply(op: Operation, datatype: Datatype, target: &mut [u8], operand: &[u8]) {
    if op == Operation::Sum && target.len() == 8 && operand.len() == 8 {
        match datatype {
            Datatype::Int64 | Datatype::Uint64 => return each(target, operand, u64::wrapping_add),
            Datatype::Double => return each(target, operand, f64::sum),
            _ => {}
        }
    }
    apply_any(op, datatype, target, operand);
}

fn apply_any(op: Operation, datatype: Datatype, target: &mut [u8], operand: &[u8]) {
    match datatype {
        Datatype::Int8 => integer::apply::<i8>(op, target, operand),
        Datatype::Uint8 => integer::apply::<u8>(op, target, operand),
        Datatype::Int16 => integer::apply::<i16>(op, target, operand),
        Datatype::Uint16 => integer::apply::<u16>(op, target, operand),
        Datatype::Int32 => integer::apply::<i32>(op, target, operand),
        Datatype::Uint32 => integer::apply::<u32>(op, target, operand),
        Datatype::Int64 => integer::apply::<i64>(op, target, operand),
        Datatype::Uint64 => integer::apply::<u64>(op, target, operand),
        Datatype::Float => real::apply::<f32>(op, target, operand),
        Datatype::Double => real::apply::<f64>(op, target, operand),
        Datatype::LongDouble => real::apply::<LongDouble>(op, target, operand),
        Datatype::Half => real::apply::<Half>(op, target, operand),
        Datatype::Bfloat16 => real::apply::<Bfloat16>(op, target, operand),
        Datatype::FloatComplex => complex::apply::<f32>(op, target, operand),
        Datatype::DoubleComplex => complex::apply::<f64>(op, target, operand),
        Datatype::LongDoubleComplex => complex::apply::<LongDouble>(op, target, operand),
    }
}

/// Compares the values of two whole elements as C does: -0 equals +0, and a NaN is unordered with everything. Complex
/// numbers are equal or unordered.
pub(crate) fn compare(datatype: Datatype, left: &[u8], right: &[u8]) -> Option<Ordering> {
    match datatype {
        Datatype::Int8 => order::<i8>(left, right),
        Datatype::Uint8 => order::<u8>(left, right),
        Datatype::Int16 => order::<i16>(left, right),
        Datatype::Uint16 => order::<u16>(left, right),
        Datatype::Int32 => order::<i32>(left, right),
        Datatype::Uint32 => order::<u32>(left, right),
        Datatype::Int64 => order::<i64>(left, right),
        Datatype::Uint64 => order::<u64>(left, right),
        Datatype::Float => order::<f32>(left, right),
        Datatype::Double => order::<f64>(left, right),
        Datatype::LongDouble => order::<LongDouble>(left, right),
        Datatype::Half => order::<Half>(left, right),
        Datatype::Bfloat16 => order::<Bfloat16>(left, right),
        Datatype::FloatComplex => order::<Complex<f32>>(left, right),
        Datatype::DoubleComplex => order::<Complex<f64>>(left, right),
        Datatype::LongDoubleComplex => order::<Complex<LongDouble>>(left, right),
    }
}

fn order<E: Element + PartialOrd>(left: &[u8], right: &[u8]) -> Option<Ordering> {
    E::load(left).partial_cmp(&E::load(right))
}
