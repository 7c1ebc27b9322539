// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;

fn destinations(pattern: &str, topology: &Topology) -> Destinations {
    Destinations::new(pattern.parse().unwrap(), topology).unwrap()
}

#[test]
fn patterns_are_parsed_as_they_are_shown() {
    for text in [
        "uniform",
        "locality:0.7",
        "hotspot:3:0.25",
        "transpose",
        "bit-complement",
        "neighbour",
        "tornado",
        "locality:1",
        "incast:5:2",
        "permutation:7",
        "bit-reverse",
        "shuffle",
        "shift:3",
        "adversarial",
    ] {
        assert_eq!(text.parse::<Pattern>().unwrap().to_string(), text);
    }
}

#[test]
fn errors_of_patterns_name_the_valid_ones() {
    let message = |text: &str| text.parse::<Pattern>().unwrap_err().to_string();
    for text in ["", "Uniform", "uniform:1", "locality:0.5:1", "random"] {
        let message = message(text);
        assert!(message.contains("locality:P, hotspot:NODE:P"), "{message}");
    }
    assert!(message("locality").contains("locality:0.7"));
    assert!(message("locality:1.1").contains("from 0 to 1"));
    assert!(message("locality:NaN").contains("from 0 to 1"));
    assert!(message("hotspot:x:0.1").contains("is not a node"));
    assert!(message("hotspot:1:-1").contains("from 0 to 1"));
    assert!(message("incast").contains("number of sources") && message("incast:0").contains("number of sources"));
    assert!(message("incast:4:x").contains("is not a node") && message("shift").contains("shift:8"));
    assert!(message("permutation:x").contains("is not a seed"));
    assert!(message("unifrom").contains("did you mean uniform?"));
}

#[test]
fn patterns_that_do_not_fit_are_refused() {
    let mesh = Topology::mesh(&[3, 2], 1).unwrap();
    let refused = |pattern: Pattern| Destinations::new(pattern, &mesh).unwrap_err();
    assert_eq!(refused(Pattern::Transpose), PatternError::NotSquare { nodes: 6 });
    let hotspot = Pattern::Hotspot { node: 6, probability: 0.5 };
    assert_eq!(refused(hotspot), PatternError::NoSuchNode { pattern: "hotspot", node: 6, nodes: 6 });
    assert_eq!(
        refused(Pattern::Incast { sources: 6, node: 0 }),
        PatternError::TooManySources { sources: 6, others: 5 }
    );
    for pattern in [Pattern::BitReverse, Pattern::Shuffle] {
        assert_eq!(refused(pattern), PatternError::NotPowerOfTwo { pattern, nodes: 6 });
    }
    assert_eq!(refused(Pattern::Shift { distance: 12 }), PatternError::NoShift { distance: 12, nodes: 6 });
    let one = Topology::crossbar(1).unwrap();
    assert_eq!(Destinations::new(Pattern::Uniform, &one).unwrap_err(), PatternError::TooFew { nodes: 1 });
}

#[test]
fn shares_are_as_asked() {
    let mesh = Topology::mesh(&[8, 8], 1).unwrap();
    let mut random = Random::new(5, 0);
    let corner = NodeId(0);
    let near: Vec<u32> = {
        let router = mesh.attachment(corner).0;
        let next = mesh.neighbours(router).map(|(_, router)| router);
        let nodes = (0..64).filter(|&node| next.clone().any(|router| mesh.attachment(NodeId(node)).0 == router));
        nodes.collect()
    };
    assert_eq!(near.len(), 2);
    let to = destinations("locality:0.6", &mesh);
    let hits = (0..20_000).filter(|_| near.contains(&to.target(corner.0, &mut random))).count() as f64 / 20_000.0;
    let expected = 0.6 + 0.4 * 2.0 / 63.0;
    assert!((hits - expected).abs() < 0.015, "{hits} for {expected}");
    let to = destinations("hotspot:9:0.3", &mesh);
    let hits = (0..20_000).filter(|_| to.target(corner.0, &mut random) == 9).count() as f64 / 20_000.0;
    assert!((hits - (0.3 + 0.7 / 63.0)).abs() < 0.015, "{hits}");
    let to = destinations("uniform", &mesh);
    let mut seen = [0; 64];
    for _ in 0..63_000 {
        seen[to.target(7, &mut random) as usize] += 1;
    }
    assert_eq!(seen[7], 0);
    assert!(seen.iter().enumerate().all(|(node, &count)| node == 7 || (800..1200).contains(&count)), "{seen:?}");
}

#[test]
fn neighbours_on_the_same_router_count() {
    let topology = Topology::mesh(&[2, 1], 2).unwrap();
    let to = destinations("locality:1", &topology);
    let mut random = Random::new(1, 1);
    for from in 0..4 {
        let mut seen = [0; 4];
        for _ in 0..3000 {
            seen[to.target(from, &mut random) as usize] += 1;
        }
        for (node, &count) in seen.iter().enumerate() {
            assert!(if node as u32 == from { count == 0 } else { (850..1150).contains(&count) }, "{from}: {seen:?}");
        }
    }
}

#[test]
fn permutations_are_those_of_the_literature() {
    let torus = Topology::torus(&[8, 8], &[], 1).unwrap();
    let mut random = Random::new(1, 1);
    let at = |node: NodeId| torus.coordinates(torus.attachment(node).0).to_vec();
    for from in (0..64).map(NodeId) {
        let there = |pattern: &str, random: &mut Random| NodeId(destinations(pattern, &torus).target(from.0, random));
        let (here, transposed) = (at(from), at(there("transpose", &mut random)));
        assert_eq!((here[0], here[1]), (transposed[1], transposed[0]));
        assert_eq!(there("bit-complement", &mut random).0, !from.0 & 63);
        assert_eq!(there("neighbour", &mut random).0, (from.0 + 1) % 64);
        let turned = at(there("tornado", &mut random));
        assert_eq!(turned, [(here[0] + 3) % 8, (here[1] + 3) % 8]);
    }
    let reversed = |pattern: &str| -> Vec<u32> {
        let to = destinations(pattern, &torus);
        (0..64).map(|node| to.target(node, &mut Random::new(1, 1))).collect()
    };
    assert_eq!(reversed("bit-reverse")[0b000_110], 0b011_000);
    assert_eq!(reversed("shuffle")[0b100_110], 0b001_101);
    assert_eq!(reversed("shift:67")[62], 1);
    for pattern in ["bit-reverse", "shuffle", "shift:3", "permutation", "permutation:9"] {
        let mut to = reversed(pattern);
        assert!(!pattern.starts_with("permutation") || (0..).zip(&to).all(|(from, to)| from != *to), "{pattern}");
        to.sort_unstable();
        assert_eq!(to, (0..64).collect::<Vec<_>>(), "{pattern}");
    }
    assert_ne!(reversed("permutation"), reversed("permutation:9"));
    let to = destinations("transpose", &torus);
    assert_eq!((0..64).filter(|&node| !to.is_source(node)).count(), 8);
}

#[test]
fn an_incast_has_its_sources_all_round_and_one_target() {
    let crossbar = Topology::crossbar(21).unwrap();
    for (pattern, target, sources) in [("incast:5", 0, vec![1, 5, 9, 13, 17]), ("incast:2:20", 20, vec![0, 10])] {
        let to = destinations(pattern, &crossbar);
        let found: Vec<u32> = (0..21).filter(|&node| to.is_source(node)).collect();
        assert_eq!(found, sources, "{pattern}");
        let mut random = Random::new(1, 1);
        assert!(found.iter().all(|&node| to.target(node, &mut random) == target), "{pattern}");
    }
    assert_eq!((0..21).filter(|&node| destinations("incast:20", &crossbar).is_source(node)).count(), 20);
}

#[test]
fn members_on_some_nodes_send_to_members_alone() {
    let fly = Topology::dragonfly(5, 2, 2, 2).unwrap();
    // Two members in group 0, one in group 1, two in group 3.
    let nodes = [0, 3, 6, 12, 13];
    let among = |pattern: &str| Destinations::among(pattern.parse().unwrap(), &fly, &nodes).unwrap();
    let mut random = Random::new(3, 0);
    for pattern in ["uniform", "locality:0.8", "hotspot:4:0.5", "tornado", "neighbour", "permutation"] {
        let to = among(pattern);
        for from in 0..5 {
            let target = to.target(from, &mut random);
            assert!(target < 5 && target != from, "{pattern}: {from} to {target}");
        }
    }
    let line = Topology::mesh(&[4, 1], 2).unwrap();
    let to = Destinations::among(Pattern::Locality(1.0), &line, &[0, 1, 6]).unwrap();
    assert!((0..50).all(|_| to.target(0, &mut random) == 1), "the other member of the router");
    let to = among("adversarial");
    let sources: Vec<u32> = (0..5).filter(|&member| to.is_source(member)).collect();
    assert_eq!(sources, [0, 1], "no member is in the groups after 1 and 3");
    assert!((0..10).all(|_| to.target(0, &mut random) == 2));
}
