// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The address translation unit against a plain walk of the tables, with a TLB that keeps old entries; its faults; and
//! its pipeline against the plain functions.

use std::collections::{HashMap, VecDeque};

use crate::common::{Home, TINY};
use proptest::prelude::*;
use selvedge_nic::atu::ats::{FlushRequest, FlushResponse, TranslationRequest, TranslationResponse};
use selvedge_nic::atu::pipeline::{Output, Progress, Request};
use selvedge_nic::atu::{
    Access, AddressEntry, Flush, FlushMode, FlushTarget, NlaPage, NotAwaited, OutOfRange, PAGE_BYTES, PageSize,
    Pipeline, Rights, Translated, TranslationFault, Unit,
};
use selvedge_nic::tables::{PAGES, TlbEntry};
use selvedge_nic::{Bus, Full, Limits, NoMemory, Register, Step};

type Run = (u64, u64, u64);

/// A NIC with one table and a TLB of this size.
fn home(tlb_entries: u32, tlb_ways: u32) -> Home {
    Home::new(&Limits { vpids: 1, address_tables: 1, tlb_entries, tlb_ways, ..TINY }.clamped())
}

fn page(number: u64) -> NlaPage {
    NlaPage::new(number).unwrap()
}

fn entry(vpid: u16, target: u64) -> AddressEntry {
    AddressEntry::new(Rights::ReadWrite, vpid, target, PageSize::Kib4).unwrap()
}

/// Translates a whole range. The visited runs stay recorded after a fault.
fn translate_all(
    home: &mut Home,
    vpid: u16,
    nla: u64,
    bytes: u64,
    access: Access,
) -> (Vec<Run>, Option<TranslationFault>) {
    let mut runs = Vec::new();
    let visit = |_: &mut NoMemory, address, offset, bytes| {
        runs.push((address, offset, bytes));
        Ok::<(), TranslationFault>(())
    };
    let result = home.nic().atu().translate_all(&mut NoMemory, vpid, nla, bytes, access, visit);
    (runs, result.err())
}

fn translate(home: &mut Home, vpid: u16, nla: u64, bytes: u64, access: Access) -> Result<Translated, TranslationFault> {
    home.nic().atu().translate(&mut NoMemory, vpid, nla, bytes, access)
}

fn register(home: &mut Home, register: Register) -> u64 {
    home.nic().signals.register(register)
}

// ---- single cases ----

#[test]
fn every_fault() {
    let mut home = home(4, 1);
    let rights = |rights| AddressEntry::new(rights, 3, 0x77, PageSize::Kib4).unwrap();
    home.nic().atu().write_entry(page(1), rights(Rights::ReadOnly)).unwrap();
    home.nic().atu().write_entry(page(2), rights(Rights::WriteOnly)).unwrap();
    let beyond = (PAGES as u64) << 12;
    use TranslationFault::*;
    let cases = [
        (3, 0x1004, Access::Read, Ok(Translated { address: 0x7_7004, bytes: 8 })),
        (3, 0x1004, Access::Write, Err(NoRight)),
        (3, 0x2fff, Access::Write, Ok(Translated { address: 0x7_7fff, bytes: 1 })),
        (3, 0x2fff, Access::Read, Err(NoRight)),
        (4, 0x1004, Access::Read, Err(WrongVpid)),
        (4, 0x1004, Access::Write, Err(WrongVpid)),
        (3 | 1 << 10, 0x1004, Access::Read, Err(WrongVpid)),
        (3, 0, Access::Read, Err(NotRegistered)),
        (3, beyond - 1, Access::Read, Err(NotRegistered)),
        (3, beyond, Access::Read, Err(NotRegistered)),
        (3, 1 << 39, Access::Read, Err(NotRegistered)),
        (3, u64::MAX, Access::Read, Err(NotRegistered)),
    ];
    // First from the table, then from the TLB: the same.
    for _ in 0..2 {
        for (vpid, nla, access, expected) in cases {
            let before = register(&mut home, Register::TranslationFaults);
            assert_eq!(translate(&mut home, vpid, nla, 8, access), expected, "{vpid} {nla:x} {access:?}");
            let (runs, fault) = translate_all(&mut home, vpid, nla, 1, access);
            assert_eq!(fault, expected.err());
            assert_eq!(runs, expected.map(|run| (run.address, 0, 1)).into_iter().collect::<Vec<_>>());
            let faults = if expected.is_err() { 2 } else { 0 };
            assert_eq!(register(&mut home, Register::TranslationFaults), before + faults);
        }
    }
}

/// One page without permission, at any place of a range: nothing is visited.
#[test]
fn a_range_is_translated_as_a_whole_or_not_at_all() {
    for tlb in [0, 1, 8] {
        for bad in 0..5 {
            for fault in [TranslationFault::NotRegistered, TranslationFault::WrongVpid, TranslationFault::NoRight] {
                let mut home = home(tlb, 1);
                for number in 0..5 {
                    home.nic().atu().write_entry(page(number), entry(1, 100 + number * 2)).unwrap();
                }
                let bytes = 4 * PAGE_BYTES;
                let pieces = vec![
                    (0x6_4ffe, 0, 2),
                    (0x6_6000, 2, 4096),
                    (0x6_8000, 4098, 4096),
                    (0x6_a000, 8194, 4096),
                    (0x6_c000, 12290, 4094),
                ];
                assert_eq!(translate_all(&mut home, 1, 4094, bytes, Access::Write), (pieces, None));
                let spoiled = match fault {
                    TranslationFault::NotRegistered => AddressEntry::INVALID,
                    TranslationFault::WrongVpid => entry(2, 7),
                    TranslationFault::NoRight => AddressEntry::new(Rights::ReadOnly, 1, 7, PageSize::Kib4).unwrap(),
                };
                home.nic().atu().write_entry(page(bad), spoiled).unwrap();
                _ = home.nic().atu().flush_entries(page(bad), 1, FlushMode::Tlb).unwrap();
                assert_eq!(translate_all(&mut home, 1, 4094, bytes, Access::Write), (vec![], Some(fault)));
            }
        }
    }
    // A range that leaves the tables, or the addresses.
    let mut home = home(0, 0);
    let last = PAGES as u64 - 1;
    home.nic().atu().write_entry(page(last), entry(1, 1)).unwrap();
    for bytes in [4097, u64::MAX] {
        let refused = (vec![], Some(TranslationFault::NotRegistered));
        assert_eq!(translate_all(&mut home, 1, last << 12, bytes, Access::Read), refused);
        let run = Translated { address: 0x1000, bytes: 4096 };
        assert_eq!(translate(&mut home, 1, last << 12, bytes, Access::Read), Ok(run));
    }
    assert_eq!(translate_all(&mut home, 1, u64::MAX, 0, Access::Read), (vec![], None), "an empty range");
}

#[test]
fn a_visitor_may_stop() {
    let mut home = home(2, 1);
    (0..3).for_each(|number| home.nic().atu().write_entry(page(number), entry(0, number * 5)).unwrap());
    let mut visits = 0;
    let visit = |_: &mut NoMemory, _, _, _| {
        visits += 1;
        if visits == 2 { Err(TranslationFault::NoRight) } else { Ok(()) }
    };
    let result = home.nic().atu().translate_all(&mut NoMemory, 0, 0, 3 * PAGE_BYTES, Access::Read, visit);
    assert_eq!((result, visits), (Err(TranslationFault::NoRight), 2));
    assert_eq!(register(&mut home, Register::TranslationFaults), 0, "a visitor's error is no fault");
}

#[test]
fn large_pages() {
    for size in PageSize::ALL {
        let mut home = home(0, 0);
        let (pages, target) = (size.pages(), 3 << 18);
        let entry = AddressEntry::new(Rights::ReadWrite, 1, target, size).unwrap();
        let first = if size == PageSize::Gib1 { 0 } else { 2 * pages };
        home.nic().atu().write_large_page(page(first), entry).unwrap();
        if pages > 1 {
            assert_eq!(home.nic().atu().write_large_page(page(first + 1), entry), Err(OutOfRange), "not aligned");
        }
        assert_eq!(home.nic().atu().write_large_page(page(PAGES as u64), entry), Err(OutOfRange));
        let bytes = pages * PAGE_BYTES - 5;
        let run = (target * PAGE_BYTES + 5, 0, bytes);
        let all = translate_all(&mut home, 1, first * PAGE_BYTES + 5, bytes, Access::Read);
        assert_eq!(all, (vec![run], None), "{size:?}");
        let after = translate(&mut home, 1, (first + pages) * PAGE_BYTES, 1, Access::Read);
        assert_eq!(after, Err(TranslationFault::NotRegistered));
    }
}

/// As on hardware: an entry that was cleared without a flush is still used, and the VPID and the rights of the old
/// entry decide.
#[test]
fn the_tlb_keeps_old_entries_until_a_flush() {
    let mut home = home(4, 1);
    home.nic().atu().write_entry(page(1), entry(5, 9)).unwrap();
    let old = Ok(Translated { address: 0x9000, bytes: 1 });
    assert_eq!(translate(&mut home, 5, 0x1000, 1, Access::Read), old);
    home.nic().atu().clear_entries(page(0), 4).unwrap();
    assert_eq!(translate(&mut home, 5, 0x1000, 1, Access::Write), old);
    home.nic().atu().write_entry(page(1), entry(6, 8)).unwrap();
    assert_eq!(translate(&mut home, 5, 0x1000, 1, Access::Write), old);
    assert_eq!(translate(&mut home, 6, 0x1000, 1, Access::Read), Err(TranslationFault::WrongVpid));
    // The units alone: the TLB keeps its entry. The TLB alone: no unit is asked.
    _ = home.nic().atu().flush_entries(page(1), 1, FlushMode::Units).unwrap();
    assert_eq!(translate(&mut home, 5, 0x1000, 1, Access::Write), old);
    assert!(home.nic().atu().flush_entries(page(1), 1, FlushMode::Tlb).unwrap().is_complete());
    assert_eq!(translate(&mut home, 5, 0x1000, 1, Access::Read), Err(TranslationFault::WrongVpid));
    let new = Ok(Translated { address: 0x8000, bytes: 1 });
    assert_eq!(translate(&mut home, 6, 0x1000, 1, Access::Read), new);
    let count = |home: &mut Home, name| register(home, name);
    assert_eq!(count(&mut home, Register::TlbMisses), 2);
    assert_eq!(count(&mut home, Register::TlbHits), 5);
    assert_eq!(count(&mut home, Register::TlbFlushes), 1);
    // A newly registered page needs no flush.
    assert_eq!(translate(&mut home, 5, 0x3000, 1, Access::Read), Err(TranslationFault::NotRegistered));
    home.nic().atu().write_entry(page(3), entry(5, 1)).unwrap();
    assert!(translate(&mut home, 5, 0x3000, 1, Access::Read).is_ok());
    // A direct mapped TLB loses an entry to another page of its set.
    home.nic().atu().clear_entries(page(3), 1).unwrap();
    home.nic().atu().write_entry(page(7), entry(5, 1)).unwrap();
    assert!(translate(&mut home, 5, 0x3000, 1, Access::Read).is_ok());
    assert!(translate(&mut home, 5, 0x7000, 1, Access::Read).is_ok());
    assert_eq!(translate(&mut home, 5, 0x3000, 1, Access::Read), Err(TranslationFault::NotRegistered));
}

#[test]
fn a_flush_is_complete_when_all_units_have_answered() {
    let mut home = home(8, 2);
    for mode in [FlushMode::Units, FlushMode::Both] {
        let done = register(&mut home, Register::AtuFlushes);
        let mut flush = home.nic().atu().flush_vpid(3, mode);
        for (at, unit) in [Unit::Completer, Unit::Requester, Unit::Responder].into_iter().enumerate() {
            assert!(!flush.is_complete() && flush.awaits(unit));
            assert_eq!(register(&mut home, Register::AtuFlushes), done);
            assert_eq!(home.nic().atu().answer_flush(&mut flush, unit), Ok(at == 2));
            assert_eq!(home.nic().atu().answer_flush(&mut flush, unit), Err(NotAwaited));
        }
        assert!(flush.is_complete());
        assert_eq!(register(&mut home, Register::AtuFlushes), done + 1);
    }
    assert!(home.nic().atu().flush_vpid(3, FlushMode::Tlb).is_complete());
    assert_eq!(register(&mut home, Register::AtuFlushes), 2);
}

#[test]
fn the_driver_is_refused_beyond_the_tables() {
    let mut home = home(1, 1);
    let last = PAGES as u64 - 1;
    home.nic().atu().write_entry(page(last), entry(1, 1)).unwrap();
    let before = home.memory.clone();
    for (first, count) in [(last, 2), (last + 1, 1), (0, u32::MAX), ((1 << 27) - 1, u32::MAX)] {
        assert_eq!(home.nic().atu().clear_entries(page(first), count), Err(OutOfRange));
        assert_eq!(home.nic().atu().flush_entries(page(first), count, FlushMode::Both).err(), Some(OutOfRange));
    }
    assert_eq!(home.nic().atu().write_entry(page(last + 1), entry(1, 1)), Err(OutOfRange));
    assert_eq!(home.nic().atu().read_entry(page(last + 1)), Err(OutOfRange));
    assert!(home.memory == before);
    assert_eq!(home.nic().atu().read_entry(page(last)), Ok(entry(1, 1)));
    home.nic().atu().clear_entries(page(0), PAGES as u32).unwrap();
    assert_eq!(home.nic().atu().read_entry(page(last)), Ok(AddressEntry::INVALID));
}

#[derive(Default)]
struct Costs {
    hits: u64,
    reads: u64,
}

impl Bus for Costs {
    fn charge(&mut self, step: Step) {
        match step {
            Step::TlbHit => self.hits += 1,
            Step::AddressTableRead => self.reads += 1,
            other => panic!("translation takes no {other:?}"),
        }
    }
}

#[test]
fn a_death_in_the_middle_of_a_change_empties_the_tlb() {
    let mut home = home(4, 2);
    home.nic().atu().write_entry(page(1), entry(5, 9)).unwrap();
    assert!(translate(&mut home, 5, 0x1000, 1, Access::Read).is_ok());
    home.nic().tables.tlb[1] = TlbEntry { page: 1, entry: entry(6, 7).bits() };
    home.nic().recover(&mut NoMemory, |_| true);
    assert!(home.nic().tables.tlb.iter().all(|slot| slot.entry == 0));
}

// ---- against a plain walk ----

fn check(word: u64, number: u64, vpid: u16, access: Access) -> Result<u64, TranslationFault> {
    let (valid, owner, size) = (word & 3, word >> 2 & 0x3ff, word >> 59);
    if valid == 0 || ![0, 4, 9, 18].contains(&size) {
        return Err(TranslationFault::NotRegistered);
    }
    if owner != u64::from(vpid) {
        return Err(TranslationFault::WrongVpid);
    }
    if valid & (if access == Access::Read { 1 } else { 2 }) == 0 {
        return Err(TranslationFault::NoRight);
    }
    let target = word >> 12 & ((1 << 40) - 1);
    let low = (1u64 << size) - 1;
    Ok(target - (target & low) + (number & low))
}

/// Tables, and a TLB with a list of (page, word) for each set, newest first.
struct Model {
    words: HashMap<u64, u64>,
    sets: Vec<VecDeque<(u64, u64)>>,
    ways: usize,
    registers: HashMap<&'static str, u64>,
}

impl Model {
    fn new(limits: &Limits) -> Model {
        let sets = limits.tlb_entries.checked_div(limits.tlb_ways).unwrap_or(0);
        let sets = vec![VecDeque::new(); sets as usize];
        Model { words: HashMap::new(), sets, ways: limits.tlb_ways as usize, registers: HashMap::new() }
    }

    fn count(&mut self, register: Register, count: u64) {
        *self.registers.entry(register.name()).or_default() += count;
    }

    fn set(&mut self, number: u64) -> Option<&mut VecDeque<(u64, u64)>> {
        let sets = self.sets.len().max(1) as u64;
        self.sets.get_mut((number % sets) as usize)
    }

    fn in_tlb(&mut self, number: u64) -> Option<u64> {
        self.set(number)?.iter().find(|(at, _)| *at == number).map(|(_, word)| *word)
    }

    fn in_table(&self, number: u64) -> u64 {
        self.words.get(&number).copied().unwrap_or(0)
    }

    /// Looks pages up until the caller has enough; then caches.
    fn walk(&mut self, first: u64, pages: u64, mut use_page: impl FnMut(u64, Option<u64>) -> bool) {
        let mut looked = Vec::new();
        for number in first..first + pages {
            if number >= PAGES as u64 {
                use_page(number, None);
                break;
            }
            let cached = self.in_tlb(number);
            self.count(if cached.is_some() { Register::TlbHits } else { Register::TlbMisses }, 1);
            let word = cached.unwrap_or(self.in_table(number));
            looked.push(number);
            if !use_page(number, Some(word)) {
                break;
            }
        }
        for number in looked {
            let word = self.in_table(number);
            if self.in_tlb(number).is_some() || word & 3 == 0 || ![0, 4, 9, 18].contains(&(word >> 59)) {
                continue;
            }
            let ways = self.ways;
            if let Some(set) = self.set(number) {
                set.push_front((number, word));
                set.truncate(ways);
            }
        }
    }

    fn translate(&mut self, vpid: u16, nla: u64, bytes: u64, access: Access) -> Result<Translated, TranslationFault> {
        let mut result = Err(TranslationFault::NotRegistered);
        if nla < 1 << 39 {
            let (first, offset) = (nla / PAGE_BYTES, nla % PAGE_BYTES);
            let pages = bytes.saturating_add(offset).div_ceil(PAGE_BYTES).max(1);
            self.walk(first, pages, |number, word| {
                let target =
                    word.ok_or(TranslationFault::NotRegistered).and_then(|word| check(word, number, vpid, access));
                match (&mut result, target) {
                    (_, target) if number == first => {
                        result = target.map(|target| Translated {
                            address: target * PAGE_BYTES + offset,
                            bytes: bytes.min(PAGE_BYTES - offset),
                        });
                        result.is_ok()
                    }
                    (Ok(run), Ok(target)) if target * PAGE_BYTES == run.address + run.bytes => {
                        run.bytes += PAGE_BYTES.min(bytes - run.bytes);
                        true
                    }
                    _ => false,
                }
            });
        }
        if result.is_err() {
            self.count(Register::TranslationFaults, 1);
        }
        result
    }

    fn translate_all(
        &mut self,
        vpid: u16,
        nla: u64,
        bytes: u64,
        access: Access,
    ) -> (Vec<Run>, Option<TranslationFault>) {
        let (mut runs, mut fault) = (Vec::<Run>::new(), None);
        if bytes == 0 {
            return (runs, None);
        }
        if nla >= 1 << 39 {
            fault = Some(TranslationFault::NotRegistered);
        } else {
            let mut done = 0;
            let pages = bytes.saturating_add(nla % PAGE_BYTES).div_ceil(PAGE_BYTES);
            self.walk(nla / PAGE_BYTES, pages, |number, word| {
                let target =
                    word.ok_or(TranslationFault::NotRegistered).and_then(|word| check(word, number, vpid, access));
                let offset = (nla + done) % PAGE_BYTES;
                let piece = (PAGE_BYTES - offset).min(bytes - done);
                match target {
                    Ok(target) => {
                        let address = target * PAGE_BYTES + offset;
                        match runs.last_mut() {
                            Some(run) if run.0 + run.2 == address => run.2 += piece,
                            _ => runs.push((address, done, piece)),
                        }
                        done += piece;
                    }
                    Err(refused) => fault = Some(refused),
                }
                target.is_ok()
            });
        }
        if fault.is_some() {
            self.count(Register::TranslationFaults, 1);
            runs.clear();
        }
        (runs, fault)
    }

    fn flush(&mut self, flushed: impl Fn(u64, u64) -> bool, mode: FlushMode) {
        if mode != FlushMode::Units {
            let before: usize = self.sets.iter().map(VecDeque::len).sum();
            self.sets.iter_mut().for_each(|set| set.retain(|&(number, word)| !flushed(number, word)));
            let after: usize = self.sets.iter().map(VecDeque::len).sum();
            self.count(Register::TlbFlushes, (before - after) as u64);
        }
        if mode != FlushMode::Tlb {
            self.count(Register::AtuFlushes, 1);
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Write(u64, u64),
    Clear(u64, u32),
    Flush(u64, u32, FlushMode),
    FlushVpid(u16, FlushMode),
    Translate(u16, u64, u64, Access),
    TranslateAll(u16, u64, u64, Access),
}

fn page_number() -> impl Strategy<Value = u64> {
    prop_oneof![12 => 0..12u64, 2 => PAGES as u64 - 4..PAGES as u64 + 2, 1 => 0..1u64 << 27]
}

fn vpid() -> impl Strategy<Value = u16> {
    prop_oneof![8 => 0..2u16, 1 => any::<u16>()]
}

fn access() -> impl Strategy<Value = Access> {
    prop_oneof![Just(Access::Read), Just(Access::Write)]
}

fn mode() -> impl Strategy<Value = FlushMode> {
    prop_oneof![Just(FlushMode::Tlb), Just(FlushMode::Units), Just(FlushMode::Both)]
}

/// Words of tables: mostly those of a driver, contiguous with their neighbours; some of no driver.
fn word(number: u64) -> impl Strategy<Value = u64> {
    let size = prop_oneof![8 => Just(0u64), 2 => Just(4), 1 => Just(9), 1 => Just(18), 1 => 0..32u64];
    let valid = prop_oneof![8 => Just(3u64), 1 => 0..4u64];
    let target = prop_oneof![6 => Just(100 + number % 1000), 1 => 0..1u64 << 40, 1 => Just((1 << 40) - 1)];
    let near = (valid, 0..2u64, target, size)
        .prop_map(|(valid, vpid, target, size)| valid | vpid << 2 | target << 12 | size << 59);
    prop_oneof![12 => near, 1 => any::<u64>()]
}

/// Up to `count_max` pages, each with its word.
fn words(count_max: usize) -> impl Strategy<Value = Vec<(u64, u64)>> {
    let page = (0..12u64).prop_flat_map(|number| word(number).prop_map(move |word| (number, word)));
    proptest::collection::vec(page, 0..count_max)
}

fn op() -> impl Strategy<Value = Op> {
    let nla = || {
        let near = (page_number(), prop_oneof![Just(0), Just(1), Just(4095), 0..4096u64]);
        prop_oneof![12 => near.prop_map(|(page, offset)| page << 12 | offset), 1 => any::<u64>()]
    };
    let bytes = || {
        prop_oneof![
            4 => 0..10u64,
            6 => 0..6 * PAGE_BYTES,
            2 => (0..8u64).prop_map(|pages| pages * PAGE_BYTES),
            1 => any::<u64>(),
        ]
    };
    let count = || prop_oneof![8 => 0..4u32, 1 => any::<u32>()];
    prop_oneof![
        6 => page_number().prop_flat_map(|number| word(number).prop_map(move |word| Op::Write(number, word))),
        1 => (page_number(), count()).prop_map(|(first, count)| Op::Clear(first, count)),
        2 => (page_number(), count(), mode()).prop_map(|(first, count, mode)| Op::Flush(first, count, mode)),
        1 => (vpid(), mode()).prop_map(|(vpid, mode)| Op::FlushVpid(vpid, mode)),
        6 => (vpid(), nla(), bytes(), access())
            .prop_map(|(vpid, nla, bytes, access)| Op::Translate(vpid, nla, bytes, access)),
        6 => (vpid(), nla(), bytes(), access())
            .prop_map(|(vpid, nla, bytes, access)| Op::TranslateAll(vpid, nla, bytes, access)),
    ]
}

fn tlb_sizes() -> impl Strategy<Value = (u32, u32)> {
    proptest::sample::select(vec![(0, 0), (1, 1), (4, 1), (4, 2), (4, 4), (8, 2), (64, 1)])
}

/// All units answer, in some order.
fn answer(home: &mut Home, mut flush: Flush) {
    for unit in Unit::ALL {
        if flush.awaits(unit) {
            home.nic().atu().answer_flush(&mut flush, unit).unwrap();
        }
    }
    assert!(flush.is_complete());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn histories_against_a_plain_walk(
        (entries, ways) in tlb_sizes(),
        // Most histories begin with a range that is registered, so that runs are long.
        start in words(24),
        ops in proptest::collection::vec(op(), 1..40),
    ) {
        let mut home = home(entries, ways);
        let mut model = Model::new(&home.layout.limits);
        let ops = start.into_iter().map(|(number, word)| Op::Write(number, word)).chain(ops);
        let in_tables = |first: u64, count: u32| first + u64::from(count) <= PAGES as u64;
        for op in ops {
            match op {
                Op::Write(number, word) => {
                    let result = home.nic().atu().write_entry(page(number), AddressEntry::from_bits(word));
                    prop_assert_eq!(result.is_ok(), in_tables(number, 1));
                    if result.is_ok() {
                        model.words.insert(number, word);
                    }
                }
                Op::Clear(first, count) => {
                    let result = home.nic().atu().clear_entries(page(first), count);
                    prop_assert_eq!(result.is_ok(), in_tables(first, count));
                    if result.is_ok() {
                        model.words.retain(|&number, _| number < first || number >= first + u64::from(count));
                    }
                }
                Op::Flush(first, count, mode) => {
                    let flush = home.nic().atu().flush_entries(page(first), count, mode);
                    prop_assert_eq!(flush.is_ok(), in_tables(first, count));
                    if let Ok(flush) = flush {
                        answer(&mut home, flush);
                        model.flush(|number, _| (first..first + u64::from(count)).contains(&number), mode);
                    }
                }
                Op::FlushVpid(vpid, mode) => {
                    let flush = home.nic().atu().flush_vpid(vpid, mode);
                    answer(&mut home, flush);
                    model.flush(|_, word| word >> 2 & 0x3ff == u64::from(vpid), mode);
                }
                Op::Translate(vpid, nla, bytes, access) => {
                    let mut costs = Costs::default();
                    let before = [Register::TlbHits, Register::TlbMisses].map(|name| register(&mut home, name));
                    let result = home.nic().atu().translate(&mut costs, vpid, nla, bytes, access);
                    prop_assert_eq!(result, model.translate(vpid, nla, bytes, access));
                    prop_assert_eq!(register(&mut home, Register::TlbHits), before[0] + costs.hits);
                    prop_assert_eq!(register(&mut home, Register::TlbMisses), before[1] + costs.reads);
                }
                Op::TranslateAll(vpid, nla, bytes, access) => {
                    let result = translate_all(&mut home, vpid, nla, bytes, access);
                    prop_assert_eq!(result, model.translate_all(vpid, nla, bytes, access));
                }
            }
            use Register::*;
            for name in [TlbHits, TlbMisses, TlbFlushes, AtuFlushes, TranslationFaults] {
                let expected = model.registers.get(name.name()).copied().unwrap_or(0);
                prop_assert_eq!(register(&mut home, name), expected, "{:?} after {:?}", name, op);
            }
        }
    }

    /// A TLB and tables with arbitrary words: no panic, and no address beyond 52 bits.
    #[test]
    fn hostile_tables(
        (entries, ways) in tlb_sizes(),
        words in proptest::collection::vec((0..12u64, any::<u64>()), 0..24),
        slots in proptest::collection::vec((0..64usize, prop_oneof![0..12u64, any::<u64>()], any::<u64>()), 0..24),
        ops in proptest::collection::vec(op(), 1..20),
    ) {
        let mut home = home(entries, ways);
        for (number, word) in words {
            home.nic().atu().write_entry(page(number), AddressEntry::from_bits(word)).unwrap();
        }
        for (at, page, entry) in slots {
            if let Some(slot) = home.nic().tables.tlb.get_mut(at) {
                *slot = TlbEntry { page, entry };
            }
        }
        for op in ops {
            match op {
                Op::Write(number, word) => _ = home.nic().atu().write_entry(page(number), AddressEntry::from_bits(word)),
                Op::Clear(first, count) => _ = home.nic().atu().clear_entries(page(first), count),
                Op::Flush(first, count, mode) => {
                    let flush = home.nic().atu().flush_entries(page(first), count, mode);
                    _ = flush.map(|flush| answer(&mut home, flush));
                }
                Op::FlushVpid(vpid, mode) => {
                    let flush = home.nic().atu().flush_vpid(vpid, mode);
                    answer(&mut home, flush);
                }
                Op::Translate(vpid, nla, bytes, access) => {
                    if let Ok(run) = translate(&mut home, vpid, nla, bytes, access) {
                        prop_assert!(run.address >> 52 == 0 && run.bytes <= bytes);
                    }
                }
                Op::TranslateAll(vpid, nla, bytes, access) => {
                    let (runs, fault) = translate_all(&mut home, vpid, nla, bytes, access);
                    prop_assert_eq!(runs.iter().map(|run| run.2).sum::<u64>(), if fault.is_some() { 0 } else { bytes });
                }
            }
        }
    }
}

// ---- the pipeline ----

type Small = Pipeline<4, 3, 2>;

/// A pipeline with the memory and the units around it.
struct Bench {
    home: Home,
    pipeline: Small,
    /// Table reads in flight, each with the word that it carries.
    reads: Vec<(u16, u64)>,
    /// Flush requests that units have not answered.
    asked: Vec<FlushResponse>,
    responses: Vec<TranslationResponse>,
    done: Vec<u16>,
}

impl Bench {
    fn new(entries: u32, ways: u32) -> Bench {
        let home = home(entries, ways);
        Bench { home, pipeline: Small::new(), reads: vec![], asked: vec![], responses: vec![], done: vec![] }
    }

    fn take(&mut self, progress: Progress) -> bool {
        match progress {
            Progress::Idle => return false,
            Progress::Moved => {}
            Progress::Sent(Output::TableRead { tag, page }) => {
                let word = self.home.nic().atu().table_entry(page).bits();
                self.reads.push((tag, word));
            }
            Progress::Sent(Output::Response(response)) => self.responses.push(response),
            Progress::Sent(Output::Flush { unit, request }) => {
                self.asked.push(FlushResponse { unit, tag: request.tag });
            }
            Progress::Sent(Output::Done { tag }) => self.done.push(tag),
        }
        true
    }

    fn step(&mut self) -> bool {
        let progress = self.pipeline.step(&mut self.home.nic().atu(), &mut NoMemory);
        self.take(progress)
    }

    fn read_done(&mut self, at: usize) {
        if !self.reads.is_empty() {
            let (tag, word) = self.reads.swap_remove(at % self.reads.len());
            self.pipeline.table_read_done(tag, word).unwrap();
        }
    }

    fn answer(&mut self, at: usize) {
        if !self.asked.is_empty() {
            let answer = self.asked.swap_remove(at % self.asked.len());
            self.pipeline.flush_answered(&mut self.home.nic().atu(), answer).unwrap();
        }
    }

    fn finish(&mut self) {
        while !self.pipeline.is_empty() {
            while self.step() {}
            self.read_done(0);
            self.answer(0);
        }
    }

    fn ask(&mut self, number: u64, tag: u16) -> Result<(), Full> {
        let request =
            TranslationRequest { unit: Unit::Completer, tag, vpid: 1, page: page(number), access: Access::Write };
        self.pipeline.submit(Request::Translation(request))
    }

    fn flush(&mut self, number: u64, tag: u16, mode: FlushMode) -> Result<(), Full> {
        let request = FlushRequest { tag, target: FlushTarget::Pages { first: page(number), count: 1 } };
        self.pipeline.submit(Request::Flush { request, mode })
    }
}

fn response(tag: u16, result: Result<u64, TranslationFault>) -> TranslationResponse {
    TranslationResponse { unit: Unit::Completer, tag, result }
}

#[test]
fn responses_leave_in_the_order_of_requests() {
    let mut bench = Bench::new(4, 1);
    for number in 0..3 {
        bench.home.nic().atu().write_entry(page(number), entry(1, 50 + number)).unwrap();
        bench.ask(number, number as u16).unwrap();
    }
    while bench.step() {}
    assert_eq!(bench.reads.len(), 3);
    bench.read_done(2);
    bench.read_done(1);
    assert!(!bench.step(), "the first one waits for memory");
    bench.read_done(0);
    bench.finish();
    assert_eq!(bench.responses, [0, 1, 2].map(|number| response(number, Ok(50 + u64::from(number)))));
    bench.ask(1, 9).unwrap();
    while bench.step() {}
    assert_eq!(bench.responses.last(), Some(&response(9, Ok(51))), "the TLB has the entry");
    assert_eq!(register(&mut bench.home, Register::TlbHits), 1);
    assert_eq!(register(&mut bench.home, Register::TlbMisses), 3);
}

/// The race that a flush must win: an old entry was read, but not answered yet, when its page is flushed.
#[test]
fn a_flush_while_translations_are_in_flight() {
    for mode in [FlushMode::Tlb, FlushMode::Both] {
        let mut bench = Bench::new(4, 1);
        bench.home.nic().atu().write_entry(page(1), entry(1, 50)).unwrap();
        bench.ask(1, 1).unwrap();
        while bench.step() {}
        assert_eq!(bench.reads, [(0, entry(1, 50).bits())], "memory has the old entry on its way");
        bench.home.nic().atu().clear_entries(page(1), 1).unwrap();
        bench.flush(1, 7, mode).unwrap();
        bench.ask(1, 2).unwrap();
        while bench.step() {}
        assert!(bench.asked.is_empty(), "the units get the translation before the flush");
        bench.read_done(0);
        bench.read_done(0);
        while bench.step() {}
        let responses = [response(1, Ok(50)), response(2, Err(TranslationFault::NotRegistered))];
        assert_eq!(bench.responses, responses, "the request behind the flush does not wait for the units");
        if mode == FlushMode::Both {
            assert_eq!((bench.asked.len(), bench.done.len()), (3, 0));
            let again = bench.asked[0];
            (0..2).for_each(|_| bench.answer(0));
            assert_eq!(bench.pipeline.flush_answered(&mut bench.home.nic().atu(), again), Err(NotAwaited));
            while bench.step() {}
            assert!(bench.done.is_empty());
            assert_eq!(register(&mut bench.home, Register::AtuFlushes), 0);
        }
        bench.finish();
        assert_eq!(bench.done, [7]);
        assert_eq!(register(&mut bench.home, Register::AtuFlushes), u64::from(mode == FlushMode::Both));
        assert_eq!(bench.home.nic().atu().tlb_entry(page(1)), None);
    }
}

#[test]
fn a_fence_waits_for_everything_before_it() {
    let mut bench = Bench::new(4, 1);
    bench.ask(0, 0).unwrap();
    bench.flush(0, 1, FlushMode::Both).unwrap();
    bench.pipeline.submit(Request::Fence { tag: 2 }).unwrap();
    while bench.step() {}
    assert!(bench.responses.is_empty() && bench.done.is_empty());
    bench.read_done(0);
    while bench.step() {}
    assert_eq!((bench.responses.len(), bench.done.len()), (1, 0), "the flush is not answered");
    (0..3).for_each(|_| bench.answer(0));
    while bench.step() {}
    assert_eq!(bench.done, [1, 2]);
    assert!(bench.pipeline.is_empty());
}

#[test]
fn a_full_pipeline_refuses_and_is_unchanged() {
    let mut bench = Bench::new(0, 0);
    bench.flush(0, 0, FlushMode::Both).unwrap();
    bench.pipeline.submit(Request::Fence { tag: 1 }).unwrap();
    let before = bench.pipeline.clone();
    assert_eq!(bench.flush(0, 2, FlushMode::Tlb), Err(Full), "two flushes or fences at once");
    assert_eq!(bench.pipeline.submit(Request::Fence { tag: 1 }), Err(Full));
    assert!(bench.pipeline == before);
    bench.ask(0, 0).unwrap();
    bench.ask(0, 1).unwrap();
    let before = bench.pipeline.clone();
    assert_eq!(bench.ask(0, 2), Err(Full), "four requests at once");
    assert!(bench.pipeline == before);
    // Words and answers that were not requested.
    for tag in [0, 2, 3, u16::MAX] {
        assert_eq!(bench.pipeline.table_read_done(tag, 1), Err(NotAwaited));
        let answer = FlushResponse { unit: Unit::Requester, tag };
        assert_eq!(bench.pipeline.flush_answered(&mut bench.home.nic().atu(), answer), Err(NotAwaited));
    }
    assert!(bench.pipeline == before);
    bench.finish();
    assert_eq!(bench.done, [0, 1]);
    assert_eq!(bench.responses.len(), 2);
    // A reorder buffer without room stops the requester, and the requests wait.
    (0..4).for_each(|tag| bench.ask(0, tag).unwrap());
    while bench.step() {}
    assert_eq!(bench.reads.len(), 3);
    assert_eq!(bench.pipeline.step_requester(&mut bench.home.nic().atu(), &mut NoMemory), Progress::Idle);
    bench.finish();
    assert_eq!(bench.responses.len(), 6);
}

#[derive(Clone, Copy, Debug)]
enum Move {
    Ask(u64, u16, Access),
    /// Changes a table; with a flush if there was an entry.
    Change(u64, u64),
    FlushVpid(u16),
    Fence,
    Step(u8),
    ReadDone(usize),
    Answer(usize),
}

fn a_move() -> impl Strategy<Value = Move> {
    let number = || prop_oneof![12 => 0..4u64, 1 => PAGES as u64 - 1..PAGES as u64 + 2];
    prop_oneof![
        6 => (number(), 0..2u16, access()).prop_map(|(number, vpid, access)| Move::Ask(number, vpid, access)),
        3 => (0..4u64, prop_oneof![Just(0), word(3)]).prop_map(|(number, word)| Move::Change(number, word)),
        1 => (0..2u16).prop_map(Move::FlushVpid),
        1 => Just(Move::Fence),
        10 => (0..4u8).prop_map(Move::Step),
        4 => any::<usize>().prop_map(Move::ReadDone),
        3 => any::<usize>().prop_map(Move::Answer),
    ]
}

/// A request that was not answered, and its possible answers.
struct Expected {
    request: TranslationRequest,
    results: Vec<Result<u64, TranslationFault>>,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// Each request gets the result of the plain functions with the tables as they are when it is submitted. If its
    /// page changes before it is answered, it may get the new entry instead. Nothing depends on the order of memory's
    /// answers.
    #[test]
    fn a_pipeline_beside_the_plain_functions(
        (entries, ways) in tlb_sizes(),
        start in proptest::array::uniform4(word(3)),
        moves in proptest::collection::vec(a_move(), 1..120),
    ) {
        let mut bench = Bench::new(entries, ways);
        // The plain functions, without a TLB, so that their answers are always new.
        let mut plain = home(0, 0);
        for (number, word) in (0..).zip(start) {
            for home in [&mut bench.home, &mut plain] {
                home.nic().atu().write_entry(page(number), AddressEntry::from_bits(word)).unwrap();
            }
        }
        let mut expected: VecDeque<Expected> = VecDeque::new();
        // Flushes and fences that are not done: their tag, and the translations submitted before them.
        let mut incomplete = VecDeque::new();
        let (mut tag, mut submitted, mut answered) = (0u16, 0usize, 0usize);
        let plainly = |plain: &mut Home, request: &TranslationRequest| {
            let nla = request.page.start().raw();
            translate(plain, request.vpid, nla, 1, request.access).map(|run| run.address / PAGE_BYTES)
        };
        for next in moves.into_iter().map(Some).chain([None]) {
            match next {
                None => bench.finish(),
                Some(Move::Ask(number, vpid, access)) => {
                    let unit = Unit::ALL[usize::from(tag % 3)];
                    let request = TranslationRequest { unit, tag, vpid, page: page(number), access };
                    if bench.pipeline.submit(Request::Translation(request)).is_ok() {
                        expected.push_back(Expected { request, results: vec![plainly(&mut plain, &request)] });
                        submitted += 1;
                    }
                    tag += 1;
                }
                Some(Move::Change(number, word)) => {
                    // A new entry needs no flush. For an old one, the driver sees that the flush is taken.
                    let old = bench.home.nic().atu().read_entry(page(number)).unwrap();
                    if old.is_valid() {
                        let target = FlushTarget::Pages { first: page(number), count: 1 };
                        let request = FlushRequest { tag, target };
                        if bench.pipeline.submit(Request::Flush { request, mode: FlushMode::Both }).is_err() {
                            continue;
                        }
                        incomplete.push_back((tag, submitted));
                        tag += 1;
                    }
                    for home in [&mut bench.home, &mut plain] {
                        home.nic().atu().write_entry(page(number), AddressEntry::from_bits(word)).unwrap();
                    }
                    let of_page = expected.iter_mut().filter(|one| one.request.page == page(number));
                    for Expected { request, results } in of_page {
                        results.push(plainly(&mut plain, request));
                    }
                }
                Some(Move::FlushVpid(vpid)) => {
                    let request = FlushRequest { tag, target: FlushTarget::Vpid(vpid) };
                    if bench.pipeline.submit(Request::Flush { request, mode: FlushMode::Both }).is_ok() {
                        incomplete.push_back((tag, submitted));
                    }
                    tag += 1;
                }
                Some(Move::Fence) => {
                    if bench.pipeline.submit(Request::Fence { tag }).is_ok() {
                        incomplete.push_back((tag, submitted));
                    }
                    tag += 1;
                }
                Some(Move::Step(block)) => {
                    let (nic, pipeline) = (&mut bench.home.nic(), &mut bench.pipeline);
                    let progress = match block {
                        0 => pipeline.step_requester(&mut nic.atu(), &mut NoMemory),
                        1 => pipeline.step_responder(&mut nic.atu()),
                        2 => pipeline.step_completion(),
                        _ => pipeline.step(&mut nic.atu(), &mut NoMemory),
                    };
                    bench.take(progress);
                }
                Some(Move::ReadDone(at)) => bench.read_done(at),
                Some(Move::Answer(at)) => bench.answer(at),
            }
            for response in bench.responses.drain(..) {
                let Expected { request, results } = expected.pop_front().expect("a request is outstanding");
                prop_assert_eq!((response.unit, response.tag), (request.unit, request.tag));
                prop_assert!(results.contains(&response.result), "{:?} of {:?}, not {:?}", response, request, results);
                answered += 1;
            }
            for done in bench.done.drain(..) {
                let (tag, before) = incomplete.pop_front().expect("a request is outstanding");
                prop_assert_eq!(done, tag);
                prop_assert!(answered >= before, "translations before it are not answered");
            }
        }
        prop_assert!(expected.is_empty() && incomplete.is_empty() && bench.reads.is_empty() && bench.asked.is_empty());
        // The TLB has only entries of tables.
        for slot in bench.home.nic().tables.tlb.iter().filter(|slot| slot.entry != 0) {
            prop_assert_eq!(slot.entry, plain.nic().tables.address_tables[slot.page as usize]);
        }
    }

    /// Sequential requests get the same answers, counts and TLB as from the plain functions. With requests in flight at
    /// once, and memory in any order, the answers are the same.
    #[test]
    fn the_order_of_memory_does_not_matter(
        (entries, ways) in tlb_sizes(),
        words in words(16),
        asked in proptest::collection::vec((0..9u64, 0..2u16, access()), 1..40),
        orders in proptest::array::uniform2(proptest::collection::vec(any::<usize>(), 40)),
    ) {
        let mut plain = home(entries, ways);
        for &(number, word) in &words {
            plain.nic().atu().write_entry(page(number), AddressEntry::from_bits(word)).unwrap();
        }
        let bench = || Bench { home: plain.clone(), ..Bench::new(0, 0) };
        let (mut one_by_one, mut first, mut second) = (bench(), bench(), bench());
        let requests = asked.iter().zip(0..).map(|(&(number, vpid, access), tag)| {
            TranslationRequest { unit: Unit::Responder, tag, vpid, page: page(number), access }
        });
        for request in requests.clone() {
            let run = translate(&mut plain, request.vpid, request.page.start().raw(), 1, request.access);
            one_by_one.pipeline.submit(Request::Translation(request)).unwrap();
            one_by_one.finish();
            let result = one_by_one.responses.last().unwrap().result;
            prop_assert_eq!(result, run.map(|run| run.address / PAGE_BYTES));
        }
        prop_assert!(one_by_one.home.memory == plain.memory);
        for (bench, order) in [&mut first, &mut second].into_iter().zip(&orders) {
            let mut order = order.iter().copied().cycle();
            for request in requests.clone() {
                while bench.pipeline.submit(Request::Translation(request)).is_err() {
                    // Memory answers when nothing else can move.
                    while bench.step() {}
                    bench.read_done(order.next().unwrap());
                }
            }
            while !bench.pipeline.is_empty() {
                while bench.step() {}
                bench.read_done(order.next().unwrap());
            }
            prop_assert_eq!(&bench.responses, &one_by_one.responses);
        }
    }
}
