// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NICs of other hosts. Requests to them are packets, as to a NIC whose owner alone runs it, but another carrier takes them: a link
//! instead of a ring.
//!
//! ```text
//! execute ──> way to the target ─┬─ on this host: run its NIC, or a ring ([`crate::packets`])
//!                                └─ elsewhere:    [`Carrier::send`] ═══> [`hand_in`] at the owner,
//!                                                 or [`place`], the carrier fetches the payload, [`finish`]
//! ```
//!
//! An id names its host by its upper half. [`Interface::place`] tells apart what is here and what is elsewhere.
//!
//! Invariants
//! 1. The carrier is called without any NIC's lock. It may call [`hand_in`], which takes one.
//! 2. Only a NIC's own process sends its packets to other hosts. Another process of the host that runs its triggered operations leaves
//!    those to it.

use std::fmt;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

use selvedge_nic::handle::NONE;
use selvedge_nic::packet::{Packet, Place as Position, RESPONSE};
use selvedge_nic::portals::{self, Delivery, Request, fail, options};
use selvedge_nic::tables::{Command, kind};
use selvedge_nic::velo::Header;
use selvedge_nic::{Fault, NoMemory, Register};

use crate::config::Path;
use crate::direct::take_in_of;
use crate::endpoint::{Access, Endpoint, Place};
use crate::errors::PostError;
use crate::interface::{Interface, open_interface, open_interfaces};
use crate::lock::Guard;
use crate::memory::{LiveBus, Payload, Reply, gather};
use crate::owner::{Handled, TOKEN_MASK};
use crate::packet_queue::Outgoing;
use crate::packets;
use crate::segment::Segment;

/// Carries packets to and from NICs of other hosts.
pub trait Carrier: fmt::Debug + Send + Sync {
    /// Takes a packet for the NIC number `ni` of the process behind an id. Packets to one process keep their order. A response may wait
    /// for the next packet that goes there, or for the next poll. A long payload is taken out of `payload`, but not after an error.
    fn send(&self, id: u64, ni: u32, packet: &Packet, payload: &mut Vec<u8>) -> Result<(), PostError>;

    /// As [`Carrier::send`], for a payload that the program leaves where it is until the response.
    ///
    /// # Safety
    /// The bytes stay readable and unchanged until the response has come, or the process behind the id no longer answers.
    unsafe fn send_lent(&self, id: u64, ni: u32, packet: &Packet, payload: (*const u8, usize))
    -> Result<(), PostError>;

    /// Makes progress: packets that have come are given to [`hand_in`]. Cheap when nothing has come.
    fn poll(&self);

    /// Whether the process behind an id may still answer.
    fn answers(&self, id: u64) -> bool;

    /// Lets packets leave that were taken. Waits for that, but not for long.
    fn flush(&self);

    /// The program goes to sleep until something comes.
    fn rest(&self);

    /// Stops fetching payloads to memory of the NIC number `ni` of this process under the Portals process id `pid`, which is closing. When it
    /// returns, nothing is written there any more.
    fn let_go(&self, pid: u32, ni: u32);
}

/// What to do with a payload that is still in the memory of its sender, on another host.
#[derive(Clone, Copy, Debug)]
pub enum Placement {
    /// Fetch it, and hand the packet in with it.
    Whole,
    /// No byte of it is wanted: the packet was handed in.
    Nothing,
    /// No receive is posted for it. Ask again when the program has had the time to post one.
    NotYet,
    /// Fetch so many bytes of it to this memory of the program, then call [`finish`] with the number. `in_order`: not before all earlier packets
    /// of the sender are finished.
    At { start: *mut u8, bytes: usize, number: u64, in_order: bool },
}

/// The word that stands for the process of another host where this host's processes have theirs. No process here has it.
pub const ELSEWHERE: u64 = u64::MAX;

/// VELO messages from one port to a port of another host that may be unanswered: each is answered when it is in its mailbox.
pub const UNANSWERED_MAX: u32 = 64;

/// Operations that are started between polls of the carrier, if the program does not poll itself.
const STARTS_PER_POLL: u32 = 16;

/// The longest wait for the last answers of other hosts.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// The longest wait for payloads that are being fetched to memory that the program wants back.
const LAST_PAYLOADS: Duration = Duration::from_secs(1);

/// The payload of a request.
pub(crate) enum Outbound {
    Copied(Vec<u8>),
    /// The program leaves it where it is until the response: address and bytes.
    Stays(*const u8, usize),
}

impl Outbound {
    /// The bytes, for a packet that waits here.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        match self {
            Outbound::Copied(bytes) => bytes,
            // SAFETY: `outbound` found them readable, and the program leaves them so.
            Outbound::Stays(start, bytes) => unsafe { std::slice::from_raw_parts(start, bytes) }.to_vec(),
        }
    }
}

/// How a packet gets to a NIC.
#[derive(Clone, Copy)]
pub(crate) enum Way<'a> {
    /// A ring at a NIC of this host.
    Ring(&'a Endpoint),
    /// A link to another host, where the NIC behind the id is.
    Link(u64, &'a dyn Carrier),
}

impl Way<'_> {
    /// The id of the NIC.
    pub(crate) fn id(&self) -> u64 {
        match self {
            Way::Ring(target) => target.id,
            Way::Link(id, _) => *id,
        }
    }

    /// The word of the process that will answer.
    pub(crate) fn responder(&self) -> u64 {
        match self {
            Way::Ring(target) => target.owner(),
            Way::Link(..) => ELSEWHERE,
        }
    }

    /// Finds out whether the process is alive, after something went wrong.
    pub(crate) fn look_alive(&self) {
        if let Way::Ring(target) = self {
            target.look_alive();
        }
    }
}

impl Interface {
    /// The place of an id in the tables of this host's processes; large for an id of another host.
    #[inline(always)]
    pub(crate) fn place(&self, id: u64) -> u64 {
        id ^ self.host
    }

    /// Whether an id is that of another host, and packets get there.
    pub fn is_elsewhere(&self, id: u64) -> bool {
        self.config.carrier.is_some() && self.place(id) >> 32 != 0
    }

    /// How packets get to the NIC behind an id; None: it does not exist.
    pub(crate) fn way_to(&self, id: u64) -> Option<Way<'_>> {
        match self.endpoint(id) {
            Some(endpoint) => Some(Way::Ring(endpoint)),
            None => self.way_elsewhere(id),
        }
    }

    /// The way to a NIC of another host; None: it is not elsewhere, or lost.
    #[cold]
    pub(crate) fn way_elsewhere(&self, id: u64) -> Option<Way<'_>> {
        let carrier = self.config.carrier.as_deref().filter(|_| self.is_elsewhere(id))?;
        carrier.answers(id).then_some(Way::Link(id, carrier))
    }

    /// Whether a process of another host may still answer.
    pub fn answers_elsewhere(&self, id: u64) -> bool {
        self.way_elsewhere(id).is_some()
    }

    /// Sends a packet of this process. The payload may be taken, but not after an error.
    pub(crate) fn post(&self, way: Way<'_>, packet: &Packet, payload: &mut Vec<u8>) -> Result<(), PostError> {
        match way {
            Way::Ring(target) => packets::enqueue(target, &self.sender(), packet, payload),
            Way::Link(id, carrier) => {
                let packet = Packet { payload_bytes: payload.len() as u64, place: Position::Inline, ..*packet };
                carrier.send(id, self.ni(), &packet, payload)
            }
        }
    }

    /// Sends a request whose payload may stay in the program's memory.
    pub(crate) fn post_request(&self, way: Way<'_>, packet: &Packet, payload: &mut Outbound) -> Result<(), PostError> {
        match (payload, way) {
            (Outbound::Copied(bytes), way) => self.post(way, packet, bytes),
            (Outbound::Stays(start, bytes), Way::Link(id, carrier)) => {
                let packet = Packet { payload_bytes: *bytes as u64, place: Position::Inline, ..*packet };
                // SAFETY: the command says so (`options::MD_PAYLOAD_STAYS`), and its request is pending.
                unsafe { carrier.send_lent(id, self.ni(), &packet, (*start, *bytes)) }
            }
            (Outbound::Stays(..), Way::Ring(_)) => Err(PostError::NoSpace),
        }
    }

    /// The payload of a request for its way. `Err`: the memory is not mapped.
    pub(crate) fn outbound(&self, from: &Endpoint, way: Way<'_>, command: &Command) -> Result<Outbound, Fault> {
        if !command.has_payload() {
            return Ok(Outbound::Copied(Vec::new()));
        }
        let Command { source, .. } = command;
        let may_stay = matches!(way, Way::Link(..))
            && source.options & options::MD_PAYLOAD_STAYS != 0
            && source.iov == NONE
            && command.wants_response();
        if may_stay {
            if let Place::Direct(start) = from.resolve(source.start, command.length, Access::Read, self.config.path) {
                return Ok(Outbound::Stays(start, command.length as usize));
            }
        }
        gather(from, source, command.length, self.config.path).map(Outbound::Copied)
    }

    /// Whether a port of this node may send another message to a port of another host. `unanswered`: how many of its messages there had no
    /// answer when this was asked last, and what was sent since.
    pub fn may_send_elsewhere(&self, target: u64, (from, to): (u16, u16), unanswered: &mut u32) -> bool {
        if *unanswered >= UNANSWERED_MAX {
            let goes_there = |it: &&Command| {
                it.kind == kind::VELO_SEND
                    && (it.target, it.portal) == (target, u32::from(from))
                    && Header::from_word(it.match_bits).is_ok_and(|header| header.destination.vpid == to)
            };
            let guard = self.own.segment.lock(self.word);
            *unanswered = guard.pending().commands().filter(goes_there).count() as u32;
        }
        *unanswered < UNANSWERED_MAX
    }

    /// Lets packets of other hosts come in.
    #[inline(always)]
    pub(crate) fn poll_carrier(&self) {
        if self.offers.has_carrier {
            self.poll_carrier_slow();
        }
    }

    /// The same, as an operation starts. A poll costs a call to the kernel, and programs start many operations in a row.
    #[inline(always)]
    pub(crate) fn poll_carrier_at_start(&self) {
        if self.offers.has_carrier {
            let starts = self.starts.load(Relaxed).wrapping_add(1);
            self.starts.store(starts, Relaxed);
            if starts % STARTS_PER_POLL == 0 {
                self.poll_carrier_slow();
            }
        }
    }

    #[cold]
    fn poll_carrier_slow(&self) {
        if let Some(carrier) = &self.config.carrier {
            carrier.poll();
        }
    }

    /// Finds out how a process of another host is reached, before something is to be sent there by a thread that must not ask the launcher.
    #[inline(always)]
    pub fn find_elsewhere(&self, id: u64) {
        if self.offers.has_carrier && self.place(id) >> 32 != 0 {
            self.answers_elsewhere(id);
        }
    }

    /// Says that the program goes to sleep.
    pub(crate) fn rest_carrier(&self) {
        if let Some(carrier) = &self.config.carrier {
            carrier.rest();
        }
    }

    /// Repeats what fails while payloads of other hosts are being fetched to memory of this NIC's program. Waits for them, but not for long; then
    /// they are given up.
    pub fn retry_while_fetching(&self, is_done: impl Fn() -> bool) {
        let give_up = Instant::now() + LAST_PAYLOADS;
        while !is_done() {
            let Some(carrier) = &self.config.carrier else { return };
            if Instant::now() >= give_up {
                carrier.let_go(self.id() as u32, self.ni());
                is_done();
                return;
            }
            self.progress();
            std::thread::yield_now();
        }
    }

    /// Waits until processes of other hosts have answered what this NIC has asked, but not for long: a process that ends before may take
    /// requests with it that are still in the kernel's buffers.
    pub(crate) fn await_answers(&self) {
        let give_up = Instant::now() + LAST_ANSWERS;
        let waits = || {
            let guard = self.own.segment.lock(self.word);
            let mut waits = false;
            guard.pending().find(|target, responder| {
                waits |= responder == ELSEWHERE && self.place(target) >> 32 != 0;
                false
            });
            waits
        };
        while waits() && Instant::now() < give_up {
            self.progress();
            self.tick();
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// The request that a response says that it answers: its target, and how many bytes it wants. None: it is not pending.
    fn asked(&self, response: &Packet, guard: &Guard<'_>) -> Option<(u64, u64)> {
        let command = guard.pending().get(response.token & TOKEN_MASK).filter(|_| self.is_own_token(response))?;
        Some((command.target, if command.has_reply() { command.length } else { 0 }))
    }

    /// Handles a packet of another host.
    fn take_in_packet(&self, packet: &Packet, payload: &[u8], in_call: bool, is_sender: &dyn Fn(u64) -> bool) {
        self.taken_in.fetch_add(1, Relaxed);
        let own = if in_call { &self.own } else { self.as_seen_from_outside() };
        let mut guard = self.own.segment.lock(self.word);
        if packet.kind == RESPONSE && self.asked(packet, &guard).is_some_and(|(target, _)| !is_sender(target)) {
            drop(guard);
            return log::error!("a response of a process of another host was dropped: it was not asked");
        }
        // The NIC was found open, but may have been closed since: then the program's buffers are its own again.
        if self.closing.load(SeqCst) {
            drop(guard);
            return self.refuse(packet, fail::UNDELIVERABLE);
        }
        self.take_in_own_ring(own, &mut guard);
        self.hand_in_now(own, guard, packet, payload);
    }

    /// Handles a packet of another host under the lock.
    fn hand_in_now(&self, own: &Endpoint, guard: Guard<'_>, packet: &Packet, payload: &[u8]) {
        let bytes = (payload.as_ptr(), payload.len() as u64);
        match self.handle(own, guard, packet, bytes, || ()) {
            Handled::Done { fired: true } => self.drain_all(vec![&self.own]),
            Handled::Done { fired: false } => {}
            // Its senders have more messages under way than they may.
            Handled::Stays => {
                self.signals().registers.add(Register::VeloDiscarded, 1);
                self.refuse(packet, fail::DROPPED);
            }
        }
    }

    /// Says where the payload of a packet of another host goes, which matches here and now.
    fn place_packet(
        &self,
        packet: &Packet,
        in_call: bool,
        may_wait: bool,
        is_sender: &dyn Fn(u64) -> bool,
    ) -> Placement {
        let mut guard = self.own.segment.lock(self.word);
        if self.closing.load(SeqCst) {
            drop(guard);
            self.refuse(packet, fail::UNDELIVERABLE);
            return Placement::Nothing;
        }
        let own = if in_call { &self.own } else { self.as_seen_from_outside() };
        let mut at = None;
        let mut is_usable = |start: u64, bytes: u64| {
            at = match self.own.resolve(start, bytes, Access::Write, self.config.path) {
                Place::Direct(start) => Some((start, bytes as usize)),
                _ => None,
            };
            at.is_some()
        };
        let (number, in_order) = if packet.kind == RESPONSE {
            if !self.asked(packet, &guard).is_some_and(|(target, _)| is_sender(target)) {
                // It is dropped when it is handed in.
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
            // It is dropped when it is handed in.
            return Placement::Whole;
        } else {
            self.take_in_own_ring(own, &mut guard);
            match guard.target().place(&mut self.bus_of(own), &Request::from(packet), may_wait, is_usable) {
                portals::Placement::Whole => return Placement::Whole,
                portals::Placement::NotYet => return Placement::NotYet,
                portals::Placement::Nothing => {
                    self.hand_in_now(own, guard, packet, &[]);
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

    /// Ends a packet whose payload was placed: it is there, or `fail` says why it will never be.
    fn finish_packet(&self, packet: &Packet, number: u64, why: u8, is_sender: &dyn Fn(u64) -> bool) {
        self.taken_in.fetch_add(1, Relaxed);
        let mut guard = self.own.segment.lock(self.word);
        guard.signals.registers.add(Register::Packets, 1);
        let delivery = if packet.kind == RESPONSE {
            // A request that has failed meanwhile is no longer pending.
            let asked = self.asked(packet, &guard).filter(|&(target, _)| is_sender(target));
            if let Some(command) = asked.and_then(|_| guard.pending_mut().take(packet.token & TOKEN_MASK)) {
                let delivery = match why {
                    fail::OK => packet.delivery(command.length),
                    why => Delivery::failed(why),
                };
                guard.complete_response(&command, &delivery);
            }
            None
        } else {
            guard.target().finish_placed(&mut self.bus_of(&self.own), number, why)
        };
        let fired = guard.has_fired();
        drop(guard);
        if let Some(delivery) = delivery.filter(|_| packet.token != 0) {
            self.answer(packet, &delivery, Vec::new());
        }
        if fired {
            self.drain_all(vec![&self.own]);
        }
    }

    /// A bus for a request whose bytes do not pass through it.
    pub(crate) fn bus_of<'a>(&self, target: &'a Endpoint) -> LiveBus<'a> {
        LiveBus { target, payload: Payload::Nothing, reply: Reply::Nothing, path: self.config.path, asker: None }
    }

    /// Delivers what this process has sent to itself and has not dequeued: it may have come before what a packet carries.
    fn take_in_own_ring(&self, own: &Endpoint, guard: &mut Guard<'_>) {
        take_in_of(&[self.own.id], guard, own, &self.rings, self.config.path, &mut |_| {});
    }

    /// This process's NIC and memory as another process of this host would see them. The program may unmap memory while a packet is
    /// written to it by the progress thread: through the kernel that is an error, and not a crash.
    fn as_seen_from_outside(&self) -> &Endpoint {
        let seen = self.seen_from_outside.get_or_init(|| {
            let segment = Segment::open(&self.path).ok()?;
            let endpoint = Endpoint::new(segment, false, &self.config.directory);
            endpoint.reaches_all(Path::Auto).then(|| Box::new(endpoint))
        });
        seen.as_deref().unwrap_or(&self.own)
    }

    /// Answers a request that was not carried out.
    fn refuse(&self, request: &Packet, why: u8) {
        if let (Some(response), Some(way)) = (refusal(request, why), self.way_to(request.origin)) {
            if self.post(way, &response, &mut Vec::new()).is_err() {
                let (target, payload) = (request.origin, Vec::new());
                self.set_aside(Outgoing { target, packet: response, payload, answered: None });
            }
        }
    }
}

/// The response to a request that was not carried out; None: it wants none.
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

/// Gives a packet of another host to the NIC number `ni` of this process under the Portals process id `pid`. Its `origin` must be the
/// sender's id here. `in_call`: the program's call does it, and not a thread beside the program. `is_sender`: whether an id is the
/// sender's; it is called under the NIC's lock, and must not wait for anything. Returns the response to send where there is no such NIC and
/// the request wants one.
pub fn hand_in(
    pid: u32,
    ni: u32,
    packet: &Packet,
    payload: &[u8],
    in_call: bool,
    is_sender: &dyn Fn(u64) -> bool,
) -> Option<Packet> {
    match open_interface(pid, ni).filter(|interface| !interface.closing.load(SeqCst)) {
        Some(interface) => {
            interface.take_in_packet(packet, payload, in_call, is_sender);
            None
        }
        None => refusal(packet, fail::UNDELIVERABLE),
    }
}

/// Says where the payload of a packet goes that is still in the memory of its sender. `may_wait`: the caller can ask again. The other arguments
/// are those of [`hand_in`].
pub fn place(
    pid: u32,
    ni: u32,
    packet: &Packet,
    in_call: bool,
    may_wait: bool,
    is_sender: &dyn Fn(u64) -> bool,
) -> Placement {
    match open_interface(pid, ni) {
        Some(interface) => interface.place_packet(packet, in_call, may_wait, is_sender),
        // It is refused when it is handed in.
        None => Placement::Whole,
    }
}

/// Ends a packet that [`place`] has given a number. `is_there`: its payload is where it was to go; otherwise it will never be.
pub fn finish(pid: u32, ni: u32, packet: &Packet, number: u64, is_there: bool, is_sender: &dyn Fn(u64) -> bool) {
    let why = if is_there { fail::OK } else { fail::UNDELIVERABLE };
    if let Some(interface) = open_interface(pid, ni) {
        interface.finish_packet(packet, number, why, is_sender);
    }
}

/// The most payload that a response from another host may bring to the NIC number `ni` of this process under the Portals process id `pid`:
/// what was asked for.
pub fn asked_bytes(pid: u32, ni: u32, response: &Packet) -> u64 {
    let Some(interface) = open_interface(pid, ni) else { return 0 };
    let guard = interface.own.segment.lock(interface.word);
    interface.asked(response, &guard).map_or(0, |(_, bytes)| bytes)
}

/// Executes the triggered operations that other processes of this host have left to this one, because they are for other hosts.
pub fn execute_left() {
    for interface in open_interfaces() {
        if interface.bell().owner_wanted.load(Relaxed) != 0 && interface.bell().owner_wanted.swap(0, SeqCst) != 0 {
            interface.settle_here();
        }
    }
}

/// Makes the threads that wait at NICs of this process look again, because a process of another host was lost.
pub fn wake_waiters() {
    for interface in open_interfaces() {
        interface.must_tick.store(true, Relaxed);
        interface.own.segment.wake_all();
    }
}

#[cfg(test)]
mod tests;
