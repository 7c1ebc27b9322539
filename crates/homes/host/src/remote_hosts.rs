// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of other hosts at the NICs of this process. Requests to NICs of other hosts are packets, like those to a NIC
//! that only its owner runs; a home that reaches other hosts carries them ([`crate::backend::Backend`]).
//!
//! ```text
//! Interface::start ──> target ─┬─ on this host: run its NIC, or a ring ([`crate::packets`])
//!                            └─ remote:       Backend::start ═══ links ═══> [`Arrival::hand_in`] at the owner,
//!                                             or [`Arrival::place`], the links fetch the payload, [`Arrival::finish`]
//! ```
//!
//! The upper half of an id names its host.
//!
//! Invariants
//! 1. The home is called without any NIC's lock. It may hand packets in, which takes one.
//! 2. Only a NIC's own process sends its packets to other hosts. Another process of the host that runs its triggered
//!    operations leaves operations to other hosts to it.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use selvedge_nic::handle::NONE;
use selvedge_nic::packet::{Packet, Place as Position, RESPONSE};
use selvedge_nic::portals::{self, Delivery, Request, fail, options};
use selvedge_nic::tables::{Command, kind};
use selvedge_nic::velo::Header;
use selvedge_nic::{NoMemory, Register};

use crate::config::{Path, UNANSWERED_MAX};
use crate::direct::take_in_of;
use crate::endpoint::{Access, Endpoint, Place};
use crate::errors::{PostError, StartError};
use crate::interface::{Interface, open_interface, open_interfaces};
use crate::lock::Guard;
use crate::memory::{LiveBus, gather};
use crate::outbox::{Outgoing, RequestPayload};
use crate::owner::{Handled, TOKEN_MASK};
use crate::segment::Segment;

/// A packet of another host for the NIC number `ni` of this process under the Portals process id `pid`.
pub struct Arrival<'a> {
    pub pid: u32,
    pub ni: u32,
    /// Its `origin` must be the sender's id here.
    pub packet: &'a Packet,
    /// Whether the program's call handles it, not another thread.
    pub in_call: bool,
    /// Whether an id is the sender's. It is called under the NIC's lock, and must not block.
    pub is_sender: &'a dyn Fn(u64) -> bool,
}

/// The destination of a payload that is still in its sender's memory, on another host.
#[derive(Clone, Copy, Debug)]
pub enum Placement {
    /// Fetch it, and hand the packet in with it.
    Whole,
    /// Fetch nothing: the packet was handed in.
    Nothing,
    /// No receive is posted for it. Ask again after the program has had time to post one.
    NotYet,
    /// Fetch `bytes` bytes of it to this memory of the program, then call [`Arrival::finish`] with the number.
    /// `in_order`: not before all earlier packets of the sender are finished.
    At { start: *mut u8, bytes: usize, number: u64, in_order: bool },
}

/// The end of a payload that was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadEnd {
    /// It has arrived.
    Here,
    /// It will never come, and nothing is written to its place any more.
    Lost,
    /// The same, because the program has unmapped its place.
    Unmapped,
}

impl Arrival<'_> {
    /// Gives the packet to its NIC. Returns the response to send if there is no such NIC and the request wants one.
    pub fn hand_in(&self, payload: &[u8]) -> Option<Packet> {
        match open_interface(self.pid, self.ni).filter(|interface| !interface.closing.load(SeqCst)) {
            Some(interface) => {
                self.take_in(&interface, payload);
                None
            }
            None => refusal(self.packet, fail::UNDELIVERABLE),
        }
    }

    /// Returns the destination of the packet's payload. `may_wait`: the caller can ask again.
    pub fn place(&self, may_wait: bool) -> Placement {
        match open_interface(self.pid, self.ni) {
            Some(interface) => self.place_at(&interface, may_wait),
            // The packet is refused when it is handed in.
            None => Placement::Whole,
        }
    }

    /// Ends a packet that is not placed, and whose payload will never come. Returns the response to send if it is a
    /// request that wants one.
    pub fn give_up(&self) -> Option<Packet> {
        if self.packet.kind != RESPONSE {
            return refusal(self.packet, fail::UNDELIVERABLE);
        }
        let packet = &Packet { fail: fail::UNDELIVERABLE, payload_bytes: 0, ..*self.packet };
        Arrival { packet, ..*self }.hand_in(&[])
    }

    /// Ends the packet, to which [`Arrival::place`] has given a number.
    pub fn finish(&self, number: u64, end: PayloadEnd) {
        let why = match end {
            PayloadEnd::Here => fail::OK,
            PayloadEnd::Lost => fail::UNDELIVERABLE,
            PayloadEnd::Unmapped => fail::SEGV,
        };
        if let Some(interface) = open_interface(self.pid, self.ni) {
            self.finish_at(&interface, number, why);
        }
    }

    fn take_in(&self, interface: &Interface, payload: &[u8]) {
        let Arrival { packet, .. } = *self;
        interface.packets_received.fetch_add(1, Relaxed);
        let own = self.memory_of(interface);
        let mut guard = interface.own.segment.lock(interface.word);
        if packet.kind == RESPONSE && self.asked(interface, &guard).is_some_and(|(target, _)| !(self.is_sender)(target))
        {
            drop(guard);
            return log::error!("a response of a process of another host was dropped: no request asked for it");
        }
        // The NIC may have been closed since it was found open: then the program may use its buffers again.
        if interface.closing.load(SeqCst) {
            drop(guard);
            return refuse(interface, packet, fail::UNDELIVERABLE);
        }
        take_in_own_ring(interface, own, &mut guard);
        self.handle(interface, own, guard, payload);
    }

    fn handle(&self, interface: &Interface, own: &Endpoint, guard: Guard<'_>, payload: &[u8]) {
        let bytes = (payload.as_ptr(), payload.len() as u64);
        match interface.handle(own, guard, self.packet, bytes, || ()) {
            Handled::Done { fired: true } => interface.settle_here(),
            Handled::Done { fired: false } => {}
            // The sender has more unanswered messages than allowed.
            Handled::Stays => {
                interface.signals().registers.add(Register::VeloDiscarded, 1);
                refuse(interface, self.packet, fail::DROPPED);
            }
        }
    }

    /// Returns the destination of the payload of a packet that matches here and now.
    fn place_at(&self, interface: &Interface, may_wait: bool) -> Placement {
        let Arrival { packet, .. } = *self;
        let mut guard = interface.own.segment.lock(interface.word);
        if interface.closing.load(SeqCst) {
            drop(guard);
            refuse(interface, packet, fail::UNDELIVERABLE);
            return Placement::Nothing;
        }
        let own = self.memory_of(interface);
        let path = interface.config.path;
        let mut at = None;
        let mut is_usable = |start: u64, bytes: u64| {
            at = match interface.own.resolve(start, bytes, Access::Write, path) {
                Place::Direct(start) => Some((start, bytes as usize)),
                _ => None,
            };
            at.is_some()
        };
        let (number, in_order) = if packet.kind == RESPONSE {
            if !self.asked(interface, &guard).is_some_and(|(target, _)| (self.is_sender)(target)) {
                // The packet is dropped when it is handed in.
                return Placement::Whole;
            }
            let Some(command) = guard.pending().get(packet.token & TOKEN_MASK).copied() else {
                return Placement::Whole;
            };
            let bytes = packet.delivery(command.length).mlength;
            let is_placed = packet.fail == fail::OK
                && (1..=packet.payload_bytes).contains(&bytes)
                && command.sink.iov == NONE
                && guard.admits_reply(&mut NoMemory, &command)
                && is_usable(command.sink.start, bytes);
            if !is_placed {
                return Placement::Whole;
            }
            (packet.token, false)
        } else if packet.payload_bytes < packet.length {
            // The packet is dropped when it is handed in.
            return Placement::Whole;
        } else {
            take_in_own_ring(interface, own, &mut guard);
            match guard.target().place(
                &mut LiveBus::without_payload(own, path),
                &Request::from(packet),
                may_wait,
                is_usable,
            ) {
                portals::Placement::Whole => return Placement::Whole,
                portals::Placement::NotYet => return Placement::NotYet,
                portals::Placement::Nothing => {
                    self.handle(interface, own, guard, &[]);
                    return Placement::Nothing;
                }
                portals::Placement::At(placed) => (placed.header, placed.in_order),
            }
        };
        match at {
            Some((start, bytes)) => Placement::At { start, bytes, number, in_order },
            None => Placement::Whole,
        }
    }

    /// Ends the packet whose payload was placed: it has arrived, or `why` is the reason why it never will.
    fn finish_at(&self, interface: &Interface, number: u64, why: u8) {
        let Arrival { packet, .. } = *self;
        interface.packets_received.fetch_add(1, Relaxed);
        let mut guard = interface.own.segment.lock(interface.word);
        guard.signals.registers.add(Register::Packets, 1);
        let delivery = if packet.kind == RESPONSE {
            // A request that has failed meanwhile is no longer pending.
            let asked = self.asked(interface, &guard).filter(|&(target, _)| (self.is_sender)(target));
            if let Some(command) = asked.and_then(|_| guard.pending_mut().take(packet.token & TOKEN_MASK)) {
                let delivery = match why {
                    fail::OK => packet.delivery(command.length),
                    why => Delivery::failed(why),
                };
                guard.complete_response(&command, &delivery);
            }
            None
        } else {
            guard.target().finish_placed(
                &mut LiveBus::without_payload(&interface.own, interface.config.path),
                number,
                why,
            )
        };
        let fired = guard.has_fired();
        drop(guard);
        if let Some(delivery) = delivery.filter(|_| packet.token != 0) {
            interface.answer(packet, &delivery, Vec::new());
        }
        if fired {
            interface.settle_here();
        }
    }

    /// Returns the view of the memory that the packet is written to. Outside of the program's calls, this is another
    /// process's view: the program may unmap memory meanwhile, and through the kernel that is an error, not a crash.
    fn memory_of<'a>(&self, interface: &'a Interface) -> &'a Endpoint {
        if self.in_call {
            return &interface.own;
        }
        let seen = interface.seen_from_outside.get_or_init(|| {
            let segment = Segment::open(&interface.path).ok()?;
            let endpoint = Endpoint::new(segment, false, &interface.config.directory);
            endpoint.reaches_all(Path::Auto).then(|| Box::new(endpoint))
        });
        seen.as_deref().unwrap_or(&interface.own)
    }

    fn asked(&self, interface: &Interface, guard: &Guard<'_>) -> Option<(u64, u64)> {
        asked(interface, self.packet, guard)
    }
}

/// Returns target and wanted bytes of the request that a response claims to answer. None if it is not pending.
fn asked(interface: &Interface, response: &Packet, guard: &Guard<'_>) -> Option<(u64, u64)> {
    let command = guard.pending().get(response.token & TOKEN_MASK).filter(|_| interface.is_own_token(response))?;
    Some((command.target, if command.has_reply() { command.length } else { 0 }))
}

/// Delivers the messages that this process has sent to itself and has not dequeued: they may precede a packet.
fn take_in_own_ring(interface: &Interface, own: &Endpoint, guard: &mut Guard<'_>) {
    take_in_of(&[interface.own.id], guard, own, &interface.rings, interface.config.path, &mut |_| {});
}

/// Answers a request that was not carried out.
fn refuse(interface: &Interface, request: &Packet, why: u8) {
    let Some(packet) = refusal(request, why) else { return };
    match interface.post(request.origin, &packet, &mut Vec::new()) {
        Ok(()) | Err(PostError::Gone) => {}
        Err(PostError::Full | PostError::Shortage) => {
            interface.outbox.push(Outgoing { target: request.origin, packet, payload: Vec::new(), answered: None });
        }
    }
}

/// Returns the response to a request that was not carried out; None if it wants none.
fn refusal(request: &Packet, why: u8) -> Option<Packet> {
    let wants_response = request.kind != RESPONSE && request.token != 0;
    wants_response.then_some(Packet {
        kind: RESPONSE,
        fail: why,
        ack: 1,
        length: 0,
        payload_bytes: 0,
        place: Position::Inline,
        ..*request
    })
}

/// Fails a request of this process to the NICs number `ni` of another host, because its payload cannot be read any more.
/// As for a peer that is lost: with [`fail::SEGV`], which is the target's fault, senders of messages take them for sent.
pub fn fail_unreadable(request: &Packet, ni: u32) {
    if let Some(response) = refusal(request, fail::UNDELIVERABLE) {
        let own = Arrival { pid: request.origin as u32, ni, packet: &response, in_call: true, is_sender: &|_| true };
        own.hand_in(&[]);
    }
}

/// Returns the limit of a response's payload from another host, for the NIC number `ni` of this process under the
/// Portals process id `pid`: the bytes that its request wants.
pub fn asked_bytes(pid: u32, ni: u32, response: &Packet) -> u64 {
    let Some(interface) = open_interface(pid, ni) else { return 0 };
    let guard = interface.own.segment.lock(interface.word);
    asked(&interface, response, &guard).map_or(0, |(_, bytes)| bytes)
}

/// Returns the payload of a request to another host. It stays in the program's memory if the program leaves it there
/// until the response.
pub fn payload_of(interface: &Interface, command: &Command) -> Result<RequestPayload, StartError> {
    if !command.has_payload() {
        return Ok(RequestPayload::Copied(Vec::new()));
    }
    let (Command { source, .. }, own, path) = (command, &interface.own, interface.config.path);
    let may_stay = source.options & options::MD_PAYLOAD_STAYS != 0 && source.iov == NONE && command.wants_response();
    if may_stay {
        if let Place::Direct(start) = own.resolve(source.start, command.length, Access::Read, path) {
            return Ok(RequestPayload::Stays(start, command.length as usize));
        }
    }
    gather(own, source, command.length, path).map(RequestPayload::Copied).map_err(|_| StartError::Memory)
}

/// Whether a port of this node may send another VELO message to a port of another host. `unanswered`: the number of its
/// unanswered messages there at the last check, and of messages sent since.
pub fn may_send(interface: &Interface, target: u64, (from, to): (u16, u16), unanswered: &mut u32) -> bool {
    if *unanswered >= UNANSWERED_MAX {
        let goes_there = |it: &&Command| {
            it.kind == kind::VELO_SEND
                && (it.target, it.portal) == (target, u32::from(from))
                && Header::from_word(it.match_bits).is_ok_and(|header| header.destination.vpid == to)
        };
        let guard = interface.own.segment.lock(interface.word);
        *unanswered = guard.pending().commands().filter(goes_there).count() as u32;
    }
    *unanswered < UNANSWERED_MAX
}

/// Executes the triggered operations that other processes of this host have left to this one, because they are for
/// other hosts.
pub fn execute_left() {
    for interface in open_interfaces() {
        if interface.bell().owner_wanted.load(Relaxed) != 0 && interface.bell().owner_wanted.swap(0, SeqCst) != 0 {
            interface.settle_here();
        }
    }
}

/// Makes the threads that wait at NICs of this process poll again, because a process of another host was lost.
pub fn wake_waiters() {
    for interface in open_interfaces() {
        interface.must_tick.store(true, Relaxed);
        interface.own.segment.wake_all();
    }
}

#[cfg(test)]
mod tests;
