// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::samples;
use proptest::prelude::*;
use std::{format, vec};

fn routers(topology: &Topology) -> impl Iterator<Item = RouterId> + use<> {
    (0..topology.routers()).map(RouterId)
}

#[test]
fn links_go_both_ways_and_every_node_has_one_port() {
    for (name, topology) in samples::all() {
        let mut seen = vec![0; topology.nodes() as usize];
        for router in routers(&topology) {
            for port in (0..topology.ports(router)).map(Port) {
                match topology.peer(router, port) {
                    Peer::Router { router: other, port: there } => {
                        assert_ne!(other, router, "{name}");
                        assert_eq!(topology.peer(other, there), Peer::Router { router, port }, "{name}");
                    }
                    Peer::Node(node) => {
                        seen[node.0 as usize] += 1;
                        assert_eq!(topology.attachment(node), (router, port), "{name}");
                    }
                    Peer::Unconnected => {}
                }
            }
            let beyond = Port(topology.ports(router));
            assert_eq!(topology.peer(router, beyond), Peer::Unconnected, "{name}");
            let mut next: Vec<RouterId> = topology.neighbours(router).map(|n| n.1).collect();
            let links = next.len();
            next.sort();
            next.dedup();
            let parallel = match topology.kind() {
                Kind::FatTree(tree) => tree.levels().iter().any(|level| level.trunks > 1),
                kind => matches!(kind, Kind::Dragonfly(_) | Kind::DragonflyPlus(_) | Kind::HyperX(_)),
            };
            assert!(parallel || next.len() == links, "{name}: two links between two routers");
        }
        assert!(seen.iter().all(|&count| count == 1), "{name}: {seen:?}");
    }
}

#[test]
fn channels_are_dense_and_their_numbers_go_back() {
    for (name, topology) in samples::all() {
        let mut expected = 0;
        for router in routers(&topology) {
            for port in (0..topology.ports(router)).map(Port) {
                assert_eq!(topology.channel(router, port), expected, "{name}");
                assert_eq!(topology.channel_source(expected), Some((router, port)), "{name}");
                expected += 1;
            }
        }
        for node in (0..topology.nodes()).map(NodeId) {
            assert_eq!(topology.injection_channel(node), expected, "{name}");
            assert_eq!(topology.channel_source(expected), None, "{name}");
            expected += 1;
        }
        assert_eq!(topology.channels(), expected, "{name}");
    }
}

#[test]
fn distances_and_diameters_are_those_of_a_search() {
    for (name, topology) in samples::all() {
        let mut diameter = 0;
        for from in routers(&topology) {
            let searched = topology.distances(from);
            for to in routers(&topology) {
                let distance = topology.distance(from, to);
                assert_eq!(distance, searched[to.0 as usize], "{name}: {from} to {to}");
            }
        }
        for from in topology.host_routers() {
            for to in topology.host_routers() {
                diameter = diameter.max(topology.distance(from, to));
            }
        }
        assert_eq!(topology.diameter(), diameter, "{name}");
        for (from, to) in samples::pairs(&topology) {
            let (a, b) = (topology.attachment(from).0, topology.attachment(to).0);
            assert_eq!(topology.hops_min(from, to), topology.distance(a, b) + 1, "{name}");
        }
    }
}

/// Checks the numbers of routers, nodes and links between routers, and the diameter.
#[track_caller]
fn measures(topology: Topology, routers: u32, nodes: u32, diameter: u32, links: usize) {
    assert_eq!(topology.routers(), routers, "routers");
    assert_eq!(topology.nodes(), nodes, "nodes");
    assert_eq!(topology.diameter(), diameter, "diameter");
    let ends: usize = self::routers(&topology).map(|r| topology.neighbours(r).count()).sum();
    assert_eq!(ends, 2 * links, "ends of links");
}

#[test]
fn measures_follow_closed_formulas() {
    for k in 1..9u32 {
        for j in 1..6u32 {
            let links = (k - 1) * j + k * (j - 1);
            measures(Topology::mesh(&[k, j], 2).unwrap(), k * j, 2 * k * j, k + j - 2, links as usize);
            let ring = |n: u32| if n > 2 { (n, n / 2) } else { (n - 1, n - 1) };
            let links = ring(k).0 * j + k * ring(j).0;
            let diameter = ring(k).1 + ring(j).1;
            measures(Topology::torus(&[k, j], &[], 1).unwrap(), k * j, k * j, diameter, links as usize);
        }
    }
    for order in 0..9 {
        let routers = 1 << order;
        let links = routers * order / 2;
        measures(Topology::hypercube(order, 1).unwrap(), routers, routers, order, links as usize);
    }
    for half in 1..5 {
        let k = 2 * half;
        let two = Topology::fat_tree(2, k, (1, 1), None).unwrap();
        measures(two, k + half, k * half, 2, (k * half) as usize);
        let three = Topology::fat_tree(3, k, (1, 1), None).unwrap();
        let links = 2 * k * half * half;
        measures(three, 5 * k * k / 4, k * k * k / 4, 4, links as usize);
    }
    for h in 1..4 {
        let (a, groups) = (2 * h, 2 * h * h + 1);
        let links = groups * a * (a - 1) / 2 + groups * (groups - 1) / 2;
        let full = Topology::dragonfly(groups, a, h, h).unwrap();
        measures(full, groups * a, groups * a * h, 3, links as usize);
    }
    for nodes in [1, 2, 100, 65_535] {
        measures(Topology::crossbar(nodes).unwrap(), 1, nodes, 0, 0);
    }
}

#[test]
fn ports_of_grids_are_plus_and_minus_and_then_nodes() {
    let torus = Topology::torus(&[4, 3], &[], 2).unwrap();
    let at = RouterId(3);
    assert_eq!(torus.coordinates(at), [3, 0]);
    let to = |router| torus.neighbours(at).find(|n| n.1 == RouterId(router)).map(|n| n.0.0);
    assert_eq!((to(0), to(2), to(7), to(11)), (Some(0), Some(1), Some(2), Some(3)));
    assert_eq!(torus.peer(at, Port(4)), Peer::Node(NodeId(6)));
    assert_eq!(torus.peer(at, Port(5)), Peer::Node(NodeId(7)));
    let mesh = Topology::mesh(&[4, 3], 1).unwrap();
    assert_eq!(mesh.peer(at, Port(0)), Peer::Unconnected);
    assert_eq!(mesh.peer(at, Port(3)), Peer::Unconnected);
}

#[test]
fn only_the_named_dimensions_wrap() {
    let storm = Topology::torus(&[4, 3, 5], &[false, false, true], 1).unwrap();
    assert_eq!(storm.diameter(), 3 + 2 + 2);
    assert_eq!(storm.peer(RouterId(0), Port(1)), Peer::Unconnected);
    let wrapped = Peer::Router { router: RouterId(4 * 3 * 4), port: Port(4) };
    assert_eq!(storm.peer(RouterId(0), Port(5)), wrapped);
    assert_eq!(storm.kind().to_string(), "torus 4x3x5 (wraps in dimension 2)");
    // A ring of two routers would have two parallel links.
    let two = Topology::torus(&[2, 3], &[], 1).unwrap();
    assert!(!two.wraps(0) && two.wraps(1));
}

/// Channels from routers for which `side` is true to routers for which it is false.
fn crossing(topology: &Topology, side: impl Fn(RouterId) -> bool) -> u32 {
    let cut = |r: RouterId| topology.neighbours(r).filter(|n| !side(n.1)).count() as u32;
    routers(topology).filter(|&r| side(r)).map(cut).sum()
}

#[test]
fn the_bisection_equals_a_count() {
    let torus = Topology::torus(&[8, 6, 3], &[], 1).unwrap();
    assert_eq!(torus.bisection_channels(), Some(crossing(&torus, |r| torus.coordinates(r)[0] < 4)));
    let mesh = Topology::mesh(&[4, 6], 1).unwrap();
    assert_eq!(mesh.bisection_channels(), Some(crossing(&mesh, |r| mesh.coordinates(r)[1] < 3)));
    let cube = Topology::hypercube(4, 1).unwrap();
    assert_eq!(cube.bisection_channels(), Some(crossing(&cube, |r| r.0 < 8)));
    let fly = Topology::dragonfly(8, 4, 2, 2).unwrap();
    assert_eq!(fly.bisection_channels(), Some(crossing(&fly, |r| r.0 < 4 * 4)));
    // With half of the pods and half of the cores, or of the spines, on each side, the cut has the uplinks of half the
    // leaves.
    assert_eq!(Topology::fat_tree(3, 8, (1, 1), None).unwrap().bisection_channels(), Some(64));
    assert_eq!(Topology::fat_tree(2, 6, (2, 1), Some(16)).unwrap().bisection_channels(), Some(4));
    assert_eq!(Topology::fat_tree(3, 8, (1, 1), Some(127)).unwrap().bisection_channels(), None);
}

#[test]
fn saturation_is_known_in_known_cases() {
    let bound = |topology: Result<Topology, _>| topology.unwrap().saturation_uniform();
    // 4 / k for a mesh and 8 / k for a torus, with N - 1 destinations in place of N.
    assert_eq!(bound(Topology::mesh(&[8, 8], 1)), Some((63, 128)));
    assert_eq!(bound(Topology::torus(&[16, 16], &[], 1)), Some((255, 512)));
    assert_eq!(bound(Topology::torus(&[4, 4], &[], 1)), Some((1, 1)));
    assert_eq!(bound(Topology::hypercube(6, 1)), Some((1, 1)));
    assert_eq!(bound(Topology::hypercube(4, 4)), Some((63, 128)));
    assert_eq!(bound(Topology::fat_tree(3, 8, (1, 1), None)), Some((1, 1)));
    assert_eq!(bound(Topology::fat_tree(2, 6, (2, 1), None)), Some((23, 40)));
    assert_eq!(bound(Topology::crossbar(100)), Some((1, 1)));
    assert_eq!(bound(Topology::graph(samples::PETERSEN)), None);
}

#[test]
fn a_large_network_is_small_in_memory() {
    assert_eq!(size_of::<PackedPeer>(), 8);
    let bytes =
        |t: &Topology| t.peers.len() * 8 + t.attachments.len() * 8 + t.first_port.len() * 4 + t.coordinates.len() * 2;
    let torus = Topology::torus(&[64, 32, 32], &[], 1).unwrap();
    assert_eq!(torus.nodes(), 65_536);
    assert!(bytes(&torus) < 6 << 20, "{}", bytes(&torus));
    let cube = Topology::hypercube(16, 1).unwrap();
    assert!(bytes(&cube) < 16 << 20, "{}", bytes(&cube));
    let tree = Topology::fat_tree(3, 64, (1, 1), Some(65_536)).unwrap();
    assert_eq!(tree.diameter(), 4);
    assert!(bytes(&tree) < 6 << 20, "{}", bytes(&tree));
}

#[test]
fn routers_have_names() {
    assert_eq!(Topology::torus(&[4, 4], &[], 1).unwrap().router_name(RouterId(6)), "(2,1)");
    assert_eq!(Topology::hypercube(4, 1).unwrap().router_name(RouterId(6)), "0110");
    let tree = Topology::fat_tree(3, 4, (1, 1), None).unwrap();
    assert_eq!(tree.router_name(RouterId(7)), "leaf 7");
    assert_eq!(tree.router_name(RouterId(11)), "middle 1 of pod 1");
    assert_eq!(tree.router_name(RouterId(19)), "core 3");
    let fly = Topology::dragonfly(5, 4, 2, 2).unwrap();
    assert_eq!(fly.router_name(RouterId(5)), "router 1 of group 1");
    let graph = Topology::graph(samples::PETERSEN).unwrap();
    assert_eq!((graph.router_name(RouterId(5)), graph.node_name(NodeId(4))), ("i0".to_string(), "e".to_string()));
}

#[track_caller]
fn refused(made: Result<Topology, TopologyError>, words: &[&str]) {
    let message = made.expect_err("made").to_string();
    for word in words {
        assert!(message.contains(word), "`{message}` does not say `{word}`");
    }
}

#[test]
fn impossible_topologies_are_refused_with_what_would_do() {
    refused(Topology::mesh(&[], 1), &["0 dimensions", "1 to 8"]);
    refused(Topology::mesh(&[2; 9], 1), &["9 dimensions"]);
    refused(Topology::mesh(&[4, 0], 1), &["dimension 1", "size 0"]);
    refused(Topology::mesh(&[4, 70_000], 1), &["dimension 1", "65535"]);
    refused(Topology::torus(&[4, 4], &[true], 1), &["`wrap` has 1", "2 dimensions"]);
    refused(Topology::torus(&[4, 4], &[], 0), &["0 nodes per router"]);
    refused(Topology::torus(&[60_000, 60_000], &[], 1), &["3600000000", "limit"]);
    refused(Topology::mesh(&[65_535; 8], 1), &["more than the limit"]);
    refused(Topology::mesh(&[2], u32::MAX), &["nodes", "limit"]);
    refused(Topology::mesh(&[2], 65_535), &["ports of a router", "65535"]);
    refused(Topology::hypercube(32, 1), &["order 32", "20"]);
    refused(Topology::crossbar(0), &["0 nodes"]);
    refused(Topology::crossbar(65_536), &["65536", "limit of 65535"]);
    refused(Topology::fat_tree(1, 8, (1, 1), None), &["1 levels", "2 to 24"]);
    refused(Topology::fat_tree(2, 7, (1, 1), None), &["radix 7", "multiple of 2"]);
    refused(Topology::fat_tree(3, 9, (2, 1), None), &["radix 9", "odd"]);
    refused(Topology::fat_tree(2, 0, (1, 1), None), &["0 radix"]);
    refused(Topology::fat_tree(2, 8, (1, 0), None), &["0 ports up"]);
    refused(Topology::fat_tree(2, 8, (u32::MAX, u32::MAX), None), &["multiple of 8589934590"]);
    refused(Topology::fat_tree(2, 8, (1, 1), Some(0)), &["0 nodes"]);
    refused(Topology::fat_tree(2, 8, (1, 1), Some(33)), &["at most 32", "not 33", "3 levels"]);
    refused(Topology::fat_tree(3, 8, (1, 1), Some(129)), &["at most 128", "larger radix"]);
    refused(Topology::fat_tree(3, 65_534, (1, 1), None), &["more than the limit"]);
    refused(Topology::dragonfly(0, 4, 2, 2), &["0 groups"]);
    refused(Topology::dragonfly(10, 4, 2, 2), &["10 groups", "at most 9"]);
    refused(Topology::dragonfly(2, 4, 2, 0), &["at most 1 groups"]);
    refused(Topology::dragonfly(u32::MAX, u32::MAX, 1, 1), &["limit"]);
}

#[test]
fn bad_graphs_are_refused_with_their_line() {
    let text = |lines: &str| Topology::graph(&lines.replace(';', "\n"));
    refused(text(""), &["no routers", "router NAME"]);
    refused(text("router a; router b; link a b"), &["no nodes"]);
    refused(text("router a; node n a; router b # alone"), &["`a`", "`b`", "line 3"]);
    refused(text("router a; router b; link a b; link b a; node n a"), &["line 4", "line 3"]);
    refused(text("router a; link a a"), &["line 2", "itself"]);
    refused(text("router a; ; router a"), &["line 3", "router `a`", "line 1"]);
    refused(text("router a; node n a; node n a"), &["line 3", "node `n`", "line 2"]);
    refused(text("router a; link a b"), &["line 2", "no router `b`"]);
    refused(text("router a; node n"), &["line 2", "1 words", "node NAME ROUTER"]);
    refused(text("router a b"), &["line 1", "router NAME"]);
    refused(text("router"), &["line 1", "0 words"]);
    refused(text("router a; router b; link a b 0"), &["line 3", "weight `0`"]);
    refused(text("router a; router b; link a b 1 2"), &["line 3", "[WEIGHT]"]);
    refused(text("switch a"), &["line 1", "`switch`"]);
    refused(text(&"x".repeat(10_000)), &["line 1"]);
    assert!(text(&"x".repeat(10_000)).unwrap_err().to_string().len() < 200);
    // A line may name a router before its declaration, and several nodes may share a router.
    let graph = text("node n a; node m a; link a b; router a; router b").unwrap();
    assert_eq!((graph.routers(), graph.nodes(), graph.ports(RouterId(0))), (2, 2, 3));
}

proptest! {
    #[test]
    fn any_text_makes_a_graph_or_an_error(lines in proptest::collection::vec(
        prop_oneof!["(router|link|node|[a-z]*)( [abc0#]{0,2}){0,4}", ".{0,12}"], 0..12)) {
        let text = lines.join("\n");
        if let Ok(graph) = Topology::graph(&text) {
            prop_assert!(graph.nodes() > 0);
            prop_assert!(graph.distances(RouterId(0)).iter().all(|&d| d != u32::MAX), "{text}");
        }
    }

    #[test]
    fn any_numbers_make_a_topology_or_an_error(
        dimensions in proptest::collection::vec(0u32..6, 0..5),
        wrap in proptest::collection::vec(any::<bool>(), 0..5),
        [a, b, c, d] in proptest::array::uniform4(0u32..12),
    ) {
        let nodes = if c > 8 { None } else { Some(a * b * c) };
        let made = [
            Topology::mesh(&dimensions, a),
            Topology::torus(&dimensions, &wrap, b % 4),
            Topology::hypercube(a, b),
            Topology::fat_tree(a % 5, b, (c % 4, d % 4), nodes),
            Topology::dragonfly(a, b, c, d),
            Topology::crossbar(a),
        ];
        for topology in made.into_iter().flatten() {
            let far = topology.distances(RouterId(0)).iter().filter(|&&d| d == u32::MAX).count();
            prop_assert_eq!(far, 0, "{}", topology.kind());
            prop_assert!(topology.saturation_uniform().is_none_or(|(n, m)| 0 < n && n <= m || topology.nodes() == 1));
            let _ = format!("{} {:?}", topology.kind(), topology.bisection_channels());
        }
    }
}

/// Ahn and others, 2009: every router is linked to all others of its line in each dimension.
#[test]
fn a_hyperx_links_all_routers_of_a_line() {
    for (dimensions, trunks, nodes) in
        [(vec![6], vec![], 3), (vec![4, 5], vec![2, 1], 1), (vec![3, 1, 4], vec![1, 1, 3], 2), (vec![2; 7], vec![], 1)]
    {
        let topology = Topology::hyperx(&dimensions, &trunks, nodes).unwrap();
        let count: u32 = dimensions.iter().product();
        assert_eq!((topology.routers(), topology.nodes()), (count, count * nodes));
        let trunk = |d: usize| trunks.get(d).copied().unwrap_or(1);
        let degree: u32 = dimensions.iter().enumerate().map(|(d, size)| (size - 1) * trunk(d)).sum();
        let mut farthest = 0;
        for router in routers(&topology) {
            let here = topology.coordinates(router);
            let mut links = vec![0; count as usize];
            topology.neighbours(router).for_each(|(_, next)| links[next.0 as usize] += 1);
            assert_eq!(links.iter().sum::<u32>(), degree);
            for (other, &links) in links.iter().enumerate() {
                let there = topology.coordinates(RouterId(other as u32));
                let differ: Vec<usize> = (0..here.len()).filter(|&d| here[d] != there[d]).collect();
                assert_eq!(links, if let [d] = differ[..] { trunk(d) } else { 0 }, "{here:?} to {there:?}");
            }
            let distances = topology.distances(router);
            for other in routers(&topology) {
                assert_eq!(topology.distance(router, other), distances[other.0 as usize]);
            }
            farthest = farthest.max(*distances.iter().max().unwrap());
        }
        assert_eq!(topology.diameter(), farthest);
    }
    let error = |dimensions: &[u32], trunks: &[u32]| Topology::hyperx(dimensions, trunks, 1).unwrap_err().to_string();
    assert_eq!(
        error(&[4, 4], &[1]),
        "`trunks` has 1 entries for 2 dimensions: give one for each, or none for single links"
    );
    assert_eq!(error(&[4], &[0]), "a HyperX with 0 links between two routers: give at least 1");
    assert!(error(&[2; 8], &[]).contains("8 dimensions: give 1 to 7"));
    assert!(error(&[60_000, 60_000], &[]).contains("make the network smaller"));
}

/// Besta and Hoefler, 2014: 2 q² routers of (3 q - d) / 2 links, of diameter 2. With q = 5 it is the graph of Hoffman and
/// Singleton, in which two routers that are not linked have exactly one common neighbour.
#[test]
fn a_slim_fly_has_diameter_two() {
    for (q, degree) in
        [(3, 5), (4, 6), (5, 7), (7, 11), (8, 12), (9, 13), (11, 17), (13, 19), (16, 24), (25, 37), (27, 41)]
    {
        let topology = Topology::slim_fly(q, None).unwrap();
        let Kind::SlimFly(fly) = *topology.kind() else { unreachable!() };
        assert_eq!((topology.routers(), fly.degree()), (2 * q * q, degree), "{q}");
        assert_eq!(topology.nodes(), 2 * q * q * degree.div_ceil(2), "{q}");
        for router in routers(&topology) {
            assert_eq!(topology.neighbours(router).count() as u32, degree, "{q} {router}");
        }
        // The graph looks alike from all routers of a side.
        for router in [0, 1, q, q * q, 2 * q * q - 1].map(RouterId) {
            let distances = topology.distances(router);
            assert_eq!(distances.iter().max(), Some(&topology.diameter()), "{q}");
        }
    }
    let singleton = Topology::slim_fly(5, None).unwrap();
    let linked = |a, b| singleton.neighbours(a).any(|(_, next)| next == b);
    for a in routers(&singleton) {
        for b in routers(&singleton).filter(|&b| b != a && !linked(a, b)) {
            assert_eq!(singleton.neighbours(a).filter(|&(_, next)| linked(next, b)).count(), 1, "{a} {b}");
        }
    }
    let error = |q| Topology::slim_fly(q, None).unwrap_err().to_string();
    assert_eq!(error(6), "a Slim Fly of q = 6: q is a prime power from 3 to 199; give 5 or 7");
    assert_eq!(error(2), "a Slim Fly of q = 2: q is a prime power from 3 to 199; give 3 or 3");
    assert_eq!(error(1000), "a Slim Fly of q = 1000: q is a prime power from 3 to 199; give 199 or 199");
    assert!(Topology::slim_fly(5, Some(0)).is_err());
}

/// Shpiner and others, 2017: leaves and spines of a group are all linked; every two groups have the same number of links.
#[test]
fn a_dragonfly_plus_has_groups_of_two_levels() {
    for (groups, leaves, spines, nodes, links, copies) in
        [(5, 3, 2, 2, 2, 1), (9, 4, 4, 4, 4, 2), (3, 2, 4, 1, 2, 4), (1, 3, 2, 1, 0, 0), (2, 1, 1, 3, 2, 2)]
    {
        let topology = Topology::dragonfly_plus(groups, (leaves, spines), nodes, links).unwrap();
        let Kind::DragonflyPlus(fly) = *topology.kind() else { unreachable!() };
        assert_eq!((topology.routers(), topology.nodes()), (groups * (leaves + spines), groups * leaves * nodes));
        let mut between = vec![0; (groups * groups) as usize];
        for router in routers(&topology) {
            let (mut near, mut far) = (0, 0);
            for (_, next) in topology.neighbours(router) {
                let (a, b) = (fly.group(router), fly.group(next));
                if a == b {
                    assert_ne!(fly.is_leaf(router), fly.is_leaf(next));
                    near += 1;
                } else {
                    assert!(!fly.is_leaf(router) && !fly.is_leaf(next));
                    between[(a * groups + b) as usize] += 1;
                    far += 1;
                }
            }
            assert_eq!(near, if fly.is_leaf(router) { spines } else { leaves });
            assert!(far <= if fly.is_leaf(router) { 0 } else { links });
            let distances = topology.distances(router);
            for other in routers(&topology) {
                assert_eq!(topology.distance(router, other), distances[other.0 as usize]);
            }
        }
        for a in 0..groups {
            for b in 0..groups {
                assert_eq!(between[(a * groups + b) as usize], if a == b { 0 } else { copies }, "{a} {b}");
            }
        }
        let hosts = topology.host_routers();
        let farthest = hosts.iter().flat_map(|&a| hosts.iter().map(move |&b| (a, b)));
        assert_eq!(farthest.map(|(a, b)| topology.distance(a, b)).max(), Some(topology.diameter()));
    }
    let error = Topology::dragonfly_plus(6, (3, 2), 1, 2).unwrap_err().to_string();
    assert!(error.contains("6 groups need 5 global links") && error.contains("at most 5 groups"), "{error}");
}
