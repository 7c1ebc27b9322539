// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rails by which the messages of a node leave and arrive.
//!
//! A node of several rails has a queue of leaving messages for each. Striped messages have all rails, and one queue: that
//! of rail 0. The endpoints of the fabric appear here and where packets arrive; everything else knows nodes.
//!
//! Messages that take turns, and packets of striped ones, may overtake each other. The order of two ranks is restored at
//! the target (`order.rs`), as under a routing with choices.

use std::ops::{Index, IndexMut};

use selvedge_fabric::NodeId;

use crate::machine::Machine;
use crate::network::RailChoice;
use crate::time::Time;

use super::hardware::NodeHardware;
use super::message::{Message, NONE};

/// A rail of a node: what leaves by it.
#[derive(Clone, Debug, Default)]
pub(super) struct RailPort {
    /// Messages that leave, one after the other. A short one does not overtake a long one.
    pub leaving: std::collections::VecDeque<u32>,
    /// Time at which the last injected packet, or the last message, has left the node.
    pub sent: Time,
}

/// The rails of a node. The first one needs no memory of its own.
#[derive(Clone, Debug, Default)]
pub(super) struct RailPorts {
    first: RailPort,
    others: Box<[RailPort]>,
}

impl RailPorts {
    pub fn new(count: u32) -> RailPorts {
        RailPorts { others: vec![RailPort::default(); count as usize - 1].into(), ..RailPorts::default() }
    }

    /// Returns the number of messages that leave by all rails.
    pub fn leaving(&self) -> usize {
        self.first.leaving.len() + self.others.iter().map(|port| port.leaving.len()).sum::<usize>()
    }

    /// Returns the message that leaves next by the lowest rail that has one.
    pub fn front(&self) -> Option<u32> {
        let all = std::iter::once(&self.first).chain(&self.others);
        all.filter_map(|port| port.leaving.front().copied()).next()
    }
}

impl Index<u32> for RailPorts {
    type Output = RailPort;

    #[inline]
    fn index(&self, rail: u32) -> &RailPort {
        if rail == 0 { &self.first } else { &self.others[rail as usize - 1] }
    }
}

impl IndexMut<u32> for RailPorts {
    #[inline]
    fn index_mut(&mut self, rail: u32) -> &mut RailPort {
        if rail == 0 { &mut self.first } else { &mut self.others[rail as usize - 1] }
    }
}

/// The rail of a packet, and its two endpoints.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub rail: u32,
    pub from: NodeId,
    /// Of a cast: its own source.
    pub to: NodeId,
}

/// Chooses the rail of a message that begins to leave.
#[inline]
pub(super) fn choose(machine: &Machine, hardware: &mut NodeHardware, message: &mut Message) {
    let count = machine.topology.rails().count();
    if count > 1 {
        let choice = machine.network.rail_choice;
        let packets = message.framed_bytes.div_ceil(packet_bytes(machine)).max(1);
        message.rail = choice.first((message.source, message.target), hardware.turn, count);
        hardware.turn = hardware.turn.wrapping_add(choice.turns(packets as u32));
    }
}

/// Returns the way of a message's next packet.
#[inline]
pub(super) fn way(machine: &Machine, message: &Message) -> Way {
    let rails = machine.topology.rails();
    let rail = match rails.count() {
        1 => 0,
        count => {
            let sent = (message.framed_bytes - message.bytes_to_send) / packet_bytes(machine);
            machine.network.rail_choice.of_packet(message.rail, sent as u32, count)
        }
    };
    way_by(machine, message, rail)
}

/// Returns the way of a message by a rail.
#[inline]
pub(super) fn way_by(machine: &Machine, message: &Message, rail: u32) -> Way {
    let rails = machine.topology.rails();
    let target = if message.cast == NONE { message.target } else { message.source };
    Way { rail, from: rails.endpoint(message.source, rail), to: rails.endpoint(target, rail) }
}

/// Returns the rail whose queue has the messages that leave by a rail.
#[inline]
pub(super) fn queue_of(machine: &Machine, rail: u32) -> u32 {
    if machine.network.rail_choice == RailChoice::Striped { 0 } else { rail }
}

fn packet_bytes(machine: &Machine) -> u64 {
    u64::from(machine.network.link.packet_bytes).max(1)
}
