// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `rtl/allocator/` in lockstep with `Buddy`: layouts, histories, every state of a small tree, cycles, bad input.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::process;

use proptest::prelude::*;
use selvedge_nic::buddy::Buddy;
use selvedge_rtl::LockstepError;
use selvedge_rtl::Unit;
use selvedge_rtl::allocator::{
    AllocatorCommand, AllocatorLockstep, Answer, Completion, Status, TRACE, WORD_BITS, answer, command, node,
};

use crate::common::{histories, unit};
use crate::layout;

#[derive(Clone, Copy, Debug)]
struct Parameters {
    name: &'static str,
    blocks: u32,
    unroll: u32,
}

const fn with(name: &'static str, blocks: u32, unroll: u32) -> Parameters {
    Parameters { name, blocks, unroll }
}

const ALL: &[Parameters] = &[
    with("allocator", 4096, 4),
    with("allocator_unroll_2", 4096, 2),
    with("allocator_unroll_1", 4096, 1),
    with("allocator_100", 100, 1),
    with("allocator_1000", 1000, 2),
    with("allocator_7", 7, 4),
];

impl Parameters {
    fn lockstep(self) -> Option<AllocatorLockstep> {
        unit(self.name)?;
        Some(AllocatorLockstep::new(self.name, self.blocks).expect("rtl/units.toml has it"))
    }

    /// Number of groups of levels, for the cycles below.
    fn groups(self) -> u32 {
        let rows = if self.blocks <= 16 {
            1
        } else if self.blocks <= 256 {
            2
        } else {
            3
        };
        4 * rows / self.unroll
    }

    fn group_of(self, order: u32) -> u32 {
        (order / self.unroll).min(self.groups() - 1)
    }

    /// The word for the highest levels arrives in cycle 2; each further group takes a cycle, each further word another.
    fn alloc_latency(self, order: u32) -> u32 {
        let group = self.group_of(order);
        let word = |group: u32| group * self.unroll / 4;
        2 + (self.groups() - 1 - group) + (word(self.groups() - 1) - word(group))
    }

    fn free_latency(self) -> u32 {
        1 + self.groups()
    }

    fn writes(self, order: u32) -> u32 {
        self.groups() - self.group_of(order)
    }
}

#[test]
fn layouts_are_those_of_the_package() {
    let Some(mut unit) = unit("allocator_layout") else { return };
    let fields = layout::compare(&mut unit, &[command::FIELDS, answer::FIELDS, node::FIELDS], WORD_BITS, 1);
    // The reader of the trace takes the same bits.
    let mut words = [0; (2 * WORD_BITS + 87_usize).div_ceil(32)];
    for (name, value) in
        [("valid", 1), ("bank", 9), ("address", 300), ("tag", 77), ("retire_valid", 1), ("retire_tag", 78)]
    {
        fields.iter().rev().find(|field| field.0 == name).expect("listed").1.set(&mut words, value);
    }
    let trace = TRACE.trace(&words, 1);
    let write = &trace.writes[0];
    assert_eq!((trace.retired, write.bank, write.address, write.tag), (Some(78), 9, 300, 77));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc(u32),
    /// Frees the live allocation at this place.
    Free(usize),
    Size(usize),
    Any(AllocatorCommand),
}

fn steps(blocks: u32) -> impl Strategy<Value = Vec<(Step, u64)>> {
    let number = move || prop_oneof![8 => 0..=blocks + 1, 1 => any::<u32>()];
    let step = prop_oneof![
        8 => (1..=blocks.min(9)).prop_map(Step::Alloc),
        2 => (0..=blocks.ilog2()).prop_map(|order| Step::Alloc(1 << order)),
        2 => number().prop_map(Step::Alloc),
        8 => any::<usize>().prop_map(Step::Free),
        1 => any::<usize>().prop_map(Step::Size),
        1 => number().prop_map(|first| Step::Any(AllocatorCommand::Free(first))),
        1 => number().prop_map(|first| Step::Any(AllocatorCommand::SizeOf(first))),
        1 => number().prop_map(|argument| Step::Any(AllocatorCommand::Bad(argument))),
    ];
    let idle = prop_oneof![3 => Just(0u64), 1 => 0..4u64];
    proptest::collection::vec((step, idle), 1..120)
}

fn history() -> impl Strategy<Value = (Parameters, Vec<(Step, u64)>)> {
    proptest::sample::select(ALL).prop_flat_map(|parameters| (Just(parameters), steps(parameters.blocks)))
}

/// The commands of a history; a separate `Buddy` tracks the live allocations.
fn commands_of(blocks: u32, steps: &[(Step, u64)]) -> Vec<(AllocatorCommand, u64)> {
    let mut words = vec![0; Buddy::words_needed(blocks)];
    let mut buddy = Buddy::init(&mut words, blocks, blocks);
    let mut live: Vec<u32> = Vec::new();
    let mut commands = Vec::new();
    for &(step, idle) in steps {
        let at = |place: usize| place % live.len().max(1);
        let command = match step {
            Step::Alloc(blocks) => AllocatorCommand::Alloc(blocks),
            Step::Free(place) => AllocatorCommand::Free(live.get(at(place)).copied().unwrap_or(0)),
            Step::Size(place) => AllocatorCommand::SizeOf(live.get(at(place)).copied().unwrap_or(0)),
            Step::Any(command) => command,
        };
        match command {
            AllocatorCommand::Alloc(blocks) => live.extend(buddy.alloc(blocks)),
            AllocatorCommand::Free(first) if buddy.free(first).is_ok() => live.retain(|&other| other != first),
            _ => {}
        }
        commands.push((command, idle));
    }
    commands
}

fn run(parameters: Parameters, steps: &[(Step, u64)]) -> Result<(), LockstepError> {
    let Some(mut both) = parameters.lockstep() else { return Ok(()) };
    let mut batch = Vec::new();
    for (command, idle) in commands_of(parameters.blocks, steps) {
        batch.push(command);
        if idle > 0 {
            both.run(&std::mem::take(&mut batch), idle)?;
        }
    }
    both.run(&batch, 0)?;
    both.check_all()
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 1000, ..histories(200) })]
    #[test]
    fn does_what_buddy_does((parameters, steps) in history()) {
        run(parameters, &steps).map_err(TestCaseError::from)?;
    }
}

fn right(result: Result<Vec<Completion>, LockstepError>) -> Vec<Completion> {
    result.unwrap_or_else(|difference| panic!("{difference}"))
}

fn checked(both: &AllocatorLockstep) {
    both.check_all().unwrap_or_else(|difference| panic!("{difference}"));
}

/// Each state of 7 blocks, and each command in it. 260 states: see the test of `Buddy`.
#[test]
fn every_state_of_seven_blocks() {
    let parameters = with("allocator_7", 7, 4);
    let Some(mut both) = parameters.lockstep() else { return };
    let mut start = vec![0; Buddy::words_needed(7)];
    Buddy::init(&mut start, 7, 7);
    // A state and the commands that lead to it.
    let mut seen = BTreeMap::from([(start.clone(), ())]);
    let mut queue = VecDeque::from([(start, Vec::new())]);
    while let Some((words, way)) = queue.pop_front() {
        let frees = (0..=8).map(AllocatorCommand::Free);
        for command in frees.chain((0..=8).map(AllocatorCommand::Alloc)).chain((0..=8).map(AllocatorCommand::SizeOf)) {
            let mut after = words.clone();
            let mut buddy = Buddy::attach(&mut after).expect("sound");
            match command {
                AllocatorCommand::Alloc(blocks) => drop(buddy.alloc(blocks)),
                AllocatorCommand::Free(first) => drop(buddy.free(first)),
                _ => {}
            }
            let way: Vec<AllocatorCommand> = way.iter().copied().chain([command]).collect();
            both.reset();
            right(both.run(&way, 0));
            checked(&both);
            if seen.insert(after.clone(), ()).is_none() {
                queue.push_back((after, way));
            }
        }
    }
    assert_eq!(seen.len(), 260);
}

/// Latencies of all commands, for each order, with the whole tree, its last piece, or nothing free.
#[test]
fn cycles_of_every_order() {
    for &parameters in ALL {
        let Some(mut both) = parameters.lockstep() else { return };
        let height = parameters.blocks.ilog2();
        let alloc = |both: &mut AllocatorLockstep, order: u32| {
            let ran = right(both.run(&[AllocatorCommand::Alloc(1 << order)], 0))[0];
            let latency = if ran.answer.is_ok() { parameters.alloc_latency(order) } else { 2 };
            let writes = if ran.answer.is_ok() { parameters.writes(order) } else { 0 };
            let expected = Completion { latency, retired: latency + writes, writes, ..ran };
            assert_eq!(ran, expected, "{parameters:?} alloc of order {order}");
            ran.answer
        };
        let free = |both: &mut AllocatorLockstep, first: u32, order: Option<u32>| {
            let ran = right(both.run(&[AllocatorCommand::SizeOf(first), AllocatorCommand::Free(first)], 0));
            for (command, ran) in ran.into_iter().enumerate() {
                let writes = order.filter(|_| command == 1).map_or(0, |order| parameters.writes(order));
                let latency = parameters.free_latency();
                let answer = order.map(|order| 1 << order).ok_or(Status::NotAllocated);
                assert_eq!(
                    ran,
                    Completion { answer, latency, retired: latency + writes, writes },
                    "{parameters:?} {first}"
                );
            }
        };
        for order in 0..=height {
            let mut held: Vec<u32> = Vec::new();
            // One piece first, then all of this order until none is left.
            while let Ok(first) = alloc(&mut both, order) {
                held.push(first);
            }
            assert_eq!(held.len() as u32, parameters.blocks >> order);
            for (place, &first) in held.iter().enumerate() {
                free(&mut both, first, Some(order));
                if place % 64 == 0 {
                    free(&mut both, first, None);
                    let again = alloc(&mut both, order).expect("one is free");
                    free(&mut both, again, Some(order));
                }
            }
        }
        checked(&both);
    }
}

/// The cycles in docs/design/rtl.md for the whole of 4,096 blocks.
#[test]
fn cycles_of_the_design() {
    let latencies = |unroll: usize| {
        let name = ["allocator_unroll_1", "allocator_unroll_2", "allocator"][unroll];
        let mut both = with(name, 4096, 1 << unroll).lockstep()?;
        let allocs: Vec<u32> = (0..13)
            .map(|order| {
                let ran = right(both.run(&[AllocatorCommand::Alloc(1 << order), AllocatorCommand::Free(0)], 0));
                assert_eq!(ran[1].latency, [13, 7, 4][unroll]);
                ran[0].latency
            })
            .collect();
        Some(allocs)
    };
    let Some(at_once) = latencies(2) else { return };
    assert_eq!(at_once, [6, 6, 6, 6, 4, 4, 4, 4, 2, 2, 2, 2, 2]);
    assert_eq!(latencies(1), Some(vec![9, 9, 8, 8, 6, 6, 5, 5, 3, 3, 2, 2, 2]));
    assert_eq!(latencies(0), Some(vec![15, 14, 13, 12, 10, 9, 8, 7, 5, 4, 3, 2, 2]));
}

/// A command is accepted in the cycle after the last cycle of the one before.
#[test]
fn commands_follow_without_a_gap() {
    for &parameters in ALL {
        let Some(mut both) = parameters.lockstep() else { return };
        let commands = [
            AllocatorCommand::Alloc(1),
            AllocatorCommand::SizeOf(0),
            AllocatorCommand::Free(0),
            AllocatorCommand::Free(0),
            AllocatorCommand::Alloc(0),
        ];
        let ran = right(both.run(&commands, 0));
        let together: u32 = ran.iter().map(|ran| ran.retired + 1).sum();
        let alone: u32 = commands.iter().map(|&command| right(both.run(&[command], 7))[0].retired + 1).sum();
        assert_eq!(together, alone);
    }
}

/// `Buddy` refuses the same commands, and a refused one writes nothing: `AllocatorLockstep` checks that.
#[test]
fn bad_input() {
    for &parameters in ALL {
        let Some(mut both) = parameters.lockstep() else { return };
        let blocks = parameters.blocks;
        let mut answers = |commands: &[AllocatorCommand]| -> Vec<Answer> {
            right(both.run(commands, 0)).into_iter().map(|ran| ran.answer).collect()
        };
        for blocks in [0, blocks + 1, 2 * blocks + 1, 1 << 16, (1 << 16) + 1, 1 << 31, u32::MAX] {
            assert_eq!(answers(&[AllocatorCommand::Alloc(blocks)]), [Err(Status::NoMemory)], "{blocks} blocks");
        }
        for first in [0, 1, blocks - 1, blocks, blocks + 1, 1 << 16, 1 << 31, u32::MAX] {
            let commands = [AllocatorCommand::Free(first), AllocatorCommand::SizeOf(first)];
            assert_eq!(answers(&commands), [Err(Status::NotAllocated); 2], "block {first}");
        }
        assert_eq!(answers(&[AllocatorCommand::Alloc(4)]), [Ok(0)]);
        let inside = [1, 2, 3, 4, blocks, 1 << 16].map(AllocatorCommand::Free);
        assert_eq!(answers(&inside), [Err(Status::NotAllocated); 6]);
        assert_eq!(answers(&[0, 1, u32::MAX].map(AllocatorCommand::Bad)), [Err(Status::BadCommand); 3]);
        assert_eq!(
            answers(&[AllocatorCommand::Free(0), AllocatorCommand::Free(0)]),
            [Ok(4), Err(Status::NotAllocated)]
        );
        checked(&both);
    }
}

/// All blocks one by one, then freed so that most merges happen late.
#[test]
fn full_and_empty_again() {
    for &parameters in ALL {
        let Some(mut both) = parameters.lockstep() else { return };
        let allocs = vec![AllocatorCommand::Alloc(1); parameters.blocks as usize + 1];
        let ran = right(both.run(&allocs, 0));
        assert_eq!(ran[0].answer, Ok(0));
        assert_eq!(ran.last().map(|ran| ran.answer), Some(Err(Status::NoMemory)));
        checked(&both);
        let (even, odd) = (0..parameters.blocks).partition::<Vec<u32>, _>(|first| first % 2 == 0);
        let frees: Vec<AllocatorCommand> =
            even.into_iter().chain(odd.into_iter().rev()).map(AllocatorCommand::Free).collect();
        right(both.run(&frees, 0));
        checked(&both);
    }
}

#[test]
fn reset_frees_all() {
    let Some(mut both) = ALL[0].lockstep() else { return };
    for _ in 0..3 {
        right(both.run(&[AllocatorCommand::Alloc(100), AllocatorCommand::Alloc(1)], 0));
        both.reset();
        checked(&both);
        assert_eq!(right(both.run(&[AllocatorCommand::Alloc(4096)], 0))[0].answer, Ok(0));
        both.reset();
    }
}

#[test]
fn parameters_out_of_range() {
    if Unit::new("allocator").is_err() {
        return;
    }
    let rtl = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../rtl");
    for (parameter, range) in
        [("Blocks=0", "1 to 4,096"), ("Blocks=4097", "1 to 4,096"), ("UnrollLevels=3", "1, 2 or 4")]
    {
        let mut command = process::Command::new("verilator");
        command.args(["--lint-only", "--top-module", "allocator", &format!("-G{parameter}")]);
        command.arg("-y").arg(rtl.join("common")).arg("-y").arg(rtl.join("allocator"));
        command.args(
            ["common/pac_pkg.sv", "allocator/allocator_pkg.sv", "allocator/allocator.sv"].map(|file| rtl.join(file)),
        );
        let said = command.output().expect("Verilator starts");
        let text = String::from_utf8_lossy(&said.stderr);
        let name = parameter.split('=').next().expect("a name");
        assert!(
            !said.status.success() && text.contains(&format!("allocator: {name} is")) && text.contains(range),
            "{text}"
        );
    }
}
