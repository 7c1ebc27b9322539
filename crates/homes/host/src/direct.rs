// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operations that complete in the call, which returns their outcome.
//!
//! If this process can run the target's NIC, the outcome is known when the operation returns. No event needs to be
//! written and read back. Messages that this process has enqueued in a ring to the same NIC are delivered first. So
//! messages between two processes stay in the order in which they were sent, whether by ring or by call.

use selvedge_nic::portals::{Delivery, Verdict, fail};
use selvedge_nic::tables::{Command, Request, kind};
use selvedge_nic::{Fault, Metered, Nic, NoMemory, Step};

use crate::config::Path;
use crate::endpoint::{Access, Endpoint, Place};
use crate::interface::Interface;
use crate::memory::{LiveBus, Payload, Reply};
use crate::packets;
use crate::rings::{Envelope, Fault as RingFault, Rings, Sender};

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectOutcome {
    /// The target's NIC has handled the request.
    Done(Delivery),
    /// This process cannot run the target's NIC, or the request must queue behind packets: use [`Interface::start`].
    OutOfReach,
    /// The target has no room for the messages that are ahead in the ring. The operation was not done.
    Full,
    /// The target's process has ended.
    Gone,
    /// The initiator's memory is not mapped. The operation was not done.
    Memory,
}

/// The outcome of a message to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForPort {
    Enqueued,
    /// There is no room now.
    Full,
    /// The ring was closed, with its port, or with its NIC. Nothing was enqueued.
    Closed,
}

impl Interface {
    /// Whether the process of this word owns the id now, and is alive.
    pub fn is_answered_by(&self, id: u64, word: u64) -> bool {
        match self.endpoint(id) {
            Some(endpoint) => endpoint.owner() == word,
            None => self.answers_remotely(id),
        }
    }

    /// Asks the kernel whether the process behind an id is alive. About 3 us.
    pub fn check_alive(&self, id: u64, word: u64) -> bool {
        match self.endpoint(id) {
            Some(endpoint) => endpoint.owner() == word && endpoint.check_alive(),
            None => self.answers_remotely(id),
        }
    }

    /// Whether this process can reach all of the memory of the process behind an id.
    pub fn reaches_all_of(&self, id: u64) -> bool {
        self.offers.runs_peers && self.endpoint(id).is_some_and(|endpoint| endpoint.reaches_all(self.config.path))
    }

    /// Whether this process may run the NICs of its peers. If not, a message that does not go through a ring could
    /// overtake messages in the ring.
    #[inline(always)]
    pub fn runs_peers(&self) -> bool {
        self.offers.runs_peers
    }

    /// Whether this process may enqueue messages in the rings of the NIC behind an id.
    pub fn reaches_rings(&self, id: u64) -> bool {
        self.backend.reaches_rings(self, id)
    }

    /// Whether this process executes its commands itself, so that a call may return the outcome.
    pub fn executes_here(&self) -> bool {
        self.offers.executes_here
    }

    /// Whether polls of the NIC's own memory find every message. If not, each poll must go through the home, which also
    /// needs its result.
    #[inline(always)]
    pub fn polls_here(&self) -> bool {
        self.offers.polls_here
    }

    /// Whether a message in a ring is visible at once.
    #[inline(always)]
    pub fn publishes_here(&self) -> bool {
        self.offers.publishes_here
    }

    /// Enqueues a message of `length` bytes in this process's ring at the NIC `target`; `fill` writes it to the given
    /// address. False: there is no room now. `turn` is as for [`Sender::enqueue`].
    #[inline(always)]
    pub fn enqueue(
        &self,
        target: u64,
        ring: &mut Sender,
        envelope: &Envelope,
        length: usize,
        turn: u32,
        fill: impl FnMut(*mut u8),
    ) -> bool {
        if self.offers.publishes_here {
            return ring.enqueue_with(envelope, length, turn, fill);
        }
        let Some(message) = ring.enqueue_unseen(envelope, length, fill) else { return false };
        self.backend.publish(self, target, ring.index(), message, length);
        true
    }

    /// Enqueues a message as [`Interface::enqueue`] does, in this process's ring for a port of the NIC `target`, and
    /// wakes the owner if it sleeps.
    #[inline(always)]
    pub fn enqueue_for_port(
        &self,
        target: u64,
        ring: &mut Sender,
        envelope: &Envelope,
        length: usize,
        turn: u32,
        fill: impl FnMut(*mut u8),
    ) -> ForPort {
        let target = self.endpoint(target).filter(|target| target.owner() == ring.nic_owner() && ring.is_open());
        let Some(target) = target else { return ForPort::Closed };
        if !ring.enqueue_with(envelope, length, turn, fill) {
            return ForPort::Full;
        }
        target.segment.ring();
        ForPort::Enqueued
    }

    /// Claims a ring for messages to a port of the NIC behind an id. None if no ring is free.
    pub fn claim_for_port(&self, id: u64, port: u16) -> Option<Sender> {
        if !self.offers.publishes_here {
            return None;
        }
        let owner = self.endpoint(id)?.owner();
        let rings = Rings::open(&self.config.directory, id, self.ni(), owner);
        let rings = rings.inspect_err(|shortage| log::warn!("messages to process {id} take a slower way: {shortage}"));
        let sender = rings.ok()??.claim_for(port, self.word, self.id())?;
        Some(self.counted(sender, id))
    }

    /// Claims a ring for messages to the NIC behind an id, among rings that were opened. None if no ring is free.
    pub fn claim_ring(&self, rings: Rings, id: u64) -> Option<Sender> {
        let sender = rings.claim(self.word, self.id())?;
        Some(self.counted(sender, id))
    }

    /// Lets a ring count its messages for the peer.
    fn counted(&self, mut sender: Sender, id: u64) -> Sender {
        if let Some(peer) = self.endpoint(id) {
            self.work_at(peer);
            sender.count_in(peer.link.get().cloned());
        }
        sender
    }

    /// Charges the program for `count` accesses to memory, if they have a price.
    #[inline(always)]
    pub fn charge_accesses(&self, count: u64) {
        if self.offers.charges_calls {
            self.backend.charge_accesses(count);
        }
    }

    /// Charges the program for a copy of `bytes` bytes in memory, if copies have a price.
    #[inline(always)]
    pub fn charge_copy(&self, bytes: u64) {
        if self.offers.charges_calls {
            self.backend.charge_copy(bytes);
        }
    }

    /// Whether a range of this process's memory is writable, from the cache of earlier checks or from the kernel.
    #[inline(always)]
    pub fn has_writable(&self, address: u64, bytes: u64) -> bool {
        crate::endpoint::own_is_writable(address, bytes)
    }

    /// Returns this process's word, which rings and locks store as its name.
    pub fn word(&self) -> u64 {
        self.word
    }

    /// Returns the number of this NIC among the NICs of its process.
    pub fn number(&self) -> u32 {
        self.ni()
    }

    /// Executes an operation at the NIC behind `command.target`, if the process `owner` owns it (0: any process). The
    /// messages in the ring are delivered first. No event is posted to the command's queues, and its counters do not
    /// change.
    pub fn deliver_now(&self, command: &Command, owner: u64, ring: Option<&Sender>) -> DirectOutcome {
        self.deliver_if(command, owner, ring, |_, _| true).unwrap_or(DirectOutcome::OutOfReach)
    }

    /// As `deliver_now`, if the priority list has a matching entry. None if it has none. Then nothing was done, unless
    /// a message in the ring consumed the entry.
    pub fn deliver_posted(&self, command: &Command, owner: u64, ring: Option<&Sender>) -> Option<DirectOutcome> {
        let Request { portal, match_bits, initiator, .. } = command.request;
        self.deliver_if(command, owner, ring, |nic, _| {
            nic.receives().has_entry(&mut NoMemory, portal, match_bits, initiator)
        })
    }

    /// As `deliver_posted`, if this process also maps the memory that the operation writes to.
    pub fn deliver_in_place(&self, command: &Command, owner: u64, ring: Option<&Sender>) -> Option<DirectOutcome> {
        let request = &command.request;
        self.deliver_if(command, owner, ring, |nic, target| {
            let receive = nic.receives().find(&mut NoMemory, request.portal, &request.into());
            receive.is_some_and(|receive| {
                let bytes = receive.length.min(request.length);
                matches!(target.resolve(receive.start, bytes, Access::Write, self.config.path), Place::Direct(_))
            })
        })
    }

    /// Delivers the messages in this process's ring at the NIC behind an id, if the process `owner` owns it and this
    /// process may run it. Messages for which there is no room stay.
    pub fn deliver_ring(&self, id: u64, owner: u64, ring: &Sender) {
        let Some(target) = self.endpoint(id).filter(|target| target.owner() == owner) else { return };
        if !self.offers.executes_here || !self.runs(target) {
            return;
        }
        let fired = {
            let mut guard = target.segment.lock(self.word);
            let _ = take_in(&mut guard, target, ring.parts(), self.config.path, &mut |_| {});
            guard.has_fired()
        };
        self.settle_at(target, fired);
    }

    #[inline(always)]
    fn deliver_if(
        &self,
        command: &Command,
        owner: u64,
        ring: Option<&Sender>,
        condition: impl Fn(&mut Nic<'_>, &Endpoint) -> bool,
    ) -> Option<DirectOutcome> {
        let Some(target) = self.endpoint(command.target).filter(|target| owner == 0 || target.owner() == owner) else {
            let is_remote = self.answers_remotely(command.target);
            return Some(if is_remote { DirectOutcome::OutOfReach } else { DirectOutcome::Gone });
        };
        if !self.offers.executes_here || !self.runs(target) {
            return Some(DirectOutcome::OutOfReach);
        }
        let mut bus = LiveBus::of(command, &self.own, target, self.config.path);
        let (outcome, fired) = {
            let mut guard = target.segment.lock(self.word);
            if !target.own && packets::wait_for(target, self.id(), self.id(), &guard) {
                return Some(DirectOutcome::OutOfReach);
            }
            if !condition(&mut guard, target) {
                return None;
            }
            let before =
                ring.map_or(Ok(0), |ring| take_in(&mut guard, target, ring.parts(), self.config.path, &mut |_| {}));
            let outcome = match before {
                Err(RingFault) => Some(DirectOutcome::Full),
                Ok(taken) if taken != 0 && !condition(&mut guard, target) => None,
                Ok(_) => Some(guard.deliver(&mut bus, &command.request).into()),
            };
            (outcome, guard.has_fired())
        };
        if let Some(DirectOutcome::Done(_)) = outcome {
            self.work_at(target).command(command.request.kind, command.request.length);
        }
        self.settle_at(target, fired);
        if outcome == Some(DirectOutcome::Gone) {
            target.check_alive();
        }
        outcome
    }

    /// Whether the NIC behind an id has an entry for these match bits on a priority list. The process `owner` must own
    /// it.
    pub fn has_entry(&self, id: u64, owner: u64, portal: u32, match_bits: u64) -> bool {
        let target = self.endpoint(id).filter(|target| target.owner() == owner);
        target.is_some_and(|target| {
            target.segment.lock(self.word).receives().has_entry(&mut NoMemory, portal, match_bits, self.id())
        })
    }

    /// Delivers a message of one of this process's own rings to its own NIC, which the caller has locked. None if there
    /// is no room now.
    pub fn deliver_own(&self, nic: &mut Nic<'_>, bytes: *const u8, request: &Request) -> Option<Delivery> {
        take_in_one(nic, &self.own, bytes, request, self.config.path, &mut |_| {})
    }
}

/// Delivers all messages in one ring of a NIC and returns their number. The caller holds the NIC's lock. `Err`: some
/// messages stay in the ring, for lack of room.
fn take_in(
    nic: &mut Nic<'_>,
    target: &Endpoint,
    (rings, index): (&Rings, usize),
    path: Path,
    meter: &mut impl FnMut(Step),
) -> Result<u64, RingFault> {
    let mut reader = rings.reader(index);
    while let Some(message) = reader.poll()? {
        let request = ring_request(&message.envelope, rings.sender(index), message.length as u64);
        let deliver = || take_in_one(nic, target, message.bytes, &request, path, meter);
        if reader.dequeue_then(&message, deliver).is_none() {
            return Err(RingFault);
        }
    }
    Ok(reader.dequeued())
}

/// Delivers the messages in the rings of a NIC that these senders have claimed, before a message that bypasses the
/// rings. Messages for which there is no room stay, and are overtaken. The caller holds the NIC's lock.
pub(crate) fn take_in_of(
    senders: &[u64],
    nic: &mut Nic<'_>,
    target: &Endpoint,
    rings: &Rings,
    path: Path,
    meter: &mut impl FnMut(Step),
) {
    let mut left = rings.claimed();
    while left != 0 {
        let index = left.trailing_zeros() as usize;
        left &= left - 1;
        if senders.contains(&rings.sender(index)) {
            let _ = take_in(nic, target, (rings, index), path, meter);
        }
    }
}

/// Delivers one message of a ring. None if there is no room, or this process cannot deliver it. Then nothing has
/// changed.
fn take_in_one(
    nic: &mut Nic<'_>,
    target: &Endpoint,
    bytes: *const u8,
    request: &Request,
    path: Path,
    meter: &mut impl FnMut(Step),
) -> Option<Delivery> {
    let bus =
        LiveBus { target, payload: Payload::Bytes(bytes, request.length), reply: Reply::Nothing, path, asker: None };
    let mut bus = Metered { bus, meter };
    let verdict = match target.own {
        true => nic.deliver_own(&mut bus, request),
        false => nic.deliver(&mut bus, request),
    };
    match verdict {
        Verdict::Done(delivery) if !matches!(delivery.fail, fail::DROPPED | fail::PT_DISABLED) => Some(delivery),
        _ => None,
    }
}

/// Returns the flags of a message in a ring: the index of the sending endpoint in its process. [`RING_HAS_DATA`] may be
/// added.
#[inline(always)]
pub fn ring_flags(endpoint: u16) -> u8 {
    (endpoint as u8) << 1
}

/// The message carries header data.
pub const RING_HAS_DATA: u8 = 1;

/// Returns the sender's name in requests: the ring gives the process, the flags give the endpoint.
#[inline(always)]
pub fn ring_source(envelope: &Envelope, sender: u64) -> u64 {
    sender << 8 | u64::from(envelope.flags >> 1)
}

/// Whether the message carries header data.
#[inline(always)]
pub fn ring_has_data(envelope: &Envelope) -> bool {
    envelope.flags & RING_HAS_DATA != 0
}

/// Converts a message of a ring into a request.
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

impl From<Verdict> for DirectOutcome {
    fn from(verdict: Verdict) -> DirectOutcome {
        match verdict {
            Verdict::Done(delivery) => DirectOutcome::Done(delivery),
            // The NIC keeps no message of a ring, because the bus of a ring names no initiator.
            Verdict::Unreachable | Verdict::Full | Verdict::Kept => DirectOutcome::OutOfReach,
            Verdict::Initiator(Fault::Gone) => DirectOutcome::Gone,
            Verdict::Initiator(_) => DirectOutcome::Memory,
        }
    }
}
