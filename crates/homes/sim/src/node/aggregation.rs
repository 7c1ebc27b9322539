// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Aggregation nodes in the switches (seed 001, section III.F): each is a unit behind an inner port of its switch. Where
//! ranks share a host, they first reduce at a node of their host, which is their only child at its switch.
//!
//! ```text
//! rank ─ memory ─┐
//! rank ─ memory ─┴─ node of the host ─ aggregation_request ─> leaf switch ─┐ inner port
//!                                                                         node ─ aggregation ─> node above ... root
//! ranks <─ memory ─ node of the host <─ aggregation_result ─ leaf switch <─┘
//! ranks <─────────────── aggregation_multicast ─────────────────────────────────────────────────────────────── root
//! ```
//!
//! An [`Aggregation`] is made before the run: the manager makes trees over the machine's topology, and admits the job.
//! The job's ranks join groups with its grant. The nodes of the run are in `switches.rs`, casts in `multicast.rs`.
//!
//! Costs: those of the manager: a tree over the switches, and its tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_fabric::aggregation::{Site, Sites};
use selvedge_fabric::{AnId, NodeId, RouterId, Routing, RoutingError, Topology, TopologyError, TreeError, TreeSpec};
use selvedge_manager::{
    Action, Config, Granted, GrantedNode, GrantedTree, GroupChildren, JobError, JobRequest, Manager, Member,
};
use selvedge_nic::aggregation::message::{Distribution, Join, Target};
use selvedge_nic::aggregation::{Limits, Quota, records};

use crate::machine::graph::Class;
use crate::machine::{AggregationModel, Machine};
use crate::network::Network;

/// Network id of aggregation nodes; their number is the process id.
pub(super) const NODES_AT: u64 = 0xffff_fff0 << 32;
/// Network id of multicast groups; the job's number of the group is the process id.
pub(super) const GROUPS_AT: u64 = 0xffff_ffe0 << 32;
const KEY: u64 = 0x5e1f_ed9e;

/// Reason why a machine or job has no aggregation.
#[derive(Debug, thiserror::Error)]
pub enum AggregationError {
    #[error("{machine} has no aggregation nodes: add a section [aggregation] to its file")]
    NoNodes { machine: String },
    #[error(
        "{groups} groups of {children} children and {credits} operations of {bytes} bytes exceed an aggregation node: \
         form fewer groups, or lower credits, children or payload_bytes of [aggregation]"
    )]
    TooLarge { groups: u32, children: u32, credits: u32, bytes: u32 },
    #[error(
        "{ranks} ranks share a node, but the aggregation node of a host has at most {most} children: put fewer on a node \
         (--ranks-per-node)"
    )]
    TooManyRanks { ranks: u32, most: u32 },
    #[error(
        "aggregation.children = {children} is too few: trees over {sites} switches and {nodes} nodes need {least}; set it to \
         that or more"
    )]
    TooFewChildren { children: u32, sites: u32, nodes: u32, least: u32 },
    #[error(
        "with aggregation.children = {children} a tree is {levels} deep, but a join has room for {most} levels: raise \
         aggregation.children"
    )]
    TooDeep { children: u32, levels: u32, most: u32 },
    #[error(
        "no route from {from} to {to}, which are neighbours in the aggregation tree: raise aggregation.children, which is \
         {children}, so that nodes find parents nearby"
    )]
    NoWay { from: String, to: String, children: u32 },
    #[error(
        "a result of {bytes} bytes with its header exceeds a packet of {packet}, the limit of multicast: lower \
         aggregation.payload_bytes, or let results come down the tree (aggregation.distribution)"
    )]
    LongCast { bytes: u64, packet: u32 },
    #[error(
        "multicast needs cut-through switching and deadlock-free routing: set both (switch.switching, routing.algorithm), or let \
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
    /// The job's share: groups, credits, trees.
    pub granted: Granted,
    /// The nodes that the job uses, by their numbers.
    pub(super) seats: BTreeMap<u32, Seat>,
    pub(super) actions: Vec<Action>,
    /// Children of the group of all ranks, in each tree.
    everyone: Vec<GroupChildren>,
    /// Manager of the machine's topology, without the nodes in the switches.
    pub(super) manager: Manager,
    pub(super) topology: Arc<Topology>,
    pub(super) routing: Routing,
    /// First node of the topology that is inside a switch.
    pub(super) inside_from: u32,
    /// Inner ports of a switch: its aggregation node counts as this many nodes of the topology.
    pub(super) ports: u32,
    /// How results reach members that are programs. `None`: only down the tree.
    distribution: Option<Distribution>,
}

/// An aggregation node of the job: its place, and the sizes of its tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    pub site: Site,
    /// Most children of a group there. On a host these are its ranks.
    pub children: u32,
    pub limits: Limits,
}

impl Aggregation {
    /// Makes trees over a machine, and a job of ranks on these nodes with up to `groups` groups at once.
    pub fn new(machine: &Machine, placement: &[u32], groups: u32) -> Result<Aggregation, AggregationError> {
        Aggregation::avoiding(machine, placement, groups, &[])
    }

    /// Like [`Aggregation::new`], with trees that avoid the channels that are `lost` from the start.
    pub fn avoiding(
        machine: &Machine,
        placement: &[u32],
        groups: u32,
        lost: &[u32],
    ) -> Result<Aggregation, AggregationError> {
        let none = || AggregationError::NoNodes { machine: machine.name.clone() };
        let model = machine.aggregation.as_ref().ok_or_else(none)?;
        let (groups, credits) = (groups.max(1), model.credits);
        let (bytes, radix) = (model.payload_bytes, model.children);
        let (hosts, most) = shared_hosts(placement);
        if most > records::CHILDREN_MAX {
            return Err(AggregationError::TooManyRanks { ranks: most, most: records::CHILDREN_MAX });
        }
        let children = radix.max(most);
        let quota = Quota { groups, credits: groups.saturating_mul(credits), bytes };
        let sized = |children: u32| {
            let blocks = selvedge_manager::quota::blocks(&quota, children);
            let operand_blocks = u32::try_from(blocks.next_power_of_two()).unwrap_or(u32::MAX);
            let limits = Limits { jobs: 1, trees: model.trees, groups, children, credits, operand_blocks }.clamped();
            let fits = u64::from(limits.operand_blocks) >= blocks && limits.groups >= groups;
            fits.then_some(limits).ok_or(AggregationError::TooLarge { groups, children, credits, bytes })
        };
        // The manager's charge for a group with all the children that a node has room for.
        let limits = sized(children)?;
        let sites = if hosts.is_empty() { Sites::AllRouters } else { Sites::RoutersAndHosts(hosts) };
        let spec = TreeSpec { trees: model.trees, radix_max: radix, depth_max: None, sites };
        let config = Config { spec, limits, share: 100 };
        let address = |an: AnId| NODES_AT | u64::from(an.0);
        let mut manager = Manager::new(Topology::clone(&machine.topology), &config, address).map_err(of_tree)?;
        for channel in lost {
            manager.link_lost(*channel);
        }
        let member = |(rank, node): (usize, &u32)| Member { process: rank as u64, node: NodeId(*node) };
        let request = JobRequest {
            external: 0,
            members: placement.iter().enumerate().map(member).collect(),
            quota,
            // Groups spread over several trees.
            trees: manager.tree_set().map_or(1, |set| groups.min(set.len() as u32)),
            priority: 0,
        };
        let mut actions = manager.start();
        let (granted, begun) = manager.begin_job(&request, KEY)?;
        actions.extend(begun);
        let sites = manager.tree_set().map(|set| set.sites().to_vec()).unwrap_or_default();
        let nodes: Vec<NodeId> = placement.iter().copied().map(NodeId).collect();
        let of_all = |tree: &GrantedTree| tree.group(&nodes).ok_or(JobError::NoTree);
        let everyone = granted.trees.iter().map(of_all).collect::<Result<Vec<GroupChildren>, _>>()?;
        let mut seats: BTreeMap<u32, Seat> = BTreeMap::new();
        for (tree, group) in granted.trees.iter().zip(&everyone) {
            for (node, count) in tree.nodes().iter().zip(group.counts()) {
                let Some(&site) = sites.get(node.an.0 as usize) else { continue };
                let before = seats.get(&node.an.0).map_or(0, |seat| seat.children);
                let children = before.max((*count).into());
                seats.insert(node.an.0, Seat { site, children, limits: sized(children.max(2))? });
            }
        }
        let ports = model.ports as usize;
        let routers = || seats.iter().filter_map(|(an, seat)| Some((*an, seat.router()?)));
        let inside: Vec<RouterId> = routers().flat_map(|(_, router)| std::iter::repeat_n(router, ports)).collect();
        let topology = machine.topology.with_nodes_inside(&inside)?;
        let routing = Routing::new(&topology, machine.routing.algorithm(), machine.routing.virtual_channels())?;
        check_multicast(machine, model)?;
        let inside_from = machine.topology.nodes();
        let node_of = |an: AnId| match seats.get(&an.0)?.site {
            Site::Host(node) => Some(node),
            Site::Router(_) => {
                let at = routers().position(|(other, _)| other == an.0)? as u32;
                Some(NodeId(inside_from + at * model.ports))
            }
        };
        for (child, parent) in
            granted.trees.iter().flat_map(edges).filter_map(|(a, b)| Some((node_of(a)?, node_of(b)?)))
        {
            for (from, to) in [(child, parent), (parent, child)] {
                if routing.path(&topology, from, to, 0).is_err() {
                    let name = |node: NodeId| topology.router_name(topology.attachment(node).0);
                    return Err(AggregationError::NoWay { from: name(from), to: name(to), children: radix });
                }
            }
        }
        // A root on a host has its members in the host's memory.
        let is_on_host = |root: &GrantedNode| seats.get(&root.an.0).is_some_and(|seat| seat.router().is_none());
        let is_one_host = granted.trees.iter().flat_map(|tree| tree.nodes().first()).any(is_on_host);
        let distribution = model.distribution.filter(|_| !is_one_host);
        let (topology, ports) = (Arc::new(topology), model.ports);
        Ok(Aggregation {
            granted,
            seats,
            actions,
            everyone,
            manager,
            topology,
            routing,
            inside_from,
            ports,
            distribution,
        })
    }

    /// Returns the join of a group of ranks by the member with index `order`, and its receiver, a leaf node. `None`: the
    /// job has no tree there.
    pub fn join(&self, number: u32, order: usize, members: &[u32]) -> Option<(u64, Join)> {
        let is_everyone = members.len() == self.granted.members.len() && members.iter().copied().eq(0..);
        if is_everyone {
            return self.granted.join_in(
                number,
                order,
                self.node_of(order as u32)?,
                self.everyone.get(self.granted.tree_of(number))?,
            );
        }
        let nodes = members.iter().map(|rank| self.node_of(*rank)).collect::<Option<Vec<NodeId>>>()?;
        self.granted.join(number, order, &nodes)
    }

    /// Returns the node of a rank. The job's members are the ranks, in order.
    pub fn node_of(&self, rank: u32) -> Option<NodeId> {
        self.granted.members.get(rank as usize).map(|member| member.node)
    }

    /// Returns the target of results of group `number`. `None`: they come down the tree.
    pub fn target(&self, number: u32) -> Option<Target> {
        self.distribution.map(|way| Target::multicast(GROUPS_AT | u64::from(number), way))
    }

    /// Returns the machine's channel under its number in the topology with the nodes in the switches.
    pub fn channel(&self, channel: u32) -> u32 {
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

/// Checks that the machine supports the distribution of results that its file asks for.
fn check_multicast(machine: &Machine, model: &AggregationModel) -> Result<(), AggregationError> {
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

/// Returns the aggregation nodes of a tree that have a parent, with the parent.
fn edges(tree: &GrantedTree) -> impl Iterator<Item = (AnId, AnId)> {
    tree.nodes().iter().filter_map(|node| Some((node.an, tree.nodes().get(node.parent?)?.an)))
}

/// Returns the nodes that several ranks share, and the most ranks on a node.
fn shared_hosts(placement: &[u32]) -> (Vec<NodeId>, u32) {
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    placement.iter().for_each(|node| *counts.entry(*node).or_default() += 1);
    let most = counts.values().copied().max().unwrap_or(0);
    (counts.into_iter().filter(|(_, count)| *count > 1).map(|(node, _)| NodeId(node)).collect(), most)
}

/// Names the key of the machine that makes trees possible.
fn of_tree(error: TreeError) -> AggregationError {
    match error {
        TreeError::Radix { radix: children, sites, nodes, least } => {
            AggregationError::TooFewChildren { children, sites, nodes, least }
        }
        TreeError::Depth { depth: most, radix: children, least: levels } => {
            AggregationError::TooDeep { children, levels, most }
        }
        other => other.into(),
    }
}

impl Seat {
    fn router(&self) -> Option<RouterId> {
        match self.site {
            Site::Router(router) => Some(router),
            Site::Host(_) => None,
        }
    }
}
