// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Resources that the messages of a node share: its units, its rails with their leaving messages, the order of deliveries,
//! streams, the queue of commands, and the messages behind a full mailbox.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut, Range};

use crate::machine::Machine;
use crate::machine::graph::Graph;
use crate::network::Delivery as Packet;
use crate::time::Time;

use super::rails::RailPorts;
use super::ranks::MailboxState;
use super::units::NodeUnits;

/// The nodes of a part of the machine, by number.
#[derive(Clone, Debug)]
pub(super) struct Hardware {
    first: usize,
    nodes: Vec<NodeHardware>,
}

impl Hardware {
    pub fn new(nodes: Range<u32>, graph: &Graph, rails: u32) -> Hardware {
        Hardware { first: nodes.start as usize, nodes: vec![NodeHardware::new(graph, rails); nodes.len()] }
    }
}

impl Index<usize> for Hardware {
    type Output = NodeHardware;

    #[inline]
    fn index(&self, node: usize) -> &NodeHardware {
        &self.nodes[node - self.first]
    }
}

impl IndexMut<usize> for Hardware {
    #[inline]
    fn index_mut(&mut self, node: usize) -> &mut NodeHardware {
        &mut self.nodes[node - self.first]
    }
}

/// A node: its units, and the other resources that its messages share.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeHardware {
    pub units: NodeUnits,
    pub rails: RailPorts,
    /// Turns that its messages have taken over its rails.
    pub turn: u32,
    /// Time at which the last message from this node to itself has arrived.
    looped: Time,
    /// Time of the last delivery: no message overtakes another.
    delivered: Time,
    /// Commands of its programs, on a machine with a host interface.
    pub commands: CommandQueue,
    /// Messages and packets not taken because a mailbox is full, on a machine whose NICs block.
    pub blocked: Blocked,
    /// Source ranks of arriving long messages, with the number of messages of each.
    streams: Vec<(u32, u32)>,
}

impl NodeHardware {
    pub fn new(graph: &Graph, rails: u32) -> NodeHardware {
        NodeHardware { units: NodeUnits::new(graph), rails: RailPorts::new(rails), ..NodeHardware::default() }
    }

    /// Returns the arrival of a message from this node to itself that is ready at `at`: not before the previous one.
    pub fn loop_back(&mut self, at: Time) -> Time {
        self.looped = self.looped.max(at);
        self.looped
    }

    /// Returns the delivery time of a message that is ready at `at`: not before the previous delivery.
    pub fn in_order(&mut self, at: Time) -> Time {
        self.delivered = self.delivered.max(at);
        self.delivered
    }

    /// Assigns a stream to a long message from a rank. False: other sources use all streams of the NIC.
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

/// The queue of commands of one node. A command has a place from its admission until the NIC begins with it.
#[derive(Clone, Debug, Default)]
pub(super) struct CommandQueue {
    taken: u32,
    /// Commands in the queue that the NIC does not take, because earlier messages wait for the fabric.
    pub held: VecDeque<u32>,
    waiting: VecDeque<u32>,
}

impl CommandQueue {
    /// Takes one of `places` places. False: all are taken.
    pub fn take_place(&mut self, places: u32) -> bool {
        let is_free = self.taken < places;
        self.taken += u32::from(is_free);
        is_free
    }

    pub fn free_place(&mut self) {
        self.taken = self.taken.saturating_sub(1);
    }

    pub fn wait(&mut self, command: u32) {
        self.waiting.push_back(command);
    }

    /// Returns the command that has waited longest, if one of `places` places is free.
    pub fn next_waiting(&mut self, places: u32) -> Option<u32> {
        if self.taken < places { self.waiting.pop_front() } else { None }
    }
}

/// Messages and packets that a blocking node does not take.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocked {
    /// The message that does not fit.
    message: Option<u32>,
    /// Its mailbox at that time.
    mailbox: Option<MailboxState>,
    is_retried: bool,
    /// Messages to be delivered behind it.
    behind: VecDeque<u32>,
    packets: VecDeque<Packet>,
}

/// The next item of a node that no longer blocks.
pub(super) enum Unblocked {
    Message(u32),
    Packet(Packet),
}

impl Blocked {
    pub fn is_blocked(&self) -> bool {
        self.message.is_some()
    }

    pub fn message(&self) -> Option<u32> {
        self.message
    }

    /// Returns the mailbox of this message, as it was when the message did not fit.
    pub fn mailbox(&self) -> Option<MailboxState> {
        self.mailbox
    }

    /// Records that a message does not fit. False: this was a retry.
    pub fn block(&mut self, message: u32, mailbox: Option<MailboxState>) -> bool {
        (self.message, self.mailbox) = (Some(message), mailbox);
        !self.is_retried
    }

    /// Whether a message must wait behind the one that does not fit. If so, keeps it.
    pub fn keeps(&mut self, message: u32) -> bool {
        if self.is_blocked() {
            self.behind.push_back(message);
        }
        self.is_blocked()
    }

    /// Whether a packet must stay in the node's buffer. If so, keeps it.
    #[inline]
    pub fn keeps_packet(&mut self, packet: &Packet) -> bool {
        if self.is_blocked() {
            self.packets.push_back(*packet);
        }
        self.is_blocked()
    }

    /// Takes the message that does not fit, to retry it. Call [`Blocked::end_retry`] afterwards.
    pub fn begin_retry(&mut self) -> Option<u32> {
        let message = self.message.take();
        self.is_retried = message.is_some();
        message
    }

    pub fn end_retry(&mut self) {
        self.is_retried = false;
    }

    /// Takes the oldest kept item, unless the node blocks. Messages come before packets.
    pub fn next(&mut self) -> Option<Unblocked> {
        if self.is_blocked() {
            return None;
        }
        let message = self.behind.pop_front().map(Unblocked::Message);
        message.or_else(|| self.packets.pop_front().map(Unblocked::Packet))
    }
}
