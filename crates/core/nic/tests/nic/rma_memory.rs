// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of the RMA unit's commands, case by case.
//!
//! 1. A command that is refused anywhere in its range touches nothing, also if the TLB has old entries.
//! 2. The last word of a mapped put is stored after all others.
//! 3. Local memory that is not contiguous is split at the right byte; remote memory is moved in runs.

use crate::common::rma::{
    FIRST_PAGE, PAGE, Recorder, Store, fresh, lasting_words, limits, pattern, register, requester, take, unregister,
};
use crate::common::{Home, MEMORY_AT, TestBus};
use proptest::prelude::*;
use selvedge_nic::atu::{AddressEntry, NlaPage, Rights};
use selvedge_nic::portals::{Delivery, Verdict, fail};
use selvedge_nic::rma::{Descriptor, Operation, RequestError, code, error, mode, spec};
use selvedge_nic::tables::{Request, kind};
use selvedge_nic::{Fault, NoMemory, Register};

/// A NIC whose port 0 has the pages 0 to 7, in this order of its memory's pages.
const ORDER: [u64; 8] = [6, 0, 1, 4, 3, 5, 7, 2];

fn home(tlb_entries: u32) -> Home {
    let mut home = fresh(&limits(2, 4, tlb_entries, 0));
    (0..2).for_each(|vpid| _ = home.nic().ports().open(Some(vpid), 0).expect("it is free"));
    for (page, target) in (0..).zip(ORDER) {
        register(&mut home.nic(), page, Rights::ReadWrite, 0, FIRST_PAGE + target);
    }
    home
}

fn bus(payload: Vec<u8>) -> Recorder {
    let bus = TestBus { memory: pattern(1, 8 * PAGE as usize), payload, mapped: true, ..TestBus::default() };
    Recorder { bus, ..Recorder::default() }
}

fn request(kind: u8, code: u8, address: u64, bytes: u64) -> Request {
    Request {
        kind,
        datatype: code,
        operation: spec::ALL,
        match_bits: mode::TE.into(),
        remote_offset: address,
        length: bytes,
        operand: [0x0102_0304_0506_0708, 0, 0, 0],
        ..Request::default()
    }
}

fn put(address: u64, bytes: u64) -> Request {
    request(kind::RMA_PUT, code::BT_PUT, address, bytes)
}

fn segv() -> Verdict {
    Verdict::Done(Delivery::failed(fail::SEGV))
}

/// Delivers a command that is refused: no byte of memory and no word of the tables has changed.
#[track_caller]
fn refused(home: &mut Home, bus: &mut Recorder, request: &Request, expected: Verdict) {
    let (memory, words) = (bus.bus.memory.clone(), lasting_words(home));
    assert_eq!(home.nic().deliver(bus, request), expected);
    assert!(bus.bus.memory == memory && bus.stores.is_empty(), "it has touched memory: {:?}", bus.stores);
    assert!(bus.bus.reply.is_empty());
    assert!(lasting_words(home) == words, "a refused command has changed the tables");
}

// ---- refusals ----

/// Each page of a range of five pages in turn is one without permission.
#[test]
fn a_command_that_is_refused_within_its_range_touches_nothing() {
    let (start, bytes) = (PAGE - 3, 4 * PAGE);
    for tlb in [0, 1, 4] {
        for bad in 0..5 {
            for reason in 0..4 {
                let mut home = home(tlb);
                let mut nic = home.nic();
                match reason {
                    0 => unregister(&mut nic, bad, 1),
                    1 => register(&mut nic, bad, Rights::ReadWrite, 1, FIRST_PAGE),
                    _ => {}
                }
                let mut wire = bus(pattern(9, bytes as usize));
                if reason == 2 {
                    register(&mut nic, bad, Rights::ReadOnly, 0, FIRST_PAGE);
                    refused(&mut home, &mut wire, &put(start, bytes), segv());
                    register(&mut home.nic(), bad, Rights::WriteOnly, 0, FIRST_PAGE);
                    refused(&mut home, &mut wire, &request(kind::RMA_GET, code::BT_GET, start, bytes), segv());
                    assert_eq!(home.nic().signals.register(Register::Segv), 2);
                    continue;
                }
                if reason == 3 {
                    // Another process must handle it.
                    register(&mut nic, bad, Rights::ReadWrite, 0, FIRST_PAGE + 100);
                    wire.unreachable_from = Some((FIRST_PAGE + 100) * PAGE);
                }
                let expected = if reason == 3 { Verdict::Unreachable } else { segv() };
                refused(&mut home, &mut wire, &put(start, bytes), expected);
                refused(&mut home, &mut wire, &request(kind::RMA_GET, code::QW_GET, start, bytes), expected);
                if bad < 2 {
                    let immediate =
                        Request { length: 8, ..request(kind::RMA_IMMEDIATE_PUT, code::IMMEDIATE_PUT, start, 8) };
                    refused(&mut home, &mut wire, &immediate, expected);
                }
                let refusals = if reason == 3 { 0 } else { 2 + u64::from(bad < 2) };
                assert_eq!(home.nic().signals.register(Register::Segv), refusals);
            }
        }
    }
}

/// A driver has cleared entries and not flushed them yet. The TLB may have them or not, but a put is carried out whole
/// or not at all.
#[test]
fn an_old_entry_of_the_tlb_does_not_split_a_put() {
    for tlb in [1, 2, 4, 8] {
        for cleared in 1u64..1 << 5 {
            let mut home = home(tlb);
            let mut wire = bus(pattern(9, 5 * PAGE as usize));
            let before = wire.bus.memory.clone();
            // The cleared pages have their old entries in the TLB, as far as it has room.
            let cleared = (0..5).filter(|page| cleared >> page & 1 != 0);
            for page in cleared.clone() {
                home.nic().deliver(&mut TestBus::default(), &put(page * PAGE, 1));
            }
            for page in cleared {
                home.nic()
                    .atu()
                    .write_entry(NlaPage::new(page).expect("in range"), AddressEntry::INVALID)
                    .expect("in range");
            }
            match home.nic().deliver(&mut wire, &put(0, 5 * PAGE)) {
                Verdict::Done(delivery) if delivery.fail == fail::OK => assert_eq!(delivery.mlength, 5 * PAGE),
                verdict => {
                    assert_eq!(verdict, segv());
                    assert!(wire.bus.memory == before && wire.stores.is_empty(), "part of a refused put was written");
                }
            }
        }
    }
}

#[test]
fn the_initiators_memory_is_gone() {
    for fault in [Fault::Initiator, Fault::Gone] {
        let (mut home, mut wire) = (home(4), bus(vec![1; 64]));
        wire.bus.initiator_fault = Some(fault);
        refused(&mut home, &mut wire, &put(PAGE, 64), Verdict::Initiator(fault));
        refused(&mut home, &mut wire, &request(kind::RMA_GET, code::BT_GET, 0, 64), Verdict::Initiator(fault));
        assert_eq!(home.nic().signals.register(Register::Segv), 0);
    }
}

#[test]
fn a_closed_port_is_not_there() {
    let (mut home, mut wire) = (home(0), bus(vec![1; 8]));
    for portal in [2, 3, 0xffff, 0x1_0002] {
        for number in kind::RMA_PUT..=kind::RMA_IMMEDIATE_PUT {
            let request = Request { portal, ..request(number, 0, 0, 8) };
            refused(&mut home, &mut wire, &request, Verdict::Done(Delivery::failed(fail::UNDELIVERABLE)));
            let nic = home.nic();
            let last = nic.tables.blocked.as_deref().and_then(|heads| heads.kept().last()).expect("the head stays");
            assert_eq!((last.port, last.source_port), (portal & 0xffff, portal >> 16));
            assert_eq!((last.kind, last.length), (number.into(), request.length));
        }
    }
    let commands = u64::from(kind::RMA_IMMEDIATE_PUT - kind::RMA_PUT + 1);
    assert_eq!(home.nic().tables.blocked.as_deref().map_or(0, |heads| heads.count), 4 * commands);
}

// ---- the order of stores ----

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn the_last_word_of_a_mapped_put_is_stored_last(
        start in prop_oneof![0..32u64, PAGE - 20..PAGE + 4, 2 * PAGE - 20..2 * PAGE + 4, 3 * PAGE - 9..3 * PAGE],
        bytes in prop_oneof![1..40u64, PAGE - 20..PAGE + 20, 1..3 * PAGE],
        mapped: bool,
    ) {
        let (mut home, mut wire) = (home(0), bus(pattern(5, bytes as usize)));
        wire.bus.mapped = mapped;
        let mut expected = wire.bus.memory.clone();
        let address = |at: u64| ORDER[(at / PAGE) as usize] * PAGE + at % PAGE;
        (0..bytes).for_each(|at| expected[address(start + at) as usize] = wire.bus.payload[at as usize]);
        let verdict = home.nic().deliver(&mut wire, &put(start, bytes));
        prop_assert_eq!(verdict, Verdict::Done(Delivery { mlength: bytes, ..Delivery::failed(fail::OK) }));
        prop_assert!(wire.bus.memory == expected);
        // Each byte once.
        prop_assert_eq!(wire.stores.iter().map(|store| store.bytes).sum::<u64>(), bytes);
        let last = MEMORY_AT + address(start + bytes - 1);
        let end = wire.stores.last().expect("there are bytes");
        prop_assert_eq!(end.address + end.bytes, last + 1);
        if mapped {
            prop_assert!(end.address >= last & !7, "the last store is of the last word alone: {:?}", wire.stores);
        } else {
            prop_assert!(wire.stores.iter().all(|store| !store.mapped));
        }
    }
}

#[test]
fn a_put_of_one_word_is_one_store() {
    for (start, bytes) in [(0, 8), (0, 1), (3, 5), (8, 8)] {
        let (mut home, mut wire) = (home(0), bus(vec![7; 8]));
        home.nic().deliver(&mut wire, &put(start, bytes));
        let address = MEMORY_AT + ORDER[0] * PAGE + start;
        assert_eq!(wire.stores, [Store { mapped: false, address, bytes }]);
    }
}

// ---- runs ----

#[test]
fn remote_memory_is_moved_in_runs() {
    for tlb in [0, 1, 8] {
        let (mut home, mut wire) = (home(tlb), bus(pattern(5, 4 * PAGE as usize)));
        wire.bus.mapped = false;
        // Pages 0 | 1 and 2 | 3 | 4.
        home.nic().deliver(&mut wire, &put(PAGE - 8, 3 * PAGE));
        let run = |page: u64, offset: u64, bytes: u64| Store {
            mapped: false,
            address: (FIRST_PAGE + ORDER[page as usize]) * PAGE + offset,
            bytes,
        };
        assert_eq!(wire.stores, [run(0, PAGE - 8, 8), run(1, 0, 2 * PAGE), run(3, 0, PAGE - 8)]);
        home.nic().deliver(&mut wire, &request(kind::RMA_GET, code::BT_GET, PAGE - 8, 3 * PAGE));
        assert!(wire.bus.reply == wire.bus.payload[..3 * PAGE as usize]);
        // An immediate put across two pages.
        wire.stores.clear();
        home.nic().deliver(&mut wire, &request(kind::RMA_IMMEDIATE_PUT, code::IMMEDIATE_PUT, PAGE - 3, 8));
        assert_eq!(wire.stores, [run(0, PAGE - 3, 3), run(1, 0, 5)]);
        let at = |page: usize, offset: u64| (ORDER[page] * PAGE + offset) as usize;
        assert_eq!(wire.bus.memory[at(0, PAGE - 3)..][..3], [8, 7, 6]);
        assert_eq!(wire.bus.memory[at(1, 0)..][..5], [5, 4, 3, 2, 1]);
    }
}

/// Every pair of pages, and some sizes: the command is split where the memory breaks, and counts nothing then.
#[test]
fn local_memory_that_is_not_contiguous_is_cut() {
    let contiguous = |first: u64, count: u64| {
        (first..first + count).all(|page| ORDER[page as usize] == ORDER[first as usize] + page - first)
    };
    let mut home = home(2);
    let mut counted = 0;
    for first in 0..6u64 {
        for offset in [0, 1, 8, 4088, 4095] {
            for bytes in [1, 2, 8, 9, 4095, 4096, 4097, 8191, 8192, 8193] {
                let local = first * PAGE + offset;
                let fits = (1..=3).rev().find(|&count| contiguous(first, count)).expect("one page is");
                let room = fits * PAGE - offset;
                for is_put in [true, false] {
                    let (code, operation) = match is_put {
                        true => (code::BT_PUT, Operation::Put { read: local, write: 7, bytes }),
                        false => (code::BT_GET, Operation::Get { read: 7, write: local, bytes }),
                    };
                    // A get informs its requester at once.
                    let spec = if is_put { spec::ALL } else { spec::COMPLETER };
                    let descriptor = Descriptor { code, node: 0, vpid: 1, spec, modifiers: 0, operation };
                    let before = lasting_words(&mut home);
                    let made = home.nic().rma().request(&mut NoMemory, &requester(0), &descriptor);
                    assert!(lasting_words(&mut home) == before);
                    if u64::from(bytes) <= room {
                        let command = made.expect("it is contiguous");
                        let side = if is_put { command.source } else { command.sink };
                        assert_eq!(side.start, (FIRST_PAGE + ORDER[first as usize]) * PAGE + offset);
                        counted += 1;
                    } else {
                        assert_eq!(made, Err(RequestError::Cut(room as u32)));
                    }
                    let registers = home.nic().signals.registers;
                    let puts_and_gets =
                        [Register::RequesterPuts, Register::RequesterGets].map(|each| registers.get(each));
                    assert_eq!(puts_and_gets.iter().sum::<u64>(), counted);
                }
            }
        }
    }
}

/// The requester refuses: one error notification, which names it.
#[test]
fn a_local_page_that_may_not_be_used_is_an_error_of_the_requester() {
    let mut home = home(0);
    register(&mut home.nic(), 0, Rights::WriteOnly, 0, FIRST_PAGE);
    register(&mut home.nic(), 1, Rights::ReadWrite, 1, FIRST_PAGE);
    let mut head = 0;
    for read in [0, PAGE, 100 * PAGE, 1 << 39, u64::MAX] {
        let operation = Operation::Put { read, write: 9, bytes: 16 };
        let descriptor = Descriptor { code: code::BT_PUT, node: 5, vpid: 1, spec: 0, modifiers: 0, operation };
        let made = home.nic().rma().request(&mut NoMemory, &requester(0), &descriptor);
        assert_eq!(made, Err(RequestError::Refused));
        let notification = take(&mut home, 0, &mut head).expect("an error notification");
        assert_eq!((notification.error, notification.unit), (error::REQUESTER, spec::REQUESTER));
        assert_eq!((notification.word0, notification.size), (read, 15));
        assert_eq!((notification.node, notification.vpid, notification.code), (5, 1, code::BT_PUT));
        assert_eq!(take(&mut home, 0, &mut head), None);
    }
    let closed = home.nic().rma().request(
        &mut NoMemory,
        &requester(9),
        &Descriptor {
            code: code::NOTIFICATION_PUT,
            node: 0,
            vpid: 0,
            spec: 0,
            modifiers: 0,
            operation: Operation::NotificationPut { value: 1, class: 1 },
        },
    );
    assert_eq!(closed, Err(RequestError::Closed));
}
