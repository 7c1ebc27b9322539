// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nodes with several rails: the layout of the rails, and fabrics of planes, which are equal copies without a link between
//! them.
//!
//! Router r of plane k has number r × planes + k. So copies of one router, and with them the rails of its nodes, have
//! neighbouring numbers, and a fabric of planes is cut into parts between routers as a single one is. A plane knows
//! nothing of the others: closed forms and routings work with its own numbers ([`Planes::local`]).
use super::draft::{PackedPeer, PeerKind};
use super::{Kind, PORTS_MAX, Topology, TopologyError};
use crate::id::{NodeId, Peer, RouterId};
use crate::rails::{RailLayout, Rails};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Equal copies of a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planes {
    pub count: u32,
    pub plane: Box<Topology>,
}

impl Planes {
    /// The number of a router within its plane.
    #[inline]
    pub fn local(&self, router: RouterId) -> RouterId {
        RouterId(router.0 / self.count)
    }

    /// The plane of a router.
    #[inline]
    pub fn of(&self, router: RouterId) -> u32 {
        router.0 % self.count
    }

    /// The number of a plane's router among all.
    #[inline]
    pub fn whole(&self, router: RouterId, plane: u32) -> RouterId {
        RouterId(router.0 * self.count + plane)
    }
}

impl fmt::Display for Planes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} planes of {}", self.count, self.plane.kind)
    }
}

impl Topology {
    /// The rails of its nodes.
    #[inline]
    pub fn rails(&self) -> &Rails {
        &self.rails
    }

    /// The network whose nodes have `count` rails: its endpoints become their rails. With [`RailLayout::Planes`] it is one
    /// plane of the result.
    pub fn with_rails(self, count: u32, layout: RailLayout) -> Result<Topology, TopologyError> {
        let endpoints = self.nodes();
        let one = Rails::new(count, 1, endpoints)?;
        if count == 1 {
            return Ok(Topology { rails: one, ..self });
        }
        let group = match layout {
            RailLayout::Planes => return self.planes(count),
            RailLayout::Packed => 1,
            RailLayout::Optimised { group: Some(0) } => {
                return Err(TopologyError::Zero { what: "nodes", of: "group of rails" });
            }
            RailLayout::Optimised { group } => match group.or_else(|| self.nodes_per_router()) {
                Some(group) => group,
                None => return Err(TopologyError::NoLeaves),
            },
        };
        let multiple = u64::from(count) * u64::from(group);
        if u64::from(endpoints) % multiple != 0 {
            let layout = layout.name();
            return Err(TopologyError::RailsLeftOver { endpoints, rails: count, layout, group, multiple });
        }
        Ok(Topology { rails: Rails::new(count, group, endpoints / count)?, ..self })
    }

    /// The endpoints of each router that has some, if these are equally many, but for the last router, and have numbers in
    /// the order of the routers.
    fn nodes_per_router(&self) -> Option<u32> {
        let each = self.attachments.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len);
        let sizes: Vec<usize> = each.collect();
        let (last, others) = sizes.split_last()?;
        let first = sizes[0];
        let is_regular = others.iter().all(|&size| size == first) && *last <= first;
        (is_regular && self.attachments.is_sorted_by_key(|attachment| attachment.0)).then_some(first as u32)
    }

    /// `count` copies of this network. See the head of `planes.rs` for their numbers.
    fn planes(self, count: u32) -> Result<Topology, TopologyError> {
        let ports = self.peers.len() as u64 * u64::from(count);
        if ports + u64::from(self.nodes()) * u64::from(count) > PORTS_MAX.into() {
            return Err(TopologyError::TooLarge { what: "ports of all planes", is: ports, limit: PORTS_MAX });
        }
        let rails = Rails::new(count, self.nodes_per_router().unwrap_or(1), self.nodes())?;
        let mut all = Topology {
            rails,
            first_port: alloc::vec![0],
            peers: Vec::with_capacity(ports as usize),
            attachments: alloc::vec![Default::default(); self.attachments.len() * count as usize],
            coordinates: Vec::new(),
            weights: Vec::new(),
            edge_speeds: self.edge_speeds.clone(),
            edge_numbers: Vec::new(),
            router_names: Vec::new(),
            node_names: Vec::new(),
            kind: Kind::Crossbar { nodes: 0 },
        };
        let planes = Planes { count, plane: Box::new(self) };
        let one = &*planes.plane;
        for router in (0..one.routers()).map(RouterId) {
            let own = one.first_port[router.0 as usize] as usize..one.first_port[router.0 as usize + 1] as usize;
            for plane in 0..count {
                let peer = |peer: &PackedPeer| match peer.unpack() {
                    Peer::Router { router, .. } => PackedPeer { id: planes.whole(router, plane).0, ..*peer },
                    Peer::Node(node) => PackedPeer { id: rails.endpoint(node.0, plane).0, ..*peer },
                    Peer::Unconnected => *peer,
                };
                all.peers.extend(one.peers[own.clone()].iter().map(peer));
                all.weights.extend(one.weights.get(own.clone()).into_iter().flatten());
                all.edge_numbers.extend(one.edge_numbers.get(own.clone()).into_iter().flatten());
                all.first_port.push(all.peers.len() as u32);
            }
        }
        for (node, &(router, port)) in one.attachments.iter().enumerate() {
            for plane in 0..count {
                let endpoint = rails.endpoint(node as u32, plane);
                all.attachments[endpoint.0 as usize] = (planes.whole(router, plane), port);
                debug_assert_eq!(
                    all.peers[all.channel(planes.whole(router, plane), port) as usize].kind,
                    PeerKind::Node
                );
            }
        }
        all.kind = Kind::Planes(planes);
        Ok(all)
    }

    /// One plane of the network; the network itself, if it has no planes.
    pub fn plane(&self) -> &Topology {
        match &self.kind {
            Kind::Planes(planes) => &planes.plane,
            _ => self,
        }
    }

    /// The endpoint of a node's first rail in [`Topology::plane`].
    pub fn seat(&self, node: u32) -> NodeId {
        match &self.kind {
            Kind::Planes(_) => NodeId(node),
            _ => self.rails.endpoint(node, 0),
        }
    }

    /// The name of a node, whatever its rails. [`Topology::node_name`] has those of endpoints.
    pub fn whole_node_name(&self, node: u32) -> String {
        match &self.kind {
            Kind::Planes(planes) => planes.plane.node_name(NodeId(node)),
            _ if self.rails.count() > 1 => alloc::format!("node {node}"),
            _ => self.node_name(NodeId(node)),
        }
    }

    /// The name of an endpoint of a node with several rails.
    pub(super) fn rail_name(&self, endpoint: NodeId) -> String {
        let (node, rail) = self.rails.place(endpoint);
        alloc::format!("{} rail {rail}", self.whole_node_name(node))
    }
}

#[cfg(test)]
#[path = "planes_tests.rs"]
mod tests;
