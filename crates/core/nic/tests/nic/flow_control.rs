// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flow control while the owner takes events at the same time: `PTL_EVENT_PT_DISABLED` is never lost.

use std::hint::{black_box, spin_loop};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::common::{Home, TINY, TestBus};
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::event_queue::Taken;
use selvedge_nic::portals::{EntrySpec, Verdict, event_kind, fail, list, options};
use selvedge_nic::tables::{Request, kind};
use selvedge_nic::{Nic, Signals};

const ROUNDS: u64 = 100_000;
const QUEUE_EVENTS: u32 = 1;

/// Takes an event as a front door does: without the lock, then checks for an event that waited for room.
fn take(nic: &Mutex<Nic<'_>>, signals: &Signals<'_>, queue: u32) -> Option<u8> {
    match signals.take_event(queue) {
        Taken::Event(event, lost) => {
            assert!(!lost, "an event was lost despite flow control");
            if signals.disabled_event_waits(queue) {
                nic.lock().unwrap().queues().post_waiting_disabled(queue);
            }
            Some(event.kind)
        }
        Taken::Empty => None,
        Taken::Gone => panic!("the queue is gone"),
    }
}

/// Waits until a word has reached a value. Yields the core, because the other thread may need it.
fn wait_until(word: &AtomicU64, value: u64) {
    let mut looks = 0;
    while word.load(SeqCst) < value {
        looks += 1;
        match looks % 1000 {
            0 => std::thread::yield_now(),
            _ => spin_loop(),
        }
    }
}

/// In each round the queue is full, and one thread delivers a put that the NIC must refuse while the other empties the
/// queue. The put is refused only if the queue was still full; then the owner must find the event that reports it.
#[test]
fn a_disabled_index_is_reported_while_the_owner_empties_the_queue() {
    let mut home = Home::new(&TINY);
    let mut nic = home.nic();
    let queue = nic.queues().alloc(QUEUE_EVENTS).expect("a queue");
    nic.portal_table().alloc(Some(0), options::PT_FLOWCTRL, queue).expect("an index");
    let put = Request { kind: kind::PUT, ..Request::default() };
    let mut bus = TestBus::default();
    let entry = EntrySpec {
        options: options::OP_PUT | options::EVENT_LINK_DISABLE,
        start: 0,
        length: 0,
        iov: NONE,
        iov_count: 0,
        match_bits: 0,
        ignore_bits: 0,
        source: 0,
        source_ignore: u64::MAX,
        min_free: 0,
        user_ptr: 0,
        counter: NONE,
        uid: u32::MAX,
    };
    nic.lists().append(&mut bus, 0, list::PRIORITY, &entry).expect("an entry");
    let signals = nic.signals;
    let nic = Mutex::new(nic);
    let [started, emptied, reports] = [const { AtomicU64::new(0) }; 3];
    let mut refused: u64 = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                wait_until(&started, round);
                for pause in 0..round % 397 {
                    black_box(pause);
                }
                while let Some(kind) = take(&nic, &signals, queue) {
                    reports.fetch_add(u64::from(kind == event_kind::PT_DISABLED), SeqCst);
                }
                emptied.store(round, SeqCst);
            }
        });
        for round in 1..=ROUNDS {
            let mut guard = nic.lock().unwrap();
            for _ in 0..QUEUE_EVENTS {
                assert!(matches!(guard.deliver(&mut bus, &put), Verdict::Done(done) if done.fail == fail::OK));
            }
            started.store(round, SeqCst);
            let last = guard.deliver(&mut bus, &put);
            drop(guard);
            wait_until(&emptied, round);
            while let Some(kind) = take(&nic, &signals, queue) {
                reports.fetch_add(u64::from(kind == event_kind::PT_DISABLED), SeqCst);
            }
            let Verdict::Done(last) = last else { panic!("the index answers") };
            refused += u64::from(last.fail == fail::PT_DISABLED);
            assert_eq!(reports.load(SeqCst), refused, "events after round {round}");
            nic.lock().unwrap().portal_table().set(0, true).expect("the index is there");
        }
    });
    assert!(refused > 0, "no round refused a put");
}
