// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads, writes and atomics on others' registered memory.
//!
//! The initiator runs the target's NIC. Most operations end within the call, without the target's program. Otherwise
//! (host mode, memory out of reach) they travel as packets, and the operation ends with the last reply.
//!
//! An access whose last request has ended returns to [`Transport`](crate::Transport), as its end may send a message.

use std::collections::VecDeque;

use libc::iovec;
use selvedge_host::StartError;
use selvedge_host::direct::DirectOutcome;
use selvedge_host::{Mode, Path};
use selvedge_nic::arithmetic::Operation as Arithmetic;
use selvedge_nic::portals::{ack, fail, options};
use selvedge_nic::tables::{Command, Request, Side as Memory, kind};
use selvedge_process::settings::Settings;

use crate::bindings::Bindings;
use crate::complete::outcome_of;
use crate::error::{Fault, Refusal};
use crate::in_flight::InFlight;
use crate::own_nic::OwnNic;
use crate::pieces::{RemoteRange, each_common, gather};
use crate::ticket::{FOLLOWED, PORTAL_FETCH, PORTAL_READ, PORTAL_WRITE, REGION_PORTALS, Ticket};
use crate::transfer::{Atomic, Effect, Note, PendingAccess};

pub(crate) struct Accesses {
    /// A setting: operations never end within their calls.
    always_slow: bool,
    /// Some operation found memory out of reach of this process.
    any_out_of_reach: bool,
    /// Notifications of writes that wait for room at their targets.
    pub notes: VecDeque<(Note, Ticket)>,
}

impl Accesses {
    pub fn new(settings: &Settings) -> Accesses {
        let always_slow = settings.mode == Mode::Host || settings.path == Path::Bounce;
        Accesses { always_slow, any_out_of_reach: false, notes: VecDeque::new() }
    }

    /// Whether operations may continue after their calls return.
    pub fn is_slow(&self) -> bool {
        self.always_slow || self.any_out_of_reach
    }

    /// Launches the requests of a read or write, which run at the target's NIC or travel as packets.
    pub fn launch_transfer(
        &mut self,
        flight: &mut InFlight,
        (number, peer): (usize, u32),
        write: bool,
        pieces: &[iovec],
        remote: &[RemoteRange],
    ) -> Result<(), Fault> {
        let (kind, portal) = if write { (kind::PUT, PORTAL_WRITE) } else { (kind::GET, PORTAL_READ) };
        let mut outcome = Ok(());
        each_common(pieces, remote, |start, address, key, bytes, followed| {
            let options = options::MD_EVENT_SEND_DISABLE | options::MD_PAYLOAD_STAYS;
            let side = Memory { start, options, queue: flight.nic.own_queue, ..Memory::NOWHERE };
            let (source, sink) = if write { (side, Memory::NOWHERE) } else { (Memory::NOWHERE, side) };
            let request =
                Request { kind, portal, match_bits: key, remote_offset: address, length: bytes, ..Request::default() };
            outcome = self.launch(flight, (number, peer), (request, source, sink), followed);
            outcome.is_ok()
        });
        outcome
    }

    /// Launches the requests of an atomic operation, whose lengths fit together.
    pub fn launch_atomic(&mut self, flight: &mut InFlight, number: usize, atomic: &Atomic<'_>) -> Result<(), Fault> {
        let size = atomic.datatype.size_bytes();
        let remote_bytes: usize = atomic.remote.iter().map(|piece| piece.length).sum();
        let fetches = !atomic.results.is_empty();
        let (mut operands, mut results) = (0, 0);
        if atomic.effect != Effect::Read {
            let mut bytes = vec![0u8; remote_bytes].into_boxed_slice();
            // SAFETY: the program's pieces are readable, and the buffer is as long as their sum.
            unsafe { gather(atomic.operands, bytes.as_mut_ptr()) };
            operands = bytes.as_ptr() as u64;
            if let Some(pending) = flight.operations.access(number) {
                pending.staging.operands = Some(bytes);
            }
        }
        if fetches {
            let mut bytes = vec![0u8; remote_bytes].into_boxed_slice();
            results = bytes.as_mut_ptr() as u64;
            if let Some(pending) = flight.operations.access(number) {
                pending.staging.results = Some((bytes, atomic.results.into()));
            }
        }
        let mut comparands = Vec::new();
        let step = if let Effect::Swap(_) = atomic.effect {
            comparands.resize(remote_bytes, 0);
            // SAFETY: the program's pieces are readable, and the buffer is as long as their sum.
            unsafe { gather(atomic.comparands, comparands.as_mut_ptr()) };
            size
        } else {
            usize::MAX
        };
        let mut done = 0usize;
        for piece in atomic.remote {
            let mut at = 0;
            while at < piece.length {
                let bytes = (piece.length - at).min(step);
                let side = |start: u64| Memory {
                    start,
                    options: options::MD_EVENT_SEND_DISABLE,
                    queue: flight.nic.own_queue,
                    ..Memory::NOWHERE
                };
                let (source, sink) = (side(operands + done as u64), side(results + done as u64));
                let mut request = Request {
                    datatype: atomic.datatype as u8,
                    portal: if fetches { PORTAL_FETCH } else { PORTAL_WRITE },
                    match_bits: piece.key,
                    remote_offset: piece.offset + at as u64,
                    length: bytes as u64,
                    ..Request::default()
                };
                let (source, sink) = match (atomic.effect, fetches) {
                    (Effect::Read, _) => {
                        (request.kind, request.portal) = (kind::GET, PORTAL_READ);
                        (Memory::NOWHERE, sink)
                    }
                    (Effect::Write, false) => {
                        request.kind = kind::PUT;
                        (source, Memory::NOWHERE)
                    }
                    (Effect::Write, true) => {
                        (request.kind, request.operation) = (kind::SWAP, Arithmetic::Swap as u8);
                        (source, sink)
                    }
                    (Effect::Compute(what), false) => {
                        (request.kind, request.operation) = (kind::ATOMIC, what as u8);
                        (source, Memory::NOWHERE)
                    }
                    (Effect::Compute(what), true) => {
                        (request.kind, request.operation) = (kind::FETCH_ATOMIC, what as u8);
                        (source, sink)
                    }
                    (Effect::Swap(what), _) => {
                        (request.kind, request.operation) = (kind::SWAP, what as u8);
                        let mut operand = [0u8; 32];
                        operand[..size].copy_from_slice(&comparands[done..done + size]);
                        for (word, eight) in request.operand.iter_mut().zip(operand.chunks_exact(8)) {
                            *word = u64::from_le_bytes(eight.try_into().unwrap_or_default());
                        }
                        (source, sink)
                    }
                };
                at += bytes;
                done += bytes;
                self.launch(flight, (number, atomic.peer), (request, source, sink), done < remote_bytes)?;
            }
        }
        Ok(())
    }

    /// Launches one request of an operation; `followed` if others come after it. It is then done or in flight.
    #[inline(always)]
    fn launch(
        &mut self,
        flight: &mut InFlight,
        (number, number_of_peer): (usize, u32),
        (request, source, sink): (Request, Memory, Memory),
        followed: bool,
    ) -> Result<(), Fault> {
        let InFlight { nic, operations, peers, .. } = flight;
        let Some(peer) = peers.get(number_of_peer) else { return Err(Fault::Invalid) };
        let (target, owner) = (peer.id, peer.owner);
        let initiator = nic.interface.id() << 8 | if followed { FOLLOWED } else { 0 };
        let request = Request { ack: ack::FULL, initiator, ..request };
        let command = Command { request, target, user_ptr: number as u64, source, sink };
        match nic.interface.deliver_now(&command, owner, peer.ring()) {
            DirectOutcome::Done(delivery) => {
                nic.region_outcome((command.target, owner), command.match_bits, delivery.fail)
            }
            DirectOutcome::Full => Err(Fault::NoRoom),
            DirectOutcome::Gone => Err(Fault::PeerGone),
            DirectOutcome::Memory => Err(Fault::NotMapped),
            DirectOutcome::OutOfReach => {
                self.any_out_of_reach = true;
                if let Some(pending) = operations.access(number) {
                    pending.left += 1;
                }
                match nic.interface.start(&command) {
                    Ok(()) => {
                        peers.packet_left(number_of_peer);
                        Ok(())
                    }
                    Err(error) => {
                        if let Some(pending) = operations.access(number) {
                            pending.left -= 1;
                        }
                        Err(if error == StartError::Memory { Fault::NotMapped } else { Fault::NoRoom })
                    }
                }
            }
        }
    }

    /// The number of an endpoint's accesses that use its program's memory (to other hosts, and over the units), and of its
    /// notifications of writes that have not left.
    pub fn unfinished(&self, flight: &InFlight, bindings: *mut Bindings, has_hosts: bool) -> usize {
        let InFlight { nic, operations, peers, .. } = flight;
        let is_to_other = |peer: u32| peers.get(peer).is_some_and(|peer| peer.owner != nic.interface.word());
        let is_left = |(note, ticket): &&(Note, Ticket)| ticket.bindings == bindings && is_to_other(note.peer);
        let uses_memory = |pending: &&PendingAccess| {
            let is_lent = pending.left != 0 && has_hosts;
            (pending.over_units.is_some() || is_lent) && pending.ticket.bindings == bindings
        };
        self.notes.iter().filter(is_left).count() + operations.all_accesses().filter(uses_memory).count()
    }

    /// Removes the notifications of an endpoint that is closed, because their tickets name it.
    pub fn forget_endpoint(&mut self, bindings: *mut Bindings) {
        let waiting = self.notes.len();
        self.notes.retain(|(_, ticket)| ticket.bindings != bindings);
        if self.notes.len() != waiting {
            log::warn!("{} notifications of writes were not sent: no room at targets", waiting - self.notes.len());
        }
    }
}

impl OwnNic {
    /// The outcome that a target's reply reports. Distinguishes a wrong key from a wrong range or access right.
    pub(crate) fn region_outcome(&self, (target, owner): (u64, u64), key: u64, failed: u8) -> Result<(), Fault> {
        let has = |portal| self.interface.has_entry(target, owner, portal, key);
        let known = failed == fail::DROPPED && REGION_PORTALS.into_iter().any(has);
        outcome_of(failed, if known { Fault::NotPermitted } else { Fault::NoKey })
    }
}

impl InFlight {
    /// Records that an access has launched all requests, or one was refused. Returns whether its last has ended.
    pub fn end_launch(&mut self, number: usize, outcome: Result<(), Fault>) -> Result<bool, Refusal> {
        let Some(pending) = self.operations.access(number) else { return Ok(false) };
        if outcome == Err(Fault::NoRoom) && pending.left == 1 {
            self.operations.take_access(number);
            return Err(Refusal::NoRoom);
        }
        if outcome.is_err() {
            pending.error = outcome.err();
        }
        Ok(self.request_ended(number))
    }

    /// Handles the reply to a packet. Returns whether the last request of its access has ended.
    pub fn access_answered(&mut self, number: usize, failed: u8) -> bool {
        let Some(pending) = self.operations.access(number) else { return false };
        self.peers.packet_answered(pending.peer);
        if pending.error.is_none() {
            pending.error = outcome_of(failed, Fault::NoKey).err();
        }
        self.request_ended(number)
    }

    /// Records that a request of an access has ended. Returns whether it was the last one.
    pub fn request_ended(&mut self, number: usize) -> bool {
        let Some(pending) = self.operations.access(number) else { return false };
        pending.left -= 1;
        pending.left == 0
    }
}
