// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hints of a ring to the processor and the compiler.

use crate::atomics::AtomicU64;

/// Hints to the processor and the compiler, implemented by a home. They affect time only.
pub trait Hints {
    /// Prefetches the line of this word, for reading.
    fn prefetch_read(word: &AtomicU64);
    /// Prefetches the lines of this many bytes, from this word on, for reading. They may end behind the ring.
    fn prefetch_read_bytes(word: &AtomicU64, bytes: usize);
    /// Takes exclusive ownership of the line of this word, because it will be written soon. The implementation may
    /// store to the word: its value is not needed.
    fn take_ownership(word: &AtomicU64);
    /// Returns the value, and hides it from the compiler, which would otherwise split one counter into several.
    fn opaque(value: u64) -> u64;
}

/// No hints.
pub struct NoHints;

impl Hints for NoHints {
    #[inline(always)]
    fn prefetch_read(_: &AtomicU64) {}
    #[inline(always)]
    fn prefetch_read_bytes(_: &AtomicU64, _: usize) {}
    #[inline(always)]
    fn take_ownership(_: &AtomicU64) {}
    #[inline(always)]
    fn opaque(value: u64) -> u64 {
        value
    }
}
