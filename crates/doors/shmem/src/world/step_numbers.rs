// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A team's step and message numbers at this PE (`collective/members.rs` defines a step).
//!
//! Invariants
//! 1. Numbers start at 1, and all members count alike, since they make the same calls.
//! 2. One thread at a time is in a collective call of a team, so plain loads and stores suffice.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Numbers of the last step and messages of a team at this PE.
#[derive(Default)]
pub struct StepNumbers {
    steps: AtomicU64,
    /// Messages of the broadcast ring, and those since the last step.
    ring: AtomicU64,
    since_step: AtomicU64,
    chain: AtomicU64,
}

impl StepNumbers {
    /// Resets all numbers to zero, for a new team whose area was cleared.
    pub fn reset(&self) {
        for number in [&self.steps, &self.ring, &self.since_step, &self.chain] {
            number.store(0, Relaxed);
        }
    }

    /// The number of the next step.
    #[inline(always)]
    pub fn next_step(&self) -> u64 {
        self.since_step.store(0, Relaxed);
        next(&self.steps)
    }

    /// The number of the next message of the ring.
    #[inline(always)]
    pub fn next_ring(&self) -> u64 {
        next(&self.since_step);
        next(&self.ring)
    }

    /// Messages of the ring since the last step.
    #[inline(always)]
    pub fn since_step(&self) -> u64 {
        self.since_step.load(Relaxed)
    }

    /// The number of the next piece of the chain.
    #[inline(always)]
    pub fn next_piece(&self) -> u64 {
        next(&self.chain)
    }
}

#[inline(always)]
fn next(number: &AtomicU64) -> u64 {
    let next = number.load(Relaxed) + 1;
    number.store(next, Relaxed);
    next
}
