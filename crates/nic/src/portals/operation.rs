// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arithmetic of Portals atomics: the operations, the datatypes, their allowed combinations, and their effect on
//! bytes.
//!
//! This file carries out Portals 4.3, "Atomic Operations": `ptl_op_t`, `ptl_datatype_t`, `PtlAtomic`, `PtlFetchAtomic`,
//! `PtlSwap`. The functions are not atomic themselves. The caller holds the NIC's lock, or no other thread can reach
//! the bytes.
//!
//! Invariants
//! 1. Only bytes of `target` change, and only whole elements. A combination that [`allowed`] refuses changes nothing.
//! 2. Memory is little-endian and may lie at any address.
//! 3. Integers wrap. Logical operations give 0 or 1.
//! 4. Floating point rounds to nearest, ties to even. The result has the same bits on every host. So each NaN that
//!    arithmetic produces is the quiet NaN with a clear sign and no payload.
//! 5. Minimum and maximum follow C's `fmin` and `fmax`. Of a NaN and a number, the number is the result; of two NaNs,
//!    the target stays. -0 is less than +0. The result is one of the two values, with the same bits.
//! 6. Conditional swaps compare as C does: -0 equals +0, and with a NaN every comparison but "not equal" is false.
//! 7. A long double is the 80-bit x87 format in a slot of 16 bytes. The last six bytes of a slot are padding. The
//!    padding of the target is never written, not even by a swap.
//!
//! Costs: O(elements), no allocation. A sum of one 8-byte element is a load, an add and a store. Long doubles are
//! computed in software (`rustc_apfloat`).

use rustc_apfloat::Float as _;
use rustc_apfloat::ieee::X87DoubleExtended;

/// The operation of an atomic (`ptl_op_t`), with the values of the C header.
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
    const ALL: [Self; 18] = [
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
    pub fn from_u32(value: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(value).ok()?).copied()
    }
}

/// The datatype of an atomic (`ptl_datatype_t`), with the values of the C header.
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
}

impl Datatype {
    /// Size of the largest datatype.
    pub const SIZE_BYTES_MAX: usize = 32;

    const ALL: [Self; 14] = [
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
    ];

    /// The datatype with this `ptl_datatype_t` value. None: there is no such datatype.
    pub fn from_u32(value: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(value).ok()?).copied()
    }

    /// Size of one element with its padding: a power of two.
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float => 4,
            Self::Int64 | Self::Uint64 | Self::Double | Self::FloatComplex => 8,
            Self::DoubleComplex | Self::LongDouble => 16,
            Self::LongDoubleComplex => 32,
        }
    }

    const fn class(self) -> Class {
        match self {
            Self::Int8 | Self::Uint8 | Self::Int16 | Self::Uint16 => Class::Integer,
            Self::Int32 | Self::Uint32 | Self::Int64 | Self::Uint64 => Class::Integer,
            Self::Float | Self::Double | Self::LongDouble => Class::Real,
            Self::FloatComplex | Self::DoubleComplex | Self::LongDoubleComplex => Class::Complex,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Integer,
    Real,
    Complex,
}

/// The function that a program called. A triggered variant belongs to the same family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// `PtlAtomic`.
    Atomic,
    /// `PtlFetchAtomic`.
    FetchAtomic,
    /// `PtlSwap`.
    Swap,
}

/// Whether the specification allows this operation on this datatype in this function.
///
/// | operation | function | integer | real | complex |
/// |---|---|---|---|---|
/// | minimum, maximum | atomic, fetch-atomic | yes | yes | no |
/// | sum, product | atomic, fetch-atomic | yes | yes | yes |
/// | logical, bitwise | atomic, fetch-atomic | yes | no | no |
/// | swap, compare-and-swap equal or not equal | swap | yes | yes | yes |
/// | compare-and-swap ordered | swap | yes | yes | no |
/// | masked swap | swap | yes | no | no |
pub fn allowed(family: Family, op: Operation, datatype: Datatype) -> bool {
    use Operation::*;
    let class = datatype.class();
    let swaps = match op {
        Min | Max | Sum | Prod | Lor | Land | Bor | Band | Lxor | Bxor => false,
        Swap | CompareSwap | CompareSwapNe | CompareSwapLe | CompareSwapLt | CompareSwapGe | CompareSwapGt
        | MaskedSwap => true,
    };
    let fits = match op {
        Sum | Prod | Swap | CompareSwap | CompareSwapNe => true,
        Min | Max | CompareSwapLe | CompareSwapLt | CompareSwapGe | CompareSwapGt => class != Class::Complex,
        Lor | Land | Bor | Band | Lxor | Bxor | MaskedSwap => class == Class::Integer,
    };
    fits && swaps == (family == Family::Swap)
}

/// Computes `target = target op operand` for each element. [`Operation::Swap`] overwrites the target.
///
/// This changes as many whole elements as both slices hold. The rest stays as it is. Operations that need a comparand,
/// and combinations that [`allowed`] refuses, change nothing.
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
        Datatype::Int8 => apply_integer::<i8>(op, target, operand),
        Datatype::Uint8 => apply_integer::<u8>(op, target, operand),
        Datatype::Int16 => apply_integer::<i16>(op, target, operand),
        Datatype::Uint16 => apply_integer::<u16>(op, target, operand),
        Datatype::Int32 => apply_integer::<i32>(op, target, operand),
        Datatype::Uint32 => apply_integer::<u32>(op, target, operand),
        Datatype::Int64 => apply_integer::<i64>(op, target, operand),
        Datatype::Uint64 => apply_integer::<u64>(op, target, operand),
        Datatype::Float => apply_real::<f32>(op, target, operand),
        Datatype::Double => apply_real::<f64>(op, target, operand),
        Datatype::LongDouble => apply_real::<LongDouble>(op, target, operand),
        Datatype::FloatComplex => apply_complex::<f32>(op, target, operand),
        Datatype::DoubleComplex => apply_complex::<f64>(op, target, operand),
        Datatype::LongDoubleComplex => apply_complex::<LongDouble>(op, target, operand),
    }
}

/// Swaps one element conditionally or by a mask. Returns whether the target was written.
///
/// The target becomes `operand` if `comparand cmp target` holds. For [`Operation::MaskedSwap`] the comparand is the
/// mask: `target = (operand & mask) | (target & !mask)`. [`Operation::Swap`] ignores the comparand. Only the first
/// element of each slice counts. If a slice is shorter than one element, or [`allowed`] refuses the combination,
/// nothing changes and the result is false.
#[inline]
pub fn apply_swap(op: Operation, datatype: Datatype, target: &mut [u8], operand: &[u8], comparand: &[u8]) -> bool {
    if !allowed(Family::Swap, op, datatype) {
        return false;
    }
    let size_bytes = datatype.size_bytes();
    let (Some(target), Some(operand)) = (target.get_mut(..size_bytes), operand.get(..size_bytes)) else {
        return false;
    };
    if op != Operation::Swap {
        let Some(comparand) = comparand.get(..size_bytes) else { return false };
        if op == Operation::MaskedSwap {
            merge(target, operand, comparand);
            return true;
        }
        if !comparison_holds(op, datatype, comparand, target) {
            return false;
        }
    }
    apply(Operation::Swap, datatype, target, operand);
    true
}

fn merge(target: &mut [u8], operand: &[u8], mask: &[u8]) {
    for ((target, operand), mask) in target.iter_mut().zip(operand).zip(mask) {
        *target = (operand & mask) | (*target & !mask);
    }
}

fn comparison_holds(op: Operation, datatype: Datatype, comparand: &[u8], target: &[u8]) -> bool {
    match datatype {
        Datatype::Int8 => ordered::<i8>(op, comparand, target),
        Datatype::Uint8 => ordered::<u8>(op, comparand, target),
        Datatype::Int16 => ordered::<i16>(op, comparand, target),
        Datatype::Uint16 => ordered::<u16>(op, comparand, target),
        Datatype::Int32 => ordered::<i32>(op, comparand, target),
        Datatype::Uint32 => ordered::<u32>(op, comparand, target),
        Datatype::Int64 => ordered::<i64>(op, comparand, target),
        Datatype::Uint64 => ordered::<u64>(op, comparand, target),
        Datatype::Float => ordered::<f32>(op, comparand, target),
        Datatype::Double => ordered::<f64>(op, comparand, target),
        Datatype::LongDouble => ordered::<LongDouble>(op, comparand, target),
        Datatype::FloatComplex => equal_or_not::<Complex<f32>>(op, comparand, target),
        Datatype::DoubleComplex => equal_or_not::<Complex<f64>>(op, comparand, target),
        Datatype::LongDoubleComplex => equal_or_not::<Complex<LongDouble>>(op, comparand, target),
    }
}

fn ordered<E: Element + PartialOrd>(op: Operation, comparand: &[u8], target: &[u8]) -> bool {
    let (left, right) = (E::load(comparand), E::load(target));
    match op {
        Operation::CompareSwapLe => left <= right,
        Operation::CompareSwapLt => left < right,
        Operation::CompareSwapGe => left >= right,
        Operation::CompareSwapGt => left > right,
        _ => equal_or_not::<E>(op, comparand, target),
    }
}

fn equal_or_not<E: Element>(op: Operation, comparand: &[u8], target: &[u8]) -> bool {
    let (left, right) = (E::load(comparand), E::load(target));
    match op {
        Operation::CompareSwap => left == right,
        Operation::CompareSwapNe => left != right,
        _ => false,
    }
}

fn apply_integer<I: Integer>(op: Operation, target: &mut [u8], operand: &[u8]) {
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
        Operation::Swap => select::<I>(target, operand, |_, _| true),
        _ => {}
    }
}

fn apply_real<R: Real>(op: Operation, target: &mut [u8], operand: &[u8]) {
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

fn apply_complex<R: Real>(op: Operation, target: &mut [u8], operand: &[u8]) {
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

/// Computes `target = function(target, operand)` for each whole element.
#[inline]
fn each<E: Element>(target: &mut [u8], operand: &[u8], function: impl Fn(E, E) -> E) {
    for (target, operand) in target.chunks_exact_mut(E::SLOT_BYTES).zip(operand.chunks_exact(E::SLOT_BYTES)) {
        function(E::load(target), E::load(operand)).store(target);
    }
}

/// Copies the bits of the operand over each target element for which `takes(target, operand)` is true.
fn select<E: Element>(target: &mut [u8], operand: &[u8], takes: impl Fn(E, E) -> bool) {
    for (target, operand) in target.chunks_exact_mut(E::SLOT_BYTES).zip(operand.chunks_exact(E::SLOT_BYTES)) {
        if takes(E::load(target), E::load(operand)) {
            for (target, operand) in target.iter_mut().zip(operand).take(E::VALUE_BYTES) {
                *target = *operand;
            }
        }
    }
}

/// A value in memory, in a slot of `SLOT_BYTES`. Callers pass whole slots.
trait Element: Copy + PartialEq {
    /// Size of the slot, with padding: a power of two.
    const SLOT_BYTES: usize;
    /// The value is in this many bytes from the start of the slot.
    const VALUE_BYTES: usize;
    fn load(slot: &[u8]) -> Self;
    fn store(self, slot: &mut [u8]);
}

trait Integer: Element + Ord {
    const FALSE: Self;
    const TRUE: Self;
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    fn bitor(self, other: Self) -> Self;
    fn bitand(self, other: Self) -> Self;
    fn bitxor(self, other: Self) -> Self;
}

/// Arithmetic that gives only one NaN (invariant 4).
trait Real: Element + PartialOrd {
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

macro_rules! element {
    ($($primitive:ty),*) => {$(
        impl Element for $primitive {
            const SLOT_BYTES: usize = size_of::<Self>();
            const VALUE_BYTES: usize = size_of::<Self>();
            #[inline]
            fn load(slot: &[u8]) -> Self {
                slot.first_chunk().copied().map_or(0 as Self, Self::from_le_bytes)
            }
            #[inline]
            fn store(self, slot: &mut [u8]) {
                if let Some(bytes) = slot.first_chunk_mut() {
                    *bytes = self.to_le_bytes();
                }
            }
        }
    )*};
}
element!(i8, u8, i16, u16, i32, u32, i64, u64, f32, f64);

macro_rules! integer {
    ($($primitive:ty),*) => {$(
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

/// The x87 80-bit format. The encodings that are invalid for an x87 (unnormal, pseudo-infinity, pseudo-NaN) are NaN.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct LongDouble(X87DoubleExtended);

impl LongDouble {
    const VALUE_BYTES: usize = 10;
    const QUIET_NAN_BITS: u128 = 0x7fff_c000_0000_0000_0000;

    fn canonical(value: X87DoubleExtended) -> Self {
        if value.is_nan() { Self(X87DoubleExtended::from_bits(Self::QUIET_NAN_BITS)) } else { Self(value) }
    }
}

impl Element for LongDouble {
    const SLOT_BYTES: usize = 16;
    const VALUE_BYTES: usize = Self::VALUE_BYTES;

    fn load(slot: &[u8]) -> Self {
        let value = slot.iter().take(Self::VALUE_BYTES).rev().fold(0, |bits, &byte| bits << 8 | u128::from(byte));
        Self(X87DoubleExtended::from_bits(value))
    }

    fn store(self, slot: &mut [u8]) {
        for (slot, byte) in slot.iter_mut().zip(self.0.to_bits().to_le_bytes()).take(Self::VALUE_BYTES) {
            *slot = byte;
        }
    }
}

impl Real for LongDouble {
    const INFINITY: Self = Self(X87DoubleExtended::INFINITY);

    fn sum(self, other: Self) -> Self {
        Self::canonical((self.0 + other.0).value)
    }
    fn difference(self, other: Self) -> Self {
        Self::canonical((self.0 - other.0).value)
    }
    fn product(self, other: Self) -> Self {
        Self::canonical((self.0 * other.0).value)
    }
    fn is_nan(self) -> bool {
        self.0.is_nan()
    }
    fn is_infinite(self) -> bool {
        self.0.is_infinite()
    }
    fn is_negative(self) -> bool {
        self.0.is_negative()
    }
    fn unit(self, one: bool) -> Self {
        Self(X87DoubleExtended::from_u128(u128::from(one)).value.copy_sign(self.0))
    }
}

#[derive(Clone, Copy, PartialEq)]
struct Complex<R> {
    real: R,
    imaginary: R,
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const FAMILIES: [Family; 3] = [Family::Atomic, Family::FetchAtomic, Family::Swap];

    fn applied(op: Operation, datatype: Datatype, target: &[u8], operand: &[u8]) -> Vec<u8> {
        let mut target = target.to_vec();
        apply(op, datatype, &mut target, operand);
        target
    }

    /// Ten bytes of value and six of padding.
    fn slot(value: u128, padding: u8) -> [u8; 16] {
        let mut slot = value.to_le_bytes();
        slot[10..].fill(padding);
        slot
    }

    #[test]
    fn numbers_are_those_of_the_header() {
        for value in 0..300 {
            let op = Operation::from_u32(value);
            assert_eq!(op.map(|op| op as u32), (value < 18).then_some(value));
            let datatype = Datatype::from_u32(value);
            assert_eq!(datatype.map(|datatype| datatype as u32), (value < 14).then_some(value));
        }
        assert_eq!(Operation::from_u32(u32::MAX), None);
        assert_eq!(Operation::from_u32(9), Some(Operation::Bxor));
        assert_eq!(Operation::from_u32(11), Some(Operation::CompareSwap));
        assert_eq!(Operation::from_u32(17), Some(Operation::MaskedSwap));
        assert_eq!(Datatype::from_u32(6), Some(Datatype::Float));
        assert_eq!(Datatype::from_u32(9), Some(Datatype::Double));
        assert_eq!(Datatype::from_u32(13), Some(Datatype::LongDoubleComplex));
        let sizes: Vec<usize> = Datatype::ALL.iter().map(|datatype| datatype.size_bytes()).collect();
        assert_eq!(sizes, [1, 1, 2, 2, 4, 4, 4, 8, 8, 8, 8, 16, 16, 32]);
        assert_eq!(sizes.iter().max(), Some(&Datatype::SIZE_BYTES_MAX));
    }

    /// The specification's table: a row for each operation, a column for each datatype, in the order of the header.
    #[test]
    fn allowed_is_the_table_of_the_specification() {
        // i8 u8 i16 u16 i32 u32 float i64 u64 double float-complex double-complex long-double long-double-complex
        let table = [
            (Operation::Min, "xxxxxxxxxx..x."),
            (Operation::Max, "xxxxxxxxxx..x."),
            (Operation::Sum, "xxxxxxxxxxxxxx"),
            (Operation::Prod, "xxxxxxxxxxxxxx"),
            (Operation::Lor, "xxxxxx.xx....."),
            (Operation::Land, "xxxxxx.xx....."),
            (Operation::Bor, "xxxxxx.xx....."),
            (Operation::Band, "xxxxxx.xx....."),
            (Operation::Lxor, "xxxxxx.xx....."),
            (Operation::Bxor, "xxxxxx.xx....."),
            (Operation::Swap, "xxxxxxxxxxxxxx"),
            (Operation::CompareSwap, "xxxxxxxxxxxxxx"),
            (Operation::CompareSwapNe, "xxxxxxxxxxxxxx"),
            (Operation::CompareSwapLe, "xxxxxxxxxx..x."),
            (Operation::CompareSwapLt, "xxxxxxxxxx..x."),
            (Operation::CompareSwapGe, "xxxxxxxxxx..x."),
            (Operation::CompareSwapGt, "xxxxxxxxxx..x."),
            (Operation::MaskedSwap, "xxxxxx.xx....."),
        ];
        assert_eq!(table.map(|(op, _)| op), Operation::ALL);
        for (op, row) in table {
            for (datatype, cell) in Datatype::ALL.into_iter().zip(row.bytes()) {
                for family in FAMILIES {
                    let of_family = (op as u8 >= Operation::Swap as u8) == (family == Family::Swap);
                    assert_eq!(
                        allowed(family, op, datatype),
                        of_family && cell == b'x',
                        "{family:?} {op:?} {datatype:?}"
                    );
                }
            }
        }
    }

    /// Invariant 1, for every combination: one that is not allowed changes nothing, and a partial element stays.
    #[test]
    fn refused_combinations_and_partial_elements_change_nothing() {
        let noise: Vec<u8> = (0..96u8).map(|i| i.wrapping_mul(37) ^ 0x5a).collect();
        for op in Operation::ALL {
            for datatype in Datatype::ALL {
                let size = datatype.size_bytes();
                let elementwise = allowed(Family::Atomic, op, datatype) || op == Operation::Swap;
                for bytes in 0..=3 * size {
                    let before = &noise[..bytes];
                    let operand: Vec<u8> = before.iter().map(|byte| !byte).collect();
                    let after = applied(op, datatype, before, &operand);
                    let whole = bytes / size * size;
                    assert_eq!(after[whole..], before[whole..], "{op:?} {datatype:?} {bytes}");
                    if !elementwise {
                        assert_eq!(after, before, "{op:?} {datatype:?} {bytes}");
                    }
                    let mut swapped = before.to_vec();
                    let written = apply_swap(op, datatype, &mut swapped, &operand, &operand);
                    let possible = bytes >= size && allowed(Family::Swap, op, datatype);
                    assert!(possible || !written, "{op:?} {datatype:?} {bytes}");
                    if !written {
                        assert_eq!(swapped, before);
                    }
                    assert_eq!(swapped[size.min(bytes)..], before[size.min(bytes)..], "only the first element");
                }
            }
        }
    }

    #[test]
    fn slices_of_different_length_work_up_to_the_shorter() {
        assert_eq!(applied(Operation::Sum, Datatype::Uint8, &[1, 2, 3], &[10, 10]), [11, 12, 3]);
        assert_eq!(applied(Operation::Sum, Datatype::Uint8, &[1, 2], &[10, 10, 10]), [11, 12]);
        assert_eq!(applied(Operation::Swap, Datatype::DoubleComplex, &[1; 32], &[2; 31])[14..18], [2, 2, 1, 1]);
    }

    /// Checks every pair of 8-bit values, with every operation and comparison, against wider arithmetic.
    #[test]
    fn eight_bit_integers_exhaustively() {
        for target in 0..=255u8 {
            for operand in 0..=255u8 {
                for datatype in [Datatype::Int8, Datatype::Uint8] {
                    let (wide_target, wide_operand) = (widened(datatype, &[target]), widened(datatype, &[operand]));
                    for op in Operation::ALL {
                        if let Some(expected) = integer_reference(op, wide_target, wide_operand) {
                            let mut result = [target];
                            apply(op, datatype, &mut result, &[operand]);
                            assert_eq!(result, [expected as u8], "{op:?} {datatype:?} {target} {operand}");
                        }
                        if let Some(holds) = comparison_reference(op, wide_operand.partial_cmp(&wide_target)) {
                            let mut swapped = [target];
                            assert_eq!(apply_swap(op, datatype, &mut swapped, &[0xa5], &[operand]), holds);
                            assert_eq!(swapped, if holds { [0xa5] } else { [target] });
                        }
                    }
                }
            }
        }
    }

    fn integer_reference(op: Operation, target: i128, operand: i128) -> Option<i128> {
        Some(match op {
            Operation::Min => target.min(operand),
            Operation::Max => target.max(operand),
            Operation::Sum => target + operand,
            Operation::Prod => target.wrapping_mul(operand),
            Operation::Lor => i128::from(target != 0 || operand != 0),
            Operation::Land => i128::from(target != 0 && operand != 0),
            Operation::Lxor => i128::from((target != 0) != (operand != 0)),
            Operation::Bor => target | operand,
            Operation::Band => target & operand,
            Operation::Bxor => target ^ operand,
            Operation::Swap => operand,
            _ => return None,
        })
    }

    fn comparison_reference(op: Operation, comparand_to_target: Option<core::cmp::Ordering>) -> Option<bool> {
        Some(match op {
            Operation::CompareSwap => comparand_to_target.is_some_and(|order| order.is_eq()),
            Operation::CompareSwapNe => comparand_to_target.is_none_or(|order| order.is_ne()),
            Operation::CompareSwapLe => comparand_to_target.is_some_and(|order| order.is_le()),
            Operation::CompareSwapLt => comparand_to_target.is_some_and(|order| order.is_lt()),
            Operation::CompareSwapGe => comparand_to_target.is_some_and(|order| order.is_ge()),
            Operation::CompareSwapGt => comparand_to_target.is_some_and(|order| order.is_gt()),
            _ => return None,
        })
    }

    const INTEGERS: [Datatype; 8] = [
        Datatype::Int8,
        Datatype::Uint8,
        Datatype::Int16,
        Datatype::Uint16,
        Datatype::Int32,
        Datatype::Uint32,
        Datatype::Int64,
        Datatype::Uint64,
    ];

    /// The integer in these bytes, sign-extended if the datatype is signed.
    fn widened(datatype: Datatype, bytes: &[u8]) -> i128 {
        let signed = matches!(datatype, Datatype::Int8 | Datatype::Int16 | Datatype::Int32 | Datatype::Int64);
        let fill = if signed && bytes[bytes.len() - 1] & 0x80 != 0 { 0xff } else { 0 };
        let mut wide = [fill; 16];
        wide[..bytes.len()].copy_from_slice(bytes);
        i128::from_le_bytes(wide)
    }

    /// Random bytes, in which extreme values are more frequent than by chance.
    fn edgy_bytes(len: usize) -> impl Strategy<Value = Vec<u8>> {
        let word = prop_oneof![
            3 => any::<u64>(),
            1 => Just(0),
            1 => Just(u64::MAX),
            1 => Just(1),
            1 => Just(0x8000_0000_0000_0000),
            1 => Just(0x7fff_ffff_ffff_ffff),
            1 => Just(0x8080_8080_8080_8080),
        ];
        proptest::collection::vec(word, len.div_ceil(8))
            .prop_map(move |words| words.iter().flat_map(|word| word.to_le_bytes()).take(len).collect())
    }

    const EDGES: [f64; 12] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN,
        5e-324,
        -5e-324,
        f64::MIN_POSITIVE,
    ];

    fn edgy_double() -> impl Strategy<Value = f64> {
        prop_oneof![
            3 => any::<u64>().prop_map(f64::from_bits),
            3 => -1e3..1e3f64,
            3 => proptest::sample::select(&EDGES[..]),
        ]
    }

    fn double(op: Operation, target: f64, operand: f64) -> f64 {
        let bytes = applied(op, Datatype::Double, &target.to_le_bytes(), &operand.to_le_bytes());
        f64::from_le_bytes(bytes.try_into().unwrap())
    }

    proptest! {
        #[test]
        fn integers_match_wide_arithmetic(target in edgy_bytes(24), operand in edgy_bytes(24), shift in 0..8usize) {
            for datatype in INTEGERS {
                let size = datatype.size_bytes();
                for op in Operation::ALL {
                    let result = applied(op, datatype, &target[shift..], &operand[shift..]);
                    let elements = result.chunks_exact(size).zip(target[shift..].chunks_exact(size));
                    for ((result, target), operand) in elements.zip(operand[shift..].chunks_exact(size)) {
                        let (wide_target, wide_operand) = (widened(datatype, target), widened(datatype, operand));
                        match integer_reference(op, wide_target, wide_operand) {
                            Some(expected) => prop_assert_eq!(result, &expected.to_le_bytes()[..size]),
                            None => prop_assert_eq!(result, target),
                        }
                        let mut swapped = target.to_vec();
                        let new: Vec<u8> = target.iter().map(|byte| !byte).collect();
                        let written = apply_swap(op, datatype, &mut swapped, &new, operand);
                        if let Some(holds) = comparison_reference(op, wide_operand.partial_cmp(&wide_target)) {
                            prop_assert_eq!(written, holds);
                            prop_assert_eq!(&swapped[..], if holds { &new[..] } else { target });
                        }
                    }
                }
            }
        }

        #[test]
        fn masked_swap_takes_the_bits_of_the_mask(bytes in edgy_bytes(24)) {
            for datatype in INTEGERS {
                let size = datatype.size_bytes();
                let (target, operand, mask) = (&bytes[..size], &bytes[8..8 + size], &bytes[16..16 + size]);
                let mut result = target.to_vec();
                prop_assert!(apply_swap(Operation::MaskedSwap, datatype, &mut result, operand, mask));
                for bit in 0..8 * size {
                    let of = |bytes: &[u8]| bytes[bit / 8] >> (bit % 8) & 1;
                    prop_assert_eq!(of(&result), if of(mask) == 1 { of(operand) } else { of(target) });
                }
            }
        }

        #[test]
        fn doubles_match_the_host(target in edgy_double(), operand in edgy_double()) {
            let expected = |value: f64| if value.is_nan() { 0x7ff8_0000_0000_0000 } else { value.to_bits() };
            prop_assert_eq!(double(Operation::Sum, target, operand).to_bits(), expected(target + operand));
            prop_assert_eq!(double(Operation::Prod, target, operand).to_bits(), expected(target * operand));
            prop_assert_eq!(double(Operation::Swap, target, operand).to_bits(), operand.to_bits());
            let (min, max) = (double(Operation::Min, target, operand), double(Operation::Max, target, operand));
            // `f64::min` may give either zero. Another test checks the bits of zeros and NaN.
            prop_assert!(min == target.min(operand) || target.is_nan() && operand.is_nan());
            prop_assert!(max == target.max(operand) || target.is_nan() && operand.is_nan());
            for op in Operation::ALL {
                let mut swapped = target.to_le_bytes();
                let new = 7f64.to_le_bytes();
                let written = apply_swap(op, Datatype::Double, &mut swapped, &new, &operand.to_le_bytes());
                if let Some(holds) = comparison_reference(op, operand.partial_cmp(&target)) {
                    prop_assert_eq!(written, holds);
                    prop_assert_eq!(swapped, if holds { new } else { target.to_le_bytes() });
                }
            }
        }

        /// The result for an element does not depend on the other elements.
        #[test]
        fn elements_are_independent(bytes in edgy_bytes(192)) {
            let (target, operand) = bytes.split_at(96);
            for op in Operation::ALL {
                for datatype in Datatype::ALL {
                    let size = datatype.size_bytes();
                    let alone: Vec<u8> = target
                        .chunks_exact(size)
                        .zip(operand.chunks_exact(size))
                        .flat_map(|(target, operand)| applied(op, datatype, target, operand))
                        .collect();
                    prop_assert_eq!(applied(op, datatype, target, operand), alone);
                }
            }
        }

        #[test]
        fn floats_match_the_host(target: u32, operand: u32) {
            let single = |op| {
                let bytes = applied(op, Datatype::Float, &target.to_le_bytes(), &operand.to_le_bytes());
                u32::from_le_bytes(bytes.try_into().unwrap())
            };
            let expected = |value: f32| if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() };
            let (left, right) = (f32::from_bits(target), f32::from_bits(operand));
            prop_assert_eq!(single(Operation::Sum), expected(left + right));
            prop_assert_eq!(single(Operation::Prod), expected(left * right));
            prop_assert_eq!(single(Operation::Swap), operand);
        }

        /// The integers are so small that sums and products are exact.
        #[test]
        fn long_doubles_agree_with_integers(target in -(1i64 << 31)..1 << 31, operand in -(1i64 << 31)..1 << 31) {
            let wide = |value: i64| X87DoubleExtended::from_i128(i128::from(value)).value.to_bits();
            let long = |op| applied(op, Datatype::LongDouble, &slot(wide(target), 0), &slot(wide(operand), 0));
            prop_assert_eq!(long(Operation::Sum), slot(wide(target + operand), 0));
            prop_assert_eq!(long(Operation::Min), slot(wide(target.min(operand)), 0));
            prop_assert_eq!(long(Operation::Max), slot(wide(target.max(operand)), 0));
            if target != 0 && operand != 0 {
                prop_assert_eq!(long(Operation::Prod), slot(wide(target * operand), 0));
            }
        }

        /// For any bytes, also encodings that are invalid for an x87: no panic, and the padding stays.
        #[test]
        fn long_doubles_of_any_bits_keep_the_padding(
            target: [u8; 32],
            operand: [u8; 32],
            exponents in proptest::array::uniform4(
                proptest::sample::select(&[0u16, 1, 2, 0x3fff, 0x7ffe, 0x7fff, 0xffff][..])
            ),
        ) {
            let (mut edgy_target, mut edgy_operand) = (target, operand);
            for (at, exponent) in [8, 24].into_iter().zip(exponents.chunks_exact(2)) {
                edgy_target[at..at + 2].copy_from_slice(&exponent[0].to_le_bytes());
                edgy_operand[at..at + 2].copy_from_slice(&exponent[1].to_le_bytes());
            }
            for (target, operand) in [(target, operand), (edgy_target, edgy_operand)] {
                for op in Operation::ALL {
                    for datatype in [Datatype::LongDouble, Datatype::LongDoubleComplex] {
                        let after = applied(op, datatype, &target, &operand);
                        prop_assert_eq!(&after[10..16], &target[10..16]);
                        prop_assert_eq!(&after[26..], &target[26..]);
                        if op == Operation::MaskedSwap {
                            continue;
                        }
                        let mut swapped = target;
                        apply_swap(op, datatype, &mut swapped, &operand, &operand);
                        prop_assert_eq!(&swapped[10..16], &target[10..16]);
                        prop_assert_eq!(&swapped[26..], &target[26..]);
                    }
                }
            }
        }
    }

    /// Invariants 4 and 5.
    #[test]
    fn nan_and_zeros() {
        let other_nan = f64::from_bits(0xfff8_0000_0000_1234);
        let bits = |op, target, operand| double(op, target, operand).to_bits();
        for op in [Operation::Min, Operation::Max] {
            assert_eq!(bits(op, f64::NAN, 3.0), 3f64.to_bits());
            assert_eq!(bits(op, 3.0, other_nan), 3f64.to_bits());
            assert_eq!(bits(op, other_nan, f64::NAN), other_nan.to_bits(), "both NaN: the target stays");
        }
        assert_eq!(bits(Operation::Min, 0.0, -0.0), (-0f64).to_bits());
        assert_eq!(bits(Operation::Min, -0.0, 0.0), (-0f64).to_bits());
        assert_eq!(bits(Operation::Max, 0.0, -0.0), 0);
        assert_eq!(bits(Operation::Max, -0.0, 0.0), 0);
        assert_eq!(bits(Operation::Sum, other_nan, 1.0), 0x7ff8_0000_0000_0000);
        assert_eq!(bits(Operation::Sum, f64::INFINITY, f64::NEG_INFINITY), 0x7ff8_0000_0000_0000);
        assert_eq!(bits(Operation::Prod, f64::INFINITY, 0.0), 0x7ff8_0000_0000_0000);
        // Operands of 8 bytes have a path of their own. A pair of elements gives the same result.
        let pair = applied(Operation::Sum, Datatype::Double, &[other_nan.to_le_bytes(); 2].concat(), &[0; 16]);
        assert_eq!(pair, [0x7ff8_0000_0000_0000u64.to_le_bytes(); 2].concat());
    }

    /// Invariant 6, for the datatypes that the host cannot compare itself.
    #[test]
    fn conditional_swaps_compare_values_not_bits() {
        const ONE: u128 = 0x3fff_8000_0000_0000_0000;
        const NAN: u128 = 0x7fff_c000_0000_0000_0000;
        const MINUS_ZERO: u128 = 0x8000_0000_0000_0000_0000;
        let long = |op, target: u128, comparand: u128| {
            let mut slot_of_target = slot(target, 0x11);
            let written =
                apply_swap(op, Datatype::LongDouble, &mut slot_of_target, &slot(ONE, 0x22), &slot(comparand, 0x33));
            assert_eq!(slot_of_target, slot(if written { ONE } else { target }, 0x11));
            written
        };
        assert!(long(Operation::CompareSwap, 0, MINUS_ZERO), "padding and the zero's sign do not count");
        assert!(!long(Operation::CompareSwap, NAN, NAN));
        assert!(long(Operation::CompareSwapNe, NAN, NAN));
        assert!(!long(Operation::CompareSwapLe, ONE, NAN) && !long(Operation::CompareSwapGe, ONE, NAN));
        assert!(long(Operation::CompareSwapLt, ONE, 0) && !long(Operation::CompareSwapLt, 0, ONE));
        assert!(long(Operation::CompareSwapGt, 0, ONE) && !long(Operation::CompareSwapGt, ONE, ONE));
        assert!(long(Operation::CompareSwapGe, ONE, ONE) && long(Operation::CompareSwapLe, ONE, ONE));

        let pair = |real: f32, imaginary: f32| [real.to_le_bytes(), imaginary.to_le_bytes()].concat();
        let complex = |op, target: Vec<u8>, comparand: Vec<u8>| {
            apply_swap(op, Datatype::FloatComplex, &mut target.clone(), &[0; 8], &comparand)
        };
        assert!(complex(Operation::CompareSwap, pair(1.0, 0.0), pair(1.0, -0.0)));
        assert!(!complex(Operation::CompareSwap, pair(1.0, 2.0), pair(1.0, 3.0)));
        assert!(complex(Operation::CompareSwapNe, pair(1.0, 2.0), pair(1.0, 3.0)));
        assert!(complex(Operation::CompareSwapNe, pair(1.0, f32::NAN), pair(1.0, f32::NAN)));
        assert!(!complex(Operation::CompareSwapLe, pair(1.0, 2.0), pair(1.0, 2.0)), "complex numbers have no order");
    }

    #[test]
    fn complex_sums_and_swaps_go_part_by_part() {
        let pair = |real: f64, imaginary: f64| [real.to_le_bytes(), imaginary.to_le_bytes()].concat();
        let result = applied(Operation::Sum, Datatype::DoubleComplex, &pair(1.5, -2.0), &pair(2.25, f64::INFINITY));
        assert_eq!(result, pair(3.75, f64::INFINITY));
        let one = 0x3fff_8000_0000_0000_0000;
        let (target, operand) = ([slot(one, 1), slot(0, 2)].concat(), [slot(one, 3), slot(one, 4)].concat());
        let sum = applied(Operation::Sum, Datatype::LongDoubleComplex, &target, &operand);
        assert_eq!(sum, [slot(0x4000_8000_0000_0000_0000, 1), slot(one, 2)].concat());
        let swap = applied(Operation::Swap, Datatype::LongDoubleComplex, &target, &operand);
        assert_eq!(swap, [slot(one, 1), slot(one, 2)].concat());
    }

    // The tables below come from a C program that gcc 12.2 compiled for x86-64 without optimisation. The program has
    // each pair of operands in `volatile` variables, adds and multiplies them with C's operators, and prints the bytes
    // of the results. It builds complex numbers with CMPLX, CMPLXF and CMPLXL. It prints NaN results as the quiet NaN,
    // because the sign and payload of an x87's NaN depend on the operands. The first rows of the long doubles cover
    // ties, carries, overflow, subnormal results and invalid encodings. The last twenty rows are random.

    #[test]
    fn long_doubles_match_gcc() {
        for [left, right, sum, product] in LONG_DOUBLE {
            for (op, expected) in [(Operation::Sum, sum), (Operation::Prod, product)] {
                for (target, operand) in [(left, right), (right, left)] {
                    let result = applied(op, Datatype::LongDouble, &slot(target, 0x77), &slot(operand, 0x99));
                    assert_eq!(result, slot(expected, 0x77), "{op:?} {target:#x} {operand:#x}");
                }
            }
        }
    }

    #[test]
    fn complex_products_match_gcc() {
        for [a, b, c, d, real, imaginary] in DOUBLE_COMPLEX_PRODUCT {
            let pair = |real: u64, imaginary: u64| [real.to_le_bytes(), imaginary.to_le_bytes()].concat();
            let result = applied(Operation::Prod, Datatype::DoubleComplex, &pair(a, b), &pair(c, d));
            assert_eq!(result, pair(real, imaginary), "{a:#x} {b:#x} {c:#x} {d:#x}");
        }
        for [a, b, c, d, real, imaginary] in FLOAT_COMPLEX_PRODUCT {
            let pair = |real: u32, imaginary: u32| [real.to_le_bytes(), imaginary.to_le_bytes()].concat();
            let result = applied(Operation::Prod, Datatype::FloatComplex, &pair(a, b), &pair(c, d));
            assert_eq!(result, pair(real, imaginary), "{a:#x} {b:#x} {c:#x} {d:#x}");
        }
        for [a, b, c, d, real, imaginary] in LONG_DOUBLE_COMPLEX_PRODUCT {
            let pair = |real, imaginary, padding| [slot(real, padding), slot(imaginary, padding)].concat();
            let result = applied(Operation::Prod, Datatype::LongDoubleComplex, &pair(a, b, 7), &pair(c, d, 9));
            assert_eq!(result, pair(real, imaginary, 7), "{a:#x} {b:#x} {c:#x} {d:#x}");
        }
    }

    /// Left, right, left + right, left * right.
    #[rustfmt::skip]
    const LONG_DOUBLE: [[u128; 4]; 57] = [
        [0x3fff_8000_0000_0000_0000, 0x3fff_8000_0000_0000_0000, 0x4000_8000_0000_0000_0000, 0x3fff_8000_0000_0000_0000],
        [0x3fff_8000_0000_0000_0000, 0xbfff_8000_0000_0000_0000, 0x0000_0000_0000_0000_0000, 0xbfff_8000_0000_0000_0000],
        [0x0000_0000_0000_0000_0000, 0x8000_0000_0000_0000_0000, 0x0000_0000_0000_0000_0000, 0x8000_0000_0000_0000_0000],
        [0x8000_0000_0000_0000_0000, 0x8000_0000_0000_0000_0000, 0x8000_0000_0000_0000_0000, 0x0000_0000_0000_0000_0000],
        [0x3fff_8000_0000_0000_0000, 0x3fbf_8000_0000_0000_0000, 0x3fff_8000_0000_0000_0000, 0x3fbf_8000_0000_0000_0000],
        [0x3fff_8000_0000_0000_0001, 0x3fbf_8000_0000_0000_0000, 0x3fff_8000_0000_0000_0002, 0x3fbf_8000_0000_0000_0001],
        [0x3fff_8000_0000_0000_0000, 0x3fbf_8000_0000_0000_0001, 0x3fff_8000_0000_0000_0001, 0x3fbf_8000_0000_0000_0001],
        [0x3fff_8000_0000_0000_0000, 0xbfbe_8000_0000_0000_0000, 0x3fff_8000_0000_0000_0000, 0xbfbe_8000_0000_0000_0000],
        [0x3fff_ffff_ffff_ffff_ffff, 0x3fbf_8000_0000_0000_0000, 0x4000_8000_0000_0000_0000, 0x3fbf_ffff_ffff_ffff_ffff],
        [0x7ffe_ffff_ffff_ffff_ffff, 0x7ffe_ffff_ffff_ffff_ffff, 0x7fff_8000_0000_0000_0000, 0x7fff_8000_0000_0000_0000],
        [0x7ffe_ffff_ffff_ffff_ffff, 0x7fbd_8000_0000_0000_0000, 0x7ffe_ffff_ffff_ffff_ffff, 0x7fff_8000_0000_0000_0000],
        [0x7ffe_ffff_ffff_ffff_ffff, 0x3fff_8000_0000_0000_0000, 0x7ffe_ffff_ffff_ffff_ffff, 0x7ffe_ffff_ffff_ffff_ffff],
        [0x7fff_8000_0000_0000_0000, 0x3fff_8000_0000_0000_0000, 0x7fff_8000_0000_0000_0000, 0x7fff_8000_0000_0000_0000],
        [0x7fff_8000_0000_0000_0000, 0xffff_8000_0000_0000_0000, 0x7fff_c000_0000_0000_0000, 0xffff_8000_0000_0000_0000],
        [0x7fff_8000_0000_0000_0000, 0x0000_0000_0000_0000_0000, 0x7fff_8000_0000_0000_0000, 0x7fff_c000_0000_0000_0000],
        [0xffff_8000_0000_0000_0000, 0xbfff_8000_0000_0000_0000, 0xffff_8000_0000_0000_0000, 0x7fff_8000_0000_0000_0000],
        [0x7fff_c000_0000_0000_0000, 0x3fff_8000_0000_0000_0000, 0x7fff_c000_0000_0000_0000, 0x7fff_c000_0000_0000_0000],
        [0x7fff_a000_0000_0000_0001, 0x3fff_8000_0000_0000_0000, 0x7fff_c000_0000_0000_0000, 0x7fff_c000_0000_0000_0000],
        [0x0000_0000_0000_0000_0001, 0x0000_0000_0000_0000_0001, 0x0000_0000_0000_0000_0002, 0x0000_0000_0000_0000_0000],
        [0x0000_0000_0000_0000_0001, 0x8000_0000_0000_0000_0001, 0x0000_0000_0000_0000_0000, 0x8000_0000_0000_0000_0000],
        [0x0000_7fff_ffff_ffff_ffff, 0x0000_0000_0000_0000_0001, 0x0001_8000_0000_0000_0000, 0x0000_0000_0000_0000_0000],
        [0x0001_8000_0000_0000_0000, 0x8000_0000_0000_0000_0001, 0x0000_7fff_ffff_ffff_ffff, 0x8000_0000_0000_0000_0000],
        [0x0001_8000_0000_0000_0000, 0x3ffe_8000_0000_0000_0000, 0x3ffe_8000_0000_0000_0000, 0x0000_4000_0000_0000_0000],
        [0x0001_8000_0000_0000_0001, 0x3ffe_8000_0000_0000_0000, 0x3ffe_8000_0000_0000_0000, 0x0000_4000_0000_0000_0000],
        [0x0001_8000_0000_0000_0003, 0x3ffe_8000_0000_0000_0000, 0x3ffe_8000_0000_0000_0000, 0x0000_4000_0000_0000_0002],
        [0x2000_8000_0000_0000_0000, 0x1fff_8000_0000_0000_0001, 0x2000_c000_0000_0000_0000, 0x0000_4000_0000_0000_0000],
        [0x2000_ffff_ffff_ffff_ffff, 0x1fbf_ffff_ffff_ffff_ffff, 0x2000_ffff_ffff_ffff_ffff, 0x0000_0000_0000_0000_0001],
        [0x1fc0_8000_0000_0000_0000, 0x2000_8000_0000_0000_0000, 0x2000_8000_0000_0000_0000, 0x0000_0000_0000_0000_0000],
        [0x1fbf_8000_0000_0000_0000, 0x1fff_8000_0000_0000_0000, 0x1fff_8000_0000_0000_0000, 0x0000_0000_0000_0000_0000],
        [0x0000_8000_0000_0000_0000, 0x0001_8000_0000_0000_0000, 0x0002_8000_0000_0000_0000, 0x0000_0000_0000_0000_0000],
        [0x0000_8000_0000_0000_0005, 0x3fff_8000_0000_0000_0000, 0x3fff_8000_0000_0000_0000, 0x0001_8000_0000_0000_0005],
        [0x3fff_4000_0000_0000_0000, 0x3fff_8000_0000_0000_0000, 0x7fff_c000_0000_0000_0000, 0x7fff_c000_0000_0000_0000],
        [0x7fff_0000_0000_0000_0000, 0x3fff_8000_0000_0000_0000, 0x7fff_c000_0000_0000_0000, 0x7fff_c000_0000_0000_0000],
        [0x7fff_4000_0000_0000_0000, 0x3fff_8000_0000_0000_0000, 0x7fff_c000_0000_0000_0000, 0x7fff_c000_0000_0000_0000],
        [0x4000_c90f_daa2_2168_c235, 0x4000_adf8_5458_a2bb_4a9b, 0x4001_bb84_177d_6212_0668, 0x4002_88a2_c05a_2ea3_a4f3],
        [0xc000_c90f_daa2_2168_c235, 0x4000_c90f_daa2_2168_c234, 0xbfc1_8000_0000_0000_0000, 0xc002_9de9_e64d_f22e_f2d2],
        [0x3ffb_cccc_cccc_cccc_cccd, 0x3ffc_cccc_cccc_cccc_cccd, 0x3ffd_9999_9999_9999_999a, 0x3ff9_a3d7_0a3d_70a3_d70b],
        [0xbfff_afef_107a_2752_9ad0, 0x3fdc_e409_3df8_432a_8be5, 0xbfff_afef_107a_0ad1_7311, 0xbfdd_9cb7_44aa_f3fe_d42a],
        [0xc001_e1b9_7bcd_4b21_c371, 0x4014_e845_105e_d8c7_7cb7, 0x4014_e844_f427_a94d_d353, 0xc017_cccc_fd9f_a368_88e7],
        [0x3ffd_fe5d_efe9_c561_0885, 0x3fbc_eef1_4999_f811_4bd4, 0x3ffd_fe5d_efe9_c561_0885, 0x3fbb_ed6b_149b_f69d_4244],
        [0xbff2_b494_d688_0418_a99e, 0xbfe3_9557_53b5_7993_3f4d, 0xbff2_b496_0136_ab83_9cc4, 0x3fd6_d2b0_74fc_ae4f_7c3c],
        [0xc002_ae6f_66b0_49cd_c80b, 0xc007_f991_db0c_819b_315b, 0xc007_ff05_5642_03e9_9f9b, 0x400b_aa0d_bd3c_7404_765b],
        [0xc008_e35a_c674_71cc_39b1, 0xc024_fb59_baf2_b613_ed82, 0xc024_fb59_bb00_ebc0_54c9, 0x402e_df39_b12a_abc3_3d15],
        [0xc008_fad4_dc52_cb2f_a2ae, 0xbfde_91e6_9a34_7dd2_966b, 0xc008_fad4_dc52_cb54_1c55, 0x3fe8_8ef4_8320_5287_5c8f],
        [0xbff6_eedd_2256_2c4c_697b, 0xbffc_db22_f453_80f3_cf69, 0xbffc_dede_68dc_d9a5_010f, 0x3ff4_cc77_c9b6_f615_9325],
        [0x4006_fdc2_ae94_e4db_f967, 0x3ff2_8c97_1bea_6a6a_f755, 0x4006_fdc2_b75e_569a_a00e, 0x3ffa_8b5c_40fa_4cd5_3672],
        [0xc00a_ed15_9abf_b303_fd7b, 0xc020_8ff2_0e6d_fbb7_c441, 0xc020_8ff2_1222_5222_c30d, 0x402c_854f_3d3a_67fe_32b3],
        [0x3ff8_c7de_e68f_ffba_f963, 0x4020_95ad_a4e5_3975_b451, 0x4020_95ad_a4e5_3a3d_9338, 0x4019_e9b8_9d22_c439_5444],
        [0x4008_d27d_2fde_3497_614c, 0x4025_be55_6681_7813_9c8e, 0x4025_be55_6688_0bfd_1b80, 0x402f_9c7f_2160_24b2_46da],
        [0x4006_e1fd_0482_8c93_ce01, 0x400f_df9a_26c8_4703_49dd, 0x400f_e00b_254a_8849_93c4, 0x4017_c563_7b5e_ca04_4ba4],
        [0x3ffd_e795_41e2_5d0d_ba6b, 0x402d_ff98_837f_da2a_5bdf, 0x402d_ff98_837f_da2b_4374, 0x402c_e737_a434_a235_dd75],
        [0x2027_d8ae_e9fd_c3f4_1b74, 0xa010_e2da_ff17_1a9f_ae42, 0x2027_d8ae_e838_0df5_ed3f, 0x8039_c003_c76f_126a_15fe],
        [0xa01d_86dd_ce90_6c8c_db4d, 0x2004_867e_3492_977c_b1bb, 0xa01d_86dd_ce4d_2d72_9201, 0x8022_8db5_2dfb_1855_a4e4],
        [0x2017_f978_0d4e_5b2b_3b2a, 0x1ff1_b36e_b1ca_a58e_e7dc, 0x2017_f978_0d4e_5df8_f5f1, 0x000a_aeda_d024_fcad_b6eb],
        [0xa012_9735_808e_e439_8bca, 0x1ffc_8f09_9965_5250_4a5d, 0xa012_9735_7e52_bdd3_f681, 0x800f_a8f9_1c98_5223_b369],
        [0x2008_b9e2_a99f_db7b_2948, 0x9fd2_8da2_4e08_451a_8d1a, 0x2008_b9e2_a99f_db7b_2711, 0x8000_0000_0000_0336_bd8c],
        [0x9fff_8f81_2a26_5e56_0f2b, 0x1fc2_fece_e737_5566_09f5, 0x9fff_8f81_2a26_5e56_0f23, 0x8000_0000_0000_0000_0002],
    ];

    /// Real and imaginary part of left, right, left * right.
    #[rustfmt::skip]
    const DOUBLE_COMPLEX_PRODUCT: [[u64; 6]; 18] = [
        [0x3ff0000000000000, 0x4000000000000000, 0x4008000000000000, 0x4010000000000000, 0xc014000000000000, 0x4024000000000000],
        [0x3fb999999999999a, 0xbfe6666666666666, 0x3f50624dd2f1a9fc, 0x4022800000000000, 0x4019e6809d495182, 0x3fed93dd97f62b6b],
        [0x8000000000000000, 0x0000000000000000, 0x3ff0000000000000, 0x8000000000000000, 0x0000000000000000, 0x0000000000000000],
        [0x7fee42d130773b76, 0x7fee42d130773b76, 0x7fee42d130773b76, 0x7fee42d130773b76, 0x7ff8000000000000, 0x7ff0000000000000],
        [0x7fee42d130773b76, 0x7fee42d130773b76, 0x4010000000000000, 0xc010000000000000, 0x7ff0000000000000, 0x7ff8000000000000],
        [0x7ff0000000000000, 0x0000000000000000, 0x0000000000000000, 0x0000000000000000, 0x7ff8000000000000, 0x7ff8000000000000],
        [0x7ff0000000000000, 0x7ff8000000000000, 0x3ff0000000000000, 0x0000000000000000, 0x7ff0000000000000, 0x7ff8000000000000],
        [0x7ff0000000000000, 0x7ff8000000000000, 0x3ff0000000000000, 0x3ff0000000000000, 0x7ff0000000000000, 0x7ff0000000000000],
        [0x3ff0000000000000, 0x3ff0000000000000, 0x7ff8000000000000, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff0000000000000],
        [0x7ff0000000000000, 0x7ff0000000000000, 0x7ff0000000000000, 0x7ff0000000000000, 0x7ff8000000000000, 0x7ff0000000000000],
        [0x7ff0000000000000, 0xfff0000000000000, 0x7ff0000000000000, 0x7ff8000000000000, 0x7ff0000000000000, 0xfff0000000000000],
        [0xfff0000000000000, 0x7ff8000000000000, 0x7ff8000000000000, 0xc008000000000000, 0x7ff8000000000000, 0x7ff0000000000000],
        [0x7ff8000000000000, 0x7ff8000000000000, 0x3ff0000000000000, 0x3ff0000000000000, 0x7ff8000000000000, 0x7ff8000000000000],
        [0x7ff8000000000000, 0x0000000000000000, 0x3ff0000000000000, 0x4000000000000000, 0x7ff8000000000000, 0x7ff8000000000000],
        [0x7fee42d130773b76, 0x7ff8000000000000, 0x7fee42d130773b76, 0x7ff8000000000000, 0x7ff0000000000000, 0x7ff8000000000000],
        [0xffee42d130773b76, 0x7ff8000000000000, 0x4000000000000000, 0x7ff8000000000000, 0xfff0000000000000, 0x7ff8000000000000],
        [0x7ff8000000000000, 0x7ff0000000000000, 0x7ff8000000000000, 0xfff0000000000000, 0x7ff0000000000000, 0x7ff8000000000000],
        [0x00000000000007e8, 0x3ff0000000000000, 0x3ee4f8b588e368f1, 0x4008000000000000, 0xc008000000000000, 0x3ee4f8b588e368f1],
    ];

    #[rustfmt::skip]
    const FLOAT_COMPLEX_PRODUCT: [[u32; 6]; 6] = [
        [0x3f800000, 0x40000000, 0x40400000, 0x40800000, 0xc0a00000, 0x41200000],
        [0x3dcccccd, 0xbf333333, 0x3a83126f, 0x41140000, 0x40cf3405, 0x3f6c9eed],
        [0x7f7843b0, 0x7f7843b0, 0x40800000, 0xc0800000, 0x7f800000, 0x7fc00000],
        [0x7f800000, 0x7fc00000, 0x3f800000, 0x3f800000, 0x7f800000, 0x7f800000],
        [0x7f7843b0, 0x7fc00000, 0x7f7843b0, 0x7fc00000, 0x7f800000, 0x7fc00000],
        [0xff800000, 0x7fc00000, 0x7fc00000, 0xc0400000, 0x7fc00000, 0x7f800000],
    ];

    #[rustfmt::skip]
    const LONG_DOUBLE_COMPLEX_PRODUCT: [[u128; 6]; 10] = [
        [0x3fff_8000_0000_0000_0000, 0x4000_8000_0000_0000_0000, 0x4000_c000_0000_0000_0000, 0x4001_8000_0000_0000_0000, 0xc001_a000_0000_0000_0000, 0x4002_a000_0000_0000_0000],
        [0x3ffb_cccc_cccc_cccc_cccd, 0xbffe_b333_3333_3333_3333, 0x3ff5_8312_6e97_8d4f_df3b, 0x4002_9400_0000_0000_0000, 0x4001_cf34_04ea_4a8c_154c, 0x3ffe_ec9e_ecbf_b15b_573f],
        [0x7ffe_d72c_b2a9_5c7e_f6cd, 0x7ffe_d72c_b2a9_5c7e_f6cd, 0x4001_8000_0000_0000_0000, 0xc001_8000_0000_0000_0000, 0x7fff_8000_0000_0000_0000, 0x7fff_c000_0000_0000_0000],
        [0x7ffe_d72c_b2a9_5c7e_f6cd, 0x7ffe_d72c_b2a9_5c7e_f6cd, 0x7ffe_d72c_b2a9_5c7e_f6cd, 0x7ffe_d72c_b2a9_5c7e_f6cd, 0x7fff_c000_0000_0000_0000, 0x7fff_8000_0000_0000_0000],
        [0x7fff_8000_0000_0000_0000, 0x7fff_c000_0000_0000_0000, 0x3fff_8000_0000_0000_0000, 0x3fff_8000_0000_0000_0000, 0x7fff_8000_0000_0000_0000, 0x7fff_8000_0000_0000_0000],
        [0x3fff_8000_0000_0000_0000, 0x3fff_8000_0000_0000_0000, 0x7fff_c000_0000_0000_0000, 0x7fff_8000_0000_0000_0000, 0xffff_8000_0000_0000_0000, 0x7fff_8000_0000_0000_0000],
        [0x7fff_8000_0000_0000_0000, 0x7fff_8000_0000_0000_0000, 0x7fff_8000_0000_0000_0000, 0x7fff_8000_0000_0000_0000, 0x7fff_c000_0000_0000_0000, 0x7fff_8000_0000_0000_0000],
        [0xffff_8000_0000_0000_0000, 0x7fff_c000_0000_0000_0000, 0x7fff_c000_0000_0000_0000, 0xc000_c000_0000_0000_0000, 0x7fff_c000_0000_0000_0000, 0x7fff_8000_0000_0000_0000],
        [0x7fff_c000_0000_0000_0000, 0x7fff_c000_0000_0000_0000, 0x3fff_8000_0000_0000_0000, 0x3fff_8000_0000_0000_0000, 0x7fff_c000_0000_0000_0000, 0x7fff_c000_0000_0000_0000],
        [0x7ffe_d72c_b2a9_5c7e_f6cd, 0x7fff_c000_0000_0000_0000, 0x7ffe_d72c_b2a9_5c7e_f6cd, 0x7fff_c000_0000_0000_0000, 0x7fff_8000_0000_0000_0000, 0x7fff_c000_0000_0000_0000],
    ];
}
