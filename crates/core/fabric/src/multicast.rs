// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way of a packet from one node to many: a tree of channels. Switches copy the packet where the tree branches.
//!
//! The tree is the union of the routes to the nodes, all on one set of virtual channels: routes that begin alike share what they have in
//! common. As in InfiniBand, whose subnet manager sets a tree for each multicast group, a tree is made once and used often (seed 001, section
//! III.D).
//!
//! # Deadlock
//!
//! A copy waits in its buffer for the channels of its branches, each of which is a channel that a packet to one node would wait for there. So
//! a tree adds no dependency to those of the routing ([`crate::Dependencies`]). If these have no cycle, buffers can be put in an order in
//! which each waits for later ones only; what stands in the last buffer that is full leaves, branch by branch, and so all others do. This
//! holds if a copy leaves by each branch as soon as that has room, whatever the other branches do, and if a buffer has room for a whole
//! packet: with cut-through, not with wormhole switching.
//!
//! # Invariants
//!
//! 1. The first branch is the source's injection channel. The branches behind a branch follow on each other, and come later than it.
//! 2. Each target is the end of exactly one branch, and every branch leads to a target.
//!
//! # Costs
//!
//! O(targets × hops × log) to make; 24 bytes for each branch, of which there are as many as channels, if the routes part only once.
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
    /// The node at its end. None: a router.
    pub node: Option<NodeId>,
    /// The branches behind it.
    first: u32,
    count: u32,
}

impl Branch {
    /// The branches behind it, by their places in the tree.
    pub fn next(&self) -> Range<u32> {
        self.first..self.first + self.count
    }
}

/// A tree from one node to many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastTree {
    branches: Vec<Branch>,
}

/// A route, and its target.
type Route = (Vec<(RouterId, Hop)>, NodeId);

impl MulticastTree {
    /// The tree from a node to others. A target that is named twice is one.
    ///
    /// # Errors
    /// As [`Routing::path`]; a target that is the source is one, too.
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
        // Routes that begin alike stand side by side.
        let key = |route: &Route| -> Vec<(u16, u8)> { route.0.iter().map(|(_, hop)| (hop.port.0, hop.vc.0)).collect() };
        routes.sort_by_cached_key(key);
        routes.dedup_by_key(|route| route.1);
        let injection = Branch { channel: topology.injection_channel(from), vc: Vc(0), node: None, first: 0, count: 0 };
        let mut branches = alloc::vec![injection];
        // What is behind each branch: the routes that it is part of.
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
