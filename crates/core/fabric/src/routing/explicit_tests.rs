// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of explicit routes.
use super::*;
use crate::routing::Algorithm;
use std::string::ToString;

/// Ports: 0 and 1 to the other routers, in the order of the links; 2 to the node.
fn triangle() -> Topology {
    Topology::graph("router a\nrouter b\nrouter c\nlink a b\nlink b c\nlink c a\nnode x a\nnode y b\nnode z c\n")
        .unwrap()
}

fn with_routes(topology: &Topology, algorithm: Algorithm, text: &str) -> Result<Routing, RoutesError> {
    Routing::new(topology, algorithm, 2).unwrap().with_routes(topology, text)
}

fn refused(text: &str) -> String {
    with_routes(&triangle(), Algorithm::UpDown, text).err().unwrap().to_string()
}

fn ports(routing: &Routing, topology: &Topology, from: u32, to: u32) -> Vec<(u16, u8)> {
    let path = routing.path(topology, NodeId(from), NodeId(to), 0).unwrap();
    path.iter().map(|hop| (hop.port.0, hop.vc.0)).collect()
}

#[test]
fn named_pairs_take_their_routes_and_others_keep_theirs() {
    let triangle = triangle();
    let text = "# the long way\nx y via c b\n\n2 1 ports 1/1 0/1 2 # by numbers\n";
    let made = with_routes(&triangle, Algorithm::UpDown, text).unwrap();
    assert_eq!((made.explicit_pairs(), made.deadlock_free()), (2, true));
    assert_eq!(ports(&made, &triangle, 0, 1), [(1, 0), (0, 0), (2, 0)]);
    assert_eq!(ports(&made, &triangle, 2, 1), [(1, 1), (0, 1), (2, 0)]);
    let plain = Routing::new(&triangle, Algorithm::UpDown, 2).unwrap();
    for (from, to) in [(0, 2), (1, 0), (1, 2), (2, 0)] {
        assert_eq!(ports(&made, &triangle, from, to), ports(&plain, &triangle, from, to));
    }
}

#[test]
fn a_route_may_pass_its_last_router_and_come_back() {
    let triangle = triangle();
    let made = with_routes(&triangle, Algorithm::UpDown, "x y via b c/1 b/1\n").unwrap();
    assert_eq!(ports(&made, &triangle, 0, 1), [(0, 0), (1, 1), (0, 1), (2, 0)]);
}

#[test]
fn hosts_of_a_route_may_be_named_as_nodes() {
    let triangle = triangle();
    let made = with_routes(&triangle, Algorithm::UpDown, "x y via z y\n").unwrap();
    assert_eq!(ports(&made, &triangle, 0, 1), [(1, 0), (0, 0), (2, 0)]);
}

#[test]
fn nodes_of_one_router_need_no_hop() {
    let mesh = Topology::mesh(&[2, 2], 2).unwrap();
    let made = with_routes(&mesh, Algorithm::DimensionOrder, "0 1 via\n").unwrap();
    assert_eq!(made.path(&mesh, NodeId(0), NodeId(1), 0).unwrap().len(), 1);
}

#[test]
fn an_illegal_route_is_refused_with_its_line() {
    let cases = [
        ("x y\n", "line 1: write `FROM TO ports PORT...` or `FROM TO via ROUTER...`, not 2 words"),
        ("x y over c\n", "line 1: write"),
        ("\nx w via c b\n", "line 2: `w` is not a node of this machine: it has nodes 0 to 2, the first named x"),
        ("x y via d b\n", "line 1: `d` is not a router of this machine"),
        ("x x via a\n", "line 1: a message from a node to itself"),
        ("x y via b\nx y via c b\n", "line 2: this pair has a route in line 1"),
        ("x y ports one 2\n", "line 1, hop 1: `one` is not a port"),
        ("x y ports 0/2 2\n", "line 1, hop 1: virtual channel 2 is not there: links have channels 0 to 1"),
        ("x y ports 7 2\n", "line 1, hop 1: nothing is connected to port 7 of a: it has port 0 to b, port 1 to c"),
        ("x y ports 2 0 2\n", "line 1, hop 2: the route leads to x and goes on"),
        ("x y ports 0\n", "line 1: the route ends at b, and not at y: end it with port 2"),
        ("x y ports 1\n", "line 1: the route ends at c, and not at y: lead it to b first"),
        ("x y ports 1 2\n", "line 1: the route ends at z, and not at y: lead it to b first"),
        ("x y via c a c b\n", "line 1, hop 4: the route enters c twice through port 1"),
    ];
    for (text, words) in cases {
        let error = refused(text);
        assert!(error.starts_with(words), "{text}: {error}");
    }
}

#[test]
fn a_hop_between_routers_without_a_link_is_refused() {
    let mesh = Topology::mesh(&[3, 3], 1).unwrap();
    let error = with_routes(&mesh, Algorithm::DimensionOrder, "0 8 via 4 8\n").err().unwrap().to_string();
    assert!(error.starts_with("line 1, hop 1: no link joins (0,0) and (1,1): it has port"), "{error}");
}

#[test]
fn routes_that_can_deadlock_are_refused_with_their_lines() {
    let ring = "x y via c b\ny z via a c\n# all turn the same way\nz x via b a\n";
    let error = refused(ring);
    assert!(error.starts_with("lines 1, 2, 4: these routes can deadlock"), "{error}");
    // Another channel after one hop breaks the cycle.
    assert!(with_routes(&triangle(), Algorithm::UpDown, &ring.replace("z x via b a", "z x via b a/1")).is_ok());
}

#[test]
fn a_cycle_with_the_routes_of_other_pairs_counts_too() {
    let mesh = Topology::mesh(&[2, 2], 1).unwrap();
    // Dimension order goes along x first; (0,1) -> (1,0) by y first closes a cycle only with a second such turn.
    let both = "0 3 via 2 3\n3 0 via 1 0\n";
    let error = with_routes(&mesh, Algorithm::DimensionOrder, both).err().unwrap().to_string();
    assert!(error.contains("can deadlock"), "{error}");
    assert!(with_routes(&mesh, Algorithm::DimensionOrder, "0 3 via 2 3\n").is_ok());
}

#[test]
fn where_the_algorithm_can_deadlock_only_the_routes_count() {
    let ring = Topology::torus(&[5], &[true], 1).unwrap();
    let made = with_routes(&ring, Algorithm::DimensionOrderUnguarded, "0 2 via 1 2\n").unwrap();
    assert!(!made.deadlock_free());
}

#[test]
fn a_large_machine_is_refused_rather_than_left_unchecked() {
    let torus = Topology::torus(&[17, 17, 17], &[true, true, true], 1).unwrap();
    let error = with_routes(&torus, Algorithm::DimensionOrder, "0 1 via 1\n").err().unwrap().to_string();
    assert!(error.contains("has 4913"), "{error}");
}

#[test]
fn the_algorithm_of_other_pairs_counts_and_limits_the_nodes() {
    let small = Topology::hyperx(&[4, 4], &[], 1).unwrap();
    let routing = Routing::new(&small, Algorithm::UgalLocal, 4).unwrap().with_routes(&small, "").unwrap();
    assert!(routing.counts_hops() && routing.takes_detours());
    let large = Topology::hyperx(&[32, 32], &[], 1).unwrap();
    let routing = Routing::new(&large, Algorithm::UgalLocal, 4).unwrap();
    let refused = routing.with_routes(&large, "").unwrap_err();
    assert_eq!(refused, RoutesError::TooManyNodes { nodes: 1024, limit: 256 });
}
