// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process dies in the middle of a change, and the next holder of the lock rebuilds the tables.
//!
//! 1. All derived state (links, chains, counts, free lists, the heap's tree) may be anything: after `recover` the NIC
//!    behaves as the model does.
//! 2. Wherever in a delivery its process dies, afterwards the tables are sane, and the message either has not arrived
//!    or its event and count are there, with a failure if its bytes may be incomplete.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;

use crate::common::model::{Weather, essential};
use crate::common::pair::{Pair, op, request};
use crate::common::{Died, Home, TINY, TestBus, sane};
use proptest::prelude::*;
use selvedge_nic::Nic;
use selvedge_nic::buddy::Buddy;
use selvedge_nic::portals::event_queue::Taken;
use selvedge_nic::portals::{Event, event_kind, fail, options};
use selvedge_nic::tables::{Class, Request, kind, slot};

struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// A plausible index as often as nonsense.
    fn link(&mut self) -> u32 {
        let word = self.next();
        match word % 4 {
            0 => u32::MAX,
            1 => (word >> 32) as u32,
            _ => (word >> 32) as u32 % 10,
        }
    }
}

/// Spoils everything that does not follow from slots, sequence numbers and books.
fn scramble(nic: &mut Nic<'_>, seed: u64) {
    let mut noise = Noise(seed);
    let tables = &mut nic.tables;
    for record in tables.entries.iter_mut() {
        (record.next, record.prev, record.headers) = (noise.link(), noise.link(), noise.link());
        record.class = noise.next() as u8;
    }
    for record in tables.headers.iter_mut() {
        for link in record.links.as_flattened_mut() {
            *link = noise.link();
        }
        record.chained = noise.next() as u8;
    }
    for bucket in tables.entry_buckets.iter_mut().chain(tables.header_buckets.iter_mut()) {
        (bucket.head, bucket.tail) = (noise.link(), noise.link());
    }
    for record in tables.portals.iter_mut() {
        (record.entries, record.others) = ([noise.link(), noise.link()], [noise.link(), noise.link()]);
        (record.active, record.searched) = ([noise.next() as u8, noise.next() as u8], noise.next() as u8);
        (record.short_head, record.short_tail) = (noise.link(), noise.link());
        (record.headers, record.header_head, record.header_tail) = (noise.link(), noise.link(), noise.link());
        for class in &mut record.classes {
            let entries = [noise.link(), noise.link()];
            let (used, reserved) = (noise.link(), noise.link());
            *class = Class { ignore_bits: noise.next(), source_ignore: noise.next(), entries, used, reserved };
        }
    }
    for record in tables.triggered.iter_mut() {
        (record.next, record.prev) = (noise.link(), noise.link());
    }
    for record in tables.pending.iter_mut() {
        record.next = noise.link();
    }
    for (book, counter) in tables.counters.iter_mut().zip(nic.signals.counters) {
        book.next_free = noise.link();
        (book.armed_head, book.armed_tail, book.threshold_next) = (noise.link(), noise.link(), noise.next());
        counter.success.store(noise.next(), Relaxed);
        counter.failure.store(noise.next(), Relaxed);
        counter.slot.store(noise.link(), Relaxed);
    }
    for (book, queue) in tables.queues.iter_mut().zip(nic.signals.queues) {
        // The worst value: all events were consumed.
        let head_seen = if noise.next() % 2 == 0 { book.tail } else { noise.next() };
        (book.next_free, book.head_seen) = (noise.link(), head_seen);
        queue.slot.store(noise.link(), Relaxed);
    }
    for record in nic.signals.descriptors {
        record.next_free.store(noise.link(), Relaxed);
    }
    let control = &mut *tables.control;
    (control.free_entry, control.free_header) = (noise.link(), noise.link());
    (control.free_triggered, control.free_pending) = (noise.link(), noise.link());
    (control.free_counter, control.free_queue, control.free_descriptor) = (noise.link(), noise.link(), noise.link());
    (control.fire_head, control.fire_tail, control.drainer) = (noise.link(), noise.link(), noise.next());
    control.answers = noise.link();
    nic.signals.doorbell.fired.store(noise.link(), Relaxed);
    // The tree, not the allocator's four words of header.
    for word in tables.heap_map.iter_mut().skip(4) {
        *word = noise.next();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn scrambled_tables_go_on_as_if_nothing_had_happened(
        before in proptest::collection::vec(op(), 1..40),
        after in proptest::collection::vec(op(), 1..30),
        seed: u64,
    ) {
        let mut pair = Pair::new(12);
        for op in &before {
            pair.step(op);
        }
        scramble(&mut pair.home.nic(), seed);
        pair.home.nic().recover(&mut TestBus::default(), |_| true);
        pair.compare();
        for op in &after {
            pair.step(op);
        }
        pair.take(usize::MAX);
    }

    #[test]
    fn the_heap_is_what_lives_in_it(before in proptest::collection::vec(op(), 1..40), seed: u64) {
        let mut pair = Pair::new(12);
        for op in &before {
            pair.step(op);
        }
        let tree = pair.home.nic().tables.heap_map.to_vec();
        scramble(&mut pair.home.nic(), seed);
        pair.home.nic().recover(&mut TestBus::default(), |_| true);
        let nic = pair.home.nic();
        prop_assert_eq!(&nic.tables.heap_map[..], &tree[..], "the allocator's state depends only on live blocks");
        prop_assert!(Buddy::attach(nic.tables.heap_map).is_ok());
    }
}

// ---- deaths ----

fn reports(pair: &mut Pair) -> (Vec<Event>, Vec<(u64, u64)>) {
    let nic = pair.home.nic();
    let mut events = Vec::new();
    while let Taken::Event(event, _) = nic.signals.take_event(pair.queue) {
        events.push(essential(event));
    }
    let counters = pair.counters.iter().map(|&counter| {
        let counter = nic.signals.counter(counter).expect("the counter lives");
        (counter.success.load(Relaxed), counter.failure.load(Relaxed))
    });
    (events, counters.collect())
}

/// Delivers a request and dies at that call of the bus. Returns the stage of its intent; None: it survived.
fn die_delivering(pair: &mut Pair, request: &Request, weather: Weather, call: u64) -> Option<u32> {
    pair.bus.payload = vec![9; request.length as usize];
    pair.bus.mapped = weather == Weather::Mapped;
    (pair.bus.reachable, pair.bus.initiator_fault, pair.bus.calls_left) = (true, None, Some(call));
    let (home, bus) = (&mut pair.home, &mut pair.bus);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        home.nic().deliver(bus, request);
    }));
    bus.calls_left = None;
    match outcome {
        Ok(()) => None,
        Err(cause) if cause.is::<Died>() => Some(u32::from(home.nic().tables.control.intent.stage)),
        Err(cause) => std::panic::resume_unwind(cause),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn a_death_at_any_point_leaves_sane_tables_and_a_word_to_the_program(
        before in proptest::collection::vec(op(), 1..30),
        request in request(),
        mapped: bool,
        after in proptest::collection::vec(op(), 1..10),
    ) {
        let weather = if mapped { Weather::Mapped } else { Weather::Fine };
        let mut pair = Pair::new(32);
        for op in &before {
            pair.step(op);
        }
        pair.take(usize::MAX);
        let (_, counted) = reports(&mut pair);
        let mut lived = pair.fork();
        let verdict = lived.model.deliver(&request, &vec![9; request.length as usize], weather);
        let mut events = Vec::new();
        while let Some((event, _)) = lived.model.take() {
            events.push(event);
        }
        for call in 0..200 {
            let mut dead = pair.fork();
            let Some(stage) = die_delivering(&mut dead, &request, weather, call) else { break };
            let mut quiet = TestBus::default();
            dead.home.nic().recover(&mut quiet, |_| false);
            sane::assert_sane(&mut dead.home.nic());
            prop_assert_eq!(dead.home.nic().tables.control.intent.stage, 0);
            let (seen, counters) = reports(&mut dead);
            match stage {
                0 if seen.is_empty() => prop_assert_eq!(&counters, &counted, "a count without its event"),
                // The fast path: the event is there, and its count may be lost.
                0 => prop_assert_eq!(&seen, &events),
                1 => failed(&seen, &events, &counters, &counted)?,
                _ => {
                    prop_assert_eq!(&seen, &events, "{:?}", verdict);
                    prop_assert_eq!(&counters, &lived.model.counters);
                }
            }
            if stage == 0 && seen.is_empty() {
                // The message has not arrived: everything else continues. Its bytes may be there.
                dead.model.memory.clone_from(&dead.bus.memory);
                for op in &after {
                    dead.step(op);
                }
            }
        }
    }
}

/// The message failed: its event says so, a used-up entry is gone, and the failure is counted.
fn failed(
    seen: &[Event],
    lived: &[Event],
    counters: &[(u64, u64)],
    counted: &[(u64, u64)],
) -> Result<(), TestCaseError> {
    let communication = |event: &&Event| event.kind <= event_kind::FETCH_ATOMIC;
    if let Some(expected) = lived.iter().find(communication) {
        let Some(event) = seen.iter().find(communication) else {
            return Err(TestCaseError::fail("a lost message without an event"));
        };
        prop_assert_eq!((event.fail, event.mlength), (fail::UNDELIVERABLE, 0));
        prop_assert_eq!(
            Event { fail: expected.fail, mlength: expected.mlength, list: expected.list, ..*event },
            *expected
        );
    }
    for (now, before) in counters.iter().zip(counted) {
        prop_assert_eq!(now.0, before.0, "a failure counted as a success");
    }
    Ok(())
}

/// A writer dies after it took an event's number and before the event was whole.
#[test]
fn an_event_that_was_not_written_does_not_stop_the_queue() {
    let mut home = Home::new(&TINY);
    let mut bus = TestBus::default();
    let queue = home.nic().queues().alloc(4).expect("room");
    assert_eq!(home.nic().portal_table().alloc(None, 0, queue), Ok(0));
    let spec = selvedge_nic::portals::EntrySpec {
        options: options::OP_PUT,
        start: crate::common::MEMORY_AT,
        length: 8,
        iov: u32::MAX,
        iov_count: 0,
        match_bits: 0,
        ignore_bits: 0,
        source: 0,
        source_ignore: 0,
        min_free: 0,
        user_ptr: 0,
        counter: u32::MAX,
        uid: u32::MAX,
    };
    home.nic().lists().append(&mut bus, 0, 0, &spec).expect("room");
    for round in 0..6 {
        let book = home.nic().tables.queues.iter().position(|book| slot::status(book.slot) != slot::FREE).expect("it");
        home.nic().tables.queues[book].tail += 1;
        home.nic().recover(&mut bus, |_| false);
        bus.payload = vec![1; 8];
        let request = Request { kind: kind::PUT, length: 8, header_data: round, ..Request::default() };
        home.nic().deliver(&mut bus, &request);
        let mut seen = Vec::new();
        while let Taken::Event(event, _) = home.nic().signals.take_event(queue) {
            seen.push((event.kind, event.header_data));
        }
        assert_eq!(seen.last(), Some(&(event_kind::PUT, round)), "the queue is blocked");
    }
}
