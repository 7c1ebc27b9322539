// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collectives by the NICs alone, with counters and triggered operations (Portals 4.3, "Triggered Operations").
//!
//! A program arms the operations of its NIC, for any number of collectives ahead. Entering a collective then costs one
//! or two commands; the NICs do the rest without the program.
//!
//! A counter does not distinguish its neighbours: a fast one may count for the next collective before a slow one has
//! counted for this one. This is harmless. A rank enters the next collective only when all ranks have entered this one,
//! so an early count implies that the missing count will come.

use super::process::{Process, Trigger};

/// A dissemination barrier. In round r the NIC, notified in all earlier rounds, notifies the rank 2^r further.
pub struct NicBarrier {
    window: u32,
    rounds: u32,
    armed: u64,
    entered: u64,
}

impl NicBarrier {
    /// Returns the number of windows that it uses.
    pub fn windows(size: u32) -> u32 {
        size.max(1).next_power_of_two().ilog2()
    }

    /// Returns the triggered operations of each armed barrier.
    pub fn triggered(size: u32) -> u32 {
        2 * NicBarrier::windows(size).saturating_sub(1)
    }

    /// Makes a barrier that uses the windows from `window` on.
    pub fn new(size: u32, window: u32) -> NicBarrier {
        NicBarrier { window, rounds: NicBarrier::windows(size), armed: 0, entered: 0 }
    }

    /// Arms one more barrier. False: no room.
    pub fn arm(&mut self, process: &Process) -> bool {
        self.armed += 1;
        (1..self.rounds).all(|round| {
            let trigger = Trigger { window: self.window + round - 1, count: 2 * self.armed };
            let to = (process.rank() + (1 << round)) % process.size();
            process.put_triggered(trigger, to, self.window + round, 0, 0, 0)
                && process.count_triggered(trigger, self.window + round, 1)
        })
    }

    /// Enters the barrier; returns when all ranks have entered it.
    pub async fn wait(&mut self, process: &Process) {
        self.entered += 1;
        if self.rounds == 0 {
            return;
        }
        process.put_counting((process.rank() + 1) % process.size(), self.window, 0, &[]).await;
        process.count_up(self.window, 1);
        process.wait_count(self.window + self.rounds - 1, 2 * self.entered).await;
    }
}

/// A sum of 8-byte words up and down a binomial tree, by counting atomics; the last child's count triggers the next.
///
/// The source of a put may change only when the NIC has read it. The count that triggers a put of the root does not say
/// so: the program may see it first. So a rank clears the sum of one collective at the end of the next, which no rank
/// enters without the result of the first.
pub struct NicSum {
    window: u32,
    bytes: u64,
    memory: u64,
    armed: u64,
    entered: u64,
}

/// Sums that exist at a time: one that ranks start while others are still in the one before, and the last, which is
/// cleared meanwhile.
const SLOTS: u64 = 3;

impl NicSum {
    /// Number of windows: up and down for each slot.
    pub const WINDOWS: u32 = 2 * SLOTS as u32;

    /// Returns the bytes of memory that it uses.
    pub fn memory(bytes: u64) -> u64 {
        2 * SLOTS * bytes
    }

    /// Returns the triggered operations of each armed sum.
    pub fn triggered(size: u32) -> u32 {
        1 + size.max(1).next_power_of_two().ilog2()
    }

    /// Makes a sum of n bytes. It uses the windows from `window` on and the memory from `memory` on, which must be 0.
    pub fn new(bytes: u64, window: u32, memory: u64) -> NicSum {
        NicSum { window, bytes, memory, armed: 0, entered: 0 }
    }

    /// Arms one more sum. False: no room.
    pub fn arm(&mut self, process: &Process) -> bool {
        let slot = Slot::of(self, self.armed, process);
        self.armed += 1;
        let rank = process.rank();
        let (trigger, from) = match rank {
            0 => (slot.up, slot.sum),
            _ => (slot.down, slot.result),
        };
        let upwards =
            rank == 0 || process.add_triggered(slot.up, parent(rank), slot.up.window, slot.sum, slot.sum, self.bytes);
        upwards
            && children(rank, process.size())
                .all(|child| process.put_triggered(trigger, child, slot.down.window, slot.result, from, self.bytes))
    }

    /// Replaces these words by their sum over all ranks.
    pub async fn add(&mut self, process: &Process, words: &mut [u8]) {
        let slot = Slot::of(self, self.entered, process);
        let last = self.entered.checked_sub(1).map(|last| Slot::of(self, last, process));
        self.entered += 1;
        process.add_counting(process.rank(), slot.up.window, slot.sum, words).await;
        let (trigger, from) = match process.rank() {
            0 => (slot.up, slot.sum),
            _ => (slot.down, slot.result),
        };
        process.wait_count(trigger.window, trigger.count).await;
        let mut memory = process.memory_mut();
        words.copy_from_slice(&memory[from as usize..][..words.len()]);
        if let Some(last) = last {
            memory[last.sum as usize..][..words.len()].fill(0);
        }
    }
}

struct Slot {
    up: Trigger,
    down: Trigger,
    sum: u64,
    result: u64,
}

impl Slot {
    fn of(of: &NicSum, number: u64, process: &Process) -> Slot {
        let (slot, uses) = (number % SLOTS, number / SLOTS + 1);
        let window = of.window + 2 * slot as u32;
        let sum = of.memory + 2 * slot * of.bytes;
        let added = children(process.rank(), process.size()).count() as u64 + 1;
        Slot {
            up: Trigger { window, count: uses * added },
            down: Trigger { window: window + 1, count: uses },
            sum,
            result: sum + of.bytes,
        }
    }
}

/// A broadcast from rank 0 down a binomial tree. The caller ensures that no rank is a whole broadcast ahead of another.
pub struct NicBroadcast {
    window: u32,
    bytes: u64,
    memory: u64,
    armed: u64,
    entered: u64,
}

impl NicBroadcast {
    pub const WINDOWS: u32 = 1;

    /// Returns the triggered operations of each armed broadcast.
    pub fn triggered(size: u32) -> u32 {
        size.max(1).next_power_of_two().ilog2()
    }

    pub fn new(bytes: u64, window: u32, memory: u64) -> NicBroadcast {
        NicBroadcast { window, bytes, memory, armed: 0, entered: 0 }
    }

    /// Arms one more broadcast. False: no room.
    pub fn arm(&mut self, process: &Process) -> bool {
        self.armed += 1;
        let rank = process.rank();
        let trigger = Trigger { window: self.window, count: self.armed };
        rank == 0
            || children(rank, process.size())
                .all(|child| process.put_triggered(trigger, child, self.window, self.memory, self.memory, self.bytes))
    }

    /// Replaces the bytes of all ranks by those of rank 0.
    pub async fn broadcast(&mut self, process: &Process, bytes: &mut [u8]) {
        self.entered += 1;
        if process.rank() == 0 {
            for child in children(0, process.size()) {
                process.put_counting(child, self.window, self.memory, bytes).await;
            }
            return;
        }
        process.wait_count(self.window, self.entered).await;
        bytes.copy_from_slice(&process.memory()[self.memory as usize..][..bytes.len()]);
    }
}

/// Returns the parent of a rank in a binomial tree with root 0: its lowest bit cleared.
fn parent(rank: u32) -> u32 {
    rank & rank.wrapping_sub(1)
}

/// Returns the children of a rank in this tree, the one with the deepest subtree first.
fn children(rank: u32, size: u32) -> impl Iterator<Item = u32> {
    let bits = if rank == 0 { u32::BITS - 1 } else { rank.trailing_zeros() };
    (0..bits).rev().map(move |bit| rank | 1 << bit).filter(move |child| *child < size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_is_a_child_of_one_parent() {
        for size in 1..70 {
            for rank in 1..size {
                assert!(children(parent(rank), size).any(|child| child == rank), "{rank} of {size}");
            }
            let all: usize = (0..size).map(|rank| children(rank, size).count()).sum();
            assert_eq!(all, size as usize - 1);
        }
    }
}
