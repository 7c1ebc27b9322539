// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The statistics of a network.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::time::Time;

/// Statistics of the whole network, since its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NetworkStatistics {
    /// Packet-hop events: times that a packet's head left a router.
    pub hops: u64,
    /// Events that the network handled, without those at which a channel is only looked at again.
    pub events: u64,
    pub injected: u64,
    pub delivered: u64,
    pub lost: u64,
    /// Payload that was delivered.
    pub delivered_bytes: u64,
    /// Heads that asked a router for a channel, and heads that did not get it at once.
    pub requests: u64,
    pub blocked: u64,
    /// Sum of the times for which heads were blocked, in picoseconds.
    pub blocked_ps: u64,
    /// Injected errors, and retransmissions by links.
    pub losses: u64,
    pub corruptions: u64,
    pub retransmissions: u64,
    /// Packets of congestion control that nodes sent, and packets that switches marked.
    pub control_packets: u64,
    pub marks: u64,
    /// Deadlocks, packets in them, and packets taken out of them.
    pub deadlocks: u64,
    pub deadlocked_packets: u64,
    pub recovered: u64,
    /// Number of deadlocks by length of their cycle, in virtual channels.
    pub cycle_lengths: BTreeMap<u32, u64>,
}

impl NetworkStatistics {
    /// Adds the statistics of another partition.
    pub(crate) fn add(&mut self, other: &NetworkStatistics) {
        self.change(other, |sum, count| *sum += count);
    }

    /// Takes away the statistics of an earlier time.
    pub(crate) fn subtract(&mut self, before: &NetworkStatistics) {
        self.change(before, |sum, count| *sum -= count);
        self.cycle_lengths.retain(|_, count| *count > 0);
    }

    /// Changes each count by that of the same name.
    fn change(&mut self, other: &NetworkStatistics, change: fn(&mut u64, u64)) {
        // By name, so that a new field is not forgotten.
        let NetworkStatistics {
            hops,
            events,
            injected,
            delivered,
            lost,
            delivered_bytes,
            requests,
            blocked,
            blocked_ps,
            losses,
            corruptions,
            retransmissions,
            control_packets,
            marks,
            deadlocks,
            deadlocked_packets,
            recovered,
            cycle_lengths,
        } = other;
        let counts = [
            (&mut self.hops, hops),
            (&mut self.events, events),
            (&mut self.injected, injected),
            (&mut self.delivered, delivered),
            (&mut self.lost, lost),
            (&mut self.delivered_bytes, delivered_bytes),
            (&mut self.requests, requests),
            (&mut self.blocked, blocked),
            (&mut self.blocked_ps, blocked_ps),
            (&mut self.losses, losses),
            (&mut self.corruptions, corruptions),
            (&mut self.retransmissions, retransmissions),
            (&mut self.control_packets, control_packets),
            (&mut self.marks, marks),
            (&mut self.deadlocks, deadlocks),
            (&mut self.deadlocked_packets, deadlocked_packets),
            (&mut self.recovered, recovered),
        ];
        counts.into_iter().for_each(|(sum, count)| change(sum, *count));
        for (&length, &count) in cycle_lengths {
            change(self.cycle_lengths.entry(length).or_default(), count);
        }
    }

    /// Returns the share of the heads that were blocked.
    pub fn blocking_rate(&self) -> f64 {
        ratio(self.blocked, self.requests)
    }

    /// Returns the mean time for which a blocked head was blocked, in nanoseconds.
    pub fn blocking_time_mean_ns(&self) -> f64 {
        ratio(self.blocked_ps, self.blocked) / 1e3
    }

    /// Returns the mean length of a deadlock's cycle, in virtual channels.
    pub fn cycle_length_mean(&self) -> f64 {
        let sum: u64 = self.cycle_lengths.iter().map(|(&length, &count)| u64::from(length) * count).sum();
        ratio(sum, self.deadlocks)
    }
}

pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Statistics of one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelStatistics {
    pub packets: u64,
    pub flits: u64,
    /// Sum of the times from the start of a packet (or flit) to its end.
    pub busy: Time,
}

impl ChannelStatistics {
    /// Takes away those of an earlier time.
    pub(crate) fn less(self, before: ChannelStatistics) -> ChannelStatistics {
        let ChannelStatistics { packets, flits, busy } = before;
        ChannelStatistics {
            packets: self.packets - packets,
            flits: self.flits - flits,
            busy: self.busy.saturating_sub(busy),
        }
    }

    /// Adds those of the channel's other half.
    pub(crate) fn add(self, other: ChannelStatistics) -> ChannelStatistics {
        let ChannelStatistics { packets, flits, busy } = other;
        ChannelStatistics { packets: self.packets + packets, flits: self.flits + flits, busy: self.busy + busy }
    }
}
