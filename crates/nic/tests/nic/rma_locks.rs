// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Locks of the RMA unit: fetch, compare and add (seed 002, section 7.5.4).
//!
//! 1. The operation against its definition, on all boundary values.
//! 2. Kept requests against a plain list that is tried again, oldest first.
//! 3. The protocols of tables 7-3 to 7-6: what they guarantee, and what they do not.

use crate::common::rma::{fresh, lasting_words, limits};
use crate::common::{Home, TestBus};
use proptest::prelude::*;
use selvedge_nic::portals::{Delivery, Verdict, fail};
use selvedge_nic::rma::locks::LockVerdict;
use selvedge_nic::rma::{LockRequest, LockResult, NoLock, code, spec};
use selvedge_nic::tables::{LOCKS, Request, kind};
use selvedge_nic::{Nic, Register};

fn home(lock_waiters: u32) -> Home {
    let mut home = fresh(&limits(3, 2, 0, lock_waiters));
    (0..2).for_each(|vpid| _ = home.nic().port_open(Some(vpid), 0).expect("it is free"));
    home
}

fn request(number: u32, compare: i32, add: i32) -> LockRequest {
    LockRequest { vpid: 1, number, compare, add }
}

/// The definition.
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
                assert_eq!(nic.lock_now(&request(0, compare, add)), Ok(expected), "{value} {compare} {add}");
                let command = Request {
                    kind: kind::RMA_LOCK,
                    datatype: code::LOCK,
                    operation: spec::COMPLETER,
                    portal: 1,
                    remote_offset: last.into(),
                    operand: [u64::from(compare as u32) << 32 | u64::from(add as u32), 0, 0, 0],
                    ..Request::default()
                };
                let Verdict::Done(delivery) = nic.deliver(&mut bus, &command) else { panic!("it needs no memory") };
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
        assert_eq!(home.nic().lock_now(&request), Err(NoLock));
        assert_eq!(home.nic().lock_or_keep(&request, 1), Err(NoLock));
        assert_eq!(home.nic().next_released(vpid, number), None);
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
                    nic.forget_waiters(|token| token % 3 == *rest);
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
            prop_assert_eq!(nic.lock_or_keep(request, token), Ok(expected));
            // The same lock only: no other has changed. Bounded, because requests that add less than 1 to each other end.
            loop {
                let same = |other: &LockRequest| (other.vpid, other.number) == (request.vpid, request.number);
                let oldest = kept.iter().position(|(other, _)| same(other) && *lock <= other.compare);
                let expected = oldest.map(|at| {
                    let (released, token) = kept.remove(at);
                    (token, defined(lock, released.compare, released.add))
                });
                prop_assert_eq!(nic.next_released(request.vpid, request.number), expected);
                if expected.is_none() {
                    break;
                }
            }
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
        assert_eq!(home.nic().lock_or_keep(&failing, token), Ok(LockVerdict::Kept));
    }
    let before = lasting_words(&mut home);
    let failed = LockResult { value: 0, success: false };
    assert_eq!(home.nic().lock_or_keep(&failing, 2), Ok(LockVerdict::Answered(failed)));
    assert!(lasting_words(&mut home) == before);
    home.nic().forget_waiters(|token| token == 0);
    assert_eq!(home.nic().lock_or_keep(&failing, 3), Ok(LockVerdict::Kept));
    home.nic().lock_now(&request(5, 0, -1)).expect("it exists");
    assert_eq!(home.nic().next_released(1, 5).map(|(token, _)| token), Some(1), "the oldest, not the first record");
}

/// A hostile process gave a kept request the last number: no later one is kept, and nothing panics.
#[test]
fn numbers_of_kept_requests_run_out() {
    let mut home = home(2);
    let mut nic = home.nic();
    nic.tables.lock_waiters[1].sequence = u64::MAX;
    let answered = LockVerdict::Answered(LockResult { value: 0, success: false });
    assert_eq!(nic.lock_or_keep(&request(0, -1, 0), 7), Ok(answered));
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

/// At most one exclusive holder, and nobody beside it; the variable is as in table 7-4.
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
                    let verdict = nic.lock_or_keep(&lock_request(exclusive), number as u64).expect("it exists");
                    processes[number] = match verdict {
                        LockVerdict::Answered(LockResult { success: true, .. }) => Process::Holds { exclusive },
                        LockVerdict::Answered(_) => Process::Idle,
                        LockVerdict::Kept => Process::Waits { exclusive },
                    };
                }
                Process::Waits { .. } => continue,
                Process::Holds { exclusive } => {
                    let result = nic.lock_now(&unlock_request(exclusive)).expect("it exists");
                    prop_assert!(result.success, "an unlock always succeeds");
                    processes[number] = Process::Idle;
                }
            }
            check(&nic, &processes);
            while let Some((token, result)) = nic.next_released(1, 0) {
                let Process::Waits { exclusive } = processes[token as usize] else { panic!("it does not wait") };
                prop_assert!(result.success);
                processes[token as usize] = Process::Holds { exclusive };
                check(&nic, &processes);
            }
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

/// In their order, with the state of the variable in which each is right: idle, posted, started, completed.
const CALLS: [(Call, i32, LockRequest); 4] = [
    (Call::Post, 3, LockRequest { vpid: 1, number: 0, compare: 3, add: -1 }),
    (Call::Start, 2, LockRequest { vpid: 1, number: 0, compare: 2, add: -1 }),
    (Call::Complete, 1, LockRequest { vpid: 1, number: 0, compare: 1, add: -1 }),
    (Call::Wait, 0, LockRequest { vpid: 1, number: 0, compare: 0, add: 3 }),
];

/// In their order all calls succeed. A call that comes too early fails and changes nothing. A call that comes too late
/// succeeds: the comparison is "at most".
#[test]
fn calls_of_an_epoch_cannot_come_too_early_but_too_late() {
    let mut home = home(0);
    let mut nic = home.nic();
    for (_, state, _) in CALLS {
        for (call, right, request) in CALLS {
            nic.tables.locks[LOCKS] = state as u32;
            let result = nic.lock_now(&request).expect("it exists");
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
            assert!(nic.lock_now(&request).expect("it exists").success);
        }
    }
}

/// What the protocol leaves to the program. An origin that starts its next epoch before the target has called wait
/// succeeds without a post. After the wait the variable says "posted", so complete fails for ever, and a third start
/// succeeds. So an origin must learn by other means that the target has called wait or post again.
#[test]
fn a_start_before_the_wait_is_not_prevented() {
    let mut home = home(0);
    let mut nic = home.nic();
    let mut call = |at: usize| nic.lock_now(&CALLS[at].2).expect("it exists");
    let (post, start, complete, wait) = (0, 1, 2, 3);
    nic_sets_idle(&mut call);
    for at in [post, start, complete] {
        assert!(call(at).success);
    }
    assert_eq!(call(start), LockResult { value: -1, success: true }, "nobody has posted");
    assert_eq!(call(wait), LockResult { value: 2, success: true }, "and it looks as if somebody had");
    assert_eq!(call(complete), LockResult { value: 2, success: false }, "the origin can not end its epoch");
    assert_eq!(call(start), LockResult { value: 1, success: true });
    // Two completes of one epoch are not told apart from those of two either.
    assert!(call(complete).success && call(complete).success);
    assert_eq!(call(wait), LockResult { value: 2, success: true }, "the target gets a post that it never made");
}

/// The variable is 0 at first, which is the state after complete: wait makes it idle.
fn nic_sets_idle(call: &mut impl FnMut(usize) -> LockResult) {
    assert_eq!(call(3), LockResult { value: 3, success: true });
}
