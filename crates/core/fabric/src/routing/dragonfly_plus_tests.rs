// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::Algorithm;
use crate::id::{Hop, Peer};
use crate::routing::tests::walk;
use crate::samples;
use std::vec::Vec;

/// A dragonfly+ whose groups have two links to each other group, not all at one spine.
fn plus() -> (Topology, DragonflyPlus) {
    let topology = Topology::dragonfly_plus(5, (3, 4), 1, 2).unwrap();
    match *topology.kind() {
        Kind::DragonflyPlus(fly) => (topology, fly),
        _ => unreachable!(),
    }
}

/// The global links of a route on a dragonfly+: spine and port.
fn global_links(fly: &DragonflyPlus, route: &[(RouterId, Hop)]) -> Vec<(RouterId, Port)> {
    let links = fly.leaves_per_group..fly.leaves_per_group + fly.global_links_per_spine;
    let is_global = |(at, hop): &&(RouterId, Hop)| !fly.is_leaf(*at) && links.contains(&u32::from(hop.port.0));
    route.iter().filter(is_global).map(|(at, hop)| (*at, hop.port)).collect()
}

#[test]
fn detours_of_a_dragonfly_plus_use_all_copies_evenly() {
    let (topology, fly) = plus();
    let routing = Routing::new(&topology, Algorithm::Valiant, 2).unwrap();
    assert_eq!(routing.variants(), 3 * 2);
    let mut loads = std::collections::BTreeMap::new();
    for (from, to) in samples::pairs(&topology).filter(|(from, to)| (from.0 / 3, to.0 / 3) == (0, 1)) {
        for entropy in 0..routing.variants() {
            let links = global_links(&fly, &walk(&topology, &routing, (from, to), entropy, |_| 0));
            assert_eq!(links.len(), 2);
            links.into_iter().for_each(|link| *loads.entry(link).or_insert(0) += 1);
        }
    }
    assert_eq!(loads.len(), 2 * 3 * 2, "all copies to three groups, and from them");
    assert!(loads.values().all(|&load| load == 9), "{loads:?}");
}

#[test]
fn a_spine_may_send_a_packet_round_by_any_of_its_links() {
    let (topology, fly) = plus();
    let routing = Routing::new(&topology, Algorithm::Progressive, 2).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for (from, to) in samples::pairs(&topology).filter(|(from, to)| from.0 / 3 != to.0 / 3) {
        let end = fly.group(topology.attachment(to).0);
        for entropy in 0..routing.variants() {
            // Minimal at the leaf, the last choice at the spine.
            let mut routers = 0;
            let route = walk(&topology, &routing, (from, to), entropy, |count| {
                routers += 1;
                if routers == 2 { count - 1 } else { 0 }
            });
            let links = global_links(&fly, &route);
            let minimal = global_links(&fly, &walk(&topology, &routing, (from, to), entropy, |_| 0));
            assert_eq!((minimal.len(), links[0].0), (1, minimal[0].0), "the same spine");
            let Peer::Router { router, .. } = topology.peer(links[0].0, links[0].1) else { unreachable!() };
            assert!(links.len() == 2 && fly.group(router) != end && route.len() <= 7, "{route:?}");
            seen.insert(links[0]);
        }
    }
    assert_eq!(seen.len(), 5 * 4 * 2, "all global links begin detours");
}

/// Beside detours, packets on a minimal route never use the virtual channel of a detour's first hops.
#[test]
fn minimal_routes_and_first_hops_of_detours_are_in_different_classes() {
    for topology in [Topology::dragonfly(9, 4, 2, 2).unwrap(), plus().0] {
        let needed = Algorithm::UgalLocal.virtual_channels_needed(&topology).unwrap();
        let routing = Routing::new(&topology, Algorithm::UgalLocal, needed).unwrap();
        for (from, to) in samples::pairs(&topology) {
            let (at, _) = topology.attachment(from);
            let mut state = routing.start(&topology, from, to, 1);
            let choices = routing.next(&topology, at, None, to, &mut state);
            if !choices.has_detour() {
                continue;
            }
            let (around, minimal) = choices.as_slice().split_last().unwrap();
            assert!(around.vc.0 == 0 && minimal.iter().all(|hop| hop.vc.0 == 1), "{from} to {to}");
            let route = walk(&topology, &routing, (from, to), 1, |_| 0);
            assert!(route[..route.len() - 1].iter().all(|(_, hop)| hop.vc.0 > 0), "{route:?}");
        }
    }
}
