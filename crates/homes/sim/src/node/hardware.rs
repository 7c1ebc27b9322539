// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the messages of a node share: its units, the queue of those that leave, the order of deliveries, streams.

use std::collections::VecDeque;

use crate::machine::Machine;
use crate::machine::graph::Graph;
use crate::time::Time;

use super::commands::CommandQueue;
use super::mailboxes::Blocked;
use super::units::NodeUnits;

/// A node: its units, and what else its messages share.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeHardware {
    pub units: NodeUnits,
    /// Messages that leave this node, one after the other. A short one does not overtake a long one whose payload is
    /// still being read.
    pub leaving: VecDeque<u32>,
    /// When the last injected packet, or the last message, has left the node.
    pub sent: Time,
    /// When the last message from this node to itself has arrived.
    pub looped: Time,
    /// When the last message was delivered: no message overtakes another.
    delivered: Time,
    /// Commands of its programs, on a machine with a host interface.
    pub commands: CommandQueue,
    /// What it does not take because a mailbox is full, on a machine whose NICs block.
    pub blocked: Blocked,
    /// Source ranks of arriving long messages, and the number of messages of each.
    streams: Vec<(u32, u32)>,
}

impl NodeHardware {
    pub fn new(graph: &Graph) -> NodeHardware {
        NodeHardware { units: NodeUnits::new(graph), ..NodeHardware::default() }
    }

    /// The delivery time of a message that is ready at `at`: not before the previous delivery.
    pub fn in_order(&mut self, at: Time) -> Time {
        self.delivered = self.delivered.max(at);
        self.delivered
    }

    /// Assigns a stream to a long message from a rank. False: all streams of the NIC are in use by other sources.
    pub fn open_stream(&mut self, machine: &Machine, from: u32) -> bool {
        let most = machine.nic.streams_max as usize;
        if most == 0 {
            return true;
        }
        let full = self.streams.len() >= most;
        match self.streams.iter_mut().find(|(source, _)| *source == from) {
            Some((_, count)) => *count += 1,
            None if full => return false,
            None => self.streams.push((from, 1)),
        }
        true
    }

    /// Ends one long message of a rank; frees the stream after its last one.
    pub fn close_stream(&mut self, from: u32) {
        if let Some(at) = self.streams.iter().position(|(source, _)| *source == from) {
            self.streams[at].1 -= 1;
            if self.streams[at].1 == 0 {
                self.streams.swap_remove(at);
            }
        }
    }
}
