// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The controls and their parameters.

use crate::time::Time;

/// Congestion control of all nodes of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct CongestionConfig {
    pub control: Control,
    /// Payload of an echo, a request or a credit.
    pub control_bytes: u32,
    /// ECN: the largest window. Receiver: the most credit of one receiver that has not come back as packets. `None`: from
    /// the bandwidth and the round trip of each pair.
    pub window_flits: Option<u32>,
    /// Time after which a node acts as if a packet that a link has lost had arrived.
    pub timeout: Time,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Control {
    Ecn(Ecn),
    Receiver(ReceiverDriven),
}

/// Switches mark packets, receivers echo the marks, senders keep windows.
#[derive(Clone, Debug, PartialEq)]
pub struct Ecn {
    /// A switch marks a packet if more flits than this wait for its output.
    pub mark_flits: u32,
    /// DCTCP's g: the weight of the last round in the estimate of the share of marked flits.
    pub gain: f64,
    /// Flits by which a window grows in a round trip without marks.
    pub increase_flits: f64,
}

/// Receivers hand out credits at the rate of their link.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceiverDriven {
    /// Flits that a flow may send without credit in a round trip, if nothing of it waits for credit.
    /// `None`: what its path holds.
    pub unsolicited_flits: Option<u32>,
}

impl CongestionConfig {
    /// The control's name in a machine's file.
    pub fn name(&self) -> &'static str {
        match self.control {
            Control::Ecn(_) => "ecn",
            Control::Receiver(_) => "receiver",
        }
    }
}
