// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A topology that is being made: the tables of ports and nodes, and their packed form.
use super::{Kind, PORTS_MAX, Topology, TopologyError};
use crate::id::{NodeId, Peer, Port, RouterId};
use crate::rails::Rails;
use alloc::vec::Vec;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackedPeer {
    pub id: u32,
    pub port: u16,
    pub kind: PeerKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum PeerKind {
    Unconnected,
    Router,
    Node,
}

pub(super) const UNCONNECTED: PackedPeer = PackedPeer { id: 0, port: 0, kind: PeerKind::Unconnected };

impl PackedPeer {
    #[inline]
    pub fn unpack(self) -> Peer {
        match self.kind {
            PeerKind::Unconnected => Peer::Unconnected,
            PeerKind::Router => Peer::Router { router: RouterId(self.id), port: Port(self.port) },
            PeerKind::Node => Peer::Node(NodeId(self.id)),
        }
    }
}

/// A topology that is being made.
pub(super) struct Draft {
    pub first_port: Vec<u32>,
    pub peers: Vec<PackedPeer>,
    pub attachments: Vec<(RouterId, Port)>,
}

impl Draft {
    /// Routers with `ports(router)` unconnected ports each. Checks all sizes before it allocates.
    pub fn new(routers: u64, ports: impl Fn(u32) -> u32, nodes: u32) -> Result<Draft, TopologyError> {
        if routers > u64::from(PORTS_MAX) {
            return Err(TopologyError::TooLarge { what: "routers", is: routers, limit: PORTS_MAX });
        }
        let routers = routers as u32;
        let mut total: u64 = 0;
        for router in 0..routers {
            let ports = ports(router);
            if ports > u32::from(u16::MAX) {
                return Err(TopologyError::TooLarge {
                    what: "ports of a router",
                    is: ports.into(),
                    limit: u16::MAX.into(),
                });
            }
            total += u64::from(ports);
        }
        if total > u64::from(PORTS_MAX) {
            return Err(TopologyError::TooLarge { what: "ports of all routers", is: total, limit: PORTS_MAX });
        }
        let mut first_port = Vec::with_capacity(routers as usize + 1);
        first_port.push(0);
        for router in 0..routers {
            first_port.push(first_port[router as usize] + ports(router));
        }
        let peers = alloc::vec![UNCONNECTED; total as usize];
        let attachments = alloc::vec![(RouterId(0), Port(0)); nodes as usize];
        Ok(Draft { first_port, peers, attachments })
    }

    pub fn link(&mut self, a: RouterId, a_port: u32, b: RouterId, b_port: u32) {
        let (a_port, b_port) = (a_port as u16, b_port as u16);
        self.set(a, a_port, PackedPeer { id: b.0, port: b_port, kind: PeerKind::Router });
        self.set(b, b_port, PackedPeer { id: a.0, port: a_port, kind: PeerKind::Router });
    }

    pub fn attach(&mut self, node: NodeId, router: RouterId, port: u32) {
        self.set(router, port as u16, PackedPeer { id: node.0, port: 0, kind: PeerKind::Node });
        self.attachments[node.0 as usize] = (router, Port(port as u16));
    }

    fn set(&mut self, router: RouterId, port: u16, peer: PackedPeer) {
        let at = &mut self.peers[self.first_port[router.0 as usize] as usize + usize::from(port)];
        debug_assert_eq!(at.kind, PeerKind::Unconnected, "{router} {port} connected twice");
        *at = peer;
    }

    pub fn finish(self, kind: Kind) -> Result<Topology, TopologyError> {
        Ok(Topology {
            kind,
            rails: Rails::one(self.attachments.len() as u32),
            first_port: self.first_port,
            peers: self.peers,
            attachments: self.attachments,
            coordinates: Vec::new(),
            weights: Vec::new(),
            edge_speeds: Vec::new(),
            edge_numbers: Vec::new(),
            router_names: Vec::new(),
            node_names: Vec::new(),
        })
    }
}
