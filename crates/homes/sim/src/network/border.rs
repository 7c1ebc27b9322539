// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets and credits that cross from one partition of a fabric to another.
//!
//! A partition collects what it sends in a [`Parcel`] for each other one. The caller exchanges parcels between windows of
//! the least latency of a link: nothing in a parcel takes effect before the next window begins. A packet travels whole,
//! so only cut-through fabrics are divided.

use selvedge_fabric::{RouterId, Topology};

use super::partition::Layout;
use super::slab::NONE;
use super::state::Flight;
use super::{FlowControl, NetworkConfig, Switching};
use crate::time::Time;

/// The other half of a channel at the border: its partition, and its number there.
#[derive(Clone, Copy, Debug)]
struct OtherHalf {
    partition: u32,
    channel: u32,
}

/// The border of a partition.
#[derive(Debug)]
pub(super) struct Border {
    /// By channel; `NONE` within the partition.
    other_halves: Vec<OtherHalf>,
    /// Packets and credits under way to each partition.
    parcels: Vec<Parcel>,
    virtual_channels: u32,
}

/// Packets and credits for one partition.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(super) packets: Vec<SentPacket>,
    pub(super) credits: Vec<SentCredits>,
    /// The earliest time at which some of it takes effect; `Time::MAX`: it is empty.
    pub earliest: Time,
}

impl Default for Parcel {
    fn default() -> Parcel {
        Parcel { packets: Vec::new(), credits: Vec::new(), earliest: Time::MAX }
    }
}

/// A packet whose head may leave the next router at `at`; its tail is in the buffer by `end`.
#[derive(Debug)]
pub(super) struct SentPacket {
    pub flight: Flight,
    pub at: Time,
    pub end: Time,
    pub buffer: u32,
}

#[derive(Debug)]
pub(super) struct SentCredits {
    pub at: Time,
    pub output: u32,
    pub flits: u32,
}

/// Returns the borders of all partitions, in their order. None for a whole fabric.
pub(super) fn borders(layouts: &[Layout], virtual_channels: u32) -> Vec<Option<Border>> {
    if layouts.len() == 1 {
        return vec![None];
    }
    let nowhere = OtherHalf { partition: NONE, channel: NONE };
    let mut halves: Vec<Vec<OtherHalf>> =
        layouts.iter().map(|layout| vec![nowhere; layout.channels() as usize]).collect();
    for (to, layout) in layouts.iter().enumerate() {
        for (channel, there) in layout.incoming() {
            let begins = layouts.partition_point(|layout| layout.outputs_end() <= channel);
            let Some(here) = layouts[begins].local(channel) else { continue };
            halves[begins][here as usize] = OtherHalf { partition: to as u32, channel: there };
            halves[to][there as usize] = OtherHalf { partition: begins as u32, channel: here };
        }
    }
    let parcels = || layouts.iter().map(|_| Parcel::default()).collect();
    halves.into_iter().map(|other_halves| Some(Border { other_halves, parcels: parcels(), virtual_channels })).collect()
}

/// Reason why a fabric is simulated by one thread; the report is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undivided {
    Wormhole,
    StopContinue,
    /// Its routing may deadlock: a cycle is looked for at the moment at which it closes, over the whole fabric.
    Deadlock,
    /// A link between two routers has no latency.
    NoLatency,
    Congestion,
}

impl Undivided {
    /// Returns the reason as the end of a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Undivided::Wormhole => "flits of one packet may be in several partitions (switch.switching = \"wormhole\")",
            Undivided::StopContinue => {
                "STOP and CONTINUE are computed at both ends of a link at once (link.flow_control)"
            }
            Undivided::Deadlock => "its routing may deadlock, and a cycle is looked for over the whole fabric",
            Undivided::Congestion => "congestion control is simulated for all nodes together (congestion.control)",
            Undivided::NoLatency => "a link between routers has a latency of 0 ([link])",
        }
    }
}

impl NetworkConfig {
    /// Returns the time that a packet or credit needs at least from one router to another. O(links).
    pub(crate) fn lookahead(&self, topology: &Topology) -> Time {
        let routers = (0..topology.routers()).map(RouterId);
        let links = routers.flat_map(|router| topology.neighbours(router).map(move |(port, _)| (router, port)));
        let latency = |(router, port)| self.speed_at(topology, router, port).latency;
        links.map(latency).min().unwrap_or(self.link.latency)
    }

    /// Returns why a fabric cannot be divided, if so.
    pub(crate) fn undivided(&self, topology: &Topology, deadlock_free: bool) -> Option<Undivided> {
        let reasons = [
            (self.lookahead(topology) == Time::ZERO, Undivided::NoLatency),
            (self.switch.switching == Switching::Wormhole, Undivided::Wormhole),
            (self.flow_control != FlowControl::Credits, Undivided::StopContinue),
            (!deadlock_free, Undivided::Deadlock),
            (self.congestion.is_some(), Undivided::Congestion),
        ];
        reasons.into_iter().find_map(|(holds, reason)| holds.then_some(reason))
    }
}

impl Border {
    /// Sends a packet into the partition behind an output.
    pub fn send(&mut self, flight: Flight, output: u32, at: Time, end: Time) {
        let (parcel, buffer) = self.parcel_behind(output, at);
        parcel.packets.push(SentPacket { flight, at, end, buffer });
    }

    /// Sends credits to the output of a buffer.
    pub fn release(&mut self, buffer: u32, at: Time, flits: u32) {
        let (parcel, output) = self.parcel_behind(buffer, at);
        parcel.credits.push(SentCredits { at, output, flits });
    }

    /// Returns the parcel for the partition of a virtual channel's other half, and its number there.
    fn parcel_behind(&mut self, vc: u32, at: Time) -> (&mut Parcel, u32) {
        let OtherHalf { partition, channel } = self.other_halves[(vc / self.virtual_channels) as usize];
        let parcel = &mut self.parcels[partition as usize];
        parcel.earliest = parcel.earliest.min(at);
        (parcel, channel * self.virtual_channels + vc % self.virtual_channels)
    }

    /// Exchanges the parcel for a partition with an empty one.
    pub fn exchange(&mut self, partition: usize, empty: &mut Parcel) {
        std::mem::swap(&mut self.parcels[partition], empty);
    }
}
