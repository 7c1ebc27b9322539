// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The minimum and the maximum with their places: MPI's `MPI_MINLOC` and `MPI_MAXLOC` (seed 001, section III.F).
//!
//! An element is C's `struct { value; index; }`, each member aligned to its own size, as MPI's pair types are:
//!
//! | pair of MPI | value | index | index at | bytes |
//! |---|---|---|---|---|
//! | `MPI_SHORT_INT` | `Int16` | `Int32` | 4 | 8 |
//! | `MPI_2INT` | `Int32` | `Int32` | 4 | 8 |
//! | `MPI_FLOAT_INT` | `Float` | `Int32` | 4 | 8 |
//! | `MPI_LONG_INT` | `Int64` | `Int32` | 8 | 16 |
//! | `MPI_DOUBLE_INT` | `Double` | `Int32` | 8 | 16 |
//! | `MPI_LONG_DOUBLE_INT` | `LongDouble` | `Int32` | 16 | 32 |
//!
//! Invariants
//! 1. The result is one of the two pairs, value and index, with the same bits. Padding of the target is not written.
//! 2. Of equal values, the pair with the lower index is the result. Values compare as C does, so -0 equals +0.
//! 3. Of a NaN and a number, the number is the result. Of two NaNs, the target stays, whatever the indices.
//! 4. The rest is as in [`super`]: memory at any address, whole elements only.
//!
//! Costs: O(elements), no allocation. The loops are not vectorised: a pair takes a few nanoseconds.

use super::element::{Element, Ordered, each_bits};
use super::half::{Bfloat16, Half};
use super::long_double::LongDouble;
use super::{Class, Datatype, Operation};

/// The type of pairs of a value and an index. Every [`Located`] can be reduced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Located {
    value: Datatype,
    index: Datatype,
}

impl Located {
    /// Size of the largest pair.
    pub const SIZE_BYTES_MAX: usize = 32;

    /// Pairs of this value and index. None: the value is complex, or the index is no integer of 32 or 64 bits.
    pub const fn new(value: Datatype, index: Datatype) -> Option<Self> {
        let has_order = !matches!(value.class(), Class::Complex);
        let is_index = matches!(index, Datatype::Int32 | Datatype::Uint32 | Datatype::Int64 | Datatype::Uint64);
        if has_order && is_index { Some(Self { value, index }) } else { None }
    }

    /// The type of the value.
    pub const fn value(self) -> Datatype {
        self.value
    }

    /// The type of the index.
    pub const fn index(self) -> Datatype {
        self.index
    }

    /// Offset of the index in a pair. Sizes are powers of two, so this is also half of the pair.
    pub const fn index_offset_bytes(self) -> usize {
        let (value, index) = (self.value.size_bytes(), self.index.size_bytes());
        if value > index { value } else { index }
    }

    /// Size of a pair with its padding: a power of two.
    pub const fn size_bytes(self) -> usize {
        2 * self.index_offset_bytes()
    }

    /// Whether the operation reduces pairs: [`Operation::Min`] is `MPI_MINLOC`, [`Operation::Max`] is `MPI_MAXLOC`.
    pub const fn reduces(op: Operation) -> bool {
        matches!(op, Operation::Min | Operation::Max)
    }
}

/// Computes `target = target op operand` for each pair.
///
/// This changes as many whole pairs as both slices hold. Operations that [`Located::reduces`] refuses change nothing.
pub fn apply_located(op: Operation, pair: Located, target: &mut [u8], operand: &[u8]) {
    match pair.value {
        Datatype::Int8 => apply_value::<i8>(op, pair.index, target, operand),
        Datatype::Uint8 => apply_value::<u8>(op, pair.index, target, operand),
        Datatype::Int16 => apply_value::<i16>(op, pair.index, target, operand),
        Datatype::Uint16 => apply_value::<u16>(op, pair.index, target, operand),
        Datatype::Int32 => apply_value::<i32>(op, pair.index, target, operand),
        Datatype::Uint32 => apply_value::<u32>(op, pair.index, target, operand),
        Datatype::Int64 => apply_value::<i64>(op, pair.index, target, operand),
        Datatype::Uint64 => apply_value::<u64>(op, pair.index, target, operand),
        Datatype::Float => apply_value::<f32>(op, pair.index, target, operand),
        Datatype::Double => apply_value::<f64>(op, pair.index, target, operand),
        Datatype::LongDouble => apply_value::<LongDouble>(op, pair.index, target, operand),
        Datatype::Half => apply_value::<Half>(op, pair.index, target, operand),
        Datatype::Bfloat16 => apply_value::<Bfloat16>(op, pair.index, target, operand),
        // `Located::new` makes no such pair.
        Datatype::FloatComplex | Datatype::DoubleComplex | Datatype::LongDoubleComplex => {}
    }
}

fn apply_value<V: Ordered>(op: Operation, index: Datatype, target: &mut [u8], operand: &[u8]) {
    match index {
        Datatype::Int32 => apply_pair::<V, i32>(op, target, operand),
        Datatype::Uint32 => apply_pair::<V, u32>(op, target, operand),
        Datatype::Int64 => apply_pair::<V, i64>(op, target, operand),
        Datatype::Uint64 => apply_pair::<V, u64>(op, target, operand),
        _ => {}
    }
}

fn apply_pair<V: Ordered, I: Element + Ord>(op: Operation, target: &mut [u8], operand: &[u8]) {
    match op {
        Operation::Min => each_bits::<Pair<V, I>>(target, operand, |target_bits, operand_bits| {
            let (target, operand) = (Pair::<V, I>::from_bits(target_bits), Pair::from_bits(operand_bits));
            let takes = operand.beats(target, operand.value < target.value);
            if takes { operand_bits } else { target_bits }
        }),
        Operation::Max => each_bits::<Pair<V, I>>(target, operand, |target_bits, operand_bits| {
            let (target, operand) = (Pair::<V, I>::from_bits(target_bits), Pair::from_bits(operand_bits));
            let takes = operand.beats(target, operand.value > target.value);
            if takes { operand_bits } else { target_bits }
        }),
        _ => {}
    }
}

/// A value and its index in memory: two slots of one size, a member at the start of each.
#[derive(Clone, Copy)]
struct Pair<V, I> {
    value: V,
    index: I,
}

impl<V: Ordered, I: Element + Ord> Pair<V, I> {
    /// Whether this pair of the operand replaces the target. `is_better`: by its value alone.
    #[inline]
    fn beats(self, target: Self, is_better: bool) -> bool {
        is_better
            | ((self.value == target.value) & (self.index < target.index))
            | (target.value.is_nan() & !self.value.is_nan())
    }
}

impl<V: Element, I: Element> Element for Pair<V, I> {
    type Bits = (V::Bits, I::Bits);
    const SLOT_BYTES: usize = 2 * if V::SLOT_BYTES > I::SLOT_BYTES { V::SLOT_BYTES } else { I::SLOT_BYTES };

    #[inline]
    fn read(slot: &[u8]) -> Self::Bits {
        let (value, index) = slot.split_at_checked(Self::SLOT_BYTES / 2).unwrap_or((slot, &[]));
        (V::read(value), I::read(index))
    }

    #[inline]
    fn write((value, index): Self::Bits, slot: &mut [u8]) {
        if let Some((slot_of_value, slot_of_index)) = slot.split_at_mut_checked(Self::SLOT_BYTES / 2) {
            V::write(value, slot_of_value);
            I::write(index, slot_of_index);
        }
    }

    #[inline]
    fn from_bits((value, index): Self::Bits) -> Self {
        Self { value: V::from_bits(value), index: I::from_bits(index) }
    }

    #[inline]
    fn to_bits(self) -> Self::Bits {
        (self.value.to_bits(), self.index.to_bits())
    }
}

#[cfg(test)]
#[path = "located_tests.rs"]
mod tests;
