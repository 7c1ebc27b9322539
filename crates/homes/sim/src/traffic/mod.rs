// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Synthetic traffic on a network alone: throughput, latency, blocking and deadlocks.
//!
//! Every node generates messages at random times, independent of all others (exponential gaps), cuts them into packets
//! and injects them. The load is the share of the injection channel's time that the packets take, with overhead: at 1
//! every node sends without a pause. After a warm-up, traffic is measured for an interval. Then no new message is
//! generated, and the run waits for the messages of the interval.
//!
//! A node whose source queue is full generates no message until the queue has room, so that an overloaded network does
//! not exhaust memory. A message that was not generated does not count as offered. Latency starts at generation.
//!
//! Links may fail and be repaired during a run, and routers' managers then change the routes. Invariant: each injected
//! packet is delivered, lost for one reason, or in flight at the end ([`Totals`]).
//!
//! A fabric is divided into partitions, one for each thread (`part.rs`, `windows.rs`).
//!
//! Costs: those of the network, and one event for each message and each change of a link. [`study`] has the points of the
//! study of seed 002, figures 2-20 to 2-22.

mod destinations;
mod part;
mod pattern;
mod results;
pub mod study;
mod windows;

use std::ops::ControlFlow;
use std::sync::Arc;

use selvedge_fabric::{Routing, Topology};
use thiserror::Error;

pub use destinations::Destinations;
pub use pattern::{Pattern, PatternError};
pub use results::{BusyChannel, CycleMember, Latency, Stop, Totals, TrafficResults};

use crate::network::{Counted, Network, NetworkConfig, NetworkError, Observe, Partition, Reroute, Undivided};
use crate::node::Fault;
use crate::rerouting::{RerouteConfig, RerouteError, Rerouter};
use crate::time::Time;
use part::{Part, Plan};
use windows::Run;

/// The traffic of the nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficConfig {
    pub pattern: Pattern,
    /// Load: the share of the time of the injection channels, of all rails, above 0 and at most 1.
    pub load: f64,
    /// Payload of each message.
    pub message_bytes: u32,
    pub warm_up: Time,
    pub measured: Time,
    /// Longest wait for the messages of the interval after its end.
    pub drain_max: Time,
    /// Most packets in the source queues of a node, times its rails; a node with more generates no message.
    pub source_packets_max: u32,
    pub seed: u64,
    /// Failures and repairs of channels, in order of time.
    pub faults: Vec<Fault>,
    /// Managers that reroute; `None`: routes stay as they are.
    pub rerouting: Option<RerouteConfig>,
    /// Threads to run on, at most. The results are the same for every number.
    pub threads: u32,
}

impl Default for TrafficConfig {
    fn default() -> TrafficConfig {
        TrafficConfig {
            pattern: Pattern::Uniform,
            load: 0.3,
            message_bytes: 256,
            warm_up: Time::from_ns(50_000),
            measured: Time::from_ns(200_000),
            drain_max: Time::from_ns(1_000_000),
            source_packets_max: 256,
            seed: 1,
            faults: Vec::new(),
            rerouting: None,
            threads: 1,
        }
    }
}

/// Reason why traffic cannot be generated. Each message names the remedy.
#[derive(Debug, Error, Clone, PartialEq)]
pub enum TrafficError {
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error(transparent)]
    Network(#[from] NetworkError),
    #[error(transparent)]
    Reroute(#[from] RerouteError),
    #[error("a load of {load} is not a share of the injection bandwidth; give more than 0, and at most 1")]
    Load { load: f64 },
    #[error("nothing is measured in an interval of {measured}; give a longer one")]
    Interval { measured: Time },
    #[error("a node may hold {limit} packets, but a message has {packets}; raise the limit, or make messages shorter")]
    Source { limit: u32, packets: u32 },
    #[error("an observer of the run has failed: {why}; give it a folder with room")]
    Observer { why: String },
    #[error("threads cannot be started: {why}; allow more processes, or give --threads 1")]
    Threads { why: String },
}

/// The progress of a run.
#[derive(Clone, Copy)]
pub struct Progress<'a> {
    pub now: Time,
    /// End of the measured interval, after which no message is generated.
    pub until: Time,
    pub hops: u64,
    pub in_flight: u64,
    pub network: &'a dyn Counted,
}

/// Runs traffic. `progress` is called from time to time, and at the end; if it breaks, the run ends, with the results so
/// far.
pub fn run(
    topology: Arc<Topology>,
    routing: Routing,
    network: NetworkConfig,
    traffic: &TrafficConfig,
    progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<TrafficResults, TrafficError> {
    run_observed(topology, routing, network, traffic, Vec::new(), progress)
}

/// Like [`run`], with observers of the network. The results are the same. They need the whole network, so it is not divided.
pub fn run_observed(
    topology: Arc<Topology>,
    routing: Routing,
    network: NetworkConfig,
    traffic: &TrafficConfig,
    observers: Vec<Box<dyn Observe>>,
    progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<TrafficResults, TrafficError> {
    let rerouting = traffic.rerouting.clone();
    let rerouter = rerouting.map(|config| Rerouter::new(&topology, &routing, &network, config)).transpose()?;
    let plan = plan(&topology, &network, traffic)?;
    let is_whole = rerouter.is_some() || !observers.is_empty() || undivided(&topology, &routing, &network).is_some();
    let count = if is_whole { 1 } else { traffic.threads.max(1) };
    let partitions = match count {
        1 => vec![Partition::whole(&topology)],
        count => Partition::divide(&topology, routing.algorithm(), count),
    };
    let threads = threads(partitions.len())?;
    let mut networks = Network::divided(topology, Arc::new(routing), &network, partitions.clone())?;
    if rerouter.is_some() {
        networks.iter_mut().for_each(Network::allow_rerouting);
    }
    observers.into_iter().for_each(|observer| networks[0].observe(observer));
    let parts = networks.into_iter().zip(&partitions);
    let parts = parts.map(|(network, partition)| Part::new(&plan, network, partition, partitions.len())).collect();
    let rerouter = rerouter.map(Box::new);
    let mut run = Run { plan: &plan, parts, threads, rerouter, manage_at: None, faults: 0, begin: None, end: None };
    let stop = run.go(progress);
    run.parts.iter_mut().for_each(Part::take_in);
    let now = run.counts().last;
    if stop != Some(Stop::Interrupted) {
        let _ = run.show(now, progress);
    }
    for part in &mut run.parts {
        let observed = part.network.end_observation(now);
        observed.map_err(|error| TrafficError::Observer { why: error.to_string() })?;
    }
    Ok(run.results(stop))
}

/// Returns why a fabric is simulated by one thread, if so.
pub fn undivided(topology: &Topology, routing: &Routing, network: &NetworkConfig) -> Option<Undivided> {
    network.undivided(topology, routing.deadlock_free())
}

/// Checks the settings, and prepares what all partitions need.
fn plan<'a>(
    topology: &Topology,
    network: &NetworkConfig,
    traffic: &'a TrafficConfig,
) -> Result<Plan<'a>, TrafficError> {
    if !(traffic.load > 0.0 && traffic.load <= 1.0) {
        return Err(TrafficError::Load { load: traffic.load });
    }
    if traffic.measured == Time::ZERO {
        return Err(TrafficError::Interval { measured: traffic.measured });
    }
    let packet_bytes = network.link.packet_bytes.max(1);
    let packets = traffic.message_bytes.div_ceil(packet_bytes).max(1);
    if traffic.source_packets_max < packets {
        return Err(TrafficError::Source { limit: traffic.source_packets_max, packets });
    }
    let destinations = Destinations::new(traffic.pattern, topology)?;
    let time = |bytes| network.packet_time(network.node_flit_time(), bytes);
    let busy: Time = cut(traffic.message_bytes, packet_bytes).map(time).sum();
    let rails = *topology.rails();
    let gap_mean_ps = busy.as_ps() as f64 / traffic.load / f64::from(rails.count());
    let (until, lookahead) = (traffic.warm_up + traffic.measured, network.lookahead(topology));
    let rail_choice = network.rail_choice;
    Ok(Plan { traffic, destinations, rails, rail_choice, gap_mean_ps, packets, until, lookahead })
}

/// Starts a thread for each partition; none for one.
fn threads(partitions: usize) -> Result<Option<rayon::ThreadPool>, TrafficError> {
    if partitions == 1 {
        return Ok(None);
    }
    let threads = rayon::ThreadPoolBuilder::new().num_threads(partitions).build();
    threads.map(Some).map_err(|error| TrafficError::Threads { why: error.to_string() })
}

/// Returns the payload of each packet of a message.
fn cut(message_bytes: u32, packet_bytes: u32) -> impl Iterator<Item = u32> {
    let packets = message_bytes.div_ceil(packet_bytes).max(1);
    (0..packets).map(move |packet| (message_bytes - packet * packet_bytes).min(packet_bytes))
}

#[cfg(test)]
#[path = "traffic_tests.rs"]
mod tests;
