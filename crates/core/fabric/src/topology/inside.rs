// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nodes inside routers: units in a switch that end packets.
use super::draft::{PackedPeer, PeerKind, UNCONNECTED};
use super::{PORTS_MAX, Topology, TopologyError};
use crate::id::{NodeId, Port, RouterId};
use crate::rails::Rails;
use alloc::vec::Vec;

/// See [`Topology::with_nodes_inside`].
pub(super) fn with_nodes(one: &Topology, routers: &[RouterId]) -> Result<Topology, TopologyError> {
    let mut more = alloc::vec![0u32; one.routers() as usize];
    routers.iter().for_each(|router| more[router.0 as usize] += 1);
    let ports = one.peers.len() as u64 + routers.len() as u64;
    if ports > PORTS_MAX.into() {
        return Err(TopologyError::TooLarge { what: "ports", is: ports, limit: PORTS_MAX });
    }
    let mut wider = one.clone();
    (wider.first_port, wider.peers, wider.weights) = (alloc::vec![0], Vec::new(), Vec::new());
    wider.edge_numbers = Vec::new();
    for (router, &inside) in more.iter().enumerate() {
        let own = one.first_port[router] as usize..one.first_port[router + 1] as usize;
        wider.peers.extend_from_slice(&one.peers[own.clone()]);
        wider.peers.resize(wider.peers.len() + inside as usize, UNCONNECTED);
        if one.is_weighted() {
            wider.weights.extend_from_slice(&one.weights[own.clone()]);
            wider.weights.resize(wider.peers.len(), 1);
        }
        if let Some(numbers) = one.edge_numbers.get(own) {
            wider.edge_numbers.extend_from_slice(numbers);
            wider.edge_numbers.resize(wider.peers.len(), u16::MAX);
        }
        wider.first_port.push(wider.peers.len() as u32);
    }
    wider.node_names = (0..one.nodes()).map(|node| one.node_name(NodeId(node))).collect();
    for &router in routers {
        let node = wider.attachments.len() as u32;
        let free = more[router.0 as usize];
        more[router.0 as usize] -= 1;
        let port = u16::try_from(u32::from(wider.ports(router)) - free).unwrap_or(u16::MAX);
        let channel = wider.channel(router, Port(port)) as usize;
        wider.peers[channel] = PackedPeer { id: node, port: 0, kind: PeerKind::Node };
        wider.attachments.push((router, Port(port)));
        wider.node_names.push(alloc::format!("inside {}", one.router_name(router)));
    }
    wider.rails = Rails::one(wider.nodes());
    Ok(wider)
}
