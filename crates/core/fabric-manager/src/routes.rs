// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routes by destination: for the kernel of a host, or for the table of a router that forwards by destination.
//!
//! # Invariants
//!
//! 1. Each hop of a route leads nearer to the destination. So routes of hosts with equal maps never loop, whichever of
//!    their hops a host takes.
//! 2. A route depends on the map alone: not on loads, on the order of frames, or on the routes before.
//!
//! # Costs
//!
//! O(links × log(hosts)) for the routes of one host.
use crate::id::HostId;
use crate::map::Map;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use selvedge_fabric::routing::mix;
use selvedge_fabric::{Hop, NextHops, Path, Peer, Port, RouterId, Topology, Vc};

/// The route to one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub to: HostId,
    /// None: the host announces none, or another host has the same one.
    pub address: Option<IpAddr>,
    /// All first hops of shortest paths. The first is preferred: a hash of the two hosts spreads the routes.
    pub hops: Vec<RouteHop>,
    /// Links on the path; drained ones count as more than all others.
    pub cost: u64,
    /// The smallest MTU on the paths; 65,535 stands for that or more.
    pub mtu: u16,
}

/// A first hop: a port, and the neighbour at its other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteHop {
    pub port: Port,
    pub neighbour: HostId,
}

/// The routes of the map's own host.
pub(crate) fn routes(map: &Map, topology: &Topology) -> BTreeMap<HostId, Route> {
    let Some(own) = map.hosts().get(map.me()) else { return BTreeMap::new() };
    let me = RouterId(map.me() as u32);
    let weight = |router, port| Some(topology.weight(router, port));
    let next = NextHops::new(topology, me, weight);
    let mtus = link_mtus(map, topology);
    let mut mtu = alloc::vec![u16::MAX; map.hosts().len()];
    for &router in next.order().iter().skip(1) {
        let Some(cost) = next.cost(router) else { continue };
        for (port, before) in topology.neighbours(router) {
            let link = u64::from(topology.weight(router, port));
            if next.cost(before).and_then(|cost| cost.checked_add(link)) == Some(cost) {
                let over = mtu[before.0 as usize].min(mtus[topology.channel(router, port) as usize]);
                mtu[router.0 as usize] = mtu[router.0 as usize].min(over);
            }
        }
    }
    // An address belongs to the own host, then to the smallest number.
    let mut owners: BTreeMap<IpAddr, HostId> = BTreeMap::new();
    for host in core::iter::once(own).chain(map.hosts()) {
        host.address.into_iter().for_each(|address| _ = owners.entry(address).or_insert(host.host));
    }
    let mut routes = BTreeMap::new();
    for (at, host) in map.hosts().iter().enumerate().filter(|&(at, _)| at != map.me()) {
        let router = RouterId(at as u32);
        let Some(cost) = next.cost(router) else { continue };
        let ports: Vec<Port> = next.ports(router).collect();
        let preferred = prefer(own.host, host.host, ports.len());
        let order = ports[preferred..].iter().chain(&ports[..preferred]);
        let hops = order.filter_map(|&port| match topology.peer(me, port) {
            Peer::Router { router, .. } => Some(RouteHop { port, neighbour: map.hosts()[router.0 as usize].host }),
            _ => None,
        });
        let address = host.address.filter(|address| owners.get(address) == Some(&host.host));
        let route = Route { to: host.host, address, hops: hops.collect(), cost, mtu: mtu[at] };
        routes.insert(host.host, route);
    }
    routes
}

/// The path that preferred hops of equal maps take.
pub(crate) fn shortest_path(map: &Map, topology: &Topology, from: HostId, to: HostId) -> Option<Path> {
    let (mut at, end) = (map.router(from)?, map.router(to)?);
    let costs = topology.costs(&[end], |router, port| Some(topology.weight(router, port)));
    let mut path = Path::default();
    while at != end {
        let nearer = |&(port, next): &(Port, RouterId)| {
            costs[next.0 as usize].checked_add(topology.weight(at, port).into()) == Some(costs[at.0 as usize])
        };
        let ports: Vec<(Port, RouterId)> = topology.neighbours(at).filter(nearer).collect();
        let own = map.hosts()[at.0 as usize].host;
        let &(port, next) = ports.get(prefer(own, to, ports.len()))?;
        path.push(Hop { port, vc: Vc(0) });
        at = next;
    }
    Some(path)
}

fn prefer(from: HostId, to: HostId, count: usize) -> usize {
    (mix(mix(from.0) ^ to.0) % (count as u64).max(1)) as usize
}

/// The MTU of each output channel.
fn link_mtus(map: &Map, topology: &Topology) -> Vec<u16> {
    let mut mtus = alloc::vec![u16::MAX; topology.channels() as usize];
    for link in map.links() {
        for (host, port) in link.ends {
            if let Some(router) = map.router(host) {
                mtus[topology.channel(router, port) as usize] = link.mtu;
            }
        }
    }
    mtus
}
