// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any graph, from the text of a file.
//!
//! One statement a line; `#` begins a comment. A name is any word. A line may name a router that a later line declares.
//! The order of lines determines the numbers of routers, nodes and links.
//!
//! ```text
//! router NAME
//! link A B [WEIGHT] [KEY=NUMBER]...     # weight for shortest paths: 1 to 1000000, default 1
//! node NAME ROUTER [KEY=NUMBER]...
//! ```
//!
//! The keys `bandwidth_MBps` and `latency_ns` give a link, or a node's link, a speed of its own.
//!
//! A router's ports are numbered in the order of the lines that name it.
use super::links::{self, Cable, Station};
use super::{Draft, EdgeSpeed, Kind, Topology, TopologyError};
use crate::id::{NodeId, RouterId};
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const WEIGHT_MAX: u32 = 1_000_000;
/// Bounds of the numbers of an edge's speed, far beyond those of a simulation.
const RATE_MAX: f64 = 1e12;
const LATENCY_MAX: f64 = 1e12;

impl Topology {
    /// A graph of stations and cables. Positions are kept if every station has one.
    pub fn from_cables(stations: &[Station], cables: &[Cable]) -> Result<Topology, TopologyError> {
        links::from_cables(stations, cables)
    }

    /// Whether the routers of a graph have different positions, and each link joins neighbours on the mesh.
    pub(crate) fn is_part_of_mesh(&self) -> bool {
        links::is_part_of_mesh(self)
    }

    /// A graph from its text (see the module's description). Errors name the line.
    pub fn graph(text: &str) -> Result<Topology, TopologyError> {
        let text = Text::parse(text)?;
        let mut ports = alloc::vec![0; text.routers.len()];
        for edge in &text.edges {
            edge.ends().for_each(|router| ports[router as usize] += 1);
        }
        let count = |router: u32| ports[router as usize];
        let mut draft = Draft::new(ports.len() as u64, count, text.nodes.len() as u32)?;
        let mut weights = alloc::vec![1; draft.peers.len()];
        let mut edge_numbers = alloc::vec![u16::MAX; draft.peers.len()];
        let mut used = alloc::vec![0; ports.len()];
        let mut take = |router: u32| {
            let port: u32 = used[router as usize];
            used[router as usize] += 1;
            port
        };
        for edge in &text.edges {
            match *edge {
                Edge::Link { a, b, weight, speed } => {
                    let (a_port, b_port) = (take(a), take(b));
                    draft.link(RouterId(a), a_port, RouterId(b), b_port);
                    for (router, port) in [(a, a_port), (b, b_port)] {
                        let channel = (draft.first_port[router as usize] + port) as usize;
                        (weights[channel], edge_numbers[channel]) = (weight, speed);
                    }
                }
                Edge::Node { node, router, speed } => {
                    let port = take(router);
                    draft.attach(NodeId(node), RouterId(router), port);
                    edge_numbers[(draft.first_port[router as usize] + port) as usize] = speed;
                }
            }
        }
        let mut topology = draft.finish(Kind::Graph)?;
        if let Some(lost) = topology.distances(RouterId(0)).iter().position(|&d| d == u32::MAX) {
            let (name, line) = &text.routers[lost];
            return Err(TopologyError::Disconnected {
                from: text.routers[0].0.to_string(),
                to: name.to_string(),
                line: *line,
            });
        }
        if weights.iter().any(|&weight| weight != 1) {
            topology.weights = weights;
        }
        if !text.speeds.is_empty() {
            (topology.edge_speeds, topology.edge_numbers) = (text.speeds, edge_numbers);
        }
        topology.router_names = text.routers.iter().map(|(name, _)| name.to_string()).collect();
        topology.node_names = text.nodes.iter().map(|name| name.to_string()).collect();
        Ok(topology)
    }
}

/// The statements of a text, with names resolved.
struct Text<'a> {
    /// Name and line.
    routers: Vec<(&'a str, usize)>,
    nodes: Vec<&'a str>,
    /// In order of lines.
    edges: Vec<Edge>,
    /// Different speeds of edges.
    speeds: Vec<EdgeSpeed>,
}

/// `speed`: the number of its speed; `u16::MAX`: it has none.
enum Edge {
    Link { a: u32, b: u32, weight: u32, speed: u16 },
    Node { node: u32, router: u32, speed: u16 },
}

impl Edge {
    fn ends(&self) -> impl Iterator<Item = u32> {
        let (a, b) = match *self {
            Edge::Link { a, b, .. } => (a, Some(b)),
            Edge::Node { router, .. } => (router, None),
        };
        core::iter::once(a).chain(b)
    }
}

impl<'a> Text<'a> {
    fn parse(text: &'a str) -> Result<Text<'a>, TopologyError> {
        let mut routers = Vec::new();
        let mut by_name = BTreeMap::new();
        for (line, words) in statements(text) {
            if words[0] == "router" {
                let [_, name] = words[..] else { return Err(wrong_words(line, "router", "router NAME", &words)) };
                if let Some(&number) = by_name.get(name) {
                    let (_, first): (&str, usize) = routers[number as usize];
                    return Err(TopologyError::Twice { line, what: "router", name: name.to_string(), first });
                }
                by_name.insert(name, routers.len() as u32);
                routers.push((name, line));
            }
        }
        let router = |line, name: &str| match by_name.get(name) {
            Some(&router) => Ok(router),
            None => Err(TopologyError::UnknownRouter { line, name: name.to_string() }),
        };

        let mut nodes = Vec::new();
        let mut edges = Vec::new();
        let mut speeds = Vec::new();
        let mut node_lines: BTreeMap<&str, usize> = BTreeMap::new();
        let mut link_lines: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        for (line, words) in statements(text) {
            match words[0] {
                "router" => {}
                "link" => {
                    let (words, speed) = with_speed(line, &words, &mut speeds)?;
                    let (a_name, b_name, weight) = match words[..] {
                        [_, a, b] => (a, b, 1),
                        [_, a, b, word] => (a, b, weight(line, word)?),
                        _ => return Err(wrong_words(line, "link", "link A B [WEIGHT]", words)),
                    };
                    let (a, b) = (router(line, a_name)?, router(line, b_name)?);
                    if a == b {
                        return Err(TopologyError::SelfLink { line, name: a_name.to_string() });
                    }
                    if let Some(first) = link_lines.insert((a.min(b), a.max(b)), line) {
                        let (a, b) = (a_name.to_string(), b_name.to_string());
                        return Err(TopologyError::DuplicateLink { line, a, b, first });
                    }
                    edges.push(Edge::Link { a, b, weight, speed });
                }
                "node" => {
                    let (words, speed) = with_speed(line, &words, &mut speeds)?;
                    let [_, name, at] = words[..] else {
                        return Err(wrong_words(line, "node", "node NAME ROUTER", words));
                    };
                    if let Some(first) = node_lines.insert(name, line) {
                        return Err(TopologyError::Twice { line, what: "node", name: name.to_string(), first });
                    }
                    edges.push(Edge::Node { node: nodes.len() as u32, router: router(line, at)?, speed });
                    nodes.push(name);
                }
                word => return Err(TopologyError::Statement { line, word: shortened(word) }),
            }
        }
        if routers.is_empty() {
            return Err(TopologyError::Empty { what: "routers", form: "router NAME" });
        }
        if nodes.is_empty() {
            return Err(TopologyError::Empty { what: "nodes", form: "node NAME ROUTER" });
        }
        Ok(Text { routers, nodes, edges, speeds })
    }
}

/// The words of each line that has any, with the line's number from 1.
fn statements(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    text.lines().enumerate().filter_map(|(at, line)| {
        let statement = line.split('#').next().unwrap_or("");
        let words: Vec<&str> = statement.split_whitespace().collect();
        (!words.is_empty()).then_some((at + 1, words))
    })
}

fn wrong_words(line: usize, statement: &'static str, form: &'static str, words: &[&str]) -> TopologyError {
    TopologyError::Words { line, statement, is: words.len() - 1, form }
}

/// The words before those with a key, and the number of the speed that these give.
fn with_speed<'a, 'w>(
    line: usize,
    words: &'w [&'a str],
    speeds: &mut Vec<EdgeSpeed>,
) -> Result<(&'w [&'a str], u16), TopologyError> {
    let first = words.iter().position(|word| word.contains('=')).unwrap_or(words.len());
    let mut speed = EdgeSpeed::default();
    for word in &words[first..] {
        let wrong = || TopologyError::EdgeKey { line, word: shortened(word) };
        let (key, number) = word.split_once('=').ok_or_else(wrong)?;
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let whole = |units: f64| (number * units + 0.5) as u64;
        match key {
            "bandwidth_MBps" if number > 0.0 && number <= RATE_MAX => {
                speed.bandwidth_bytes_per_s = Some(whole(1e6).max(1));
            }
            "latency_ns" if (0.0..=LATENCY_MAX).contains(&number) => speed.latency_ps = Some(whole(1e3)),
            _ => return Err(wrong()),
        }
    }
    if speed == EdgeSpeed::default() {
        return Ok((&words[..first], u16::MAX));
    }
    let number = speeds.iter().position(|known| *known == speed).unwrap_or_else(|| {
        speeds.push(speed);
        speeds.len() - 1
    });
    match number < usize::from(u16::MAX) {
        true => Ok((&words[..first], number as u16)),
        false => Err(TopologyError::EdgeSpeeds { line, limit: u16::MAX }),
    }
}

fn weight(line: usize, word: &str) -> Result<u32, TopologyError> {
    match word.parse() {
        Ok(weight) if (1..=WEIGHT_MAX).contains(&weight) => Ok(weight),
        _ => Err(TopologyError::Weight { line, word: shortened(word) }),
    }
}

/// The first 40 characters of a word, for an error message: words of a binary file may be long.
fn shortened(word: &str) -> String {
    word.chars().take(40).collect()
}
