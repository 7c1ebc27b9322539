// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reader of arrivals: parts of active messages, notifications of puts, control messages.
//!
//! Invariants
//! 1. Replies are read before requests, because they return credits.
//! 2. A message whose put is missing waits in `pending`; a put whose message is missing, in `arrived`. Credits bound
//!    both.
//! 3. An invalid message is reported and dropped. Its credit is lost.

use std::sync::atomic::Ordering::Relaxed;

use selvedge_nic::rma::{Notification, error, spec};

use selvedge_process::device::messages::Message;

use super::arrivals::{Arrival, Incoming, Reader};
use super::engine::ActiveMessages;
use super::wire::{CONTROL, Control, Kind};

impl Reader {
    /// Takes the notifications that have arrived.
    pub fn take_notifications(&mut self, messages: &ActiveMessages) {
        while let Some(words) =
            messages.interface().signals().take_notification(self.vpid, &mut self.notifications_read)
        {
            let notification = Notification::decode(words);
            if notification.error != 0 {
                log::error!("gasnet: node {} refused a put: the node or its memory is gone", notification.node);
            }
            match notification.unit {
                spec::COMPLETER => {
                    let end = notification.word0 + u64::from(notification.size) + 1;
                    *self.arrived.entry((notification.node, end)).or_insert(0) += 1;
                }
                // If the target refuses a put, its requester has read the source and has notified, too.
                _ if notification.error & !error::REQUESTER != 0 => {}
                _ => messages.source_was_read(&notification),
            }
        }
    }

    /// The next message whose handler can run, or a control message.
    pub fn next(&mut self, messages: &ActiveMessages) -> Option<Incoming> {
        self.take_notifications(messages);
        if let Some(at) = self.pending.iter().position(|arrival| self.is_there(arrival)) {
            let arrival = self.pending.swap_remove(at);
            self.use_up(&arrival);
            return Some(Incoming::Message(arrival));
        }
        for kind in [Kind::Reply, Kind::Request] {
            while let Some(message) = self.mailboxes[kind.index()].take(messages.interface(), |_| true) {
                let arrival = match self.read(messages, kind, &message) {
                    Some(Incoming::Message(arrival)) => arrival,
                    Some(Incoming::Control) => return Some(Incoming::Control),
                    None => continue,
                };
                if !self.is_there(&arrival) {
                    self.take_notifications(messages);
                }
                if self.is_there(&arrival) {
                    self.use_up(&arrival);
                    return Some(Incoming::Message(arrival));
                }
                self.pending.push(arrival);
            }
        }
        None
    }

    /// Reads a VELO message. `None`: it is the first of two parts, or invalid.
    fn read(&mut self, messages: &ActiveMessages, kind: Kind, message: &Message) -> Option<Incoming> {
        let source = message.label.source().node;
        let read = match message.label.mtt() {
            _ if source >= messages.nodes => None,
            CONTROL => Control::decode(message.payload()).map(|control| {
                messages.control(source, control);
                Some(Incoming::Control)
            }),
            mtt if usize::from(mtt) == kind.index() => {
                self.part(messages, kind, message).map(|whole| whole.map(Incoming::Message))
            }
            _ => None,
        };
        if read.is_none() {
            log::error!("gasnet: dropped an invalid message from node {source}");
        }
        read.flatten()
    }

    /// Handles a part of an active message. The inner `None`: another part follows.
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
