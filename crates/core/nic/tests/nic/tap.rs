// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tap: it shows each transition once, in order, with its counts before it, and changes no result.

use std::sync::Mutex;

use crate::common::{Home, MEMORY_AT, TestBus};
use selvedge_nic::Limits;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::counters::Lane;
use selvedge_nic::portals::triggered::Action;
use selvedge_nic::portals::{EntrySpec, Posted, Put, list, options};
use selvedge_nic::tables::{Request, kind};
use selvedge_nic::tap::{Tap, Tapped, Transition};

const LIMITS: Limits = Limits { entries: 16, headers: 8, list: 16, counters: 4, triggered: 4, ..crate::common::TINY };

#[derive(Default)]
struct Shown(Mutex<Vec<Transition>>);

impl Tap for Shown {
    fn show(&self, transition: &Transition) {
        self.0.lock().expect("no panic").push(*transition);
    }
}

impl Shown {
    fn take(&self) -> Vec<Transition> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }
}

fn spec(flags: u32, match_bits: u64, counter: u32) -> EntrySpec {
    EntrySpec {
        options: flags | options::OP_PUT,
        start: MEMORY_AT,
        length: 64,
        iov: NONE,
        iov_count: 0,
        match_bits,
        ignore_bits: 0,
        source: 0,
        source_ignore: u64::MAX,
        min_free: 0,
        user_ptr: 0,
        counter,
        uid: u32::MAX,
    }
}

fn request(match_bits: u64) -> Request {
    Request { kind: kind::PUT, portal: 0, match_bits, initiator: 7, length: 8, ..Request::default() }
}

fn put(match_bits: u64) -> Put {
    (&request(match_bits)).into()
}

#[test]
fn each_transition_is_shown_once_with_its_counts_before_it() {
    let shown = Shown::default();
    let mut home = Home::new(&LIMITS);
    let bus = &mut TestBus { mapped: true, payload: vec![0; 8], ..TestBus::default() };
    let mut nic = home.nic();
    nic.tap = Tapped::new(&shown);

    nic.portal_table().alloc(Some(0), 0, NONE).expect("it is free");
    let [counter, other] = [nic.counters().alloc(), nic.counters().alloc()].map(|counter| counter.expect("room"));
    let counting = spec(options::EVENT_CT_COMM, 1, counter);
    let entry = nic.lists().append(bus, 0, list::PRIORITY, &counting).expect("room");
    assert_eq!(shown.take().len(), 4);

    // A put to a counting entry, at once and by the fast path, which leaves it to `deliver`.
    assert!(!nic.target().plain_put(bus, &put(1)), "the caller delivers it");
    assert!(shown.take().is_empty());
    nic.deliver(bus, &request(1));
    let count = |success, is_caused| Transition::Count { counter, success, failure: 0, is_caused };
    match &shown.take()[..] {
        [first, Transition::Deliver { request: seen, delivery }] => {
            assert_eq!(*first, count(1, true));
            assert_eq!((seen.match_bits, delivery.mlength), (1, 8));
        }
        other => panic!("{other:?}"),
    }
    nic.counters().increment(counter, 3, 0);
    assert_eq!(shown.take(), [count(3, false)]);

    // Additions by a triggered operation and a set are shown only as these.
    let action = Action::CounterIncrement { counter: other, success: 1, failure: 0 };
    nic.triggered().arm(counter, 5, action).expect("room");
    nic.counters().increment(counter, 1, 0);
    nic.triggered().next_fired(bus, 1).expect("no grants");
    nic.counters().set(other, 9, 0);
    let rest = shown.take();
    assert!(
        matches!(
            rest[..],
            [
                Transition::Arm { .. },
                Transition::Count { .. },
                Transition::Fire { fired: None },
                Transition::CountSet { success: 9, .. }
            ]
        ),
        "{rest:?}"
    );
    nic.triggered().next_fired(bus, 1).expect("no grants");
    assert!(shown.take().is_empty(), "nothing was due");

    nic.lists().unlink(entry).expect("it is there");
    assert!(nic.lists().unlink(entry).is_err());
    let unlinked = |is_done| Transition::Unlink { entry, is_done };
    assert_eq!(shown.take(), [unlinked(true), unlinked(false)]);
}

#[test]
fn receives_and_unexpected_messages_are_shown() {
    let shown = Shown::default();
    let mut home = Home::new(&LIMITS);
    let bus = &mut TestBus { mapped: true, payload: vec![0; 8], ..TestBus::default() };
    let mut nic = home.nic();
    nic.tap = Tapped::new(&shown);
    nic.portal_table().alloc(Some(0), 0, NONE).expect("it is free");
    let pool = spec(options::MANAGE_LOCAL | options::EVENT_LINK_DISABLE, 0, NONE);
    nic.lists().append(bus, 0, list::OVERFLOW, &EntrySpec { ignore_bits: u64::MAX, ..pool }).expect("room");
    shown.take();

    let receive = spec(options::USE_ONCE | options::EVENT_LINK_DISABLE, 1, NONE);
    assert_eq!(nic.receives().post_to_short_list(0, &receive), None, "it is posted by `post_receive`");
    nic.receives().post(bus, 0, &receive).expect("room");
    // The short list's head leaves the message to `take`.
    assert!(nic.receives().head(0).expect("it is enabled").take_receive(bus, &put(1), |_| true).is_none());
    nic.receives().take(bus, &put(1)).expect("it is posted");
    assert_eq!(nic.receives().take(bus, &put(1)), None);
    match &shown.take()[..] {
        [Transition::PostReceive { posted: Some(Posted::Linked(_)), .. }, Transition::TakeReceive { put, receive }] => {
            assert_eq!((put.match_bits, receive.start), (1, MEMORY_AT));
        }
        other => panic!("{other:?}"),
    }

    nic.deliver_own(bus, &request(1));
    nic.deliver_own(bus, &request(2));
    let Ok(Posted::Matched(first)) = nic.receives().post(bus, 0, &receive) else { panic!("it is there") };
    nic.receives().claim_unexpected(first);
    nic.receives().drop_unexpected(first);
    nic.receives().drop_unexpected(first);
    nic.receives().clear_unexpected(0);
    let kinds: Vec<_> = shown.take().into_iter().skip(2).collect();
    assert!(
        matches!(
            kinds[..],
            [
                Transition::PostReceive { posted: Some(Posted::Matched(_)), .. },
                Transition::ClaimUnexpected { match_bits: 1, source: 7, .. },
                Transition::DropUnexpected { match_bits: 1, .. },
                Transition::DropUnexpected { match_bits: 2, .. },
            ]
        ),
        "{kinds:?}"
    );

    nic.receives().post(bus, 0, &spec(options::USE_ONCE, 3, NONE)).expect("room");
    nic.receives().clear_priority(0).expect("no grants");
    let last = shown.take();
    assert!(matches!(last[..], [_, Transition::Unlink { is_done: true, .. }]), "{last:?}");
}

#[test]
fn a_tapped_nic_gives_no_lanes() {
    let shown = Shown::default();
    let mut home = Home::new(&LIMITS);
    let mut nic = home.nic();
    let counter = nic.counters().alloc().expect("room");
    nic.tap = Tapped::new(&shown);
    assert_eq!(nic.counters().lane(counter, 1), Some(Lane::Locked));
    nic.tap = Tapped::default();
    assert_eq!(nic.counters().lane(counter, 1), Some(Lane::Own(0)));
}
