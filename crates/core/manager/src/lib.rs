// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The aggregation manager as a value (seed 001, sections III.E and III.F). It makes the aggregation trees of a
//! network, grants each job trees and a share of their nodes, and revokes the grant when a part of the network or a
//! process is lost.
//!
//! ```text
//! begin_job, end_job, ..._lost, ..._back ──> Manager ──> Vec<Action>: at aggregation nodes, for processes
//!                                              │
//!                                        save, restore
//! ```
//!
//! No I/O, clock, thread or randomness. For each change the caller does three things, in this order, before the next
//! change:
//!
//! 1. It stores [`Manager::save`].
//! 2. It carries out the actions, in order.
//! 3. It answers the request.
//!
//! If the manager dies in between, [`Manager::restore`] loads the stored state, and [`Manager::start`] returns the
//! actions that bring every node to it, those of the last change included. An action may be carried out twice.
//!
//! Invariants
//! 1. A node never serves a job that the manager does not know: a job is stored before any node admits it, and the
//!    actions that end it are repeated after a restart until the next change.
//! 2. The quotas of the jobs at a node never exceed the node's limits ([`quota`]).
//! 3. A job that a loss does not affect continues ([`losses`]).
//! 4. The same calls give the same actions and the same bytes.
//!
//! Costs: a table of the topology; trees as in `selvedge_fabric::aggregation`; for each job 16 bytes a member and 32 a
//! node.

#![forbid(unsafe_code)]

pub mod actions;
mod footprint;
pub mod frame;
pub mod grant;
pub mod job;
pub mod jobs;
pub mod losses;
pub mod quota;
pub mod saved;
mod trees;

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::aggregation::{Part, Site};
use selvedge_fabric::{AnId, NodeId, Topology, Tree, TreeError, TreeSet, TreeSpec};
use selvedge_nic::aggregation::{Failure, Limits};

pub use actions::{Action, Step};
pub use grant::{GrantError, Granted, GrantedNode, GrantedTree, GroupChildren};
pub use job::{JobError, JobRequest, Member};
pub use quota::{BYTES_DEFAULT, SHARE_DEFAULT, Use};
pub use saved::SavedError;

use job::Job;
use trees::{Forest, Place};

/// The network that a manager manages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The trees wanted, limited to the tables of a node, its children and its levels.
    pub spec: TreeSpec,
    /// Limits of each aggregation node.
    pub limits: Limits,
    /// Default share of a node for a job, in percent.
    pub share: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config { spec: TreeSpec::default(), limits: Limits::DEFAULT, share: SHARE_DEFAULT }
    }
}

/// The state of the aggregation manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manager {
    topology: Topology,
    spec: TreeSpec,
    limits: Limits,
    share: u32,
    /// Site and address (nid << 32 | pid) of each aggregation node.
    sites: Vec<Site>,
    addresses: Vec<u64>,
    lost: BTreeSet<Part>,
    forest: Forest,
    jobs: BTreeMap<u32, Job>,
    next_job: u32,
    /// Jobs, with their keys, that ended while a node was lost: the node must forget them when it is back.
    owed: BTreeMap<AnId, BTreeSet<(u32, u64)>>,
    /// Actions of the last change that may not have been carried out and do not follow from the state.
    kept: Vec<Action>,
}

impl Manager {
    /// Makes the trees. `address` returns the address of an aggregation node, nid << 32 | pid, different for each.
    pub fn new(topology: Topology, config: &Config, address: impl Fn(AnId) -> u64) -> Result<Manager, TreeError> {
        let mut manager = Manager::empty(topology, config);
        manager.forest.rebuild(&manager.topology, &manager.spec, &manager.lost)?;
        manager.find_sites(address);
        manager.renew(&mut Vec::new());
        Ok(manager)
    }

    /// As [`Manager::new`], with all hosts and nodes lost until [`Manager::host_back`] and [`Manager::node_back`].
    pub fn without_hosts(
        topology: Topology,
        config: &Config,
        address: impl Fn(AnId) -> u64,
    ) -> Result<Manager, TreeError> {
        let mut manager = Manager::new(topology, config, address)?;
        let nodes = (0..manager.topology.nodes()).map(|node| Part::Node(NodeId(node)));
        manager.lost = (0..manager.sites.len() as u32).map(|an| Part::An(AnId(an))).chain(nodes).collect();
        manager.forest.current = None;
        Ok(manager)
    }

    /// Returns the actions that bring one node to the state, as [`Manager::start`] does for all.
    pub fn node_again(&self, an: AnId) -> Vec<Action> {
        let of_node = |action: &Action| matches!(action, Action::Node { an: of, .. } if *of == an);
        self.start().into_iter().filter(of_node).collect()
    }

    fn empty(topology: Topology, config: &Config) -> Manager {
        let limits = config.limits.clamped();
        Manager {
            topology,
            spec: trees::fitted(&config.spec, &limits),
            limits,
            share: config.share.min(100),
            sites: Vec::new(),
            addresses: Vec::new(),
            lost: BTreeSet::new(),
            forest: Forest::default(),
            jobs: BTreeMap::new(),
            next_job: 1,
            owed: BTreeMap::new(),
            kept: Vec::new(),
        }
    }

    fn find_sites(&mut self, address: impl Fn(AnId) -> u64) {
        let set = self.forest.sets.values().next();
        self.sites = set.map_or(Vec::new(), |set| set.trees.sites().to_vec());
        self.addresses = (0..self.sites.len() as u32).map(|an| address(AnId(an))).collect();
    }

    /// Returns the actions that bring every node that is not lost to the state. A node may have new tables, or those
    /// from before the manager died.
    pub fn start(&self) -> Vec<Action> {
        let mut actions = self.kept.clone();
        actions.extend(self.state_of(|_| true));
        actions::in_order(actions)
    }

    /// The trees that jobs have or may get, by number.
    pub fn trees(&self) -> impl Iterator<Item = (u16, Tree<'_>)> {
        self.forest.numbers.iter().filter_map(|(&number, &place)| Some((number, self.forest.tree(place)?)))
    }

    /// The set whose trees new jobs get. None: the rest of the network has no trees.
    pub fn tree_set(&self) -> Option<&TreeSet> {
        self.forest.current.and_then(|current| self.forest.sets.get(&current)).map(|set| &set.trees)
    }

    /// The use of each node by jobs.
    pub fn uses(&self) -> BTreeMap<AnId, Use> {
        quota::uses(self.jobs.values())
    }

    /// The jobs that have not ended, with the reason if their resources were revoked.
    pub fn jobs(&self) -> impl Iterator<Item = (u32, Option<Failure>)> {
        self.jobs.iter().map(|(&number, job)| (number, job.revoked))
    }

    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Address of an aggregation node; 0 for one that does not exist.
    pub fn address(&self, an: AnId) -> u64 {
        self.addresses.get(an.0 as usize).copied().unwrap_or(0)
    }

    /// Returns the actions that set trees and admit jobs at some nodes.
    fn state_of(&self, of: impl Fn(AnId) -> bool) -> Vec<Action> {
        let mut actions = Vec::new();
        for (&number, &place) in &self.forest.numbers {
            self.set_tree(number, place, &of, &mut actions);
        }
        for (&number, job) in &self.jobs {
            let key = job.key;
            let step = match job.revoked {
                None => Step::Admit { job: number, key, quota: job.quota },
                Some(failure) => Step::Revoke { job: number, key, failure },
            };
            self.top_down(number).into_iter().filter(|&an| of(an)).for_each(|an| self.push(&mut actions, an, step));
        }
        actions
    }

    fn set_tree(&self, number: u16, place: Place, of: impl Fn(AnId) -> bool, actions: &mut Vec<Action>) {
        let Some(tree) = self.forest.tree(place) else { return };
        for an in top_down(tree).into_iter().filter(|&an| of(an)) {
            let parent = tree.parent(an).map(|parent| self.address(parent));
            self.push(actions, an, Step::SetTree { number, parent });
        }
    }

    /// Ends trees that no job uses, and numbers new ones.
    fn renew(&mut self, actions: &mut Vec<Action>) {
        let open = self.jobs.values().filter(|job| job.revoked.is_none());
        let used = open.flat_map(|job| job.trees.iter().map(|tree| tree.0)).collect();
        let held = self.jobs.values().flat_map(|job| job.trees.iter().map(|tree| tree.1.set)).collect();
        let renewed = self.forest.renew(&self.limits, &used, &held);
        for (number, place) in renewed.ended {
            let next = renewed.begun.iter().find(|begun| begun.0 == number).and_then(|begun| self.forest.tree(begun.1));
            let stays = |an: &AnId| next.is_some_and(|next| next.level(*an).is_some());
            let nodes = self.forest.tree(place).map(top_down).unwrap_or_default();
            for an in nodes.into_iter().rev().filter(|an| !stays(an)) {
                self.push(actions, an, Step::ClearTree { number, failure: Failure::NoTree });
            }
        }
        for (number, place) in renewed.begun {
            self.set_tree(number, place, |_| true, actions);
        }
    }

    fn push(&self, actions: &mut Vec<Action>, an: AnId, step: Step) {
        if !self.is_lost(an) {
            actions.push(Action::Node { an, address: self.address(an), step });
        }
    }

    /// Ends a change. The actions of the change before have been carried out.
    fn finish(&mut self, actions: Vec<Action>) -> Vec<Action> {
        let actions = actions::in_order(actions);
        self.kept = actions.iter().copied().filter(Action::is_kept).collect();
        actions
    }
}

fn top_down(tree: Tree) -> Vec<AnId> {
    let mut nodes: Vec<AnId> = tree.nodes().collect();
    nodes.sort_by_key(|&an| tree.level(an));
    nodes
}
