// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory for calls of `malloc` that `dlsym` makes while [`crate::system`] looks for the allocator behind this library.
//!
//! Invariants
//! 1. Only the thread that looks allocates here, and nothing is allocated once the allocator is known.
//! 2. Blocks are aligned to [`ALIGN`] at least, zeroed, and never reused: freeing one has no effect.
//! 3. The word before a block holds its size.
//!
//! Costs: [`AREA_BYTES`] of zero pages.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const AREA_BYTES: usize = 64 << 10;
const ALIGN: usize = 16;

#[repr(C, align(4096))]
pub struct Early {
    bytes: UnsafeCell<[u8; AREA_BYTES]>,
    used: AtomicUsize,
}

// SAFETY: blocks are disjoint parts of `bytes`, made by an atomic addition; nothing makes a reference to the whole.
unsafe impl Sync for Early {}

pub static EARLY: Early = Early::new();

impl Early {
    const fn new() -> Early {
        Early { bytes: UnsafeCell::new([0; AREA_BYTES]), used: AtomicUsize::new(0) }
    }

    fn start(&self) -> *mut u8 {
        self.bytes.get().cast()
    }

    pub fn is_used(&self) -> bool {
        self.used.load(Relaxed) != 0
    }

    pub fn holds(&self, block: *const u8) -> bool {
        (block as usize).wrapping_sub(self.start() as usize) < AREA_BYTES
    }

    /// Allocates zeroed bytes at a multiple of `align`, a power of two up to a page. Null if the area is full.
    pub fn take(&self, bytes: usize, align: usize) -> *mut u8 {
        let place = |used: usize| {
            let at = used.checked_add(size_of::<usize>())?.next_multiple_of(align.max(ALIGN));
            let end = at.checked_add(bytes)?;
            (end <= AREA_BYTES && align <= align_of::<Early>()).then_some((at, end))
        };
        let Ok(used) = self.used.fetch_update(Relaxed, Relaxed, |used| Some(place(used)?.1)) else {
            return ptr::null_mut();
        };
        let Some((at, _)) = place(used) else { return ptr::null_mut() };
        // SAFETY: the block and the aligned word before it lie in the area, behind `used` bytes that other blocks may have.
        unsafe {
            let block = self.start().add(at);
            block.cast::<usize>().sub(1).write(bytes);
            block
        }
    }

    /// The size of a block.
    ///
    /// # Safety
    /// `block` is a block of this area.
    pub unsafe fn size(&self, block: *const u8) -> usize {
        // SAFETY: `take` has written the word before the block.
        unsafe { block.cast::<usize>().sub(1).read() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_apart_zeroed_and_aligned_until_the_area_is_full() {
        static AREA: Early = Early::new();
        assert!(!AREA.is_used());
        let mut end = 0;
        for (bytes, align) in [(1, 1), (100, 16), (5, 4096), (0, 64)] {
            let block = AREA.take(bytes, align);
            assert!(AREA.holds(block) && block as usize % align.max(ALIGN) == 0 && block as usize >= end);
            // SAFETY: `take` has made a block of this many bytes.
            unsafe {
                assert_eq!(AREA.size(block), bytes);
                assert!(std::slice::from_raw_parts(block, bytes).iter().all(|byte| *byte == 0));
                block.write_bytes(7, bytes);
            }
            end = block as usize + bytes;
        }
        assert!(AREA.take(AREA_BYTES, 1).is_null() && AREA.take(usize::MAX, 1).is_null(), "too large");
        assert!(AREA.take(1, 8192).is_null() && AREA.is_used());
        assert!(!AREA.holds(ptr::null()));
    }
}
