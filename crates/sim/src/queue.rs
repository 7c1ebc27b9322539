// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event queue: what happens next in virtual time.
//!
//! Invariants
//! 1. Events come in order of time, and at the same time in the order in which they were scheduled.
//! 2. Nothing is scheduled in the past: an earlier time is taken for now.
//!
//! A heap with four children a node, in one vector: O(log n) to schedule and to take, 32 bytes an event and its size.

use crate::time::Time;

/// Events in order.
#[derive(Debug)]
pub struct Queue<E> {
    heap: Vec<Scheduled<E>>,
    sequence: u64,
    now: Time,
    taken: u64,
}

#[derive(Debug, Clone, Copy)]
struct Scheduled<E> {
    at: Time,
    sequence: u64,
    event: E,
}

impl<E> Scheduled<E> {
    #[inline(always)]
    fn key(&self) -> u128 {
        u128::from(self.at.0) << 64 | u128::from(self.sequence)
    }
}

const CHILDREN: usize = 4;

impl<E: Copy> Default for Queue<E> {
    fn default() -> Queue<E> {
        Queue::new()
    }
}

impl<E: Copy> Queue<E> {
    pub fn new() -> Queue<E> {
        Queue { heap: Vec::new(), sequence: 0, now: Time::ZERO, taken: 0 }
    }

    /// The time of the event that was taken last.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// How many events were taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    pub fn len(&self) -> usize {
        self.heap.len()
    }

    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// When the next event is due.
    pub fn next_at(&self) -> Option<Time> {
        self.heap.first().map(|first| first.at)
    }

    #[inline]
    pub fn schedule(&mut self, at: Time, event: E) {
        let item = Scheduled { at: at.max(self.now), sequence: self.sequence, event };
        self.sequence += 1;
        self.heap.push(item);
        let mut at = self.heap.len() - 1;
        let key = item.key();
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if self.heap[parent].key() <= key {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = item;
    }

    /// Takes the next event; the time is now its time.
    #[inline]
    pub fn take(&mut self) -> Option<(Time, E)> {
        let first = *self.heap.first()?;
        let last = self.heap.pop()?;
        let length = self.heap.len();
        if length > 0 {
            let key = last.key();
            let mut at = 0;
            loop {
                let child = at * CHILDREN + 1;
                if child >= length {
                    break;
                }
                let mut least = child;
                let mut least_key = self.heap[child].key();
                for other in child + 1..(child + CHILDREN).min(length) {
                    let other_key = self.heap[other].key();
                    if other_key < least_key {
                        (least, least_key) = (other, other_key);
                    }
                }
                if least_key >= key {
                    break;
                }
                self.heap[at] = self.heap[least];
                at = least;
            }
            self.heap[at] = last;
        }
        self.now = first.at;
        self.taken += 1;
        Some((first.at, first.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use proptest::prelude::*;

    #[test]
    fn nothing_happens_in_the_past() {
        let mut queue = Queue::new();
        queue.schedule(Time(10), 'a');
        assert_eq!(queue.take(), Some((Time(10), 'a')));
        queue.schedule(Time(3), 'b');
        assert_eq!(queue.take(), Some((Time(10), 'b')));
        assert_eq!(queue.take(), None);
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
}
