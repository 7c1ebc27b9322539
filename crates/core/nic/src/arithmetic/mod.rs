// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arithmetic of the NIC: operations, datatypes, their combinations, and their effect on bytes.
//!
//! All units compute here: the Portals unit its atomics (Portals 4.3, "Atomic Operations"; the parts that only Portals
//! has are in [`portals::operation`](crate::portals::operation)), and an aggregation node its reductions (seed 001,
//! section III.F). The functions are not atomic. The caller holds the NIC's lock, or no other thread can reach the
//! bytes.
//!
//! * [`Operation`] and [`Datatype`] have the numbers of Portals' header. [`reduces`] lists the valid combinations.
//! * [`apply`] computes. [`apply_located`] finds minima and maxima with their places, in pairs ([`Located`]).
//! * `types`: operations and datatypes. `element`: values in memory. `integer`, `real`, `half`, `long_double`,
//!   `complex`: kinds of values.
//!
//! Invariants
//! 1. Only bytes of `target` change, and only whole elements. A combination that [`reduces`] refuses changes nothing.
//! 2. Memory is little-endian and may lie at any address.
//! 3. Integers wrap. Logical operations give 0 or 1.
//! 4. Floating point rounds to nearest, ties to even. The result has the same bits on every host. So each NaN that
//!    arithmetic produces is the quiet NaN with a clear sign and no payload.
//! 5. Minimum and maximum follow C's `fmin` and `fmax`. Of a NaN and a number, the number is the result; of two NaNs,
//!    the target stays. -0 is less than +0. The result is one of the two values, with the same bits. Pairs follow MPI's
//!    rules instead (`located`).
//! 6. A long double is the 80-bit x87 format in a slot of 16 bytes. The last six bytes of a slot are padding. The
//!    padding of the target is never written.
//!
//! Costs: O(elements), no allocation. A sum of one 8-byte element is a load, an add and a store. The loops over
//! integers and reals are vectorised, those over complex products and pairs are not. Long doubles are computed in
//! software (`rustc_apfloat`), at tens of nanoseconds each.

mod complex;
mod element;
mod half;
mod integer;
mod located;
mod long_double;
mod real;
#[cfg(test)]
pub(crate) mod tests;
mod types;

use core::cmp::Ordering;

use complex::Complex;
use element::{Element, each};
use half::{Bfloat16, Half};
pub use located::{Located, apply_located};
use long_double::LongDouble;
use real::Real;
pub(crate) use types::Class;
pub use types::{Datatype, Operation, reduces};

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
