// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptors in lockstep with `nic`: histories, cycles, bad input, the scan.

use proptest::prelude::*;
use selvedge_nic::portals::descriptor::DescriptorView;
use selvedge_rtl::descriptors::{DescriptorCommand, DescriptorsLockstep, TRACE, answer, command, m0, m1, memory};
use selvedge_rtl::records::{Output, Status};

use crate::common::{histories, unit};
use crate::layout;

const SMALL: usize = 5;

#[test]
fn layouts_are_those_of_the_package() {
    let Some(mut unit) = unit("descriptors_layout") else { return };
    layout::compare(&mut unit, &[m0::FIELDS, m1::FIELDS, command::FIELDS, answer::FIELDS], 128, 2);
}

/// A command on the descriptor with this number, or on any reference.
#[derive(Clone, Copy, Debug)]
enum Step {
    Bind(DescriptorView),
    Release(usize),
    Get(usize),
    ReleaseAny(u32),
    GetAny(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wild = || 0..1u32 << 27;
    let view = (any::<u64>(), any::<u32>(), 0..1u32 << 16, wild(), wild()).prop_map(
        |(start, length, options, queue, counter)| DescriptorView {
            options: options << 1,
            queue,
            counter,
            ..memory(start, length.into())
        },
    );
    let step = prop_oneof![
        8 => view.prop_map(Step::Bind),
        6 => any::<usize>().prop_map(Step::Release),
        6 => any::<usize>().prop_map(Step::Get),
        1 => wild().prop_map(Step::ReleaseAny),
        1 => wild().prop_map(Step::GetAny),
    ];
    proptest::collection::vec(step, 1..12)
}

proptest! {
    #![proptest_config(histories(256))]
    #[test]
    fn histories_are_those_of_nic(batches in proptest::collection::vec(steps(), 1..12)) {
        let Some(unit) = unit("descriptors_small") else { return Ok(()) };
        let mut pair = DescriptorsLockstep::new(unit, SMALL);
        let mut bound = vec![0];
        for batch in batches {
            let commands: Vec<DescriptorCommand> = batch.iter().map(|step| match *step {
                Step::Bind(view) => DescriptorCommand::Bind(view),
                Step::Release(number) => DescriptorCommand::Release(bound[number % bound.len()]),
                Step::Get(number) => DescriptorCommand::Get(bound[number % bound.len()]),
                Step::ReleaseAny(reference) => DescriptorCommand::Release(reference),
                Step::GetAny(reference) => DescriptorCommand::Get(reference),
            }).collect();
            let answers = pair.run(&commands).map_err(TestCaseError::from)?;
            for (command, answer) in commands.iter().zip(&answers) {
                if matches!(command, DescriptorCommand::Bind(_)) && answer.status == Status::Ok {
                    bound.push(answer.descriptor);
                }
            }
        }
    }
}

#[test]
fn a_bind_takes_one_cycle_and_a_release_two() {
    let Some(unit) = unit("descriptors") else { return };
    let mut pair = DescriptorsLockstep::new(unit, 256);
    let binds: Vec<DescriptorCommand> =
        (0..257).map(|number| DescriptorCommand::Bind(memory(number, number))).collect();
    let answers = pair.run(&binds).expect("no difference");
    assert!(answers.iter().all(|answer| answer.latency == 1), "{answers:?}");
    assert!(answers[..256].iter().all(|answer| answer.status == Status::Ok));
    assert_eq!(answers[256].status, Status::Full);
    let gets: Vec<DescriptorCommand> =
        answers[..256].iter().map(|answer| DescriptorCommand::Get(answer.descriptor)).collect();
    let read = pair.run(&gets).expect("no difference");
    assert!(read.iter().all(|answer| (answer.status, answer.latency) == (Status::Ok, 2)));
    let releases: Vec<DescriptorCommand> =
        answers[..256].iter().rev().map(|answer| DescriptorCommand::Release(answer.descriptor)).collect();
    let released = pair.run(&releases).expect("no difference");
    assert!(released.iter().all(|answer| (answer.status, answer.latency) == (Status::Ok, 2)));
    // The second time all handles are stale; the table holds as many as before.
    let stale = pair.run(&[releases, gets].concat()).expect("no difference");
    assert!(stale.iter().all(|answer| (answer.status, answer.latency) == (Status::Invalid, 2)));
    let again = pair.run(&binds).expect("no difference");
    assert_eq!(again.iter().filter(|answer| answer.status == Status::Ok).count(), 256);
}

#[test]
fn what_has_no_room_is_refused_and_changes_nothing() {
    let Some(unit) = unit("descriptors_small") else { return };
    let mut pair = DescriptorsLockstep::new(unit, SMALL);
    let wide = [
        DescriptorView { length: 1 << 32, ..memory(0, 0) },
        DescriptorView { options: 1 << 17, ..memory(0, 0) },
        DescriptorView { options: 1, ..memory(0, 0) },
    ];
    for round in 0..2 {
        let answers = pair.run(&wide.map(DescriptorCommand::Bind)).expect("no difference");
        assert!(
            answers.iter().all(|answer| (answer.status, answer.latency) == (Status::TooWide, 1)),
            "{round}: {answers:?}"
        );
        pair.run(&[DescriptorCommand::Bind(memory(1, 2)); SMALL]).expect("no difference");
    }
}

/// A scan finds the lowest free index n in n + 2 cycles. Its order differs from `nic`'s, so there is no lockstep.
#[test]
fn a_scan_finds_index_n_in_n_plus_two_cycles() {
    const RECORDS: u32 = 21;
    let Some(mut unit) = unit("descriptors_scan") else { return };
    let mut tag = 0;
    let mut run = |command: DescriptorCommand| {
        tag += 1;
        let output = Output::of(&mut unit, &command.pack(tag), command::WORDS, TRACE, 4).expect("ends");
        let (at, words) = &output.answers[0];
        (Status::of(answer::STATUS.get(words)), answer::DESCRIPTOR.get(words) as u32, at - output.accepted[0])
    };
    for index in 0..RECORDS {
        assert_eq!(run(DescriptorCommand::Bind(memory(0, 0))), (Status::Ok, index, index + 2));
    }
    let (status, _, latency) = run(DescriptorCommand::Bind(memory(0, 0)));
    assert_eq!((status, latency), (Status::Full, RECORDS + 2));
    for index in [20, 3, 7] {
        assert_eq!(run(DescriptorCommand::Release(index)).0, Status::Ok);
        assert_eq!(run(DescriptorCommand::Release(index)).0, Status::Invalid);
    }
    for index in [3, 7, 20] {
        assert_eq!(run(DescriptorCommand::Bind(memory(0, 0))), (Status::Ok, 1 << 5 | index, index + 2));
    }
}
