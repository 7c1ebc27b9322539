// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The study of seed 002, section 2.7, figures 2-20 to 2-22: frequency of blocking and of deadlocks over the locality
//! of the traffic, on a mesh and a torus of 16 x 16 routers with one virtual channel.
//!
//! The parameters of ATOLL from the seed, and assumptions where the seed gives none:
//!
//! | parameter | value | from |
//! |---|---|---|
//! | virtual channels | 1 | sections 2.7 and 2.9 |
//! | switching | wormhole, round-robin | section 2.7 names both arbiters as the models |
//! | link bandwidth | 300 MB/s | one byte a cycle of 300 MHz (section 2.6.1); 269 MB/s were measured |
//! | a hop | 117 ns | 4.0 us after 7 hops less 3.3 us after 1, over 6 (section 2.6.1); assumed 40 ns link, 77 ns switch |
//! | flit, buffer | 16 bytes, 8 flits | assumed: covers a credit's round trip, and is shorter than a message |
//! | messages | 240 bytes and a header of 16 | assumed: a message extends over two or three routers |
//! | load | 15 % of the injection bandwidth | assumed: about the uniform traffic that the mesh carries |
//! | time to resolve a deadlock | 10 us | assumed: software takes the message out and forwards it |
//!
//! Shortest path breaks ties by a hash of router and destination, so its turns are not restricted, as with Dijkstra's
//! algorithm in the seed. Only the order of the curves is compared with the figures of the seed, since the seed does
//! not give the assumed parameters.

use std::ops::ControlFlow;
use std::sync::Arc;

use selvedge_fabric::{Algorithm, Routing, RoutingError, Topology, TopologyError};
use serde::Serialize;
use thiserror::Error;

use super::{Pattern, Stop, TrafficConfig, TrafficError, TrafficResults, run};
use crate::network::{Arbitration, DeadlockPolicy, LinkConfig, NetworkConfig, SwitchConfig, Switching};
use crate::time::Time;

/// The parameters of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct StudyConfig {
    /// Routers in each of the two dimensions.
    pub size: u32,
    pub localities: Vec<f64>,
    pub load: f64,
    pub message_bytes: u32,
    /// Runs for each point, each with its own seed.
    pub runs: u32,
    pub warm_up: Time,
    /// The measured interval of each run.
    pub measured: Time,
    pub seed: u64,
    pub network: NetworkConfig,
}

impl Default for StudyConfig {
    fn default() -> StudyConfig {
        StudyConfig {
            size: 16,
            localities: (0..=10).map(|tenth| f64::from(tenth) / 10.0).collect(),
            load: 0.15,
            message_bytes: 240,
            runs: 2,
            warm_up: Time::from_ns(20_000),
            measured: Time::from_ns(60_000),
            seed: 1,
            network: atoll(),
        }
    }
}

/// Returns the network of ATOLL, without its topology and routing.
pub fn atoll() -> NetworkConfig {
    NetworkConfig {
        link: LinkConfig {
            bandwidth_bytes_per_s: 300_000_000,
            latency: Time::from_ns(40),
            flit_bytes: 16,
            crc_bytes: 0,
            header_bytes: 16,
            pads: true,
            packet_bytes: 240,
            virtual_channels: 1,
            buffer_flits: 8,
        },
        switch: SwitchConfig {
            latency: Time::from_ns(77),
            arbitration: Arbitration::RoundRobin,
            switching: Switching::Wormhole,
            speed_up: None,
        },
        deadlock: DeadlockPolicy::Resolve { delay: Time::from_ns(10_000) },
        ..NetworkConfig::default()
    }
}

/// One curve of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Curve {
    pub torus: bool,
    pub algorithm: Algorithm,
}

/// The curves. As in ATOLL, dimension order on the torus has no second virtual channel to break the cycles of the
/// rings; according to the seed, its modified form can be used there.
pub const CURVES: [Curve; 8] = [
    Curve { torus: false, algorithm: Algorithm::DimensionOrder },
    Curve { torus: false, algorithm: Algorithm::ShortestPath },
    Curve { torus: false, algorithm: Algorithm::UpDown },
    Curve { torus: false, algorithm: Algorithm::WestFirst },
    Curve { torus: true, algorithm: Algorithm::DimensionOrderUnguarded },
    Curve { torus: true, algorithm: Algorithm::ModifiedDimensionOrder },
    Curve { torus: true, algorithm: Algorithm::ShortestPath },
    Curve { torus: true, algorithm: Algorithm::UpDown },
];

/// One point of a curve: the means over its runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StudyPoint {
    /// `mesh` or `torus`.
    pub topology: &'static str,
    pub routing: &'static str,
    pub locality: f64,
    /// Share of the heads at routers that were blocked.
    pub blocking_rate: f64,
    pub blocking_time_mean_ns: f64,
    /// Packets taken out of a deadlock, as a share of these and all packets that arrived.
    pub deadlock_probability: f64,
    /// Share of the runs that had a deadlock.
    pub deadlocked_runs: f64,
    pub deadlocks: u64,
    /// Mean length of a cycle in virtual channels; 0: no cycle.
    pub cycle_length_mean: f64,
    pub latency_mean_ns: f64,
    pub accepted: f64,
    pub packets: u64,
}

/// Reason why a study cannot be run.
#[derive(Debug, Error, Clone, PartialEq)]
pub enum StudyError {
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error(transparent)]
    Routing(#[from] RoutingError),
    #[error(transparent)]
    Traffic(#[from] TrafficError),
}

/// Computes all points, curve after curve. `progress` is called after each point with the number of points that remain;
/// if it returns false, the study ends, with the points so far.
pub fn study(
    config: &StudyConfig,
    curves: &[Curve],
    progress: &mut dyn FnMut(&StudyPoint, usize) -> ControlFlow<()>,
) -> Result<Vec<StudyPoint>, StudyError> {
    let mut points = Vec::new();
    let all = curves.len() * config.localities.len();
    for curve in curves {
        let dimensions = [config.size, config.size];
        let topology = match curve.torus {
            false => Topology::mesh(&dimensions, 1)?,
            true => Topology::torus(&dimensions, &[], 1)?,
        };
        let topology = Arc::new(topology);
        let routing = Routing::new(&topology, curve.algorithm, config.network.link.virtual_channels)?;
        for &locality in &config.localities {
            let runs = (0..config.runs.max(1)).map(|number| one_run(config, &topology, &routing, locality, number));
            let point = summary(*curve, locality, &runs.collect::<Result<Vec<_>, _>>()?);
            let stop = progress(&point, all - points.len() - 1);
            points.push(point);
            if stop.is_break() {
                return Ok(points);
            }
        }
    }
    Ok(points)
}

fn one_run(
    config: &StudyConfig,
    topology: &Arc<Topology>,
    routing: &Routing,
    locality: f64,
    number: u32,
) -> Result<TrafficResults, TrafficError> {
    let seed = config.seed.wrapping_add(u64::from(number));
    let traffic = TrafficConfig {
        pattern: Pattern::Locality(locality),
        load: config.load,
        message_bytes: config.message_bytes,
        warm_up: config.warm_up,
        measured: config.measured,
        // A saturated network takes long to drain, and the study needs only the measured interval.
        drain_max: Time::ZERO,
        source_packets_max: 64,
        seed,
        faults: Vec::new(),
        rerouting: None,
        threads: 1,
    };
    let network = NetworkConfig { seed, ..config.network.clone() };
    let results = run(topology.clone(), routing.clone(), network, &traffic, &mut |_| ControlFlow::Continue(()))?;
    debug_assert!(results.stopped.is_none_or(|stop| stop == Stop::NotDrained));
    Ok(results)
}

fn summary(curve: Curve, locality: f64, runs: &[TrafficResults]) -> StudyPoint {
    let count = runs.len() as f64;
    let mean = |of: &dyn Fn(&TrafficResults) -> f64| runs.iter().map(of).sum::<f64>() / count;
    let deadlocks: u64 = runs.iter().map(|run| run.deadlocks).sum();
    let lengths: f64 = runs.iter().map(|run| run.cycle_length_mean * run.deadlocks as f64).sum();
    StudyPoint {
        topology: if curve.torus { "torus" } else { "mesh" },
        routing: curve.algorithm.name(),
        locality,
        blocking_rate: mean(&|run| run.blocking_rate),
        blocking_time_mean_ns: mean(&|run| run.blocking_time_mean_ns),
        deadlock_probability: mean(&|run| run.deadlock_probability),
        deadlocked_runs: mean(&|run| f64::from(u8::from(run.deadlocks > 0))),
        deadlocks,
        cycle_length_mean: if deadlocks > 0 { lengths / deadlocks as f64 } else { 0.0 },
        latency_mean_ns: mean(&|run| run.latency.mean_ns),
        accepted: mean(&|run| run.accepted),
        packets: runs.iter().map(|run| run.packets).sum(),
    }
}
