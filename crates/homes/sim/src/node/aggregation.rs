// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Aggregation nodes in the switches (seed 001, section III.F): each is a unit behind an inner port of its switch.
//!
//! ```text
//! member ─ aggregation_request ─> leaf switch ─┐ inner port
//!                                            node ─ aggregation ─> node of the switch above ... root
//! member <─ aggregation_result ─ leaf switch <─┘
//! members <─────────────── aggregation_multicast ───────────────────────────────────────────────── root
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
use selvedge_manager::{Action, Config, Granted, GrantedTree, JobError, JobRequest, Manager, Member};
use selvedge_nic::aggregation::message::{Distribution, Target};
use selvedge_nic::aggregation::{Limits, Quota};

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
        "a group of all ranks has more children at an aggregation node than aggregation.children = {room}: raise it, or put fewer \
         ranks on a node (--ranks-per-node)"
    )]
    TooManyChildren { room: u32 },
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
    /// Switches whose nodes the job uses, by the number of the node.
    pub(super) switches: BTreeMap<u32, RouterId>,
    pub(super) limits: Limits,
    pub(super) actions: Vec<Action>,
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

impl Aggregation {
    /// Makes trees over a machine, and a job of ranks on these nodes with up to `groups` groups at once.
    pub fn new(machine: &Machine, placement: &[u32], groups: u32) -> Result<Aggregation, AggregationError> {
        let none = || AggregationError::NoNodes { machine: machine.name.clone() };
        let model = machine.aggregation.as_ref().ok_or_else(none)?;
        let (groups, credits) = (groups.max(1), model.credits);
        let bytes = model.payload_bytes;
        let children = model.children;
        // The manager's charge for a group with all the children that a node has room for.
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
            // Nodes have operands for the maximum number of children.
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
        check_multicast(machine, model)?;
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

/// Returns the most children at a node of a tree, for a group of ranks on these nodes.
fn most_children(tree: &GrantedTree, placement: &[u32]) -> Option<u32> {
    let members: Vec<NodeId> = placement.iter().map(|node| NodeId(*node)).collect();
    let group = tree.group(&members)?;
    members.iter().flat_map(|member| group.expected(*member)).max().map(u32::from)
}
