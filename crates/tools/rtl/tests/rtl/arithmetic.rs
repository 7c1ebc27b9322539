// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `aggregate.sv` against the arithmetic of `nic`: every reduction on corners, histories in any order of arrival,
//! refusals, cycles.

use proptest::prelude::*;
use selvedge_nic::aggregation::message::Reduction;
use selvedge_nic::aggregation::reduction::Kernel;
use selvedge_nic::arithmetic::{Datatype, Operation};
use selvedge_rtl::arithmetic::{
    Answer, ArithmeticCommand, ArithmeticLockstep, Shape, Status, answer, command, is_supported,
};

use crate::common::{histories, unit};
use crate::layout;

mod cycles;
mod values;

use values::{corners, element};

/// The unit and the model; `None` without Verilator.
fn lockstep(shape: Shape) -> Option<ArithmeticLockstep> {
    Some(ArithmeticLockstep::new(unit(shape.name)?, shape))
}

fn reduction(operation: u8, datatype: u8, index: u8, bytes: u32) -> Reduction {
    Reduction { operation, datatype, index, bytes, target: None }
}

/// All reductions of the unit, with the bytes of an element.
fn reductions() -> Vec<(Reduction, usize)> {
    let mut all = Vec::new();
    for operation in 0..10 {
        for datatype in 0..16 {
            for index in 0..17 {
                let of_32_bytes = reduction(operation, datatype, index, 32);
                if Kernel::new(&of_32_bytes).is_ok() && is_supported(&of_32_bytes) {
                    let size = (0..5).map(|log| 1 << log);
                    let size = size.filter(|&bytes| Kernel::new(&Reduction { bytes, ..of_32_bytes }).is_ok()).min();
                    all.push((of_32_bytes, size.expect("an element has at most 16 bytes") as usize));
                }
            }
        }
    }
    assert_eq!(all.len(), 8 * 9 + 4 * 3 + 12 * 4 * 2);
    all
}

fn message(shape: Shape, record: u8, child: u8, reduction: Reduction, operand: &[u8]) -> Vec<ArithmeticCommand> {
    let reduction = Reduction { bytes: operand.len() as u32, ..reduction };
    let word = |bytes: &[u8]| {
        let mut word = [0; 16];
        word[..bytes.len()].copy_from_slice(bytes);
        ArithmeticCommand::Word { data: u128::from_le_bytes(word) }
    };
    let header = ArithmeticCommand::Header { record, child, reduction };
    std::iter::once(header).chain(operand.chunks(shape.word_bytes).map(word)).collect()
}

fn results(shape: Shape, record: u8, bytes: usize) -> impl Iterator<Item = ArithmeticCommand> {
    (0..bytes.div_ceil(shape.word_bytes)).map(move |word| ArithmeticCommand::Result { record, word: word as u8 })
}

fn run(lockstep: &mut ArithmeticLockstep, commands: &[ArithmeticCommand], idle: u64) -> Vec<Answer> {
    lockstep.run(commands, idle).unwrap_or_else(|difference| panic!("{difference}"))
}

fn drain(lockstep: &mut ArithmeticLockstep) {
    lockstep.drain().unwrap_or_else(|difference| panic!("{difference}"));
}

/// The package has the layouts with which commands are packed and answers are read.
#[test]
fn layouts_are_those_of_the_package() {
    let Some(mut unit) = unit("aggregate_layout") else { return };
    layout::compare(&mut unit, &[command::FIELDS, answer::FIELDS], 128, 2);
}

/// Each pair of corners, for every reduction, as many elements at a time as fit into a message.
fn corners_of_every_reduction(shape: Shape) {
    let Some(mut lockstep) = lockstep(shape) else { return };
    let mut record = 0;
    for (reduction, size) in reductions() {
        let datatype = Datatype::from_number(reduction.datatype.into()).expect("it reduces");
        let values = corners(datatype);
        let indices: &[u64] = if reduction.index == 0 { &[0] } else { &[0, 1, u64::MAX, 1 << 31, 1 << 63] };
        let elements: Vec<[Vec<u8>; 2]> = values
            .iter()
            .flat_map(|one| values.iter().map(move |other| (*one, *other)))
            .enumerate()
            .map(|(number, (one, other))| {
                // Every pair of indices meets every kind of values, because their counts are almost always coprime.
                let (first, second) = (indices[number % indices.len()], indices[number / 3 % indices.len()]);
                [(one, first), (other, second)].map(|(value, index)| {
                    let half = if reduction.index == 0 { size } else { size / 2 };
                    let mut bytes = value.to_le_bytes()[..half].to_vec();
                    if reduction.index != 0 {
                        bytes.extend(&index.to_le_bytes()[..half]);
                    }
                    bytes
                })
            })
            .collect();
        for elements in elements.chunks(shape.bytes_max / size) {
            let mut commands = vec![ArithmeticCommand::Open { record, children: 2 }];
            for child in [1, 0] {
                let operand: Vec<u8> = elements.iter().flat_map(|both| both[usize::from(child)].clone()).collect();
                commands.extend(message(shape, record, child, reduction, &operand));
            }
            run(&mut lockstep, &commands, 0);
            record = (record + 1) % shape.records as u8;
            if record == 0 {
                drain(&mut lockstep);
            }
        }
    }
    drain(&mut lockstep);
}

#[test]
fn corners_of_every_reduction_in_words_of_64_bits() {
    corners_of_every_reduction(Shape::NARROW);
}

#[test]
fn corners_of_every_reduction_in_words_of_128_bits() {
    corners_of_every_reduction(Shape::WIDE);
}

/// Sums of all 16-bit values with a grid of others.
fn sums_of_16_bits(datatype: Datatype, grid: &[u16]) {
    let shape = Shape::NARROW;
    let Some(mut lockstep) = lockstep(shape) else { return };
    let reduction = reduction(Operation::Sum as u8, datatype as u8, 0, 0);
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let mut record = 0;
    for &other in grid {
        let others: Vec<u8> = std::iter::repeat_n(other.to_le_bytes(), 128).flatten().collect();
        for values in all.chunks(128) {
            let values: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let mut commands = vec![ArithmeticCommand::Open { record, children: 2 }];
            commands.extend(message(shape, record, 0, reduction, &values));
            commands.extend(message(shape, record, 1, reduction, &others));
            run(&mut lockstep, &commands, 0);
            record = (record + 1) % 4;
            if record == 0 {
                drain(&mut lockstep);
            }
        }
    }
}

#[test]
fn sums_of_half_exhaustively_with_a_grid() {
    // Zeros; the ends of the subnormals; the smallest normals; around 1; the largest; infinity; a NaN.
    let grid = [0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x3c00, 0xbc01, 0x3bff, 0x6bff, 0x7bff, 0xfbff, 0x7c00, 0xfe01];
    sums_of_16_bits(Datatype::Half, &grid);
}

#[test]
fn sums_of_bfloat16_exhaustively_with_a_grid() {
    let grid = [0x0000, 0x8001, 0x007f, 0x0080, 0x3f80, 0xbf81, 0x7f7f, 0xff80, 0x7fa0];
    sums_of_16_bits(Datatype::Bfloat16, &grid);
}

/// Every operation with every type of values and of indices, known or not, of a fitting and of a wrong length.
#[test]
fn refuses_what_the_node_refuses() {
    let shape = Shape::NARROW;
    let Some(mut lockstep) = lockstep(shape) else { return };
    let mut seen = Vec::new();
    for operation in (0..20).chain([255]) {
        for datatype in (0..18).chain([128 + 9, 255]) {
            for index in (0..18).chain([128 + 5, 255]) {
                for bytes in [0, 24, 32, 31, 256, 264, 288, 1 << 20, u32::MAX] {
                    let open = ArithmeticCommand::Open { record: 0, children: 1 };
                    let header = ArithmeticCommand::Header {
                        record: 0,
                        child: 0,
                        reduction: reduction(operation, datatype, index, bytes),
                    };
                    let answers = run(&mut lockstep, &[open, header], 2);
                    let status = answers[1].status;
                    if !seen.contains(&status) {
                        seen.push(status);
                    }
                }
            }
        }
    }
    use selvedge_nic::aggregation::Failure::{NoSuchOperation, TooLong};
    let all = [Status::Ok, Status::Failed(NoSuchOperation), Status::Failed(TooLong), Status::NotHere];
    assert!(all.iter().all(|status| seen.contains(status)) && seen.len() == all.len(), "{seen:?}");
}

/// The result depends on the order of the children, not on the order of arrival: sums whose value depends on the order.
#[test]
fn all_orders_of_arrival_have_one_result() {
    let shape = Shape::NARROW;
    let Some(mut lockstep) = lockstep(shape) else { return };
    let values = [1e20f64, 1.0, -1e20, 3.0];
    let reduction = reduction(Operation::Sum as u8, Datatype::Double as u8, 0, 0);
    for order in 0..256usize {
        let places = [order % 4, order / 4 % 4, order / 16 % 4, order / 64];
        if (0..4).any(|child| !places.contains(&child)) {
            continue;
        }
        let mut commands = vec![ArithmeticCommand::Open { record: 0, children: 4 }];
        for child in places {
            commands.extend(message(shape, 0, child as u8, reduction, &values[child].to_le_bytes().repeat(2)));
        }
        run(&mut lockstep, &commands, 0);
        drain(&mut lockstep);
        let order: Vec<usize> = lockstep.take_reduced().iter().map(|reduced| reduced.child).collect();
        assert_eq!(order, [0, 0, 1, 1, 2, 2, 3, 3]);
        let answers = run(&mut lockstep, &results(shape, 0, 16).collect::<Vec<_>>(), 2);
        let sum = ((values[0] + values[1]) + values[2]) + values[3];
        assert_eq!(answers.iter().map(|answer| answer.data as u64).collect::<Vec<_>>(), [sum.to_bits(); 2]);
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// Cut off after this number of words, and repeated.
    Cut(usize),
    /// Another operation.
    Operation,
    /// Another length.
    Length,
    /// Sent twice.
    Twice,
    /// One word more than announced.
    Longer,
    /// The record is opened again after it.
    Opened,
}

#[derive(Clone, Debug)]
struct Message {
    child: usize,
    seed: u64,
    fault: Fault,
    idle: u64,
}

#[derive(Clone, Debug)]
struct Reduce {
    /// Index into [`reductions`].
    kind: usize,
    elements: usize,
    /// In the order of arrival; children without a message never send.
    messages: Vec<Message>,
}

/// Operations side by side, one a record. A seed mixes their messages.
#[derive(Clone, Debug)]
struct Round {
    reduces: Vec<Reduce>,
    mix: u64,
}

fn rounds(shape: Shape) -> impl Strategy<Value = Vec<Round>> {
    let fault = prop_oneof![
        30 => Just(Fault::None),
        1 => (0..4usize).prop_map(Fault::Cut),
        1 => Just(Fault::Operation),
        1 => Just(Fault::Length),
        1 => Just(Fault::Twice),
        1 => Just(Fault::Longer),
        1 => Just(Fault::Opened),
    ];
    let idle = prop_oneof![4 => Just(0), 1 => 0..40u64];
    let messages = (1..=shape.children, any::<u64>()).prop_flat_map(move |(children, order)| {
        let message = (any::<u64>(), fault.clone(), idle.clone());
        proptest::collection::vec(message, children).prop_map(move |messages| {
            let mut messages: Vec<Message> = messages
                .into_iter()
                .enumerate()
                .map(|(child, (seed, fault, idle))| Message { child, seed, fault, idle })
                .collect();
            // 0 keeps the order of the children.
            messages.sort_by_key(|message| order.rotate_left(message.child as u32 * 7) & order);
            messages
        })
    });
    let elements = prop_oneof![4 => 1..5usize, 1 => 1..257usize];
    let reduce = (0..reductions().len(), elements, messages).prop_map(|(kind, elements, messages)| Reduce {
        kind,
        elements,
        messages,
    });
    let round = (proptest::collection::vec(reduce, 1..=shape.records), any::<u64>());
    proptest::collection::vec(round.prop_map(|(reduces, mix)| Round { reduces, mix }), 1..4)
}

fn check_rounds(shape: Shape, rounds: &[Round]) {
    let Some(mut lockstep) = lockstep(shape) else { return };
    let reductions = reductions();
    for Round { reduces, mix } in rounds {
        let mut queues = Vec::new();
        let mut asked = Vec::new();
        for (record, reduce) in reduces.iter().enumerate() {
            let record = record as u8;
            let (reduction, size) = reductions[reduce.kind];
            let bytes = reduce.elements.min(shape.bytes_max / size) * size;
            let children = reduce.messages.len() as u8;
            let mut queue = std::collections::VecDeque::from([(vec![ArithmeticCommand::Open { record, children }], 0)]);
            for its in &reduce.messages {
                let operand = values::operand(&reduction, size, bytes, its.seed);
                let mut reduction = reduction;
                let mut operand = &operand[..];
                match its.fault {
                    Fault::Operation => reduction.operation ^= 1,
                    Fault::Length => operand = &operand[..bytes - size],
                    _ => {}
                }
                let commands = message(shape, record, its.child as u8, reduction, operand);
                match its.fault {
                    Fault::Cut(words) => {
                        queue.push_back((commands[..commands.len().min(1 + words)].to_vec(), its.idle))
                    }
                    Fault::Twice => queue.push_back((commands.clone(), 0)),
                    _ => {}
                }
                queue.push_back((commands, its.idle));
                match its.fault {
                    Fault::Longer => queue.push_back((vec![ArithmeticCommand::Word { data: its.seed.into() }], 0)),
                    Fault::Opened => queue.push_back((vec![ArithmeticCommand::Open { record, children }], 0)),
                    _ => {}
                }
            }
            queues.push(queue);
            asked.extend(results(shape, record, bytes + shape.word_bytes));
        }
        let mut mix = *mix;
        while queues.iter().any(|queue| !queue.is_empty()) {
            mix = mix.rotate_left(5);
            let at = mix as usize % queues.len();
            let next = queues[at..].iter_mut().find(|queue| !queue.is_empty());
            let Some(queue) = next else {
                queues.truncate(at);
                continue;
            };
            if let Some((commands, idle)) = queue.pop_front() {
                run(&mut lockstep, &commands, idle);
            }
        }
        // Immediately, when reductions may be in progress, and when none is.
        run(&mut lockstep, &asked, 0);
        drain(&mut lockstep);
        run(&mut lockstep, &asked, 2);
    }
    drain(&mut lockstep);
}

fn any_command(shape: Shape) -> impl Strategy<Value = ArithmeticCommand> {
    let mostly = |below: usize| prop_oneof![20 => 0..below as u8, 1 => any::<u8>()];
    let kinds = reductions();
    let reduction = prop_oneof![
        8 => (0..3usize, 0..5u32).prop_map(move |(kind, words)| Reduction { bytes: 8 * words, ..kinds[kind * 40].0 }),
        1 => any::<(u8, u8, u8, u32)>().prop_map(|(operation, datatype, index, bytes)| {
            reduction(operation, datatype, index, bytes)
        }),
    ];
    let header = (mostly(2), mostly(3), reduction);
    prop_oneof![
        1 => (mostly(2), mostly(4)).prop_map(|(record, children)| ArithmeticCommand::Open { record, children }),
        6 => header.prop_map(|(record, child, reduction)| ArithmeticCommand::Header { record, child, reduction }),
        12 => any::<u128>().prop_map(|data| ArithmeticCommand::Word { data }),
        4 => (mostly(shape.records), mostly(4)).prop_map(|(record, word)| ArithmeticCommand::Result { record, word }),
    ]
}

proptest! {
    #![proptest_config(histories(96))]

    #[test]
    fn histories_in_words_of_64_bits(rounds in rounds(Shape::NARROW)) {
        check_rounds(Shape::NARROW, &rounds);
    }

    #[test]
    fn histories_in_words_of_128_bits(rounds in rounds(Shape::WIDE)) {
        check_rounds(Shape::WIDE, &rounds);
    }

    #[test]
    fn any_commands(commands in proptest::collection::vec((any_command(Shape::NARROW), 0..4u64), 1..400)) {
        if let Some(mut lockstep) = lockstep(Shape::NARROW) {
            for (command, idle) in &commands {
                run(&mut lockstep, &[*command], idle.saturating_sub(2));
            }
            drain(&mut lockstep);
        }
    }

    /// Sums of two values of any type, chosen near rounding ties.
    #[test]
    fn sums_of_any_numbers(draws in proptest::collection::vec(any::<(u64, u64)>(), 1..32), which in 0..4usize) {
        if let Some(mut lockstep) = lockstep(Shape::NARROW) {
            let datatype = [Datatype::Half, Datatype::Bfloat16, Datatype::Float, Datatype::Double][which];
            let size = datatype.size_bytes();
            let reduction = reduction(Operation::Sum as u8, datatype as u8, 0, 0);
            let bytes = |draw: u64| element(datatype, draw).to_le_bytes()[..size].to_vec();
            let one: Vec<u8> = draws.iter().flat_map(|draw| bytes(draw.0)).collect();
            let other: Vec<u8> = draws.iter().flat_map(|draw| bytes(draw.1)).collect();
            let mut commands = vec![ArithmeticCommand::Open { record: 0, children: 2 }];
            commands.extend(message(Shape::NARROW, 0, 0, reduction, &one));
            commands.extend(message(Shape::NARROW, 0, 1, reduction, &other));
            run(&mut lockstep, &commands, 0);
            drain(&mut lockstep);
        }
    }
}
