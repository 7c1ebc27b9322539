// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs on a small machine: their messages arrive at the times that follow from the machine's numbers.

use crate::common;

use std::sync::Arc;

use selvedge_sim::machine::Machine;
use selvedge_sim::node::{End, Options, Outcome, Simulation};
use selvedge_sim::program::{Body, Needs, Process, Tasks};
use selvedge_sim::time::Time;

use common::machine;

fn run(machine: &Arc<Machine>, ranks: u32, needs: Needs, body: impl Fn(Process) -> Body) -> Outcome {
    let tasks = Tasks::new(ranks, machine, &needs, body);
    let mut simulation = Simulation::new(machine.clone(), tasks, Options::default()).unwrap();
    simulation.run(&mut |_| true)
}

async fn allreduce(process: &Process, mut value: u64) -> u64 {
    let (rank, size) = (process.rank(), process.size());
    let mut distance = 1;
    while distance < size {
        let partner = rank ^ distance;
        let message = process.exchange(partner, partner, distance, &value.to_le_bytes()).await;
        value += u64::from_le_bytes(message.bytes[..].try_into().unwrap());
        distance *= 2;
    }
    value
}

#[test]
fn an_allreduce_adds_up() {
    let machine = machine(&[]);
    let outcome = run(&machine, 16, Needs::default(), |process| {
        Box::pin(async move {
            for round in 0..20 {
                let sum = allreduce(&process, u64::from(process.rank()) + round).await;
                if sum != 120 + 16 * round {
                    return 1;
                }
            }
            0
        })
    });
    assert_eq!(outcome.end, End::Completed);
    assert_eq!(outcome.code(), 0);
    assert_eq!(outcome.statistics.messages, 16 * 4 * 20);
}

#[test]
fn a_put_takes_as_long_as_its_steps() {
    let machine = machine(&[]);
    let outcome = run(&machine, 2, Needs::default(), |process| {
        Box::pin(async move {
            if process.rank() == 0 {
                process.put_counting(1, 0, 0, &[7; 8]).await;
            } else {
                process.wait_count(0, 1).await;
                assert_eq!(process.memory()[..8], [7; 8]);
            }
            0
        })
    });
    assert_eq!(outcome.end, End::Completed);
    let host = &machine.host;
    let sent = host.software_send + host.doorbell + machine.nic.command;
    let wire =
        selvedge_sim::network::Network::new(machine.topology.clone(), machine.routing.clone(), machine.network.clone())
            .unwrap()
            .latency_empty(selvedge_fabric::NodeId(0), selvedge_fabric::NodeId(1), 8);
    let told = machine.nic.entry_search + host.software_receive + host.memory_access;
    // The NIC processes the header while the rest of the packet arrives.
    let head = wire.saturating_sub(Time::from_ns(32)) + machine.nic.header;
    let written = head + Time::of_bytes(8, host.dma_bytes_per_s);
    let expected = sent + wire.max(written) + host.dma_write + told;
    assert_eq!(outcome.ended[1], Some(expected));
}

#[test]
fn long_messages_are_fetched_and_unexpected_ones_kept() {
    let machine = machine(&[]);
    let needs = Needs { eager_bytes_max: 1000, ..Needs::default() };
    let outcome = run(&machine, 4, needs, |process| {
        Box::pin(async move {
            let next = (process.rank() + 1) % 4;
            let before = (process.rank() + 3) % 4;
            for bytes in [0usize, 1, 999, 1000, 1001, 50_000] {
                let data: Vec<u8> = (0..bytes).map(|at| (at as u32 * 7 + process.rank()) as u8).collect();
                let send = process.isend(next, 5, &data).await;
                process.compute(Time::from_ns(100_000)).await;
                let message = process.recv(before, 5, 60_000).await;
                process.wait(send).await;
                let expected: Vec<u8> = (0..bytes).map(|at| (at as u32 * 7 + before) as u8).collect();
                if message.bytes[..] != expected[..] || message.source != before {
                    return 1 + bytes as i32;
                }
            }
            0
        })
    });
    assert_eq!(outcome.end, End::Completed);
    assert_eq!(outcome.code(), 0);
}

#[test]
fn a_rank_that_waits_for_nobody_is_reported() {
    let machine = machine(&[]);
    let outcome = run(&machine, 3, Needs::default(), |process| {
        Box::pin(async move {
            if process.rank() == 2 {
                process.recv(0, 9, 8).await;
            }
            0
        })
    });
    let End::Stuck(waiting) = outcome.end else { panic!("{:?}", outcome.end) };
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].rank, 2);
    assert_eq!(waiting[0].receives.len(), 1, "{waiting:?}");
}

#[test]
fn host_mode_pays_its_interrupts() {
    let times: Vec<Time> = ["nic", "host"]
        .into_iter()
        .flat_map(|mode| {
            [8u64, 256].map(|bytes| {
                let quoted = format!("\"{mode}\"");
                let machine = machine(&[("nic.mode", quoted.as_str())]);
                let needs = Needs { memory_bytes: 8192, ..Needs::default() };
                let outcome = run(&machine, 2, needs, move |process| {
                    Box::pin(async move {
                        if process.rank() == 0 {
                            process.put_counting(1, 0, 0, &vec![1; bytes as usize]).await;
                        } else {
                            process.wait_count(0, 1).await;
                        }
                        0
                    })
                });
                outcome.ended[1].unwrap()
            })
        })
        .collect();
    let [nic_small, nic_large, host_small, host_large] = times[..] else { unreachable!() };
    let gain = (host_small - nic_small, host_large - nic_large);
    assert!(gain.0 > Time::from_ns(900) && gain.0 < Time::from_ns(1300), "one interrupt: {}", gain.0);
    assert!(gain.1 > Time::from_ns(1900), "two interrupts: {}", gain.1);
}

#[test]
fn a_run_is_the_same_every_time() {
    let machine = machine(&[]);
    let hash = || {
        let outcome = run(&machine, 16, Needs::default(), |process| {
            Box::pin(async move {
                allreduce(&process, 1).await;
                0
            })
        });
        (outcome.statistics.hash, outcome.time)
    };
    assert_eq!(hash(), hash());
}
