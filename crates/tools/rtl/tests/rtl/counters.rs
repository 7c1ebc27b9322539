// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters and triggered operations in lockstep with `nic`: layouts, random histories, and tests of single commands.

use std::path::Path;
use std::process;

use proptest::prelude::*;
use selvedge_nic::tables::kind;
use selvedge_rtl::counters::words::{
    CounterCommand, TriggeredAction, amounts, answer, body, c0, c1, command, data_command, outside_in, outside_out, t0,
};
use selvedge_rtl::counters::{CountersLockstep, Ready};
use selvedge_rtl::records::Status;

use crate::common::{histories, unit};
use crate::layout;

pub const SMALL: (usize, usize) = (5, 6);

#[test]
fn layouts_are_those_of_the_package() {
    let Some(mut unit) = unit("counters_layout") else { return };
    let structs = [
        c0::FIELDS,
        c1::FIELDS,
        t0::FIELDS,
        body::FIELDS,
        command::FIELDS,
        answer::FIELDS,
        outside_in::FIELDS,
        outside_out::FIELDS,
    ];
    layout::compare(&mut unit, &structs, 256, 5);
}

/// The counter of a step: one that the history has allocated, live or not, or any reference.
#[derive(Clone, Copy, Debug)]
enum Of {
    Known(usize),
    Any(u32),
}

#[derive(Clone, Copy, Debug)]
enum Does {
    Move(u8),
    Set(Of, u64, u64),
    SetSuccess(Of, u64),
    Increment(Of, u64, u64),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc,
    Free(Of),
    Set(Of, u64, u64),
    Increment(Of, u64, u64),
    Get(Of),
    Arm(Of, u64, Does),
    Cancel(Of),
    CancelKnown(usize),
    CancelAny(u32, u32),
}

fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![20 => 0..4u64, 1 => any::<u64>(), 1 => u64::MAX - 3..=u64::MAX]
}

fn step() -> impl Strategy<Value = Step> {
    let of = || prop_oneof![12 => (0..64usize).prop_map(Of::Known), 1 => (0..1u32 << 27).prop_map(Of::Any)];
    let moves =
        prop_oneof![Just(kind::GET), Just(kind::PUT), Just(kind::ATOMIC), Just(kind::SWAP)].prop_map(Does::Move);
    let does = prop_oneof![
        4 => moves,
        1 => (of(), amount(), amount()).prop_map(|(of, success, failure)| Does::Set(of, success, failure)),
        1 => (of(), amount()).prop_map(|(of, success)| Does::SetSuccess(of, success)),
        3 => (of(), amount(), amount()).prop_map(|(of, success, failure)| Does::Increment(of, success, failure)),
    ];
    let threshold = prop_oneof![20 => 0..9u64, 1 => any::<u64>(), 1 => Just(u64::MAX)];
    prop_oneof![
        2 => Just(Step::Alloc),
        1 => of().prop_map(Step::Free),
        2 => (of(), amount(), amount()).prop_map(|(of, success, failure)| Step::Set(of, success, failure)),
        8 => (of(), amount(), amount()).prop_map(|(of, success, failure)| Step::Increment(of, success, failure)),
        3 => of().prop_map(Step::Get),
        9 => (of(), threshold, does).prop_map(|(of, threshold, does)| Step::Arm(of, threshold, does)),
        1 => of().prop_map(Step::Cancel),
        3 => (0..64usize).prop_map(Step::CancelKnown),
        1 => (0..9u32, 0..3u32).prop_map(|(index, generation)| Step::CancelAny(index, generation)),
    ]
}

/// Steps without a pause between them, and the ports that are ready.
type Batch = (Vec<Step>, [bool; 3]);

fn batches() -> impl Strategy<Value = Vec<Batch>> {
    let ready = prop_oneof![3 => Just([true; 3]), 2 => any::<[bool; 3]>()];
    proptest::collection::vec((proptest::collection::vec(step(), 1..24), ready), 1..10)
}

fn check(name: &str, batches: &[Batch]) -> Result<(), TestCaseError> {
    let Some(unit) = unit(name) else { return Ok(()) };
    let mut pair = CountersLockstep::new(unit, SMALL.0, SMALL.1);
    let run = |pair: &mut CountersLockstep, commands: &[CounterCommand], ready| {
        pair.run(commands, ready).map_err(TestCaseError::from)
    };
    let mut counters: Vec<u32> =
        run(&mut pair, &[CounterCommand::Alloc; 3], Ready::ALL)?.iter().map(|answer| answer.counter).collect();
    let mut handles = vec![(0, 0)];
    let mut number = 0;
    for (steps, ready) in batches {
        // The newest are most likely to be live.
        let counter = |of: Of| match of {
            Of::Known(number) => counters[counters.len() - 1 - number % counters.len().min(6)],
            Of::Any(reference) => reference,
        };
        let mut does = |does: Does| match does {
            Does::Move(kind) => {
                number += 1;
                TriggeredAction::Move(data_command(kind, number))
            }
            Does::Set(of, success, failure) => TriggeredAction::Set { counter: counter(of), success, failure },
            Does::SetSuccess(of, success) => TriggeredAction::SetSuccess { counter: counter(of), success },
            Does::Increment(of, success, failure) => {
                TriggeredAction::Increment { counter: counter(of), success, failure }
            }
        };
        let commands: Vec<CounterCommand> = steps
            .iter()
            .map(|&step| match step {
                Step::Alloc => CounterCommand::Alloc,
                Step::Free(of) => CounterCommand::Free(counter(of)),
                Step::Set(of, success, failure) => CounterCommand::Set { counter: counter(of), success, failure },
                Step::Increment(of, success, failure) => {
                    CounterCommand::Increment { counter: counter(of), success, failure }
                }
                Step::Get(of) => CounterCommand::Get(counter(of)),
                Step::Arm(of, threshold, action) => {
                    CounterCommand::Arm { counter: counter(of), threshold, action: does(action) }
                }
                Step::Cancel(of) => CounterCommand::Cancel(counter(of)),
                Step::CancelKnown(number) => {
                    let (index, generation) = handles[handles.len() - 1 - number % handles.len().min(8)];
                    CounterCommand::CancelOne { index, generation }
                }
                Step::CancelAny(index, generation) => CounterCommand::CancelOne { index, generation },
            })
            .collect();
        let answers = run(&mut pair, &commands, Ready(*ready))?;
        for (command, answer) in commands.iter().zip(answers) {
            match command {
                CounterCommand::Alloc if answer.status == Status::Ok => counters.push(answer.counter),
                CounterCommand::Arm { .. } if answer.status == Status::Ok => handles.push(answer.armed),
                _ => (),
            }
        }
    }
    run(&mut pair, &[], Ready::ALL)?;
    Ok(())
}

proptest! {
    #![proptest_config(histories(256))]
    #[test]
    fn histories_are_those_of_nic(batches in batches()) {
        check("counters_small", &batches)?;
    }

    #[test]
    fn histories_with_one_port_are_those_of_nic(batches in batches()) {
        check("counters_one_port", &batches)?;
    }
}

proptest! {
    #![proptest_config(histories(16))]
    /// A large table filled on one counter, in any order of thresholds, fires in the order of thresholds.
    #[test]
    fn a_full_table_fires_in_order(thresholds in proptest::collection::vec(1..40u64, 128)) {
        let Some(unit) = unit("counters") else { return Ok(()) };
        let mut pair = CountersLockstep::new(unit, 512, 128);
        let counter = pair.run(&[CounterCommand::Alloc], Ready::ALL).map_err(TestCaseError::from)?[0].counter;
        let mut passed = Vec::new();
        let arms: Vec<CounterCommand> = thresholds.iter().enumerate().map(|(number, &threshold)| {
            let kind = [kind::GET, kind::PUT, kind::ATOMIC][number % 3];
            passed.push(thresholds[..number].iter().filter(|&&other| other > threshold).count());
            CounterCommand::Arm { counter, threshold, action: TriggeredAction::Move(data_command(kind, number as u64)) }
        }).collect();
        let answers = pair.run(&arms, Ready::ALL).map_err(TestCaseError::from)?;
        for (number, answer) in answers.iter().enumerate() {
            // The head of the list is passed at no cost, because nothing lies before it.
            let walked = passed[number].min(number.saturating_sub(1));
            prop_assert_eq!((answer.status, answer.latency), (Status::Ok, 4 + 2 * walked as u32));
        }
        for _ in 0..20 {
            let count = CounterCommand::Increment { counter, success: 1, failure: 1 };
            pair.run(&[count], Ready::ALL).map_err(TestCaseError::from)?;
        }
        prop_assert!(pair.run(&[CounterCommand::Cancel(counter), CounterCommand::Free(counter)], Ready::ALL).is_ok());
    }
}

/// Operations on a counter trigger others, which are queued behind those that are due already.
#[test]
fn operations_on_counters_run_in_the_order_of_nic() {
    let Some(unit) = unit("counters_small") else { return };
    let mut pair = CountersLockstep::new(unit, SMALL.0, SMALL.1);
    let counters: Vec<u32> = pair
        .run(&[CounterCommand::Alloc; 2], Ready::ALL)
        .expect("no difference")
        .iter()
        .map(|answer| answer.counter)
        .collect();
    let (one, other) = (counters[0], counters[1]);
    let put = |number| TriggeredAction::Move(data_command(kind::PUT, number));
    let arm = |counter, threshold, action| CounterCommand::Arm { counter, threshold, action };
    let mut commands = vec![
        arm(one, 1, TriggeredAction::Increment { counter: other, success: 1, failure: 0 }),
        // A due operation stays due, although the count falls.
        arm(one, 1, TriggeredAction::Set { counter: one, success: 0, failure: 0 }),
        arm(one, 1, put(1)),
        arm(one, 2, put(2)),
        arm(other, 1, put(3)),
        arm(other, 1, TriggeredAction::Increment { counter: one, success: 2, failure: 0 }),
        CounterCommand::Increment { counter: one, success: 1, failure: 0 },
    ];
    commands.extend([CounterCommand::Get(one), CounterCommand::Get(other)]);
    pair.run(&commands, Ready::ALL).expect("no difference");
    let bodies: Vec<u64> = pair.departures.iter().map(|left| body::USER_PTR.get(&left.body)).collect();
    assert_eq!(bodies, [1, 3, 2]);
}

#[test]
fn bad_commands_are_refused_as_by_nic() {
    let Some(unit) = unit("counters_small") else { return };
    let mut pair = CountersLockstep::new(unit, SMALL.0, SMALL.1);
    let allocs = pair.run(&[CounterCommand::Alloc; SMALL.0 + 1], Ready::ALL).expect("no difference");
    assert_eq!(allocs.last().map(|answer| answer.status), Some(Status::Full));
    let (counter, action) = (allocs[0].counter, TriggeredAction::Move(data_command(kind::PUT, 1)));
    let arm = CounterCommand::Arm { counter, threshold: 5, action };
    let arms = pair.run(&[arm; SMALL.1 + 1], Ready::ALL).expect("no difference");
    assert_eq!(arms.last().map(|answer| answer.status), Some(Status::Full));
    let (index, generation) = arms[2].armed;
    let one = CounterCommand::CancelOne { index, generation };
    let cancelled = pair.run(&[one, one], Ready::ALL).expect("no difference");
    assert_eq!([cancelled[0].status, cancelled[1].status], [Status::Ok, Status::Invalid]);
    pair.run(&[CounterCommand::Free(counter)], Ready::ALL).expect("no difference");
    // Stale, with an index beyond the table, with a generation that was never used.
    for bad in [counter, 5, 7, (1 << 27) - 1] {
        let commands = [
            CounterCommand::Get(bad),
            CounterCommand::Set { counter: bad, success: 1, failure: 1 },
            CounterCommand::Increment { counter: bad, success: 1, failure: 1 },
            CounterCommand::Cancel(bad),
            CounterCommand::Free(bad),
            CounterCommand::Arm { counter: bad, threshold: 0, action },
        ];
        let answers = pair.run(&commands, Ready::ALL).expect("no difference");
        assert!(answers[..5].iter().all(|answer| answer.status == Status::Invalid), "{answers:?}");
        assert_eq!(answers[5].status, Status::Full);
    }
    for index in [6, 7, 8, 255, 65535] {
        let answers =
            pair.run(&[CounterCommand::CancelOne { index, generation: 0 }], Ready::ALL).expect("no difference");
        assert_eq!(answers[0].status, Status::Invalid);
    }
    assert_eq!(amounts(1, 2)[0], 1);
}

#[test]
fn parameters_out_of_range_stop_elaboration() {
    if unit("counters_small").is_none() {
        return;
    }
    let rtl = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../rtl");
    for (top, parameter, message) in [
        ("counters", "Counters=1", "counters: Counters is 1, and may be 2 to 4,096"),
        ("counters", "Counters=4097", "counters: Counters is 4097, and may be 2 to 4,096"),
        ("counters", "Triggered=4097", "triggered: Triggered is 4097, and may be 2 to 4,096"),
        ("counters", "Ports=3", "counters: Ports is 3, and may be 1 or 2"),
        ("descriptors", "Descriptors=4097", "descriptors: Descriptors is 4097, and may be 2 to 4,096"),
        ("descriptors", "Ports=0", "descriptors: Ports is 0, and may be 1 or 2"),
    ] {
        let mut verilator = process::Command::new("verilator");
        verilator.args(["--lint-only", "--top-module", top, &format!("-G{parameter}")]);
        verilator.arg("-y").arg(rtl.join("common")).arg("-y").arg(rtl.join("counters"));
        verilator.args(["common/pac_pkg.sv", "counters/records_pkg.sv"].map(|file| rtl.join(file)));
        verilator.args([format!("counters/{top}_pkg.sv"), format!("counters/{top}.sv")].map(|file| rtl.join(file)));
        let said = verilator.output().expect("Verilator starts");
        let text = String::from_utf8_lossy(&said.stderr);
        assert!(!said.status.success() && text.contains(message), "{parameter}: {text}");
    }
}
