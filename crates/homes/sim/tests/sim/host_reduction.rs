// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ranks that share a host reduce there first: the hosts' own results on every topology, wherever the ranks are, with
//! adaptive routing, and with links that have failed; what a host's reduction costs.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use selvedge_nic::aggregation::Failure;
use selvedge_sim::machine::Machine;
use selvedge_sim::node::{Aggregation, Death, End, Fault, Model, Options, Outcome, Simulation};
use selvedge_sim::program::aggregation::Reduce;
use selvedge_sim::program::collectives::Sum;
use selvedge_sim::program::{Needs, Process, Tasks, ready};
use selvedge_sim::random::Random;
use selvedge_sim::time::Time;

use crate::aggregation::{COUNT, TOPOLOGIES, all_reduce, changed, completed, machine_with, run};

/// Networks of today, with routings that choose.
const ADAPTIVE: [(&str, &str); 7] = [
    (
        "kind = \"dragonfly\"\ngroups = 5\nrouters_per_group = 4\nnodes_per_router = 2\nglobal_links_per_router = 1",
        "progressive",
    ),
    (
        "kind = \"dragonfly\"\ngroups = 5\nrouters_per_group = 4\nnodes_per_router = 2\nglobal_links_per_router = 1",
        "ugal-g",
    ),
    (
        "kind = \"dragonfly-plus\"\ngroups = 5\nleaves_per_group = 2\nspines_per_group = 2\nnodes_per_leaf = 3\n\
         global_links_per_spine = 2",
        "ugal-l",
    ),
    ("kind = \"hyperx\"\ndimensions = [4, 3]\nnodes_per_router = 3", "ugal-l"),
    ("kind = \"hyperx\"\ndimensions = [3, 3, 2]\nnodes_per_router = 2", "minimal"),
    ("kind = \"slim-fly\"\nq = 3\nnodes_per_router = 2", "ugal-l"),
    ("kind = \"fat-tree\"\nlevels = 3\nradix = 6\ntaper = [1, 1]", "adaptive-up"),
];

/// Switch-IB 2 over such a network, with a virtual channel for each hop that a routing may need.
fn adaptive((topology, routing): (&str, &str)) -> Arc<Machine> {
    machine_with(topology, routing, &[("link.virtual_channels", "12"), ("switch.speed_up", "2")])
}

/// Places up to `most` ranks on each of some nodes: in blocks, or anywhere.
fn places(machine: &Machine, most: u64, random: &mut Random) -> Vec<u32> {
    let nodes = machine.topology.nodes();
    let ranks = 2 + random.below(100) as u32;
    match random.below(2) {
        0 => {
            let each = 1 + random.below(most) as u32;
            (0..ranks.min(nodes * each)).map(|rank| rank / each).collect()
        }
        _ => {
            let used = 1 + random.below(nodes.into()) as u32;
            (0..ranks).map(|_| random.below(used.into()) as u32).collect()
        }
    }
}

/// Sums vectors of random lengths in the switches and by the hosts. A rank returns 1 if the two differ.
async fn both_ways(process: Process, seed: u64) -> i32 {
    let members: Vec<u32> = (0..process.size()).collect();
    let group = match process.join_group(0, &members).await {
        Ok(group) => group,
        Err(_) => return 2,
    };
    let (mut lengths, mut own) = (Random::new(seed, 1), Random::new(seed, 2 + u64::from(process.rank())));
    for _ in 0..4 {
        let words = [0, 1, lengths.below(40), lengths.below(600)][lengths.below(4) as usize] as usize;
        process.sleep(Time::from_ns(own.below(2000))).await;
        let mut vector: Vec<u8> = (0..words).flat_map(|_| own.next_u64().to_le_bytes()).collect();
        process.memory_mut()[..8 * words].copy_from_slice(&vector);
        if process.reduce_in_network(&group, COUNT, 0, 8 * words as u64).await.is_err() {
            return 3;
        }
        process.allreduce(Sum::RecursiveDoubling, 5, &mut vector).await;
        if process.memory()[..8 * words] != vector[..] {
            return 1;
        }
    }
    0
}

#[test]
fn results_are_those_of_the_hosts_on_every_network() {
    for (number, network) in TOPOLOGIES.into_iter().chain(ADAPTIVE).enumerate() {
        let machine = adaptive(network);
        for seed in 0..4 {
            let seed = 10 * number as u64 + seed;
            let mut random = Random::new(seed, 0);
            let placement = places(&machine, 28, &mut random);
            let model = if seed % 2 == 0 { Model::Packet } else { Model::Message };
            let options = Options { network: model, placement: placement.clone(), ..Options::default() };
            let outcome = run(&machine, placement.len() as u32, (1, options), move |rank| both_ways(rank, seed));
            let wrong = outcome.codes.iter().position(|code| *code != Some(0));
            assert_eq!(wrong, None, "seed {seed}, {network:?}, {placement:?}: {:?}", outcome.end);
            completed(&outcome);
        }
    }
}

/// One rank on a host, too: the sums of doubles are the same bits whatever the order of arrival.
#[test]
fn sums_have_the_same_bits_in_every_order_on_adaptive_networks() {
    for network in ADAPTIVE {
        let machine = adaptive(network);
        let (sums, _) = all_reduce(&machine, Model::Packet, 0);
        for (model, delays) in [(Model::Packet, 37), (Model::Message, 61)] {
            let (other, _) = all_reduce(&machine, model, delays);
            assert!(sums.iter().zip(&other).all(|(a, b)| a.to_bits() == b.to_bits()), "{network:?}");
        }
    }
}

/// Trees avoid links that have failed before the run begins. Routes adapt to them, or do not cross them: each edge of
/// these trees is one link.
#[test]
fn trees_avoid_links_that_have_failed() {
    for (number, network) in ADAPTIVE.into_iter().enumerate() {
        let machine = adaptive(network);
        let topology = &machine.topology;
        for seed in 0..3 {
            let mut random = Random::new(100 + seed, number as u64);
            let router = selvedge_fabric::RouterId(random.below(topology.routers().into()) as u32);
            let links: Vec<_> = topology.neighbours(router).collect();
            let (port, _) = links[random.below(links.len() as u64) as usize];
            let selvedge_fabric::Peer::Router { router: other, port: back } = topology.peer(router, port) else {
                continue;
            };
            let lost = [topology.channel(router, port), topology.channel(other, back)];
            let placement: Vec<u32> = (0..3 * topology.nodes()).map(|rank| rank / 3).collect();
            let aggregation = Arc::new(Aggregation::avoiding(&machine, &placement, 1, &lost).expect("trees"));
            let needs = Needs { groups: 1, ..Needs::default() };
            let mut tasks = Tasks::new(placement.len() as u32, &machine, &needs, |process| {
                Box::pin(async move {
                    let members: Vec<u32> = (0..process.size()).collect();
                    let Ok(group) = process.join_group(0, &members).await else { return 2 };
                    let rank = u64::from(process.rank());
                    process.memory_mut()[..8].copy_from_slice(&rank.to_le_bytes());
                    let size = u64::from(process.size());
                    match process.reduce_in_network(&group, COUNT, 0, 8).await {
                        Ok(()) => i32::from(process.word(0) != size * (size - 1) / 2),
                        Err(_) => 3,
                    }
                })
            });
            tasks.grant(&aggregation);
            let faults = lost.map(|channel| Fault { at: Time::ZERO, channel, up: false }).to_vec();
            let options = Options { aggregation: Some(aggregation), placement, faults, ..Options::default() };
            let mut simulation = Simulation::new(machine.clone(), tasks, options).expect("a simulation");
            let outcome = simulation.run(&mut |_| true);
            completed(&outcome);
            assert_eq!(outcome.statistics.lost, 0, "{network:?}");
        }
    }
}

/// Returns the time of one all-reduce of `bytes` with `each` ranks on each of 16 hosts.
fn time_of(each: u32, bytes: u64, changes: &[(&str, &str)]) -> Time {
    let slowest = Rc::new(Cell::new(Time::ZERO));
    let kept = slowest.clone();
    let placement: Vec<u32> = (0..16 * each).map(|rank| rank / each).collect();
    let options = Options { placement: placement.clone(), ..Options::default() };
    let outcome = run(&changed(changes), placement.len() as u32, (1, options), move |process| {
        let kept = kept.clone();
        async move {
            let members: Vec<u32> = (0..process.size()).collect();
            let group = process.join_group(0, &members).await.expect("a group");
            process.sleep(Time::from_ns(100_000) - process.now()).await;
            let start = process.now();
            process.reduce_in_network(&group, Reduce::WORDS, 0, bytes).await.expect("a result");
            kept.set(kept.get().max(process.now() - start));
            0
        }
    });
    completed(&outcome);
    slowest.get()
}

#[test]
fn a_host_costs_its_copies_and_its_operands() {
    let one = time_of(1, 8, &[]);
    let (two, many) = (time_of(2, 8, &[]), time_of(28, 8, &[]));
    assert!(one < two && two < many, "{one} {two} {many}");
    // 26 operands more, each a poll of 20 ns and 8 bytes at 700 MB/s; the host's part does not overlap with others.
    let each = Time::from_ns(20) + Time::of_bytes(8, 700_000_000);
    assert_eq!(many - two, each * 26);
    let slow = time_of(28, 8, &[("host.memory_access_ns", "160")]);
    // The first operand, and the results at the adapter and at the ranks.
    assert_eq!(slow - many, Time::from_ns(100) * 3);
}

#[test]
fn more_ranks_on_a_host_than_a_switch_has_ports_reduce() {
    let machine = changed(&[]);
    let placement: Vec<u32> = (0..600).map(|rank| rank / 100).collect();
    let options = Options { placement, ..Options::default() };
    completed(&run(&machine, 600, (1, options), |process| both_ways(process, 7)));
}

/// A host whose ranks are all on it needs no switch for them, but its tree leads to one.
#[test]
fn members_of_a_host_hear_of_a_death() {
    for (victim, at) in [(0, 1), (3, 2), (30, 3), (83, 7), (29, 20)] {
        let deaths = vec![Death { at: Time::from_ns(at * 1000), rank: victim }];
        let placement: Vec<u32> = (0..84).map(|rank| rank / 28).collect();
        let options = Options { deaths, placement, keep_going: true, ..Options::default() };
        let outcome = run(&changed(&[]), 84, (1, options), move |process| async move {
            let members: Vec<u32> = (0..process.size()).collect();
            let mut outcome = process.join_group(0, &members).await.map(Some);
            while let Ok(Some(group)) = &outcome {
                if let Err(failure) = process.reduce_in_network(group, COUNT, 0, 512).await {
                    outcome = Err(failure);
                }
            }
            if matches!(outcome, Err(Failure::Lost)) { 2 } else { 3 }
        });
        assert!(matches!(outcome.end, End::Completed), "{:?}", outcome.end);
        let heard = outcome.codes.iter().filter(|code| **code == Some(2)).count();
        assert_eq!(heard, 83, "{:?}", outcome.codes);
    }
}

/// Runs a built-in program with 7 ranks on a node; returns its outcome and the mistakes that it has found.
fn built_in(name: &str, arguments: &[(&str, &str)]) -> (Outcome, usize) {
    let machine = changed(&[]);
    let ranks = 70;
    let arguments: Vec<(String, String)> =
        arguments.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    let prepared = ready::find(name).unwrap().prepare(ranks, &machine, &arguments).unwrap();
    let mut tasks = prepared.tasks(ranks, &machine);
    let placement: Vec<u32> = (0..ranks).map(|rank| rank / 7).collect();
    let aggregation = Arc::new(Aggregation::new(&machine, &placement, 1).unwrap());
    tasks.grant(&aggregation);
    let options = Options { aggregation: Some(aggregation), placement, ..Options::default() };
    let mut simulation = Simulation::new(machine, tasks, options).unwrap();
    let outcome = simulation.run(&mut |_| true);
    let wrong = simulation.ranks().results().wrong.len();
    (outcome, wrong)
}

#[test]
fn built_in_programs_check_what_switches_return() {
    for (name, sizes) in [("barrier", None), ("allreduce", Some("8,4096")), ("broadcast", Some("1,300,5000"))] {
        let mut arguments = vec![("algorithm", "switches"), ("iterations", "3")];
        arguments.extend(sizes.map(|sizes| ("sizes", sizes)));
        let (outcome, wrong) = built_in(name, &arguments);
        completed(&outcome);
        assert_eq!(wrong, 0, "{name}");
    }
}
