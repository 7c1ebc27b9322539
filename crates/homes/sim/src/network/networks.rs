// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The networks of all partitions of a fabric, counted together.

use selvedge_fabric::Topology;

use super::{ChannelStatistics, Counted, Network, NetworkStatistics};

/// The networks of all partitions, between two windows. Their statistics are summed when it is made.
#[derive(Debug)]
pub(crate) struct Networks<N> {
    parts: Vec<N>,
    statistics: NetworkStatistics,
}

impl<N: std::borrow::Borrow<Network>> Networks<N> {
    pub fn new(parts: Vec<N>) -> Networks<N> {
        let mut statistics = NetworkStatistics::default();
        parts.iter().for_each(|part| statistics.add(part.borrow().statistics()));
        Networks { parts, statistics }
    }

    /// Takes the networks out. It has none afterwards, and its statistics stay.
    pub fn take(&mut self) -> Vec<N> {
        std::mem::take(&mut self.parts)
    }
}

impl<N: std::borrow::Borrow<Network>> Counted for Networks<N> {
    fn topology(&self) -> &Topology {
        self.parts[0].borrow().topology()
    }

    fn statistics(&self) -> &NetworkStatistics {
        &self.statistics
    }

    fn channel_statistics(&self, channel: u32) -> ChannelStatistics {
        let of_parts = self.parts.iter().map(|part| part.borrow().channel_statistics(channel));
        of_parts.fold(ChannelStatistics::default(), ChannelStatistics::add)
    }
}
