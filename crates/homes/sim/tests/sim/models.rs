// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The two models of the network: equal without contention, and near each other with contention.

use std::sync::Arc;

use selvedge_sim::machine::Machine;
use selvedge_sim::node::{Death, End, Model, Options, Outcome, Simulation, SimulationError};
use selvedge_sim::program::{Results, Tasks, ready};
use selvedge_sim::time::Time;

use crate::common::{crossbar, machine};

fn tasks(machine: &Arc<Machine>, ranks: u32, line: &str) -> Tasks {
    let mut words = line.split_whitespace().map(str::to_owned);
    let name = words.next().unwrap();
    let rest: Vec<String> = words.collect();
    let given: Vec<_> = rest.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    ready::find(&name).unwrap().prepare(ranks, machine, &given).unwrap().tasks(ranks, machine)
}

fn run_with(machine: &Arc<Machine>, ranks: u32, line: &str, options: Options) -> (Outcome, Results) {
    let mut simulation = Simulation::new(machine.clone(), tasks(machine, ranks, line), options).unwrap();
    let outcome = simulation.run(&mut |_| true);
    let results = simulation.ranks().results();
    assert!(results.wrong.is_empty(), "{line}: {:?}", results.wrong);
    (outcome, results)
}

fn run(network: Model, machine: &Arc<Machine>, ranks: u32, line: &str) -> (Outcome, Results) {
    let (outcome, results) = run_with(machine, ranks, line, Options { network, ..Options::default() });
    assert_eq!(outcome.end, End::Completed, "{line}");
    (outcome, results)
}

/// Checks that both models give equal results, times and latencies, and the same hash over all events in order.
pub(crate) fn assert_equal(machine: &Arc<Machine>, ranks: u32, line: &str) {
    let (packet, packet_results) = run(Model::Packet, machine, ranks, line);
    let (message, message_results) = run(Model::Message, machine, ranks, line);
    let at = format!("{line} on {} with {ranks} ranks", machine.topology.kind());
    assert_eq!(packet_results, message_results, "{at}");
    assert_eq!((packet.time, &packet.ended), (message.time, &message.ended), "{at}");
    // Triggered operations that start at the same time may change their order.
    if !line.contains("algorithm nic") {
        let of = |outcome: &Outcome| (outcome.statistics.hash, outcome.statistics.latency.max());
        assert_eq!(of(&packet), of(&message), "{at}");
    }
}

#[test]
fn where_nothing_contends_they_are_equal_to_the_picosecond() {
    let machines = [
        machine(&[]),
        machine(&[("nic.mode", "\"host\""), ("nic.matching", "\"list\"")]),
        machine(&[("nic.processors", "1"), ("nic.polling_loop_ns", "100"), ("nic.transfer_ns", "30")]),
        // The bus is slower than the links, or the links are much faster than the bus.
        machine(&[("host.dma_MBps", "700")]),
        machine(&[("link.bandwidth_MBps", "20000"), ("host.dma_MBps", "3000")]),
        machine(&[("nic.streams_max", "1")]),
        crossbar(&[]),
    ];
    for machine in &machines {
        for how in ["messages", "counting", "flag"] {
            // One packet, several packets, and last packets of various lengths.
            let sizes = "0,1,8,64,65,1000,1024,1025,2048,2049,3000,8192,9000,100000";
            assert_equal(machine, 2, &format!("ping-pong sizes {sizes} how {how} iterations 3"));
            assert_equal(machine, 16, &format!("ping-pong sizes {sizes} how {how} iterations 2"));
        }
        assert_equal(machine, 2, "counting sizes 8,2000 iterations 3");
    }
}

#[test]
fn collectives_without_contention_are_equal() {
    for machine in [crossbar(&[]), crossbar(&[("nic.mode", "\"host\"")]), crossbar(&[("nic.processors", "1")])] {
        assert_equal(&machine, 16, "allreduce sizes 8,2048,16000 iterations 3");
        assert_equal(&machine, 16, "allreduce sizes 8,2048 iterations 3 algorithm rabenseifner");
        assert_equal(&machine, 12, "allreduce sizes 8,160 iterations 3 algorithm ring");
        assert_equal(&machine, 16, "allreduce sizes 8,160 iterations 6 algorithm nic ahead 3");
        assert_equal(&machine, 16, "barrier iterations 5");
        assert_equal(&machine, 8, "wavefront columns 64 rows 9 how counting");
    }
}

/// Returns the share by which a run with whole messages takes longer than with packets.
fn difference(machine: &Arc<Machine>, ranks: u32, line: &str) -> f64 {
    let time = |model| run(model, machine, ranks, line).0.time.0 as f64;
    time(Model::Message) / time(Model::Packet) - 1.0
}

/// All ranks to one node, and all to all: within 5 percent if ranks share only the channels to nodes.
#[test]
fn many_to_one_and_all_to_all_take_about_as_long() {
    let machine = crossbar(&[]);
    for line in [
        "incast bytes 9000 messages 4",
        "incast bytes 64 messages 20",
        "hotspot messages 40 loads 0.3",
        "hotspot messages 40 loads 2",
        "all-to-all sizes 8,500,9000 iterations 3",
        "all-to-all sizes 8,500,9000 iterations 3 protocol counting",
    ] {
        let difference = difference(&machine, 16, line);
        assert!(difference.abs() < 0.05, "{line}: {difference:+.4}");
    }
}

/// A torus whose links are saturated. Whole messages do not share a link, and have room wherever they wait.
#[test]
fn a_full_torus_is_told_as_full() {
    let machine = machine(&[]);
    for (line, below, above) in [
        ("hotspot messages 40 loads 2", 0.1, 0.05),
        ("incast bytes 9000 messages 4", 0.05, 0.05),
        ("halo cells 16 iterations 4", 0.25, 0.1),
        ("all-to-all sizes 500,9000 iterations 3", 0.45, 0.1),
    ] {
        let difference = difference(&machine, 16, line);
        assert!(-below < difference && difference < above, "{line}: {difference:+.4}");
    }
}

#[test]
fn two_runs_are_the_same_and_another_way_is_another_run() {
    for (algorithm, channels) in [("dimension-order", "2"), ("west-first", "1")] {
        let overrides = [("routing.algorithm", &*format!("\"{algorithm}\"")), ("link.virtual_channels", channels)];
        let kind = if algorithm == "west-first" { "\"mesh\"" } else { "\"torus\"" };
        let machine = machine(&[&overrides[..], &[("topology.kind", kind)]].concat());
        let once = || run(Model::Message, &machine, 16, "uniform messages 30 loads 0.9").0;
        let (first, second) = (once(), once());
        assert_eq!((first.time, first.statistics.hash), (second.time, second.statistics.hash), "{algorithm}");
    }
}

#[test]
fn deaths_come_at_the_same_time_and_are_told_alike() {
    let machine = crossbar(&[]);
    let die = |network, keep_going, ns| {
        let deaths = vec![Death { at: Time::from_ns(ns), rank: 3 }];
        let options = Options { network, deaths, keep_going, ..Options::default() };
        let (outcome, _) = run_with(&machine, 8, "allreduce sizes 8,2048 iterations 50", options);
        (outcome.end, outcome.time, outcome.ended, outcome.statistics.hash)
    };
    for ns in [0, 500, 1234, 20_000] {
        for keep_going in [false, true] {
            assert_eq!(die(Model::Packet, keep_going, ns), die(Model::Message, keep_going, ns), "at {ns} ns");
        }
    }
}

#[test]
fn spans_of_a_channel_do_not_overlap() {
    use selvedge_sim::node::trace::Unit;
    let machine = machine(&[]);
    let tasks = tasks(&machine, 16, "all-to-all sizes 500,9000 iterations 2");
    let options = Options { network: Model::Message, trace_limit: 1 << 20, ..Options::default() };
    let mut simulation = Simulation::new(machine.clone(), tasks, options).unwrap();
    simulation.run(&mut |_| true);
    let mut crossings: Vec<_> =
        simulation.trace().spans.iter().filter(|span| matches!(span.unit, Unit::Channel(_))).collect();
    assert!(crossings.len() > 1000);
    crossings.sort_by_key(|span| (span.unit, span.start));
    for pair in crossings.windows(2).filter(|pair| pair[0].unit == pair[1].unit) {
        assert!(pair[0].end <= pair[1].start, "{pair:?}");
    }
}

#[test]
fn unsupported_features_are_refused_with_a_hint() {
    let refused = |machine: Arc<Machine>| {
        let ranks = tasks(&machine, 2, "barrier iterations 1");
        let options = Options { network: Model::Message, ..Options::default() };
        match Simulation::new(machine, ranks, options) {
            Err(error @ SimulationError::Model { .. }) => error.to_string(),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("not refused"),
        }
    };
    let loss = refused(machine(&[("link.loss", "0.001")]));
    assert!(loss.contains("link.loss") && loss.contains("--network packet"), "{loss}");
    assert!(refused(machine(&[("switch.switching", "\"wormhole\"")])).contains("wormhole"));
    assert!(refused(machine(&[("congestion.control", "\"ecn\"")])).contains("congestion.control=none"));
    let unguarded = [("routing.algorithm", "\"dimension-order-unguarded\""), ("topology.dimensions", "[8, 8]")];
    assert!(refused(machine(&unguarded)).contains("deadlocks"));
}
