// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Patterns of synthetic traffic: the targets of messages.
//!
//! Names and definitions are those of the literature (Dally and Towles, Principles and Practices of Interconnection
//! Networks, 2004, section 3.2), and `locality` as in the study of seed 002, section 2.7.

use std::fmt;
use std::str::FromStr;

use selvedge_fabric::{NodeId, RouterId, Topology};
use thiserror::Error;

use crate::random::Random;

/// A traffic pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// All other nodes are equally likely.
    Uniform,
    /// With this probability a node on the same or a neighbouring router; otherwise uniform.
    Locality(f64),
    /// With this probability one node, otherwise uniform.
    Hotspot { node: u32, probability: f64 },
    /// The nodes form a square, row by row: from (row, column) to (column, row). Nodes on the diagonal send nothing.
    Transpose,
    /// From node i to the i-th node from the end: with 2^k nodes, to the node with all bits inverted.
    BitComplement,
    /// To the next node, and from the last node to the first.
    Neighbour,
    /// Almost half way round in each dimension of a mesh or torus; elsewhere, almost half way round all nodes.
    Tornado,
    /// From each group of a dragonfly to any node of the next one; on a HyperX or Slim Fly from each router to one that
    /// it is linked to (`Topology::adversary`). All this traffic of a group has the same few links.
    Adversarial,
}

/// Reason why a pattern is invalid, or does not fit a network.
#[derive(Debug, Error, Clone, PartialEq)]
pub enum PatternError {
    #[error(
        "unknown pattern {given:?}; known: uniform, locality:P, hotspot:NODE:P, transpose, bit-complement, neighbour, tornado, adversarial"
    )]
    Unknown { given: String },
    #[error("{given:?} is not a probability in pattern {pattern}; use one from 0 to 1, as in {pattern}:{example}")]
    Probability { pattern: &'static str, given: String, example: &'static str },
    #[error("{given:?} is not a node in pattern hotspot; give hotspot:NODE:P, as in hotspot:0:0.1")]
    Node { given: String },
    #[error("hotspot {node} is not among the {nodes} nodes, which are numbered from 0")]
    NoSuchNode { node: u32, nodes: u32 },
    #[error("transpose needs a square number of nodes, but the network has {nodes}")]
    NotSquare { nodes: u32 },
    #[error("traffic needs 2 nodes or more, but the network has {nodes}")]
    TooFew { nodes: u32 },
    #[error(
        "no node of this network has a neighbour on its router or on one that is linked to it; use another pattern"
    )]
    NoNeighbour,
    #[error(
        "adversarial traffic needs a dragonfly or dragonfly+ of 2 groups or more, a HyperX or a Slim Fly; use another pattern"
    )]
    NoAdversary,
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Pattern, PatternError> {
        let unknown = || PatternError::Unknown { given: text.chars().take(60).collect() };
        let mut words = text.split(':');
        let name = words.next().unwrap_or_default();
        let pattern = match name {
            "uniform" => Pattern::Uniform,
            "locality" => Pattern::Locality(probability("locality", "0.7", words.next())?),
            "hotspot" => {
                let word = words.next().unwrap_or_default();
                let node = word.parse().map_err(|_| PatternError::Node { given: word.into() })?;
                Pattern::Hotspot { node, probability: probability("hotspot", "0:0.1", words.next())? }
            }
            "transpose" => Pattern::Transpose,
            "bit-complement" => Pattern::BitComplement,
            "neighbour" => Pattern::Neighbour,
            "tornado" => Pattern::Tornado,
            "adversarial" => Pattern::Adversarial,
            _ => return Err(unknown()),
        };
        if words.next().is_some() { Err(unknown()) } else { Ok(pattern) }
    }
}

fn probability(pattern: &'static str, example: &'static str, word: Option<&str>) -> Result<f64, PatternError> {
    let word = word.unwrap_or_default();
    let value = word.parse().ok().filter(|value| (0.0..=1.0).contains(value));
    value.ok_or_else(|| PatternError::Probability { pattern, given: word.into(), example })
}

/// Prints the form that is parsed.
impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Uniform => out.write_str("uniform"),
            Pattern::Locality(probability) => write!(out, "locality:{probability}"),
            Pattern::Hotspot { node, probability } => write!(out, "hotspot:{node}:{probability}"),
            Pattern::Transpose => out.write_str("transpose"),
            Pattern::BitComplement => out.write_str("bit-complement"),
            Pattern::Neighbour => out.write_str("neighbour"),
            Pattern::Tornado => out.write_str("tornado"),
            Pattern::Adversarial => out.write_str("adversarial"),
        }
    }
}

/// A pattern, prepared for a topology.
#[derive(Debug)]
pub struct Destinations {
    nodes: u32,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Uniform,
    /// The nodes in the neighbourhood of router `r` are `near[first[r]..first[r + 1]]`; also the router of each node.
    Locality {
        probability: f64,
        near: Vec<u32>,
        first: Vec<u32>,
        router: Vec<u32>,
    },
    Hotspot {
        node: u32,
        probability: f64,
    },
    Fixed(Vec<u32>),
    /// From node `n` to one of `each` nodes, the first of which is `first[n / each] * each`.
    Groups {
        each: u32,
        first: Vec<u32>,
    },
}

impl Destinations {
    pub fn new(pattern: Pattern, topology: &Topology) -> Result<Destinations, PatternError> {
        let nodes = topology.nodes();
        if nodes < 2 {
            return Err(PatternError::TooFew { nodes });
        }
        let fixed = |to: &dyn Fn(u32) -> u32| Kind::Fixed((0..nodes).map(to).collect());
        let kind = match pattern {
            Pattern::Uniform => Kind::Uniform,
            Pattern::Locality(probability) => neighbourhoods(topology, probability)?,
            Pattern::Hotspot { node, .. } if node >= nodes => return Err(PatternError::NoSuchNode { node, nodes }),
            Pattern::Hotspot { node, probability } => Kind::Hotspot { node, probability },
            Pattern::Transpose => {
                let side = nodes.isqrt();
                if side * side != nodes {
                    return Err(PatternError::NotSquare { nodes });
                }
                fixed(&|node| node % side * side + node / side)
            }
            Pattern::BitComplement => fixed(&|node| nodes - 1 - node),
            Pattern::Neighbour => fixed(&|node| (node + 1) % nodes),
            Pattern::Tornado => Kind::Fixed(tornado(topology)),
            Pattern::Adversarial => {
                let (each, first) = topology.adversary().ok_or(PatternError::NoAdversary)?;
                Kind::Groups { each, first }
            }
        };
        Ok(Destinations { nodes, kind })
    }

    /// Whether a node sends messages.
    pub fn sends(&self, from: NodeId) -> bool {
        match &self.kind {
            Kind::Fixed(to) => to[from.0 as usize] != from.0,
            Kind::Uniform | Kind::Locality { .. } | Kind::Hotspot { .. } | Kind::Groups { .. } => true,
        }
    }

    /// Returns the target of a node's next message; it is another node, if the node sends messages.
    pub fn next(&self, from: NodeId, random: &mut Random) -> NodeId {
        let other = |random: &mut Random| {
            let step = 1 + random.below(u64::from(self.nodes) - 1);
            ((u64::from(from.0) + step) % u64::from(self.nodes)) as u32
        };
        NodeId(match &self.kind {
            Kind::Uniform => other(random),
            Kind::Fixed(to) => to[from.0 as usize],
            Kind::Groups { each, first } => {
                first[(from.0 / each) as usize] * each + random.below(u64::from(*each)) as u32
            }
            Kind::Hotspot { node, probability } if *node != from.0 && random.chance(*probability) => *node,
            Kind::Hotspot { .. } => other(random),
            Kind::Locality { probability, near, first, router } => {
                let router = router[from.0 as usize] as usize;
                let near = &near[first[router] as usize..first[router + 1] as usize];
                if near.len() > 1 && random.chance(*probability) {
                    // The list contains the node itself once; the last node of the list replaces it.
                    let chosen = near[random.below(near.len() as u64 - 1) as usize];
                    if chosen == from.0 { near[near.len() - 1] } else { chosen }
                } else {
                    other(random)
                }
            }
        })
    }
}

fn neighbourhoods(topology: &Topology, probability: f64) -> Result<Kind, PatternError> {
    let router: Vec<u32> = (0..topology.nodes()).map(|node| topology.attachment(NodeId(node)).0.0).collect();
    let mut of_router = vec![Vec::new(); topology.routers() as usize];
    for (node, &router) in router.iter().enumerate() {
        of_router[router as usize].push(node as u32);
    }
    let (mut near, mut first) = (Vec::new(), vec![0]);
    let mut any = false;
    for here in 0..topology.routers() {
        let mut routers: Vec<u32> = topology.neighbours(RouterId(here)).map(|(_, next)| next.0).collect();
        routers.push(here);
        routers.sort_unstable();
        routers.dedup();
        let begin = near.len();
        if !of_router[here as usize].is_empty() {
            near.extend(routers.iter().flat_map(|&router| &of_router[router as usize]));
        }
        any |= near.len() > begin + 1;
        first.push(near.len() as u32);
    }
    if any { Ok(Kind::Locality { probability, near, first, router }) } else { Err(PatternError::NoNeighbour) }
}

fn tornado(topology: &Topology) -> Vec<u32> {
    let nodes = topology.nodes();
    let dimensions = topology.dimensions();
    if dimensions == 0 {
        return (0..nodes).map(|node| (node + nodes.div_ceil(2) - 1) % nodes).collect();
    }
    let all: Vec<&[u16]> = (0..topology.routers()).map(|router| topology.coordinates(RouterId(router))).collect();
    let sizes: Vec<u16> = (0..dimensions).map(|d| all.iter().map(|at| at[d]).max().unwrap_or(0) + 1).collect();
    let mut by_coordinates: Vec<u32> = (0..topology.routers()).collect();
    by_coordinates.sort_by_key(|&router| all[router as usize]);
    let mut of_router = vec![Vec::new(); all.len()];
    for node in 0..nodes {
        of_router[topology.attachment(NodeId(node)).0.0 as usize].push(node);
    }
    let mut to = vec![0; nodes as usize];
    for (router, at) in all.iter().enumerate() {
        let there: Vec<u16> = at.iter().zip(&sizes).map(|(&at, &size)| (at + size.div_ceil(2) - 1) % size).collect();
        let found = by_coordinates.binary_search_by_key(&&there[..], |&router| all[router as usize]);
        let other = found.map_or(router, |index| by_coordinates[index] as usize);
        for (&from, &destination) in of_router[router].iter().zip(&of_router[other]) {
            to[from as usize] = destination;
        }
    }
    to
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
