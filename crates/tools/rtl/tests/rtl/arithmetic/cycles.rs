// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cycles that `aggregate.sv` promises.

use selvedge_nic::aggregation::message::Reduction;
use selvedge_nic::arithmetic::{Datatype, Operation};
use selvedge_rtl::arithmetic::{ArithmeticCommand, ArithmeticLockstep, LATENCY, ReducedWord, Shape, Status};

use super::{drain, lockstep, message, reduction, results, run};

const SHAPE: Shape = Shape::NARROW;

fn sum(datatype: Datatype) -> Reduction {
    reduction(Operation::Sum as u8, datatype as u8, 0, 0)
}

/// Sends operands of `words` words, one a child, in this order. Returns the cycle of each last word's acceptance.
fn send(
    lockstep: &mut ArithmeticLockstep,
    record: u8,
    reduction: Reduction,
    words: usize,
    children: &[u8],
) -> Vec<u32> {
    let operand = 1.5f64.to_le_bytes().repeat(words);
    let mut commands = vec![ArithmeticCommand::Open { record, children: children.len() as u8 }];
    let mut last = Vec::new();
    for &child in children {
        commands.extend(message(SHAPE, record, child, reduction, &operand));
        last.push(commands.len() - 1);
    }
    let answers = run(lockstep, &commands, 2);
    assert!(answers.iter().all(|answer| answer.status == Status::Ok));
    // A command a cycle.
    let first = answers[0].cycle;
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(answer.cycle, first + number as u32);
    }
    last.iter().map(|&at| answers[at].cycle - LATENCY).collect()
}

fn of_child(reduced: &[ReducedWord], record: usize, child: usize) -> Vec<u32> {
    let its = reduced.iter().filter(|reduced| (reduced.record, reduced.child) == (record, child));
    its.map(|reduced| reduced.cycle).collect()
}

/// The first word is written 9 cycles (13 of a floating-point sum) after the last one arrived; the others follow, one a
/// cycle.
#[test]
fn an_operand_takes_a_cycle_a_word() {
    let Some(mut lockstep) = lockstep(SHAPE) else { return };
    let long = [Datatype::Half, Datatype::Bfloat16, Datatype::Float, Datatype::Double];
    let kinds = long.map(|datatype| (sum(datatype), 13));
    let pairs = reduction(Operation::Max as u8, Datatype::Double as u8, 1 + Datatype::Int64 as u8, 0);
    let short = [sum(Datatype::Int8), sum(Datatype::Uint64), pairs].map(|reduction| (reduction, 9));
    for (reduction, latency) in kinds.into_iter().chain(short) {
        for words in [2, 8, 32] {
            drain(&mut lockstep);
            lockstep.take_reduced();
            let last = send(&mut lockstep, 0, reduction, words, &[0, 1]);
            drain(&mut lockstep);
            let reduced = lockstep.take_reduced();
            let expected = |first: u32| (first..first + words as u32).collect::<Vec<_>>();
            assert_eq!(of_child(&reduced, 0, 0), expected(last[0] + 9));
            // A word is read at the earliest in the cycle after the write of the last operand's word.
            let first = (last[1] + latency).max(last[0] + 9 + latency - 4);
            assert_eq!(of_child(&reduced, 0, 1), expected(first), "{reduction:?}, {words} words");
        }
    }
}

/// Waiting operands are reduced without a gap: those of a long vector in one record, those of short ones in several.
#[test]
fn the_lanes_have_a_word_in_every_cycle() {
    let Some(mut lockstep) = lockstep(SHAPE) else { return };
    for datatype in [Datatype::Int32, Datatype::Float, Datatype::Double] {
        drain(&mut lockstep);
        lockstep.take_reduced();
        send(&mut lockstep, 0, sum(datatype), 32, &[7, 6, 5, 4, 3, 2, 1, 0]);
        drain(&mut lockstep);
        let reduced = lockstep.take_reduced();
        assert_eq!(reduced.len(), 8 * 32);
        // The first operand is copied through the short pipeline.
        let rest = &reduced[32..];
        for pair in rest.windows(2) {
            assert_eq!(pair[1].cycle, pair[0].cycle + 1, "{datatype:?} {pair:?}");
        }
    }
}

/// Each result read takes one cycle from the reductions and splits no pair: a result waits a cycle at most.
#[test]
fn a_result_waits_a_cycle_at_most() {
    let Some(mut lockstep) = lockstep(SHAPE) else { return };
    let pairs = reduction(Operation::Min as u8, Datatype::Double as u8, 1 + Datatype::Int32 as u8, 0);
    send(&mut lockstep, 1, sum(Datatype::Uint8), 32, &[0]);
    drain(&mut lockstep);
    lockstep.take_reduced();
    send(&mut lockstep, 0, pairs, 32, &[7, 6, 5, 4, 3, 2, 1, 0]);
    let mut waited = 0;
    for (number, result) in results(SHAPE, 1, 256).enumerate() {
        let offered = lockstep.cycle();
        let answers = run(&mut lockstep, &[result], 2 + number as u64 % 4);
        assert_eq!(answers[0].status, Status::Ok);
        let cycles = u64::from(answers[0].cycle - LATENCY) - offered;
        assert!(cycles < 2, "{cycles} cycles");
        waited += cycles;
    }
    assert!(waited > 0, "no result read fell between the words of a pair");
    drain(&mut lockstep);
    let reduced = lockstep.take_reduced();
    assert_eq!(reduced.len(), 8 * 32);
    // The words of a pair are consecutive.
    for pair in reduced.chunks(2) {
        assert_eq!(pair[1].cycle, pair[0].cycle + 1);
    }
}

/// A result read accepted after the last write returns it.
#[test]
fn a_result_is_there_behind_the_last_write() {
    let Some(mut lockstep) = lockstep(SHAPE) else { return };
    for idle in 0..24 {
        drain(&mut lockstep);
        lockstep.take_reduced();
        send(&mut lockstep, 0, sum(Datatype::Double), 1, &[0, 1]);
        let answers = run(&mut lockstep, &[], idle);
        assert_eq!(answers, []);
        let answer = run(&mut lockstep, &[ArithmeticCommand::Result { record: 0, word: 0 }], 2)[0];
        let accepted = answer.cycle - LATENCY;
        drain(&mut lockstep);
        let written = lockstep.take_reduced().last().map_or(0, |reduced| reduced.cycle);
        assert_eq!(answer.status == Status::Ok, accepted > written, "accepted in {accepted}, written in {written}");
        assert!(answer.status != Status::Ok || answer.data == u128::from(3.0f64.to_bits()));
    }
}

/// Every wait of the engine is bounded: only a short pass after a long one waits, for the pipeline.
#[test]
fn a_short_pass_waits_for_a_long_one() {
    let Some(mut lockstep) = lockstep(SHAPE) else { return };
    send(&mut lockstep, 0, sum(Datatype::Double), 32, &[0, 1]);
    send(&mut lockstep, 1, sum(Datatype::Int64), 4, &[0]);
    drain(&mut lockstep);
    let reduced = lockstep.take_reduced();
    let (long, short) = (of_child(&reduced, 0, 1), of_child(&reduced, 1, 0));
    // The short pass is selected while the long one is issued, and leaves directly after it.
    assert_eq!(short[0], long[31] + 1);
}
