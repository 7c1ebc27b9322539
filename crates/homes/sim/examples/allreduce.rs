// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the speed of the simulator: 128 ranks, 1,000 allreduces of 8 bytes by recursive doubling, on a machine.
//!
//! `cargo run --release -p selvedge-sim --example allreduce [MACHINE.toml]`

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use selvedge_sim::machine::load::load;
use selvedge_sim::node::{Options, Simulation};
use selvedge_sim::program::{Needs, Tasks};

fn main() {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../machines/cluster.toml");
    let file = std::env::args().nth(1).unwrap_or_else(|| default.to_owned());
    let machine = Arc::new(load(Path::new(&file)).unwrap_or_else(|error| panic!("{error}")));
    let needs = Needs { memory_bytes: 0, receives: 2, unexpected: 8, windows: 0, ..Needs::default() };
    let tasks = Tasks::new(128, &machine, &needs, |process| {
        Box::pin(async move {
            let (rank, size) = (process.rank(), process.size());
            for round in 0..1000 {
                let mut value = f64::from(rank + round);
                let mut distance = 1;
                while distance < size {
                    let partner = rank ^ distance;
                    let message = process.exchange(partner, partner, distance, &value.to_le_bytes()).await;
                    value += message.bytes.first_chunk().map_or(0.0, |word| f64::from_le_bytes(*word));
                    distance *= 2;
                }
                if value != f64::from(size * (size - 1) / 2 + size * round) {
                    return 1;
                }
            }
            0
        })
    });
    let mut simulation = Simulation::new(machine, tasks, Options::default()).unwrap_or_else(|error| panic!("{error}"));
    let began = Instant::now();
    let outcome = simulation.run(&mut |_| true);
    let wall = began.elapsed().as_secs_f64();
    let (hops, events) = (simulation.network().statistics().events, outcome.statistics.events);
    println!(
        "{}, code {}: {} virtual, {wall:.3} s wall; {} messages, {:.2} M events/s, {:.2} M packet-hop events/s, {:.0} ns a message",
        if outcome.code() == 0 { "right" } else { "WRONG" },
        outcome.code(),
        outcome.time,
        outcome.statistics.messages,
        events as f64 / wall / 1e6,
        hops as f64 / wall / 1e6,
        wall * 1e9 / outcome.statistics.messages as f64
    );
}
