// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reduction in the switches: right sums on every topology and in both models of the fabric, overlapping groups, a
//! member that dies, machines that cannot reduce.

use std::path::Path;
use std::sync::Arc;

use selvedge_nic::aggregation::Failure;
use selvedge_nic::aggregation::message::{
    Cast, Child, Distribution, Failed, Join, Joined, Message, Operand, Outcome as Ended, Reduction, Repeat, Sender,
    Target,
};
use selvedge_nic::arithmetic::{Datatype, Operation};
use selvedge_nic::tables::Command;
use selvedge_sim::machine::{Machine, load};
use selvedge_sim::node::{Aggregation, Bytes, Death, End, Fault, Model, Options, Outcome, Simulation, Statistics};
use selvedge_sim::program::aggregation::Reduce;
use selvedge_sim::program::ready;
use selvedge_sim::program::{Needs, Process, Tasks};
use selvedge_sim::time::Time;

pub(crate) const FLOATS: Reduce = Reduce { operation: Operation::Sum, datatype: Datatype::Double };

fn file(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../machines").join(name)
}

/// Switch-IB 2 over another topology, whose nodes are `nodes`.
fn machine(topology: &str, routing: &str) -> Arc<Machine> {
    machine_with(topology, routing, &[])
}

/// Like [`machine`], with other figures.
pub(crate) fn machine_with(topology: &str, routing: &str, changes: &[(&str, &str)]) -> Arc<Machine> {
    let text = std::fs::read_to_string(file("switchib2.toml")).unwrap();
    let (before, after) = (text.find("[topology]").unwrap(), text.find("[link]").unwrap());
    let text = format!(
        "{}[topology]\n{topology}\n[routing]\nalgorithm = \"{routing}\"\n{}",
        &text[..before],
        &text[after..].replace("virtual_channels = { value = 1", "virtual_channels = { value = 4")
    );
    let changes: Vec<(String, String)> = changes.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    Arc::new(load::from_text(Path::new("changed.toml"), &text, &changes).unwrap_or_else(|error| panic!("{error}")))
}

pub(crate) const TOPOLOGIES: [(&str, &str); 6] = [
    ("kind = \"fat-tree\"\nlevels = 2\nradix = 8\ntaper = [1, 1]\nnodes = 30", "destination-mod-k"),
    ("kind = \"fat-tree\"\nlevels = 3\nradix = 6\ntaper = [1, 1]", "destination-mod-k"),
    ("kind = \"torus\"\ndimensions = [4, 3, 3]\nnodes_per_router = 2", "dimension-order"),
    ("kind = \"hypercube\"\norder = 4\nnodes_per_router = 1", "dimension-order"),
    (
        "kind = \"dragonfly\"\ngroups = 5\nrouters_per_group = 4\nnodes_per_router = 2\nglobal_links_per_router = 1",
        "minimal",
    ),
    ("kind = \"crossbar\"\nnodes = 9", "shortest-path"),
];

/// Runs a program on all nodes of a machine, unless the options place it; each rank returns an exit code.
pub(crate) fn run<F: Future<Output = i32> + 'static>(
    machine: &Arc<Machine>,
    ranks: u32,
    (groups, options): (u32, Options),
    body: impl Fn(Process) -> F + 'static,
) -> Outcome {
    run_with(machine, ranks, (groups, 1 << 14, options), body)
}

/// Like [`run`], with n bytes of memory for each rank.
fn run_with<F: Future<Output = i32> + 'static>(
    machine: &Arc<Machine>,
    ranks: u32,
    (groups, memory_bytes, options): (u32, usize, Options),
    body: impl Fn(Process) -> F + 'static,
) -> Outcome {
    let placement = if options.placement.is_empty() { (0..ranks).collect() } else { options.placement.clone() };
    let aggregation = Arc::new(Aggregation::new(machine, &placement, groups).unwrap_or_else(|error| panic!("{error}")));
    let needs = Needs { memory_bytes, groups, ..Needs::default() };
    let mut tasks = Tasks::new(ranks, machine, &needs, move |process| Box::pin(body(process)));
    tasks.grant(&aggregation);
    let options = Options { aggregation: Some(aggregation), placement, ..options };
    let mut simulation = Simulation::new(machine.clone(), tasks, options).unwrap_or_else(|error| panic!("{error}"));
    simulation.run(&mut |_| true)
}

/// Checks that all ranks have ended with 0, and that no node has refused anything.
pub(crate) fn completed(outcome: &Outcome) {
    assert!(matches!(outcome.end, End::Completed), "{:?}", outcome.end);
    assert!(outcome.codes.iter().all(|code| *code == Some(0)), "{:?}", outcome.codes);
    assert_eq!(outcome.statistics.aggregation_refused, 0);
}

/// Returns a value whose sums differ with the order of additions.
fn value(rank: u32, at: usize) -> f64 {
    let seed = rank.wrapping_mul(0x9e37_79b9) ^ (at as u32).wrapping_mul(0x85eb_ca6b);
    f64::from(seed) * 10f64.powi((seed % 17) as i32 - 8)
}

fn write(process: &Process, count: usize) {
    let rank = process.rank();
    for at in 0..count {
        process.memory_mut()[8 * at..][..8].copy_from_slice(&value(rank, at).to_le_bytes());
    }
}

fn read(process: &Process, count: usize) -> Vec<f64> {
    (0..count).map(|at| f64::from_bits(process.word(8 * at as u64))).collect()
}

/// Lengths of the all-reduces, the longest last.
const COUNTS: [usize; 6] = [0, 1, 31, 33, 500, 2048];

/// Runs all-reduces of several lengths. Each rank compares with the exact sum within the error of doubles. Returns the
/// result of rank 0 and the hash of the run.
pub(crate) fn all_reduce(machine: &Arc<Machine>, model: Model, delays: u32) -> (Vec<f64>, Statistics) {
    let results = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let kept = results.clone();
    let ranks = machine.topology.nodes();
    // Computed once for all ranks, because it takes long: each sum, and that of the amounts.
    let exact: std::rc::Rc<Vec<(f64, f64)>> = std::rc::Rc::new(
        (0..COUNTS[COUNTS.len() - 1])
            .map(|at| {
                (0..ranks).map(|rank| value(rank, at)).fold((0.0, 0.0), |(sum, all), it| (sum + it, all + it.abs()))
            })
            .collect(),
    );
    let options = Options { network: model, ..Options::default() };
    let outcome = run(machine, ranks, (1, options), move |process| {
        let (kept, exact) = (kept.clone(), exact.clone());
        async move {
            let (rank, size) = (process.rank(), process.size());
            let members: Vec<u32> = (0..size).collect();
            let group = process.join_group(0, &members).await.expect("a group");
            for count in COUNTS {
                // Ranks start at different times, so requests arrive in another order.
                process.sleep(Time::from_ns(u64::from(rank.wrapping_mul(delays) % 97) * 10)).await;
                write(&process, count);
                process.reduce_in_network(&group, FLOATS, 0, 8 * count as u64).await.expect("a result");
                let sums = read(&process, count);
                for (at, (sum, (exact, scale))) in sums.iter().zip(exact.iter()).enumerate() {
                    assert!((sum - exact).abs() <= scale * 1e-13, "{at} of {count}: {sum} and not {exact}");
                }
                if rank == 0 {
                    kept.borrow_mut().extend(sums);
                }
            }
            0
        }
    });
    completed(&outcome);
    let sums = results.borrow().clone();
    (sums, outcome.statistics)
}

#[test]
fn sums_are_right_on_every_topology_and_the_same_in_every_order() {
    for (topology, routing) in TOPOLOGIES {
        let machine = machine(topology, routing);
        let (sums, Statistics { hash, .. }) = all_reduce(&machine, Model::Packet, 0);
        let again = all_reduce(&machine, Model::Packet, 0);
        assert_eq!((again.0, again.1.hash), (sums.clone(), hash), "two runs differ on {topology}");
        let late = all_reduce(&machine, Model::Packet, 37);
        assert_ne!(late.1.hash, hash, "the delays changed nothing");
        let whole = all_reduce(&machine, Model::Message, 61);
        for other in [late.0, whole.0] {
            let same = sums.iter().zip(&other).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same && sums.len() == other.len(), "the order of arrival changed a sum on {topology}");
        }
    }
}

/// Streaming: a long vector is reduced at 95 % of the rate of a link, up and down at once. The model of whole messages
/// keeps a channel for a message from its first byte to its last, and reaches less.
#[test]
fn long_vectors_are_reduced_at_the_rate_of_a_link() {
    let machine = Arc::new(load::load(&file("quantum.toml")).unwrap_or_else(|error| panic!("{error}")));
    let rate = machine.network.link.bandwidth_bytes_per_s as f64;
    const BYTES: u64 = 8 << 20;
    for (network, least) in [(Model::Packet, 0.95), (Model::Message, 0.8)] {
        let options = Options { network, ..Options::default() };
        let kept = std::rc::Rc::new(std::cell::Cell::new(Time::ZERO));
        let slowest = kept.clone();
        let outcome = run_with(&machine, 24, (1, BYTES as usize, options), move |process| {
            let slowest = slowest.clone();
            async move {
                let members: Vec<u32> = (0..process.size()).collect();
                let group = process.join_group(0, &members).await.expect("a group");
                let start = process.now();
                write(&process, BYTES as usize / 8);
                process.reduce_in_network(&group, FLOATS, 0, BYTES).await.expect("a result");
                slowest.set(slowest.get().max(process.now() - start));
                0
            }
        });
        completed(&outcome);
        let reached = BYTES as f64 / kept.get().as_seconds_f64() / rate;
        assert!((least..1.0).contains(&reached), "{reached} of the link by {network:?}");
    }
}

#[test]
fn groups_overlap_and_do_not_mix() {
    let machine = machine(TOPOLOGIES[0].0, TOPOLOGIES[0].1);
    // Five groups meet at the root, and three at a rank.
    let outcome = run(&machine, 30, (5, Options::default()), |process| async move {
        let rank = process.rank();
        let all: Vec<u32> = (0..30).collect();
        let third: Vec<u32> = all.iter().copied().filter(|other| other % 3 == rank % 3).collect();
        let backwards: Vec<u32> = all.iter().rev().copied().collect();
        let mut groups = Vec::new();
        for (number, members) in [(0, &all), (1 + rank % 3, &third), (7, &backwards)] {
            groups.push((process.join_group(number, members).await.expect("a group"), members.clone()));
        }
        let count = Reduce { operation: Operation::Sum, datatype: Datatype::Uint64 };
        for round in 0..20u64 {
            for (group, members) in &groups {
                process.memory_mut()[..8].copy_from_slice(&(u64::from(rank) + round).to_le_bytes());
                process.reduce_in_network(group, count, 0, 8).await.expect("a result");
                let expected: u64 = members.iter().map(|member| u64::from(*member) + round).sum();
                if process.word(0) != expected {
                    return 1;
                }
            }
        }
        0
    });
    completed(&outcome);
}

#[test]
fn groups_that_all_have_left_make_room() {
    let machine = machine(TOPOLOGIES[0].0, TOPOLOGIES[0].1);
    let outcome = run(&machine, 30, (1, Options::default()), |process| async move {
        let members: Vec<u32> = (0..30).collect();
        for number in 0..5 {
            let group = process.join_group(number, &members).await.expect("room for a group");
            process.reduce_in_network(&group, FLOATS, 0, 0).await.expect("a barrier");
            process.leave_group(group).await;
            process.sleep(Time::from_ns(20_000)).await;
        }
        0
    });
    completed(&outcome);
}

#[test]
fn members_hear_of_a_death() {
    let machine = machine(TOPOLOGIES[1].0, TOPOLOGIES[1].1);
    let ranks = machine.topology.nodes();
    for (victim, at) in [(0, 1), (0, 3), (5, 4), (ranks - 1, 9), (20, 15), (7, 40)] {
        let deaths = vec![Death { at: Time::from_ns(at * 1000), rank: victim }];
        let options = Options { deaths, keep_going: true, ..Options::default() };
        let outcome = run(&machine, ranks, (1, options), move |process| async move {
            let members: Vec<u32> = (0..process.size()).collect();
            let group = match process.join_group(0, &members).await {
                Ok(group) => group,
                Err(Failure::Lost) => return 2,
                Err(_) => return 1,
            };
            loop {
                match process.reduce_in_network(&group, FLOATS, 0, 512).await {
                    Ok(()) => {}
                    Err(Failure::Lost) => return 2,
                    Err(_) => return 3,
                }
            }
        });
        assert!(matches!(outcome.end, End::Completed), "{:?}", outcome.end);
        for (rank, code) in outcome.codes.iter().enumerate().filter(|(rank, _)| *rank as u32 != victim) {
            assert_eq!(*code, Some(2), "rank {rank}, when {victim} died at {at} us");
        }
    }
}

/// Losses of ranks that have not joined, and of links of the tree: the members of the affected groups are notified.
#[test]
fn members_hear_of_what_the_manager_knows() {
    let machine = machine(TOPOLOGIES[1].0, TOPOLOGIES[1].1);
    let ranks = machine.topology.nodes();
    let at = Time::from_ns(10_000);
    let death = Options { deaths: vec![Death { at, rank: 4 }], keep_going: true, ..Options::default() };
    // The upward links of a leaf: its tree uses one of them.
    let leaf = selvedge_fabric::RouterId(1);
    let channels = machine.topology.neighbours(leaf).map(|(port, _)| machine.topology.channel(leaf, port));
    let faults = channels.map(|channel| Fault { at, channel, up: false }).collect();
    let cut = Options { faults, ..Options::default() };
    for (options, victim) in [(death, Some(4)), (cut, None)] {
        let outcome = run(&machine, ranks, (1, options), move |process| async move {
            if Some(process.rank()) == victim {
                process.sleep(Time::from_ns(1_000_000)).await;
            }
            let members: Vec<u32> = (0..process.size()).collect();
            let mut outcome = process.join_group(0, &members).await.map(Some);
            while let Ok(Some(group)) = &outcome {
                if let Err(failure) = process.reduce_in_network(group, FLOATS, 0, 64).await {
                    outcome = Err(failure);
                }
            }
            i32::from(outcome.is_err())
        });
        assert!(matches!(outcome.end, End::Completed), "{:?}", outcome.end);
        let heard = outcome.codes.iter().filter(|code| **code == Some(1)).count();
        assert_eq!(heard as u32, ranks - u32::from(victim.is_some()), "{:?}", outcome.codes);
    }
}

#[test]
fn machines_whose_switches_do_not_reduce_are_refused() {
    let cluster = load::load(&file("cluster.toml")).unwrap();
    let error = Aggregation::new(&cluster, &[0, 1], 1).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("cluster") && error.contains("[aggregation]"), "{error}");
    for (key, value, word) in
        [("children", "1", "children"), ("credits", "0", "credits"), ("payload_bytes", "7", "payload")]
    {
        let key = format!("aggregation.{key}");
        let error = load::load_with(&file("switchib2.toml"), &[(key, value.to_owned())]).err();
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(word), "{error}");
    }
}

pub(crate) fn changed(changes: &[(&str, &str)]) -> Arc<Machine> {
    let changes: Vec<(String, String)> = changes.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    Arc::new(load::load_with(&file("switchib2.toml"), &changes).unwrap_or_else(|error| panic!("{error}")))
}

pub(crate) const COUNT: Reduce = Reduce { operation: Operation::Sum, datatype: Datatype::Uint64 };

/// Runs all-reduces of several lengths by ranks on these nodes. Codes: 0: right; 1: wrong; 2: lost; 3: another failure.
pub(crate) fn counts(machine: &Arc<Machine>, placement: Vec<u32>, options: Options) -> Outcome {
    let options = Options { placement, ..options };
    run(machine, options.placement.len() as u32, (1, options), |process| async move {
        let code = |failure| if failure == Failure::Lost { 2 } else { 3 };
        let (rank, size) = (u64::from(process.rank()), u64::from(process.size()));
        let members: Vec<u32> = (0..process.size()).collect();
        let group = match process.join_group(0, &members).await {
            Ok(group) => group,
            Err(failure) => return code(failure),
        };
        for round in 0..3 {
            for words in [0, 1, 16, 33, 512, 2000] {
                process.sleep(Time::from_ns(rank * 37 % 97 * 10)).await;
                for at in 0..words {
                    process.memory_mut()[8 * at as usize..][..8].copy_from_slice(&(rank + at + round).to_le_bytes());
                }
                if let Err(failure) = process.reduce_in_network(&group, COUNT, 0, 8 * words).await {
                    return code(failure);
                }
                let expected = |at| size * (size - 1) / 2 + size * (at + round);
                if (0..words).any(|at| process.word(8 * at) != expected(at)) {
                    return 1;
                }
            }
        }
        0
    })
}

#[test]
fn ranks_may_be_anywhere() {
    let machine = changed(&[("host.same_node", "memory")]);
    let placements: [Vec<u32>; 6] = [
        vec![5],
        vec![100, 5],
        vec![5, 5],
        (0..64).map(|rank| rank / 2).collect(),
        (0..256).map(|rank| rank % 128).collect(),
        (0..60).map(|rank| rank * 47 % 128).collect(),
    ];
    for placement in placements {
        for network in [Model::Packet, Model::Message] {
            completed(&counts(&machine, placement.clone(), Options { network, ..Options::default() }));
        }
    }
}

#[test]
fn limits_of_nodes_are_kept() {
    let all: Vec<u32> = (0..128).collect();
    for (key, value) in [
        ("aggregation.payload_bytes", "8"),
        ("aggregation.payload_bytes", "12"),
        ("aggregation.payload_bytes", "100"),
        ("aggregation.payload_bytes", "4096"),
        ("aggregation.payload_bytes", "10000"),
        ("aggregation.credits", "1"),
        ("aggregation.credits", "100"),
        ("aggregation.children", "17"),
        ("aggregation.trees", "1"),
    ] {
        completed(&counts(&changed(&[(key, value)]), all.clone(), Options::default()));
    }
    // The maximum of children, and operands whose blocks are no power of two.
    let full = changed(&[("aggregation.payload_bytes", "5000"), ("aggregation.children", "17")]);
    completed(&counts(&full, (0..64).map(|rank| rank / 2).collect(), Options::default()));
    // A NIC that takes two long messages at once refuses others, which then arrive late.
    let few = changed(&[("aggregation.payload_bytes", "10000"), ("nic.streams_max", "2"), ("nic.retry_ns", "1000")]);
    let outcome = counts(&few, all, Options::default());
    completed(&outcome);
    assert!(outcome.statistics.refused > 0, "no message was refused");
}

#[test]
fn what_nodes_have_no_room_for_is_refused_with_the_key() {
    let two_each: Vec<u32> = (0..256).map(|rank| rank / 2).collect();
    for (changes, word) in [
        ([("aggregation.children", "8")], "aggregation.children"),
        ([("aggregation.children", "4")], "need 6"),
        ([("aggregation.payload_bytes", "16000000")], "payload_bytes"),
    ] {
        let error = Aggregation::new(&changed(&changes), &two_each, 1).err();
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(word), "{changes:?}: {error}");
    }
    // Hosts of one leaf have their nodes in several spines, and no route leads from spine to spine.
    let error = Aggregation::new(&changed(&[("aggregation.children", "8")]), &(0..128).collect::<Vec<u32>>(), 1).err();
    let error = error.map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("spine") && error.contains("raise aggregation.children"), "{error}");
}

#[test]
fn nodes_are_not_watched() {
    let options = Options { watch: true, ..Options::default() };
    completed(&counts(&changed(&[]), (0..128).collect(), options));
}

/// One rank adds other values, in three rounds: the operation fails at all ranks, and the group remains usable. Returns
/// 0 then.
pub async fn goes_on_after_a_mismatch(process: Process) -> i32 {
    let members: Vec<u32> = (0..process.size()).collect();
    let group = process.join_group(0, &members).await.expect("a group");
    for round in 0..3 {
        // Pieces are under way at all ranks when the failure reaches them.
        let reduce = if process.rank() == round { FLOATS } else { COUNT };
        if process.reduce_in_network(&group, reduce, 0, 12_000).await != Err(Failure::OperationMismatch) {
            return 1;
        }
        process.memory_mut()[..8].copy_from_slice(&1u64.to_le_bytes());
        let all = u64::from(process.size());
        if process.reduce_in_network(&group, COUNT, 0, 8).await != Ok(()) || process.word(0) != all {
            return 2;
        }
    }
    0
}

#[test]
fn a_group_goes_on_after_an_operation_that_failed() {
    completed(&run(&changed(&[]), 128, (1, Options::default()), goes_on_after_a_mismatch));
}

/// Switches do not retransmit: members learn that their group is lost, wherever a message was.
#[test]
fn members_hear_of_messages_that_the_fabric_loses() {
    let machine = changed(&[]);
    for seed in 0..24 {
        let mut lossy = Machine::clone(&machine);
        lossy.network.errors.loss = [0.0001, 0.001, 0.01][seed as usize % 3];
        lossy.network.seed = seed;
        let outcome = counts(&Arc::new(lossy), (0..128).collect(), Options::default());
        assert!(matches!(outcome.end, End::Completed), "seed {seed}: {:?}", outcome.end);
        let codes = outcome.codes.iter();
        let heard = codes.clone().filter(|code| **code == Some(2)).count();
        let right = codes.filter(|code| **code == Some(0)).count();
        assert!(heard + right == 128 && outcome.statistics.lost > 0, "seed {seed}: {:?}", outcome.codes);
    }
    // A host that is cut off learns it too.
    let topology = &machine.topology;
    let (router, port) = topology.attachment(selvedge_fabric::NodeId(3));
    let channels = [topology.injection_channel(selvedge_fabric::NodeId(3)), topology.channel(router, port)];
    for at in [1, 5, 20, 60] {
        let at = Time::from_ns(at * 1000);
        let faults = channels.iter().map(|&channel| Fault { at, channel, up: false }).collect();
        let outcome = counts(&machine, (0..128).collect(), Options { faults, ..Options::default() });
        assert!(matches!(outcome.end, End::Completed), "{at}: {:?}", outcome.end);
        assert!(outcome.codes.iter().all(|code| *code == Some(2)), "{at}: {:?}", outcome.codes);
    }
}

/// Commands of members pass the queue of a host interface, and arrive in order.
#[test]
fn members_may_have_a_host_interface() {
    let text = std::fs::read_to_string(file("switchib2.toml")).unwrap();
    let extoll = std::fs::read_to_string(file("extoll-ht400.toml")).unwrap();
    let from = extoll.find("[interface]").unwrap();
    let mut interface = extoll[from..from + extoll[from..].find("\n\n").unwrap()].to_owned();
    for unit in ["non-posted-down", "non-posted", "posted", "response-up", "memory-read", "response"] {
        interface = interface.replace(&format!("\"{unit}\""), "\"adapter-send\"");
    }
    let text = format!("{text}\n{interface}\n");
    let machine = load::from_text(Path::new("changed.toml"), &text, &[]).unwrap_or_else(|error| panic!("{error}"));
    completed(&counts(&Arc::new(machine), (0..128).map(|rank| rank / 2 * 2).collect(), Options::default()));
}

/// Arbitrary messages of a rank: to nodes, to addresses without a node, and to ranks; with its own and forged
/// initiators, with the job's key and another, with payloads of right and wrong lengths.
async fn say_anything(process: Process, targets: Vec<u64>, keys: [u64; 2], seed: u64) {
    let mut state = seed;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) % below
    };
    for _ in 0..300 {
        let target = targets[random(targets.len() as u64) as usize];
        let initiator = match random(3) {
            0 => targets[random(targets.len() as u64) as usize],
            _ => process.rank().into(),
        };
        let sender = Sender { address: initiator, key: keys[random(2) as usize] };
        let (number, length) = (random(3), random(3) * 100);
        let child = Child { job: 1, number: number as u32, handle: random(3) };
        let way = [Distribution::Alone, Distribution::Multicast, Distribution::Both][random(3) as usize];
        let address = targets[random(targets.len() as u64) as usize];
        let target_of = Target { distribution: way, address, handle: random(3) };
        let message = match random(10) {
            8 => Message::Cast(Cast { job: 1, group: number as u32, number, bytes: length as u32 }),
            9 => Message::Repeat(Repeat { group: random(3), child: random(3) as u32, number }),
            0 => Message::Join(Join {
                job: 1,
                number: number as u32,
                tree: random(3) as u16,
                options: random(9) as u8,
                handle: random(3),
                order: random(3) as u32,
                members: random(3) as u32,
                total: random(3) as u32,
                expected: [random(3) as u16, random(3) as u16, random(2) as u16, 0, 0, 0],
                credits: random(3) as u16,
                bytes: random(3) as u32 * 1000,
            }),
            1 => Message::Leave(child),
            2 => Message::Fail(child, Failure::Lost),
            3 => Message::Joined(Joined { group: random(3), child: 0, handle: random(3), credits: 4, bytes: 256 }),
            4 => Message::Failed(Failed { group: random(3), failure: Failure::Lost }),
            5 => Message::Result(Ended { group: random(3), number, failure: None, bytes: length as u32 }),
            _ => Message::Request(Operand {
                group: random(3),
                child: random(3) as u32,
                number,
                reduction: Reduction {
                    operation: random(20) as u8,
                    datatype: random(20) as u8,
                    bytes: length as u32,
                    target: (random(2) == 0).then_some(target_of),
                    ..Reduction::default()
                },
                failure: None,
            }),
        };
        let mut command = Box::new(Command { request: message.encode(sender), target, ..Command::default() });
        if random(8) == 0 {
            // A message of another unit, which nodes refuse.
            command.request.kind = random(12) as u8;
        }
        let payload = vec![1; if random(4) == 0 { random(400) } else { length } as usize];
        process.start(command, Bytes::from_slice(&payload)).await;
        process.sleep(Time::from_ns(random(500))).await;
    }
}

#[test]
fn what_a_hostile_rank_says_breaks_nothing() {
    let machine = machine(TOPOLOGIES[0].0, TOPOLOGIES[0].1);
    let granted = Aggregation::new(&machine, &(0..30).collect::<Vec<u32>>(), 2).expect("an aggregation").granted;
    let key = granted.key;
    let nodes = granted.trees[0].nodes().iter().map(|node| node.address);
    let nobody = [0xffff_fff0 << 32 | 0xffff, u64::MAX, 1 << 32, 29];
    let targets: Vec<u64> = nodes.chain(nobody).collect();
    for (seed, keys) in [(1, [key + 1, 0]), (2, [key + 1, 0]), (3, [key, key]), (4, [key, key])] {
        let targets = targets.clone();
        let outcome = run(&machine, 30, (2, Options::default()), move |process| {
            let targets = targets.clone();
            async move {
                if process.rank() == 29 {
                    say_anything(process, targets, keys, seed).await;
                    return 0;
                }
                let members: Vec<u32> = (0..29).collect();
                let group = match process.join_group(9, &members).await {
                    Ok(group) => group,
                    Err(_) => return 2,
                };
                for _ in 0..30 {
                    process.memory_mut()[..8].copy_from_slice(&1u64.to_le_bytes());
                    match process.reduce_in_network(&group, COUNT, 0, 8).await {
                        Ok(()) if process.word(0) == 29 => {}
                        Ok(()) => return 1,
                        Err(_) => return 2,
                    }
                    process.sleep(Time::from_ns(1000)).await;
                }
                0
            }
        });
        assert!(matches!(outcome.end, End::Completed), "{:?}", outcome.end);
        assert!(outcome.statistics.aggregation_refused > 0, "nothing was refused");
        // A rank with the key may end the job's groups, but no result is wrong.
        let allowed = if keys[0] == key { [Some(0), Some(2)] } else { [Some(0), Some(0)] };
        assert!(outcome.codes.iter().all(|code| allowed.contains(code)), "{seed}: {:?}", outcome.codes);
    }
}

#[test]
fn machines_without_nodes_drop_what_is_said_to_them() {
    let machine = Arc::new(load::load(&file("cluster.toml")).expect("a machine"));
    let tasks = Tasks::new(2, &machine, &Needs::default(), |process| {
        Box::pin(async move {
            if process.rank() == 0 {
                say_anything(process, vec![0xffff_fff0 << 32, 0xffff_fff0 << 32 | 1, 1, 7], [1, 2], 5).await;
            }
            0
        })
    });
    let outcome = Simulation::new(machine, tasks, Options::default()).expect("a run").run(&mut |_| true);
    completed(&outcome);
}

/// A rank that ends with an error, without leaving its groups, is lost like one that was killed.
#[test]
fn members_hear_of_a_rank_that_failed() {
    let machine = machine(TOPOLOGIES[0].0, TOPOLOGIES[0].1);
    let outcome = run(&machine, 30, (1, Options::default()), |process| async move {
        let members: Vec<u32> = (0..30).collect();
        let group = process.join_group(0, &members).await.expect("a group");
        if process.rank() == 7 {
            return 9;
        }
        match process.reduce_in_network(&group, FLOATS, 0, 64).await {
            Err(Failure::Lost) => 2,
            _ => 3,
        }
    });
    assert!(matches!(outcome.end, End::Completed), "{:?}", outcome.end);
    let expected: Vec<Option<i32>> = (0..30).map(|rank| Some(if rank == 7 { 9 } else { 2 })).collect();
    assert_eq!(outcome.codes, expected);
}

/// A solver's iterations: halo exchanges, and sums by the hosts and in the switches. Every sum is checked.
#[test]
fn a_solver_sums_in_the_switches() {
    for (topology, routing) in TOPOLOGIES {
        let machine = machine(topology, routing);
        let ranks = machine.topology.nodes().min(9);
        let laps = ["recursive-doubling", "switches"].map(|algorithm| {
            let arguments =
                [("cells", "6"), ("edges", "open"), ("sums", "3"), ("iterations", "5"), ("algorithm", algorithm)];
            let arguments = arguments.map(|(key, value)| (key.to_owned(), value.to_owned()));
            let prepared = ready::find("halo").unwrap().prepare(ranks, &machine, &arguments).unwrap();
            let mut tasks = prepared.tasks(ranks, &machine);
            let placement: Vec<u32> = (0..ranks).collect();
            let aggregation = Arc::new(Aggregation::new(&machine, &placement, 1).unwrap());
            tasks.grant(&aggregation);
            let options = Options { aggregation: Some(aggregation), placement, ..Options::default() };
            let mut simulation = Simulation::new(machine.clone(), tasks, options).unwrap();
            completed(&simulation.run(&mut |_| true));
            let results = simulation.ranks().results();
            assert!(results.wrong.is_empty(), "{topology}, {algorithm}: {:?}", results.wrong);
            results.of("exchange and sums, us").next().unwrap().1
        });
        assert!(laps.iter().all(|us| *us > 0.0) && laps[0] != laps[1], "{topology}: {laps:?}");
    }
}
