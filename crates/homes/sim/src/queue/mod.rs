// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event queue of a simulation in virtual time.
//!
//! Invariants
//! 1. Events are taken in order of time; events of one time in the order in which they were scheduled, or in an order
//!    that the caller gives ([`Queue::schedule_as`]). A queue has events of one kind or the other.
//! 2. No event is in the past: an event that is scheduled for an earlier time gets the current time.
//! 3. The division of time into days does not change the order.
//!
//! It is a calendar queue (R. Brown, "Calendar queues: a fast O(1) priority queue implementation for the simulation
//! event set problem", CACM 31(10), 1988). Time is divided into days of 2^k ps, and a year is a number of days. Today's
//! events are sorted. Events of the other days of this year are in an unsorted list for each day. Events of later years
//! are in a heap, and so are events that are scheduled for today after today began. A day is about as long as the gap
//! between two events, and a year so long that few events lie beyond it. Then scheduling and taking cost O(1),
//! otherwise O(log n). 40 bytes an event, 4 bytes a day.
//!
//! A large queue has fewer and longer days: the state of its events is in no cache, and a caller that knows a day's
//! events can fetch it ahead ([`Queue::look_ahead`]). That saves more than sorting the day costs.

mod heap;

use selvedge_os::huge::prefer_huge_pages;
use selvedge_os::lines::about_to_read;

use crate::time::Time;

use heap::{Heap, Scheduled};

/// An event queue.
#[derive(Debug)]
pub struct Queue<E> {
    /// Events that were in the queue for today when it began, next event last.
    today: Vec<Scheduled<E>>,
    /// Events that were scheduled for today after it began.
    late: Heap<E>,
    /// Head of the list of each other day of the year in `slots`, or `NONE`.
    days: Vec<u32>,
    /// A bit for each day whose list is not empty, and a bit for each word of these that is not 0.
    filled: Vec<u64>,
    filled_words: Vec<u64>,
    slots: Vec<Slot<E>>,
    /// Head of the list of free slots.
    free: u32,
    /// Events that were beyond this year when they were scheduled.
    beyond: Heap<E>,
    /// A day has 2^shift ps.
    shift: u32,
    /// Today: days since time 0.
    day: u64,
    review: Review,
    /// Days have many events.
    is_large: bool,
    is_new_day: bool,
    /// The slot of the next day that was fetched last, or `NONE`.
    walk: u32,
    sequence: u64,
    now: Time,
    taken: u64,
    len: usize,
}

#[derive(Debug, Clone, Copy)]
struct Slot<E> {
    item: Scheduled<E>,
    next: u32,
}

#[derive(Debug, Default)]
struct Review {
    /// Number of taken events at which the next review happens.
    due: u64,
    /// Events taken at the last review, and its time.
    taken: u64,
    since: Time,
    /// Events scheduled beyond the year since the last review.
    beyond: u64,
}

const NONE: u32 = u32::MAX;
/// Days of a year, at least and at most.
const DAYS_MIN: usize = 1 << 10;
const DAYS_MAX: usize = 1 << 18;
/// Bits of a word of `filled`, as a shift.
const WORD: u32 = 6;
/// Least number of events between two reviews.
const REVIEW_EVERY: u64 = 1 << 12;
/// Events of a large queue, and of one of its days.
const LARGE: usize = 1 << 12;
const EVENTS_A_DAY: u64 = 64;
/// Length of a day of a new queue, as a shift: about 4 ns.
const FIRST_SHIFT: u32 = 12;

impl<E: Copy> Default for Queue<E> {
    fn default() -> Queue<E> {
        Queue::new()
    }
}

impl<E: Copy> Queue<E> {
    pub fn new() -> Queue<E> {
        Queue {
            today: Vec::new(),
            late: Heap::new(),
            days: vec![NONE; DAYS_MIN],
            filled: vec![0; DAYS_MIN >> WORD],
            filled_words: vec![0; (DAYS_MIN >> WORD).div_ceil(64)],
            slots: Vec::new(),
            free: NONE,
            beyond: Heap::new(),
            shift: FIRST_SHIFT,
            day: 0,
            review: Review { due: REVIEW_EVERY, ..Review::default() },
            is_large: false,
            is_new_day: true,
            walk: NONE,
            sequence: 0,
            now: Time::ZERO,
            taken: 0,
            len: 0,
        }
    }

    /// Returns the time of the last event taken.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the number of events taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the time of the next event.
    pub fn next_at(&mut self) -> Option<Time> {
        if !self.reach_next() {
            return None;
        }
        let (sorted, late) = (self.today.last().map(|item| item.at), self.late.first().map(|item| item.at));
        sorted.into_iter().chain(late).min()
    }

    /// Schedules an event; a time in the past counts as the current time.
    // `insert` is inlined so that the event goes from registers straight into its slot. A copy in between that is
    // written and read with different widths stalls the processor.
    pub fn schedule(&mut self, at: Time, event: E) {
        let order = self.sequence;
        self.sequence += 1;
        self.schedule_as(at, order, event);
    }

    /// Schedules an event whose place among the events of its time is `order`. Equal orders have no order between them.
    #[inline(always)]
    pub fn schedule_as(&mut self, at: Time, order: u64, event: E) {
        let item = Scheduled { at: at.max(self.now), order, event };
        self.len += 1;
        self.insert(item);
    }

    #[inline(always)]
    fn insert(&mut self, item: Scheduled<E>) {
        let ahead = (item.at.0 >> self.shift).saturating_sub(self.day);
        if ahead == 0 {
            self.late.push(item);
        } else if ahead < self.days.len() as u64 {
            self.push_to_day(item);
        } else {
            self.review.beyond += 1;
            self.beyond.push(item);
        }
    }

    #[inline(always)]
    fn push_to_day(&mut self, item: Scheduled<E>) {
        let day = (item.at.0 >> self.shift) as usize & (self.days.len() - 1);
        let slot = Slot { item, next: self.days[day] };
        if self.free == NONE {
            self.days[day] = self.slots.len() as u32;
            assert!(self.days[day] != NONE, "a queue holds at most 4,294,967,295 events");
            if self.slots.len() == self.slots.capacity() {
                self.slots.reserve(1);
                prefer_huge_pages(&self.slots);
            }
            self.slots.push(slot);
        } else {
            let at = self.free as usize;
            self.days[day] = self.free;
            self.free = std::mem::replace(&mut self.slots[at], slot).next;
        }
        let word = day >> WORD;
        self.filled[word] |= 1 << (day % 64);
        self.filled_words[word / 64] |= 1 << (word % 64);
    }

    /// Lets time pass: `now` becomes the current time. The caller has taken all events before it.
    pub fn reach(&mut self, now: Time) {
        debug_assert!(self.next_at().is_none_or(|next| next >= now), "an event is left before {now}");
        self.now = self.now.max(now);
    }

    /// Takes the next event; its time becomes the current time.
    #[inline(always)]
    pub fn take(&mut self) -> Option<(Time, E)> {
        self.take_by(Time::MAX)
    }

    /// Takes the next event, if its time is not after `last`.
    #[inline(always)]
    pub fn take_by(&mut self, last: Time) -> Option<(Time, E)> {
        if !self.reach_next() {
            return None;
        }
        let next = match (self.today.last(), self.late.first()) {
            (Some(sorted), Some(late)) if late.key() < sorted.key() => self.late.pop_by(last),
            (Some(sorted), _) if sorted.at > last => None,
            (Some(_), _) => self.today.pop(),
            (None, _) => self.late.pop_by(last),
        }?;
        self.len -= 1;
        self.now = next.at;
        self.taken += 1;
        Some((next.at, next.event))
    }

    /// Names coming events to a caller that fetches their state into the cache, as far as today's events are known: for
    /// each step, the event that is `places[step]` ahead. Call it before each [`Queue::take`]. No effect on a queue with
    /// few events, whose state is in the cache.
    #[inline(always)]
    pub fn look_ahead<const STEPS: usize>(&mut self, places: [usize; STEPS], mut name: impl FnMut(&E, usize)) {
        if !self.is_large || !self.reach_next() {
            return;
        }
        let is_new = std::mem::replace(&mut self.is_new_day, false);
        // The list of the next day, one slot for each event of today.
        self.walk = match self.slots.get(self.walk as usize) {
            Some(slot) if !is_new => slot.next,
            _ if is_new => self.next_filled().map_or(NONE, |day| self.days[day as usize & (self.days.len() - 1)]),
            _ => NONE,
        };
        if let Some(slot) = self.slots.get(self.walk as usize) {
            about_to_read(std::ptr::from_ref(slot).cast());
        }
        for (step, last) in places.into_iter().enumerate() {
            for place in if is_new { 1 } else { last }..=last {
                let at = self.today.len().wrapping_sub(place);
                if let Some(item) = self.today.get(at) {
                    name(&item.event, step);
                }
            }
        }
    }

    /// Advances to the day of the next event, unless that is today. False: the queue is empty.
    #[inline]
    fn reach_next(&mut self) -> bool {
        !self.today.is_empty() || self.late.first().is_some() || self.begin_next_day()
    }

    /// Advances to the next day that has an event. False: the queue is empty.
    fn begin_next_day(&mut self) -> bool {
        if self.taken >= self.review.due {
            self.review_division();
            if self.late.first().is_some() {
                return true;
            }
        }
        let beyond = self.beyond.first().map(|item| item.at.0 >> self.shift);
        let written = self.next_filled();
        self.day = match (written, beyond) {
            (Some(written), Some(beyond)) => written.min(beyond),
            (Some(day), None) | (None, Some(day)) => day,
            (None, None) => return false,
        };
        if written == Some(self.day) {
            self.take_day_list();
        }
        while self.beyond.first().is_some_and(|first| first.at.0 >> self.shift <= self.day) {
            self.today.extend(self.beyond.pop());
        }
        self.is_new_day = true;
        if self.today.len() > 1 {
            self.today.sort_unstable_by_key(|item| std::cmp::Reverse(item.key()));
        }
        true
    }

    #[inline]
    fn next_filled(&self) -> Option<u64> {
        let all = self.days.len();
        let first = (self.day as usize + 1) & (all - 1);
        let day = self.filled_from(first).or_else(|| self.filled_from(0))?;
        let ahead = (day + all - first) & (all - 1);
        Some(self.day + 1 + ahead as u64)
    }

    /// Returns the first index in `days`, from `first` on, whose list is not empty.
    #[inline]
    fn filled_from(&self, first: usize) -> Option<usize> {
        let word = first >> WORD;
        let here = self.filled[word] >> (first % 64);
        if here != 0 {
            return Some(first + here.trailing_zeros() as usize);
        }
        let mut at = (word + 1) / 64;
        let mut words = *self.filled_words.get(at)? >> ((word + 1) % 64) << ((word + 1) % 64);
        while words == 0 {
            at += 1;
            words = *self.filled_words.get(at)?;
        }
        let word = at * 64 + words.trailing_zeros() as usize;
        Some((word << WORD) + self.filled[word].trailing_zeros() as usize)
    }

    /// Moves the events of today's list to `today`, and frees their slots.
    #[inline]
    fn take_day_list(&mut self) {
        let day = self.day as usize & (self.days.len() - 1);
        let first = std::mem::replace(&mut self.days[day], NONE);
        let word = day >> WORD;
        self.filled[word] &= !(1 << (day % 64));
        if self.filled[word] == 0 {
            self.filled_words[word / 64] &= !(1 << (word % 64));
        }
        let mut at = first;
        loop {
            let slot = &mut self.slots[at as usize];
            self.today.push(slot.item);
            if slot.next == NONE {
                slot.next = self.free;
                self.free = first;
                return;
            }
            at = slot.next;
        }
    }

    /// Changes the lengths of days and years if they do not fit the events since the last review.
    #[cold]
    fn review_division(&mut self) {
        let taken = self.taken - self.review.taken;
        let elapsed = self.now.saturating_sub(self.review.since).0;
        let many_beyond = self.review.beyond > taken / 8;
        // A day is as long as the mean gap between two events, or many of them. If most times are equal, days are short,
        // many empty.
        self.is_large = self.len >= if self.is_large { LARGE / 4 } else { LARGE };
        let events = if self.is_large { EVENTS_A_DAY } else { 1 };
        let day = u128::from(elapsed) * u128::from(events) / u128::from(taken.max(1));
        let mut shift = u64::try_from(day).unwrap_or(u64::MAX).max(1).ilog2();
        let wanted = (self.len * 4 / events as usize).next_power_of_two();
        let mut days = wanted.clamp(DAYS_MIN, DAYS_MAX);
        if many_beyond && self.days.len() == DAYS_MAX {
            shift = shift.max(self.shift + 2);
        } else if wanted > DAYS_MAX && self.shift.saturating_sub(shift) <= 2 {
            // Its days have become longer because many events were beyond the year.
            shift = shift.max(self.shift);
        }
        if many_beyond {
            days = days.max((self.days.len() * 2).min(DAYS_MAX));
        } else if days > self.days.len() / 8 {
            days = days.max(self.days.len());
        }
        if days != self.days.len() || shift.abs_diff(self.shift) > 1 {
            self.divide(shift, days);
        }
        let due = self.taken + REVIEW_EVERY.max(2 * self.len as u64);
        self.review = Review { due, taken: self.taken, since: self.now, beyond: 0 };
    }

    /// Divides time into other days and years. Today must have no events left.
    fn divide(&mut self, shift: u32, days: usize) {
        let mut written = Vec::with_capacity(self.len);
        while let Some(day) = self.next_filled() {
            self.day = day;
            self.take_day_list();
            written.append(&mut self.today);
        }
        self.days = vec![NONE; days];
        self.filled = vec![0; days >> WORD];
        self.filled_words = vec![0; (days >> WORD).div_ceil(64)];
        self.shift = shift;
        self.day = self.now.0 >> shift;
        for item in written {
            self.insert(item);
        }
        // Today may have become longer and include events that were beyond the year.
        while self.beyond.first().is_some_and(|first| first.at.0 >> shift <= self.day) {
            self.beyond.pop().into_iter().for_each(|item| self.late.push(item));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use proptest::prelude::*;

    #[test]
    fn no_event_is_in_the_past() {
        let mut queue = Queue::new();
        queue.schedule(Time(10), 'a');
        assert_eq!(queue.take(), Some((Time(10), 'a')));
        queue.schedule(Time(3), 'b');
        assert_eq!(queue.take(), Some((Time(10), 'b')));
        assert_eq!(queue.take(), None);
    }

    #[test]
    fn the_end_of_time_is_a_time() {
        let mut queue = Queue::new();
        queue.schedule(Time::MAX, 'c');
        queue.schedule(Time(1), 'a');
        queue.schedule(Time(Time::MAX.0 - 1), 'b');
        let taken: String = std::iter::from_fn(|| queue.take()).map(|(_, event)| event).collect();
        assert_eq!(taken, "abc");
    }

    proptest! {
        #[test]
        fn order_is_that_of_a_stable_sort(seed: u64, count in 1usize..300) {
            let mut random = Random::new(seed, 0);
            let mut queue = Queue::new();
            let mut expected: Vec<(Time, usize)> = (0..count).map(|number| (Time(random.below(20)), number)).collect();
            for &(at, number) in &expected {
                queue.schedule(at, number);
            }
            expected.sort_by_key(|&(at, _)| at);
            let taken: Vec<_> = std::iter::from_fn(|| queue.take()).collect();
            prop_assert_eq!(taken, expected);
        }

    }

    proptest! {
        // Each case takes 16,384 events and more.
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Many events, close together and far apart, of which most are named before they are taken.
        #[test]
        fn a_large_queue_gives_the_same_order(seed: u64, reach in 4u32..40, far in 2u64..64) {
            let mut random = Random::new(seed, 0);
            let mut queue = Queue::new();
            let mut oracle = std::collections::BTreeSet::new();
            let mut named = std::collections::BTreeSet::new();
            let mut number = 0;
            for round in 0..4 * LARGE {
                for _ in 0..if round < 2 * LARGE { 2 } else { random.below(2) } {
                    let reach = if random.below(far) == 0 { reach + 8 } else { reach };
                    let at = queue.now() + Time(random.below(1 << reach));
                    queue.schedule(at, number);
                    oracle.insert((at, number));
                    number += 1;
                }
                queue.look_ahead([9, 4], |&event, step| _ = named.insert((event, step)));
                prop_assert_eq!(queue.take(), oracle.pop_first());
            }
            // Where all events fall into the first day, nothing is reviewed.
            prop_assert!(reach < 24 || (queue.is_large && named.len() > LARGE), "{} named", named.len());
        }

        /// A long run with events alternately close and far apart, so that days change; the oracle is an ordered set.
        #[test]
        fn every_division_gives_the_same_order(seed: u64, reaches in prop::collection::vec(0u32..50, 1..12)) {
            let mut random = Random::new(seed, 0);
            let mut queue = Queue::new();
            let mut oracle = std::collections::BTreeSet::new();
            let mut number = 0;
            for reach in reaches {
                for _ in 0..REVIEW_EVERY * 3 / 2 {
                    for _ in 0..random.below(3) {
                        let reach = random.below(u64::from(reach) + 1);
                        let at = queue.now() + Time(random.below(1 << reach));
                        queue.schedule(at, number);
                        oracle.insert((at, number));
                        number += 1;
                    }
                    prop_assert_eq!(queue.len(), oracle.len());
                    prop_assert_eq!(queue.take(), oracle.pop_first());
                }
            }
            while let Some(next) = oracle.pop_first() {
                prop_assert_eq!(queue.next_at(), Some(next.0));
                prop_assert_eq!(queue.take(), Some(next));
            }
            prop_assert!(queue.is_empty());
        }
    }
}
