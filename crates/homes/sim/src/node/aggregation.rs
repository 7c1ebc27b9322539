// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Aggregation nodes in the switches (seed 001, section III.F): each a unit behind an inner port of its switch.
//!
//! ```text
//! member ─ aggregation_request ─> leaf switch ─┐ inner port
//!                                              node ─ aggregation ─> node of the switch above ... root
//! member <─ aggregation_result ─ leaf switch <─┘
//! members <─────────────── aggregation_multicast ───────────────────────────────────────────────── root
//! ```
//!
//! An [`Aggregation`] is made before the run: the manager makes trees over the machine's topology, and admits the job. Its ranks join groups
//! with what it grants. The simulation has a node (`nic::aggregation`) in each switch that the job uses. A node is numbered behind the ranks,
//! has no turns, and costs what the machine's file says of the classes `aggregation` and `aggregation_result` at their source, and of
//! `aggregation_request` and `aggregation` at their target. What the root sends to all members at once is in `multicast.rs`.
//!
//! Invariants
//! 1. What a node sends is sent in the order in which its unit says it (`Node::next_send`), and has then left the unit.
//! 2. A node takes from a rank only what names the rank's own NIC as the sender.
//! 3. A message that a node refuses changes nothing there, and is counted ([`Statistics::aggregation_refused`]).
//!
//! [`Statistics::aggregation_refused`]: super::Statistics
//!
//! Costs: for each node its tables: 200 bytes a group, 40 a child of a group, 48 an operation, and the operands.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_fabric::aggregation::{Site, Sites};
use selvedge_fabric::{AnId, NodeId, RouterId, Routing, RoutingError, Topology, TopologyError, TreeError, TreeSpec};
use selvedge_manager::{Action, Config, Granted, GrantedTree, JobError, JobRequest, Manager, Member};
use selvedge_nic::Payload;
use selvedge_nic::aggregation::message::{Distribution, Message as AggregationMessage, MessageError, Sender};
use selvedge_nic::aggregation::{Limits, OwnNode, Quota, Refusal};
use selvedge_nic::tables::{Command, Side};

use crate::machine::Machine;
use crate::machine::graph::Class;
use crate::time::Time;

use super::multicast::{self, Receivers};
use super::ranks::{Bytes, Ranks};
use super::run::{Event, Simulation};

/// Aggregation nodes have this network id, and their number as process id.
pub(super) const NODES_AT: u64 = 0xffff_fff0 << 32;
/// The key of the job.
const KEY: u64 = 0x5e1f_ed9e;

/// Why there is no aggregation.
#[derive(Debug, thiserror::Error)]
pub enum AggregationError {
    #[error("the switches of {machine} do not reduce: its file has no [aggregation]")]
    NoNodes { machine: String },
    #[error(
        "{groups} groups of {children} children and {credits} operations of {bytes} bytes are more than an aggregation node can have: \
         form fewer groups, or lower credits, children or payload_bytes of [aggregation]"
    )]
    TooLarge { groups: u32, children: u32, credits: u32, bytes: u32 },
    #[error(
        "a group of all ranks has more children at an aggregation node than the {room} of aggregation.children: raise it, or put fewer \
         ranks on a node (--ranks-per-node)"
    )]
    TooManyChildren { room: u32 },
    #[error(
        "the routing has no way from {from} to {to}, which are neighbours in the aggregation tree: raise aggregation.children, which is \
         {children}, so that nodes find parents nearby"
    )]
    NoWay { from: String, to: String, children: u32 },
    #[error(
        "a result of {bytes} bytes and its header are longer than a packet of {packet}, which multicast needs: lower \
         aggregation.payload_bytes, or let results come down the tree (aggregation.distribution)"
    )]
    LongCast { bytes: u64, packet: u32 },
    #[error(
        "multicast needs cut-through switching and a routing without deadlocks: take them (switch.switching, routing.algorithm), or let \
         results come down the tree (aggregation.distribution)"
    )]
    NoCast,
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error(transparent)]
    Job(#[from] JobError),
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error(transparent)]
    Routing(#[from] RoutingError),
}

/// The aggregation nodes of a machine, and one job's share of them.
#[derive(Clone, Debug)]
pub struct Aggregation {
    /// What the job has: groups, credits, trees.
    pub granted: Granted,
    /// The switches whose nodes the job uses, by the number of the node.
    switches: BTreeMap<u32, RouterId>,
    limits: Limits,
    actions: Vec<Action>,
    /// It knows the machine's topology, without the nodes in the switches.
    manager: Manager,
    topology: Arc<Topology>,
    routing: Routing,
    /// The first node of the topology that is inside a switch.
    inside_from: u32,
    /// Inner ports of a switch: so many nodes of the topology are its aggregation node.
    ports: u32,
    /// How results come to members that are programs. None: down the tree alone.
    pub(super) distribution: Option<Distribution>,
}

impl Aggregation {
    /// Trees over a machine, and a job of ranks on these nodes. It may have as many groups at once.
    pub fn new(machine: &Machine, placement: &[u32], groups: u32) -> Result<Aggregation, AggregationError> {
        let none = || AggregationError::NoNodes { machine: machine.name.clone() };
        let model = machine.aggregation.as_ref().ok_or_else(none)?;
        let (groups, credits) = (groups.max(1), model.credits);
        let bytes = model.payload_bytes;
        let children = model.children;
        // What the manager charges for a group with all the children that a node has room for.
        let quota = Quota { groups, credits: groups.saturating_mul(credits), bytes };
        let blocks = selvedge_manager::quota::blocks(&quota, children);
        let operand_blocks = u32::try_from(blocks.next_power_of_two()).unwrap_or(u32::MAX);
        let limits = Limits { jobs: 1, trees: model.trees, groups, children, credits, operand_blocks }.clamped();
        if u64::from(limits.operand_blocks) < blocks || limits.groups < groups {
            return Err(AggregationError::TooLarge { groups, children, credits, bytes });
        }
        let spec = TreeSpec { trees: model.trees, radix_max: children, depth_max: None, sites: Sites::AllRouters };
        let config = Config { spec, limits, share: 100 };
        let address = |an: AnId| NODES_AT | u64::from(an.0);
        let mut manager = Manager::new(Topology::clone(&machine.topology), &config, address)?;
        let member = |(rank, node): (usize, &u32)| Member { process: rank as u64, node: NodeId(*node) };
        let request = JobRequest {
            external: 0,
            members: placement.iter().enumerate().map(member).collect(),
            quota,
            trees: 1,
            priority: 0,
        };
        let mut actions = manager.start();
        let (granted, begun) = manager.begin_job(&request, KEY).map_err(|error| match error {
            // Nodes have the operands of as many children as there may be.
            JobError::NoOperands { .. } => AggregationError::TooManyChildren { room: children },
            error => error.into(),
        })?;
        actions.extend(begun);
        let at_a_node = granted.trees.iter().flat_map(|tree| most_children(tree, placement)).max().unwrap_or(0);
        if at_a_node > children {
            return Err(AggregationError::TooManyChildren { room: children });
        }
        let mut switches = BTreeMap::new();
        let sites = manager.tree_set().map(|set| set.sites().to_vec()).unwrap_or_default();
        for node in granted.trees.iter().flat_map(|tree| tree.nodes()) {
            if let Some(Site::Router(router)) = sites.get(node.an.0 as usize) {
                switches.insert(node.an.0, *router);
            }
        }
        let ports = model.ports as usize;
        let routers: Vec<RouterId> = switches.values().flat_map(|router| std::iter::repeat_n(*router, ports)).collect();
        let topology = machine.topology.with_nodes_inside(&routers)?;
        let routing = Routing::new(&topology, machine.routing.algorithm(), machine.routing.virtual_channels())?;
        multicast::check(machine, model)?;
        let inside_from = machine.topology.nodes();
        let node_of = |an: AnId| {
            switches.keys().position(|&other| other == an.0).map(|at| NodeId(inside_from + at as u32 * model.ports))
        };
        for tree in &granted.trees {
            for (child, parent) in edges(tree).filter_map(|(a, b)| Some((node_of(a)?, node_of(b)?))) {
                for (from, to) in [(child, parent), (parent, child)] {
                    if routing.path(&topology, from, to, 0).is_err() {
                        let name = |node: NodeId| topology.router_name(topology.attachment(node).0);
                        return Err(AggregationError::NoWay { from: name(from), to: name(to), children });
                    }
                }
            }
        }
        Ok(Aggregation {
            granted,
            switches,
            limits,
            actions,
            manager,
            topology: Arc::new(topology),
            routing,
            inside_from,
            ports: model.ports,
            distribution: model.distribution,
        })
    }

    /// The node of a rank. The job's members are the ranks, in their order.
    pub fn node_of(&self, rank: u32) -> Option<NodeId> {
        self.granted.members.get(rank as usize).map(|member| member.node)
    }

    /// The number that a channel of the machine has beside the nodes in the switches.
    pub(super) fn channel(&self, channel: u32) -> u32 {
        let before = self.manager.topology();
        match before.channel_source(channel) {
            Some((router, port)) => self.topology.channel(router, port),
            None => {
                let first = before.channels() - before.nodes();
                self.topology.injection_channel(NodeId(channel.saturating_sub(first)))
            }
        }
    }
}

/// The aggregation nodes of a tree that have a parent, with it.
fn edges(tree: &GrantedTree) -> impl Iterator<Item = (AnId, AnId)> {
    tree.nodes().iter().filter_map(|node| Some((node.an, tree.nodes().get(node.parent?)?.an)))
}

/// The most children at a node of a tree that a group of ranks on these nodes has.
fn most_children(tree: &GrantedTree, placement: &[u32]) -> Option<u32> {
    let members: Vec<NodeId> = placement.iter().map(|node| NodeId(*node)).collect();
    let group = tree.group(&members)?;
    members.iter().flat_map(|member| group.expected(*member)).max().map(u32::from)
}

/// The aggregation nodes of a simulation.
#[derive(Debug, Default)]
pub(super) struct Switches {
    manager: Option<Manager>,
    /// In the order of their numbers.
    nodes: Vec<SwitchNode>,
    /// The number of the first among those of the ranks, and its node of the topology.
    first: u32,
    inside_from: u32,
    ports: u32,
    /// The job's number.
    job: u32,
    pub(super) receivers: Receivers,
}

#[derive(Debug)]
struct SwitchNode {
    /// Its number in the trees.
    an: u32,
    router: RouterId,
    own: OwnNode,
}

impl Switches {
    /// The nodes as the manager has set them. The machine gets the topology that has them.
    pub fn new(aggregation: &Aggregation, ranks: u32, machine: &mut Machine) -> Switches {
        let Aggregation { granted, switches, limits, actions, manager, topology, routing, inside_from, ports, .. } =
            aggregation;
        let job = granted.job;
        (machine.topology, machine.routing) = (topology.clone(), routing.clone());
        machine.network.inside_from = *inside_from;
        let node = |(&an, &router): (&u32, &RouterId)| SwitchNode { an, router, own: OwnNode::new(*limits) };
        let nodes = switches.iter().map(node).collect();
        let (first, inside_from, ports, receivers) = (ranks, *inside_from, *ports, Receivers::default());
        let mut made = Switches { manager: None, nodes, first, inside_from, ports, job, receivers };
        made.carry_out(actions);
        made.manager = Some(manager.clone());
        made
    }

    /// Does at the nodes what the manager says. Processes are told by their nodes. The tables were sized for it.
    fn carry_out(&mut self, actions: &[Action]) {
        for action in actions {
            let Action::Node { address, step, .. } = action else { continue };
            let Some(place) = self.place(*address) else { continue };
            if step.carry_out(&mut self.nodes[place].own.node()).is_err() {
                log::error!("aggregation node {address:#x} has no room for {step:?}");
            }
        }
    }

    /// The first node of the topology that each of them is.
    pub fn nodes(&self) -> impl Iterator<Item = u32> + use<> {
        let (first, ports) = (self.inside_from, self.ports);
        (0..self.nodes.len() as u32).map(move |place| first + place * ports)
    }

    /// Nodes of the topology, those inside switches among them.
    pub fn all_nodes(&self) -> usize {
        self.inside_from as usize + self.nodes.len() * self.ports as usize
    }

    /// The place of the node with an address.
    fn place(&self, address: u64) -> Option<usize> {
        let an = address.checked_sub(NODES_AT).and_then(|an| u32::try_from(an).ok())?;
        self.nodes.binary_search_by_key(&an, |node| node.an).ok()
    }
}

impl<R: Ranks> Simulation<R> {
    #[inline]
    pub(super) fn is_aggregation_node(&self, rank: u32) -> bool {
        !self.aggregation.nodes.is_empty() && rank != u32::MAX && rank >= self.aggregation.first
    }

    /// The number among those of the ranks of the aggregation node with this address.
    #[inline]
    pub(super) fn aggregation_node(&self, address: u64) -> Option<u32> {
        if address < NODES_AT {
            return None;
        }
        self.aggregation.place(address).map(|place| self.aggregation.first + place as u32)
    }

    /// The node of the topology at which a rank or an aggregation node exchanges messages with another. A switch with several inner ports
    /// uses that of the link to the other.
    #[inline]
    pub(super) fn node_towards(&self, rank: u32, other: u32) -> u32 {
        let node = self.nodes[rank as usize];
        match self.aggregation.ports > 1 && self.is_aggregation_node(rank) {
            true => node + self.inner_port(rank, other),
            false => node,
        }
    }

    /// The node of the topology from which an aggregation node casts: its first inner port.
    pub(super) fn cast_source(&self, rank: u32) -> u32 {
        self.nodes[rank as usize]
    }

    fn inner_port(&self, rank: u32, other: u32) -> u32 {
        let place = |rank: u32| (rank - self.aggregation.first) as usize;
        let (topology, router) = (&self.machine.topology, self.aggregation.nodes[place(rank)].router);
        let link = match self.is_aggregation_node(other) {
            true => {
                let there = self.aggregation.nodes[place(other)].router;
                topology.neighbours(router).find(|(_, next)| *next == there).map(|(port, _)| port)
            }
            false => Some(topology.attachment(NodeId(self.nodes[other as usize])).1),
        };
        link.map_or(0, |port| u32::from(port.0) % self.aggregation.ports)
    }

    pub(super) fn aggregation_class(&self, from: u32, to: u32) -> Class {
        match (self.is_aggregation_node(from), self.is_aggregation_node(to)) {
            (false, _) => Class::AggregationRequest,
            (true, true) => Class::Aggregation,
            (true, false) => Class::AggregationResult,
        }
    }

    /// A message is delivered at an aggregation node.
    pub(super) fn aggregate(&mut self, now: Time, index: u32) {
        let message = &mut self.messages[index as usize];
        let payload = std::mem::take(&mut message.payload);
        let (request, at, started, from) = (message.command.request, message.to, message.started, message.from);
        // A rank may say anything. What it says in another's name is not taken, or the answer would go to that one.
        let is_genuine =
            self.is_aggregation_node(from) || self.ranks.route(request.initiator, self.ranks.member_ni()) == Some(from);
        let place = (at - self.aggregation.first) as usize;
        let node = &mut self.aggregation.nodes[place];
        let address = NODES_AT | u64::from(node.an);
        let taken = match is_genuine {
            true => node.own.node().receive(&mut Payload(&payload), &request),
            false => Err(Refusal::Message(MessageError::Malformed)),
        };
        self.statistics.messages += 1;
        self.statistics.payload_bytes += payload.len() as u64;
        self.statistics.delivered_after(now.saturating_sub(started));
        self.statistics.note(&[u64::from(at), now.0, u64::from(request.kind), taken.is_ok().into()]);
        self.free_message(index);
        if taken.is_ok() {
            self.note_receiver(from, &request);
        }
        if let Err(refusal) = taken {
            self.statistics.aggregation_refused += 1;
            log::debug!("aggregation node {address:#x} has refused {request:?}: {refusal:?}");
            self.refuse_join(now, at, (&request, refusal));
        }
        self.send_what_is_due(now, place);
    }

    /// The manager hears of a loss at once, and says to the nodes what follows (seed 001, section III.E).
    pub(super) fn aggregation_changes(&mut self, now: Time, change: impl FnOnce(&mut Manager) -> Vec<Action>) {
        let Some(manager) = &mut self.aggregation.manager else { return };
        let actions = change(manager);
        self.aggregation.carry_out(&actions);
        (0..self.aggregation.nodes.len()).for_each(|place| self.send_what_is_due(now, place));
    }

    /// The fabric has lost a message for good: the groups of its job fail. A rank hears it from its NIC, for what its node would tell it
    /// may be lost as well.
    pub(super) fn lose_aggregation(&mut self, now: Time, index: u32) {
        let (from, to) = (self.messages[index as usize].from, self.messages[index as usize].to);
        self.conclude(now, index);
        let place = |rank: u32| rank.checked_sub(self.aggregation.first).map(|place| place as usize);
        let number = |rank| place(rank).and_then(|place| self.aggregation.nodes.get(place)).map(|node| node.an);
        let of_rank = match (number(from), number(to)) {
            (None, Some(an)) => Some((from, an)),
            (Some(an), None) => Some((to, an)),
            _ => None,
        };
        if let Some((rank, an)) = of_rank {
            self.ranks.lose_aggregation_node(rank, NODES_AT | u64::from(an));
            self.wake(rank, now);
        }
        let job = self.aggregation.job;
        self.aggregation_changes(now, |manager| manager.job_lost(job));
    }

    fn send_what_is_due(&mut self, now: Time, place: usize) {
        let (at, address) =
            (self.aggregation.first + place as u32, NODES_AT | u64::from(self.aggregation.nodes[place].an));
        while let Some(send) = self.aggregation.nodes[place].own.node().next_send(1) {
            let node = &mut self.aggregation.nodes[place];
            let payload = Bytes::from_slice(node.own.operands.get(send.payload).unwrap_or_default());
            node.own.node().finish_send(send.id);
            self.send_from_node(now, at, (address, send.to), (send.key, send.message), payload);
        }
    }

    /// Who may not join hears it.
    fn refuse_join(&mut self, now: Time, at: u32, (request, refusal): (&selvedge_nic::tables::Request, Refusal)) {
        if let Some((sender, answer)) = refusal.answer(request) {
            let address = NODES_AT | u64::from(self.aggregation.nodes[(at - self.aggregation.first) as usize].an);
            self.send_from_node(now, at, (address, sender.address), (sender.key, answer), Bytes::new());
        }
    }

    fn send_from_node(
        &mut self,
        now: Time,
        at: u32,
        (address, to): (u64, u64),
        (key, message): (u64, AggregationMessage),
        payload: Bytes,
    ) {
        let command = Command {
            request: message.encode(Sender { address, key }),
            target: to,
            user_ptr: 0,
            source: Side::NOWHERE,
            sink: Side::NOWHERE,
        };
        let index = self.new_message(now, at, self.ranks.member_ni(), Box::new(command), payload);
        self.queue.schedule(now, Event::Issue(index));
    }
}
