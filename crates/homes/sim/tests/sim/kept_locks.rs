// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lock requests that a simulated NIC keeps (seed 002, section 7.5.4): fewer messages than polling, the order of
//! arrival, equal runs, and the effect of a death.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use selvedge_nic::rma::{Operation, code, error, spec};
use selvedge_sim::machine::Machine;
use selvedge_sim::machine::load::load_with;
use selvedge_sim::node::{Death, End, Model, Options, Outcome, Simulation};
use selvedge_sim::program::{Body, Needs, Process, Tasks};
use selvedge_sim::time::Time;

const NEEDS: Needs = Needs {
    memory_bytes: 1 << 16,
    receives: 8,
    unexpected: 8,
    windows: 1,
    triggered: 0,
    eager_bytes_max: 1 << 16,
    units: true,
    groups: 0,
};

const LOCK: u32 = 3;
const HELD: Time = Time::from_ns(20_000);

fn machine(lock_waiters: &str) -> Arc<Machine> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../machines/extoll-ht400.toml");
    let overrides = [("limits.lock_waiters".to_owned(), lock_waiters.to_owned())];
    Arc::new(load_with(&file, &overrides).unwrap_or_else(|error| panic!("{error}")))
}

/// Notes of ranks: time, rank, value.
type Notes = Rc<RefCell<Vec<(Time, u32, u32)>>>;

fn run(
    lock_waiters: &str,
    model: Model,
    deaths: Vec<Death>,
    body: impl Fn(Process, Notes) -> Body,
) -> (Notes, Outcome) {
    let (machine, notes) = (machine(lock_waiters), Notes::default());
    let tasks = Tasks::new(4, &machine, &NEEDS, |process| body(process, Rc::clone(&notes)));
    let options = Options { network: model, deaths, keep_going: true, ..Options::default() };
    let mut simulation = Simulation::new(machine, tasks, options).unwrap();
    let outcome = simulation.run(&mut |_| true);
    assert_eq!(outcome.end, End::Completed);
    (notes, outcome)
}

/// Makes a lock request at rank 0; returns its answer: success, or the units that refuse it.
async fn ask(process: &Process, compare: i32, add: i32) -> Result<bool, u8> {
    let operation = Operation::Lock { number: LOCK, compare, add };
    process.rma_post(0, operation, code::LOCK, spec::COMPLETER, false).await;
    let answer = process.rma_notification().await;
    if answer.error == 0 { Ok(answer.word0 >> 24 & 1 != 0) } else { Err(answer.error) }
}

/// Takes the lock, holds it for a while, and notes the time at which it has the lock and the number of requests.
async fn critical(process: Process, notes: Notes) -> i32 {
    process.compute(Time::from_ns(1_000 * u64::from(process.rank()))).await;
    let mut asked = 1;
    while ask(&process, 0, 5).await != Ok(true) {
        asked += 1;
    }
    notes.borrow_mut().push((process.now(), process.rank(), asked));
    process.compute(HELD).await;
    assert_eq!(ask(&process, i32::MAX, -5).await, Ok(true));
    0
}

#[test]
fn waiters_get_the_lock_in_order_with_one_request_each() {
    for model in [Model::Packet, Model::Message] {
        let (notes, kept) = run("4", model, Vec::new(), |process, notes| Box::pin(critical(process, notes)));
        let found: Vec<(u32, u32)> = notes.borrow().iter().map(|&(_, rank, asked)| (rank, asked)).collect();
        assert_eq!(found, [(0, 1), (1, 1), (2, 1), (3, 1)]);
        let times: Vec<Time> = notes.borrow().iter().map(|(at, ..)| *at).collect();
        assert!(times.windows(2).all(|pair| pair[1] >= pair[0] + HELD), "one holder at a time: {times:?}");
        // Two requests and two answers of each rank.
        assert_eq!((kept.statistics.messages, kept.statistics.responses), (8, 8));
        let (_, polled) = run("0", model, Vec::new(), |process, notes| Box::pin(critical(process, notes)));
        assert!(polled.statistics.messages > 4 * kept.statistics.messages, "{}", polled.statistics.messages);
    }
}

#[test]
fn a_run_with_kept_requests_is_the_same_each_time() {
    let once = || {
        let (notes, outcome) = run("2", Model::Packet, Vec::new(), |process, notes| Box::pin(critical(process, notes)));
        (notes.take(), outcome.statistics.hash, outcome.time)
    };
    assert_eq!(once(), once());
}

/// A machine that gives no number keeps none: the run is that of a machine with 0.
#[test]
fn none_is_kept_if_the_machine_does_not_say_so() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../machines/extoll-ht400.toml");
    assert_eq!(load_with(&file, &[]).unwrap().limits.lock_waiters, None);
    let many = [("limits.lock_waiters".to_owned(), "1025".to_owned())];
    let wrong = load_with(&file, &many).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(wrong.contains("lock_waiters"), "{wrong}");
}

/// Rank 1 holds the lock, rank 2 waits, rank 3 waits behind it.
async fn waiting(process: Process, notes: Notes) -> i32 {
    let rank = process.rank();
    process.compute(Time::from_ns(10_000 * u64::from(rank))).await;
    if rank == 0 {
        process.compute(Time::from_ns(200_000)).await;
        return 0;
    }
    let got = ask(&process, 0, 5).await;
    let word = got.map_or_else(u32::from, |success| 100 + u32::from(success));
    notes.borrow_mut().push((process.now(), rank, word));
    if rank == 1 {
        process.compute(Time::from_ns(90_000)).await;
        assert_eq!(ask(&process, i32::MAX, -5).await, Ok(true));
    }
    0
}

#[test]
fn a_waiter_that_dies_is_passed_over() {
    let deaths = vec![Death { at: Time::from_ns(60_000), rank: 2 }];
    let (notes, _) = run("2", Model::Packet, deaths, |process, notes| Box::pin(waiting(process, notes)));
    let found: Vec<(u32, u32)> = notes.borrow().iter().map(|&(_, rank, word)| (rank, word)).collect();
    assert_eq!(found, [(1, 101), (3, 101)]);
    assert!(notes.borrow()[1].0 > Time::from_ns(100_000), "not before the lock is free");
}

#[test]
fn waiters_of_a_home_that_dies_fail() {
    let deaths = vec![Death { at: Time::from_ns(60_000), rank: 0 }];
    let (notes, _) = run("2", Model::Packet, deaths, |process, notes| {
        Box::pin(async move {
            let rank = process.rank();
            process.compute(Time::from_ns(10_000 * u64::from(rank))).await;
            if rank == 0 {
                process.compute(Time::from_ns(200_000)).await;
                return 0;
            }
            let word = ask(&process, 0, 5).await.map_or_else(u32::from, |success| 100 + u32::from(success));
            notes.borrow_mut().push((process.now(), rank, word));
            0
        })
    });
    let mut found: Vec<(u32, u32)> = notes.borrow().iter().map(|&(_, rank, word)| (rank, word)).collect();
    // The nearer rank is refused first.
    found.sort_unstable();
    let refused = u32::from(error::RESPONDER);
    assert_eq!(found, [(1, 101), (2, refused), (3, refused)]);
    assert!(notes.borrow()[1].0 > Time::from_ns(60_000));
}
