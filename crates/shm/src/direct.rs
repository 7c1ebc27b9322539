// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An operation done at once, whose outcome is the result of the call.
//!
//! Where a target's NIC can be run from here, its answer is known when the operation returns: there is no need to write
//! an event and read it again. What this process left in a ring to the same NIC goes first, so that the order of
//! messages between two processes is that in which they were sent, whichever way each went.

use selvedge_nic::portals::{Delivery, Verdict, fail};
use selvedge_nic::tables::{Command, Request, kind};
use selvedge_nic::{Fault, Nic, NoMemory};
use std::sync::atomic::Ordering::Relaxed;

use crate::Mode;
use crate::endpoint::{Access, Endpoint, Place};
use crate::interface::Interface;
use crate::memory::{LiveBus, Payload, Reply};
use crate::rings::{Envelope, Fault as RingFault, Rings, Sender};

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The target's answer.
    Done(Delivery),
    /// It cannot be done from here, or must queue behind packets: [`Interface::start`] does it.
    Elsewhere,
    /// The target has no room for what lies in the ring before it. Nothing was done.
    Full,
    /// The target's process is not there.
    Gone,
    /// The initiator's memory is not mapped. Nothing was done.
    Memory,
}

impl Interface {
    /// Whether the process of this word answers for the id now, and lives.
    pub fn is_answered_by(&self, id: u64, word: u64) -> bool {
        self.endpoint(id).is_some_and(|endpoint| endpoint.owner() == word)
    }

    /// Asks whether the process behind an id lives. About 3 us.
    pub fn look_alive(&self, id: u64, word: u64) -> bool {
        self.endpoint(id).is_some_and(|endpoint| endpoint.owner() == word && endpoint.look_alive())
    }

    /// Whether the memory of the process behind an id can be reached from here, wherever it lies.
    pub fn reaches_all_of(&self, id: u64) -> bool {
        self.clock.is_none()
            && self.config.mode == Mode::Nic
            && self.endpoint(id).is_some_and(|endpoint| endpoint.reaches_all(self.config.path))
    }

    /// Whether a range of our own memory can be written, as far as is known or the kernel says.
    #[inline(always)]
    pub fn has_writable(&self, address: u64, bytes: u64) -> bool {
        crate::endpoint::own_is_writable(address, bytes)
    }

    /// This process's word, as rings and locks name it.
    pub fn word(&self) -> u64 {
        self.word
    }

    /// The number of this NIC among those of its process.
    pub fn number(&self) -> u32 {
        self.ni()
    }

    /// Does an operation at the NIC of the process `owner` (0: whichever) behind `command.target`, after what lies in the ring. The
    /// command's queues and counters are told nothing.
    pub fn deliver_now(&self, command: &Command, owner: u64, ring: Option<&Sender>) -> Told {
        self.deliver_if(command, owner, ring, |_, _| true).unwrap_or(Told::Elsewhere)
    }

    /// The same, if an entry of the priority list is there for it. None: there is not, and nothing was done unless what lay in
    /// the ring took it.
    pub fn deliver_posted(&self, command: &Command, owner: u64, ring: Option<&Sender>) -> Option<Told> {
        let Request { portal, match_bits, initiator, .. } = command.request;
        self.deliver_if(command, owner, ring, |nic, _| nic.has_entry(&mut NoMemory, portal, match_bits, initiator))
    }

    /// The same, if moreover the memory that it would be written to is in place from here.
    pub fn deliver_in_place(&self, command: &Command, owner: u64, ring: Option<&Sender>) -> Option<Told> {
        let request = &command.request;
        self.deliver_if(command, owner, ring, |nic, target| {
            let receive = nic.find_receive(&mut NoMemory, request.portal, &request.into());
            receive.is_some_and(|receive| {
                let bytes = receive.length.min(request.length);
                matches!(target.resolve(receive.start, bytes, Access::Write, self.config.path), Place::Direct(_))
            })
        })
    }

    #[inline(always)]
    fn deliver_if(
        &self,
        command: &Command,
        owner: u64,
        ring: Option<&Sender>,
        condition: impl Fn(&mut Nic<'_>, &Endpoint) -> bool,
    ) -> Option<Told> {
        let Some(target) = self.endpoint(command.target).filter(|target| owner == 0 || target.owner() == owner) else {
            return Some(Told::Gone);
        };
        if self.clock.is_some() || (!target.own && self.config.mode != Mode::Nic) {
            return Some(Told::Elsewhere);
        }
        let mut bus = LiveBus::of(command, &self.own, target, self.config.path);
        let (told, fired) = {
            let mut guard = target.segment.lock(self.word);
            let bell = guard.signals.doorbell;
            if !target.own && bell.mail_tail.load(Relaxed) != bell.mail_head.load(Relaxed) {
                return Some(Told::Elsewhere);
            }
            if !condition(&mut guard, target) {
                return None;
            }
            let before = ring.map_or(Ok(0), |ring| {
                let (rings, index) = ring.parts();
                self.take_in(&mut guard, target, rings, index)
            });
            let told = match before {
                Err(RingFault) => Some(Told::Full),
                Ok(taken) if taken != 0 && !condition(&mut guard, target) => None,
                Ok(_) => Some(guard.deliver(&mut bus, &command.request).into()),
            };
            (told, guard.has_fired())
        };
        self.settle_at(target, fired);
        if told == Some(Told::Gone) {
            target.look_alive();
        }
        told
    }

    /// Whether the NIC of the process `owner` behind an id has an entry for these bits on a priority list.
    pub fn has_entry(&self, id: u64, owner: u64, portal: u32, match_bits: u64) -> bool {
        let target = self.endpoint(id).filter(|target| target.owner() == owner);
        target.is_some_and(|target| {
            target.segment.lock(self.word).has_entry(&mut NoMemory, portal, match_bits, self.id())
        })
    }

    /// Takes in everything that lies in one ring of a NIC, by whoever holds its lock; gives how much. `Err`: not all, for lack of room.
    fn take_in(&self, nic: &mut Nic<'_>, target: &Endpoint, rings: &Rings, index: usize) -> Result<u64, RingFault> {
        let mut reader = rings.reader(index);
        while let Some(message) = reader.poll()? {
            let request = ring_request(&message.envelope, rings.sender(index), message.length as u64);
            if self.take_in_one(nic, target, message.bytes, &request).is_none() {
                return Err(RingFault);
            }
            reader.dequeue(&message);
        }
        Ok(reader.dequeued())
    }

    /// Delivers one message of a ring. None: there is no room, or not from here; nothing has happened.
    fn take_in_one(
        &self,
        nic: &mut Nic<'_>,
        target: &Endpoint,
        bytes: *const u8,
        request: &Request,
    ) -> Option<Delivery> {
        let payload = Payload::Bytes(bytes, request.length);
        let mut bus = LiveBus { target, payload, reply: Reply::Nothing, path: self.config.path };
        let verdict = match target.own {
            true => nic.deliver_own(&mut bus, request),
            false => nic.deliver(&mut bus, request),
        };
        match verdict {
            Verdict::Done(delivery) if !matches!(delivery.fail, fail::DROPPED | fail::PT_DISABLED) => Some(delivery),
            _ => None,
        }
    }

    /// Delivers a message of one of this process's own rings to its own NIC, which the caller has locked. None: there is
    /// no room for it now.
    pub fn deliver_own(&self, nic: &mut Nic<'_>, bytes: *const u8, request: &Request) -> Option<Delivery> {
        self.take_in_one(nic, &self.own, bytes, request)
    }
}

/// The flags of a message in a ring: which of its process's endpoints sends it; [`RING_HAS_DATA`] may join them.
#[inline(always)]
pub fn ring_flags(endpoint: u16) -> u8 {
    (endpoint as u8) << 1
}

/// The header data mean something.
pub const RING_HAS_DATA: u8 = 1;

/// The sender's name in requests: the ring knows the process, the flags the rest.
#[inline(always)]
pub fn ring_source(envelope: &Envelope, sender: u64) -> u64 {
    sender << 8 | u64::from(envelope.flags >> 1)
}

/// Whether the header data mean something.
#[inline(always)]
pub fn ring_has_data(envelope: &Envelope) -> bool {
    envelope.flags & RING_HAS_DATA != 0
}

/// A message of a ring, as a request.
pub fn ring_request(envelope: &Envelope, sender: u64, length: u64) -> Request {
    Request {
        kind: kind::PUT,
        portal: envelope.portal.into(),
        uid: ring_has_data(envelope).into(),
        initiator: ring_source(envelope, sender),
        match_bits: envelope.match_bits,
        header_data: envelope.header_data,
        length,
        ..Request::default()
    }
}

impl From<Verdict> for Told {
    fn from(verdict: Verdict) -> Told {
        match verdict {
            Verdict::Done(delivery) => Told::Done(delivery),
            Verdict::Unreachable => Told::Elsewhere,
            Verdict::Initiator(Fault::Gone) => Told::Gone,
            Verdict::Initiator(_) => Told::Memory,
        }
    }
}
