// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The blocks of the symmetric heap.
//!
//! Invariants
//! 1. This table depends on the calls only. All PEs make the same calls, so an object has the same offset at every PE.
//! 2. Every block starts on a cache line, so words of two blocks never share one.
//!
//! Costs: O(log n) in the number of free blocks; less than 64 bytes of waste a block.

use std::collections::BTreeMap;

use selvedge_process::Extents;

pub(crate) const BLOCK_BYTES: u64 = 64;

/// The used and the free blocks of the heap.
pub(crate) struct Heap {
    free: Extents,
    /// The first block and the number of blocks of each allocation.
    used: BTreeMap<u64, u64>,
    heap_at: u64,
}

impl Heap {
    pub fn new(heap_at: u64, heap_bytes: u64) -> Heap {
        let mut free = Extents::default();
        if heap_bytes != 0 {
            free.give(0, heap_bytes / BLOCK_BYTES);
        }
        Heap { free, used: BTreeMap::new(), heap_at }
    }

    /// Allocates a run of blocks whose start is a multiple of `align` bytes. Returns its first block.
    pub fn take(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        // A run that is longer by the alignment contains an aligned one. Its ends are freed.
        let slack = align.saturating_sub(BLOCK_BYTES).div_ceil(BLOCK_BYTES);
        let run = self.free.take(blocks.checked_add(slack)?)?;
        let start = (self.heap_at + run * BLOCK_BYTES).next_multiple_of(align) - self.heap_at;
        let first = start / BLOCK_BYTES;
        if first > run {
            self.free.give(run, first - run);
        }
        let (end, taken) = (run + blocks + slack, first + blocks);
        if end > taken {
            self.free.give(taken, end - taken);
        }
        self.used.insert(first, blocks);
        Some(first)
    }

    /// Whether an allocation starts at a block.
    pub fn has(&self, first: u64) -> bool {
        self.used.contains_key(&first)
    }

    /// Frees the allocation that starts at a block.
    pub fn give(&mut self, first: u64) {
        if let Some(blocks) = self.used.remove(&first) {
            self.free.give(first, blocks);
        }
    }

    /// Changes the length of an allocation without moving it.
    pub fn resize(&mut self, first: u64, bytes: u64) -> bool {
        let Some(&held) = self.used.get(&first) else { return false };
        let wanted = bytes.div_ceil(BLOCK_BYTES).max(1);
        if wanted < held {
            self.free.give(first + wanted, held - wanted);
        } else if wanted > held && !self.free.take_at(first + held, wanted - held) {
            return false;
        }
        self.used.insert(first, wanted);
        true
    }

    /// Bytes of the heap up to the end of an allocation.
    pub fn end_bytes(&self, first: u64) -> u64 {
        (first + self.used.get(&first).copied().unwrap_or(0)) * BLOCK_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_joined_again_and_resized_in_place() {
        let mut heap = Heap::new(4096, 1 << 20);
        let a = heap.take(100, 64).expect("room");
        let b = heap.take(1, 4096).expect("room");
        assert_eq!((4096 + b * BLOCK_BYTES) % 4096, 0);
        assert!(heap.resize(b, 8192) && heap.resize(b, 10));
        heap.give(a);
        heap.give(b);
        assert_eq!(heap.take(1 << 20, 64), Some(0), "all of it is one run again");
        assert_eq!(heap.take(1, 64), None);
    }
}
