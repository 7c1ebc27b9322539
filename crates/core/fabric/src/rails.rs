// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rails: a node of a machine may have several ports to its fabric, each an *endpoint* of the fabric.
//!
//! A fabric knows endpoints only: a [`NodeId`] is one. [`Rails`] is the one map between them and the rails of nodes. It has
//! all layouts in one closed form: nodes stand in groups of neighbouring numbers, and a group's endpoints follow each
//! other, first rail 0 of all its nodes, then rail 1, and so on.
//!
//! | layout | group |
//! |---|---|
//! | packed | one node: its rails have neighbouring endpoints |
//! | rail-optimised | as many nodes as a leaf has endpoints, or as the machine says |
//! | planes | as many nodes as a router has endpoints: each plane has one of them, side by side |
//!
//! # Invariants
//!
//! 1. Each endpoint is one rail of one node. All nodes have the same number of rails.
//! 2. With one rail, a node and its endpoint have the same number.
//! 3. If the endpoints below some number make up whole nodes ([`Rails::is_whole`]), these are the nodes with the lowest
//!    numbers.
use crate::id::NodeId;
use crate::topology::TopologyError;

/// The most rails of a node.
pub const RAILS_MAX: u32 = 64;

/// The rails of all nodes of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rails {
    count: u32,
    group: u32,
    nodes: u32,
}

/// The places of a node's rails in the fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RailLayout {
    /// Neighbouring endpoints of one fabric.
    #[default]
    Packed,
    /// Rail k of the nodes of a group at neighbouring endpoints, those of one leaf without `group`.
    Optimised { group: Option<u32> },
    /// Equal copies of the fabric: rail k is in copy k.
    Planes,
}

impl RailLayout {
    /// The name in a machine's description.
    pub fn name(self) -> &'static str {
        match self {
            RailLayout::Packed => "packed",
            RailLayout::Optimised { .. } => "rail-optimised",
            RailLayout::Planes => "planes",
        }
    }
}

impl Rails {
    /// One rail: the nodes are the endpoints.
    pub(crate) fn one(endpoints: u32) -> Rails {
        Rails { count: 1, group: 1, nodes: endpoints }
    }

    /// `nodes` nodes with `count` rails each, in groups of `group`.
    pub(crate) fn new(count: u32, group: u32, nodes: u32) -> Result<Rails, TopologyError> {
        match count {
            0 => Err(TopologyError::Zero { what: "rails", of: "node" }),
            1 => Ok(Rails::one(nodes)),
            2..=RAILS_MAX => Ok(Rails { count, group: group.clamp(1, nodes.max(1)), nodes }),
            _ => Err(TopologyError::TooLarge { what: "rails", is: count.into(), limit: RAILS_MAX }),
        }
    }

    /// The rails of a node.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The nodes of the machine.
    #[inline]
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The nodes of a group.
    pub fn group(&self) -> u32 {
        self.group
    }

    /// The endpoint of a node's rail.
    #[inline]
    pub fn endpoint(&self, node: u32, rail: u32) -> NodeId {
        if self.count == 1 {
            return NodeId(node);
        }
        let first = node - node % self.group;
        NodeId(first * self.count + rail * self.width(first) + node - first)
    }

    /// The node and the rail of an endpoint.
    #[inline]
    pub fn place(&self, endpoint: NodeId) -> (u32, u32) {
        if self.count == 1 {
            return (endpoint.0, 0);
        }
        let first = endpoint.0 / (self.group * self.count) * self.group;
        let (width, inside) = (self.width(first), endpoint.0 - first * self.count);
        (first + inside % width, inside / width)
    }

    /// The node of an endpoint.
    #[inline]
    pub fn node(&self, endpoint: NodeId) -> u32 {
        self.place(endpoint).0
    }

    /// The endpoints of a node, in the order of its rails.
    pub fn of_node(&self, node: u32) -> impl Iterator<Item = NodeId> + use<> {
        let rails = *self;
        (0..rails.count).map(move |rail| rails.endpoint(node, rail))
    }

    /// Whether the endpoints below `end` are all those of some nodes.
    pub fn is_whole(&self, end: u32) -> bool {
        end % (self.group * self.count) == 0 || end == self.nodes * self.count
    }

    /// The nodes of the group that begins with `first`: the last group may have fewer.
    #[inline]
    fn width(&self, first: u32) -> u32 {
        self.group.min(self.nodes - first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn nodes_and_endpoints_match_one_to_one() {
        for (count, group, nodes) in [(1, 1, 5), (2, 1, 6), (4, 4, 16), (8, 32, 256), (3, 4, 10), (2, 7, 7), (2, 9, 7)]
        {
            let rails = Rails::new(count, group, nodes).unwrap();
            let mut seen: Vec<u32> =
                (0..nodes).flat_map(|node| rails.of_node(node)).map(|endpoint| endpoint.0).collect();
            for node in 0..nodes {
                for rail in 0..count {
                    assert_eq!(rails.place(rails.endpoint(node, rail)), (node, rail), "{count} {group} {nodes}");
                }
            }
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..nodes * count), "{count} {group} {nodes}: {seen:?}");
            for end in (0..=nodes * count).filter(|&end| rails.is_whole(end)) {
                let below = (0..nodes).filter(|&node| rails.of_node(node).all(|endpoint| endpoint.0 < end));
                assert!(below.eq(0..end / count), "{count} {group} {nodes}: below {end}");
            }
        }
    }

    #[test]
    fn layouts_place_rails_as_they_say() {
        let of = |group, node| -> Vec<u32> {
            let rails = Rails::new(4, group, 8).unwrap();
            rails.of_node(node).map(|endpoint| endpoint.0).collect()
        };
        assert_eq!(of(1, 3), [12, 13, 14, 15]);
        assert_eq!(of(4, 3), [3, 7, 11, 15]);
        assert_eq!(of(4, 5), [17, 21, 25, 29]);
        assert_eq!(of(8, 3), [3, 11, 19, 27]);
    }

    #[test]
    fn a_node_has_a_rail_and_not_too_many() {
        assert_eq!(Rails::new(0, 1, 4), Err(TopologyError::Zero { what: "rails", of: "node" }));
        assert!(Rails::new(RAILS_MAX, 1, 4).is_ok());
        assert!(matches!(Rails::new(RAILS_MAX + 1, 1, 4), Err(TopologyError::TooLarge { what: "rails", .. })));
    }
}
