// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The format: a reader gets the records that were written, and no bytes make it panic.

use proptest::prelude::*;
use selvedge_nic::Limits;
use selvedge_nic::portals::{Delivery, EntrySpec, Posted, Put, Receive};
use selvedge_nic::tables::{Command, Request, Side};
use selvedge_nic::tap::{ArmedAction, Transition};
use selvedge_trace::{Open, Reader, Record, TraceError, encode, preamble, write_all};

fn open() -> Open {
    Open { program: "is.S.x".into(), rank: 3, ni: 1, id: 1 << 32 | 7, limits: Limits::DEFAULT }
}

fn spec(number: u64) -> EntrySpec {
    EntrySpec {
        options: number as u32,
        start: number << 3,
        length: !number,
        iov: 1,
        iov_count: 2,
        match_bits: number,
        ignore_bits: 3,
        source: 4,
        source_ignore: u64::MAX,
        min_free: 5,
        user_ptr: 6,
        counter: 7,
        uid: 8,
    }
}

/// One transition of each kind, with all fields different from their defaults.
fn transitions(number: u64) -> Vec<Transition> {
    let n = number as u32;
    let side = Side { start: number, iov: 1, iov_count: 2, options: 3, queue: 4, counter: 5, reserved: 6 };
    let request = Request {
        kind: 2,
        operation: 3,
        datatype: 4,
        ack: 1,
        portal: n,
        uid: 6,
        lookups: 7,
        initiator: number,
        match_bits: 8,
        remote_offset: 9,
        header_data: 10,
        length: 11,
        operand: [12, 13, 14, number],
    };
    let command = Command { request, target: number, user_ptr: 15, source: side, sink: Side { start: 16, ..side } };
    let delivery = Delivery { fail: 2, mlength: number, remote_offset: 3, ack_disabled: true, list: 1 };
    let put = Put { portal: n, uid: 1, initiator: 2, match_bits: number, remote_offset: 4, header_data: 5, length: 6 };
    let receive = Receive { start: number, length: 1, user_ptr: 2, uses_up: true };
    let view = selvedge_nic::portals::descriptor::DescriptorView {
        start: number,
        length: 1,
        options: 2,
        queue: 3,
        counter: 4,
        iov: 5,
        iov_count: 6,
    };
    let arm = |action| Transition::Arm { counter: n, threshold: number, action, armed: Some((n, 1)) };
    vec![
        Transition::PortalAlloc { wanted: Some(n), options: 1, queue: 2, portal: None },
        Transition::PortalFree { portal: n, is_done: true },
        Transition::PortalSet { portal: n, is_enabled: true, is_done: false },
        Transition::Append { portal: n, list: 1, spec: spec(number), entry: Some(n) },
        Transition::Reserve { portal: n, spec: spec(number), entry: None },
        Transition::Unlink { entry: n, is_done: true },
        Transition::Search { portal: n, spec: spec(number), deletes: true, is_done: true },
        Transition::Deliver { request, delivery },
        Transition::PostReceive { portal: n, spec: spec(number), posted: Some(Posted::Linked(n)) },
        Transition::PostReceive { portal: n, spec: spec(number), posted: Some(Posted::Matched(n)) },
        Transition::TakeReceive { put, receive },
        Transition::ClaimUnexpected { header: n, portal: 1, source: number, match_bits: 2 },
        Transition::DropUnexpected { header: n, portal: 1, source: number, match_bits: 2 },
        Transition::Bind { view, descriptor: Some(n) },
        Transition::Release { descriptor: n, is_done: true },
        Transition::CounterAlloc { counter: Some(n) },
        Transition::CounterFree { counter: n, is_done: true },
        Transition::CountSet { counter: n, success: number, failure: 1 },
        Transition::Count { counter: n, success: number, failure: 1, is_caused: true },
        arm(ArmedAction::Command { command }),
        arm(ArmedAction::CounterSet { counter: n, success: 1, failure: 2 }),
        arm(ArmedAction::CounterIncrement { counter: n, success: 1, failure: 2 }),
        arm(ArmedAction::CounterSuccess { counter: n, success: 1 }),
        arm(ArmedAction::Append { entry: n, list: 1 }),
        arm(ArmedAction::Receive { entry: n, queue: 1 }),
        arm(ArmedAction::Unlink { entry: n }),
        Transition::CancelTriggered { counter: n, is_done: true },
        Transition::CancelArmed { armed: (n, 1), is_done: false },
        Transition::Fire { fired: Some((n, command)) },
        Transition::Fire { fired: None },
        Transition::Finish { index: n },
        Transition::QueueAlloc { capacity: n, queue: Some(1) },
        Transition::QueueTaken { queue: n, taken: u64::MAX - 1, posted: 3 },
        Transition::QueueFree { queue: n, is_done: true },
        Transition::Issue { command },
        Transition::Send { command, fail: 3 },
        Transition::Response { command, delivery },
    ]
}

fn trace(number: u64) -> (Vec<Record>, Vec<u8>) {
    let first = Record::Open(open());
    let records: Vec<Record> =
        std::iter::once(first).chain(transitions(number).into_iter().map(Record::Transition)).collect();
    let mut bytes = Vec::new();
    write_all(&mut bytes, &records).expect("memory");
    (records, bytes)
}

fn read(bytes: &[u8]) -> Result<Vec<Record>, TraceError> {
    Reader::new(bytes)?.collect()
}

#[test]
fn each_kind_is_read_as_it_was_written() {
    for number in [0, 1, 77, u64::MAX, 1 << 40] {
        let (records, bytes) = trace(number);
        assert_eq!(read(&bytes).expect("a trace"), records);
    }
}

#[test]
fn a_file_that_ends_early_says_where() {
    let (records, bytes) = trace(5);
    let mut starts = vec![preamble().len()];
    records.iter().for_each(|record| starts.push(starts.last().unwrap() + encode(record).len()));
    for end in preamble().len()..bytes.len() {
        let place = starts.partition_point(|&start| start <= end) - 1;
        match read(&bytes[..end]) {
            Ok(read) => assert_eq!((read.len(), starts[place]), (place, end), "whole records only"),
            Err(error) => {
                assert_eq!(error.to_string(), format!("offset {}: the file ends within a record", starts[place]));
            }
        }
    }
    for end in 0..preamble().len() {
        assert!(matches!(read(&bytes[..end]), Err(TraceError::Magic(_))));
    }
}

#[test]
fn malformed_files_are_refused_with_a_reason() {
    let refused = |bytes: &[u8]| read(bytes).expect_err("malformed").to_string();
    let (_, good) = trace(5);
    assert!(refused(b"\x7fELF....").contains("not a trace"));
    let mut other = good.clone();
    other[7] = 9;
    assert_eq!(refused(&other), "trace of version 9; this program reads version 1");

    let with = |body: &[u8]| {
        let mut bytes = preamble().to_vec();
        bytes.extend(encode(&Record::Open(open())));
        bytes.extend((body.len() as u16).to_le_bytes());
        bytes.extend(body);
        refused(&bytes)
    };
    let at = preamble().len() + encode(&Record::Open(open())).len();
    assert_eq!(with(&[200]), format!("offset {at}: an unknown kind of record"));
    assert_eq!(with(&[6, 0, 0]), format!("offset {at}: a record is shorter than its kind"));
    assert_eq!(with(&[6, 0, 0, 0, 0, 1, 0]), format!("offset {at}: a record is longer than its kind"));
    assert_eq!(with(&[6, 0, 0, 0, 0, 2]), format!("offset {at}: a boolean is neither 0 nor 1"));
    assert_eq!(with(&[]), format!("offset {at}: a record is shorter than its kind"));

    let mut no_nic = preamble().to_vec();
    no_nic.extend(encode(&Record::Transition(Transition::Finish { index: 1 })));
    assert_eq!(refused(&no_nic), "offset 8: a transition before a NIC was opened");
}

#[test]
fn a_long_name_is_cut() {
    let long = Record::Open(Open { program: "ä".repeat(300), ..open() });
    let mut bytes = Vec::new();
    write_all(&mut bytes, [&long]).expect("memory");
    let Ok([Record::Open(read)]) =
        read(&bytes).as_deref().map(|records| <&[Record; 1]>::try_from(records).unwrap().clone())
    else {
        panic!("a record of a NIC")
    };
    assert_eq!(read.program, "ä".repeat(127));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), whole in any::<bool>()) {
        let mut all = if whole { Vec::new() } else { preamble().to_vec() };
        all.extend(bytes);
        let _ = read(&all);
    }

    #[test]
    fn a_changed_byte_changes_the_records_or_is_an_error(number in any::<u64>(), at in any::<prop::sample::Index>(), by in 1..=255u8) {
        let (records, mut bytes) = trace(number);
        let at = at.index(bytes.len());
        bytes[at] ^= by;
        if let Ok(read) = read(&bytes) {
            prop_assert!(read != records, "byte {at} has no meaning");
        }
    }
}
