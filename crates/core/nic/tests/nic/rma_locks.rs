// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Locks of the RMA unit: fetch, compare and add (seed 002, section 7.5.4).
//!
//! 1. The operation against its definition, on all boundary values.
//! 2. Kept requests against a plain list that is retried, oldest first.
//! 3. The protocols of tables 7-3 to 7-6: their guarantees, and their gaps.

use std::sync::atomic::Ordering::Relaxed;

use crate::common::rma::{fresh, lasting_words, limits};
use crate::common::{Home, TestBus};
use proptest::prelude::*;
use selvedge_nic::portals::{Delivery, Verdict, fail};
use selvedge_nic::rma::locks::LockVerdict;
use selvedge_nic::rma::{LockRequest, LockResult, NoLock, Notification, code, options, spec};
use selvedge_nic::tables::{LOCKS, LockWaiter, Request, kind, lock_waiter, slot};
use selvedge_nic::velo::PortId;
use selvedge_nic::{Asker, Bus, Nic, NoMemory, Register};

fn home(lock_waiters: u32) -> Home {
    let mut home = fresh(&limits(3, 2, 0, lock_waiters));
    (0..2).for_each(|vpid| _ = home.nic().ports().open(Some(vpid), 0).expect("it is free"));
    home
}

/// A request that may be kept, of port 0 of node 3.
fn keep(nic: &mut Nic<'_>, request: &LockRequest, token: u64) -> Result<LockVerdict, NoLock> {
    nic.locks().request_or_keep(&mut NoMemory, request, LockWaiter { source: 3 << 16, token, ..LockWaiter::default() })
}

fn answers(nic: &mut Nic<'_>) -> Vec<(u64, Delivery)> {
    let mut taken = Vec::new();
    assert_eq!(nic.has_fired(), nic.tables.control.answers != 0);
    while let Some(answer) = nic.locks().next_answer(1, |_| true) {
        nic.locks().finish_answer(answer.index, answer.sequence);
        taken.push((answer.asker.token, answer.delivery));
    }
    assert!(!nic.has_fired() && nic.signals.doorbell.fired.load(Relaxed) == 0);
    taken.sort_by_key(|(token, _)| *token);
    taken
}

fn success(value: i32) -> Delivery {
    Delivery { remote_offset: u64::from(value as u32) | 1 << 32, ..Delivery::failed(fail::OK) }
}

fn request(number: u32, compare: i32, add: i32) -> LockRequest {
    LockRequest { vpid: 1, number, compare, add }
}

fn defined(lock: &mut i32, compare: i32, add: i32) -> LockResult {
    let success = *lock <= compare;
    if success {
        *lock = lock.wrapping_add(add);
    }
    LockResult { value: *lock, success }
}

#[test]
fn all_boundary_values() {
    let values = [i32::MIN, i32::MIN + 1, -2, -1, 0, 1, 2, i32::MAX - 1, i32::MAX];
    let (mut home, mut bus) = (home(0), TestBus::default());
    let mut nic = home.nic();
    let last = LOCKS as u32 - 1;
    for value in values {
        for compare in values {
            for add in values {
                let mut model = value;
                let expected = defined(&mut model, compare, add);
                // By a call, and by a command.
                nic.tables.locks[LOCKS] = value as u32;
                nic.tables.locks[2 * LOCKS - 1] = value as u32;
                assert_eq!(
                    nic.locks().request(&mut NoMemory, &request(0, compare, add)),
                    Ok(expected),
                    "{value} {compare} {add}"
                );
                let command = Request {
                    kind: kind::RMA_LOCK,
                    datatype: code::LOCK,
                    operation: spec::COMPLETER,
                    portal: 1,
                    remote_offset: last.into(),
                    operand: [u64::from(compare as u32) << 32 | u64::from(add as u32), 0, 0, 0],
                    ..Request::default()
                };
                let Verdict::Done(delivery) = nic.deliver(&mut bus, &command) else { panic!("a lock needs no memory") };
                let answer = u64::from(expected.value as u32) | u64::from(expected.success) << 32;
                assert_eq!((delivery.fail, delivery.remote_offset), (fail::OK, answer));
                assert_eq!([nic.tables.locks[LOCKS], nic.tables.locks[2 * LOCKS - 1]], [model as u32; 2]);
            }
        }
    }
    assert!(nic.tables.locks[..LOCKS].iter().all(|&lock| lock == 0), "another port's locks");
}

#[test]
fn what_is_no_lock_is_refused() {
    let mut home = home(1);
    let before = lasting_words(&mut home);
    for (vpid, number) in [(1, LOCKS as u32), (1, u32::MAX), (2, 0), (3, 0), (u16::MAX, 0)] {
        let request = LockRequest { vpid, number, compare: 0, add: 1 };
        assert_eq!(home.nic().locks().request(&mut NoMemory, &request), Err(NoLock));
        assert_eq!(keep(&mut home.nic(), &request, 1), Err(NoLock));
        assert_eq!(home.nic().locks().next_answer(1, |_| true), None);
    }
    for remote_offset in [LOCKS as u64, 1 << 24, 1 << 32, u64::MAX] {
        let command = Request { kind: kind::RMA_LOCK, portal: 1, remote_offset, ..Request::default() };
        let verdict = home.nic().deliver(&mut TestBus::default(), &command);
        assert_eq!(verdict, Verdict::Done(Delivery::failed(fail::SEGV)));
    }
    assert!(lasting_words(&mut home) == before);
    assert_eq!(home.nic().signals.register(Register::ResponderLocks), 0);
}

// ---- kept requests ----

const WAITERS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Op {
    Request(LockRequest),
    /// Requests whose token has this remainder.
    Forget(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let request = (0..2u16, 0..2u32, -3..4i32, -3..4i32)
        .prop_map(|(vpid, number, compare, add)| Op::Request(LockRequest { vpid, number, compare, add }));
    prop_oneof![12 => request, 1 => (0..3u64).prop_map(Op::Forget)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn kept_requests_are_tried_again_oldest_first(ops in prop::collection::vec(op(), 1..80)) {
        let mut home = home(WAITERS as u32);
        let mut nic = home.nic();
        let mut locks = [[0i32; 2]; 2];
        let mut kept: Vec<(LockRequest, u64)> = Vec::new();
        for (token, op) in (0u64..).zip(&ops) {
            let request = match op {
                Op::Request(request) => request,
                Op::Forget(rest) => {
                    nic.locks().forget_waiters(|waiter| waiter.token % 3 == *rest);
                    kept.retain(|(_, token)| token % 3 != *rest);
                    continue;
                }
            };
            let lock = &mut locks[usize::from(request.vpid)][request.number as usize];
            let result = defined(lock, request.compare, request.add);
            let expected = if result.success || kept.len() == WAITERS {
                LockVerdict::Answered(result)
            } else {
                kept.push((*request, token));
                LockVerdict::Kept
            };
            prop_assert_eq!(keep(&mut nic, request, token), Ok(expected));
            // The same lock only: no other has changed. A request that has just been kept does not succeed.
            let mut released = Vec::new();
            let same = |other: &LockRequest| (other.vpid, other.number) == (request.vpid, request.number);
            while let Some(at) = kept.iter().position(|(other, _)| same(other) && *lock <= other.compare) {
                let (released_now, token) = kept.remove(at);
                released.push((token, success(defined(lock, released_now.compare, released_now.add).value)));
            }
            released.sort_by_key(|(token, _)| *token);
            prop_assert_eq!(answers(&mut nic), released);
            for (vpid, of_port) in locks.iter().enumerate() {
                for (number, lock) in of_port.iter().enumerate() {
                    prop_assert_eq!(nic.tables.locks[vpid * LOCKS + number] as i32, *lock);
                }
            }
        }
        prop_assert_eq!(nic.tables.lock_waiters.iter().filter(|waiter| waiter.sequence != 0).count(), kept.len());
    }
}

#[test]
fn a_full_table_answers_at_once() {
    let mut home = home(2);
    let failing = request(5, -1, 1);
    for token in 0..2 {
        assert_eq!(keep(&mut home.nic(), &failing, token), Ok(LockVerdict::Kept));
    }
    let before = lasting_words(&mut home);
    let failed = LockResult { value: 0, success: false };
    assert_eq!(keep(&mut home.nic(), &failing, 2), Ok(LockVerdict::Answered(failed)));
    assert!(lasting_words(&mut home) == before);
    home.nic().locks().forget_waiters(|waiter| waiter.token == 0);
    assert_eq!(keep(&mut home.nic(), &failing, 3), Ok(LockVerdict::Kept));
    home.nic().locks().request(&mut NoMemory, &request(5, 0, -1)).expect("it exists");
    assert_eq!(home.nic().tables.locks[LOCKS + 5] as i32, 0, "one of the two has succeeded");
    let first = home.nic().locks().next_answer(1, |_| true).expect("both succeed");
    assert_eq!((first.asker.token, first.delivery), (1, success(0)), "the oldest, not the first record");
}

/// A hostile process gave a kept request the last number: no later one is kept, and nothing panics.
#[test]
fn numbers_of_kept_requests_run_out() {
    let mut home = home(2);
    let mut nic = home.nic();
    nic.tables.lock_waiters[1].sequence = u64::MAX;
    let answered = LockVerdict::Answered(LockResult { value: 0, success: false });
    assert_eq!(keep(&mut nic, &request(0, -1, 0), 7), Ok(answered));
}

// ---- MPI_Lock and MPI_Unlock: tables 7-3 and 7-4 ----

const PROCESSES: i32 = 3;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Process {
    Idle,
    /// Its request is kept.
    Waits {
        exclusive: bool,
    },
    Holds {
        exclusive: bool,
    },
}

fn lock_request(exclusive: bool) -> LockRequest {
    if exclusive { request(0, 0, PROCESSES + 1) } else { request(0, PROCESSES, 1) }
}

fn unlock_request(exclusive: bool) -> LockRequest {
    request(0, i32::MAX, if exclusive { -(PROCESSES + 1) } else { -1 })
}

/// At most one exclusive holder, then no other holder; the variable is as in table 7-4.
fn check(nic: &Nic<'_>, processes: &[Process]) {
    let holders = |exclusive| processes.iter().filter(|&&process| process == Process::Holds { exclusive }).count();
    let (exclusive, shared) = (holders(true), holders(false));
    assert!(exclusive == 0 || (exclusive, shared) == (1, 0), "{processes:?}");
    let expected = if exclusive == 1 { PROCESSES + 1 } else { shared as i32 };
    assert_eq!(nic.tables.locks[LOCKS] as i32, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn an_exclusive_holder_is_alone(
        steps in prop::collection::vec((0..PROCESSES as usize, any::<bool>()), 1..100),
        lock_waiters in 0..4u32,
    ) {
        let mut home = home(lock_waiters);
        let mut nic = home.nic();
        let mut processes = [Process::Idle; PROCESSES as usize];
        for (number, exclusive) in steps {
            match processes[number] {
                Process::Idle => {
                    let verdict = keep(&mut nic, &lock_request(exclusive), number as u64).expect("it exists");
                    processes[number] = match verdict {
                        LockVerdict::Answered(LockResult { success: true, .. }) => Process::Holds { exclusive },
                        LockVerdict::Answered(_) => Process::Idle,
                        LockVerdict::Kept => Process::Waits { exclusive },
                    };
                }
                Process::Waits { .. } => continue,
                Process::Holds { exclusive } => {
                    let result = nic.locks().request(&mut NoMemory, &unlock_request(exclusive)).expect("it exists");
                    prop_assert!(result.success, "an unlock always succeeds");
                    processes[number] = Process::Idle;
                }
            }
            for (token, delivery) in answers(&mut nic) {
                let Process::Waits { exclusive } = processes[token as usize] else { panic!("it does not wait") };
                prop_assert_eq!((delivery.fail, delivery.remote_offset >> 32), (fail::OK, 1));
                processes[token as usize] = Process::Holds { exclusive };
            }
            check(&nic, &processes);
            // A free lock has no waiters.
            let waits = processes.iter().any(|process| matches!(process, Process::Waits { .. }));
            prop_assert!(!waits || nic.tables.locks[LOCKS] != 0);
        }
    }
}

// ---- MPI_Post, MPI_Start, MPI_Complete and MPI_Wait: tables 7-5 and 7-6 ----

#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    Post,
    Start,
    Complete,
    Wait,
}

/// In order, with the state of the variable in which each is right: idle, posted, started, completed.
const CALLS: [(Call, i32, LockRequest); 4] = [
    (Call::Post, 3, LockRequest { vpid: 1, number: 0, compare: 3, add: -1 }),
    (Call::Start, 2, LockRequest { vpid: 1, number: 0, compare: 2, add: -1 }),
    (Call::Complete, 1, LockRequest { vpid: 1, number: 0, compare: 1, add: -1 }),
    (Call::Wait, 0, LockRequest { vpid: 1, number: 0, compare: 0, add: 3 }),
];

/// In order all calls succeed. A call that comes too early fails and changes nothing. A call that comes too late
/// succeeds: the comparison is "at most".
#[test]
fn calls_of_an_epoch_cannot_come_too_early_but_too_late() {
    let mut home = home(0);
    let mut nic = home.nic();
    for (_, state, _) in CALLS {
        for (call, right, request) in CALLS {
            nic.tables.locks[LOCKS] = state as u32;
            let result = nic.locks().request(&mut NoMemory, &request).expect("it exists");
            assert_eq!(result.success, state <= right, "{call:?} in state {state}");
            if state > right {
                assert_eq!(nic.tables.locks[LOCKS] as i32, state);
            }
        }
    }
    nic.tables.locks[LOCKS] = 3;
    for round in 0..3 {
        for (call, state, request) in CALLS {
            assert_eq!(nic.tables.locks[LOCKS] as i32, state, "round {round}, before {call:?}");
            assert!(nic.locks().request(&mut NoMemory, &request).expect("it exists").success);
        }
    }
}

/// A gap that the protocol leaves to the program. An origin that starts its next epoch before the target has called
/// wait succeeds without a post. After the wait the variable means "posted", so complete fails for ever, and a third
/// start succeeds. So an origin must learn by other means that the target has called wait or post again.
#[test]
fn a_start_before_the_wait_is_not_prevented() {
    let mut home = home(0);
    let mut nic = home.nic();
    let mut call = |at: usize| nic.locks().request(&mut NoMemory, &CALLS[at].2).expect("it exists");
    let (post, start, complete, wait) = (0, 1, 2, 3);
    nic_sets_idle(&mut call);
    for at in [post, start, complete] {
        assert!(call(at).success);
    }
    assert_eq!(call(start), LockResult { value: -1, success: true }, "without a post");
    assert_eq!(call(wait), LockResult { value: 2, success: true }, "as if the target had posted");
    assert_eq!(call(complete), LockResult { value: 2, success: false }, "the origin can not end its epoch");
    assert_eq!(call(start), LockResult { value: 1, success: true });
    // Two completes of one epoch cannot be distinguished from those of two either.
    assert!(call(complete).success && call(complete).success);
    assert_eq!(call(wait), LockResult { value: 2, success: true }, "the target gets a post that it never made");
}

/// The variable is 0 at first, which is the state after complete: wait makes it idle.
fn nic_sets_idle(call: &mut impl FnMut(usize) -> LockResult) {
    assert_eq!(call(3), LockResult { value: 3, success: true });
}

// ---- kept requests as commands ----

/// A bus that names the initiator of a request. Process 9 is dead.
#[derive(Default)]
struct Named {
    token: u64,
    process: u64,
}

impl Bus for Named {
    fn asker(&mut self) -> Option<Asker> {
        Some(Asker { origin: 40, process: self.process, token: self.token })
    }
    fn is_alive(&mut self, process: u64) -> bool {
        process != 9
    }
}

fn named(token: u64, process: u64) -> Named {
    Named { token, process }
}

fn lock_command(node: u64, compare: i32, add: i32, operation: u8) -> Request {
    let operands = u64::from(compare as u32) << 32 | u64::from(add as u32);
    let (kind, portal) = (kind::RMA_LOCK, 1);
    let operand = [operands, 0, 0, 0];
    Request { kind, datatype: code::LOCK, operation, portal, initiator: node, operand, ..Request::default() }
}

/// Port 1 keeps requests, if it has the option.
fn keeping(records: u32, options: u32) -> Home {
    let mut home = fresh(&limits(3, 4, 0, records));
    home.nic().ports().open(Some(1), options).expect("it is free");
    home
}

#[test]
fn a_request_is_kept_by_a_port_with_the_option_for_a_home_that_names_its_initiator() {
    let request = lock_command(5, -1, 1, spec::COMPLETER);
    let failed = Verdict::Done(Delivery::failed(fail::OK));
    for (records, option, is_kept) in [(1, options::KEEP_LOCKS, true), (1, 0, false), (0, options::KEEP_LOCKS, false)] {
        let mut home = keeping(records, option);
        let verdict = home.nic().deliver(&mut named(7, 0), &request);
        assert_eq!(verdict, if is_kept { Verdict::Kept } else { failed }, "{records} {option}");
        assert_eq!(keeping(records, option).nic().deliver(&mut NoMemory, &request), failed);
    }
}

#[test]
fn an_answer_is_sent_once_by_a_living_process() {
    let mut home = keeping(2, options::KEEP_LOCKS);
    let mut nic = home.nic();
    assert_eq!(nic.deliver(&mut named(7, 3), &lock_command(5, -1, 10, spec::ALL)), Verdict::Kept);
    assert!(!nic.has_fired() && nic.locks().next_answer(1, |_| true).is_none());
    assert_eq!(nic.deliver(&mut named(8, 3), &lock_command(6, 0, -1, 0)), Verdict::Done(success(-1)));
    assert!(nic.has_fired());
    let told = nic.signals.take_notification(1, &mut 0).map(Notification::decode).expect("the target is informed");
    assert_eq!((told.unit, told.code, told.node, told.vpid), (spec::RESPONDER, code::LOCK_REQ, 5, 0));
    assert_eq!((told.word0 >> 32, told.word0 >> 24 & 1), (9, 1));
    let answer = nic.locks().next_answer(1, |_| true).expect("it is due");
    assert_eq!((answer.asker, answer.delivery), (Asker { origin: 40, process: 3, token: 7 }, success(9)));
    assert_eq!(nic.locks().next_answer(2, |process| process == 1), None, "process 1 sends it");
    let again = nic.locks().next_answer(2, |process| process == 2).expect("process 1 has died");
    assert_eq!((again.asker, again.delivery), (answer.asker, answer.delivery));
    nic.locks().finish_answer(again.index, again.sequence + 1);
    assert_eq!(nic.locks().next_answer(3, |_| false).map(|same| same.sequence), Some(again.sequence));
    nic.locks().finish_answer(again.index, again.sequence);
    assert_eq!(nic.locks().next_answer(3, |_| false), None);
    assert!(nic.tables.lock_waiters.iter().all(|waiter| waiter.sequence == 0) && !nic.has_fired());
}

#[test]
fn the_dead_are_passed_over() {
    let mut home = keeping(3, options::KEEP_LOCKS);
    let mut nic = home.nic();
    for (token, process) in [(1, 9), (2, 3), (3, 9)] {
        assert_eq!(nic.deliver(&mut named(token, process), &lock_command(5, -1, 10, 0)), Verdict::Kept);
    }
    nic.deliver(&mut named(4, 3), &lock_command(6, 0, -1, 0));
    assert_eq!(answers(&mut nic), [(2, success(9))]);
    nic.deliver(&mut named(4, 3), &lock_command(6, i32::MAX, -20, 0));
    assert_eq!(answers(&mut nic), []);
    assert_eq!(nic.tables.locks[LOCKS] as i32, -11, "no dead process gets the lock");
}

/// Requests for a closed port's locks, and those that a port withdraws, are refused; others still wait.
#[test]
fn closing_a_port_ends_its_waits() {
    let mut home = keeping(4, options::KEEP_LOCKS);
    let mut nic = home.nic();
    let refused = Delivery::failed(fail::UNDELIVERABLE);
    let of_port = |node, port: u32| Request { portal: 1 | port << 16, ..lock_command(node, -1, 10, 0) };
    for (token, request) in [(1, of_port(5, 2)), (2, of_port(5, 3)), (3, of_port(6, 2)), (4, of_port(5, 2))] {
        assert_eq!(nic.deliver(&mut named(token, 3), &request), Verdict::Kept);
    }
    let withdrawal = Request { operand: [0, 1, 0, 0], ..of_port(5, 2) };
    assert_eq!(nic.deliver(&mut named(5, 3), &withdrawal), Verdict::Done(Delivery::failed(fail::OK)));
    assert_eq!(answers(&mut nic), [(1, refused), (4, refused)]);
    let generation = slot::generation(nic.tables.ports[1].slot);
    nic.ports().close(PortId { vpid: 1, generation }).expect("it is open");
    assert_eq!(answers(&mut nic), [(2, refused), (3, refused)]);
    nic.ports().open(Some(1), options::KEEP_LOCKS).expect("it is free");
    nic.deliver(&mut named(6, 3), &lock_command(6, 0, -1, 0));
    assert_eq!(answers(&mut nic), []);
}

/// A process that dies between any two stores of a change leaves a request that succeeds once, and is answered.
#[test]
fn recovery_finishes_what_a_dead_process_has_begun() {
    for (state, lock, token_of_answer) in [
        // The lock was changed, and nothing was retried.
        (lock_waiter::WAITS, 0, Some(20)),
        (lock_waiter::WAITS, 5, None),
        // Before the lock's store, and after it.
        (lock_waiter::CHANGES, 0, Some(20)),
        (lock_waiter::CHANGES, 20, Some(20)),
        (lock_waiter::DUE, 20, Some(20)),
        // Another request has changed it since.
        (lock_waiter::DUE, 35, Some(20)),
        (lock_waiter::SENDING, 35, Some(20)),
    ] {
        let mut home = keeping(2, options::KEEP_LOCKS);
        let mut nic = home.nic();
        let kept = LockWaiter {
            sequence: 1,
            lock: LOCKS as u32,
            compare: 0,
            add: 20,
            value: if state == lock_waiter::WAITS { 0 } else { 20 },
            token: 7,
            executor: 2,
            state,
            ..LockWaiter::default()
        };
        nic.tables.lock_waiters[1] = kept;
        nic.tables.locks[LOCKS] = lock;
        nic.tables.control.answers = 77;
        nic.recover(&mut NoMemory, |process| process == 1);
        let expected: Vec<_> = token_of_answer.map(|value| (7, success(value))).into_iter().collect();
        let mut found = Vec::new();
        while let Some(answer) = nic.locks().next_answer(1, |process| process == 1) {
            nic.locks().finish_answer(answer.index, answer.sequence);
            found.push((answer.asker.token, answer.delivery));
        }
        assert_eq!(found, expected, "state {state}, lock {lock}");
        assert_eq!(nic.tables.locks[LOCKS], if lock == 0 { 20 } else { lock }, "state {state}, lock {lock}");
    }
}

/// A request for a port that was closed by a process that died then.
#[test]
fn recovery_refuses_what_waits_for_a_closed_port() {
    let mut home = keeping(2, options::KEEP_LOCKS);
    let mut nic = home.nic();
    assert_eq!(nic.deliver(&mut named(7, 3), &lock_command(5, -1, 10, 0)), Verdict::Kept);
    nic.tables.ports[1].slot = slot::word(1, slot::FREE);
    nic.recover(&mut NoMemory, |_| true);
    assert_eq!(answers(&mut nic), [(7, Delivery::failed(fail::UNDELIVERABLE))]);
}
