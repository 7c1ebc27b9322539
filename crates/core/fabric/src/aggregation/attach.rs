// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The aggregation node of each end node (seed 001, section III.B: it need not be the nearest).
//!
//! An end node is attached to the aggregation node on itself, or else at its router, or else to the nearest that has
//! room. Of several equally near ones, those with fewer end nodes come first, then the lowest number.
//!
//! O(nodes × distance to a site + links). Where `radix_max` leaves the nearest sites no room, each such router adds a
//! search up to the sites with room.
use super::NONE;
use super::network::Network;
use crate::id::{AnId, NodeId, RouterId};
use alloc::vec::Vec;
use core::mem;

pub(super) struct Homes {
    /// The aggregation node of each node; `NONE`: the node cannot be used.
    pub of: Vec<u32>,
    /// Number of end nodes of each aggregation node.
    pub counts: Vec<u32>,
}

/// Attaches all usable nodes, `radix` to a site at most. There must be room for all.
pub(super) fn attach(network: &Network, radix: u32) -> Homes {
    let topology = network.topology;
    let of = alloc::vec![NONE; topology.nodes() as usize];
    let mut homes = Homes { of, counts: alloc::vec![0; network.sites.len()] };
    for &an in network.usable_sites() {
        if let super::Site::Host(node) = network.sites[an.0 as usize] {
            homes.place(&[an], node, radix);
        }
    }
    let with_sites: Vec<RouterId> = network.usable_sites().iter().map(|&an| network.router(an)).collect();
    let near = network.costs(&with_sites);
    // Number of nodes that have crossed each router on their way to a site.
    let mut passed = alloc::vec![0u32; topology.routers() as usize];
    let mut without_room = Vec::new();
    for &node in &network.nodes {
        if homes.of[node.0 as usize] != NONE {
            continue;
        }
        let home = topology.attachment(node).0;
        let mut at = home;
        while near[at.0 as usize] > 0 {
            let nearer = network.neighbours(at).filter(|&(port, next)| {
                let over = network.cost(at, port).map(|cost| near[next.0 as usize].saturating_add(cost.into()));
                over == Some(near[at.0 as usize])
            });
            let Some((_, next)) = nearer.min_by_key(|&(_, next)| (passed[next.0 as usize], next)) else { break };
            passed[next.0 as usize] += 1;
            at = next;
        }
        if !homes.place(network.sites_at(at), node, radix) {
            without_room.push((home, node));
        }
    }
    without_room.sort_unstable();
    for nodes in without_room.chunk_by(|a, b| a.0 == b.0) {
        search(network, nodes, radix, &mut homes);
    }
    homes
}

/// Attaches nodes of one router to the nearest sites that have room, ring by ring.
fn search(network: &Network, nodes: &[(RouterId, NodeId)], radix: u32, homes: &mut Homes) {
    let Some(&(from, _)) = nodes.first() else { return };
    let mut nodes = nodes.iter().map(|&(_, node)| node).peekable();
    let mut ring: Vec<AnId> = Vec::new();
    let mut radius = 0;
    let mut fill = |ring: &[AnId]| {
        while nodes.next_if(|&node| homes.place(ring, node, radix)).is_some() {}
        nodes.peek().is_none()
    };
    network.topology.nearest_first(
        &[from],
        |router, port| network.cost(router, port),
        |router, distance| {
            let done = distance > radius && fill(&mem::take(&mut ring));
            radius = distance;
            ring.extend_from_slice(network.sites_at(router));
            !done
        },
    );
    fill(&ring);
}

impl Homes {
    /// Attaches a node to the emptiest of some sites. False: none has room.
    fn place(&mut self, sites: &[AnId], node: NodeId, radix: u32) -> bool {
        let emptiest = sites.iter().min_by_key(|an| (self.counts[an.0 as usize], **an));
        match emptiest.filter(|an| self.counts[an.0 as usize] < radix) {
            Some(an) => {
                self.counts[an.0 as usize] += 1;
                self.of[node.0 as usize] = an.0;
                true
            }
            None => false,
        }
    }
}
