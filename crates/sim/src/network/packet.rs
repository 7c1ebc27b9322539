// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What goes into a network, and what comes out of it.

use selvedge_fabric::NodeId;
use serde::Serialize;

use crate::time::Time;

/// What a node hands to its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    pub from: NodeId,
    pub to: NodeId,
    /// Payload.
    pub bytes: u32,
    /// The sender's, given back as it is.
    pub message: u64,
    /// The sender's, given back as it is.
    pub last: bool,
}

/// What became of a packet: each that was injected comes back as exactly one of these.
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

/// A packet that is whole at its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub packet: Packet,
    pub injected: Time,
    /// When its first byte came.
    pub head: Time,
    /// When its last byte came: now.
    pub at: Time,
    /// Routers that it crossed.
    pub hops: u32,
    /// It was taken out of a deadlock and came late, possibly after packets that were sent after it.
    pub recovered: bool,
}

/// A packet that will not come.
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
    /// A link lost it, and links do not send again.
    Loss,
    /// Its CRC was wrong at its node, and links do not send again.
    Corruption,
    /// It was on a link that failed, or waited longer than the limit for one that is down.
    LinkDown,
    /// The routing knows no way.
    NoRoute,
}

impl LossReason {
    pub const ALL: [LossReason; 4] =
        [LossReason::Loss, LossReason::Corruption, LossReason::LinkDown, LossReason::NoRoute];

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            LossReason::Loss => "lost on a link",
            LossReason::Corruption => "corrupted",
            LossReason::LinkDown => "link down",
            LossReason::NoRoute => "no route",
        }
    }
}

/// A packet's time on one channel, first flit's start to last flit's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopSpan {
    pub message: u64,
    pub from: NodeId,
    pub to: NodeId,
    pub channel: u32,
    pub start: Time,
    pub end: Time,
}
