// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two ranks that take two locks in opposite order: they repeat for ever, except on hosts that vary.

use crate::common;

use common::machine;
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
