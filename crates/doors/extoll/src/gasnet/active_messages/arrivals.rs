// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of the reader: messages whose puts are missing, and puts whose messages are missing.

use std::collections::BTreeMap;

use selvedge_process::device::messages::MessageReader;

use super::wire::{Assembler, Category, Decoded, Kind};

/// An active message that has arrived whole.
pub(super) struct Arrival {
    pub kind: Kind,
    pub source: u16,
    pub decoded: Decoded,
    /// Address of the payload that was put, and the network logical address of its end.
    pub place: Option<(u64, u64)>,
}

/// An arrival at the reader.
// It is moved once, from the reader to the handler's thread. A box would cost an allocation for each message.
#[allow(clippy::large_enum_variant)]
pub(super) enum Incoming {
    Message(Arrival),
    /// A control message, which was handled already.
    Control,
}

/// The reader of both ports.
pub(super) struct Reader {
    pub(super) mailboxes: [MessageReader; 2],
    pub(super) vpid: u16,
    pub(super) notifications_read: u64,
    /// Puts without their message: source, and the address of the payload's end.
    pub(super) arrived: BTreeMap<(u16, u64), u32>,
    pub(super) pending: Vec<Arrival>,
    /// One for requests, one for replies.
    pub(super) assemblers: [Assembler; 2],
}

impl Reader {
    /// The reader of both mailboxes, and of the notifications of `vpid`.
    pub fn new(vpid: u16, mailboxes: [MessageReader; 2], nodes: usize) -> Reader {
        Reader {
            mailboxes,
            vpid,
            notifications_read: 0,
            arrived: BTreeMap::new(),
            pending: Vec::new(),
            assemblers: [Assembler::new(nodes), Assembler::new(nodes)],
        }
    }

    /// Removes the put of a message that is delivered.
    pub fn use_up(&mut self, arrival: &Arrival) {
        let Some((_, end)) = arrival.place else { return };
        if let Some(count) = self.arrived.get_mut(&(arrival.source, end)) {
            *count -= 1;
            if *count == 0 {
                self.arrived.remove(&(arrival.source, end));
            }
        }
    }

    /// Whether the payload of a message has arrived.
    pub fn is_there(&self, arrival: &Arrival) -> bool {
        arrival.place.is_none_or(|(_, end)| self.arrived.contains_key(&(arrival.source, end)))
    }
}

impl Arrival {
    /// Address and bytes of the payload.
    pub fn payload(&mut self) -> (*mut u8, usize) {
        let header = self.decoded.header;
        match self.place {
            Some((start, _)) => (start as *mut u8, header.bytes as usize),
            None if header.category == Category::Long => (header.destination as *mut u8, 0),
            None => (self.decoded.inline.as_mut_ptr().cast(), header.bytes as usize),
        }
    }
}
