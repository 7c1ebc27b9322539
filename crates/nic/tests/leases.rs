// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Leases: which puts are given one, what calls it back, and that nothing is lost or counted twice however they come and go.

mod common;

use std::cell::Cell;
use std::sync::atomic::Ordering::{Relaxed, Release};

use common::{Home, MEMORY_AT, TINY, TestBus, sane};
use proptest::prelude::*;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::counters::Lane;
use selvedge_nic::portals::leases::{Lent, Terms};
use selvedge_nic::portals::triggered::Action;
use selvedge_nic::portals::{EntrySpec, Put, list, options};
use selvedge_nic::signals::{LANES, LEASES};
use selvedge_nic::tables::slot;
use selvedge_nic::{Limits, Register};

const LIMITS: Limits = Limits { counters: 4, portals: 3, triggered: 4, queues: 2, entries: 80, list: 80, ..TINY };
/// Of the entries: a portal table entry without a queue.
const PORTAL: u32 = 0;
const UID: u32 = 7;
const COUNTING: u32 = options::OP_PUT | options::EVENT_CT_COMM;

thread_local! {
    /// Bits of the leases that were called back.
    static CALLED: Cell<u64> = const { Cell::new(0) };
}

/// What was called back since the last look.
fn called() -> u64 {
    CALLED.take()
}

/// A NIC with an entry that counts, alone on its list.
struct Stage {
    home: Home,
    bus: TestBus,
    counter: u32,
    entry: u32,
}

fn spec(flags: u32, counter: u32) -> EntrySpec {
    EntrySpec {
        options: flags,
        start: MEMORY_AT,
        length: 64,
        iov: NONE,
        iov_count: 0,
        match_bits: 5,
        ignore_bits: 0,
        source: 0,
        source_ignore: u64::MAX,
        min_free: 0,
        user_ptr: 0,
        counter,
        uid: u32::MAX,
    }
}

const PUT: Put =
    Put { portal: PORTAL, uid: UID, initiator: 1, match_bits: 5, remote_offset: 0, header_data: 0, length: 8 };

impl Stage {
    fn empty() -> Stage {
        let mut home = Home::new(&LIMITS);
        home.recall = |leases, bits| {
            for (index, lease) in leases.iter().enumerate() {
                assert!(bits >> index & 1 == 0 || lease.grant.load(Relaxed) == 0, "called back, and still granted");
            }
            CALLED.set(CALLED.get() | bits);
        };
        called();
        let counter = home.nic().counter_alloc().expect("room");
        home.nic().portal_alloc(Some(PORTAL), 0, NONE).expect("room");
        Stage { home, bus: TestBus::default(), counter, entry: NONE }
    }

    fn new() -> Stage {
        let mut stage = Stage::empty();
        stage.entry = stage.append(PORTAL, list::PRIORITY, &spec(COUNTING, stage.counter));
        stage
    }

    fn append(&mut self, portal: u32, which: u8, spec: &EntrySpec) -> u32 {
        self.home.nic().append(&mut self.bus, portal, which, spec).expect("room")
    }

    fn lease(&mut self, holder: u64) -> Option<Terms> {
        self.home.nic().lease(&PUT, holder, None, |_| true)
    }

    fn lent(&mut self, holder: u64) -> Lent {
        self.lease(holder).expect("a lease").lent
    }

    fn grant(&mut self, lent: &Lent) -> bool {
        self.home.nic().signals.leases[lent.lease as usize].grant.load(Relaxed) == lent.grant
    }

    /// What a holder does with a put of this much.
    fn put_by(&mut self, lent: &Lent, by: u64) -> bool {
        let good = self.grant(lent);
        if good {
            let nic = self.home.nic();
            let lane = &nic.signals.counters[lent.counter as usize].lanes[lent.lane];
            lane.store(lane.load(Relaxed) + by, Release);
        }
        good
    }

    /// What a lease says that its lane holds.
    fn counted(&mut self, lent: &Lent) -> u64 {
        self.home.nic().signals.leases[lent.lease as usize].counted.load(Relaxed)
    }

    fn arrived(&mut self, counter: u32) -> u64 {
        self.home.nic().signals.counter(counter).expect("the counter lives").arrived()
    }

    fn increments(&self, other: u32) -> Action<'static> {
        Action::CounterIncrement { counter: other, success: 1, failure: 0 }
    }

    fn run_fired(&mut self) {
        assert!(self.home.nic().next_fired(&mut self.bus, 1).is_none(), "only what is local was armed");
    }
}

// ---- Who is given one --------------------------------------------------------------------------------------------

/// A put meets this entry alone on its list, after these changes.
struct Meeting {
    name: &'static str,
    given: bool,
    spec: fn(&mut EntrySpec),
    put: fn(&mut Put),
    change: fn(&mut Stage),
}

const MEETING: Meeting = Meeting { name: "", given: true, spec: |_| {}, put: |_| {}, change: |_| {} };

macro_rules! row {
    ($given:literal, $name:literal $(, $field:ident: $how:expr)*) => {
        Meeting { name: $name, given: $given, $($field: $how,)* ..MEETING }
    };
}

const MEETINGS: &[Meeting] = &[
    row!(true, "an entry that counts"),
    row!(true, "one that counts bytes", spec: |spec| spec.options |= options::EVENT_CT_BYTES),
    row!(true, "one that declines acknowledgements", spec: |spec| spec.options |= options::ACK_DISABLE),
    row!(true, "one that also gives", spec: |spec| spec.options |= options::OP_GET),
    row!(true, "one for this user", spec: |spec| spec.uid = UID),
    row!(true, "one for this source", spec: |spec| (spec.source, spec.source_ignore) = (1, 0)),
    row!(true, "one that does not cut what is short enough", spec: |spec| spec.options |= options::NO_TRUNCATE),
    row!(true, "one whose counter failed before", change: |stage| stage.home.nic().count(stage.counter, 0, 3)),
    row!(true, "a put beyond the end", put: |put| put.remote_offset = 100),
    row!(true, "an entry on the overflow list besides", change: |stage| {
        stage.append(PORTAL, list::OVERFLOW, &spec(COUNTING, stage.counter));
    }),
    row!(true, "one with a queue that hears of failures only",
        spec: |spec| spec.options |= options::EVENT_SUCCESS_DISABLE, put: |put| put.portal = 1),
    row!(true, "one with a queue that hears nothing of messages",
        spec: |spec| spec.options |= options::EVENT_COMM_DISABLE, put: |put| put.portal = 1),
    row!(false, "one that counts and whose queue hears of every message", put: |put| put.portal = 1),
    row!(true, "one whose queue hears of every message, and that does not count",
        spec: |spec| spec.options &= !options::EVENT_CT_COMM, put: |put| put.portal = 1),
    row!(false, "one that neither counts nor posts", spec: |spec| spec.options &= !options::EVENT_CT_COMM),
    row!(false, "one without a counter", spec: |spec| spec.counter = NONE),
    row!(false, "one that is used once", spec: |spec| spec.options |= options::USE_ONCE),
    row!(false, "one that manages its offset", spec: |spec| spec.options |= options::MANAGE_LOCAL),
    row!(false, "one that takes no puts", spec: |spec| spec.options = options::OP_GET | options::EVENT_CT_COMM),
    row!(false, "one for another user", spec: |spec| spec.uid = UID + 1),
    row!(false, "one for another source", spec: |spec| (spec.source, spec.source_ignore) = (2, 0)),
    row!(false, "one with other bits", put: |put| put.match_bits = 4),
    row!(false, "one that does not cut what is too long",
        spec: |spec| spec.options |= options::NO_TRUNCATE, put: |put| put.length = 65),
    row!(false, "a portal table entry with flow control", put: |put| put.portal = 2),
    row!(false, "no such portal table entry", put: |put| put.portal = 17),
    row!(false, "one that is disabled",
        change: |stage| stage.home.nic().portal_set(PORTAL, false).expect("it is there")),
    row!(false, "two entries", change: |stage| {
        stage.append(PORTAL, list::PRIORITY, &spec(COUNTING, stage.counter));
    }),
    row!(true, "the second of two entries, the first of which is gone", change: |stage| {
        stage.append(PORTAL, list::PRIORITY, &spec(COUNTING, stage.counter));
        stage.home.nic().unlink(stage.entry).expect("it is linked");
    }),
    row!(false, "the entry behind a short list that is gone", change: |stage| {
        let others = (0..LIMITS.short_list).map(|_| stage.append(PORTAL, list::PRIORITY, &spec(COUNTING, stage.counter)));
        let others: Vec<u32> = others.collect();
        stage.home.nic().unlink(stage.entry).expect("it is linked");
        for entry in &others[..others.len() - 1] {
            stage.home.nic().unlink(*entry).expect("it is linked");
        }
    }),
    row!(false, "an unlinked entry", change: |stage| stage.home.nic().unlink(stage.entry).expect("it is linked")),
    row!(false, "a counter that is gone",
        change: |stage| stage.home.nic().counter_free(stage.counter).expect("it lives")),
    row!(false, "a counter that something waits for", change: |stage| {
        let action = stage.increments(stage.counter);
        stage.home.nic().arm(stage.counter, 100, action).expect("room");
    }),
    row!(false, "a counter in whose lanes senders count for good", change: |stage| {
        assert_eq!(stage.home.nic().lane(stage.counter, 3), Some(Lane::Own(0)));
    }),
    row!(false, "a counter without a lane left", change: |stage| {
        for holder in 0..LANES as u64 {
            stage.lent(100 + holder);
        }
    }),
    row!(true, "a counter with one lane left", change: |stage| {
        for holder in 1..LANES as u64 {
            stage.lent(100 + holder);
        }
    }),
];

#[test]
fn puts_that_nothing_but_a_count_tells_of_are_given_a_lease() {
    for meeting in MEETINGS {
        let mut stage = Stage::empty();
        let queue = stage.home.nic().queue_alloc(2).expect("room");
        stage.home.nic().portal_alloc(Some(1), 0, queue).expect("room");
        stage.home.nic().portal_alloc(Some(2), options::PT_FLOWCTRL, queue).expect("room");
        let mut spec = spec(COUNTING, stage.counter);
        (meeting.spec)(&mut spec);
        let mut put = PUT;
        (meeting.put)(&mut put);
        let portal = if put.portal < LIMITS.portals { put.portal } else { PORTAL };
        stage.entry = stage.append(portal, list::PRIORITY, &spec);
        (meeting.change)(&mut stage);
        let terms = stage.home.nic().lease(&put, 55, None, |_| true);
        assert_eq!(terms.is_some(), meeting.given, "{}", meeting.name);
        let Some(terms) = terms else { continue };
        let silent = spec.options & options::ACK_DISABLE != 0;
        let in_bytes = spec.options & options::EVENT_CT_BYTES != 0;
        assert_eq!((terms.start, terms.length), (spec.start, spec.length), "{}", meeting.name);
        assert_eq!((terms.match_bits, terms.ignore_bits), (spec.match_bits, spec.ignore_bits), "{}", meeting.name);
        assert_eq!((terms.silent, terms.in_bytes), (silent, in_bytes), "{}", meeting.name);
        let posts = spec.options & options::EVENT_CT_COMM == 0;
        assert_eq!((terms.queue != NONE, terms.lent.counter == NONE), (posts, posts), "{}", meeting.name);
        assert!(stage.grant(&terms.lent), "{}", meeting.name);
    }
}

// ---- What calls it back ------------------------------------------------------------------------------------------

type Change = (&'static str, bool, fn(&mut Stage));

const CHANGES: &[Change] = &[
    ("the entry is unlinked", true, |stage| stage.home.nic().unlink(stage.entry).expect("it is linked")),
    ("another entry is appended", true, |stage| {
        stage.append(PORTAL, list::PRIORITY, &spec(COUNTING, NONE));
    }),
    ("the portal table entry is disabled", true, |stage| {
        stage.home.nic().portal_set(PORTAL, false).expect("it is there");
    }),
    ("an operation is armed on the counter", true, |stage| {
        let action = stage.increments(stage.counter);
        stage.home.nic().arm(stage.counter, 1000, action).expect("room");
    }),
    ("the counter is freed", true, |stage| stage.home.nic().counter_free(stage.counter).expect("it lives")),
    ("a process died with the lock", true, |stage| stage.home.nic().recover(&mut TestBus::default(), |_| true)),
    ("all are called back", true, |stage| stage.home.nic().recall_all()),
    ("an entry is appended by trigger", true, |stage| {
        let other = stage.home.nic().counter_alloc().expect("room");
        let entry = stage.home.nic().reserve_entry(PORTAL, &spec(COUNTING, NONE)).expect("room");
        stage.home.nic().arm(other, 0, Action::Append { entry, list: list::PRIORITY }).expect("room");
        stage.run_fired();
    }),
    ("the entry is unlinked by trigger", true, |stage| {
        let other = stage.home.nic().counter_alloc().expect("room");
        let entry = stage.entry;
        stage.home.nic().arm(other, 0, Action::Unlink { entry }).expect("room");
        stage.run_fired();
    }),
    ("the counter is set", false, |stage| stage.home.nic().count_set(stage.counter, 0, 0)),
    ("the counter is incremented", false, |stage| stage.home.nic().count(stage.counter, 7, 0)),
    ("the counter is set and incremented by trigger", false, |stage| {
        let (other, counter) = (stage.home.nic().counter_alloc().expect("room"), stage.counter);
        let action = Action::CounterSet { counter, success: 4, failure: 0 };
        stage.home.nic().arm(other, 0, action).expect("room");
        let action = stage.increments(counter);
        stage.home.nic().arm(other, 0, action).expect("room");
        stage.run_fired();
        assert_eq!(stage.arrived(counter), 5);
    }),
    ("operations that wait for it are cancelled", false, |stage| {
        stage.home.nic().cancel_triggered(stage.counter).expect("it lives");
    }),
    ("an entry is appended to the overflow list", false, |stage| {
        stage.append(PORTAL, list::OVERFLOW, &spec(COUNTING, NONE));
    }),
    ("the portal table entry is enabled", false, |stage| {
        stage.home.nic().portal_set(PORTAL, true).expect("it is there");
    }),
    ("another portal table entry is disabled", false, |stage| {
        stage.home.nic().portal_alloc(Some(1), 0, NONE).expect("room");
        stage.home.nic().portal_set(1, false).expect("it is there");
    }),
    ("an operation is armed on another counter", false, |stage| {
        let other = stage.home.nic().counter_alloc().expect("room");
        let action = stage.increments(stage.counter);
        stage.home.nic().arm(other, 1, action).expect("room");
    }),
    ("another counter is freed", false, |stage| {
        let other = stage.home.nic().counter_alloc().expect("room");
        stage.home.nic().counter_free(other).expect("it lives");
    }),
    ("an entry comes and goes elsewhere", false, |stage| {
        stage.home.nic().portal_alloc(Some(1), 0, NONE).expect("room");
        let entry = stage.append(1, list::PRIORITY, &spec(COUNTING, NONE));
        stage.home.nic().unlink(entry).expect("it is linked");
    }),
    ("another process is given one", false, |stage| {
        let lent = stage.lent(2);
        assert_eq!(stage.counted(&lent), 0);
    }),
];

#[test]
fn what_a_lease_stands_on_does_not_change_before_it_is_called_back() {
    for (name, recalls, change) in CHANGES {
        let mut stage = Stage::new();
        let lent = stage.lent(1);
        for _ in 0..10 {
            assert!(stage.put_by(&lent, 1));
        }
        assert_eq!(called(), 0);
        change(&mut stage);
        assert_eq!(called() != 0, *recalls, "{name}");
        assert_eq!(stage.put_by(&lent, 1), !recalls, "{name}");
        let out = stage.home.nic().tables.control.leases;
        assert_eq!(out >> lent.lease & 1 == 0, *recalls, "{name}");
    }
}

#[test]
fn a_lane_that_was_called_back_keeps_what_it_holds_and_is_lent_again() {
    let mut stage = Stage::new();
    let first = stage.lent(1);
    assert!(stage.put_by(&first, 30));
    stage.home.nic().portal_set(PORTAL, false).expect("it is there");
    stage.home.nic().portal_set(PORTAL, true).expect("it is there");
    assert_eq!(stage.arrived(stage.counter), 30);
    let second = stage.lent(2);
    assert_eq!((second.lane, stage.counted(&second)), (first.lane, 30));
    assert_ne!((second.lease, second.grant), (first.lease, first.grant), "the first is still its process's");
    assert!(stage.put_by(&second, 3) && !stage.put_by(&first, 1));
    assert_eq!(stage.arrived(stage.counter), 33);
    let again = stage.home.nic().lease(&PUT, 1, Some(first.lease), |_| true).expect("a lease").lent;
    assert_eq!(again.lease, first.lease);
    assert!(again.grant != first.grant && !stage.put_by(&first, 1), "an old grant is none");
    assert!(again.lane != second.lane && stage.put_by(&again, 1));
    assert_eq!(stage.arrived(stage.counter), 34);
}

#[test]
fn thresholds_count_what_lanes_hold() {
    let mut stage = Stage::new();
    let (counter, other) = (stage.counter, stage.home.nic().counter_alloc().expect("room"));
    let lent = stage.lent(1);
    assert!(stage.put_by(&lent, 40));
    stage.home.nic().count(counter, 2, 1);
    let action = stage.increments(other);
    stage.home.nic().arm(counter, 43, action).expect("room");
    stage.run_fired();
    assert_eq!(stage.arrived(other), 1, "it was due at once");
    stage.home.nic().arm(counter, 45, action).expect("room");
    assert!(stage.lease(1).is_none(), "lanes stand still while something waits");
    stage.home.nic().count(counter, 1, 0);
    stage.run_fired();
    assert_eq!(stage.arrived(other), 1);
    stage.home.nic().count(counter, 1, 0);
    stage.run_fired();
    assert_eq!(stage.arrived(other), 2);
    let lent = stage.lent(1);
    assert!(stage.put_by(&lent, 5), "nothing waits any more");
    stage.home.nic().count_set(counter, 10, 0);
    assert_eq!(stage.arrived(counter), 10);
    stage.home.nic().arm(counter, 11, action).expect("room");
    stage.run_fired();
    assert_eq!(stage.arrived(other), 2, "what was set counts, not what lanes hold besides");
    stage.home.nic().count(counter, 1, 0);
    stage.run_fired();
    assert_eq!(stage.arrived(other), 3);
}

#[test]
fn lanes_that_senders_have_for_good_and_leases_share_no_counter() {
    let mut stage = Stage::new();
    let lent = stage.lent(1);
    assert_eq!(stage.home.nic().lane(stage.counter, 9), Some(Lane::Locked));
    assert!(stage.put_by(&lent, 3));
    stage.home.nic().recall_all();
    // The lane that holds something is not a sender's, who would begin with nothing.
    let Some(Lane::Own(own)) = stage.home.nic().lane(stage.counter, 9) else { panic!("lanes are free") };
    assert_ne!(own, lent.lane);
    assert!(stage.lease(1).is_none());
    assert_eq!(stage.arrived(stage.counter), 3);
}

#[test]
fn a_counter_of_the_process_itself_lends_it_a_lane() {
    let mut stage = Stage::new();
    let counter = stage.counter;
    let lent = stage.home.nic().lend_lane(counter, 1, None, |_| true).expect("a lane");
    assert!(stage.put_by(&lent, 2));
    assert!(stage.lease(2).is_some(), "another lane is an initiator's");
    called();
    stage.home.nic().portal_set(PORTAL, false).expect("it is there");
    assert!(stage.put_by(&lent, 2), "it has to do with no portal table entry");
    let other = stage.home.nic().counter_alloc().expect("room");
    let action = stage.increments(other);
    stage.home.nic().arm(counter, 5, action).expect("room");
    assert!(!stage.put_by(&lent, 2));
    assert!(stage.home.nic().lend_lane(counter, 1, Some(lent.lease), |_| true).is_none());
    assert!(stage.home.nic().lend_lane(NONE, 1, None, |_| true).is_none());
    stage.home.nic().counter_free(other).expect("it lives");
    assert!(stage.home.nic().lend_lane(other, 1, None, |_| true).is_none());
}

// ---- Processes that end ------------------------------------------------------------------------------------------

#[test]
fn leases_and_lanes_of_processes_that_have_ended_are_given_to_others() {
    let mut stage = Stage::new();
    let dead: Vec<Lent> = (0..LANES as u64).map(|holder| stage.lent(100 + holder)).collect();
    for (lent, by) in dead.iter().zip(1..) {
        assert!(stage.put_by(lent, by));
        // They died in the middle of a put.
        stage.home.nic().signals.leases[lent.lease as usize].busy.store(1, Relaxed);
    }
    assert!(stage.lease(1).is_none());
    let heir = stage.home.nic().lease(&PUT, 1, None, |holder| holder < 100).expect("a lane of the dead").lent;
    assert!(dead.iter().any(|lent| lent.lane == heir.lane) && stage.put_by(&heir, 100));
    assert_eq!(stage.arrived(stage.counter), (1..=LANES as u64).sum::<u64>() + 100);
    let former = dead.iter().find(|lent| lent.lane == heir.lane).expect("it was somebody's");
    assert!(!stage.put_by(former, 1));
    let nic = stage.home.nic();
    assert_eq!(nic.signals.leases[former.lease as usize].busy.load(Relaxed), 0, "nobody's is not busy");
}

#[test]
fn all_leases_may_be_out_and_those_of_the_dead_are_taken_over() {
    let mut stage = Stage::new();
    stage.home.nic().unlink(stage.entry).expect("it is linked");
    let counters = [stage.counter, stage.home.nic().counter_alloc().expect("room")];
    for holder in 0..LEASES as u64 {
        // Called back at once: a lease stays its process's.
        let counter = counters[holder as usize % 2];
        stage.home.nic().lend_lane(counter, 100 + holder, None, |_| true).expect("a lease");
        stage.home.nic().recall_all();
    }
    let entry = stage.append(PORTAL, list::PRIORITY, &spec(COUNTING, stage.counter));
    assert!(stage.lease(1).is_none(), "none is left");
    let lent = stage.home.nic().lease(&PUT, 1, None, |holder| holder != 117).expect("that of the dead").lent;
    assert_eq!(lent.lease, 17);
    stage.home.nic().give_up_lease(lent.lease);
    assert!(!stage.put_by(&lent, 1), "given up");
    assert_eq!(stage.lent(2).lease, 17, "what was given up is anybody's");
    stage.home.nic().unlink(entry).expect("it is linked");
}

#[test]
fn a_death_while_a_lease_is_given_leaves_no_lane_behind() {
    let mut stage = Stage::new();
    let lent = stage.lent(1);
    assert!(stage.put_by(&lent, 4));
    {
        // The lane has its owner, and nothing else has been written.
        let nic = stage.home.nic();
        nic.tables.counters[lent.counter as usize].lane_owners[2] = 1 << 31 | 9;
    }
    stage.home.nic().recover(&mut TestBus::default(), |_| true);
    assert_eq!(called(), 1 << lent.lease);
    let books = stage.home.nic().tables.counters[lent.counter as usize].lane_owners;
    assert_eq!(books, [0; LANES]);
    assert_eq!(stage.arrived(stage.counter), 4);
    let action = stage.increments(stage.counter);
    stage.home.nic().arm(stage.counter, 9, action).expect("no lane is anybody's");
}

#[test]
fn a_setting_that_is_done_again_keeps_what_lanes_counted_meanwhile() {
    type Row = (fn(u32) -> Action<'static>, u64);
    let rows: [Row; 3] = [
        (|counter| Action::CounterSet { counter, success: 50, failure: 0 }, 50),
        (|counter| Action::CounterSuccess { counter, success: 50 }, 50),
        (|counter| Action::CounterIncrement { counter, success: 50, failure: 0 }, 57),
    ];
    for (action, wanted) in rows {
        let mut stage = Stage::new();
        let (counter, other) = (stage.counter, stage.home.nic().counter_alloc().expect("room"));
        let lent = stage.lent(1);
        assert!(stage.put_by(&lent, 7));
        let index = stage.home.nic().tables.control.free_triggered as usize;
        stage.home.nic().arm(other, 0, action(counter)).expect("room");
        let before = stage.home.nic().tables.triggered[index];
        stage.run_fired();
        assert_eq!(stage.arrived(counter), wanted);
        assert!(stage.put_by(&lent, 3));
        // Its executor died before the slot was free.
        let record = &mut stage.home.nic().tables.triggered[index];
        record.slot = slot::word(slot::generation(before.slot), selvedge_nic::tables::triggered::FIRING);
        stage.home.nic().recover(&mut TestBus::default(), |_| false);
        assert_eq!(stage.arrived(counter), wanted + 3);
    }
}

#[test]
fn registers_count_puts_by_lease() {
    let mut stage = Stage::new();
    let lent = stage.lent(1);
    let nic = stage.home.nic();
    let counted = [Register::Requests, Register::MatchedPriority, Register::ListSteps];
    let before = counted.map(|register| nic.signals.register(register));
    let lease = &nic.signals.leases[lent.lease as usize];
    lease.puts.store(11, Relaxed);
    lease.bytes.store(88, Relaxed);
    assert_eq!(counted.map(|register| nic.signals.register(register)), before.map(|before| before + 11));
    assert_eq!(nic.signals.register(Register::BytesIn), 88);
    assert_eq!(nic.signals.register(Register::Dropped), 0);
}

// ---- Histories ---------------------------------------------------------------------------------------------------

/// More than a counter has lanes for.
const HOLDERS: usize = LANES + 2;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Holders from one to another ask for leases, ...
    Ask(usize, usize),
    /// ... and one puts by the last that it had.
    Put(usize),
    Append,
    /// The oldest of the entries.
    Unlink,
    Enable(bool),
    /// At so much more than the counter has.
    Arm(u64),
    Cancel,
    Count(u64),
    Set(u64),
    /// By trigger.
    SetLater(u64),
    GiveUp(usize),
    Die(usize),
    /// The counter is freed, and another takes its place.
    Renew,
    Recover,
}

/// One list, one counter, and what waits for it: each of these increments another counter.
struct Model {
    /// Entries, and whether each is in the short list.
    entries: Vec<(u32, bool)>,
    enabled: bool,
    count: u64,
    waiting: Vec<u64>,
    fired: u64,
    leases: [Option<Lent>; HOLDERS],
}

impl Model {
    fn fire(&mut self) {
        let before = self.waiting.len();
        self.waiting.retain(|&threshold| threshold > self.count);
        self.fired += (before - self.waiting.len()) as u64;
    }

    fn may_lease(&self) -> bool {
        matches!(self.entries[..], [(_, true)]) && self.enabled && self.waiting.is_empty()
    }
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..HOLDERS).prop_map(|holder| Op::Ask(holder, holder)),
        1 => (0..3usize).prop_map(|first| Op::Ask(first, HOLDERS - 1)),
        12 => (0..HOLDERS).prop_map(Op::Put),
        2 => Just(Op::Append),
        3 => Just(Op::Unlink),
        1 => any::<bool>().prop_map(Op::Enable),
        2 => (0..8u64).prop_map(Op::Arm),
        1 => Just(Op::Cancel),
        3 => (0..4u64).prop_map(Op::Count),
        1 => (0..30u64).prop_map(Op::Set),
        1 => (0..30u64).prop_map(Op::SetLater),
        1 => (0..HOLDERS).prop_map(Op::GiveUp),
        1 => (0..HOLDERS).prop_map(Op::Die),
        1 => Just(Op::Renew),
        1 => Just(Op::Recover),
    ]
}

proptest! {
    #[test]
    fn leases_come_and_go_and_every_put_counts_once(history in proptest::collection::vec(op(), 1..120)) {
        let mut stage = Stage::empty();
        let told = stage.home.nic().counter_alloc().expect("room");
        let now = stage.home.nic().counter_alloc().expect("room");
        let mut model = Model {
            entries: Vec::new(),
            enabled: true,
            count: 0,
            waiting: Vec::new(),
            fired: 0,
            leases: [None; HOLDERS],
        };
        // Processes are named 1, 2, ... and each that dies has an heir in its place.
        let mut names: [u64; HOLDERS] = std::array::from_fn(|holder| holder as u64 + 1);
        for op in history {
            let counter = stage.counter;
            match op {
                Op::Ask(first, last) => {
                    for holder in first..=last {
                        let before = model.leases[holder].map(|lent| lent.lease);
                        let alive = |name: u64| names.contains(&name);
                        let given = stage.home.nic().lease(&PUT, names[holder], before, alive);
                        let lanes = (0..HOLDERS).filter(|&other| {
                            other != holder && model.leases[other].is_some_and(|l| stage.grant(&l))
                        });
                        let lanes = lanes.count();
                        prop_assert_eq!(given.is_some(), model.may_lease() && lanes < LANES, "{} lanes", lanes);
                        if given.is_some() {
                            model.leases[holder] = given.map(|terms| terms.lent);
                        }
                    }
                }
                Op::Put(holder) => {
                    if let Some(lent) = model.leases[holder] {
                        let good = stage.put_by(&lent, 1);
                        prop_assert!(!good || model.may_lease());
                        model.count += u64::from(good);
                    }
                }
                Op::Append if model.entries.len() < 70 => {
                    let short = model.entries.iter().filter(|entry| entry.1).count();
                    let is_short = short == model.entries.len() && short < LIMITS.short_list as usize;
                    model.entries.push((stage.append(PORTAL, list::PRIORITY, &spec(COUNTING, counter)), is_short));
                }
                Op::Append => {}
                Op::Unlink => {
                    if !model.entries.is_empty() {
                        let (entry, _) = model.entries.remove(0);
                        stage.home.nic().unlink(entry).expect("it is linked");
                    }
                }
                Op::Enable(enabled) => {
                    stage.home.nic().portal_set(PORTAL, enabled).expect("it is there");
                    model.enabled = enabled;
                }
                Op::Arm(more) => {
                    let action = stage.increments(told);
                    if stage.home.nic().arm(counter, model.count + more, action).is_ok() {
                        model.waiting.push(model.count + more);
                    } else {
                        prop_assert_eq!(model.waiting.len(), LIMITS.triggered as usize);
                    }
                }
                Op::Cancel => {
                    stage.home.nic().cancel_triggered(counter).expect("it lives");
                    model.waiting.clear();
                }
                Op::Count(by) => {
                    stage.home.nic().count(counter, by, 0);
                    model.count += by;
                }
                Op::Set(to) => {
                    stage.home.nic().count_set(counter, to, 0);
                    model.count = to;
                }
                Op::SetLater(to) => {
                    let action = Action::CounterSet { counter, success: to, failure: 0 };
                    if stage.home.nic().arm(now, 0, action).is_ok() {
                        model.count = to;
                    }
                }
                Op::GiveUp(holder) => {
                    if let Some(lent) = model.leases[holder].take() {
                        stage.home.nic().give_up_lease(lent.lease);
                    }
                }
                Op::Die(holder) => {
                    model.leases[holder] = None;
                    names[holder] += HOLDERS as u64;
                }
                Op::Renew => {
                    for (entry, _) in model.entries.drain(..) {
                        stage.home.nic().unlink(entry).expect("it is linked");
                    }
                    stage.home.nic().counter_free(counter).expect("it lives");
                    stage.counter = stage.home.nic().counter_alloc().expect("room");
                    (model.count, model.waiting) = (0, Vec::new());
                }
                Op::Recover => {
                    stage.home.nic().recover(&mut TestBus::default(), |_| true);
                    // The short list is built anew from the first entries.
                    for (at, entry) in model.entries.iter_mut().enumerate() {
                        entry.1 = at < LIMITS.short_list as usize;
                    }
                }
            }
            stage.run_fired();
            model.fire();
            let counter = stage.counter;
            prop_assert_eq!(stage.arrived(counter), model.count, "after {:?}", op);
            prop_assert_eq!(stage.arrived(told), model.fired, "after {:?}", op);
            sane::assert_sane(&mut stage.home.nic());
            let nic = stage.home.nic();
            let owned = nic.tables.counters.iter().flat_map(|book| book.lane_owners).filter(|&owner| owner != 0);
            prop_assert_eq!(owned.count(), nic.tables.control.leases.count_ones() as usize);
            let granted = nic.signals.leases.iter().filter(|lease| lease.grant.load(Relaxed) != 0).count();
            prop_assert_eq!(granted, nic.tables.control.leases.count_ones() as usize);
        }
    }
}
