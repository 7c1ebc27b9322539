// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::ops::ControlFlow;

use super::*;
use crate::network::{LinkConfig, LossReason, NetworkConfig, RetransmissionConfig, Switching};
use crate::node::Fault;
use crate::random::Random;
use crate::traffic::{TrafficConfig, TrafficResults, run};

fn ns(ns: u64) -> Time {
    Time::from_ns(ns)
}

fn triangle() -> Topology {
    Topology::graph("router a\nrouter b\nrouter c\nlink a b\nlink b c\nlink a c\nnode 0 a\nnode 1 b\nnode 2 c").unwrap()
}

fn outage(channels: Vec<u32>, at: u64, until: Option<u64>) -> Vec<Fault> {
    let fault = |channel| {
        let down = Fault { at: ns(at), channel, up: false };
        std::iter::once(down).chain(until.map(|at| Fault { at: ns(at), channel, up: true }))
    };
    channels.into_iter().flat_map(fault).collect()
}

fn link(topology: &Topology, a: u32, b: u32) -> Vec<u32> {
    let (a, b) = (RouterId(a), RouterId(b));
    let between = |from, to| topology.neighbours(from).filter(move |n| n.1 == to).map(move |n| (from, n.0));
    between(a, b).chain(between(b, a)).map(|(router, port)| topology.channel(router, port)).collect()
}

fn router(topology: &Topology, router: u32, at: u64, until: Option<u64>) -> (Vec<Fault>, Vec<RouterFault>) {
    let mut faults = vec![RouterFault { at: ns(at), router, up: false }];
    faults.extend(until.map(|at| RouterFault { at: ns(at), router, up: true }));
    (outage(channels_of(topology, RouterId(router)), at, until), faults)
}

fn traffic(mut faults: Vec<Fault>, rerouting: Option<RerouteConfig>) -> TrafficConfig {
    faults.sort_unstable();
    TrafficConfig {
        load: 0.3,
        warm_up: Time::ZERO,
        measured: ns(1_000_000),
        drain_max: ns(5_000_000),
        faults,
        rerouting,
        ..TrafficConfig::default()
    }
}

fn go_with(
    topology: &Topology,
    algorithm: Algorithm,
    network: NetworkConfig,
    traffic: &TrafficConfig,
) -> TrafficResults {
    let topology = Arc::new(topology.clone());
    let routing = Routing::new(&topology, algorithm, network.link.virtual_channels).unwrap();
    let results = run(topology, routing, network, traffic, &mut |_| ControlFlow::Continue(())).unwrap();
    let all = &results.whole_run;
    assert_eq!(all.injected, all.delivered + all.lost.values().sum::<u64>() + all.under_way, "{all:?}");
    results
}

fn go(topology: &Topology, algorithm: Algorithm, traffic: &TrafficConfig) -> TrafficResults {
    go_with(topology, algorithm, NetworkConfig::default(), traffic)
}

fn lost(results: &TrafficResults, why: LossReason) -> u64 {
    results.whole_run.lost[&why]
}

fn episodes(results: &TrafficResults) -> &[Episode] {
    &results.rerouting.as_ref().expect("a report").episodes
}

/// All losses that episodes name are those of the run, if links lose nothing by themselves.
fn assert_all_named(results: &TrafficResults) {
    for why in [LossReason::LinkDown, LossReason::Unreachable] {
        let named = |episode: &Episode| episode.lost_until_converged[&why] + episode.lost_later[&why];
        assert_eq!(episodes(results).iter().map(named).sum::<u64>(), lost(results, why), "{why:?}");
    }
}

#[test]
fn a_triangle_takes_the_other_way_at_once_when_the_carrier_is_lost() {
    let triangle = triangle();
    let faults = outage(link(&triangle, 0, 1), 200_000, None);
    let fixed = go(&triangle, Algorithm::UpDown, &traffic(faults.clone(), None));
    let changes = RerouteConfig::default();
    let config = traffic(faults, Some(changes.clone()));
    let rerouted = go(&triangle, Algorithm::UpDown, &config);
    // Packets for the other end of the link wait until their limit, one after the other. With managers both ends take the
    // other way at once, and nothing was on the wire.
    let counts = |results: &TrafficResults| (results.whole_run.injected, lost(results, LossReason::LinkDown));
    assert_eq!((counts(&fixed), counts(&rerouted)), ((1899, 260), (2874, 0)));
    assert_eq!((lost(&rerouted, LossReason::Unreachable), rerouted.whole_run.under_way), (0, 0));
    let episode = &episodes(&rerouted)[0];
    assert_eq!((&episode.changes[..], episode.at_ps), (&["link a-b fails".to_owned()][..], 200_000_000));
    assert_eq!((episode.noticed_ps, episode.routers_rerouted), (Some(0), 3));
    // The third router hears of it after the time to a new map.
    let converged = ns(rerouter(&triangle).timing.settle_ns).0;
    assert!(episode.converged_ps.is_some_and(|time| (converged..3 * converged).contains(&time)), "{episode:?}");
    assert_all_named(&rerouted);
    // The same again.
    assert_eq!(go(&triangle, Algorithm::UpDown, &config), rerouted);
    // Without faults managers change nothing.
    let none = go(&triangle, Algorithm::UpDown, &traffic(Vec::new(), None));
    let idle = go(&triangle, Algorithm::UpDown, &traffic(Vec::new(), Some(changes)));
    assert_eq!((idle.events, idle.latency, episodes(&idle).len()), (none.events, none.latency, 0));
}

fn rerouter(topology: &Topology) -> Rerouter {
    let topology = Arc::new(topology.clone());
    let routing = Routing::new(&topology, Algorithm::UpDown, 1).unwrap();
    Rerouter::new(&topology, &routing, &NetworkConfig::default(), RerouteConfig::default()).unwrap()
}

#[test]
fn silence_is_noticed_after_its_time_and_packets_wait_until_then() {
    let triangle = triangle();
    let timing = rerouter(&triangle).timing;
    let faults = outage(link(&triangle, 0, 1), 200_000, None);
    let hellos = RerouteConfig { detection: Detection::Hellos, routers: Vec::new() };
    // Longer than the time of silence, so that packets do not end their wait before.
    let network = NetworkConfig { link_down_limit: ns(10_000_000), ..NetworkConfig::default() };
    let results = go_with(&triangle, Algorithm::UpDown, network, &traffic(faults, Some(hellos)));
    let episode = &episodes(&results)[0];
    let noticed = Time(episode.noticed_ps.expect("noticed")).as_ns();
    assert!((timing.silence_ns - timing.hello_ns..=timing.silence_ns + 1).contains(&noticed), "{noticed}: {timing:?}");
    assert!(episode.converged_ps > episode.noticed_ps && lost(&results, LossReason::LinkDown) > 10, "{episode:?}");
    assert_all_named(&results);
}

#[test]
fn a_link_that_returns_restores_the_routes_of_the_machine() {
    let triangle = triangle();
    let faults = outage(link(&triangle, 0, 1), 200_000, Some(500_000));
    let results = go(&triangle, Algorithm::UpDown, &traffic(faults, Some(RerouteConfig::default())));
    let [fails, returns] = episodes(&results) else { panic!("{:?}", results.rerouting) };
    assert_eq!(returns.changes, ["link a-b returns"]);
    assert!(fails.converged_ps.is_some() && returns.converged_ps.is_some(), "{results:?}");
    // All three follow the machine's routing again, and no packet is lost by that.
    assert_eq!((fails.routers_rerouted, returns.routers_rerouted), (3, 3));
    assert_eq!(returns.lost_until_converged.values().sum::<u64>() + returns.lost_later.values().sum::<u64>(), 0);
    // Two hops for every packet at the end, as at the beginning: fewer than while the link was away.
    let all_away = go(
        &triangle,
        Algorithm::UpDown,
        &traffic(outage(link(&triangle, 0, 1), 200_000, None), Some(RerouteConfig::default())),
    );
    assert!(results.hops_mean < all_away.hops_mean);
}

#[test]
fn when_a_router_of_a_torus_fails_only_its_nodes_are_out_of_reach() {
    let torus = Topology::torus(&[5, 5], &[], 1).unwrap();
    let (faults, routers) = router(&torus, 12, 200_000, None);
    let config = traffic(faults.clone(), Some(RerouteConfig { detection: Detection::Carrier, routers }));
    // Up*/down* does not saturate at this load, so that all nodes send as much as before.
    let config = TrafficConfig { load: 0.1, ..config };
    let results = go(&torus, Algorithm::DimensionOrder, &config);
    let episode = &episodes(&results)[0];
    assert_eq!((&episode.changes[..], episode.noticed_ps), (&["router (2,2) fails".to_owned()][..], Some(0)));
    assert!(episode.converged_ps.is_some_and(|time| time < ns(300_000).0), "{episode:?}");
    assert_eq!(episode.routers_rerouted, 24);
    assert_all_named(&results);
    // No packet waits for a link of the router.
    assert!(results.latency.mean_ns < 50_000.0, "{:?}", results.latency);
    // A 25th of all packets in the rest of the time has no target, and the dead node's own stay with it, as many again.
    // Until the map is known, packets go out and are lost at the dead router.
    let (down, unreachable) = (lost(&results, LossReason::LinkDown), lost(&results, LossReason::Unreachable));
    let (injected, rest) = (results.whole_run.injected as f64, 0.8);
    let share = |count: u64| count as f64 / (injected / 25.0 * rest);
    assert!((0.6..1.0).contains(&share(unreachable)), "{unreachable} of {injected}");
    assert!((0.9..1.6).contains(&share(down)), "{down} of {injected}");
    // Without managers, packets that are only on their way through wait for their limit and hold up others.
    let fixed = go(&torus, Algorithm::DimensionOrder, &TrafficConfig { load: 0.1, ..traffic(faults, None) });
    assert!(results.accepted > 2.0 * fixed.accepted, "{} and {}", results.accepted, fixed.accepted);
}

#[test]
fn a_torus_without_a_link_carries_most_of_its_load_over_detours() {
    let torus = Topology::torus(&[8, 8], &[], 1).unwrap();
    let at_load = |faults: Vec<Fault>, rerouting| {
        go(&torus, Algorithm::DimensionOrder, &TrafficConfig { load: 0.25, ..traffic(faults, rerouting) })
    };
    let whole = at_load(Vec::new(), None);
    let faults = outage(link(&torus, 9, 10), 0, None);
    let results = at_load(faults.clone(), Some(RerouteConfig::default()));
    let report = results.rerouting.as_ref().expect("a report");
    assert_eq!((report.maps_with_detours, report.maps_without, results.deadlocks), (1, 0, 0));
    assert_eq!(results.whole_run.lost.values().sum::<u64>(), 0);
    assert!(results.accepted > 0.85 * whole.accepted, "{} of {}", results.accepted, whole.accepted);
    // A packet of a routing that picks from several routes has no whole route to keep.
    let dragonfly = Topology::dragonfly(5, 4, 1, 1).unwrap();
    let faults = outage(link(&dragonfly, 0, 1), 0, None);
    let network = NetworkConfig {
        link: LinkConfig { virtual_channels: 3, ..NetworkConfig::default().link },
        ..NetworkConfig::default()
    };
    let config = TrafficConfig { load: 0.05, ..traffic(faults, Some(RerouteConfig::default())) };
    let results = go_with(&dragonfly, Algorithm::Valiant, network, &config);
    let report = results.rerouting.as_ref().expect("a report");
    assert_eq!((report.maps_with_detours, report.maps_without), (0, 1));
    assert_eq!((results.deadlocks, results.whole_run.lost.values().sum::<u64>()), (0, 0));
}

#[test]
fn a_router_that_returns_is_found_again_with_a_new_boot() {
    let torus = Topology::torus(&[4, 4], &[], 1).unwrap();
    for detection in [Detection::Carrier, Detection::Hellos] {
        let (faults, routers) = router(&torus, 5, 200_000, Some(1_500_000));
        let config = traffic(faults, Some(RerouteConfig { detection, routers }));
        let results = go(&torus, Algorithm::DimensionOrder, &TrafficConfig { measured: ns(3_000_000), ..config });
        let [fails, returns] = episodes(&results) else { panic!("{:?}", results.rerouting) };
        assert_eq!(returns.changes, ["router (1,1) returns"]);
        assert!(fails.converged_ps.is_some() && returns.converged_ps.is_some(), "{results:?}");
        assert_eq!((fails.routers_rerouted, returns.routers_rerouted), (15, 16), "its first map has itself alone");
        assert_eq!(returns.lost_later.values().sum::<u64>(), 0, "{returns:?}");
    }
}

#[test]
fn the_parts_of_a_fabric_that_falls_apart_go_on_and_meet_again() {
    // A ring of six, cut at two links: three on each side.
    let ring = Topology::torus(&[6], &[], 1).unwrap();
    let mut faults = outage(link(&ring, 0, 5), 200_000, Some(600_000));
    faults.extend(outage(link(&ring, 2, 3), 200_000, Some(600_000)));
    let results = go(&ring, Algorithm::DimensionOrder, &traffic(faults, Some(RerouteConfig::default())));
    let [apart, together] = episodes(&results) else { panic!("{:?}", results.rerouting) };
    assert_eq!(apart.changes, ["link (0)-(5) fails", "link (2)-(3) fails"]);
    assert!(apart.converged_ps.is_some() && together.converged_ps.is_some());
    assert_eq!((apart.routers_rerouted, together.routers_rerouted), (6, 6));
    // Three fifths of all pairs are in different parts.
    assert!(apart.lost_later[&LossReason::Unreachable] > 500, "{apart:?}");
    assert_eq!((apart.lost_later[&LossReason::LinkDown], together.lost_later[&LossReason::Unreachable]), (0, 0));
    assert_all_named(&results);
}

#[test]
fn west_first_stays_while_it_fits() {
    let mesh = Topology::mesh(&[4, 4], 1).unwrap();
    let faults = outage(link(&mesh, 5, 6), 100_000, None);
    let results = go(&mesh, Algorithm::WestFirst, &traffic(faults, Some(RerouteConfig::default())));
    let report = results.rerouting.as_ref().expect("a report");
    assert_eq!((report.routes, report.episodes[0].routers_rerouted), ("west-first, or up-down", 16));
    assert_eq!(lost(&results, LossReason::NoRoute), 0);
    assert!(lost(&results, LossReason::LinkDown) < results.whole_run.injected / 100, "{results:?}");
}

#[test]
fn under_random_faults_all_packets_are_accounted_for_and_runs_are_the_same_again() {
    let mut converged = 0;
    for seed in 1..=16u64 {
        let mut random = Random::new(seed, 78);
        let torus = Topology::torus(&[4, 3, 2], &[], 1).unwrap();
        let (mut faults, mut routers) = (Vec::new(), Vec::new());
        for _ in 0..1 + random.below(5) {
            let at = random.below(400_000);
            let until = random.chance(0.6).then(|| at + 1 + random.below(300_000));
            match random.below(3) {
                // One direction alone, too.
                0 => faults.extend(outage(vec![random.below(u64::from(torus.channels())) as u32], at, until)),
                1 => faults.extend(outage(link(&torus, 0, 1), at, until)),
                _ => {
                    let (more, these) = router(&torus, random.below(24) as u32, at, until);
                    faults.extend(more);
                    routers.extend(these);
                }
            }
        }
        routers.sort_unstable();
        let detection = if seed % 2 == 0 { Detection::Hellos } else { Detection::Carrier };
        let mut network = NetworkConfig { seed, link_down_limit: ns(50_000), ..NetworkConfig::default() };
        network.errors.loss = 0.0005;
        if seed % 3 == 0 {
            network.retransmission = Some(RetransmissionConfig { timeout: ns(500), window_flits: 64 });
        }
        if seed % 4 == 0 {
            network.switch.switching = Switching::Wormhole;
        }
        let config = TrafficConfig { seed, ..traffic(faults, Some(RerouteConfig { detection, routers })) };
        let once = || go_with(&torus, Algorithm::DimensionOrder, network.clone(), &config);
        let results = once();
        assert_eq!((results.whole_run.under_way, results.stopped), (0, None), "seed {seed}");
        converged += episodes(&results).iter().filter(|episode| episode.converged_ps.is_some()).count();
        let text = |results: &TrafficResults| serde_json::to_string(results).unwrap();
        assert_eq!(text(&results), text(&once()), "seed {seed}");
    }
    assert!(converged > 16, "{converged}");
}

/// The longest test here: two maps of each of a thousand managers.
#[test]
fn a_thousand_routers_reroute_below_a_second() {
    let torus = Topology::torus(&[40, 25], &[], 1).unwrap();
    let faults = outage(link(&torus, 500, 501), 100_000, None);
    let config = TrafficConfig { load: 0.02, ..traffic(faults, Some(RerouteConfig::default())) };
    let results = go(&torus, Algorithm::DimensionOrder, &config);
    let episode = &episodes(&results)[0];
    assert!(episode.converged_ps.is_some_and(|time| time < ns(1_000_000_000).0), "{episode:?}");
    assert_eq!(episode.routers_rerouted, 1000);
    // Each of the two announcements crosses a link at most twice and is acknowledged; hellos come besides.
    assert!(episode.frames < 4 * 2 * 2000 + 8 * 4000, "{episode:?}");
}

#[test]
fn routers_with_too_many_links_are_refused_with_the_remedy() {
    let many = |topology: Topology| {
        let topology = Arc::new(topology);
        let routing = Routing::new(&topology, Algorithm::default_for(&topology), 3).unwrap();
        Rerouter::new(&topology, &routing, &NetworkConfig::default(), RerouteConfig::default()).map(|_| ()).unwrap_err()
    };
    let wide = many(Topology::fat_tree(2, 98, (1, 1), None).unwrap());
    assert!(wide.to_string().contains("at most 48") && wide.to_string().contains("--no-reroute"), "{wide}");
    let large = many(Topology::torus(&[64, 64], &[], 1).unwrap());
    assert!(large.to_string().contains("more than 2048"), "{large}");
}
