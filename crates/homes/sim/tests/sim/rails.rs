// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nodes with several rails: bandwidth, order, both models of the network, every number of threads, and what is refused.

use std::ops::ControlFlow;
use std::sync::Arc;

use selvedge_sim::machine::{Machine, load};
use selvedge_sim::node::{End, Fault, Model, Options, Simulation};
use selvedge_sim::program::{Body, Needs, Process, Tasks};
use selvedge_sim::time::Time;
use selvedge_sim::traffic::{self, TrafficConfig, TrafficResults};

use crate::common::{crossbar, machine};
use crate::models::assert_equal;
use crate::parts::assert_alike_in_parts;

const CHOICES: [&str; 3] = ["hash", "round-robin", "striped"];
const QUOTED: [&str; 3] = ["\"hash\"", "\"round-robin\"", "\"striped\""];
const FOUR: (&str, &str) = ("topology.rails", "4");
const PLANES: (&str, &str) = ("topology.rail_layout", "\"planes\"");
const OPTIMISED: (&str, &str) = ("topology.rail_layout", "\"rail-optimised\"");
/// A bus that feeds four links.
const FAST_BUS: (&str, &str) = ("host.dma_MBps", "20000");

fn choice(number: usize) -> (&'static str, &'static str) {
    ("routing.rail_choice", QUOTED[number])
}

/// Tori of nodes with four rails, in each layout.
fn layouts(choice: (&str, &str)) -> [Arc<Machine>; 3] {
    let several = ("topology.nodes_per_router", "4");
    [machine(&[FOUR, choice, several]), machine(&[FOUR, choice, several, OPTIMISED]), machine(&[FOUR, choice, PLANES])]
}

fn run(machine: &Arc<Machine>, needs: &Needs, options: Options, body: impl Fn(Process) -> Body) -> Time {
    let tasks = Tasks::new(2, machine, needs, body);
    let mut simulation = Simulation::new(machine.clone(), tasks, options).unwrap();
    let outcome = simulation.run(&mut |_| true);
    assert_eq!((outcome.end.clone(), outcome.code()), (End::Completed, 0));
    outcome.time
}

/// The time of a put of a megabyte from one node to another.
fn time_of_put(machine: &Arc<Machine>, network: Model) -> Time {
    const BYTES: usize = 1 << 20;
    let needs = Needs { memory_bytes: BYTES, windows: 1, ..Needs::default() };
    run(machine, &needs, Options { network, ..Options::default() }, |process| {
        Box::pin(async move {
            match process.rank() {
                0 => process.put_counting(1, 0, 0, &vec![7; BYTES]).await,
                _ => {
                    process.wait_count(0, 1).await;
                    assert!(process.memory().iter().all(|&byte| byte == 7));
                }
            }
            0
        })
    })
}

#[test]
fn a_striped_put_has_the_bandwidth_of_all_rails() {
    for model in [Model::Packet, Model::Message] {
        for layout in 0..3 {
            let ratio = |number: usize, bus: (&str, &str)| {
                let one = time_of_put(&machine(&[bus]), model);
                let several = match layout {
                    0 => machine(&[FOUR, choice(number), bus]),
                    1 => machine(&[FOUR, choice(number), bus, ("topology.nodes_per_router", "4"), OPTIMISED]),
                    _ => machine(&[FOUR, choice(number), bus, PLANES]),
                };
                one.0 as f64 / time_of_put(&several, model).0 as f64
            };
            let at = format!("{model:?}, layout {layout}");
            assert!((3.9..4.0).contains(&ratio(2, FAST_BUS)), "{at}: {}", ratio(2, FAST_BUS));
            // The bus reads a packet in 512 ns. One rail sends one in 1,110 ns, since its buffer holds one.
            let limited = ratio(2, ("host.dma_MBps", "2000"));
            assert!((2.1..2.17).contains(&limited), "{at}: {limited}");
            for number in [0, 1] {
                assert!((0.99..1.01).contains(&ratio(number, FAST_BUS)), "{at}: {}", CHOICES[number]);
            }
        }
    }
}

#[test]
fn messages_that_take_turns_have_all_rails_together() {
    let stream = |machine: &Arc<Machine>, network| {
        let needs = Needs { memory_bytes: 1 << 20, windows: 1, ..Needs::default() };
        run(machine, &needs, Options { network, ..Options::default() }, |process| {
            Box::pin(async move {
                for number in 0..64 {
                    if process.rank() == 0 {
                        process.put_counting(1, 0, number << 14, &[number as u8; 1 << 14]).await;
                    }
                }
                if process.rank() == 1 {
                    process.wait_count(0, 64).await;
                }
                0
            })
        })
    };
    for model in [Model::Packet, Model::Message] {
        let one = stream(&machine(&[FAST_BUS]), model);
        for number in [1, 2] {
            let ratio = one.0 as f64 / stream(&machine(&[FAST_BUS, FOUR, PLANES, choice(number)]), model).0 as f64;
            // A rail alone pauses between messages.
            assert!((3.6..4.1).contains(&ratio), "{model:?}, {}: {ratio}", CHOICES[number]);
        }
    }
}

#[test]
fn both_models_agree_on_an_idle_network() {
    // One packet, as many as rails, one more, and last packets of various lengths.
    let sizes = "0,1,64,65,1024,1025,2048,3000,4096,4097,5000,8192,9000,100000";
    for number in 0..3 {
        let choice = choice(number);
        let [_, optimised, planes] = layouts(choice);
        // Each rail of a node at a router of its own: they do not meet.
        for machine in [machine(&[FOUR, choice]), optimised, planes] {
            let ranks = machine.topology.rails().nodes();
            assert_equal(&machine, ranks, &format!("ping-pong sizes {sizes} how counting iterations 3"));
        }
        for bus in ["700", "2000", "3000", "20000"] {
            let machine = machine(&[FOUR, PLANES, choice, ("host.dma_MBps", bus)]);
            assert_equal(&machine, 2, &format!("ping-pong sizes {sizes} how messages iterations 3"));
        }
        let short = machine(&[FOUR, PLANES, choice, ("link.buffer_flits", "80"), ("link.latency_ns", "900"), FAST_BUS]);
        assert_equal(&short, 2, &format!("ping-pong sizes {sizes} how flag iterations 2"));
        assert_equal(&crossbar(&[FOUR, PLANES, choice]), 16, "allreduce sizes 8,2048,16000 iterations 3");
    }
}

/// A long message, and short ones behind it that would overtake it on another rail.
#[test]
fn messages_of_two_ranks_match_in_the_order_of_sending() {
    for (number, name) in CHOICES.into_iter().enumerate() {
        for machine in layouts(choice(number)) {
            assert_eq!(machine.keeps_order(), number == 0, "{name}");
            for network in [Model::Packet, Model::Message] {
                let needs = Needs { receives: 64, unexpected: 64, eager_bytes_max: u64::MAX, ..Needs::default() };
                run(&machine, &needs, Options { network, ..Options::default() }, |process| {
                    Box::pin(async move {
                        for round in 0..6u64 {
                            for (place, bytes) in [50_000u64, 8, 3000, 16].into_iter().enumerate() {
                                let mark = (round * 4 + place as u64).to_le_bytes();
                                if process.rank() == 0 {
                                    let mut data = vec![0; bytes as usize];
                                    data[..8].copy_from_slice(&mark);
                                    process.isend(1, 5, &data).await;
                                } else {
                                    let message = process.recv(0, 5, 50_000).await;
                                    if message.bytes[..8] != mark || message.bytes.len() as u64 != bytes {
                                        return 1;
                                    }
                                }
                            }
                        }
                        if process.rank() == 0 {
                            process.recv(1, 6, 8).await;
                        } else {
                            process.send(0, 6, &[0; 8]).await;
                        }
                        0
                    })
                });
            }
        }
    }
}

fn traffic(machine: &Machine, pattern: &str, load: f64, threads: u32) -> TrafficResults {
    let traffic = TrafficConfig {
        pattern: pattern.parse().unwrap(),
        load,
        message_bytes: 2048,
        warm_up: Time::from_ns(20_000),
        measured: Time::from_ns(60_000),
        source_packets_max: 32,
        threads,
        ..TrafficConfig::default()
    };
    let network = (machine.topology.clone(), machine.routing.clone(), machine.network.clone());
    traffic::run(network.0, network.1, network.2, &traffic, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn uniform_traffic_grows_with_the_planes() {
    let one = traffic(&machine(&[]), "uniform", 1.0, 1);
    for (number, name) in CHOICES.into_iter().enumerate() {
        let four = traffic(&machine(&[FOUR, PLANES, choice(number)]), "uniform", 1.0, 1);
        assert_eq!(four.nodes, one.nodes);
        let ratio = four.accepted_bytes_per_s_per_node / one.accepted_bytes_per_s_per_node;
        // The two packets of a message share no buffer if they are striped.
        let most = if number == 2 { 4.9 } else { 4.3 };
        assert!((3.7..most).contains(&ratio), "{name}: {ratio}");
        assert!((four.accepted / one.accepted - ratio / 4.0).abs() < 1e-9, "{} of {}", four.accepted, one.accepted);
    }
    let low = traffic(&machine(&[FOUR, PLANES]), "uniform", 0.2, 1);
    assert!((low.offered / 0.2 - 1.0).abs() < 0.15 && low.lost == 0, "{} offered", low.offered);
}

#[test]
fn a_target_receives_by_all_its_rails() {
    let received = |machine: &Machine| {
        let results = traffic(machine, "incast:15:3", 1.0, 1);
        results.accepted_bytes_per_s_per_node * f64::from(results.nodes)
    };
    let one = received(&crossbar(&[]));
    assert!((0.9e9..1.0e9).contains(&one), "{one}");
    for (number, name) in CHOICES.into_iter().enumerate() {
        let four = received(&crossbar(&[FOUR, PLANES, choice(number)]));
        assert!((3.9..4.05).contains(&(four / one)), "{}: {}", name, four / one);
    }
}

#[test]
fn a_pair_has_one_rail_under_a_hash_and_all_under_the_others() {
    for (number, name) in CHOICES.into_iter().enumerate() {
        let accepted = traffic(&crossbar(&[FOUR, PLANES, choice(number)]), "shift:1", 1.0, 1).accepted;
        let expected = if number == 0 { 0.22..0.25 } else { 0.8..1.0 };
        assert!(expected.contains(&accepted), "{name}: {accepted}");
    }
}

#[test]
fn every_number_of_threads_gives_the_same_traffic() {
    for number in 0..3 {
        for machine in layouts(choice(number)) {
            let one = traffic(&machine, "uniform", 0.6, 1);
            for threads in 2..=4 {
                assert_eq!(one, traffic(&machine, "uniform", 0.6, threads), "{} threads", threads);
            }
        }
    }
}

#[test]
fn every_number_of_threads_runs_programs_alike() {
    for number in 0..3 {
        for machine in layouts(choice(number)) {
            let ranks = machine.topology.rails().nodes().min(16);
            assert_alike_in_parts(&machine, ranks, "all-to-all sizes 3000,20000 iterations 2 protocol rendezvous", 4);
            assert_alike_in_parts(&machine, ranks, "uniform messages 30 loads 0.5", 3);
        }
    }
}

/// A rail that fails delays or loses what has chosen it; messages between other pairs do not notice.
#[test]
fn a_rail_that_fails_loses_only_what_it_carries() {
    let machine = crossbar(&[FOUR, PLANES]);
    let rail = (0..4).map(|rail| machine.topology.rails().endpoint(0, rail));
    let injected = |channel: u32| {
        let tasks = |process: Process| -> Body {
            Box::pin(async move {
                if process.rank() == 0 {
                    process.put_acknowledged(1, 0, &[1; 64]).await;
                    process.fence().await;
                }
                i32::from(process.failed() > 0)
            })
        };
        let faults = vec![Fault { at: Time::ZERO, channel, up: false }];
        let needs = Needs { memory_bytes: 64, ..Needs::default() };
        let options = Options { faults, ..Options::default() };
        let mut simulation = Simulation::new(machine.clone(), Tasks::new(2, &machine, &needs, tasks), options).unwrap();
        let outcome = simulation.run(&mut |_| true);
        assert_eq!(outcome.end, End::Completed);
        (outcome.codes[0], simulation.network().statistics().lost)
    };
    let failed: Vec<_> = rail.map(|endpoint| injected(machine.topology.injection_channel(endpoint))).collect();
    assert_eq!(failed.iter().filter(|(code, lost)| *code == Some(1) && *lost == 1).count(), 1, "{failed:?}");
    assert_eq!(failed.iter().filter(|(code, lost)| *code == Some(0) && *lost == 0).count(), 3, "{failed:?}");
}

fn refused(overrides: &[(&str, &str)]) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../machines/torus16.toml");
    let overrides: Vec<_> = overrides.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    load::load_with(&path, &overrides).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn what_does_not_fit_is_refused_with_a_remedy() {
    let words = refused(&[("topology.rails", "0")]);
    assert!(words.contains("[topology] rails: 0 must be a whole number from 1 to 64"), "{words}");
    let words = refused(&[("topology.rails", "3")]);
    assert!(words.contains("ports for 3 rails of each node (packed): give a multiple of 3"), "{words}");
    let words = refused(&[("topology.rails", "2"), ("topology.rail_layout", "\"star\"")]);
    assert!(words.contains("'star' must be one of packed, rail-optimised, planes"), "{words}");
    let words = refused(&[("topology.rails", "2"), ("topology.rail_group", "4")]);
    assert!(words.contains("rail_layout = \"rail-optimised\""), "{words}");
    let words = refused(&[("topology.rails", "2"), OPTIMISED, ("topology.rail_group", "5")]);
    assert!(words.contains("give a multiple of 10, for groups of 5 nodes have 2 rails each"), "{words}");
    let words = refused(&[("routing.rail_choice", "\"random\"")]);
    assert!(words.contains("'random' must be one of hash, round-robin, striped"), "{words}");
    let controlled = [("topology.rails", "2"), choice(2), ("congestion.control", "\"ecn\"")];
    assert!(refused(&controlled).contains("set hash or round-robin"), "{}", refused(&controlled));
    let reducing = [("topology.rails", "2"), ("aggregation.trees", "1")];
    assert!(refused(&reducing).contains("no aggregation trees"), "{}", refused(&reducing));
}
