// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Topologies for the tests: of each kind small ones, with even and odd sizes, and irregular ones.
use crate::id::NodeId;
use crate::topology::{Topology, TopologyError};
use std::string::{String, ToString};
use std::vec::Vec;

pub const PETERSEN: &str = "
    # five outside, five inside
    router o0
    router o1
    router o2
    router o3
    router o4
    router i0
    router i1
    router i2
    router i3
    router i4
    link o0 o1
    link o1 o2
    link o2 o3
    link o3 o4
    link o4 o0
    link i0 i2
    link i2 i4
    link i4 i1
    link i1 i3
    link i3 i0 3 # weighs more
    link o0 i0
    link o1 i1
    link o2 i2
    link o3 i3
    link o4 i4
    node a o0
    node b o1
    node c i2
    node d i4
    node e o0
";

/// All sample topologies, with names for the messages of assertions.
pub fn all() -> Vec<(String, Topology)> {
    let made: [(&str, Result<Topology, TopologyError>); 51] = [
        ("mesh 1", Topology::mesh(&[1], 3)),
        ("mesh 7", Topology::mesh(&[7], 1)),
        ("mesh 4x4", Topology::mesh(&[4, 4], 1)),
        ("mesh 5x3, 2 nodes each", Topology::mesh(&[5, 3], 2)),
        ("mesh 1x6", Topology::mesh(&[1, 6], 1)),
        ("mesh 3x2x4", Topology::mesh(&[3, 2, 4], 1)),
        ("mesh 2x2x2x2x2x2x2x2", Topology::mesh(&[2; 8], 1)),
        ("torus 3", Topology::torus(&[3], &[], 1)),
        ("torus 5", Topology::torus(&[5], &[], 1)),
        ("torus 8, 3 nodes each", Topology::torus(&[8], &[], 3)),
        ("torus 4x4", Topology::torus(&[4, 4], &[], 1)),
        ("torus 6x5", Topology::torus(&[6, 5], &[], 1)),
        ("torus 7x2", Topology::torus(&[7, 2], &[], 1)),
        ("torus 2x1x2", Topology::torus(&[2, 1, 2], &[], 1)),
        ("torus 4x3x5", Topology::torus(&[4, 3, 5], &[], 1)),
        ("torus 4x3x6 that wraps in z", Topology::torus(&[4, 3, 6], &[false, false, true], 1)),
        ("torus 3x3x3x3", Topology::torus(&[3; 4], &[], 1)),
        ("hypercube 0", Topology::hypercube(0, 2)),
        ("hypercube 1", Topology::hypercube(1, 1)),
        ("hypercube 5", Topology::hypercube(5, 1)),
        ("fat tree 2, 6", Topology::fat_tree(2, 6, (1, 1), None)),
        ("fat tree 2, 6, 2:1, 21 nodes", Topology::fat_tree(2, 6, (2, 1), Some(21))),
        ("fat tree 2, 4, one node", Topology::fat_tree(2, 4, (3, 1), Some(1))),
        ("fat tree 3, 4", Topology::fat_tree(3, 4, (1, 1), None)),
        ("fat tree 3, 6", Topology::fat_tree(3, 6, (1, 1), None)),
        ("fat tree 3, 6, 1:2, 31 nodes", Topology::fat_tree(3, 6, (1, 2), Some(31))),
        ("fat tree 3, 4, 3:1", Topology::fat_tree(3, 4, (3, 1), None)),
        ("fat tree 4, 4", Topology::fat_tree(4, 4, (1, 1), None)),
        ("fat tree of one switch", Topology::xgft(&[4], &[], &[], None)),
        ("fat tree 2x3x2, tapered twice", Topology::xgft(&[2, 3, 2], &[2, 2], &[], None)),
        ("fat tree 3x2x2, trunks", Topology::xgft(&[3, 2, 2], &[1, 2], &[3, 2], None)),
        ("fat tree 2x2x2x2", Topology::xgft(&[2; 4], &[2; 3], &[], None)),
        ("fat tree 2x3x3, 11 nodes", Topology::xgft(&[2, 3, 3], &[3, 2], &[1, 2], Some(11))),
        ("dragonfly 1x4", Topology::dragonfly(1, 4, 1, 0)),
        ("dragonfly 2x2", Topology::dragonfly(2, 2, 1, 1)),
        ("dragonfly 9x4, full", Topology::dragonfly(9, 4, 2, 2)),
        ("dragonfly 5x4 of 9", Topology::dragonfly(5, 4, 2, 2)),
        ("dragonfly 4x3, 3 links", Topology::dragonfly(4, 3, 1, 3)),
        ("HyperX 5", Topology::hyperx(&[5], &[], 2)),
        ("HyperX 4x3", Topology::hyperx(&[4, 3], &[], 1)),
        ("HyperX 3x1x3, 2x1x3 links", Topology::hyperx(&[3, 1, 3], &[2, 1, 3], 1)),
        ("HyperX 3x2x2", Topology::hyperx(&[3, 2, 2], &[], 1)),
        ("Slim Fly 3", Topology::slim_fly(3, Some(1))),
        ("Slim Fly 4", Topology::slim_fly(4, Some(1))),
        ("fat tree 2, 24, one group of leaves", Topology::fat_tree(2, 24, (1, 1), Some(36))),
        ("dragonfly+ 1 of 3+2", Topology::dragonfly_plus(1, (3, 2), 1, 0)),
        ("dragonfly+ 3 of 2+2", Topology::dragonfly_plus(3, (2, 2), 2, 1)),
        ("dragonfly+ 5 of 3+2", Topology::dragonfly_plus(5, (3, 2), 1, 2)),
        ("dragonfly+ 4 of 2+3, 3 links", Topology::dragonfly_plus(4, (2, 3), 1, 3)),
        ("crossbar 9", Topology::crossbar(9)),
        ("graph", Topology::graph(PETERSEN)),
    ];
    made.into_iter().map(|(name, topology)| (name.to_string(), topology.expect(name))).collect()
}

/// All ordered pairs of different nodes.
pub fn pairs(topology: &Topology) -> impl Iterator<Item = (NodeId, NodeId)> + use<> {
    let nodes = topology.nodes();
    let with = move |from| (0..nodes).filter(move |&to| to != from).map(move |to| (NodeId(from), NodeId(to)));
    (0..nodes).flat_map(with)
}
