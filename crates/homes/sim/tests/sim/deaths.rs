// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Killed ranks: operations that their NICs had taken arrive, operations on them fail, and their NICs fire nothing.

use crate::common;

use std::sync::Arc;

use selvedge_sim::machine::Machine;
use selvedge_sim::node::{Death, End, Options, Outcome, Simulation, SimulationError};
use selvedge_sim::program::{Body, Needs, Process, Tasks, Trigger};
use selvedge_sim::random::Random;
use selvedge_sim::time::Time;

use common::machine;

const NEEDS: Needs = Needs {
    memory_bytes: 4096,
    receives: 8,
    unexpected: 8,
    windows: 4,
    triggered: 8,
    eager_bytes_max: 4096,
    units: false,
    groups: 0,
};

fn ns(ns: u64) -> Time {
    Time::from_ns(ns)
}

fn dies(rank: u32, at: Time) -> Vec<Death> {
    vec![Death { at, rank }]
}

fn run_with(machine: &Arc<Machine>, ranks: u32, options: Options, body: impl Fn(Process) -> Body) -> (Outcome, Tasks) {
    let tasks = Tasks::new(ranks, machine, &NEEDS, body);
    let mut simulation = Simulation::new(machine.clone(), tasks, options).unwrap();
    let outcome = simulation.run(&mut |_| true);
    (outcome, simulation.into_ranks())
}

fn run(machine: &Arc<Machine>, ranks: u32, deaths: Vec<Death>, body: impl Fn(Process) -> Body) -> (Outcome, Tasks) {
    run_with(machine, ranks, Options { deaths, keep_going: true, ..Options::default() }, body)
}

#[test]
fn who_asks_the_dead_is_told_after_the_way_there_and_back() {
    for mode in ["\"nic\"", "\"host\""] {
        let machine = machine(&[("nic.mode", mode)]);
        // Returns the time of an acknowledged put, and the number of failures afterwards.
        let put = |deaths: Vec<Death>| {
            let (outcome, tasks) = run(&machine, 2, deaths, |process| {
                Box::pin(async move {
                    process.compute(ns(5000)).await;
                    if process.rank() == 0 {
                        process.put_acknowledged(1, 0, &[7; 32]).await;
                        process.fence().await;
                    }
                    0
                })
            });
            assert_eq!(outcome.end, End::Completed);
            (outcome.ended[0].unwrap(), tasks.process(0).unwrap().failed())
        };
        let (alive, dead) = (put(Vec::new()), put(dies(1, ns(1000))));
        assert_eq!((alive.1, dead.1), (0, 1), "{mode}");
        // The node's NIC does not search for an entry; all other costs are the same.
        assert_eq!(alive.0 - dead.0, machine.nic.entry_search, "{mode}");
    }
}

#[test]
fn gets_and_atomics_fail_too_and_fetch_nothing() {
    let machine = machine(&[]);
    let (outcome, tasks) = run(&machine, 2, dies(1, ns(1000)), |process| {
        Box::pin(async move {
            let mine = process.rank() as u8 + 1;
            process.memory_mut()[..8].fill(mine);
            process.compute(ns(5000)).await;
            process.get(1, 0, 64, 8).await;
            process.fetch_add(1, 0, 5).await;
            process.swap(1, 0, 5).await;
            process.compare_swap(1, 0, 1, 5).await;
            // These have no acknowledgement, whether the target is dead or alive.
            process.put(1, 0, &[9]).await;
            process.add(1, 0, 9).await;
            0
        })
    });
    assert_eq!((&outcome.codes[..], &outcome.end), (&[Some(0), Some(137)][..], &End::Completed));
    assert_eq!((outcome.ended[1], outcome.code()), (Some(ns(1000)), 137));
    let (one, other) = (tasks.process(0).unwrap(), tasks.process(1).unwrap());
    assert_eq!(one.failed(), 4);
    assert_eq!(one.memory()[..72], [&[1; 8][..], &[0; 64]].concat()[..]);
    assert_eq!(other.memory()[..8], [2; 8], "nobody reached it");
}

/// Whenever a rank dies, a put that its NIC had taken arrives; a put that its host was still handing over does not.
#[test]
fn operations_that_the_nic_has_taken_are_sent() {
    let machine = machine(&[]);
    let taken = machine.host.software_send + machine.host.doorbell;
    let mut arrived = [0, 0];
    for at in (1..=400).step_by(3).map(ns).chain([taken, taken + Time(1)]) {
        let (outcome, tasks) = run(&machine, 3, dies(0, at), |process| {
            Box::pin(async move {
                match process.rank() {
                    0 => process.put_counting(1, 0, 0, &[7; 2000]).await,
                    _ => process.compute(ns(100_000)).await,
                }
                process.compute(ns(1_000_000)).await;
                0
            })
        });
        assert_eq!(outcome.end, End::Completed);
        let target = tasks.process(1).unwrap();
        let whole = target.memory()[..2000].iter().all(|byte| *byte == 7);
        assert_eq!((target.count(0), whole), (u64::from(at > taken), at > taken), "killed at {at}");
        arrived[usize::from(at > taken)] += 1;
    }
    assert!(arrived[0] > 10 && arrived[1] > 10);
}

#[test]
fn triggered_operations_of_a_dead_rank_do_not_fire() {
    let machine = machine(&[]);
    let counts = |deaths: Vec<Death>| {
        let (outcome, tasks) = run(&machine, 3, deaths, |process| {
            Box::pin(async move {
                if process.rank() == 1 {
                    assert!(process.put_triggered(Trigger { window: 0, count: 1 }, 2, 1, 0, 0, 8));
                }
                process.compute(ns(10_000)).await;
                if process.rank() == 0 {
                    process.put_counting(1, 0, 0, &[1; 8]).await;
                }
                process.compute(ns(100_000)).await;
                0
            })
        });
        assert_eq!(outcome.end, End::Completed);
        (outcome.statistics.triggered, [1, 2].map(|rank| tasks.process(rank).unwrap().count(rank - 1)))
    };
    assert_eq!(counts(Vec::new()), (1, [1, 1]));
    assert_eq!(counts(dies(1, ns(5_000))), (0, [0, 0]), "before the put");
    // The operation was triggered before the death: it is in flight, and arrives.
    assert_eq!(counts(dies(1, ns(50_000))), (1, [1, 1]));
}

/// A put of rank 0 triggers a get of rank 1, whose reply triggers a put to rank 2, as long as rank 1 lives.
#[test]
fn chains_of_the_dead_end_where_they_were() {
    let machine = machine(&[]);
    let mut before = 0;
    let mut seen = [0; 3];
    for at in (10_000..14_000).step_by(25).map(ns) {
        let (outcome, tasks) = run(&machine, 3, dies(1, at), |process| {
            Box::pin(async move {
                if process.rank() == 1 {
                    assert!(process.get_triggered(Trigger { window: 0, count: 1 }, 2, 0, 64, 8, 2));
                    assert!(process.put_triggered(Trigger { window: 2, count: 1 }, 2, 1, 0, 64, 8));
                }
                process.compute(ns(10_000)).await;
                if process.rank() == 0 {
                    process.put_counting(1, 0, 0, &[1; 8]).await;
                }
                process.compute(ns(100_000)).await;
                0
            })
        });
        let triggered = outcome.statistics.triggered;
        assert_eq!(tasks.process(2).unwrap().count(1), triggered / 2, "killed at {at}");
        assert!(triggered >= before, "killed at {at}");
        before = triggered;
        seen[triggered as usize] += 1;
    }
    assert!(seen.iter().all(|times| *times > 5), "{seen:?}");
}

#[test]
fn without_keep_going_the_first_death_ends_the_run() {
    let machine = machine(&[]);
    let options =
        Options { deaths: vec![Death { at: ns(700), rank: 2 }, Death { at: ns(900), rank: 1 }], ..Options::default() };
    let sleeps = |process: Process| -> Body {
        Box::pin(async move {
            process.compute(ns(5000)).await;
            3
        })
    };
    let (outcome, _) = run_with(&machine, 4, options.clone(), sleeps);
    assert_eq!((&outcome.end, outcome.time, outcome.code()), (&End::Died, ns(700), 137));
    assert_eq!(outcome.codes, [None, None, Some(137), None]);
    let (outcome, _) = run_with(&machine, 4, Options { keep_going: true, ..options }, sleeps);
    assert_eq!((&outcome.end, outcome.time), (&End::Completed, ns(5000)));
    assert_eq!(outcome.codes, [Some(3), Some(137), Some(137), Some(3)]);
    assert_eq!(outcome.code(), 137, "the first by time, not by rank");
    let late = Options { deaths: dies(1, ns(9000)), keep_going: true, ..Options::default() };
    let (outcome, _) = run_with(&machine, 2, late, sleeps);
    assert_eq!((outcome.code(), outcome.time), (3, ns(5000)), "it has ended, and cannot die");
}

#[test]
fn a_rank_that_is_not_there_cannot_die() {
    let machine = machine(&[]);
    let tasks = Tasks::new(2, &machine, &NEEDS, |_| Box::pin(async { 0 }));
    let error = Simulation::new(machine, tasks, Options { deaths: dies(2, ns(1)), ..Options::default() }).err();
    assert!(matches!(error, Some(SimulationError::NoSuchRank { rank: 2, last: 1 })));
}

/// Each rank writes its own words into the memory of others and reads them back, while ranks die.
#[test]
fn survivors_of_many_deaths_read_what_they_wrote() {
    const RANKS: u32 = 12;
    const ROUNDS: u64 = 60;
    let machines = [
        machine(&[]),
        machine(&[("nic.mode", "\"host\"")]),
        machine(&[("routing.algorithm", "\"shortest-path\""), ("nic.matching", "\"list\"")]),
        machine(&[("link.loss", "0.02"), ("link.retransmission", "{ timeout_ns = 3000, window_flits = 256 }")]),
    ];
    let (mut died, mut failed) = (0, 0);
    for seed in 0..40u64 {
        let machine = &machines[seed as usize % machines.len()];
        let mut random = Random::new(seed, 7);
        let deaths: Vec<Death> =
            (2..RANKS).filter(|rank| rank % 3 != 0).map(|rank| Death { at: ns(random.below(200_000)), rank }).collect();
        let go = || {
            run(machine, RANKS, deaths.clone(), |process| {
                Box::pin(async move {
                    let own = u64::from(process.rank());
                    let mut random = Random::new(seed, own + 100);
                    for round in 0..ROUNDS {
                        let to = random.below(RANKS.into()) as u32;
                        let (word, failed) = (own << 32 | round, process.failed());
                        process.put_acknowledged(to, own * 8, &word.to_le_bytes()).await;
                        process.fence().await;
                        process.get(to, own * 8, 2048, 8).await;
                        if process.failed() == failed && process.word(2048) != word {
                            return process.wrong(format!("{:x} of rank {to} is not {word:x}", process.word(2048)));
                        }
                        let put_failed = process.failed() - failed;
                        if put_failed != 0 && to % 3 == 0 {
                            return process.wrong(format!("rank {to} lives, and {put_failed} operations failed"));
                        }
                    }
                    0
                })
            })
        };
        let (outcome, tasks) = go();
        assert_eq!(outcome.end, End::Completed, "seed {seed}");
        assert_eq!(tasks.results().wrong, [], "seed {seed}");
        for rank in 0..RANKS {
            let death = deaths.iter().find(|death| death.rank == rank);
            match (outcome.codes[rank as usize], death) {
                (Some(137), Some(death)) => assert_eq!(outcome.ended[rank as usize], Some(death.at)),
                (code, _) => assert_eq!(code, Some(0), "seed {seed}, rank {rank}"),
            }
            died += u32::from(outcome.codes[rank as usize] == Some(137));
            failed += tasks.process(rank).unwrap().failed();
        }
        let again = go().0;
        assert_eq!(
            (again.statistics.hash, again.time, again.ended),
            (outcome.statistics.hash, outcome.time, outcome.ended)
        );
    }
    assert!(died > 200 && failed > 1000, "{died} died, {failed} operations failed: this tests nothing");
}
