// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::id::{Peer, Port};
use crate::routing::Algorithm;
use crate::samples;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::string::{String, ToString};
use std::{format, vec};

fn spec(trees: u32, radix_max: u32, depth_max: Option<u32>) -> TreeSpec {
    TreeSpec { trees, radix_max, depth_max, sites: Sites::AllRouters }
}

fn all_usable(_: Part) -> bool {
    true
}

/// Makes the trees and checks all invariants of the module.
#[track_caller]
fn made(
    name: &str,
    topology: &Topology,
    spec: &TreeSpec,
    usable: impl Fn(Part) -> bool + Copy,
) -> Result<TreeSet, TreeError> {
    let set = TreeSet::within(topology, spec, usable)?;
    let about = format!("{name} {spec:?}");
    assert_eq!(TreeSet::within(topology, spec, usable).as_ref(), Ok(&set), "{about}: made again");
    assert!((1..=spec.trees as usize).contains(&set.len()), "{about}");
    let router_of = |an: AnId| set.site(an).unwrap().router(topology);
    for node in (0..topology.nodes()).map(NodeId) {
        let (router, port) = topology.attachment(node);
        let channels = [topology.channel(router, port), topology.injection_channel(node)];
        let live = usable(Part::Router(router))
            && usable(Part::Node(node))
            && channels.iter().all(|&c| usable(Part::Channel(c)));
        let home = set.attached(node);
        assert_eq!(home.is_some(), live, "{about} {node}");
        let lists: Vec<AnId> = ans(&set).filter(|&an| set.leaves(an).contains(&node)).collect();
        assert_eq!(lists, home.into_iter().collect::<Vec<_>>(), "{about} {node}");
    }
    let roots: BTreeSet<AnId> = set.trees().map(|tree| tree.root()).collect();
    assert_eq!(roots.len(), set.len(), "{about}: roots");
    for tree in set.trees() {
        assert_eq!((tree.level(tree.root()), tree.parent(tree.root())), (Some(0), None), "{about}");
        let mut deepest = 0;
        for an in ans(&set) {
            let (children, leaves) = (tree.children(an), tree.leaves(an));
            assert!(children.is_sorted() && leaves.is_sorted(), "{about}");
            let Some(level) = tree.level(an) else {
                assert!(children.is_empty() && leaves.is_empty() && tree.parent(an).is_none(), "{about} {an}");
                continue;
            };
            deepest = deepest.max(level);
            let degree = children.len() + leaves.len();
            assert!(degree <= spec.radix_max as usize, "{about} {an} has {degree} children");
            assert!(!leaves.is_empty() || children.len() >= 2, "{about} {an} is of no use");
            // A level is one more than the parent's, so there is no cycle, and all end at the root.
            match tree.parent(an) {
                Some(parent) => {
                    assert_eq!(tree.level(parent), Some(level - 1), "{about} {an}");
                    assert_eq!(tree.children(parent).iter().filter(|&&child| child == an).count(), 1, "{about} {an}");
                    let up = tree.edge(topology, None, an, Direction::Up);
                    walk(topology, &about, (router_of(an), router_of(parent)), &up, usable);
                    let down = tree.edge(topology, None, an, Direction::Down);
                    walk(topology, &about, (router_of(parent), router_of(an)), &down, usable);
                    assert_eq!(up.len(), down.len(), "{about} {an}");
                }
                None => assert_eq!(an, tree.root(), "{about}"),
            }
            children.iter().for_each(|&child| assert_eq!(tree.parent(child), Some(an), "{about}"));
        }
        assert_eq!(deepest, tree.depth(), "{about}");
        assert!(spec.depth_max.is_none_or(|most| deepest <= most), "{about} is {deepest} deep");
        let used = tree.links_used(topology, None, Direction::Up);
        let length: usize = tree.nodes().map(|an| tree.edge(topology, None, an, Direction::Up).len()).sum();
        assert_eq!(used.edges_length(), length as u64, "{about}");
    }
    Ok(set)
}

fn ans(set: &TreeSet) -> impl Iterator<Item = AnId> + use<> {
    (0..set.sites().len() as u32).map(AnId)
}

/// Follows channels from one router to another. The first may be an injection, the last a port to a node.
#[track_caller]
fn walk(
    topology: &Topology,
    about: &str,
    (from, to): (RouterId, RouterId),
    channels: &[u32],
    usable: impl Fn(Part) -> bool,
) {
    let mut at = from;
    for &channel in channels {
        assert!(usable(Part::Channel(channel)), "{about}: channel {channel} is lost");
        assert!(usable(Part::Router(at)), "{about}: {at} is lost");
        let Some((router, port)) = topology.channel_source(channel) else { continue };
        assert_eq!(router, at, "{about}: {channels:?} has a gap");
        if let Peer::Router { router, .. } = topology.peer(router, port) {
            at = router;
        }
    }
    assert_eq!(at, to, "{about}: {channels:?}");
}

fn least_radix(set_of_sites: u32, nodes: u32) -> u32 {
    (1..).find(|radix| nodes + set_of_sites - 1 <= radix * set_of_sites).unwrap()
}

#[test]
fn trees_of_all_topologies_span_and_keep_radix_and_depth() {
    for (name, topology) in samples::all() {
        let least = least_radix(topology.routers(), topology.nodes());
        for radix in [u32::MAX, 36, 9, 4, 3, least] {
            for depth in [None, Some(6), Some(3), Some(1)] {
                match made(&name, &topology, &spec(5, radix, depth), all_usable) {
                    Ok(_) => assert!(radix >= least),
                    Err(TreeError::Radix { least: said, .. }) => assert!(radix < said && said == least, "{name}"),
                    Err(TreeError::Depth { least, .. }) => {
                        assert!(depth.is_some_and(|depth| depth < least), "{name} {radix}");
                        made(&name, &topology, &spec(5, radix, Some(least)), all_usable).unwrap();
                    }
                    Err(other) => panic!("{name} {radix} {depth:?}: {other}"),
                }
            }
        }
    }
}

#[test]
fn end_nodes_are_attached_at_their_router_or_to_the_nearest() {
    for (name, topology) in samples::all() {
        let whole = made(&name, &topology, &TreeSpec::default(), all_usable).unwrap();
        for node in (0..topology.nodes()).map(NodeId) {
            assert_eq!(whole.attached(node), Some(AnId(topology.attachment(node).0.0)), "{name}");
        }
        for step in [2, 3, 7] {
            let routers: Vec<RouterId> = (0..topology.routers()).rev().step_by(step).map(RouterId).collect();
            let few = TreeSpec { sites: Sites::Routers(routers.clone()), ..TreeSpec::default() };
            let set = made(&name, &topology, &few, all_usable).unwrap();
            if topology.is_weighted() || matches!(topology.kind(), crate::topology::Kind::Dragonfly(_)) {
                continue;
            }
            for node in (0..topology.nodes()).map(NodeId) {
                let distances = topology.distances(topology.attachment(node).0);
                let home = routers[set.attached(node).unwrap().0 as usize];
                let nearest = routers.iter().map(|r| distances[r.0 as usize]).min().unwrap();
                assert_eq!(distances[home.0 as usize], nearest, "{name} {step} {node}");
            }
        }
    }
}

#[test]
fn end_nodes_spread_evenly_over_equally_near_nodes() {
    let topology = Topology::fat_tree(2, 8, (1, 1), Some(21)).unwrap();
    let spines = Sites::Routers((6..10).map(RouterId).collect());
    let set = made("", &topology, &TreeSpec { sites: spines, ..TreeSpec::default() }, all_usable).unwrap();
    let counts: Vec<usize> = ans(&set).map(|an| set.leaves(an).len()).collect();
    assert_eq!(counts, [6, 5, 5, 5]);
    // Where the nearest has no room, the next nearest are filled.
    let set = made("", &topology, &spec(1, 3, None), all_usable).unwrap();
    let counts: Vec<usize> = ans(&set).map(|an| set.leaves(an).len()).collect();
    assert_eq!(counts, [3, 3, 3, 3, 3, 1, 2, 1, 1, 1]);
}

/// The test system of seed 001, section VI.A: 128 hosts on eight leaf switches.
#[test]
fn a_fat_tree_of_two_levels_has_a_tree_for_each_spine() {
    let topology = Topology::fat_tree(2, 32, (1, 1), Some(128)).unwrap();
    for trees in [1, 4, 16, 64] {
        let set = made("", &topology, &spec(trees, 32, None), all_usable).unwrap();
        assert_eq!(set.len(), 16.min(trees as usize));
        for tree in set.trees() {
            assert!(tree.root().0 >= 8 && tree.depth() == 1);
            assert_eq!(tree.children(tree.root()), (0..8).map(AnId).collect::<Vec<_>>());
            assert!((0..8).all(|leaf| tree.leaves(AnId(leaf)).len() == 16));
        }
        for direction in [Direction::Up, Direction::Down] {
            let used = set.links_used(&topology, None, direction);
            assert_eq!(used.edges_max(), 1, "each tree has its own spine");
            assert_eq!(used.edges_length(), 8 * set.len() as u64, "and each edge is one link");
            assert_eq!(used.end_edges_max(), set.len() as u32);
        }
    }
}

#[test]
fn a_fat_tree_of_three_levels_has_the_levels_of_its_switches() {
    for (radix, taper, nodes) in [(4, (1, 1), None), (6, (1, 1), None), (8, (3, 1), None), (8, (1, 1), Some(67))] {
        let topology = Topology::fat_tree(3, radix, taper, nodes).unwrap();
        let crate::topology::Kind::FatTree(parameters) = topology.kind() else { unreachable!() };
        let [leaves, middles, tops] = parameters.levels() else { unreachable!() };
        let planes = leaves.parents;
        let set = made("", &topology, &spec(planes, radix, None), all_usable).unwrap();
        assert_eq!(set.len(), planes as usize);
        for tree in set.trees() {
            assert_eq!(tree.depth(), 2);
            for an in tree.nodes().filter(|&an| an != tree.root()) {
                let links = tree.edge(&topology, None, an, Direction::Up).len();
                // A middle switch with a single leaf beneath it does not aggregate.
                let alone = leaves.subtrees % middles.children == 1 && an.0 == leaves.subtrees - 1;
                assert_eq!(links, if alone { 2 } else { 1 }, "radix {radix} {an}");
            }
        }
        let used = set.links_used(&topology, None, Direction::Up);
        assert_eq!(used.edges_max(), 1, "radix {radix}: each tree has its own plane");
        // More trees share planes, evenly: no root is used twice.
        let all = made("", &topology, &spec(TREES_MAX, radix, None), all_usable).unwrap();
        assert_eq!(all.len(), tops.width as usize);
        assert_eq!(all.links_used(&topology, None, Direction::Up).edges_max(), tops.width / planes);
    }
}

#[test]
fn a_dragonfly_aggregates_in_its_groups_first() {
    for (groups, routers, hosts, links) in [(9, 4, 2, 2), (33, 8, 4, 4), (5, 4, 2, 2)] {
        let topology = Topology::dragonfly(groups, routers, hosts, links).unwrap();
        let set = made("", &topology, &spec(4, 64, None), all_usable).unwrap();
        for tree in set.trees() {
            assert!(tree.depth() <= 3);
            let between = |an: &AnId| tree.parent(*an).is_some_and(|parent| parent.0 / routers != an.0 / routers);
            // Where several links join two groups, a group may send over each.
            let copies = routers * links / (groups - 1);
            let edges = tree.nodes().filter(between).count() as u32;
            assert!((groups - 1..=copies * (groups - 1)).contains(&edges), "{edges} edges between {groups} groups");
            let used = tree.links_used(&topology, None, Direction::Up);
            assert_eq!(used.edges_length(), u64::from(topology.routers()) - 1, "all edges are links");
        }
    }
}

/// Seed 001, section IX: an aggregation node need not be at each switch that an edge crosses.
#[test]
fn topologies_of_edge_switches_have_shallow_trees() {
    for (topology, depth) in [
        (Topology::torus(&[8; 3], &[], 1), 3),
        (Topology::torus(&[16, 16], &[], 2), 3),
        (Topology::mesh(&[32, 16], 1), 4),
        (Topology::hypercube(10, 1), 3),
        (Topology::mesh(&[300], 1), 5),
    ] {
        let topology = topology.unwrap();
        let set = made("", &topology, &spec(4, 36, None), all_usable).unwrap();
        for tree in set.trees() {
            assert!(tree.depth() <= depth, "{}: {} deep", topology.kind(), tree.depth());
            // A star's edges have its nodes' distances from the root: the tree crosses fewer links.
            let RouterId(root) = topology.attachment(NodeId(0)).0;
            let star: u64 = topology.distances(RouterId(root)).iter().map(|&d| u64::from(d)).sum();
            assert!(tree.links_used(&topology, None, Direction::Up).edges_length() < star, "{}", topology.kind());
        }
    }
}

#[test]
fn load_is_spread_over_trees() {
    for (topology, share) in [
        (Topology::torus(&[4, 4], &[], 1), 2),
        (Topology::torus(&[4, 4, 4], &[], 1), 3),
        (Topology::hypercube(6, 1), 3),
        (Topology::dragonfly(9, 4, 2, 2), 4),
    ] {
        let topology = topology.unwrap();
        let trees = 16;
        let set = made("", &topology, &spec(trees, 36, None), all_usable).unwrap();
        assert_eq!(set.len() as u32, trees);
        let used = set.links_used(&topology, None, Direction::Up);
        let links = (0..topology.routers()).map(|r| topology.neighbours(RouterId(r)).count() as u64).sum::<u64>();
        let mean = used.edges_length().div_ceil(links);
        assert!(
            u64::from(used.edges_max()) <= share * mean,
            "{}: {} at most, {mean} on average",
            topology.kind(),
            used.edges_max()
        );
    }
}

/// Only leaves aggregate: each reaches the roots of two trees over both of its spines.
#[test]
fn ways_avoid_the_channels_of_earlier_trees() {
    let topology = Topology::fat_tree(2, 4, (1, 1), None).unwrap();
    let leaves = Sites::Routers((0..4).map(RouterId).collect());
    let set = made("", &topology, &TreeSpec { sites: leaves, ..spec(2, 8, None) }, all_usable).unwrap();
    let used = set.links_used(&topology, None, Direction::Up);
    for leaf in ans(&set).filter(|&an| set.trees().all(|tree| tree.root() != an)) {
        for up in [2, 3] {
            assert_eq!(used.edges()[topology.channel(RouterId(leaf.0), Port(up)) as usize], 1, "{leaf}");
        }
    }
}

/// On each of two arms of the root, `x` and `y` have no aggregation node, and beyond them lie `s`, with two switches of
/// hosts, and `c`. The sub-tree of `s` leads `c`, so that one edge goes to the root.
#[test]
fn a_subtree_may_lead_others_where_no_node_is_near() {
    let mut text = String::from("router r\nnode r r\n");
    for arm in 1..=2 {
        ["s", "a", "b", "c", "x", "y"].iter().for_each(|name| text += &format!("router {name}{arm}\n"));
        ["x y", "y s", "y c", "s a", "s b"].iter().for_each(|ends| {
            let (from, to) = ends.split_once(' ').unwrap();
            text += &format!("link {from}{arm} {to}{arm}\n");
        });
        text += &format!("link r x{arm}\nnode a{arm} a{arm}\nnode b{arm} b{arm}\nnode c{arm} c{arm}\n");
    }
    let topology = Topology::graph(&text).unwrap();
    let sites = Sites::Routers([0, 1, 2, 3, 4, 7, 8, 9, 10].map(RouterId).to_vec());
    let set = made("", &topology, &TreeSpec { sites, ..TreeSpec::default() }, all_usable).unwrap();
    let tree = set.tree(0).unwrap();
    let children = |an| tree.children(AnId(an)).iter().map(|an| an.0).collect::<Vec<_>>();
    assert_eq!((children(0), children(1), children(5)), (vec![1, 5], vec![2, 3, 4], vec![6, 7, 8]));
}

#[test]
fn edges_take_the_paths_of_a_routing() {
    for (name, topology) in samples::all() {
        let set = made(&name, &topology, &spec(3, 5, None), all_usable);
        let Ok(set) = set else { continue };
        for algorithm in Algorithm::fitting(&topology) {
            let channels = algorithm.virtual_channels_needed(&topology).unwrap();
            let routing = Routing::new(&topology, algorithm, channels).unwrap();
            for tree in set.trees() {
                for an in tree.nodes() {
                    let Some(parent) = tree.parent(an) else { continue };
                    let ends = (RouterId(an.0), RouterId(parent.0));
                    let up = tree.edge(&topology, Some(&routing), an, Direction::Up);
                    walk(&topology, &name, ends, &up, all_usable);
                    let host =
                        |router| (0..topology.nodes()).map(NodeId).find(|&node| topology.attachment(node).0 == router);
                    if let (Some(from), Some(to)) = (host(ends.0), host(ends.1)) {
                        let path = routing.path(&topology, from, to, 0).unwrap();
                        assert_eq!(up.len() + 1, path.len(), "{name} {algorithm} {from} {to}");
                    }
                    let down = tree.edge(&topology, Some(&routing), an, Direction::Down);
                    walk(&topology, &name, (ends.1, ends.0), &down, all_usable);
                }
            }
        }
    }
}

/// Seed 001, figure 1b: an aggregation node may be hosted by an end node.
#[test]
fn aggregation_nodes_may_be_on_hosts() {
    for (name, topology) in samples::all() {
        for step in [1, 2, 5] {
            let hosts: Vec<NodeId> = (0..topology.nodes()).step_by(step).map(NodeId).collect();
            let sites = Sites::Hosts(hosts.clone());
            for radix in [u32::MAX, 8, 2] {
                let wanted = TreeSpec { trees: 3, radix_max: radix, depth_max: None, sites: sites.clone() };
                let set = match made(&name, &topology, &wanted, all_usable) {
                    Err(TreeError::Radix { .. }) => continue,
                    set => set.unwrap(),
                };
                for (an, &host) in (0..).map(AnId).zip(&hosts) {
                    assert_eq!(set.attached(host), Some(an), "{name}: a host is attached to its own");
                    let tree = set.tree(0).unwrap();
                    assert!(tree.end_edge(&topology, None, host, Direction::Up).is_empty());
                    let edge = tree.edge(&topology, None, an, Direction::Up);
                    if let Some(Site::Host(above)) = tree.parent(an).and_then(|parent| set.site(parent)) {
                        let (router, port) = topology.attachment(above);
                        assert_eq!(edge.first(), Some(&topology.injection_channel(host)), "{name}");
                        assert_eq!(edge.last(), Some(&topology.channel(router, port)), "{name}");
                    }
                }
            }
        }
    }
    // Two hosts reduce for a leaf switch of three, one for each other.
    let topology = Topology::fat_tree(2, 6, (1, 1), None).unwrap();
    let sites = Sites::Hosts([0, 1, 3, 6, 9, 12, 15].map(NodeId).to_vec());
    let set = made("", &topology, &TreeSpec { sites, radix_max: 8, ..TreeSpec::default() }, all_usable).unwrap();
    assert_eq!(set.leaves(AnId(0)), [NodeId(0), NodeId(2)]);
    assert_eq!(set.leaves(AnId(6)), [NodeId(15), NodeId(16), NodeId(17)]);
    assert!(set.tree(0).unwrap().depth() <= 2);
}

#[test]
fn lost_parts_are_not_used() {
    let topology = Topology::fat_tree(2, 8, (1, 1), None).unwrap();
    let spine = RouterId(8);
    let set = made("", &topology, &spec(9, 8, None), |part| part != Part::Router(spine)).unwrap();
    assert_eq!(set.len(), 3);
    assert!(set.trees().all(|tree| tree.level(AnId(spine.0)).is_none() && tree.depth() == 1));
    // Without one link of a spine, its tree reaches the leaf through another: it is not among the best.
    let channel = topology.channel(spine, Port(2));
    let set = made("", &topology, &spec(9, 8, None), |part| part != Part::Channel(channel)).unwrap();
    assert_eq!(set.len(), 3);
    assert!(set.trees().all(|tree| tree.root() != AnId(spine.0)));
    // A lost leaf switch takes its hosts along. A lost host is attached to nothing.
    let lost = [Part::Router(RouterId(1)), Part::Node(NodeId(0))];
    let set = made("", &topology, &spec(9, 8, None), |part| !lost.contains(&part)).unwrap();
    assert!([0, 4, 5, 6, 7].iter().all(|&node| set.attached(NodeId(node)).is_none()));
    assert_eq!(set.leaves(AnId(0)), [NodeId(1), NodeId(2), NodeId(3)]);
}

#[test]
fn a_lost_aggregation_node_leaves_its_router() {
    let topology = Topology::fat_tree(2, 8, (1, 1), None).unwrap();
    for lost in [AnId(0), AnId(8)] {
        let set = made("", &topology, &spec(9, 16, None), |part| part != Part::An(lost)).unwrap();
        assert!(set.leaves(lost).is_empty());
        assert!(set.trees().all(|tree| tree.level(lost).is_none()));
        assert!((0..topology.nodes()).all(|node| set.attached(NodeId(node)).is_some()));
    }
}

/// The least depth over all trees with these homes, by trying all parents of all nodes.
fn least_depth(counts: &[u32], radix: u32) -> Option<u32> {
    let sites = counts.len() as u32;
    // A digit for each site: its parent, itself for the root, or one past the sites for a site that is not used.
    let choices = (sites + 1).pow(sites);
    let depth_of = |mut code: u32| {
        let mut parents = Vec::new();
        for _ in 0..sites {
            parents.push(code % (sites + 1));
            code /= sites + 1;
        }
        let mut depth = 0;
        let mut degree = counts.to_vec();
        let mut roots = 0;
        for an in 0..sites {
            let parent = parents[an as usize];
            if parent == sites {
                if counts[an as usize] > 0 {
                    return None;
                }
                continue;
            }
            if parent == an {
                roots += 1;
            } else {
                degree[parent as usize] += 1;
            }
            let (mut at, mut level) = (an, 0);
            while parents[at as usize] != at {
                at = parents[at as usize];
                level += 1;
                if at == sites || level > sites {
                    return None;
                }
            }
            depth = depth.max(level);
        }
        (roots == 1 && degree.iter().all(|&d| d <= radix)).then_some(depth)
    };
    (0..choices).filter_map(depth_of).min()
}

/// All networks of four routers: each set of links, several placements of nodes, each set of sites, small radixes and
/// depths. An error is right, and a tree is made where one is possible.
#[test]
fn small_networks_have_a_tree_whenever_one_is_possible() {
    let mut known: BTreeMap<(Vec<u32>, u32), Option<u32>> = BTreeMap::new();
    let mut outcomes = [0u32; 5];
    for placement in [[1, 1, 1, 1], [2, 1, 0, 1], [3, 0, 0, 1]] {
        let mut text = String::new();
        (0..4).for_each(|r| text += &format!("router {r}\n"));
        let links = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];
        links.iter().for_each(|(a, b)| text += &format!("link {a} {b}\n"));
        for (router, &count) in placement.iter().enumerate() {
            (0..count).for_each(|n| text += &format!("node {router}.{n} {router}\n"));
        }
        let topology = Topology::graph(&text).unwrap();
        for present in 0..1u32 << links.len() {
            let linked = |a: u32, b: u32| {
                let link = links.iter().position(|&link| link == (a.min(b), a.max(b))).unwrap();
                present >> link & 1 == 1
            };
            // The loss of one direction is the loss of the link.
            let usable = |part: Part| match part {
                Part::Channel(channel) => match topology.channel_source(channel).map(|(r, p)| (r, topology.peer(r, p)))
                {
                    Some((a, Peer::Router { router: b, .. })) => a > b || linked(a.0, b.0),
                    _ => true,
                },
                _ => true,
            };
            let mut part = [0, 1, 2, 3];
            for _ in 0..3 {
                for (a, b) in links.into_iter().filter(|&(a, b)| linked(a, b)) {
                    let lowest = part[a as usize].min(part[b as usize]);
                    (part[a as usize], part[b as usize]) = (lowest, lowest);
                }
            }
            let with_nodes = (0..4).filter(|&r| placement[r] > 0);
            let connected = with_nodes.clone().all(|r| part[r] == part[0]);
            for sites in 1..16u32 {
                let sites: Vec<RouterId> = (0..4).filter(|r| sites >> r & 1 == 1).map(RouterId).collect();
                let reached = sites.iter().filter(|r| part[r.0 as usize] == part[0]).count() as u32;
                for (radix, depth) in (1..=5).flat_map(|radix| [None, Some(0), Some(1), Some(2)].map(|d| (radix, d))) {
                    let sites = Sites::Routers(sites.clone());
                    let wanted = TreeSpec { trees: 2, radix_max: radix, depth_max: depth, sites };
                    let result = made("", &topology, &wanted, |part| usable_both(&topology, part, usable));
                    let possible = reached > 0 && radix >= least_radix(reached, topology.nodes());
                    match result {
                        Err(TreeError::Unreachable { .. }) => {
                            assert!(!connected);
                            outcomes[0] += 1;
                        }
                        _ if !connected => panic!("{result:?}"),
                        Err(TreeError::NoSites) => {
                            assert_eq!(reached, 0);
                            outcomes[1] += 1;
                        }
                        Err(TreeError::Radix { least, .. }) => {
                            assert!(!possible && least == least_radix(reached, topology.nodes()));
                            outcomes[2] += 1;
                        }
                        Err(TreeError::Depth { least, .. }) => {
                            assert!(possible && depth.is_some_and(|depth| depth < least));
                            // The homes are the same without the limit.
                            let wanted = TreeSpec { depth_max: None, ..wanted };
                            let set = TreeSet::within(&topology, &wanted, |part| usable_both(&topology, part, usable));
                            let set = set.unwrap();
                            let reached =
                                |an: &AnId| part[set.site(*an).unwrap().router(&topology).0 as usize] == part[0];
                            let mut counts: Vec<u32> =
                                ans(&set).filter(reached).map(|an| set.leaves(an).len() as u32).collect();
                            counts.sort_unstable();
                            let key = (counts.clone(), radix);
                            let brute = *known.entry(key).or_insert_with(|| least_depth(&counts, radix));
                            assert_eq!(Some(least), brute, "{counts:?} {radix}");
                            outcomes[3] += 1;
                        }
                        Err(other) => panic!("{other}"),
                        Ok(_) => {
                            assert!(possible);
                            outcomes[4] += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(outcomes.iter().all(|&count| count > 100), "{outcomes:?}");
}

/// A link is lost in the lower direction only; the trees may use links with both directions.
fn usable_both(topology: &Topology, part: Part, usable: impl Fn(Part) -> bool) -> bool {
    let Part::Channel(channel) = part else { return usable(part) };
    let back = topology.channel_source(channel).and_then(|(router, port)| match topology.peer(router, port) {
        Peer::Router { router, port } => Some(topology.channel(router, port)),
        _ => None,
    });
    usable(part) && back.is_none_or(|back| usable(Part::Channel(back)))
}

#[test]
fn a_link_with_one_lost_direction_is_not_used() {
    let topology = Topology::torus(&[4, 4], &[], 1).unwrap();
    for channel in 0..topology.channels() - topology.nodes() {
        let lost = |part| part == Part::Channel(channel);
        let one_way = TreeSet::within(&topology, &spec(4, 8, None), |part| !lost(part));
        let both = made("", &topology, &spec(4, 8, None), |part| usable_both(&topology, part, |part| !lost(part)));
        assert_eq!(one_way, both);
    }
}

#[test]
fn errors_say_what_would_fit() {
    let topology = Topology::fat_tree(2, 6, (1, 1), None).unwrap();
    let message = |spec: TreeSpec| TreeSet::new(&topology, &spec).unwrap_err().to_string();
    assert_eq!(message(spec(0, 6, None)), "0 trees: give 1 to 1023");
    assert_eq!(message(spec(1024, 6, None)), "1024 trees: give 1 to 1023");
    let at = |sites| TreeSpec { sites, ..TreeSpec::default() };
    assert_eq!(
        message(at(Sites::Routers(vec![RouterId(9)]))),
        "there is no router 9 in a network of 9 routers and 18 nodes: give numbers below these"
    );
    assert_eq!(
        message(at(Sites::Hosts(vec![NodeId(3), NodeId(2), NodeId(3)]))),
        "node 3 is given twice: give each site of an aggregation node once"
    );
    assert!(message(at(Sites::Routers(Vec::new()))).starts_with("no aggregation node is reachable"));
    assert_eq!(
        message(spec(1, 2, None)),
        "9 aggregation nodes with at most 2 children each do not span 18 nodes: give radix_max = 3, or more sites"
    );
    assert_eq!(
        message(spec(1, 6, Some(0))),
        "a tree of aggregation nodes with at most 6 children each is 1 deep, not 0: give depth_max = 1, or a larger \
         radix_max"
    );
    let spec = TreeSpec::default();
    let none = TreeSet::within(&topology, &spec, |part| !matches!(part, Part::Node(_)));
    assert_eq!(none, Err(TreeError::NoNodes));
    let apart = TreeSet::within(&topology, &spec, |part| !matches!(part, Part::Router(r) if r.0 >= 6));
    assert_eq!(apart, Err(TreeError::Unreachable { node: NodeId(3), from: NodeId(0) }));
}

#[test]
fn a_large_network_has_small_trees() {
    let topology = Topology::fat_tree(3, 36, (1, 1), Some(10_000)).unwrap();
    let set = TreeSet::new(&topology, &spec(18, 36, None)).unwrap();
    assert_eq!(set.len(), 18);
    assert!(set.trees().all(|tree| tree.depth() == 2));
    assert_eq!(set.links_used(&topology, None, Direction::Up).edges_max(), 1);
    assert!(set.trees[0].bytes() < 30_000, "{} bytes", set.trees[0].bytes());
}

impl Data {
    fn bytes(&self) -> usize {
        let words = self.parents.len() + self.levels.len() + self.children.first.len() + self.children.items.len();
        4 * words + 2 * self.ports.len()
    }
}

fn any_topology() -> impl Strategy<Value = Topology> {
    prop_oneof![
        (prop::collection::vec(1..5u32, 1..4), 1..4u32).prop_map(|(d, n)| Topology::torus(&d, &[], n)),
        (prop::collection::vec(1..5u32, 1..4), 1..4u32).prop_map(|(d, n)| Topology::mesh(&d, n)),
        (0..6u32, 1..3u32).prop_map(|(order, n)| Topology::hypercube(order, n)),
        (2..4u32, 1..5u32, 1..60u32).prop_map(|(levels, half, n)| Topology::fat_tree(
            levels,
            2 * half,
            (1, 1),
            Some(n)
        )),
        (1..6u32, 1..4u32, 1..3u32).prop_map(|(groups, routers, n)| Topology::dragonfly(groups, routers, n, 2)),
        any_graph(),
    ]
    .prop_filter_map("parameters do not fit", Result::ok)
}

/// A random spanning tree, further links with weights, and nodes anywhere.
fn any_graph() -> impl Strategy<Value = Result<Topology, crate::topology::TopologyError>> {
    let routers = 2..14usize;
    routers.prop_flat_map(|routers| {
        let above = (1..routers).map(|r| 0..r).collect::<Vec<_>>();
        let links = prop::collection::btree_set((0..routers, 0..routers), 0..12);
        let nodes = prop::collection::vec(0..routers, 1..20);
        (above, links, nodes, any::<bool>()).prop_map(move |(above, links, nodes, weights)| {
            let mut pairs: BTreeSet<(usize, usize)> =
                above.into_iter().enumerate().map(|(below, above)| (above, below + 1)).collect();
            pairs.extend(links.into_iter().filter(|(a, b)| a < b));
            let mut text: String = (0..routers).map(|r| format!("router {r}\n")).collect();
            for (a, b) in pairs {
                text += &format!("link {a} {b} {}\n", if weights { 1 + (a * b) % 5 } else { 1 });
            }
            nodes.iter().enumerate().for_each(|(node, router)| text += &format!("node n{node} {router}\n"));
            Topology::graph(&text)
        })
    })
}

proptest! {
    #[test]
    fn any_part_of_any_topology_has_trees_or_an_error(
        topology in any_topology(),
        trees in 1..6u32,
        radix in prop_oneof![1..6u32, 6..40u32, Just(u32::MAX)],
        depth in prop::option::of(0..7u32),
        lost in prop::collection::vec(any::<u32>(), 0..4),
        sites in 0..4u32,
        seed in any::<u32>(),
    ) {
        let some = |count: u32| {
            let chosen: Vec<u32> = (0..count).filter(|n| (n ^ seed).wrapping_mul(0x9e37_79b9) >> 30 <= seed >> 30).collect();
            if chosen.is_empty() { vec![seed % count] } else { chosen }
        };
        let sites = match sites {
            0 | 1 => Sites::AllRouters,
            2 => Sites::Routers(some(topology.routers()).into_iter().map(RouterId).collect()),
            _ => Sites::Hosts(some(topology.nodes()).into_iter().map(NodeId).collect()),
        };
        let lost: Vec<Part> = lost.into_iter().map(|n| match n % 4 {
            0 => Part::Router(RouterId(n / 4 % topology.routers())),
            1 => Part::Node(NodeId(n / 4 % topology.nodes())),
            _ => Part::Channel(n / 4 % topology.channels()),
        }).collect();
        let usable = |part| !lost.contains(&part);
        let wanted = TreeSpec { trees, radix_max: radix, depth_max: depth, sites };
        let usable_both = |part| usable_both(&topology, part, usable);
        match made("", &topology, &wanted, usable_both) {
            Err(TreeError::Depth { least, .. }) => {
                prop_assert!(depth.is_some_and(|depth| depth < least));
                made("", &topology, &TreeSpec { depth_max: Some(least), ..wanted }, usable_both).unwrap();
            }
            Err(TreeError::Radix { least, .. }) => {
                prop_assert!(radix < least);
                made("", &topology, &TreeSpec { radix_max: least, depth_max: None, ..wanted }, usable_both).unwrap();
            }
            Err(TreeError::NoNodes | TreeError::NoSites | TreeError::Unreachable { .. }) => {
                prop_assert!(!lost.is_empty());
            }
            other => drop(other.unwrap()),
        }
    }
}

#[test]
fn hosts_with_several_members_take_the_place_of_their_end_node() {
    for (name, topology) in samples::all() {
        for (step, radix) in [(1, u32::MAX), (2, 36), (3, 9), (5, 4)] {
            let hosts: Vec<NodeId> = (0..topology.nodes()).step_by(step).map(NodeId).collect();
            let wanted = TreeSpec { sites: Sites::RoutersAndHosts(hosts.clone()), ..spec(3, radix, None) };
            let (plain, set) = match (
                made(&name, &topology, &spec(3, radix, None), all_usable),
                made(&name, &topology, &wanted, all_usable),
            ) {
                (Ok(plain), Ok(set)) => (plain, set),
                (plain, set) => {
                    assert_eq!(plain.err(), set.err(), "{name} {radix}");
                    continue;
                }
            };
            for (at, &host) in hosts.iter().enumerate() {
                let (an, home) = (AnId(topology.routers() + at as u32), plain.attached(host).unwrap());
                assert_eq!(set.site(an), Some(Site::Host(host)), "{name}");
                assert_eq!((set.attached(host), set.leaves(an)), (Some(an), &[host][..]), "{name}");
                for (tree, before) in set.trees().zip(plain.trees()) {
                    assert!(tree.children(an).is_empty(), "{name}");
                    let alone = before.leaves(home).len() + before.children(home).len() == 1;
                    assert_eq!(tree.parent(an), if alone { before.parent(home) } else { Some(home) }, "{name} {an}");
                    assert!(tree.depth() <= before.depth() + 1, "{name}");
                }
            }
        }
    }
}

#[test]
fn hosts_that_are_lost_or_wrong_have_no_nodes() {
    let topology = Topology::crossbar(4).unwrap();
    let on = |hosts: &[u32]| {
        let sites = Sites::RoutersAndHosts(hosts.iter().copied().map(NodeId).collect());
        TreeSpec { sites, ..TreeSpec::default() }
    };
    for lost in [Part::Node(NodeId(2)), Part::An(AnId(2))] {
        let set = TreeSet::within(&topology, &on(&[0, 2]), |part| part != lost).unwrap();
        assert_eq!(set.attached(NodeId(2)), None, "{lost:?}");
        assert_eq!(set.tree(0).unwrap().level(AnId(2)), None);
        assert_eq!(set.tree(0).unwrap().children(AnId(0)), [AnId(1)]);
        assert_eq!(set.leaves(AnId(0)), [NodeId(1), NodeId(3)]);
    }
    assert!(matches!(TreeSet::new(&topology, &on(&[4])), Err(TreeError::NoSuchSite { .. })));
    assert!(matches!(TreeSet::new(&topology, &on(&[1, 1])), Err(TreeError::SiteTwice { .. })));
    let flat = TreeSpec { depth_max: Some(0), ..on(&[1]) };
    assert!(matches!(TreeSet::new(&topology, &flat), Err(TreeError::Depth { least: 1, .. })));
    assert_eq!(
        TreeSet::new(&topology, &TreeSpec { depth_max: Some(1), ..on(&[1]) }).unwrap().tree(0).unwrap().depth(),
        1
    );
}

/// Trees of networks of today have edges of one link, and are no deeper than their diameter.
#[test]
fn trees_of_todays_networks_are_shallow() {
    for (name, topology, depth) in [
        ("dragonfly+", Topology::dragonfly_plus(16, (8, 8), 8, 8).unwrap(), 3),
        ("HyperX 8x8", Topology::hyperx(&[8, 8], &[], 8).unwrap(), 2),
        ("HyperX 8x8x8", Topology::hyperx(&[8, 8, 8], &[], 8).unwrap(), 3),
        ("Slim Fly 5", Topology::slim_fly(5, None).unwrap(), 2),
        ("dragonfly", Topology::dragonfly(33, 8, 4, 4).unwrap(), 3),
    ] {
        let set = made(name, &topology, &spec(2, 64, None), all_usable).unwrap();
        for tree in set.trees() {
            assert_eq!(tree.depth(), depth, "{name}");
            let edges = tree.nodes().map(|an| tree.edge(&topology, None, an, Direction::Up).len());
            assert_eq!(edges.max(), Some(1), "{name}");
        }
    }
}
