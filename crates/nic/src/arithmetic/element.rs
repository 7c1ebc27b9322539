// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values in memory: how an element is loaded and stored, and the loops over elements.
//!
//! Memory is little-endian and may lie at any address. Only whole slots change, and of a slot only the value.

/// A value in memory, in a slot of `SLOT_BYTES`. Callers pass whole slots.
pub(super) trait Element: Copy {
    /// Size of the slot, with padding: a power of two.
    const SLOT_BYTES: usize;
    /// The value is in this many bytes from the start of the slot.
    const VALUE_BYTES: usize;
    fn load(slot: &[u8]) -> Self;
    fn store(self, slot: &mut [u8]);
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

/// Computes `target = function(target, operand)` for each whole element.
#[inline]
pub(super) fn each<E: Element>(target: &mut [u8], operand: &[u8], function: impl Fn(E, E) -> E) {
    for (target, operand) in target.chunks_exact_mut(E::SLOT_BYTES).zip(operand.chunks_exact(E::SLOT_BYTES)) {
        function(E::load(target), E::load(operand)).store(target);
    }
}

/// Copies the bits of the operand over each target element for which `takes(target, operand)` is true.
pub(super) fn select<E: Element>(target: &mut [u8], operand: &[u8], takes: impl Fn(E, E) -> bool) {
    for (target, operand) in target.chunks_exact_mut(E::SLOT_BYTES).zip(operand.chunks_exact(E::SLOT_BYTES)) {
        if takes(E::load(target), E::load(operand)) {
            for (target, operand) in target.iter_mut().zip(operand).take(E::VALUE_BYTES) {
                *target = *operand;
            }
        }
    }
}
