// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A live aggregation group: every collective against a sequential reduction, to the bit; members that disagree, leave
//! or die; files that are no group memory; memory that another process corrupts.
//!
//! Members are threads, and use cross-memory attach to their own process. Members that die are forked children.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "buffers are vectors of the calling frame, as long as the operation"
)]

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use selvedge_collectives::one_host::{
    Buffer, Elements, Member, OpenError, Pending, ProgressEngine, Queue, SegmentHandle, Shape, SharedGroup,
    part_of_window,
};
use selvedge_nic::aggregation::Failure;
use selvedge_nic::arithmetic::{Datatype, Operation, apply};

const SHAPE: Shape = Shape { members: 2, credits: 2, bytes: 4096 };
/// Longer than all operations of a test take, even on a busy machine. It ends a test that hangs.
const LONG: Duration = Duration::from_secs(600);

/// A generator of reproducible numbers (splitmix64).
#[derive(Clone)]
struct Choices(u64);

impl Choices {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// A number below one of the bounds.
    fn below_one_of(&mut self, bounds: &[usize]) -> usize {
        let bound = bounds[self.below(bounds.len())];
        self.below(bound)
    }
}

/// Runs each member in a thread. A member that hangs fails the test.
fn members<T: Send + 'static>(
    shape: Shape,
    reachable: bool,
    body: impl Fn(&mut Member) -> T + Clone + Send + 'static,
) -> Vec<T> {
    owners(shape, reachable, move |mut member| body(&mut member))
}

/// Like [`members`], for a body that wraps the member in another value.
fn owners<T: Send + 'static>(
    shape: Shape,
    reachable: bool,
    body: impl Fn(Member) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let (_founder, handle) = SharedGroup::found(shape).expect("there is memory");
    let (send, receive) = mpsc::channel();
    for rank in 0..shape.members {
        let (body, send) = (body.clone(), send.clone());
        std::thread::spawn(move || {
            let member = joined(&handle, rank, reachable);
            let _ = send.send((rank, body(member)));
        });
    }
    drop(send);
    let mut results: Vec<_> =
        (0..shape.members).map(|_| receive.recv_timeout(LONG).expect("a member hangs, or panicked")).collect();
    results.sort_by_key(|(rank, _)| *rank);
    results.into_iter().map(|(_, result)| result).collect()
}

fn joined(handle: &SegmentHandle, rank: u32, reachable: bool) -> Member {
    let mut member = Member::join(SharedGroup::open(handle).expect("a group"), rank).expect("it may join");
    member.finish_joining(&mut || {}).expect("all join");
    if reachable {
        assert!(member.probe_memory().0, "a process reaches its own memory");
    }
    member.set_memory(reachable, reachable);
    member
}

fn elements(operation: Operation, datatype: Datatype) -> Elements {
    Elements::of_values(operation, datatype).expect("a reduction")
}

/// The operand of a member: numbers whose sums depend on the order.
fn operand(seed: u64, member: usize, datatype: Datatype, bytes: usize) -> Vec<u8> {
    let mut choices = Choices(seed ^ (member as u64) << 40);
    let mut operand = Vec::with_capacity(bytes + 8);
    while operand.len() < bytes {
        match datatype {
            Datatype::Double => {
                operand.extend([1e20f64, -1e20, 1.0, 0.1, 3.7, -0.0][choices.below(6)].to_le_bytes());
            }
            Datatype::Float => operand.extend([1e10f32, -1e10, 1.0, 0.1][choices.below(4)].to_le_bytes()),
            _ => operand.extend(choices.next().to_le_bytes()),
        }
    }
    operand.truncate(bytes);
    operand
}

fn reduced(seed: u64, members: usize, operation: Operation, datatype: Datatype, bytes: usize) -> Vec<u8> {
    let mut result = operand(seed, 0, datatype, bytes);
    for member in 1..members {
        apply(operation, datatype, &mut result, &operand(seed, member, datatype, bytes));
    }
    result
}

const TYPES: [(Operation, Datatype); 5] = [
    (Operation::Sum, Datatype::Double),
    (Operation::Sum, Datatype::Float),
    (Operation::Max, Datatype::Int32),
    (Operation::Bxor, Datatype::Uint8),
    (Operation::Prod, Datatype::Uint16),
];

/// Runs one operation with the same arguments at all members, and checks it at each.
fn step(member: &mut Member, seed: u64, kind: usize, bytes: usize, what: usize, in_place: bool) {
    let idle = &mut || {};
    let (operation, datatype) = TYPES[what % TYPES.len()];
    let size = datatype.size_bytes();
    let bytes = (bytes / size).max(1) * size;
    let (rank, count) = (member.rank(), member.size());
    let root = what % count;
    let elements = elements(operation, datatype);
    let mut from = operand(seed, rank, datatype, bytes);
    let original = from.clone();
    let label = format!("seed {seed} kind {kind} bytes {bytes} what {what} in place {in_place} rank {rank} of {count}");
    let mut to = vec![0xa5; bytes];
    let buffer = match in_place {
        true => Buffer { from: from.as_mut_ptr(), to: from.as_mut_ptr() },
        false => Buffer { from: from.as_ptr(), to: to.as_mut_ptr() },
    };
    // SAFETY, of all: the buffers are vectors of this frame, as long as the operation.
    match kind {
        0 => member.complete(Pending::barrier(), idle).expect(&label),
        1 | 2 => {
            let outcome = match kind {
                1 => unsafe { member.complete(Pending::allreduce(&elements, buffer, bytes), idle) },
                _ => unsafe { member.complete(Pending::reduce(&elements, root, buffer, bytes), idle) },
            };
            outcome.expect(&label);
            let expected = reduced(seed, count, operation, datatype, bytes);
            let found = if in_place { &from } else { &to };
            if kind == 1 || rank == root {
                assert!(*found == expected, "{label}");
            } else if in_place {
                assert!(from == original, "{label}: only the root gets the result");
            } else {
                assert!(to.iter().all(|&byte| byte == 0xa5), "{label}: only the root gets the result");
            }
        }
        3 => {
            let mut choices = Choices(seed);
            let mut ends: Vec<usize> = (1..count).map(|_| choices.below(bytes / size + 1) * size).collect();
            ends.push(bytes);
            ends.sort_unstable();
            let starts = std::iter::once(0).chain(ends.clone());
            let parts: Vec<_> = starts.zip(ends.iter().copied()).map(|(start, end)| start..end).collect();
            unsafe { member.complete(Pending::reduce_scatter(&elements, buffer, bytes, parts[rank].clone()), idle) }
                .expect(&label);
            let expected = reduced(seed, count, operation, datatype, bytes);
            let own = parts[rank].clone();
            let found = if in_place { &from } else { &to };
            assert!(found[..own.len()] == expected[own.clone()], "{label}");
            let behind = if in_place { &original[own.len()..] } else { &vec![0xa5; bytes - own.len()][..] };
            assert!(&found[own.len()..] == behind, "{label}: nothing else changes");
        }
        4 => {
            let mut memory = if rank == root { original.clone() } else { vec![0; bytes] };
            unsafe { member.complete(Pending::broadcast(root, memory.as_mut_ptr(), bytes), idle) }.expect(&label);
            assert!(memory == operand(seed, root, datatype, bytes), "{label}");
        }
        5 => {
            // Parts of unequal lengths, one of them often empty.
            let parts: Vec<_> = (0..count).map(|of| of * of * bytes / (count * count)).chain([bytes]).collect();
            let own = parts[rank]..parts[rank + 1];
            let source = if rank == root { original.as_ptr() } else { std::ptr::null() };
            let buffer = Buffer { from: source, to: to.as_mut_ptr() };
            unsafe { member.complete(Pending::scatter(root, buffer, bytes, own.clone()), idle) }.expect(&label);
            assert!(to[..own.len()] == operand(seed, root, datatype, bytes)[own.clone()], "{label}");
            assert!(to[own.len()..].iter().all(|&byte| byte == 0xa5), "{label}: nothing else changes");
        }
        6 => {
            let mut all = vec![0x5a; if rank == root { bytes * count } else { 0 }];
            let buffer = Buffer { from: original.as_ptr(), to: all.as_mut_ptr() };
            unsafe { member.complete(Pending::gather(root, buffer, bytes), idle) }.expect(&label);
            let of_all = (0..count).flat_map(|other| operand(seed, other, datatype, bytes));
            let expected: Vec<u8> = if rank == root { of_all.collect() } else { Vec::new() };
            assert!(all == expected, "{label}");
        }
        _ => {
            let mut all = vec![0x5a; bytes * count];
            let own = all[rank * bytes..].as_mut_ptr();
            let source = if in_place {
                all[rank * bytes..(rank + 1) * bytes].copy_from_slice(&original);
                own.cast_const()
            } else {
                from.as_ptr()
            };
            let buffer = Buffer { from: source, to: all.as_mut_ptr() };
            unsafe { member.complete(Pending::allgather(buffer, bytes), idle) }.expect(&label);
            let expected: Vec<u8> = (0..count).flat_map(|other| operand(seed, other, datatype, bytes)).collect();
            assert!(all == expected, "{label}");
            let mut choices = Choices(seed);
            let (one, other) = (choices.below(all.len() + 1), choices.below(all.len() + 1));
            let window = one.min(other)..one.max(other);
            let own = part_of_window(&window, bytes, rank);
            let start = (window.start + own.start).saturating_sub(rank * bytes).min(bytes);
            let mut found = vec![0x5a; window.len() + 1];
            let buffer = Buffer { from: original[start..].as_ptr(), to: found.as_mut_ptr() };
            unsafe { member.complete(Pending::allgather_window(buffer, bytes, window.clone()), idle) }.expect(&label);
            assert!(found[..window.len()] == expected[window.clone()], "{label}: {window:?}");
            assert!(found[window.len()] == 0x5a, "{label}: nothing else changes");
        }
    }
}

/// At and around each length where the way changes.
const LENGTHS: [usize; 20] =
    [1, 7, 8, 40, 47, 48, 49, 56, 64, 1016, 1023, 1024, 1025, 1032, 4096, 4104, 16384, 16392, 65544, 102400];

#[test]
fn every_collective_at_every_length() {
    for count in 1..=6 {
        for (reachable, credits, bytes) in [(true, 2, 16384), (false, 2, 16384), (false, 1, 64), (true, 3, 192)] {
            members(Shape { members: count, credits, bytes }, reachable, |member| {
                let mut seed = 0;
                for bytes in LENGTHS {
                    for kind in 0..8 {
                        seed += 1;
                        step(member, seed, kind, bytes, seed as usize, seed % 2 == 0);
                    }
                }
            });
        }
    }
}

/// Random operations in a row, with delays. Roots of short broadcasts, and members that get no result, run ahead by the credits.
#[test]
fn random_operations_in_a_row() {
    for round in 0..10u64 {
        let mut choices = Choices(round);
        let shape = Shape { members: 1 + choices.below(6) as u32, credits: 1 + choices.below(4) as u32, bytes: 16384 };
        members(shape, round % 2 == 0, move |member| {
            let (mut choices, mut delays) = (Choices(round + 100), Choices(member.rank() as u64));
            for seed in 0..300 {
                // Mostly operations that do not wait.
                let kind = [0, 1, 2, 3, 4, 5, 4, 2, 4, 4, 2, 2, 5, 6, 6, 7][choices.below(16)];
                let length = 1 + choices.below_one_of(&LENGTHS);
                let what = choices.below(30);
                let in_place = choices.below(2) == 0;
                if delays.below(20) == 0 {
                    std::thread::sleep(Duration::from_micros(delays.below(1000) as u64));
                }
                step(member, seed, kind, length, what, in_place);
            }
        });
    }
}

/// An operation in a queue, its memory, and the expected contents.
struct UnderWay {
    number: u64,
    memory: Vec<u8>,
    _operand: Vec<u8>,
    want: Vec<u8>,
}

/// Starts a broadcast, a sum or an allgather.
fn start(queue: &mut Queue, seed: u64, kind: usize, bytes: usize) -> UnderWay {
    let (rank, size, bytes) = (queue.engine().rank(), queue.engine().size(), bytes.next_multiple_of(8));
    let operand = |of| operand(seed, of, Datatype::Uint64, bytes);
    let root = seed as usize % size;
    let own = operand(rank);
    let (mut memory, want) = match kind {
        0 => (if rank == root { operand(root) } else { vec![0; bytes] }, operand(root)),
        1 => (vec![0; bytes], reduced(seed, size, Operation::Sum, Datatype::Uint64, bytes)),
        _ => (vec![0; bytes * size], (0..size).flat_map(operand).collect()),
    };
    let buffer = Buffer { from: own.as_ptr(), to: memory.as_mut_ptr() };
    // SAFETY: the vectors are as long as the operation, and live until it is over.
    let pending = unsafe {
        match kind {
            0 => Pending::broadcast(root, memory.as_mut_ptr(), bytes),
            1 => Pending::allreduce(&elements(Operation::Sum, Datatype::Uint64), buffer, bytes),
            _ => Pending::allgather(buffer, bytes),
        }
    };
    UnderWay { number: queue.add(pending), memory, _operand: own, want }
}

fn take_ended(queue: &mut Queue, all: &mut Vec<UnderWay>) {
    all.retain(|one| match queue.outcome(one.number) {
        None => true,
        Some(outcome) => {
            assert_eq!(outcome, Ok(()));
            assert!(one.memory == one.want, "operation {} has a wrong result", one.number);
            queue.take(one.number);
            false
        }
    });
}

/// Many operations under way, mixed with waiting ones. A member may start one before it has read an earlier one.
#[test]
fn operations_under_way_give_what_they_should() {
    for round in 0..12u64 {
        let mut choices = Choices(round);
        let shape = Shape { members: 2 + choices.below(3) as u32, credits: 1 + choices.below(4) as u32, bytes: 16384 };
        owners(shape, round % 2 == 0, move |member| {
            let mut queue = Queue::new(member);
            let (mut choices, mut delays) = (Choices(round + 100), Choices(queue.engine().rank() as u64));
            let mut all = Vec::new();
            for seed in 0..1500 {
                let bytes = [8, 40, 64, 200, 1000, 1000, 4096, 16392][choices.below(8)];
                all.push(start(&mut queue, seed, [0, 0, 0, 1, 2][choices.below(5)], bytes));
                if choices.below(40) == 0 {
                    let mut over = Vec::new();
                    let outcome = queue.complete(Pending::barrier(), &mut || {}, &mut |number, outcome| {
                        over.push((number, outcome));
                    });
                    assert_eq!(outcome, Ok(()));
                    all.retain(|one| match over.iter().find(|(number, _)| *number == one.number) {
                        None => true,
                        Some((_, outcome)) => {
                            assert!(*outcome == Ok(()) && one.memory == one.want, "operation {}", one.number);
                            false
                        }
                    });
                }
                if delays.below(50) == 0 {
                    std::thread::sleep(Duration::from_micros(delays.below(300) as u64));
                }
                while all.len() > 30 || (seed % 100 == 99 && !all.is_empty()) {
                    queue.advance();
                    take_ended(&mut queue, &mut all);
                    std::thread::yield_now();
                }
            }
            while !all.is_empty() {
                queue.advance();
                take_ended(&mut queue, &mut all);
                std::thread::yield_now();
            }
            assert!(queue.is_idle());
        });
    }
}

fn allreduce(member: &mut Member, elements: &Elements, bytes: usize) -> Result<Vec<u8>, Failure> {
    let (from, mut to) = (vec![1; bytes], vec![0; bytes]);
    // SAFETY: vectors of this frame, as long as the operation.
    unsafe {
        member.complete(
            Pending::allreduce(elements, Buffer { from: from.as_ptr(), to: to.as_mut_ptr() }, bytes),
            &mut || {},
        )
    }?;
    Ok(to)
}

#[test]
fn members_that_disagree_all_hear_it_and_go_on() {
    let base = (Operation::Sum, Datatype::Uint64);
    let others = [(Operation::Max, Datatype::Uint64), (Operation::Sum, Datatype::Int64)];
    for reachable in [true, false] {
        for (bytes, other_bytes) in [(8, 16), (64, 128), (1024, 1032), (2048, 2056), (65536, 8)] {
            for odd in 0..3 {
                members(Shape { members: 3, ..SHAPE }, reachable, move |member| {
                    let is_odd = member.rank() == odd;
                    for (operation, datatype) in others {
                        let (operation, datatype) = if is_odd { (operation, datatype) } else { base };
                        let outcome = allreduce(member, &elements(operation, datatype), bytes);
                        assert_eq!(outcome, Err(Failure::OperationMismatch));
                    }
                    let differing = if is_odd { other_bytes } else { bytes };
                    let outcome = allreduce(member, &elements(base.0, base.1), differing);
                    assert_eq!(outcome, Err(Failure::OperationMismatch), "{bytes} {other_bytes}");
                    if is_odd {
                        assert_eq!(member.complete(Pending::barrier(), &mut || {}), Err(Failure::OperationMismatch));
                    } else {
                        assert!(allreduce(member, &elements(base.0, base.1), bytes).is_err());
                    }
                    let outcome = allreduce(member, &elements(base.0, base.1), bytes);
                    assert_eq!(outcome, Ok(vec![3; bytes]), "the group continues");
                });
            }
        }
    }
}

fn reduce(member: &mut Member, elements: &Elements, bytes: usize) -> Result<(), Failure> {
    let (from, mut to) = (vec![1; bytes], vec![0; bytes]);
    let buffer = Buffer { from: from.as_ptr(), to: to.as_mut_ptr() };
    // SAFETY: vectors of this frame, as long as the operation.
    unsafe { member.complete(Pending::reduce(elements, 0, buffer, bytes), &mut || {}) }
}

/// A later call reports a failed operation of a member that did not wait, even after a call that has seen all requests.
#[test]
fn a_reduce_that_failed_is_heard_later() {
    let outcomes = members(SHAPE, true, |member| {
        let operation = if member.rank() == 1 { Operation::Max } else { Operation::Sum };
        let first = reduce(member, &elements(operation, Datatype::Uint64), 8);
        let later: Vec<_> = (0..6).map(|_| member.complete(Pending::barrier(), &mut || {})).collect();
        (first, later.iter().any(Result::is_err))
    });
    assert_eq!(outcomes[0].0, Err(Failure::OperationMismatch));
    assert!(outcomes[1].1, "the other member never got the failure");
}

/// A call that reports an earlier failure must still take part in its own operation. Else later ones are out of step.
#[test]
fn hearing_of_an_earlier_failure_keeps_members_in_step() {
    let outcomes = members(Shape { credits: 1, ..SHAPE }, true, |member| {
        let operation = if member.rank() == 1 { Operation::Max } else { Operation::Sum };
        let _ = reduce(member, &elements(operation, Datatype::Uint64), 8);
        let _ = member.complete(Pending::barrier(), &mut || {});
        allreduce(member, &elements(Operation::Sum, Datatype::Uint64), 8)
    });
    assert_eq!(outcomes, [Ok(vec![2; 8]), Ok(vec![2; 8])]);
}

/// Lengths that are no multiple of an element are refused on every way.
#[test]
fn parts_of_elements_are_refused() {
    for (reachable, bytes) in [(true, 12), (false, 4100), (true, 4100)] {
        let outcomes = members(SHAPE, reachable, move |member| {
            allreduce(member, &elements(Operation::Sum, Datatype::Uint64), bytes).map(|_| ())
        });
        assert_eq!(outcomes, [Err(Failure::NoSuchOperation); 2], "{reachable} {bytes}");
    }
}

#[test]
fn a_member_that_leaves_ends_what_needs_it_and_nothing_else() {
    for reachable in [true, false] {
        for bytes in [8, 65536] {
            members(Shape { members: 3, ..SHAPE }, reachable, move |member| {
                let sum = elements(Operation::Sum, Datatype::Uint8);
                assert_eq!(allreduce(member, &sum, bytes), Ok(vec![3; bytes]), "all members have sent it");
                if member.rank() != 2 {
                    assert_eq!(allreduce(member, &sum, bytes), Err(Failure::Left));
                    assert_eq!(member.failure(), Some(Failure::Left));
                    assert_eq!(member.complete(Pending::barrier(), &mut || {}), Err(Failure::Left));
                }
            });
        }
    }
}

#[test]
fn shapes_out_of_range_are_refused() {
    let wrong = [
        Shape { members: 0, ..SHAPE },
        Shape { members: 1025, ..SHAPE },
        Shape { credits: 0, ..SHAPE },
        Shape { credits: 65, ..SHAPE },
        Shape { bytes: 0, ..SHAPE },
        Shape { bytes: 63, ..SHAPE },
        Shape { bytes: 65, ..SHAPE },
        Shape { bytes: (1 << 20) + 64, ..SHAPE },
        Shape { members: u32::MAX, credits: u32::MAX, bytes: u32::MAX },
    ];
    for shape in wrong {
        assert!(matches!(SharedGroup::found(shape), Err(OpenError::Shape(it)) if it == shape), "{shape:?}");
    }
    let (group, _) = SharedGroup::found(SHAPE).expect("there is memory");
    assert!(matches!(Member::join(group, 2), Err(OpenError::Refused(Failure::GroupMismatch))));
    // Every shape in range, alone.
    for credits in [1, 2, 3, 5, 7, 63, 64] {
        for bytes in [64, 128, 192, 320, 4096, 4160] {
            let shape = Shape { members: 1, credits, bytes };
            let (group, _) = SharedGroup::found(shape).expect("there is memory");
            let mut member = Member::join(group, 0).unwrap_or_else(|error| panic!("{shape:?}: {error}"));
            member.finish_joining(&mut || {}).expect("it is alone");
            member.complete(Pending::barrier(), &mut || {}).expect("it is alone");
        }
    }
}

/// The file of a group, opened like another process of the user does.
fn file_of(handle: &SegmentHandle) -> File {
    let path = format!("/proc/{}/fd/{}", handle.pid, handle.descriptor);
    OpenOptions::new().read(true).write(true).open(path).expect("the founder has it open")
}

#[test]
fn cards_that_are_wrong_are_refused() {
    let (_group, handle) = SharedGroup::found(SHAPE).expect("there is memory");
    assert!(SharedGroup::open(&handle).is_ok());
    let mut wrong = vec![
        SegmentHandle { inode: handle.inode + 1, ..handle },
        SegmentHandle { descriptor: u32::MAX, ..handle },
        SegmentHandle { descriptor: 0, ..handle },
        SegmentHandle { pid: 0, ..handle },
        SegmentHandle { pid: u32::MAX, ..handle },
        SegmentHandle::default(),
    ];
    wrong.extend(
        [0, 1, 63, 64, 4096, handle.bytes - 1, handle.bytes + 1, handle.bytes - 4096, 1 << 62, u64::MAX]
            .map(|bytes| SegmentHandle { bytes, ..handle }),
    );
    for handle in wrong {
        assert!(SharedGroup::open(&handle).is_err(), "{handle:?}");
    }
    let file = tempfile::tempfile().expect("a file");
    file.set_len(handle.bytes).expect("room");
    assert!(SharedGroup::open(&SegmentHandle { descriptor: file.as_raw_fd() as u32, ..handle }).is_err(), "not sealed");
}

#[test]
fn headers_of_garbage_are_refused() {
    let (_group, handle) = SharedGroup::found(SHAPE).expect("there is memory");
    let file = file_of(&handle);
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0).expect("a header");
    for at in (0..24).step_by(4) {
        let now = u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        for value in [0, 1, now.wrapping_add(1), now.wrapping_sub(1), now << 1, 64, 128, 1 << 20, 1 << 31, u32::MAX] {
            if value == now {
                continue;
            }
            let mut other = header;
            other[at..at + 4].copy_from_slice(&value.to_le_bytes());
            file.write_all_at(&other, 0).expect("written");
            // Another shape may round to the same file length. It must then fit.
            if let Ok(group) = SharedGroup::open(&handle) {
                assert!(at >= 12, "byte {at}: {value}");
                let _ = Member::join(group, 0);
            }
        }
    }
    let mut choices = Choices(1);
    for _ in 0..2000 {
        let words: Vec<u8> = (0..8).flat_map(|_| (choices.next() >> choices.below(64)).to_le_bytes()).collect();
        let mut other = header;
        other[8..].copy_from_slice(&words[8..]);
        file.write_all_at(&other, 0).expect("written");
        let _ = SharedGroup::open(&handle);
    }
}

/// Forks a member. It exits with code 0 on success, or with the code of a failure.
fn fork(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs `body` alone and ends without destructors of the parent.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: neither has preconditions.
        unsafe {
            libc::alarm(600);
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(101);
            libc::_exit(code);
        }
    }
    pid
}

/// Returns the exit code, or the negative of the signal.
fn ended(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: an integer of this frame, and a child of ours.
    while unsafe { libc::waitpid(pid, &mut status, 0) } < 0 {}
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -libc::WTERMSIG(status) }
}

/// Kills one of the members in a stream of operations. All others must get the failure.
#[test]
fn a_member_that_is_killed_ends_the_group() {
    let mut choices = Choices(9);
    for round in 0..24u64 {
        let shape = Shape { members: 3, credits: 2, bytes: 4096 };
        let (_founder, handle) = SharedGroup::found(shape).expect("there is memory");
        let reachable = round % 2 == 0;
        // The exchange that forms a group, not the group, detects a member that dies before it has joined. So the test
        // waits until all have joined.
        let (mut have_joined, joined) = UnixStream::pair().expect("a pair");
        let children: Vec<i32> = (0..3)
            .map(|rank| {
                fork(|| {
                    let mut member =
                        Member::join(SharedGroup::open(&handle).expect("a group"), rank).expect("it may join");
                    if let Err(failure) = member.finish_joining(&mut || {}) {
                        return failure as i32;
                    }
                    (&joined).write_all(&[1]).expect("the other end is open");
                    member.set_memory(reachable, reachable);
                    let mut choices = Choices(round);
                    let sum = elements(Operation::Sum, Datatype::Uint8);
                    loop {
                        let bytes = 1 + choices.below_one_of(&[48, 1024, 4096, 65536]);
                        let outcome = match choices.below(4) {
                            0 => member.complete(Pending::barrier(), &mut || {}),
                            1 => reduce(&mut member, &sum, bytes),
                            2 => {
                                let mut memory = vec![0; bytes];
                                // SAFETY: a vector of this frame.
                                unsafe {
                                    member.complete(Pending::broadcast(1, memory.as_mut_ptr(), bytes), &mut || {})
                                }
                            }
                            _ => match allreduce(&mut member, &sum, bytes) {
                                Ok(result) if result != vec![3; bytes] => return 99,
                                outcome => outcome.map(|_| ()),
                            },
                        };
                        if let Err(failure) = outcome {
                            return failure as i32;
                        }
                    }
                })
            })
            .collect();
        have_joined.read_exact(&mut [0; 3]).expect("all join");
        std::thread::sleep(Duration::from_micros(choices.below(30_000) as u64));
        let victim = choices.below(3);
        // SAFETY: a child of ours that is not reaped.
        unsafe { libc::kill(children[victim], libc::SIGKILL) };
        assert_eq!(ended(children[victim]), -libc::SIGKILL);
        // A member that gets no failure ends by its alarm, with another code.
        for (rank, &child) in children.iter().enumerate().filter(|&(rank, _)| rank != victim) {
            assert_eq!(ended(child), Failure::Lost as i32, "round {round} member {rank}");
        }
    }
}

/// A process ends without leaving after it has sent everything that the others need.
#[test]
fn what_a_process_has_sent_before_its_end_counts() {
    let (_founder, handle) = SharedGroup::found(Shape { members: 3, ..SHAPE }).expect("there is memory");
    let child = fork(|| {
        let mut member = joined(&handle, 1, false);
        let mut memory = [7; 4000];
        // SAFETY: an array of this frame.
        let sent = unsafe { member.complete(Pending::broadcast(1, memory.as_mut_ptr(), 4000), &mut || {}) };
        std::mem::forget(member);
        i32::from(sent.is_err())
    });
    let thread = std::thread::spawn(move || late(&handle, 2, 900));
    assert_eq!(late(&handle, 0, 0), (true, Err(Failure::Lost)));
    assert_eq!(thread.join().expect("no panic"), (true, Err(Failure::Lost)));
    assert_eq!(ended(child), 0);
}

fn late(handle: &SegmentHandle, rank: u32, after_ms: u64) -> (bool, Result<(), Failure>) {
    let mut member = joined(handle, rank, false);
    std::thread::sleep(Duration::from_millis(after_ms));
    let mut memory = [0; 4000];
    // SAFETY: an array of this frame.
    let outcome = unsafe { member.complete(Pending::broadcast(1, memory.as_mut_ptr(), 4000), &mut || {}) };
    (outcome == Ok(()) && memory == [7; 4000], member.complete(Pending::barrier(), &mut || {}))
}

/// A process forked from a member is no member: dropping its copy does not free the member's place.
#[test]
fn a_forked_copy_of_a_member_does_not_leave() {
    members(Shape { members: 1, ..SHAPE }, false, |_| ());
    let (_founder, handle) = SharedGroup::found(SHAPE).expect("there is memory");
    let other = std::thread::spawn(move || {
        let mut member = joined(&handle, 1, false);
        std::thread::sleep(Duration::from_millis(300));
        member.complete(Pending::barrier(), &mut || {})
    });
    let mut member = joined(&handle, 0, false);
    let child = fork(|| {
        // SAFETY: the child has its own copy, which nothing else drops, as it ends without destructors.
        drop(unsafe { std::ptr::read(&member) });
        0
    });
    assert_eq!(ended(child), 0);
    let own = {
        std::thread::sleep(Duration::from_millis(600));
        member.complete(Pending::barrier(), &mut || {})
    };
    assert_eq!((own, other.join().expect("no panic")), (Ok(()), Ok(())));
}

/// A group ends while one member must still do its part of a long operation. The other has returned with the failure,
/// so its memory is its own again.
#[test]
fn nobody_writes_into_memory_of_a_member_that_has_returned() {
    const BYTES: usize = 65536;
    let (_founder, handle) = SharedGroup::found(SHAPE).expect("there is memory");
    let file = file_of(&handle);
    let (other_is_idle, idle_begins) = mpsc::channel();
    let (has_returned, other_returns) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let mut member = joined(&handle, 1, true);
        let (from, mut to) = (vec![1u8; BYTES], vec![0u8; BYTES]);
        let buffer = Buffer { from: from.as_ptr(), to: to.as_mut_ptr() };
        let sum = elements(Operation::Sum, Datatype::Uint8);
        // Its first call of `idle` lasts until the other has returned, as progress elsewhere may.
        let idle = &mut || {
            let _ = other_is_idle.send(());
            let _ = other_returns.recv_timeout(LONG);
        };
        // SAFETY: vectors of this frame.
        let _ = unsafe { member.complete(Pending::allreduce(&sum, buffer, BYTES), idle) };
    });
    let mut member = joined(&handle, 0, true);
    idle_begins.recv_timeout(LONG).expect("the other waits for this member's request");
    let done = line_at(&SHAPE, 1, 0);
    let ender = std::thread::spawn(move || {
        while peek(&file, done) != 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        poke(&file, STATE, Failure::Lost as u64);
    });
    let (from, mut to) = (vec![1u8; BYTES], vec![0u8; BYTES]);
    let buffer = Buffer { from: from.as_ptr(), to: to.as_mut_ptr() };
    // SAFETY: vectors of this frame.
    let outcome = unsafe {
        member.complete(Pending::allreduce(&elements(Operation::Sum, Datatype::Uint8), buffer, BYTES), &mut || {})
    };
    assert_eq!(outcome, Err(Failure::Lost));
    to.fill(0xee);
    drop(has_returned);
    ender.join().expect("no panic");
    thread.join().expect("no panic");
    assert!(to.iter().all(|&byte| byte == 0xee), "the memory of a member that has returned was written");
}

/// Writes a word of a group's file like a hostile process.
fn poke(file: &File, at: u64, word: u64) {
    file.write_all_at(&word.to_ne_bytes(), at).expect("written");
}

fn peek(file: &File, at: u64) -> u64 {
    let mut word = [0; 8];
    file.read_exact_at(&mut word, at).expect("read");
    u64::from_ne_bytes(word)
}

/// The place of the state in a file, and of the request line of a member.
const STATE: u64 = 64;
fn line_at(shape: &Shape, number: u64, member: u64) -> u64 {
    let held = u64::from(2 * shape.credits);
    128 + 128 * u64::from(shape.members) + 64 * (number % held * u64::from(shape.members) + member)
}

/// A failure number that no member writes ends the group, too.
#[test]
fn an_unknown_failure_ends_the_group() {
    for word in [14u64, 255, 256, 1 << 16, 0xffff_ffff] {
        let (_founder, handle) = SharedGroup::found(SHAPE).expect("there is memory");
        let file = file_of(&handle);
        let (mut waiting, waits) = UnixStream::pair().expect("a pair");
        let child = fork(|| {
            let mut member = Member::join(SharedGroup::open(&handle).expect("a group"), 0).expect("it may join");
            let mut first = Some(&waits);
            let is_joined = member.finish_joining(&mut || {
                if let Some(mut waits) = first.take() {
                    waits.write_all(&[1]).expect("the other end is open");
                }
            });
            i32::from(is_joined.is_ok())
        });
        waiting.read_exact(&mut [0]).expect("it waits for the other member");
        poke(&file, STATE, word);
        assert_eq!(ended(child), 0, "{word:#x}");
    }
}

/// Another process changes a member's line after it was sent. The member must not take its own addresses from there.
#[test]
fn own_addresses_are_not_read_back() {
    let (_founder, handle) = SharedGroup::found(SHAPE).expect("there is memory");
    let file = file_of(&handle);
    let victim = fork(|| {
        let mut member = joined(&handle, 0, true);
        let bytes = 65536;
        i32::from(allreduce(&mut member, &elements(Operation::Sum, Datatype::Uint8), bytes).is_ok())
    });
    let mut other = Member::join(SharedGroup::open(&handle).expect("a group"), 1).expect("it may join");
    other.finish_joining(&mut || {}).expect("all join");
    other.set_memory(false, false);
    let own = line_at(&SHAPE, 0, 0);
    while peek(&file, own) != 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    poke(&file, own + 16, 8);
    poke(&file, own + 24, 8);
    // This member agrees, and then leaves.
    let thread = std::thread::spawn(move || {
        let _ = allreduce(&mut other, &elements(Operation::Sum, Datatype::Uint8), 65536);
    });
    let code = ended(victim);
    thread.join().expect("no panic");
    assert!(code >= 0, "the member ended by signal {}", -code);
}

/// Writes garbage anywhere in the file while members run. They may fail, but not panic, fault or hang.
#[test]
fn garbage_in_the_file_harms_nobody_else() {
    for round in 0..12u64 {
        let shape = Shape { members: 3, credits: 2, bytes: 4096 };
        let (_founder, handle) = SharedGroup::found(shape).expect("there is memory");
        let file = file_of(&handle);
        let (send, receive) = mpsc::channel();
        static OPERATIONS: AtomicU64 = AtomicU64::new(0);
        let (has_joined, joins) = mpsc::channel();
        for rank in 0..3 {
            let (send, has_joined) = (send.clone(), has_joined.clone());
            std::thread::spawn(move || {
                let mut member = joined(&handle, rank, false);
                let _ = has_joined.send(());
                let mut choices = Choices(round);
                let sum = elements(Operation::Sum, Datatype::Double);
                for _ in 0..100_000 {
                    let bytes = 8 * (1 + choices.below_one_of(&[6, 128, 512, 2048]));
                    let mut memory = vec![0; 3 * bytes];
                    let buffer = Buffer { from: memory[2 * bytes..].as_ptr(), to: memory.as_mut_ptr() };
                    // SAFETY: a vector of this frame that holds all results.
                    let outcome = unsafe {
                        match choices.below(5) {
                            0 => member.complete(Pending::barrier(), &mut || {}),
                            1 => reduce(&mut member, &sum, bytes),
                            2 => member
                                .complete(Pending::broadcast(choices.below(3), memory.as_mut_ptr(), bytes), &mut || {}),
                            3 => {
                                let own = memory[member.rank() * bytes..].as_mut_ptr();
                                member.complete(
                                    Pending::allgather(Buffer { from: own, to: memory.as_mut_ptr() }, bytes),
                                    &mut || {},
                                )
                            }
                            _ => member.complete(Pending::allreduce(&sum, buffer, bytes), &mut || {}),
                        }
                    };
                    OPERATIONS.fetch_add(1, SeqCst);
                    if outcome.is_err() && member.failure().is_some() {
                        break;
                    }
                }
                drop(member);
                let _ = send.send(());
            });
        }
        drop(send);
        let mut choices = Choices(round + 7);
        (0..3).for_each(|_| joins.recv_timeout(LONG).expect("all join"));
        let (before, since) = (OPERATIONS.load(SeqCst), Instant::now());
        while OPERATIONS.load(SeqCst) < before + 10 {
            assert!(since.elapsed() < LONG, "a member hangs");
            std::thread::yield_now();
        }
        let since = Instant::now();
        let lines = line_at(&shape, 0, 0);
        while since.elapsed() < Duration::from_millis(150) {
            // Operands more often than lines, so that the group lives for a while.
            let at = match choices.below(if round < 6 { 40 } else { 4 }) {
                0 => lines + 8 * choices.below(3 * 4 * 8) as u64,
                _ => 4096 + 8 * choices.below((handle.bytes as usize - 4096) / 8) as u64,
            };
            let word = choices.next() >> choices.below(64);
            poke(&file, at, word);
        }
        poke(&file, STATE, Failure::Lost as u64);
        for _ in 0..3 {
            receive.recv_timeout(LONG).expect("a member hangs, or panicked");
        }
    }
}
