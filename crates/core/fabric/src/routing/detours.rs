// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detours: routes around failed links.
//!
//! Routes whose links are all up stay as they are. Each other pair that a path still joins gets a detour: a cheap path
//! over links and virtual channels that closes no cycle of dependencies with all other routes. So the fabric carries
//! almost as much as before, and is as free of deadlock.
//!
//! A detour is found by a search from the source (A*). Its cost counts links, and adds for each link the routes that
//! use it already. The dependencies of all routes are kept as an acyclic graph with an order of its virtual channels
//! (Pearce and Kelly 2006), so most steps of a search are one comparison. A step that would close a cycle is refused
//! for good, because routes are only added.
//!
//! # Invariants
//!
//! 1. Each virtual channel comes in the order before all those for which its packets may wait. So there is no cycle.
//! 2. The result depends on the topology, the routing and the links alone.
//!
//! # Costs
//!
//! O(nodes² × hops) for the routes that stay, so nodes are limited as those of explicit routes. A detour costs about
//! O(hops × ports × virtual channels), more where its steps are new. 12 bytes for each hop of a detour, 12 for each pair that has one; at most [`DETOURS_MAX`] pairs.
use super::explicit::{EXPLICIT, Explicit, NODES_MAX};
use super::{Plan, Routing};
use crate::id::{Hop, NodeId, Peer, Port, RouterId, Vc};
use crate::topology::Topology;
use alloc::boxed::Box;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Hops of an explicit route: router, port of entry, hop.
type Hops = Vec<(RouterId, Port, Hop)>;

/// See [`Routing::around`].
pub(super) fn around(routing: &Routing, topology: &Topology, is_up: impl Fn(u32) -> bool) -> Option<Routing> {
    if routing.variants > 1 || topology.nodes() > NODES_MAX {
        return None;
    }
    let mut search = Search::new(topology, routing.virtual_channels, is_up);
    let (broken, mut lines) = search.keep(routing)?;
    search.order.rank()?;
    for ((from, to), mut hops) in broken {
        search.detour((from, to), &mut hops)?;
        lines.push(((from, to), hops));
    }
    lines.sort_unstable_by_key(|line| line.0);
    let (mut first, mut hops, mut pairs) = (alloc::vec![0], Vec::new(), Vec::new());
    for (pair, line) in lines {
        pairs.push(pair);
        hops.extend(line);
        first.push(u32::try_from(hops.len()).ok()?);
    }
    let others = match &routing.plan {
        Plan::Explicit(explicit) => explicit.others().clone(),
        _ => routing.clone(),
    };
    let plan = Plan::Explicit(Explicit { others: Box::new(others), pairs, first, hops });
    Some(Routing { plan, deadlock_free: true, ..*routing })
}

/// A pair of nodes with its route.
type Line = ((NodeId, NodeId), Hops);
/// Joined pairs that have lost their routes, by destination, and the explicit routes that stay.
type Kept = (Vec<Line>, Vec<Line>);

struct Search<'a> {
    topology: &'a Topology,
    virtual_channels: u32,
    /// By output channel.
    is_up: Vec<bool>,
    order: Order,
    /// Routes over each output channel, and over all of them.
    loads: Vec<u32>,
    total: u64,
    /// Links to the destination from each router.
    to: RouterId,
    distances: Vec<u32>,
    // Of the present search: its number, and by virtual channel the number of the last one that has reached it, and the
    // channel before.
    number: u32,
    seen: Vec<u32>,
    before: Vec<u32>,
}

/// A step of a path to a virtual channel, from `held` or from the source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    /// The cost of the whole path, estimated.
    estimate: u32,
    vertex: u32,
    held: u32,
    cost: u32,
}

/// The most pairs that get detours: some 100 MB.
const DETOURS_MAX: usize = 1 << 18;
const NONE: u32 = u32::MAX;
/// The cost of a link without routes. A link with as many routes as the mean costs half as much again.
const LINK: u32 = 64;
/// The estimated cost of a link that is ahead: somewhat above that of the mean, so that a search goes straight. Searches
/// take a sixth of the time that they take with the mean, and detours are hardly longer.
const REST: u32 = LINK + LINK * 3 / 4;

impl<'a> Search<'a> {
    fn new(topology: &'a Topology, virtual_channels: u8, is_up: impl Fn(u32) -> bool) -> Search<'a> {
        let channels = topology.channels() - topology.nodes();
        let vertices = channels as usize * usize::from(virtual_channels);
        let both_up = |channel| {
            let (router, port) = topology.channel_source(channel).unwrap_or_default();
            match topology.peer(router, port) {
                Peer::Router { router, port } => is_up(channel) && is_up(topology.channel(router, port)),
                _ => false,
            }
        };
        Search {
            topology,
            virtual_channels: virtual_channels.into(),
            is_up: (0..channels).map(both_up).collect(),
            order: Order::new(vertices),
            loads: alloc::vec![0; channels as usize],
            total: 0,
            to: RouterId(NONE),
            distances: Vec::new(),
            number: 0,
            seen: alloc::vec![0; vertices],
            before: alloc::vec![NONE; vertices],
        }
    }

    /// Takes all routes that are whole, and those of pairs that no path joins, up to the failed link. A pair without any
    /// route is left out. `None`: a packet has a choice, or too many routes are not whole.
    fn keep(&mut self, routing: &Routing) -> Option<Kept> {
        let topology = self.topology;
        let nodes = || (0..topology.nodes()).map(NodeId);
        let (mut broken, mut explicit): Kept = Default::default();
        let mut hops = Hops::new();
        'pairs: for (to, from) in
            nodes().flat_map(|to| nodes().map(move |from| (to, from))).filter(|(to, from)| to != from)
        {
            let mut state = routing.start(topology, from, to, 0);
            let (mut at, mut entry) = topology.attachment(from);
            let mut arrived = Some((entry, Vc(0)));
            hops.clear();
            // The hops over links, up to the first one that has failed.
            let (mut links, mut is_whole) = (0, true);
            loop {
                let choices = routing.next(topology, at, arrived, to, &mut state);
                let hop = match *choices.as_slice() {
                    [hop] => hop,
                    [] => continue 'pairs,
                    _ => return None,
                };
                hops.push((at, entry, hop));
                let Peer::Router { router, port } = topology.peer(at, hop.port) else { break };
                links += usize::from(is_whole);
                is_whole &= self.is_up[topology.channel(at, hop.port) as usize];
                (at, entry, arrived) = (router, port, Some((port, hop.vc)));
            }
            if is_whole {
                self.count(&hops);
            } else if self.joins(from, to) {
                if broken.len() == DETOURS_MAX {
                    return None;
                }
                broken.push(((from, to), Hops::new()));
                continue;
            }
            for two in hops[..links].windows(2) {
                self.order.add(self.vertex(two[0].0, two[0].2), self.vertex(two[1].0, two[1].2));
            }
            if state.vc_set == EXPLICIT {
                explicit.push(((from, to), hops.clone()));
            }
        }
        Some((broken, explicit))
    }

    /// Counts a route's links.
    fn count(&mut self, hops: &Hops) {
        for (at, _, hop) in &hops[..hops.len() - 1] {
            self.loads[self.topology.channel(*at, hop.port) as usize] += 1;
            self.total += 1;
        }
    }

    /// Whether a path joins two nodes.
    fn joins(&mut self, from: NodeId, to: NodeId) -> bool {
        self.aim(self.topology.attachment(to).0);
        self.distances[self.topology.attachment(from).0.0 as usize] != NONE
    }

    /// Finds and takes the detour of a pair that a path joins. `None`: no path is free of deadlock.
    fn detour(&mut self, (from, to): (NodeId, NodeId), hops: &mut Hops) -> Option<()> {
        let topology = self.topology;
        let ((start, entry), (end, last)) = (topology.attachment(from), topology.attachment(to));
        self.aim(end);
        loop {
            let path = self.path(start)?;
            // The steps were allowed one by one; two of the same path may close a cycle together.
            let is_taken = path.windows(2).all(|two| self.order.put(two[0], two[1]));
            if !is_taken {
                continue;
            }
            let (mut at, mut entry) = (start, entry);
            for vertex in path {
                let (channel, vc) = (vertex / self.virtual_channels, vertex % self.virtual_channels);
                let (_, port) = topology.channel_source(channel)?;
                if hops.iter().any(|hop| (hop.0, hop.1) == (at, entry)) {
                    return None; // The same link twice: a packet could not tell where it is.
                }
                hops.push((at, entry, Hop { port, vc: Vc(vc as u8) }));
                let Peer::Router { router, port } = topology.peer(at, port) else { return None };
                (at, entry) = (router, port);
            }
            hops.push((at, entry, Hop { port: last, vc: Vc(0) }));
            self.count(hops);
            return Some(());
        }
    }

    /// Computes the distances to a router.
    fn aim(&mut self, to: RouterId) {
        if self.to == to {
            return;
        }
        self.to = to;
        self.distances.clear();
        self.distances.resize(self.topology.routers() as usize, NONE);
        self.distances[to.0 as usize] = 0;
        let mut queue = VecDeque::from([to]);
        while let Some(at) = queue.pop_front() {
            for (port, next) in self.topology.neighbours(at) {
                let is_up = self.is_up[self.topology.channel(at, port) as usize];
                if is_up && self.distances[next.0 as usize] == NONE {
                    self.distances[next.0 as usize] = self.distances[at.0 as usize] + 1;
                    queue.push_back(next);
                }
            }
        }
    }

    /// Returns a cheap path from a router to the one aimed at, as virtual channels. A step is checked when it is the
    /// cheapest one that is left, because checks cost most.
    fn path(&mut self, start: RouterId) -> Option<Vec<u32>> {
        self.number += 1;
        let mean = (self.total / self.is_up.len().max(1) as u64).max(1);
        let mut open = BinaryHeap::new();
        self.expand((start, NONE, NONE), 0, mean, &mut open);
        while let Some(Reverse(step)) = open.pop() {
            let Step { vertex, held, cost, .. } = step;
            if self.seen[vertex as usize] == self.number
                || held != NONE && !self.order.has(held, vertex) && !self.order.sort(held, vertex)
            {
                continue;
            }
            self.seen[vertex as usize] = self.number;
            self.before[vertex as usize] = held;
            let (at, next) = self.ends(vertex);
            if next == self.to {
                let mut path = alloc::vec![vertex];
                let mut last = vertex;
                while self.before[last as usize] != NONE {
                    last = self.before[last as usize];
                    path.push(last);
                }
                path.reverse();
                return Some(path);
            }
            self.expand((next, vertex, at.0), cost, mean, &mut open);
        }
        None
    }

    /// Adds the steps to all virtual channels that may follow `held`, which leads from the router `before`.
    fn expand(
        &self,
        (at, held, before): (RouterId, u32, u32),
        cost: u32,
        mean: u64,
        open: &mut BinaryHeap<Reverse<Step>>,
    ) {
        let topology = self.topology;
        for (port, next) in topology.neighbours(at) {
            let channel = topology.channel(at, port);
            if !self.is_up[channel as usize] || next.0 == before || self.distances[next.0 as usize] == NONE {
                continue;
            }
            let load = u64::from(self.loads[channel as usize]) * u64::from(LINK / 2) / mean;
            let link = LINK + load.min(u64::from(8 * LINK)) as u32;
            for vc in 0..self.virtual_channels {
                let vertex = channel * self.virtual_channels + vc;
                if self.seen[vertex as usize] == self.number {
                    continue;
                }
                // A step that others take already is a little cheaper.
                let is_new = held != NONE && !self.order.has(held, vertex);
                let cost = cost + link + u32::from(is_new);
                open.push(Reverse(Step { estimate: cost + self.rest(next), vertex, held, cost }));
            }
        }
    }

    /// An estimate of the cost from a router to the end.
    fn rest(&self, at: RouterId) -> u32 {
        self.distances[at.0 as usize].saturating_mul(REST)
    }

    /// The routers at the two ends of a virtual channel.
    fn ends(&self, vertex: u32) -> (RouterId, RouterId) {
        let (at, port) = self.topology.channel_source(vertex / self.virtual_channels).unwrap_or_default();
        match self.topology.peer(at, port) {
            Peer::Router { router, .. } => (at, router),
            _ => (at, at),
        }
    }

    fn vertex(&self, at: RouterId, hop: Hop) -> u32 {
        self.topology.channel(at, hop.port) * self.virtual_channels + u32::from(hop.vc.0)
    }
}

/// An acyclic graph that only grows, with a topological order of its vertices.
struct Order {
    after: Vec<Vec<u32>>,
    before: Vec<Vec<u32>>,
    /// Steps that would close a cycle.
    refused: Vec<Vec<u32>>,
    ranks: Vec<u32>,
    /// Of the present walk over the graph: its number at the vertices that it has visited.
    number: u32,
    visited: Vec<u32>,
}

impl Order {
    fn new(vertices: usize) -> Order {
        Order {
            after: alloc::vec![Vec::new(); vertices],
            before: alloc::vec![Vec::new(); vertices],
            refused: alloc::vec![Vec::new(); vertices],
            ranks: alloc::vec![0; vertices],
            number: 0,
            visited: alloc::vec![0; vertices],
        }
    }

    fn has(&self, from: u32, to: u32) -> bool {
        self.after[from as usize].contains(&to)
    }

    /// Adds an edge before the order is made.
    fn add(&mut self, from: u32, to: u32) {
        if !self.has(from, to) {
            self.after[from as usize].push(to);
            self.before[to as usize].push(from);
        }
    }

    /// Makes the order. `None`: there is a cycle.
    fn rank(&mut self) -> Option<()> {
        let mut waits: Vec<u32> = self.before.iter().map(|before| before.len() as u32).collect();
        let mut queue: VecDeque<u32> = (0..waits.len() as u32).filter(|&vertex| waits[vertex as usize] == 0).collect();
        let mut next = 0;
        while let Some(vertex) = queue.pop_front() {
            self.ranks[vertex as usize] = next;
            next += 1;
            for &after in &self.after[vertex as usize] {
                waits[after as usize] -= 1;
                if waits[after as usize] == 0 {
                    queue.push_back(after);
                }
            }
        }
        (next as usize == waits.len()).then_some(())
    }

    /// Adds an edge. False: it would close a cycle, and is refused from now on.
    fn put(&mut self, from: u32, to: u32) -> bool {
        let is_possible = self.has(from, to) || self.sort(from, to);
        if is_possible {
            self.add(from, to);
        }
        is_possible
    }

    /// Changes the order so that a vertex comes before another. False: it cannot, since a path leads back.
    fn sort(&mut self, from: u32, to: u32) -> bool {
        let (low, high) = (self.ranks[to as usize], self.ranks[from as usize]);
        if high < low {
            return true;
        }
        if from == to || self.refused[from as usize].contains(&to) {
            return false;
        }
        let Some(mut behind) = self.walk(to, from, |order, vertex| &order.after[vertex as usize], |rank| rank <= high)
        else {
            self.refused[from as usize].push(to);
            return false;
        };
        // It has no end to find: the walk forward did not meet `from`.
        let ahead = self.walk(from, NONE, |order, vertex| &order.before[vertex as usize], |rank| rank >= low);
        let mut all = ahead.unwrap_or_default();
        all.sort_unstable_by_key(|&vertex| self.ranks[vertex as usize]);
        behind.sort_unstable_by_key(|&vertex| self.ranks[vertex as usize]);
        all.append(&mut behind);
        let mut ranks: Vec<u32> = all.iter().map(|&vertex| self.ranks[vertex as usize]).collect();
        ranks.sort_unstable();
        for (vertex, rank) in all.into_iter().zip(ranks) {
            self.ranks[vertex as usize] = rank;
        }
        true
    }

    /// Returns all vertices that edges join to a first one, within some ranks. `None`: `end` is among them.
    fn walk(
        &mut self,
        first: u32,
        end: u32,
        edges: impl Fn(&Order, u32) -> &Vec<u32>,
        is_within: impl Fn(u32) -> bool,
    ) -> Option<Vec<u32>> {
        self.number += 1;
        self.visited[first as usize] = self.number;
        let mut found = alloc::vec![first];
        let mut at = 0;
        while let Some(&vertex) = found.get(at) {
            at += 1;
            for place in 0..edges(self, vertex).len() {
                let next = edges(self, vertex)[place];
                if next == end {
                    return None;
                }
                if self.visited[next as usize] != self.number && is_within(self.ranks[next as usize]) {
                    self.visited[next as usize] = self.number;
                    found.push(next);
                }
            }
        }
        Some(found)
    }
}

#[cfg(test)]
#[path = "detours_tests.rs"]
mod tests;
