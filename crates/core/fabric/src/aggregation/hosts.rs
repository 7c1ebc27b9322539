// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Aggregation nodes on end nodes with several members, beneath those at the routers (seed 001, section III.B).
//!
//! They are added to grown trees. An end node and its aggregation node are one child of the aggregation node above, so
//! no radix changes, and each tree is one level deeper. An aggregation node at a router that would be left with one
//! child is taken out of the tree: the child has its place.
//!
//! O(sites + hosts) for each tree.
use super::{AnId, Data, Lists, NONE, NodeId, Site, TreeSet};

impl TreeSet {
    /// Adds an aggregation node on each of these end nodes, in their order. One on an unusable end node is in no tree.
    pub(super) fn add_hosts(&mut self, hosts: &[NodeId]) {
        if hosts.is_empty() {
            return;
        }
        let above = self.sites.len() as u32;
        let homes: alloc::vec::Vec<u32> = hosts.iter().map(|node| self.homes[node.0 as usize]).collect();
        for tree in &mut self.trees {
            tree.add_hosts(&homes, |an| self.ends.of(an).len());
        }
        self.sites.extend(hosts.iter().map(|&node| Site::Host(node)));
        for (an, (&node, &home)) in (above..).zip(hosts.iter().zip(&homes)) {
            if home != NONE {
                self.homes[node.0 as usize] = an;
            }
        }
        self.ends = Lists::new(self.sites.len(), &self.homes, NodeId);
    }
}

impl Data {
    /// Adds a child to each of the aggregation nodes `homes`, unless it is `NONE`. `ends`: their end nodes before that.
    fn add_hosts(&mut self, homes: &[u32], ends: impl Fn(AnId) -> usize) {
        let above = self.parents.len() as u32;
        for (an, &home) in (above..).zip(homes) {
            let (mut parent, mut level) = (NONE, NONE);
            if home != NONE {
                let (at, top) = (home as usize, self.levels[home as usize]);
                (parent, level) = (home, top + 1);
                if ends(AnId(home)) == 1 && self.children.of(AnId(home)).is_empty() {
                    (parent, level) = (self.parents[at], top);
                    (self.parents[at], self.levels[at]) = (NONE, NONE);
                    if self.root == AnId(home) {
                        self.root = AnId(an);
                    }
                }
            }
            self.parents.push(parent);
            self.levels.push(level);
        }
        self.depth = self.levels.iter().copied().filter(|&level| level != NONE).max().unwrap_or(0);
        self.children = Lists::new(self.parents.len(), &self.parents, AnId);
    }
}
