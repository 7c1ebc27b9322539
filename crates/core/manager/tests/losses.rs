// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Losses of every part of a network, one at a time and in pairs. The dependencies are computed here from the groups of
//! the fabric, for a fat tree, whose edges are single links.

mod common;

use std::collections::BTreeSet;

use common::{Inspect, Joined, World, config, fat_tree, manager, node_address, process_address, request};
use selvedge_fabric::aggregation::{Part, Sites};
use selvedge_fabric::{AnId, NodeId, Peer, RouterId, Topology, TreeSpec};
use selvedge_manager::{Action, Config, Granted, JobError, JobRequest, Manager, Step};
use selvedge_nic::aggregation::OwnNode;
use selvedge_nic::aggregation::member::GroupState;
use selvedge_nic::aggregation::{Failure, Quota};

fn parts(topology: &Topology) -> Vec<Part> {
    let routers = (0..topology.routers()).flat_map(|router| [Part::Router(RouterId(router)), Part::An(AnId(router))]);
    let nodes = (0..topology.nodes()).map(|node| Part::Node(NodeId(node)));
    routers.chain(nodes).chain((0..topology.channels()).map(Part::Channel)).collect()
}

fn lose(manager: &mut Manager, part: Part) -> Vec<Action> {
    match part {
        Part::Router(router) => manager.router_lost(router),
        Part::Node(node) => manager.host_lost(node),
        Part::Channel(channel) => manager.link_lost(channel),
        Part::An(an) => manager.node_lost(an),
    }
}

fn bring_back(manager: &mut Manager, part: Part) -> Vec<Action> {
    match part {
        Part::Router(router) => manager.router_back(router),
        Part::Node(node) => manager.host_back(node),
        Part::Channel(channel) => manager.link_back(channel),
        Part::An(an) => manager.node_back(an),
    }
}

/// Whether a job on some end nodes of this fat tree, over the spine of its tree, needs a part.
fn depends(topology: &Topology, root: AnId, ends: &[u32], part: Part) -> bool {
    let leaves: BTreeSet<u32> = ends.iter().map(|&end| topology.attachment(NodeId(end)).0.0).collect();
    let link = |one: Peer, other: RouterId| match one {
        Peer::Node(node) => ends.contains(&node.0),
        Peer::Router { router, .. } => {
            (router.0 == root.0 && leaves.contains(&other.0)) || (other.0 == root.0 && leaves.contains(&router.0))
        }
        Peer::Unconnected => false,
    };
    match part {
        Part::Router(RouterId(at)) | Part::An(AnId(at)) => at == root.0 || leaves.contains(&at),
        Part::Node(node) => ends.contains(&node.0),
        Part::Channel(channel) => match topology.channel_source(channel) {
            Some((router, port)) => link(topology.peer(router, port), router),
            None => ends.contains(&(channel - (topology.channels() - topology.nodes()))),
        },
    }
}

struct Running {
    request: JobRequest,
    ends: Vec<u32>,
    granted: Granted,
    group: Joined,
    root: AnId,
}

fn run(manager: &mut Manager, world: &mut World, external: u32, ends: &[u32]) -> Running {
    let quota = Quota { groups: 2, credits: 2, bytes: 64 };
    let request = JobRequest { quota, ..request(external, ends) };
    let (granted, actions) = manager.begin_job(&request, external.into()).expect("room");
    world.carry_out(&actions);
    let group = world.join(&granted, &granted.trees[0], 0, &request.members, (1, 8));
    world.assert_reduces(&group);
    let root = manager.trees().find(|tree| tree.0 == granted.trees[0].number).expect("it has it").1.root();
    Running { request, ends: ends.to_vec(), granted, group, root }
}

/// Removes a part from the world. Returns the tables of its aggregation node.
fn gone(world: &mut World, part: Part) -> Option<(u64, OwnNode)> {
    match part {
        Part::Router(RouterId(at)) | Part::An(AnId(at)) => {
            let address = node_address(AnId(at));
            let home = world.nodes.get(&address).cloned();
            world.gone(address);
            home.map(|home| (address, home))
        }
        Part::Node(node) => {
            (0..9).for_each(|number| world.gone(process_address(node.0, number)));
            None
        }
        Part::Channel(_) => None,
    }
}

#[test]
fn a_loss_reaches_those_who_depend_on_it_and_nobody_else() {
    let topology = fat_tree();
    for part in parts(&topology) {
        for is_stale in [false, true] {
            let mut manager = manager(4);
            let trees_before = manager.tree_set().cloned();
            let mut world = World::new(&manager);
            world.carry_out(&manager.start());
            let jobs: Vec<Running> = [&[0, 1, 2, 3][..], &[2, 5, 9], &[0, 4, 8, 12], &[13, 14]]
                .iter()
                .zip(1..)
                .map(|(ends, external)| run(&mut manager, &mut world, external, ends))
                .collect();
            let home = gone(&mut world, part);
            world.carry_out(&lose(&mut manager, part));
            world.settle();
            assert_eq!(lose(&mut manager, part), [], "a second loss of the same part");
            let mut told = BTreeSet::new();
            for job in &jobs {
                let is_affected = depends(&topology, job.root, &job.ends, part);
                assert_eq!(manager.jobs().any(|it| it == (job.granted.job, Some(Failure::Lost))), is_affected);
                if is_affected {
                    let staying = job.request.members.iter().filter(|member| Part::Node(member.node) != part);
                    told.extend(staying.map(|member| (member.process, job.granted.job)));
                    let is_ready = |state: &Option<GroupState>| matches!(state, Some(GroupState::Ready { .. }));
                    // The members of a lost leaf are informed by the manager alone.
                    let is_leaf = matches!(part, Part::Router(_) | Part::An(_));
                    assert!(is_leaf || !world.states(&job.group).iter().any(is_ready), "{part:?}");
                } else {
                    world.assert_reduces(&job.group);
                    let again = world.join(&job.granted, &job.granted.trees[0], 1, &job.request.members, (1, 8));
                    world.assert_reduces(&again);
                }
            }
            assert_eq!(world.told, told, "{part:?}");
            // Jobs whose resources were revoked end. A new job over the other parts works.
            for job in &jobs[..2] {
                world.leave(&job.group);
                world.carry_out(&manager.end_job(job.granted.job).expect("it is there"));
            }
            let set = manager.tree_set().expect("trees are left");
            let left: Vec<u32> =
                [3, 6, 10, 15].into_iter().filter(|&end| set.attached(NodeId(end)).is_some()).collect();
            assert!(left.len() >= 3);
            let new = run(&mut manager, &mut world, 5, &left);
            if let Some((address, home)) = home {
                world.nodes.insert(address, if is_stale { home } else { OwnNode::new(manager.limits()) });
            }
            world.carry_out(&bring_back(&mut manager, part));
            assert_eq!(bring_back(&mut manager, part), []);
            assert_eq!(manager.tree_set().cloned(), trees_before);
            world.assert_reduces(&new.group);
            for job in jobs[2..].iter().chain([&new]) {
                world.leave(&job.group);
                world.carry_out(&manager.end_job(job.granted.job).expect("it is there"));
            }
            run(&mut manager, &mut world, 6, &[0, 4, 8, 12, 15]);
            let last = manager.end_job(6).expect("it is there");
            world.carry_out(&last);
            world.nodes.values().for_each(|home| home.assert_empty());
            let sets = manager.trees().map(|(_, tree)| tree.root()).collect::<BTreeSet<_>>();
            assert_eq!((manager.trees().count(), sets.len()), (4, 4), "four trees of different roots");
        }
    }
}

#[test]
fn a_lost_process_ends_its_jobs_only() {
    let mut manager = manager(2);
    let mut world = World::new(&manager);
    world.carry_out(&manager.start());
    let one = run(&mut manager, &mut world, 1, &[0, 1, 9]);
    let other = run(&mut manager, &mut world, 2, &[0, 1, 9]);
    let lost = process_address(1, 1);
    world.gone(lost);
    let actions = manager.process_lost(lost);
    world.carry_out(&actions);
    world.settle();
    let told: BTreeSet<(u64, u32)> = [(process_address(0, 1), 1), (process_address(9, 1), 1)].into();
    assert_eq!(world.told, told);
    world.assert_reduces(&other.group);
    // The group is freed when the remaining members leave, since no node waits for the lost one.
    world.leave(&one.group);
    assert!(world.nodes.values().flat_map(|home| &home.groups).filter(|group| group.status() != 0).count() == 3);
    assert_eq!(manager.process_lost(process_address(7, 7)), []);
    world.leave(&other.group);
    for job in [1, 2] {
        world.carry_out(&manager.end_job(job).expect("it is there"));
    }
    world.nodes.values().for_each(|home| home.assert_empty());
}

/// A network that comes apart gets trees over its larger piece; old trees serve jobs within the other.
#[test]
fn a_network_comes_apart() {
    let topology = Topology::mesh(&[5], 2).expect("a mesh");
    let spec = TreeSpec { trees: 1, sites: Sites::AllRouters, ..TreeSpec::default() };
    let mut manager = Manager::new(topology, &Config { spec, ..config(1) }, node_address).expect("trees");
    let mut world = World::new(&manager);
    world.carry_out(&manager.start());
    let router = RouterId(1);
    let topology = manager.topology().clone();
    let port = topology.neighbours(router).find(|it| it.1 == RouterId(2)).expect("a neighbour").0;
    let channel = manager.topology().channel(router, port);
    world.carry_out(&manager.link_lost(channel));
    let set = manager.tree_set().expect("trees");
    let attached: Vec<bool> = (0..10).map(|node| set.attached(NodeId(node)).is_some()).collect();
    assert_eq!(attached, [false, false, false, false, true, true, true, true, true, true]);
    run(&mut manager, &mut world, 1, &[4, 6, 9]);
    assert_eq!(manager.begin_job(&request(2, &[0, 4]), 2), Err(JobError::Unattached { node: NodeId(0) }));
    world.carry_out(&manager.link_back(channel));
    run(&mut manager, &mut world, 3, &[0, 4, 9]);
    assert_eq!(manager.jobs().count(), 2);
}

#[test]
fn without_a_free_number_old_trees_serve() {
    let mut manager = manager(4);
    let mut world = World::new(&manager);
    world.carry_out(&manager.start());
    let jobs: Vec<Running> = (1..=4).map(|job| run(&mut manager, &mut world, job, &[0, 1])).collect();
    // No job depends on the leaf.
    world.gone(node_address(AnId(3)));
    assert!(matches!(manager.topology().attachment(NodeId(15)).0, RouterId(3)));
    let actions = manager.router_lost(RouterId(3));
    world.carry_out(&actions);
    assert!(actions.is_empty(), "all numbers are in use: {actions:?}");
    assert_eq!(manager.begin_job(&request(7, &[4, 15]), 7), Err(JobError::CutOff));
    run(&mut manager, &mut world, 5, &[4, 8]);
    let ended = jobs[3].granted.trees[0].number;
    let actions = manager.end_job(4).expect("it is there");
    let sets = actions.iter().filter(|action| matches!(action, Action::Node { step: Step::SetTree { .. }, .. }));
    assert!(sets.count() > 0);
    world.carry_out(&actions);
    jobs[..3].iter().for_each(|job| world.assert_reduces(&job.group));
    let next = run(&mut manager, &mut world, 6, &[4, 9]);
    assert_eq!(next.granted.trees[0].number, ended);
}
