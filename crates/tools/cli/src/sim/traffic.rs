// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge sim --traffic` and `--study`: the network alone, without ranks.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use selvedge_document::words;
use selvedge_sim::machine::Machine;
use selvedge_sim::network::DeadlockPolicy;
use selvedge_sim::report::{Heat, Traffic, Wall};
use selvedge_sim::traffic::{Pattern, Stop, TrafficConfig, TrafficError, run_observed as one_load};
use selvedge_terminal::Progress;

use super::command_line::{Args, NO_REGIONS};
use super::progress::Interrupt;
use super::runner::{EXIT_INTERRUPTED, memory_peak_bytes};
use super::threads;
use super::usage::Usage;
use super::watched::Watched;

/// Patterns as written on the command line, for `--list`.
pub const PATTERNS: [(&str, &str); 13] = [
    ("uniform", "every other node is equally likely"),
    ("locality:SHARE", "this share to neighbouring nodes, the rest anywhere; 0.7 if left out"),
    ("hotspot:NODE:SHARE", "this share to one node, the rest anywhere"),
    ("incast:SOURCES[:NODE]", "so many nodes, evenly spread, to one; to node 0 if left out"),
    ("permutation[:SEED]", "each node to one other, and from one other, drawn with the seed"),
    ("transpose", "from row r, column c to row c, column r"),
    ("bit-complement", "node n of N to N - 1 - n"),
    ("bit-reverse", "of 2^k nodes, to the number with its bits in reverse order"),
    ("shuffle", "of 2^k nodes, to the number with its bits rotated to the left"),
    ("neighbour", "node n to n + 1"),
    ("shift:DISTANCE", "node n to n + DISTANCE"),
    ("tornado", "nearly half way round each dimension"),
    ("adversarial", "from each group of a dragonfly to the next, or router of a HyperX or Slim Fly"),
];

/// Sends traffic of a pattern, at each load.
pub fn run(args: &Args, machine: &Arc<Machine>, pattern: &str) -> Result<u8> {
    let given = &args.traffic_options;
    if args.region.is_some() {
        return Err(Usage(NO_REGIONS.to_owned()).into());
    }
    let timelines = [("--trace", &args.output.trace), ("--otf2", &args.output.otf2)];
    if let Some((option, _)) = timelines.iter().find(|(_, given)| given.is_some()) {
        return Err(Usage(format!("{option} is for programs: traffic has no messages to follow")).into());
    }
    let pattern: Pattern = pattern.parse().map_err(|error| Usage(format!("--traffic: {error}")))?;
    let config = TrafficConfig {
        pattern,
        message_bytes: given.message_bytes,
        warm_up: given.skip,
        measured: given.measured,
        drain_max: given.drain,
        source_packets_max: given.source_packets,
        seed: args.seed,
        faults: args.faults(&machine.topology)?,
        rerouting: args.rerouting(&machine.topology)?,
        threads: threads::of_traffic(args, machine)?,
        ..TrafficConfig::default()
    };
    let mut network = machine.network.clone();
    network.deadlock = match given.stop_at_deadlock {
        true => DeadlockPolicy::Detect,
        false => DeadlockPolicy::Resolve { delay: given.deadlock_delay },
    };
    let mut loads = given.load.clone();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let (interrupt, mut line) = (Interrupt::listen()?, Progress::polled(args.output.quiet));
    let started = Instant::now();
    let mut results = Vec::new();
    let links = || args.output.shows_links().then(|| Heat::new(&machine.topology, &config.faults));
    let mut heat = links();
    let title = format!("{pattern} traffic on {}", machine.name);
    let mut watched = Watched::start(&args.output, &title, heat.as_ref())?;
    let mut said = String::new();
    for &load in &loads {
        let config = TrafficConfig { load, ..config.clone() };
        heat = links();
        let mut progress = |progress: selvedge_sim::traffic::Progress<'_>| {
            if let Some(heat) = &mut heat {
                heat.look(progress.network, progress.now);
            }
            said = format!("load {}: {} of {}", words::percent(load), progress.now, progress.until);
            watched.show(heat.as_ref(), || said.clone());
            line.update(|seconds| {
                let rate = words::rate(progress.hops as f64 / seconds);
                format!("{said}, {rate} packet hops")
            });
            if interrupt.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let observers = args.observing.observers(&machine.topology, &network)?;
        let (topology, routing) = (machine.topology.clone(), machine.routing.clone());
        let done = one_load(topology, routing, network.clone(), &config, observers, &mut progress);
        results.push(done.map_err(|error: TrafficError| Usage(error.to_string()))?);
        if interrupt.is_set() {
            break;
        }
    }
    watched.end(heat.as_ref(), &said);
    let seconds = started.elapsed().as_secs_f64();
    drop(line);
    let interrupted = results.iter().any(|run| run.stopped == Some(Stop::Interrupted)) || results.len() < loads.len();
    let wall = Wall { seconds, memory_peak_bytes: memory_peak_bytes(), more: Vec::new() };
    let (machine, options, wall) = (machine.clone(), args.options(), Some(wall));
    let report = Traffic { machine, config, options, results, heat, wall };
    args.output.write_with_links(&report.document(), report.heat.as_ref(), || report.json())?;
    Ok(if interrupted { EXIT_INTERRUPTED } else { 0 })
}

/// The study of seed 002, figures 2-20 to 2-22, as the scenario of [`crate::study`].
pub fn study(args: &Args) -> Result<u8> {
    if args.machine.is_some() {
        return Err(Usage("--study has its own machines, mesh and torus; leave --machine out".to_owned()).into());
    }
    let (report, exit_code) = crate::study::blocking::report(args.seed, args.output.quiet)?;
    args.output.write(&report.document(), || report.json())?;
    Ok(exit_code)
}
