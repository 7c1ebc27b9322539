// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::dependency::Dependencies;
use crate::id::Port;
use crate::routing::{Algorithm, Routing};
use crate::samples;
use std::string::ToString;

/// Every link of a plane leads to the same router of the same plane, and every endpoint is the rail of its plane.
#[test]
fn planes_are_equal_and_apart() {
    for (name, one) in samples::all() {
        let all = one.clone().with_rails(3, RailLayout::Planes).unwrap();
        let Kind::Planes(planes) = all.kind() else { panic!("{name} has no planes") };
        assert_eq!((all.routers(), all.nodes()), (3 * one.routers(), 3 * one.nodes()), "{name}");
        assert_eq!((all.rails().nodes(), all.rails().count()), (one.nodes(), 3), "{name}");
        for router in (0..all.routers()).map(RouterId) {
            let (local, plane) = (planes.local(router), planes.of(router));
            assert_eq!(all.ports(router), one.ports(local), "{name}");
            for port in (0..all.ports(router)).map(Port) {
                let expected = match one.peer(local, port) {
                    Peer::Router { router, port } => Peer::Router { router: planes.whole(router, plane), port },
                    Peer::Node(node) => Peer::Node(all.rails().endpoint(node.0, plane)),
                    Peer::Unconnected => Peer::Unconnected,
                };
                assert_eq!(all.peer(router, port), expected, "{name}: {router} {port}");
                assert_eq!(all.weight(router, port), one.weight(local, port), "{name}");
                assert_eq!(all.edge_speed(router, port), one.edge_speed(local, port), "{name}");
            }
        }
        for endpoint in (0..all.nodes()).map(NodeId) {
            let (router, port) = all.attachment(endpoint);
            assert_eq!(all.peer(router, port), Peer::Node(endpoint), "{name}");
        }
    }
}

/// A packet takes the same ports as in a single plane, and no packet leaves its plane.
#[test]
fn routes_are_those_of_a_plane() {
    for (name, one) in samples::all().into_iter().filter(|(_, one)| (2..=40).contains(&one.nodes())) {
        let all = one.clone().with_rails(2, RailLayout::Planes).unwrap();
        for algorithm in Algorithm::fitting(&all) {
            let (Ok(single), Ok(both)) = (Routing::new(&one, algorithm, 8), Routing::new(&all, algorithm, 8)) else {
                panic!("{name}: {algorithm}");
            };
            for (from, to) in samples::pairs(&one) {
                let route = single.path(&one, from, to, 5).unwrap();
                for plane in 0..2 {
                    let end = |node: NodeId| all.rails().endpoint(node.0, plane);
                    assert_eq!(both.path(&all, end(from), end(to), 5).unwrap(), route, "{name}: {algorithm}");
                }
                let apart = (all.rails().endpoint(from.0, 0), all.rails().endpoint(to.0, 1));
                assert!(both.path(&all, apart.0, apart.1, 5).is_err(), "{name}: {algorithm}");
            }
        }
    }
}

#[test]
fn dependencies_of_planes_have_a_cycle_if_those_of_one_have() {
    let torus = Topology::torus(&[5], &[], 1).unwrap();
    for (algorithm, channels, is_free) in
        [(Algorithm::DimensionOrder, 2, true), (Algorithm::DimensionOrderUnguarded, 1, false)]
    {
        let all = torus.clone().with_rails(2, RailLayout::Planes).unwrap();
        let routing = Routing::new(&all, algorithm, channels).unwrap();
        assert_eq!(routing.deadlock_free(), is_free);
        assert_eq!(Dependencies::new(&all, &routing).cycle(&all).is_none(), is_free);
    }
}

#[test]
fn a_rail_of_a_group_is_on_one_leaf() {
    let tree = || Topology::fat_tree(2, 8, (1, 1), None).unwrap();
    let all = tree().with_rails(4, RailLayout::Optimised { group: None }).unwrap();
    assert_eq!((all.nodes(), all.rails().nodes(), all.rails().group()), (32, 8, 4));
    for node in 0..8 {
        let leaves: Vec<u32> = all.rails().of_node(node).map(|endpoint| all.attachment(endpoint).0.0).collect();
        let first = node / 4 * 4;
        assert_eq!(leaves, [first, first + 1, first + 2, first + 3], "node {node}");
    }
    let packed = tree().with_rails(4, RailLayout::Packed).unwrap();
    assert!((0..8).all(|node| packed.rails().of_node(node).all(|endpoint| packed.attachment(endpoint).0.0 == node)));
}

#[test]
fn layouts_that_do_not_fit_say_what_does() {
    let with = |nodes, rails, layout| {
        let tree = Topology::fat_tree(2, 8, (1, 1), Some(nodes)).unwrap();
        tree.with_rails(rails, layout).map_err(|error| error.to_string()).err().unwrap_or_default()
    };
    let by_leaf = RailLayout::Optimised { group: None };
    assert_eq!(with(30, 4, RailLayout::Packed), "30 ports for 4 rails of each node (packed): give a multiple of 4");
    assert_eq!(
        with(24, 4, by_leaf),
        "24 ports for 4 rails of each node (rail-optimised): give a multiple of 16, for groups of 4 nodes have 4 rails each"
    );
    assert_eq!(with(32, 0, by_leaf), "a node with 0 rails: give at least 1");
    assert!(with(32, 2, RailLayout::Optimised { group: Some(0) }).starts_with("a group of rails with 0 nodes"));
    let uneven = Topology::graph(samples::PETERSEN).unwrap().with_rails(5, by_leaf).unwrap_err().to_string();
    assert!(uneven.starts_with("routers have different numbers of nodes"), "{uneven}");
    let (few, many) = (Topology::crossbar(4).unwrap(), Topology::crossbar(60_000).unwrap());
    assert_eq!(few.clone().with_rails(1, RailLayout::Planes).unwrap(), few);
    assert!(many.with_rails(64, RailLayout::Planes).is_ok());
    let large = Topology::torus(&[1024, 1024], &[], 1).unwrap();
    assert!(matches!(large.with_rails(64, RailLayout::Planes), Err(TopologyError::TooLarge { .. })));
}

#[test]
fn names_tell_rails_and_planes_apart() {
    let mesh = || Topology::mesh(&[2, 2], 1).unwrap();
    let planes = mesh().with_rails(2, RailLayout::Planes).unwrap();
    assert_eq!(planes.kind().to_string(), "2 planes of mesh 2x2");
    assert_eq!(
        (planes.router_name(RouterId(3)), planes.node_name(NodeId(3))),
        ("plane 1 (1,0)".into(), "node 1 rail 1".into())
    );
    let packed = mesh().with_rails(2, RailLayout::Packed).unwrap();
    assert_eq!(packed.node_name(NodeId(3)), "node 1 rail 1");
    assert_eq!((planes.bisection_channels(), mesh().bisection_channels()), (Some(4), Some(2)));
    assert_eq!(planes.saturation_uniform(), mesh().saturation_uniform());
    assert_eq!(packed.saturation_uniform(), None);
}
