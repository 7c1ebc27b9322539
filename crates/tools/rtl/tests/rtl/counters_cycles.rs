// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cycles of counters and triggered operations, and stalled ports.

use selvedge_nic::tables::kind;
use selvedge_rtl::Unit;
use selvedge_rtl::bits::Field;
use selvedge_rtl::counters::words::{
    CounterCommand, TriggeredAction, answer, body, command, data_command, outside_in, outside_out,
};
use selvedge_rtl::counters::{CountersLockstep, Port, Ready, TRACE};
use selvedge_rtl::records::{Output, Status};

use crate::common::unit;
use crate::counters::SMALL;

fn pair() -> Option<(CountersLockstep, u32)> {
    let mut pair = CountersLockstep::new(unit("counters")?, 512, 128);
    let answers = pair.run(&[CounterCommand::Alloc], Ready::ALL).expect("no difference");
    assert_eq!(answers[0].latency, 1);
    Some((pair, answers[0].counter))
}

fn moves(kind: u8, number: u64) -> TriggeredAction {
    TriggeredAction::Move(data_command(kind, number))
}

#[test]
fn an_update_takes_two_cycles_and_one_is_accepted_each_cycle() {
    let Some((mut pair, counter)) = pair() else { return };
    let updates: Vec<CounterCommand> = (0..200)
        .map(|number| match number % 5 {
            4 => CounterCommand::Get(counter),
            3 => CounterCommand::Set { counter, success: number, failure: 1 },
            _ => CounterCommand::Increment { counter, success: 3, failure: number },
        })
        .collect();
    let answers = pair.run(&updates, Ready::ALL).expect("no difference");
    assert!(answers.iter().all(|answer| answer.latency == 2));
    let first = answers[0].accepted;
    assert!((first..).zip(&answers).all(|(cycle, answer)| answer.accepted == cycle), "{answers:?}");
}

#[test]
fn with_one_port_two_updates_are_accepted_in_four_cycles() {
    let Some(unit) = unit("counters_one_port") else { return };
    let mut pair = CountersLockstep::new(unit, SMALL.0, SMALL.1);
    let counter = pair.run(&[CounterCommand::Alloc], Ready::ALL).expect("no difference")[0].counter;
    let updates = [CounterCommand::Increment { counter, success: 1, failure: 0 }; 40];
    let answers = pair.run(&updates, Ready::ALL).expect("no difference");
    assert!(answers.iter().all(|answer| answer.latency == 2));
    assert_eq!(answers[38].accepted - answers[0].accepted, 4 * 19);
}

#[test]
fn allocs_and_frees_take_one_and_two_cycles() {
    let Some((mut pair, counter)) = pair() else { return };
    let allocs = pair.run(&[CounterCommand::Alloc; 512], Ready::ALL).expect("no difference");
    assert!(allocs.iter().all(|answer| answer.latency == 1));
    assert_eq!(allocs.iter().filter(|answer| answer.status == Status::Full).count(), 1);
    let frees: Vec<CounterCommand> = [counter]
        .into_iter()
        .chain(allocs[..511].iter().map(|answer| answer.counter))
        .map(CounterCommand::Free)
        .collect();
    let answers = pair.run(&frees, Ready::ALL).expect("no difference");
    assert!(answers.iter().all(|answer| (answer.status, answer.latency) == (Status::Ok, 2)));
    // A counter that was just freed is allocated with its next generation.
    let again = pair
        .run(&[CounterCommand::Alloc, frees[0], CounterCommand::Alloc, CounterCommand::Alloc], Ready::ALL)
        .expect("no difference");
    assert_eq!((again[0].latency, again[1].latency, again[2].latency), (1, 2, 1));
}

/// Three cycles from the update's third, in which the count reaches the threshold, to the header at the port.
#[test]
fn a_triggered_get_stands_at_its_port_after_three_cycles() {
    for (kind, port) in [(kind::GET, Port::Get), (kind::PUT, Port::Put), (kind::ATOMIC, Port::Other)] {
        let Some((mut pair, counter)) = pair() else { return };
        let arm = |threshold, number| CounterCommand::Arm { counter, threshold, action: moves(kind, number) };
        let arms = pair.run(&[arm(3, 1), arm(3, 2), arm(4, 3)], Ready::ALL).expect("no difference");
        assert!(arms.iter().all(|answer| answer.latency == 4));
        let count = CounterCommand::Increment { counter, success: 1, failure: 0 };
        let answers = pair.run(&[count, count, count, count], Ready::ALL).expect("no difference");
        assert!(answers[..3].iter().all(|answer| answer.latency == 2));
        let reached = answers[2].accepted + 2;
        let left: Vec<(Port, u32)> = pair.departures.iter().map(|left| (left.port, left.cycle)).collect();
        // The operations after the first leave every third cycle. The fourth count waits for them, and then fires, too.
        assert_eq!(left[..2], [(port, reached + 3), (port, reached + 6)]);
        assert_eq!(left.len(), 3);
        let behind = answers[3].accepted + answers[3].latency;
        assert_eq!(left[2], (port, behind + 3));
    }
}

#[test]
fn an_operation_that_is_due_when_it_is_armed_fires_at_once() {
    let Some((mut pair, counter)) = pair() else { return };
    let commands = [
        CounterCommand::Increment { counter, success: 7, failure: 0 },
        CounterCommand::Arm { counter, threshold: 7, action: moves(kind::GET, 1) },
        CounterCommand::Arm { counter, threshold: 8, action: moves(kind::GET, 2) },
        CounterCommand::Get(counter),
    ];
    let answers = pair.run(&commands, Ready::ALL).expect("no difference");
    assert_eq!(pair.departures.len(), 1);
    assert_eq!(pair.departures[0].cycle, answers[1].accepted + 10);
}

#[test]
fn a_port_that_is_not_ready_stops_no_other() {
    let kinds = [kind::GET, kind::PUT, kind::ATOMIC];
    for stopped in 0..3 {
        let Some(unit) = unit("counters_small") else { return };
        let mut pair = CountersLockstep::new(unit, SMALL.0, SMALL.1);
        let counter = pair.run(&[CounterCommand::Alloc], Ready::ALL).expect("no difference")[0].counter;
        let mut ready = [true; 3];
        ready[stopped] = false;
        let mut number = 0;
        let mut left = 0;
        // The port's register takes one; the table holds five more.
        for round in 1..=5 {
            let mut commands = Vec::new();
            for kind in [kinds[stopped], kinds[(stopped + 1) % 3], kinds[(stopped + 2) % 3]] {
                number += 1;
                commands.push(CounterCommand::Arm { counter, threshold: round, action: moves(kind, number) });
            }
            // In the last rounds the table has no room for three, so only the first one is armed.
            commands.truncate(if round < 5 { 3 } else { 1 });
            commands.push(CounterCommand::Increment { counter, success: 1, failure: 0 });
            let answers = pair.run(&commands, Ready(ready)).expect("no difference");
            assert!(answers.iter().all(|answer| answer.status == Status::Ok), "{round} {answers:?}");
            // After an operation that leaves, they follow after 3 cycles; after one that must wait, after 4.
            let reached = answers.last().map_or(0, |answer| answer.accepted + 2);
            let first = if round == 1 { 6 } else { 7 };
            let expected = [(stopped + 1) % 3, (stopped + 2) % 3].map(|port| (Port::ALL[port], reached + first));
            let expected = [expected[0], (expected[1].0, expected[1].1 + 3)];
            let seen: Vec<(Port, u32)> = pair.departures.iter().map(|left| (left.port, left.cycle)).collect();
            assert_eq!(seen, expected[..if round < 5 { 2 } else { 0 }]);
            left += seen.len();
        }
        assert_eq!(left, 8);
        pair.run(&[], Ready::ALL).expect("no difference");
        let order: Vec<u64> = pair.departures.iter().map(|left| body::USER_PTR.get(&left.body)).collect();
        assert_eq!(order, [1, 4, 7, 10, 13]);
        assert!(pair.departures.iter().all(|left| left.port as usize == stopped));
    }
}

#[test]
fn cancels_take_three_cycles_for_each_operation_behind_the_first() {
    for count in 0..10 {
        let Some((mut pair, counter)) = pair() else { return };
        let arms: Vec<CounterCommand> = (0..count)
            .map(|number| CounterCommand::Arm { counter, threshold: number + 1, action: moves(kind::PUT, number) })
            .collect();
        pair.run(&arms, Ready::ALL).expect("no difference");
        let free = count % 2 == 0;
        let cancel = if free { CounterCommand::Free(counter) } else { CounterCommand::Cancel(counter) };
        let answers = pair.run(&[cancel], Ready::ALL).expect("no difference");
        let expected = if count == 0 { 2 } else { 4 + 3 * (count as u32 - 1) };
        assert_eq!((answers[0].status, answers[0].latency), (Status::Ok, expected));
    }
}

/// An operation for another unit leaves at the third port unchanged: here an unlink, which is for the list manager.
#[test]
fn other_operations_pass_through() {
    let Some(mut unit) = unit("counters_small") else { return };
    let mut ready = [0];
    outside_in::OTHER_READY.set(&mut ready, 1);
    unit.set_outside(&ready);
    let run = |unit: &mut Unit, words: &[u32]| Output::of(unit, words, command::WORDS, TRACE, 16).expect("ends");
    run(&mut unit, &CounterCommand::Alloc.pack(0));
    let action = moves(kind::ATOMIC, 77);
    let mut words = CounterCommand::Arm { counter: 0, threshold: 0, action }.pack(1);
    command::KIND.set(&mut words, kind::UNLINK.into());
    command::VARIANT.set(&mut words, 2);
    command::OBJECT.set(&mut words, 0x5a5_a5a5);
    let output = run(&mut unit, &words);
    let (_, seen) = &output.outsides[0];
    let part = |field: Field| field.get(seen);
    assert_eq!((part(outside_out::OTHER_VALID), output.outsides.len()), (1, 1));
    assert_eq!(part(outside_out::OTHER_KIND), u64::from(kind::UNLINK));
    assert_eq!((part(outside_out::OTHER_VARIANT), part(outside_out::OTHER_OBJECT)), (2, 0x5a5_a5a5));
    assert_eq!(part(body::USER_PTR.within(outside_out::OTHER.at)), 77);
}

/// A scan finds the lowest free index n in n + 2 cycles. Its order differs from `nic`'s, so there is no lockstep.
#[test]
fn a_scan_finds_index_n_in_n_plus_two_cycles() {
    const RECORDS: u32 = 21;
    let Some(mut unit) = unit("counters_scan") else { return };
    let mut tag = 0;
    let mut run = |command: CounterCommand| {
        tag += 1;
        let output = Output::of(&mut unit, &command.pack(tag), command::WORDS, TRACE, 4).expect("ends");
        let (at, words) = &output.answers[0];
        (Status::of(answer::STATUS.get(words)), answer::COUNTER.get(words) as u32, at - output.accepted[0])
    };
    for index in 0..RECORDS {
        assert_eq!(run(CounterCommand::Alloc), (Status::Ok, index, index + 2));
    }
    let (status, _, latency) = run(CounterCommand::Alloc);
    assert_eq!((status, latency), (Status::Full, RECORDS + 2));
    for index in [20, 3, 7] {
        assert_eq!(run(CounterCommand::Free(index)).0, Status::Ok);
        assert_eq!(run(CounterCommand::Free(index)).0, Status::Invalid);
    }
    for index in [3, 7, 20] {
        assert_eq!(run(CounterCommand::Alloc), (Status::Ok, 1 << 5 | index, index + 2));
        assert_eq!(run(CounterCommand::Get(1 << 5 | index)).0, Status::Ok);
    }
}
