// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::aggregation::{Sites, TreeSet, TreeSpec};
use crate::samples;
use crate::topology::Topology;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::string::ToString;
use std::{format, vec};

fn upward(tree: &Tree, an: AnId) -> Vec<AnId> {
    core::iter::successors(Some(an), |&an| tree.parent(an)).collect()
}

/// Makes a group and checks it against a walk from each member to the root.
#[track_caller]
fn made(tree: &Tree, members: &[NodeId], trim: bool) -> Group {
    let group = tree.group(members, trim).unwrap();
    let about = format!("{members:?} trim {trim}");
    assert_eq!(tree.group(members, trim).as_ref(), Ok(&group), "{about}: made again");
    let paths: Vec<Vec<AnId>> = members.iter().map(|&m| upward(tree, tree.set().attached(m).unwrap())).collect();
    let root = match trim {
        // The first node on the first member's path that is on all paths.
        true => *paths[0].iter().find(|an| paths.iter().all(|path| path.contains(an))).unwrap(),
        false => tree.root(),
    };
    assert_eq!(group.root(), root, "{about}");
    assert_eq!(group.members(), members);
    // The children of each node, in the order of the first member beneath.
    let mut expected: BTreeMap<AnId, Vec<Child>> = BTreeMap::new();
    for (&member, path) in members.iter().zip(&paths) {
        let mut child = Child::Member(member);
        for &an in path {
            let children = expected.entry(an).or_default();
            if !children.contains(&child) {
                children.push(child);
            }
            child = Child::Node(an);
            if an == root {
                break;
            }
        }
    }
    let nodes: Vec<AnId> = group.nodes().map(|node| node.an).collect();
    assert_eq!(nodes.iter().copied().collect::<BTreeSet<_>>(), expected.keys().copied().collect(), "{about}");
    assert_eq!((nodes.len(), nodes[0]), (expected.len(), root), "{about}");
    for (at, node) in group.nodes().enumerate() {
        assert_eq!(node.children, expected[&node.an], "{about} {}", node.an);
        assert_eq!(group.node(node.an), Some(node));
        assert_eq!(Some(node.level), tree.level(node.an));
        let parent = tree.parent(node.an).filter(|_| node.an != root);
        assert_eq!(node.parent, parent, "{about} {}", node.an);
        assert!(parent.is_none_or(|parent| nodes[..at].contains(&parent)), "{about}: after its parent");
    }
    assert!(group.nodes().map(|node| node.level).is_sorted(), "{about}");
    for (&member, path) in members.iter().zip(&paths) {
        assert_eq!(group.home(member), Some(path[0]));
        let counts: Vec<(AnId, u32)> = group.expected_children(member).collect();
        let to_root = path.iter().position(|&an| an == root).unwrap();
        let oracle: Vec<_> = path[..=to_root].iter().map(|&an| (an, expected[&an].len() as u32)).collect();
        assert_eq!(counts, oracle, "{about} {member}");
    }
    group
}

fn spec(trees: u32, radix_max: u32) -> TreeSpec {
    TreeSpec { trees, radix_max, ..TreeSpec::default() }
}

/// All ordered groups of one to four members of a tree with three levels.
#[test]
fn small_groups_in_every_order() {
    let topology = Topology::fat_tree(3, 4, (1, 1), Some(13)).unwrap();
    let set = TreeSet::new(&topology, &spec(2, 4)).unwrap();
    let mut trimmed = 0;
    for tree in set.trees() {
        let all: Vec<NodeId> = [0, 1, 2, 5, 8, 10, 12].map(NodeId).to_vec();
        let mut groups: Vec<Vec<NodeId>> = all.iter().map(|&one| vec![one]).collect();
        for _ in 0..4 {
            for group in &groups {
                let (trim, whole) = (made(&tree, group, true), made(&tree, group, false));
                trimmed += u32::from(trim != whole);
            }
            let longer = |group: &Vec<NodeId>| {
                let more = all.iter().filter(|&node| !group.contains(node));
                more.map(|&node| [group.clone(), vec![node]].concat()).collect::<Vec<_>>()
            };
            groups = groups.iter().flat_map(longer).collect();
        }
    }
    // Groups within one leaf or one pod: seven single ones, eight pairs and six triples in each tree.
    assert_eq!(trimmed, 42);
}

#[test]
fn one_member_needs_only_its_own_node() {
    for (name, topology) in samples::all() {
        let set = TreeSet::new(&topology, &TreeSpec::default()).unwrap();
        let tree = set.tree(0).unwrap();
        for node in (0..topology.nodes()).map(NodeId) {
            let group = made(&tree, &[node], true);
            assert_eq!((Some(group.root()), group.nodes().len()), (set.attached(node), 1), "{name}");
            let whole = made(&tree, &[node], false);
            assert_eq!(whole.nodes().len() as u32, tree.level(group.root()).unwrap() + 1, "{name}");
        }
    }
}

#[test]
fn all_nodes_of_all_topologies_make_a_group() {
    for (name, topology) in samples::all() {
        for radix in [u32::MAX, 9, 5] {
            let Ok(set) = TreeSet::new(&topology, &spec(2, radix)) else { continue };
            for tree in set.trees() {
                let all: Vec<NodeId> = (0..topology.nodes()).map(NodeId).collect();
                let group = made(&tree, &all, true);
                assert_eq!(group, made(&tree, &all, false), "{name}: nothing to trim");
                assert_eq!(group.nodes().len(), tree.nodes().count(), "{name}");
                made(&tree, &all.into_iter().rev().step_by(3).collect::<Vec<_>>(), true);
            }
        }
    }
}

/// In the fat tree of the seed, a job in one leaf switch is reduced there.
#[test]
fn a_group_ends_where_its_width_is_one() {
    let topology = Topology::fat_tree(2, 32, (1, 1), Some(128)).unwrap();
    let set = TreeSet::new(&topology, &spec(1, 32)).unwrap();
    let tree = set.tree(0).unwrap();
    let of_leaf: Vec<NodeId> = (32..48).map(NodeId).collect();
    let group = made(&tree, &of_leaf, true);
    assert_eq!((group.root(), group.nodes().len()), (AnId(2), 1));
    let whole = made(&tree, &of_leaf, false);
    assert_eq!((whole.root(), whole.nodes().len()), (tree.root(), 2));
    let counts: Vec<u32> = whole.expected_children(NodeId(33)).map(|(_, count)| count).collect();
    assert_eq!(counts, [16, 1]);
    assert_eq!(whole.expected_children(NodeId(0)).count(), 0, "not a member");
    let two = made(&tree, &[NodeId(127), NodeId(3), NodeId(120)], true);
    let root = two.node(two.root()).unwrap();
    assert_eq!(root.children, [Child::Node(AnId(7)), Child::Node(AnId(0))]);
}

#[test]
fn bad_members_are_refused() {
    let topology = Topology::fat_tree(2, 4, (1, 1), None).unwrap();
    let lost = crate::aggregation::Part::Node(NodeId(5));
    let set = TreeSet::within(&topology, &TreeSpec::default(), |part| part != lost).unwrap();
    let tree = set.tree(0).unwrap();
    let message = |members: &[u32]| {
        let members: Vec<NodeId> = members.iter().map(|&node| NodeId(node)).collect();
        tree.group(&members, true).unwrap_err().to_string()
    };
    assert_eq!(message(&[]), "a group without members: give at least 1");
    assert_eq!(message(&[1, 8]), "there is no node 8 in a network of 8 nodes: give 0 to 7");
    assert_eq!(message(&[3, 1, 2, 1]), "node 1 is in the group twice, at 1 and at 3: name each member once");
    assert!(message(&[0, 5]).starts_with("node 5 is attached to no aggregation node"));
}

proptest! {
    #[test]
    fn any_members_make_the_group_of_a_walk(
        which in 0..samples::all().len(),
        radix in prop_oneof![5..40u32, Just(u32::MAX)],
        hosts in any::<bool>(),
        keys in prop::collection::vec(any::<u32>(), 1..30),
        trim in any::<bool>(),
    ) {
        let (_, topology) = samples::all().swap_remove(which);
        let sites = match hosts {
            true => Sites::Hosts((0..topology.nodes()).step_by(2).map(NodeId).collect()),
            false => Sites::AllRouters,
        };
        let Ok(set) = TreeSet::new(&topology, &TreeSpec { sites, ..spec(3, radix) }) else { return Ok(()) };
        let mut seen = BTreeSet::new();
        let members: Vec<NodeId> =
            keys.into_iter().map(|key| NodeId(key % topology.nodes())).filter(|&node| seen.insert(node)).collect();
        for tree in set.trees() {
            made(&tree, &members, trim);
        }
    }
}
