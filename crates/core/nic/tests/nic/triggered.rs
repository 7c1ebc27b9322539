// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Triggered operations against a model: the operations that fire, and their order.

use crate::common::{Home, TINY, TestBus, sane};
use proptest::prelude::*;
use selvedge_nic::Limits;
use selvedge_nic::portals::event_queue::Taken;
use selvedge_nic::portals::triggered::Action;
use selvedge_nic::portals::{Event, ack, event_kind, fail};
use selvedge_nic::tables::{Command, Request, Side, kind};

const COUNTERS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Work {
    Command,
    Set(usize, u64),
    /// Sets successes alone.
    Succeed(usize, u64),
    Increment(usize, u64),
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Arm {
        counter: usize,
        threshold: u64,
        work: Work,
    },
    Count {
        counter: usize,
        success: u64,
        failure: u64,
    },
    Set {
        counter: usize,
        success: u64,
    },
    Cancel(usize),
    /// Cancels one of the armed operations, if it still waits.
    CancelOne(usize),
    /// Executes this number of due operations.
    Run(usize),
    /// Takes one operation and returns it.
    Return,
    Recover,
}

#[derive(Clone, Copy, Debug)]
struct Armed {
    counter: usize,
    threshold: u64,
    work: Work,
    number: u64,
}

/// Operations in lists that are sorted at each look-up.
#[derive(Default)]
struct Model {
    counters: [(u64, u64); COUNTERS],
    armed: Vec<Armed>,
    due: Vec<Armed>,
    /// Operations taken and not finished.
    firing: usize,
}

impl Model {
    fn changed(&mut self, counter: usize) {
        let (success, failure) = self.counters[counter];
        let is_due = |armed: &Armed| armed.counter == counter && success + failure >= armed.threshold;
        let mut due: Vec<Armed> = self.armed.iter().copied().filter(is_due).collect();
        due.sort_by_key(|armed| (armed.threshold, armed.number));
        self.armed.retain(|armed| !is_due(armed));
        self.due.extend(due);
    }

    fn count(&mut self, counter: usize, success: u64, failure: u64) {
        self.counters[counter].0 += success;
        self.counters[counter].1 += failure;
        self.changed(counter);
    }

    fn set(&mut self, counter: usize, success: u64) {
        self.counters[counter] = (success, 0);
        self.changed(counter);
    }

    /// The number of the next operation that moves data; those before it are done.
    fn next(&mut self) -> Option<u64> {
        while !self.due.is_empty() {
            let first = self.due.remove(0);
            match first.work {
                Work::Command => return Some(first.number),
                Work::Set(counter, success) => self.set(counter, success),
                Work::Succeed(counter, success) => {
                    self.counters[counter].0 = success;
                    self.changed(counter);
                }
                Work::Increment(counter, success) => self.count(counter, success, 0),
            }
        }
        None
    }
}

fn work() -> impl Strategy<Value = Work> {
    prop_oneof![
        3 => Just(Work::Command),
        1 => (0..COUNTERS, 0..6u64).prop_map(|(counter, success)| Work::Set(counter, success)),
        1 => (0..COUNTERS, 0..6u64).prop_map(|(counter, success)| Work::Succeed(counter, success)),
        2 => (0..COUNTERS, 0..3u64).prop_map(|(counter, success)| Work::Increment(counter, success)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..COUNTERS, 0..8u64, work()).prop_map(|(counter, threshold, work)| Op::Arm { counter, threshold, work }),
        6 => (0..COUNTERS, 0..4u64, 0..2u64)
            .prop_map(|(counter, success, failure)| Op::Count { counter, success, failure }),
        1 => (0..COUNTERS, 0..6u64).prop_map(|(counter, success)| Op::Set { counter, success }),
        1 => (0..COUNTERS).prop_map(Op::Cancel),
        3 => (0..80usize).prop_map(Op::CancelOne),
        4 => (1..4usize).prop_map(Op::Run),
        1 => Just(Op::Return),
        1 => Just(Op::Recover),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn thresholds_fire_in_order(ops in proptest::collection::vec(op(), 1..80)) {
        let limits = Limits { counters: COUNTERS as u32, triggered: 8, ..TINY };
        let mut home = Home::new(&limits);
        let mut bus = TestBus::default();
        let mut model = Model::default();
        let references: Vec<u32> = (0..COUNTERS).map(|_| home.nic().counters().alloc().expect("a counter")).collect();
        let mut handles = Vec::new();
        for (number, op) in (1u64..).zip(&ops) {
            match *op {
                Op::Arm { counter, threshold, work } => {
                    let full = model.armed.len() + model.due.len() + model.firing >= limits.triggered as usize;
                    let command =
                        Command { request: Request { kind: kind::PUT, ..Request::default() }, user_ptr: number, ..Command::default() };
                    let action = match work {
                        Work::Command => Action::Command(&command),
                        Work::Set(counter, success) => Action::CounterSet { counter: references[counter], success, failure: 0 },
                        Work::Succeed(counter, success) => Action::CounterSuccess { counter: references[counter], success },
                        Work::Increment(counter, success) => Action::CounterIncrement { counter: references[counter], success, failure: 0 },
                    };
                    prop_assert_eq!(home.nic().triggered().fit(1), !full);
                    let armed = home.nic().triggered().arm(references[counter], threshold, action);
                    prop_assert_eq!(armed.is_ok(), !full);
                    if let Ok(armed) = armed {
                        handles.push((number, armed));
                        model.armed.push(Armed { counter, threshold, work, number });
                        model.changed(counter);
                    }
                }
                Op::Count { counter, success, failure } => {
                    home.nic().counters().increment(references[counter], success, failure);
                    model.count(counter, success, failure);
                }
                Op::Set { counter, success } => {
                    home.nic().counters().set(references[counter], success, 0);
                    model.set(counter, success);
                }
                Op::Cancel(counter) => {
                    prop_assert_eq!(home.nic().triggered().cancel_all(references[counter]), Some(()));
                    model.armed.retain(|armed| armed.counter != counter);
                }
                Op::CancelOne(which) => {
                    let Some(&(number, armed)) = handles.get(which % handles.len().max(1)) else { continue };
                    let waits = model.armed.iter().any(|armed| armed.number == number);
                    prop_assert_eq!(home.nic().triggered().is_armed(armed), waits);
                    prop_assert_eq!(home.nic().triggered().cancel(armed), waits);
                    model.armed.retain(|armed| armed.number != number);
                }
                Op::Run(count) => {
                    for _ in 0..count {
                        let fired = home.nic().triggered().next_fired(&mut bus, 1).expect("no grants");
                        prop_assert_eq!(fired.map(|fired| fired.command.user_ptr), model.next());
                        let Some(fired) = fired else { break };
                        home.nic().triggered().finish_fired(fired.index);
                    }
                }
                Op::Return => {
                    let fired = home.nic().triggered().next_fired(&mut bus, 1).expect("no grants");
                    let next = model.next();
                    prop_assert_eq!(fired.map(|fired| fired.command.user_ptr), next);
                    if let Some(fired) = fired {
                        home.nic().triggered().return_fired(fired.index);
                        let work = Work::Command;
                        model.due.insert(0, Armed { counter: 0, threshold: 0, work, number: fired.command.user_ptr });
                    }
                }
                Op::Recover => {
                    // Due operations keep their order only among those that were armed in it: run them first.
                    while let Some(fired) = home.nic().triggered().next_fired(&mut bus, 1).expect("no grants") {
                        prop_assert_eq!(Some(fired.command.user_ptr), model.next());
                        home.nic().triggered().finish_fired(fired.index);
                    }
                    prop_assert_eq!(model.next(), None);
                    home.nic().recover(&mut bus, |_| true);
                }
            }
            let mut nic = home.nic();
            sane::assert_sane(&mut nic);
            prop_assert_eq!(nic.has_fired(), !model.due.is_empty());
            for (reference, counts) in references.iter().zip(model.counters) {
                use std::sync::atomic::Ordering::Acquire;
                let counter = nic.signals.counter(*reference).expect("the counter lives");
                prop_assert_eq!((counter.success.load(Acquire), counter.failure.load(Acquire)), counts);
            }
        }
    }
}

/// The process that fails the operations of a dead one dies, too, before it has freed their slot.
#[test]
fn an_operation_fails_once_even_if_the_process_that_fails_it_dies() {
    const EXECUTOR: u64 = 7;
    let mut home = Home::new(&TINY);
    let mut bus = TestBus::default();
    let queue = home.nic().queues().alloc(8).expect("room");
    let counter = home.nic().counters().alloc().expect("room");
    let source = Side { queue, counter: u32::MAX, ..Side::default() };
    let request = Request { kind: kind::PUT, length: 8, ack: ack::FULL, ..Request::default() };
    let command = Command { request, source, ..Command::default() };
    home.nic().triggered().arm(counter, 1, Action::Command(&command)).expect("room");
    home.nic().counters().increment(counter, 1, 0);
    let fired = home.nic().triggered().next_fired(&mut bus, EXECUTOR).expect("no grants").expect("it is due");
    let firing = home.nic().tables.triggered[fired.index as usize].slot;

    let mut kinds = Vec::new();
    for _ in 0..3 {
        home.nic().recover(&mut bus, |process| process != EXECUTOR);
        while let Taken::Event(Event { kind, fail: code, .. }, _) = home.nic().signals.take_event(queue) {
            assert_eq!(code, fail::UNDELIVERABLE);
            kinds.push(kind);
        }
        home.nic().tables.triggered[fired.index as usize].slot = firing;
    }
    assert_eq!(kinds, [event_kind::SEND, event_kind::ACK]);
}
