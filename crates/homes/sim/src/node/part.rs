// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of a machine that one simulation has: consecutive nodes, with their ranks and NICs.
//!
//! A message that leaves its part is handed over whole when its first packet leaves the node: its record goes to the part
//! of its target, and is there before the packet. The sender keeps a copy until the last packet has left. A response
//! goes back in the same way. So a record is in one part, besides the copy, and no part reads what another one has.
//!
//! Messages under way to another part are exchanged between windows of time (`parts.rs`).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use selvedge_nic::tables::Command;

use crate::network::Parcel;
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
    /// Index of a message from another part, by the node and the tag of its packets, until its last packet is here.
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

/// Packets, credits and records of messages that one part sends to another in a window.
#[derive(Debug, Default)]
pub(super) struct Letter {
    pub parcel: Parcel,
    pub messages: Vec<Carried>,
}

impl Letter {
    /// Returns the earliest time at which some of it takes effect. `None`: it is empty.
    pub fn earliest(&self) -> Option<Time> {
        // A message takes effect with its first packet.
        (self.parcel.earliest != Time::MAX).then_some(self.parcel.earliest)
    }

    pub fn is_empty(&self) -> bool {
        self.parcel.earliest == Time::MAX && self.messages.is_empty()
    }
}

impl Part {
    /// The whole machine.
    pub fn whole() -> Part {
        Part { nodes: 0..u32::MAX, ends: Arc::new([]), leaving: Vec::new(), arriving: HashMap::new() }
    }

    /// One of the parts that end at `ends`.
    pub fn new(number: usize, ends: &Arc<[u32]>) -> Part {
        let start = if number == 0 { 0 } else { ends[number - 1] };
        let leaving = ends.iter().map(|_| Vec::new()).collect();
        Part { nodes: start..ends[number], ends: Arc::clone(ends), leaving, arriving: HashMap::new() }
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
        let part = self.ends.partition_point(|&end| end <= message.target);
        self.leaving[part].push(Carried { key: (message.source, message.tag(index)), message: carried });
    }

    /// Takes the messages that have begun to leave to a part.
    pub fn take_leaving(&mut self, part: usize) -> Vec<Carried> {
        std::mem::take(&mut self.leaving[part])
    }

    /// Takes a message from another part. Returns a command that is no longer needed.
    pub fn accept(&mut self, Carried { key, message }: Carried, messages: &mut Messages) -> Option<Box<Command>> {
        let (index, before) = messages.adopt(message);
        self.arriving.insert(key, index);
        before
    }

    /// Returns the index of the message of a packet, by the node that sent it and its tag.
    #[inline]
    pub fn index_of(&mut self, (from, tag): (u32, u64), messages: &Messages) -> u32 {
        match self.has(from) {
            true => index_of(tag),
            false => self.foreign_index((from, tag), messages),
        }
    }

    #[cold]
    fn foreign_index(&mut self, key: (u32, u64), messages: &Messages) -> u32 {
        let index = *self.arriving.get(&key).expect("a message's record is here before its packets");
        if messages[index].packets_to_come <= 1 {
            self.arriving.remove(&key);
        }
        index
    }
}
