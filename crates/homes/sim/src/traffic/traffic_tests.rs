// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::collections::BTreeMap;

use proptest::prelude::*;
use selvedge_fabric::{Algorithm, Kind, RouterId};

use super::*;
use crate::network::{DeadlockPolicy, ErrorRates, LinkSpeed, LossReason, RetransmissionConfig, SpeedUp, Switching};
use crate::random::Random;

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
        // Below saturation all offered traffic arrives.
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
    // Only head-of-line blocking: every source always has a next packet.
    network.link.latency = Time(1);
    network.switch.latency = Time(1);
    network.link.buffer_flits = 4 * network.flits(256);
    let traffic = TrafficConfig { measured: Time::from_ns(300_000), ..short("uniform", 1.0) };
    let crossbar = |nodes| go(Topology::crossbar(nodes).unwrap(), Algorithm::UpDown, network.clone(), &traffic);
    let large = crossbar(64);
    assert!((0.575..0.605).contains(&large.accepted), "{}", large.accepted);
    // A smaller switch has a higher throughput: 0.75 for two inputs and outputs, 0.6553 for four.
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
    // One channel leads to the hotspot, which itself sends to all others, and 36 nodes send.
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

/// Failures of both directions of the link between two routers, and their repairs.
fn outage(topology: &Topology, (a, b): (u32, u32), at_ns: u64, until_ns: Option<u64>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (from, to) in [(a, b), (b, a)] {
        let link = topology.neighbours(RouterId(from)).find(|(_, router)| router.0 == to);
        let channel = topology.channel(RouterId(from), link.expect("neighbours").0);
        faults.push(Fault { at: Time::from_ns(at_ns), channel, up: false });
        faults.extend(until_ns.map(|until| Fault { at: Time::from_ns(until), channel, up: true }));
    }
    faults.sort_unstable();
    faults
}

/// Checks that every injected packet was delivered, lost for a reason, or is still in the network.
fn assert_conserved(results: &TrafficResults, name: &str) {
    let all = &results.whole_run;
    let lost: u64 = all.lost.values().sum();
    assert_eq!(all.injected, all.delivered + lost + all.under_way, "{name}: {all:?}");
    assert_eq!(all.lost.len(), LossReason::ALL.len() - 1, "{name}");
    assert_eq!(results.lost, results.lost_by_reason.values().sum::<u64>(), "{name}");
    for (reason, measured) in &results.lost_by_reason {
        assert!(*measured <= all.lost[reason], "{name}: {reason:?}");
    }
}

#[test]
fn no_packet_vanishes_when_links_fail_and_are_repaired() {
    // The whole run is measured, so no packet may be in flight at the end.
    let all = TrafficConfig {
        warm_up: Time::ZERO,
        measured: Time::from_ns(100_000),
        drain_max: Time::from_ns(5_000_000),
        ..short("uniform", 0.2)
    };
    let torus = || Topology::torus(&[4, 4], &[], 1).unwrap();
    let retransmission = Some(RetransmissionConfig { timeout: Time::from_ns(1000), window_flits: 128 });
    for (until, retransmission, wormhole) in [
        (Some(60_000), None, false),
        (Some(60_000), retransmission.clone(), false),
        (None, None, false),
        (None, retransmission, false),
        (Some(60_000), None, true),
        (None, None, true),
    ] {
        let name = format!("until {until:?}, retransmission {}, wormhole {wormhole}", retransmission.is_some());
        let mut network = NetworkConfig { retransmission, ..NetworkConfig::default() };
        if wormhole {
            network.switch.switching = Switching::Wormhole;
        }
        let faults = outage(&torus(), (0, 1), 20_000, until);
        let changes = faults.len() as u64;
        let traffic = TrafficConfig { faults, ..all.clone() };
        let results = go(torus(), Algorithm::DimensionOrder, network.clone(), &traffic);
        assert_conserved(&results, &name);
        let whole = &results.whole_run;
        assert_eq!((results.stopped, whole.under_way, whole.link_changes), (None, 0, changes), "{name}");
        assert_eq!((results.packets, results.lost), (whole.delivered, whole.lost.values().sum()), "{name}");
        assert_eq!(&results.lost_by_reason, &whole.lost, "{name}");
        let others = whole.lost.iter().filter(|(reason, _)| **reason != LossReason::LinkDown);
        assert_eq!(others.map(|(_, lost)| lost).sum::<u64>(), 0, "{name}: {whole:?}");
        let lost = whole.lost[&LossReason::LinkDown];
        match until {
            // A link that is down for less than the limit loses no packet that waits for it or is sent again.
            Some(_) if network.retransmission.is_some() || wormhole => assert_eq!(lost, 0, "{name}"),
            Some(_) => assert!(lost <= 4, "{name}: {lost} were on a wire"),
            None => assert!(lost > 10, "{name}: {lost}"),
        }
        // Packets waited for the repair, or for the limit.
        let outage_ns = until.map_or(1_000_000.0, |until| until as f64 - 20_000.0);
        assert!(results.latency.max_ns > 0.8 * outage_ns, "{name}: {:?}", results.latency);
        let without = go(torus(), Algorithm::DimensionOrder, network.clone(), &all);
        assert_eq!((without.lost, without.whole_run.link_changes), (0, 0), "{name}");
        assert!(without.latency.max_ns < 0.2 * outage_ns, "{name}: {:?}", without.latency);
    }
}

#[test]
fn a_routing_with_a_choice_goes_round_a_link_that_is_down() {
    let mesh = || Topology::mesh(&[5, 5], 1).unwrap();
    let faults = outage(&mesh(), (12, 13), 1000, None);
    let traffic = TrafficConfig { faults, drain_max: Time::from_ns(3_000_000), ..short("uniform", 0.05) };
    let lost = |algorithm: Algorithm| {
        let results = go(mesh(), algorithm, NetworkConfig::default(), &traffic);
        assert_conserved(&results, algorithm.name());
        assert_eq!(results.whole_run.link_changes, 2);
        results.whole_run.lost[&LossReason::LinkDown]
    };
    // A packet that goes straight along its row has no other minimal route.
    let (adaptive, fixed) = (lost(Algorithm::WestFirst), lost(Algorithm::DimensionOrder));
    assert!(adaptive > 0 && adaptive < fixed, "{adaptive} lost, and {fixed} without a choice");
}

#[test]
fn under_random_faults_and_errors_all_packets_are_accounted_for_and_runs_are_the_same_again() {
    let mut seen: BTreeMap<LossReason, u64> = BTreeMap::new();
    for seed in 1..=12u64 {
        let mut random = Random::new(seed, 77);
        let topology = Topology::torus(&[4, 3, 2], &[], 1).unwrap();
        let mut faults = Vec::new();
        for _ in 0..random.below(6) {
            let channel = random.below(u64::from(topology.channels() - topology.nodes())) as u32;
            let at = random.below(150_000);
            faults.push(Fault { at: Time::from_ns(at), channel, up: false });
            if random.chance(0.6) {
                let until = at + 1 + random.below(60_000);
                faults.push(Fault { at: Time::from_ns(until), channel, up: true });
            }
        }
        faults.sort_unstable();
        let mut network = NetworkConfig { seed, link_down_limit: Time::from_ns(20_000), ..NetworkConfig::default() };
        network.errors.loss = 0.001;
        network.errors.corruption = 0.001;
        if seed % 3 == 0 {
            network.retransmission = Some(RetransmissionConfig { timeout: Time::from_ns(500), window_flits: 64 });
        }
        if seed % 2 == 0 {
            network.switch.switching = Switching::Wormhole;
        }
        // Some runs wait too short a time, so that packets in flight are counted, too.
        let drain_max = Time::from_ns(if seed % 4 == 1 { 500 } else { 2_000_000 });
        let traffic = TrafficConfig { seed, faults, drain_max, ..short("uniform", 0.3) };
        let once = || go(topology.clone(), Algorithm::DimensionOrder, network.clone(), &traffic);
        let results = once();
        assert_conserved(&results, &format!("seed {seed}"));
        for (reason, lost) in &results.whole_run.lost {
            *seen.entry(*reason).or_default() += lost;
        }
        let text = |results: &TrafficResults| serde_json::to_string(results).unwrap();
        assert_eq!(text(&results), text(&once()), "seed {seed}");
    }
    for reason in [LossReason::Loss, LossReason::Corruption, LossReason::LinkDown] {
        assert!(seen[&reason] > 0, "no packet was lost by {reason:?}: {seen:?}");
    }
}

#[test]
fn a_fault_after_the_end_does_not_delay_it() {
    let mesh = || Topology::mesh(&[4, 4], 1).unwrap();
    let plain = go(mesh(), Algorithm::DimensionOrder, NetworkConfig::default(), &short("uniform", 0.2));
    // One fault within the time in which the run may still wait for packets, one after it.
    for at in [500_000, 1_000_000_000] {
        let traffic = TrafficConfig { faults: outage(&mesh(), (0, 1), at, None), ..short("uniform", 0.2) };
        assert_eq!(go(mesh(), Algorithm::DimensionOrder, NetworkConfig::default(), &traffic), plain);
    }
}

#[test]
fn an_interrupted_run_gives_its_results_so_far() {
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
    let mut network = NetworkConfig { deadlock: DeadlockPolicy::Detect, ..NetworkConfig::default() };
    network.switch.switching = Switching::Wormhole;
    (network.link.flit_bytes, network.link.packet_bytes) = (16, 240);
    (network.link.virtual_channels, network.link.buffer_flits) = (1, 8);
    let traffic = TrafficConfig { message_bytes: 240, ..short("uniform", 0.5) };
    let results = go(Topology::torus(&[8, 8], &[], 1).unwrap(), Algorithm::ShortestPath, network, &traffic);
    assert_eq!(results.stopped, Some(Stop::Deadlock));
    assert!(results.cycle.len() >= 4, "{results:?}");
}

#[test]
fn long_messages_become_packets() {
    let traffic = TrafficConfig { message_bytes: 5000, measured: Time::from_ns(2_000_000), ..short("uniform", 0.1) };
    let results =
        go(Topology::mesh(&[4, 4], 1).unwrap(), Algorithm::DimensionOrder, NetworkConfig::default(), &traffic);
    assert_eq!(results.packets % 5, 0);
    assert!((results.offered - 0.1).abs() < 0.02, "{}", results.offered);
    assert_eq!(cut(5000, 1024).collect::<Vec<_>>(), [1024, 1024, 1024, 1024, 904]);
    assert_eq!(cut(0, 1024).collect::<Vec<_>>(), [0]);
    assert_eq!(cut(2048, 1024).collect::<Vec<_>>(), [1024, 1024]);
}

#[test]
fn invalid_traffic_is_refused() {
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

/// Minimal routes of a dragonfly share one link for 8 nodes (Kim, Dally, Scott and Abts, 2008), those of a dragonfly+ two
/// for 16, of a HyperX one for 4, of a Slim Fly one for 3. Detours of dragonflies take two of the links to 7 other groups.
#[test]
fn adversarial_traffic_needs_detours() {
    let dragonfly = || Topology::dragonfly(9, 4, 2, 2).unwrap();
    let plus = || Topology::dragonfly_plus(9, (4, 4), 4, 4).unwrap();
    let hyperx = || Topology::hyperx(&[4, 4], &[], 4).unwrap();
    let slim_fly = || Topology::slim_fly(4, Some(3)).unwrap();
    let accepted = |topology, algorithm, pattern| {
        let mut network = NetworkConfig::default();
        network.link.virtual_channels = 4;
        network.link.buffer_flits = 128;
        network.switch.speed_up = Some(SpeedUp { factor: 2, output_flits: 128 });
        network.detour_bias_flits = 10;
        go(topology, algorithm, network, &short(pattern, 1.0)).accepted
    };
    for (topology, one_link, around) in [
        (dragonfly as fn() -> Topology, 1.0 / 8.0, 0.4..7.1 / 16.0),
        (plus, 2.0 / 16.0, 0.4..7.1 / 16.0),
        (hyperx, 1.0 / 4.0, 0.45..0.58),
        (slim_fly, 1.0 / 3.0, 0.45..0.58),
    ] {
        let name = topology().kind().to_string();
        let uniform = accepted(topology(), Algorithm::Minimal, "uniform");
        assert!(uniform >= 0.9, "{name}: {uniform}");
        let worst = accepted(topology(), Algorithm::Minimal, "adversarial");
        assert!((worst / one_link - 1.0).abs() < 0.03, "{name}: {worst} of {one_link}");
        let valiant = accepted(topology(), Algorithm::Valiant, "adversarial");
        assert!(around.contains(&valiant), "{name}: {valiant}");
        for adaptive in [Algorithm::UgalLocal, Algorithm::UgalGlobal, Algorithm::Progressive] {
            if adaptive.virtual_channels_needed(&topology()).is_none() {
                continue;
            }
            let worst = accepted(topology(), adaptive, "adversarial");
            // A leaf of a dragonfly+ does not see the queues of global links.
            let is_blind = adaptive == Algorithm::UgalLocal && matches!(topology().kind(), Kind::DragonflyPlus(_));
            assert!(worst >= if is_blind { one_link } else { 0.45 }, "{name}, {adaptive}: {worst}");
            let even = accepted(topology(), adaptive, "uniform");
            assert!(even >= 0.9 * uniform, "{name}, {adaptive}: {even} of {uniform}");
        }
    }
}

/// A crossbar whose inputs wait for each other carries 2 - sqrt 2 of its load (Karol, Hluchyj and Morgan 1987). With a
/// speed-up it has output queues: what it still loses depends on their room, and hardly on a speed-up beyond 2.
#[test]
fn a_speed_up_takes_the_heads_of_line_away() {
    let mut network = NetworkConfig::default();
    network.link.virtual_channels = 1;
    (network.link.latency, network.switch.latency) = (Time(1), Time(1));
    network.link.buffer_flits = 8 * network.flits(256);
    let mut accepted = |factor, packets: u32| {
        network.switch.speed_up = Some(SpeedUp { factor, output_flits: packets * network.flits(256) });
        go(Topology::crossbar(32).unwrap(), Algorithm::UpDown, network.clone(), &short("uniform", 1.0)).accepted
    };
    let [one, two, four] = [1, 2, 4].map(|factor| accepted(factor, 8));
    assert!((one - (2.0 - 2f64.sqrt())).abs() < 0.02, "{one}");
    assert!(two > 0.85 && four > 0.86, "{two}, {four}");
    let [one, two] = [1, 2].map(|factor| accepted(factor, 64));
    assert!(one < 0.61 && two > 0.92, "{one}, {two}");
}

/// A fabric of each kind that may be divided, with its routings.
fn divisible() -> Vec<(Topology, Vec<Algorithm>)> {
    let adaptive = vec![
        Algorithm::Minimal,
        Algorithm::Valiant,
        Algorithm::UgalLocal,
        Algorithm::UgalGlobal,
        Algorithm::Progressive,
    ];
    vec![
        (Topology::torus(&[5, 4], &[], 2).unwrap(), vec![Algorithm::DimensionOrder]),
        (Topology::mesh(&[3, 3, 3], 1).unwrap(), vec![Algorithm::DimensionOrder]),
        (Topology::mesh(&[6, 4], 2).unwrap(), vec![Algorithm::WestFirst]),
        (Topology::fat_tree(3, 4, (1, 1), None).unwrap(), vec![Algorithm::DestinationModK, Algorithm::AdaptiveUp]),
        (Topology::dragonfly(9, 4, 2, 2).unwrap(), adaptive.clone()),
        (Topology::dragonfly_plus(5, (3, 4), 2, 2).unwrap(), adaptive.clone()),
        (Topology::hyperx(&[4, 3], &[], 3).unwrap(), adaptive.clone()),
        (Topology::slim_fly(4, Some(2)).unwrap(), adaptive.clone()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The results of 2 to 8 threads are those of one, to the byte, with errors, faults and speed-up.
    #[test]
    fn every_number_of_threads_gives_the_same_bytes(
        kind in 0usize..8, routing in 0usize..5, threads in 2u32..=8, seed: u64, load in 0.05f64..0.9,
        pattern in prop::sample::select(vec!["uniform", "hotspot:3:0.3", "bit-complement", "neighbour"]),
        bytes in prop::sample::select(vec![0u32, 40, 256, 3000]), faults: bool, errors: bool, retransmits: bool, speed_up: bool, speeds: bool,
    ) {
        let (topology, routings) = divisible().swap_remove(kind);
        let algorithm = routings[routing % routings.len()];
        let mut network = NetworkConfig { seed, link_down_limit: Time::from_ns(3_000), ..NetworkConfig::default() };
        network.link.virtual_channels = 6;
        prop_assume!(algorithm.virtual_channels_needed(&topology).is_some_and(|needed| needed <= 6));
        network.link.latency = Time(7_300);
        if errors {
            network.errors = ErrorRates { loss: 0.002, corruption: 0.002 };
        }
        if retransmits {
            network.retransmission = Some(RetransmissionConfig { timeout: Time::from_ns(500), window_flits: 64 });
        }
        if speed_up {
            network.switch.speed_up = Some(SpeedUp { factor: 2, output_flits: 64 });
        }
        if speeds {
            let mut draw = Random::new(seed, 4);
            let mut speed = || LinkSpeed {
                bandwidth_bytes_per_s: 500_000_000 + draw.below(2_000_000_000),
                latency: Time(1_000 + draw.below(20_000)),
            };
            network.node_link = Some(speed());
            network.class_links = (0..topology.link_classes().count()).map(|_| speed()).collect();
        }
        let mut traffic = TrafficConfig {
            seed, warm_up: Time::from_ns(1_000), measured: Time::from_ns(4_000), drain_max: Time::from_ns(5_000), ..short(pattern, load)
        };
        traffic.message_bytes = bytes;
        let mut random = Random::new(seed, 3);
        for _ in 0..if faults { 6 } else { 0 } {
            let channel = random.below(u64::from(topology.channels() - topology.nodes())) as u32;
            let at = random.below(4_000);
            traffic.faults.push(Fault { at: Time::from_ns(at), channel, up: false });
            traffic.faults.push(Fault { at: Time::from_ns(at + 1 + random.below(4_000)), channel, up: true });
        }
        traffic.faults.sort_unstable();
        let text = |threads| {
            let results = go(topology.clone(), algorithm, network.clone(), &TrafficConfig { threads, ..traffic.clone() });
            serde_json::to_string(&results).unwrap()
        };
        prop_assert_eq!(text(1), text(threads));
    }
}

#[test]
fn what_cannot_be_divided_says_why() {
    let torus = Topology::torus(&[4, 4], &[], 1).unwrap();
    let safe = Routing::new(&torus, Algorithm::DimensionOrder, 2).unwrap();
    let shortest = Routing::new(&torus, Algorithm::ShortestPath, 2).unwrap();
    let plain = NetworkConfig::default();
    assert_eq!(undivided(&torus, &safe, &plain), None);
    assert_eq!(undivided(&torus, &shortest, &plain), Some(Undivided::Deadlock));
    let mut touching = plain.clone();
    touching.link.latency = Time::ZERO;
    assert_eq!(undivided(&torus, &safe, &touching), Some(Undivided::NoLatency));
    let mut wormhole = plain.clone();
    wormhole.switch.switching = Switching::Wormhole;
    assert_eq!(undivided(&torus, &safe, &wormhole), Some(Undivided::Wormhole));
    let graph = |latency: f64| {
        let link = format!("link a b latency_ns={latency}");
        Topology::graph(&format!("router a\nrouter b\nrouter c\n{link}\nlink b c\nnode m a latency_ns=0\nnode n c"))
            .unwrap()
    };
    let close = graph(0.0);
    let routing = Routing::new(&close, Algorithm::UpDown, 1).unwrap();
    assert_eq!(undivided(&close, &routing, &plain), Some(Undivided::NoLatency));
    assert_eq!(undivided(&graph(0.004), &routing, &plain), None);
    assert_eq!(plain.lookahead(&graph(0.004)), Time(4));
    // They run on one thread.
    let traffic = TrafficConfig { threads: 4, ..short("uniform", 0.2) };
    let alone = TrafficConfig { threads: 1, ..traffic.clone() };
    let with = |traffic| go(torus.clone(), Algorithm::DimensionOrder, wormhole.clone(), traffic);
    assert_eq!(with(&traffic), with(&alone));
}
