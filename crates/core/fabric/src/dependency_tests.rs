// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::routing::Algorithm;
use crate::samples;

fn graph(topology: &Topology, algorithm: Algorithm, virtual_channels: u8) -> Dependencies {
    let routing = Routing::new(topology, algorithm, virtual_channels).unwrap();
    Dependencies::new(topology, &routing)
}

/// Checks that each link of a cycle leads to the router of the next link, and waits for this link.
#[track_caller]
fn check_cycle(topology: &Topology, graph: &Dependencies, cycle: &[Link]) {
    for (at, &link) in cycle.iter().enumerate() {
        let next = cycle[(at + 1) % cycle.len()];
        assert!(graph.waits(topology, link, next), "{link:?} does not wait for {next:?}");
        match topology.peer(link.router, link.port) {
            Peer::Router { router, .. } => assert_eq!(router, next.router),
            peer => panic!("{link:?} leads to {peer:?}"),
        }
    }
    let mut links = cycle.to_vec();
    links.sort();
    links.dedup();
    assert_eq!(links.len(), cycle.len(), "a link twice");
}

#[test]
fn every_routing_that_claims_it_is_free_of_deadlock_on_every_topology() {
    let mut cyclic = 0;
    for (name, topology) in samples::all() {
        for algorithm in Algorithm::fitting(&topology) {
            let needed = algorithm.virtual_channels_needed(&topology).unwrap();
            for virtual_channels in [needed, 2 * needed + 1] {
                let routing = Routing::new(&topology, algorithm, virtual_channels).unwrap();
                let graph = Dependencies::new(&topology, &routing);
                match graph.cycle(&topology) {
                    None => {}
                    Some(cycle) if routing.deadlock_free() => {
                        panic!("{name}, {algorithm}: {}", describe(&topology, &cycle))
                    }
                    Some(cycle) => {
                        check_cycle(&topology, &graph, &cycle);
                        cyclic += 1;
                    }
                }
            }
        }
    }
    assert!(cyclic > 10, "{cyclic}");
}

#[test]
fn dimension_order_without_datelines_locks_up_round_a_ring() {
    for k in 5..9 {
        let ring = Topology::torus(&[k], &[], 1).unwrap();
        let unguarded = graph(&ring, Algorithm::DimensionOrderUnguarded, 1);
        let cycle = unguarded.cycle(&ring).expect("a cycle");
        check_cycle(&ring, &unguarded, &cycle);
        assert_eq!(cycle.len(), k as usize, "once round: {}", describe(&ring, &cycle));
        assert!(cycle.iter().all(|link| link.port == cycle[0].port));
        assert_eq!(graph(&ring, Algorithm::DimensionOrder, 2).cycle(&ring), None);
        assert_eq!(graph(&ring, Algorithm::ModifiedDimensionOrder, 1).cycle(&ring), None);
    }
    // Rings of 3 and 4 do not: a packet that continues past a router never starts at the same router as another such
    // packet.
    for k in 3..5 {
        let torus = Topology::torus(&[k, k], &[], 1).unwrap();
        assert_eq!(graph(&torus, Algorithm::DimensionOrderUnguarded, 1).cycle(&torus), None);
    }
    let ring = Topology::torus(&[5], &[], 1).unwrap();
    let unguarded = graph(&ring, Algorithm::DimensionOrderUnguarded, 1);
    let text = describe(&ring, &unguarded.cycle(&ring).unwrap());
    assert_eq!(
        text,
        "(0) port 0 virtual channel 0 -> (1) port 0 virtual channel 0 -> (2) port 0 virtual channel 0 -> \
         (3) port 0 virtual channel 0 -> (4) port 0 virtual channel 0 -> (0) again"
    );
}

/// The networks of seed 002, figures 2-20 to 2-22.
#[test]
fn the_four_routings_of_the_seed_on_16x16() {
    let mesh = Topology::mesh(&[16, 16], 1).unwrap();
    for algorithm in [Algorithm::DimensionOrder, Algorithm::UpDown, Algorithm::WestFirst] {
        assert_eq!(graph(&mesh, algorithm, 1).cycle(&mesh), None, "{algorithm}");
    }
    let torus = Topology::torus(&[16, 16], &[], 1).unwrap();
    for algorithm in [Algorithm::UpDown, Algorithm::ModifiedDimensionOrder] {
        assert_eq!(graph(&torus, algorithm, 1).cycle(&torus), None, "{algorithm}");
    }
    assert_eq!(graph(&torus, Algorithm::DimensionOrder, 2).cycle(&torus), None);
    for (topology, algorithm) in [
        (&mesh, Algorithm::ShortestPath),
        (&torus, Algorithm::ShortestPath),
        (&torus, Algorithm::DimensionOrderUnguarded),
    ] {
        let graph = graph(topology, algorithm, 1);
        let cycle = graph.cycle(topology).expect("a cycle");
        check_cycle(topology, &graph, &cycle);
        assert!(cycle.len() >= 4);
    }
}

#[test]
fn a_chain_has_its_dependencies_and_no_others() {
    let chain = Topology::mesh(&[4], 1).unwrap();
    let graph = graph(&chain, Algorithm::DimensionOrder, 1);
    let link = |router, port| Link { router: RouterId(router), port: Port(port), vc: Vc(0) };
    assert_eq!(graph.len(), 4, "two each way");
    assert!(graph.waits(&chain, link(0, 0), link(1, 0)) && graph.waits(&chain, link(1, 0), link(2, 0)));
    assert!(graph.waits(&chain, link(3, 1), link(2, 1)) && graph.waits(&chain, link(2, 1), link(1, 1)));
    assert!(!graph.waits(&chain, link(0, 0), link(1, 1)));
}
