// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The aggregation unit with arbitrary tables, interrupted senders, and members and a manager that break the rules.

use proptest::prelude::*;
use selvedge_nic::aggregation::member::GroupState;
use selvedge_nic::aggregation::message::{
    Cast, Child as ChildOf, Distribution, Failed, Join, Joined, Message, Operand, Outcome, Reduction, Repeat, Sender,
    Target,
};
use selvedge_nic::aggregation::{Failure, Limits, Quota};
use selvedge_nic::arithmetic::{Datatype, Operation};

use crate::common::aggregation::*;

const KEY: u64 = 0x5e1d;
const LIMITS: Limits = Limits { jobs: 2, trees: 2, groups: 3, children: 3, credits: 2, operand_blocks: 16 };

/// Words that a hostile process would choose.
struct Words(u64);

impl Words {
    fn random(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.random() % count == 0
    }

    fn word(&mut self) -> u64 {
        match self.random() % 8 {
            0..4 => self.random() % 5,
            4 => u64::MAX - self.random() % 3,
            5 => u64::from(u32::MAX) - self.random() % 3,
            6 => 1 << (self.random() % 64),
            _ => self.random(),
        }
    }

    fn half(&mut self) -> u32 {
        self.word() as u32
    }

    fn byte(&mut self) -> u8 {
        self.word() as u8
    }

    /// One in three: another value.
    fn spoil<T>(&mut self, field: &mut T, value: impl FnOnce(&mut Words) -> T) {
        if self.one_in(3) {
            *field = value(self);
        }
    }

    fn slot(&mut self) -> u32 {
        (self.random() % 3) as u32 * 256 + (self.random() % 6) as u32
    }

    fn address(&mut self) -> u64 {
        [node_at(0), node_at(1), member_at(0), member_at(1), self.word()][(self.random() % 5) as usize]
    }

    fn key(&mut self) -> u64 {
        if self.one_in(8) { self.word() } else { KEY }
    }

    fn handle(&mut self) -> u64 {
        if self.one_in(4) { self.word() } else { ((self.random() % 3) << 32) | (self.random() % 3) }
    }

    fn reduction(&mut self) -> Reduction {
        let ways = [Distribution::Alone, Distribution::Multicast, Distribution::Both];
        let target = self.one_in(4).then(|| Target {
            distribution: ways[(self.random() % 3) as usize],
            address: self.address(),
            handle: self.handle(),
        });
        Reduction { target, ..Reduction::of_values(Operation::Sum, Datatype::Uint8, self.half() % 70) }
    }

    fn failure(&mut self) -> Failure {
        Failure::from_u8(1 + (self.random() % 13) as u8).expect("a failure")
    }

    /// A message that passes the first checks.
    fn message(&mut self) -> Message {
        let (group, child, number) = (self.handle(), self.half(), self.word());
        let of = ChildOf { job: self.half() % 3, number: self.half() % 3, handle: self.handle() };
        let failure = self.one_in(4).then(|| self.failure());
        match self.random() % 10 {
            8 => Message::Cast(Cast { job: of.job, group: of.number, number, bytes: self.half() % 70 }),
            9 => Message::Repeat(Repeat { group, child, number }),
            0..2 => Message::Request(Operand { group, child, number, reduction: self.reduction(), failure }),
            2 => Message::Result(Outcome { group, number, failure, bytes: self.half() % 70 }),
            3 => Message::Join(Join {
                tree: self.word() as u16 % 3,
                options: self.byte() % 5,
                handle: self.handle(),
                members: self.half(),
                credits: self.word() as u16,
                bytes: self.half(),
                expected: [self.word() as u16 % 5, self.word() as u16, 0, 0, 0, 0],
                ..join_of(of.job, of.number, self.half(), self.half(), &[])
            }),
            4 => Message::Leave(of),
            5 => Message::Fail(of, self.failure()),
            6 => Message::Joined(Joined {
                group,
                child,
                handle: self.handle(),
                credits: self.half(),
                bytes: self.half(),
            }),
            _ => Message::Failed(Failed { group, failure: self.failure() }),
        }
    }

    fn spoil_node(&mut self, home: &mut OwnNode) {
        self.spoil(&mut home.control.due_head, Words::half);
        self.spoil(&mut home.control.due_tail, Words::half);
        for record in &mut home.jobs {
            self.spoil(&mut record.slot, Words::slot);
            self.spoil(&mut record.number, Words::half);
            self.spoil(&mut record.key, Words::key);
            for field in [
                &mut record.groups_max,
                &mut record.credits_max,
                &mut record.bytes_max,
                &mut record.groups,
                &mut record.credits,
                &mut record.failure,
            ] {
                self.spoil(field, Words::half);
            }
        }
        for record in &mut home.trees {
            self.spoil(&mut record.status, |it| it.half() % 3);
            self.spoil(&mut record.is_root, Words::half);
            self.spoil(&mut record.parent, Words::address);
        }
        for record in &mut home.groups {
            self.spoil(&mut record.slot, Words::slot);
            self.spoil(&mut record.job, |it| it.half() % 3);
            self.spoil(&mut record.tree, |it| it.half() as u16);
            self.spoil(&mut record.options, Words::byte);
            self.spoil(&mut record.is_wanted, Words::byte);
            self.spoil(&mut record.expected, |it| [it.half() as u16; 6]);
            self.spoil(&mut record.parent, Words::address);
            self.spoil(&mut record.parent_handle, Words::handle);
            self.spoil(&mut record.sender, Words::word);
            for field in [
                &mut record.number,
                &mut record.total,
                &mut record.members,
                &mut record.order,
                &mut record.joined,
                &mut record.left,
                &mut record.credits,
                &mut record.bytes,
                &mut record.credits_counted,
                &mut record.operands,
                &mut record.is_root,
                &mut record.has_joined,
                &mut record.has_failed,
                &mut record.failure,
                &mut record.child,
                &mut record.informed,
                &mut record.told,
                &mut record.is_due,
                &mut record.next_due,
                &mut record.asked,
            ] {
                self.spoil(field, Words::half);
            }
            for field in [&mut record.collected, &mut record.sent, &mut record.resulted, &mut record.distributed] {
                self.spoil(field, Words::word);
            }
        }
        for record in &mut home.children {
            self.spoil(&mut record.address, Words::address);
            self.spoil(&mut record.handle, Words::handle);
            self.spoil(&mut record.next, Words::word);
            for field in [&mut record.order, &mut record.members, &mut record.has_left, &mut record.wants] {
                self.spoil(field, Words::half);
            }
        }
        for record in &mut home.operations {
            self.spoil(&mut record.number, Words::word);
            self.spoil(&mut record.target, Words::address);
            self.spoil(&mut record.target_handle, Words::handle);
            for field in [&mut record.is_cast, &mut record.is_repeated] {
                self.spoil(field, |it| it.half() as u16 % 3);
            }
            for field in [&mut record.bytes, &mut record.arrived, &mut record.reduced, &mut record.failure] {
                self.spoil(field, Words::half);
            }
            for field in [&mut record.operation, &mut record.datatype, &mut record.index, &mut record.distribution] {
                self.spoil(field, Words::byte);
            }
        }
        for word in &mut home.operand_map {
            if self.one_in(16) {
                *word = self.word();
            }
        }
    }

    fn spoil_member(&mut self, home: &mut MemberHome) {
        for record in &mut home.memberships {
            self.spoil(&mut record.slot, Words::slot);
            self.spoil(&mut record.key, Words::key);
            self.spoil(&mut record.node, Words::address);
            for field in [&mut record.handle, &mut record.next, &mut record.completed] {
                self.spoil(field, Words::word);
            }
            for field in [
                &mut record.job,
                &mut record.number,
                &mut record.child,
                &mut record.credits,
                &mut record.bytes,
                &mut record.failure,
            ] {
                self.spoil(field, Words::half);
            }
        }
        for record in &mut home.started {
            self.spoil(&mut record.number, Words::word);
            self.spoil(&mut record.result, Words::word);
            for field in [&mut record.bytes, &mut record.state, &mut record.failure, &mut record.distribution] {
                self.spoil(field, |it| it.half() % 70);
            }
        }
    }
}

/// A wire whose member memory is empty.
fn wire<'a>(payload: &'a [u8]) -> Wire<'a> {
    Wire { payload, memory: &mut [], is_broken: false }
}

/// A message that fits this record: its own handle, child, key and number.
fn aimed(words: &mut Words, home: &OwnNode) -> (Sender, Message) {
    let at = (words.random() % 3) as usize;
    let record = &home.groups[at];
    let handle = u64::from(record.slot >> 8) << 32 | at as u64;
    let key = home.jobs.get(record.job as usize).map_or(KEY, |job| job.key);
    let place = (words.random() % 3) as usize;
    let child = home.children[at * 3 + place];
    let job = home.jobs.get(record.job as usize).map_or(0, |job| job.number);
    let of = ChildOf { job, number: record.number, handle: child.handle };
    let operation = home.operations[at * 4 + (words.random() % 4) as usize];
    match words.random() % 7 {
        6 => {
            let repeat = Repeat { group: handle, child: place as u32, number: operation.number.wrapping_sub(1) };
            (Sender { address: child.address, key }, Message::Repeat(repeat))
        }
        0..2 => {
            let reduction = Reduction { bytes: operation.bytes % 70, ..operation.reduction() };
            let operand = Operand { group: handle, child: place as u32, number: child.next, reduction, failure: None };
            (Sender { address: child.address, key }, Message::Request(operand))
        }
        2 => {
            let outcome = Outcome { group: handle, number: record.resulted, failure: None, bytes: operation.bytes };
            (Sender { address: record.parent, key }, Message::Result(outcome))
        }
        3 => (Sender { address: child.address, key }, Message::Leave(of)),
        4 => {
            let joined =
                Joined { group: handle, child: words.half(), handle: 1, credits: words.half(), bytes: words.half() };
            (Sender { address: record.parent, key }, Message::Joined(joined))
        }
        _ => {
            let (tree, options) = (record.tree, record.options);
            let mut join = Join { tree, options, ..join_of(job, record.number, words.half(), record.total, &[]) };
            join.expected = record.expected;
            (Sender { address: words.address(), key }, Message::Join(join))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Arbitrary tables cause neither a panic nor an endless loop.
    #[test]
    fn a_node_survives_any_tables(seed: u64) {
        let mut words = Words(seed);
        let mut home = OwnNode::new(LIMITS);
        home.node().admit(1, KEY, AMPLE).expect("there is room");
        home.node().set_tree(0, None);
        home.node().set_tree(1, Some(node_at(1)));
        let mut ids = Vec::new();
        for step in 0..60 {
            if step % 20 == 0 {
                words.spoil_node(&mut home);
            }
            match words.random() % 16 {
                0..4 => {
                    let sender = Sender { address: words.address(), key: words.key() };
                    let request = words.message().encode(sender);
                    let _ = home.node().receive(&mut wire(&[1; 70]), &request);
                }
                4..9 => {
                    let (sender, message) = aimed(&mut words, &home);
                    let _ = home.node().receive(&mut wire(&[1; 70]), &message.encode(sender));
                }
                9 => home.node().reclaim_sends(|_| words.one_in(2)),
                10 => {
                    let quota = Quota { groups: words.half(), credits: words.half(), bytes: words.half() };
                    let _ = home.node().admit(words.half() % 3, words.key(), quota);
                }
                11 => home.node().revoke(words.half() % 3, words.key(), Failure::Revoked),
                12 => match words.random() % 3 {
                    0 => home.node().forget(words.half() % 3, words.key()),
                    1 => home.node().clear_tree(words.half() as u16, Failure::NoTree),
                    _ => { home.node().set_tree(words.half() as u16, words.one_in(2).then_some(node_at(1))); }
                },
                13 => home.node().lose(words.address()),
                14 => home.node().refused(words.handle(), words.key(), words.failure()),
                _ => {}
            }
            // The home sends until there is nothing left, so this ends.
            let mut sends = 0;
            while home.node().has_sends() && sends < 3 {
                if let Some(send) = home.node().next_send(1 + words.random() % 2) {
                    sends += 1;
                    prop_assert!(home.operands.get(send.payload.clone()).is_some(), "a payload outside of the operands");
                    let request = send.request(node_at(0));
                    prop_assert_eq!(request.length, send.payload.len() as u64);
                    ids.push(send.id);
                }
            }
            while ids.len() > 1 {
                let id = ids.swap_remove((words.random() % ids.len() as u64) as usize);
                if words.one_in(4) { home.node().postpone_send(id) } else { home.node().finish_send(id) }
            }
        }
    }

    #[test]
    fn a_member_survives_any_tables(seed: u64) {
        let mut words = Words(seed);
        let mut home = MemberHome::new(2, 2, 64);
        for step in 0..60 {
            if step % 20 == 0 {
                words.spoil_member(&mut home);
            }
            let at = (words.random() % 2) as usize;
            let record = home.memberships[at];
            let own = if words.one_in(4) { words.handle() } else { u64::from(record.slot >> 8) << 32 | at as u64 };
            match words.random() % 10 {
                0 if words.one_in(3) => { let _ = home.member().repeat(own); let _ = home.member().is_idle(own); }
                0 => { let _ = home.member().join(words.address(), words.key(), &join_of(1, words.half(), 0, 1, &[1])); }
                1 => { let _ = home.member().expect(words.key(), words.word(), words.half()); }
                2 | 3 => { let _ = home.member().start(own, &words.reduction(), words.word()); }
                4 => { let _ = home.member().take(own, words.word()); }
                5 => { let _ = home.member().leave(own); }
                6 => { let _ = home.member().state(own); home.member().refused(own, words.failure()); }
                7 => {
                    let request = words.message().encode(Sender { address: words.address(), key: words.key() });
                    let _ = home.member().receive(&mut wire(&[1; 70]), &request);
                }
                _ => {
                    let started = home.started[at * 2 + (words.random() % 2) as usize];
                    let outcome = Outcome { group: own, number: record.completed, failure: None, bytes: started.bytes % 70 };
                    let request = Message::Result(outcome).encode(Sender { address: record.node, key: record.key });
                    let _ = home.member().receive(&mut wire(&[1; 70]), &request);
                }
            }
        }
    }
}

fn joining(members: usize) -> (World, Vec<u64>) {
    let limits = Limits { children: 4, ..LIMITS };
    let mut world = World::new(1, limits, members, MemberHome::new(2, 4, 256));
    world.nodes[0].node().admit(1, KEY, AMPLE).expect("there is room");
    world.nodes[0].node().set_tree(0, None);
    let total = members as u32;
    let join = |member: usize| join_of(1, 9, member as u32, total, &[members as u16]);
    let handles = (0..members).map(|member| world.join(member, 0, KEY, &join(member))).collect();
    (world, handles)
}

/// A group fails while the message that it is formed is on its way to a child: the child also gets the failure.
#[test]
fn a_failure_overtakes_no_child() {
    for told in 0..3 {
        let (mut world, handles) = joining(3);
        while !world.nodes[0].node().has_sends() {
            let link = *world.links.keys().next().expect("joins are on their way");
            world.deliver(link);
        }
        for _ in 0..told {
            world.pump(0);
        }
        let (id, _) = world.pump_unfinished(0, 7).expect("a child must be informed");
        world.nodes[0].node().revoke(1, KEY, Failure::Revoked);
        world.nodes[0].node().finish_send(id);
        world.settle();
        for (member, &handle) in handles.iter().enumerate() {
            assert_eq!(world.state(member, handle), GroupState::Failed(Failure::Revoked), "{told} told, {member}");
            world.leave(member, handle, KEY);
        }
        world.settle();
        world.nodes[0].assert_empty();
    }
}

/// A leaf joins the root, its sender dies before it reports, and the group fails at the root. The repeated join must
/// not make the leaf forget that the root knows of it: else the root waits for ever for it to leave.
#[test]
fn a_join_that_comes_twice_to_a_failed_group_leaves_nothing() {
    for is_revoked in [false, true] {
        let mut world = World::new(2, LIMITS, 2, MemberHome::new(2, 4, 256));
        for (index, home) in world.nodes.iter_mut().enumerate() {
            home.node().admit(1, KEY, AMPLE).expect("there is room");
            home.node().set_tree(0, (index != 0).then_some(node_at(0)));
        }
        let own = world.join(0, 1, KEY, &join_of(1, 9, 0, 2, &[1, 2]));
        let (leaf, root) = ((member_at(0), node_at(1)), (node_at(1), node_at(0)));
        world.deliver(leaf);
        world.pump_unfinished(1, 5).expect("it joins the root");
        world.deliver(root);
        world.nodes[1].node().reclaim_sends(|_| false);
        if is_revoked {
            world.nodes[0].node().revoke(1, KEY, Failure::Revoked);
        } else {
            // The other member states another size.
            world.join(1, 0, KEY, &join_of(1, 9, 1, 3, &[2]));
            world.deliver((member_at(1), node_at(0)));
        }
        assert!(world.pump(1), "the join is sent again");
        world.settle();
        assert!(matches!(world.state(0, own), GroupState::Failed(_)));
        world.leave(0, own, KEY);
        world.settle();
        world.nodes.iter_mut().for_each(OwnNode::assert_empty);
    }
}

/// The root may refuse the first copy of a repeated join and accept the second: the leaf still leaves the root.
#[test]
fn a_join_that_is_refused_and_then_taken_is_left() {
    let mut world = World::new(2, LIMITS, 1, MemberHome::new(2, 4, 256));
    for (index, home) in world.nodes.iter_mut().enumerate() {
        home.node().set_tree(0, (index != 0).then_some(node_at(0)));
    }
    world.nodes[1].node().admit(1, KEY, AMPLE).expect("there is room");
    // Not trimmed, so it is formed at the root.
    let own = world.join(0, 1, KEY, &Join { options: 2, ..join_of(1, 9, 0, 1, &[1, 1]) });
    world.deliver((member_at(0), node_at(1)));
    world.pump_unfinished(1, 5).expect("it joins the root");
    world.nodes[1].node().reclaim_sends(|_| false);
    let again = world.nodes[1].node().next_send(6).expect("the join is sent again");
    // The root does not know the job yet.
    world.deliver((node_at(1), node_at(0)));
    world.nodes[0].node().admit(1, KEY, AMPLE).expect("there is room");
    world.post(node_at(1), again.to, again.request(node_at(1)), Vec::new());
    world.nodes[1].node().finish_send(again.id);
    world.settle();
    assert_eq!(world.state(0, own), GroupState::Failed(Failure::NoJob));
    world.leave(0, own, KEY);
    world.settle();
    world.nodes.iter_mut().for_each(OwnNode::assert_empty);
}

#[test]
fn a_job_may_be_admitted_again() {
    for has_gap in [false, true] {
        let mut home = OwnNode::new(LIMITS);
        home.node().set_tree(0, None);
        if has_gap {
            home.node().admit(2, 77, AMPLE).expect("there is room");
        }
        home.node().admit(1, KEY, AMPLE).expect("there is room");
        let join = Message::Join(join_of(1, 9, 0, 1, &[1])).encode(Sender { address: member_at(0), key: KEY });
        home.node().receive(&mut wire(&[]), &join).expect("the job is known");
        home.node().revoke(1, KEY, Failure::Revoked);
        home.node().forget(2, 77);
        home.node().admit(1, KEY, AMPLE).expect("there is room");
        let again = Message::Join(join_of(1, 10, 0, 1, &[1])).encode(Sender { address: member_at(0), key: KEY });
        assert_eq!(home.node().receive(&mut wire(&[]), &again), Ok(()), "{has_gap}");
        assert_eq!(home.jobs.iter().filter(|job| job.number == 1).count(), 1, "{has_gap}: one record of a job");
        home.node().forget(1, KEY);
        home.assert_empty();
    }
}

/// Members that all ignore their credits do not make the node overwrite operations whose results are still to be sent.
#[test]
fn no_more_than_the_records_are_under_way() {
    let (mut world, _) = joining(2);
    world.settle();
    let group = world.members[0].memberships[0].handle;
    let reduction = Reduction::of_values(Operation::Sum, Datatype::Uint64, 8);
    for number in 0..10 {
        for child in 0..2 {
            let operand = Operand { group, child: child as u32, number, reduction, failure: None };
            let sender = Sender { address: member_at(child), key: KEY };
            let _ = world.nodes[0].node().receive(&mut wire(&[1; 8]), &Message::Request(operand).encode(sender));
        }
        let record = &world.nodes[0].groups[0];
        assert!(record.collected <= record.distributed + 2 * u64::from(record.credits), "{record:?}");
    }
    assert_eq!(world.nodes[0].groups[0].failure(), Some(Failure::Credit));
}

/// A report after the end of its group does not affect the next group with that record.
#[test]
fn a_late_report_is_of_no_other_group() {
    let (mut world, _) = joining(1);
    world.deliver((member_at(0), node_at(0)));
    let (old, _) = world.pump_unfinished(0, 5).expect("a member must be informed");
    world.nodes[0].node().forget(1, KEY);
    // The process is taken for dead, so the group ends without its report.
    world.nodes[0].node().reclaim_sends(|process| process != 5);
    assert!(world.nodes[0].node().next_send(6).is_none());
    world.nodes[0].node().admit(1, KEY, AMPLE).expect("there is room");
    world.links.clear();
    world.join(0, 0, KEY, &join_of(1, 10, 0, 1, &[1]));
    world.deliver((member_at(0), node_at(0)));
    world.pump_unfinished(0, 6).expect("a member must be informed");
    world.nodes[0].node().postpone_send(old);
    assert_eq!(world.nodes[0].groups[0].sender, 6);
    world.nodes[0].node().finish_send(old);
    assert_eq!(world.nodes[0].groups[0].sender, 6);
}
