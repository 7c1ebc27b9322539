// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The points of the study of seed 002, section 2.7, figures 2-20 to 2-22: frequency of blocking and of deadlocks over the
//! locality of the traffic. The scenario `examples/studies/blocking.toml` has its networks and its parameters; each point is
//! the mean over runs of traffic.

use serde::Serialize;

use crate::time::Time;

/// Parameters of the study that its report shows.
#[derive(Clone, Debug, PartialEq)]
pub struct StudyConfig {
    /// Routers in each of the two dimensions.
    pub size: u32,
    pub load: f64,
    pub message_bytes: u32,
    /// Runs for each point, each with its own seed.
    pub runs: u32,
    pub warm_up: Time,
    /// The measured interval of each run.
    pub measured: Time,
    pub seed: u64,
}

impl Default for StudyConfig {
    fn default() -> StudyConfig {
        StudyConfig {
            size: 16,
            load: 0.15,
            message_bytes: 240,
            runs: 2,
            warm_up: Time::from_ns(20_000),
            measured: Time::from_ns(60_000),
            seed: 1,
        }
    }
}

/// Results of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StudyRun {
    pub blocking_rate: f64,
    pub blocking_time_mean_ns: f64,
    pub deadlock_probability: f64,
    pub deadlocks: u64,
    pub cycle_length_mean: f64,
    pub latency_mean_ns: f64,
    pub accepted: f64,
    pub packets: u64,
}

/// One point of a curve: the means over its runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StudyPoint {
    /// `mesh` or `torus`.
    pub topology: String,
    pub routing: String,
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

impl StudyPoint {
    /// The point of some runs, at least one.
    pub fn of(topology: &str, routing: &str, locality: f64, runs: &[StudyRun]) -> StudyPoint {
        let count = runs.len() as f64;
        let mean = |of: &dyn Fn(&StudyRun) -> f64| runs.iter().map(of).sum::<f64>() / count;
        let deadlocks: u64 = runs.iter().map(|run| run.deadlocks).sum();
        let lengths: f64 = runs.iter().map(|run| run.cycle_length_mean * run.deadlocks as f64).sum();
        StudyPoint {
            topology: topology.to_owned(),
            routing: routing.to_owned(),
            locality,
            blocking_rate: mean(&|run| run.blocking_rate),
            blocking_time_mean_ns: mean(&|run| run.blocking_time_mean_ns),
            deadlock_probability: mean(&|run| run.deadlock_probability),
            deadlocked_runs: mean(&|run| f64::from(u8::from(run.deadlocks > 0))),
            deadlocks,
            cycle_length_mean: if deadlocks > 0 { lengths / deadlocks as f64 } else { 0.0 },
            latency_mean_ns: mean(&|run| run.latency_mean_ns),
            accepted: mean(&|run| run.accepted),
            packets: runs.iter().map(|run| run.packets).sum(),
        }
    }
}
