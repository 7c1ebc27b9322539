// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counting events (Portals 4.3, "Lightweight Counting Events").
//!
//! A counter is changed by the holder of the NIC's lock and read by anyone. A change that reaches the lowest
//! threshold that a triggered operation waits for moves that operation, and others due, to the fire queue.
//!
//! Cost: one cache line, plain stores.

use core::sync::atomic::Ordering::{Acquire, Release};

use crate::Nic;
use crate::signals::{Counter, Signals};
use crate::tables::{CounterBook, slot};

/// Status of counters.
pub const LIVE: u32 = 1;

impl<'a> Signals<'a> {
    /// The live counter that this refers to.
    #[inline(always)]
    pub fn counter(&self, reference: u32) -> Option<&'a Counter> {
        let (index, generation) = self.encodings.counters.decode(reference);
        let counter = self.counters.get(index as usize)?;
        (counter.slot.load(Acquire) == slot::word(generation, LIVE)).then_some(counter)
    }
}

impl Nic<'_> {
    /// The books of a live counter.
    #[inline(always)]
    pub(crate) fn counter_book(&mut self, reference: u32) -> Option<(usize, &mut CounterBook)> {
        let (index, generation) = self.signals.encodings.counters.decode(reference);
        let book = self.tables.counters.get_mut(index as usize)?;
        (book.slot == slot::word(generation, LIVE)).then_some((index as usize, book))
    }

    /// Adds to a counter; nothing happens without one.
    #[inline(always)]
    pub fn count(&mut self, reference: u32, success: u64, failure: u64) {
        let Some((index, book)) = self.counter_book(reference) else { return };
        book.success = book.success.wrapping_add(success);
        book.failure = book.failure.wrapping_add(failure);
        let (successes, failures, threshold) = (book.success, book.failure, book.threshold_next);
        let Some(counter) = self.signals.counters.get(index) else { return };
        if failure != 0 {
            counter.failure.store(failures, Release);
        }
        counter.success.store(successes, Release);
        if successes.wrapping_add(failures) >= threshold {
            self.threshold_reached(reference);
        }
    }

    /// Sets a counter.
    pub fn count_set(&mut self, reference: u32, success: u64, failure: u64) {
        let Some((_, book)) = self.counter_book(reference) else { return };
        (book.success, book.failure) = (success, failure);
        self.count(reference, 0, 0);
        if let Some(counter) = self.signals.counter(reference) {
            counter.failure.store(failure, Release);
        }
    }

    /// Counts an operation's end: bytes or operations on success, one failure otherwise.
    #[inline(always)]
    pub(crate) fn count_outcome(&mut self, reference: u32, ok: bool, in_bytes: bool, bytes: u64) {
        match (ok, in_bytes) {
            (true, false) => self.count(reference, 1, 0),
            (true, true) => self.count(reference, bytes, 0),
            (false, _) => self.count(reference, 0, 1),
        }
    }
}
