// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Channel dependency graphs (Dally and Seitz 1987).
//!
//! A packet that holds one virtual channel of a link while it waits for another creates a dependency from the first to
//! the second. A routing whose dependencies have no cycle is free of deadlock. A routing with a cycle can deadlock; the
//! cycle names the channels whose packets would wait for each other. Injection and delivery channels are left out: no
//! packet in the network waits for an injection channel, and a packet on a delivery channel waits for none.
//!
//! For an adaptive routing every choice adds a dependency. So a cycle means that it may deadlock; no cycle means that
//! it cannot.
//!
//! # Costs
//!
//! O(nodes² × hops × [`Routing::variants`]) to make, for the hash of a pair may choose its channels. 4 bytes for each
//! dependency and about 56 for each virtual channel of each port.
use crate::id::{NodeId, Peer, Port, RouterId, Vc};
use crate::routing::{RouteState, Routing};
use crate::topology::Topology;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

/// The channel dependency graph of a routing.
#[derive(Clone, Debug)]
pub struct Dependencies {
    virtual_channels: usize,
    /// The successors of virtual channel `v` of output channel `c`, at `c * virtual_channels + v`, ascending.
    successors: Vec<Vec<u32>>,
}

/// One virtual channel of a link: the output of a router's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link {
    pub router: RouterId,
    pub port: Port,
    pub vc: Vc,
}

/// The states with which one route has used a virtual channel: the branches of an adaptive route meet again.
#[derive(Clone, Debug, Default)]
struct Passed {
    /// The number of the last route that has used it, from 1.
    route: u64,
    states: Vec<RouteState>,
}

impl Passed {
    /// Records a state of a route. False: it is known.
    fn is_new(&mut self, route: u64, state: RouteState) -> bool {
        if self.route != route {
            self.route = route;
            self.states.clear();
        }
        let is_new = !self.states.contains(&state);
        if is_new {
            self.states.push(state);
        }
        is_new
    }
}

impl Dependencies {
    /// The dependencies of all routes between all pairs of nodes.
    pub fn new(topology: &Topology, routing: &Routing) -> Dependencies {
        let nodes = || (0..topology.nodes()).map(NodeId);
        Dependencies::of_pairs(topology, routing, nodes().flat_map(|from| nodes().map(move |to| (from, to))))
    }

    /// The dependencies of the routes between some pairs of nodes. A pair of equal nodes has none.
    pub fn of_pairs(
        topology: &Topology,
        routing: &Routing,
        pairs: impl IntoIterator<Item = (NodeId, NodeId)>,
    ) -> Dependencies {
        let virtual_channels = usize::from(routing.virtual_channels());
        let vertices = (topology.channels() - topology.nodes()) as usize * virtual_channels;
        let mut graph = Dependencies { virtual_channels, successors: alloc::vec![Vec::new(); vertices] };
        let mut passed = alloc::vec![Passed::default(); vertices];
        let mut number = 0;
        for (from, to) in pairs.into_iter().filter(|(from, to)| from != to) {
            for entropy in 0..routing.variants() {
                number += 1;
                graph.add(topology, routing, (from, to, entropy), number, &mut passed);
            }
        }
        graph.successors.iter_mut().for_each(|next| next.sort_unstable());
        graph
    }

    fn add(
        &mut self,
        topology: &Topology,
        routing: &Routing,
        (from, to, entropy): (NodeId, NodeId, u64),
        number: u64,
        passed: &mut [Passed],
    ) {
        let state = routing.start(topology, from, to, entropy);
        let mut open = alloc::vec![(topology.attachment(from).0, None, None, state)];
        while let Some((at, arrived, held, mut state)) = open.pop() {
            let choices = routing.next(topology, at, arrived, to, &mut state);
            for (place, hop) in choices.iter().enumerate() {
                let Peer::Router { router, port } = topology.peer(at, hop.port) else { continue };
                let vertex = self.vertex(topology.channel(at, hop.port), hop.vc);
                if let Some(held) = held {
                    let successors: &mut Vec<u32> = &mut self.successors[held as usize];
                    if !successors.contains(&vertex) {
                        successors.push(vertex);
                    }
                }
                let mut after = state;
                choices.take(place, &mut after);
                if passed[vertex as usize].is_new(number, after) {
                    open.push((router, Some((port, hop.vc)), Some(vertex), after));
                }
            }
        }
    }

    /// The number of dependencies.
    pub fn len(&self) -> usize {
        self.successors.iter().map(Vec::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a packet that holds `held` may wait for `wanted`.
    pub fn waits(&self, topology: &Topology, held: Link, wanted: Link) -> bool {
        let vertex = |link: Link| self.vertex(topology.channel(link.router, link.port), link.vc);
        let wanted = vertex(wanted);
        self.successors.get(vertex(held) as usize).is_some_and(|next| next.binary_search(&wanted).is_ok())
    }

    /// Finds a cycle: each link waits for the next, and the last for the first. It is a shortest one through a link of
    /// the first cycle of a depth-first search. None: the routing is free of deadlock.
    pub fn cycle(&self, topology: &Topology) -> Option<Vec<Link>> {
        let found = self.any_cycle()?;
        let shortest = found.iter().filter_map(|&vertex| self.shortest_cycle(vertex)).min_by_key(Vec::len);
        Some(shortest.unwrap_or(found).into_iter().map(|vertex| self.link(topology, vertex)).collect())
    }

    /// The first cycle of a depth-first search, closed by a successor that is still open.
    fn any_cycle(&self) -> Option<Vec<u32>> {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut marks = alloc::vec![Mark::New; self.successors.len()];
        for start in 0..self.successors.len() {
            if marks[start] != Mark::New {
                continue;
            }
            // The path from `start`: vertices, each with the number of its successors that have been visited.
            let mut path = alloc::vec![(start as u32, 0)];
            marks[start] = Mark::Open;
            while let Some((vertex, seen)) = path.last_mut() {
                let Some(&next) = self.successors[*vertex as usize].get(*seen) else {
                    marks[*vertex as usize] = Mark::Done;
                    path.pop();
                    continue;
                };
                *seen += 1;
                match marks[next as usize] {
                    Mark::New => {
                        marks[next as usize] = Mark::Open;
                        path.push((next, 0));
                    }
                    Mark::Open => return Some(path.iter().map(|v| v.0).skip_while(|&v| v != next).collect()),
                    Mark::Done => {}
                }
            }
        }
        None
    }

    fn shortest_cycle(&self, start: u32) -> Option<Vec<u32>> {
        let mut before = alloc::vec![u32::MAX; self.successors.len()];
        let mut queue = alloc::vec![start];
        let mut at = 0;
        while at < queue.len() {
            let vertex = queue[at];
            at += 1;
            for &next in &self.successors[vertex as usize] {
                if next == start {
                    let mut cycle = alloc::vec![vertex];
                    while let Some(&last) = cycle.last().filter(|&&last| last != start) {
                        cycle.push(before[last as usize]);
                    }
                    cycle.reverse();
                    return Some(cycle);
                }
                if before[next as usize] == u32::MAX {
                    before[next as usize] = vertex;
                    queue.push(next);
                }
            }
        }
        None
    }

    fn vertex(&self, channel: u32, vc: Vc) -> u32 {
        channel * self.virtual_channels as u32 + u32::from(vc.0)
    }

    fn link(&self, topology: &Topology, vertex: u32) -> Link {
        let (channel, vc) = (vertex / self.virtual_channels as u32, vertex % self.virtual_channels as u32);
        let (router, port) = topology.channel_source(channel).unwrap_or_default();
        Link { router, port, vc: Vc(vc as u8) }
    }
}

/// A cycle as text: the names of the routers, and port and virtual channel of each link.
pub fn describe(topology: &Topology, cycle: &[Link]) -> String {
    let mut text = String::new();
    for link in cycle {
        let _ = write!(text, "{} {} {} -> ", topology.router_name(link.router), link.port, link.vc);
    }
    if let Some(first) = cycle.first() {
        let _ = write!(text, "{} again", topology.router_name(first.router));
    }
    text
}

#[cfg(test)]
#[path = "dependency_tests.rs"]
mod tests;
