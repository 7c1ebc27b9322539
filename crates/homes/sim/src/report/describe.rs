// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine without a run: its parts, the latencies of its empty fabric, whether its routing can deadlock, the cost of
//! a message step by step, and every number with its source.

use selvedge_document::{Document, Section, Table, words};
use selvedge_fabric::{Dependencies, NodeId, dependency};
use serde_json::{Value, json};

use super::run::machine_json;
use super::sheet::Sheet;
use crate::machine::{Machine, Mode};
use crate::network::{Network, NetworkError};
use crate::time::Time;

/// Name and version of the JSON's schema.
pub const SCHEMA: &str = "selvedge.sim.machine/1";
/// Most pairs of nodes, times routes of a pair, for which the dependency graph is made. On larger machines
/// [`selvedge_fabric::Routing::deadlock_free`] decides.
const PAIRS_MAX: u64 = 1 << 22;

/// The facts about a machine.
#[derive(Clone, Debug)]
pub struct Facts {
    pub nodes: u32,
    pub routers: u32,
    pub channels: u32,
    pub diameter_links: u32,
    pub bisection_channels: Option<u32>,
    /// Share of a channel's bandwidth that each node can inject under uniform traffic.
    pub saturation: Option<f64>,
    pub deadlock: Deadlock,
    /// Distance as text, bytes, and latency through the empty fabric.
    pub latencies: Vec<(&'static str, u32, Time)>,
    /// Steps of a message of 8 bytes on its source node and on its target node.
    pub steps: Vec<(&'static str, Time)>,
}

/// Whether the routing can deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deadlock {
    /// It cannot: the channel dependency graph has this many edges and no cycle.
    Acyclic(u64),
    /// It cannot, by the theory of the algorithm; the graph is too large to check.
    Free,
    /// It can: these channels would wait for each other.
    Cycle(String),
    /// It can, by the theory of the algorithm; the graph is too large to check.
    Possible,
}

impl Facts {
    pub fn of(machine: &Machine) -> Result<Facts, NetworkError> {
        let topology = &machine.topology;
        let network = Network::new(topology.clone(), machine.routing.clone(), machine.network.clone())?;
        let saturation = topology.saturation_uniform().map(|(of, whole)| of as f64 / whole as f64);
        Ok(Facts {
            nodes: topology.rails().nodes(),
            routers: topology.routers(),
            channels: topology.channels(),
            diameter_links: topology.diameter(),
            bisection_channels: topology.bisection_channels(),
            saturation,
            deadlock: deadlock(machine),
            latencies: latencies(machine, &network),
            steps: steps(machine),
        })
    }

    pub fn document(&self, machine: &Machine) -> Document {
        let mut parts = Table::of_values();
        parts.value("topology", machine.topology.kind());
        parts.value("nodes", words::count(self.nodes.into()));
        if let Some(rails) = machine.rails_words() {
            parts.value("rails of each", rails);
        }
        parts.value("routers", words::count(self.routers.into()));
        parts.value("channels", words::count(self.channels.into()));
        parts.value("diameter", format!("{} links", self.diameter_links));
        if let Some(channels) = self.bisection_channels {
            parts.value("bisection", format!("{channels} channels each way"));
        }
        if let Some(share) = self.saturation {
            parts.value(
                "uniform traffic saturates at",
                format!("{} of a link for each node, at most", words::percent(share)),
            );
        }
        let routing = &machine.routing;
        let channels = (routing.virtual_channels(), routing.virtual_channels_needed());
        parts.value(
            "routing",
            format!("{}, {} virtual channels of which it needs {}", routing.algorithm(), channels.0, channels.1),
        );
        if routing.explicit_pairs() > 0 {
            parts.value("pairs with routes from a file", words::count(routing.explicit_pairs() as u64));
        }
        parts.value("deadlock", self.deadlock_words());
        let mut latencies = Table::with_heads(&["from a node to", ">payload", ">latency"]);
        for (distance, bytes, latency) in &self.latencies {
            latencies.row([
                (*distance).to_owned(),
                words::bytes(f64::from(*bytes)),
                words::time_ns(latency.as_ns_f64()),
            ]);
        }
        let mut steps = Table::with_heads(&["step of a message of 8 bytes", ">takes"]);
        for (step, time) in &self.steps {
            steps.row([(*step).to_owned(), words::time_ns(time.as_ns_f64())]);
        }
        Document {
            title: format!("Machine {}", machine.name),
            about: machine.about.clone(),
            sections: vec![
                Section::new("Machine").in_summary().table(parts),
                Section::new("Latency of the empty fabric").in_summary().table(latencies),
                Section::new("Steps").in_summary().table(steps),
                Section::new("Numbers and their sources").in_summary().table(Sheet::of(&machine.description).table()),
            ],
        }
    }

    fn deadlock_words(&self) -> String {
        match &self.deadlock {
            Deadlock::Acyclic(edges) => {
                format!("free of it: the channel dependency graph ({edges} edges) has no cycle")
            }
            Deadlock::Free => "free of it, by the design of its routing".to_owned(),
            Deadlock::Cycle(cycle) => format!("possible: {cycle}"),
            Deadlock::Possible => "possible, by the design of its routing".to_owned(),
        }
    }

    pub fn json(&self, machine: &Machine) -> Value {
        let (free, shown, cycle) = match &self.deadlock {
            Deadlock::Acyclic(_) => (true, true, None),
            Deadlock::Free => (true, false, None),
            Deadlock::Cycle(cycle) => (false, true, Some(cycle)),
            Deadlock::Possible => (false, false, None),
        };
        let latencies = self.latencies.iter();
        let latencies =
            latencies.map(|(to, bytes, at)| json!({ "to": to, "payload_bytes": bytes, "latency_ps": at.0 }));
        let steps = self.steps.iter().map(|(step, time)| json!({ "step": step, "time_ps": time.0 }));
        json!({
            "schema": SCHEMA,
            "machine": machine_json(machine),
            "channels": self.channels,
            "diameter_links": self.diameter_links,
            "bisection_channels": self.bisection_channels,
            "saturation_uniform": self.saturation,
            "virtual_channels": machine.routing.virtual_channels(),
            "virtual_channels_needed": machine.routing.virtual_channels_needed(),
            "deadlock_free": free,
            "deadlock_shown_by_graph": shown,
            "deadlock_cycle": cycle,
            "empty_latencies": latencies.collect::<Vec<_>>(),
            "steps": steps.collect::<Vec<_>>(),
        })
    }
}

fn deadlock(machine: &Machine) -> Deadlock {
    let (topology, routing) = (&*machine.topology, &machine.routing);
    let rails = topology.rails();
    let nodes = u64::from(rails.nodes());
    let pairs = nodes.saturating_mul(nodes).saturating_mul(rails.count().into()).saturating_mul(routing.variants());
    if pairs > PAIRS_MAX {
        return if routing.deadlock_free() { Deadlock::Free } else { Deadlock::Possible };
    }
    // A packet arrives by the rail by which it left.
    let ends = |rail| (0..rails.nodes()).map(move |node| rails.endpoint(node, rail));
    let of_rail = |rail| ends(rail).flat_map(move |from| ends(rail).map(move |to| (from, to)));
    let graph = Dependencies::of_pairs(topology, routing, (0..rails.count()).flat_map(of_rail));
    match graph.cycle(topology) {
        None => Deadlock::Acyclic(graph.len() as u64),
        Some(cycle) => Deadlock::Cycle(dependency::describe(topology, &cycle)),
    }
}

/// Returns latencies from node 0 to the nearest and to the farthest node: 8 bytes, and a full packet.
fn latencies(machine: &Machine, network: &Network) -> Vec<(&'static str, u32, Time)> {
    let topology = &machine.topology;
    let rails = topology.rails();
    if rails.nodes() < 2 {
        return Vec::new();
    }
    let from = rails.endpoint(0, 0);
    let distances = topology.distances(topology.attachment(from).0);
    let links = |node: &NodeId| distances[topology.attachment(*node).0.0 as usize];
    let others = || (1..rails.nodes()).map(|node| rails.endpoint(node, 0));
    // Among equally distant nodes the first is taken.
    let nearest = others().min_by_key(|node| (links(node), node.0));
    let farthest = others().max_by_key(|node| (links(node), std::cmp::Reverse(node.0)));
    let packet = machine.network.link.packet_bytes;
    let mut all = Vec::new();
    for (words, to) in [("the nearest", nearest), ("the farthest", farthest)] {
        for bytes in [8.min(packet), packet] {
            all.extend(to.map(|to| (words, bytes, network.latency_empty(from, to, bytes))));
        }
    }
    all
}

fn steps(machine: &Machine) -> Vec<(&'static str, Time)> {
    const BYTES: u64 = 8;
    let (host, nic) = (&machine.host, &machine.nic);
    let mut steps = vec![
        ("the program hands it over", machine.issue(BYTES)),
        ("the NIC takes the command", if nic.mode == Mode::Nic { nic.command } else { Time::ZERO }),
    ];
    if BYTES > host.pio_bytes_max {
        steps.push((
            "the NIC reads the payload",
            nic.transfer + host.dma_read + Time::of_bytes(BYTES, host.dma_bytes_per_s),
        ));
    }
    match nic.mode {
        Mode::Nic => steps.push(("the target's NIC takes the header", nic.header)),
        Mode::Host => {
            steps.push(("the target's processor is interrupted", host.interrupt));
            steps.push(("it takes the header", nic.header));
            if BYTES > host.pio_bytes_max {
                steps.push(("it is interrupted again after the transfer", host.interrupt));
            }
        }
    }
    steps.extend([
        ("one entry is searched", machine.search(1, 1)),
        ("the payload is written", host.dma_write),
        ("an event is posted", nic.event),
        ("the program sees the event", host.memory_access),
        ("the library takes it in", host.software_receive),
    ]);
    steps
}
