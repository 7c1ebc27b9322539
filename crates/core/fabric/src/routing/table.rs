// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routings on any graph, by table: shortest path, up*/down*, and west-first on a mesh with missing links.
//!
//! **Shortest path** (Dijkstra). For each destination every router keeps a port on a path of least weight. Among equal
//! paths a fixed hash of router and destination decides. So routes spread over all such paths, and nothing restricts
//! their turns: cycles of dependencies are to be expected.
//!
//! **Up*/down***. The root is the middle of a long shortest path (two breadth-first searches), so it is about the
//! centre of the network. Routers are ordered by distance from the root, then by number; a link leads up towards the
//! router that is earlier in this order. A legal route goes up any number of links, then down any number. The table has
//! a shortest legal route; ties as above. No dependency leads from a down channel to an up channel, and along up
//! channels, as along down channels, the order is strict: there is no cycle.
//!
//! **West-first** is the same table over another order, the columns of the mesh: a hop west leads up, all others down.
//! No dependency leads from another hop to one west. The hops after those west have a cycle only within one column,
//! where it would turn back, which a shortest path never does. A pair may have no legal route; see [`Table::gap`].
//!
//! # Costs
//!
//! Making: O(routers with nodes × links), with weights times log(routers). `next`: O(1), one access to the table.
use super::mix;
use crate::id::{NodeId, Peer, Port, RouterId};
use crate::topology::Topology;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cmp::Reverse;

#[derive(Clone, Debug)]
pub(super) struct Table {
    routers: usize,
    /// The column of each router as a destination; `u32::MAX` for a router without nodes.
    columns: Vec<u32>,
    /// The port of router `r` for the destination of column `c` is at `c * routers + r`.
    ports: Ports,
    /// Up*/down* and west-first: the ports of packets that have already gone down, and the rank of each router. A hop to
    /// a lower rank leads up.
    down: Option<(Ports, Vec<u32>)>,
}

/// A table of ports, with one byte for each if that is enough. The largest value stands for no port.
#[derive(Clone, Debug)]
enum Ports {
    Narrow(Vec<u8>),
    Wide(Vec<u16>),
}

impl Table {
    #[inline]
    pub(super) fn next(&self, topology: &Topology, at: RouterId, arrived: Option<Port>, to: RouterId) -> Option<Port> {
        let entry = self.columns[to.0 as usize] as usize * self.routers + at.0 as usize;
        if let (Some((down, ranks)), Some(port)) = (&self.down, arrived) {
            if let Peer::Router { router: before, .. } = topology.peer(at, port) {
                if ranks[before.0 as usize] <= ranks[at.0 as usize] {
                    return down.get(entry);
                }
            }
        }
        self.ports.get(entry)
    }

    pub(super) fn shortest_path(topology: &Topology) -> Table {
        let (routers, hosts) = (topology.routers() as usize, topology.host_routers());
        let mut ports = Ports::new(topology, hosts.len());
        for (column, &to) in hosts.iter().enumerate() {
            let distances = weighted_distances(topology, to);
            for at in all_routers(topology).filter(|&at| at != to) {
                let nearer = topology.neighbours(at).filter(|&(port, next)| {
                    distances[next.0 as usize] + u64::from(topology.weight(at, port)) == distances[at.0 as usize]
                });
                ports.set(column * routers + at.0 as usize, pick(at, to, nearer.map(|(port, _)| port)));
            }
        }
        Table { routers, columns: columns(topology, &hosts), ports, down: None }
    }

    pub(super) fn up_down(topology: &Topology) -> Table {
        Table::up_then_down(topology, ranks(topology))
    }

    /// For graphs whose routers have positions.
    pub(super) fn west_first(topology: &Topology) -> Table {
        let columns = all_routers(topology).map(|router| topology.coordinates(router)[0].into()).collect();
        Table::up_then_down(topology, columns)
    }

    /// Two nodes without a legal route. O(routers with nodes²).
    pub(super) fn gap(&self, topology: &Topology) -> Option<(NodeId, NodeId)> {
        let hosts = topology.host_routers();
        let node = |at: RouterId| {
            (0..topology.nodes()).map(NodeId).find(|&node| topology.attachment(node).0 == at).unwrap_or_default()
        };
        let is_open = |&(from, to): &(RouterId, RouterId)| {
            from != to
                && self.ports.get(self.columns[to.0 as usize] as usize * self.routers + from.0 as usize).is_none()
        };
        let pairs = hosts.iter().flat_map(|&from| hosts.iter().map(move |&to| (from, to)));
        pairs.into_iter().find(is_open).map(|(from, to)| (node(from), node(to)))
    }

    /// Shortest routes that first lead to lower ranks, then to equal or higher ones.
    fn up_then_down(topology: &Topology, ranks: Vec<u32>) -> Table {
        let (routers, hosts) = (topology.routers() as usize, topology.host_routers());
        let mut by_rank: Vec<RouterId> = all_routers(topology).collect();
        by_rank.sort_unstable_by_key(|router| ranks[router.0 as usize]);
        let rank = |router: RouterId| ranks[router.0 as usize];

        let (mut up, mut down) = (Ports::new(topology, hosts.len()), Ports::new(topology, hosts.len()));
        for (column, &to) in hosts.iter().enumerate() {
            let falling = distances_down(topology, &ranks, to);
            let mut legal = falling.clone();
            for &at in &by_rank {
                let above = topology.neighbours(at).filter(|&(_, next)| rank(next) < rank(at));
                let over = above.map(|(_, next)| legal[next.0 as usize].saturating_add(1)).min().unwrap_or(FAR);
                legal[at.0 as usize] = over.min(legal[at.0 as usize]);
            }
            for at in all_routers(topology).filter(|&at| at != to) {
                let entry = column * routers + at.0 as usize;
                let (falls, least) = (falling[at.0 as usize], legal[at.0 as usize]);
                let leads_down = move |next: RouterId| rank(next) >= rank(at);
                let legal_on = topology.neighbours(at).filter(|&(_, next)| {
                    let rest = if leads_down(next) { falling[next.0 as usize] } else { legal[next.0 as usize] };
                    rest != FAR && rest + 1 == least
                });
                up.set(entry, pick(at, to, legal_on.map(|(port, _)| port)));
                if falls != FAR {
                    let down_on = topology
                        .neighbours(at)
                        .filter(|&(_, next)| leads_down(next) && falling[next.0 as usize].saturating_add(1) == falls);
                    down.set(entry, pick(at, to, down_on.map(|(port, _)| port)));
                }
            }
        }
        Table { routers, columns: columns(topology, &hosts), ports: up, down: Some((down, ranks)) }
    }
}

const FAR: u32 = u32::MAX;

impl Ports {
    fn new(topology: &Topology, columns: usize) -> Ports {
        let entries = topology.routers() as usize * columns;
        match topology.ports_max() < u16::from(u8::MAX) {
            true => Ports::Narrow(alloc::vec![u8::MAX; entries]),
            false => Ports::Wide(alloc::vec![u16::MAX; entries]),
        }
    }

    #[inline]
    fn get(&self, entry: usize) -> Option<Port> {
        match self {
            Ports::Narrow(ports) => ports.get(entry).filter(|&&port| port != u8::MAX).map(|&port| Port(port.into())),
            Ports::Wide(ports) => ports.get(entry).filter(|&&port| port != u16::MAX).map(|&port| Port(port)),
        }
    }

    fn set(&mut self, entry: usize, port: Option<Port>) {
        match (self, port) {
            (Ports::Narrow(ports), Some(port)) => ports[entry] = port.0 as u8,
            (Ports::Wide(ports), Some(port)) => ports[entry] = port.0,
            (_, None) => {}
        }
    }
}

/// Picks one of several equal ports, by a fixed hash.
fn pick(at: RouterId, to: RouterId, ports: impl Iterator<Item = Port> + Clone) -> Option<Port> {
    let count = ports.clone().count() as u64;
    let mut ports = ports;
    match count {
        0 => None,
        1 => ports.next(),
        _ => ports.nth((mix(u64::from(at.0) << 32 | u64::from(to.0)) % count) as usize),
    }
}

fn all_routers(topology: &Topology) -> impl Iterator<Item = RouterId> + use<> {
    (0..topology.routers()).map(RouterId)
}

fn columns(topology: &Topology, hosts: &[RouterId]) -> Vec<u32> {
    let mut columns = alloc::vec![u32::MAX; topology.routers() as usize];
    for (column, host) in hosts.iter().enumerate() {
        columns[host.0 as usize] = column as u32;
    }
    columns
}

/// The least weight of a path from each router to `to`; the two directions of a link have the same weight.
fn weighted_distances(topology: &Topology, to: RouterId) -> Vec<u64> {
    match topology.is_weighted() {
        false => topology.distances(to).into_iter().map(u64::from).collect(),
        true => topology.costs(&[to], |router, port| Some(topology.weight(router, port))),
    }
}

/// The links of the shortest path from each router to `to` that only goes down; `FAR`: there is none.
fn distances_down(topology: &Topology, ranks: &[u32], to: RouterId) -> Vec<u32> {
    let mut distances = alloc::vec![FAR; topology.routers() as usize];
    let mut queue = VecDeque::new();
    distances[to.0 as usize] = 0;
    queue.push_back(to);
    while let Some(at) = queue.pop_front() {
        for (_, before) in topology.neighbours(at) {
            if ranks[before.0 as usize] <= ranks[at.0 as usize] && distances[before.0 as usize] == FAR {
                distances[before.0 as usize] = distances[at.0 as usize] + 1;
                queue.push_back(before);
            }
        }
    }
    distances
}

/// The position of each router in the order from the root, which has position 0.
pub(super) fn ranks(topology: &Topology) -> Vec<u32> {
    let distances = topology.distances(root(topology));
    let mut order: Vec<RouterId> = all_routers(topology).collect();
    order.sort_unstable_by_key(|router| (distances[router.0 as usize], *router));
    let mut ranks = alloc::vec![0; order.len()];
    for (rank, router) in order.iter().enumerate() {
        ranks[router.0 as usize] = rank as u32;
    }
    ranks
}

/// The middle of a shortest path between two routers that are far from each other.
fn root(topology: &Topology) -> RouterId {
    let farthest = |distances: &[u32]| {
        let far = all_routers(topology).max_by_key(|router| (distances[router.0 as usize], Reverse(*router)));
        far.unwrap_or_default()
    };
    let one_end = farthest(&topology.distances(RouterId(0)));
    let distances = topology.distances(one_end);
    let mut at = farthest(&distances);
    let middle = distances[at.0 as usize] / 2;
    // Alternates between the first and the last neighbour that is nearer: on a mesh the path is a diagonal.
    while distances[at.0 as usize] > middle {
        let mut nearer =
            topology.neighbours(at).map(|n| n.1).filter(|next| distances[next.0 as usize] < distances[at.0 as usize]);
        let next = if distances[at.0 as usize] % 2 == 0 { nearer.next() } else { nearer.last() };
        match next {
            Some(next) => at = next,
            None => break,
        }
    }
    at
}
