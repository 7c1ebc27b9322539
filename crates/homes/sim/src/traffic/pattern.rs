// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Patterns of synthetic traffic, as a user names them. [`super::Destinations`] has the targets that they choose.
//!
//! Names and definitions are those of the literature (Dally and Towles, Principles and Practices of Interconnection
//! Networks, 2004, section 3.2), and `locality` as in the study of seed 002, section 2.7.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use selvedge_settings::nearest;
use thiserror::Error;

/// A traffic pattern. Its numbers of nodes are those of the network; in a job, of the job's ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// All other nodes are equally likely.
    Uniform,
    /// With this probability a node on the same or a neighbouring router; otherwise uniform.
    Locality(f64),
    /// With this probability one node, otherwise uniform.
    Hotspot { node: u32, probability: f64 },
    /// This number of nodes, evenly spread, send to one node. The others send nothing.
    Incast { sources: u32, node: u32 },
    /// Each node sends to one other node and receives from one other node, drawn with this seed.
    Permutation { seed: u64 },
    /// The nodes form a square, row by row: from (row, column) to (column, row). Nodes on the diagonal send nothing.
    Transpose,
    /// From node i to the i-th node from the end: with 2^k nodes, to the node with all bits inverted.
    BitComplement,
    /// Of 2^k nodes, to the node whose number has the bits in reverse order.
    BitReverse,
    /// Of 2^k nodes, to the node whose number has its bits rotated by one to the left: the perfect shuffle.
    Shuffle,
    /// To the next node, and from the last node to the first.
    Neighbour,
    /// From node i to node i + distance, modulo the number of nodes.
    Shift { distance: u32 },
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
        "unknown pattern {given:?}{hint}; known: uniform, locality:P, hotspot:NODE:P, incast:SOURCES[:NODE], permutation[:SEED], \
         transpose, bit-complement, bit-reverse, shuffle, neighbour, shift:DISTANCE, tornado, adversarial"
    )]
    Unknown { given: String, hint: String },
    #[error("{given:?} is not a probability in pattern {pattern}; use one from 0 to 1, as in {pattern}:{example}")]
    Probability { pattern: &'static str, given: String, example: &'static str },
    #[error("{given:?} is not a {what} in pattern {pattern}; give {form}")]
    Number { pattern: &'static str, what: &'static str, given: String, form: &'static str },
    #[error("{pattern} {node} is not among the {nodes} nodes, which are numbered from 0")]
    NoSuchNode { pattern: &'static str, node: u32, nodes: u32 },
    #[error("incast from {sources} sources needs {sources} nodes beside its target, but {others} are there")]
    TooManySources { sources: u32, others: u32 },
    #[error("transpose needs a square number of nodes, but there are {nodes}")]
    NotSquare { nodes: u32 },
    #[error("{pattern} needs a power of two of nodes, but there are {nodes}")]
    NotPowerOfTwo { pattern: Pattern, nodes: u32 },
    #[error("a shift by {distance} leads each of {nodes} nodes to itself; choose another distance")]
    NoShift { distance: u32, nodes: u32 },
    #[error("traffic needs 2 nodes or more, but {nodes} is there")]
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

const NAMES: [&str; 13] = [
    "uniform",
    "locality",
    "hotspot",
    "incast",
    "permutation",
    "transpose",
    "bit-complement",
    "bit-reverse",
    "shuffle",
    "neighbour",
    "shift",
    "tornado",
    "adversarial",
];

const HOTSPOT: &str = "hotspot:NODE:P, as in hotspot:0:0.1";
const INCAST: &str = "incast:SOURCES or incast:SOURCES:NODE, as in incast:16:0";
const PERMUTATION: &str = "permutation or permutation:SEED, as in permutation:7";
const SHIFT: &str = "shift:DISTANCE, as in shift:8";

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Pattern, PatternError> {
        let mut words = text.split(':');
        let name = words.next().unwrap_or_default();
        let unknown = || {
            let near = nearest(name, NAMES.iter().map(|name| (*name).to_owned())).filter(|near| near != name);
            let hint = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
            PatternError::Unknown { given: text.chars().take(60).collect(), hint }
        };
        let pattern = match name {
            "uniform" => Pattern::Uniform,
            "locality" => Pattern::Locality(probability("locality", "0.7", words.next())?),
            "hotspot" => {
                let node = number(("hotspot", "node", HOTSPOT), words.next())?;
                Pattern::Hotspot { node, probability: probability("hotspot", "0:0.1", words.next())? }
            }
            "incast" => {
                let sources: NonZeroU32 = number(("incast", "number of sources", INCAST), words.next())?;
                let node = words.next().map(|word| number(("incast", "node", INCAST), Some(word)));
                Pattern::Incast { sources: sources.get(), node: node.transpose()?.unwrap_or(0) }
            }
            "permutation" => {
                let seed = words.next().map(|word| number(("permutation", "seed", PERMUTATION), Some(word)));
                Pattern::Permutation { seed: seed.transpose()?.unwrap_or(1) }
            }
            "transpose" => Pattern::Transpose,
            "bit-complement" => Pattern::BitComplement,
            "bit-reverse" => Pattern::BitReverse,
            "shuffle" => Pattern::Shuffle,
            "neighbour" => Pattern::Neighbour,
            "shift" => Pattern::Shift { distance: number(("shift", "distance", SHIFT), words.next())? },
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

fn number<T: FromStr>(
    (pattern, what, form): (&'static str, &'static str, &'static str),
    word: Option<&str>,
) -> Result<T, PatternError> {
    let word = word.unwrap_or_default();
    word.parse().map_err(|_| PatternError::Number { pattern, what, given: word.into(), form })
}

/// Prints the form that is parsed.
impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Uniform => out.write_str("uniform"),
            Pattern::Locality(probability) => write!(out, "locality:{probability}"),
            Pattern::Hotspot { node, probability } => write!(out, "hotspot:{node}:{probability}"),
            Pattern::Incast { sources, node } => write!(out, "incast:{sources}:{node}"),
            Pattern::Permutation { seed } => write!(out, "permutation:{seed}"),
            Pattern::Transpose => out.write_str("transpose"),
            Pattern::BitComplement => out.write_str("bit-complement"),
            Pattern::BitReverse => out.write_str("bit-reverse"),
            Pattern::Shuffle => out.write_str("shuffle"),
            Pattern::Neighbour => out.write_str("neighbour"),
            Pattern::Shift { distance } => write!(out, "shift:{distance}"),
            Pattern::Tornado => out.write_str("tornado"),
            Pattern::Adversarial => out.write_str("adversarial"),
        }
    }
}
