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
}

#[test]
fn patterns_that_do_not_fit_are_refused() {
    let mesh = Topology::mesh(&[3, 2], 1).unwrap();
    let refused = |pattern: Pattern| Destinations::new(pattern, &mesh).unwrap_err();
    assert_eq!(refused(Pattern::Transpose), PatternError::NotSquare { nodes: 6 });
    let hotspot = Pattern::Hotspot { node: 6, probability: 0.5 };
    assert_eq!(refused(hotspot), PatternError::NoSuchNode { node: 6, nodes: 6 });
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
    let hits = (0..20_000).filter(|_| near.contains(&to.next(corner, &mut random).0)).count() as f64 / 20_000.0;
    let expected = 0.6 + 0.4 * 2.0 / 63.0;
    assert!((hits - expected).abs() < 0.015, "{hits} for {expected}");
    let to = destinations("hotspot:9:0.3", &mesh);
    let hits = (0..20_000).filter(|_| to.next(corner, &mut random).0 == 9).count() as f64 / 20_000.0;
    assert!((hits - (0.3 + 0.7 / 63.0)).abs() < 0.015, "{hits}");
    let to = destinations("uniform", &mesh);
    let mut seen = [0; 64];
    for _ in 0..63_000 {
        seen[to.next(NodeId(7), &mut random).0 as usize] += 1;
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
            seen[to.next(NodeId(from), &mut random).0 as usize] += 1;
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
        let there = |pattern: &str, random: &mut Random| destinations(pattern, &torus).next(from, random);
        let (here, transposed) = (at(from), at(there("transpose", &mut random)));
        assert_eq!((here[0], here[1]), (transposed[1], transposed[0]));
        assert_eq!(there("bit-complement", &mut random).0, !from.0 & 63);
        assert_eq!(there("neighbour", &mut random).0, (from.0 + 1) % 64);
        let turned = at(there("tornado", &mut random));
        assert_eq!(turned, [(here[0] + 3) % 8, (here[1] + 3) % 8]);
    }
    let to = destinations("transpose", &torus);
    assert_eq!((0..64).filter(|&node| !to.sends(NodeId(node))).count(), 8);
}
