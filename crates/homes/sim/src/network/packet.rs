// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets that a network takes, and arrivals that it returns.

use selvedge_fabric::NodeId;
use serde::Serialize;

use crate::congestion::Header;
use crate::time::Time;

/// A packet that a node injects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    pub from: NodeId,
    pub to: NodeId,
    /// Bytes of payload.
    pub bytes: u32,
    /// A number of the sender's choice; the network does not read it.
    pub message: u64,
    /// A flag of the sender's choice; the network does not read it.
    pub last: bool,
    /// Of congestion control; [`Header::PLAIN`] when a node injects the packet.
    pub header: Header,
}

/// Result of a packet: exactly one for each injected packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    Delivered(Delivery),
    Lost(Loss),
}

impl Arrival {
    pub fn packet(&self) -> &Packet {
        match self {
            Arrival::Delivered(delivery) => &delivery.packet,
            Arrival::Lost(loss) => &loss.packet,
        }
    }
}

/// A packet that has completely arrived at its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub packet: Packet,
    pub injected: Time,
    /// Arrival of its first byte.
    pub head: Time,
    /// Arrival of its last byte.
    pub at: Time,
    /// Routers that it crossed.
    pub hops: u32,
    /// The output by which it came to its node, for [`super::Network::give_back`].
    pub(super) output: u32,
    /// It was taken out of a deadlock and arrived late, possibly after later packets.
    pub recovered: bool,
}

/// A lost packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    pub packet: Packet,
    pub injected: Time,
    pub at: Time,
    pub why: LossReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossReason {
    /// A link without retransmission lost it.
    Loss,
    /// Its CRC was wrong at its node, and links have no retransmission.
    Corruption,
    /// It was on a link that failed, or waited longer than `link_down_limit` for a link that is down.
    LinkDown,
    /// The routing gives no route.
    NoRoute,
    /// No path leads to its node, by the map of the router that it would have left by.
    Unreachable,
}

impl LossReason {
    pub const ALL: [LossReason; 5] =
        [LossReason::Loss, LossReason::Corruption, LossReason::LinkDown, LossReason::NoRoute, LossReason::Unreachable];

    /// Returns the reason as text for a report.
    pub fn words(self) -> &'static str {
        match self {
            LossReason::Loss => "lost on a link",
            LossReason::Corruption => "corrupted",
            LossReason::LinkDown => "link down",
            LossReason::NoRoute => "no route",
            LossReason::Unreachable => "unreachable",
        }
    }
}

/// The time of a packet, or a message, on one channel: from the start of its first flit to the end of its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopSpan {
    pub message: u64,
    pub from: NodeId,
    pub to: NodeId,
    pub channel: u32,
    pub start: Time,
    pub end: Time,
}
