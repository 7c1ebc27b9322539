// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The atomics of Portals: the operations and datatypes that each function allows, and the conditional swaps.
//!
//! This file carries out Portals 4.3, "Atomic Operations": `PtlAtomic`, `PtlFetchAtomic`, `PtlSwap`. The arithmetic and
//! its invariants are those of the NIC ([`arithmetic`](crate::arithmetic)). The functions are not atomic. The caller
//! holds the NIC's lock, or no other thread can reach the bytes.
//!
//! Invariants
//! 1. A combination that [`allowed`] refuses changes nothing.
//! 2. Conditional swaps compare as C does: -0 equals +0, and with a NaN every comparison but "not equal" is false.
//! 3. The padding of the target is never written, not even by a swap.
//!
//! Costs: O(1), no allocation.

use core::cmp::Ordering;

use crate::arithmetic::{Class, Datatype, Operation, apply, compare, reduces};

impl Datatype {
    /// The datatype with this `ptl_datatype_t` value. None: Portals has no such datatype.
    pub fn from_u32(value: u32) -> Option<Self> {
        Self::from_number(value).filter(|datatype| datatype.is_of_portals())
    }

    const fn is_of_portals(self) -> bool {
        !matches!(self, Self::Half | Self::Bfloat16)
    }
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
        Swap | CompareSwap | CompareSwapNe => true,
        CompareSwapLe | CompareSwapLt | CompareSwapGe | CompareSwapGt => class != Class::Complex,
        MaskedSwap => class == Class::Integer,
    };
    let fits = match family {
        Family::Atomic | Family::FetchAtomic => reduces(op, datatype),
        Family::Swap => swaps,
    };
    fits && datatype.is_of_portals()
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
        if !comparison_holds(op, compare(datatype, comparand, target)) {
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

fn comparison_holds(op: Operation, comparand_to_target: Option<Ordering>) -> bool {
    match op {
        Operation::CompareSwap => comparand_to_target.is_some_and(Ordering::is_eq),
        Operation::CompareSwapNe => comparand_to_target.is_none_or(Ordering::is_ne),
        Operation::CompareSwapLe => comparand_to_target.is_some_and(Ordering::is_le),
        Operation::CompareSwapLt => comparand_to_target.is_some_and(Ordering::is_lt),
        Operation::CompareSwapGe => comparand_to_target.is_some_and(Ordering::is_ge),
        Operation::CompareSwapGt => comparand_to_target.is_some_and(Ordering::is_gt),
        _ => false,
    }
}

#[cfg(test)]
#[path = "operation_tests.rs"]
mod tests;
