// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Grants: the puts that get one, the transitions that need it revoked, and no loss or double count in any order.
//!
//! [`Stage::run`] plays the home for every transition here: if it needs grants revoked, only the grants have changed;
//! once their holders have been waited for, it succeeds.

use std::fmt::Debug;
use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::common::{Home, Line, MEMORY_AT, TINY, TestBus, sane, watch};
use proptest::prelude::*;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::counters::Lane;
use selvedge_nic::portals::errors::{Failure, GrantError, PortalError, Revoking, UnlinkError};
use selvedge_nic::portals::grants::{GrantHandle, Terms};
use selvedge_nic::portals::triggered::Action;
use selvedge_nic::portals::{EntrySpec, Posted, Put, list, options};
use selvedge_nic::signals::{GRANTS, LANES};
use selvedge_nic::tables::{portal, slot};
use selvedge_nic::{Limits, Nic, Register};

const LIMITS: Limits = Limits { counters: 4, portals: 3, triggered: 4, queues: 2, entries: 80, list: 80, ..TINY };
/// Of the entries: a portal table entry without a queue.
const PORTAL: u32 = 0;
const UID: u32 = 7;
const COUNTING: u32 = options::OP_PUT | options::EVENT_CT_COMM;

/// A NIC with an entry that counts, alone on its list.
struct Stage {
    home: Home,
    bus: TestBus,
    counter: u32,
    entry: u32,
    /// Grants whose holders were waited for since the last check.
    awaited: u64,
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
        let counter = home.nic().counters().alloc().expect("room");
        home.nic().portal_table().alloc(Some(PORTAL), 0, NONE).expect("room");
        Stage { home, bus: TestBus::default(), counter, entry: NONE, awaited: 0 }
    }

    fn new() -> Stage {
        let mut stage = Stage::empty();
        stage.entry = stage.append(PORTAL, list::PRIORITY, &spec(COUNTING, stage.counter));
        stage
    }

    /// Returns and clears the grants whose holders were waited for.
    fn awaited(&mut self) -> u64 {
        std::mem::take(&mut self.awaited)
    }

    /// The memory without the words in which grants are revoked.
    fn rest(&mut self) -> Vec<Line> {
        let mut copy = self.home.clone();
        let nic = copy.nic();
        (nic.tables.control.granted, nic.tables.control.revoking) = (0, 0);
        nic.signals.grants.iter().for_each(|grant| grant.word.store(0, Relaxed));
        copy.memory
    }

    /// Tries a transition once. If it needs grants revoked, nothing else has changed.
    fn try_once<T, E: Failure>(
        &mut self,
        mut transition: impl FnMut(&mut Nic<'_>, &mut TestBus) -> Result<T, E>,
    ) -> Result<Result<T, E>, Revoking> {
        let (before, memory) = (self.rest(), self.bus.memory.clone());
        let result = watch::transition(|| transition(&mut self.home.nic(), &mut self.bus));
        let Some(revoking) = result.as_ref().err().and_then(E::revoking) else { return Ok(result) };
        assert!(self.rest() == before && self.bus.memory == memory, "a transition that waits has changed something");
        let nic = self.home.nic();
        assert_ne!(revoking.grants, 0);
        assert_eq!(revoking.grants & !nic.tables.control.revoking, 0);
        for (slot, grant) in nic.signals.grants.iter().enumerate() {
            let is_revoking = nic.tables.control.revoking >> slot & 1 != 0;
            assert!(!is_revoking || grant.word.load(Relaxed) == 0, "a grant that is being revoked has its word");
        }
        Err(revoking)
    }

    /// A transition in a home where no holder is ever in the middle of a put: it succeeds at the second try at the
    /// latest.
    fn run<T, E: Failure + Debug>(
        &mut self,
        mut transition: impl FnMut(&mut Nic<'_>, &mut TestBus) -> Result<T, E>,
    ) -> Result<T, E> {
        match self.try_once(&mut transition) {
            Ok(result) => result,
            Err(revoking) => {
                self.awaited |= revoking.grants;
                self.home.nic().grants().finish_revoking(&revoking);
                self.try_once(transition).expect("a second revocation of the same grants")
            }
        }
    }

    fn append(&mut self, portal: u32, which: u8, spec: &EntrySpec) -> u32 {
        self.run(|nic, bus| nic.lists().append(bus, portal, which, spec)).expect("room")
    }

    fn unlink(&mut self, entry: u32) {
        self.run(|nic, _| nic.lists().unlink(entry)).expect("it is linked");
    }

    fn enable(&mut self, portal: u32, enabled: bool) {
        self.run(|nic, _| nic.portal_table().set(portal, enabled)).expect("it is there");
    }

    fn arm(&mut self, counter: u32, threshold: u64, action: Action<'_>) -> bool {
        self.run(|nic, _| nic.triggered().arm(counter, threshold, action)).is_ok()
    }

    fn counter_free(&mut self, counter: u32) {
        self.run(|nic, _| nic.counters().free(counter)).expect("it lives");
    }

    fn revoke_all(&mut self) {
        self.run(|nic, _| nic.grants().revoke_all()).expect("no sender is busy");
    }

    /// Rebuilds the tables, and finishes the revocations that follow.
    fn recover(&mut self, alive: bool) {
        self.home.nic().recover(&mut TestBus::default(), |_| alive);
        self.revoke_all();
    }

    fn grant_put(&mut self, holder: u64) -> Option<Terms> {
        self.home.nic().grants().give_put(&PUT, holder, None, |_| true).ok()
    }

    fn granted(&mut self, holder: u64) -> GrantHandle {
        self.grant_put(holder).expect("a grant").handle
    }

    fn is_granted(&mut self, handle: &GrantHandle) -> bool {
        self.home.nic().signals.grants[handle.slot as usize].word.load(Relaxed) == handle.number
    }

    /// A holder's put, which counts `by`.
    fn put_by(&mut self, handle: &GrantHandle, by: u64) -> bool {
        let good = self.is_granted(handle);
        if good {
            let nic = self.home.nic();
            let lane = &nic.signals.counters[handle.counter as usize].lanes[handle.lane];
            lane.store(lane.load(Relaxed) + by, Release);
        }
        good
    }

    fn counted(&mut self, handle: &GrantHandle) -> u64 {
        self.home.nic().signals.grants[handle.slot as usize].counted.load(Relaxed)
    }

    fn arrived(&mut self, counter: u32) -> u64 {
        self.home.nic().signals.counter(counter).expect("the counter lives").arrived()
    }

    fn increments(&self, other: u32) -> Action<'static> {
        Action::CounterIncrement { counter: other, success: 1, failure: 0 }
    }

    fn run_fired(&mut self) {
        let fired = self.run(|nic, bus| nic.triggered().next_fired(bus, 1)).expect("no sender is busy");
        assert!(fired.is_none(), "only local operations were armed");
    }
}

// ---- Puts that get a grant ------------------------------------------------------------------------------------------

/// A put meets this entry alone on its list, after these changes.
struct Meeting {
    name: &'static str,
    granted: bool,
    spec: fn(&mut EntrySpec),
    put: fn(&mut Put),
    change: fn(&mut Stage),
}

const MEETING: Meeting = Meeting { name: "", granted: true, spec: |_| {}, put: |_| {}, change: |_| {} };

macro_rules! row {
    ($granted:literal, $name:literal $(, $field:ident: $how:expr)*) => {
        Meeting { name: $name, granted: $granted, $($field: $how,)* ..MEETING }
    };
}

const MEETINGS: &[Meeting] = &[
    row!(true, "an entry that counts"),
    row!(true, "one that counts bytes", spec: |spec| spec.options |= options::EVENT_CT_BYTES),
    row!(true, "one that declines acknowledgements", spec: |spec| spec.options |= options::ACK_DISABLE),
    row!(true, "one that also gives", spec: |spec| spec.options |= options::OP_GET),
    row!(true, "one for this user", spec: |spec| spec.uid = UID),
    row!(true, "one for this source", spec: |spec| (spec.source, spec.source_ignore) = (1, 0)),
    row!(true, "one that truncates nothing, and a put that fits", spec: |spec| spec.options |= options::NO_TRUNCATE),
    row!(true, "one whose counter has failures", change: |stage| stage.home.nic().counters().increment(stage.counter, 0, 3)),
    row!(true, "a put beyond the end", put: |put| put.remote_offset = 100),
    row!(true, "an entry on the overflow list besides", change: |stage| {
        stage.append(PORTAL, list::OVERFLOW, &spec(COUNTING, stage.counter));
    }),
    row!(true, "one with a queue for failures only",
        spec: |spec| spec.options |= options::EVENT_SUCCESS_DISABLE, put: |put| put.portal = 1),
    row!(true, "one with a queue without events of messages",
        spec: |spec| spec.options |= options::EVENT_COMM_DISABLE, put: |put| put.portal = 1),
    row!(false, "one that counts and whose queue gets every message", put: |put| put.portal = 1),
    row!(true, "one whose queue gets every message, and that does not count",
        spec: |spec| spec.options &= !options::EVENT_CT_COMM, put: |put| put.portal = 1),
    row!(false, "one that neither counts nor posts", spec: |spec| spec.options &= !options::EVENT_CT_COMM),
    row!(false, "one without a counter", spec: |spec| spec.counter = NONE),
    row!(false, "one that is used once", spec: |spec| spec.options |= options::USE_ONCE),
    row!(false, "one that manages its offset", spec: |spec| spec.options |= options::MANAGE_LOCAL),
    row!(false, "one that takes no puts", spec: |spec| spec.options = options::OP_GET | options::EVENT_CT_COMM),
    row!(false, "one for another user", spec: |spec| spec.uid = UID + 1),
    row!(false, "one for another source", spec: |spec| (spec.source, spec.source_ignore) = (2, 0)),
    row!(false, "one with other bits", put: |put| put.match_bits = 4),
    row!(false, "one that truncates nothing, and a put that is too long",
        spec: |spec| spec.options |= options::NO_TRUNCATE, put: |put| put.length = 65),
    row!(false, "a portal table entry with flow control", put: |put| put.portal = 2),
    row!(false, "no such portal table entry", put: |put| put.portal = 17),
    row!(false, "one that is disabled",
        change: |stage| stage.enable(PORTAL, false)),
    row!(false, "two entries", change: |stage| {
        stage.append(PORTAL, list::PRIORITY, &spec(COUNTING, stage.counter));
    }),
    row!(true, "the second of two entries, the first of which is gone", change: |stage| {
        stage.append(PORTAL, list::PRIORITY, &spec(COUNTING, stage.counter));
        stage.unlink(stage.entry);
    }),
    row!(false, "the entry behind a short list that is gone", change: |stage| {
        let others = (0..LIMITS.short_list).map(|_| stage.append(PORTAL, list::PRIORITY, &spec(COUNTING, stage.counter)));
        let others: Vec<u32> = others.collect();
        stage.home.nic().lists().unlink(stage.entry).expect("it is linked");
        for entry in &others[..others.len() - 1] {
            stage.home.nic().lists().unlink(*entry).expect("it is linked");
        }
    }),
    row!(false, "an unlinked entry", change: |stage| stage.unlink(stage.entry)),
    row!(false, "a counter that is gone",
        change: |stage| stage.counter_free(stage.counter)),
    row!(false, "a counter that an operation waits for", change: |stage| {
        let action = stage.increments(stage.counter);
        assert!(stage.arm(stage.counter, 100, action), "room");
    }),
    row!(false, "a counter with permanent lanes of senders", change: |stage| {
        assert_eq!(stage.home.nic().counters().lane(stage.counter, 3), Some(Lane::Own(0)));
    }),
    row!(false, "a counter without a lane left", change: |stage| {
        for holder in 0..LANES as u64 {
            stage.granted(100 + holder);
        }
    }),
    row!(true, "a counter with one lane left", change: |stage| {
        for holder in 1..LANES as u64 {
            stage.granted(100 + holder);
        }
    }),
];

#[test]
fn plain_puts_that_are_counted_or_reported_are_given_a_grant() {
    for meeting in MEETINGS {
        let mut stage = Stage::empty();
        let queue = stage.home.nic().queues().alloc(2).expect("room");
        stage.home.nic().portal_table().alloc(Some(1), 0, queue).expect("room");
        stage.home.nic().portal_table().alloc(Some(2), options::PT_FLOWCTRL, queue).expect("room");
        let mut spec = spec(COUNTING, stage.counter);
        (meeting.spec)(&mut spec);
        let mut put = PUT;
        (meeting.put)(&mut put);
        let portal = if put.portal < LIMITS.portals { put.portal } else { PORTAL };
        stage.entry = stage.append(portal, list::PRIORITY, &spec);
        (meeting.change)(&mut stage);
        let terms = stage.home.nic().grants().give_put(&put, 55, None, |_| true).ok();
        assert_eq!(terms.is_some(), meeting.granted, "{}", meeting.name);
        let Some(terms) = terms else { continue };
        let ack_disabled = spec.options & options::ACK_DISABLE != 0;
        let in_bytes = spec.options & options::EVENT_CT_BYTES != 0;
        assert_eq!((terms.start, terms.length), (spec.start, spec.length), "{}", meeting.name);
        assert_eq!((terms.match_bits, terms.ignore_bits), (spec.match_bits, spec.ignore_bits), "{}", meeting.name);
        assert_eq!((terms.ack_disabled, terms.in_bytes), (ack_disabled, in_bytes), "{}", meeting.name);
        let posts = spec.options & options::EVENT_CT_COMM == 0;
        assert_eq!((terms.queue != NONE, terms.handle.counter == NONE), (posts, posts), "{}", meeting.name);
        assert!(stage.is_granted(&terms.handle), "{}", meeting.name);
    }
}

// ---- Transitions that need it revoked ------------------------------------------------------------------------------

type Change = (&'static str, bool, fn(&mut Stage));

const CHANGES: &[Change] = &[
    ("the entry is unlinked", true, |stage| stage.unlink(stage.entry)),
    ("another entry is appended", true, |stage| {
        stage.append(PORTAL, list::PRIORITY, &spec(COUNTING, NONE));
    }),
    ("the portal table entry is disabled", true, |stage| {
        stage.enable(PORTAL, false);
    }),
    ("an operation is armed on the counter", true, |stage| {
        let action = stage.increments(stage.counter);
        assert!(stage.arm(stage.counter, 1000, action), "room");
    }),
    ("a receive is posted", true, |stage| {
        let spec = spec(options::OP_PUT | options::USE_ONCE, NONE);
        let posted = stage.run(|nic, bus| nic.receives().post(bus, PORTAL, &spec));
        assert!(matches!(posted, Ok(Posted::Linked(_))));
    }),
    ("the priority list is cleared", true, |stage| {
        stage.run(|nic, _| nic.receives().clear_priority(PORTAL)).expect("no sender is busy");
    }),
    ("the counter is freed", true, |stage| stage.counter_free(stage.counter)),
    ("a process died with the lock", true, |stage| stage.recover(true)),
    ("all are revoked", true, |stage| stage.revoke_all()),
    ("an entry is appended by trigger", true, |stage| {
        let other = stage.home.nic().counters().alloc().expect("room");
        let entry = stage.home.nic().lists().reserve(PORTAL, &spec(COUNTING, NONE)).expect("room");
        assert!(stage.arm(other, 0, Action::Append { entry, list: list::PRIORITY }), "room");
        stage.run_fired();
    }),
    ("the entry is unlinked by trigger", true, |stage| {
        let other = stage.home.nic().counters().alloc().expect("room");
        let entry = stage.entry;
        assert!(stage.arm(other, 0, Action::Unlink { entry }), "room");
        stage.run_fired();
    }),
    ("the counter is set", false, |stage| stage.home.nic().counters().set(stage.counter, 0, 0)),
    ("the counter is incremented", false, |stage| stage.home.nic().counters().increment(stage.counter, 7, 0)),
    ("the counter is set and incremented by trigger", false, |stage| {
        let (other, counter) = (stage.home.nic().counters().alloc().expect("room"), stage.counter);
        let action = Action::CounterSet { counter, success: 4, failure: 0 };
        assert!(stage.arm(other, 0, action), "room");
        let action = stage.increments(counter);
        assert!(stage.arm(other, 0, action), "room");
        stage.run_fired();
        assert_eq!(stage.arrived(counter), 5);
    }),
    ("operations that wait for it are cancelled", false, |stage| {
        stage.home.nic().triggered().cancel_all(stage.counter).expect("it lives");
    }),
    ("an entry is appended to the overflow list", false, |stage| {
        stage.append(PORTAL, list::OVERFLOW, &spec(COUNTING, NONE));
    }),
    ("the portal table entry is enabled", false, |stage| {
        stage.enable(PORTAL, true);
    }),
    ("another portal table entry is disabled", false, |stage| {
        stage.home.nic().portal_table().alloc(Some(1), 0, NONE).expect("room");
        stage.enable(1, false);
    }),
    ("an operation is armed on another counter", false, |stage| {
        let other = stage.home.nic().counters().alloc().expect("room");
        let action = stage.increments(stage.counter);
        assert!(stage.arm(other, 1, action), "room");
    }),
    ("another counter is freed", false, |stage| {
        let other = stage.home.nic().counters().alloc().expect("room");
        stage.counter_free(other);
    }),
    ("an entry comes and goes elsewhere", false, |stage| {
        stage.home.nic().portal_table().alloc(Some(1), 0, NONE).expect("room");
        let entry = stage.append(1, list::PRIORITY, &spec(COUNTING, NONE));
        stage.unlink(entry);
    }),
    ("an entry that does not fit is appended", false, |stage| {
        let appended = stage.run(|nic, bus| nic.lists().append(bus, 99, list::PRIORITY, &spec(COUNTING, NONE)));
        assert!(appended.is_err());
    }),
    ("an unknown entry is unlinked", false, |stage| {
        let entry = stage.home.nic().lists().reserve(PORTAL, &spec(COUNTING, NONE)).expect("room");
        assert_eq!(stage.run(|nic, _| nic.lists().unlink(entry)), Err(UnlinkError::InUse));
        assert_eq!(stage.run(|nic, _| nic.lists().unlink(u32::MAX)), Err(UnlinkError::Invalid));
    }),
    ("the freeing of the portal table entry is refused", false, |stage| {
        assert_eq!(stage.run(|nic, _| nic.portal_table().free(PORTAL)), Err(PortalError::InUse));
    }),
    ("an entry is to be appended to the overflow list by trigger", false, |stage| {
        let other = stage.home.nic().counters().alloc().expect("room");
        let entry = stage.home.nic().lists().reserve(PORTAL, &spec(COUNTING, NONE)).expect("room");
        assert!(stage.arm(other, 0, Action::Append { entry, list: list::OVERFLOW }), "room");
        stage.run_fired();
    }),
    ("another process gets one", false, |stage| {
        let handle = stage.granted(2);
        assert_eq!(stage.counted(&handle), 0);
    }),
];

#[test]
fn what_a_grant_stands_on_does_not_change_before_it_is_revoked() {
    for (name, revokes, change) in CHANGES {
        let mut stage = Stage::new();
        let handle = stage.granted(1);
        for _ in 0..10 {
            assert!(stage.put_by(&handle, 1));
        }
        assert_eq!(stage.awaited(), 0);
        change(&mut stage);
        assert_eq!(stage.awaited() != 0, *revokes, "{name}");
        assert_eq!(stage.put_by(&handle, 1), !revokes, "{name}");
        let out = stage.home.nic().tables.control.granted;
        assert_eq!(out >> handle.slot & 1 == 0, *revokes, "{name}");
    }
}

fn begin_unlink(stage: &mut Stage) -> Revoking {
    let entry = stage.entry;
    stage.try_once(|nic, _| nic.lists().unlink(entry)).expect_err("there is a grant")
}

#[test]
fn a_grant_whose_puts_take_the_lock_needs_no_wait() {
    let mut stage = Stage::empty();
    let queue = stage.home.nic().queues().alloc(2).expect("room");
    stage.home.nic().portal_table().alloc(Some(1), 0, queue).expect("room");
    let entry = stage.append(1, list::PRIORITY, &spec(options::OP_PUT, NONE));
    let put = Put { portal: 1, ..PUT };
    let handle = stage.home.nic().grants().give_put(&put, 1, None, |_| true).expect("a grant").handle;
    assert_eq!(handle.counter, NONE);
    stage.home.nic().lists().unlink(entry).expect("no grant is under way");
    assert!(!stage.is_granted(&handle));
    assert_eq!(stage.home.nic().tables.control.granted, 0);
}

#[test]
fn a_report_that_comes_late_settles_no_later_grant() {
    let mut stage = Stage::new();
    let first = stage.granted(1);
    // Two homes wait for the same grant; one is ready sooner, and its transition fails for another reason.
    let (slow, fast) = (begin_unlink(&mut stage), begin_unlink(&mut stage));
    assert_eq!((slow, fast.grants), (fast, 1 << first.slot));
    stage.home.nic().grants().finish_revoking(&fast);
    let second = stage.home.nic().grants().give_put(&PUT, 1, Some(first.slot), |_| true).expect("a grant").handle;
    assert_eq!(second.slot, first.slot);
    // The first home has waited for the first grant only.
    stage.home.nic().grants().finish_revoking(&slow);
    assert!(stage.is_granted(&second), "the second grant was not revoked");
    let third = begin_unlink(&mut stage);
    stage.home.nic().grants().finish_revoking(&slow);
    assert_eq!(begin_unlink(&mut stage), third, "the second grant was not waited for");
    stage.home.nic().grants().finish_revoking(&third);
    stage.home.nic().lists().unlink(stage.entry).expect("revoked");
}

#[test]
fn a_revocation_whose_process_died_is_ended_by_the_next_that_needs_it() {
    let mut stage = Stage::new();
    let handle = stage.granted(1);
    let _ = begin_unlink(&mut stage);
    assert!(!stage.put_by(&handle, 1));
    // Neither its holder nor another process gets a grant here before that.
    for (holder, before) in [(1, Some(handle.slot)), (2, None)] {
        let refused = stage.try_once(|nic, _| nic.grants().give_put(&PUT, holder, before, |_| true)).map(drop);
        assert_eq!(refused.expect_err("it is being revoked").grants, 1 << handle.slot);
    }
    let counter = stage.counter;
    let refused = stage.home.nic().grants().give_lane(counter, 3, None, |_| true);
    let Err(GrantError::Revoking(revoking)) = refused else { panic!("a lane of the same counter") };
    stage.home.nic().grants().finish_revoking(&revoking);
    assert!(stage.grant_put(2).is_some());
}

#[test]
fn tables_are_rebuilt_without_a_wait() {
    let mut stage = Stage::new();
    let handle = stage.granted(1);
    // In the middle of a put.
    stage.home.nic().signals.grants[handle.slot as usize].busy.store(1, Relaxed);
    stage.home.nic().recover(&mut TestBus::default(), |_| true);
    assert!(!stage.is_granted(&handle));
    let nic = stage.home.nic();
    assert_eq!(nic.tables.counters[handle.counter as usize].lane_owners[handle.lane], 1 << 31 | handle.slot);
    // The put ends: it counts, and the lane had no other owner meanwhile.
    nic.signals.counters[handle.counter as usize].lanes[handle.lane].store(1, Release);
    nic.signals.grants[handle.slot as usize].busy.store(0, Release);
    assert_eq!(stage.arrived(stage.counter), 1);
    let action = stage.increments(stage.counter);
    assert!(stage.arm(stage.counter, 2, action), "after a wait");
    assert_eq!(stage.awaited(), 1 << handle.slot);
}

#[test]
fn a_holder_gives_its_own_grant_up_without_a_wait() {
    let mut stage = Stage::new();
    let (first, second) = (stage.granted(1), stage.granted(2));
    stage.home.nic().grants().end(first.slot);
    assert!(!stage.put_by(&first, 1) && stage.put_by(&second, 1));
    let again = stage
        .home
        .nic()
        .grants()
        .give_put(&PUT, 1, Some(first.slot), |_| true)
        .expect("the slot still belongs to the process")
        .handle;
    assert_eq!((again.slot, again.lane), (first.slot, first.lane));
    let nic = &mut stage.home.nic();
    for slot in [first.slot, second.slot, u32::MAX] {
        nic.grants().free_slot(slot);
    }
    assert_eq!((nic.tables.control.granted, nic.tables.control.revoking), (0, 0));
}

#[test]
fn a_lane_whose_grant_was_revoked_keeps_what_it_holds_and_is_given_again() {
    let mut stage = Stage::new();
    let first = stage.granted(1);
    assert!(stage.put_by(&first, 30));
    stage.enable(PORTAL, false);
    stage.enable(PORTAL, true);
    assert_eq!(stage.arrived(stage.counter), 30);
    let second = stage.granted(2);
    assert_eq!((second.lane, stage.counted(&second)), (first.lane, 30));
    assert_ne!((second.slot, second.number), (first.slot, first.number), "the first slot still belongs to its process");
    assert!(stage.put_by(&second, 3) && !stage.put_by(&first, 1));
    assert_eq!(stage.arrived(stage.counter), 33);
    let again = stage.home.nic().grants().give_put(&PUT, 1, Some(first.slot), |_| true).expect("a grant").handle;
    assert_eq!(again.slot, first.slot);
    assert!(again.number != first.number && !stage.put_by(&first, 1), "an old grant is invalid");
    assert!(again.lane != second.lane && stage.put_by(&again, 1));
    assert_eq!(stage.arrived(stage.counter), 34);
}

#[test]
fn thresholds_count_what_lanes_hold() {
    let mut stage = Stage::new();
    let (counter, other) = (stage.counter, stage.home.nic().counters().alloc().expect("room"));
    let handle = stage.granted(1);
    assert!(stage.put_by(&handle, 40));
    stage.home.nic().counters().increment(counter, 2, 1);
    let action = stage.increments(other);
    assert!(stage.arm(counter, 43, action), "room");
    stage.run_fired();
    assert_eq!(stage.arrived(other), 1, "the operation was due at once");
    assert!(stage.arm(counter, 45, action), "room");
    assert!(stage.grant_put(1).is_none(), "no lane is given while an operation waits");
    stage.home.nic().counters().increment(counter, 1, 0);
    stage.run_fired();
    assert_eq!(stage.arrived(other), 1);
    stage.home.nic().counters().increment(counter, 1, 0);
    stage.run_fired();
    assert_eq!(stage.arrived(other), 2);
    let handle = stage.granted(1);
    assert!(stage.put_by(&handle, 5), "no operation waits any more");
    stage.home.nic().counters().set(counter, 10, 0);
    assert_eq!(stage.arrived(counter), 10);
    assert!(stage.arm(counter, 11, action), "room");
    stage.run_fired();
    assert_eq!(stage.arrived(other), 2, "the value set counts, without the lanes' earlier counts");
    stage.home.nic().counters().increment(counter, 1, 0);
    stage.run_fired();
    assert_eq!(stage.arrived(other), 3);
}

#[test]
fn lanes_that_senders_have_for_good_and_grants_share_no_counter() {
    let mut stage = Stage::new();
    let handle = stage.granted(1);
    assert_eq!(stage.home.nic().counters().lane(stage.counter, 9), Some(Lane::Locked));
    assert!(stage.put_by(&handle, 3));
    stage.revoke_all();
    // A lane with a count is not given to a sender, which would start from nothing.
    let Some(Lane::Own(own)) = stage.home.nic().counters().lane(stage.counter, 9) else { panic!("lanes are free") };
    assert_ne!(own, handle.lane);
    assert!(stage.grant_put(1).is_none());
    assert_eq!(stage.arrived(stage.counter), 3);
}

#[test]
fn a_process_is_given_a_lane_of_its_own_counter() {
    let mut stage = Stage::new();
    let counter = stage.counter;
    let handle = stage.home.nic().grants().give_lane(counter, 1, None, |_| true).expect("a lane");
    assert!(stage.put_by(&handle, 2));
    assert!(stage.grant_put(2).is_some(), "an initiator has another lane");
    stage.awaited();
    stage.enable(PORTAL, false);
    assert!(stage.put_by(&handle, 2), "the lane depends on no portal table entry");
    let other = stage.home.nic().counters().alloc().expect("room");
    let action = stage.increments(other);
    assert!(stage.arm(counter, 5, action), "room");
    assert!(!stage.put_by(&handle, 2));
    assert!(stage.home.nic().grants().give_lane(counter, 1, Some(handle.slot), |_| true).is_err());
    assert!(stage.home.nic().grants().give_lane(NONE, 1, None, |_| true).is_err());
    stage.counter_free(other);
    assert!(stage.home.nic().grants().give_lane(other, 1, None, |_| true).is_err());
}

// ---- Processes that end ------------------------------------------------------------------------------------------

#[test]
fn slots_and_lanes_of_processes_that_have_ended_are_given_to_others() {
    let mut stage = Stage::new();
    let dead: Vec<GrantHandle> = (0..LANES as u64).map(|holder| stage.granted(100 + holder)).collect();
    for (handle, by) in dead.iter().zip(1..) {
        assert!(stage.put_by(handle, by));
        // They died in the middle of a put.
        stage.home.nic().signals.grants[handle.slot as usize].busy.store(1, Relaxed);
    }
    assert!(stage.grant_put(1).is_none());
    let heir =
        stage.home.nic().grants().give_put(&PUT, 1, None, |holder| holder < 100).expect("a dead process's lane").handle;
    assert!(dead.iter().any(|handle| handle.lane == heir.lane) && stage.put_by(&heir, 100));
    assert_eq!(stage.arrived(stage.counter), (1..=LANES as u64).sum::<u64>() + 100);
    let former = dead.iter().find(|handle| handle.lane == heir.lane).expect("the lane had an owner");
    assert!(!stage.put_by(former, 1));
    let nic = stage.home.nic();
    assert_eq!(nic.signals.grants[former.slot as usize].busy.load(Relaxed), 0, "a free slot is not busy");
}

#[test]
fn all_slots_may_be_taken_and_those_of_the_dead_are_taken_over() {
    let mut stage = Stage::new();
    stage.unlink(stage.entry);
    let counters = [stage.counter, stage.home.nic().counters().alloc().expect("room")];
    for holder in 0..GRANTS as u64 {
        // Revoked at once: a slot stays with its process.
        let counter = counters[holder as usize % 2];
        stage.home.nic().grants().give_lane(counter, 100 + holder, None, |_| true).expect("a grant");
        stage.revoke_all();
    }
    let entry = stage.append(PORTAL, list::PRIORITY, &spec(COUNTING, stage.counter));
    assert!(stage.grant_put(1).is_none(), "none is left");
    let handle =
        stage.home.nic().grants().give_put(&PUT, 1, None, |holder| holder != 117).expect("a dead owner's slot").handle;
    assert_eq!(handle.slot, 17);
    stage.home.nic().grants().free_slot(handle.slot);
    assert!(!stage.put_by(&handle, 1), "given up");
    assert_eq!(stage.granted(2).slot, 17, "a slot that was given up is free");
    stage.unlink(entry);
}

#[test]
fn a_death_while_a_grant_is_given_leaves_no_lane_behind() {
    let mut stage = Stage::new();
    let handle = stage.granted(1);
    assert!(stage.put_by(&handle, 4));
    {
        // The lane has its owner, and nothing else has been written.
        let nic = stage.home.nic();
        nic.tables.counters[handle.counter as usize].lane_owners[2] = 1 << 31 | 9;
    }
    stage.recover(true);
    assert_eq!(stage.awaited(), 1 << handle.slot);
    let books = stage.home.nic().tables.counters[handle.counter as usize].lane_owners;
    assert_eq!(books, [0; LANES]);
    assert_eq!(stage.arrived(stage.counter), 4);
    let action = stage.increments(stage.counter);
    assert!(stage.arm(stage.counter, 9, action), "a lane has no owner");
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
        let (counter, other) = (stage.counter, stage.home.nic().counters().alloc().expect("room"));
        let handle = stage.granted(1);
        assert!(stage.put_by(&handle, 7));
        let index = stage.home.nic().tables.control.free_triggered as usize;
        assert!(stage.arm(other, 0, action(counter)), "room");
        let before = stage.home.nic().tables.triggered[index];
        stage.run_fired();
        assert_eq!(stage.arrived(counter), wanted);
        assert!(stage.put_by(&handle, 3));
        // Its executor died before the slot was free.
        let record = &mut stage.home.nic().tables.triggered[index];
        record.slot = slot::word(slot::generation(before.slot), selvedge_nic::tables::triggered::FIRING);
        stage.recover(false);
        assert_eq!(stage.arrived(counter), wanted + 3);
    }
}

#[test]
fn registers_count_puts_by_grant() {
    let mut stage = Stage::new();
    let handle = stage.granted(1);
    let nic = stage.home.nic();
    let counted = [Register::Requests, Register::MatchedPriority, Register::ListSteps];
    let before = counted.map(|register| nic.signals.register(register));
    let grant = &nic.signals.grants[handle.slot as usize];
    grant.puts.store(11, Relaxed);
    grant.bytes.store(88, Relaxed);
    assert_eq!(counted.map(|register| nic.signals.register(register)), before.map(|before| before + 11));
    assert_eq!(nic.signals.register(Register::BytesIn), 88);
    assert_eq!(nic.signals.register(Register::Dropped), 0);
}

// ---- Histories ---------------------------------------------------------------------------------------------------

/// More than the lanes of a counter.
const HOLDERS: usize = LANES + 2;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// A range of holders asks for grants.
    Ask(usize, usize),
    /// A holder puts by its last grant.
    Put(usize),
    Append,
    Unlink,
    Enable(bool),
    /// The threshold: this much above the counter.
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

/// One list, one counter, and the operations that wait for it: each of these increments another counter.
struct Model {
    /// Entries, and whether each is in the short list.
    entries: Vec<(u32, bool)>,
    enabled: bool,
    count: u64,
    waiting: Vec<u64>,
    fired: u64,
    grants: [Option<GrantHandle>; HOLDERS],
}

impl Model {
    fn fire(&mut self) {
        let before = self.waiting.len();
        self.waiting.retain(|&threshold| threshold > self.count);
        self.fired += (before - self.waiting.len()) as u64;
    }

    fn may_give(&self) -> bool {
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
    fn grants_come_and_go_and_every_put_counts_once(history in proptest::collection::vec(op(), 1..120)) {
        let mut stage = Stage::empty();
        let fired_count = stage.home.nic().counters().alloc().expect("room");
        let now = stage.home.nic().counters().alloc().expect("room");
        let mut model = Model {
            entries: Vec::new(),
            enabled: true,
            count: 0,
            waiting: Vec::new(),
            fired: 0,
            grants: [None; HOLDERS],
        };
        // Processes are named 1, 2, ... and each that dies is replaced by a new one.
        let mut names: [u64; HOLDERS] = std::array::from_fn(|holder| holder as u64 + 1);
        for op in history {
            let counter = stage.counter;
            match op {
                Op::Ask(first, last) => {
                    for holder in first..=last {
                        let before = model.grants[holder].map(|handle| handle.slot);
                        let alive = |name: u64| names.contains(&name);
                        let handle = stage.home.nic().grants().give_put(&PUT, names[holder], before, alive).ok();
                        let lanes = (0..HOLDERS).filter(|&other| {
                            other != holder && model.grants[other].is_some_and(|l| stage.is_granted(&l))
                        });
                        let lanes = lanes.count();
                        prop_assert_eq!(handle.is_some(), model.may_give() && lanes < LANES, "{} lanes", lanes);
                        if handle.is_some() {
                            model.grants[holder] = handle.map(|terms| terms.handle);
                        }
                    }
                }
                Op::Put(holder) => {
                    if let Some(handle) = model.grants[holder] {
                        let good = stage.put_by(&handle, 1);
                        prop_assert!(!good || model.may_give());
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
                        stage.unlink(entry);
                    }
                }
                Op::Enable(enabled) => {
                    stage.enable(PORTAL, enabled);
                    model.enabled = enabled;
                }
                Op::Arm(more) => {
                    let action = stage.increments(fired_count);
                    if stage.arm(counter, model.count + more, action) {
                        model.waiting.push(model.count + more);
                    } else {
                        prop_assert_eq!(model.waiting.len(), LIMITS.triggered as usize);
                    }
                }
                Op::Cancel => {
                    stage.home.nic().triggered().cancel_all(counter).expect("it lives");
                    model.waiting.clear();
                }
                Op::Count(by) => {
                    stage.home.nic().counters().increment(counter, by, 0);
                    model.count += by;
                }
                Op::Set(to) => {
                    stage.home.nic().counters().set(counter, to, 0);
                    model.count = to;
                }
                Op::SetLater(to) => {
                    let action = Action::CounterSet { counter, success: to, failure: 0 };
                    if stage.arm(now, 0, action) {
                        model.count = to;
                    }
                }
                Op::GiveUp(holder) => {
                    if let Some(handle) = model.grants[holder].take() {
                        stage.home.nic().grants().free_slot(handle.slot);
                    }
                }
                Op::Die(holder) => {
                    model.grants[holder] = None;
                    names[holder] += HOLDERS as u64;
                }
                Op::Renew => {
                    for (entry, _) in model.entries.drain(..) {
                        stage.unlink(entry);
                    }
                    stage.counter_free(counter);
                    stage.counter = stage.home.nic().counters().alloc().expect("room");
                    (model.count, model.waiting) = (0, Vec::new());
                }
                Op::Recover => {
                    stage.recover(true);
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
            prop_assert_eq!(stage.arrived(fired_count), model.fired, "after {:?}", op);
            sane::assert_sane(&mut stage.home.nic());
            let nic = stage.home.nic();
            let owned = nic.tables.counters.iter().flat_map(|book| book.lane_owners).filter(|&owner| owner != 0);
            prop_assert_eq!(owned.count(), nic.tables.control.granted.count_ones() as usize);
            let granted = nic.signals.grants.iter().filter(|grant| grant.word.load(Relaxed) != 0).count();
            prop_assert_eq!(granted, nic.tables.control.granted.count_ones() as usize);
        }
    }
}

// ---- Histories with puts in the middle ---------------------------------------------------------------------------

#[derive(Clone, Copy, Debug)]
enum Wanted {
    Append,
    Unlink,
    Disable,
    Arm,
    FreeCounter,
    ClearPriority,
    PostReceive,
    /// A triggered operation that is due.
    RunFired,
    RevokeAll,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(usize),
    /// A holder begins a put.
    Begin(usize),
    /// It ends the put.
    End(usize),
    Die(usize),
    GiveUp(usize),
    Try(usize, Wanted),
    Again(usize),
    /// A thread dies while it waits.
    Leave(usize),
    Enable,
    Cancel,
    AppendLater,
    UnlinkLater,
    Recover,
}

/// Threads that change the NIC, and processes that put.
const THREADS: usize = 3;
const SENDERS: usize = 5;

fn step() -> impl Strategy<Value = Step> {
    use Wanted::*;
    let wanted = prop::sample::select(vec![
        Append,
        Unlink,
        Disable,
        Arm,
        FreeCounter,
        ClearPriority,
        PostReceive,
        RunFired,
        RevokeAll,
    ]);
    prop_oneof![
        8 => (0..SENDERS).prop_map(Step::Ask),
        8 => (0..SENDERS).prop_map(Step::Begin),
        6 => (0..SENDERS).prop_map(Step::End),
        1 => (0..SENDERS).prop_map(Step::Die),
        1 => (0..SENDERS).prop_map(Step::GiveUp),
        4 => (0..THREADS, wanted).prop_map(|(thread, wanted)| Step::Try(thread, wanted)),
        4 => Just(Step::Try(0, Append)),
        6 => (0..THREADS).prop_map(Step::Again),
        1 => (0..THREADS).prop_map(Step::Leave),
        2 => Just(Step::Enable),
        2 => Just(Step::Cancel),
        1 => Just(Step::AppendLater),
        1 => Just(Step::UnlinkLater),
        1 => Just(Step::Recover),
    ]
}

#[derive(Clone, Copy, Debug)]
struct Sender {
    name: u64,
    handle: Option<GrantHandle>,
    /// It read its number in the grant word, and has not counted yet.
    in_put: bool,
}

impl Stage {
    fn first_entry(&mut self) -> Option<u32> {
        let entries = &self.home.nic().tables.entries;
        let linked = |index: &usize| slot::status(entries[*index].slot) == selvedge_nic::tables::entry::PRIORITY;
        let index = (0..entries.len()).find(linked)?;
        let encoding = selvedge_nic::handle::Encoding::new(entries.len());
        Some(encoding.encode(index as u32, slot::generation(entries[index].slot)))
    }

    fn attempt(&mut self, wanted: Wanted) -> Result<(), Revoking> {
        let (counter, first) = (self.counter, self.first_entry().unwrap_or(u32::MAX));
        let action = self.increments(counter);
        match wanted {
            Wanted::Append => self
                .try_once(|nic, bus| nic.lists().append(bus, PORTAL, list::PRIORITY, &spec(COUNTING, counter)))
                .map(drop),
            Wanted::Unlink => self.try_once(|nic, _| nic.lists().unlink(first)).map(drop),
            Wanted::Disable => self.try_once(|nic, _| nic.portal_table().set(PORTAL, false)).map(drop),
            Wanted::Arm => self.try_once(|nic, _| nic.triggered().arm(counter, u64::MAX, action)).map(drop),
            Wanted::ClearPriority => self.try_once(|nic, _| nic.receives().clear_priority(PORTAL)).map(drop),
            Wanted::PostReceive => {
                let spec = spec(options::OP_PUT | options::USE_ONCE, NONE);
                self.try_once(|nic, bus| nic.receives().post(bus, PORTAL, &spec)).map(drop)
            }
            Wanted::RunFired => {
                // Runs those before it; the operation that needs a grant revoked is then the first.
                let _ = self.home.nic().triggered().next_fired(&mut self.bus, 1);
                self.try_once(|nic, bus| nic.triggered().next_fired(bus, 1)).map(drop)
            }
            Wanted::RevokeAll => self.try_once(|nic, _| nic.grants().revoke_all()).map(drop),
            Wanted::FreeCounter => {
                self.try_once(|nic, _| nic.counters().free(counter))?.expect("it lives");
                self.counter = self.home.nic().counters().alloc().expect("one was freed");
                Ok(())
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// With any other transitions during a wait: while a put is under way, its grant's entry and counter stay, and it
    /// counts.
    #[test]
    fn nothing_changes_under_a_put(history in proptest::collection::vec(step(), 1..150)) {
        let mut stage = Stage::new();
        let now = stage.home.nic().counters().alloc().expect("room");
        let mut senders: [Sender; SENDERS] =
            std::array::from_fn(|sender| Sender { name: sender as u64 + 1, handle: None, in_put: false });
        let mut waiting: [Option<(Wanted, Revoking)>; THREADS] = [None; THREADS];
        let mut count = 0;
        for step in history {
            let before = stage.counter;
            match step {
                Step::Ask(sender) => {
                    let Sender { name, handle, in_put } = senders[sender];
                    if !in_put {
                        let alive = |name: u64| senders.iter().any(|sender| sender.name == name);
                        let handle = stage.home.nic().grants().give_put(&PUT, name, handle.map(|handle| handle.slot), alive);
                        senders[sender].handle = handle.ok().map(|terms| terms.handle).or(senders[sender].handle);
                    }
                }
                Step::Begin(sender) => {
                    if let Sender { handle: Some(handle), in_put: false, .. } = senders[sender] {
                        let nic = stage.home.nic();
                        let grant = &nic.signals.grants[handle.slot as usize];
                        let entered = grant.word.load(Relaxed) == handle.number;
                        grant.busy.store(entered.into(), Relaxed);
                        senders[sender].in_put = entered;
                    }
                }
                Step::End(sender) => {
                    if let Sender { handle: Some(handle), in_put: true, .. } = senders[sender] {
                        let nic = stage.home.nic();
                        let lane = &nic.signals.counters[handle.counter as usize].lanes[handle.lane];
                        lane.store(lane.load(Relaxed) + 1, Release);
                        nic.signals.grants[handle.slot as usize].busy.store(0, Release);
                        (senders[sender].in_put, count) = (false, count + 1);
                    }
                }
                Step::Die(sender) => {
                    senders[sender] = Sender { name: senders[sender].name + SENDERS as u64, handle: None, in_put: false };
                }
                Step::GiveUp(sender) => {
                    if let Sender { handle: Some(handle), in_put: false, .. } = senders[sender] {
                        stage.home.nic().grants().free_slot(handle.slot);
                        senders[sender].handle = None;
                    }
                }
                Step::Try(thread, wanted) => {
                    if waiting[thread].is_none() {
                        waiting[thread] = stage.attempt(wanted).err().map(|revoking| (wanted, revoking));
                    }
                }
                Step::Again(thread) => {
                    if let Some((wanted, revoking)) = waiting[thread] {
                        let words = stage.home.nic().signals.grants.iter();
                        let words: Vec<bool> = words.map(|grant| grant.word.load(Relaxed) != 0).collect();
                        let is_awaited = |sender: &Sender| {
                            let of = |handle: GrantHandle| revoking.grants >> handle.slot & 1 != 0 && !words[handle.slot as usize];
                            sender.in_put && sender.handle.is_some_and(of)
                        };
                        if !senders.iter().any(is_awaited) {
                            stage.home.nic().grants().finish_revoking(&revoking);
                            waiting[thread] = stage.attempt(wanted).err().map(|revoking| (wanted, revoking));
                        }
                    }
                }
                Step::Leave(thread) => waiting[thread] = None,
                Step::Enable => stage.home.nic().portal_table().set(PORTAL, true).expect("needs nothing"),
                Step::Cancel => stage.home.nic().triggered().cancel_all(stage.counter).expect("it lives"),
                Step::AppendLater => {
                    if let Ok(entry) = stage.home.nic().lists().reserve(PORTAL, &spec(COUNTING, stage.counter)) {
                        let action = Action::Append { entry, list: list::PRIORITY };
                        let _ = stage.home.nic().triggered().arm(now, 0, action);
                    }
                }
                Step::UnlinkLater => {
                    if let Some(entry) = stage.first_entry() {
                        let _ = stage.home.nic().triggered().arm(now, 0, Action::Unlink { entry });
                    }
                }
                Step::Recover => stage.home.nic().recover(&mut TestBus::default(), |_| true),
            }
            if stage.counter != before {
                count = 0;
            }
            let index = stage.counter;
            prop_assert_eq!(stage.arrived(index), count, "after {:?}", step);
            let nic = &mut stage.home.nic();
            for sender in senders.iter().filter(|sender| sender.in_put) {
                let handle = sender.handle.expect("the sender has a grant");
                let portal = &nic.tables.portals[PORTAL as usize];
                prop_assert_eq!((portal.status, portal.entries[0]), (portal::ENABLED, 1), "after {:?}", step);
                let book = &nic.tables.counters[handle.counter as usize];
                prop_assert_eq!(book.armed_head, NONE, "after {:?}", step);
                prop_assert_eq!(book.lane_owners[handle.lane], 1 << 31 | handle.slot, "after {:?}", step);
                prop_assert_eq!(nic.signals.encodings.counters.decode(index).0, handle.counter, "after {:?}", step);
            }
            let control = &nic.tables.control;
            prop_assert_eq!(control.revoking & !control.granted, 0);
            for (slot, grant) in nic.signals.grants.iter().enumerate() {
                let whole = control.granted & !control.revoking;
                prop_assert_eq!(whole >> slot & 1 != 0, grant.word.load(Relaxed) != 0, "slot {} after {:?}", slot, step);
            }
            sane::assert_sane(nic);
        }
    }
}
