// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::dependency::{Dependencies, Link};
use crate::id::Peer;
use crate::routing::Algorithm;
use crate::samples;
use std::collections::BTreeSet;

/// Follows a tree from its source. Each target is reached once, and each branch waits as a packet to one node would.
#[track_caller]
fn check(topology: &Topology, graph: &Dependencies, from: NodeId, targets: &[NodeId], tree: &MulticastTree) {
    let branches = tree.branches();
    assert_eq!(branches[0].channel, topology.injection_channel(from));
    let mut seen = alloc::vec![false; branches.len()];
    let mut reached = Vec::new();
    let mut open = alloc::vec![(0usize, Some(topology.attachment(from).0))];
    while let Some((place, at)) = open.pop() {
        assert!(!seen[place], "two ways to a branch");
        seen[place] = true;
        let branch = branches[place];
        assert_eq!(branch.node.is_some(), branch.next().is_empty(), "{branch:?}");
        reached.extend(branch.node);
        let mut hops = BTreeSet::new();
        for next in branch.next() {
            assert!(next as usize > place);
            let (router, port) = topology.channel_source(branches[next as usize].channel).expect("a router's");
            assert_eq!(Some(router), at, "the channel before leads there");
            assert!(hops.insert((port, branches[next as usize].vc)), "two copies on one channel");
            let to = match topology.peer(router, port) {
                Peer::Router { router, .. } => Some(router),
                Peer::Node(node) => {
                    assert_eq!(branches[next as usize].node, Some(node));
                    None
                }
                Peer::Unconnected => panic!("no link"),
            };
            let link = |branch: &Branch| {
                let (router, port) = topology.channel_source(branch.channel).expect("a router's");
                Link { router, port, vc: branch.vc }
            };
            // The graph has neither injection nor delivery.
            if place != 0 && to.is_some() {
                let (held, wanted) = (link(&branch), link(&branches[next as usize]));
                assert!(graph.waits(topology, held, wanted), "{held:?} waits for {wanted:?} only here");
            }
            open.push((next as usize, to));
        }
    }
    assert!(seen.iter().all(|seen| *seen), "a branch that nothing leads to");
    reached.sort_unstable();
    let wanted: BTreeSet<NodeId> = targets.iter().copied().collect();
    assert_eq!(reached, wanted.into_iter().collect::<Vec<_>>());
}

#[test]
fn trees_reach_each_target_once_and_add_no_dependency() {
    let mut shared = 0;
    for (name, topology) in samples::all() {
        let nodes = topology.nodes();
        for algorithm in Algorithm::fitting(&topology) {
            let needed = algorithm.virtual_channels_needed(&topology).unwrap();
            for virtual_channels in [needed, 2 * needed + 1] {
                let routing = Routing::new(&topology, algorithm, virtual_channels).unwrap();
                let graph = Dependencies::new(&topology, &routing);
                for from in (0..nodes).step_by(1 + nodes as usize / 6) {
                    // All others, backwards; every third; one alone, named twice.
                    let others: Vec<NodeId> = (0..nodes).rev().filter(|node| *node != from).map(NodeId).collect();
                    let some: Vec<NodeId> = others.iter().copied().step_by(3).collect();
                    let one: Vec<NodeId> = others.iter().take(1).chain(others.iter().take(1)).copied().collect();
                    for targets in [others, some, one].into_iter().filter(|targets| !targets.is_empty()) {
                        let tree = MulticastTree::new(&topology, &routing, NodeId(from), &targets)
                            .unwrap_or_else(|error| panic!("{name}, {algorithm}: {error}"));
                        // The graph has a dependency of a set of virtual channels only if the hash of some pair has chosen the set.
                        if virtual_channels == needed {
                            check(&topology, &graph, NodeId(from), &targets, &tree);
                        }
                        let hops: usize = targets
                            .iter()
                            .map(|to| routing.path(&topology, NodeId(from), *to, 0).map_or(0, |path| path.len()))
                            .sum();
                        shared += hops + 1 - tree.branches().len().min(hops + 1);
                    }
                }
            }
        }
    }
    assert!(shared > 1000, "routes share nothing");
}

#[test]
fn a_fat_tree_carries_one_copy_on_each_link() {
    let topology = Topology::fat_tree(3, 6, (1, 1), None).unwrap();
    let routing = Routing::new(&topology, Algorithm::DestinationModK, 4).unwrap();
    let targets: Vec<NodeId> = (0..topology.nodes()).map(NodeId).collect();
    // A node inside a switch at the top: all ways lead down.
    let top = (0..topology.routers()).map(RouterId).max_by_key(|router| router.0).unwrap();
    let inside = topology.with_nodes_inside(&[top]).unwrap();
    let from = NodeId(topology.nodes());
    let routing_inside = Routing::new(&inside, Algorithm::DestinationModK, routing.virtual_channels()).unwrap();
    let tree = MulticastTree::new(&inside, &routing_inside, from, &targets).unwrap();
    let channels: BTreeSet<u32> = tree.branches().iter().map(|branch| branch.channel).collect();
    assert_eq!(channels.len(), tree.branches().len());
    assert_eq!(tree.targets().count(), targets.len());
}

#[test]
fn a_source_that_is_a_target_is_refused() {
    let topology = Topology::mesh(&[3], 1).unwrap();
    let routing = Routing::new(&topology, Algorithm::DimensionOrder, 1).unwrap();
    let error = MulticastTree::new(&topology, &routing, NodeId(1), &[NodeId(0), NodeId(1)]);
    assert_eq!(error, Err(RoutingError::SameNode { node: NodeId(1) }));
}
