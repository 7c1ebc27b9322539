// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands and messages from one port of this node to ports of other nodes.
//!
//! Invariants
//! 1. A command is cut where its local memory is not contiguous, and at the longest length that a descriptor can
//!    express. Only the last piece writes the notifications that the command asks for, unless it asks for one of each
//!    piece. The target checks each piece separately.
//! 2. A command that the requester refuses returns no error: its program finds an error notification, as with hardware.
//!    It is refused before its first piece is sent.
//! 3. Messages from one port to another share one [`PortConnection`], which may move from the mailbox to a ring. It
//!    moves back only when the ring was closed with its port. So messages keep their order ([`super::messages`]).

use std::collections::BTreeSet;
use std::sync::MutexGuard;
use std::time::Duration;

use selvedge_host::direct::ForPort;
use selvedge_host::remote_hosts::may_send;
use selvedge_host::rings::{Envelope, Sender};
use selvedge_host::{Interface, StartError};
use selvedge_nic::NoMemory;
use selvedge_nic::limits::VELO_BYTES_MAX;
use selvedge_nic::portals::ack;
use selvedge_nic::rma::descriptor::BYTES_MAX;
use selvedge_nic::rma::{Descriptor, Operation, RequestError, Requester, modifier, options};
use selvedge_nic::velo::{Endpoint, Label, Outgoing};
use selvedge_os::copy;
use selvedge_os::sync::IgnorePoison;

use super::Device;
use selvedge_host::backoff::Backoff;

/// Reasons for which a command was not posted, or a message not sent. Nothing has changed, except that earlier pieces
/// of a cut command may be in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    #[error("the port is not open")]
    NotOpen,
    #[error("there is no room for the command now")]
    Full,
    #[error("the memory is not mapped")]
    Memory,
    #[error("the node has not opened its EXTOLL units")]
    NoNode,
    #[error("the message is empty, or longer than the longest")]
    Length,
    #[error("a local resource is used up, as was reported")]
    Shortage,
}

/// The result of posting a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    Started,
    /// The requester has refused it. Its port has the error notification.
    Refused,
}

/// Pause before the next attempt, while the owner of a full ring or table makes room.
const ROOM_PAUSE: Duration = Duration::from_micros(20);

impl Device {
    /// Retries until the NIC has room. The caller's mailboxes have room, so this waits only for rings and tables of
    /// NICs. Meanwhile it handles this NIC's packets.
    pub fn until_room<T>(&self, mut attempt: impl FnMut() -> Result<T, PostError>) -> Result<T, PostError> {
        loop {
            match attempt() {
                Err(PostError::Full) => {
                    self.interface().poll();
                    std::thread::sleep(ROOM_PAUSE);
                }
                done => return done,
            }
        }
    }

    fn requester(&self, vpid: u16, options: u32, node: u16) -> Requester {
        Requester { node: self.node(), vpid, options, prototype: false, target: self.target_of(node), uid: 0 }
    }

    /// Posts a command of a port. `options` are those of the connection.
    pub fn post(&self, vpid: u16, options: u32, descriptor: &Descriptor) -> Result<Posted, PostError> {
        let from = self.requester(vpid, options, descriptor.node);
        if matches!(descriptor.operation, Operation::Lock { .. }) && self.interface().limits().lock_waiters != 0 {
            self.asked().insert((vpid, (descriptor.node, descriptor.vpid)));
        }
        let mut rest = *descriptor;
        loop {
            let made = if is_too_long(&rest) {
                Err(RequestError::Cut(BYTES_MAX))
            } else {
                // The guard ends here, because the code below locks the NIC again.
                self.interface().lock_to_post().rma().request(&mut NoMemory, &from, &rest)
            };
            let command = match made {
                Ok(command) => command,
                Err(RequestError::Refused) => return Ok(Posted::Refused),
                Err(RequestError::Closed) => return Err(PostError::NotOpen),
                Err(RequestError::Cut(bytes)) => {
                    let (first, second) = cut(&rest, bytes);
                    if self.post(vpid, options, &first)? == Posted::Refused {
                        return Ok(Posted::Refused);
                    }
                    rest = second;
                    continue;
                }
            };
            return self.interface().start(&command).map(|()| Posted::Started).map_err(|error| match error {
                StartError::NoSpace => PostError::Full,
                StartError::Memory => PostError::Memory,
                StartError::Shortage => PostError::Shortage,
            });
        }
    }

    /// Withdraws the lock requests of an open port that have no answer. Later answers to them go to no port.
    pub(super) fn withdraw_lock_requests(&self, vpid: u16) {
        let of_port = (vpid, (0, 0))..=(vpid, (u16::MAX, u8::MAX));
        let asked: Vec<(u16, (u16, u8))> = self.asked().range(of_port).copied().collect();
        for (_, (node, there)) in asked {
            self.asked().remove(&(vpid, (node, there)));
            let from = self.requester(vpid, options::TE, node);
            let made = self.interface().lock_to_post().rma().withdrawal(&mut NoMemory, &from, (node, there));
            // If the NIC has no room, this waits; a NIC that is gone keeps no requests.
            if let Ok(command) = made {
                let _ = self.until_room(|| self.interface().start(&command).map_err(|_| PostError::Full));
            }
        }
    }

    fn asked(&self) -> MutexGuard<'_, BTreeSet<(u16, (u16, u8))>> {
        self.asked.lock().ignore_poison()
    }
}

/// The connection of one port to another: a ring of the target for this sender, or else its mailbox.
pub struct PortConnection {
    source: Endpoint,
    destination: Endpoint,
    target: u64,
    /// The common bits of the labels of its messages.
    label: u64,
    ring: Option<Sender>,
    /// Counts messages until the next request for a ring.
    asking: Backoff,
    /// Limit of unanswered messages to another host.
    unanswered: u32,
}

/// A VELO message to send. The type has 2 bits.
#[derive(Clone, Copy, Debug)]
pub struct VeloSend {
    pub mtt: u8,
    pub tag: u8,
    pub start: *const u8,
    pub bytes: u32,
}

impl PortConnection {
    pub fn new(device: &Device, source: Endpoint, destination: Endpoint) -> PortConnection {
        let target = device.target_of(destination.node);
        let label = Label::base(source);
        PortConnection { source, destination, target, label, ring: None, asking: Backoff::default(), unanswered: 0 }
    }

    pub fn destination(&self) -> Endpoint {
        self.destination
    }

    /// Gives its ring up. A later message asks for a new one.
    pub fn close(&mut self) {
        self.ring = None;
    }

    /// Sends a message. The payload has been read when it returns. [`PostError::Full`]: the ring or the mailbox has no
    /// room. Messages of one `turn` are a burst: their port has received nothing in between.
    ///
    /// # Safety
    /// The message is readable.
    #[inline]
    pub unsafe fn send(&mut self, device: &Device, message: &VeloSend, turn: u32) -> Result<(), PostError> {
        let interface = device.interface();
        let length = message.bytes as usize;
        if length.wrapping_sub(1) >= VELO_BYTES_MAX as usize {
            return Err(PostError::Length);
        }
        let match_bits = Label::word(self.label, message.mtt, message.tag, message.bytes);
        let envelope = Envelope { match_bits, ..Envelope::default() };
        let Some(ring) = &mut self.ring else {
            // SAFETY: the caller's.
            return unsafe { self.send_otherwise(device, message, turn) };
        };
        // SAFETY: the caller says that the message is readable, and the ring has room for this many bytes.
        let fill = |to: *mut u8| unsafe { copy::few(message.start, to, length) };
        match interface.enqueue_for_port(self.target, ring, &envelope, length, turn, fill) {
            ForPort::Enqueued => {}
            ForPort::Full => return Err(PostError::Full),
            ForPort::Closed => {
                self.close();
                // SAFETY: the caller's.
                return unsafe { self.send_otherwise(device, message, turn) };
            }
        }
        self.count(interface);
        Ok(())
    }

    fn outgoing(&self, message: &VeloSend) -> Outgoing {
        let PortConnection { source, destination, target, .. } = *self;
        let VeloSend { mtt, tag, start, bytes } = *message;
        Outgoing { source, destination, target, mtt, tag, start: start as u64, bytes }
    }

    fn count(&self, interface: &Interface) {
        if let Some(port) = interface.signals().port_pointers.get(usize::from(self.source.vpid)) {
            port.count_sent();
        }
    }

    /// Sends a message without a ring: asks for one, else gives the message to the NIC.
    ///
    /// # Safety
    /// As [`PortConnection::send`].
    #[cold]
    unsafe fn send_otherwise(&mut self, device: &Device, message: &VeloSend, turn: u32) -> Result<(), PostError> {
        let interface = device.interface();
        if self.asking.is_due() {
            self.ring = interface.claim_for_port(self.target, self.destination.vpid);
            self.asking.ended(self.ring.is_some());
            if self.ring.is_some() {
                // SAFETY: the caller's. The recursion ends: it returns here only if the ring has been closed already.
                return unsafe { self.send(device, message, turn) };
            }
        }
        if !interface.has_peer(self.target) {
            // The node may have opened its units since.
            self.target = device.target_of(self.destination.node);
            if !interface.has_peer(self.target) {
                return Err(PostError::NoNode);
            }
        }
        let mut command = self.outgoing(message).command().ok_or(PostError::Length)?;
        if interface.is_remote(self.target) {
            let ports = (self.source.vpid, self.destination.vpid);
            if !may_send(interface, self.target, ports, &mut self.unanswered) {
                return Err(PostError::Full);
            }
            // The answer confirms that the message is in its mailbox.
            command.request.ack = ack::FULL;
        }
        interface.start_now(&command).map_err(|error| match error {
            StartError::NoSpace => PostError::Full,
            StartError::Memory => PostError::Memory,
            StartError::Shortage => PostError::Shortage,
        })?;
        self.unanswered += u32::from(command.ack != ack::NONE);
        self.count(interface);
        Ok(())
    }
}

fn is_too_long(descriptor: &Descriptor) -> bool {
    match descriptor.operation {
        Operation::Put { bytes, .. } | Operation::Get { bytes, .. } => bytes > BYTES_MAX,
        _ => false,
    }
}

/// Cuts a put or get into two pieces, the first of `bytes_first` bytes.
fn cut(whole: &Descriptor, bytes_first: u32) -> (Descriptor, Descriptor) {
    let quiet = whole.modifiers & modifier::NTR == 0;
    let (mut first, mut second) = (*whole, *whole);
    if quiet {
        first.spec = 0;
    }
    let split = |read: u64, write: u64, bytes: u32| {
        let by = u64::from(bytes_first);
        ((read, write, bytes_first), (read.wrapping_add(by), write.wrapping_add(by), bytes.saturating_sub(bytes_first)))
    };
    match whole.operation {
        Operation::Put { read, write, bytes } => {
            let (a, b) = split(read, write, bytes);
            first.operation = Operation::Put { read: a.0, write: a.1, bytes: a.2 };
            second.operation = Operation::Put { read: b.0, write: b.1, bytes: b.2 };
        }
        Operation::Get { read, write, bytes } => {
            let (a, b) = split(read, write, bytes);
            first.operation = Operation::Get { read: a.0, write: a.1, bytes: a.2 };
            second.operation = Operation::Get { read: b.0, write: b.1, bytes: b.2 };
        }
        // Other commands have no local memory.
        _ => {}
    }
    (first, second)
}
