// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::id::RouterId;
use crate::routing::{Algorithm, Routing};
use crate::samples;
use proptest::prelude::*;
use std::vec;

fn hop(port: u16, vc: u8) -> Hop {
    Hop { port: Port(port), vc: Vc(vc) }
}

fn path(hops: &[Hop]) -> Path {
    let mut path = Path::default();
    hops.iter().for_each(|&hop| path.push(hop));
    path
}

#[test]
fn one_character_counts_both_channels_of_a_direction() {
    let hops = [vec![hop(2, 0); 5], vec![hop(2, 1); 63], vec![hop(9, 0)]].concat();
    let path = path(&hops);
    assert_eq!(path.characters().collect::<Vec<_>>(), [2 << 12 | 63 << 6 | 5, 9 << 12 | 1]);
    assert_eq!(path.to_word(), Some(0x9001_2fc5));
    assert_eq!(path.len(), 69);
    assert_eq!(path.iter().collect::<Vec<_>>(), hops);
}

#[test]
fn a_run_ends_where_its_character_cannot_say_more() {
    let characters = |hops: &[Hop]| path(hops).characters().count();
    assert_eq!(characters(&[hop(1, 0); 63]), 1);
    assert_eq!(characters(&[hop(1, 0); 64]), 2);
    assert_eq!(characters(&[hop(1, 1), hop(1, 0)]), 2, "the first channel comes first");
    assert_eq!(characters(&[hop(1, 0), hop(2, 0)]), 2);
    assert_eq!(characters(&[hop(1, 1), hop(1, 2)]), 3, "another pair has a prefix");
    assert_eq!(characters(&[hop(13, 0)]), 1);
    assert_eq!(characters(&[hop(14, 0)]), 2);
    assert_eq!(characters(&[hop(u16::MAX, u8::MAX)]), 3);
}

/// The claim of the seed for 3-D tori: a route in dimension order fits into one 64-bit word.
#[test]
fn a_torus_of_64x64x64_is_routed_by_one_word() {
    let torus = Topology::torus(&[64; 3], &[], 1).unwrap();
    let routing = Routing::new(&torus, Algorithm::DimensionOrder, 2).unwrap();
    let mut longest = 0;
    let mut both = false;
    let mut seed = 1u64;
    let mut draw = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        NodeId((seed >> 33) as u32 % (64 * 64 * 64))
    };
    let mut pairs = vec![(NodeId(0), NodeId(32 + 32 * 64 + 32 * 4096)), (NodeId(40), NodeId(8))];
    pairs.extend((0..20_000).map(|_| (draw(), draw())).filter(|(a, b)| a != b));
    for (from, to) in pairs {
        let path = routing.path(&torus, from, to, 0).unwrap();
        let word = path.to_word().unwrap_or_else(|| panic!("{from} to {to}: {path:?}"));
        assert_eq!(Path::from_word(word).as_ref(), Ok(&path));
        assert_eq!(path.leads_to(&torus, from), Some(to));
        assert_eq!(path.len(), torus.hops_min(from, to) as usize);
        longest = longest.max(path.len());
        both |= path.runs().any(|run| run.counts[0] > 0 && run.counts[1] > 0);
    }
    assert_eq!(longest, 97, "half of each ring, and the delivery");
    assert!(both, "some character counts both channels");

    let mesh = Topology::mesh(&[64; 3], 1).unwrap();
    let routing = Routing::new(&mesh, Algorithm::DimensionOrder, 1).unwrap();
    let across = routing.path(&mesh, NodeId(0), NodeId(64 * 64 * 64 - 1), 0).unwrap();
    assert_eq!((across.len(), across.characters().count()), (3 * 63 + 1, 4));
}

#[test]
fn every_route_survives_its_encoding_and_leads_to_its_node() {
    for (name, topology) in samples::all() {
        for algorithm in Algorithm::fitting(&topology) {
            let routing = Routing::new(&topology, algorithm, 6).unwrap();
            for (from, to) in samples::pairs(&topology).step_by(7) {
                let mut path = routing.path(&topology, from, to, u64::from(from.0 + to.0)).unwrap();
                assert_eq!(Path::decode(&path.encode()).as_ref(), Ok(&path), "{name} {algorithm}");
                assert_eq!(path.leads_to(&topology, from), Some(to), "{name} {algorithm}");
                // Router by router, as a packet carries its path.
                let mut at = topology.attachment(from).0;
                while let Some(hop) = path.consume() {
                    let bytes = path.encode();
                    path = Path::decode(&bytes).unwrap();
                    match topology.peer(at, hop.port) {
                        Peer::Router { router, .. } => at = router,
                        peer => assert_eq!((peer, path.is_empty()), (Peer::Node(to), true), "{name} {algorithm}"),
                    }
                }
                assert_eq!(at, topology.attachment(to).0);
            }
        }
    }
}

#[test]
fn a_path_that_does_not_fit_the_network_leads_nowhere() {
    let mesh = Topology::mesh(&[3, 3], 1).unwrap();
    let leads = |hops: &[Hop]| path(hops).leads_to(&mesh, NodeId(0));
    assert_eq!(leads(&[hop(0, 0), hop(4, 0)]), Some(NodeId(1)));
    assert_eq!(leads(&[]), None, "no hop at all");
    assert_eq!(leads(&[hop(0, 0)]), None, "ends at a router");
    assert_eq!(leads(&[hop(1, 0), hop(4, 0)]), None, "over the edge");
    assert_eq!(leads(&[hop(900, 0)]), None, "no such port");
    assert_eq!(leads(&[hop(4, 0), hop(0, 0)]), None, "on behind the node");
    assert_eq!(mesh.attachment(NodeId(0)).0, RouterId(0));
}

#[test]
fn hostile_bytes_are_named() {
    let bytes = |characters: &[u16]| characters.iter().flat_map(|c| c.to_le_bytes()).collect::<Vec<u8>>();
    let decode = |characters: &[u16]| Path::decode(&bytes(characters)).unwrap_err();
    assert_eq!(Path::decode(&[1, 2, 3]), Err(PathError::OddLength { bytes: 3 }));
    assert_eq!(Path::decode(&[]), Ok(Path::default()));
    assert_eq!(decode(&[0x1001, 0x3000]), PathError::NoHops { at: 1 });
    assert_eq!(decode(&[0xf001]), PathError::CutShort);
    assert_eq!(decode(&[0xe001]), PathError::CutShort);
    assert_eq!(decode(&[0xe000, 0x1001]), PathError::Prefix { at: 0 });
    assert_eq!(decode(&[0xe001, 0xe001, 0x1001]), PathError::Prefix { at: 1 });
    assert_eq!(decode(&[0xe080, 0x1001]), PathError::Pair { at: 0, pair: 128 });
    assert_eq!(decode(&[0xf000, 0x1001]), PathError::Prefix { at: 0 });
    assert_eq!(decode(&[0xf001, 0xf000]), PathError::NoHops { at: 1 });
    assert_eq!(Path::decode(&bytes(&[0xf001, 0xf001])), Ok(path(&[hop(31, 0)])));
    assert_eq!(Path::from_word(0x1001_0000), Err(PathError::NoHops { at: 0 }));
    assert_eq!(Path::from_word(0), Ok(Path::default()));
}

proptest! {
    #[test]
    fn hops_survive_their_encoding(runs in proptest::collection::vec((0u16..40, 0u8..6, 1usize..140), 0..12)) {
        let hops: Vec<Hop> = runs.iter().flat_map(|&(port, vc, count)| vec![hop(port * 41, vc * 51); count]).collect();
        let mut path = path(&hops);
        prop_assert_eq!(path.iter().collect::<Vec<_>>(), hops.clone());
        prop_assert_eq!(Path::decode(&path.encode()), Ok(path.clone()));
        if let Some(word) = path.to_word() {
            prop_assert_eq!(Path::from_word(word), Ok(path.clone()));
        }
        let mut consumed = Vec::new();
        while let Some(hop) = path.consume() {
            consumed.push(hop);
        }
        prop_assert_eq!(consumed, hops);
        prop_assert!(path.is_empty());
    }

    #[test]
    fn any_bytes_are_a_path_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(path) = Path::decode(&bytes) {
            prop_assert_eq!(path.encode(), bytes);
            prop_assert_eq!(path.iter().count(), path.len());
            let mesh = Topology::mesh(&[3, 3], 1).unwrap();
            let _ = path.leads_to(&mesh, NodeId(4));
        }
    }

    #[test]
    fn likely_characters_are_a_path_or_an_error(
        characters in proptest::collection::vec((prop_oneof![0u16..16, 13u16..16], 0u16..130), 0..8)
    ) {
        let bytes: Vec<u8> = characters.iter().flat_map(|(port, low)| (port << 12 | low).to_le_bytes()).collect();
        if let Ok(path) = Path::decode(&bytes) {
            prop_assert_eq!(path.encode(), bytes);
        }
    }
}
