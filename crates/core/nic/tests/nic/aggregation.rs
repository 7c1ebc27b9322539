// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The aggregation unit: groups and operations over small trees, every order of arrival of the smallest, random ones
//! against a sequential reduction, losses, and hostile messages.

use std::collections::{HashSet, VecDeque};

use proptest::prelude::*;
use selvedge_nic::aggregation::member::GroupState;
use selvedge_nic::aggregation::message::{Distribution, Join, Message, Operand, Outcome, Reduction, Sender, Target};
use selvedge_nic::aggregation::{Failure, Limits, Quota, Refusal, SendId, StartError};
use selvedge_nic::arithmetic::{Datatype, Located, Operation, apply, apply_located};

use crate::common::aggregation::*;

const KEY: u64 = 0x5e1d;
const SMALL: Limits = Limits { jobs: 2, trees: 2, groups: 2, children: 4, credits: 2, operand_blocks: 16 };

fn sum(datatype: Datatype, bytes: u32) -> Reduction {
    Reduction::of_values(Operation::Sum, datatype, bytes)
}

/// One node above `nodes` leaves, or one node alone.
fn world(nodes: usize, members: usize) -> World {
    let mut world = World::new(nodes, SMALL, members, MemberHome::new(2, 4, 256));
    for (index, home) in world.nodes.iter_mut().enumerate() {
        let mut node = home.node();
        node.admit(1, KEY, AMPLE).expect("there is room");
        assert!(node.set_tree(0, (index != 0).then_some(node_at(0))));
    }
    world
}

/// Members of one group on two leaves below node 0: the first of them at node 1, the others at node 2.
fn two_leaves(first: usize, second: usize) -> (World, Vec<u64>) {
    let mut world = world(3, first + second);
    let total = (first + second) as u32;
    let handles = (0..first + second)
        .map(|member| {
            let (leaf, beside) = if member < first { (1, first) } else { (2, second) };
            world.join(member, leaf, KEY, &join_of(1, 9, member as u32, total, &[beside as u16, 2]))
        })
        .collect();
    (world, handles)
}

fn leaf_of(world: &World, member: usize) -> usize {
    world.members[member].memberships.iter().map(|it| it.node as u32 as usize).max().expect("it has joined")
}

#[test]
fn a_group_forms_reduces_and_ends() {
    let (mut world, handles) = two_leaves(2, 2);
    world.settle();
    for (member, &handle) in handles.iter().enumerate() {
        assert_eq!(world.state(member, handle), GroupState::Ready { credits: 2, bytes: 16 });
    }
    for round in 0..5u64 {
        for (member, &handle) in handles.iter().enumerate() {
            let operand = (member as u64 * 10 + round).to_le_bytes();
            let leaf = leaf_of(&world, member);
            let started = world.start(member, (handle, KEY, leaf), &sum(Datatype::Uint64, 8), &operand, 8);
            assert_eq!(started, Ok(round));
        }
        world.settle();
        for (member, &handle) in handles.iter().enumerate() {
            let home = &mut world.members[member];
            assert_eq!(home.memory[8..16], (60 + 4 * round).to_le_bytes());
            assert_eq!(home.member().take(handle, round), Some(Ok(())));
            assert_eq!(home.member().take(handle, round), None, "it was taken");
        }
    }
    for (member, &handle) in handles.iter().enumerate() {
        world.leave(member, handle, KEY);
    }
    world.settle();
    world.nodes.iter_mut().for_each(OwnNode::assert_empty);
}

/// A member has no more operations under way than the group has credits, taken or not.
#[test]
fn operations_wait_for_credits() {
    let (mut world, handles) = two_leaves(1, 1);
    let reduction = sum(Datatype::Uint32, 4);
    let refused = world.start(0, (handles[0], KEY, 1), &reduction, &[0; 4], 0);
    assert_eq!(refused, Err(StartError::Credit), "the group is not formed yet");
    world.settle();
    for number in 0..2 {
        assert_eq!(world.start(0, (handles[0], KEY, 1), &reduction, &[1; 4], 0), Ok(number));
    }
    assert_eq!(world.start(0, (handles[0], KEY, 1), &reduction, &[1; 4], 0), Err(StartError::Credit));
    world.start(1, (handles[1], KEY, 2), &reduction, &[1; 4], 0).expect("it has credits");
    world.settle();
    assert_eq!(world.start(0, (handles[0], KEY, 1), &reduction, &[1; 4], 0), Err(StartError::Credit), "not taken");
    assert_eq!(world.members[0].member().take(handles[0], 0), Some(Ok(())));
    assert_eq!(world.start(0, (handles[0], KEY, 1), &reduction, &[1; 4], 0), Ok(2));
}

/// A sender may die when a result is delivered but not counted yet. The result is sent again, before or after the
/// program has taken it.
#[test]
fn a_result_that_was_not_counted_is_found() {
    let (mut world, handles) = two_leaves(1, 1);
    world.settle();
    let reduction = sum(Datatype::Uint32, 4);
    for is_taken_before in [false, true] {
        let mut number = 0;
        for (member, &handle) in handles.iter().enumerate() {
            let started = world.start(member, (handle, KEY, leaf_of(&world, member)), &reduction, &[1; 4], 0);
            number = started.expect("it has credits");
        }
        let mut result = None;
        while result.is_none() {
            for node in world.nodes_with_sends() {
                world.pump(node);
            }
            let link = *world.links.keys().next().expect("the result is on its way");
            if link.1 == member_at(0) {
                result = world.links[&link].front().map(|(request, payload)| (link.0, *request, payload.clone()));
            }
            world.deliver(link);
        }
        let (node, request, payload) = result.expect("a result");
        let home = &mut world.members[0];
        assert_eq!(home.memberships[0].completed, number + 1);
        home.memberships[0].completed = number;
        if is_taken_before {
            assert_eq!(home.member().take(handles[0], number), Some(Ok(())));
        }
        world.post(node, member_at(0), request, payload);
        world.settle();
        let home = &mut world.members[0];
        assert_eq!(home.memberships[0].completed, number + 1);
        assert_eq!(home.member().take(handles[0], number), (!is_taken_before).then_some(Ok(())));
        assert_eq!(world.members[1].member().take(handles[1], number), Some(Ok(())));
    }
}

#[test]
fn a_trimmed_group_ends_at_the_lowest_node_that_has_all() {
    for (options, at_root) in [(3, 0), (2, 1)] {
        let mut world = world(3, 2);
        let mut join_as = |member: usize| {
            let mut join = join_of(1, 4, member as u32, 2, &[2, 1]);
            join.options = options;
            world.join(member, 1, KEY, &join)
        };
        let handles = [join_as(0), join_as(1)];
        world.settle();
        assert!(matches!(world.state(0, handles[0]), GroupState::Ready { .. }));
        assert_eq!(world.nodes[0].jobs[0].groups, at_root, "options {options}");
        assert_eq!(world.nodes[1].groups[0].is_root, 1 - at_root);
    }
}

/// Only the target gets the result; members get their credit. The target need not be a member.
#[test]
fn a_target_alone_gets_the_result() {
    for target in [1, 2] {
        let (mut world, handles) = two_leaves(1, 1);
        world.members.push(MemberHome::new(2, 4, 256));
        world.settle();
        let expected = world.members[target].member().expect(KEY, 64, 8).expect("there is room");
        let to = Target::process(member_at(target), expected);
        let reduction = Reduction { target: Some(to), ..sum(Datatype::Uint64, 8) };
        for (member, &handle) in handles.iter().enumerate() {
            let operand = (member as u64 + 20).to_le_bytes();
            world.start(member, (handle, KEY, member + 1), &reduction, &operand, 8).expect("it has credits");
        }
        world.settle();
        for (member, &handle) in handles.iter().enumerate() {
            assert_eq!(world.members[member].member().take(handle, 0), Some(Ok(())));
            assert_eq!(world.members[member].memory[8..16], [0; 8], "no result");
        }
        assert_eq!(world.members[target].member().take(expected, 0), Some(Ok(())));
        assert_eq!(world.members[target].memory[64..72], 41u64.to_le_bytes());
        assert_eq!(world.members[target].member().leave(expected), None);
    }
}

#[test]
fn members_that_disagree_all_hear_it() {
    let base = sum(Datatype::Uint64, 8);
    let others = [
        (Reduction { operation: Operation::Max as u8, ..base }, Failure::OperationMismatch),
        (Reduction { datatype: Datatype::Int64 as u8, ..base }, Failure::OperationMismatch),
        (Reduction { bytes: 16, ..base }, Failure::OperationMismatch),
        (Reduction { bytes: 0, ..base }, Failure::OperationMismatch),
    ];
    for (other, failure) in others {
        for odd in 0..3 {
            let (mut world, handles) = two_leaves(2, 1);
            world.settle();
            for (member, &handle) in handles.iter().enumerate() {
                let reduction = if member == odd { other } else { base };
                let (leaf, operand) = (leaf_of(&world, member), vec![1; reduction.bytes as usize]);
                world.start(member, (handle, KEY, leaf), &reduction, &operand, 0).expect("it has credits");
                world.start(member, (handle, KEY, leaf), &base, &[1, 0, 0, 0, 0, 0, 0, 0], 32).expect("a second");
            }
            world.settle();
            for (member, &handle) in handles.iter().enumerate() {
                assert_eq!(world.members[member].member().take(handle, 0), Some(Err(failure)), "{other:?} {odd}");
                assert_eq!(world.members[member].member().take(handle, 1), Some(Ok(())), "{other:?} {odd}");
                assert_eq!(world.members[member].memory[32..40], 3u64.to_le_bytes());
            }
        }
    }
}

#[test]
fn operations_that_cannot_be_fail_at_all_members() {
    let cases = [
        (Reduction { operation: 99, ..sum(Datatype::Uint64, 8) }, Failure::NoSuchOperation),
        (Reduction { datatype: 99, ..sum(Datatype::Uint64, 8) }, Failure::NoSuchOperation),
        (Reduction { operation: Operation::Bxor as u8, ..sum(Datatype::Double, 8) }, Failure::NoSuchOperation),
        (sum(Datatype::Uint64, 7), Failure::NoSuchOperation),
        (Reduction { index: 3, ..sum(Datatype::Uint64, 8) }, Failure::NoSuchOperation),
        (Reduction { index: 5, ..sum(Datatype::Uint64, 16) }, Failure::NoSuchOperation),
        (sum(Datatype::Uint64, 24), Failure::TooLong),
    ];
    for (reduction, failure) in cases {
        let (mut world, handles) = two_leaves(1, 2);
        world.settle();
        for (member, &handle) in handles.iter().enumerate() {
            let (leaf, operand) = (leaf_of(&world, member), vec![1; reduction.bytes as usize]);
            world.start(member, (handle, KEY, leaf), &reduction, &operand, 0).expect("it has credits");
        }
        world.settle();
        for (member, &handle) in handles.iter().enumerate() {
            assert_eq!(world.members[member].member().take(handle, 0), Some(Err(failure)), "{reduction:?}");
            assert!(matches!(world.state(member, handle), GroupState::Ready { .. }), "the group goes on");
        }
    }
}

#[test]
fn every_operation_on_every_type() {
    let pair_indices = [Datatype::Int32, Datatype::Uint32, Datatype::Int64, Datatype::Uint64];
    let (mut world, handles) = two_leaves(2, 1);
    world.settle();
    let (mut number, mut refused) = (0, 0);
    for operation in (0..18).filter_map(Operation::from_u32) {
        for datatype in (0..16).filter_map(Datatype::from_number) {
            let pairs = pair_indices.iter().filter_map(|&index| Located::new(datatype, index)).map(Some);
            for pair in std::iter::once(None).chain(pairs) {
                let size = pair.map_or(datatype.size_bytes(), Located::size_bytes);
                let bytes = if size > 16 { continue } else { 16 };
                let reduction = match pair {
                    None => Reduction::of_values(operation, datatype, bytes),
                    Some(pair) => Reduction::of_pairs(operation, pair, bytes),
                };
                let operands: Vec<Vec<u8>> = (0..3u8)
                    .map(|member| (0..16u8).map(|at| at.wrapping_mul(37) ^ (member.wrapping_mul(91))).collect())
                    .collect();
                for (member, &handle) in handles.iter().enumerate() {
                    let leaf = leaf_of(&world, member);
                    world.start(member, (handle, KEY, leaf), &reduction, &operands[member], 0).expect("it has credits");
                }
                world.settle();
                let mut expected = operands[0].clone();
                for operand in &operands[1..] {
                    match pair {
                        None => apply(operation, datatype, &mut expected, operand),
                        Some(pair) => apply_located(operation, pair, &mut expected, operand),
                    }
                }
                let is_known = match pair {
                    None => selvedge_nic::arithmetic::reduces(operation, datatype),
                    Some(_) => Located::reduces(operation),
                };
                for (member, &handle) in handles.iter().enumerate() {
                    let home = &mut world.members[member];
                    let outcome = home.member().take(handle, number);
                    if is_known {
                        assert_eq!((outcome, &home.memory[..16]), (Some(Ok(())), &expected[..]), "{reduction:?}");
                    } else {
                        assert_eq!(outcome, Some(Err(Failure::NoSuchOperation)), "{reduction:?}");
                        refused += 1;
                    }
                }
                number += 1;
            }
        }
    }
    assert!(number > 500 && refused > 100, "{number} {refused}");
}

/// Duplicates are dropped; messages out of order, or beyond the credits, end the group at all members.
#[test]
fn requests_out_of_order_end_the_group() {
    let reduction = sum(Datatype::Uint64, 8);
    for (number, ends) in [(0, false), (1, false), (2, true), (4, true)] {
        let (mut world, handles) = two_leaves(2, 1);
        world.settle();
        for _ in 0..2 {
            world.start(0, (handles[0], KEY, 1), &reduction, &[1; 8], 0).expect("it has credits");
        }
        world.settle();
        let group = world.members[0].memberships[0].handle;
        let operand = Operand { group, child: 0, number, reduction, failure: None };
        let request = Message::Request(operand).encode(Sender { address: member_at(0), key: KEY });
        world.post(member_at(0), node_at(1), request, vec![9; 8]);
        world.settle();
        for (member, &handle) in handles.iter().enumerate() {
            let state = world.state(member, handle);
            match ends {
                // The number is right, but there is no credit for it; or it is not even the next.
                true => assert_eq!(state, GroupState::Failed(Failure::Credit), "{number}"),
                false => assert!(matches!(state, GroupState::Ready { .. }), "{number}"),
            }
        }
        if !ends {
            for (member, leaf) in [(1, 1), (2, 2)] {
                world.start(member, (handles[member], KEY, leaf), &reduction, &[1; 8], 0).expect("it has credits");
            }
            world.settle();
            assert_eq!(world.members[0].memory[..8], [3; 8], "a duplicate operand counts once");
        }
    }
}

/// A member that leaves while others wait for it, or while it waits, ends the group, unless it has all its results.
#[test]
fn a_member_that_leaves_ends_what_needs_it() {
    let reduction = sum(Datatype::Uint64, 8);
    for (starts, ends) in
        [([false; 3], false), ([true; 3], false), ([true, false, false], true), ([false, true, true], true)]
    {
        let (mut world, handles) = two_leaves(2, 1);
        world.settle();
        for (member, _) in starts.iter().enumerate().filter(|(_, starts)| **starts) {
            let leaf = leaf_of(&world, member);
            world.start(member, (handles[member], KEY, leaf), &reduction, &[1; 8], 0).expect("it has credits");
        }
        world.settle();
        world.leave(0, handles[0], KEY);
        world.settle();
        for (member, &handle) in handles.iter().enumerate().skip(1) {
            let has_failed = world.state(member, handle) == GroupState::Failed(Failure::Left);
            assert_eq!(has_failed, ends, "{starts:?}");
        }
        // A later reduction reports that a member has left.
        if !ends {
            let leaf = leaf_of(&world, 1);
            world.start(1, (handles[1], KEY, leaf), &reduction, &[1; 8], 0).expect("it has credits");
            world.settle();
            for (member, &handle) in handles.iter().enumerate().skip(1) {
                assert_eq!(world.state(member, handle), GroupState::Failed(Failure::Left), "{starts:?}");
            }
        }
    }
}

/// Node 0 above node 1, whose two children read its memory; and a member beneath node 0 alone, which is the root.
fn shared_leaf() -> (World, Vec<u64>) {
    let mut world = world(2, 3);
    let handles =
        [(0, 1, 6, &[2, 2][..]), (1, 1, 6, &[2, 2]), (2, 0, 2, &[2])].map(|(member, node, options, expected)| {
            let join = Join { options, ..join_of(1, 9, member as u32, 3, expected) };
            world.join(member, node, KEY, &join)
        });
    world.settle();
    (world, handles.to_vec())
}

/// Sends the request of a child that reads its node's memory, where it finds its index and the group.
fn send_shared(world: &mut World, node: usize, member: usize, number: u64, reduction: Reduction, operand: &[u8]) {
    let home = &world.nodes[node];
    let group = u64::from(home.groups[0].slot >> 8) << 32;
    let child = home.children.iter().position(|child| child.address == member_at(member)).expect("it joined") as u32;
    let request = Operand { group, child, number, reduction, failure: None };
    let sender = Sender { address: member_at(member), key: KEY };
    world.post(sender.address, node_at(node), Message::Request(request).encode(sender), operand.to_vec());
}

fn shared_result(world: &World, node: usize, number: u64, bytes: u32) -> &[u8] {
    let home = &world.nodes[node];
    &home.operands[home.groups[0].place(number, 0, bytes).expect("a place")]
}

fn nothing_for(world: &World, members: &[usize]) {
    for &member in members {
        assert!(world.links.keys().all(|&(_, to)| to != member_at(member)), "nothing is sent to member {member}");
    }
}

/// All worlds reachable by any order of arrivals and sends.
fn all_ends(start: World, shared: &[usize]) -> Vec<World> {
    let (mut seen, mut open, mut ends) = (HashSet::new(), vec![start], Vec::new());
    while let Some(world) = open.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        nothing_for(&world, shared);
        let mut is_end = true;
        for &link in world.links.keys() {
            let mut other = world.clone();
            other.deliver(link);
            open.push(other);
            is_end = false;
        }
        let mut idle = world.clone();
        for node in idle.nodes_with_sends() {
            let mut other = world.clone();
            if other.pump(node) {
                is_end = false;
            }
            if other != world {
                open.push(other);
            }
        }
        if is_end {
            ends.push(world);
        }
    }
    ends
}

/// In every order a leaf whose children read its memory gets the root's result, sends them nothing, and distributes it.
#[test]
fn children_that_share_memory_read_their_results() {
    let reduction = sum(Datatype::Uint64, 8);
    let (mut world, handles) = shared_leaf();
    assert_eq!((world.nodes[1].groups[0].status(), world.nodes[0].groups[0].status()), (3, 3), "ready");
    for number in 0..2u64 {
        for member in 0..2u64 {
            send_shared(&mut world, 1, member as usize, number, reduction, &(member + 10 * number + 1).to_le_bytes());
        }
        let operand = (100 + number).to_le_bytes();
        world.start(2, (handles[2], KEY, 0), &reduction, &operand, 8 * number).expect("it has credits");
    }
    let ends = all_ends(world, &[0, 1]);
    assert!(!ends.is_empty());
    for world in ends {
        let group = &world.nodes[1].groups[0];
        assert_eq!([group.collected, group.sent, group.resulted, group.distributed], [2; 4]);
        assert_eq!(shared_result(&world, 1, 0, 8), 103u64.to_le_bytes());
        assert_eq!(shared_result(&world, 1, 1, 8), 124u64.to_le_bytes());
        assert_eq!(world.members[2].memory[..8], 103u64.to_le_bytes());
        assert_eq!(world.members[2].memory[8..16], 124u64.to_le_bytes());
    }
}

/// Records are reused: many more operations than credits.
#[test]
fn children_that_share_memory_get_their_credits() {
    let reduction = sum(Datatype::Uint64, 8);
    let (mut world, handles) = shared_leaf();
    for number in 0..20u64 {
        for member in 0..2 {
            send_shared(&mut world, 1, member, number, reduction, &number.to_le_bytes());
        }
        world.start(2, (handles[2], KEY, 0), &reduction, &number.to_le_bytes(), 0).expect("it has credits");
        world.settle();
        assert_eq!(shared_result(&world, 1, number, 8), (3 * number).to_le_bytes());
        assert_eq!(world.members[2].member().take(handles[2], number), Some(Ok(())));
    }
}

/// A child disagrees: the record shows it to the children that read it.
#[test]
fn children_that_share_memory_read_failures() {
    for odd in 0..2 {
        let (mut world, handles) = shared_leaf();
        let base = sum(Datatype::Uint64, 8);
        for member in 0..2 {
            let reduction = if member == odd { sum(Datatype::Int64, 8) } else { base };
            send_shared(&mut world, 1, member, 0, reduction, &[1; 8]);
        }
        world.start(2, (handles[2], KEY, 0), &base, &[1; 8], 0).expect("it has credits");
        for mut world in all_ends(world.clone(), &[0, 1]) {
            assert_eq!(world.nodes[1].operations[0].failure(), Some(Failure::OperationMismatch));
            assert_eq!(world.members[2].member().take(handles[2], 0), Some(Err(Failure::OperationMismatch)));
            assert_eq!(world.nodes[1].groups[0].distributed, 1);
        }
        // They also read the end of the group.
        world.revoke(1, KEY);
        for world in all_ends(world, &[0, 1]) {
            assert_eq!(world.nodes[1].groups[0].failure(), Some(Failure::Revoked));
        }
    }
}

/// A root whose children read its memory still sends each result to its own target elsewhere.
#[test]
fn a_root_that_shares_memory_sends_to_its_target() {
    for with_target in [[true, true], [true, false], [false, true], [false, false]] {
        let mut world = world(1, 3);
        for member in 0..2 {
            let join = Join { options: 6, ..join_of(1, 9, member as u32, 2, &[2]) };
            world.join(member, 0, KEY, &join);
        }
        world.settle();
        let expected = world.members[2].member().expect(KEY, 64, 8).expect("there is room");
        let to = Target::process(member_at(2), expected);
        for (number, has_target) in with_target.into_iter().enumerate() {
            let reduction = Reduction { target: has_target.then_some(to), ..sum(Datatype::Uint64, 8) };
            for member in 0..2 {
                send_shared(&mut world, 0, member, number as u64, reduction, &(number as u64 + 5).to_le_bytes());
            }
        }
        let count = with_target.iter().filter(|it| **it).count();
        for world in all_ends(world, &[0, 1]) {
            let group = &world.nodes[0].groups[0];
            assert_eq!([group.collected, group.resulted, group.distributed], [2; 3], "{with_target:?}");
            assert_eq!(shared_result(&world, 0, 1, 8), 12u64.to_le_bytes());
            let found = &world.members[2].memory[64..72];
            match (count, with_target[0]) {
                (0, _) => assert_eq!(found, [0; 8]),
                (_, true) => assert!(found == 10u64.to_le_bytes() || count == 2 && found == 12u64.to_le_bytes()),
                _ => assert_eq!(found, 12u64.to_le_bytes()),
            }
        }
    }
}

#[test]
fn groups_that_do_not_fit_fail_everywhere() {
    type Change = fn(&mut World);
    let changes: [(&str, Change, Failure); 6] = [
        ("groups", |it| it.nodes[0].node().admit(1, KEY, Quota { groups: 0, ..AMPLE }).expect("known"), Failure::Quota),
        (
            "credits",
            |it| it.nodes[0].node().admit(1, KEY, Quota { credits: 0, ..AMPLE }).expect("known"),
            Failure::Quota,
        ),
        ("bytes", |it| it.nodes[0].node().admit(1, KEY, Quota { bytes: 8, ..AMPLE }).expect("known"), Failure::Quota),
        ("tree", |it| it.nodes[0].node().clear_tree(0, Failure::NoTree), Failure::NoTree),
        ("job", |it| it.nodes[0].node().forget(1, KEY), Failure::NoJob),
        ("revoked", |it| it.nodes[0].node().revoke(1, KEY, Failure::Revoked), Failure::Revoked),
    ];
    for (what, change, failure) in changes {
        let (mut world, handles) = two_leaves(2, 1);
        change(&mut world);
        world.settle();
        for (member, &handle) in handles.iter().enumerate() {
            assert_eq!(world.state(member, handle), GroupState::Failed(failure), "{what} {member}");
            world.leave(member, handle, KEY);
        }
        world.settle();
        world.nodes.iter_mut().for_each(OwnNode::assert_empty);
    }
}

/// A job is forgotten while a process sends for it: the operands stay reserved until the process has reported the send.
#[test]
fn operands_stay_while_a_process_sends_them() {
    for reports in [true, false] {
        let (mut world, handles) = two_leaves(1, 1);
        world.settle();
        let reduction = sum(Datatype::Uint64, 8);
        world.start(0, (handles[0], KEY, 1), &reduction, &[7; 8], 0).expect("it has credits");
        world.deliver((member_at(0), node_at(1)));
        let mut node = world.nodes[1].node();
        let send = node.next_send(5).expect("a request for the parent");
        node.forget(1, KEY);
        assert_eq!(node.tables.operands[send.payload.clone()], [7; 8]);
        assert!(node.next_send(6).is_none(), "one process at a time sends for a group");
        node.admit(1, KEY, AMPLE).expect("the job's record is free");
        let occupied = node.tables.operand_map.to_vec();
        match reports {
            true => node.finish_send(send.id),
            false => node.reclaim_sends(|_| false),
        }
        assert!(node.next_send(7).is_none(), "no message is due");
        assert_ne!(node.tables.operand_map.to_vec(), occupied, "the operands are free");
        world.nodes[1].assert_empty();
    }
}

/// With too little room for operands the root grants fewer credits; without room the group fails.
#[test]
fn the_root_grants_what_fits() {
    for (blocks, wanted) in [(16, 2), (8, 2), (4, 1), (2, 0)] {
        let mut world = World::new(1, Limits { operand_blocks: blocks, ..SMALL }, 2, MemberHome::new(1, 4, 64));
        world.nodes[0].node().admit(1, KEY, AMPLE).expect("there is room");
        world.nodes[0].node().set_tree(0, None);
        let handles: Vec<u64> =
            (0..2).map(|member| world.join(member, 0, KEY, &join_of(1, 1, member as u32, 2, &[2]))).collect();
        world.settle();
        let state = match wanted {
            0 => GroupState::Failed(Failure::NoRoom),
            credits => GroupState::Ready { credits, bytes: 16 },
        };
        assert_eq!([world.state(0, handles[0]), world.state(1, handles[1])], [state; 2], "{blocks} blocks");
        if wanted != 0 {
            assert_eq!(world.nodes[0].jobs[0].credits, wanted, "the quota counts the grant");
        }
    }
}

/// The outcome of an order of arrival: the memory of the members.
fn outcomes(world: &World) -> Vec<Vec<u8>> {
    world.members.iter().map(|member| member.memory.clone()).collect()
}

/// Every order in which messages arrive, nodes send, and members start `operations` each. All end with the same result.
fn every_order(
    mut start: World,
    handles: &[u64],
    reduction: Reduction,
    operands: &[Vec<u8>],
    operations: u64,
) -> usize {
    start.settle();
    let (mut seen, mut open, mut ends) = (HashSet::new(), vec![start], HashSet::new());
    let bytes = reduction.bytes as u64;
    while let Some(world) = open.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        let mut next = Vec::new();
        for &link in world.links.keys() {
            let mut other = world.clone();
            other.deliver(link);
            next.push(other);
            if is_cast(link) {
                let mut other = world.clone();
                other.drop_one(link);
                next.push(other);
            }
        }
        let mut other = world.clone();
        for node in other.nodes_with_sends() {
            let mut other = world.clone();
            other.pump(node);
            next.push(other);
        }
        for (member, &handle) in handles.iter().enumerate() {
            let mut other = world.clone();
            let leaf = leaf_of(&world, member);
            let number = world.members[member].memberships[0].next;
            for before in 0..number {
                let _ = other.members[member].member().take(handle, before);
            }
            let mut asking = other.clone();
            if asking.ask_again(member, (handle, KEY, leaf)) {
                next.push(asking);
            }
            let operand = &operands[member];
            if number < operations
                && other.start(member, (handle, KEY, leaf), &reduction, operand, number * bytes).is_ok()
            {
                next.push(other);
            }
        }
        if next.is_empty() {
            for member in &world.members {
                assert_eq!(member.memberships[0].completed, operations, "it hangs: {world:?}");
            }
            ends.insert(outcomes(&world));
        }
        open.extend(next);
    }
    assert_eq!(ends.len(), 1, "the result depends on the order of arrival");
    seen.len()
}

/// 1e20, -1e20 and 1 give 1 or 0, as they are summed.
fn awkward() -> Vec<Vec<u8>> {
    [1e20f64, 1.0, -1e20, 3.0].iter().map(|value| value.to_le_bytes().to_vec()).collect()
}

#[test]
fn every_order_of_arrival_of_one_node_gives_the_same_bits() {
    let mut world = world(1, 3);
    let handles: Vec<u64> =
        (0..3).map(|member| world.join(member, 0, KEY, &join_of(1, 1, member as u32, 3, &[3]))).collect();
    let states = every_order(world, &handles, sum(Datatype::Double, 8), &awkward(), 2);
    assert!(states > 1000, "{states}");
}

#[test]
fn every_order_of_arrival_of_two_levels_gives_the_same_bits() {
    let (world, handles) = two_leaves(2, 1);
    let states = every_order(world, &handles, sum(Datatype::Double, 8), &awkward(), 1);
    assert!(states > 200, "{states}");
}

#[test]
fn more_operations_than_credits_in_every_order() {
    let (world, handles) = two_leaves(1, 1);
    let states = every_order(world, &handles, sum(Datatype::Double, 8), &awkward(), 3);
    assert!(states > 1000, "{states}");
}

/// Cast results, each copy of which may be lost, and results sent both ways.
#[test]
fn every_order_and_loss_of_casts_gives_the_same_bits() {
    for way in [Distribution::Multicast, Distribution::Both] {
        let reduction = Reduction { target: Some(Target::multicast(group_at(0), way)), ..sum(Datatype::Double, 8) };
        let (mut world, handles) = two_leaves(1, 1);
        world.casts = vec![vec![0, 1]];
        let states = every_order(world, &handles, reduction, &awkward(), 1);
        assert!(states > 300, "{states}");
    }
}

/// A member that takes a cast result gets its credit back only when the end of the operation comes down the tree, so
/// nodes never get more requests than they have records.
#[test]
fn a_cast_completes_and_the_tree_returns_the_credit() {
    let (mut world, handles) = two_leaves(1, 1);
    world.casts = vec![vec![0, 1]];
    world.settle();
    let target = Some(Target::multicast(group_at(0), Distribution::Multicast));
    let reduction = Reduction { target, ..sum(Datatype::Uint64, 8) };
    let way = |member: usize| (handles[member], KEY, 1 + member);
    for number in 0..2 {
        for member in 0..2 {
            world.start(member, way(member), &reduction, &7u64.to_le_bytes(), 8 * number).expect("a credit");
        }
    }
    // All messages except those from the root to the nodes below.
    loop {
        let down = |link: &(u64, u64)| link.0 == node_at(0) && link.1 >> 32 == 1;
        let link = world.links.keys().copied().find(|link| !down(link));
        match (link, world.nodes_with_sends().first().copied()) {
            (Some(link), _) => world.deliver(link),
            (None, Some(node)) => drop(world.pump(node)),
            (None, None) => break,
        }
    }
    for number in 0..2 {
        assert_eq!(world.members[0].member().take(handles[0], number), Some(Ok(())));
        assert_eq!(world.members[0].memory[8 * number as usize..][..8], 14u64.to_le_bytes());
    }
    assert!(!world.members[0].member().is_idle(handles[0]));
    let early = world.start(0, way(0), &reduction, &[0; 8], 0);
    assert_eq!(early, Err(StartError::Credit), "the leaf's records are still in use");
    world.settle();
    assert!(world.members[0].member().is_idle(handles[0]));
    world.start(0, way(0), &reduction, &[0; 8], 0).expect("the credit is back");
}

/// A member misses a cast and re-requests the result; the cast arrives late, and the node asks its parent all the same.
/// The request arrives when the record at the parent has ended, or holds the next operation. Neither that operation's
/// end nor the next request suffers.
#[test]
fn a_late_question_is_not_taken_for_one_about_the_next_operation() {
    for is_next_whole in [false, true] {
        let mut world = world(2, 2);
        world.casts = vec![vec![0, 1]];
        // Member 0 is beneath the root, and first; member 1 at node 1.
        let handles = [(0, 0, &[2][..]), (1, 1, &[1, 2])].map(|(member, node, expected)| {
            let join = Join { credits: 1, ..join_of(1, 9, member as u32, 2, expected) };
            world.join(member, node, KEY, &join)
        });
        world.settle();
        let target = Some(Target::multicast(group_at(0), Distribution::Multicast));
        let reduction = Reduction { target, ..sum(Datatype::Uint64, 8) };
        let way = |member: usize| (handles[member], KEY, member);
        let start = |world: &mut World, member: usize, number: u64| {
            let started = world.start(member, way(member), &reduction, &(number + 1).to_le_bytes(), 0);
            assert_eq!(started, Ok(number));
        };
        let take = |world: &mut World, member: usize, number: u64| {
            assert_eq!(world.members[member].member().take(handles[member], number), Some(Ok(())));
            assert_eq!(world.members[member].memory[..8], (2 * number + 2).to_le_bytes());
        };
        let cast_to = |member| (group_at(0), member_at(member));
        let (up, down) = ((node_at(1), node_at(0)), (node_at(0), node_at(1)));

        (0..2).for_each(|member| start(&mut world, member, 0));
        world.settle_but(&[cast_to(1)]);
        assert!(world.ask_again(1, way(1)));
        world.deliver((member_at(1), node_at(1)));
        world.deliver(cast_to(1));
        (0..2).for_each(|member| take(&mut world, member, 0));
        (0..2).for_each(|member| start(&mut world, member, 1));
        world.deliver((member_at(0), node_at(0)));
        world.deliver((member_at(1), node_at(1)));
        // The request of operation 1, and the re-request for operation 0.
        assert!(world.pump(1) && world.pump(1) && !world.pump(1));
        world.deliver(up);
        // The cast of operation 1, and its end for member 0 and for node 1, whose send is not reported yet.
        assert!(world.pump(0) && world.pump(0));
        let (unreported, to) = world.pump_unfinished(0, 7).expect("the end for node 1");
        assert_eq!(to, node_at(1));
        let (question, _) = world.links.get_mut(&up).and_then(VecDeque::pop_front).expect("the question");
        if is_next_whole {
            world.post(up.0, up.1, question, Vec::new());
            world.deliver(up);
        }
        world.settle_but(&[up]);
        (0..2).for_each(|member| take(&mut world, member, 1));
        start(&mut world, 0, 2);
        world.deliver((member_at(0), node_at(0)));
        if !is_next_whole {
            world.post(up.0, up.1, question, Vec::new());
            world.deliver(up);
        }
        start(&mut world, 1, 2);
        world.settle_but(&[cast_to(1)]);
        world.nodes[0].node().finish_send(unreported);
        world.settle_but(&[cast_to(1)]);
        assert!(world.links.remove(&cast_to(1)).is_some(), "it is lost");
        assert!(world.links.keys().all(|&link| link != down));
        assert!(world.ask_again(1, way(1)));
        world.settle();
        (0..2).for_each(|member| take(&mut world, member, 2));
    }
}

#[test]
fn every_order_of_joins_forms_the_group() {
    let (start, handles) = two_leaves(2, 1);
    let (mut seen, mut open, mut ends) = (HashSet::new(), vec![start], 0);
    while let Some(mut world) = open.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        let links: Vec<_> = world.links.keys().copied().collect();
        let nodes = world.nodes_with_sends();
        if links.is_empty() && nodes.is_empty() {
            ends += 1;
            for (member, &handle) in handles.iter().enumerate() {
                assert!(matches!(world.state(member, handle), GroupState::Ready { .. }));
            }
            let orders: Vec<u32> = world.nodes[1].children[..2].iter().map(|child| child.order).collect();
            assert_eq!(orders, [0, 1], "children are in order");
        }
        for link in links {
            let mut other = world.clone();
            other.deliver(link);
            open.push(other);
        }
        for node in nodes {
            let mut other = world.clone();
            other.pump(node);
            open.push(other);
        }
    }
    assert!(ends >= 1 && seen.len() > 30, "{ends} ends, {} states", seen.len());
}

struct Choices(u64);

impl Choices {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as usize % limit.max(1)
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// A random group: its members, and their progress.
struct RandomGroup {
    job: u32,
    key: u64,
    members: Vec<usize>,
    handles: Vec<u64>,
    options: u8,
    operations: Vec<(Reduction, Vec<Vec<u8>>)>,
    /// For each member: the number of the next operation to start and to take.
    progress: Vec<(usize, usize)>,
    has_left: Vec<bool>,
    has_failed: bool,
}

/// A random tree: each node's parent comes before it.
struct Shape {
    parents: Vec<Option<usize>>,
    leaf_of: Vec<usize>,
}

impl Shape {
    fn random(choices: &mut Choices, members: usize) -> Shape {
        let nodes = 1 + choices.below(6);
        let mut parents: Vec<Option<usize>> = vec![None];
        let depth = |parents: &[Option<usize>], mut node: usize| {
            let mut depth = 1;
            while let Some(parent) = parents[node] {
                (node, depth) = (parent, depth + 1);
            }
            depth
        };
        for node in 1..nodes {
            let candidates: Vec<usize> = (0..node).filter(|&at| depth(&parents, at) < 3).collect();
            parents.push(Some(candidates[choices.below(candidates.len())]));
        }
        // Members are attached to any nodes, so paths to the root differ in length.
        let leaf_of = (0..members).map(|_| choices.below(nodes)).collect();
        Shape { parents, leaf_of }
    }

    /// The nodes from a member's leaf to the root.
    fn way(&self, member: usize) -> Vec<usize> {
        let mut way = vec![self.leaf_of[member]];
        while let Some(parent) = self.parents[way[way.len() - 1]] {
            way.push(parent);
        }
        way
    }

    /// Number of the group's children at each node on a member's path.
    fn expected(&self, members: &[usize], member: usize) -> Vec<u16> {
        let way = self.way(member);
        let count = |&node: &usize| {
            let ways = members.iter().map(|&other| (other, self.way(other)));
            let beneath =
                ways.filter_map(|(other, way)| way.iter().position(|&at| at == node).map(|at| (other, way, at)));
            // A child is a member that is attached here, or a node.
            let children: HashSet<(bool, usize)> =
                beneath.map(|(other, way, at)| if at == 0 { (true, other) } else { (false, way[at - 1]) }).collect();
            children.len() as u16
        };
        way.iter().map(count).collect()
    }

    fn reduce(
        &self,
        node: usize,
        members: &[usize],
        operands: &[Vec<u8>],
        op: Operation,
        datatype: Datatype,
    ) -> Vec<u8> {
        // Children by the lowest position of a member beneath.
        let mut children: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut seen = HashSet::new();
        for (position, &member) in members.iter().enumerate() {
            let way = self.way(member);
            let Some(level) = way.iter().position(|&on_way| on_way == node) else { continue };
            if level == 0 {
                children.push((position, operands[position].clone()));
            } else if seen.insert(way[level - 1]) {
                children.push((position, self.reduce(way[level - 1], members, operands, op, datatype)));
            }
        }
        children.sort_by_key(|child| child.0);
        let mut result = children[0].1.clone();
        children[1..].iter().for_each(|(_, operand)| apply(op, datatype, &mut result, operand));
        result
    }
}

const DATATYPES: [Datatype; 4] = [Datatype::Double, Datatype::Float, Datatype::Int32, Datatype::Uint8];

fn random_groups(choices: &mut Choices, members: usize) -> Vec<RandomGroup> {
    (0..1 + choices.below(4))
        .map(|number| {
            let job = 1 + choices.below(2) as u32;
            let mut some: Vec<usize> = (0..members).filter(|_| !choices.one_in(3)).collect();
            if some.is_empty() {
                some.push(choices.below(members));
            }
            for at in (1..some.len()).rev() {
                some.swap(at, choices.below(at + 1));
            }
            let operations = (0..choices.below(5))
                .map(|_| {
                    let datatype = DATATYPES[choices.below(DATATYPES.len())];
                    let bytes = datatype.size_bytes() * choices.below(5);
                    let cast = |way| Some(Target::multicast(group_at(number), way));
                    let target = [None, cast(Distribution::Multicast), cast(Distribution::Both)][choices.below(3)];
                    let reduction = Reduction { target, ..sum(datatype, bytes as u32) };
                    let operand = |_| {
                        let values = (0..bytes / datatype.size_bytes()).flat_map(|_| match datatype {
                            Datatype::Double => [1e20f64, -1e20, 1.0, 0.1][choices.below(4)].to_le_bytes().to_vec(),
                            Datatype::Float => [1e10f32, -1e10, 1.0, 0.1][choices.below(4)].to_le_bytes().to_vec(),
                            _ => (0..datatype.size_bytes()).map(|_| choices.below(256) as u8).collect(),
                        });
                        values.collect()
                    };
                    (reduction, (0..some.len()).map(operand).collect())
                })
                .collect();
            let count = some.len();
            RandomGroup {
                job,
                key: KEY + u64::from(job),
                members: some,
                handles: Vec::new(),
                options: 2 | choices.below(2) as u8,
                operations,
                progress: vec![(0, 0); count],
                has_left: vec![false; count],
                has_failed: false,
            }
        })
        .collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    Nothing,
    /// Senders die before they report.
    Senders,
    /// A member, a node or a job is lost.
    Losses,
    All,
}

/// Runs random groups over a random tree in a random order, and checks every result to the bit.
fn random_run(seed: u64, trouble: Trouble) {
    let mut choices = Choices(seed);
    let members = 1 + choices.below(8);
    let shape = Shape::random(&mut choices, members);
    let limits = Limits { jobs: 3, trees: 1, groups: 4, children: 16, credits: 3, operand_blocks: 4096 };
    let mut world = World::new(shape.parents.len(), limits, members, MemberHome::new(4, 3, 0));
    for (index, home) in world.nodes.iter_mut().enumerate() {
        for job in 1..3 {
            home.node().admit(job, KEY + u64::from(job), AMPLE).expect("there is room");
        }
        home.node().set_tree(0, shape.parents[index].map(node_at));
    }
    let mut groups = random_groups(&mut choices, members);
    for (number, group) in groups.iter_mut().enumerate() {
        for (position, &member) in group.members.iter().enumerate() {
            let expected = shape.expected(&group.members, member);
            let mut join = join_of(group.job, number as u32, position as u32, group.members.len() as u32, &expected);
            (join.options, join.bytes, join.credits) = (group.options, 40, 1 + choices.below(3) as u16);
            group.handles.push(world.join(member, shape.leaf_of[member], group.key, &join));
        }
    }
    world.members.iter_mut().for_each(|member| member.memory = vec![0; 4 * 5 * 64]);
    world.casts = groups.iter().map(|group| group.members.clone()).collect();
    let place = |number: usize, operation: usize| (number * 5 + operation) as u64 * 64;
    let has_losses = matches!(trouble, Trouble::Losses | Trouble::All);
    let mut losses = if has_losses { 1 + choices.below(2) } else { 0 };
    let mut executor = 1;
    // Messages that have left, with sends still to report.
    let mut unreported: Vec<(usize, SendId)> = Vec::new();
    let mut idle = 0;
    while idle < 4000 {
        idle += 1;
        let links: Vec<_> = world.links.keys().copied().collect();
        let nodes = world.nodes_with_sends();
        match choices.below(5) {
            4 if !unreported.is_empty() => {
                let at = choices.below(unreported.len());
                let (node, id) = unreported.swap_remove(at);
                world.nodes[node].node().finish_send(id);
                idle = 0;
            }
            0 if !links.is_empty() => {
                let link = links[choices.below(links.len())];
                if is_cast(link) {
                    let queue = world.links.get_mut(&link).expect("it is a link");
                    let by = choices.below(queue.len());
                    queue.rotate_left(by);
                }
                match is_cast(link) && choices.one_in(3) {
                    true => world.drop_one(link),
                    false => world.deliver(link),
                }
                idle = 0;
            }
            1 if !nodes.is_empty() => {
                let node = nodes[choices.below(nodes.len())];
                executor += 1;
                idle = 0;
                if matches!(trouble, Trouble::Senders | Trouble::All) && choices.one_in(3) {
                    // The message may have left, or not.
                    if choices.one_in(2) {
                        world.nodes[node].node().next_send(executor);
                    } else {
                        world.pump_unfinished(node, executor);
                    }
                    world.nodes[node].node().reclaim_sends(|process| process != executor);
                } else if let Some((id, _)) = world.pump_unfinished(node, executor) {
                    unreported.push((node, id));
                }
            }
            2 if losses != 0 && choices.one_in(60) => {
                losses -= 1;
                match choices.below(3) {
                    // A node need not know which member is missing, so the manager revokes the jobs.
                    0 => {
                        let member = choices.below(members);
                        world.lose(member_at(member));
                        for group in groups.iter().filter(|group| group.members.contains(&member)) {
                            world.revoke(group.job, group.key);
                        }
                    }
                    1 if world.nodes.len() > 1 => {
                        let node = node_at(1 + choices.below(world.nodes.len() - 1));
                        world.lose(node);
                        world.nodes.iter_mut().for_each(|home| home.node().clear_tree(0, Failure::Lost));
                        let below: Vec<usize> =
                            (0..members).filter(|&member| node_at(shape.leaf_of[member]) == node).collect();
                        for group in &groups {
                            for (position, member) in group.members.iter().enumerate() {
                                if below.contains(member) {
                                    // The member's home is informed, too.
                                    world.members[*member].member().refused(group.handles[position], Failure::Lost);
                                }
                            }
                        }
                    }
                    _ => {
                        let job = 1 + choices.below(2) as u32;
                        world.revoke(job, KEY + u64::from(job));
                    }
                }
            }
            _ => {
                let at = choices.below(groups.len());
                let group = &mut groups[at];
                let position = choices.below(group.members.len());
                if program_step(&mut world, &shape, group, position, |operation| place(at, operation)) {
                    idle = 0;
                }
            }
        }
    }
    if !has_losses {
        assert!(groups.iter().all(|group| !group.has_failed), "seed {seed}: a group failed");
    }
    for (at, group) in groups.iter().enumerate() {
        for (position, &member) in group.members.iter().enumerate() {
            let is_lost = world.lost.contains(&member_at(member));
            assert!(
                group.has_left[position] || is_lost,
                "seed {seed}: group {at}, member {member} hangs: {:?}",
                group.progress[position]
            );
        }
    }
    for (index, home) in world.nodes.iter_mut().enumerate() {
        if !world.lost.contains(&node_at(index)) {
            home.assert_empty();
        }
    }
}

/// A member starts, takes, or leaves. False: it can do nothing now.
fn program_step(
    world: &mut World,
    shape: &Shape,
    group: &mut RandomGroup,
    position: usize,
    place: impl Fn(usize) -> u64,
) -> bool {
    let (member, handle) = (group.members[position], group.handles[position]);
    if group.has_left[position] || world.lost.contains(&member_at(member)) {
        return false;
    }
    let has_failed = matches!(world.state(member, handle), GroupState::Failed(_));
    group.has_failed |= has_failed;
    let (started, taken) = group.progress[position];
    if taken < started {
        if let Some(outcome) = world.members[member].member().take(handle, taken as u64) {
            group.progress[position].1 += 1;
            if outcome.is_ok() {
                let (reduction, operands) = &group.operations[taken];
                let datatype = Datatype::from_u32(reduction.datatype.into()).expect("known");
                let expected = shape.reduce(0, &group.members, operands, Operation::Sum, datatype);
                let at = place(taken) as usize;
                let found = &world.members[member].memory[at..at + expected.len()];
                assert_eq!(found, expected, "to the bit");
            } else {
                assert!(has_failed, "an operation failed without its group");
            }
            return true;
        }
        if world.ask_again(member, (handle, group.key, shape.leaf_of[member])) {
            return true;
        }
    }
    if started < group.operations.len() && !has_failed {
        let (reduction, operands) = &group.operations[started];
        let leaf = shape.leaf_of[member];
        let way = (handle, group.key, leaf);
        if world.start(member, way, reduction, &operands[position], place(started)).is_ok() {
            group.progress[position].0 += 1;
            return true;
        }
        return false;
    }
    let is_joining = world.state(member, handle) == GroupState::Joining;
    if taken == started && !is_joining && world.members[member].member().is_idle(handle) {
        world.leave(member, handle, group.key);
        group.has_left[position] = true;
        return true;
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn random_groups_reduce_as_one_process_does(seed: u64) {
        random_run(seed, Trouble::Nothing);
    }

    #[test]
    fn senders_that_die_lose_and_double_nothing(seed: u64) {
        random_run(seed, Trouble::Senders);
    }

    #[test]
    fn losses_reach_every_survivor_and_leave_nothing(seed: u64) {
        random_run(seed, Trouble::Losses);
    }

    #[test]
    fn losses_among_senders_that_die_leave_nothing(seed: u64) {
        random_run(seed, Trouble::All);
    }

    /// Any message, of a stranger or of a member, gives an error or is taken; afterwards a job can still be forgotten.
    #[test]
    fn hostile_messages_are_refused(
        messages in proptest::collection::vec((0..4u8, any::<[u64; 4]>(), any::<[u8; 4]>(), 0..3u64, any::<bool>()), 1..40),
    ) {
        let (mut world, handles) = two_leaves(2, 1);
        world.settle();
        for (kind, words, bytes, small, right) in messages {
            let sender = Sender {
                address: if right { member_at(small as usize) } else { words[0] },
                key: if right { KEY } else { words[1] },
            };
            let group = if right { handles[0] } else { words[2] };
            let message = match kind {
                0 => {
                    let (operation, datatype, index) = (bytes[0] % 20, bytes[1] % 16, bytes[2] % 2);
                    let reduction = Reduction { operation, datatype, index, bytes: (words[3] % 40) as u32, target: None };
                    Message::Request(Operand { group, child: small as u32, number: words[3] % 4, reduction, failure: None })
                }
                1 => Message::Result(Outcome { group, number: small, failure: None, bytes: (words[3] % 20) as u32 }),
                2 => {
                    let mut join = join_of(1, small as u32, bytes[0].into(), bytes[1].into(), &[bytes[2].into(), bytes[3].into()]);
                    join.options = bytes[0] % 5;
                    Message::Join(join)
                }
                _ => Message::Leave(selvedge_nic::aggregation::message::Child { job: 1, number: 9, handle: group }),
            };
            let request = message.encode(sender);
            let mut wire = Wire { payload: &[1; 64], memory: &mut [], is_broken: bytes[3] % 5 == 0 };
            let _: Result<(), Refusal> = world.nodes[1].node().receive(&mut wire, &request);
            while world.pump(1) {}
        }
        world.links.clear();
        world.nodes[1].node().forget(1, KEY);
        world.nodes[1].assert_empty();
    }
}
