// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The latency of a packet through an empty network, in closed form.

use selvedge_fabric::{NodeId, Peer, Routing, Topology};

use super::config::{NetworkConfig, Switching};
use crate::time::Time;

/// A network without other packets and without errors.
pub(super) struct EmptyNetwork<'a> {
    pub topology: &'a Topology,
    pub routing: &'a Routing,
    pub config: &'a NetworkConfig,
}

impl EmptyNetwork<'_> {
    /// Returns the time from the injection of a packet to the arrival of its last byte. For h routers on the route and
    /// L flits
    ///
    /// `2 * node latency + (h - 1) * link latency + h * switch latency + L * flit time`
    ///
    /// with the flit time of the slowest channel on the route, less the missing part of a short last flit. In a
    /// wormhole network, where a packet may be longer than a buffer, this holds if buffers cover a credit's round trip:
    /// `buffer_flits * flit time >= 2 * latency + switch latency + flit time` of each channel. Otherwise the latency is
    /// computed flit by flit, O(L * h).
    pub fn latency(&self, from: NodeId, to: NodeId, bytes: u32) -> Time {
        let routers = self.routers_crossed(from, to);
        let flits = self.config.flits(bytes);
        let buffer = self.config.link.buffer_flits;
        if self.config.switch.switching == Switching::Wormhole && flits > buffer && !self.buffers_cover_round_trip() {
            return self.latency_by_flits(routers, u64::from(flits));
        }
        let mut slowest = self.config.node_flit_time();
        let mut latency = self.config.node_latency() * 2 + self.config.switch.latency * u64::from(routers);
        if routers > 1 {
            slowest = slowest.max(self.config.flit_time());
            latency += self.config.link.latency * u64::from(routers - 1);
        }
        latency + self.config.packet_time(slowest, bytes)
    }

    /// Returns the routers that a packet crosses if it takes the first of each choice.
    fn routers_crossed(&self, from: NodeId, to: NodeId) -> u32 {
        let mut state = self.routing.start(self.topology, from, to, 0);
        let (mut router, port) = self.topology.attachment(from);
        let mut arrived = Some((port, selvedge_fabric::Vc(0)));
        let mut routers = 1;
        // No route uses a virtual channel twice.
        let virtual_channels = self.topology.channels() * u32::from(self.config.link.virtual_channels);
        while routers <= virtual_channels {
            let choices = self.routing.next(self.topology, router, arrived, to, &mut state);
            let Some(hop) = choices.as_slice().first() else { break };
            let Peer::Router { router: next, port } = self.topology.peer(router, hop.port) else { break };
            (router, arrived) = (next, Some((port, hop.vc)));
            routers += 1;
        }
        routers
    }

    fn buffers_cover_round_trip(&self) -> bool {
        let slowest = self.config.flit_time().max(self.config.node_flit_time());
        let fastest = self.config.flit_time().min(self.config.node_flit_time());
        let latency = self.config.link.latency.max(self.config.node_latency());
        fastest * u64::from(self.config.link.buffer_flits) >= latency * 2 + self.config.switch.latency + slowest
    }

    /// Computes the latency flit by flit: a flit starts when the previous one has ended, it has arrived, and has room.
    fn latency_by_flits(&self, routers: u32, flits: u64) -> Time {
        let channels = routers as usize + 1;
        let buffer = u64::from(self.config.link.buffer_flits);
        let at_node = |channel: usize| channel == 0 || channel == channels - 1;
        let latency = |channel| if at_node(channel) { self.config.node_latency() } else { self.config.link.latency };
        let flit_time = |channel| if at_node(channel) { self.config.node_flit_time() } else { self.config.flit_time() };
        // End times of the last flits on each channel, as many as a buffer holds.
        let mut ends = vec![vec![Time::ZERO; buffer as usize]; channels];
        let mut end = Time::ZERO;
        for flit in 0..flits {
            let slot = (flit % buffer) as usize;
            let before = ((flit + buffer - 1) % buffer) as usize;
            let (mut started, mut ended) = (Time::ZERO, Time::ZERO);
            for channel in 0..channels {
                let mut start = if flit > 0 { ends[channel][before] } else { Time::ZERO };
                if channel > 0 {
                    let through = latency(channel - 1) + self.config.switch.latency;
                    (started, ended) = (started + through, ended + through);
                    start = start.max(started);
                }
                if channel + 1 < channels && flit >= buffer {
                    start = start.max(ends[channel + 1][slot] + latency(channel));
                }
                started = start;
                ended = (start + flit_time(channel)).max(ended);
                ends[channel][slot] = ended;
            }
            end = ended + latency(channels - 1);
        }
        end
    }
}
