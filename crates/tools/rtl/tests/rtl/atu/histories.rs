// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random histories, cycle by cycle: requests, changes of tables, flushes, fences, malformed words. Memory and units
//! answer in any order after any delay, twice, or without a request; ports stop and resume.

use proptest::prelude::*;
use selvedge_nic::atu::{Access, FlushMode, Unit as Peer};
use selvedge_nic::tables::PAGES;
use selvedge_rtl::LockstepError;
use selvedge_rtl::atu::words::{AtuCommand, Inputs};

use super::bench::{Bench, answer_of, ask, fence, flush_pages, flush_vpid};
use crate::common::histories;

#[derive(Clone, Copy, Debug)]
enum Move {
    Offer(AtuCommand),
    /// A driver's change of a page: the entry, then a flush.
    Change(u32, u64, FlushMode),
    Write(u32, u64),
}

/// The reply of memory or of the units in a cycle.
#[derive(Clone, Copy, Debug)]
enum Reply<T> {
    Nothing,
    /// To one of the waiting requests.
    Answer(usize),
    Any(T),
}

#[derive(Clone, Copy, Debug)]
struct Tick {
    action: Option<Move>,
    read: Reply<(u16, u64)>,
    answer: Reply<u64>,
    units_ready: bool,
    memory_ready: bool,
}

/// Pages that share words of a small TLB, and the first and last pages.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![
        12 => 0..10u32,
        2 => (0..3u32).prop_map(|page| page * 8 + 1),
        1 => PAGES as u32 - 2..PAGES as u32 + 2,
        1 => (1u32 << 27) - 3..1 << 27,
    ]
}

/// An entry: mostly one that translates for a VPID of 0 to 2.
fn word() -> impl Strategy<Value = u64> {
    let size = prop_oneof![6 => Just(0u64), 2 => prop_oneof![Just(4u64), Just(9), Just(18)], 1 => 0..32u64];
    let near = (0..4u64, 0..3u64, 0..1u64 << 40, 0..128u64, size).prop_map(|(valid, vpid, target, reserved, size)| {
        valid | vpid << 2 | target << 12 | reserved << 52 | size << 59
    });
    prop_oneof![8 => near, 1 => any::<u64>(), 1 => Just(0)]
}

fn mode() -> impl Strategy<Value = FlushMode> {
    prop_oneof![Just(FlushMode::Tlb), Just(FlushMode::Units), Just(FlushMode::Both)]
}

fn peer() -> impl Strategy<Value = Peer> {
    (0..3usize).prop_map(|number| Peer::ALL[number])
}

/// Few tags, so that several flushes with one tag are pending.
fn tag() -> impl Strategy<Value = u16> {
    prop_oneof![3 => 0..2u16, 1 => any::<u16>()]
}

fn offered() -> impl Strategy<Value = AtuCommand> {
    let asked = (peer(), any::<u16>(), 0..3u16, number(), any::<bool>()).prop_map(|(unit, tag, vpid, page, writes)| {
        ask(unit, tag, vpid, page, if writes { Access::Write } else { Access::Read })
    });
    let pages = (mode(), tag(), number(), prop_oneof![4 => 1..4u32, 1 => 1..12u32, 1 => 1..1025u32])
        .prop_map(|(mode, tag, first, count)| flush_pages(mode, tag, first, count.min((1 << 27) - first)));
    prop_oneof![
        24 => asked,
        4 => pages,
        2 => (mode(), tag(), 0..3u16).prop_map(|(mode, tag, vpid)| flush_vpid(mode, tag, vpid)),
        2 => tag().prop_map(fence),
        1 => (0..8u8, 0..5u64, any::<u64>()).prop_map(|(operation, kind, low)| AtuCommand { operation, word: kind << 60 | low >> 4 }),
        1 => (0..8u8, any::<u64>()).prop_map(|(operation, low)| AtuCommand { operation, word: low >> 20 }),
    ]
}

fn action() -> impl Strategy<Value = Option<Move>> {
    prop_oneof![
        12 => offered().prop_map(|command| Some(Move::Offer(command))),
        2 => (number(), word(), mode()).prop_map(|(page, word, mode)| Some(Move::Change(page, word, mode))),
        2 => (number(), word()).prop_map(|(page, word)| Some(Move::Write(page, word))),
        8 => Just(None),
    ]
}

fn reply<T: Clone + core::fmt::Debug>(any_word: impl Strategy<Value = T>) -> impl Strategy<Value = Reply<T>> {
    prop_oneof![5 => Just(Reply::Nothing), 5 => any::<usize>().prop_map(Reply::Answer), 1 => any_word.prop_map(Reply::Any)]
}

fn tick() -> impl Strategy<Value = Tick> {
    let words = (prop_oneof![4 => 0..9u16, 1 => any::<u16>()], word());
    let answers = prop_oneof![
        6 => (peer(), tag()).prop_map(|(unit, tag)| answer_of(unit, tag)),
        1 => (0..5u64, any::<u64>()).prop_map(|(kind, low)| kind << 60 | low >> 4),
    ];
    let ready = || prop_oneof![4 => Just(true), 1 => Just(false)];
    (action(), reply(words), reply(answers), ready(), ready()).prop_map(
        |(action, read, answer, units_ready, memory_ready)| Tick { action, read, answer, units_ready, memory_ready },
    )
}

fn take<T>(from: &mut Vec<T>, at: usize) -> Option<T> {
    (!from.is_empty()).then(|| from.swap_remove(at % from.len()))
}

fn run<const FIFO: usize, const REORDER: usize, const PENDING: usize>(
    bench: Option<Bench<FIFO, REORDER, PENDING>>,
    start: &[(u32, u64)],
    ticks: &[Tick],
) -> Result<(), LockstepError> {
    let Some(mut bench) = bench else { return Ok(()) };
    start.iter().for_each(|&(page, word)| bench.write(page, word));
    for tick in ticks {
        match tick.action {
            Some(Move::Offer(command)) => bench.offer(command),
            Some(Move::Change(page, word, mode)) => {
                bench.write(page, word);
                bench.offer(flush_pages(mode, page as u16, page, 1));
            }
            Some(Move::Write(page, word)) => bench.write(page, word),
            None => {}
        }
        let read = match tick.read {
            Reply::Nothing => None,
            Reply::Any(read) => Some(read),
            Reply::Answer(at) => take(&mut bench.reads, at).map(|(tag, page)| (tag, bench.entry(page))),
        };
        let answer = match tick.answer {
            Reply::Nothing => None,
            Reply::Any(word) => Some(word),
            Reply::Answer(at) => take(&mut bench.asked, at).map(|(unit, tag)| answer_of(unit, tag)),
        };
        let (units_ready, memory_ready) = (tick.units_ready, tick.memory_ready);
        bench.try_tick(&Inputs { command: None, read, answer, units_ready, memory_ready })?;
    }
    bench.try_finish()
}

fn history() -> impl Strategy<Value = (Vec<(u32, u64)>, Vec<Tick>)> {
    let start = proptest::collection::vec((number(), word()), 0..16);
    (start, proptest::collection::vec(tick(), 1..300))
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 1000, ..histories(300) })]

    #[test]
    fn tables_that_fill_up((start, ticks) in history()) {
        run(Bench::tiny(), &start, &ticks).map_err(TestCaseError::from)?;
    }

    #[test]
    fn a_tlb_with_two_ports((start, ticks) in history()) {
        run(Bench::two_ports(), &start, &ticks).map_err(TestCaseError::from)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 100, ..histories(100) })]

    #[test]
    fn the_sizes_of_the_seed((start, ticks) in history()) {
        run(Bench::whole(1), &start, &ticks).map_err(TestCaseError::from)?;
    }
}
