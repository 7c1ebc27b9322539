// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets and credits that cross from one partition of a fabric to another.
//!
//! A partition collects what it sends in a [`Parcel`] for each other one. The caller exchanges parcels between windows of
//! the least latency of a link: nothing in a parcel takes effect before the next window begins. A packet travels whole,
//! so only cut-through fabrics are divided.

use selvedge_fabric::{RouterId, Topology};

use super::event::Schedule;
use super::partition::Layout;
use super::slab::NONE;
use super::state::{Flight, UNLIMITED};
use super::{FlowControl, Network, NetworkConfig, Switching};
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
    /// What is under way to each partition.
    parcels: Vec<Parcel>,
}

/// Packets and credits for one partition.
#[derive(Debug)]
pub(crate) struct Parcel {
    packets: Vec<SentPacket>,
    credits: Vec<SentCredits>,
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
struct SentPacket {
    flight: Flight,
    at: Time,
    end: Time,
    buffer: u32,
}

#[derive(Debug)]
struct SentCredits {
    at: Time,
    output: u32,
    flits: u32,
}

/// Returns the borders of all partitions, in their order. None for a whole fabric.
pub(super) fn borders(layouts: &[Layout]) -> Vec<Option<Border>> {
    if layouts.len() == 1 {
        return vec![None];
    }
    let nowhere = OtherHalf { partition: NONE, channel: NONE };
    let mut halves: Vec<Vec<OtherHalf>> =
        layouts.iter().map(|layout| vec![nowhere; layout.channels() as usize]).collect();
    for (to, layout) in layouts.iter().enumerate() {
        for (channel, there) in layout.from_away() {
            let begins = layouts.partition_point(|layout| layout.outputs_end() <= channel);
            let Some(here) = layouts[begins].local(channel) else { continue };
            halves[begins][here as usize] = OtherHalf { partition: to as u32, channel: there };
            halves[to][there as usize] = OtherHalf { partition: begins as u32, channel: here };
        }
    }
    let parcels = || layouts.iter().map(|_| Parcel::default()).collect();
    halves.into_iter().map(|other_halves| Some(Border { other_halves, parcels: parcels() })).collect()
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
        ];
        reasons.into_iter().find_map(|(holds, reason)| holds.then_some(reason))
    }
}

impl Network {
    /// Sends a packet that leaves its last router here into the partition behind an output.
    pub(super) fn send_away(&mut self, packet: u32, output: u32, at: Time, end: Time) {
        let flight = self.buffers.flights[packet];
        self.buffers.flights.remove(packet);
        let Some((parcel, buffer)) = self.parcel_behind(output, at) else { return };
        parcel.packets.push(SentPacket { flight, at, end, buffer });
    }

    /// Sends credits to the output of a buffer that is in another partition.
    pub(super) fn release_away(&mut self, buffer: u32, at: Time, flits: u32) {
        let Some((parcel, output)) = self.parcel_behind(buffer, at) else { return };
        parcel.credits.push(SentCredits { at, output, flits });
    }

    /// Returns the parcel for the partition of a virtual channel's other half, and its number there.
    fn parcel_behind(&mut self, vc: u32, at: Time) -> Option<(&mut Parcel, u32)> {
        let virtual_channels = self.buffers.virtual_channels;
        let channel = vc / virtual_channels;
        let border = self.border.as_mut()?;
        let OtherHalf { partition, channel: there } = border.other_halves[channel as usize];
        let parcel = &mut border.parcels[partition as usize];
        parcel.earliest = parcel.earliest.min(at);
        Some((parcel, there * virtual_channels + vc % virtual_channels))
    }

    /// Exchanges the parcel for a partition with an empty one.
    pub(crate) fn exchange_parcel(&mut self, partition: usize, empty: &mut Parcel) {
        if let Some(border) = &mut self.border {
            std::mem::swap(&mut border.parcels[partition], empty);
        }
    }

    /// Takes what another partition has sent, and leaves the parcel empty.
    pub(crate) fn accept(&mut self, parcel: &mut Parcel, queue: &mut impl Schedule) {
        parcel.earliest = Time::MAX;
        for SentPacket { flight, at, end, buffer } in parcel.packets.drain(..) {
            let flits = flight.flits;
            let packet = self.buffers.flights.insert(flight);
            let resident = self.buffers.enter(packet, buffer, flits, flits, at, end);
            self.schedule_ready(resident, at, queue);
        }
        for SentCredits { at, output, flits } in parcel.credits.drain(..) {
            debug_assert!(self.buffers.vcs[output as usize].credits != UNLIMITED);
            self.credit(output, at, flits, queue);
        }
    }
}
