// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results to all members at once: the same bits as down the tree, on every topology and in both models of the fabric,
//! and with lost copies.

use std::path::Path;
use std::sync::Arc;

use selvedge_sim::machine::{Machine, load};
use selvedge_sim::node::{Aggregation, Death, End, Model, Options, Statistics};
use selvedge_sim::time::Time;

use crate::aggregation::{
    COUNT, FLOATS, TOPOLOGIES, all_reduce, changed, completed, counts, goes_on_after_a_mismatch, machine_with, run,
};

const WAYS: [&str; 2] = ["multicast", "both"];

fn same_bits(some: &[f64], others: &[f64]) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(a, b)| a.to_bits() == b.to_bits())
}

#[test]
fn results_are_those_that_come_down_the_tree() {
    for (topology, routing) in TOPOLOGIES {
        let (sums, tree) = all_reduce(&machine_with(topology, routing, &[]), Model::Packet, 0);
        for way in WAYS {
            let machine = machine_with(topology, routing, &[("aggregation.distribution", way)]);
            for (model, delays) in [(Model::Packet, 0), (Model::Packet, 37), (Model::Message, 61)] {
                let (other, statistics) = all_reduce(&machine, model, delays);
                assert!(same_bits(&sums, &other), "{way} changed a sum on {topology}");
                assert!(statistics.messages > tree.messages, "nothing was cast");
                assert_eq!((statistics.casts_lost, statistics.casts_repeated), (0, 0), "{way}, {model:?}, {topology}");
            }
        }
    }
}

/// Links retransmit packets to one node, and lose those to many: each result is right to the bit, the same in two runs.
#[test]
fn losses_of_casts_are_made_good() {
    let (topology, routing) = TOPOLOGIES[1];
    let (sums, _) = all_reduce(&machine_with(topology, routing, &[]), Model::Packet, 0);
    for way in WAYS {
        let (mut lost, mut repeated) = (0, 0);
        for seed in 0..6 {
            let mut machine = Machine::clone(&machine_with(topology, routing, &[("aggregation.distribution", way)]));
            machine.network.errors.loss = [0.001, 0.02, 0.3][seed % 3];
            machine.network.errors.corruption = 0.001;
            let retransmission =
                selvedge_sim::network::RetransmissionConfig { timeout: Time::from_ns(1000), window_flits: 1 << 16 };
            machine.network.retransmission = Some(retransmission);
            machine.network.seed = seed as u64;
            let machine = Arc::new(machine);
            let (other, statistics) = all_reduce(&machine, Model::Packet, 37 * seed as u32);
            assert!(same_bits(&sums, &other), "{way}, seed {seed}: a sum is wrong");
            let again = all_reduce(&machine, Model::Packet, 37 * seed as u32);
            let numbers = |it: &Statistics| (it.hash, it.events, it.casts_lost, it.casts_repeated);
            assert_eq!(numbers(&again.1), numbers(&statistics), "two runs differ");
            assert_eq!(statistics.lost, 0, "a packet to one node was lost");
            (lost, repeated) = (lost + statistics.casts_lost, repeated + statistics.casts_repeated);
        }
        assert!(lost > 1000, "{way}: {lost}");
        match way {
            "both" => assert_eq!(repeated, 0, "the tree has brought what was lost"),
            // A lost copy is requested again, except one without payload.
            _ => assert!(repeated > lost / 2 && repeated <= lost, "{repeated} of {lost}"),
        }
    }
}

#[test]
fn ranks_may_be_anywhere_and_nodes_may_have_many() {
    let placements: [Vec<u32>; 4] =
        [vec![5], vec![5, 5], (0..64).map(|rank| rank / 2).collect(), (0..60).map(|rank| rank * 47 % 128).collect()];
    for way in WAYS {
        for changes in [("aggregation.credits", "1"), ("aggregation.payload_bytes", "100"), ("aggregation.ports", "36")]
        {
            let machine = changed(&[("aggregation.distribution", way), changes]);
            for placement in &placements {
                for network in [Model::Packet, Model::Message] {
                    completed(&counts(&machine, placement.clone(), Options { network, ..Options::default() }));
                }
            }
        }
    }
}

/// Groups form and end, one after the other under one number, with other members each time.
#[test]
fn groups_end_when_all_have_their_credits_back() {
    for way in WAYS {
        let machine = changed(&[("aggregation.distribution", way)]);
        let outcome = run(&machine, 24, (1, Options::default()), |process| async move {
            for round in 1..6u32 {
                let members: Vec<u32> = (0..24).filter(|rank| rank % round == 0).collect();
                if members.contains(&process.rank()) {
                    let group = process.join_group(0, &members).await.expect("a group");
                    process.memory_mut()[..8].copy_from_slice(&1u64.to_le_bytes());
                    process.reduce_in_network(&group, COUNT, 0, 8).await.expect("a result");
                    if process.word(0) != members.len() as u64 {
                        return 1;
                    }
                    process.leave_group(group).await;
                }
                process.sleep(Time::from_ns(50_000)).await;
            }
            0
        });
        completed(&outcome);
    }
}

#[test]
fn members_hear_of_failures() {
    for way in WAYS {
        let machine = changed(&[("aggregation.distribution", way)]);
        completed(&run(&machine, 64, (1, Options::default()), goes_on_after_a_mismatch));
        for at in [3, 5, 8, 13, 40] {
            let deaths = vec![Death { at: Time::from_ns(at * 1000), rank: 7 }];
            let options = Options { deaths, keep_going: true, ..Options::default() };
            let outcome = run(&machine, 64, (1, options), |process| async move {
                let members: Vec<u32> = (0..process.size()).collect();
                let mut outcome = process.join_group(0, &members).await.map(Some);
                while let Ok(Some(group)) = &outcome {
                    if let Err(failure) = process.reduce_in_network(group, FLOATS, 0, 512).await {
                        outcome = Err(failure);
                    }
                }
                i32::from(outcome.is_err())
            });
            assert!(matches!(outcome.end, End::Completed), "{at}: {:?}", outcome.end);
            let heard = outcome.codes.iter().filter(|code| **code == Some(1)).count();
            assert_eq!(heard, 63, "{at}: {:?}", outcome.codes);
        }
    }
}

#[test]
fn machines_that_cannot_cast_are_refused_with_the_key() {
    let both = ("aggregation.distribution", "both");
    for (changes, word) in [
        (vec![both, ("aggregation.payload_bytes", "4090")], "payload_bytes"),
        (vec![both, ("switch.switching", "wormhole"), ("link.last_flit", "full")], "cut-through"),
    ] {
        let error = Aggregation::new(&changed(&changes), &[0, 1, 40], 1).err();
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(word) && error.contains("aggregation.distribution"), "{changes:?}: {error}");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../machines/switchib2.toml");
    let other = [("aggregation.distribution".to_owned(), "all".to_owned())];
    let error = load::load_with(&path, &other).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("multicast"), "{error}");
}
