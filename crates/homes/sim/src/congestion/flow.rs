// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A flow: the packets of a node for one destination that wait for its congestion control.

use std::collections::VecDeque;

use super::config::Control;
use super::credits::Credits;
use super::endpoint::Rules;
use super::header::Header;
use super::window::Window;
use crate::network::Packet;
use crate::time::Time;

/// Whether the next packet of a flow may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permit {
    Now,
    At(Time),
    /// A packet of another node has to arrive first.
    Closed,
}

/// The control of one flow at its sender.
#[derive(Clone, Debug)]
pub(super) enum Sender {
    Window(Window),
    Credits(Credits),
}

#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// Packets that wait, and the times of their injection.
    pub held: VecDeque<(Packet, Time)>,
    /// Flits that the node has announced and not injected.
    pub expected: u64,
    pub sender: Sender,
    /// Whether it is among the flows whose turn comes.
    pub in_turn: bool,
    /// Time of its timer; `Time::MAX`: none.
    pub timer: Time,
    /// Flits that its path holds in a round trip.
    pub path_flits: u32,
}

impl Flow {
    pub fn new(rules: &Rules<'_>, from: u32, to: u32) -> Flow {
        let round_trip = (rules.round_trip)(from, to);
        let path_flits = rules.path_flits(from, to);
        let sender = match rules.congestion.control {
            Control::Ecn(_) => {
                let most = rules.congestion.window_flits;
                Sender::Window(Window::new(round_trip, path_flits, most, rules.packet_flits))
            }
            Control::Receiver(ref receiver) => {
                let unsolicited = receiver.unsolicited_flits.unwrap_or(path_flits);
                Sender::Credits(Credits::new(round_trip, unsolicited.into()))
            }
        };
        Flow { held: VecDeque::new(), expected: 0, sender, in_turn: false, timer: Time::MAX, path_flits }
    }

    /// Whether the first packet may leave. `None`: there is none.
    pub fn permit(&mut self, rules: &Rules<'_>, now: Time) -> Option<Permit> {
        let flits = (rules.flits)(self.held.front()?.0.bytes);
        Some(match &mut self.sender {
            Sender::Window(window) => window.permit(now, flits),
            Sender::Credits(credits) => credits.permit(flits),
        })
    }

    /// Takes the first packet, which may leave.
    pub fn take(&mut self, rules: &Rules<'_>, now: Time) -> Option<(Packet, Time)> {
        let (packet, injected) = self.held.pop_front()?;
        let flits = (rules.flits)(packet.bytes);
        let header: Header = match &mut self.sender {
            Sender::Window(window) => window.sent(now, flits),
            Sender::Credits(credits) => credits.sent(now, flits),
        };
        Some((Packet { header, ..packet }, injected))
    }

    /// Whether a new flow would do as well.
    pub fn is_forgotten(&self, now: Time) -> bool {
        self.held.is_empty()
            && self.expected == 0
            && match &self.sender {
                Sender::Window(window) => window.is_forgotten(now),
                Sender::Credits(credits) => credits.is_forgotten(now),
            }
    }
}
