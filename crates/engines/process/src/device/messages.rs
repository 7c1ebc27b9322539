// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A port's messages as its program reads them: the oldest, or the oldest that matches.
//!
//! A message comes in one of two ways: in a ring that its sender has for the port ([`selvedge_host::rings::port`]), or
//! in the port's mailbox, which senders without such a ring fill. A receive copies it to the program's buffer.
//!
//! A receive for another message than the oldest, and a sender that waits, keep earlier messages in the library, in
//! order of arrival. Later receives look at them first.
//!
//! Invariants
//! 1. Messages of one source are received in the order in which it sent them, among those that a receive accepts.
//! 2. A sender moves from the mailbox to a ring, never back. So when a message is found in a ring, messages in the
//!    mailbox and packets that have arrived come before it.
//! 3. At most [`KEPT_MAX`] messages are kept. At the limit, a receive that does not find its message takes none out of
//!    the mailbox or a ring, so that senders see that it is full.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use selvedge_host::rings::port::{Port as PortOfRings, PortReader};
use selvedge_host::rings::{INLINE_BYTES, RingMessage};
use selvedge_host::{Interface, WaitEnd};
use selvedge_nic::limits::VELO_BYTES_MAX;
use selvedge_nic::velo::{Endpoint, Label, Mailbox, Reassembler};

/// Limit of the messages that a port keeps outside of its mailbox.
const KEPT_MAX: usize = 4096;
/// Slots between two publications of the read pointer.
const LAZINESS: u32 = 16;
/// Empty polls between looks for rings whose senders have ended.
const CLEAR_EVERY: u32 = 1 << 20;

/// A message taken out of a mailbox or a ring.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub label: Label,
    pub bytes: [u8; VELO_BYTES_MAX as usize],
}

impl Message {
    /// Its bytes.
    pub fn payload(&self) -> &[u8] {
        self.bytes.get(..self.label.bytes() as usize).unwrap_or_default()
    }
}

/// The reader of one port's messages.
pub struct MessageReader {
    mailbox: Mailbox,
    /// Parts received so far of messages in the mailbox that were split, by source.
    parts: BTreeMap<Endpoint, Reassembler<1>>,
    /// None if it can have no rings.
    rings: Option<PortReader>,
    /// The mailbox's head at which the rings have their turn, if both have messages.
    rings_from: Option<u64>,
    polls: u32,
    kept: VecDeque<Message>,
}

impl MessageReader {
    /// Makes the reader of a port. None if there is no such port.
    pub fn new(interface: &Interface, vpid: u16, rings: Option<PortOfRings>) -> Option<MessageReader> {
        let mailbox = Mailbox::new(&interface.signals(), vpid, LAZINESS)?;
        let rings = rings.map(PortReader::new);
        Some(MessageReader {
            mailbox,
            parts: BTreeMap::new(),
            rings,
            rings_from: None,
            polls: 0,
            kept: VecDeque::new(),
        })
    }

    /// Returns the port whose rings it reads.
    pub fn port_of_rings(&self) -> Option<PortOfRings> {
        self.rings.as_ref().map(PortReader::port)
    }

    /// Receives the oldest message: copies at most `room` of its bytes.
    ///
    /// # Safety
    /// `to` has room for this many bytes.
    #[inline]
    pub unsafe fn receive(&mut self, interface: &Interface, to: *mut u8, room: usize) -> Option<Label> {
        if self.kept.is_empty() {
            if let Some((message, label)) = self.find_in_ring(interface) {
                // SAFETY: the caller says that there is room, and the message has this many bytes.
                unsafe { self.take_from_ring(interface, &message, to, room) };
                return Some(label);
            }
            if self.mailbox.is_empty(&interface.signals()) {
                return None;
            }
        }
        // SAFETY: the caller's.
        unsafe { self.receive_otherwise(interface, to, room) }
    }

    /// Receives the oldest message if it is not in a ring.
    ///
    /// # Safety
    /// As [`MessageReader::receive`].
    #[cold]
    unsafe fn receive_otherwise(&mut self, interface: &Interface, to: *mut u8, room: usize) -> Option<Label> {
        let message = match self.kept.pop_front() {
            Some(message) => message,
            None => self.take_from_mailbox(interface)?,
        };
        let payload = message.payload();
        // SAFETY: the caller says that there is room, and the message has this many bytes.
        unsafe { std::ptr::copy_nonoverlapping(payload.as_ptr(), to, payload.len().min(room)) };
        Some(message.label)
    }

    /// As [`MessageReader::receive`], and polls the NIC if there is none.
    ///
    /// # Safety
    /// As [`MessageReader::receive`].
    #[inline]
    pub unsafe fn probe(&mut self, interface: &Interface, to: *mut u8, room: usize) -> Option<Label> {
        // SAFETY: the caller's.
        self.find_now(interface, |reader| unsafe { reader.receive(interface, to, room) })
    }

    /// As [`MessageReader::receive`], and waits for a message.
    ///
    /// # Safety
    /// As [`MessageReader::receive`].
    #[inline]
    pub unsafe fn wait(
        &mut self,
        interface: &Interface,
        deadline: Option<Instant>,
        to: *mut u8,
        room: usize,
    ) -> Result<Label, WaitEnd> {
        interface.wait(deadline, || {
            // SAFETY: the caller's.
            let found = unsafe { self.receive(interface, to, room) };
            if found.is_none() {
                // A sender may wait for this slot.
                self.mailbox.publish(&interface.signals());
            }
            found
        })
    }

    /// Takes the oldest message that `matches`, and polls the NIC if there is none.
    pub fn match_now(&mut self, interface: &Interface, matches: impl Fn(Label) -> bool) -> Option<Message> {
        self.find_now(interface, |reader| reader.take(interface, &matches))
    }

    #[inline(always)]
    fn find_now<T>(
        &mut self,
        interface: &Interface,
        mut look: impl FnMut(&mut MessageReader) -> Option<T>,
    ) -> Option<T> {
        if let Some(found) = look(self) {
            interface.found_something();
            return Some(found);
        }
        interface.poll();
        let found = look(self);
        match found {
            Some(_) => interface.found_something(),
            None => {
                self.mailbox.publish(&interface.signals());
                interface.found_nothing();
            }
        }
        found
    }

    /// Takes the oldest message that `matches`, without polling the NIC.
    pub fn take(&mut self, interface: &Interface, matches: impl Fn(Label) -> bool) -> Option<Message> {
        if let Some(at) = self.kept.iter().position(|message| matches(message.label)) {
            return self.kept.remove(at);
        }
        while self.kept.len() < KEPT_MAX {
            let message = self.next(interface)?;
            if matches(message.label) {
                return Some(message);
            }
            self.kept.push_back(message);
        }
        None
    }

    /// Keeps the messages that have arrived, for a sender that waits for room elsewhere. Otherwise two senders with
    /// full mailboxes or rings would wait for each other.
    pub fn make_room(&mut self, interface: &Interface) {
        interface.poll();
        while self.kept.len() < KEPT_MAX {
            let Some(message) = self.next(interface) else { break };
            self.kept.push_back(message);
        }
        self.mailbox.publish(&interface.signals());
    }

    /// Whether a message has arrived.
    pub fn has_message(&mut self, interface: &Interface) -> bool {
        !self.kept.is_empty() || self.find_in_ring(interface).is_some() || !self.mailbox.is_empty(&interface.signals())
    }

    fn next(&mut self, interface: &Interface) -> Option<Message> {
        let Some((message, label)) = self.find_in_ring(interface) else { return self.take_from_mailbox(interface) };
        let mut bytes = [0; VELO_BYTES_MAX as usize];
        // SAFETY: the buffer has room for this many bytes.
        unsafe { self.take_from_ring(interface, &message, bytes.as_mut_ptr(), bytes.len()) };
        Some(Message { label, bytes })
    }

    #[inline(always)]
    fn find_in_ring(&mut self, interface: &Interface) -> Option<(RingMessage, Label)> {
        let reader = self.rings.as_mut()?;
        if !reader.has_message(interface.rings()) {
            self.polls = self.polls.wrapping_add(1);
            if self.polls % CLEAR_EVERY == 0 {
                self.clear_rings(interface);
            }
            return None;
        }
        let message = reader.next(interface.rings())?;
        let Some(label) = Label::from_word(message.envelope.match_bits, message.length) else {
            reader.cut_off(interface.rings());
            return None;
        };
        let signals = interface.signals();
        let is_first = !signals.doorbell.has_packets() && self.mailbox.is_empty(&signals);
        (is_first || self.is_turn_of_rings(interface)).then_some((message, label))
    }

    #[cold]
    fn is_turn_of_rings(&mut self, interface: &Interface) -> bool {
        // A packet may become a message in the mailbox.
        interface.progress();
        let signals = interface.signals();
        let (head, is_empty) = (self.mailbox.head(), self.mailbox.is_empty(&signals));
        let from = *self.rings_from.get_or_insert(head.wrapping_add(self.mailbox.slots()));
        // Each message that was in the mailbox when the ring's was found has been taken.
        let is_later = head.wrapping_sub(from) < u64::MAX / 2 && !signals.doorbell.has_packets();
        if is_empty || is_later {
            self.rings_from = None;
        }
        is_empty || is_later
    }

    /// Copies a message to the program, and dequeues it.
    ///
    /// # Safety
    /// `to` has room for `room` bytes; `message` is the result of the last poll.
    #[inline(always)]
    unsafe fn take_from_ring(&mut self, interface: &Interface, message: &RingMessage, to: *mut u8, room: usize) {
        let bytes = message.length.min(room);
        // SAFETY: the caller says that there is room. The ring is mapped as long as the interface is open.
        unsafe {
            match message.length > INLINE_BYTES {
                true => message.copy_part::<true>(to, bytes),
                false => message.copy_part::<false>(to, bytes),
            }
        }
        if let Some(reader) = &mut self.rings {
            reader.dequeue(interface.rings(), message);
        }
        if let Some(port) = interface.signals().port_pointers.get(usize::from(self.mailbox.vpid())) {
            port.count_taken_from_ring();
        }
    }

    /// Takes the next message out of the mailbox. Skips malformed slots.
    #[inline]
    fn take_from_mailbox(&mut self, interface: &Interface) -> Option<Message> {
        let signals = interface.signals();
        if self.mailbox.is_empty(&signals) {
            return None;
        }
        let mut bytes = [0; VELO_BYTES_MAX as usize];
        loop {
            match self.mailbox.take(&signals, &mut bytes) {
                Ok(Some((status, _))) if status.extent.is_whole() => {
                    return Some(Message { label: Label::of(&status), bytes });
                }
                Ok(Some((status, _))) => match self.parts.entry(status.source).or_default().add(&status, &bytes) {
                    Ok(Some((status, whole))) => {
                        let mut message = Message { label: Label::of(&status), bytes: [0; VELO_BYTES_MAX as usize] };
                        message.bytes[..whole.len()].copy_from_slice(whole);
                        self.parts.remove(&status.source);
                        return Some(message);
                    }
                    Ok(None) => {}
                    Err(error) => {
                        log::warn!("a part of a message in mailbox {} is lost: {error:?}", self.mailbox.vpid())
                    }
                },
                Ok(None) => return None,
                Err(_) => log::error!("a slot of mailbox {} is malformed, and was skipped", self.mailbox.vpid()),
            }
        }
    }

    #[cold]
    fn clear_rings(&mut self, interface: &Interface) {
        if let Some(reader) = &mut self.rings {
            let _nic = interface.lock();
            reader.clear(interface.rings());
        }
    }
}
