// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A queue of fixed size whose entries keep their place, as a block of registers does.
//!
//! Invariants
//! 1. Entries leave in the order of their arrival.
//! 2. An entry keeps its place from its arrival until it leaves. So a place names an entry.
//! 3. A push into a full queue changes nothing.

use crate::errors::Full;

/// A queue of at most `N` entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue<T, const N: usize> {
    places: [Option<T>; N],
    head: usize,
    length: usize,
}

impl<T, const N: usize> Default for Queue<T, N> {
    fn default() -> Self {
        const { assert!(N > 0 && N <= 1 << 16, "a place must fit 16 bits") };
        Queue { places: [const { None }; N], head: 0, length: 0 }
    }
}

impl<T, const N: usize> Queue<T, N> {
    /// Adds an entry at the end. Returns its place.
    pub fn push(&mut self, entry: T) -> Result<u16, Full> {
        if self.is_full() {
            return Err(Full);
        }
        let place = (self.head + self.length) % N;
        self.places[place] = Some(entry);
        self.length += 1;
        Ok(place as u16)
    }

    /// Takes the entry at the front.
    pub fn pop(&mut self) -> Option<T> {
        let entry = self.places[self.head].take()?;
        self.head = (self.head + 1) % N;
        self.length -= 1;
        Some(entry)
    }

    /// The entry at the front.
    pub fn front(&self) -> Option<&T> {
        self.places[self.head].as_ref()
    }

    /// The entry in a place.
    pub fn at_mut(&mut self, place: u16) -> Option<&mut T> {
        self.places.get_mut(usize::from(place))?.as_mut()
    }

    /// The entries, oldest first.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let (behind, ahead) = self.places.split_at_mut(self.head);
        ahead.iter_mut().chain(behind).flatten()
    }

    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub fn is_full(&self) -> bool {
        self.length == N
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    #[test]
    fn a_queue_beside_a_plain_one() {
        let mut queue = Queue::<u32, 3>::default();
        let mut plain = VecDeque::new();
        for step in 0..1000u32 {
            if step.wrapping_mul(2_654_435_761) >> 30 < 2 {
                let before = queue.clone();
                match queue.push(step) {
                    Ok(place) => {
                        assert_eq!(queue.at_mut(place), Some(&mut plain_push(&mut plain, step)));
                    }
                    Err(Full) => assert!(plain.len() == 3 && queue == before),
                }
            } else {
                assert_eq!(queue.pop(), plain.pop_front());
            }
            assert_eq!((queue.len(), queue.front()), (plain.len(), plain.front()));
            assert_eq!(queue.iter_mut().map(|entry| *entry).collect::<Vec<_>>(), Vec::from(plain.clone()));
            assert_eq!((queue.is_empty(), queue.is_full()), (plain.is_empty(), plain.len() == 3));
        }
        assert_eq!(queue.at_mut(3), None);
    }

    fn plain_push(plain: &mut VecDeque<u32>, value: u32) -> u32 {
        plain.push_back(value);
        value
    }
}
