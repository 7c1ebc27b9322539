// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::dependency::Dependencies;
use crate::routing::{Algorithm, mix};
use std::collections::BTreeSet;
use std::vec;

/// The channels of the links that fail, both ways.
fn failed(topology: &Topology, links: &[u32]) -> BTreeSet<u32> {
    let both = |&channel: &u32| {
        let (router, port) = topology.channel_source(channel).unwrap();
        let Peer::Router { router, port } = topology.peer(router, port) else { return vec![] };
        vec![channel, topology.channel(router, port)]
    };
    links.iter().flat_map(both).collect()
}

/// Checks that no route uses a failed link, that all pairs which a path joins have one, and that there is no cycle.
/// Returns the mean hops, and the most routes over a link as a multiple of the mean.
fn check(topology: &Topology, routing: &Routing, down: &BTreeSet<u32>) -> (f64, f64) {
    let mut search = Search::new(topology, routing.virtual_channels(), |channel| !down.contains(&channel));
    let (mut hops, mut pairs) = (0, 0);
    let mut joined = Vec::new();
    for from in (0..topology.nodes()).map(NodeId) {
        search.aim(topology.attachment(from).0);
        for to in (0..topology.nodes()).map(NodeId).filter(|&to| to != from) {
            if search.distances[topology.attachment(to).0.0 as usize] == NONE {
                continue;
            }
            joined.push((from, to));
            pairs += 1;
            routing
                .walk(topology, (from, to), 0, None, |at, hop| {
                    let channel = topology.channel(at, hop.port);
                    assert!(!down.contains(&channel), "{from} to {to} over a failed link of {at}");
                    search.loads[channel as usize] += 1;
                    hops += 1;
                })
                .unwrap();
        }
    }
    let dependencies = Dependencies::of_pairs(topology, routing, joined);
    assert_eq!(dependencies.cycle(topology), None);
    // Not with the packets that wait for a failed link either, for no path joins their pairs.
    let mut all = Search::new(topology, routing.virtual_channels(), |channel| !down.contains(&channel));
    assert!(all.keep(routing).is_some_and(|(broken, _)| broken.is_empty()) && all.order.rank().is_some());
    let is_used = |&channel: &usize| search.is_up[channel];
    let most = (0..search.loads.len()).filter(is_used).map(|channel| search.loads[channel]).max().unwrap();
    let links = search.is_up.iter().filter(|&&is_up| is_up).count();
    (f64::from(hops) / f64::from(pairs), f64::from(most) * links as f64 / f64::from(hops - pairs))
}

fn channel(topology: &Topology, from: u32, to: u32) -> u32 {
    let (port, _) = topology.neighbours(RouterId(from)).find(|next| next.1 == RouterId(to)).unwrap();
    topology.channel(RouterId(from), port)
}

fn around(topology: &Topology, routing: &Routing, down: &BTreeSet<u32>) -> Option<Routing> {
    routing.around(topology, |channel| !down.contains(&channel))
}

#[test]
fn a_torus_without_a_link_keeps_its_routes_and_takes_short_detours() {
    let torus = Topology::torus(&[8, 8], &[], 1).unwrap();
    let routing = Routing::new(&torus, Algorithm::DimensionOrder, 2).unwrap();
    let down = failed(&torus, &[channel(&torus, 9, 10)]);
    let made = around(&torus, &routing, &down).expect("detours");
    let (hops, most) = check(&torus, &made, &down);
    let (whole, _) = check(&torus, &routing, &BTreeSet::new());
    assert!(hops < whole + 0.1 && most < 2.5, "{hops} hops, before {whole}; {most} of the mean");
    assert_eq!(made.algorithm(), Algorithm::DimensionOrder);
    // Whole routes are the same.
    let same = |from, to| {
        let path = |routing: &Routing| routing.path(&torus, NodeId(from), NodeId(to), 0).unwrap();
        path(&made) == path(&routing)
    };
    assert!(same(0, 63) && same(40, 3) && !same(9, 10));
    // All links again.
    let again = around(&torus, &made, &BTreeSet::new()).expect("the explicit routes stay");
    check(&torus, &again, &BTreeSet::new());
}

#[test]
fn many_topologies_lose_random_links() {
    let graph = "router a\nrouter b\nrouter c\nrouter d\nlink a b\nlink b c\nlink a c\nlink c d\nlink d a\n\
                 node 0 a\nnode 1 b\nnode 2 c\nnode 3 d\nnode 4 d";
    let all = [
        (Topology::graph(graph).unwrap(), Algorithm::UpDown, 1),
        (Topology::torus(&[5, 4], &[], 1).unwrap(), Algorithm::DimensionOrder, 2),
        (Topology::torus(&[4, 3, 2], &[], 2).unwrap(), Algorithm::DimensionOrder, 4),
        (Topology::torus(&[5, 5], &[], 1).unwrap(), Algorithm::ModifiedDimensionOrder, 2),
        (Topology::mesh(&[5, 4], 1).unwrap(), Algorithm::DimensionOrder, 2),
        (Topology::hypercube(4, 1).unwrap(), Algorithm::DimensionOrder, 2),
    ];
    let (mut made, mut refused) = (0, 0);
    for (topology, algorithm, virtual_channels) in all {
        let routing = Routing::new(&topology, algorithm, virtual_channels).unwrap();
        for seed in 0..12u64 {
            let channels = topology.channels() - topology.nodes();
            let links: Vec<u32> =
                (0..1 + seed / 3).map(|n| (mix(seed << 8 | n) % u64::from(channels)) as u32).collect();
            let down = failed(&topology, &links);
            match around(&topology, &routing, &down) {
                Some(detours) => {
                    check(&topology, &detours, &down);
                    made += 1;
                }
                None => refused += 1,
            }
        }
    }
    assert!(made > 4 * refused, "{made} made, {refused} refused");
}

#[test]
fn a_router_that_is_gone_leaves_the_others_joined() {
    let torus = Topology::torus(&[6, 6], &[], 1).unwrap();
    let routing = Routing::new(&torus, Algorithm::DimensionOrder, 2).unwrap();
    let links: Vec<u32> = torus.neighbours(RouterId(14)).map(|(port, _)| torus.channel(RouterId(14), port)).collect();
    let down = failed(&torus, &links);
    let made = around(&torus, &routing, &down).expect("detours");
    check(&torus, &made, &down);
}

#[test]
fn routings_with_a_choice_or_with_cycles_have_no_detours() {
    let mesh = Topology::mesh(&[4, 4], 1).unwrap();
    let adaptive = Routing::new(&mesh, Algorithm::WestFirst, 1).unwrap();
    assert!(around(&mesh, &adaptive, &BTreeSet::new()).is_none());
    let torus = Topology::torus(&[6], &[], 1).unwrap();
    let cyclic = Routing::new(&torus, Algorithm::DimensionOrderUnguarded, 1).unwrap();
    assert!(around(&torus, &cyclic, &BTreeSet::new()).is_none());
    let dragonfly = Topology::dragonfly(5, 4, 2, 1).unwrap();
    let random = Routing::new(&dragonfly, Algorithm::Valiant, 3).unwrap();
    assert!(around(&dragonfly, &random, &BTreeSet::new()).is_none());
}

#[test]
fn pairs_that_no_path_joins_cost_no_detours() {
    // Half a million pairs, none of which can have a detour: the cut is straight through the middle.
    let mesh = Topology::mesh(&[32, 32], 1).unwrap();
    let routing = Routing::new(&mesh, Algorithm::DimensionOrder, 1).unwrap();
    let cut: Vec<u32> = (0..mesh.routers())
        .flat_map(|at| mesh.neighbours(RouterId(at)).map(move |next| (at, next.1.0)))
        .filter(|(at, next)| at % 32 == 15 && next % 32 == 16)
        .map(|(at, next)| channel(&mesh, at, next))
        .collect();
    assert_eq!(cut.len(), 32);
    let made = around(&mesh, &routing, &failed(&mesh, &cut)).expect("the routes of both halves");
    assert_eq!(made.explicit_pairs(), 0);
}
