// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The results of a run of traffic.

use std::collections::BTreeMap;

use serde::Serialize;

use super::part::Counts;
use super::windows::Run;
use crate::network::{LossReason, NetworkStatistics, Stuck, ratio};
use crate::rerouting::ReroutingReport;
use crate::time::Time;

/// The results of a run: those of the measured interval, unless a field says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrafficResults {
    pub pattern: String,
    pub nodes: u32,
    pub channels: u32,
    /// Reason why the run ended before all packets of the interval had arrived.
    pub stopped: Option<Stop>,
    /// Shares of the injection channels' time, over all nodes: the requested, generated and delivered load.
    pub load: f64,
    pub offered: f64,
    pub accepted: f64,
    /// Payload that arrived, per node.
    pub accepted_bytes_per_s_per_node: f64,
    /// Packets of the interval that arrived, in it or later, and packets of the interval that were lost.
    pub packets: u64,
    pub lost: u64,
    /// Lost packets by reason.
    pub lost_by_reason: BTreeMap<LossReason, u64>,
    /// Messages not generated because the source queues of their nodes were full.
    pub messages_not_made: u64,
    /// Time from the generation of a message to the arrival of a packet's last byte.
    pub latency: Latency,
    /// Routers that a packet crossed.
    pub hops_mean: f64,
    /// Share of the heads at routers that were blocked, and mean time for which they were blocked.
    pub blocking_rate: f64,
    pub blocking_time_mean_ns: f64,
    /// Deadlocks, and their number by length of the cycle in virtual channels.
    pub deadlocks: u64,
    pub deadlocked_packets: u64,
    /// Packets taken out of a deadlock, as a share of these and all packets that arrived.
    pub deadlock_probability: f64,
    pub cycle_length_mean: f64,
    pub cycle_lengths: BTreeMap<u32, u64>,
    /// Packets taken out of deadlocks.
    pub recovered: u64,
    /// The deadlock that stopped the run: each packet waits for the next, the last for the first.
    pub cycle: Vec<CycleMember>,
    pub retransmissions: u64,
    /// Share of the time for which a channel between routers carries flits.
    pub channel_utilisation_mean: f64,
    pub channel_utilisation_max: f64,
    pub busiest_channels: Vec<BusyChannel>,
    /// Packet hops of the whole run.
    pub packet_hops: u64,
    pub events: u64,
    pub simulated_ns: f64,
    pub whole_run: Totals,
    /// Changes of the fabric that the routers' managers have worked on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rerouting: Option<ReroutingReport>,
}

/// Packets of a whole run, including the warm-up: `injected` is the sum of the three fields after it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    pub injected: u64,
    pub delivered: u64,
    pub lost: BTreeMap<LossReason, u64>,
    /// In the network when the run ended, including the nodes' queues.
    pub under_way: u64,
    /// Failures and repairs of channels.
    pub link_changes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    pub mean_ns: f64,
    pub median_ns: f64,
    pub p99_ns: f64,
    pub max_ns: f64,
}

/// A packet of a deadlock: it cannot leave the buffer at the end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CycleMember {
    pub channel: u32,
    pub virtual_channel: u8,
    pub from: u32,
    pub to: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BusyChannel {
    pub channel: u32,
    pub utilisation: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The caller interrupted it.
    Interrupted,
    /// A deadlock, under the policy to leave it.
    Deadlock,
    /// Packets of the interval did not arrive in time.
    NotDrained,
}

const BUSIEST: usize = 8;

/// The counts of the network at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub at: Time,
    pub statistics: NetworkStatistics,
    /// Of each channel.
    pub flits: Vec<u64>,
}

impl Run<'_> {
    fn cycle(&self) -> Vec<CycleMember> {
        let member = |stuck: &Stuck| CycleMember {
            channel: stuck.channel,
            virtual_channel: stuck.vc,
            from: stuck.from.0,
            to: stuck.to.0,
        };
        self.parts[0].network.deadlock().map(|deadlock| deadlock.cycle.iter().map(member).collect()).unwrap_or_default()
    }

    pub(super) fn results(&mut self, stopped: Option<Stop>) -> TrafficResults {
        // The interval of an interrupted run ends at the interruption.
        let counts = self.counts();
        let now = counts.last;
        let end = self.end.take().unwrap_or_else(|| self.snapshot(now.min(self.plan.until)));
        let begin = self.begin.take().unwrap_or_else(|| self.snapshot(end.at));
        let interval = end.at - begin.at;
        let network = &self.parts[0].network;
        let (nodes, endpoints) = (network.topology().rails().nodes(), network.topology().nodes());
        let node_time = network.config().message_time(0).as_ps() as f64 / f64::from(network.flits(0));
        let share = |flits: u64| match interval {
            Time::ZERO => 0.0,
            interval => flits as f64 * node_time / interval.as_ps() as f64 / f64::from(endpoints),
        };
        let (from, to) = (&begin.statistics, &end.statistics);
        let recovered = to.recovered - from.recovered;
        let mut cycle_lengths = to.cycle_lengths.clone();
        for (length, before) in &from.cycle_lengths {
            cycle_lengths.entry(*length).and_modify(|count| *count -= before);
        }
        cycle_lengths.retain(|_, count| *count > 0);
        let cycles: u64 = cycle_lengths.values().sum();
        let length_sum: u64 = cycle_lengths.iter().map(|(&length, &count)| u64::from(length) * count).sum();
        let deadlocked_packets = to.deadlocked_packets - from.deadlocked_packets;
        let bytes = (to.delivered_bytes - from.delivered_bytes) as f64;
        let seconds = interval.as_seconds_f64();
        let (busiest_channels, channel_utilisation_mean) = self.utilisation(&begin, &end);
        let blocked = to.blocked - from.blocked;
        TrafficResults {
            pattern: self.plan.traffic.pattern.to_string(),
            nodes,
            channels: network.topology().channels(),
            stopped,
            load: self.plan.traffic.load,
            offered: share(counts.offered_flits),
            accepted: share(counts.accepted_flits),
            accepted_bytes_per_s_per_node: if seconds > 0.0 { bytes / seconds / f64::from(nodes) } else { 0.0 },
            packets: counts.packets,
            lost: counts.lost.values().sum(),
            lost_by_reason: self.every_reason(&counts.lost),
            messages_not_made: counts.not_made,
            latency: latencies(&counts),
            hops_mean: ratio(counts.hops, counts.packets),
            blocking_rate: ratio(blocked, to.requests - from.requests),
            blocking_time_mean_ns: ratio(to.blocked_ps - from.blocked_ps, blocked) / 1e3,
            deadlocks: cycles,
            deadlocked_packets,
            deadlock_probability: ratio(recovered, recovered + counts.undisturbed),
            cycle_length_mean: ratio(length_sum, cycles),
            cycle_lengths,
            recovered,
            cycle: self.cycle(),
            retransmissions: to.retransmissions - from.retransmissions,
            channel_utilisation_mean,
            channel_utilisation_max: busiest_channels.first().map_or(0.0, |busiest| busiest.utilisation),
            busiest_channels,
            packet_hops: self.statistics().hops,
            events: self.events(),
            simulated_ns: now.as_ns_f64(),
            whole_run: self.totals(&counts),
            rerouting: self.rerouter.as_ref().map(|rerouter| rerouter.finish(&self.parts[0].network)),
        }
    }

    fn totals(&self, counts: &Counts) -> Totals {
        Totals {
            injected: counts.injected,
            delivered: counts.delivered,
            lost: self.every_reason(&counts.lost_in_all),
            under_way: self.in_flight(),
            link_changes: self.faults as u64,
        }
    }

    /// Returns the counts of all reasons that this run can have.
    fn every_reason(&self, lost: &BTreeMap<LossReason, u64>) -> BTreeMap<LossReason, u64> {
        let has = |reason: &LossReason| *reason != LossReason::Unreachable || self.rerouter.is_some();
        let reasons = LossReason::ALL.into_iter().filter(has);
        reasons.map(|reason| (reason, lost.get(&reason).copied().unwrap_or(0))).collect()
    }

    /// Returns the busiest channels between routers, and the mean of all of them.
    fn utilisation(&self, begin: &Snapshot, end: &Snapshot) -> (Vec<BusyChannel>, f64) {
        let interval = (end.at - begin.at).as_ps();
        let network = &self.parts[0].network;
        let between = network.channels_between_routers();
        if interval == 0 || between.is_empty() {
            return (Vec::new(), 0.0);
        }
        let share = |&channel: &u32| {
            let flits = end.flits[channel as usize] - begin.flits[channel as usize];
            let flit_time = network.flit_time(channel).as_ps() as f64;
            BusyChannel { channel, utilisation: flits as f64 * flit_time / interval as f64 }
        };
        let mut channels: Vec<BusyChannel> = between.iter().map(share).collect();
        let mean = channels.iter().map(|channel| channel.utilisation).sum::<f64>() / channels.len() as f64;
        channels.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation).then(a.channel.cmp(&b.channel)));
        channels.truncate(BUSIEST);
        (channels, mean)
    }
}

fn latencies(counts: &Counts) -> Latency {
    if counts.packets == 0 {
        return Latency::default();
    }
    let at = |quantile| counts.latency.value_at_quantile(quantile) as f64 / 1e3;
    Latency {
        mean_ns: counts.latency_sum_ps as f64 / 1e3 / counts.packets as f64,
        median_ns: at(0.5),
        p99_ns: at(0.99),
        max_ns: counts.latency.max() as f64 / 1e3,
    }
}
