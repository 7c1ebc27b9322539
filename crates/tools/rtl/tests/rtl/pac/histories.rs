// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random histories of the engine: commands of the host and packets from the network, while ports stop and resume.

use proptest::prelude::*;
use proptest::sample::select;

use selvedge_nic::handle::NONE;
use selvedge_nic::packet::Packet;
use selvedge_nic::portals::descriptor::DescriptorView;
use selvedge_nic::portals::{EntrySpec, list, options};
use selvedge_rtl::LockstepError;
use selvedge_rtl::pac::words::{Host, Operation, Triggered};
use selvedge_rtl::pac::{Input, Ready};

use super::{Engine, MESSAGE, get, put, response};
use crate::common::histories;
use crate::lists::spec;

/// A step. References name earlier results, by number from the last.
#[derive(Clone, Debug)]
enum Op {
    Put {
        packet: Packet,
        answered: bool,
    },
    Get(Packet),
    Respond {
        token: usize,
        packet: Packet,
    },
    Append {
        portal: u32,
        which: u8,
        spec: EntrySpec,
        counter: usize,
    },
    Search {
        portal: u32,
        spec: EntrySpec,
        delete: bool,
        counter: usize,
    },
    Unlink(usize),
    Bind {
        options: u32,
        queued: bool,
        counter: usize,
    },
    Unbind(usize),
    CounterAlloc,
    CounterFree(usize),
    CounterSet(usize, u64, u64),
    CounterIncrement(usize, u64, u64),
    CounterGet(usize),
    Arm {
        counter: usize,
        threshold: u64,
        what: u8,
        operation: Operation,
        descriptor: usize,
        object: usize,
    },
    Cancel(usize),
    CancelOne(usize),
    Move {
        get: bool,
        operation: Operation,
        descriptor: usize,
    },
    Portal {
        portal: u32,
        status: u8,
        controlled: bool,
        queue: usize,
        epoch: u32,
    },
    /// Takes all events of a queue except this number; a number above the posted events gives an invalid head.
    Take {
        queue: usize,
        left: u64,
    },
}

/// Entries as in the lists' histories, some of which count.
fn counting_spec() -> impl Strategy<Value = EntrySpec> {
    let counts = vec![
        options::EVENT_CT_COMM,
        options::EVENT_CT_OVERFLOW,
        options::EVENT_CT_BYTES,
        options::EVENT_FLOWCTRL_DISABLE,
    ];
    (spec(), proptest::collection::vec(select(counts), 0..3)).prop_map(|(spec, counts)| EntrySpec {
        options: counts.into_iter().fold(spec.options, |all, one| all | one),
        ..spec
    })
}

fn packet() -> impl Strategy<Value = Packet> {
    let offset = prop_oneof![4 => Just(0u64), 2 => 0..48u64, 1 => Just(u64::from(u32::MAX))];
    let kept = prop_oneof![8 => Just(0u64), 1 => 1..100u64];
    let epoch = prop_oneof![8 => Just(0u64), 4 => 1..8u64, 1 => Just(1 << 32 | 3)];
    ((0..4u32, 0..24u64, 0..2u32), 0..3u64, 1..3u64, offset, any::<u64>(), (kept, epoch), 0..8u8).prop_map(
        |((portal, length, uid), match_bits, initiator, remote_offset, header_data, (kept, epoch), fail)| Packet {
            portal: portal.min(2),
            length,
            uid,
            match_bits,
            initiator,
            remote_offset,
            header_data,
            operand: [kept, epoch, 0, 0],
            ack: fail & 3,
            fail: if fail < 5 { 0 } else { fail },
            ..MESSAGE
        },
    )
}

fn operation() -> impl Strategy<Value = Operation> {
    (0..40u64, 0..40u64, 0..4u8, 0..3u32, any::<u64>(), 0..64u32).prop_map(
        |(local_offset, length, ack, portal, match_bits, remote_offset)| Operation {
            local_offset,
            length,
            ack,
            target: 5,
            portal,
            match_bits,
            remote_offset,
            user_ptr: match_bits ^ 9,
            header_data: !match_bits,
            ..Operation::default()
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    use options::*;
    let what = select(vec![list::PRIORITY, list::PRIORITY, list::OVERFLOW]);
    let of_descriptor = vec![
        MD_EVENT_CT_SEND,
        MD_EVENT_CT_REPLY,
        MD_EVENT_CT_ACK,
        MD_EVENT_SUCCESS_DISABLE,
        MD_EVENT_SEND_DISABLE,
        MD_UNRELIABLE,
        MD_EVENT_CT_BYTES,
        MD_FAILURES_UNCOUNTED,
    ];
    let binds = (proptest::collection::vec(select(of_descriptor), 0..5), any::<bool>(), 0..6usize);
    prop_oneof![
        10 => (packet(), any::<bool>()).prop_map(|(packet, answered)| Op::Put { packet, answered }),
        4 => packet().prop_map(Op::Get),
        6 => (0..4usize, packet()).prop_map(|(token, packet)| Op::Respond { token, packet }),
        8 => (0..2u32, what, counting_spec(), 0..6usize).prop_map(|(portal, which, spec, counter)| Op::Append { portal, which, spec, counter }),
        2 => (0..2u32, counting_spec(), any::<bool>(), 0..6usize).prop_map(|(portal, spec, delete, counter)| Op::Search { portal, spec, delete, counter }),
        2 => (0..6usize).prop_map(Op::Unlink),
        3 => binds.prop_map(|(bits, queued, counter)| Op::Bind { options: bits.into_iter().fold(0, |all, one| all | one), queued, counter }),
        1 => (0..6usize).prop_map(Op::Unbind),
        3 => Just(Op::CounterAlloc),
        1 => (0..6usize).prop_map(Op::CounterFree),
        1 => (0..6usize, 0..9u64, 0..3u64).prop_map(|(counter, success, failure)| Op::CounterSet(counter, success, failure)),
        3 => (0..6usize, 0..9u64, 0..3u64).prop_map(|(counter, success, failure)| Op::CounterIncrement(counter, success, failure)),
        1 => (0..6usize).prop_map(Op::CounterGet),
        4 => (0..6usize, 0..20u64, 0..6u8, operation(), 0..6usize, 0..6usize).prop_map(
            |(counter, threshold, what, operation, descriptor, object)| Op::Arm { counter, threshold, what, operation, descriptor, object }
        ),
        1 => (0..6usize).prop_map(Op::Cancel),
        1 => (0..6usize).prop_map(Op::CancelOne),
        5 => (any::<bool>(), operation(), 0..6usize).prop_map(|(get, operation, descriptor)| Op::Move { get, operation, descriptor }),
        2 => (0..3u32, 0..3u8, any::<bool>(), 0..3usize, 1..8u32).prop_map(
            |(portal, status, controlled, queue, epoch)| Op::Portal { portal, status, controlled, queue, epoch }
        ),
        2 => (0..3usize, 0..9u64).prop_map(|(queue, left)| Op::Take { queue, left }),
    ]
}

/// The element with this number from the last.
fn of<T: Copy>(made: &[T], back: usize) -> Option<T> {
    made.iter().rev().nth(back).copied()
}

fn input(engine: &mut Engine, op: &Op, next_token: &mut u64) -> Input {
    let made = &engine.both.model.created;
    let counter = |back: usize| of(&made.counters, back).unwrap_or(NONE);
    let descriptor = |back: usize| of(&made.descriptors, back).unwrap_or(NONE);
    match *op {
        Op::Put { packet, answered } => {
            *next_token += 1;
            put(Packet { token: if answered { *next_token } else { 0 }, ..packet })
        }
        Op::Get(packet) => {
            *next_token += 1;
            get(Packet { token: *next_token, ..packet })
        }
        Op::Respond { token, packet } => {
            response(Packet { token: of(&made.tokens, token).unwrap_or(1 << 40), ..packet })
        }
        Op::Append { portal, which, spec, counter: back } => {
            Host::Append { portal, which, spec: EntrySpec { counter: counter(back), ..spec } }.into()
        }
        Op::Search { portal, spec, delete, counter: back } => {
            Host::Search { portal, spec: EntrySpec { counter: counter(back), ..spec }, delete }.into()
        }
        Op::Unlink(back) => Host::Unlink(of(&made.entries, back).unwrap_or(3)).into(),
        Op::Bind { options, queued, counter: back } => {
            let queue = if queued { engine.queue } else { NONE };
            let (start, length, iov, iov_count) = (0x4_0000, 64, NONE, 0);
            Host::Bind(DescriptorView { start, length, options, queue, counter: counter(back), iov, iov_count }).into()
        }
        Op::Unbind(back) => Host::Unbind(descriptor(back)).into(),
        Op::CounterAlloc => Host::CounterAlloc.into(),
        Op::CounterFree(back) => Host::CounterFree(counter(back)).into(),
        Op::CounterSet(back, success, failure) => Host::CounterSet { counter: counter(back), success, failure }.into(),
        Op::CounterIncrement(back, success, failure) => {
            Host::CounterIncrement { counter: counter(back), success, failure }.into()
        }
        Op::CounterGet(back) => Host::CounterGet(counter(back)).into(),
        Op::Arm { counter: back, threshold, what, operation, descriptor: from, object } => {
            let operation = Operation { descriptor: descriptor(from), ..operation };
            let (object, success, failure) = (counter(object), operation.length % 5, operation.local_offset % 2);
            let action = match what {
                0 => Triggered::Put(operation),
                1 => Triggered::Get(operation),
                2 => Triggered::Set { counter: object, success, failure },
                3 => Triggered::SetSuccess { counter: object, success },
                4 => Triggered::Unlink(of(&made.entries, operation.length as usize % 6).unwrap_or(3)),
                _ => Triggered::Increment { counter: object, success, failure },
            };
            Host::Arm { counter: counter(back), threshold, action }.into()
        }
        Op::Cancel(back) => Host::Cancel(counter(back)).into(),
        Op::CancelOne(back) => {
            let (index, generation) = of(&made.armed, back).unwrap_or((0, 5));
            Host::CancelOne { index, generation }.into()
        }
        Op::Move { get, operation, descriptor: from } => {
            let operation = Operation { descriptor: descriptor(from), ..operation };
            if get { Host::Get(operation).into() } else { Host::Put(operation).into() }
        }
        Op::Portal { portal, status, controlled, queue, epoch } => {
            let options = if controlled { options::PT_FLOWCTRL } else { 0 };
            let queue = engine.queues.get(queue).copied().unwrap_or(NONE);
            Host::Portal { portal, status: status.max(1), options, queue, epoch }.into()
        }
        Op::Take { queue, left } => {
            let tail = engine.both.model.home.queue_books[queue].tail;
            let reference = engine.queues.get(queue).copied().unwrap_or(NONE);
            Host::QueueHead { reference, taken: tail.wrapping_sub(left) }.into()
        }
    }
}

fn run(engine: Option<Engine>, ops: &[(Vec<Op>, u8, u64)]) -> Result<(), LockstepError> {
    let Some(mut engine) = engine else { return Ok(()) };
    let mut next_token = 1 << 20;
    for (ops, stopped, idle) in ops {
        let inputs: Vec<Input> = ops.iter().map(|op| input(&mut engine, op, &mut next_token)).collect();
        engine.both.set_ready(Ready(std::array::from_fn(|port| stopped >> port & 1 == 0)));
        let taken = engine.both.run(&inputs, *idle)?;
        if taken < inputs.len() {
            // A stalled port holds them up, or commands wait for responses.
            engine.both.set_ready(Ready::ALL);
            let mut left = &inputs[taken..];
            while !left.is_empty() {
                let taken = engine.both.run(left, 0)?;
                left = &left[taken..];
                if taken == 0 {
                    answer_all(&mut engine)?;
                }
            }
        }
    }
    answer_all(&mut engine)?;
    engine.both.drain()
}

/// Answers all pending commands, so that commands waiting for a record continue.
fn answer_all(engine: &mut Engine) -> Result<(), LockstepError> {
    engine.both.set_ready(Ready::ALL);
    for _ in 0..8 {
        let tokens = engine.both.model.created.tokens.clone();
        let answers: Vec<Input> =
            tokens.iter().rev().take(4).map(|&token| response(Packet { token, ack: 1, ..MESSAGE })).collect();
        engine.both.run(&answers, 200)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(histories(1000))]

    #[test]
    fn random_histories_agree(
        ops in proptest::collection::vec(
            (proptest::collection::vec(op(), 1..6), prop_oneof![3 => Just(0u8), 1 => 0..64u8], prop_oneof![3 => Just(0u64), 1 => 1..60u64]),
            1..16,
        ),
    ) {
        let both = [Engine::small(), Engine::one_port()];
        if let Err(difference) = both.into_iter().try_for_each(|engine| run(engine, &ops)) {
            prop_assert!(false, "{}", difference);
        }
    }
}
