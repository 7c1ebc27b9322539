// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets to many nodes: times of an empty network in both models, one target, blocked outputs, crowds, losses.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use selvedge_fabric::{Algorithm, MulticastTree, NodeId, Routing, Topology};

use super::super::message::tests::packet as one_packet;
use super::super::tests::{Script, all_routings, assert_empty, config, run};
use super::super::{
    Arbitration, Arrival, DeadlockPolicy, ErrorRates, MessageNetwork, Network, NetworkConfig, Packet,
    RetransmissionConfig, Switching,
};
use crate::congestion::Header;
use crate::random::Random;
use crate::time::Time;

fn packet(from: u32, bytes: u32, message: u64) -> Packet {
    Packet { from: NodeId(from), to: NodeId(0), bytes, message, last: true, header: Header::PLAIN }
}

fn others(topology: &Topology, from: u32) -> Vec<NodeId> {
    (0..topology.nodes()).filter(|node| *node != from).map(NodeId).collect()
}

fn tree(topology: &Topology, routing: &Routing, from: u32, targets: &[NodeId]) -> MulticastTree {
    MulticastTree::new(topology, routing, NodeId(from), targets).unwrap()
}

/// Returns the time at which each target has a packet that is alone in the network.
fn alone(network: &mut Network, from: u32, tree: u32) -> BTreeMap<u32, Time> {
    let arrivals = run(network, &[(Time::ZERO, Script::Cast(packet(from, 200, 1), tree))]);
    let at = |arrival: &Arrival| match arrival {
        Arrival::Delivered(delivery) => (delivery.packet.to.0, delivery.at),
        Arrival::Lost(loss) => panic!("{loss:?}"),
    };
    let times: BTreeMap<u32, Time> = arrivals.iter().map(at).collect();
    assert_eq!(times.len(), arrivals.len(), "two copies at a node");
    times
}

#[test]
fn alone_each_copy_takes_as_long_as_a_packet_and_both_models_agree() {
    let mut shared = 0;
    for (topology, routing) in all_routings() {
        let cut = config(routing.virtual_channels(), Switching::CutThrough, Arbitration::RoundRobin);
        if topology.nodes() < 3 || !Network::can_cast(&cut, routing.deadlock_free()) {
            continue;
        }
        let targets = others(&topology, 1);
        let made = tree(&topology, &routing, 1, &targets);
        let mut network = Network::new(topology.clone(), routing.clone(), cut.clone()).unwrap();
        let number = network.add_tree(&made);
        assert_eq!(network.tree_targets(number) as usize, targets.len());
        let times = alone(&mut network, 1, number);
        assert_empty(&mut network);
        assert_eq!(times.len(), targets.len());
        // If routes part and meet again, copies wait for each other.
        let channels: std::collections::BTreeSet<u32> = made.branches().iter().map(|branch| branch.channel).collect();
        let is_plain = channels.len() == made.branches().len() && routing.variants() == 1;
        if is_plain {
            shared += 1;
            for (&to, &at) in &times {
                assert_eq!(
                    at,
                    network.latency_empty(NodeId(1), NodeId(to), 200),
                    "to {to} by {:?}",
                    routing.algorithm()
                );
            }
        }
        let mut whole = MessageNetwork::new(topology.clone(), routing.clone(), cut).unwrap();
        let number = whole.add_tree(&made);
        let departure = one_packet(&whole, 1, 1, 200, Time::ZERO);
        let arrivals = whole.send_cast(Time::ZERO, &departure, number);
        let whole_times: BTreeMap<u32, Time> = arrivals.iter().map(|(to, times)| (to.0, times.tail)).collect();
        assert_eq!(whole_times.keys().collect::<Vec<_>>(), times.keys().collect::<Vec<_>>());
        if is_plain {
            assert_eq!(whole_times, times, "{:?}", routing.algorithm());
        }
    }
    assert!(shared > 5, "{shared}");
}

/// Random packets, each to one node. The second run casts each over a tree with that node: all times are equal.
fn compare(seed: u64, buffer_flits: u32, arbitration: Arbitration) -> bool {
    let topology = Arc::new(Topology::torus(&[3, 3], &[], 1).unwrap());
    let routing = Routing::new(&topology, Algorithm::DimensionOrder, 2).unwrap();
    let mut cut = config(2, Switching::CutThrough, arbitration);
    cut.link.buffer_flits = buffer_flits;
    cut.link.packet_bytes = 512;
    let mut random = Random::new(seed, 1);
    let packets: Vec<(Time, Packet)> = (0..120)
        .map(|message| {
            let (from, to) = (random.below(9) as u32, random.below(8) as u32);
            let to = NodeId(if to >= from { to + 1 } else { to });
            (Time(random.below(4_000_000)), Packet { to, ..packet(from, random.below(512) as u32, message) })
        })
        .collect();
    let mut one = Network::new(topology.clone(), routing.clone(), cut.clone()).unwrap();
    let mut many = Network::new(topology.clone(), routing.clone(), cut).unwrap();
    let unicast: Vec<_> = packets.iter().map(|(at, packet)| (*at, Script::Inject(*packet))).collect();
    let casts: Vec<_> = packets
        .iter()
        .map(|(at, packet)| {
            let made = tree(&topology, &routing, packet.from.0, &[packet.to]);
            (*at, Script::Cast(*packet, many.add_tree(&made)))
        })
        .collect();
    let (first, second) = (run(&mut one, &unicast), run(&mut many, &casts));
    assert_empty(&mut many);
    assert_eq!(one.statistics().injected, many.statistics().injected);
    let times = |arrivals: &[Arrival]| -> Vec<_> {
        let at = |arrival: &Arrival| match arrival {
            Arrival::Delivered(delivery) => (delivery.packet, delivery.head, delivery.at, delivery.hops),
            Arrival::Lost(loss) => panic!("{loss:?}"),
        };
        arrivals.iter().map(at).collect()
    };
    assert_eq!(times(&first), times(&second));
    one.statistics().blocked > 0
}

#[test]
fn a_tree_with_one_target_is_a_route() {
    let blocked = (0..200).filter(|&seed| {
        let arbitration = if seed % 2 == 0 { Arbitration::RoundRobin } else { Arbitration::Fifo };
        compare(seed, 20 + seed as u32 % 60, arbitration)
    });
    assert!(blocked.count() > 100);
}

/// A switch with four nodes. Node 0 casts to 1, 2 and 3 while the link to 3 is busy: 1 and 2 get their copies without
/// delay, and node 0's next packet waits until the last copy has left.
#[test]
fn a_blocked_output_stops_its_copy_and_the_buffer() {
    let topology = Arc::new(Topology::crossbar(4).unwrap());
    let routing = Routing::new(&topology, Algorithm::ShortestPath, 1).unwrap();
    let mut cut = config(1, Switching::CutThrough, Arbitration::RoundRobin);
    // Room for one packet of this size.
    cut.link.packet_bytes = 200;
    cut.link.buffer_flits = cut.flits(200);
    let targets = others(&topology, 0);
    let made = tree(&topology, &routing, 0, &targets);
    let arrive = |blockers: u64| -> BTreeMap<(u64, u32), Time> {
        let mut network = Network::new(topology.clone(), routing.clone(), cut.clone()).unwrap();
        let number = network.add_tree(&made);
        let mut script: Vec<(Time, Script)> = (0..blockers)
            .map(|at| (Time::ZERO, Script::Inject(Packet { to: NodeId(3), ..packet(1, 200, 10 + at) })))
            .collect();
        let cast_at = Time::from_ns(300);
        script.push((cast_at, Script::Cast(packet(0, 200, 1), number)));
        script.push((cast_at, Script::Inject(Packet { to: NodeId(2), ..packet(0, 200, 2) })));
        let arrivals = run(&mut network, &script);
        assert_empty(&mut network);
        let at = |arrival: &Arrival| match arrival {
            Arrival::Delivered(delivery) => ((delivery.packet.message, delivery.packet.to.0), delivery.at),
            Arrival::Lost(loss) => panic!("{loss:?}"),
        };
        arrivals.iter().map(at).collect()
    };
    let (free, blocked) = (arrive(0), arrive(8));
    for to in [1, 2] {
        assert_eq!(free[&(1, to)], blocked[&(1, to)], "the copy to {to} does not wait for the one to 3");
    }
    assert!(blocked[&(1, 3)] > free[&(1, 3)]);
    let late = blocked[&(1, 3)] - free[&(1, 3)];
    assert!(blocked[&(2, 2)] >= free[&(2, 2)] + late, "the buffer is not free before the last copy has left");
}

/// Packets to one and to many nodes in a crowd, with the smallest buffers: all arrive, no cycle closes, and all credits are back.
fn crowd(topology: &Arc<Topology>, routing: &Routing, seed: u64, change: impl Fn(&mut NetworkConfig)) -> (u64, u64) {
    let mut cut = config(routing.virtual_channels(), Switching::CutThrough, Arbitration::RoundRobin);
    cut.link.packet_bytes = 256;
    cut.link.buffer_flits = cut.flits(256);
    cut.deadlock = DeadlockPolicy::Detect;
    cut.seed = seed;
    change(&mut cut);
    let nodes = topology.nodes();
    let mut network = Network::new(topology.clone(), routing.clone(), cut).unwrap();
    let mut random = Random::new(seed, 2);
    let trees: Vec<(u32, u32)> = (0..2 * nodes)
        .map(|at| {
            let from = at % nodes;
            let mut targets: Vec<NodeId> = others(topology, from);
            targets.retain(|_| at < nodes || random.below(3) == 0);
            targets.extend((targets.is_empty()).then_some(NodeId((from + 1) % nodes)));
            (from, network.add_tree(&tree(topology, routing, from, &targets)))
        })
        .collect();
    let mut wanted: BTreeMap<(u64, u32), u32> = BTreeMap::new();
    let mut script = Vec::new();
    for message in 0..12 * u64::from(nodes) {
        let at = Time(random.below(6_000_000));
        if message % 3 == 0 {
            let (from, number) = trees[random.below(trees.len() as u64) as usize];
            script.push((at, Script::Cast(packet(from, random.below(257) as u32, message), number)));
            *wanted.entry((message, u32::MAX)).or_default() += network.tree_targets(number);
        } else {
            let from = random.below(nodes.into()) as u32;
            let to = NodeId((from + 1 + random.below(u64::from(nodes) - 1) as u32) % nodes);
            script.push((at, Script::Inject(Packet { to, ..packet(from, random.below(257) as u32, message) })));
            *wanted.entry((message, to.0)).or_default() += 1;
        }
    }
    let arrivals = run(&mut network, &script);
    assert_eq!(network.deadlock(), None);
    assert_empty(&mut network);
    let mut found: BTreeMap<(u64, u32), u32> = BTreeMap::new();
    let mut seen = std::collections::BTreeSet::new();
    let (mut lost, mut lost_alone) = (0, 0);
    for arrival in &arrivals {
        let Packet { message, to, .. } = *arrival.packet();
        assert!(seen.insert((message, to.0)), "message {message} twice at {to:?}");
        let is_cast = message % 3 == 0;
        if let Arrival::Lost(_) = arrival {
            lost += u64::from(is_cast);
            lost_alone += u64::from(!is_cast);
        }
        *found.entry((message, if is_cast { u32::MAX } else { to.0 })).or_default() += 1;
    }
    assert_eq!(found, wanted, "each target once");
    let statistics = network.statistics();
    assert_eq!(statistics.injected, statistics.delivered + statistics.lost);
    assert_eq!(statistics.lost, lost + lost_alone);
    (lost, lost_alone)
}

#[test]
fn crowds_of_casts_do_not_lock_up() {
    for (topology, routing) in all_routings() {
        if topology.nodes() < 2 || !routing.deadlock_free() {
            continue;
        }
        for seed in 0..4 {
            assert_eq!(crowd(&topology, &routing, seed, |_| ()), (0, 0));
        }
    }
}

#[test]
fn links_that_retransmit_lose_casts_alone() {
    let topology = Arc::new(Topology::fat_tree(2, 8, (1, 1), Some(16)).unwrap());
    let routing = Routing::new(&topology, Algorithm::DestinationModK, 1).unwrap();
    let (mut lost, mut lost_alone) = (0, 0);
    for seed in 0..20 {
        let retransmission = RetransmissionConfig { timeout: Time::from_ns(500), window_flits: 64 };
        let errors = ErrorRates { loss: 0.02, corruption: 0.02 };
        let with = crowd(&topology, &routing, seed, |config| {
            (config.retransmission, config.errors) = (Some(retransmission.clone()), errors);
        });
        let without = crowd(&topology, &routing, seed, |config| config.errors = errors);
        assert_eq!(with.1, 0, "a packet to one node is sent again");
        (lost, lost_alone) = (lost + with.0, lost_alone + without.1);
        assert_eq!(
            with,
            crowd(&topology, &routing, seed, |config| {
                (config.retransmission, config.errors) = (Some(retransmission.clone()), errors);
            })
        );
    }
    assert!(lost > 100 && lost_alone > 100, "{lost} {lost_alone}");
}

proptest! {
    /// Links fail and recover while packets to many nodes are under way: each target gets its copy, or a loss.
    #[test]
    fn links_that_fail_lose_each_copy_once(seed: u64, is_retransmitted: bool) {
        let topology = Arc::new(Topology::torus(&[3, 3], &[], 1).unwrap());
        let routing = Routing::new(&topology, Algorithm::DimensionOrder, 2).unwrap();
        let mut cut = config(2, Switching::CutThrough, Arbitration::RoundRobin);
        cut.link.packet_bytes = 256;
        cut.link.buffer_flits = cut.flits(256);
        cut.link_down_limit = Time::from_ns(700);
        cut.retransmission =
            is_retransmitted.then_some(RetransmissionConfig { timeout: Time::from_ns(500), window_flits: 64 });
        let mut network = Network::new(topology.clone(), routing.clone(), cut).unwrap();
        let mut random = Random::new(seed, 3);
        let mut script = Vec::new();
        let mut wanted = 0;
        let trees: Vec<u32> =
            (0..9).map(|from| network.add_tree(&tree(&topology, &routing, from, &others(&topology, from)))).collect();
        for message in 0..40 {
            let from = random.below(9) as u32;
            let cast = packet(from, random.below(257) as u32, message);
            script.push((Time(random.below(3_000_000)), Script::Cast(cast, trees[from as usize])));
            wanted += 8;
        }
        let channels = network.channels_between_routers();
        for _ in 0..6 {
            let channel = channels[random.below(channels.len() as u64) as usize];
            let at = random.below(3_000_000);
            script.push((Time(at), Script::Fail(channel)));
            script.push((Time(at + random.below(2_000_000)), Script::Repair(channel)));
        }
        let arrivals = run(&mut network, &script);
        let mut seen = std::collections::BTreeSet::new();
        for arrival in &arrivals {
            let Packet { message, to, .. } = *arrival.packet();
            prop_assert!(seen.insert((message, to.0)));
        }
        prop_assert_eq!(seen.len(), wanted);
        assert_empty(&mut network);
    }
}
