// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts of the network that a job, or a whole tree, depends on: aggregation nodes, and the links and routers under
//! the edges between them and the end nodes. A loss affects a job if, and only if, the lost part is one of these.
//!
//! The edges follow the paths along which the tree was grown. A network that routes otherwise must report links of its
//! own routes.
//!
//! Cost: O((nodes + end nodes) × (ports of a router + length of an edge)).

use std::collections::BTreeSet;

use selvedge_fabric::aggregation::{Direction, Part, Site};
use selvedge_fabric::{AnId, NodeId, Peer, Topology, Tree};

/// Returns the parts under some aggregation nodes of a tree with their edges to the root, and under the edges of some
/// end nodes.
pub(crate) fn footprint(
    topology: &Topology,
    tree: Tree,
    nodes: impl Iterator<Item = AnId>,
    ends: impl Iterator<Item = NodeId>,
) -> BTreeSet<Part> {
    let mut parts = BTreeSet::new();
    for an in nodes {
        parts.insert(Part::An(an));
        parts.extend(tree.set().site(an).into_iter().flat_map(|site| seats(topology, site)));
        tree.edge(topology, None, an, Direction::Up).iter().for_each(|&channel| cross(topology, channel, &mut parts));
    }
    for node in ends {
        parts.insert(Part::Node(node));
        let edge = tree.end_edge(topology, None, node, Direction::Up);
        edge.iter().for_each(|&channel| cross(topology, channel, &mut parts));
    }
    parts
}

pub(crate) fn seats(topology: &Topology, site: Site) -> Vec<Part> {
    match site {
        Site::Router(router) => vec![Part::Router(router)],
        Site::Host(node) => vec![Part::Node(node), Part::Router(topology.attachment(node).0)],
    }
}

/// Adds both directions of a link, and the routers at its ends.
fn cross(topology: &Topology, channel: u32, parts: &mut BTreeSet<Part>) {
    parts.insert(Part::Channel(channel));
    let Some((router, port)) = topology.channel_source(channel) else {
        // An injection channel: these are numbered last, in the order of the nodes.
        let node = NodeId(channel - (topology.channels() - topology.nodes()));
        let (router, port) = topology.attachment(node);
        parts.extend([Part::Router(router), Part::Channel(topology.channel(router, port))]);
        return;
    };
    parts.insert(Part::Router(router));
    match topology.peer(router, port) {
        Peer::Router { router, port } => {
            parts.extend([Part::Router(router), Part::Channel(topology.channel(router, port))]);
        }
        Peer::Node(node) => _ = parts.insert(Part::Channel(topology.injection_channel(node))),
        Peer::Unconnected => {}
    }
}
