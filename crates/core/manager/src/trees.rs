// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The trees that exist, and their numbers.
//!
//! After a loss, or when a part is back, a new set of trees is made over the usable parts. Its trees get new numbers.
//! Jobs that the loss does not affect stay on the old trees, with the old numbers. An old tree ends when no job has it.
//! If no number is free, the new tree waits for one, and the old trees serve the jobs that they can.
//!
//! Invariants
//! 1. A number belongs to one tree, and is below `Limits::trees`.
//! 2. No node of a tree has more children than a group may have, and no path to a root more nodes than a join has
//!    levels.
//! 3. A set is kept while one of its trees has a number or a job. It can be made again from the parts that were lost
//!    when it was made.
//!
//! Cost: that of the trees, O(links + nodes) for each piece of a network that has come apart.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::aggregation::Part;
use selvedge_fabric::{NodeId, Peer, RouterId, Topology, Tree, TreeError, TreeSet, TreeSpec};
use selvedge_nic::aggregation::Limits;
use selvedge_nic::aggregation::records::LEVELS_MAX;

const DEPTH_MAX: u32 = LEVELS_MAX as u32 - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub set: u32,
    pub index: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    /// The parts that were lost when the set was made.
    pub lost: BTreeSet<Part>,
    pub trees: TreeSet,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Forest {
    pub sets: BTreeMap<u32, Set>,
    pub numbers: BTreeMap<u16, Place>,
    /// The set whose trees new jobs get. None: the rest of the network has no trees.
    pub current: Option<u32>,
}

#[derive(Default)]
pub(crate) struct Renewed {
    pub ended: Vec<(u16, Place)>,
    pub begun: Vec<(u16, Place)>,
}

impl Forest {
    pub fn tree(&self, place: Place) -> Option<Tree<'_>> {
        self.sets.get(&place.set)?.trees.tree(place.index as usize)
    }

    /// Makes trees over the parts that are not lost. Existing trees stay.
    pub fn rebuild(&mut self, topology: &Topology, spec: &TreeSpec, lost: &BTreeSet<Part>) -> Result<(), TreeError> {
        self.current = None;
        let trees = build(topology, spec, lost)?;
        if let Some((&known, _)) = self.sets.iter().find(|(_, set)| set.trees == trees) {
            self.current = Some(known);
            return Ok(());
        }
        self.current = (0..).find(|number| !self.sets.contains_key(number));
        self.sets.extend(self.current.map(|number| (number, Set { lost: lost.clone(), trees })));
        Ok(())
    }

    /// Ends old trees without jobs, and numbers new ones. `used`: numbers that jobs have; `held`: sets that jobs have.
    pub fn renew(&mut self, limits: &Limits, used: &BTreeSet<u16>, held: &BTreeSet<u32>) -> Renewed {
        let mut renewed = Renewed::default();
        if let Some(current) = self.current {
            let is_over = |number: &u16, place: &Place| place.set != current && !used.contains(number);
            renewed.ended = self.numbers.iter().filter(|(n, p)| is_over(n, p)).map(|(&n, &p)| (n, p)).collect();
            self.numbers.retain(|number, place| !is_over(number, place));
            let trees = self.sets.get(&current).map_or(0, |set| set.trees.len() as u32);
            for place in (0..trees).map(|index| Place { set: current, index }) {
                if self.numbers.values().any(|known| *known == place) {
                    continue;
                }
                let free = (0..limits.trees as u16).find(|number| !self.numbers.contains_key(number));
                let Some(number) = free else { break };
                self.numbers.insert(number, place);
                renewed.begun.push((number, place));
            }
        }
        let is_needed = |set: &u32| {
            Some(*set) == self.current || held.contains(set) || self.numbers.values().any(|p| p.set == *set)
        };
        // The caller still reads trees that have just ended, so their sets go with the next change.
        let ended: BTreeSet<u32> = renewed.ended.iter().map(|(_, place)| place.set).collect();
        self.sets.retain(|set, _| is_needed(set) || ended.contains(set));
        renewed
    }
}

/// Limits a specification of trees to what nodes with these limits can serve.
pub(crate) fn fitted(spec: &TreeSpec, limits: &Limits) -> TreeSpec {
    let depth_max = spec.depth_max.map(|depth| depth.min(DEPTH_MAX));
    TreeSpec {
        trees: spec.trees.min(limits.trees),
        radix_max: spec.radix_max.min(limits.children),
        depth_max,
        ..spec.clone()
    }
}

/// Makes trees over the parts that are not lost: if these are apart, over the piece with most end nodes.
pub(crate) fn build(topology: &Topology, spec: &TreeSpec, lost: &BTreeSet<Part>) -> Result<TreeSet, TreeError> {
    let apart = apart(topology, lost);
    let is_apart = |part: Part| matches!(part, Part::Node(node) if apart.contains(&node));
    let usable = |part: Part| !lost.contains(&part) && !is_apart(part);
    let set = TreeSet::within(topology, spec, usable)?;
    if set.trees().all(|tree| tree.depth() <= DEPTH_MAX) {
        return Ok(set);
    }
    TreeSet::within(topology, &TreeSpec { depth_max: Some(DEPTH_MAX), ..spec.clone() }, usable)
}

/// The end nodes that do not reach the largest piece of the network.
fn apart(topology: &Topology, lost: &BTreeSet<Part>) -> BTreeSet<NodeId> {
    if !lost.iter().any(|part| matches!(part, Part::Router(_) | Part::Channel(_))) {
        return BTreeSet::new();
    }
    let is_there = |router: RouterId| !lost.contains(&Part::Router(router));
    let cost = |router: RouterId, port| {
        let Peer::Router { router: next, port: back } = topology.peer(router, port) else { return None };
        let channels = [topology.channel(router, port), topology.channel(next, back)];
        let is_whole = !channels.iter().any(|&channel| lost.contains(&Part::Channel(channel)));
        (is_there(router) && is_there(next) && is_whole).then_some(1)
    };
    let router = |node: NodeId| topology.attachment(node).0;
    let is_usable = |&node: &NodeId| {
        let (router, port) = topology.attachment(node);
        let channels = [topology.injection_channel(node), topology.channel(router, port)];
        is_there(router)
            && !lost.contains(&Part::Node(node))
            && !channels.iter().any(|&channel| lost.contains(&Part::Channel(channel)))
    };
    let mut left: Vec<NodeId> = (0..topology.nodes()).map(NodeId).filter(is_usable).collect();
    let all = left.clone();
    let mut largest: Vec<NodeId> = Vec::new();
    while left.len() > largest.len() {
        let Some(&first) = left.first() else { break };
        let costs = topology.costs(&[router(first)], cost);
        let (part, rest) = left.into_iter().partition(|&node| costs[router(node).0 as usize] != u64::MAX);
        left = rest;
        largest = if largest.len() < Vec::len(&part) { part } else { largest };
    }
    let largest: BTreeSet<NodeId> = largest.into_iter().collect();
    all.into_iter().filter(|node| !largest.contains(node)).collect()
}
