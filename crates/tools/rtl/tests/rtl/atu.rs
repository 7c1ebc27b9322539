// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The address translation unit in lockstep with `nic`'s pipeline: histories, cycles, bad input, parameters.

mod bench;
mod cycles;
mod histories;

use std::path::Path;
use std::process;

use selvedge_nic::atu::ats::{FlushResponse, Transaction};
use selvedge_nic::atu::{Access, FlushMode, Rights, Unit as Peer};
use selvedge_nic::tables::PAGES;
use selvedge_rtl::atu::words::{AtuCommand, Inputs, TRACE_BITS, answer, command, outside_in, outside_out, tlb, trace};

use crate::common::unit;
use crate::layout;
use bench::{Bench, answer_of, ask, entry, fence, flush_pages, flush_vpid};

#[test]
fn layouts_are_those_of_the_package() {
    let Some(mut unit) = unit("atu_layout") else { return };
    let above: Vec<_> = trace::FIELDS.iter().map(|&(name, field)| (name, field.within(TRACE_BITS))).collect();
    let structs = [command::FIELDS, answer::FIELDS, outside_in::FIELDS, outside_out::FIELDS, tlb::FIELDS, &above];
    layout::compare(&mut unit, &structs, tlb::BITS, 1);
}

/// Each fault, from the table and from the TLB: the response's code, and the counts.
#[test]
fn every_fault() {
    let Some(mut bench) = Bench::whole(2) else { return };
    bench.write(1, entry(Rights::ReadOnly, 3, 0x77, 0));
    bench.write(2, entry(Rights::WriteOnly, 3, 0x77, 0));
    bench.write(3, entry(Rights::ReadWrite, 3, 0x77, 0) | 7 << 59);
    let last = 2 * PAGES as u32 - 1;
    bench.write(last, entry(Rights::ReadWrite, 3, 0x99, 0));
    const CASES: [(u16, u32, Access, u64); 11] = [
        (3, 1, Access::Read, 0),
        (3, 1, Access::Write, 3),
        (3, 2, Access::Write, 0),
        (3, 2, Access::Read, 3),
        (4, 1, Access::Read, 2),
        (4, 1, Access::Write, 2),
        (3, 0, Access::Read, 1),
        (3, 3, Access::Read, 1),
        (3, 2 * PAGES as u32 - 1, Access::Write, 0),
        (3, 2 * PAGES as u32, Access::Write, 1),
        (3, (1 << 27) - 1, Access::Read, 1),
    ];
    for _ in 0..2 {
        for (tag, (vpid, page, access, code)) in (0..).zip(CASES) {
            bench.offer(ask(Peer::Completer, tag, vpid, page, access));
            bench.finish();
            let (peer, word) = bench.units.pop().expect("a response");
            assert_eq!((peer, word >> 60, word >> 44 & 0xffff, word >> 40 & 3), (2, 2, tag.into(), code), "{page}");
            let target = if page == last { 0x99 } else { 0x77 };
            assert_eq!(word & ((1 << 40) - 1), if code == 0 { target } else { 0 });
        }
    }
}

/// A large page takes low bits from the request's page, as many as its size says.
#[test]
fn large_pages() {
    let Some(mut bench) = Bench::whole(2) else { return };
    for (size, low) in [(0, 0), (4, 4), (9, 9), (18, 18)] {
        let page = 0x3_5a5a;
        bench.write(page, entry(Rights::ReadWrite, 1, 0xab_cdef_4321, 0) | size << 59);
        bench.offer(flush_pages(FlushMode::Tlb, 0, page, 1));
        for tag in 0..2 {
            bench.offer(ask(Peer::Requester, tag, 1, page, Access::Write));
            bench.finish();
            let mask = (1u64 << low) - 1;
            let target = (0xab_cdef_4321 & !mask) | (u64::from(page) & mask);
            assert_eq!(bench.units.pop().map(|(_, word)| word & ((1 << 40) - 1)), Some(target), "{size}");
        }
    }
}

/// Table reads that are answered twice, too early, or for a slot that does not exist; unexpected or repeated answers of
/// units to flushes; malformed requests and answers. All are refused, as by `nic`, and change nothing.
#[test]
fn bad_input() {
    let Some(mut bench) = Bench::tiny() else { return };
    bench.is_answered = false;
    let refused = |bench: &mut Bench<5, 3, 2>, inputs: Inputs| bench.tick(&inputs).refused;
    for tag in [0, 1, 2, 3, 4, 1 << 15, u16::MAX] {
        assert_eq!(refused(&mut bench, Inputs { read: Some((tag, 1)), ..Inputs::NONE }), [false, true, false]);
    }
    bench.offer(ask(Peer::Requester, 1, 1, 1, Access::Read));
    bench.run(10);
    assert_eq!(bench.reads, [(0, 1)]);
    for tag in [1, 2, 3, 1 << 2, 1 << 8, 1 << 15] {
        assert_eq!(refused(&mut bench, Inputs { read: Some((tag, 1)), ..Inputs::NONE }), [false, true, false]);
    }
    let word = entry(Rights::ReadWrite, 1, 5, 0);
    assert_eq!(refused(&mut bench, Inputs { read: Some((0, word)), ..Inputs::NONE }), [false; 3]);
    for _ in 0..12 {
        assert_eq!(refused(&mut bench, Inputs { read: Some((0, word)), ..Inputs::NONE }), [false, true, false]);
    }
    assert_eq!(bench.units.len(), 1);

    bench.reads.clear();
    let early = answer_of(Peer::Requester, 7);
    assert_eq!(refused(&mut bench, Inputs { answer: Some(early), ..Inputs::NONE }), [false, false, true]);
    bench.offer(flush_vpid(FlushMode::Both, 7, 1));
    bench.run(40);
    assert_eq!(bench.units.len(), 4);
    for unit in Peer::ALL {
        for word in
            [answer_of(unit, 6), answer_of(unit, 7) | 1, answer_of(unit, 7) ^ 6 << 60, answer_of(unit, 7) | 3 << 42]
        {
            assert_eq!(refused(&mut bench, Inputs { answer: Some(word), ..Inputs::NONE }), [false, false, true]);
        }
        let answer = Some(answer_of(unit, 7));
        assert_eq!(refused(&mut bench, Inputs { answer, ..Inputs::NONE }), [false; 3]);
        assert_eq!(refused(&mut bench, Inputs { answer, ..Inputs::NONE }), [false, false, true]);
    }
    bench.run(2);
    assert_eq!(bench.done, [7]);

    let request = 1u64 << 60 | 5 << 44 | 2 << 42 | 1 << 40 | 3 << 27 | 7;
    let flush = 3u64 << 60 | 5 << 44 | 3 << 27 | 7;
    let last = (1u64 << 27) - 1;
    let translations = [0, flush, u64::MAX, request | 3 << 42, request | 2 << 40, request | 1 << 37, request | 1 << 39];
    let flushes =
        [0, request, flush | 1 << 42, flush | 1 << 40, flush | 2 << 40, flush | 1 << 38, 3 << 60 | 1 << 27 | last];
    let fences = [1u64, 1 << 40, 1 << 42, 1 << 60, 5 << 44 | 1, u64::MAX];
    let bad = translations.map(|word| (0, word)).into_iter().chain(fences.map(|word| (4, word)));
    let bad = bad.chain((1..4).flat_map(|operation| flushes.map(|word| (operation, word))));
    for (operation, word) in bad.chain((5..8).map(|operation| (operation, request))) {
        let command = AtuCommand { operation, word };
        assert_eq!(command.request(), None, "{command:x?}");
        assert_eq!(refused(&mut bench, Inputs { command: Some(command), ..Inputs::NONE }), [true, false, false]);
    }
    bench.finish();
}

/// The tables that fill up: requests, slots, flushes. A full one refuses, and continues when there is room.
#[test]
fn full_tables() {
    let Some(mut bench) = Bench::tiny() else { return };
    bench.is_answered = false;
    // Slots: three unanswered reads. Then five requests wait.
    (0..9).for_each(|tag| bench.offer(ask(Peer::Responder, tag, 1, tag.into(), Access::Read)));
    bench.run(40);
    assert_eq!((bench.reads.len(), bench.waiting()), (3, 1), "three slots, five places");
    // A flush of the TLB waits for a slot, and then for nothing.
    bench.offer(flush_pages(FlushMode::Both, 20, 0, 1024));
    (0..2).for_each(|tag| bench.offer(fence(30 + tag)));
    bench.finish();
    assert_eq!((bench.units.len(), bench.done.as_slice()), (12, [20, 30, 31].as_slice()));
    // Two flushes and fences fill the table, and requests of units continue beside them.
    bench.is_answered = false;
    (0..2).for_each(|tag| bench.offer(flush_vpid(FlushMode::Units, tag, 1)));
    bench.run(30);
    let before = bench.units.len();
    (0..8).for_each(|tag| bench.offer(ask(Peer::Responder, tag, 1, 1 << 26, Access::Read)));
    bench.run(60);
    assert_eq!((bench.units.len() - before, bench.waiting()), (8, 0), "responses do not wait for units");
    bench.offer(fence(3));
    bench.offer(ask(Peer::Responder, 9, 1, 1 << 26, Access::Read));
    bench.run(60);
    assert_eq!(bench.waiting(), 2);
    bench.finish();
    assert_eq!(bench.done, [20, 30, 31, 0, 1, 3]);
}

/// Two flushes with one tag are pending. The first answers belong to the older one, even if it is last in the list.
#[test]
fn the_older_flush_of_a_tag_is_answered_first() {
    let Some(mut bench) = Bench::tiny() else { return };
    for round in 1..4 {
        bench.is_answered = false;
        (0..2).for_each(|_| bench.offer(flush_vpid(FlushMode::Units, 7, 1)));
        bench.run(40);
        assert_eq!(bench.asked.len(), 6);
        bench.asked.clear();
        for done in 1..3 {
            for unit in Peer::ALL {
                bench.tick(&Inputs { answer: Some(answer_of(unit, 7)), ..Inputs::NONE });
            }
            bench.run(2);
            assert_eq!(bench.done.len(), done, "{round}");
        }
        bench.done.clear();
        bench.offer(fence(5));
        bench.finish();
        bench.done.clear();
    }
}

/// The race that a flush must win: an old entry was read, but not answered yet, when its page is flushed.
#[test]
fn a_flush_while_translations_are_in_flight() {
    for vpid in [false, true] {
        let Some(mut bench) = Bench::whole(1) else { return };
        bench.is_answered = false;
        for page in 0..20 {
            bench.offer(ask(Peer::Requester, page as u16, 1, page, Access::Read));
        }
        bench.run(40);
        assert_eq!(bench.reads.len(), 20);
        bench.offer(if vpid { flush_vpid(FlushMode::Tlb, 1, 9) } else { flush_pages(FlushMode::Tlb, 1, 3, 4) });
        for page in 0..20 {
            bench.offer(ask(Peer::Requester, page as u16, 1, page, Access::Read));
        }
        bench.run(3000);
        // All requests after the flush miss: memory has not answered.
        assert_eq!(bench.reads.len(), 31, "as many as there are slots beside the flush");
        for page in 0..20 {
            bench.write(page, entry(Rights::ReadOnly, 1, u64::from(page) + 100, 0));
        }
        bench.finish();
        bench.units.clear();
        let misses = bench.misses;
        for page in 0..20 {
            bench.offer(ask(Peer::Requester, page as u16, 1, page, Access::Read));
        }
        bench.finish();
        assert_eq!(bench.misses, misses);
        assert_eq!(bench.units.len(), 20);
    }
}

/// A word has the meaning that `nic` gives it, and a request without an encoding has no word.
#[test]
fn commands_are_those_of_nic() {
    let commands = [fence(0xabcd), flush_vpid(FlushMode::Units, 9, 5), flush_pages(FlushMode::Tlb, 9, 5, 1024)];
    for command in commands.into_iter().chain([ask(Peer::Completer, 7, 1023, 5, Access::Write)]) {
        assert_eq!(command.request().and_then(AtuCommand::of), Some(command));
    }
    let response = FlushResponse { unit: Peer::Responder, tag: 3 };
    assert_eq!(Transaction::FlushResponse(response).encode(), Ok(answer_of(Peer::Responder, 3)));
}

#[test]
fn parameters_out_of_range() {
    if unit("atu").is_none() {
        return;
    }
    let rtl = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../rtl");
    for (parameter, range) in [
        ("TlbEntries=1", "2 to 65,536"),
        ("TlbEntries=1000", "power of two"),
        ("Reorder=1", "2 to 4,096"),
        ("Reorder=4097", "2 to 4,096"),
        ("Requests=1", "2 to 4,096"),
        ("Requests=5000", "2 to 4,096"),
        ("Pending=1", "2 to 64"),
        ("Pending=65", "2 to 64"),
        ("Ports=3", "1 or 2"),
    ] {
        let mut command = process::Command::new("verilator");
        command.args(["--lint-only", "--top-module", "atu", &format!("-G{parameter}")]);
        command.arg("-y").arg(rtl.join("common")).arg("-y").arg(rtl.join("atu"));
        command.args(["common/pac_pkg.sv", "atu/atu_pkg.sv", "atu/atu.sv"].map(|file| rtl.join(file)));
        let said = command.output().expect("Verilator starts");
        let text = String::from_utf8_lossy(&said.stderr);
        let name = parameter.split('=').next().expect("a name");
        assert!(!said.status.success() && text.contains(&format!("atu: {name} is")) && text.contains(range), "{text}");
    }
}
