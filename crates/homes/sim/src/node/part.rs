// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of a machine that one simulation has: consecutive nodes, with their ranks and NICs.
//!
//! A message that leaves its part is handed over whole when its first packet leaves the node: its record goes to the part
//! of its target, and is there before the packet. The sender keeps a copy until the last packet has left. A response
//! goes back in the same way. So a record is in one part, besides the copy, and no part reads what another one has.
//!
//! The fabric may lose a packet in a part in which neither end is. The target's node learns of it a lookahead later, by a
//! [`Notice`]. When it has counted all packets of the message, the initiator's node gets the record back, again a lookahead
//! later. Nodes of one part learn at the same times.
//!
//! Messages and notices under way to another part are exchanged between windows of time (`parts.rs`).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use selvedge_nic::tables::Command;

use crate::network::{Packet, Parcel};
use crate::time::Time;

use super::message::{Message, Messages, index_of};

/// The nodes of a part, and its messages that come from and go to other parts.
#[derive(Debug)]
pub(super) struct Part {
    nodes: Range<u32>,
    /// End of the nodes of each part, in order.
    ends: Arc<[u32]>,
    /// By part: records of messages that have begun to leave to it.
    leaving: Vec<Vec<Carried>>,
    /// By part: notices for it, and when they take effect.
    told: Vec<Vec<(Time, Notice)>>,
    /// Index of a message from another part, by the node and the tag of its packets, until all of these are here or lost.
    arriving: HashMap<(u32, u64), u32>,
}

/// The record of a message on its way to another part.
#[derive(Debug)]
pub(super) struct Carried {
    /// Node and tag of its packets.
    key: (u32, u64),
    message: Message,
}

impl Carried {
    pub fn from(&self) -> u32 {
        self.message.from
    }
}

/// News of a loss, for the node at which it counts.
#[derive(Debug)]
pub(super) enum Notice {
    /// This packet is lost.
    Missing(Packet),
    /// This message is lost.
    Failed(Box<Message>),
}

/// Packets, credits, records of messages and notices that one part sends to another in a window.
#[derive(Debug, Default)]
pub(super) struct Letter {
    pub parcel: Parcel,
    pub messages: Vec<Carried>,
    pub notices: Vec<(Time, Notice)>,
}

impl Letter {
    /// Returns the earliest time at which some of it takes effect. `None`: it is empty.
    pub fn earliest(&self) -> Option<Time> {
        // A message takes effect with its first packet.
        let notices = self.notices.iter().map(|&(at, _)| at);
        notices.chain([self.parcel.earliest]).min().filter(|&at| at != Time::MAX)
    }

    pub fn is_empty(&self) -> bool {
        self.parcel.earliest == Time::MAX && self.messages.is_empty() && self.notices.is_empty()
    }
}

impl Part {
    /// The whole machine.
    pub fn whole() -> Part {
        let (ends, leaving, told) = (Arc::new([]), Vec::new(), Vec::new());
        Part { nodes: 0..u32::MAX, ends, leaving, told, arriving: HashMap::new() }
    }

    /// One of the parts that end at `ends`.
    pub fn new(number: usize, ends: &Arc<[u32]>) -> Part {
        let start = if number == 0 { 0 } else { ends[number - 1] };
        let leaving = ends.iter().map(|_| Vec::new()).collect();
        let told = ends.iter().map(|_| Vec::new()).collect();
        Part { nodes: start..ends[number], ends: Arc::clone(ends), leaving, told, arriving: HashMap::new() }
    }

    pub fn is_whole(&self) -> bool {
        self.ends.is_empty()
    }

    #[inline]
    pub fn has(&self, node: u32) -> bool {
        self.nodes.contains(&node)
    }

    /// Returns its nodes below `end`.
    pub fn nodes_below(&self, end: u32) -> Range<u32> {
        self.nodes.start.min(end)..self.nodes.end.min(end)
    }

    /// Hands a message over to the part of its target: its first packet leaves now. The payload goes with it.
    #[cold]
    pub fn hand_over(&mut self, message: &mut Message, index: u32) {
        let payload = std::mem::take(&mut message.payload);
        let carried = Message { payload, bytes_to_send: 0, ..message.clone() };
        let part = self.part_of(message.target);
        self.leaving[part].push(Carried { key: (message.source, message.tag(index)), message: carried });
    }

    fn part_of(&self, node: u32) -> usize {
        self.ends.partition_point(|&end| end <= node)
    }

    /// Tells the part of another node something that takes effect at `at`.
    #[cold]
    pub fn tell(&mut self, at: Time, node: u32, notice: Notice) {
        let part = self.part_of(node);
        self.told[part].push((at, notice));
    }

    /// Takes the messages that have begun to leave to a part.
    pub fn take_leaving(&mut self, part: usize) -> Vec<Carried> {
        std::mem::take(&mut self.leaving[part])
    }

    /// Takes the notices for a part.
    pub fn take_told(&mut self, part: usize) -> Vec<(Time, Notice)> {
        std::mem::take(&mut self.told[part])
    }

    /// Takes a message from another part. Returns a command that is no longer needed.
    pub fn accept(&mut self, Carried { key, message }: Carried, messages: &mut Messages) -> Option<Box<Command>> {
        let (index, before) = messages.adopt(Message { foreign_tag: key.1, ..message });
        self.arriving.insert(key, index);
        before
    }

    /// Returns the index of the message of a packet, by the node that sent it and its tag.
    #[inline]
    pub fn index_of(&self, (from, tag): (u32, u64)) -> u32 {
        match self.has(from) {
            true => index_of(tag),
            false => self.foreign_index((from, tag)),
        }
    }

    #[cold]
    fn foreign_index(&self, key: (u32, u64)) -> u32 {
        *self.arriving.get(&key).expect("a message's record is here before its packets")
    }

    /// Forgets the packets of a message, all of which are here or lost.
    #[inline]
    pub fn forget_packets(&mut self, message: &Message) {
        if !self.has(message.source) {
            self.arriving.remove(&(message.source, message.foreign_tag));
        }
    }
}
