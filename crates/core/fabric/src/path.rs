// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Source paths: a whole route as a string of routing characters; each stands for a run of hops through the same port
//! (seed 002, section 7.3).
//!
//! The seed defines the contents of a character: a port, and a 6-bit counter for each of two virtual channels. The
//! layout is not in the seed. A character has 16 bits, the width of the seed's network protocol:
//!
//! | bits | |
//! |---|---|
//! | 15–12 | port, 0 to 13 |
//! | 11–6 | hops on the second virtual channel of the pair |
//! | 5–0 | hops on the first virtual channel of the pair, which come first |
//!
//! Dimension order on a ring of up to 64 routers takes at most 63 hops in one direction, first those before the
//! wrapping link and then those after it: one character. So three dimensions and the delivery to the node fit into one
//! 64-bit word. Larger networks use prefixes. A character with 14 in place of the port gives the pair of virtual
//! channels (1 is channels 2 and 3, and so on; without a prefix it is channels 0 and 1). After it, a character with 15
//! gives the upper 12 bits of a port above 13; the character itself keeps the lower 4. Characters are little-endian. A
//! word is filled from its low end, and the rest of it is 0.
//!
//! # Invariants
//!
//! 1. Each run has at least one hop, and no counter exceeds 63.
//! 2. A decoded path encodes to the same bytes; prefixes are present only where they are needed.
use crate::id::{Hop, NodeId, Peer, Port, Vc};
use crate::topology::Topology;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The largest value of a 6-bit counter.
pub const RUN_MAX: u8 = 63;
const PAIR_PREFIX: u16 = 14;
const PORT_PREFIX: u16 = 15;

/// Hops through one port: first `counts[0]` on channel `2 * pair`, then `counts[1]` on the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    pub port: Port,
    pub pair: u8,
    pub counts: [u8; 2],
}

/// A route, from the first router to the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Path {
    runs: VecDeque<Run>,
}

/// Reasons for which bytes are not a valid path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    #[error("a path of {bytes} bytes: routing characters have 2 bytes, give an even number")]
    OddLength { bytes: usize },
    #[error("routing character {at} counts no hops: give a counter of 1 to 63, or end the path before it")]
    NoHops { at: usize },
    #[error("routing character {at} is a prefix without effect, or out of order: leave it out")]
    Prefix { at: usize },
    #[error("the path ends after a prefix: the routing character that it belongs to is missing")]
    CutShort,
    #[error("routing character {at}: there is no pair of virtual channels {pair}: give 1 to 127")]
    Pair { at: usize, pair: u16 },
}

impl Path {
    /// Adds a hop at the end.
    pub fn push(&mut self, hop: Hop) {
        let (pair, second) = (hop.vc.0 / 2, usize::from(hop.vc.0 % 2));
        if let Some(last) = self.runs.back_mut() {
            let in_order = second == 1 || last.counts[1] == 0;
            if last.port == hop.port && last.pair == pair && in_order && last.counts[second] < RUN_MAX {
                last.counts[second] += 1;
                return;
            }
        }
        let mut counts = [0; 2];
        counts[second] = 1;
        self.runs.push_back(Run { port: hop.port, pair, counts });
    }

    /// Removes the next hop from the path, and its character once all hops of it are used, as a crossbar does.
    pub fn consume(&mut self) -> Option<Hop> {
        let run = self.runs.front_mut()?;
        let second = usize::from(run.counts[0] == 0);
        let hop = Hop { port: run.port, vc: Vc(2 * run.pair + second as u8) };
        run.counts[second] -= 1;
        if run.counts == [0, 0] {
            self.runs.pop_front();
        }
        Some(hop)
    }

    /// The remaining hops.
    pub fn iter(&self) -> impl Iterator<Item = Hop> + '_ {
        self.runs.iter().flat_map(|run| {
            let of = |second: u8| {
                let hop = Hop { port: run.port, vc: Vc(2 * run.pair + second) };
                core::iter::repeat_n(hop, usize::from(run.counts[usize::from(second)]))
            };
            of(0).chain(of(1))
        })
    }

    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter()
    }

    /// The number of remaining hops.
    pub fn len(&self) -> usize {
        self.runs.iter().map(|run| usize::from(run.counts[0]) + usize::from(run.counts[1])).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The routing characters.
    pub fn characters(&self) -> impl Iterator<Item = u16> + '_ {
        self.runs.iter().flat_map(|run| {
            let pair = (run.pair != 0).then_some(PAIR_PREFIX << 12 | u16::from(run.pair));
            let port = (run.port.0 >= PAIR_PREFIX).then_some(PORT_PREFIX << 12 | run.port.0 >> 4);
            let counts = u16::from(run.counts[1]) << 6 | u16::from(run.counts[0]);
            pair.into_iter().chain(port).chain([(run.port.0 & 15) << 12 | counts])
        })
    }

    /// The node to which the path leads from a node. None: a hop has no link, or the path ends before a node, or it
    /// continues after one.
    pub fn leads_to(&self, topology: &Topology, from: NodeId) -> Option<NodeId> {
        let mut at = topology.attachment(from).0;
        let mut hops = self.iter();
        loop {
            match topology.peer(at, hops.next()?.port) {
                Peer::Router { router, .. } => at = router,
                Peer::Node(node) => return hops.next().is_none().then_some(node),
                Peer::Unconnected => return None,
            }
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        self.characters().flat_map(u16::to_le_bytes).collect()
    }

    /// The path in one word. None: it has more than four characters.
    pub fn to_word(&self) -> Option<u64> {
        let mut word = 0;
        for (at, character) in self.characters().enumerate() {
            if at >= 4 {
                return None;
            }
            word |= u64::from(character) << (16 * at);
        }
        Some(word)
    }

    /// Decodes a path from a word, without the zeros at its upper end.
    pub fn from_word(word: u64) -> Result<Path, PathError> {
        let characters = (64 - word.leading_zeros()).div_ceil(16) as usize;
        Path::decode(&word.to_le_bytes()[..2 * characters])
    }

    /// Decodes a path from bytes, which need not be trusted. O(bytes); allocates at most a small multiple of them.
    pub fn decode(bytes: &[u8]) -> Result<Path, PathError> {
        if bytes.len() % 2 != 0 {
            return Err(PathError::OddLength { bytes: bytes.len() });
        }
        let mut runs = VecDeque::new();
        let (mut pair, mut upper) = (None, None);
        for (at, character) in bytes.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])).enumerate() {
            let low = character & 0xfff;
            match character >> 12 {
                PAIR_PREFIX if upper.is_none() => {
                    if pair.is_some() || low == 0 {
                        return Err(PathError::Prefix { at });
                    }
                    if low > u16::from(u8::MAX) / 2 {
                        return Err(PathError::Pair { at, pair: low });
                    }
                    pair = Some(low as u8);
                }
                PORT_PREFIX if upper.is_none() => upper = Some(low),
                lower => {
                    let port = upper.unwrap_or(0) << 4 | lower;
                    if low == 0 {
                        return Err(PathError::NoHops { at });
                    }
                    if upper.take().is_some() && port < PAIR_PREFIX {
                        return Err(PathError::Prefix { at: at - 1 });
                    }
                    let counts = [(low & 63) as u8, (low >> 6) as u8];
                    runs.push_back(Run { port: Port(port), pair: pair.take().unwrap_or(0), counts });
                }
            }
        }
        if pair.is_some() || upper.is_some() {
            return Err(PathError::CutShort);
        }
        Ok(Path { runs })
    }
}

#[cfg(test)]
#[path = "path_tests.rs"]
mod tests;
