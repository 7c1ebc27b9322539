// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Machines in several parts: programs do the same, at the same times, as in one part.

use std::sync::Arc;

use selvedge_sim::machine::Machine;
use selvedge_sim::network::Counted;
use selvedge_sim::node::{End, Model, Options, Outcome, PartedSimulation, Simulation, Variation, Whole, whole};
use selvedge_sim::program::ready::{self, Prepared};
use selvedge_sim::program::{Needs, Results, Shared, Tasks};
use selvedge_sim::rerouting::RerouteConfig;
use selvedge_sim::time::Time;

use crate::common;
use crate::ready::{LINES, words};

pub fn prepared(machine: &Arc<Machine>, ranks: u32, line: &str) -> Prepared {
    let (name, arguments) = words(line);
    ready::find(&name).unwrap().prepare(ranks, machine, &arguments).unwrap()
}

/// All that a run shows, by name.
pub type Seen = Vec<(&'static str, String)>;

fn seen(outcome: &Outcome, results: &Results, network: &dyn Counted) -> Seen {
    let mut statistics = outcome.statistics.clone();
    let latencies: Vec<(u64, u64)> =
        statistics.latency.iter_recorded().map(|value| (value.value_iterated_to(), value.count_at_value())).collect();
    // The memory of a histogram depends on its past.
    let empty = || hdrhistogram::Histogram::new(3).unwrap();
    (statistics.latency, statistics.command_start) = (empty(), empty());
    let Outcome { end, time, ended, codes, commands, fairness, registers, .. } = outcome;
    let channels = (0..network.topology().channels()).map(|channel| network.channel_statistics(channel));
    vec![
        ("end", format!("{end:?} {time}")),
        ("ranks", format!("{ended:?} {codes:?}")),
        ("commands", format!("{commands:?} {fairness:?}")),
        ("registers", format!("{registers:?}")),
        ("turns", format!("{} {} {}", statistics.turns, statistics.messages, statistics.responses)),
        ("events", statistics.events.to_string()),
        ("hash", statistics.hash.to_string()),
        ("latencies", format!("{latencies:?}")),
        ("statistics", format!("{statistics:?}")),
        ("results", format!("{results:?}")),
        ("fabric", format!("{:?}", network.statistics())),
        ("channels", format!("{:?}", channels.collect::<Vec<_>>())),
    ]
}

/// Checks that two runs show the same, and names what differs.
pub fn assert_alike(one: &Seen, several: &Seen, at: &str) {
    let differ = one.iter().zip(several).filter(|(one, several)| one != several);
    let cut = |text: &str| text.chars().take(300).collect::<String>();
    let differ: Vec<_> = differ.map(|(one, several)| (one.0, cut(&one.1), cut(&several.1))).collect();
    assert!(differ.is_empty(), "{at}: {differ:#?}");
}

pub fn in_one_part(machine: &Arc<Machine>, ranks: u32, prepared: &Prepared, options: &Options) -> Seen {
    let tasks = prepared.tasks(ranks, machine);
    let mut simulation = Simulation::new(machine.clone(), tasks, options.clone()).unwrap();
    let outcome = simulation.run(&mut |_| true);
    let results = simulation.ranks().results();
    seen(&outcome, &results, simulation.network())
}

/// Returns also the number of parts.
pub fn in_parts(
    machine: &Arc<Machine>,
    ranks: u32,
    prepared: &Prepared,
    options: &Options,
    threads: u32,
) -> (Seen, usize) {
    let shared = Shared::default();
    let make = |is_here: &dyn Fn(u32) -> bool| prepared.some_tasks(ranks, machine, is_here, &shared);
    let mut simulation = PartedSimulation::new(machine.clone(), ranks, make, options.clone(), threads).unwrap();
    let outcome = simulation.run(&mut |_| true).unwrap();
    (seen(&outcome, &shared.results(), simulation.network()), simulation.parts())
}

/// Small machines of several kinds, and how their ranks are placed.
fn machines() -> Vec<(Arc<Machine>, u32)> {
    let torus = [("topology.dimensions", "[4, 3]"), ("host.round_trip_ns", "120")];
    let host = [&torus[..], &[("nic.mode", "\"host\""), ("nic.matching", "\"list\"")]].concat();
    let together = [&torus[..], &[("host.same_node", "\"memory\"")]].concat();
    let streams = [&torus[..], &[("nic.streams_max", "1"), ("nic.retry_ns", "700")]].concat();
    vec![
        (common::machine(&torus), 1),
        (common::dragonfly(), 1),
        (common::machine(&host), 1),
        (common::machine(&together), 2),
        (common::machine(&streams), 1),
    ]
}

#[test]
fn every_number_of_threads_runs_programs_alike() {
    let machines = machines();
    let mut divided = 0;
    for (number, (line, sizes, _)) in LINES.iter().enumerate() {
        for &ranks in *sizes {
            let (machine, each) = &machines[(number + ranks as usize) % machines.len()];
            let threads = 2 + (number as u32 + ranks) % 4;
            // Strides spread the ranks over the parts.
            let nodes = machine.topology.nodes();
            let placement = (0..ranks).map(|rank| rank / each * 5 % nodes).collect();
            let variation = Variation { ppm_max: if number % 2 == 0 { 0 } else { 10_000 }, seed: 3 };
            let options = Options { placement, variation, ..Options::default() };
            assert_eq!(whole(machine, &options), None);
            let prepared = prepared(machine, ranks, line);
            let one = in_one_part(machine, ranks, &prepared, &options);
            let (several, parts) = in_parts(machine, ranks, &prepared, &options, threads);
            let at = format!("{line}, {ranks} ranks, {threads} threads on machine {}", (number + ranks as usize) % 5);
            assert_alike(&one, &several, &at);
            divided += usize::from(parts > 1);
        }
    }
    assert!(divided > 80, "only {divided} runs were divided");
}

/// Checks that programs do the same on 1 to `threads` threads, each of which has a part of the machine.
pub(crate) fn assert_alike_in_parts(machine: &Arc<Machine>, ranks: u32, line: &str, threads: u32) {
    let options = Options::default();
    let prepared = prepared(machine, ranks, line);
    let one = in_one_part(machine, ranks, &prepared, &options);
    for threads in 1..=threads {
        let (several, parts) = in_parts(machine, ranks, &prepared, &options, threads);
        assert_eq!(parts, threads as usize);
        assert_alike(&one, &several, &format!("{line}, {threads} threads"));
    }
}

#[test]
fn long_messages_and_every_number_of_parts() {
    let machine = common::dragonfly();
    for line in ["all-to-all sizes 3000,20000 iterations 2 protocol rendezvous", "uniform messages 40 loads 0.3,0.9"] {
        assert_alike_in_parts(&machine, 20, line, 5);
    }
}

#[test]
fn limits_of_time_end_alike() {
    let machine = common::dragonfly();
    let prepared = prepared(&machine, 20, "halo cells 6 iterations 40");
    for time_limit in [Time::from_ns(700), Time::from_ns(20_000), Time::MAX] {
        let options = Options { time_limit, ..Options::default() };
        let one = in_one_part(&machine, 20, &prepared, &options);
        assert_alike(&one, &in_parts(&machine, 20, &prepared, &options, 3).0, &time_limit.to_string());
        assert_eq!(one[0].1.contains("Interrupted"), time_limit != Time::MAX);
    }
}

#[test]
fn an_observer_sees_the_whole_run_and_can_end_it() {
    let machine = common::dragonfly();
    let prepared = prepared(&machine, 20, "barrier iterations 200");
    let options = Options { observe_every: 500, ..Options::default() };
    let mut one = Vec::new();
    let mut simulation = Simulation::new(machine.clone(), prepared.tasks(20, &machine), options.clone()).unwrap();
    let outcome = simulation.run(&mut |view| {
        one.push((view.progress.events, view.progress.hops));
        one.len() < 4
    });
    assert_eq!(outcome.end, End::Interrupted);
    let mut several = Vec::new();
    let shared = Shared::default();
    let make = |is_here: &dyn Fn(u32) -> bool| prepared.some_tasks(20, &machine, is_here, &shared);
    let mut simulation = PartedSimulation::new(machine.clone(), 20, make, options.clone(), 4).unwrap();
    let outcome = simulation.run(&mut |view| {
        assert_eq!(view.progress.hops, view.network.statistics().hops);
        several.push((view.progress.events, view.progress.hops));
        several.len() < 4
    });
    assert_eq!(outcome.unwrap().end, End::Interrupted);
    assert!(simulation.network().statistics().hops > 0);
    assert_eq!(one.len(), 4);
    assert_eq!(one, several);
}

#[test]
fn what_needs_the_whole_machine_has_a_reason() {
    let reason = |overrides: &[(&str, &str)], options: &Options| whole(&common::machine(overrides), options);
    let none = Options::default();
    assert_eq!(reason(&[], &none), None);
    assert_eq!(reason(&[], &Options { network: Model::Message, ..Options::default() }), Some(Whole::Messages));
    let rerouting = Some(RerouteConfig::default());
    assert_eq!(reason(&[], &Options { rerouting, ..Options::default() }), Some(Whole::Rerouting));
    assert_eq!(reason(&[], &Options { trace_limit: 9, ..Options::default() }), Some(Whole::Trace));
    assert!(matches!(reason(&[("link.latency_ns", "0")], &none), Some(Whole::Fabric(_))));
}

/// Rank 6 waits for a message that no rank sends, and the others wait for rank 6.
#[test]
fn stuck_runs_end_alike() {
    let machine = common::dragonfly();
    let run = |threads: u32| {
        let shared = Shared::default();
        let make = |is_here: &dyn Fn(u32) -> bool| {
            Tasks::part(20, &machine, is_here, &shared, &Needs::default(), |process| {
                Box::pin(async move {
                    let rank = process.rank();
                    process.send((rank + 1) % 20, 7, &[1; 40]).await;
                    process.recv((rank + 19) % 20, if rank == 6 { 8 } else { 7 }, 40).await;
                    process.barrier(1).await;
                    0
                })
            })
        };
        let options = Options::default();
        let mut simulation = PartedSimulation::new(machine.clone(), 20, make, options, threads).unwrap();
        simulation.run(&mut |_| true).unwrap()
    };
    let (one, several) = (run(1), run(4));
    let End::Stuck(waiting) = &one.end else { panic!("{:?}", one.end) };
    assert_eq!(waiting.len(), 20);
    assert!(waiting.iter().all(|waiting| waiting.unanswered == 0 && !waiting.receives.is_empty()), "{waiting:?}");
    assert_eq!((&one.end, one.time, one.statistics.hash), (&several.end, several.time, several.statistics.hash));
}
