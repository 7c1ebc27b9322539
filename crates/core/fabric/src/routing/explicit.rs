// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explicit routes: the routes of named pairs of nodes, from the text of a file. All other pairs keep the algorithm's.
//!
//! One route a line; `#` begins a comment. Nodes and routers are numbers or names.
//!
//! ```text
//! FROM TO ports HOP...   # the output port at each router, from the first; the last leads to the node
//! FROM TO via HOP...     # the routers after the first, or their nodes; without a HOP both nodes are at one router
//! ```
//!
//! A hop may end in `/VC`, its virtual channel; without it, it is 0. `via` takes the lowest port of parallel links.
//! A route has one direction.
//!
//! # Invariants
//!
//! 1. Each hop uses a connected port and a virtual channel that the links have, and the last one leads to the node.
//! 2. A route enters no router twice through the same port, so router and port tell the position of a packet.
//! 3. No cycle of channel dependencies goes through an explicit route. So the routing can deadlock only if the
//!    algorithm can.
//!
//! # Costs
//!
//! Making: that of [`Dependencies`], plus O(text). `next`: O(hops) for a named pair. 12 bytes for each hop and for each
//! pair.
use super::{Choices, Plan, RouteState, Routing};
use crate::dependency::{self, Dependencies, Link};
use crate::id::{Hop, NodeId, Peer, Port, RouterId, Vc};
use crate::topology::Topology;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The `vc_set` of a packet on an explicit route: no algorithm has this set, because a link has at most 255 channels.
pub(super) const EXPLICIT: u8 = u8::MAX;
/// The most nodes for which the dependencies of all pairs are checked.
pub(super) const NODES_MAX: u32 = 4096;

#[derive(Clone, Debug)]
pub(super) struct Explicit {
    /// The routing of all other pairs.
    pub(super) others: Box<Routing>,
    /// Pairs, ascending; the hops of pair `n` are `hops[first[n]..first[n + 1]]`.
    pub(super) pairs: Vec<(NodeId, NodeId)>,
    pub(super) first: Vec<u32>,
    /// The router and the port of entry of each hop, and the hop.
    pub(super) hops: Vec<(RouterId, Port, Hop)>,
}

/// Reasons for which a text gives no routes. Each message names the line and a remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoutesError {
    #[error("line {line}: write `FROM TO ports PORT...` or `FROM TO via ROUTER...`, not {words} words that begin so")]
    Form { line: usize, words: usize },
    #[error(
        "line {line}: `{word}` is not a {what} of this machine: it has {what}s 0 to {last}, the first named {first}"
    )]
    Unknown { line: usize, what: &'static str, word: String, last: u32, first: String },
    #[error("line {line}: a message from a node to itself does not enter the network: leave the line out")]
    SameNode { line: usize },
    #[error("line {line}: this pair has a route in line {first}: leave one of them out")]
    Twice { line: usize, first: usize },
    #[error("line {line}, hop {hop}: `{word}` is not a port: give a number, or number/channel")]
    Port { line: usize, hop: usize, word: String },
    #[error("line {line}, hop {hop}: virtual channel {vc} is not there: links have channels 0 to {last}")]
    Channel { line: usize, hop: usize, vc: u32, last: u8 },
    #[error("line {line}, hop {hop}: nothing is connected to port {port} of {router}: {ports}")]
    Unconnected { line: usize, hop: usize, port: u16, router: String, ports: String },
    #[error("line {line}, hop {hop}: no link joins {router} and {next}: {ports}")]
    NoLink { line: usize, hop: usize, router: String, next: String, ports: String },
    #[error("line {line}, hop {hop}: the route leads to {node} and goes on: end it there, or take another port")]
    GoesOn { line: usize, hop: usize, node: String },
    #[error("line {line}: the route ends at {at}, and not at {to}: {remedy}")]
    WrongEnd { line: usize, at: String, to: String, remedy: String },
    #[error("line {line}, hop {hop}: the route enters {router} twice through port {port}: leave the loop out")]
    Loop { line: usize, hop: usize, router: String, port: u16 },
    #[error(
        "with this routing, routes from a file are checked on machines of up to {limit} nodes, and this one has {nodes}: \
         take a smaller one"
    )]
    TooManyNodes { nodes: u32, limit: u32 },
    #[error(
        "{text}: these routes can deadlock, for their packets can wait for each other ({cycle}): change one of them"
    )]
    Deadlock { text: String, cycle: String },
}

impl Routing {
    /// This routing, with the routes of a text for the pairs that it names (see `explicit.rs` for its form).
    ///
    /// # Errors
    /// A line that is no legal route, and routes with which packets can wait for each other in a cycle that the
    /// algorithm alone does not have. The first error is returned; it names its lines.
    pub fn with_routes(self, topology: &Topology, text: &str) -> Result<Routing, RoutesError> {
        // The check walks the routes of all pairs, each as often as entropy can pick another one.
        let walks = 4 * u64::from(NODES_MAX).pow(2) / self.variants.max(1);
        let limit = NODES_MAX.min(walks.isqrt() as u32);
        if topology.nodes() > limit {
            return Err(RoutesError::TooManyNodes { nodes: topology.nodes(), limit });
        }
        let mut lines: Vec<Line> = Vec::new();
        let mut given = BTreeMap::new();
        for (number, words) in statements(text) {
            let line = Line::parse(topology, self.virtual_channels, number, &words)?;
            if let Some(first) = given.insert(line.pair, number) {
                return Err(RoutesError::Twice { line: number, first });
            }
            lines.push(line);
        }
        let by_line = lines.clone();
        lines.sort_unstable_by_key(|line| line.pair);
        let (mut first, mut hops) = (alloc::vec![0], Vec::new());
        for line in &lines {
            hops.extend_from_slice(&line.hops);
            first.push(hops.len() as u32);
        }
        let pairs = lines.into_iter().map(|line| line.pair).collect();
        let (algorithm, deadlock_free) = (self.algorithm, self.deadlock_free);
        let (virtual_channels, needed, vc_sets) = (self.virtual_channels, self.needed, self.vc_sets);
        let variants = self.variants;
        let plan = Plan::Explicit(Explicit { others: Box::new(self), pairs, first, hops });
        let made = Routing { algorithm, virtual_channels, needed, vc_sets, deadlock_free, variants, plan };
        made.check(topology, &by_line)?;
        Ok(made)
    }

    /// The number of pairs with explicit routes.
    pub fn explicit_pairs(&self) -> usize {
        if let Plan::Explicit(explicit) = &self.plan { explicit.pairs.len() } else { 0 }
    }

    /// Refuses routes that close a cycle of dependencies. If the algorithm alone has cycles, only those among the
    /// explicit routes count.
    fn check(&self, topology: &Topology, lines: &[Line]) -> Result<(), RoutesError> {
        let named = lines.iter().map(|line| line.pair);
        let graph = match self.deadlock_free {
            true => Dependencies::new(topology, self),
            false => Dependencies::of_pairs(topology, self, named),
        };
        let Some(cycle) = graph.cycle(topology) else { return Ok(()) };
        let mut numbers: Vec<usize> = Vec::new();
        for (at, held) in cycle.iter().enumerate() {
            let wanted = cycle[(at + 1) % cycle.len()];
            let through = lines.iter().find(|line| line.waits(*held, wanted));
            numbers.extend(through.map(|line| line.number));
        }
        numbers.sort_unstable();
        numbers.dedup();
        let words: Vec<String> = numbers.iter().map(usize::to_string).collect();
        let text = alloc::format!("{} {}", if words.len() == 1 { "line" } else { "lines" }, words.join(", "));
        Err(RoutesError::Deadlock { text, cycle: dependency::describe(topology, &cycle) })
    }
}

impl Explicit {
    #[inline]
    pub(super) fn start(&self, topology: &Topology, from: NodeId, to: NodeId, entropy: u64) -> RouteState {
        let mut state = self.others.start(topology, from, to, entropy);
        if let Ok(pair) = self.pairs.binary_search(&(from, to)) {
            // A named pair has neither a detour nor directions.
            (state.via, state.vc_set) = (pair as u32, EXPLICIT);
        }
        state
    }

    pub(super) fn others(&self) -> &Routing {
        &self.others
    }

    /// The next hop of a packet of a named pair.
    pub(super) fn next(&self, at: RouterId, arrived: Option<(Port, Vc)>, state: &RouteState) -> Choices {
        let pair = state.via as usize;
        let hops = &self.hops[self.first[pair] as usize..self.first[pair + 1] as usize];
        // Without a port of entry the packet was injected here: it is at its first hop.
        let found = match arrived {
            Some((port, _)) => hops.iter().find(|hop| (hop.0, hop.1) == (at, port)),
            None => hops.first().filter(|hop| hop.0 == at),
        };
        found.map_or(Choices::default(), |&(_, _, hop)| Choices::one(hop.port, hop.vc))
    }
}

/// A legal route, with its line.
#[derive(Clone)]
struct Line {
    number: usize,
    pair: (NodeId, NodeId),
    hops: Vec<(RouterId, Port, Hop)>,
}

impl Line {
    fn parse(topology: &Topology, channels: u8, number: usize, words: &[&str]) -> Result<Line, RoutesError> {
        let form = RoutesError::Form { line: number, words: words.len() };
        let [from, to, kind @ ("ports" | "via"), rest @ ..] = words else { return Err(form) };
        let (from, to) = (node(topology, number, from)?, node(topology, number, to)?);
        if from == to {
            return Err(RoutesError::SameNode { line: number });
        }
        let mut route = Walk::new(topology, channels, number, from);
        for (hop, word) in rest.iter().enumerate() {
            match *kind {
                "ports" => route.port(hop + 1, word)?,
                _ => route.via(hop + 1, word)?,
            }
        }
        if *kind == "via" && route.end.is_none() {
            let (router, port) = topology.attachment(to);
            if router == route.at {
                route.take(rest.len() + 1, port, Vc(0))?;
            }
        }
        let here = topology.router_name(route.at);
        let (at, ended) = route.end.map_or((here, false), |node| (topology.node_name(node), true));
        if route.end != Some(to) {
            let (router, port) = topology.attachment(to);
            let remedy = match (ended, router == route.at) {
                (_, true) => alloc::format!("end it with port {}", port.0),
                (_, false) => alloc::format!("lead it to {} first", topology.router_name(router)),
            };
            return Err(RoutesError::WrongEnd { line: number, at, to: topology.node_name(to), remedy });
        }
        Ok(Line { number, pair: (from, to), hops: route.hops })
    }

    /// Whether a packet of this route holds one link while it waits for the other.
    fn waits(&self, held: Link, wanted: Link) -> bool {
        let is = |hop: &(RouterId, Port, Hop), link: Link| {
            (hop.0, hop.2) == (link.router, Hop { port: link.port, vc: link.vc })
        };
        self.hops.windows(2).any(|two| is(&two[0], held) && is(&two[1], wanted))
    }
}

/// A route under construction.
struct Walk<'a> {
    topology: &'a Topology,
    channels: u8,
    line: usize,
    at: RouterId,
    entry: Port,
    /// The node at which it has ended.
    end: Option<NodeId>,
    hops: Vec<(RouterId, Port, Hop)>,
}

impl<'a> Walk<'a> {
    fn new(topology: &'a Topology, channels: u8, line: usize, from: NodeId) -> Walk<'a> {
        let (at, entry) = topology.attachment(from);
        Walk { topology, channels, line, at, entry, end: None, hops: Vec::new() }
    }

    fn port(&mut self, hop: usize, word: &str) -> Result<(), RoutesError> {
        let (name, vc) = self.channel(hop, word)?;
        let wrong = |_| RoutesError::Port { line: self.line, hop, word: shortened(word) };
        let port = Port(name.parse().map_err(wrong)?);
        self.take(hop, port, vc)
    }

    fn via(&mut self, hop: usize, word: &str) -> Result<(), RoutesError> {
        let (name, vc) = self.channel(hop, word)?;
        let topology = self.topology;
        let name_of = |router| topology.router_name(RouterId(router));
        let next = number_of(self.line, "router", name, topology.routers(), name_of).map(RouterId);
        // A host without a switch is both: its name is that of its node.
        let of_node = || (0..topology.nodes()).map(NodeId).find(|&node| topology.node_name(node) == name);
        let next = next.or_else(|error| of_node().map(|node| topology.attachment(node).0).ok_or(error))?;
        let Some((port, _)) = topology.neighbours(self.at).find(|(_, router)| *router == next) else {
            let (router, next) = (topology.router_name(self.at), topology.router_name(next));
            return Err(RoutesError::NoLink { line: self.line, hop, router, next, ports: self.ports() });
        };
        self.take(hop, port, vc)
    }

    /// Splits a hop into its port or router and its virtual channel.
    fn channel<'w>(&self, hop: usize, word: &'w str) -> Result<(&'w str, Vc), RoutesError> {
        let given = word.rsplit_once('/').and_then(|(name, vc)| Some((name, vc.parse::<u32>().ok()?)));
        let (name, vc) = given.unwrap_or((word, 0));
        if vc >= u32::from(self.channels) {
            return Err(RoutesError::Channel { line: self.line, hop, vc, last: self.channels - 1 });
        }
        Ok((name, Vc(vc as u8)))
    }

    fn take(&mut self, hop: usize, port: Port, vc: Vc) -> Result<(), RoutesError> {
        let (line, topology) = (self.line, self.topology);
        if let Some(node) = self.end {
            return Err(RoutesError::GoesOn { line, hop, node: topology.node_name(node) });
        }
        let router = topology.router_name(self.at);
        if self.hops.iter().any(|before| (before.0, before.1) == (self.at, self.entry)) {
            return Err(RoutesError::Loop { line, hop, router, port: self.entry.0 });
        }
        self.hops.push((self.at, self.entry, Hop { port, vc }));
        match topology.peer(self.at, port) {
            Peer::Router { router, port } => (self.at, self.entry) = (router, port),
            Peer::Node(node) => self.end = Some(node),
            Peer::Unconnected => {
                return Err(RoutesError::Unconnected { line, hop, port: port.0, router, ports: self.ports() });
            }
        }
        Ok(())
    }

    /// The first ports of the router, with their ends, for an error message.
    fn ports(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        for port in (0..self.topology.ports(self.at)).map(Port) {
            match self.topology.peer(self.at, port) {
                Peer::Router { router, .. } => {
                    words.push(alloc::format!("{port} to {}", self.topology.router_name(router)))
                }
                Peer::Node(node) => words.push(alloc::format!("{port} to {}", self.topology.node_name(node))),
                Peer::Unconnected => {}
            }
            if words.len() == PORTS_SHOWN {
                break;
            }
        }
        alloc::format!("it has {}", words.join(", "))
    }
}

const PORTS_SHOWN: usize = 8;

fn node(topology: &Topology, line: usize, word: &str) -> Result<NodeId, RoutesError> {
    number_of(line, "node", word, topology.nodes(), |node| topology.node_name(NodeId(node))).map(NodeId)
}

/// Resolves a number below `count`, given as a number or as a name.
fn number_of(
    line: usize,
    what: &'static str,
    word: &str,
    count: u32,
    name: impl Fn(u32) -> String,
) -> Result<u32, RoutesError> {
    let number = word.parse().ok().filter(|number| *number < count);
    number.or_else(|| (0..count).find(|number| name(*number) == word)).ok_or_else(|| RoutesError::Unknown {
        line,
        what,
        word: shortened(word),
        last: count - 1,
        first: name(0),
    })
}

/// The words of each line that is not empty, with the line's number from 1, without comments.
fn statements(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    text.lines().enumerate().filter_map(|(at, line)| {
        let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
        (!words.is_empty()).then_some((at + 1, words))
    })
}

/// The first 40 characters of a word: those of a binary file may be long.
fn shortened(word: &str) -> String {
    word.chars().take(40).collect()
}

#[cfg(test)]
#[path = "explicit_tests.rs"]
mod tests;
