// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hostile input of the RMA unit: any words of a descriptor, any request, any contents of the tables.
//!
//! 1. Nothing panics.
//! 2. Only bytes that a table or the TLB permits are stored to.
//! 3. A refusal changes only registers and the TLB; at the initiator it leaves one error notification.

use std::sync::atomic::Ordering::Relaxed;

use crate::common::rma::{
    FIRST_PAGE, PAGE, Recorder, command, fresh, lasting_words, limits, notification_put, pattern, take,
};
use crate::common::{Home, TestBus};
use proptest::prelude::*;
use selvedge_nic::NoMemory;
use selvedge_nic::atu::{Access, AddressEntry, NlaPage, PageSize, Rights};
use selvedge_nic::portals::{Delivery, Verdict, fail};
use selvedge_nic::rma::prototype;
use selvedge_nic::rma::{Descriptor, LockRequest, RequestError, Requester, mode, options, spec};
use selvedge_nic::tables::{Command, LockWaiter, PAGES, Request, Side, TlbEntry, kind, port, slot};
use selvedge_nic::velo::PortId;

const VPIDS: u32 = 3;
const NLA_PAGES: u64 = 8;
const MEMORY_PAGES: u64 = 4;
const TLB: u32 = 4;

/// A word: any, or one that is nearly right as an address, an entry or a count.
fn word() -> BoxedStrategy<u64> {
    let entry = (0..4u64, 0..4u64, 0..6u64, prop::sample::select(vec![0u64, 0, 0, 0, 4, 9, 18, 7]))
        .prop_map(|(rights, vpid, page, size)| rights | vpid << 2 | (FIRST_PAGE + page) << 12 | size << 59);
    let address = (0..NLA_PAGES, prop_oneof![Just(0u64), Just(4088), 0..PAGE]).prop_map(|(page, at)| page * PAGE + at);
    prop_oneof![
        3 => any::<u64>(),
        4 => entry,
        4 => address,
        2 => 0..20u64,
        1 => (0..20u64).prop_map(|back| u64::MAX - back),
        1 => (0..64u32).prop_map(|bit| 1 << bit),
        1 => FIRST_PAGE * PAGE..(FIRST_PAGE + MEMORY_PAGES + 1) * PAGE,
    ]
    .boxed()
}

/// A request with any fields, some of them often right.
fn request() -> BoxedStrategy<Request> {
    let kinds = prop_oneof![8 => kind::RMA_PUT..=kind::RMA_IMMEDIATE_PUT, 1 => any::<u8>()];
    let portal = prop_oneof![4 => 0..VPIDS + 1, 1 => any::<u32>()];
    let mode = prop_oneof![4 => word().prop_map(|word| word << 8 | u64::from(mode::TE)), 1 => word()];
    let bytes = prop_oneof![4 => 0..3 * PAGE, 1 => word()];
    let words = (word(), mode, word(), word(), bytes, prop::array::uniform4(word()));
    (kinds, portal, any::<(u8, u8, u8, u32, u32)>(), words)
        .prop_map(|(kind, portal, (operation, datatype, ack, uid, lookups), words)| {
            let (initiator, match_bits, remote_offset, header_data, length, operand) = words;
            Request {
                kind,
                operation,
                datatype,
                ack,
                portal,
                uid,
                lookups,
                initiator,
                match_bits,
                remote_offset,
                header_data,
                length,
                operand,
            }
        })
        // The other units have tests of their own.
        .prop_filter("RMA", |request| request.is_rma())
        .boxed()
}

/// A hostile process's writes to the tables.
#[derive(Clone, Debug)]
struct Tables {
    entries: Vec<u64>,
    tlb: Vec<(u64, u64)>,
    options: Vec<u32>,
    slots: Vec<Option<u32>>,
    tails: Vec<u64>,
    notifications: Vec<u64>,
    waiters: Vec<(u64, u32, i32, i32, u64)>,
    locks: Vec<u32>,
}

fn tables() -> BoxedStrategy<Tables> {
    let many = |count: u32| prop::collection::vec(word(), count as usize);
    let tlb = prop::collection::vec((prop_oneof![4 => 0..NLA_PAGES, 1 => word()], word()), TLB as usize);
    let slots = prop::collection::vec(prop_oneof![5 => Just(None), 1 => any::<u32>().prop_map(Some)], VPIDS as usize);
    let port_options = prop_oneof![2 => Just(0u32), 1 => Just(options::PHYSICAL), 1 => any::<u32>()];
    let waiter = (word(), prop_oneof![0..8u32, any::<u32>()], any::<i32>(), any::<i32>(), word());
    (
        many(NLA_PAGES as u32),
        tlb,
        prop::collection::vec(port_options, VPIDS as usize),
        slots,
        many(VPIDS),
        many(VPIDS * 4 * 2),
        prop::collection::vec(waiter, 4),
        prop::collection::vec(any::<u32>(), 8),
    )
        .prop_map(|(entries, tlb, options, slots, tails, notifications, waiters, locks)| Tables {
            entries,
            tlb,
            options,
            slots,
            tails,
            notifications,
            waiters,
            locks,
        })
        .boxed()
}

/// A NIC with such tables. With `sound`, its queues and its TLB are those of an honest one.
fn home(tables: &Tables, sound: bool) -> Home {
    let mut home = fresh(&limits(VPIDS, 4, TLB, 4));
    let mut nic = home.nic();
    for (vpid, (&options, slot_word)) in tables.options.iter().zip(&tables.slots).enumerate() {
        nic.ports().open(Some(vpid as u16), options).expect("it is free");
        if !sound {
            nic.tables.ports[vpid].notification_tail = tables.tails[vpid];
            nic.tables.ports[vpid].slot = slot_word.unwrap_or(slot::word(7, port::OPEN));
        }
    }
    nic.tables.address_tables[..NLA_PAGES as usize].copy_from_slice(&tables.entries);
    if !sound {
        for (entry, &(page, word)) in nic.tables.tlb.iter_mut().zip(&tables.tlb) {
            *entry = TlbEntry { page, entry: word };
        }
        for (word, spoiled) in nic.signals.notifications.iter().zip(&tables.notifications) {
            word.store(*spoiled, Relaxed);
        }
        for (pointers, word) in nic.signals.port_pointers.iter().zip(&tables.entries) {
            pointers.notification_head.store(*word, Relaxed);
        }
        for (waiter, &(sequence, lock, compare, add, token)) in nic.tables.lock_waiters.iter_mut().zip(&tables.waiters)
        {
            let [state, fail, operation, mode, ..] = token.to_le_bytes();
            let state = if token % 2 == 0 { state % 5 } else { 0 };
            let (source, process) = (lock, token % 3);
            *waiter = LockWaiter {
                sequence,
                lock,
                compare,
                add,
                source,
                origin: token,
                process,
                token,
                executor: token % 3,
                value: add,
                state,
                fail,
                operation,
                mode,
            };
        }
        nic.tables.locks[..8].copy_from_slice(&tables.locks);
    }
    home
}

fn wire(payload_bytes: usize) -> Recorder {
    let memory = pattern(2, (MEMORY_PAGES * PAGE) as usize);
    let bus = TestBus { memory, payload: pattern(3, payload_bytes), mapped: true, ..TestBus::default() };
    Recorder { bus, ..Recorder::default() }
}

/// The pages of memory that may be written for this VPID, by the tables or by the TLB.
fn writable(home: &mut Home, vpid: u16) -> Vec<u64> {
    let nic = home.nic();
    let tables = (0..NLA_PAGES).zip(nic.tables.address_tables.iter().copied());
    let known = tables.chain(nic.tables.tlb.iter().map(|entry| (entry.page, entry.entry)));
    let target = |(page, word): (u64, u64)| {
        AddressEntry::from_bits(word).check(NlaPage::new(page).ok()?, vpid, Access::Write).ok()
    };
    known.filter_map(target).collect()
}

/// Delivers a request, and checks its stores.
fn deliver(home: &mut Home, request: &Request) {
    let vpid = request.destination_vpid();
    let mut bus = wire((request.length % (3 * PAGE)) as usize);
    let (memory, words) = (bus.bus.memory.clone(), lasting_words(home));
    let writable = writable(home, vpid);
    let verdict = home.nic().deliver(&mut bus, request);
    let is_open =
        home.nic().tables.ports.get(usize::from(vpid)).is_some_and(|port| slot::status(port.slot) == port::OPEN);
    let physical = request.match_bits as u8 & mode::TE == 0
        && home.nic().tables.ports.get(usize::from(vpid)).is_some_and(|port| port.options & options::PHYSICAL != 0);
    for store in &bus.stores {
        assert!(is_open && matches!(request.kind, kind::RMA_PUT | kind::RMA_IMMEDIATE_PUT));
        let pages = store.address / PAGE..=(store.address + store.bytes - 1) / PAGE;
        let mut permitted = pages.map(|page| physical || writable.contains(&page));
        assert!(permitted.all(|is| is), "{store:?} is not permitted");
    }
    if !matches!(verdict, Verdict::Done(Delivery { fail: fail::OK, .. })) {
        assert!(bus.faulted || bus.bus.memory == memory, "a refused command has touched memory");
        assert!(lasting_words(home) == words, "a refused command has changed the tables");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_request(tables in tables(), sound: bool, requests in prop::collection::vec(request(), 1..8)) {
        let mut home = home(&tables, sound);
        requests.iter().for_each(|request| deliver(&mut home, request));
        home.nic().notifications().recover();
        requests.iter().for_each(|request| deliver(&mut home, request));
    }

    /// The words of a descriptor, of both generations, and any options of ports and connections.
    #[test]
    fn any_descriptor(
        tables in tables(),
        sound: bool,
        words in prop::collection::vec((prop::array::uniform3(word()), 0..16u64, any::<u32>(), 0..VPIDS as u16 + 1), 1..12),
    ) {
        let mut home = home(&tables, sound);
        let mut heads = [0; VPIDS as usize];
        for (words, code, options, vpid) in words {
            let head = words[0] & !(15 << 2) | code << 2;
            let later = Descriptor::decode(&[head, words[1], words[2]]).ok();
            let early = prototype::decode(words[0] & 0x3fff_fff0 & !(1 << 11), &[words[1], words[2]]).ok();
            for (descriptor, prototype) in later.map(|d| (d, false)).into_iter().chain(early.map(|c| (c.descriptor, true))) {
                let from = Requester { node: 1, vpid, options, prototype, target: 5, uid: 6 };
                let before = lasting_words(&mut home);
                let made = home.nic().rma().request(&mut NoMemory, &from, &descriptor);
                let is_unchanged = lasting_words(&mut home) == before;
                match made {
                    Ok(command) => {
                        let tells = !command.has_payload() && command.operation & spec::REQUESTER != 0;
                        prop_assert!(is_unchanged || tells);
                        if tells {
                            let told = take(&mut home, vpid, &mut heads[usize::from(vpid)]);
                            prop_assert!(!sound || told.is_some_and(|told| told.error == 0));
                        }
                        prop_assert!(command.is_rma() && command.operation & !spec::ALL == 0);
                    }
                    Err(RequestError::Refused) => {
                        if sound {
                            let told = take(&mut home, vpid, &mut heads[usize::from(vpid)]).expect("a refused command gives an error notification");
                            prop_assert_eq!((told.error, told.code), (1, descriptor.code));
                        }
                    }
                    Err(RequestError::Cut(bytes)) => prop_assert!(bytes > 0 && is_unchanged),
                    Err(RequestError::Closed) => prop_assert!(is_unchanged),
                }
            }
        }
    }

    /// The outcome of any command that a table of pending requests may hold.
    #[test]
    fn any_outcome(
        tables in tables(),
        ends in prop::collection::vec((request(), word(), any::<u8>(), any::<u8>(), word(), word()), 1..8),
    ) {
        let mut home = home(&tables, false);
        for (request, start, sent, failed, mlength, remote_offset) in ends {
            let sink = Side { start, ..Side::NOWHERE };
            let command = Command { sink, ..command(request) };
            let delivery = Delivery { fail: failed % 8, mlength, remote_offset, ..Delivery::failed(0) };
            let mut nic = home.nic();
            let _ = nic.admits_reply(&mut NoMemory, &command);
            nic.complete_send(&command, sent % 8);
            nic.complete_response(&command, &delivery);
            let _ = (command.reports_send(), command.reports_to_initiator(), command.is_answered(&delivery));
            nic.notifications().recover();
        }
    }

    #[test]
    fn any_lock_and_any_waiters(
        tables in tables(),
        calls in prop::collection::vec((0..VPIDS as u16 + 1, 0..9u32, any::<i32>(), any::<i32>(), word()), 1..20),
    ) {
        let mut home = home(&tables, false);
        let mut nic = home.nic();
        for (vpid, number, compare, add, token) in calls {
            let number = if number == 8 { token as u32 } else { number };
            let request = LockRequest { vpid, number, compare, add };
            let kept = LockWaiter { source: number, process: token % 3, token, ..LockWaiter::default() };
            let _ = nic.locks().request_or_keep(&mut NoMemory, &request, kept);
            // The most that may be kept.
            let mut answered = 0;
            while let Some(answer) = nic.locks().next_answer(7, |process| process % 2 == 0) {
                nic.locks().finish_answer(answer.index, answer.sequence);
                answered += 1;
            }
            prop_assert!(answered <= 4);
            let _ = nic.locks().request(&mut NoMemory, &request);
            nic.locks().forget_waiters(|waiter| waiter.token == token);
            if token % 4 == 0 {
                nic.recover(&mut NoMemory, |process| process % 2 == 0);
            }
            if token % 5 == 0 {
                let generation = slot::generation(nic.tables.ports[usize::from(vpid) % VPIDS as usize].slot);
                let _ = nic.ports().close(PortId { vpid, generation });
            }
        }
    }
}

/// A program that spoils its queue harms only itself.
#[test]
fn a_spoiled_queue_is_its_own_programs_loss() {
    for spoiled in [1, 1 << 31, u64::MAX] {
        let mut home = fresh(&limits(2, 4, 0, 0));
        (0..2).for_each(|vpid| _ = home.nic().ports().open(Some(vpid), 0).expect("it is free"));
        let (mut honest, mut other) = (0, 0);
        for round in 0..20u64 {
            let nic = home.nic();
            let at = 2 * 4 + 2 * (round as usize % 4) + 1;
            nic.signals.notifications[at].store(if round % 3 == 0 { 0 } else { spoiled }, Relaxed);
            nic.signals.port_pointers[1].notification_head.store(round ^ spoiled, Relaxed);
            for vpid in 0..2 {
                home.nic().deliver(&mut TestBus::default(), &notification_put(vpid, round));
            }
            home.nic().notifications().recover();
            assert_eq!(take(&mut home, 0, &mut honest).map(|seen| seen.word0), Some(round));
            let _ = take(&mut home, 1, &mut other);
        }
    }
}

#[test]
fn lengths_that_leave_the_tables() {
    let mut home = fresh(&limits(1, 4, 2, 0));
    let mut nic = home.nic();
    nic.ports().open(Some(0), 0).expect("it is free");
    let last = PAGES as u64 - 1;
    let entry = AddressEntry::new(Rights::ReadWrite, 0, FIRST_PAGE, PageSize::Kib4).expect("in range");
    nic.atu().write_entry(NlaPage::new(last).expect("in range"), entry).expect("in range");
    for bytes in [PAGE + 1, 1 << 39, u64::MAX, u64::MAX - last * PAGE] {
        for number in [kind::RMA_PUT, kind::RMA_GET] {
            let request = Request {
                kind: number,
                match_bits: mode::TE.into(),
                remote_offset: last * PAGE,
                length: bytes,
                ..Request::default()
            };
            deliver(&mut home, &request);
        }
    }
    let whole = Request {
        kind: kind::RMA_PUT,
        match_bits: mode::TE.into(),
        remote_offset: last * PAGE,
        length: PAGE,
        ..Request::default()
    };
    let mut bus = wire(PAGE as usize);
    assert!(matches!(
        home.nic().deliver(&mut bus, &whole),
        Verdict::Done(Delivery { fail: fail::OK, mlength: PAGE, .. })
    ));
}
