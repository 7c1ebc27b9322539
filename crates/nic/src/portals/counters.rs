// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counting events (Portals 4.3, "Lightweight Counting Events").
//!
//! A counter is changed by the holder of the NIC's lock and read by anyone. A change that reaches the lowest
//! threshold that a triggered operation waits for moves that operation, and others due, to the fire queue.
//!
//! A sender that writes the target's memory in place may count in place as well: in a *lane*, a word of the
//! counter that only this sender stores to (no lock, no read-modify-write: what counts is one crossing of the
//! line, as for a flag). It has nothing to do with the rings of messages. Lanes have no thresholds, so a counter has lanes in use or
//! triggered operations, never both. A lane that was given with a grant ([`super::grants`]) is free again when the grant is revoked,
//! and keeps what it holds.
//!
//! Cost: one cache line, plain stores; whoever reads reads one line, or three where more than [`NEAR_LANES`] senders have lanes.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::Nic;
use crate::handle::NONE;
use crate::signals::{Counter, LANES, NEAR_LANES, Signals};
use crate::tables::{CounterBook, slot};

/// Status of counters.
pub const LIVE: u32 = 1;

/// Set in the owner of a lane that belongs to a grant; the rest is the grant's slot.
pub(super) const GRANTED: u32 = 1 << 31;

/// How a sender counts in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// By plain stores to the lane with this index.
    Own(usize),
    /// By atomic additions to [`Counter::common`]: others have all lanes.
    Common,
    /// Not at all: operations wait for the counter, so it counts under the lock.
    Locked,
}

impl<'a> Signals<'a> {
    /// The live counter that this refers to.
    #[inline(always)]
    pub fn counter(&self, reference: u32) -> Option<&'a Counter> {
        let (counter, live) = self.counter_record(reference)?;
        (counter.slot.load(Acquire) == live).then_some(counter)
    }

    /// The record that a reference names, and what its slot says while the counter lives: for who looks at it again and again.
    #[inline(always)]
    pub fn counter_record(&self, reference: u32) -> Option<(&'a Counter, u32)> {
        let (index, generation) = self.encodings.counters.decode(reference);
        Some((self.counters.get(index as usize)?, slot::word(generation, LIVE)))
    }
}

/// The looks of somebody who waits for a counter: most of them at the one word that it has counted most in, and will most likely
/// count in next. A processor that is reading several words of a line while that is taken away begins all of them anew.
pub struct Watch<'a> {
    word: &'a AtomicU64,
    seen: u64,
    looks: u32,
}

impl Watch<'_> {
    /// Looks between two at all of the counter.
    const LOOKS: u32 = 8;

    /// Whether this look is to be at all of it. The first is.
    #[inline(always)]
    pub fn is_due(&mut self) -> bool {
        let (now, turn) = (self.word.load(Acquire), self.looks % Watch::LOOKS == 0);
        self.looks = self.looks.wrapping_add(1);
        let changed = now != self.seen;
        self.seen = now;
        changed || turn
    }
}

impl Counter {
    /// To wait for it.
    #[inline(always)]
    pub fn watch(&self) -> Watch<'_> {
        let word = self
            .given()
            .iter()
            .fold(&self.success, |most, lane| if lane.load(Relaxed) > most.load(Relaxed) { lane } else { most });
        Watch { word, seen: word.load(Relaxed), looks: 0 }
    }

    /// Successes, however they were counted. The words are of one line and each only grows, so what this gives lies
    /// between what was there when it began and when it ended.
    #[inline(always)]
    pub fn arrived(&self) -> u64 {
        self.success.load(Acquire).wrapping_add(self.in_lanes())
    }

    /// The lanes that may hold something.
    #[inline(always)]
    pub fn given(&self) -> &[AtomicU64] {
        if self.lanes_given.load(Acquire) as usize <= NEAR_LANES { &self.lanes[..NEAR_LANES] } else { &self.lanes }
    }

    /// What of that was counted in place.
    #[inline(always)]
    pub(crate) fn in_lanes(&self) -> u64 {
        let (near, far) = self.lanes.split_at(NEAR_LANES);
        let sum = |sum, lane: &AtomicU64| lane.load(Acquire).wrapping_add(sum);
        let nearby = near.iter().fold(self.common.load(Acquire), sum);
        if self.lanes_given.load(Acquire) as usize <= NEAR_LANES { nearby } else { far.iter().fold(nearby, sum) }
    }

    /// Notes that somebody is about to count in a lane; under the lock.
    pub(crate) fn give(&self, lane: usize) {
        let given = self.lanes_given.load(Relaxed).max(lane as u32 + 1);
        self.lanes_given.store(given, Release);
    }
}

impl CounterBook {
    /// What thresholds are held against.
    #[inline(always)]
    pub(crate) fn reached(&self) -> u64 {
        self.success.wrapping_add(self.failure).wrapping_add(self.settled)
    }
}

impl Nic<'_> {
    /// How the sender with this number (not 0) may count at a counter in place: in the lane that it has, else a free one.
    pub fn lane(&mut self, reference: u32, sender: u32) -> Option<Lane> {
        let counter = self.signals.counter(reference)?;
        let (_, book) = self.counter_book(reference)?;
        if book.armed_head != NONE || book.lane_owners.iter().any(|owner| owner & GRANTED != 0) {
            return Some(Lane::Locked);
        }
        let owners = &mut book.lane_owners;
        let free = |lane: &usize| owners[*lane] == 0 && counter.lanes[*lane].load(Relaxed) == 0;
        let owned = owners.iter().position(|&owner| owner == sender);
        let Some(lane) = owned.or_else(|| (0..LANES).find(free)) else { return Some(Lane::Common) };
        owners[lane] = sender;
        counter.give(lane);
        Some(Lane::Own(lane))
    }

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
        let (successes, failures, due) = (book.success, book.failure, book.reached() >= book.threshold_next);
        let Some(counter) = self.signals.counters.get(index) else { return };
        if failure != 0 {
            counter.failure.store(failures, Release);
        }
        counter.success.store(successes, Release);
        if due {
            self.threshold_reached(reference);
        }
    }

    /// Sets a counter. What its lanes hold stays there and is taken off the rest: what is counted in one meanwhile is not lost.
    pub fn count_set(&mut self, reference: u32, success: u64, failure: u64) {
        let in_lanes = self.signals.counter(reference).map_or(0, Counter::in_lanes);
        self.count_set_booked(reference, success.wrapping_sub(in_lanes), failure);
    }

    /// Sets what of a counter is in its books.
    pub(crate) fn count_set_booked(&mut self, reference: u32, success: u64, failure: u64) {
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
