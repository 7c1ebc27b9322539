// SPDX-License-Identifier: Apache-2.0 OR MIT
//! References to records of tables: an index and a generation, in 27 bits.
//!
//! A slot's generation changes when it is freed, so a stale reference differs from a live one. The table's capacity
//! determines the bits of the index; the rest are generation. The all-ones generation is never used, so that no live
//! reference reads as a constant of the API (`PTL_EQ_NONE`, `PTL_CT_NONE`, `PTL_INVALID_HANDLE`).

/// Bits of a reference; the API's handles add kind and interface above them.
pub const REFERENCE_BITS: u32 = 27;
/// No record.
pub const NONE: u32 = u32::MAX;
/// Most records of one table: a NIC with every table this large takes about 1 GiB, and references have 7 bits of
/// generation.
pub const CAPACITY_MAX: u32 = 1 << 20;

/// The encoding of references to one table's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    index_bits: u32,
}

impl Encoding {
    /// The encoding for a table with this number of slots (at most [`CAPACITY_MAX`]).
    #[inline(always)]
    pub const fn new(capacity: usize) -> Self {
        let bits = if capacity <= 1 { 1 } else { usize::BITS - (capacity - 1).leading_zeros() };
        Self { index_bits: bits }
    }

    /// Number of generations; the last one is followed by 0. A slot has 24 bits for them.
    #[inline]
    pub const fn generations(self) -> u32 {
        let bits = REFERENCE_BITS - self.index_bits;
        (1 << if bits > 24 { 24 } else { bits }) - 1
    }

    /// The reference to a slot.
    #[inline]
    pub const fn encode(self, index: u32, generation: u32) -> u32 {
        (generation << self.index_bits) | index
    }

    /// Index and generation.
    #[inline]
    pub const fn decode(self, reference: u32) -> (u32, u32) {
        (reference & ((1 << self.index_bits) - 1), reference >> self.index_bits)
    }

    /// The generation after this one.
    #[inline]
    pub const fn next_generation(self, generation: u32) -> u32 {
        let next = generation + 1;
        if next >= self.generations() { 0 } else { next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_decodes_to_what_was_encoded_and_none_is_all_ones() {
        for capacity in [1usize, 2, 3, 64, 65, 8192, 70_000, CAPACITY_MAX as usize] {
            let encoding = Encoding::new(capacity);
            for index in [0, capacity as u32 / 2, capacity as u32 - 1] {
                let mut generation = 0;
                for _ in 0..encoding.generations().min(1000) {
                    let reference = encoding.encode(index, generation);
                    assert!(reference < (1 << REFERENCE_BITS) - 1 || index != (1 << encoding.index_bits) - 1);
                    assert_eq!(encoding.decode(reference), (index, generation));
                    generation = encoding.next_generation(generation);
                }
            }
            assert_eq!(encoding.next_generation(encoding.generations() - 1), 0);
        }
    }
}
