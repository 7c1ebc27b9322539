// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The choice among the rails of a node, for nodes with several. A packet arrives by the rail by which it left: rail k of
//! one node sends to rail k of the other.
//!
//! A choice depends on the pair of nodes and on what the node has sent before. So it is the same for every number of
//! threads.

use selvedge_fabric::routing::mix;

/// How a node chooses the rail of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RailChoice {
    /// By a hash of the two nodes: all messages of a pair have one rail, and keep their order.
    #[default]
    Hash,
    /// The next rail for each message.
    RoundRobin,
    /// The next rail for each packet.
    Striped,
}

impl RailChoice {
    pub const ALL: [(&str, RailChoice); 3] =
        [("hash", RailChoice::Hash), ("round-robin", RailChoice::RoundRobin), ("striped", RailChoice::Striped)];

    /// Returns the name in a machine's description.
    pub fn name(self) -> &'static str {
        RailChoice::ALL.iter().find(|(_, choice)| *choice == self).map_or("hash", |(name, _)| name)
    }

    /// Whether messages between two nodes stay in order.
    pub fn keeps_order(self) -> bool {
        self == RailChoice::Hash
    }

    /// Returns the rail of a message's first packet, of `count`. `turn`: the turns that its node has taken before.
    #[inline]
    pub fn first(self, (from, to): (u32, u32), turn: u32, count: u32) -> u32 {
        match self {
            RailChoice::Hash => (mix(u64::from(from) << 32 | u64::from(to)) % u64::from(count)) as u32,
            RailChoice::RoundRobin | RailChoice::Striped => turn % count,
        }
    }

    /// Returns the turns that a message takes.
    #[inline]
    pub fn turns(self, packets: u32) -> u32 {
        match self {
            RailChoice::Hash => 0,
            RailChoice::RoundRobin => 1,
            RailChoice::Striped => packets,
        }
    }

    /// Returns the rail of a packet, by its number in a message whose first one has rail `first`.
    #[inline]
    pub fn of_packet(self, first: u32, packet: u32, count: u32) -> u32 {
        match self {
            RailChoice::Striped if count > 1 => (u64::from(first) + u64::from(packet)).rem_euclid(count.into()) as u32,
            _ => first,
        }
    }

    /// Returns the number of rails that a message has, of `count`.
    #[inline]
    pub fn width(self, count: u32) -> u32 {
        if self == RailChoice::Striped { count } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_has_one_rail_and_turns_pass_all() {
        let rails: Vec<u32> = (0..64).map(|to| RailChoice::Hash.first((7, to), to, 4)).collect();
        assert_eq!(rails, (0..64).map(|to| RailChoice::Hash.first((7, to), 0, 4)).collect::<Vec<_>>());
        assert!((0..4).all(|rail| rails.iter().filter(|&&of| of == rail).count() > 4), "{rails:?}");
        let (mut turn, mut rails) = (0, Vec::new());
        for packets in [3, 1, 4] {
            let first = RailChoice::Striped.first((0, 1), turn, 4);
            rails.extend((0..packets).map(|packet| RailChoice::Striped.of_packet(first, packet, 4)));
            turn += RailChoice::Striped.turns(packets);
        }
        assert_eq!(rails, [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(RailChoice::RoundRobin.turns(9), 1);
        assert_eq!(RailChoice::RoundRobin.of_packet(2, 9, 4), 2);
    }
}
