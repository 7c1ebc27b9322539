// SPDX-License-Identifier: Apache-2.0 OR MIT
use selvedge_fabric::Algorithm;

use super::study::{CURVES, Curve, StudyConfig, StudyPoint, atoll, study};
use super::*;
use crate::network::{DeadlockPolicy, Switching};

fn go(topology: Topology, algorithm: Algorithm, network: NetworkConfig, traffic: &TrafficConfig) -> TrafficResults {
    let topology = Arc::new(topology);
    let routing = Routing::new(&topology, algorithm, network.link.virtual_channels).unwrap();
    run(topology, routing, network, traffic, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn short(pattern: &str, load: f64) -> TrafficConfig {
    TrafficConfig {
        pattern: pattern.parse().unwrap(),
        load,
        warm_up: Time::from_ns(20_000),
        measured: Time::from_ns(60_000),
        source_packets_max: 32,
        ..TrafficConfig::default()
    }
}

#[test]
fn uniform_traffic_saturates_below_the_bound_and_not_far_from_it() {
    let cases = [
        (Topology::mesh(&[8, 8], 1), Algorithm::DimensionOrder, 0.6),
        (Topology::mesh(&[8, 8], 1), Algorithm::WestFirst, 0.35),
        (Topology::mesh(&[4, 4, 4], 1), Algorithm::DimensionOrder, 0.6),
        (Topology::torus(&[8, 8], &[], 1), Algorithm::DimensionOrder, 0.4),
        (Topology::torus(&[12], &[], 1), Algorithm::DimensionOrder, 0.4),
        (Topology::hypercube(6, 1), Algorithm::DimensionOrder, 0.5),
        (Topology::hypercube(4, 4), Algorithm::DimensionOrder, 0.5),
        (Topology::fat_tree(2, 8, (1, 1), None), Algorithm::DestinationModK, 0.5),
        (Topology::fat_tree(2, 8, (3, 1), None), Algorithm::DestinationModK, 0.5),
        (Topology::fat_tree(3, 4, (1, 1), None), Algorithm::DestinationModK, 0.5),
        (Topology::dragonfly(5, 2, 2, 2), Algorithm::Minimal, 0.4),
    ];
    for (topology, algorithm, share) in cases {
        let topology = topology.unwrap();
        let (above, below) = topology.saturation_uniform().expect("a bound");
        let bound = above as f64 / below as f64;
        let name = format!("{} {algorithm}, bound {bound}", topology.kind());
        let full = go(topology.clone(), algorithm, NetworkConfig::default(), &short("uniform", 1.0));
        assert!(full.accepted <= bound * 1.03, "{name}: {} accepted", full.accepted);
        assert!(full.accepted >= bound * share, "{name}: only {} accepted", full.accepted);
        // What is offered below saturation arrives.
        let low = bound * share * 0.6;
        let some = go(topology, algorithm, NetworkConfig::default(), &short("uniform", low));
        assert!((some.offered / low - 1.0).abs() < 0.1, "{name}: {} offered of {low}", some.offered);
        assert!((some.accepted / some.offered - 1.0).abs() < 0.03, "{name}: {} of {}", some.accepted, some.offered);
        assert_eq!((some.messages_not_made, some.lost, some.stopped), (0, 0, None));
        assert!(some.latency.mean_ns < full.latency.mean_ns && some.blocking_rate < full.blocking_rate);
    }
}

/// Karol, Hluchyj and Morgan, Input versus output queueing on a space-division packet switch, 1987: 2 - sqrt(2).
#[test]
fn a_crossbar_with_one_fifo_for_each_input_carries_586_thousandths() {
    let mut network = NetworkConfig::default();
    network.link.virtual_channels = 1;
    // Nothing but heads of lines in the way: the next packet is always there.
    network.link.latency = Time(1);
    network.switch.latency = Time(1);
    network.link.buffer_flits = 4 * network.flits(256);
    let traffic = TrafficConfig { measured: Time::from_ns(300_000), ..short("uniform", 1.0) };
    let crossbar = |nodes| go(Topology::crossbar(nodes).unwrap(), Algorithm::UpDown, network.clone(), &traffic);
    let large = crossbar(64);
    assert!((0.575..0.605).contains(&large.accepted), "{}", large.accepted);
    // The smaller, the better: 0.75 for two inputs and outputs of which either may be chosen, 0.6553 for four.
    let small = crossbar(8);
    assert!(small.accepted > large.accepted && small.accepted < 0.70, "{}", small.accepted);
}

#[test]
fn permutations_without_conflict_flow_freely() {
    let results = go(
        Topology::torus(&[16], &[], 1).unwrap(),
        Algorithm::DimensionOrder,
        NetworkConfig::default(),
        &short("neighbour", 0.9),
    );
    assert!(results.accepted > 0.85, "{results:?}");
    assert_eq!(results.hops_mean, 2.0);
    // Tornado on a ring of 16: seven hops to the right use a seventh of each channel.
    let tornado = go(
        Topology::torus(&[16], &[], 1).unwrap(),
        Algorithm::DimensionOrder,
        NetworkConfig::default(),
        &short("tornado", 0.5),
    );
    assert!(tornado.accepted <= 1.0 / 7.0 * 1.02, "{}", tornado.accepted);
    assert_eq!(tornado.hops_mean, 8.0);
    assert!(tornado.messages_not_made > 0 && tornado.channel_utilisation_max <= 1.01, "{tornado:?}");
}

#[test]
fn a_hotspot_is_the_limit() {
    let results = go(
        Topology::mesh(&[6, 6], 1).unwrap(),
        Algorithm::DimensionOrder,
        NetworkConfig::default(),
        &short("hotspot:14:1", 1.0),
    );
    // One channel to the hotspot (which itself sends to all others) and 36 that send.
    assert!(results.accepted < 2.1 / 36.0 && results.accepted > 0.9 / 36.0, "{}", results.accepted);
}

#[test]
fn results_are_the_same_for_a_seed_and_others_for_another() {
    let once = |seed| {
        let traffic = TrafficConfig { seed, ..short("locality:0.3", 0.4) };
        let results = go(
            Topology::torus(&[6, 6], &[], 1).unwrap(),
            Algorithm::DimensionOrder,
            NetworkConfig::default(),
            &traffic,
        );
        serde_json::to_string(&results).unwrap()
    };
    assert_eq!(once(1), once(1));
    assert_ne!(once(1), once(2));
}

#[test]
fn a_run_can_be_broken_off_and_says_what_it_has() {
    let topology = Arc::new(Topology::mesh(&[8, 8], 1).unwrap());
    let routing = Routing::new(&topology, Algorithm::DimensionOrder, 2).unwrap();
    let mut calls = 0;
    let results = run(topology, routing, NetworkConfig::default(), &short("uniform", 0.3), &mut |progress| {
        calls += 1;
        assert!(progress.hops > 0 && progress.now < progress.until);
        ControlFlow::Break(())
    });
    let results = results.unwrap();
    assert_eq!((calls, results.stopped), (1, Some(Stop::Interrupted)));
    assert!(results.packets > 0 && results.accepted > 0.2 && results.simulated_ns < 80_000.0, "{results:?}");
}

#[test]
fn a_deadlock_that_is_not_resolved_ends_the_run() {
    let network = NetworkConfig { deadlock: DeadlockPolicy::Detect, ..atoll() };
    let traffic = TrafficConfig { message_bytes: 240, ..short("uniform", 0.5) };
    let results = go(Topology::torus(&[8, 8], &[], 1).unwrap(), Algorithm::ShortestPath, network, &traffic);
    assert_eq!(results.stopped, Some(Stop::Deadlock));
    assert!(results.cycle.len() >= 4, "{results:?}");
}

#[test]
fn long_messages_become_packets() {
    let traffic = TrafficConfig { message_bytes: 5000, ..short("uniform", 0.1) };
    let results =
        go(Topology::mesh(&[4, 4], 1).unwrap(), Algorithm::DimensionOrder, NetworkConfig::default(), &traffic);
    assert_eq!(results.packets % 5, 0);
    assert!((results.offered - 0.1).abs() < 0.02, "{}", results.offered);
    assert_eq!(cut(5000, 1024).collect::<Vec<_>>(), [1024, 1024, 1024, 1024, 904]);
    assert_eq!(cut(0, 1024).collect::<Vec<_>>(), [0]);
    assert_eq!(cut(2048, 1024).collect::<Vec<_>>(), [1024, 1024]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refuse = |change: &dyn Fn(&mut TrafficConfig)| {
        let topology = Arc::new(Topology::mesh(&[3, 2], 1).unwrap());
        let routing = Routing::new(&topology, Algorithm::DimensionOrder, 2).unwrap();
        let mut traffic = TrafficConfig::default();
        change(&mut traffic);
        run(topology, routing, NetworkConfig::default(), &traffic, &mut |_| ControlFlow::Continue(())).unwrap_err()
    };
    for load in [0.0, -1.0, 1.5, f64::NAN] {
        assert!(matches!(refuse(&|traffic| traffic.load = load), TrafficError::Load { .. }));
    }
    assert!(matches!(refuse(&|traffic| traffic.measured = Time::ZERO), TrafficError::Interval { .. }));
    assert!(matches!(refuse(&|traffic| traffic.message_bytes = 1 << 20), TrafficError::Source { packets: 1024, .. }));
    assert!(matches!(refuse(&|traffic| traffic.pattern = Pattern::Transpose), TrafficError::Pattern(_)));
}

#[test]
fn the_study_shows_the_order_that_the_seed_states() {
    let config = StudyConfig {
        localities: vec![0.0, 0.5, 1.0],
        runs: 1,
        measured: Time::from_ns(40_000),
        ..StudyConfig::default()
    };
    assert_eq!(config.network.switch.switching, Switching::Wormhole);
    let mut told = 0;
    let points = study(&config, &CURVES, &mut |_, left| {
        told += 1;
        assert_eq!(left, CURVES.len() * 3 - told);
        ControlFlow::Continue(())
    });
    let points = points.unwrap();
    let curve = |topology: &str, routing: Algorithm| -> Vec<&StudyPoint> {
        points.iter().filter(|point| point.topology == topology && point.routing == routing.name()).collect()
    };
    let deadlocks = |points: &[&StudyPoint]| points.iter().map(|point| point.deadlocks).sum::<u64>();
    let dijkstra = curve("mesh", Algorithm::ShortestPath);
    assert!(deadlocks(&dijkstra) > 0 && dijkstra[0].deadlock_probability > 0.05, "{dijkstra:?}");
    assert!(dijkstra[0].cycle_length_mean >= 4.0);
    for routing in [Algorithm::DimensionOrder, Algorithm::UpDown, Algorithm::WestFirst] {
        let free = curve("mesh", routing);
        assert_eq!(deadlocks(&free), 0, "{free:?}");
        assert!(free[0].blocking_rate < dijkstra[0].blocking_rate, "{free:?} {dijkstra:?}");
    }
    assert!(deadlocks(&curve("torus", Algorithm::ShortestPath)) > 0);
    assert!(deadlocks(&curve("torus", Algorithm::DimensionOrderUnguarded)) > 0);
    assert_eq!(deadlocks(&curve("torus", Algorithm::ModifiedDimensionOrder)), 0);
    assert_eq!(deadlocks(&curve("torus", Algorithm::UpDown)), 0);
    // The more stays near, the less is in the way.
    for curve in points.chunks(3) {
        assert!(curve[0].blocking_rate > curve[2].blocking_rate, "{curve:?}");
        assert_eq!(curve[2].deadlocks, 0, "{curve:?}");
    }
    let one = Curve { torus: true, algorithm: Algorithm::DimensionOrderUnguarded };
    let again = study(&config, &[one], &mut |_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!(again, points[12..15]);
}
