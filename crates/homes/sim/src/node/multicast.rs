// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results to all members of a group at once (seed 001, section III.D: a multicast group as the target).
//!
//! ```text
//! root ─ aggregation_multicast ─> inner port ─> its switch ─┬─> switch ─┬─> member
//!                                                           │           └─> member
//!                                                           └─> switch ──── ...
//! ```
//!
//! The root casts to the address of the group. Its packet is copied by the switches (`network/multicast.rs`), and by the adapter of a node
//! with several members. Each copy is a message of its own from the node on. The tree leads from the root to the nodes of all members that
//! have joined at that time, and is made when the group first casts.
//!
//! Invariants
//! 1. A member is in the multicast group from its join until it leaves, as its leaf node has taken both.
//! 2. A copy that is lost fails nothing, and is counted ([`super::Statistics::casts_lost`]). Members and nodes have a reliability of their own above
//!    (`nic::aggregation`).
//!
//! Costs: a message of the fabric for the cast, O(members) at the targets. 16 bytes for each member of each group.

use std::collections::BTreeMap;

use selvedge_fabric::{MulticastTree, NodeId};
use selvedge_nic::aggregation::message::{Message as AggregationMessage, Target};
use selvedge_nic::tables::Request;

use crate::machine::graph::Class;
use crate::machine::{AggregationModel, Machine};
use crate::network::{ArrivalTimes, Network};
use crate::time::Time;

use super::aggregation::{Aggregation, AggregationError, NODES_AT};
use super::fabric::AnyNetwork;
use super::ranks::Ranks;
use super::run::{Event, NONE, Simulation};

/// Multicast groups have this network id, and as process id the job's number of the group.
const GROUPS_AT: u64 = 0xffff_ffe0 << 32;

/// The multicast groups of a job.
#[derive(Debug, Default)]
pub(super) struct Receivers {
    groups: BTreeMap<u32, Group>,
    /// Trees that were made: the node of the root, and the members' nodes.
    trees: BTreeMap<(u32, Vec<u32>), u32>,
}

#[derive(Debug, Default)]
struct Group {
    /// Ranks, and the addresses of their NICs.
    members: Vec<(u32, u64)>,
    /// None: it is to be made, or to be looked up.
    tree: Option<u32>,
}

/// Whether the machine can do what its file says of the distribution of results.
pub(super) fn check(machine: &Machine, model: &AggregationModel) -> Result<(), AggregationError> {
    if model.distribution.is_none() {
        return Ok(());
    }
    if !Network::can_cast(&machine.network, machine.routing.deadlock_free()) {
        return Err(AggregationError::NoCast);
    }
    let (frame, packet) =
        (machine.graph.path(Class::AggregationMulticast).frame_bytes, machine.network.link.packet_bytes);
    let bytes = u64::from(model.payload_bytes);
    if bytes + frame > packet.into() { Err(AggregationError::LongCast { bytes, packet }) } else { Ok(()) }
}

impl Aggregation {
    /// The target of results of the group with this number. None: they come down the tree.
    pub fn target(&self, number: u32) -> Option<Target> {
        self.distribution.map(|way| Target::multicast(GROUPS_AT | u64::from(number), way))
    }
}

impl<R: Ranks> Simulation<R> {
    /// Whether a message of an aggregation node is for a multicast group.
    #[inline]
    pub(super) fn is_cast(&self, from: u32, target: u64) -> bool {
        (GROUPS_AT..NODES_AT).contains(&target) && self.is_aggregation_node(from)
    }

    /// A leaf node has taken a message of a rank: it joins or leaves the multicast group, too.
    pub(super) fn note_receiver(&mut self, rank: u32, request: &Request) {
        if self.is_aggregation_node(rank) {
            return;
        }
        let groups = &mut self.aggregation.receivers.groups;
        match AggregationMessage::decode(request) {
            Ok((sender, AggregationMessage::Join(join))) => {
                let group = groups.entry(join.number).or_default();
                if !group.members.contains(&(rank, sender.address)) {
                    group.members.push((rank, sender.address));
                    group.tree = None;
                }
            }
            Ok((_, AggregationMessage::Leave(child))) => {
                let Some(group) = groups.get_mut(&child.number) else { return };
                group.members.retain(|member| member.0 != rank);
                group.tree = None;
                if group.members.is_empty() {
                    groups.remove(&child.number);
                }
            }
            Ok((_, AggregationMessage::Repeat(_))) => self.statistics.casts_repeated += 1,
            _ => {}
        }
    }

    /// A root casts a result.
    pub(super) fn cast(&mut self, now: Time, index: u32) {
        let message = &self.messages[index as usize];
        let (from, number) = (message.from, message.command.target as u32);
        let Some(tree) = self.tree_of(number, self.cast_source(from)) else {
            // Nobody is there, or nobody can be reached. Members ask for the result.
            return self.free_message(index);
        };
        self.messages[index as usize].cast = tree;
        self.emit(now, index);
    }

    /// The tree of a group, from the node of its root. None: it has no members, or there is no way to one.
    fn tree_of(&mut self, number: u32, source: u32) -> Option<u32> {
        let Simulation { machine, network, nodes, aggregation, .. } = self;
        let group = aggregation.receivers.groups.get_mut(&number)?;
        if group.tree.is_some() {
            return group.tree;
        }
        let mut targets: Vec<u32> = group.members.iter().map(|(rank, _)| nodes[*rank as usize]).collect();
        targets.sort_unstable();
        targets.dedup();
        let trees = &mut aggregation.receivers.trees;
        let tree = match trees.get(&(source, targets.clone())) {
            Some(&tree) => tree,
            None => {
                let to: Vec<NodeId> = targets.iter().copied().map(NodeId).collect();
                let made = MulticastTree::new(&machine.topology, &machine.routing, NodeId(source), &to).ok()?;
                let tree = match network {
                    AnyNetwork::Packets(network) => network.add_tree(&made),
                    AnyNetwork::Messages(network) => network.add_tree(&made),
                };
                trees.insert((source, targets), tree);
                tree
            }
        };
        group.tree = Some(tree);
        group.tree
    }

    /// Nodes at which packets of a message arrive one by one, if it goes along a tree; else 0.
    pub(super) fn cast_targets(&self, tree: u32) -> u32 {
        match &self.network {
            AnyNetwork::Packets(network) if tree != NONE => network.tree_targets(tree),
            _ => 0,
        }
    }

    /// The message of a copy, at a member.
    fn new_copy(&mut self, index: u32, (rank, address): (u32, u64), node: u32) -> u32 {
        let message = &self.messages[index as usize];
        let (from, ni, started, number, left) =
            (message.from, message.ni, message.started, message.number, message.left);
        let (cast, class, source, framed_bytes) = (message.cast, message.class, message.source, message.framed_bytes);
        let (mut command, payload) = (message.command.clone(), message.payload.clone());
        command.target = address;
        let copy = self.new_message(started, from, ni, command, payload);
        let message = &mut self.messages[copy as usize];
        (message.to, message.source, message.target) = (rank, source, node);
        (message.cast, message.class, message.framed_bytes) = (cast, class, framed_bytes);
        // A trace shows them as one.
        (message.number, message.left, message.packets_to_come) = (number, left, 1);
        copy
    }

    /// The members of a cast's group on a node.
    fn members_at(&self, index: u32, node: u32) -> Vec<(u32, u64)> {
        let number = self.messages[index as usize].command.target as u32;
        let members = self.aggregation.receivers.groups.get(&number).map(|group| &group.members[..]);
        let is_there = |(rank, _): &&(u32, u64)| self.nodes[*rank as usize] == node;
        members.unwrap_or_default().iter().filter(is_there).copied().collect()
    }

    /// A copy has arrived at a node. Gives the time at which the node's units have admitted it.
    pub(super) fn copy_arrived(&mut self, now: Time, index: u32, node: u32, packet: (Time, u32)) -> Time {
        let mut taken = now;
        for member in self.members_at(index, node) {
            let copy = self.new_copy(index, member, node);
            taken = taken.max(self.packet_arrived(now, copy, packet));
        }
        self.copy_over(index);
        taken
    }

    /// The fabric has lost a copy.
    pub(super) fn copy_lost(&mut self, index: u32) {
        self.statistics.casts_lost += 1;
        self.copy_over(index);
    }

    fn copy_over(&mut self, index: u32) {
        let message = &mut self.messages[index as usize];
        message.packets_to_come = message.packets_to_come.saturating_sub(1);
        if message.packets_to_come == 0 {
            self.free_message(index);
        }
    }

    /// The model of whole messages has sent all copies.
    pub(super) fn copies_depart(&mut self, index: u32, arrivals: &[(NodeId, ArrivalTimes)]) {
        for (node, times) in arrivals {
            for member in self.members_at(index, node.0) {
                let copy = self.new_copy(index, member, node.0);
                self.messages[copy as usize].head = times.head;
                self.queue.schedule(times.tail, Event::Arrived(copy));
            }
        }
        self.free_message(index);
    }
}
