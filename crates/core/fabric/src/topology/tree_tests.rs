// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::id::{Peer, Port};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::string::ToString;
use std::vec::Vec;

fn tree(topology: &Topology) -> &FatTree {
    match topology.kind() {
        Kind::FatTree(tree) => tree,
        kind => panic!("{kind}"),
    }
}

fn switches(topology: &Topology) -> impl Iterator<Item = RouterId> + use<> {
    (0..topology.routers()).map(RouterId)
}

/// The switches behind each port of a switch, from its first port up or its first port down.
fn linked(topology: &Topology, from: RouterId, upward: bool) -> Vec<RouterId> {
    let tree = tree(topology);
    let level = tree.levels()[tree.place(from).level];
    let ports = if upward { level.down_ports..level.down_ports + level.up_ports() } else { 0..level.down_ports };
    let behind = |port: u32| match topology.peer(from, Port(port as u16)) {
        Peer::Router { router, .. } => Some(router),
        _ => None,
    };
    ports.filter_map(behind).collect()
}

/// The leaves below each switch, by a search downward.
fn leaves_below(topology: &Topology) -> Vec<BTreeSet<u32>> {
    let mut below: Vec<BTreeSet<u32>> = Vec::new();
    for switch in switches(topology) {
        let mut own = BTreeSet::new();
        if tree(topology).place(switch).level == 0 {
            own.insert(switch.0);
        }
        for child in linked(topology, switch, false) {
            own.extend(&below[child.0 as usize]);
        }
        below.push(own);
    }
    below
}

/// The most routes between two sets of leaves that share no channel (Ford and Fulkerson).
fn flow(topology: &Topology, is_source: impl Fn(u32) -> bool) -> u32 {
    let leaves = tree(topology).leaves();
    let first_injection = (topology.channels() - topology.nodes()) as usize;
    let mut used = alloc::vec![false; first_injection];
    for found in 0.. {
        // The channel by which a search reached each switch.
        let mut came: Vec<Option<u32>> = alloc::vec![None; topology.routers() as usize];
        let mut open: Vec<RouterId> = (0..leaves).filter(|&leaf| is_source(leaf)).map(RouterId).collect();
        let mut end = None;
        while let Some(at) = open.pop() {
            if at.0 < leaves && !is_source(at.0) {
                end = Some(at);
                break;
            }
            for (port, next) in topology.neighbours(at) {
                let Peer::Router { port: back, .. } = topology.peer(at, port) else { continue };
                let (there, home) = (topology.channel(at, port), topology.channel(next, back));
                let is_free = !used[there as usize] || used[home as usize];
                let is_new = came[next.0 as usize].is_none() && !(next.0 < leaves && is_source(next.0));
                if is_free && is_new {
                    came[next.0 as usize] = Some(there);
                    open.push(next);
                }
            }
        }
        let Some(mut at) = end else { return found };
        while let Some(channel) = came[at.0 as usize] {
            let (from, port) = topology.channel_source(channel).unwrap();
            let Peer::Router { router, port: back } = topology.peer(from, port) else { unreachable!() };
            let against = topology.channel(router, back) as usize;
            // A route against another one takes its place.
            if used[against] {
                used[against] = false;
            } else {
                used[channel as usize] = true;
            }
            at = from;
        }
    }
    unreachable!()
}

/// Petrini and Vanneschi 1997: n levels of k^(n - 1) switches with 2 k ports, k^n nodes.
#[test]
fn a_k_ary_n_tree_has_its_measures() {
    for (k, n) in [(2, 1), (2, 5), (3, 3), (4, 3), (5, 2)] {
        let topology = Topology::xgft(&alloc::vec![k; n], &alloc::vec![k; n - 1], &[], None).unwrap();
        let levels = n as u32;
        assert_eq!(topology.nodes(), k.pow(levels));
        assert_eq!(topology.routers(), levels * k.pow(levels - 1));
        assert_eq!(topology.diameter(), 2 * (levels - 1));
        let links: usize = switches(&topology).map(|switch| topology.neighbours(switch).count()).sum();
        assert_eq!(links as u32, 2 * (levels - 1) * k.pow(levels));
        for switch in switches(&topology) {
            let is_top = tree(&topology).place(switch).level + 1 == n;
            assert_eq!(u32::from(topology.ports(switch)), if is_top { k } else { 2 * k });
        }
        let half = (n > 1 && k % 2 == 0).then(|| k.pow(levels) / 2);
        assert_eq!(topology.bisection_channels(), half, "half of the nodes send at full rate");
    }
}

/// Switches of one radix are a case of the general tree.
#[test]
fn one_radix_is_a_case_of_the_general_tree() {
    let cases = [
        (2, 6, (1, 1), &[3, 6][..], &[3][..]),
        (2, 6, (2, 1), &[4, 6], &[2]),
        (3, 8, (3, 1), &[6, 4, 8], &[2, 4]),
        (4, 4, (1, 1), &[2, 2, 2, 4], &[2, 2, 2]),
    ];
    for (levels, radix, taper, children, parents) in cases {
        for nodes in [None, Some(17)] {
            let one = Topology::fat_tree(levels, radix, taper, nodes).unwrap();
            let other = Topology::xgft(children, parents, &[], nodes).unwrap();
            assert_eq!((&one.peers, &one.first_port), (&other.peers, &other.first_port), "{}", one.kind());
            assert_eq!(one.bisection_channels(), other.bisection_channels());
            assert_eq!(one.saturation_uniform(), other.saturation_uniform());
        }
    }
}

#[test]
fn the_bisection_is_the_largest_flow_between_halves() {
    let cases: [(&[u32], &[u32], &[u32]); 6] = [
        (&[3, 4], &[2], &[]),
        (&[4, 4], &[2], &[3]),
        (&[4, 3, 2], &[4, 2], &[1, 2]),
        (&[2, 2, 2, 2], &[2, 1, 3], &[]),
        (&[4, 2, 4], &[1, 3], &[2, 1]),
        (&[1, 2, 2], &[3, 1], &[]),
    ];
    for (children, parents, trunks) in cases {
        let topology = Topology::xgft(children, parents, trunks, None).unwrap();
        let leaves = tree(&topology).leaves();
        let halves = flow(&topology, |leaf| leaf < leaves / 2);
        assert_eq!(topology.bisection_channels(), Some(halves), "{}", topology.kind());
    }
}

#[test]
fn trees_of_levels_have_names() {
    let topology = Topology::xgft(&[2, 3, 2, 2], &[2, 1, 3], &[1, 2, 1], None).unwrap();
    assert_eq!(topology.kind().to_string(), "fat tree of 4 levels, children 2x3x2x2, parents 2x1x3, trunks 1x2x1");
    let names: Vec<_> = [0, 12, 13, 20, 24].map(|router| topology.router_name(RouterId(router))).into();
    let middle = "switch 0 of subtree 0 of level 2";
    assert_eq!(
        names,
        ["leaf 0", middle, "switch 1 of subtree 0 of level 2", "switch 0 of subtree 0 of level 3", "core 0"]
    );
}

#[test]
fn impossible_trees_are_refused() {
    let refused = |children: &[u32], parents: &[u32], trunks: &[u32], nodes, words: &[&str]| {
        let message = Topology::xgft(children, parents, trunks, nodes).expect_err("made").to_string();
        words.iter().for_each(|word| assert!(message.contains(word), "`{message}` does not say `{word}`"));
    };
    refused(&[], &[], &[], None, &["0 levels", "1 to 24"]);
    refused(&[2; 25], &[2; 24], &[], None, &["25 levels", "1 to 24"]);
    refused(&[4, 4, 4], &[4], &[], None, &["`parents` has 1", "3 levels", "give 2"]);
    refused(&[4, 4, 4], &[4, 4], &[1, 1, 1], None, &["`trunks` has 3", "give 2"]);
    refused(&[4, 0], &[4], &[], None, &["0 children"]);
    refused(&[4, 4], &[0], &[], None, &["0 parents"]);
    refused(&[4, 4], &[4], &[0], None, &["0 trunks"]);
    refused(&[4, 4], &[4], &[], Some(17), &["at most 16", "not 17", "more children", "3 levels"]);
    refused(&[60_000, 2], &[200], &[200], None, &["100000 ports of a router", "65535"]);
    refused(&[4096; 3], &[1, 1], &[], None, &["68719476736 nodes", "limit"]);
    refused(&[2; 8], &[4000, 4000, 1, 1, 1, 1, 1], &[], None, &["routers", "limit"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The definition: all switches of a subtree have the same leaves below them, a switch has its links to different
    /// parents, each of them `trunks` times, and each top switch is reached in as many ways as there are trunks.
    #[test]
    fn a_tree_is_as_defined(
        children in proptest::collection::vec(1u32..4, 1..5),
        (parents, trunks) in (proptest::collection::vec(1u32..4, 4), proptest::collection::vec(1u32..3, 4)),
        missing in 0u32..8,
    ) {
        let below_top = children.len() - 1;
        let all: u32 = children.iter().product();
        let nodes = all.saturating_sub(missing).max(1);
        let (parents, trunks) = (&parents[..below_top], &trunks[..below_top]);
        let topology = Topology::xgft(&children, parents, trunks, Some(nodes)).unwrap();
        let tree = tree(&topology);
        let below = leaves_below(&topology);
        let mut width = 1;
        for (number, level) in tree.levels().iter().enumerate() {
            let span: u32 = children[..=number].iter().product();
            prop_assert_eq!(level.switches(), nodes.div_ceil(span) * width);
            for switch in level.first..level.first + level.switches() {
                let place = tree.place(RouterId(switch));
                prop_assert_eq!((place.level, place.place), (number, (switch - level.first) % width));
                let leaf_span = span / children[0];
                let first = place.subtree * leaf_span;
                let expected: BTreeSet<u32> = (first..(first + leaf_span).min(tree.leaves())).collect();
                prop_assert_eq!(&below[switch as usize], &expected);
                let ups = linked(&topology, RouterId(switch), true);
                let different: BTreeSet<RouterId> = ups.iter().copied().collect();
                if number < below_top {
                    prop_assert_eq!(different.len() as u32, parents[number]);
                    prop_assert_eq!(ups.len() as u32, parents[number] * trunks[number]);
                    for &parent in &different {
                        let times = ups.iter().filter(|&&up| up == parent).count() as u32;
                        prop_assert_eq!(times, trunks[number]);
                    }
                } else {
                    prop_assert!(ups.is_empty());
                }
            }
            width *= parents.get(number).copied().unwrap_or(1);
        }
        // Ways from the first leaf up to each switch.
        let mut ways = alloc::vec![0u64; topology.routers() as usize];
        ways[0] = 1;
        for switch in switches(&topology) {
            for up in linked(&topology, switch, true) {
                ways[up.0 as usize] += ways[switch.0 as usize];
            }
        }
        let top = tree.levels().last().unwrap();
        let expected: u64 = trunks.iter().map(|&trunk| u64::from(trunk)).product();
        for core in top.first..top.first + top.switches() {
            prop_assert_eq!(ways[core as usize], expected);
        }
    }
}
