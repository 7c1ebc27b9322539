// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links of different speeds, by hand: the time of a packet is the sum of its links' latencies, and the time on the
//! slowest of them.

use std::sync::Arc;

use selvedge_fabric::{Algorithm, NodeId, Routing, Topology};

use super::super::message::tests::packet as one_packet;
use super::super::tests::{Script, config, run};
use super::super::{Arbitration, Arrival, LinkSpeed, MessageNetwork, Network, NetworkConfig, Packet, Switching};
use crate::congestion::Header;
use crate::time::Time;

/// A flit of 32 bytes takes `flit_ns`.
fn speed(flit_ns: u64, latency_ns: u64) -> LinkSpeed {
    LinkSpeed { bandwidth_bytes_per_s: 32_000_000_000 / flit_ns, latency: Time::from_ns(latency_ns) }
}

fn machine(class_links: Vec<LinkSpeed>) -> NetworkConfig {
    let mut config = config(2, Switching::CutThrough, Arbitration::RoundRobin);
    (config.link.latency, config.switch.latency) = (Time::from_ns(10), Time::from_ns(100));
    (config.link.bandwidth_bytes_per_s, config.link.flit_bytes) = (32_000_000_000, 32);
    config.class_links = class_links;
    config
}

/// The time of a packet of `bytes` in both models.
fn times(topology: &Arc<Topology>, algorithm: Algorithm, config: &NetworkConfig, pair: (u32, u32)) -> [Time; 2] {
    let (from, to, bytes) = (NodeId(pair.0), NodeId(pair.1), 300);
    let routing = Routing::new(topology, algorithm, 2).unwrap();
    let mut network = Network::new(topology.clone(), routing.clone(), config.clone()).unwrap();
    let packet = Packet { from, to, bytes, message: 0, last: true, header: Header::PLAIN };
    let arrivals = run(&mut network, &[(Time::ZERO, Script::Inject(packet))]);
    let [Arrival::Delivered(delivery)] = arrivals[..] else { panic!("{arrivals:?}") };
    let mut whole = MessageNetwork::new(topology.clone(), routing, config.clone()).unwrap();
    let departure = one_packet(&whole, from.0, to.0, bytes, Time::ZERO);
    [delivery.at, whole.send(Time::ZERO, &departure).unwrap().tail]
}

/// Latencies of links, routers passed, and the flit time of the slowest link, in ns.
#[track_caller]
fn check(made: Topology, algorithm: Algorithm, config: &NetworkConfig, pair: (u32, u32), expected: (u64, u64, u64)) {
    let (links, routers, flit) = expected;
    let flits = u64::from(config.flits(300));
    let time = Time::from_ns(links + routers * 100 + flits * flit);
    assert_eq!(times(&Arc::new(made), algorithm, config, pair), [time; 2]);
}

#[test]
fn each_class_of_links_has_its_own_speed() {
    let fly = || Topology::dragonfly(5, 4, 1, 1).unwrap();
    let slow_global = machine(vec![speed(2, 20), speed(5, 700)]);
    // Within a group, and over one global link with a local one before and behind it.
    check(fly(), Algorithm::Minimal, &slow_global, (0, 1), (10 + 20 + 10, 2, 2));
    let far = (1..20).find(|&to| fly().hops_min(NodeId(0), NodeId(to)) == 4).unwrap();
    check(fly(), Algorithm::Minimal, &slow_global, (0, far), (10 + 20 + 700 + 20 + 10, 4, 5));
    let tree = || Topology::xgft(&[2, 2, 2], &[2, 2], &[], None).unwrap();
    let fast_top = machine(vec![speed(4, 30), speed(1, 5)]);
    check(tree(), Algorithm::DestinationModK, &fast_top, (0, 2), (10 + 30 + 30 + 10, 3, 4));
    check(tree(), Algorithm::DestinationModK, &fast_top, (0, 7), (10 + 30 + 5 + 5 + 30 + 10, 5, 4));
    let mesh = || Topology::mesh(&[3, 3], 1).unwrap();
    let slow_y = machine(vec![speed(1, 1), speed(8, 90)]);
    check(mesh(), Algorithm::DimensionOrder, &slow_y, (0, 2), (10 + 1 + 1 + 10, 3, 1));
    check(mesh(), Algorithm::DimensionOrder, &slow_y, (0, 7), (10 + 1 + 90 + 90 + 10, 4, 8));
}

#[test]
fn a_link_of_a_graph_has_the_speed_of_its_line() {
    // A flit of 32 bytes takes 1 ns on other links, 4 ns at 8 GB/s, and 16 ns at 2 GB/s.
    let text = "router a\nrouter b\nrouter c\nlink a b latency_ns=50\nlink b c bandwidth_MBps=8000\nnode x a\n\
                node y c latency_ns=3 bandwidth_MBps=2000\nnode z b\n";
    let graph = || Topology::graph(text).unwrap();
    let config = machine(Vec::new());
    check(graph(), Algorithm::UpDown, &config, (0, 2), (10 + 50 + 10, 2, 1));
    check(graph(), Algorithm::UpDown, &config, (2, 1), (10 + 10 + 3, 2, 16));
    check(graph(), Algorithm::UpDown, &config, (1, 0), (3 + 10 + 50 + 10, 3, 16));
    let slow = NetworkConfig { node_link: Some(speed(40, 7)), ..config };
    check(graph(), Algorithm::UpDown, &slow, (0, 2), (7 + 50 + 7, 2, 40));
    check(graph(), Algorithm::UpDown, &slow, (2, 1), (7 + 10 + 3, 2, 40));
}

/// The queue of a slow link is as long as the time that it takes, not as its flits: of two ways to the opposite corner,
/// packets begin with the faster link as long as it is the sooner free.
#[test]
fn an_adaptive_routing_compares_times() {
    let topology = Arc::new(Topology::hyperx(&[2, 2], &[], 4).unwrap());
    let routing = Routing::new(&topology, Algorithm::Minimal, 2).unwrap();
    let first_hops = |class_links: Vec<LinkSpeed>| -> [u64; 2] {
        let mut network = Network::new(topology.clone(), routing.clone(), machine(class_links)).unwrap();
        let packet = |number: u32| Packet {
            from: NodeId(number % 4),
            to: NodeId(12 + number / 4 % 4),
            bytes: 300,
            message: number.into(),
            last: true,
            header: Header::PLAIN,
        };
        let script: Vec<_> = (0..12).map(|number| (Time::ZERO, Script::Inject(packet(number)))).collect();
        assert_eq!(run(&mut network, &script).len(), 12);
        [0, 1].map(|port| network.channel_statistics(port).packets)
    };
    let alike = first_hops(Vec::new());
    assert!(alike[0].abs_diff(alike[1]) <= 2, "{alike:?}");
    let slow_second = first_hops(vec![speed(1, 10), speed(8, 10)]);
    assert!(slow_second[0] > 3 * slow_second[1] && slow_second[1] > 0, "{slow_second:?}");
}

#[test]
fn a_speed_for_each_class_or_none() {
    let topology = Arc::new(Topology::dragonfly(5, 4, 1, 1).unwrap());
    let routing = Routing::new(&topology, Algorithm::Minimal, 2).unwrap();
    let error = |class_links| Network::new(topology.clone(), routing.clone(), machine(class_links)).unwrap_err();
    assert!(error(vec![speed(1, 1); 3]).to_string().contains("3 speeds for 2 classes"));
    let still = LinkSpeed { bandwidth_bytes_per_s: 0, latency: Time::ZERO };
    assert!(error(vec![speed(1, 1), still]).to_string().contains("no bandwidth"));
    let far = LinkSpeed { latency: Time::MAX, ..speed(1, 1) };
    assert!(error(vec![far, speed(1, 1)]).to_string().contains("longer than 10 s"));
}
