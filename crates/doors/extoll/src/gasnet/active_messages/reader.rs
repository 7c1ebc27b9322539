// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What has arrived: parts of active messages, notifications of puts, control messages.
//!
//! Invariants
//! 1. Replies come before requests, because they give credits back.
//! 2. A message whose put has not arrived waits in `pending`; a put whose message has not, in `arrived`. Credits bound both.
//! 3. What no node sends so is reported and dropped. Its credit is lost.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use selvedge_nic::rma::{Notification, error, spec};

use super::ActiveMessages;
use super::wire::{Assembler, CONTROL, Category, Control, Decoded, Kind};
use selvedge_process::device::messages::{Message, MessageReader};

/// An active message that has arrived whole.
pub(super) struct Arrival {
    pub kind: Kind,
    pub source: u16,
    pub decoded: Decoded,
    /// Address of the payload that was put, and the network logical address behind it.
    pub place: Option<(u64, u64)>,
}

/// What a reader finds.
// It is moved once, from the reader to the handler's thread; a box would cost an allocation for each message.
#[allow(clippy::large_enum_variant)]
pub(super) enum Found {
    Message(Arrival),
    /// A control message, which has had its effect.
    Control,
}

/// The reader of both ports.
pub(super) struct Reader {
    mailboxes: [MessageReader; 2],
    vpid: u16,
    notifications_read: u64,
    /// Puts without their message: source, and the address behind the last byte.
    arrived: BTreeMap<(u16, u64), u32>,
    pending: Vec<Arrival>,
    /// Of requests, and of replies.
    assemblers: [Assembler; 2],
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

    /// Takes the notifications that have come.
    pub fn take_notifications(&mut self, messages: &ActiveMessages) {
        while let Some(words) =
            messages.interface().signals().take_notification(self.vpid, &mut self.notifications_read)
        {
            let notification = Notification::decode(words);
            if notification.error != 0 {
                log::error!("gasnet: a put to node {} was refused: it has ended, or its memory has", notification.node);
            }
            match notification.unit {
                spec::COMPLETER => {
                    let end = notification.word0 + u64::from(notification.size) + 1;
                    *self.arrived.entry((notification.node, end)).or_insert(0) += 1;
                }
                // If the target refuses a put, its requester has read the source, and has said so.
                _ if notification.error & !error::REQUESTER != 0 => {}
                _ => messages.source_was_read(&notification),
            }
        }
    }

    /// The next message whose handler can run, or a control message.
    pub fn next(&mut self, messages: &ActiveMessages) -> Option<Found> {
        self.take_notifications(messages);
        if let Some(at) = self.pending.iter().position(|arrival| is_there(&self.arrived, arrival)) {
            let arrival = self.pending.swap_remove(at);
            self.use_up(&arrival);
            return Some(Found::Message(arrival));
        }
        for kind in [Kind::Reply, Kind::Request] {
            while let Some(message) = self.mailboxes[kind.index()].take(messages.interface(), |_| true) {
                let arrival = match self.read(messages, kind, &message) {
                    Some(Found::Message(arrival)) => arrival,
                    Some(Found::Control) => return Some(Found::Control),
                    None => continue,
                };
                if !is_there(&self.arrived, &arrival) {
                    self.take_notifications(messages);
                }
                if is_there(&self.arrived, &arrival) {
                    self.use_up(&arrival);
                    return Some(Found::Message(arrival));
                }
                self.pending.push(arrival);
            }
        }
        None
    }

    /// Forgets the put of a message that is handed on.
    fn use_up(&mut self, arrival: &Arrival) {
        let Some((_, end)) = arrival.place else { return };
        if let Some(count) = self.arrived.get_mut(&(arrival.source, end)) {
            *count -= 1;
            if *count == 0 {
                self.arrived.remove(&(arrival.source, end));
            }
        }
    }

    /// Reads a VELO message. None: it is the first of two parts, or none that a node sends.
    fn read(&mut self, messages: &ActiveMessages, kind: Kind, message: &Message) -> Option<Found> {
        let source = message.label.source().node;
        let read = match message.label.mtt() {
            _ if source >= messages.nodes => None,
            CONTROL => Control::decode(message.payload()).map(|control| {
                messages.control(source, control);
                Some(Found::Control)
            }),
            mtt if usize::from(mtt) == kind.index() => {
                self.part(messages, kind, message).map(|whole| whole.map(Found::Message))
            }
            _ => None,
        };
        if read.is_none() {
            log::error!("gasnet: node {source} has sent a message that no library sends; it is dropped");
        }
        read.flatten()
    }

    /// A part of an active message. The inner None: another part follows.
    fn part(&mut self, messages: &ActiveMessages, kind: Kind, message: &Message) -> Option<Option<Arrival>> {
        let (source, tag) = (message.label.source().node, message.label.tag());
        let Some(decoded) = self.assemblers[kind.index()].take(source, tag, message.payload())? else {
            return Some(None);
        };
        let place = match decoded.header.is_put {
            true => Some(messages.place_of(kind, source, &decoded.header)?),
            false if decoded.header.slot >= messages.credits => return None,
            false => None,
        };
        Some(Some(Arrival { kind, source, decoded, place }))
    }
}

/// Whether the payload of a message has arrived.
fn is_there(arrived: &BTreeMap<(u16, u64), u32>, arrival: &Arrival) -> bool {
    arrival.place.is_none_or(|(_, end)| arrived.contains_key(&(arrival.source, end)))
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

impl ActiveMessages {
    fn control(&self, source: u16, control: Control) {
        match control {
            Control::Credit { slot } => self.give_credit(source, slot),
            Control::Barrier { phase, round, mark } => {
                let mut barrier = self.barrier();
                barrier.receive(phase, round, mark);
                self.advance(&mut barrier);
            }
            Control::Leaving => {
                self.leaving.fetch_add(1, Relaxed);
            }
        }
    }
}
