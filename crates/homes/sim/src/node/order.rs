// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The order of messages between ranks. A node sends in order, but the fabric or a refusal may change it.
//!
//! Costs: none if the order cannot change; otherwise a tree search for each sent message, and two for each arrival.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct PairOrder {
    /// Whether the order can change; otherwise `pairs` stays empty.
    is_needed: bool,
    pairs: BTreeMap<(u32, u32), Pair>,
}

#[derive(Debug, Default)]
struct Pair {
    next_sent: u64,
    next_delivered: u64,
    /// Messages that arrived before their turn, by sequence number.
    held: BTreeMap<u64, u32>,
}

/// Stands for a lost message in [`Pair::held`].
const LOST: u32 = u32::MAX;

impl PairOrder {
    pub fn new(is_needed: bool) -> PairOrder {
        PairOrder { is_needed, ..PairOrder::default() }
    }

    #[inline]
    pub fn is_needed(&self) -> bool {
        self.is_needed
    }

    /// Returns the sequence number of the next message to send.
    pub fn next_sequence(&mut self, pair: (u32, u32)) -> u64 {
        let order = self.pairs.entry(pair).or_default();
        order.next_sent += 1;
        order.next_sent - 1
    }

    /// Records an arrived message. It waits until [`PairOrder::next`] returns it.
    pub fn arrived(&mut self, pair: (u32, u32), sequence: u64, index: u32) {
        self.pairs.entry(pair).or_default().held.insert(sequence, index);
    }

    /// Skips a lost message: those after it do not wait for it.
    pub fn skip(&mut self, pair: (u32, u32), sequence: u64) {
        self.arrived(pair, sequence, LOST);
    }

    /// Returns the next message in order, if it has arrived.
    pub fn next(&mut self, pair: (u32, u32)) -> Option<u32> {
        let order = self.pairs.get_mut(&pair)?;
        loop {
            let index = order.held.remove(&order.next_delivered)?;
            order.next_delivered += 1;
            if index != LOST {
                return Some(index);
            }
        }
    }
}
