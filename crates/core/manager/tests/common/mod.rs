// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real aggregation nodes and members, driven by the manager's actions, with queues between them.
#![allow(dead_code, reason = "not every test uses all of it")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use selvedge_fabric::aggregation::Sites;
use selvedge_fabric::{AnId, NodeId, Topology, TreeSpec};
use selvedge_manager::{Action, Config, Granted, GrantedTree, JobRequest, Manager, Member, Step};
use selvedge_nic::aggregation::member::{GroupState, Started};
use selvedge_nic::aggregation::message::{Join, Message, Reduction, Sender};
use selvedge_nic::aggregation::records::{Job, Tree, options};
use selvedge_nic::aggregation::{self as nic, Failure, Limits, Membership, OwnNode, Quota, Refusal};
use selvedge_nic::arithmetic::{Datatype, Operation};
use selvedge_nic::tables::Request;
use selvedge_nic::{Bus, Fault};

/// A node's record of a job: number, key, status, groups, credits and bytes of its quota.
pub type JobState = (u32, u64, u32, u32, u32, u32);
type OnItsWay = (Request, Vec<u8>);

/// Small nodes, so that tests reach quotas and table sizes often.
pub const LIMITS: Limits = Limits { jobs: 4, trees: 4, groups: 8, children: 8, credits: 4, operand_blocks: 1 << 10 };

/// Addresses of an aggregation node and of a process.
pub fn node_address(an: AnId) -> u64 {
    7 << 32 | u64::from(an.0)
}
pub fn process_address(end: u32, number: u32) -> u64 {
    u64::from(end + 100) << 32 | u64::from(number)
}

pub fn fat_tree() -> Topology {
    Topology::fat_tree(2, 8, (1, 1), Some(16)).expect("a fat tree")
}

pub fn config(trees: u32) -> Config {
    Config { spec: TreeSpec { trees, sites: Sites::AllRouters, ..TreeSpec::default() }, limits: LIMITS, share: 20 }
}

pub fn manager(trees: u32) -> Manager {
    Manager::new(fat_tree(), &config(trees), node_address).expect("trees")
}

/// A job with one process on each of some end nodes. `external` tells jobs apart.
pub fn request(external: u32, ends: &[u32]) -> JobRequest {
    let member = |&end: &u32| Member { process: process_address(end, external), node: NodeId(end) };
    JobRequest {
        external: external.into(),
        members: ends.iter().map(member).collect(),
        quota: Quota { groups: 0, credits: 0, bytes: 0 },
        trees: 1,
        priority: 0,
    }
}

/// Queries of a node.
pub trait Inspect {
    /// State set by the manager: jobs with status and quota, trees with parents.
    fn state(&self) -> (BTreeSet<JobState>, Vec<Tree>);

    fn assert_empty(&self);
}

impl Inspect for OwnNode {
    fn state(&self) -> (BTreeSet<JobState>, Vec<Tree>) {
        let used = self.jobs.iter().filter(|job| job.slot & 0xff != 0);
        let job = |job: &Job| (job.number, job.key, job.slot & 0xff, job.groups_max, job.credits_max, job.bytes_max);
        (used.map(job).collect(), self.trees.clone())
    }

    fn assert_empty(&self) {
        assert!(self.is_empty(), "{:?} {:?}", self.groups, self.operand_map);
        assert!(self.jobs.iter().all(|job| job.slot & 0xff == 0), "{:?}", self.jobs);
    }
}

struct Wire<'a> {
    payload: &'a [u8],
    memory: &'a mut [u8],
}

impl Bus for Wire<'_> {
    fn payload(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Fault> {
        into.copy_from_slice(&self.payload[offset as usize..offset as usize + into.len()]);
        Ok(())
    }

    fn put(&mut self, offset: u64, address: u64, bytes: u64) -> Result<(), Fault> {
        let from = &self.payload[offset as usize..(offset + bytes) as usize];
        self.memory[address as usize..(address + bytes) as usize].copy_from_slice(from);
        Ok(())
    }
}

#[derive(Clone)]
pub struct Process {
    memberships: Vec<Membership>,
    started: Vec<Started>,
    memory: Vec<u8>,
}

/// A group that processes have joined, each with its handle.
#[derive(Clone)]
pub struct Joined {
    pub key: u64,
    pub members: Vec<(u64, u64, u64)>,
}

#[derive(Clone)]
pub struct World {
    pub nodes: BTreeMap<u64, OwnNode>,
    pub processes: BTreeMap<u64, Process>,
    links: BTreeMap<(u64, u64), VecDeque<OnItsWay>>,
    /// The process and job of each failure message.
    pub told: BTreeSet<(u64, u32)>,
}

impl World {
    pub fn new(manager: &Manager) -> World {
        let sites = manager.tree_set().expect("trees").sites().len() as u32;
        let home = |an| (node_address(AnId(an)), OwnNode::new(manager.limits()));
        let nodes = (0..sites).map(home).collect();
        World { nodes, processes: BTreeMap::new(), links: BTreeMap::new(), told: BTreeSet::new() }
    }

    /// Carries out actions. All must succeed.
    pub fn carry_out(&mut self, actions: &[Action]) {
        for action in actions {
            match *action {
                Action::Tell { process, job, .. } => _ = self.told.insert((process, job)),
                Action::Node { an, address, step } => {
                    assert_eq!(address, node_address(an));
                    let home =
                        self.nodes.get_mut(&address).unwrap_or_else(|| panic!("{step:?} at {an:?}, which is lost"));
                    step.carry_out(&mut home.node()).unwrap_or_else(|_| panic!("{step:?}: no room"));
                }
            }
        }
    }

    /// Removes the tables of an address and the messages to and from it.
    pub fn gone(&mut self, address: u64) {
        self.nodes.remove(&address);
        self.processes.remove(&address);
        self.links.retain(|&(from, to), _| from != address && to != address);
    }

    fn post(&mut self, from: u64, to: u64, request: Request, payload: Vec<u8>) {
        if self.nodes.contains_key(&to) || self.processes.contains_key(&to) {
            self.links.entry((from, to)).or_default().push_back((request, payload));
        }
    }

    fn deliver(&mut self, link: (u64, u64)) {
        let queue = self.links.get_mut(&link).expect("a link");
        let (request, payload) = queue.pop_front().expect("no queue is empty");
        if queue.is_empty() {
            self.links.remove(&link);
        }
        let (from, to) = link;
        let outcome = if let Some(home) = self.nodes.get_mut(&to) {
            home.node().receive(&mut Wire { payload: &payload, memory: &mut [] }, &request)
        } else {
            let Process { memberships, started, memory } = self.processes.get_mut(&to).expect("a process");
            nic::Member { memberships, started }.receive(&mut Wire { payload: &payload, memory }, &request)
        };
        match outcome {
            Ok(()) => {}
            Err(Refusal::Failed(failure)) => self.refused(from, &request, failure),
            Err(other) => panic!("{other:?}: {request:?}"),
        }
    }

    /// Reports a refused join to its sender. Other refusals concern failed groups, which the nodes report.
    fn refused(&mut self, from: u64, request: &Request, failure: Failure) {
        let (sender, Message::Join(join)) = Message::decode(request).expect("it was sent") else { return };
        if let Some(home) = self.nodes.get_mut(&from) {
            home.node().refused(join.handle, sender.key, failure);
        } else if let Some(Process { memberships, started, .. }) = self.processes.get_mut(&from) {
            nic::Member { memberships, started }.refused(join.handle, failure);
        }
    }

    /// Sends and delivers until nothing is left.
    pub fn settle(&mut self) {
        loop {
            if let Some(&link) = self.links.keys().next() {
                self.deliver(link);
                continue;
            }
            let due = self.nodes.iter_mut().find_map(|(&own, home)| Some((own, home.node().next_send(7)?)));
            let Some((own, send)) = due else { return };
            let home = self.nodes.get_mut(&own).expect("it sends");
            let payload = home.operands[send.payload.clone()].to_vec();
            home.node().finish_send(send.id);
            self.post(own, send.to, send.request(own), payload);
        }
    }

    /// Joins members of a job to a group over one of its trees: one process for each end node given.
    pub fn join(
        &mut self,
        granted: &Granted,
        tree: &GrantedTree,
        number: u32,
        members: &[Member],
        wish: (u16, u32),
    ) -> Joined {
        let ends: Vec<NodeId> = members.iter().map(|member| member.node).collect();
        let children = tree.group(&ends).expect("members of the job");
        let mut joined = Vec::new();
        for (order, member) in members.iter().enumerate() {
            let leaf = tree.leaf(member.node).expect("a leaf").address;
            let process = self.processes.entry(member.process).or_insert_with(|| Process {
                memberships: vec![Membership::default(); 16],
                started: vec![Started::default(); 16 * 16],
                memory: vec![0; 64],
            });
            let join = Join {
                job: granted.job,
                number,
                tree: tree.number,
                options: options::TRIM | options::ORDERED,
                handle: 0,
                order: order as u32,
                members: 1,
                total: members.len() as u32,
                expected: children.expected(tree, member.node),
                credits: wish.0,
                bytes: wish.1,
            };
            let Process { memberships, started, .. } = process;
            let (handle, message) = nic::Member { memberships, started }.join(leaf, granted.key, &join).expect("room");
            let sender = Sender { address: member.process, key: granted.key };
            self.post(sender.address, leaf, message.encode(sender), Vec::new());
            joined.push((member.process, handle, leaf));
        }
        self.settle();
        Joined { key: granted.key, members: joined }
    }

    pub fn states(&mut self, group: &Joined) -> Vec<Option<GroupState>> {
        let state = |&(process, handle, _): &(u64, u64, u64)| {
            let Process { memberships, started, .. } = self.processes.get_mut(&process)?;
            nic::Member { memberships, started }.state(handle)
        };
        group.members.iter().map(state).collect()
    }

    /// The sum of 1, 2, ... at every member.
    pub fn assert_reduces(&mut self, group: &Joined) {
        let states = self.states(group);
        assert!(states.iter().all(|state| matches!(state, Some(GroupState::Ready { .. }))), "{states:?}");
        let reduction = Reduction::of_values(Operation::Sum, Datatype::Uint64, 8);
        let mut numbers = Vec::new();
        for (at, &(process, handle, leaf)) in group.members.iter().enumerate() {
            let Process { memberships, started, .. } = self.processes.get_mut(&process).expect("a process");
            let (number, message) = nic::Member { memberships, started }.start(handle, &reduction, 0).expect("credit");
            let sender = Sender { address: process, key: group.key };
            self.post(process, leaf, message.encode(sender), (at as u64 + 1).to_le_bytes().to_vec());
            numbers.push(number);
        }
        self.settle();
        let count = group.members.len() as u64;
        for (&(process, handle, _), number) in group.members.iter().zip(numbers) {
            let Process { memberships, started, memory } = self.processes.get_mut(&process).expect("a process");
            assert_eq!(nic::Member { memberships, started }.take(handle, number), Some(Ok(())));
            assert_eq!(memory[..8], (count * (count + 1) / 2).to_le_bytes());
        }
    }

    pub fn leave(&mut self, group: &Joined) {
        for &(process, handle, _) in &group.members {
            let Some(Process { memberships, started, .. }) = self.processes.get_mut(&process) else { continue };
            if let Some((node, message)) = (nic::Member { memberships, started }).leave(handle) {
                let sender = Sender { address: process, key: group.key };
                self.post(process, node, message.encode(sender), Vec::new());
            }
        }
        self.settle();
    }
}

pub fn steps(actions: &[Action]) -> impl Iterator<Item = (AnId, Step)> + '_ {
    actions.iter().filter_map(|action| match *action {
        Action::Node { an, step, .. } => Some((an, step)),
        Action::Tell { .. } => None,
    })
}
