// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A heap with four children for each node, in one vector: O(log n) to push and to pop.

use crate::time::Time;

const CHILDREN: usize = 4;

#[derive(Debug, Clone, Copy)]
pub(super) struct Scheduled<E> {
    pub at: Time,
    pub order: u64,
    pub event: E,
}

impl<E> Scheduled<E> {
    #[inline(always)]
    pub fn key(&self) -> u128 {
        u128::from(self.at.0) << 64 | u128::from(self.order)
    }
}

/// A heap of events; the first is the next one.
#[derive(Debug)]
pub(super) struct Heap<E> {
    items: Vec<Scheduled<E>>,
}

impl<E: Copy> Heap<E> {
    pub fn new() -> Heap<E> {
        Heap { items: Vec::new() }
    }

    #[inline(always)]
    pub fn first(&self) -> Option<&Scheduled<E>> {
        self.items.first()
    }

    pub fn push(&mut self, item: Scheduled<E>) {
        self.items.push(item);
        let mut at = self.items.len() - 1;
        let key = item.key();
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if self.items[parent].key() <= key {
                break;
            }
            self.items[at] = self.items[parent];
            at = parent;
        }
        self.items[at] = item;
    }

    /// Pops the first event, if its time is not after `last`.
    #[inline(always)]
    pub fn pop_by(&mut self, last: Time) -> Option<Scheduled<E>> {
        if self.items.first()?.at > last { None } else { self.pop() }
    }

    pub fn pop(&mut self) -> Option<Scheduled<E>> {
        let first = *self.items.first()?;
        let last = self.items.pop()?;
        let length = self.items.len();
        if length > 0 {
            let key = last.key();
            let mut at = 0;
            loop {
                let child = at * CHILDREN + 1;
                if child >= length {
                    break;
                }
                let mut least = child;
                let mut least_key = self.items[child].key();
                for other in child + 1..(child + CHILDREN).min(length) {
                    let other_key = self.items[other].key();
                    if other_key < least_key {
                        (least, least_key) = (other, other_key);
                    }
                }
                if least_key >= key {
                    break;
                }
                self.items[at] = self.items[least];
                at = least;
            }
            self.items[at] = last;
        }
        Some(first)
    }
}
