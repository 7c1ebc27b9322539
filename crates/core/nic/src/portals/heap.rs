// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The heap of a NIC: event rings and copies of I/O vectors, in blocks of 128 bytes. [`Buddy`] allocates them in O(log
//! n).

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use super::scatter::BLOCK_WORDS;
use crate::buddy::Buddy;
use crate::errors::{Corrupt, Full};
use crate::handle::NONE;
use crate::layout::BLOCK_BYTES;

/// The heap, for the holder of the lock.
pub struct Heap<'n> {
    pub(crate) map: &'n mut [u64],
    pub(crate) words: &'n [AtomicU64],
}

impl Heap<'_> {
    /// Allocates contiguous heap blocks. Returns the first.
    pub fn alloc(&mut self, blocks: u32) -> Result<u32, Full> {
        Buddy::attach(self.map).ok().and_then(|mut heap| heap.alloc(blocks)).ok_or(Full)
    }

    /// Frees heap blocks.
    pub fn free(&mut self, first: u32) {
        if let Ok(mut heap) = Buddy::attach(self.map) {
            let _ = heap.free(first);
        }
    }

    /// Extends the heap, after its owner has made room behind it.
    pub fn grow(&mut self, blocks: u32) -> Result<(), Corrupt> {
        Buddy::attach(self.map).map_err(|_| Corrupt)?.grow(blocks);
        Ok(())
    }

    /// Number of heap blocks: in all, free, and in the largest free piece.
    pub fn blocks(&mut self) -> (u32, u32, u32) {
        match Buddy::attach(self.map) {
            Ok(heap) => (heap.blocks_now(), heap.free_blocks(), heap.largest_free()),
            Err(_) => (0, 0, 0),
        }
    }

    /// Copies an I/O vector (addresses and bytes) into the heap. Returns its first block.
    pub fn store_iov(&mut self, vectors: impl ExactSizeIterator<Item = (u64, u64)>) -> Result<u32, Full> {
        let per_block = BLOCK_BYTES / 16;
        let blocks = (vectors.len() as u64).div_ceil(per_block).max(1);
        let iov = self.alloc(u32::try_from(blocks).map_err(|_| Full)?)?;
        let first = iov as usize * BLOCK_WORDS;
        for (index, (address, bytes)) in vectors.enumerate() {
            for (word, value) in [(0, address), (1, bytes)] {
                if let Some(place) = self.words.get(first + index * 2 + word) {
                    place.store(value, Relaxed);
                }
            }
        }
        Ok(iov)
    }

    /// Frees an I/O vector, if there is one.
    pub fn free_iov(&mut self, iov: u32) {
        if iov != NONE {
            self.free(iov);
        }
    }
}
