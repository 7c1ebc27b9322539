// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A port's mailbox as its program reads it: the oldest message, or the oldest that matches.
//!
//! A receive that wants another message than the oldest, and a sender that waits, keep those before it in the library, in order of
//! arrival. Later receives look at them first.
//!
//! Invariants
//! 1. Messages of one source are received in the order in which it sent them, among those that a receive asks for.
//! 2. At most [`KEPT_MAX`] messages are kept. With more, a receive that does not find its message takes none out of the mailbox, so
//!    that senders are told that it is full.

use std::collections::VecDeque;
use std::time::Instant;

use selvedge_nic::limits::VELO_BYTES_MAX;
use selvedge_nic::velo::{Mailbox, Status};
use selvedge_shm::{Interface, WaitEnd};

/// Messages that a port keeps outside of its mailbox.
const KEPT_MAX: usize = 4096;
/// Slots between two publications of the read pointer.
const LAZINESS: u32 = 16;

/// A message that was taken out of a mailbox.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub status: Status,
    pub bytes: [u8; VELO_BYTES_MAX as usize],
}

impl Message {
    /// Its bytes.
    pub fn payload(&self) -> &[u8] {
        let extent = self.status.extent;
        self.bytes.get(..extent.bytes().min(extent.message_bytes()) as usize).unwrap_or_default()
    }
}

/// The reader of one port's mailbox.
pub struct MessageReader {
    mailbox: Mailbox,
    kept: VecDeque<Message>,
}

impl MessageReader {
    /// The reader of a port. None: there is no such port.
    pub fn new(interface: &Interface, vpid: u16) -> Option<MessageReader> {
        let mailbox = Mailbox::new(&interface.signals(), vpid, LAZINESS)?;
        Some(MessageReader { mailbox, kept: VecDeque::new() })
    }

    /// Takes the oldest message that `matches`.
    pub fn take(&mut self, interface: &Interface, matches: impl Fn(&Status) -> bool) -> Option<Message> {
        if let Some(at) = self.kept.iter().position(|message| matches(&message.status)) {
            return self.kept.remove(at);
        }
        while self.kept.len() < KEPT_MAX {
            let message = self.next(interface)?;
            if matches(&message.status) {
                return Some(message);
            }
            self.kept.push_back(message);
        }
        None
    }

    /// As [`MessageReader::take`], and polls the NIC if there is none.
    pub fn probe(&mut self, interface: &Interface, matches: impl Fn(&Status) -> bool) -> Option<Message> {
        if let Some(found) = self.take(interface, &matches) {
            interface.found_something();
            return Some(found);
        }
        interface.poll();
        let found = self.take(interface, &matches);
        match found {
            Some(_) => interface.found_something(),
            None => {
                self.mailbox.publish(&interface.signals());
                interface.found_nothing();
            }
        }
        found
    }

    /// Waits for a message that `matches`.
    pub fn wait(
        &mut self,
        interface: &Interface,
        deadline: Option<Instant>,
        matches: impl Fn(&Status) -> bool,
    ) -> Result<Message, WaitEnd> {
        interface.wait(deadline, || self.take(interface, &matches))
    }

    /// For a sender that waits for room elsewhere: moves what has arrived out of the mailbox, so that two senders whose mailboxes are
    /// full do not wait for each other.
    pub fn make_room(&mut self, interface: &Interface) {
        interface.poll();
        while self.kept.len() < KEPT_MAX {
            let Some(message) = self.next(interface) else { break };
            self.kept.push_back(message);
        }
        self.mailbox.publish(&interface.signals());
    }

    /// Whether a message is there, kept or in the mailbox.
    pub fn has_message(&mut self, interface: &Interface) -> bool {
        !self.kept.is_empty() || !matches!(self.mailbox.peek(&interface.signals()), Ok(None))
    }

    /// Takes the next message out of the mailbox. Slots that no sender has written so are skipped.
    fn next(&mut self, interface: &Interface) -> Option<Message> {
        let signals = interface.signals();
        let mut bytes = [0; VELO_BYTES_MAX as usize];
        loop {
            match self.mailbox.take(&signals, &mut bytes) {
                Ok(Some((status, _))) => return Some(Message { status, bytes }),
                Ok(None) => return None,
                Err(_) => log::error!("a slot of mailbox {} is not one that a NIC writes", self.mailbox.vpid()),
            }
        }
    }
}
