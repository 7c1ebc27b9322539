// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The network against its oracle and the formula of the empty network, under deadlocks and faults.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use selvedge_fabric::{Algorithm, NodeId, Routing, Topology};

use super::oracle::Oracle;
use super::state::UNLIMITED;
use super::*;
use crate::congestion::Header;
use crate::queue::Queue;

#[derive(Clone, Copy, Debug)]
pub(super) enum Script {
    Inject(Packet),
    Cast(Packet, u32),
    Fail(u32),
    Repair(u32),
}

/// Runs a network alone: the script, then all events until the queue is empty.
pub(super) fn run(network: &mut Network, script: &[(Time, Script)]) -> Vec<Arrival> {
    let mut queue: Queue<NetworkEvent> = Queue::new();
    let mut script: Vec<_> = script.to_vec();
    script.sort_by_key(|&(at, _)| at);
    let mut script = script.into_iter().peekable();
    let mut arrivals = Vec::new();
    loop {
        let due = queue.next_at();
        if let Some((at, step)) = script.next_if(|&(at, _)| due.is_none_or(|due| at <= due)) {
            match step {
                Script::Inject(packet) => network.inject(at, packet, &mut queue),
                Script::Cast(packet, tree) => network.inject_cast(at, packet, tree, &mut queue),
                Script::Fail(channel) => network.fail_link(at, channel, &mut queue),
                Script::Repair(channel) => network.repair_link(at, channel, &mut queue),
            }
        } else if let Some((now, event)) = queue.take() {
            network.handle(now, event, &mut queue);
            while let Some(arrival) = network.take_arrival() {
                arrivals.push(arrival);
            }
        } else {
            return arrivals;
        }
    }
}

/// Checks that an empty network has all its credits, and that no packet waits or is held.
pub(super) fn assert_empty(network: &mut Network) {
    for output in 0..network.buffers.sources as usize {
        let out = &mut network.buffers.vcs[output];
        assert_eq!(out.owner, NONE, "output {output} has an owner");
        assert_eq!(out.waiters, NONE, "output {output} has waiters");
        if out.credits != UNLIMITED {
            out.credits += out.releases.collect(&mut network.buffers.releases, Time::MAX);
            let room = match network.buffers.behind_stage(output as u32) {
                Some(_) => network.config.switch.speed_up.unwrap().output_flits,
                None => network.config.link.buffer_flits,
            };
            assert_eq!(network.buffers.vcs[output].credits, room, "credits of output {output}");
        }
    }
    assert!(network.buffers.links.iter().all(|link| link.waiting == 0));
    for link in &mut network.reliability {
        link.acknowledgements.collect(&mut network.buffers.releases, Time::MAX);
    }
    assert!(network.buffers.vcs.iter().all(|vc| vc.front == NONE && vc.back == NONE));
    assert!(network.sources.iter().all(|source| source.waiting == 0));
    assert_eq!(network.buffers.residents.in_use(), 0);
    assert_eq!(network.buffers.flights.in_use(), 0);
    assert_eq!(network.buffers.releases.in_use(), 0);
    assert_eq!(network.in_flight(), 0);
}

pub(super) fn config(vcs: u8, switching: Switching, arbitration: Arbitration) -> NetworkConfig {
    let mut config = NetworkConfig::default();
    config.link.virtual_channels = vcs;
    config.switch.switching = switching;
    config.switch.arbitration = arbitration;
    config
}

fn small(kind: usize) -> (Topology, Algorithm, u8) {
    let graph = "router a\nrouter b\nrouter c\nrouter d\nlink a b\nlink b c bandwidth_MBps=470 latency_ns=3\n\
                 link c d\nlink d a latency_ns=31.1\nlink a c\nnode n0 a bandwidth_MBps=2100\nnode n1 b\nnode n2 c\nnode n3 d\nnode n4 a\n";
    match kind {
        0 => (Topology::mesh(&[3, 3], 1).unwrap(), Algorithm::DimensionOrder, 1),
        1 => (Topology::mesh(&[3, 3], 2).unwrap(), Algorithm::DimensionOrder, 2),
        2 => (Topology::torus(&[4, 4], &[], 1).unwrap(), Algorithm::DimensionOrder, 2),
        3 => (Topology::hypercube(3, 1).unwrap(), Algorithm::DimensionOrder, 1),
        4 => (Topology::crossbar(6).unwrap(), Algorithm::UpDown, 1),
        5 => (Topology::graph(graph).unwrap(), Algorithm::UpDown, 1),
        _ => (Topology::fat_tree(2, 4, (1, 1), None).unwrap(), Algorithm::DestinationModK, 1),
    }
}

/// Every routing of every kind of topology, with 4 virtual channels.
pub(super) fn all_routings() -> Vec<(Arc<Topology>, Routing)> {
    let graph = "router a\nrouter b\nrouter c\nlink a b\nlink b c\nlink c a\nnode n0 a\nnode n1 b\nnode n2 c\n";
    let topologies = [
        Topology::mesh(&[4, 3], 1),
        Topology::mesh(&[3, 2, 4], 2),
        Topology::torus(&[5, 4], &[], 1),
        Topology::torus(&[3, 2, 4], &[false, false, true], 1),
        Topology::hypercube(4, 1),
        Topology::fat_tree(2, 4, (1, 1), None),
        Topology::fat_tree(3, 4, (1, 1), None),
        Topology::dragonfly(5, 2, 2, 2),
        Topology::hyperx(&[3, 4], &[1, 2], 1),
        Topology::slim_fly(3, Some(1)),
        Topology::dragonfly_plus(4, (2, 2), 2, 2),
        Topology::crossbar(7),
        Topology::graph(graph),
    ];
    let mut all = Vec::new();
    for topology in topologies.map(|topology| Arc::new(topology.unwrap())) {
        let fitting = Algorithm::ALL.into_iter().filter_map(|algorithm| Routing::new(&topology, algorithm, 4).ok());
        let before = all.len();
        all.extend(fitting.map(|routing| (topology.clone(), routing)));
        assert!(all.len() > before, "no routing for {}", topology.kind());
    }
    assert!(all.len() > 25, "{} routings", all.len());
    all
}

#[test]
fn an_empty_network_takes_as_long_as_the_formula_says() {
    let mut checked = 0;
    for (topology, routing) in all_routings() {
        for (switching, buffer, node_link) in [
            (Switching::CutThrough, 64, None),
            (Switching::CutThrough, 65, None), // with a speed-up
            (Switching::CutThrough, 66, None), // with classes of links
            (Switching::Wormhole, 3, None),
            (Switching::CutThrough, 64, Some(LinkSpeed { bandwidth_bytes_per_s: 300_000_000, latency: Time(7_001) })),
            (Switching::CutThrough, 64, Some(LinkSpeed { bandwidth_bytes_per_s: 4_000_000_000, latency: Time(1) })),
            (Switching::Wormhole, 8, None),
            (Switching::Wormhole, 1, None),
            (Switching::Wormhole, 2, Some(LinkSpeed { bandwidth_bytes_per_s: 300_000_000, latency: Time(7_001) })),
            (Switching::Wormhole, 3, Some(LinkSpeed { bandwidth_bytes_per_s: 4_000_000_000, latency: Time(1) })),
        ] {
            let mut config = config(4, switching, Arbitration::RoundRobin);
            config.link.buffer_flits = buffer;
            config.switch.speed_up = (buffer == 65).then_some(SpeedUp { factor: 3, output_flits: 40 });
            config.node_link = node_link;
            if buffer == 66 || buffer == 3 {
                config.class_links = speeds(buffer.into(), &topology);
            }
            let mut network = Network::new(topology.clone(), routing.clone(), config.clone()).unwrap();
            let nodes = topology.nodes();
            for (number, bytes) in [0, 1, 13, 14, 15, 200, 1024].into_iter().enumerate() {
                let from = NodeId(number as u32 * 3 % nodes);
                for to in (0..nodes).map(NodeId).filter(|&to| to != from) {
                    let start = Time::from_ns(1_000_000 * (checked + 1));
                    let packet = Packet { from, to, bytes, message: 9, last: true, header: Header::PLAIN };
                    let arrivals = run(&mut network, &[(start, Script::Inject(packet))]);
                    let [Arrival::Delivered(delivery)] = arrivals[..] else { panic!("{arrivals:?}") };
                    let flits = u64::from(config.flits(bytes));
                    let deep = (switching == Switching::CutThrough || buffer == 8) && config.class_links.is_empty();
                    if !routing.takes_detours() {
                        assert_eq!(delivery.at - start, network.latency_empty(from, to, bytes), "{delivery:?}");
                    }
                    if deep {
                        // The formula again, with the number of hops that the packet reports.
                        let h = u64::from(delivery.hops);
                        let slow = if h > 1 { config.flit_time() } else { Time::ZERO }.max(config.node_flit_time());
                        let wires =
                            config.node_link.unwrap_or(config.link.speed()).latency * 2 + config.link.latency * (h - 1);
                        let heads = wires + config.switch.latency * h;
                        assert_eq!(delivery.at - start, heads + slow * flits);
                        assert_eq!(delivery.head - start, heads);
                    }
                    checked += 1;
                }
            }
            assert_empty(&mut network);
            assert_eq!(network.statistics().blocked, 0);
        }
    }
    assert!(checked > 10_000, "{checked}");
}

/// Packets at random times, close enough to block each other.
fn load(seed: u64, nodes: u32, count: u32, spread: u64, bytes_max: u32) -> Vec<(Time, Packet)> {
    let mut random = Random::new(seed, 0);
    let mut packets: Vec<_> = (0..count)
        .map(|message| {
            let from = random.below(nodes.into()) as u32;
            let to = (from + 1 + random.below(u64::from(nodes) - 1) as u32) % nodes;
            let bytes = random.below(u64::from(bytes_max) + 1) as u32;
            let packet = Packet {
                from: NodeId(from),
                to: NodeId(to),
                bytes,
                message: message.into(),
                last: true,
                header: Header::PLAIN,
            };
            (Time(random.below(spread)), packet)
        })
        .collect();
    packets.sort_by_key(|&(at, _)| at);
    packets
}

/// Random speeds of the classes of links.
pub(super) fn speeds(seed: u64, topology: &Topology) -> Vec<LinkSpeed> {
    let mut draw = Random::new(seed, 78);
    let speed = |_| LinkSpeed {
        bandwidth_bytes_per_s: 300_000_000 + draw.below(2_000_000_000),
        latency: Time(draw.below(40_000) + 1),
    };
    (0..topology.link_classes().count()).map(speed).collect()
}

/// Compares a network with its oracle; `None` if the model leaves the order open. Returns the number of blocked heads.
fn compare(seed: u64, kind: usize, count: u32, config: NetworkConfig) -> Option<u64> {
    let (topology, algorithm, vcs) = small(kind);
    let topology = Arc::new(topology);
    let vcs = vcs.max(config.link.virtual_channels);
    let mut config = NetworkConfig { link: LinkConfig { virtual_channels: vcs, ..config.link }, ..config };
    if seed % 5 < 2 {
        config.class_links = speeds(seed, &topology);
    }
    let routing = Routing::new(&topology, algorithm, vcs).unwrap();
    let packets = load(seed, topology.nodes(), count, 6_000_000, config.link.packet_bytes);
    let mut oracle = Oracle::new(&topology, &routing, &config);
    oracle.run(&packets);
    if oracle.ambiguous {
        return None;
    }
    let mut network = Network::new(topology.clone(), routing.clone(), config.clone()).unwrap();
    let script: Vec<_> = packets.iter().map(|&(at, packet)| (at, Script::Inject(packet))).collect();
    let arrivals = run(&mut network, &script);
    assert_eq!(arrivals.len(), packets.len());
    for arrival in arrivals {
        let Arrival::Delivered(delivery) = arrival else { panic!("{arrival:?}") };
        let number = packets.iter().position(|(_, packet)| packet.message == delivery.packet.message).unwrap();
        assert_eq!(
            oracle.arrivals[&number],
            (delivery.head, delivery.at),
            "seed {seed} kind {kind} {config:?}: {delivery:?} of {packets:?}"
        );
    }
    assert_empty(&mut network);
    Some(network.statistics().blocked)
}

#[test]
fn every_packet_arrives_when_the_flit_by_flit_oracle_says() {
    let (mut compared, mut open, mut blocked) = (0u64, 0, 0);
    for seed in 0..1500u64 {
        let mut draw = Random::new(seed, 77);
        let switching = if seed % 2 == 0 { Switching::CutThrough } else { Switching::Wormhole };
        let arbitration = if seed / 2 % 2 == 0 { Arbitration::RoundRobin } else { Arbitration::Fifo };
        let mut config = config(1, switching, arbitration);
        config.link.latency = Time(draw.below(40_000) + 1);
        config.switch.latency = Time(draw.below(60_000) + 1);
        config.link.bandwidth_bytes_per_s = 700_000_000 + draw.below(1_000_000_000);
        if draw.below(3) == 0 {
            let bandwidth_bytes_per_s = 300_000_000 + draw.below(2_000_000_000);
            config.node_link = Some(LinkSpeed { bandwidth_bytes_per_s, latency: Time(draw.below(20_000)) });
        }
        config.link.packet_bytes = 400;
        let flits = config.flits(400);
        config.link.buffer_flits = match switching {
            Switching::CutThrough => flits + draw.below(20) as u32,
            Switching::Wormhole => 1 + draw.below(20) as u32,
        };
        config.link.virtual_channels = 1 + draw.below(2) as u8;
        let count = 10 + draw.below(60) as u32;
        match compare(seed, draw.below(7) as usize, count, config) {
            Some(heads) => {
                compared += 1;
                blocked += heads;
            }
            None => open += 1,
        }
    }
    assert!(compared > 300, "{compared} networks compared, {open} left open by the model");
    assert!(blocked > 3_000, "only {blocked} heads were blocked");
}

/// An observer for which each channel is a link.
#[derive(Debug)]
pub(super) struct LinksOnly(pub u32);

impl Observe for LinksOnly {
    fn withdrawn(&mut self, _: Time, channel: u32) {
        assert!(channel < self.0, "{channel}");
    }

    fn end(&mut self, _: Time) -> std::io::Result<()> {
        Ok(())
    }
}

/// Packets as fast as their nodes can send them, on a mesh whose routing deadlocks.
fn crowd(switching: Switching, factor: Option<u32>) -> Network {
    let seed = 3;
    let topology = Topology::mesh(&[8, 8], 1).unwrap();
    let topology = Arc::new(topology);
    let mut config = config(1, switching, Arbitration::RoundRobin);
    config.link.buffer_flits = if switching == Switching::Wormhole { 8 } else { config.flits(1024) };
    config.switch.speed_up = factor.map(|factor| SpeedUp { factor, output_flits: config.link.buffer_flits });
    config.seed = seed;
    let routing = Routing::new(&topology, Algorithm::ShortestPath, 1).unwrap();
    let mut network = Network::new(topology.clone(), routing, config).unwrap();
    network.observe(Box::new(LinksOnly(topology.channels())));
    let packets = load(seed, topology.nodes(), topology.nodes() * 20, 1_000_000, 1024);
    let script: Vec<_> = packets.iter().map(|&(at, packet)| (at, Script::Inject(packet))).collect();
    let arrivals = run(&mut network, &script);
    assert_eq!(network.find_deadlock(Time::MAX), None, "{:?}", network.statistics());
    assert_eq!(arrivals.len(), packets.len(), "{:?}", network.statistics());
    assert_empty(&mut network);
    network
}

#[test]
fn every_deadlock_is_found_and_resolved() {
    let (wormhole, cut_through) = (Switching::Wormhole, Switching::CutThrough);
    for (switching, factor) in [(wormhole, None), (cut_through, None), (wormhole, Some(2)), (cut_through, Some(2))] {
        let mesh = crowd(switching, factor);
        let statistics = mesh.statistics();
        assert!(statistics.deadlocks > 0 && statistics.recovered == statistics.deadlocks, "{statistics:?}");
        assert!(statistics.cycle_lengths.keys().all(|&length| length >= 4), "{statistics:?}");
    }
}

#[derive(Clone, Debug)]
struct Faults {
    seed: u64,
    kind: usize,
    wormhole: bool,
    fifo: bool,
    retransmission: bool,
    loss: f64,
    corruption: f64,
    packets: u32,
    /// Links that fail: channel, time, and duration (None: for ever).
    failures: Vec<(u32, u64, Option<u64>)>,
}

fn faults() -> impl Strategy<Value = Faults> {
    let rate = prop_oneof![Just(0.0), 0.0..0.3f64];
    let failure = (any::<u32>(), 0u64..8_000_000, proptest::option::of(1u64..4_000_000));
    let failures = proptest::collection::vec(failure, 0..6);
    (any::<u64>(), 0usize..9, any::<[bool; 3]>(), rate.clone(), rate, 1u32..120, failures).prop_map(
        |(seed, kind, [wormhole, fifo, retransmission], loss, corruption, packets, failures)| Faults {
            seed,
            kind,
            wormhole,
            fifo,
            retransmission,
            loss,
            corruption,
            packets,
            failures,
        },
    )
}

fn run_with_faults(faults: &Faults) -> (Network, Vec<Arrival>) {
    // Kind 7 deadlocks; kind 8 is adaptive.
    let (topology, algorithm, vcs) = match faults.kind {
        7 => (Topology::torus(&[5, 5], &[], 1).unwrap(), Algorithm::ShortestPath, 1),
        8 => (Topology::mesh(&[4, 4], 1).unwrap(), Algorithm::WestFirst, 1),
        kind => small(kind),
    };
    let topology = Arc::new(topology);
    let switching = if faults.wormhole { Switching::Wormhole } else { Switching::CutThrough };
    let mut config = config(vcs, switching, if faults.fifo { Arbitration::Fifo } else { Arbitration::RoundRobin });
    config.link.packet_bytes = 300;
    config.link.buffer_flits = if faults.wormhole { 3 } else { config.flits(300) };
    config.retransmission =
        faults.retransmission.then_some(RetransmissionConfig { timeout: Time::from_ns(300), window_flits: 20 });
    config.errors = ErrorRates { loss: faults.loss, corruption: faults.corruption };
    config.link_down_limit = Time(2_000_000);
    config.seed = faults.seed;
    let routing = Routing::new(&topology, algorithm, vcs).unwrap();
    let mut network = Network::new(topology.clone(), routing, config).unwrap();
    let packets = load(faults.seed, topology.nodes(), faults.packets, 6_000_000, 300);
    let mut script: Vec<_> = packets.iter().map(|&(at, packet)| (at, Script::Inject(packet))).collect();
    for &(channel, at, length) in &faults.failures {
        let channel = channel % topology.channels();
        script.push((Time(at), Script::Fail(channel)));
        if let Some(length) = length {
            script.push((Time(at + length), Script::Repair(channel)));
        }
    }
    let arrivals = run(&mut network, &script);
    (network, arrivals)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn everything_injected_is_delivered_or_lost_exactly_once(faults in faults()) {
        let (mut network, arrivals) = run_with_faults(&faults);
        assert_empty(&mut network);
        let mut messages: Vec<u64> = arrivals.iter().map(|arrival| arrival.packet().message).collect();
        messages.sort_unstable();
        prop_assert_eq!(messages, (0..u64::from(faults.packets)).collect::<Vec<_>>());
        let mut order: BTreeMap<(NodeId, NodeId), (Time, u64)> = BTreeMap::new();
        for arrival in &arrivals {
            match arrival {
                Arrival::Delivered(delivery) => {
                    let least = network.latency_empty(delivery.packet.from, delivery.packet.to, delivery.packet.bytes);
                    prop_assert!(delivery.recovered || delivery.at - delivery.injected >= least);
                    prop_assert!(delivery.head < delivery.at || delivery.recovered);
                    let pair = (delivery.packet.from, delivery.packet.to);
                    if faults.kind < 7 {
                        let last = order.insert(pair, (delivery.injected, delivery.packet.message));
                        prop_assert!(last.is_none_or(|(injected, _)| injected <= delivery.injected), "{:?}", delivery);
                    }
                }
                Arrival::Lost(loss) => match loss.why {
                    LossReason::LinkDown => prop_assert!(!faults.failures.is_empty()),
                    LossReason::NoRoute | LossReason::Unreachable => prop_assert!(false, "{:?}", loss),
                    LossReason::Loss => prop_assert!(!faults.retransmission && faults.loss > 0.0),
                    LossReason::Corruption => prop_assert!(!faults.retransmission && faults.corruption > 0.0),
                },
            }
        }
        let statistics = network.statistics();
        prop_assert_eq!(statistics.delivered + statistics.lost, u64::from(faults.packets));
        prop_assert_eq!(statistics.deadlocks, statistics.recovered);
        prop_assert!(faults.kind == 7 || statistics.deadlocks == 0);
    }

    #[test]
    fn a_seed_gives_the_same_run(faults in faults()) {
        let (first, arrivals) = run_with_faults(&faults);
        let (again, same) = run_with_faults(&faults);
        prop_assert_eq!(arrivals, same);
        prop_assert_eq!(first.statistics(), again.statistics());
    }
}

#[test]
fn faults_happen_and_links_hide_what_they_can() {
    let base = Faults {
        seed: 5,
        kind: 2,
        wormhole: false,
        fifo: false,
        retransmission: true,
        loss: 0.05,
        corruption: 0.05,
        packets: 400,
        failures: vec![],
    };
    let count = |arrivals: &[Arrival], why: LossReason| {
        arrivals.iter().filter(|arrival| matches!(arrival, Arrival::Lost(loss) if loss.why == why)).count()
    };
    for wormhole in [false, true] {
        let (network, arrivals) = run_with_faults(&Faults { wormhole, ..base.clone() });
        let statistics = network.statistics();
        assert_eq!(statistics.delivered, 400);
        assert_eq!(statistics.retransmissions, statistics.losses + statistics.corruptions);
        assert!(statistics.losses > 30 && statistics.corruptions > 30, "{statistics:?}");
        let (_, sound) = run_with_faults(&Faults { wormhole, loss: 0.0, corruption: 0.0, ..base.clone() });
        let sum = |arrivals: &[Arrival]| {
            let latency = |arrival: &Arrival| match arrival {
                Arrival::Delivered(delivery) => delivery.at - delivery.injected,
                Arrival::Lost(_) => Time::ZERO,
            };
            arrivals.iter().map(latency).sum::<Time>()
        };
        assert!(sum(&arrivals) > sum(&sound), "errors cost nothing");
        let (_, arrivals) = run_with_faults(&Faults { wormhole, retransmission: false, ..base.clone() });
        assert!(count(&arrivals, LossReason::Loss) > 20 && count(&arrivals, LossReason::Corruption) > 20);
        // All channels fail and stay down: every packet is lost.
        let failures = (0..1000).map(|channel| (channel, 0, None)).collect();
        let all = Faults { wormhole, loss: 0.0, corruption: 0.0, failures, ..base.clone() };
        let (_, arrivals) = run_with_faults(&all);
        assert_eq!(count(&arrivals, LossReason::LinkDown), 400);
    }
}

#[test]
fn a_link_that_is_repaired_in_time_loses_nothing() {
    let topology = Arc::new(Topology::mesh(&[2, 1], 1).unwrap());
    let routing = Routing::new(&topology, Algorithm::DimensionOrder, 1).unwrap();
    let mut config = config(1, Switching::CutThrough, Arbitration::RoundRobin);
    config.link.latency = Time::from_ns(500);
    config.retransmission = Some(RetransmissionConfig { timeout: Time::from_ns(5_000), window_flits: 200 });
    let packet =
        |message| Packet { from: NodeId(0), to: NodeId(1), bytes: 100, message, last: true, header: Header::PLAIN };
    let between = Network::new(topology.clone(), routing.clone(), config.clone()).unwrap().channels_between_routers();
    let mut alone = Network::new(topology.clone(), routing.clone(), config.clone()).unwrap();
    let empty = alone.latency_empty(NodeId(0), NodeId(1), 100);
    let script = [(Time::ZERO, Script::Inject(packet(0))), (Time::ZERO, Script::Inject(packet(1)))];
    let sound = run(&mut alone, &script);
    // Down while the first packet is on the wire (520 ns to 1020 ns) and the second has not arrived.
    let down = |from: u64, to: u64| {
        let mut network = Network::new(topology.clone(), routing.clone(), config.clone()).unwrap();
        let mut script = script.to_vec();
        for &channel in &between {
            script.push((Time::from_ns(from), Script::Fail(channel)));
            script.push((Time::from_ns(to), Script::Repair(channel)));
        }
        let arrivals = run(&mut network, &script);
        assert_empty(&mut network);
        let at = |arrival: &Arrival| match arrival {
            Arrival::Delivered(delivery) => delivery.at,
            Arrival::Lost(loss) => panic!("{loss:?}"),
        };
        arrivals.iter().map(at).collect::<Vec<_>>()
    };
    let started = Time::from_ns(520);
    let late = down(600, 9_000);
    assert_eq!(late[0], Time::from_ns(9_000) + empty - started, "sent again at its repair");
    assert!(late[1] > late[0]);
    // A failure after its head has passed changes nothing for the first packet.
    let Arrival::Delivered(first) = sound[0] else { panic!("{sound:?}") };
    assert_eq!(down(1_030, 1_040)[0], first.at);
}

#[test]
fn configurations_that_cannot_be_simulated_are_refused() {
    let topology = Arc::new(Topology::torus(&[4, 4], &[], 1).unwrap());
    let routing = Routing::new(&topology, Algorithm::DimensionOrder, 2).unwrap();
    let refuse = |change: &dyn Fn(&mut NetworkConfig)| {
        let mut config = NetworkConfig::default();
        change(&mut config);
        Network::new(topology.clone(), routing.clone(), config).unwrap_err()
    };
    assert_eq!(refuse(&|config| config.link.bandwidth_bytes_per_s = 0), NetworkError::Bandwidth);
    let node_link = LinkSpeed { bandwidth_bytes_per_s: 0, latency: Time::ZERO };
    assert_eq!(refuse(&|config| config.node_link = Some(node_link)), NetworkError::Bandwidth);
    assert_eq!(refuse(&|config| config.link.flit_bytes = 2), NetworkError::Flit { flit: 2, crc: 2 });
    assert_eq!(refuse(&|config| config.link.packet_bytes = 0), NetworkError::Packet);
    assert_eq!(refuse(&|config| config.link.virtual_channels = 0), NetworkError::NoVirtualChannel);
    assert_eq!(
        refuse(&|config| config.link.virtual_channels = 1),
        NetworkError::VirtualChannels { needed: 2, have: 1 }
    );
    assert_eq!(refuse(&|config| config.link.buffer_flits = 0), NetworkError::NoBuffer);
    let short = NetworkError::BufferBelowPacket { buffer: 34, packet: 35 };
    assert_eq!(refuse(&|config| config.link.buffer_flits = 34), short);
    let retransmission = RetransmissionConfig { timeout: Time::ZERO, window_flits: 34 };
    let window = NetworkError::Window { window: 34, needed: 35 };
    assert_eq!(refuse(&|config| config.retransmission = Some(retransmission.clone())), window);
    assert!(matches!(refuse(&|config| config.errors.loss = 1.5), NetworkError::ErrorRate { .. }));
    assert!(matches!(refuse(&|config| config.errors.corruption = f64::NAN), NetworkError::ErrorRate { .. }));
    assert!(matches!(refuse(&|config| config.link.latency = Time::MAX), NetworkError::Latency { .. }));
    assert!(matches!(refuse(&|config| config.link.bandwidth_bytes_per_s = 1), NetworkError::TooSlow { .. }));
    assert!(matches!(refuse(&|config| config.link.packet_bytes = u32::MAX), NetworkError::TooSlow { .. }));
}

#[test]
fn spans_tell_a_packets_way() {
    let topology = Arc::new(Topology::mesh(&[3, 1], 1).unwrap());
    let routing = Routing::new(&topology, Algorithm::DimensionOrder, 1).unwrap();
    for switching in [Switching::CutThrough, Switching::Wormhole] {
        let mut config = config(1, switching, Arbitration::RoundRobin);
        config.trace = true;
        let mut network = Network::new(topology.clone(), routing.clone(), config).unwrap();
        let packet =
            Packet { from: NodeId(0), to: NodeId(2), bytes: 500, message: 7, last: true, header: Header::PLAIN };
        run(&mut network, &[(Time::ZERO, Script::Inject(packet))]);
        let spans = network.take_spans();
        assert_eq!(spans.len(), 4);
        assert!(
            spans
                .iter()
                .all(|span| span.message == 7 && span.end - span.start == network.injection_time(NodeId(0), 500))
        );
        assert!(spans.windows(2).all(|pair| pair[1].start == pair[0].start + Time::from_ns(30)), "{spans:?}");
        assert!(network.take_spans().is_empty());
    }
}

/// Every routing that claims it, with all nodes sending as fast as they can over small buffers, is free of deadlock, and
/// all packets arrive.
#[test]
fn a_full_network_delivers_everything() {
    let mut blocked = 0;
    for (topology, routing) in all_routings().into_iter().filter(|(_, routing)| routing.deadlock_free()) {
        for speed_up in [None, Some(SpeedUp { factor: 2, output_flits: 36 })] {
            let mut config = config(4, Switching::CutThrough, Arbitration::RoundRobin);
            (config.link.buffer_flits, config.switch.speed_up) = (36, speed_up);
            config.deadlock = DeadlockPolicy::Detect;
            let mut network = Network::new(topology.clone(), routing.clone(), config).unwrap();
            let packets = load(5, topology.nodes(), 40 * topology.nodes(), 1_000, 1024);
            let script: Vec<_> = packets.iter().map(|&(at, packet)| (at, Script::Inject(packet))).collect();
            let arrivals = run(&mut network, &script);
            let name = format!("{} {}", topology.kind(), routing.algorithm());
            assert_eq!(network.deadlock(), None, "{name}");
            assert!(arrivals.iter().all(|arrival| matches!(arrival, Arrival::Delivered(_))), "{name}");
            assert_eq!(arrivals.len(), packets.len(), "{name}");
            assert_empty(&mut network);
            blocked += network.statistics().blocked;
        }
    }
    assert!(blocked > 10_000, "{blocked}");
}
