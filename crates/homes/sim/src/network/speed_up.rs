// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Switches that are faster inside than their links, with a buffer at each output.
//!
//! Without speed-up a packet goes from its input buffer straight to its output's link. With it, a packet passes a
//! *stage* first: a channel within the switch, `speed_up` times as fast as the link, of no length, whose buffer is that
//! of the output. A stage is a channel like any other: with credits, virtual channels, arbitration. So a packet that
//! waits for its output's link does not hold up those behind it in its input buffer, as long as the output buffer has
//! room (Dally and Towles 2004, section 17.3).
//!
//! The stage of the router's n-th output is channel `first_stage + n`. Each of its virtual channels leads to the same virtual
//! channel of `c`. Observers and traces see links only; stages have no errors, and no retransmission window.
//!
//! Costs: the bytes of a second channel for each port, and one more event for each packet and hop.

use selvedge_fabric::{Peer, Port, RouterId, Topology};

use super::buffers::{self, Buffers};
use super::config::NetworkConfig;
use super::partition::Layout;
use super::slab::NONE;
use super::state::{Link, VirtualChannel};
use super::statistics::ChannelStatistics;
use crate::time::Time;

/// Appends the stages of all outputs; returns the number of the first one, or `NONE`.
pub(super) fn add_stages(
    topology: &Topology,
    layout: &Layout,
    config: &NetworkConfig,
    links: &mut Vec<Link>,
    vcs: &mut Vec<VirtualChannel>,
) -> u32 {
    let Some(speed_up) = config.switch.speed_up else { return NONE };
    let first = links.len() as u32;
    for router in layout.partition.routers.clone().map(RouterId) {
        for port in (0..topology.ports(router)).map(Port) {
            let output = topology.channel(router, port).wrapping_sub(layout.shift()) as usize;
            let channel = links.len() as u32;
            links.push(Link {
                free_at: Time::ZERO,
                wake_at: Time::MAX,
                flit_time: Time((links[output].flit_time.0 / u64::from(speed_up.factor)).max(1)),
                latency: Time::ZERO,
                waiting: 0,
                last_vc: 0,
                is_up: true,
                statistics: ChannelStatistics::default(),
            });
            let end = Peer::Router { router, port };
            let room = speed_up.output_flits;
            vcs.extend((0..config.link.virtual_channels).map(|_| buffers::new(channel, end, false, room)));
        }
    }
    first
}

impl Buffers {
    /// Whether a channel is a stage.
    #[inline]
    pub fn is_stage(&self, channel: u32) -> bool {
        channel >= self.first_stage && channel != NONE
    }

    /// The output of a link's virtual channel that a packet at a router asks for: its stage, if there is one.
    #[inline]
    pub fn staged(&self, output: u32) -> u32 {
        if self.first_stage == NONE { output } else { output + self.stage_offset }
    }

    /// The output behind a stage's buffer; `None`: the buffer is of a link, or a source queue.
    #[inline]
    pub fn behind_stage(&self, buffer: u32) -> Option<u32> {
        (buffer >= self.first_staged && buffer < self.sources).then(|| buffer - self.stage_offset)
    }

    /// The link of a stage; any other channel itself.
    pub fn link_of(&self, channel: u32) -> u32 {
        if self.is_stage(channel) { channel - self.stage_offset / self.virtual_channels } else { channel }
    }
}
