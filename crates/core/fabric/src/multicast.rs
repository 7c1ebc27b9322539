// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The route of a packet from one node to many: a tree of channels. Switches copy the packet where the tree branches.
//!
//! The tree is the union of the routes to the nodes, all on one set of virtual channels: routes share their common
//! beginning. As in InfiniBand, whose subnet manager sets a tree for each multicast group, a tree is made once and used
//! often (seed 001, section III.D).
//!
//! # Deadlock
//!
//! A copy waits in its buffer for the channels of its branches. A packet to one node would wait for each of these
//! channels there too. So a tree adds no dependency to those of the routing ([`crate::Dependencies`]). If these have no
//! cycle, buffers can be put in an order in which each waits for later ones only. The packet in the last full buffer
//! leaves, branch by branch, and so all others do. This holds if a copy leaves by each branch as soon as that has room,
//! independent of the other branches, and if a buffer has room for a whole packet: with cut-through, not with wormhole
//! switching.
//!
//! # Invariants
//!
//! 1. The first branch is the source's injection channel. The successors of a branch are consecutive, and come later
//!    than it.
//! 2. Each target is the end of exactly one branch, and every branch leads to a target.
//!
//! # Costs
//!
//! O(targets × hops × log) to make; 24 bytes for each branch. There are as many branches as channels, if the routes
//! part only once.
use crate::id::{Hop, NodeId, RouterId, Vc};
use crate::routing::{Routing, RoutingError};
use crate::topology::Topology;
use alloc::vec::Vec;
use core::ops::Range;

/// A channel of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The number of the channel.
    pub channel: u32,
    pub vc: Vc,
    /// The node at the channel's end. None: a router.
    pub node: Option<NodeId>,
    /// The successors of the branch.
    first: u32,
    count: u32,
}

impl Branch {
    /// The successors of the branch, by their places in the tree.
    pub fn next(&self) -> Range<u32> {
        self.first..self.first + self.count
    }
}

/// A tree from one node to many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastTree {
    branches: Vec<Branch>,
}

type Route = (Vec<(RouterId, Hop)>, NodeId);

impl MulticastTree {
    /// Makes the tree from one node to others. Duplicate targets count once.
    ///
    /// # Errors
    /// As [`Routing::path`]; also if the source is a target.
    pub fn new(
        topology: &Topology,
        routing: &Routing,
        from: NodeId,
        targets: &[NodeId],
    ) -> Result<MulticastTree, RoutingError> {
        let mut routes: Vec<Route> = Vec::with_capacity(targets.len());
        for &to in targets {
            let mut hops = Vec::new();
            routing.walk(topology, (from, to), 0, Some(0), |router, hop| hops.push((router, hop)))?;
            routes.push((hops, to));
        }
        // Routes with a common beginning stand side by side.
        let key = |route: &Route| -> Vec<(u16, u8)> { route.0.iter().map(|(_, hop)| (hop.port.0, hop.vc.0)).collect() };
        routes.sort_by_cached_key(key);
        routes.dedup_by_key(|route| route.1);
        let injection = Branch { channel: topology.injection_channel(from), vc: Vc(0), node: None, first: 0, count: 0 };
        let mut branches = alloc::vec![injection];
        // The routes that each branch is part of.
        let mut behind = alloc::vec![0..routes.len()];
        let mut depths = alloc::vec![0];
        let mut place = 0;
        while place < branches.len() {
            let (mut open, depth) = (behind[place].clone(), depths[place]);
            branches[place].first = branches.len() as u32;
            while let Some((hops, to)) = routes.get(open.start).filter(|_| !open.is_empty()) {
                let Some(&(router, hop)) = hops.get(depth) else { break };
                let is_same = |route: &&Route| route.0.get(depth).is_some_and(|(_, other)| *other == hop);
                let same = routes[open.clone()].iter().take_while(is_same).count();
                let node = (hops.len() == depth + 1).then_some(*to);
                branches.push(Branch {
                    channel: topology.channel(router, hop.port),
                    vc: hop.vc,
                    node,
                    first: 0,
                    count: 0,
                });
                behind.push(open.start..open.start + same);
                depths.push(depth + 1);
                open.start += same;
            }
            branches[place].count = branches.len() as u32 - branches[place].first;
            place += 1;
        }
        Ok(MulticastTree { branches })
    }

    /// All branches; the first is the source's.
    pub fn branches(&self) -> &[Branch] {
        &self.branches
    }

    /// The targets.
    pub fn targets(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.branches.iter().filter_map(|branch| branch.node)
    }
}

#[cfg(test)]
#[path = "multicast_tests.rs"]
mod tests;
