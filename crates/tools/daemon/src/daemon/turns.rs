// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Turns of those who ask the daemon: one thread serves them all, and the links as well.
//!
//! # Invariants
//!
//! 1. A turn ends after [`TURN_NS`] and the request that is under way then. A neighbour takes a link for dead after a
//!    silence of 350 ms.
//! 2. The next turn begins with the first who was not served, so each is served at some time.

/// Time of a turn.
pub(super) const TURN_NS: u64 = 20_000_000;

/// The place where the next turn begins.
#[derive(Debug, Default)]
pub(super) struct Turns {
    next: u64,
}

impl Turns {
    /// Serves those who are ready, by their numbers, in the order in which it is their turn. `serve` serves one, and
    /// `now_ns` is the time.
    pub fn run(&mut self, mut ready: Vec<u64>, now_ns: impl Fn() -> u64, mut serve: impl FnMut(u64)) {
        ready.sort_unstable();
        let first = ready.partition_point(|&id| id < self.next);
        ready.rotate_left(first);
        let until_ns = now_ns() + TURN_NS;
        for (at, id) in ready.into_iter().enumerate() {
            // One is served in any case.
            if at > 0 && now_ns() >= until_ns {
                self.next = id;
                return;
            }
            serve(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_turn_is_short_and_the_next_one_goes_on() {
        let (mut turns, now_ns) = (Turns::default(), Cell::new(0));
        let mut turn = |ready: &[u64], cost_ns: u64| {
            let mut served = Vec::new();
            turns.run(
                ready.to_vec(),
                || now_ns.get(),
                |id| {
                    served.push(id);
                    now_ns.set(now_ns.get() + cost_ns);
                },
            );
            served
        };
        assert_eq!(turn(&[1, 2, 3], 0), [1, 2, 3]);
        // Two have the time, and the third begins.
        assert_eq!(turn(&[5, 6, 7, 8, 9], TURN_NS / 2), [5, 6]);
        assert_eq!(turn(&[5, 6, 7, 8, 9], TURN_NS / 2), [7, 8]);
        assert_eq!(turn(&[5, 6, 7, 8, 9], TURN_NS / 2), [9, 5]);
        // Somebody is served, though one request takes all the time.
        assert_eq!(turn(&[5, 6], 10 * TURN_NS), [6]);
        assert_eq!(turn(&[5, 6], 10 * TURN_NS), [5]);
        assert!(turn(&[], TURN_NS).is_empty());
    }
}
