// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that repeat for ever, or nearly, except on hosts that vary: two ranks that take two locks in opposite order;
//! and ranks that swap numbers in words of all until each has got its own back.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use crate::common;

use common::machine;
use selvedge_sim::machine::Machine;
use selvedge_sim::node::{End, Options, Outcome, Repetition, Simulation, Variation};
use selvedge_sim::program::{Needs, Process, Tasks};
use selvedge_sim::time::Time;

const TIME_LIMIT: Time = Time::from_ns(100_000_000);

/// Takes the own lock, then the other rank's, until both have been free.
async fn take_both(process: Process) {
    let (me, other) = (process.rank(), 1 - process.rank());
    loop {
        while process.swap(me, 0, 1).await != 0 {}
        if process.compare_swap(other, 0, 0, 1).await == 0 {
            break;
        }
        process.swap(me, 0, 0).await;
    }
    process.swap(other, 0, 0).await;
    process.swap(me, 0, 0).await;
}

/// Returns the outcome, and the repetitions of the ranks at the last look.
fn run(variation: Variation) -> (Outcome, Option<Repetition>) {
    let machine = machine(&[]);
    let tasks = Tasks::new(2, &machine, &Needs::default(), |process| {
        Box::pin(async move {
            take_both(process).await;
            0
        })
    });
    let options = Options { time_limit: TIME_LIMIT, observe_every: 64, variation, watch: true, ..Options::default() };
    let mut simulation = Simulation::new(machine, tasks, options).unwrap();
    let mut last = None;
    let outcome = simulation.run(&mut |view| {
        last = view.repetition();
        true
    });
    (outcome, last)
}

#[test]
fn ranks_with_exact_prices_take_turns_for_ever_and_are_suspected() {
    let (outcome, repetition) = run(Variation::default());
    assert_eq!(outcome.end, End::Interrupted);
    let repetition = repetition.expect("a suspicion");
    assert!(repetition.since < Time::from_ns(100_000), "{}", repetition.since);
    for (rank, repeated) in repetition.ranks.iter().enumerate() {
        let repeated = repeated.expect("both repeat");
        assert!(repeated.operations > 1000 && repeated.reads == repeated.operations, "rank {rank}: {repeated:?}");
        assert!(repeated.last_times >= repeated.operations / 4, "rank {rank}: {repeated:?}");
    }
}

#[test]
fn a_percent_lets_them_end_and_the_seed_says_when() {
    let of_seed = |seed| run(Variation { ppm_max: 10_000, seed }).0;
    let mut ends = Vec::new();
    for seed in 0..20 {
        let outcome = of_seed(seed);
        assert_eq!(outcome.end, End::Completed, "seed {seed}");
        let again = of_seed(seed);
        assert_eq!((outcome.time, outcome.statistics.hash), (again.time, again.statistics.hash), "seed {seed}");
        ends.push(outcome.time);
    }
    ends.sort();
    ends.dedup();
    assert!(ends.len() > 15, "{ends:?}");
}

/// More turns than ranks on a real host need, and far fewer than those that only vary: these need thousands.
const TURNS_MAX: u64 = 40;

/// Swaps the own number into a word of each rank, turn by turn, until as many words as there are ranks have given it
/// back. Returns the number of turns.
async fn swap_until_own(process: &Process) -> u64 {
    let own = u64::from(process.rank()) + 1;
    let (mut turns, mut seen) = (0, 0);
    while seen < process.size() && turns < 10 * TURNS_MAX {
        for rank in 0..process.size() {
            seen += u32::from(process.swap(rank, 0, own).await == own);
        }
        turns += 1;
    }
    turns
}

/// Returns the most turns of a rank, and the hash of the run.
fn turns_of(machine: &Arc<Machine>, ranks: u32, variation: Variation) -> (u64, u64) {
    let most = Rc::new(RefCell::new(0));
    let tasks = Tasks::new(ranks, machine, &Needs::default(), |process| {
        let most = most.clone();
        Box::pin(async move {
            let turns = swap_until_own(&process).await;
            let mut most = most.borrow_mut();
            *most = turns.max(*most);
            0
        })
    });
    let options = Options { variation, watch: true, ..Options::default() };
    let outcome = Simulation::new(machine.clone(), tasks, options).unwrap().run(&mut |_| true);
    assert_eq!(outcome.end, End::Completed);
    let turns = *most.borrow();
    (turns, outcome.statistics.hash)
}

#[test]
fn ranks_that_swap_get_their_numbers_back_after_a_few_turns() {
    let machine = machine(&[]);
    for ranks in 2..=8 {
        for seed in 0..10 {
            for ppm_max in [10_000, 50_000] {
                let variation = Variation { ppm_max, seed };
                let (turns, hash) = turns_of(&machine, ranks, variation);
                assert!(turns <= TURNS_MAX, "{ranks} ranks, {variation:?}: {turns} turns");
                if seed == 0 {
                    assert_eq!(turns_of(&machine, ranks, variation), (turns, hash), "{ranks} ranks");
                }
            }
        }
    }
}

#[test]
fn without_variation_ranks_that_swap_keep_their_order() {
    assert_eq!(turns_of(&machine(&[]), 3, Variation::default()).0, 10 * TURNS_MAX);
}
