// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a network counts.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::time::Time;

/// Of the whole network, since it was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Statistics {
    /// Packet-hop events: how often a packet's head left a router.
    pub hops: u64,
    /// Events that the network handled.
    pub events: u64,
    pub injected: u64,
    pub delivered: u64,
    pub lost: u64,
    /// Payload that was delivered.
    pub delivered_bytes: u64,
    /// Heads that asked a router for a channel, and those that did not get it at once.
    pub requests: u64,
    pub blocked: u64,
    /// How long the heads that got it late had waited, all together, in picoseconds.
    pub blocked_ps: u64,
    /// Errors that were injected, and how often a link went back and sent again.
    pub losses: u64,
    pub corruptions: u64,
    pub retransmissions: u64,
    /// Cycles of packets that waited for each other, the packets in them, and the packets that were taken out.
    pub deadlocks: u64,
    pub deadlocked_packets: u64,
    pub recovered: u64,
    /// Virtual channels in a cycle, and how many cycles had so many.
    pub cycle_lengths: BTreeMap<u32, u64>,
}

impl Statistics {
    /// Share of the heads that had to wait.
    pub fn blocking_rate(&self) -> f64 {
        ratio(self.blocked, self.requests)
    }

    /// How long a head waited that had to wait, in nanoseconds.
    pub fn blocking_time_mean_ns(&self) -> f64 {
        ratio(self.blocked_ps, self.blocked) / 1e3
    }

    /// Mean number of virtual channels in a cycle.
    pub fn cycle_length_mean(&self) -> f64 {
        let sum: u64 = self.cycle_lengths.iter().map(|(&length, &count)| u64::from(length) * count).sum();
        ratio(sum, self.deadlocks)
    }
}

pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Of one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelStatistics {
    pub packets: u64,
    pub flits: u64,
    /// From each packet's (or flit's) start to its end.
    pub busy: Time,
}
