// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A graph from a list of links whose ports are given: the form in which a fabric is discovered.
//!
//! Each router has one node, at the port after those of its links; router `r` has node `r`. Two routers may have
//! several links. Routers may have positions on a mesh, in which some links may be missing.
use super::{Draft, Kind, Topology, TopologyError, UNCONNECTED};
use crate::id::{NodeId, Port, RouterId};
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// A router of a list of links, with its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Station {
    /// Empty: the name follows from the number.
    pub name: String,
    /// Ports for links, connected or not.
    pub ports: u16,
    /// Column (x) and row of a mesh of two dimensions.
    pub position: Option<[u16; 2]>,
}

/// A link between two ports of different routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    pub ends: [(RouterId, Port); 2],
    /// Weight for shortest paths, at least 1.
    pub weight: u32,
}

/// See [`Topology::from_cables`].
pub(super) fn from_cables(stations: &[Station], cables: &[Cable]) -> Result<Topology, TopologyError> {
    if stations.is_empty() {
        return Err(TopologyError::Zero { what: "routers", of: "graph" });
    }
    let count = |router: u32| u32::from(stations[router as usize].ports) + 1;
    let mut draft = Draft::new(stations.len() as u64, count, stations.len() as u32)?;
    let mut weights = alloc::vec![1; draft.peers.len()];
    for (at, cable) in cables.iter().enumerate() {
        let [a, b] = cable.ends;
        for (router, port) in cable.ends {
            let station = stations.get(router.0 as usize).filter(|station| port.0 < station.ports);
            if station.is_none() {
                return Err(TopologyError::CableEnd { cable: at, router, port });
            }
            let channel = draft.first_port[router.0 as usize] as usize + usize::from(port.0);
            if draft.peers[channel] != UNCONNECTED {
                return Err(TopologyError::PortTwice { cable: at, router, port });
            }
            weights[channel] = cable.weight.max(1);
        }
        if a.0 == b.0 {
            return Err(TopologyError::CableToItself { cable: at, router: a.0 });
        }
        draft.link(a.0, a.1.0.into(), b.0, b.1.0.into());
    }
    for (router, station) in stations.iter().enumerate() {
        draft.attach(NodeId(router as u32), RouterId(router as u32), station.ports.into());
    }
    let mut topology = draft.finish(Kind::Graph)?;
    let name = |router: usize| match stations[router].name.as_str() {
        "" => RouterId(router as u32).to_string(),
        name => name.to_string(),
    };
    if let Some(lost) = topology.distances(RouterId(0)).iter().position(|&distance| distance == u32::MAX) {
        return Err(TopologyError::Apart { from: name(0), to: name(lost) });
    }
    if weights.iter().any(|&weight| weight != 1) {
        topology.weights = weights;
    }
    let positions: Vec<[u16; 2]> = stations.iter().filter_map(|station| station.position).collect();
    if positions.len() == stations.len() {
        topology.coordinates = positions.into_iter().flatten().collect();
    }
    if stations.iter().any(|station| !station.name.is_empty()) {
        topology.router_names = (0..stations.len()).map(name).collect();
        topology.node_names = topology.router_names.clone();
    }
    Ok(topology)
}

/// Whether the routers of a graph have different positions, and each link joins neighbours on the mesh.
pub(super) fn is_part_of_mesh(topology: &Topology) -> bool {
    if topology.kind != Kind::Graph || topology.coordinates.is_empty() {
        return false;
    }
    let all = || (0..topology.routers()).map(RouterId);
    let places: BTreeSet<&[u16]> = all().map(|router| topology.coordinates(router)).collect();
    let apart = |a: &[u16], b: &[u16]| -> u32 { a.iter().zip(b).map(|(a, b)| u32::from(a.abs_diff(*b))).sum() };
    let is_short = |a, b| apart(topology.coordinates(a), topology.coordinates(b)) == 1;
    places.len() == topology.routers() as usize
        && all().all(|router| topology.neighbours(router).all(|(_, next)| is_short(router, next)))
}

#[cfg(test)]
#[path = "links_tests.rs"]
mod tests;
