// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counting events (Portals 4.3, "Lightweight Counting Events").
//!
//! A counter is changed by the holder of the NIC's lock and read by anyone. A change that reaches the lowest
//! threshold that a triggered operation waits for moves that operation, and others due, to the fire queue.
//!
//! Cost: one cache line, plain stores.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::Nic;
use crate::handle::Encoding;
use crate::signals::{Counter, Signals};
use crate::tables::slot;

/// Status of counters.
pub const LIVE: u32 = 1;

impl<'a> Signals<'a> {
    /// The live counter that this refers to.
    #[inline(always)]
    pub fn counter(&self, reference: u32) -> Option<&'a Counter> {
        let (index, generation) = Encoding::new(self.counters.len()).decode(reference);
        let counter = self.counters.get(index as usize)?;
        (counter.slot.load(Acquire) == slot::word(generation, LIVE)).then_some(counter)
    }
}

impl Nic<'_> {
    /// Adds to a counter; nothing happens without one.
    #[inline(always)]
    pub fn count(&mut self, reference: u32, success: u64, failure: u64) {
        let Some(counter) = self.signals.counter(reference) else { return };
        let successes = counter.success.load(Relaxed).wrapping_add(success);
        let failures = counter.failure.load(Relaxed).wrapping_add(failure);
        if failure != 0 {
            counter.failure.store(failures, Release);
        }
        counter.success.store(successes, Release);
        if successes.wrapping_add(failures) >= counter.threshold_next.load(Relaxed) {
            self.threshold_reached(reference);
        }
    }

    /// Sets a counter.
    pub fn count_set(&mut self, reference: u32, success: u64, failure: u64) {
        let Some(counter) = self.signals.counter(reference) else { return };
        counter.failure.store(failure, Release);
        counter.success.store(success, Release);
        if success.wrapping_add(failure) >= counter.threshold_next.load(Relaxed) {
            self.threshold_reached(reference);
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
