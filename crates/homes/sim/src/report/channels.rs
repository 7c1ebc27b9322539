// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fabric after a run: its statistics, the busiest channels, and the distribution of the load.
//!
//! Costs O(channels) once, at the end. A run keeps only the network's own statistics.

use std::cmp::Reverse;

use selvedge_document::plot::{Axis, Line, Shape};
use selvedge_document::{Plot, Table, words};
use selvedge_fabric::{NodeId, Peer, Topology};
use serde_json::{Value, json};

use crate::network::{Counted, NetworkStatistics};
use crate::time::Time;

const BUSIEST: usize = 16;
/// Name of the plot of the busiest channels.
pub(super) const HOT_CHANNELS: &str = "hot-channels";
const STEPS: usize = 20;

/// The figures of a fabric for a report.
#[derive(Clone, Debug, Default)]
pub struct Fabric {
    pub statistics: NetworkStatistics,
    /// The busiest channels, in descending order.
    pub busiest: Vec<Channel>,
    /// Channels between routers, and how many of them were used.
    pub links: u64,
    pub links_used: u64,
    /// Used channels between routers by their utilisation, in steps of five percent; the last holds those above 95.
    pub utilisation_steps: Vec<u64>,
    /// Mean share of the time for which the used channels between routers were busy.
    pub utilisation_mean: f64,
    /// Flits that each node injected, and flits that it received; by node.
    pub flits_out: Vec<u64>,
    pub flits_in: Vec<u64>,
}

/// One direction of one link.
#[derive(Clone, Debug)]
pub struct Channel {
    pub name: String,
    pub packets: u64,
    pub flits: u64,
    pub busy: Time,
    pub utilisation: f64,
}

impl Fabric {
    /// Collects the figures of a network at time `end`.
    pub fn of(network: &dyn Counted, end: Time) -> Fabric {
        let topology = network.topology();
        let mut steps = vec![0u64; STEPS];
        let (mut links, mut used, mut sum) = (0u64, 0u64, 0.0);
        let mut busy: Vec<(Reverse<u64>, u32)> = Vec::new();
        let rails = topology.rails();
        let mut flits_in = vec![0; rails.nodes() as usize];
        for channel in 0..topology.channels() {
            let counted = network.channel_statistics(channel);
            match target(topology, channel) {
                Peer::Unconnected => continue,
                Peer::Node(node) => flits_in[rails.node(node) as usize] += counted.flits,
                Peer::Router { .. } if topology.channel_source(channel).is_some() => {
                    links += 1;
                    if counted.flits > 0 {
                        let utilisation = share(counted.busy, end);
                        steps[((utilisation * STEPS as f64) as usize).min(STEPS - 1)] += 1;
                        used += 1;
                        sum += utilisation;
                    }
                }
                Peer::Router { .. } => {}
            }
            if counted.busy > Time::ZERO {
                busy.push((Reverse(counted.busy.0), channel));
            }
        }
        // Equally busy channels are in the order of their numbers.
        let named = BUSIEST.min(busy.len());
        if named > 0 {
            busy.select_nth_unstable(named - 1);
        }
        busy.truncate(named);
        busy.sort_unstable();
        let busiest = busy.iter().map(|&(_, channel)| {
            let counted = network.channel_statistics(channel);
            let utilisation = share(counted.busy, end);
            let name = channel_name(topology, channel);
            Channel { name, packets: counted.packets, flits: counted.flits, busy: counted.busy, utilisation }
        });
        let injected = |endpoint| network.channel_statistics(topology.injection_channel(endpoint)).flits;
        let injected = |node| rails.of_node(node).map(injected).sum();
        Fabric {
            busiest: busiest.collect(),
            links,
            links_used: used,
            utilisation_steps: if used > 0 { steps } else { Vec::new() },
            utilisation_mean: if used > 0 { sum / used as f64 } else { 0.0 },
            flits_out: (0..rails.nodes()).map(injected).collect(),
            flits_in,
            statistics: network.statistics().clone(),
        }
    }

    pub fn table(&self) -> Table {
        let s = &self.statistics;
        let mut table = Table::of_values();
        table.value("packets delivered", words::count(s.delivered));
        table.value("packets lost", words::count(s.lost));
        table.value("packet hops", words::count(s.hops));
        table.value("heads blocked", format!("{} ({})", words::count(s.blocked), words::percent(s.blocking_rate())));
        if s.blocked > 0 {
            table.value("mean blocking", words::time_ns(s.blocking_time_mean_ns()));
        }
        if s.losses + s.corruptions + s.retransmissions > 0 {
            table.value("lost or corrupted on links", words::count(s.losses + s.corruptions));
            table.value("retransmissions", words::count(s.retransmissions));
        }
        if s.deadlocks > 0 {
            table.value("deadlocks", words::count(s.deadlocks));
            table.value("packets in deadlocks", words::count(s.deadlocked_packets));
            table.value("packets taken out of deadlocks", words::count(s.recovered));
            table.value("mean length of a cycle", words::plain(s.cycle_length_mean()));
        }
        let used = format!("{} of {}", words::count(self.links_used), words::count(self.links));
        table.value("channels between routers used", used);
        table.value("used ones busy, mean", words::percent(self.utilisation_mean));
        if let Some(channel) = self.busiest.first() {
            table.value("busiest channel", format!("{}: {}", channel.name, words::percent(channel.utilisation)));
        }
        table
    }

    pub fn channel_table(&self) -> Table {
        let mut table = Table::with_heads(&["channel", ">packets", ">flits", ">busy for", ">busy"]);
        for channel in &self.busiest {
            table.row([
                channel.name.clone(),
                words::count(channel.packets),
                words::count(channel.flits),
                words::time_ns(channel.busy.as_ns_f64()),
                words::percent(channel.utilisation),
            ]);
        }
        table
    }

    pub fn plots(&self) -> Vec<Plot> {
        let step = 1.0 / STEPS as f64;
        let bars = self.utilisation_steps.iter().enumerate();
        let bars = bars.map(|(at, &links)| (at as f64 * step, (at + 1) as f64 * step, links as f64)).collect();
        let ranked = self.busiest.iter().map(|channel| (channel.name.clone(), channel.utilisation)).collect();
        let per_node = |name: &str, flits: &[u64]| Line { name: name.to_owned(), points: by_node(flits) };
        let all = [
            Plot {
                name: "link-utilisation".into(),
                title: "Used channels between routers by their utilisation".into(),
                x: Axis::linear("share of the time for which a channel was busy", words::percent),
                y: Axis::whole("channels", words::plain),
                shape: Shape::Bars(bars),
            },
            Plot {
                name: HOT_CHANNELS.into(),
                title: "Busiest channels".into(),
                x: Axis::linear("share of the time", words::percent),
                y: Axis::linear("", words::plain),
                shape: Shape::Ranked(ranked),
            },
            Plot {
                name: "nodes".into(),
                title: "Flits in and out, by node".into(),
                x: Axis::whole("node", words::plain),
                y: Axis::linear("flits", words::scaled),
                shape: Shape::Lines(vec![per_node("out", &self.flits_out), per_node("in", &self.flits_in)]),
            },
        ];
        all.into_iter().filter(|plot| !plot.is_empty()).collect()
    }

    pub fn json(&self) -> Value {
        let s = &self.statistics;
        let busiest = self.busiest.iter().map(|channel| {
            json!({
                "name": channel.name,
                "packets": channel.packets,
                "flits": channel.flits,
                "busy_ps": channel.busy.0,
                "utilisation": channel.utilisation,
            })
        });
        json!({
            "packet_hops": s.hops,
            "events": s.events,
            "packets_injected": s.injected,
            "packets_delivered": s.delivered,
            "packets_lost": s.lost,
            "delivered_bytes": s.delivered_bytes,
            "channel_requests": s.requests,
            "blocked": s.blocked,
            "blocked_ps": s.blocked_ps,
            "blocking_rate": s.blocking_rate(),
            "blocking_mean_ns": s.blocking_time_mean_ns(),
            "link_losses": s.losses,
            "link_corruptions": s.corruptions,
            "retransmissions": s.retransmissions,
            "control_packets": s.control_packets,
            "marked_packets": s.marks,
            "deadlocks": s.deadlocks,
            "deadlocked_packets": s.deadlocked_packets,
            "recovered_packets": s.recovered,
            "cycle_length_mean": s.cycle_length_mean(),
            "cycle_lengths": s.cycle_lengths,
            "links": self.links,
            "links_used": self.links_used,
            "utilisation_mean": self.utilisation_mean,
            "utilisation_steps": self.utilisation_steps,
            "busiest_channels": busiest.collect::<Vec<_>>(),
        })
    }
}

/// Returns the two ends of a channel: "(0,1) -> (0,2)", "(0,1) -> node 3", "node 3 -> (0,1)".
pub fn channel_name(topology: &Topology, channel: u32) -> String {
    format!("{} -> {}", channel_source_name(topology, channel), channel_target_name(topology, channel))
}

/// Returns the name of the router or node that sends over a channel.
pub fn channel_source_name(topology: &Topology, channel: u32) -> String {
    match topology.channel_source(channel) {
        Some((router, _)) => topology.router_name(router),
        None => topology.node_name(injecting(topology, channel)),
    }
}

/// Returns the name of the router or node at the end of a channel.
pub fn channel_target_name(topology: &Topology, channel: u32) -> String {
    match target(topology, channel) {
        Peer::Router { router, .. } => topology.router_name(router),
        Peer::Node(node) => topology.node_name(node),
        Peer::Unconnected => "nothing".to_owned(),
    }
}

fn target(topology: &Topology, channel: u32) -> Peer {
    match topology.channel_source(channel) {
        Some((router, port)) => topology.peer(router, port),
        None => {
            let node = injecting(topology, channel);
            if node.0 >= topology.nodes() {
                return Peer::Unconnected;
            }
            let (router, port) = topology.attachment(node);
            Peer::Router { router, port }
        }
    }
}

fn injecting(topology: &Topology, channel: u32) -> NodeId {
    NodeId(channel - topology.injection_channel(NodeId(0)))
}

fn share(busy: Time, whole: Time) -> f64 {
    if whole == Time::ZERO { 0.0 } else { (busy.0 as f64 / whole.0 as f64).min(1.0) }
}

/// Returns a point for each node up to the last used one; with many nodes, the mean of several neighbours.
fn by_node(flits: &[u64]) -> Vec<(f64, f64)> {
    const POINTS: usize = 512;
    let used = flits.iter().rposition(|flits| *flits > 0).map_or(0, |last| last + 1);
    let block = used.div_ceil(POINTS).max(1);
    let mean = |(at, nodes): (usize, &[u64])| {
        ((at * block) as f64, nodes.iter().map(|flits| *flits as f64).sum::<f64>() / nodes.len() as f64)
    };
    flits[..used].chunks(block).enumerate().map(mean).collect()
}
