// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Losses and returns of parts (seed 001, section III.E). The processes of the affected jobs are informed, these jobs
//! lose their resources, and trees are made over the remaining parts. All other jobs continue. There are no time-outs:
//! losses are reported by their observers.
//!
//! Invariants
//! 1. A loss affects the jobs whose footprint has the part, and no other.
//! 2. Nothing is sent to a lost aggregation node. Jobs that it must forget are kept until it is back.

use std::collections::BTreeSet;

use log::{info, warn};
use selvedge_fabric::aggregation::Part;
use selvedge_fabric::{AnId, NodeId, RouterId};
use selvedge_nic::aggregation::Failure;

use crate::Manager;
use crate::actions::{Action, Step};
use crate::footprint::{footprint, seats};
use crate::job::{Job, Member};
use crate::jobs::presence;

impl Manager {
    /// Reports the loss of a process. Its jobs lose their resources: a group may wait for a member that has not joined
    /// yet, and no node can detect that. A process that comes back is a new one, of another job.
    pub fn process_lost(&mut self, process: u64) -> Vec<Action> {
        let has_it = |job: &Job| job.members.iter().any(|member| member.process == process);
        let jobs: Vec<u32> = self.jobs.iter().filter(|(_, job)| has_it(job)).map(|(&number, _)| number).collect();
        if !jobs.is_empty() {
            warn!("process {process:#x} is lost");
        }
        let mut actions = Vec::new();
        self.revoke(&jobs, |member| member.process == process, &mut actions);
        self.renew(&mut actions);
        self.finish(actions)
    }

    /// Reports lost messages of a job, without a lost part. The job's groups fail.
    pub fn job_lost(&mut self, job: u32) -> Vec<Action> {
        let mut actions = Vec::new();
        self.revoke(&[job], |_| false, &mut actions);
        self.renew(&mut actions);
        self.finish(actions)
    }

    /// Reports the loss of an aggregation node alone, without its router or host.
    pub fn node_lost(&mut self, an: AnId) -> Vec<Action> {
        self.lost(Part::An(an))
    }

    /// Reports that an aggregation node is back, with its old state or without any.
    pub fn node_back(&mut self, an: AnId) -> Vec<Action> {
        self.back(Part::An(an))
    }

    /// Reports the loss of a channel, and of the link with it.
    pub fn link_lost(&mut self, channel: u32) -> Vec<Action> {
        self.lost(Part::Channel(channel))
    }

    pub fn link_back(&mut self, channel: u32) -> Vec<Action> {
        self.back(Part::Channel(channel))
    }

    pub fn router_lost(&mut self, router: RouterId) -> Vec<Action> {
        self.lost(Part::Router(router))
    }

    pub fn router_back(&mut self, router: RouterId) -> Vec<Action> {
        self.back(Part::Router(router))
    }

    /// Reports the loss of a host with its processes.
    pub fn host_lost(&mut self, node: NodeId) -> Vec<Action> {
        self.lost(Part::Node(node))
    }

    pub fn host_back(&mut self, node: NodeId) -> Vec<Action> {
        self.back(Part::Node(node))
    }

    /// The parts that are lost now.
    pub fn lost_parts(&self) -> &BTreeSet<Part> {
        &self.lost
    }

    fn lost(&mut self, part: Part) -> Vec<Action> {
        if !self.has_part(part) || self.lost.contains(&part) {
            return Vec::new();
        }
        warn!("{part:?} is lost");
        let jobs: Vec<u32> = self.jobs.keys().copied().filter(|&job| self.depends(job, part)).collect();
        let lost_before = self.lost_nodes();
        self.lost.insert(part);
        let mut actions = Vec::new();
        self.revoke(&jobs, |member| part == Part::Node(member.node), &mut actions);
        // The nodes above and below a lost one stop waiting for its requests and results.
        for lost in self.lost_nodes().difference(&lost_before) {
            let of_lost = |job: &&Job| job.nodes.contains_key(lost);
            let near: BTreeSet<AnId> =
                self.jobs.values().filter(of_lost).flat_map(|job| job.nodes.keys().copied()).collect();
            let address = self.address(*lost);
            near.into_iter().for_each(|an| self.push(&mut actions, an, Step::Lose { address }));
        }
        self.rebuild();
        self.renew(&mut actions);
        self.finish(actions)
    }

    fn back(&mut self, part: Part) -> Vec<Action> {
        let lost_before = self.lost_nodes();
        if !self.lost.remove(&part) {
            return Vec::new();
        }
        info!("{part:?} is back");
        let mut actions = Vec::new();
        self.rebuild();
        self.renew(&mut actions);
        for an in lost_before.difference(&self.lost_nodes()).copied().collect::<Vec<_>>() {
            for (job, key) in self.owed.remove(&an).unwrap_or_default() {
                self.push(&mut actions, an, Step::Forget { job, key });
            }
            for number in 0..self.limits.trees as u16 {
                let place = self.forest.numbers.get(&number);
                if place.and_then(|&place| self.forest.tree(place)).is_none_or(|tree| tree.level(an).is_none()) {
                    self.push(&mut actions, an, Step::ClearTree { number, failure: Failure::NoTree });
                }
            }
            let state = self.state_of(|node| node == an);
            // Actions of the new trees are in the list already.
            actions.extend(state.into_iter().filter(|action| !actions.contains(action)).collect::<Vec<_>>());
        }
        self.finish(actions)
    }

    /// Revokes the resources of jobs that have them, and informs the members that are not lost.
    fn revoke(&mut self, jobs: &[u32], is_gone: impl Fn(&Member) -> bool, actions: &mut Vec<Action>) {
        for &number in jobs {
            let nodes = self.top_down(number);
            let Some(job) = self.jobs.get_mut(&number) else { continue };
            let had_resources = job.revoked.is_none();
            let failure = *job.revoked.get_or_insert(Failure::Lost);
            let Job { key, ref members, ref trees, external, .. } = *job;
            let (members, trees) = (members.clone(), trees.clone());
            if had_resources {
                warn!("job {number} (job_id_external {external:#x}) loses its resources: {failure}");
                let staying = members.iter().filter(|member| !is_gone(member));
                actions.extend(staying.map(|member| Action::Tell { process: member.process, job: number, failure }));
                let revoke = Step::Revoke { job: number, key, failure };
                nodes.into_iter().rev().for_each(|an| self.push(actions, an, revoke));
            }
            for member in members.iter().filter(|member| is_gone(member)) {
                let leaf = |place| self.forest.tree(place).and_then(|tree| tree.set().attached(member.node));
                let leaves: BTreeSet<AnId> = trees.iter().filter_map(|&(_, place)| leaf(place)).collect();
                leaves.into_iter().for_each(|an| self.push(actions, an, Step::Lose { address: member.process }));
            }
        }
    }

    /// Whether a job depends on a part. For a job without resources: whether it did.
    fn depends(&self, job: u32, part: Part) -> bool {
        let Some(job) = self.jobs.get(&job) else { return false };
        let mut trees = job.trees.iter().filter_map(|&(_, place)| self.forest.tree(place));
        trees.any(|tree| {
            let nodes = presence(tree, &job.members).unwrap_or_default();
            let ends = job.members.iter().map(|member| member.node);
            footprint(&self.topology, tree, nodes.into_keys(), ends).contains(&part)
        })
    }

    fn rebuild(&mut self) {
        let rebuilt = self.forest.rebuild(&self.topology, &self.spec, &self.lost);
        // Before the first node is back, a failure is no news.
        let has_nodes = self.lost_nodes().len() < self.sites.len();
        if let (Err(error), true) = (rebuilt, has_nodes) {
            warn!("no trees can be made over the parts that are not lost: {error}");
        }
    }

    pub(crate) fn has_part(&self, part: Part) -> bool {
        match part {
            Part::Router(router) => router.0 < self.topology.routers(),
            Part::Node(node) => node.0 < self.topology.nodes(),
            Part::Channel(channel) => channel < self.topology.channels(),
            Part::An(an) => (an.0 as usize) < self.sites.len(),
        }
    }

    /// Whether an aggregation node is lost, alone or with its router or host.
    pub(crate) fn is_lost(&self, an: AnId) -> bool {
        let site = self.sites.get(an.0 as usize).copied();
        let mut seats = site.into_iter().flat_map(|site| seats(&self.topology, site));
        self.lost.contains(&Part::An(an)) || seats.any(|part| self.lost.contains(&part))
    }

    fn lost_nodes(&self) -> BTreeSet<AnId> {
        (0..self.sites.len() as u32).map(AnId).filter(|&an| self.is_lost(an)).collect()
    }
}
