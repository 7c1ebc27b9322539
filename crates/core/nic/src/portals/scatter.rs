// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ranges of memory through I/O vectors.
//!
//! A vector (pairs of words, address and bytes) is copied into the NIC's heap when an entry or descriptor is made. A
//! range of `bytes` from `offset` is a sequence of pieces, visited in order. O(vectors before the range's end).

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::handle::NONE;
use crate::layout::BLOCK_BYTES;

/// Words of a heap block.
pub const BLOCK_WORDS: usize = (BLOCK_BYTES / 8) as usize;

/// Memory of an entry or descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    pub start: u64,
    pub iov: u32,
    pub iov_count: u32,
}

impl Region {
    #[inline]
    fn vector(self, heap: &[AtomicU64], index: u32) -> Option<(u64, u64)> {
        let word = (self.iov as usize).checked_mul(BLOCK_WORDS)?.checked_add(index as usize * 2)?;
        Some((heap.get(word)?.load(Relaxed), heap.get(word + 1)?.load(Relaxed)))
    }

    /// Visits the pieces of a range: `visit(address, offset within the range, bytes)`. `outside`: the error if the
    /// vector is shorter than its owner's record.
    #[inline]
    pub fn pieces<E>(
        self,
        heap: &[AtomicU64],
        offset: u64,
        bytes: u64,
        outside: E,
        mut visit: impl FnMut(u64, u64, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        if bytes == 0 {
            return Ok(());
        }
        if self.iov == NONE {
            return visit(self.start.wrapping_add(offset), 0, bytes);
        }
        let (mut skip, mut done) = (offset, 0);
        for index in 0..self.iov_count {
            let Some((address, length)) = self.vector(heap, index) else { return Err(outside) };
            if skip >= length {
                skip -= length;
                continue;
            }
            let piece = (length - skip).min(bytes - done);
            visit(address.wrapping_add(skip), done, piece)?;
            done += piece;
            skip = 0;
            if done == bytes {
                return Ok(());
            }
        }
        Err(outside)
    }

    /// The address of the byte at `offset`; the region's start if there is none.
    pub fn address_at(self, heap: &[AtomicU64], offset: u64) -> u64 {
        let mut found = None;
        let _ = self.pieces(heap, offset, 1, (), |address, _, _| {
            found = Some(address);
            Err(())
        });
        found.unwrap_or(self.start)
    }
}
