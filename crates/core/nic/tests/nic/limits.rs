// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every table at its limit: the right error, and no bit changed.

use crate::common::{Home, MEMORY_AT, TINY, TestBus, sane};
use proptest::prelude::*;
use selvedge_nic::aggregation::Membership;
use selvedge_nic::aggregation::member::Started;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::descriptor::DescriptorView;
use selvedge_nic::portals::errors::{AppendError, ArmError, CounterError, PortalError};
use selvedge_nic::portals::triggered::Action;
use selvedge_nic::portals::{Delivery, EntrySpec, Verdict, fail, list, options};
use selvedge_nic::tables::{Command, Request, kind};
use selvedge_nic::{Full, Layout, Limits, Nic, Register};

const LIMITS: Limits = Limits { descriptors: 5, counters: 5, queues: 5, portals: 5, triggered: 5, pending: 5, ..TINY };

fn spec(match_bits: u64) -> EntrySpec {
    EntrySpec {
        options: options::OP_PUT | options::OP_GET,
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
        counter: NONE,
        uid: u32::MAX,
    }
}

/// Repeats an operation until it is refused. Returns the results and the refusal, which leaves every bit unchanged.
fn fill<T, E>(home: &mut Home, mut attempt: impl FnMut(&mut Nic<'_>) -> Result<T, E>) -> (Vec<T>, E) {
    let mut made = Vec::new();
    loop {
        let before = home.memory.clone();
        match attempt(&mut home.nic()) {
            Ok(one) => made.push(one),
            Err(error) => {
                assert!(home.memory == before, "a refused attempt changed the tables");
                sane::assert_sane(&mut home.nic());
                return (made, error);
            }
        }
        assert!(made.len() < 1000, "the table has no limit");
    }
}

#[test]
fn counters() {
    let mut home = Home::new(&LIMITS);
    let (made, Full) = fill(&mut home, |nic| nic.counters().alloc());
    assert_eq!(made.len(), 5);
    assert_eq!(home.nic().counters().free(made[2]), Ok(()));
    assert_eq!(home.nic().counters().free(made[2]), Err(CounterError::Invalid), "a stale reference is refused");
    let (again, Full) = fill(&mut home, |nic| nic.counters().alloc());
    assert_eq!(again.len(), 1);
    assert_ne!(again[0], made[2], "a slot that is used again has another reference");
}

#[test]
fn queues() {
    let mut home = Home::new(&LIMITS);
    let (made, Full) = fill(&mut home, |nic| nic.queues().alloc(2));
    assert_eq!(made.len(), 5);
    let (_, free, _) = home.nic().heap().blocks();
    assert_eq!(home.nic().queues().free(made[0]), Some(()));
    assert_eq!(home.nic().heap().blocks().1, free + 2, "the ring went back to the heap");
    assert_eq!(home.nic().queues().free(made[0]), None);
    let (again, Full) = fill(&mut home, |nic| nic.queues().alloc(2));
    assert_eq!(again.len(), 1);
}

#[test]
fn heap() {
    let mut home = Home::new(&Limits { queues: 500, ..LIMITS });
    let (rings, Full) = fill(&mut home, |nic| nic.queues().alloc(16));
    assert_eq!(rings.len(), 4);
    assert_eq!(home.nic().heap().blocks(), (64, 0, 0));
    let (vectors, Full) = fill(&mut home, |nic| nic.heap().store_iov([(1, 2)].into_iter()));
    assert!(vectors.is_empty());
    let (blocks, Full) = fill(&mut home, |nic| nic.heap().alloc(1));
    assert!(blocks.is_empty());
    assert_eq!(home.nic().queues().free(rings[1]), Some(()));
    let (vectors, Full) = fill(&mut home, |nic| nic.heap().store_iov([(1, 2); 9].into_iter()));
    assert_eq!(vectors.len(), 8, "nine vectors take two blocks");
    assert_eq!(home.nic().queues().alloc(u32::MAX), Err(Full));
    assert_eq!(home.nic().queues().alloc(0), Err(Full));
}

#[test]
fn descriptors() {
    let mut home = Home::new(&LIMITS);
    let (made, Full) =
        fill(&mut home, |nic| nic.descriptors().bind(&DescriptorView { iov: NONE, ..DescriptorView::default() }));
    assert_eq!(made.len(), 5);
    assert_eq!(home.nic().descriptors().release(made[4]), Some(()));
    assert_eq!(home.nic().descriptors().release(made[4]), None);
    assert_eq!(home.nic().signals.descriptor(made[4]), None);
    let (again, Full) =
        fill(&mut home, |nic| nic.descriptors().bind(&DescriptorView { iov: NONE, ..DescriptorView::default() }));
    assert_eq!(again.len(), 1);
}

#[test]
fn portals() {
    let mut home = Home::new(&LIMITS);
    let (made, error) = fill(&mut home, |nic| nic.portal_table().alloc(None, 0, NONE));
    assert_eq!((made, error), (vec![0, 1, 2, 3, 4], PortalError::Full));
    let before = home.memory.clone();
    assert_eq!(home.nic().portal_table().alloc(Some(3), 0, NONE), Err(PortalError::InUse));
    assert_eq!(home.nic().portal_table().alloc(Some(5), 0, NONE), Err(PortalError::Invalid));
    assert_eq!(home.nic().portal_table().free(5), Err(PortalError::Invalid));
    assert_eq!(home.nic().portal_table().set(u32::MAX, true), Err(PortalError::Invalid));
    assert!(home.memory == before);
    let mut bus = TestBus::default();
    let reference = home.nic().lists().append(&mut bus, 3, list::PRIORITY, &spec(0)).expect("room");
    let before = home.memory.clone();
    assert_eq!(home.nic().portal_table().free(3), Err(PortalError::InUse));
    assert!(home.memory == before);
    assert_eq!(home.nic().lists().unlink(reference), Ok(()));
    assert_eq!(home.nic().portal_table().free(3), Ok(()));
}

#[test]
fn entries_of_a_list_and_of_the_table() {
    let mut home = Home::new(&LIMITS);
    assert_eq!(home.nic().portal_table().alloc(None, 0, NONE), Ok(0));
    assert_eq!(home.nic().portal_table().alloc(None, 0, NONE), Ok(1));
    let mut bus = TestBus::default();
    let (made, error) = fill(&mut home, |nic| nic.lists().append(&mut bus, 0, list::PRIORITY, &spec(1)));
    assert_eq!((made.len(), error), (6, AppendError::TooLong));
    let (made, error) = fill(&mut home, |nic| nic.lists().append(&mut bus, 1, list::OVERFLOW, &spec(1)));
    assert_eq!((made.len(), error), (2, AppendError::Full));
    let (reserved, Full) = fill(&mut home, |nic| nic.lists().reserve(0, &spec(1)));
    assert!(reserved.is_empty());
    let (none, error) = fill(&mut home, |nic| nic.lists().append(&mut bus, 4, list::PRIORITY, &spec(1)));
    assert_eq!((none.len(), error), (0, AppendError::Portal));
}

#[test]
fn triggered_operations() {
    let mut home = Home::new(&LIMITS);
    let counter = home.nic().counters().alloc().expect("room");
    let action = Action::CounterIncrement { counter, success: 1, failure: 0 };
    let (made, ArmError::Full) = fill(&mut home, |nic| nic.triggered().arm(counter, 7, action)) else {
        panic!("no grants")
    };
    assert_eq!(made.len(), 5);
    assert!(!home.nic().triggered().has_free_record());
    assert_eq!(home.nic().triggered().cancel_all(counter), Some(()));
    let (made, ArmError::Full) = fill(&mut home, |nic| nic.triggered().arm(counter, 7, action)) else {
        panic!("no grants")
    };
    assert_eq!(made.len(), 5);
}

#[test]
fn pending_requests() {
    let mut home = Home::new(&LIMITS);
    let (made, Full) = fill(&mut home, |nic| nic.pending_mut().add(&Command::default(), 1));
    assert_eq!(made.len(), 5);
    assert!(made.iter().all(|&token| token != 0));
    assert!(home.nic().pending_mut().take(made[1]).is_some());
    assert!(home.nic().pending_mut().take(made[1]).is_none(), "a token is valid once");
    for token in [0, u64::MAX, 1 << 32] {
        assert!(home.nic().pending_mut().take(token).is_none());
    }
    let (again, Full) = fill(&mut home, |nic| nic.pending_mut().add(&Command::default(), 1));
    assert_eq!(again.len(), 1);
    assert_ne!(again[0], made[1]);
}

fn put(home: &mut Home, bus: &mut TestBus, portal: u32) -> Delivery {
    bus.payload = vec![7; 8];
    let request = Request { kind: kind::PUT, portal, length: 8, match_bits: 1, ..Request::default() };
    match home.nic().deliver(bus, &request) {
        Verdict::Done(delivery) => delivery,
        other => panic!("{other:?}"),
    }
}

/// Compares everything but registers and events, which a refused message does change.
fn tables_after(home: &mut Home, bus: &mut TestBus, portal: u32, fail: u8) {
    let mut before = home.clone();
    assert_eq!(put(home, bus, portal), Delivery::failed(fail));
    assert_eq!(before.nic().tables.entries.as_bytes(), home.nic().tables.entries.as_bytes());
    assert_eq!(before.nic().tables.headers.as_bytes(), home.nic().tables.headers.as_bytes());
    assert_eq!(before.nic().tables.heap_map, home.nic().tables.heap_map);
    sane::assert_sane(&mut home.nic());
}

trait AsBytes {
    fn as_bytes(&self) -> Vec<u8>;
}

impl<T: Copy> AsBytes for [T] {
    fn as_bytes(&self) -> Vec<u8> {
        // SAFETY: records have no padding, as their sizes assert.
        unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), size_of_val(self)) }.to_vec()
    }
}

#[test]
fn unexpected_headers() {
    for flow_controlled in [false, true] {
        let mut home = Home::new(&LIMITS);
        let mut bus = TestBus::default();
        let flags = if flow_controlled { options::PT_FLOWCTRL } else { 0 };
        assert_eq!(home.nic().portal_table().alloc(None, flags, NONE), Ok(0));
        home.nic().lists().append(&mut bus, 0, list::OVERFLOW, &spec(1)).expect("room");
        for _ in 0..LIMITS.headers {
            assert_eq!(put(&mut home, &mut bus, 0).fail, fail::OK);
        }
        let (fail, register) = match flow_controlled {
            true => (fail::PT_DISABLED, Register::FlowControl),
            false => (fail::DROPPED, Register::Dropped),
        };
        tables_after(&mut home, &mut bus, 0, fail);
        assert_eq!(home.nic().signals.registers.get(register), 1);
        // One entry takes them all; then there is room again.
        home.nic().lists().append(&mut bus, 0, list::PRIORITY, &spec(1)).expect("room");
        home.nic().portal_table().set(0, true).expect("allocated");
        assert_eq!(put(&mut home, &mut bus, 0).fail, fail::OK);
    }
}

#[test]
fn events_of_a_flow_controlled_portal() {
    let mut home = Home::new(&LIMITS);
    let mut bus = TestBus::default();
    let queue = home.nic().queues().alloc(3).expect("room");
    assert_eq!(home.nic().portal_table().alloc(None, options::PT_FLOWCTRL, queue), Ok(0));
    home.nic().lists().append(&mut bus, 0, list::PRIORITY, &spec(1)).expect("room");
    for _ in 0..2 {
        assert_eq!(put(&mut home, &mut bus, 0).fail, fail::OK);
    }
    tables_after(&mut home, &mut bus, 0, fail::PT_DISABLED);
    assert_eq!(home.nic().signals.registers.get(Register::EventsOverwritten), 0);
}

/// Puts that were sent before one of them was refused are refused, too, when there is room again: their sender can
/// resend all of them, in order.
#[test]
fn puts_of_an_epoch_that_is_over() {
    let mut home = Home::new(&LIMITS);
    let mut bus = TestBus { payload: vec![7; 8], ..TestBus::default() };
    let flags = options::PT_FLOWCTRL;
    assert_eq!(home.nic().portal_table().alloc(None, flags, NONE), Ok(0));
    let mut put_in = |home: &mut Home, epoch: u64| {
        let operand = [0, epoch, 0, 0];
        let request = Request { kind: kind::PUT, length: 8, match_bits: 1, operand, ..Request::default() };
        match home.nic().deliver(&mut bus, &request) {
            Verdict::Done(delivery) => (delivery.fail, delivery.remote_offset),
            other => panic!("{other:?}"),
        }
    };
    // There is no entry, which gives the same error either way.
    assert_eq!(put_in(&mut home, 1), (fail::PT_DISABLED, 2));
    assert_eq!(put_in(&mut home, 1), (fail::PT_DISABLED, 2));
    home.nic().lists().append(&mut TestBus::default(), 0, list::PRIORITY, &spec(1)).expect("room");
    home.nic().portal_table().set(0, true).expect("allocated");
    assert_eq!(put_in(&mut home, 1), (fail::PT_DISABLED, 2), "the put before it was refused");
    assert_eq!(put_in(&mut home, 2).0, fail::OK);
    assert_eq!(put_in(&mut home, 0).0, fail::OK, "of no epoch");
    // Disabled by its owner; freed, and allocated by another.
    home.nic().portal_table().set(0, false).expect("allocated");
    assert_eq!(put_in(&mut home, 2), (fail::PT_DISABLED, 3));
    home.nic().portal_table().set(0, true).expect("allocated");
    home.nic().receives().clear_priority(0).expect("no grants");
    home.nic().portal_table().free(0).expect("nothing is linked");
    assert_eq!(home.nic().portal_table().alloc(Some(0), flags, NONE), Ok(0));
    home.nic().lists().append(&mut TestBus::default(), 0, list::PRIORITY, &spec(1)).expect("room");
    assert_eq!(put_in(&mut home, 3), (fail::PT_DISABLED, 4));
    sane::assert_sane(&mut home.nic());
}

// ---- the layout ----

fn ranges(layout: &Layout) -> Vec<(&'static str, u64, u64)> {
    use selvedge_nic::registers::Registers;
    use selvedge_nic::{signals, tables};
    let limits = &layout.limits;
    macro_rules! table {
        ($field:ident, $count:expr, $record:ty) => {
            (stringify!($field), layout.$field, u64::from($count) * size_of::<$record>() as u64)
        };
    }
    vec![
        table!(control, 1u32, tables::Control),
        table!(doorbell, 1u32, signals::Doorbell),
        table!(registers, 1u32, Registers),
        table!(portals, limits.portals, tables::PortalEntry),
        table!(short_lists, limits.portals * limits.short_list, u32),
        table!(counters, limits.counters, signals::Counter),
        table!(queues, limits.queues, signals::EventQueue),
        table!(descriptors, limits.descriptors, signals::Descriptor),
        table!(counter_books, limits.counters, tables::CounterBook),
        table!(queue_books, limits.queues, tables::QueueBook),
        table!(entries, limits.entries, tables::Entry),
        table!(entry_buckets, layout.entry_bucket_count, tables::Bucket),
        table!(headers, limits.headers, tables::Header),
        table!(header_buckets, layout.header_bucket_count, tables::Bucket),
        table!(triggered, limits.triggered, tables::Triggered),
        table!(pending, limits.pending, tables::Pending),
        table!(ports, limits.vpids, tables::Port),
        table!(port_pointers, limits.vpids, signals::PortPointers),
        table!(locks, limits.vpids * tables::LOCKS as u32, u32),
        table!(lock_waiters, limits.lock_waiters, tables::LockWaiter),
        table!(memberships, limits.memberships, Membership),
        ("started", layout.started, limits.started() * size_of::<Started>() as u64),
        table!(tlb, limits.tlb_entries, tables::TlbEntry),
        table!(mailboxes, limits.vpids * limits.mailbox_slots, [u64; signals::SLOT_WORDS]),
        table!(notifications, limits.vpids * limits.notifications, [u64; signals::NOTIFICATION_WORDS]),
        table!(address_tables, limits.address_tables, [u64; tables::PAGES]),
        table!(heap_map, layout.heap_map_words, u64),
        ("heap", layout.heap, u64::from(limits.heap_blocks_max) * 128),
    ]
}

proptest! {
    #[test]
    fn no_two_tables_overlap(
        sizes in proptest::array::uniform12(prop_oneof![0..3u32, 0..100u32, any::<u32>()]),
        heap in prop_oneof![0..100u32, any::<u32>()],
        units in proptest::array::uniform10(prop_oneof![0..3u32, 0..100u32, any::<u32>()]),
        start in (0..64u64).prop_map(|lines| lines * 128),
    ) {
        let [entries, headers, descriptors, counters, queues, portals, triggered, iovecs, list, short_list, pending, blocks] = sizes;
        let limits = Limits {
            entries, headers, descriptors, counters, queues, portals, triggered, iovecs, list, short_list, pending,
            heap_blocks: blocks, heap_blocks_max: heap,
            vpids: units[0], velo_bytes: units[1], mailbox_slots: units[2], notifications: units[3],
            address_tables: units[4], tlb_entries: units[5], tlb_ways: units[6], lock_waiters: units[7],
            memberships: units[8], member_operations: units[9],
        }.clamped();
        prop_assert!(limits.are_sane());
        prop_assert!(limits.heap_blocks <= limits.heap_blocks_max);
        let layout = Layout::new(&limits, start);
        let mut end = start;
        for (name, offset, bytes) in ranges(&layout) {
            prop_assert_eq!(offset % 128, 0, "{} is not aligned", name);
            prop_assert!(offset >= end, "{} overlaps what lies before it", name);
            end = offset + bytes;
        }
        prop_assert_eq!(end, layout.reserved_bytes());
        prop_assert!(layout.initial_bytes() <= layout.reserved_bytes());
        prop_assert!(layout.entry_bucket_count.is_power_of_two() && layout.entry_bucket_count >= limits.entries);
        prop_assert!(layout.header_bucket_count.is_power_of_two());
    }

    /// A NIC with limits of any size, however odd, works.
    #[test]
    fn small_nics_of_every_shape_work(sizes in proptest::array::uniform10(0..3u32)) {
        let [entries, headers, descriptors, counters, queues, portals, triggered, list, pending, heap_blocks] = sizes;
        let limits = Limits {
            entries, headers, descriptors, counters, queues, portals, triggered, list, pending, heap_blocks,
            ..TINY
        }.clamped();
        let mut home = Home::new(&limits);
        let mut bus = TestBus::default();
        let counter = home.nic().counters().alloc().unwrap_or(NONE);
        let queue = home.nic().queues().alloc(1).unwrap_or(NONE);
        let portal = home.nic().portal_table().alloc(None, 0, queue).unwrap_or(0);
        let with_counter = EntrySpec { counter, options: spec(1).options | options::EVENT_CT_COMM, ..spec(1) };
        for which in [list::OVERFLOW, list::PRIORITY] {
            let _ = home.nic().lists().append(&mut bus, portal, which, &with_counter);
            put(&mut home, &mut bus, portal);
        }
        let _ = home.nic().lists().search(&mut bus, portal, &with_counter, true);
        let _ = home.nic().triggered().arm(counter, 1, Action::CounterSet { counter, success: 0, failure: 0 });
        while home.nic().triggered().next_fired(&mut bus, 1).expect("no grants").is_some() {}
        home.nic().recover(&mut bus, |_| false);
        sane::assert_sane(&mut home.nic());
    }
}

#[test]
fn a_default_nic_takes_less_than_4_mb() {
    let layout = Layout::new(&Limits::DEFAULT, 512);
    assert!(layout.initial_bytes() <= 4_000_000, "{} bytes", layout.initial_bytes());
}
