// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values in memory: loads and stores of an element, and the loops over elements.
//!
//! Memory is little-endian and may lie at any address. Only the value of a whole slot changes, never its padding.
//!
//! Costs: the only branch of a loop is its end, if `function` has none. So the compiler vectorises it. A branch on the
//! data would prevent that.

use core::convert::identity;

/// A value in memory, in a slot of `SLOT_BYTES`. Callers pass whole slots.
pub(super) trait Element: Copy {
    /// The value as it lies in memory, without padding.
    type Bits: Copy;
    /// Size of the slot, with padding: a power of two.
    const SLOT_BYTES: usize;
    fn read(slot: &[u8]) -> Self::Bits;
    fn write(bits: Self::Bits, slot: &mut [u8]);
    fn from_bits(bits: Self::Bits) -> Self;
    fn to_bits(self) -> Self::Bits;

    #[inline]
    fn load(slot: &[u8]) -> Self {
        Self::from_bits(Self::read(slot))
    }
}

/// A value with an order. A NaN may be unordered.
pub(super) trait Ordered: Element + PartialOrd {
    #[inline]
    fn is_nan(self) -> bool {
        false
    }
}

/// Elements whose bits are a primitive integer.
macro_rules! element {
    ($($type:ty: $bits:ty, $from_bits:expr, $to_bits:expr;)*) => {$(
        impl Element for $type {
            type Bits = $bits;
            const SLOT_BYTES: usize = size_of::<$bits>();
            #[inline]
            fn read(slot: &[u8]) -> $bits {
                slot.first_chunk().copied().map_or(0, <$bits>::from_le_bytes)
            }
            #[inline]
            fn write(bits: $bits, slot: &mut [u8]) {
                if let Some(bytes) = slot.first_chunk_mut() {
                    *bytes = bits.to_le_bytes();
                }
            }
            #[inline]
            fn from_bits(bits: $bits) -> Self {
                $from_bits(bits)
            }
            #[inline]
            fn to_bits(self) -> $bits {
                $to_bits(self)
            }
        }
    )*};
}
element! {
    i8: i8, identity, identity;
    u8: u8, identity, identity;
    i16: i16, identity, identity;
    u16: u16, identity, identity;
    i32: i32, identity, identity;
    u32: u32, identity, identity;
    i64: i64, identity, identity;
    u64: u64, identity, identity;
    f32: u32, f32::from_bits, f32::to_bits;
    f64: u64, f64::from_bits, f64::to_bits;
}

/// Computes `target = function(target, operand)` for each whole element.
#[inline]
pub(super) fn each<E: Element>(target: &mut [u8], operand: &[u8], function: impl Fn(E, E) -> E) {
    each_bits::<E>(target, operand, |target, operand| function(E::from_bits(target), E::from_bits(operand)).to_bits());
}

/// As [`each`], on the bits of the values: for results that equal one of the two bit for bit.
#[inline]
pub(super) fn each_bits<E: Element>(target: &mut [u8], operand: &[u8], function: impl Fn(E::Bits, E::Bits) -> E::Bits) {
    for (target, operand) in target.chunks_exact_mut(E::SLOT_BYTES).zip(operand.chunks_exact(E::SLOT_BYTES)) {
        E::write(function(E::read(target), E::read(operand)), target);
    }
}
