// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The aggregation nodes of a run: a node (`nic::aggregation`) in each switch that the job uses, and on each host that
//! ranks share.
//!
//! A node is numbered after the ranks and has no turns. The machine's file prices its messages: the classes
//! `aggregation` and `aggregation_result` at their source, `aggregation_request` and `aggregation` at their target. To a
//! switch the node of a host is a member; `host_reduction.rs` has the costs in its memory. An [`super::Aggregation`] has
//! the nodes and the job's share of them.
//!
//! Invariants
//! 1. Messages of a node are sent in the order of `Node::next_send`, and have then left the unit.
//! 2. A node accepts a message from a rank only if it names the rank's own NIC as the sender.
//! 3. A message that a node refuses changes nothing there, and is counted ([`Statistics::aggregation_refused`]).
//!
//! [`Statistics::aggregation_refused`]: super::Statistics
//!
//! Costs: tables of each node: 200 bytes a group, 40 a child of a group, 48 an operation, and the operands.

use selvedge_fabric::aggregation::Site;
use selvedge_fabric::{NodeId, RouterId};
use selvedge_manager::{Action, Manager};
use selvedge_nic::Payload;
use selvedge_nic::aggregation::message::{Message, MessageError, Sender};
use selvedge_nic::aggregation::{OwnNode, Refusal};
use selvedge_nic::tables::{Command, Request, Side};

use crate::machine::Machine;
use crate::machine::graph::Class;
use crate::time::Time;

use super::aggregation::{Aggregation, GROUPS_AT, NODES_AT, Seat};
use super::events::Event;
use super::fabric::Fabric;
use super::host_reduction::HostReduction;
use super::multicast::MulticastGroups;
use super::nodes::Nodes;
use super::ranks::{Bytes, Ranks};

#[derive(Debug, Default)]
pub(super) struct Switches {
    manager: Option<Manager>,
    nodes: Vec<AggregationNode>,
    /// Its first node's number among those of the ranks.
    first: u32,
    ports: u32,
    /// Nodes of the topology, those inside switches included.
    all_nodes: u32,
    job: u32,
    groups: MulticastGroups,
}

#[derive(Debug)]
struct AggregationNode {
    /// Its number in the trees.
    an: u32,
    /// Its first node of the topology.
    node: u32,
    /// The router at its links, whether it is inside or the host is attached there.
    router: RouterId,
    /// On a host: the reduction in the host's memory.
    host: Option<HostReduction>,
    own: OwnNode,
}

impl AggregationNode {
    fn address(&self) -> u64 {
        NODES_AT | u64::from(self.an)
    }
}

impl Switches {
    /// Makes the nodes as the manager has set them. The machine gets the topology that contains them.
    pub fn new(aggregation: &Aggregation, ranks: u32, machine: &mut Machine) -> Switches {
        let Aggregation { granted, seats, actions, manager, topology, routing, inside_from, ports, .. } = aggregation;
        (machine.topology, machine.routing) = (topology.clone(), routing.clone());
        machine.network.inside_from = *inside_from;
        let mut next = *inside_from;
        let node = |(&an, seat): (&u32, &Seat)| {
            let own = OwnNode::new(seat.limits);
            match seat.site {
                Site::Host(node) => {
                    let (router, host) = (topology.attachment(node).0, Some(HostReduction::new(seat.children)));
                    AggregationNode { an, node: node.0, router, host, own }
                }
                Site::Router(router) => {
                    let node = next;
                    next += *ports;
                    AggregationNode { an, node, router, host: None, own }
                }
            }
        };
        let mut made = Switches {
            nodes: seats.iter().map(node).collect(),
            first: ranks,
            ports: *ports,
            job: granted.job,
            ..Switches::default()
        };
        made.all_nodes = next;
        made.carry_out(actions);
        made.manager = Some(manager.clone());
        made
    }

    /// Carries out the manager's actions at the nodes. The nodes inform the processes.
    fn carry_out(&mut self, actions: &[Action]) {
        for action in actions {
            let Action::Node { address, step, .. } = action else { continue };
            let Some(place) = self.place(*address) else { continue };
            if step.carry_out(&mut self.nodes[place].own.node()).is_err() {
                log::error!("aggregation node {address:#x} has no room for {step:?}");
            }
        }
    }

    /// Returns the first node of the topology of each aggregation node.
    pub fn nodes(&self) -> impl Iterator<Item = u32> + '_ {
        self.nodes.iter().map(|node| node.node)
    }

    /// Returns the number of nodes of the topology, including those inside switches.
    pub fn all_nodes(&self) -> usize {
        self.all_nodes as usize
    }

    fn place(&self, address: u64) -> Option<usize> {
        let an = address.checked_sub(NODES_AT).and_then(|an| u32::try_from(an).ok())?;
        self.nodes.binary_search_by_key(&an, |node| node.an).ok()
    }

    // ---- Addresses -----------------------------------------------------------------------------------------------

    /// Whether this number is an aggregation node, not a rank.
    #[inline]
    pub fn is_node(&self, rank: u32) -> bool {
        !self.nodes.is_empty() && rank != u32::MAX && rank >= self.first
    }

    /// Returns the number, among those of the ranks, of the aggregation node with this address.
    #[inline]
    pub fn node_at(&self, address: u64) -> Option<u32> {
        if address < NODES_AT {
            return None;
        }
        self.place(address).map(|place| self.first + place as u32)
    }

    fn node_of(&self, rank: u32) -> Option<&AggregationNode> {
        rank.checked_sub(self.first).and_then(|place| self.nodes.get(place as usize))
    }

    /// Whether this number is the aggregation node of a host.
    #[inline]
    pub fn is_on_host(&self, rank: u32) -> bool {
        self.node_of(rank).is_some_and(|node| node.host.is_some())
    }

    /// Whether a message of a rank to this address goes to the aggregation node of its host.
    #[inline]
    pub fn is_own_host<R: Ranks>(&self, nodes: &Nodes<R>, rank: u32, target: u64) -> bool {
        let node = self.node_at(target);
        node.is_some_and(|node| self.is_on_host(node) && nodes.node_of(node) == nodes.node_of(rank))
    }

    /// Returns the node of the topology at which a rank or an aggregation node exchanges messages with another. A
    /// switch with several inner ports uses that of the link to the other.
    #[inline]
    pub fn node_towards<R: Ranks>(&self, nodes: &Nodes<R>, rank: u32, other: u32) -> u32 {
        let node = nodes.node_of(rank);
        match self.ports > 1 && self.is_node(rank) && !self.is_on_host(rank) {
            true => node + self.inner_port(nodes, rank, other),
            false => node,
        }
    }

    fn inner_port<R: Ranks>(&self, nodes: &Nodes<R>, rank: u32, other: u32) -> u32 {
        let (topology, router) = (&nodes.machine.topology, self.nodes[(rank - self.first) as usize].router);
        let link = match self.node_of(other).filter(|node| node.host.is_none()) {
            Some(there) => topology.neighbours(router).find(|(_, next)| *next == there.router).map(|(port, _)| port),
            None => Some(topology.attachment(NodeId(nodes.node_of(other))).1),
        };
        link.map_or(0, |port| u32::from(port.0) % self.ports)
    }

    /// Returns the class of a message between a rank and an aggregation node, or between two nodes. The node of a host
    /// is a member to those in switches.
    pub fn class(&self, from: u32, to: u32) -> Class {
        let is_in_switch = |rank| self.is_node(rank) && !self.is_on_host(rank);
        match (is_in_switch(from), is_in_switch(to)) {
            (true, true) => Class::Aggregation,
            (true, false) => Class::AggregationResult,
            (false, false) if self.is_node(from) => Class::AggregationResult,
            (false, _) => Class::AggregationRequest,
        }
    }

    // ---- Messages to nodes ---------------------------------------------------------------------------------------

    /// Returns the time at which the aggregation node of a host has taken a rank's message that is in memory at `now`.
    pub fn taken_at<R: Ranks>(&mut self, nodes: &Nodes<R>, now: Time, index: u32) -> Time {
        let message = &nodes.messages[index];
        let node = message.to.checked_sub(self.first).and_then(|place| self.nodes.get_mut(place as usize));
        let host = node.and_then(|node| node.host.as_mut());
        host.map_or(now, |host| host.take(&nodes.machine.host, now, message.bytes))
    }

    /// Delivers a message at an aggregation node, which sends the resulting messages.
    pub fn receive<R: Ranks>(&mut self, nodes: &mut Nodes<R>, now: Time, index: u32) {
        let message = &mut nodes.messages[index];
        let payload = std::mem::take(&mut message.payload);
        let (request, at, started, from) = (message.command.request, message.to, message.started, message.from);
        // A rank may forge the initiator. Such a message is refused, since the answer would go to the forged initiator.
        let is_genuine =
            self.is_node(from) || nodes.ranks.route(from, request.initiator, nodes.ranks.member_ni()) == Some(from);
        let place = (at - self.first) as usize;
        let node = &mut self.nodes[place];
        let address = node.address();
        let taken = match is_genuine {
            true => node.own.node().receive(&mut Payload(&payload), &request),
            false => Err(Refusal::Message(MessageError::Malformed)),
        };
        nodes.statistics.messages += 1;
        nodes.statistics.payload_bytes += payload.len() as u64;
        nodes.statistics.delivered_after(now.saturating_sub(started));
        nodes.count_for_job(from, payload.len() as u64, Some(now.saturating_sub(started)));
        nodes.rank_states[at].note(&[now.0, u64::from(request.kind), taken.is_ok().into()]);
        nodes.free_message(index);
        match taken {
            Ok(_) if !self.is_node(from) => {
                self.groups.follow(from, &request);
                nodes.statistics.casts_repeated += u64::from(is_repeat(&request));
            }
            Ok(_) => {}
            Err(refusal) => {
                nodes.statistics.aggregation_refused += 1;
                log::debug!("aggregation node {address:#x} refused {request:?}: {refusal:?}");
                if let Some((sender, answer)) = refusal.answer(&request) {
                    self.send(nodes, now, place, (sender.address, sender.key), answer, Bytes::new());
                }
            }
        }
        let seen = if self.is_node(from) { self.seen_at(nodes, now, place) } else { now };
        self.send_due(nodes, seen, place);
    }

    /// Reports a loss to the manager at once, and carries out its actions at the nodes (seed 001, section III.E).
    pub fn change<R: Ranks>(
        &mut self,
        nodes: &mut Nodes<R>,
        now: Time,
        change: impl FnOnce(&mut Manager) -> Vec<Action>,
    ) {
        let Some(manager) = &mut self.manager else { return };
        let actions = change(manager);
        self.carry_out(&actions);
        (0..self.nodes.len()).for_each(|place| self.send_due(nodes, now, place));
    }

    /// Handles a message that the fabric has lost for good: the groups of its job fail. The rank learns it from its
    /// NIC, since a message from its node may be lost as well.
    pub fn lose<R: Ranks>(&mut self, nodes: &mut Nodes<R>, now: Time, index: u32) {
        let (from, to) = (nodes.messages[index].from, nodes.messages[index].to);
        nodes.conclude(now, index);
        let of_rank = match (self.node_of(from), self.node_of(to)) {
            (None, Some(node)) => Some((from, node.address())),
            (Some(node), None) => Some((to, node.address())),
            _ => None,
        };
        if let Some((rank, address)) = of_rank {
            nodes.ranks.lose_aggregation_node(rank, address);
            nodes.wake(rank, now);
        }
        let job = self.job;
        self.change(nodes, now, |manager| manager.job_lost(job));
    }

    fn send_due<R: Ranks>(&mut self, nodes: &mut Nodes<R>, now: Time, place: usize) {
        while let Some(due) = self.nodes[place].own.node().next_send(1) {
            let own = &mut self.nodes[place].own;
            let payload = Bytes::from_slice(own.operands.get(due.payload).unwrap_or_default());
            own.node().finish_send(due.id);
            self.send(nodes, now, place, (due.to, due.key), due.message, payload);
        }
    }

    /// Sends a message of an aggregation node. One of a host waits for its processor.
    fn send<R: Ranks>(
        &mut self,
        nodes: &mut Nodes<R>,
        now: Time,
        place: usize,
        (to, key): (u64, u64),
        message: Message,
        payload: Bytes,
    ) {
        let rank = self.first + place as u32;
        let node = &mut self.nodes[place];
        let command = Command {
            request: message.encode(Sender { address: node.address(), key }),
            target: to,
            user_ptr: 0,
            source: Side::NOWHERE,
            sink: Side::NOWHERE,
        };
        let at = match &mut node.host {
            None => now,
            Some(host) if to >= NODES_AT => host.post(&nodes.machine, now, payload.len() as u64),
            Some(host) => host.spread(&nodes.machine.host, now, payload.len() as u64),
        };
        let index = nodes.new_message(now, rank, nodes.ranks.member_ni(), Box::new(command), payload);
        nodes.events.schedule(at, Event::Issue(index));
    }

    /// Returns the time at which a node has seen a message of another. That of a host polls its adapter.
    fn seen_at<R: Ranks>(&self, nodes: &Nodes<R>, now: Time, place: usize) -> Time {
        let is_on_host = self.nodes[place].host.is_some();
        if is_on_host { HostReduction::seen(&nodes.machine, now) } else { now }
    }

    // ---- Multicast -----------------------------------------------------------------------------------------------

    /// Whether a message of an aggregation node is for a multicast group.
    #[inline]
    pub fn is_cast(&self, from: u32, target: u64) -> bool {
        (GROUPS_AT..NODES_AT).contains(&target) && self.is_node(from)
    }

    /// Returns the tree of a message to a multicast group. `None`: no such group, or no route to a member.
    pub fn tree_of<R: Ranks>(&mut self, nodes: &Nodes<R>, fabric: &mut Fabric, index: u32) -> Option<u32> {
        let message = &nodes.messages[index];
        // An aggregation node casts from its first inner port.
        let source = nodes.node_of(message.from);
        self.groups.tree((message.command.target as u32, source), &nodes.placement, &nodes.machine, fabric)
    }

    /// Makes the messages of a cast for the members of its group on a node.
    pub fn copies<R: Ranks>(&self, nodes: &mut Nodes<R>, index: u32, node: u32) -> Vec<u32> {
        let members = self.groups.members(nodes.messages[index].command.target as u32);
        let is_there = |(rank, _): &&(u32, u64)| nodes.placement[*rank as usize] == node;
        let there: Vec<(u32, u64)> = members.iter().filter(is_there).copied().collect();
        there.into_iter().map(|member| new_copy(nodes, index, member, node)).collect()
    }
}

fn is_repeat(request: &Request) -> bool {
    matches!(Message::decode(request), Ok((_, Message::Repeat(_))))
}

fn new_copy<R: Ranks>(nodes: &mut Nodes<R>, index: u32, (rank, address): (u32, u64), node: u32) -> u32 {
    let message = &nodes.messages[index];
    let (from, ni, started, number, left) = (message.from, message.ni, message.started, message.number, message.left);
    let (cast, class, source, framed_bytes) = (message.cast, message.class, message.source, message.framed_bytes);
    let (mut command, payload) = (message.command.clone(), message.payload.clone());
    command.target = address;
    let copy = nodes.new_message(started, from, ni, command, payload);
    let message = &mut nodes.messages[copy];
    (message.to, message.source, message.target) = (rank, source, node);
    (message.cast, message.class, message.framed_bytes) = (cast, class, framed_bytes);
    // A trace shows the copies as one message.
    (message.number, message.left, message.packets_to_come) = (number, left, 1);
    copy
}
