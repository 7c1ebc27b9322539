// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Jobs on real nodes: they begin, form groups over their trees, reduce and end.

mod common;

use common::{Inspect, LIMITS, World, fat_tree, manager, node_address, process_address, request, steps};
use selvedge_fabric::{AnId, NodeId};
use selvedge_manager::{Config, JobError, JobRequest, Manager, Member, Step};
use selvedge_nic::aggregation::member::GroupState;
use selvedge_nic::aggregation::{Failure, Quota};

fn started(trees: u32) -> (Manager, World) {
    let manager = manager(trees);
    let mut world = World::new(&manager);
    world.carry_out(&manager.start());
    (manager, world)
}

#[test]
fn a_job_reduces_over_all_of_its_trees_and_leaves_nothing() {
    let (mut manager, mut world) = started(4);
    let request = JobRequest { trees: 3, ..request(1, &[0, 1, 5, 9, 15]) };
    let (granted, actions) = manager.begin_job(&request, 77).expect("room");
    world.carry_out(&actions);
    assert_eq!(manager.granted(granted.job), Ok(granted.clone()));
    assert_eq!(granted.trees.len(), 3);
    for (number, tree) in granted.trees.iter().enumerate() {
        for members in [&request.members[..], &request.members[..2], &request.members[3..]] {
            let group = world.join(&granted, tree, number as u32, members, (1, 8));
            world.assert_reduces(&group);
            world.assert_reduces(&group);
            world.leave(&group);
        }
    }
    world.carry_out(&manager.end_job(granted.job).expect("it is there"));
    world.nodes.values().for_each(|home| home.assert_empty());
    assert_eq!(manager.end_job(granted.job), Err(JobError::UnknownJob { job: granted.job }));
    assert!(manager.uses().is_empty());
}

#[test]
fn processes_of_one_end_node_join_one_by_one() {
    let (mut manager, mut world) = started(1);
    let member = |end: u32, number: u32| Member { process: process_address(end, number), node: NodeId(end) };
    let members = vec![member(0, 1), member(0, 2), member(1, 1), member(9, 1), member(9, 2), member(9, 3)];
    let (granted, actions) =
        manager.begin_job(&JobRequest { members: members.clone(), ..request(1, &[]) }, 5).expect("room");
    world.carry_out(&actions);
    let group = world.join(&granted, &granted.trees[0], 0, &members, (1, 8));
    world.assert_reduces(&group);
}

#[test]
fn children_are_those_of_the_fabric() {
    let mut manager = manager(2);
    let ends = [0, 1, 3, 4, 8, 9, 14];
    let granted = manager.begin_job(&JobRequest { trees: 2, ..request(1, &ends) }, 5).expect("room").0;
    for granted in &granted.trees {
        let tree = manager.trees().find(|tree| tree.0 == granted.number).expect("it has it").1;
        for subset in 1..1u32 << ends.len() {
            let members: Vec<NodeId> =
                (0..ends.len()).filter(|at| subset >> at & 1 != 0).map(|at| NodeId(ends[at])).collect();
            let theirs = tree.group(&members, false).expect("a group");
            let ours = granted.group(&members).expect("members");
            for &member in &members {
                let expected: Vec<u16> = theirs.expected_children(member).map(|(_, count)| count as u16).collect();
                assert_eq!(ours.expected(granted, member)[..expected.len()], expected);
                assert!(ours.expected(granted, member)[expected.len()..].iter().all(|&count| count == 0));
                assert_eq!(granted.leaf(member).map(|leaf| leaf.an), theirs.home(member));
            }
        }
        assert!(granted.group(&[NodeId(2)]).is_none());
    }
}

#[test]
fn jobs_are_spread_over_trees() {
    let mut manager = manager(4);
    let mut trees: Vec<u16> = Vec::new();
    for job in 0..4u32 {
        let granted = manager.begin_job(&request(job, &[0, 9]), job.into()).expect("room").0;
        trees.extend(granted.trees.iter().map(|tree| tree.number));
    }
    trees.sort_unstable();
    assert_eq!(trees, [0, 1, 2, 3]);
    manager.end_job(3).expect("it is there");
    let granted = manager.begin_job(&request(9, &[0, 9]), 9).expect("room").0;
    assert_eq!((granted.job, granted.trees[0].number), (5, 2), "the one that is free");
}

#[test]
fn errors_say_what_is_short() {
    let mut manager = manager(2);
    let before = manager.clone();
    let quota = |groups, credits, bytes| JobRequest { quota: Quota { groups, credits, bytes }, ..request(1, &[0, 9]) };
    let twice = Member { process: process_address(0, 1), node: NodeId(3) };
    let cases = [
        (request(1, &[]), JobError::NoMembers),
        (request(1, &[0, 16]), JobError::UnknownNode { node: NodeId(16), nodes: 16 }),
        (
            JobRequest { members: vec![request(1, &[0]).members[0], twice], ..request(1, &[]) },
            JobError::MemberTwice { process: twice.process },
        ),
        (JobRequest { trees: 3, ..request(1, &[0]) }, JobError::TooFewTrees { wanted: 3, fit: 2 }),
        (quota(9, 0, 0), JobError::NoGroups { wanted: 9, left: 8 }),
        // 1024 blocks; an operation of two children takes 4 * 2 * 1.
        (quota(1, 129, 64), JobError::NoOperands { wanted: 129, bytes: 64, left: 128 }),
        (quota(1, u32::MAX, u32::MAX), JobError::NoOperands { wanted: u32::MAX, bytes: u32::MAX, left: 0 }),
    ];
    for (request, error) in cases {
        assert_eq!(manager.begin_job(&request, 1), Err(error), "{request:?}");
        assert_eq!(manager, before);
    }
    manager.begin_job(&quota(1, 128, 64), 1).expect("exactly what there is");
    assert_eq!(manager.begin_job(&request(2, &[1]), 1), Err(JobError::KeyTaken));
    assert!(matches!(manager.begin_job(&request(2, &[0]), 2), Err(JobError::NoOperands { left: 0, .. })));
    let mut manager = before;
    let least = Quota { groups: 1, credits: 1, bytes: 64 };
    for job in 0..4u32 {
        manager.begin_job(&JobRequest { quota: least, ..request(job, &[0]) }, job.into()).expect("room");
    }
    assert_eq!(
        manager.begin_job(&JobRequest { quota: least, ..request(5, &[0]) }, 5),
        Err(JobError::TooManyJobs { jobs: LIMITS.jobs })
    );
    manager.begin_job(&JobRequest { quota: least, ..request(5, &[8]) }, 5).expect("at other nodes");
}

#[test]
fn a_quota_is_what_nodes_have_room_for() {
    for (groups, credits, wish) in [(8, 8, 1), (1, 4, 4), (2, 6, 3), (4, 12, 3)] {
        let (mut manager, mut world) = started(2);
        let request = JobRequest { quota: Quota { groups, credits, bytes: 128 }, ..request(1, &[0, 1, 2, 9]) };
        let (granted, actions) = manager.begin_job(&request, 1).expect("room");
        world.carry_out(&actions);
        let groups: Vec<_> = (0..groups)
            .map(|number| world.join(&granted, &granted.trees[0], number, &request.members, (wish, 128)))
            .collect();
        for group in &groups {
            let states = world.states(group);
            let ready = Some(GroupState::Ready { credits: wish.into(), bytes: 128 });
            assert!(states.iter().all(|state| *state == ready), "{states:?}");
        }
        let more = world.join(&granted, &granted.trees[0], 99, &request.members, (1, 8));
        let states = world.states(&more);
        assert!(states.iter().all(|state| *state == Some(GroupState::Failed(Failure::Quota))), "{states:?}");
        groups.iter().chain([&more]).for_each(|group| world.leave(group));
        world.carry_out(&manager.end_job(granted.job).expect("it is there"));
        world.nodes.values().for_each(|home| home.assert_empty());
    }
}

#[test]
fn nodes_above_are_set_first_and_cleared_last() {
    let mut manager = manager(2);
    let start = manager.start();
    let level = |manager: &Manager, number: u16, an: AnId| {
        manager.trees().find(|tree| tree.0 == number).and_then(|tree| tree.1.level(an)).expect("in the tree")
    };
    for number in 0..2 {
        let set = |(an, step)| matches!(step, Step::SetTree { number: it, .. } if it == number).then_some(an);
        let levels: Vec<u32> = steps(&start).filter_map(set).map(|an| level(&manager, number, an)).collect();
        assert!(levels.is_sorted() && levels.len() > 1, "{levels:?}");
    }
    let (granted, actions) = manager.begin_job(&request(1, &[0, 4, 15]), 1).expect("room");
    let number = granted.trees[0].number;
    let levels: Vec<u32> = steps(&actions).map(|(an, _)| level(&manager, number, an)).collect();
    assert!(levels.is_sorted() && levels.len() == 4, "{levels:?}");
    let actions = manager.end_job(granted.job).expect("it is there");
    assert!(steps(&actions).map(|(an, _)| level(&manager, number, an)).rev_sorted());
}

trait RevSorted {
    fn rev_sorted(self) -> bool;
}

impl<I: Iterator<Item = u32>> RevSorted for I {
    fn rev_sorted(self) -> bool {
        self.collect::<Vec<u32>>().windows(2).all(|pair| pair[0] >= pair[1])
    }
}

#[test]
fn trees_fit_the_nodes() {
    let mut limits = LIMITS;
    (limits.children, limits.trees) = (3, 1);
    let config = Config { limits, ..common::config(4) };
    let topology = selvedge_fabric::Topology::mesh(&[12], 1).expect("a mesh");
    let manager = Manager::new(topology, &config, node_address).expect("trees");
    assert_eq!(manager.trees().count(), 1);
    let tree = manager.trees().next().expect("one").1;
    assert!(tree.depth() < 6);
    assert!(tree.nodes().all(|an| tree.children(an).len() + tree.leaves(an).len() <= 3));
    assert!(
        Manager::new(
            fat_tree(),
            &Config { limits: selvedge_nic::aggregation::Limits { children: 1, ..LIMITS }, ..common::config(1) },
            node_address
        )
        .is_err()
    );
}

/// A job is charged at each node for its children there, in the tree with most.
#[test]
fn charges_are_those_of_the_fabrics_groups() {
    let topology = selvedge_fabric::Topology::mesh(&[4, 3], 1).expect("a mesh");
    let mut manager = Manager::new(topology, &common::config(3), node_address).expect("trees");
    let ends = [0, 2, 3, 5, 8, 10, 11];
    let quota = Quota { groups: 1, credits: 2, bytes: 128 };
    let request = JobRequest { trees: 3, quota, ..request(1, &ends) };
    let granted = manager.begin_job(&request, 5).expect("room").0;
    let members: Vec<NodeId> = ends.iter().map(|&end| NodeId(end)).collect();
    let mut blocks = std::collections::BTreeMap::new();
    let mut differ = false;
    for tree in &granted.trees {
        let tree = manager.trees().find(|it| it.0 == tree.number).expect("it has it").1;
        for node in tree.group(&members, false).expect("a group").nodes() {
            let charge = 4 * 2 * 2 * node.children.len().max(2) as u64;
            let most = blocks.entry(node.an).or_insert(charge);
            differ |= *most != charge;
            *most = charge.max(*most);
        }
    }
    assert!(differ, "a node has the same children in all trees: the test shows nothing");
    let uses = manager.uses();
    assert_eq!(uses.iter().map(|(&an, it)| (an, it.blocks)).collect::<std::collections::BTreeMap<_, _>>(), blocks);
    assert!(uses.values().all(|it| (it.jobs, it.groups) == (1, 1)));
}
