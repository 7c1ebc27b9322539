// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counting events (Portals 4.3, "Lightweight Counting Events").
//!
//! The holder of the NIC's lock changes a counter; any thread may read it. Each change is compared with the lowest
//! threshold among the counter's triggered operations. If the count reaches it, the NIC moves the operations that are
//! due to the fire queue.
//!
//! A sender that maps the target's memory may also count without the lock, in a *lane*: a word of the counter that only
//! this sender stores to. It needs no read-modify-write: as for a flag, the cost is one transfer of the cache line.
//! Lanes are unrelated to the rings of messages. They have no thresholds, so a counter has lanes in use or triggered
//! operations, never both. Some lanes come with a grant ([`super::grants`]). Such a lane is free again when the grant
//! is revoked, and it keeps its value.
//!
//! Cost: one cache line and plain stores. A reader reads one line, or three if more than [`NEAR_LANES`] senders have
//! lanes.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::errors::Full;
use crate::handle::NONE;
use crate::nic::Nic;
use crate::signals::{Counter, LANES, NEAR_LANES, Signals};
use crate::tables::{CounterBook, GRANTED, counter, slot};
use crate::tap::Transition;

/// A sender's method of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// By plain stores to the lane with this index.
    Own(usize),
    /// By atomic additions to [`Counter::common`], because other senders have all lanes.
    Common,
    /// Under the lock only, because triggered operations wait for the counter.
    Locked,
}

impl<'a> Signals<'a> {
    /// The live counter that a reference names.
    #[inline(always)]
    pub fn counter(&self, reference: u32) -> Option<&'a Counter> {
        let (counter, live) = self.counter_record(reference)?;
        (counter.slot.load(Acquire) == live).then_some(counter)
    }

    /// The record that a reference names, and the value of its slot while the counter lives. A polling caller keeps
    /// both.
    #[inline(always)]
    pub fn counter_record(&self, reference: u32) -> Option<(&'a Counter, u32)> {
        let (index, generation) = self.encodings.counters.decode(reference);
        Some((self.counters.get(index as usize)?, slot::word(generation, counter::LIVE)))
    }
}

/// The state of a thread that polls a counter. Most polls read only the word with the highest count, which is the
/// likeliest to change next: a processor that reads several words of a line restarts all these loads when another
/// processor takes the line away.
pub struct Watch<'a> {
    word: &'a AtomicU64,
    seen: u64,
    looks: u32,
}

impl Watch<'_> {
    /// One poll out of this many reads the whole counter.
    const LOOKS: u32 = 8;

    /// Whether this poll must read the whole counter, as the first one must.
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
    /// Starts to poll this counter.
    #[inline(always)]
    pub fn watch(&self) -> Watch<'_> {
        let word = self
            .given()
            .iter()
            .fold(&self.success, |most, lane| if lane.load(Relaxed) > most.load(Relaxed) { lane } else { most });
        Watch { word, seen: word.load(Relaxed), looks: 0 }
    }

    /// Successes, from all sources. Each word only grows. So the sum lies between the true counts at the start and at
    /// the end of this call.
    #[inline(always)]
    pub fn arrived(&self) -> u64 {
        self.success.load(Acquire).wrapping_add(self.in_lanes())
    }

    /// The lanes that may hold a count.
    #[inline(always)]
    pub fn given(&self) -> &[AtomicU64] {
        if self.lanes_given.load(Acquire) as usize <= NEAR_LANES { &self.lanes[..NEAR_LANES] } else { &self.lanes }
    }

    /// The part of the successes that senders counted without the lock.
    #[inline(always)]
    pub(crate) fn in_lanes(&self) -> u64 {
        let (near, far) = self.lanes.split_at(NEAR_LANES);
        let sum = |sum, lane: &AtomicU64| lane.load(Acquire).wrapping_add(sum);
        let nearby = near.iter().fold(self.common.load(Acquire), sum);
        if self.lanes_given.load(Acquire) as usize <= NEAR_LANES { nearby } else { far.iter().fold(nearby, sum) }
    }

    /// Notes that a sender may now count in this lane. The caller holds the lock.
    pub(crate) fn give(&self, lane: usize) {
        let given = self.lanes_given.load(Relaxed).max(lane as u32 + 1);
        self.lanes_given.store(given, Release);
    }
}

impl CounterBook {
    /// The value that thresholds are compared with.
    #[inline(always)]
    pub(crate) fn reached(&self) -> u64 {
        self.success.wrapping_add(self.failure).wrapping_add(self.lanes_when_armed)
    }
}

/// The counters, with the operations that wait for them, for the holder of the lock.
pub struct Counters<'n, 'a> {
    pub(crate) nic: &'n mut Nic<'a>,
}

impl<'n> Counters<'n, '_> {
    /// Allocates a counter, at zero.
    pub fn alloc(self) -> Result<u32, Full> {
        if self.nic.tap.is_open() {
            return self
                .nic
                .tapped(|nic| nic.counters().alloc(), |made| Some(Transition::CounterAlloc { counter: made.ok() }));
        }
        let index = self.nic.tables.control.free_counter;
        let book = self.nic.tables.counters.get_mut(index as usize).ok_or(Full)?;
        let counter = self.nic.signals.counters.get(index as usize).ok_or(Full)?;
        self.nic.tables.control.free_counter = slot::next(index, book.next_free);
        let generation = slot::generation(book.slot);
        let live = slot::word(generation, counter::LIVE);
        *book = CounterBook {
            slot: live,
            next_free: NONE,
            threshold_next: u64::MAX,
            armed_head: NONE,
            armed_tail: NONE,
            ..CounterBook::default()
        };
        counter.success.store(0, Relaxed);
        counter.failure.store(0, Relaxed);
        counter.given().iter().for_each(|lane| lane.store(0, Relaxed));
        counter.lanes_given.store(0, Relaxed);
        counter.common.store(0, Relaxed);
        counter.slot.store(live, Release);
        Ok(self.nic.signals.encodings.counters.encode(index, generation))
    }

    /// The method by which the sender with this number (not 0) may count: in its lane, else in a free lane.
    pub fn lane(self, reference: u32, sender: u32) -> Option<Lane> {
        let counter = self.nic.signals.counter(reference)?;
        if self.nic.tap.is_set() {
            return Some(Lane::Locked);
        }
        let (_, book) = self.nic.counters().book(reference)?;
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

    /// The index and the writers' record of a live counter.
    #[inline(always)]
    pub(crate) fn book(self, reference: u32) -> Option<(usize, &'n mut CounterBook)> {
        let (index, generation) = self.nic.signals.encodings.counters.decode(reference);
        let book = self.nic.tables.counters.get_mut(index as usize)?;
        (book.slot == slot::word(generation, counter::LIVE)).then_some((index as usize, book))
    }

    /// Adds to a counter. An unknown reference is ignored.
    #[inline(always)]
    pub fn increment(self, reference: u32, success: u64, failure: u64) {
        if self.nic.tap.is_set() {
            self.nic.show_count(reference, success, failure);
        }
        let Some((index, book)) = self.nic.counters().book(reference) else { return };
        book.success = book.success.wrapping_add(success);
        book.failure = book.failure.wrapping_add(failure);
        let (successes, failures, due) = (book.success, book.failure, book.reached() >= book.threshold_next);
        let Some(counter) = self.nic.signals.counters.get(index) else { return };
        if failure != 0 {
            counter.failure.store(failures, Release);
        }
        counter.success.store(successes, Release);
        if due {
            self.nic.counters().threshold_reached(reference);
        }
    }

    /// Sets a counter. The lanes keep their values and the record holds the difference, so a concurrent count in a lane
    /// is not lost.
    pub fn set(self, reference: u32, success: u64, failure: u64) {
        if self.nic.tap.is_open() {
            return self.nic.tapped_quietly(
                |nic| nic.counters().set(reference, success, failure),
                |()| Some(Transition::CountSet { counter: reference, success, failure }),
            );
        }
        let in_lanes = self.nic.signals.counter(reference).map_or(0, Counter::in_lanes);
        self.nic.counters().set_booked(reference, success.wrapping_sub(in_lanes), failure);
    }

    /// Sets the part of a counter that its record holds.
    pub(crate) fn set_booked(self, reference: u32, success: u64, failure: u64) {
        let Some((_, book)) = self.nic.counters().book(reference) else { return };
        (book.success, book.failure) = (success, failure);
        self.nic.counters().increment(reference, 0, 0);
        if let Some(counter) = self.nic.signals.counter(reference) {
            counter.failure.store(failure, Release);
        }
    }

    /// Counts the end of an operation: on success its bytes or one, else one failure.
    #[inline(always)]
    pub(crate) fn count_outcome(self, reference: u32, ok: bool, in_bytes: bool, bytes: u64) {
        match (ok, in_bytes) {
            (true, false) => self.nic.counters().increment(reference, 1, 0),
            (true, true) => self.nic.counters().increment(reference, bytes, 0),
            (false, _) => self.nic.counters().increment(reference, 0, 1),
        }
    }

    #[inline]
    pub(crate) fn total(self, counter: u32) -> u64 {
        self.nic.counters().book(counter).map_or(0, |(_, book)| book.success.wrapping_add(book.failure))
    }
}
