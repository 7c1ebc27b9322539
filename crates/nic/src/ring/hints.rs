// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hints of a ring to the processor and the compiler.

use crate::atomics::AtomicU64;

/// Hints to the processor and the compiler. A home implements them; nothing but time depends on them.
pub trait Hints {
    /// The line of this word will be read soon.
    fn will_read(word: &AtomicU64);
    /// The lines of so many bytes from this word on will be read soon. They may end past the ring.
    fn will_read_bytes(word: &AtomicU64, bytes: usize);
    /// The line of this word will be written soon. Nobody needs the word's value: it may be stored over.
    fn will_write(word: &AtomicU64);
    /// The same value, of which the compiler must know nothing. It keeps the compiler from making several counters of one.
    fn opaque(value: u64) -> u64;
}

/// No hints.
pub struct NoHints;

impl Hints for NoHints {
    #[inline(always)]
    fn will_read(_: &AtomicU64) {}
    #[inline(always)]
    fn will_read_bytes(_: &AtomicU64, _: usize) {}
    #[inline(always)]
    fn will_write(_: &AtomicU64) {}
    #[inline(always)]
    fn opaque(value: u64) -> u64 {
        value
    }
}
