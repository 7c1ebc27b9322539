// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::dependency::Dependencies;
use crate::samples;
use crate::topology::Dragonfly;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const MINIMAL: [Algorithm; 7] = [
    Algorithm::DimensionOrder,
    Algorithm::DimensionOrderUnguarded,
    Algorithm::WestFirst,
    Algorithm::ShortestPath,
    Algorithm::DestinationModK,
    Algorithm::AdaptiveUp,
    Algorithm::RandomUp,
];

/// The routers and hops of a route; `choose` picks one of several hops. Checks at each router that a second call gives
/// the same hops, and that the route stays in one set of virtual channels.
#[track_caller]
pub(super) fn walk(
    topology: &Topology,
    routing: &Routing,
    (from, to): (NodeId, NodeId),
    entropy: u64,
    mut choose: impl FnMut(usize) -> usize,
) -> Vec<(RouterId, Hop)> {
    let mut state = routing.start(topology, from, to, entropy);
    let (mut at, port) = topology.attachment(from);
    let mut arrived = None;
    let mut route: Vec<(RouterId, Hop)> = Vec::new();
    loop {
        let choices = routing.next(topology, at, arrived, to, &mut state);
        let again = state;
        let repeated = routing.next(topology, at, arrived.or(Some((port, Vc(3)))), to, &mut state);
        assert_eq!((choices.as_slice(), again), (repeated.as_slice(), state), "asked again");
        assert!(!choices.is_empty(), "{} gives no hop at {at} for {from} to {to}", routing.algorithm());
        let hop = choices.take(choose(choices.len()), &mut state).unwrap();
        assert!(hop.vc.0 < routing.virtual_channels(), "{hop:?}");
        let vc_set = |hop: Hop| hop.vc.0 / routing.virtual_channels_needed();
        assert!(route.iter().all(|&(_, before)| vc_set(before) == vc_set(hop)), "changes its set of virtual channels");
        route.push((at, hop));
        assert!(route.len() <= 2 * topology.routers() as usize, "{from} to {to} goes in circles: {route:?}");
        match topology.peer(at, hop.port) {
            Peer::Router { router, port } => (at, arrived) = (router, Some((port, hop.vc))),
            Peer::Node(node) => {
                assert_eq!(node, to, "{from} to {to} ends at {node}");
                return route;
            }
            Peer::Unconnected => panic!("{from} to {to}: {at} {} leads nowhere", hop.port),
        }
    }
}

#[test]
fn every_pair_arrives_and_minimal_routings_are_minimal() {
    for (name, topology) in samples::all() {
        for algorithm in Algorithm::fitting(&topology) {
            // A shortest path of a weighted graph may have more hops; the property test covers weights.
            let weighted = algorithm == Algorithm::ShortestPath && name == "graph";
            let needed = algorithm.virtual_channels_needed(&topology).unwrap();
            for virtual_channels in [needed, 3 * needed] {
                let routing = Routing::new(&topology, algorithm, virtual_channels).unwrap();
                for pair in samples::pairs(&topology) {
                    let hops = walk(&topology, &routing, pair, 0, |_| 0).len() as u32;
                    let last = walk(&topology, &routing, pair, 0, |choices| choices - 1).len() as u32;
                    let least = topology.hops_min(pair.0, pair.1);
                    assert!(hops >= least, "{name} {algorithm} {pair:?}");
                    if MINIMAL.contains(&algorithm) && !weighted {
                        assert_eq!((hops, last), (least, least), "{name} {algorithm} {pair:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn all_virtual_channels_are_used() {
    let torus = Topology::torus(&[10, 10], &[], 1).unwrap();
    for virtual_channels in [2, 4, 6] {
        let routing = Routing::new(&torus, Algorithm::DimensionOrder, virtual_channels).unwrap();
        let mut used = vec![0; usize::from(virtual_channels)];
        for pair in samples::pairs(&torus) {
            for (router, hop) in walk(&torus, &routing, pair, 0, |_| 0) {
                let last = matches!(torus.peer(router, hop.port), Peer::Node(_));
                used[usize::from(hop.vc.0)] += u32::from(!last);
            }
        }
        let (least, most) = (used.iter().min().unwrap(), used.iter().max().unwrap());
        // The classes are not equally used: a wrapping link itself is always in class 0.
        assert!(least * 3 > most * 2, "{used:?}");
    }
}

/// Counts the routes over each channel when every node sends to every other.
fn loads(topology: &Topology, routing: &Routing) -> Vec<u64> {
    let mut loads = vec![0; topology.channels() as usize];
    for pair in samples::pairs(topology) {
        for (router, hop) in walk(topology, routing, pair, 0, |_| 0) {
            loads[topology.channel(router, hop.port) as usize] += 1;
        }
    }
    loads
}

#[test]
fn the_busiest_channel_meets_the_saturation_bound() {
    for (dimensions, wrap, nodes) in [
        (vec![8, 8], false, 1),
        (vec![5, 4], false, 1),
        (vec![3, 2, 6], false, 2),
        (vec![8, 8], true, 1),
        (vec![5, 5], true, 3),
        (vec![4, 8], true, 2),
    ] {
        let topology = match wrap {
            true => Topology::torus(&dimensions, &[], nodes).unwrap(),
            false => Topology::mesh(&dimensions, nodes).unwrap(),
        };
        let routing = Routing::new(&topology, Algorithm::DimensionOrder, 2).unwrap();
        // A node injects N - 1 packets; at the bound the busiest channel is busy all the time.
        let busiest = *loads(&topology, &routing).iter().max().unwrap();
        let bound = topology.saturation_uniform().unwrap();
        assert_eq!(busiest * bound.0, u64::from(topology.nodes() - 1) * bound.1, "{dimensions:?} {wrap} {nodes}");
    }
}

/// The property that the algorithm is known for: in every shift no two packets use one channel.
#[test]
fn destination_mod_k_carries_every_shift_without_conflict() {
    let of_radix = |levels, radix| Topology::fat_tree(levels, radix, (1, 1), None);
    let of_levels = |children: &[u32], parents: &[u32], trunks: &[u32]| Topology::xgft(children, parents, trunks, None);
    for tree in [
        of_radix(2, 4),
        of_radix(2, 6),
        of_radix(3, 4),
        of_radix(3, 6),
        of_radix(4, 4),
        of_levels(&[3; 3], &[3; 2], &[]),
        of_levels(&[4, 4, 4], &[2, 4], &[2, 2]),
        of_levels(&[6, 4], &[2], &[3]),
    ] {
        let tree = tree.unwrap();
        let routing = Routing::new(&tree, Algorithm::DestinationModK, 1).unwrap();
        for shift in 1..tree.nodes() {
            let mut taken = vec![false; tree.channels() as usize];
            for from in 0..tree.nodes() {
                let pair = (NodeId(from), NodeId((from + shift) % tree.nodes()));
                for (router, hop) in walk(&tree, &routing, pair, 0, |_| 0) {
                    let channel = tree.channel(router, hop.port) as usize;
                    assert!(!taken[channel], "{} shift {shift}: {}", tree.kind(), tree.router_name(router));
                    taken[channel] = true;
                }
            }
        }
    }
}

/// Greenberg and Leiserson 1989: each common ancestor is as likely as any other.
#[test]
fn random_up_takes_every_way_equally_often() {
    let tree = Topology::xgft(&[2, 2, 3], &[3, 2], &[2, 1], None).unwrap();
    let routing = Routing::new(&tree, Algorithm::RandomUp, 1).unwrap();
    assert_eq!(routing.variants(), 3 * 2 * 2);
    let (mut tops, mut first) = (vec![0; tree.routers() as usize], vec![0; 16]);
    for entropy in 0..routing.variants() {
        let route = walk(&tree, &routing, (NodeId(1), NodeId(9)), entropy, |_| 0);
        assert_eq!(route.len(), 5);
        tops[route[2].0.0 as usize] += 1;
        first[usize::from(route[0].1.port.0)] += 1;
    }
    tops.retain(|&count| count > 0);
    first.retain(|&count| count > 0);
    assert_eq!((tops, first), (vec![2; 6], vec![2; 6]));
}

/// Uplinks of a tapered tree share the load of uniform traffic, and the busiest level meets the bound.
#[test]
fn destination_mod_k_meets_the_saturation_bound_of_a_tapered_tree() {
    for (children, parents, trunks) in
        [(&[4, 4, 4], &[2, 4], &[1, 1]), (&[4, 2, 4], &[4, 1], &[1, 2]), (&[3, 2, 3], &[1, 3], &[3, 1])]
    {
        let tree = Topology::xgft(children, parents, trunks, None).unwrap();
        let routing = Routing::new(&tree, Algorithm::DestinationModK, 1).unwrap();
        let busiest = *loads(&tree, &routing).iter().max().unwrap();
        let bound = tree.saturation_uniform().unwrap();
        assert_eq!(busiest * bound.0, u64::from(tree.nodes() - 1) * bound.1, "{}", tree.kind());
    }
}

#[test]
fn packets_for_a_node_come_down_from_one_top() {
    let tree = Topology::fat_tree(3, 4, (1, 1), None).unwrap();
    let routing = Routing::new(&tree, Algorithm::DestinationModK, 1).unwrap();
    let mut tops = vec![None; 16];
    for (from, to) in samples::pairs(&tree) {
        if let Some((top, _)) = walk(&tree, &routing, (from, to), 0, |_| 0).into_iter().find(|(r, _)| r.0 >= 16) {
            assert_eq!(*tops[to.0 as usize].get_or_insert(top), top, "{to}");
        }
    }
    tops.sort();
    tops.dedup();
    assert_eq!(tops.len(), 4, "all cores are used");
}

#[test]
fn a_wrapping_link_parts_the_classes() {
    let ring = Topology::torus(&[8], &[], 1).unwrap();
    let routing = Routing::new(&ring, Algorithm::DimensionOrder, 2).unwrap();
    let classes = |from, to| -> Vec<(u16, u8)> {
        let route = walk(&ring, &routing, (NodeId(from), NodeId(to)), 0, |_| 0);
        route[..route.len() - 1].iter().map(|(_, hop)| (hop.port.0, hop.vc.0)).collect()
    };
    assert_eq!(classes(6, 1), [(0, 0), (0, 0), (0, 1)]);
    assert_eq!(classes(1, 6), [(1, 0), (1, 0), (1, 1)]);
    // Half way round a ring: from even routers in the positive direction, from odd routers in the negative.
    assert_eq!(classes(6, 2), [(0, 0), (0, 0), (0, 1), (0, 1)]);
    assert!(classes(3, 7).iter().all(|&(port, _)| port == 1));
    assert!(classes(4, 0).iter().all(|&(port, _)| port == 0));
}

#[test]
fn modified_dimension_order_wraps_first_or_not_at_all() {
    let torus = Topology::torus(&[7, 5], &[], 1).unwrap();
    let routing = Routing::new(&torus, Algorithm::ModifiedDimensionOrder, 1).unwrap();
    let mut longer = 0;
    for (from, to) in samples::pairs(&torus) {
        let route = walk(&torus, &routing, (from, to), 0, |_| 0);
        let (a, b) = (torus.coordinates(RouterId(from.0)), torus.coordinates(RouterId(to.0)));
        let along = |d: usize, size: u16| {
            let direct = a[d].abs_diff(b[d]);
            match a[d] {
                0 => direct.min(1 + (size - 1 - b[d])),
                last if last == size - 1 => direct.min(1 + b[d]),
                _ => direct,
            }
        };
        let expected = u32::from(along(0, 7) + along(1, 5)) + 1;
        assert_eq!(route.len() as u32, expected, "{a:?} to {b:?}");
        longer += u32::from(expected > torus.hops_min(from, to));
        let is_wrap = |&(at, hop): &(RouterId, Hop)| match torus.peer(at, hop.port) {
            Peer::Router { router, .. } => {
                let (a, b) = (torus.coordinates(at), torus.coordinates(router));
                a[0].abs_diff(b[0]) > 1 || a[1].abs_diff(b[1]) > 1
            }
            _ => false,
        };
        assert!(route.iter().map(is_wrap).is_sorted_by_key(|wraps| !wraps), "a wrapping link after others");
    }
    assert!(longer > 0, "it is not minimal for some pairs");
    assert!(routing.deadlock_free());
}

#[test]
fn west_first_adapts_where_it_need_not_go_west() {
    let mesh = Topology::mesh(&[5, 5], 1).unwrap();
    let routing = Routing::new(&mesh, Algorithm::WestFirst, 1).unwrap();
    let at = |x: u32, y: u32| x + 5 * y;
    let next = |from: u32, to: u32| -> Vec<u16> {
        let mut state = routing.start(&mesh, NodeId(from), NodeId(to), 0);
        let choices = routing.next(&mesh, RouterId(from), None, NodeId(to), &mut state);
        choices.iter().map(|hop| hop.port.0).collect()
    };
    assert_eq!(next(at(3, 1), at(1, 4)), [1]);
    assert_eq!(next(at(1, 1), at(3, 4)), [0, 2]);
    assert_eq!(next(at(1, 4), at(3, 1)), [0, 3]);
    assert_eq!(next(at(2, 1), at(2, 3)), [2]);
    // Every sequence of choices gives a minimal route.
    let mut toss = 0u64;
    for pair in samples::pairs(&mesh) {
        let hops = walk(&mesh, &routing, pair, 0, |choices| {
            toss = mix(toss);
            (toss % choices as u64) as usize
        });
        assert_eq!(hops.len() as u32, mesh.hops_min(pair.0, pair.1));
    }
}

fn groups_passed(fly: &Dragonfly, route: &[(RouterId, Hop)]) -> Vec<u32> {
    let mut groups: Vec<u32> = route.iter().map(|(router, _)| fly.group(*router)).collect();
    groups.dedup();
    groups
}

fn dragonflies() -> Vec<(Topology, Dragonfly)> {
    let fly = |topology: Topology| match topology.kind().clone() {
        Kind::Dragonfly(fly) => (topology, fly),
        _ => unreachable!(),
    };
    [(9, 4, 2, 2), (5, 4, 2, 2), (4, 3, 1, 3), (2, 3, 2, 2), (3, 1, 2, 4)]
        .map(|(g, a, p, h)| fly(Topology::dragonfly(g, a, p, h).unwrap()))
        .to_vec()
}

#[test]
fn minimal_takes_one_global_link_and_the_nearest() {
    for (topology, fly) in dragonflies() {
        let routing = Routing::new(&topology, Algorithm::Minimal, 2).unwrap();
        for pair in samples::pairs(&topology) {
            let (a, b) = (topology.attachment(pair.0).0, topology.attachment(pair.1).0);
            let links = walk(&topology, &routing, pair, 0, |_| 0).len() as u32 - 1;
            let expected = match fly.group(a) == fly.group(b) {
                true => u32::from(a != b),
                false => (0..fly.copies).map(|copy| fly.distance_over(a, b, copy)).min().unwrap(),
            };
            assert_eq!(links, expected, "{}: {a} to {b}", topology.kind());
        }
    }
}

#[test]
fn valiant_passes_every_third_group() {
    for (topology, fly) in dragonflies() {
        let needed = fly.groups.min(3) as u8;
        let routing = Routing::new(&topology, Algorithm::Valiant, needed).unwrap();
        assert_eq!(routing.variants(), u64::from(fly.groups.saturating_sub(2)).max(1));
        for pair in samples::pairs(&topology) {
            let (a, b) = (topology.attachment(pair.0).0, topology.attachment(pair.1).0);
            let mut between = vec![];
            for entropy in 0..routing.variants() {
                let route = walk(&topology, &routing, pair, entropy, |_| 0);
                assert!(route.len() <= 6, "l g l g l, and the node: {route:?}");
                match groups_passed(&fly, &route)[..] {
                    [_] => assert_eq!(fly.group(a), fly.group(b)),
                    [_, _] => assert!(fly.groups == 2),
                    [_, third, _] => between.push(third),
                    ref other => panic!("{other:?}"),
                }
            }
            between.sort();
            between.dedup();
            if fly.group(a) != fly.group(b) {
                assert_eq!(between.len() as u32, fly.groups - 2);
            }
        }
    }
}

#[test]
fn minimal_uses_all_links_between_two_groups() {
    let topology = Topology::dragonfly(3, 4, 4, 4).unwrap();
    let routing = Routing::new(&topology, Algorithm::Minimal, 2).unwrap();
    let loads = loads(&topology, &routing);
    for router in (0..topology.routers()).map(RouterId) {
        for (port, _) in topology.neighbours(router) {
            assert!(loads[topology.channel(router, port) as usize] > 0, "{router} {port} is never used");
        }
    }
}

#[track_caller]
fn refused(made: Result<Routing, RoutingError>, words: &[&str]) {
    let message = made.expect_err("made").to_string();
    for word in words {
        assert!(message.contains(word), "`{message}` does not say `{word}`");
    }
}

#[test]
fn routings_that_do_not_fit_are_refused_with_alternatives() {
    let torus = Topology::torus(&[4, 4], &[], 1).unwrap();
    let cube = Topology::mesh(&[4, 4, 4], 1).unwrap();
    let tree = Topology::fat_tree(2, 4, (1, 1), None).unwrap();
    let fly = Topology::dragonfly(9, 4, 2, 2).unwrap();
    let graph = Topology::graph(samples::PETERSEN).unwrap();
    let new = Routing::new;
    refused(new(&torus, Algorithm::WestFirst, 1), &["`west-first`", "torus 4x4", "two dimensions", "dimension-order"]);
    refused(new(&cube, Algorithm::WestFirst, 1), &["mesh 4x4x4"]);
    refused(new(&torus, Algorithm::DestinationModK, 1), &["fat trees", "torus 4x4", "up-down"]);
    refused(new(&fly, Algorithm::DestinationModK, 1), &["dragonfly", "minimal", "valiant"]);
    refused(new(&tree, Algorithm::Minimal, 9), &["dragonflies", "destination-mod-k"]);
    refused(new(&graph, Algorithm::DimensionOrder, 9), &["graph", "here take up-down, shortest-path"]);
    let few = &["`dimension-order`", "needs virtual_channels = 2, not 1", "modified-dimension-order"];
    refused(new(&torus, Algorithm::DimensionOrder, 1), few);
    refused(new(&fly, Algorithm::Valiant, 2), &["needs virtual_channels = 3, not 2", "or take up-down, minimal"]);
    refused(new(&fly, Algorithm::Minimal, 1), &["needs virtual_channels = 2, not 1"]);
    refused(new(&torus, Algorithm::UpDown, 0), &["needs virtual_channels = 1, not 0"]);
    let large = Topology::torus(&[128, 65], &[], 1).unwrap();
    refused(new(&large, Algorithm::UpDown, 1), &["8320", "8192", "dimension-order"]);

    let unknown = "dimension".parse::<Algorithm>().unwrap_err().to_string();
    assert!(unknown.contains("`dimension`") && unknown.contains("west-first"), "{unknown}");
    for algorithm in Algorithm::ALL {
        assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
    }

    let routing = new(&torus, Algorithm::DimensionOrder, 2).unwrap();
    let path = |from, to| routing.path(&torus, NodeId(from), NodeId(to), 0).unwrap_err();
    assert_eq!(path(3, 3), RoutingError::SameNode { node: NodeId(3) });
    assert_eq!(path(3, 16).to_string(), "there is no node 16 in a network of 16 nodes: give 0 to 15");
    let other = routing.path(&tree, NodeId(0), NodeId(7), 0);
    assert!(matches!(other, Err(RoutingError::OtherTopology { .. })), "{other:?}");
}

#[test]
fn the_default_fits_and_is_free_of_deadlock() {
    for (name, topology) in samples::all() {
        let algorithm = Algorithm::default_for(&topology);
        let needed = algorithm.virtual_channels_needed(&topology).unwrap();
        assert!(Routing::new(&topology, algorithm, needed).unwrap().deadlock_free(), "{name}");
    }
}

#[test]
fn a_route_state_has_8_bytes() {
    assert_eq!(size_of::<RouteState>(), 8);
    assert!(size_of::<Choices>() <= 36);
}

#[test]
fn up_down_knows_ways_in_a_network_of_many_ports() {
    let mut text = std::string::String::from("router hub\n");
    for leaf in 0..300 {
        text += &std::format!("router r{leaf}\nlink hub r{leaf}\nnode n{leaf} r{leaf}\n");
    }
    let star = Topology::graph(&text).unwrap();
    for algorithm in [Algorithm::UpDown, Algorithm::ShortestPath] {
        let routing = Routing::new(&star, algorithm, 1).unwrap();
        assert!(routing.deadlock_free(), "a tree");
        assert_eq!(walk(&star, &routing, (NodeId(3), NodeId(299)), 0, |_| 0).len(), 3);
    }
}

/// A connected graph: a random tree, random further links with weights, nodes at random routers.
fn graphs() -> impl Strategy<Value = std::string::String> {
    let tree = proptest::collection::vec(any::<u32>(), 0..14);
    let further = proptest::collection::vec((any::<u32>(), any::<u32>(), 1u32..5), 0..20);
    let nodes = proptest::collection::vec(any::<u32>(), 2..12);
    (tree, further, nodes).prop_map(|(tree, further, nodes)| {
        let mut text = std::string::String::from("router r0\n");
        let mut links = std::collections::BTreeSet::new();
        for (at, parent) in tree.iter().enumerate() {
            let (at, parent) = (at as u32 + 1, parent % (at as u32 + 1));
            text += &std::format!("router r{at}\nlink r{parent} r{at} {}\n", 1 + parent % 3);
            links.insert((parent, at));
        }
        let routers = tree.len() as u32 + 1;
        for (a, b, weight) in further {
            let (a, b) = ((a % routers).min(b % routers), (a % routers).max(b % routers));
            if a != b && links.insert((a, b)) {
                text += &std::format!("link r{a} r{b} {weight}\n");
            }
        }
        for (at, router) in nodes.iter().enumerate() {
            text += &std::format!("node n{at} r{}\n", router % routers);
        }
        text
    })
}

/// Least weights between all routers, by the algorithm of Floyd and Warshall.
fn weights(topology: &Topology) -> Vec<Vec<u64>> {
    let n = topology.routers() as usize;
    let mut least = vec![vec![u64::from(u32::MAX); n]; n];
    for (a, row) in least.iter_mut().enumerate() {
        row[a] = 0;
        let router = RouterId(a as u32);
        topology.neighbours(router).for_each(|(port, b)| row[b.0 as usize] = topology.weight(router, port).into());
    }
    for k in 0..n {
        for a in 0..n {
            for b in 0..n {
                least[a][b] = least[a][b].min(least[a][k] + least[k][b]);
            }
        }
    }
    least
}

/// The fewest links of an up*/down* route from a router to each other router, by a search over routers and directions.
fn legal_distances(topology: &Topology, from: RouterId) -> Vec<u32> {
    let ranks = table::ranks(topology);
    let mut distances = vec![[u32::MAX; 2]; topology.routers() as usize];
    let mut queue = std::collections::VecDeque::from([(from, 0)]);
    distances[from.0 as usize][0] = 0;
    while let Some((at, down)) = queue.pop_front() {
        for (_, next) in topology.neighbours(at) {
            let goes_down = usize::from(ranks[next.0 as usize] > ranks[at.0 as usize]);
            if goes_down >= down && distances[next.0 as usize][goes_down] == u32::MAX {
                distances[next.0 as usize][goes_down] = distances[at.0 as usize][down] + 1;
                queue.push_back((next, goes_down));
            }
        }
    }
    distances.iter().map(|both| both[0].min(both[1])).collect()
}

proptest! {
    #[test]
    fn up_down_routes_any_graph_without_cycles(text in graphs()) {
        let topology = Topology::graph(&text).unwrap();
        let routing = Routing::new(&topology, Algorithm::UpDown, 1).unwrap();
        for pair in samples::pairs(&topology) {
            let routers = walk(&topology, &routing, pair, 0, |_| 0);
            let mut once: Vec<RouterId> = routers.iter().map(|r| r.0).collect();
            once.sort();
            once.dedup();
            prop_assert_eq!(once.len(), routers.len(), "passes a router twice");
            let (a, b) = (topology.attachment(pair.0).0, topology.attachment(pair.1).0);
            let least = legal_distances(&topology, a)[b.0 as usize];
            prop_assert_eq!(routers.len() as u32, least + 1, "not a shortest legal route: {}", text);
        }
        let cycle = Dependencies::new(&topology, &routing).cycle(&topology);
        prop_assert_eq!(cycle, None, "{}", text);
    }

    #[test]
    fn shortest_path_has_the_least_weight(text in graphs()) {
        let topology = Topology::graph(&text).unwrap();
        let routing = Routing::new(&topology, Algorithm::ShortestPath, 1).unwrap();
        let least = weights(&topology);
        for (from, to) in samples::pairs(&topology) {
            let route = walk(&topology, &routing, (from, to), 0, |_| 0);
            let links = &route[..route.len() - 1];
            let weight: u64 = links.iter().map(|(at, hop)| u64::from(topology.weight(*at, hop.port))).sum();
            let (a, b) = (topology.attachment(from).0.0 as usize, topology.attachment(to).0.0 as usize);
            prop_assert_eq!(weight, least[a][b]);
        }
        let tree = is_tree(&topology);
        prop_assert_eq!(routing.deadlock_free(), tree);
        if tree {
            prop_assert_eq!(Dependencies::new(&topology, &routing).cycle(&topology), None);
        }
    }

    #[test]
    fn dimension_order_routes_any_torus(
        dimensions in proptest::collection::vec(1u32..8, 1..4),
        wrap in proptest::array::uniform3(any::<bool>()),
        seed in any::<u64>(),
    ) {
        let torus = Topology::torus(&dimensions, &wrap[..dimensions.len()], 1).unwrap();
        for algorithm in [Algorithm::DimensionOrder, Algorithm::ModifiedDimensionOrder] {
            let routing = Routing::new(&torus, algorithm, 2).unwrap();
            for draw in 0..40u64 {
                let node = |salt: u64| NodeId((mix(seed ^ mix(salt)) % u64::from(torus.nodes())) as u32);
                let (from, to) = (node(2 * draw), node(2 * draw + 1));
                if from != to {
                    let hops = walk(&torus, &routing, (from, to), 0, |_| 0).len() as u32;
                    let least = torus.hops_min(from, to);
                    prop_assert!(hops == least || algorithm != Algorithm::DimensionOrder && hops > least);
                }
            }
        }
    }
}

/// Nodes inside all switches: a route leads to each from every other node, except between switches of a fat tree where
/// it would go down and up again. On a fat tree all routes to the switches above are shortest.
#[test]
fn nodes_inside_switches_are_reached() {
    for (_, topology) in samples::all() {
        let routers: Vec<RouterId> = (0..topology.routers()).map(RouterId).collect();
        let wider = topology.with_nodes_inside(&routers).expect("it is small");
        assert_eq!(wider.nodes(), topology.nodes() + topology.routers());
        for node in 0..wider.nodes() {
            let name = match node.checked_sub(topology.nodes()) {
                None => topology.node_name(NodeId(node)),
                Some(router) => alloc::format!("inside {}", topology.router_name(RouterId(router))),
            };
            assert_eq!(wider.node_name(NodeId(node)), name);
        }
        for algorithm in Algorithm::fitting(&topology) {
            let Some(channels) = algorithm.virtual_channels_needed(&wider) else { continue };
            let routing = Routing::new(&wider, algorithm, channels).expect("it fits");
            let up_and_down =
                matches!(algorithm, Algorithm::DestinationModK | Algorithm::AdaptiveUp | Algorithm::RandomUp);
            for to in 0..wider.nodes() {
                for from in (0..wider.nodes()).filter(|from| *from != to) {
                    let path = routing.path(&wider, NodeId(from), NodeId(to), 7);
                    let between_switches = from >= topology.nodes() && to >= topology.nodes();
                    if !between_switches || !up_and_down {
                        let path = path.unwrap_or_else(|error| panic!("{}, {from} to {to}: {error}", topology.kind()));
                        if up_and_down {
                            assert_eq!(path.len() as u32, wider.hops_min(NodeId(from), NodeId(to)), "{from} to {to}");
                        }
                        continue;
                    }
                    // Neighbours always reach each other, as trees need.
                    let [a, b] = [from, to].map(|node| wider.attachment(NodeId(node)).0);
                    if wider.neighbours(a).any(|(_, next)| next == b) {
                        assert_eq!(path.map(|path| path.len()), Ok(2), "{a} to {b} on {}", topology.kind());
                    }
                }
            }
        }
    }
}

/// A router that may begin a detour offers minimal hops first, and the queues decide.
#[test]
fn queues_decide_between_a_minimal_route_and_a_detour() {
    let fly = Topology::dragonfly(9, 4, 2, 2).unwrap();
    let hyperx = Topology::hyperx(&[4, 4], &[], 1).unwrap();
    let slim = Topology::slim_fly(5, Some(1)).unwrap();
    let plus = Topology::dragonfly_plus(5, (3, 2), 1, 2).unwrap();
    for (topology, algorithm) in [
        (&fly, Algorithm::UgalLocal),
        (&fly, Algorithm::UgalGlobal),
        (&fly, Algorithm::Progressive),
        (&hyperx, Algorithm::UgalLocal),
        (&slim, Algorithm::UgalLocal),
        (&plus, Algorithm::UgalLocal),
        (&plus, Algorithm::Progressive),
    ] {
        let needed = algorithm.virtual_channels_needed(topology).unwrap();
        let routing = Routing::new(topology, algorithm, needed).unwrap();
        let too_few = Routing::new(topology, algorithm, needed - 1).unwrap_err().to_string();
        assert!(too_few.contains(&std::format!("needs virtual_channels = {needed}, not {}", needed - 1)), "{too_few}");
        let (from, to) = (NodeId(0), NodeId(topology.nodes() - 1));
        let (at, _) = topology.attachment(from);
        let mut detours = 0;
        for entropy in 0..routing.variants() {
            let start = routing.start(topology, from, to, entropy);
            let least = walk(topology, &routing, (from, to), entropy, |_| 0);
            assert_eq!(least.len() as u32, topology.hops_min(from, to), "{algorithm}: minimal as long as it stays so");
            let mut state = start;
            let choices = routing.next(topology, at, None, to, &mut state);
            if !choices.has_detour() {
                continue;
            }
            detours += 1;
            let last = *choices.as_slice().last().unwrap();
            let choose = |bias, minimal, detour| {
                let mut state = start;
                let queue = |place, _| if choices.is_detour(place) { detour } else { minimal };
                let hop = choices.choose(&mut state, bias, |place| place, queue).unwrap();
                (hop == last && state != start, state)
            };
            assert!(!choose(0, 0, 0).0, "{algorithm}: equal queues");
            assert!(choose(0, 100, 1).0, "{algorithm}: a long queue on the minimal route");
            assert!(!choose(1_000, 100, 1).0, "{algorithm}: less than the bias");
            // The decision holds: there is no other, and the route is the detour's.
            let (_, mut on_detour) = choose(0, 100, 1);
            assert!(!routing.next(topology, at, None, to, &mut on_detour).has_detour());
            let around = walk(topology, &routing, (from, to), entropy, |count| count - 1);
            assert!(around.len() >= least.len(), "{algorithm}");
        }
        assert!(detours as u64 >= routing.variants() - 2, "{algorithm}: {detours}");
    }
}
