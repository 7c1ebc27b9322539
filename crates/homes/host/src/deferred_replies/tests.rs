// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers to kept requests, when the process that should send them dies, and when too many requests are pending. One
//! process asks itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge_nic::rma::{Descriptor, LockRequest, Notification, Operation, Requester, code, options, spec};
use selvedge_nic::{Limits, NoMemory};
use tempfile::TempDir;

use super::*;
use crate::config::{Config, Mode, Path};
use crate::interface::ArenaRange;
use crate::shared_memory::SharedMemory;

const VPID: u16 = 1;
const LOCK: u32 = 3;
const DEAD: u64 = 0x7fff_fff0 << 32;

fn open(directory: &TempDir) -> Arc<Interface> {
    let (mode, path, directory) = (Mode::Nic, Path::Auto, directory.path().to_path_buf());
    let config = Config { mode, path, spin_ns: 10_000_000, nap_ns: 1_000_000, directory, nid: 0, token: 0 };
    let limits = Limits { pending: 1, vpids: 2, notifications: 16, lock_waiters: 2, ..Limits::NONE }.clamped();
    let interface = Interface::open(Box::new(SharedMemory), config, 0, 1, 0, &limits, ArenaRange::default());
    let interface = interface.expect("an interface");
    interface.lock().ports().open(Some(VPID), options::KEEP_LOCKS).expect("it is free");
    interface
}

fn ask(interface: &Interface, compare: i32, add: i32) {
    let operation = Operation::Lock { number: LOCK, compare, add };
    let (code, vpid, spec) = (code::LOCK, VPID as u8, spec::COMPLETER);
    let descriptor = Descriptor { code, node: 0, vpid, spec, modifiers: 0, operation };
    let from =
        Requester { node: 0, vpid: VPID, options: options::TE, prototype: false, target: interface.id(), uid: 0 };
    let command = interface.lock().rma().request(&mut NoMemory, &from, &descriptor).expect("it is a command");
    interface.start(&command).expect("there is room");
}

/// Returns the value and the success of the next answer.
fn next(interface: &Interface, taken: &mut u64) -> Option<(i32, bool)> {
    let notification = Notification::decode(interface.signals().take_notification(VPID, taken)?);
    assert_eq!((notification.code, notification.error), (code::LOCK_RSP, 0));
    Some(((notification.word0 >> 32) as i32, notification.word0 >> 24 & 1 != 0))
}

/// As `next`, for a program that polls.
fn awaited(interface: &Interface, taken: &mut u64) -> Option<(i32, bool)> {
    let give_up = Instant::now() + Duration::from_secs(120);
    while Instant::now() < give_up {
        interface.tick();
        interface.poll();
        if let Some(answer) = next(interface, taken) {
            return Some(answer);
        }
    }
    None
}

#[test]
fn a_kept_request_is_answered_by_the_process_that_frees_the_lock() {
    let directory = TempDir::new().expect("a directory");
    let (interface, mut taken) = (open(&directory), 0);
    ask(&interface, 0, 7);
    assert_eq!(next(&interface, &mut taken), Some((7, true)));
    ask(&interface, 0, 1);
    interface.poll();
    assert_eq!(next(&interface, &mut taken), None);
    ask(&interface, i32::MAX, -7);
    assert_eq!(next(&interface, &mut taken), Some((0, true)), "the answer to the request itself");
    assert_eq!(awaited(&interface, &mut taken), Some((1, true)));
    assert_eq!(interface.lock().pending().find(|_, _| true), None);
}

/// The process that frees the lock dies before it sends an answer, or while it does.
#[test]
fn an_answer_outlives_the_process_that_should_send_it() {
    let directory = TempDir::new().expect("a directory");
    let (interface, mut taken) = (open(&directory), 0);
    for is_sending in [false, true] {
        ask(&interface, 0, 7);
        assert_eq!(next(&interface, &mut taken), Some((7, true)));
        ask(&interface, 0, 1);
        {
            let mut nic = interface.lock();
            let free = LockRequest { vpid: VPID, number: LOCK, compare: i32::MAX, add: -7 };
            assert!(nic.locks().request(&mut NoMemory, &free).is_ok_and(|result| result.success));
            nic.tables.control.drainer = DEAD;
            assert!(!is_sending || nic.locks().next_answer(DEAD, |_| true).is_some());
        }
        assert_eq!(awaited(&interface, &mut taken), Some((1, true)), "sending: {is_sending}");
        let end = Instant::now() + Duration::from_millis(50);
        while Instant::now() < end {
            interface.tick();
            interface.poll();
            assert_eq!(next(&interface, &mut taken), None, "it is answered once");
        }
        ask(&interface, i32::MAX, -1);
        assert_eq!(next(&interface, &mut taken), Some((0, true)));
    }
}

/// There is one record for pending requests, and room for two kept ones.
#[test]
fn a_request_that_cannot_be_pending_is_answered_at_once() {
    let directory = TempDir::new().expect("a directory");
    let (interface, mut taken) = (open(&directory), 0);
    ask(&interface, 0, 7);
    assert_eq!(next(&interface, &mut taken), Some((7, true)));
    ask(&interface, 0, 1);
    assert_eq!(next(&interface, &mut taken), None);
    ask(&interface, 0, 1);
    assert_eq!(next(&interface, &mut taken), Some((7, false)));
}

/// The owner's checks remove requests of dead processes. Each check examines a share of the table.
#[test]
fn places_of_the_dead_become_free() {
    let directory = TempDir::new().expect("a directory");
    let interface = open(&directory);
    for process in [DEAD, interface.word] {
        let request = LockRequest { vpid: VPID, number: LOCK, compare: -1, add: 0 };
        let kept = LockWaiter { process, ..LockWaiter::default() };
        interface.lock().locks().request_or_keep(&mut NoMemory, &request, kept).expect("there is the lock");
    }
    (0..CHECK_ONE_IN).for_each(|_| interface.deferred.forget_dead(&interface.own, interface.word));
    let left: Vec<u64> = interface.lock().tables.lock_waiters.iter().map(|waiter| waiter.process).collect();
    assert_eq!(left, [0, interface.word]);
}
