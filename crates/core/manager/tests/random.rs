// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random histories: jobs begin and end, processes and parts are lost and come back, and the manager dies between any
//! two actions. After each step the nodes' state equals the manager's, and no node's capacity is exceeded.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{Inspect, LIMITS, World, config, fat_tree, node_address, process_address};
use proptest::prelude::*;
use selvedge_fabric::aggregation::Sites;
use selvedge_fabric::{AnId, NodeId, RouterId, Topology, TreeSpec};
use selvedge_manager::{Action, Config, Granted, JobRequest, Manager, Member, Step};
use selvedge_nic::aggregation::OwnNode;
use selvedge_nic::aggregation::{Quota, records};

#[derive(Clone, Debug)]
enum Change {
    /// End nodes and the number of a process there; quota; trees.
    Begin(Vec<(u32, u32)>, (u32, u32, u32), u32),
    End(usize),
    Process(u32, u32),
    Lose(Part),
    /// A lost part, by index. True: with the tables that its node had; false: with new ones.
    Back(usize, bool),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Node(u32),
    Link(u32),
    Router(u32),
    Host(u32),
}

fn change() -> impl Strategy<Value = Change> {
    let quota = (0u32..4, 0u32..12, prop_oneof![Just(0), Just(64), Just(200)]);
    let part = prop_oneof![
        any::<u32>().prop_map(Part::Node),
        any::<u32>().prop_map(Part::Link),
        any::<u32>().prop_map(Part::Router),
        any::<u32>().prop_map(Part::Host),
    ];
    prop_oneof![
        4 => (prop::collection::vec((0u32..16, 0u32..3), 1..6), quota, 0u32..3)
            .prop_map(|(members, quota, trees)| Change::Begin(members, quota, trees)),
        3 => any::<usize>().prop_map(Change::End),
        1 => (0u32..16, 0u32..3).prop_map(|(end, number)| Change::Process(end, number)),
        2 => part.prop_map(Change::Lose),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(at, is_stale)| Change::Back(at, is_stale)),
    ]
}

struct Model {
    manager: Manager,
    world: World,
    config: Config,
    topology: Topology,
    /// Jobs that have not ended, with their members.
    jobs: BTreeMap<u32, (Granted, Vec<Member>)>,
    lost: Vec<Part>,
    /// Tables of lost nodes.
    away: BTreeMap<u64, OwnNode>,
    next_key: u64,
    next_group: u32,
}

impl Model {
    fn new(topology: Topology, config: Config) -> Model {
        let manager = Manager::new(topology.clone(), &config, node_address).expect("trees");
        let mut world = World::new(&manager);
        world.carry_out(&manager.start());
        let (jobs, away) = (BTreeMap::new(), BTreeMap::new());
        Model { manager, world, config, topology, jobs, lost: Vec::new(), away, next_key: 1, next_group: 0 }
    }

    fn apply(&mut self, change: &Change, cut: usize) -> Result<(), TestCaseError> {
        let before: BTreeMap<u32, bool> = self.manager.jobs().map(|(job, failure)| (job, failure.is_some())).collect();
        self.world.told.clear();
        let mut begun = None;
        let actions = match *change {
            Change::Begin(ref members, (groups, credits, bytes), trees) => {
                let mut members = members.clone();
                members.sort_unstable();
                members.dedup();
                let end = |end: u32| end % self.topology.nodes();
                let member = |&(at, number): &(u32, u32)| Member {
                    process: process_address(end(at), number),
                    node: NodeId(end(at)),
                };
                let members: BTreeSet<Member> = members.iter().map(member).collect();
                let members: Vec<Member> = members.into_iter().collect();
                let quota = Quota { groups, credits, bytes };
                let request = JobRequest { external: 1, members: members.clone(), quota, trees, priority: 0 };
                let was = self.manager.clone();
                match self.manager.begin_job(&request, self.next_key) {
                    Ok((granted, actions)) => {
                        self.next_key += 1;
                        begun = Some(granted.job);
                        self.jobs.insert(granted.job, (granted, members));
                        actions
                    }
                    Err(_) => {
                        prop_assert_eq!(&self.manager, &was);
                        return Ok(());
                    }
                }
            }
            Change::End(at) => {
                let Some(&job) = self.jobs.keys().nth(at % self.jobs.len().max(1)) else { return Ok(()) };
                self.jobs.remove(&job);
                self.manager.end_job(job).expect("it is there")
            }
            Change::Process(end, number) => {
                self.manager.process_lost(process_address(end % self.topology.nodes(), number))
            }
            Change::Lose(part) => {
                let part = self.reduced(part);
                if !self.lost.contains(&part) {
                    self.lost.push(part);
                }
                let actions = match part {
                    Part::Node(an) => self.manager.node_lost(AnId(an)),
                    Part::Link(channel) => self.manager.link_lost(channel),
                    Part::Router(router) => self.manager.router_lost(RouterId(router)),
                    Part::Host(node) => self.manager.host_lost(NodeId(node)),
                };
                self.set_nodes(true);
                actions
            }
            Change::Back(at, is_stale) => {
                if self.lost.is_empty() {
                    return Ok(());
                }
                let part = self.lost.remove(at % self.lost.len());
                let actions = match part {
                    Part::Node(an) => self.manager.node_back(AnId(an)),
                    Part::Link(channel) => self.manager.link_back(channel),
                    Part::Router(router) => self.manager.router_back(RouterId(router)),
                    Part::Host(node) => self.manager.host_back(NodeId(node)),
                };
                self.set_nodes(is_stale);
                actions
            }
        };
        self.carry_out(&actions, cut)?;
        self.check_told(&before, change)?;
        self.check()?;
        if let Some(job) = begun {
            self.use_job(job)?;
        }
        Ok(())
    }

    /// The manager dies after `cut` actions and restarts: the nodes reach the same state.
    fn carry_out(&mut self, actions: &[Action], cut: usize) -> Result<(), TestCaseError> {
        let saved = self.manager.save();
        let restored = Manager::restore(&saved, self.topology.clone(), &self.config, node_address);
        prop_assert_eq!(restored.as_ref(), Ok(&self.manager));
        let restored = restored.expect("just compared");
        let start = restored.start();
        for action in &start {
            // It would end groups that have formed since.
            let Action::Node { an, step: Step::ClearTree { number, .. }, .. } = *action else { continue };
            let sets = |action: &Action| matches!(*action, Action::Node { an: at, step: Step::SetTree { number: it, .. }, .. } if (at, it) == (an, number));
            prop_assert!(!start.iter().any(sets), "a tree that is set is cleared again after a restart");
        }
        let mut other = self.world.clone();
        other.carry_out(&actions[..cut % (actions.len() + 1)]);
        other.carry_out(&restored.start());
        self.world.carry_out(actions);
        for (address, home) in &self.world.nodes {
            prop_assert_eq!(home.state(), other.nodes[address].state());
        }
        prop_assert!(self.world.told.is_subset(&other.told), "{:?} {:?}", self.world.told, other.told);
        // New nodes reach the same state, except for jobs without resources, which they need not know.
        for (&address, home) in &self.world.nodes {
            let mut fresh = OwnNode::new(LIMITS);
            for action in restored.start() {
                match action {
                    Action::Node { address: at, step, .. } if at == address => {
                        step.carry_out(&mut fresh.node()).expect("room");
                    }
                    _ => {}
                }
            }
            let open = |home: &OwnNode| {
                let (jobs, trees) = home.state();
                (jobs.into_iter().filter(|job| job.2 == records::job::OPEN).collect::<Vec<_>>(), trees)
            };
            prop_assert_eq!(open(&fresh), open(home));
        }
        self.manager = restored;
        Ok(())
    }

    /// A job loses its resources once, and exactly its processes are informed. Without losses no job does.
    fn check_told(&self, before: &BTreeMap<u32, bool>, change: &Change) -> Result<(), TestCaseError> {
        let mut told = BTreeSet::new();
        for (job, failure) in self.manager.jobs() {
            if failure.is_none() || before.get(&job) != Some(&false) {
                prop_assert!(failure.is_none() || before.contains_key(&job));
                continue;
            }
            let members = &self.jobs[&job].1;
            let host = |node: NodeId| matches!(change, Change::Lose(part) if self.reduced(*part) == Part::Host(node.0));
            let is_gone = |member: &&Member| match *change {
                Change::Process(end, number) => member.process == process_address(end % self.topology.nodes(), number),
                Change::Lose(_) => host(member.node),
                _ => false,
            };
            prop_assert!(matches!(change, Change::Process(..) | Change::Lose(_)));
            told.extend(members.iter().filter(|member| !is_gone(member)).map(|member| (member.process, job)));
        }
        prop_assert_eq!(&self.world.told, &told);
        Ok(())
    }

    fn reduced(&self, part: Part) -> Part {
        let sites = self.manager.trees().next().map_or(1, |tree| tree.1.set().sites().len() as u32);
        match part {
            Part::Node(an) => Part::Node(an % sites),
            Part::Link(channel) => Part::Link(channel % self.topology.channels()),
            Part::Router(router) => Part::Router(router % self.topology.routers()),
            Part::Host(node) => Part::Host(node % self.topology.nodes()),
        }
    }

    /// The nodes of the world are those that are not lost. Sites are the routers, in order.
    fn set_nodes(&mut self, is_stale: bool) {
        for router in 0..self.topology.routers() {
            let address = node_address(AnId(router));
            let is_lost = self.lost.contains(&Part::Node(router)) || self.lost.contains(&Part::Router(router));
            if is_lost {
                if let Some(home) = self.world.nodes.get(&address).cloned() {
                    self.away.insert(address, home);
                    self.world.nodes.remove(&address);
                }
            } else if let Some(home) = self.away.remove(&address) {
                self.world.nodes.insert(address, if is_stale { home } else { OwnNode::new(LIMITS) });
            }
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let known: BTreeMap<u32, _> = self.manager.jobs().collect();
        prop_assert_eq!(known.keys().collect::<Vec<_>>(), self.jobs.keys().collect::<Vec<_>>());
        for it in self.manager.uses().values() {
            prop_assert!(it.jobs <= LIMITS.jobs && it.groups <= LIMITS.groups.into(), "{it:?}");
            prop_assert!(it.blocks <= LIMITS.operand_blocks.into(), "{it:?}");
        }
        for (&address, home) in &self.world.nodes {
            let an = AnId(address as u32);
            let open: Vec<_> = home.jobs.iter().filter(|job| job.slot & 0xff == records::job::OPEN).collect();
            prop_assert!(open.iter().map(|job| job.groups_max).sum::<u32>() <= LIMITS.groups);
            for job in &open {
                prop_assert_eq!(known.get(&job.number), Some(&None), "a node serves a job that is not known");
            }
            for (number, tree) in (0..).zip(&home.trees) {
                let known = self.manager.trees().find(|tree| tree.0 == number).filter(|it| it.1.level(an).is_some());
                prop_assert_eq!(tree.status == records::tree::OPEN, known.is_some());
                let parent = known.and_then(|it| it.1.parent(an)).map_or(0, node_address);
                prop_assert_eq!(tree.parent, parent);
            }
        }
        // All nodes of an open job serve it.
        for (job, (granted, _)) in &self.jobs {
            let is_open = known[job].is_none();
            for node in granted.trees.iter().flat_map(|tree| tree.nodes()) {
                let home = self.world.nodes.get(&node.address);
                prop_assert!(home.is_some() || !is_open, "an open job has a lost node");
                let at = home.and_then(|home| home.jobs.iter().find(|it| it.number == *job && it.key == granted.key));
                let serves = at.is_some_and(|it| it.slot & 0xff == records::job::OPEN);
                prop_assert_eq!(serves, is_open);
            }
        }
        Ok(())
    }

    /// A job that has just begun reduces over each of its trees.
    fn use_job(&mut self, job: u32) -> Result<(), TestCaseError> {
        let (granted, members) = self.jobs[&job].clone();
        for tree in &granted.trees {
            self.next_group += 1;
            let group = self.world.join(&granted, tree, self.next_group, &members, (1, granted.quota.bytes.min(64)));
            self.world.assert_reduces(&group);
            self.world.leave(&group);
        }
        Ok(())
    }
}

fn history(topology: Topology, config: Config, changes: &[(Change, usize)]) -> Result<(), TestCaseError> {
    let mut model = Model::new(topology, config);
    for (change, cut) in changes {
        model.apply(change, *cut)?;
    }
    while !model.lost.is_empty() {
        model.apply(&Change::Back(0, true), 0)?;
    }
    while !model.jobs.is_empty() {
        model.apply(&Change::End(0), 0)?;
    }
    prop_assert!(model.manager.uses().is_empty());
    model.world.nodes.values().for_each(|home| home.assert_empty());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn on_a_fat_tree(changes in prop::collection::vec((change(), any::<usize>()), 1..40)) {
        history(fat_tree(), config(3), &changes)?;
    }

    /// Edges here cross several links, and the network often comes apart.
    #[test]
    fn on_a_mesh(changes in prop::collection::vec((change(), any::<usize>()), 1..40)) {
        let spec = TreeSpec { trees: 2, sites: Sites::AllRouters, ..TreeSpec::default() };
        let topology = Topology::mesh(&[4, 2], 1).expect("a mesh");
        history(topology, Config { spec, ..config(2) }, &changes)?;
    }
}
