// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Begin and end of jobs. A beginning job gets trees and a quota.
//!
//! Invariants
//! 1. A job number is used once, and a key belongs to one job at a time.
//! 2. No part of the network that an open job depends on is lost.
//! 3. A job without resources is known until it ends, so that its members can ask for the reason.
//!
//! Cost of a beginning: O(trees × (members × depth + jobs)), and the footprints of the trees that are considered.

use std::collections::{BTreeMap, BTreeSet};

use log::info;
use selvedge_fabric::{AnId, NodeId, Tree};
use selvedge_nic::aggregation::Quota;

use crate::Manager;
use crate::actions::{Action, Step};
use crate::footprint::footprint;
use crate::grant::{Granted, GrantedTree, way};
use crate::job::{Job, JobError, JobRequest, Member, Presence};
use crate::quota;
use crate::trees::Place;

/// Returns a job's presence at the nodes of a tree. The error is an end node that is not attached.
pub(crate) fn presence(tree: Tree, members: &[Member]) -> Result<BTreeMap<AnId, Presence>, NodeId> {
    let mut nodes: BTreeMap<AnId, Presence> = BTreeMap::new();
    for member in members {
        let home = tree.set().attached(member.node).ok_or(member.node)?;
        for an in way(tree, home) {
            let level = tree.level(an).unwrap_or(0);
            let node = nodes.entry(an).or_insert(Presence { children: 0, level });
            node.children += 1;
            if node.children > 1 {
                break;
            }
        }
    }
    Ok(nodes)
}

pub(crate) fn unite(nodes: &mut BTreeMap<AnId, Presence>, more: &BTreeMap<AnId, Presence>) {
    for (&an, presence) in more {
        let node = nodes.entry(an).or_insert(*presence);
        node.children = node.children.max(presence.children);
        node.level = node.level.min(presence.level);
    }
}

/// Resources chosen for a job: trees, presence at their nodes, quota.
type Choice = (Vec<(u16, Place)>, BTreeMap<AnId, Presence>, Quota);

impl Manager {
    /// Begins a job. `key`: 64 random bits. The grant is valid once the actions are carried out.
    pub fn begin_job(&mut self, request: &JobRequest, key: u64) -> Result<(Granted, Vec<Action>), JobError> {
        let JobRequest { external, ref members, quota: wanted, trees, priority } = *request;
        let Quota { groups, credits, bytes } = wanted;
        info!(
            "Begin Job: job_id_external {external:#x} members {} absolute quota values requested {{ ud:{bytes} o:{credits} g:{groups} }} \
             num_trees {trees} priority {priority}",
            members.len()
        );
        self.check_members(members)?;
        if self.jobs.values().any(|job| job.key == key) {
            return Err(JobError::KeyTaken);
        }
        let (trees, nodes, quota) = self.choose(request)?;
        let job = self.next_job;
        // Late messages of an ended job may arrive: a number is used again only after 2^32 jobs.
        self.next_job = self.next_job.wrapping_add(1).max(1);
        while self.jobs.contains_key(&self.next_job) {
            self.next_job = self.next_job.wrapping_add(1).max(1);
        }
        let members = members.clone();
        self.jobs.insert(job, Job { external, key, priority, quota, members, trees, revoked: None, nodes });
        let granted = self.granted(job)?;
        let Quota { groups, credits, bytes } = quota;
        let count = granted.trees.len();
        info!("job {job}: Allocated quota {{ q:{count}, ud:{bytes} o:{credits} g:{groups} }}");
        let mut actions = Vec::new();
        for an in self.top_down(job) {
            self.push(&mut actions, an, Step::Admit { job, key, quota });
        }
        Ok((granted, self.finish(actions)))
    }

    /// Ends a job. Its resources are free when the actions are carried out.
    pub fn end_job(&mut self, job: u32) -> Result<Vec<Action>, JobError> {
        let mut actions = Vec::new();
        let nodes = self.top_down(job);
        let Job { key, external, .. } = self.jobs.remove(&job).ok_or(JobError::UnknownJob { job })?;
        info!("End Job: job {job} job_id_external {external:#x}");
        for an in nodes.into_iter().rev() {
            if self.is_lost(an) {
                self.owed.entry(an).or_default().insert((job, key));
            }
            self.push(&mut actions, an, Step::Forget { job, key });
        }
        self.renew(&mut actions);
        Ok(self.finish(actions))
    }

    /// Returns the grant of a job, the same as when it began: a restarted process may ask again.
    pub fn granted(&self, number: u32) -> Result<Granted, JobError> {
        let job = self.jobs.get(&number).ok_or(JobError::UnknownJob { job: number })?;
        let address = |an: AnId| self.address(an);
        let tree = |&(number, place): &(u16, Place)| {
            Some(GrantedTree::new(number, self.forest.tree(place)?, &job.members, address))
        };
        let trees = job.trees.iter().filter_map(tree).collect();
        Ok(Granted { job: number, key: job.key, quota: job.quota, members: job.members.clone(), trees })
    }

    pub(crate) fn check_members(&self, members: &[Member]) -> Result<(), JobError> {
        if members.is_empty() {
            return Err(JobError::NoMembers);
        }
        let nodes = self.topology.nodes();
        if let Some(member) = members.iter().find(|member| member.node.0 >= nodes) {
            return Err(JobError::UnknownNode { node: member.node, nodes });
        }
        let mut seen = BTreeSet::new();
        match members.iter().find(|member| !seen.insert(member.process)) {
            Some(twice) => Err(JobError::MemberTwice { process: twice.process }),
            None => Ok(()),
        }
    }

    /// Chooses resources for a job: the trees with the fewest jobs first.
    fn choose(&self, request: &JobRequest) -> Result<Choice, JobError> {
        let uses = quota::uses(self.jobs.values());
        let mut candidates: Vec<(bool, usize, u16, Place)> = Vec::new();
        for (&number, &place) in &self.forest.numbers {
            let jobs = self.jobs.values().filter(|job| job.has_tree(number)).count();
            candidates.push((Some(place.set) != self.forest.current, jobs, number, place));
        }
        candidates.sort_unstable();
        let wanted = request.trees.max(1);
        let (mut trees, mut nodes, mut quota) = (Vec::new(), BTreeMap::new(), None::<Quota>);
        let mut why = None;
        for (_, _, number, place) in candidates {
            match self.try_tree(place, request, &uses) {
                Ok((more, share)) => {
                    unite(&mut nodes, &more);
                    trees.push((number, place));
                    // Least credits and most children: no node is charged more than for one of the trees.
                    let credits = quota.map_or(share.credits, |quota| quota.credits.min(share.credits));
                    quota = Some(Quota { credits, ..share });
                    if trees.len() == wanted as usize {
                        break;
                    }
                }
                Err(error) => why = why.or(Some(error)),
            }
        }
        match quota {
            None => Err(why.unwrap_or(JobError::NoTree)),
            Some(_) if trees.len() < wanted as usize => Err(JobError::TooFewTrees { wanted, fit: trees.len() as u32 }),
            Some(quota) => Ok((trees, nodes, quota)),
        }
    }

    /// Returns the resources of a job if it gets this tree.
    fn try_tree(
        &self,
        place: Place,
        request: &JobRequest,
        uses: &BTreeMap<AnId, quota::Use>,
    ) -> Result<(BTreeMap<AnId, Presence>, Quota), JobError> {
        let tree = self.forest.tree(place).ok_or(JobError::NoTree)?;
        let nodes = presence(tree, &request.members).map_err(|node| JobError::Unattached { node })?;
        let ends = request.members.iter().map(|member| member.node);
        if !footprint(&self.topology, tree, nodes.keys().copied(), ends).is_disjoint(&self.lost) {
            return Err(JobError::CutOff);
        }
        let quota = quota::share(&self.limits, self.share, &request.quota, &nodes, uses)?;
        Ok((nodes, quota))
    }

    /// The nodes of a job, those nearest to the roots first.
    pub(crate) fn top_down(&self, job: u32) -> Vec<AnId> {
        let nodes = self.jobs.get(&job).map(|job| &job.nodes);
        let mut nodes: Vec<(u32, AnId)> = nodes.into_iter().flatten().map(|(&an, it)| (it.level, an)).collect();
        nodes.sort_unstable();
        nodes.into_iter().map(|(_, an)| an).collect()
    }
}
