// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The latency of a packet through an empty network, in closed form.

use selvedge_fabric::{NodeId, Peer, Routing, Topology};

use super::config::{NetworkConfig, Switching};
use super::speeds::Speed;
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
    /// `sum of the latencies of all channels + h * switch latency + L * flit time`
    ///
    /// with the flit time of the slowest channel on the route, less the missing part of a short last flit. In a
    /// wormhole network, where a packet may be longer than a buffer, this holds if buffers cover a credit's round trip:
    /// `buffer_flits * flit time >= 2 * latency + switch latency + flit time` of each channel. Otherwise the latency is
    /// computed flit by flit, O(L * h).
    pub fn latency(&self, from: NodeId, to: NodeId, bytes: u32) -> Time {
        let channels = self.channels_crossed(from, to);
        let flits = self.config.flits(bytes);
        let buffer = self.config.link.buffer_flits;
        if self.config.switch.switching == Switching::Wormhole
            && flits > buffer
            && !self.buffers_cover_round_trip(&channels)
        {
            return self.latency_by_flits(&channels, u64::from(flits));
        }
        let slowest = channels.iter().map(|speed| speed.flit_time).max().unwrap_or_default();
        let latencies: Time = channels.iter().map(|speed| speed.latency).sum();
        let routers = channels.len() as u64 - 1;
        latencies + self.config.switch.latency * routers + self.config.packet_time(slowest, bytes)
    }

    /// Returns the channels that a packet crosses if it takes the first of each choice.
    fn channels_crossed(&self, from: NodeId, to: NodeId) -> Vec<Speed> {
        let mut state = self.routing.start(self.topology, from, to, 0);
        let (mut router, port) = self.topology.attachment(from);
        let mut arrived = Some((port, selvedge_fabric::Vc(0)));
        let mut channels = vec![self.config.speed_of_node(self.topology, from)];
        // No route uses a virtual channel twice.
        let virtual_channels = self.topology.channels() * u32::from(self.config.link.virtual_channels);
        while channels.len() <= virtual_channels as usize {
            let choices = self.routing.next(self.topology, router, arrived, to, &mut state);
            let Some(hop) = choices.as_slice().first() else { break };
            channels.push(self.config.speed_at(self.topology, router, hop.port));
            let Peer::Router { router: next, port } = self.topology.peer(router, hop.port) else { break };
            (router, arrived) = (next, Some((port, hop.vc)));
        }
        channels
    }

    fn buffers_cover_round_trip(&self, channels: &[Speed]) -> bool {
        let slowest = channels.iter().map(|speed| speed.flit_time).max().unwrap_or_default();
        let fastest = channels.iter().map(|speed| speed.flit_time).min().unwrap_or_default();
        let latency = channels.iter().map(|speed| speed.latency).max().unwrap_or_default();
        fastest * u64::from(self.config.link.buffer_flits) >= latency * 2 + self.config.switch.latency + slowest
    }

    /// Computes the latency flit by flit: a flit starts when the previous one has ended, it has arrived, and has room.
    fn latency_by_flits(&self, speeds: &[Speed], flits: u64) -> Time {
        let channels = speeds.len();
        let buffer = u64::from(self.config.link.buffer_flits);
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
                    let through = speeds[channel - 1].latency + self.config.switch.latency;
                    (started, ended) = (started + through, ended + through);
                    start = start.max(started);
                }
                if channel + 1 < channels && flit >= buffer {
                    start = start.max(ends[channel + 1][slot] + speeds[channel].latency);
                }
                started = start;
                ended = (start + speeds[channel].flit_time).max(ended);
                ends[channel][slot] = ended;
            }
            end = ended + speeds[channels - 1].latency;
        }
        end
    }
}
