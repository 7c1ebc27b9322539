// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::dependency::{Dependencies, describe};
use crate::id::Peer;
use crate::routing::{Algorithm, Routing, RoutingError};
use crate::samples;
use std::vec;
use std::vec::Vec;

fn stations(positions: &[[u16; 2]]) -> Vec<Station> {
    let station = |&position| Station { ports: 4, position: Some(position), ..Station::default() };
    positions.iter().map(station).collect()
}

fn cable(a: (u32, u16), b: (u32, u16)) -> Cable {
    Cable { ends: [(RouterId(a.0), Port(a.1)), (RouterId(b.0), Port(b.1))], weight: 1 }
}

/// A mesh whose cables between two positions are left out if `missing` says so. Ports: east, west, north, south.
fn mesh(width: u16, height: u16, missing: impl Fn([u16; 2], [u16; 2]) -> bool) -> (Vec<Station>, Vec<Cable>) {
    let positions: Vec<[u16; 2]> = (0..height).flat_map(|y| (0..width).map(move |x| [x, y])).collect();
    let number = |[x, y]: [u16; 2]| u32::from(y) * u32::from(width) + u32::from(x);
    let mut cables = Vec::new();
    for &at @ [x, y] in &positions {
        for (next, port, back) in [([x + 1, y], 0, 1), ([x, y + 1], 2, 3)] {
            if next[0] < width && next[1] < height && !missing(at, next) {
                cables.push(cable((number(at), port), (number(next), back)));
            }
        }
    }
    (stations(&positions), cables)
}

#[test]
fn cables_give_the_graph_with_its_ports() {
    let ring = [cable((0, 3), (1, 0)), cable((1, 2), (2, 1)), cable((2, 0), (0, 0)), cable((0, 1), (1, 1))];
    let stations = vec![Station { name: "a".into(), ports: 4, position: None }; 3];
    let topology = Topology::from_cables(&stations, &ring).unwrap();
    assert_eq!((topology.routers(), topology.nodes(), topology.dimensions()), (3, 3, 0));
    assert_eq!(topology.peer(RouterId(0), Port(3)), Peer::Router { router: RouterId(1), port: Port(0) });
    assert_eq!(topology.peer(RouterId(0), Port(2)), Peer::Unconnected);
    assert_eq!(topology.attachment(NodeId(2)), (RouterId(2), Port(4)));
    // Two cables between routers 0 and 1.
    assert_eq!(topology.neighbours(RouterId(0)).filter(|n| n.1 == RouterId(1)).count(), 2);
    for algorithm in [Algorithm::UpDown, Algorithm::ShortestPath] {
        let routing = Routing::new(&topology, algorithm, 1).unwrap();
        for (from, to) in samples::pairs(&topology) {
            assert_eq!(routing.path(&topology, from, to, 0).unwrap().leads_to(&topology, from), Some(to));
        }
    }
}

#[test]
fn wrong_cables_are_refused_by_name() {
    let two = stations(&[[0, 0], [1, 0]]);
    let make = |cables: &[Cable]| Topology::from_cables(&two, cables).unwrap_err().to_string();
    assert!(make(&[cable((0, 4), (1, 0))]).starts_with("cable 0 names router 0 port 4"));
    assert!(make(&[cable((0, 0), (2, 0))]).starts_with("cable 0 names router 2 port 0"));
    assert!(make(&[cable((0, 0), (1, 0)), cable((0, 1), (1, 0))]).starts_with("cable 1 names router 1 port 0"));
    assert!(make(&[cable((0, 0), (0, 1))]).starts_with("cable 0 joins router 0"));
    assert!(make(&[]).contains("from router `router 0` to router `router 1`"));
    assert!(Topology::from_cables(&[], &[]).is_err());
}

#[test]
fn west_first_avoids_missing_links_and_cannot_deadlock() {
    let mut whole = 0;
    for seed in 0..200u64 {
        let lost = |[ax, ay]: [u16; 2], [bx, by]: [u16; 2]| {
            let key = [ax, ay, bx, by].iter().fold(seed, |key, &part| crate::routing::mix(key ^ u64::from(part)));
            key % 12 == 0
        };
        let (stations, cables) = mesh(5, 4, lost);
        let Ok(topology) = Topology::from_cables(&stations, &cables) else { continue };
        match Routing::new(&topology, Algorithm::WestFirst, 1) {
            Ok(routing) => {
                whole += 1;
                for (from, to) in samples::pairs(&topology) {
                    let path = routing.path(&topology, from, to, 0).unwrap();
                    assert_eq!(path.leads_to(&topology, from), Some(to), "seed {seed}");
                    // Port 1 leads west.
                    let ports: Vec<u16> = path.iter().map(|hop| hop.port.0).collect();
                    let others = ports.iter().skip_while(|&&port| port == 1);
                    assert!(others.clone().all(|&port| port != 1), "seed {seed}: {ports:?}");
                }
                let cycle = Dependencies::new(&topology, &routing).cycle(&topology);
                assert_eq!(cycle, None, "seed {seed}: {}", describe(&topology, cycle.as_deref().unwrap_or_default()));
            }
            Err(error) => assert!(matches!(error, RoutingError::NoPath { .. }), "{error}"),
        }
    }
    assert!(whole > 20, "{whole}");
}

#[test]
fn west_first_is_refused_where_links_are_no_mesh() {
    let (stations, mut cables) = mesh(3, 3, |_, _| false);
    let fits = |stations: &[Station], cables: &[Cable]| {
        let topology = Topology::from_cables(stations, cables).unwrap();
        Algorithm::WestFirst.virtual_channels_needed(&topology).is_some()
    };
    assert!(fits(&stations, &cables));
    let mut twice = stations.clone();
    twice[1].position = twice[0].position;
    assert!(!fits(&twice, &cables), "two routers at one position");
    let mut without = stations.clone();
    without[4].position = None;
    assert!(!fits(&without, &cables), "a router without a position");
    cables.push(cable((0, 1), (2, 0)));
    assert!(!fits(&stations, &cables), "a cable that wraps");
}
