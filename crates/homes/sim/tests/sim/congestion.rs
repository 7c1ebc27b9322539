// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Congestion control: throughput, fairness, losses, the victims of an incast; programs through NICs.

use std::sync::Arc;

use selvedge_fabric::{Algorithm, NodeId, Routing, Topology};

use selvedge_sim::congestion::{CongestionConfig, Control, Ecn, Header, ReceiverDriven};
use selvedge_sim::machine::Machine;
use selvedge_sim::network::{Arrival, Network, NetworkConfig, NetworkEvent, Packet, Schedule};
use selvedge_sim::node::{End, Options, Outcome, Simulation};
use selvedge_sim::program::ready;
use selvedge_sim::queue::Queue;
use selvedge_sim::random::Random;
use selvedge_sim::time::Time;

use crate::common::{crossbar, machine};

const PACKET_BYTES: u32 = 1024;

/// 100 Gbit/s, with small buffers and switches that are twice as fast inside.
fn config(control: Option<Control>) -> NetworkConfig {
    let mut config = NetworkConfig::default();
    config.link.bandwidth_bytes_per_s = 12_500_000_000;
    config.link.latency = Time::from_ns(50);
    config.link.flit_bytes = 64;
    config.link.packet_bytes = PACKET_BYTES;
    config.link.buffer_flits = 256;
    config.switch.latency = Time::from_ns(100);
    config.congestion = control.map(|control| CongestionConfig {
        control,
        control_bytes: 8,
        window_flits: None,
        timeout: Time::from_ns(20_000),
    });
    config
}

fn controls() -> [Option<Control>; 3] {
    let ecn = Ecn { mark_flits: 100, gain: 0.0625, increase_flits: 17.0 };
    [None, Some(Control::Ecn(ecn)), Some(Control::Receiver(ReceiverDriven { unsolicited_flits: None }))]
}

fn network(topology: &Topology, algorithm: Algorithm, config: NetworkConfig) -> Network {
    let routing = Routing::new(topology, algorithm, config.link.virtual_channels).unwrap();
    Network::new(Arc::new(topology.clone()), routing, config).unwrap()
}

/// A source of messages of one packet.
#[derive(Clone, Copy)]
struct Source {
    from: u32,
    /// One node, or any of the victims.
    to: Option<u32>,
    /// Mean gap. `None`: as fast as the network takes packets.
    gap: Option<Time>,
    begin: Time,
}

#[derive(Clone, Copy)]
enum Event {
    Network(NetworkEvent),
    Make(usize),
}

struct Events(Queue<Event>);

impl Schedule for Events {
    fn schedule(&mut self, at: Time, place: u32, event: NetworkEvent) {
        self.0.schedule_as(at, event.order(place), Event::Network(event));
    }
}

/// Packets of a node that wait, at most, if it sends as fast as it can: more than a path holds.
const BACKLOG: u32 = 64;

/// Runs until `end`, and then until all packets have arrived. Calls `arrived` with the source of each packet.
fn drive(network: &mut Network, sources: &[Source], end: Time, mut arrived: impl FnMut(usize, &Arrival)) {
    let mut queue = Events(Queue::new());
    let mut random = Random::new(1, 1);
    let any: Vec<u32> = sources.iter().filter(|source| source.to.is_none()).map(|source| source.from).collect();
    for (number, source) in sources.iter().enumerate() {
        let begin = source.gap.map_or(Time::ZERO, |gap| Time(random.exponential(gap.0 as f64) as u64));
        queue.0.schedule(source.begin + begin, Event::Make(number));
    }
    let packet_time = network.injection_time(NodeId(0), PACKET_BYTES);
    while let Some((now, event)) = queue.0.take() {
        match event {
            Event::Network(event) => network.handle(now, event, &mut queue),
            Event::Make(_) if now >= end => {}
            Event::Make(number) => {
                let source = sources[number];
                let from = NodeId(source.from);
                if source.gap.is_some() || network.waiting_at_source(from) < BACKLOG {
                    let other = |random: &mut Random| loop {
                        let to = any[random.below(any.len() as u64) as usize];
                        if to != source.from {
                            break to;
                        }
                    };
                    let to = NodeId(source.to.unwrap_or_else(|| other(&mut random)));
                    let (bytes, message) = (PACKET_BYTES, number as u64);
                    network.expect(now, (from, to), bytes.into(), &mut queue);
                    let packet = Packet { from, to, bytes, message, last: true, header: Header::PLAIN };
                    network.inject(now, packet, &mut queue);
                }
                let gap = source.gap.map_or(packet_time, |gap| Time(random.exponential(gap.0 as f64) as u64));
                queue.0.schedule(now + gap, Event::Make(number));
            }
        }
        while let Some(arrival) = network.take_arrival() {
            arrived(arrival.packet().message as usize, &arrival);
        }
    }
}

/// Sends from nodes to node 0 as fast as they can; returns the share of its link that each source has in the second half.
fn shares(topology: &Topology, config: NetworkConfig, begins_ns: &[u64], end: Time) -> Vec<f64> {
    let source = |(number, begin): (usize, &u64)| Source {
        from: topology.nodes() - 1 - number as u32,
        to: Some(0),
        gap: None,
        begin: Time::from_ns(*begin),
    };
    let sources: Vec<Source> = begins_ns.iter().enumerate().map(source).collect();
    let mut network = network(topology, Algorithm::DestinationModK, config);
    let packet_time = network.injection_time(NodeId(0), PACKET_BYTES);
    let mut packets = vec![0u64; sources.len()];
    drive(&mut network, &sources, end, |source, arrival| {
        let Arrival::Delivered(delivery) = arrival else { panic!("{arrival:?}") };
        packets[source] += u64::from((end / 2..end).contains(&delivery.at));
    });
    assert_eq!((network.in_flight(), network.statistics().lost), (0, 0));
    packets.iter().map(|&packets| (packet_time * packets).0 as f64 / (end / 2).0 as f64).collect()
}

fn tree() -> Topology {
    Topology::fat_tree(3, 8, (1, 1), None).unwrap()
}

#[test]
fn one_flow_alone_has_the_whole_link() {
    for control in controls() {
        for vcs in [1, 2] {
            let mut config = config(control.clone());
            config.link.virtual_channels = vcs;
            let share = shares(&tree(), config, &[0], Time::from_ns(200_000));
            assert!(share[0] > 0.97, "{control:?}: {share:?}");
        }
    }
}

#[test]
fn two_flows_to_one_node_have_half_of_its_link_each() {
    for control in controls().into_iter().skip(1) {
        for begins in [[0, 0], [0, 100_000]] {
            let shares = shares(&tree(), config(control.clone()), &begins, Time::from_ns(1_000_000));
            let fair = shares[0] / shares[1];
            assert!((0.9..1.1).contains(&fair), "{control:?}, begins {begins:?}: {shares:?}");
            assert!(shares.iter().sum::<f64>() > 0.9, "{control:?}, begins {begins:?}: {shares:?}");
        }
    }
}

/// The even nodes send to node 0 as fast as they can, the odd ones to each other. Returns the mean time of a packet of the
/// odd ones and the share of node 0's link that the even ones use, after a time in which queues have settled.
fn victims(topology: &Topology, config: NetworkConfig, senders: u32, until: Time) -> (f64, f64) {
    let routing = Algorithm::Minimal;
    let packet_time = network(topology, routing, config.clone()).injection_time(NodeId(0), PACKET_BYTES);
    let nodes = topology.nodes();
    let odd = (0..nodes).filter(|node| node % 2 == 1);
    let mut sources: Vec<Source> =
        odd.map(|from| Source { from, to: None, gap: Some(packet_time * 5), begin: Time::ZERO }).collect();
    let victims = sources.len();
    let even = (1..nodes.div_ceil(2)).map(|node| node * 2).take(senders as usize);
    sources.extend(even.map(|from| Source { from, to: Some(0), gap: None, begin: Time::ZERO }));
    let mut network = network(topology, routing, config);
    let (mut times, mut count, mut incast) = (0.0, 0u64, 0u64);
    let measured = until / 2..until;
    drive(&mut network, &sources, until, |source, arrival| {
        let Arrival::Delivered(delivery) = arrival else { panic!("{arrival:?}") };
        if source < victims && measured.contains(&delivery.injected) {
            times += (delivery.at - delivery.injected).as_ns_f64();
            count += 1;
        }
        incast += u64::from(source >= victims && measured.contains(&delivery.at));
    });
    assert_eq!((network.in_flight(), network.statistics().lost), (0, 0));
    (times / count as f64, (packet_time * incast).0 as f64 / (until / 2).0 as f64)
}

#[test]
fn a_control_keeps_the_victims_of_an_incast_at_a_third_of_their_slowdown() {
    let topology = Topology::dragonfly(9, 4, 2, 2).unwrap();
    let until = Time::from_ns(400_000);
    let with_vcs = |control| {
        let mut config = config(control);
        config.link.virtual_channels = 2;
        config
    };
    let (alone, _) = victims(&topology, with_vcs(None), 0, until);
    let mut slowdowns = vec![];
    for control in controls() {
        let (time, used) = victims(&topology, with_vcs(control.clone()), 35, until);
        assert!(used > 0.9, "{control:?}: the incast uses {used} of the link");
        slowdowns.push(time / alone);
    }
    assert!(slowdowns[1..].iter().all(|slowdown| slowdown * 3.0 <= slowdowns[0]), "{slowdowns:?}");
}

// ---- Through NICs ------------------------------------------------------------------------------------------------

const KINDS: [&str; 2] = ["\"ecn\"", "\"receiver\""];

fn run(machine: &Arc<Machine>, line: &str) -> Outcome {
    let mut words = line.split_whitespace().map(str::to_owned);
    let name = words.next().unwrap();
    let rest: Vec<String> = words.collect();
    let given: Vec<_> = rest.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    let tasks = ready::find(&name).unwrap().prepare(16, machine, &given).unwrap().tasks(16, machine);
    let mut simulation = Simulation::new(machine.clone(), tasks, Options::default()).unwrap();
    let outcome = simulation.run(&mut |_| true);
    let wrong = simulation.ranks().results().wrong.clone();
    assert!(wrong.is_empty() && outcome.end == End::Completed, "{line}: {:?}, {wrong:?}", outcome.end);
    let network = simulation.network().statistics();
    assert_eq!((network.injected, network.lost), (network.delivered, 0), "{line}");
    outcome
}

#[test]
fn programs_end_with_every_byte_and_again_the_same() {
    for control in KINDS {
        for machine in [machine(&[("congestion.control", control)]), crossbar(&[("congestion.control", control)])] {
            for line in [
                "all-to-all sizes 8,3000 iterations 2",
                "allreduce sizes 8,16000 iterations 2",
                "uniform messages 30 loads 0.9 bytes 5000",
                "hotspot messages 30 loads 0.9 bytes 3000 share 0.5",
            ] {
                let of = |outcome: &Outcome| (outcome.time, outcome.statistics.hash);
                assert_eq!(of(&run(&machine, line)), of(&run(&machine, line)), "{control}: {line}");
            }
        }
    }
}

#[test]
fn a_message_alone_takes_as_long_as_without_control() {
    let line = "ping-pong sizes 8,1000,2000 iterations 3";
    let without = run(&crossbar(&[]), line).time;
    for control in KINDS {
        assert_eq!(run(&crossbar(&[("congestion.control", control)]), line).time, without, "{control}");
    }
}

#[test]
fn links_that_lose_packets_do_not_stop_a_control() {
    let topology = tree();
    for control in controls().into_iter().skip(1) {
        let mut config = config(control.clone());
        config.errors.loss = 0.01;
        let mut network = network(&topology, Algorithm::DestinationModK, config);
        let source = |from| Source { from, to: Some(0), gap: None, begin: Time::ZERO };
        let (mut delivered, mut lost) = (0u64, 0u64);
        let end = Time::from_ns(300_000);
        drive(&mut network, &[source(20), source(40), source(60)], end, |_, arrival| match arrival {
            Arrival::Delivered(_) => delivered += 1,
            Arrival::Lost(_) => lost += 1,
        });
        assert_eq!(network.in_flight(), 0, "{control:?}");
        assert!(lost > 20 && delivered > 500, "{control:?}: {lost} lost, {delivered} delivered");
    }
}
