// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One message from command to counter.
//!
//! ```text
//! start ─ host ─> issue ─ engine, bus ─> inject ─ fabric ─> landed ─ engine, bus, interrupts ─> deliver ─> (answer back) ─> answer
//! ```
//!
//! A [`Flight`] is a message and, afterwards, its response: the same record turns round. Its number is what packets carry.
//!
//! What happens from the fabric to the delivery is in `arrival.rs`.

use selvedge_fabric::NodeId;
use selvedge_nic::NoMemory;
use selvedge_nic::Register;
use selvedge_nic::portals::{Delivery, fail};
use selvedge_nic::tables::{Command, kind};

use crate::machine::Mode;
use crate::network::Packet;
use crate::time::Time;

use super::fabric::Fabric;
use super::ranks::{Bytes, Ranks};
use super::run::{Event, NetworkQueue, Simulation};
use super::station::Engine;
use super::trace::{Span, Unit};
use super::walk;

/// What a flight is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Free,
    Request,
    /// An acknowledgement or a reply, on its way back.
    Response,
    /// Word of a refusal, on its way back.
    Refusal,
}

/// A message.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub phase: Phase,
    pub ni: u32,
    /// Ranks: whose operation it is, and whose memory it is about.
    pub from: u32,
    pub to: u32,
    /// Nodes: where it is sent from now, and where to.
    pub source: u32,
    pub target: u32,
    pub command: Box<Command>,
    /// Of the request, then of the reply.
    pub payload: Bytes,
    pub delivery: Delivery,
    pub started: Time,
    /// When the first packet of what is on its way was read, then when its first byte left, but for what is in its way
    /// in the fabric; and when that arrived.
    pub left: Time,
    pub head: Time,
    /// When the NIC, or in host mode the processor, has dealt with its header.
    pub header_done: Time,
    /// Bytes that have not been handed to the fabric; packets that have not arrived.
    pub bytes_to_send: u64,
    pub bytes: u64,
    pub packets_to_come: u32,
    pub refused: bool,
    pub has_stream: bool,
    pub lost: bool,
    /// Its place among the messages of its pair.
    pub sequence: u64,
    /// A number for traces: grows with each message.
    pub number: u64,
}

impl Flight {
    fn none(command: Box<Command>) -> Flight {
        Flight {
            phase: Phase::Free,
            ni: 0,
            from: u32::MAX,
            to: u32::MAX,
            source: u32::MAX,
            target: u32::MAX,
            command,
            payload: Bytes::new(),
            delivery: Delivery::default(),
            started: Time::ZERO,
            left: Time::ZERO,
            head: Time::MAX,
            header_done: Time::MAX,
            bytes_to_send: 0,
            bytes: 0,
            packets_to_come: 0,
            refused: false,
            has_stream: false,
            lost: false,
            sequence: u64::MAX,
            number: 0,
        }
    }

    /// It is a message of its command from now on.
    fn begin(&mut self, at: Time, (from, ni): (u32, u32), payload: Bytes, number: u64) {
        (self.phase, self.from, self.ni, self.number) = (Phase::Request, from, ni, number);
        (self.to, self.source, self.target) = (u32::MAX, u32::MAX, u32::MAX);
        self.bytes = payload.len() as u64;
        self.payload = payload;
        self.delivery = Delivery::default();
        (self.started, self.left, self.head, self.header_done) = (at, at, Time::MAX, Time::MAX);
        (self.bytes_to_send, self.packets_to_come) = (0, 0);
        (self.refused, self.has_stream, self.lost) = (false, false, false);
        self.sequence = u64::MAX;
    }
}

/// Packets of a node that may wait for the fabric; it reads no more while they do.
const AHEAD: u32 = 1;

/// Packets carry the flight's index above its number.
pub(super) const INDEX_SHIFT: u32 = 40;
/// The number of a message in what packets carry.
pub(super) const NUMBER_MASK: u64 = (1 << INDEX_SHIFT) - 1;

impl<R: Ranks> Simulation<R> {
    // ---- At the initiator ----------------------------------------------------------------------------------------

    /// A program's operation. Gives when the program goes on, which is when the NIC has the command.
    pub(super) fn start(&mut self, at: Time, rank: u32, ni: u32, command: Box<Command>, payload: Bytes) -> (Time, u32) {
        let cost = self.machine.issue(payload.len() as u64);
        let flight = self.new_flight(at, rank, ni, command, payload);
        self.span(rank, Unit::Host, "send", at, at + cost, flight);
        (at + cost, flight)
    }

    fn new_flight(&mut self, at: Time, from: u32, ni: u32, command: Box<Command>, payload: Bytes) -> u32 {
        self.pairs.numbers += 1;
        self.members[from as usize].unanswered += 1;
        let number = self.pairs.numbers & NUMBER_MASK;
        let Some(index) = self.free_flights.pop() else {
            let mut flight = Flight::none(command);
            flight.begin(at, (from, ni), payload, number);
            self.flights.push(flight);
            return self.flights.len() as u32 - 1;
        };
        let flight = &mut self.flights[index as usize];
        self.ranks.recycle(std::mem::replace(&mut flight.command, command));
        flight.begin(at, (from, ni), payload, number);
        index
    }

    pub(super) fn free_flight(&mut self, index: u32) {
        let flight = &mut self.flights[index as usize];
        flight.phase = Phase::Free;
        flight.payload = Bytes::new();
        let member = &mut self.members[flight.from as usize];
        member.unanswered = member.unanswered.saturating_sub(1);
        self.free_flights.push(index);
    }

    /// The NIC has the command, or what is to be answered.
    pub(super) fn issue(&mut self, now: Time, index: u32) {
        let flight = &self.flights[index as usize];
        if flight.phase != Phase::Request {
            return self.emit(now, index);
        }
        let (ni, from, target) = (flight.ni, flight.from, flight.command.target);
        let Some(to) = self.ranks.route(target, ni) else {
            // There never was such a NIC.
            self.ranks.with_nic(from, ni, &mut |nic| nic.signals.registers.add(Register::Undeliverable, 1));
            self.told_of_sending(now, index);
            self.flights[index as usize].delivery = Delivery::failed(fail::UNDELIVERABLE);
            return self.conclude(now, index);
        };
        self.flights[index as usize].to = to;
        if self.pairs.needed && self.flights[index as usize].sequence == u64::MAX {
            let pair = self.pairs.pairs.entry((from, to)).or_default();
            self.flights[index as usize].sequence = pair.next_sent;
            pair.next_sent += 1;
        }
        self.emit(now, index);
    }

    /// A node's engine takes what is to be sent, and the first packet is read.
    pub(super) fn emit(&mut self, now: Time, index: u32) {
        let (source, target) = (self.nodes[self.sender(index) as usize], self.nodes[self.receiver(index) as usize]);
        let machine = self.machine.clone();
        let flight = &mut self.flights[index as usize];
        (flight.source, flight.target) = (source, target);
        let bytes = if flight.phase == Phase::Refusal { 0 } else { flight.payload.len() as u64 };
        let transfers = bytes > machine.host.pio_bytes_max;
        let command = if machine.nic.mode == Mode::Nic { machine.nic.command } else { Time::ZERO };
        let cost = command + if transfers { machine.nic.transfer } else { Time::ZERO };
        let packet = u64::from(machine.network.link.packet_bytes).max(1);
        let station = &mut self.stations[source as usize];
        let (start, done) = station.work(&machine, Engine::Send, now, cost);
        let first = bytes.min(packet);
        let ready = if transfers { station.read(&machine, done + machine.host.dma_read, first) } else { done };
        let rank = self.sender(index);
        self.span(rank, Unit::NicSend, "command", start, done, index);
        let flight = &mut self.flights[index as usize];
        flight.bytes = bytes;
        flight.bytes_to_send = bytes;
        flight.packets_to_come = if bytes <= packet { 1 } else { bytes.div_ceil(packet) as u32 };
        flight.head = Time::MAX;
        flight.header_done = Time::MAX;
        flight.left = ready;
        if source == target {
            // It never leaves the node: the NIC turns it round.
            let last = if transfers && bytes > first {
                self.stations[source as usize].read(&machine, ready, bytes - first)
            } else {
                ready
            };
            let station = &mut self.stations[source as usize];
            station.looped = station.looped.max(last);
            let last = station.looped;
            let flight = &mut self.flights[index as usize];
            flight.head = ready;
            flight.packets_to_come = 0;
            flight.bytes_to_send = 0;
            if flight.phase == Phase::Request {
                self.told_of_sending(last, index);
            }
            self.queue.schedule(last, Event::Landed(index));
        } else if matches!(self.network, Fabric::Messages(_)) {
            self.line_up(now, index, ready);
        } else {
            let leaving = &mut self.stations[source as usize].leaving;
            leaving.push_back(index);
            if leaving.len() == 1 {
                self.queue.schedule(ready, Event::Inject(index));
            }
        }
    }

    /// A packet has been read: it goes to the fabric, and the next is read. Where messages cross it as wholes: it is its turn.
    pub(super) fn inject(&mut self, now: Time, index: u32) {
        let Fabric::Packets(network) = &mut self.network else { return self.leave_line(now, index) };
        let machine = self.machine.clone();
        let most = u64::from(machine.network.link.packet_bytes).max(1);
        let flight = &mut self.flights[index as usize];
        let (source, target) = (flight.source, flight.target);
        if network.waiting_at_source(NodeId(source)) > AHEAD {
            return network.notify_when_taken(NodeId(source));
        }
        let bytes = flight.bytes_to_send.min(most);
        let station = &mut self.stations[source as usize];
        let leaves = station.sent.max(now);
        station.sent = leaves + network.injection_time(bytes as u32);
        if flight.bytes_to_send == flight.bytes {
            flight.left = leaves;
        }
        flight.bytes_to_send -= bytes;
        let left = flight.bytes_to_send;
        let packet = Packet {
            from: NodeId(source),
            to: NodeId(target),
            bytes: bytes as u32,
            message: u64::from(index) << INDEX_SHIFT | flight.number,
            last: left == 0,
        };
        let request = flight.phase == Phase::Request;
        network.inject(now, packet, &mut NetworkQueue(&mut self.queue));
        if left == 0 {
            let leaving = &mut self.stations[source as usize].leaving;
            leaving.pop_front();
            if let Some(&next) = leaving.front() {
                self.queue.schedule(self.flights[next as usize].left, Event::Inject(next));
            }
            if request {
                self.told_of_sending(now, index);
            }
            return;
        }
        // No further ahead of the fabric than it takes packets.
        let read = self.stations[source as usize].read(&machine, now, left.min(most));
        let free = network.injection_free_at(NodeId(source));
        let ahead = network.injection_time(most as u32);
        self.queue.schedule(read.max(free.saturating_sub(ahead)), Event::Inject(index));
    }

    /// SEND: the payload has been read.
    pub(super) fn told_of_sending(&mut self, at: Time, index: u32) {
        let flight = &self.flights[index as usize];
        let (command, from, ni) = (&flight.command, flight.from, flight.ni);
        if command.kind == kind::GET || !command.tells_initiator() {
            return;
        }
        self.ranks.with_nic(from, ni, &mut |nic| nic.complete_send(command, fail::OK));
        self.fire_what_is_due(from, ni, at);
        self.wake(from, at);
    }

    /// Triggered operations that a change of a NIC has made due leave at `at`.
    pub(super) fn fire_what_is_due(&mut self, rank: u32, ni: u32, at: Time) {
        if self.ranks.has_fired(rank, ni) {
            self.queue.schedule(at, Event::Fire { rank, ni });
        }
    }

    // ---- Back at the initiator -----------------------------------------------------------------------------------

    /// ACK or REPLY.
    pub(super) fn answer(&mut self, now: Time, index: u32) {
        let machine = self.machine.clone();
        let flight = &mut self.flights[index as usize];
        let (from, ni) = (flight.from, flight.ni);
        let reply = std::mem::take(&mut flight.payload);
        if !matches!(flight.command.kind, kind::PUT | kind::ATOMIC) && flight.delivery.fail == fail::OK {
            let bytes = reply.len().min(flight.delivery.mlength as usize);
            if self.ranks.scatter(from, ni, &flight.command.sink, &reply[..bytes]).is_err() {
                (flight.delivery.fail, flight.delivery.mlength) = (fail::SEGV, 0);
            }
        }
        if self.flights[index as usize].delivery.fail == fail::UNDELIVERABLE {
            self.ranks.with_nic(from, ni, &mut |nic| nic.signals.registers.add(Register::Undeliverable, 1));
        }
        let event = machine.nic.event.max(machine.nic.counter);
        self.conclude(now + event, index);
    }

    /// The initiator is told, and the flight is over.
    pub(super) fn conclude(&mut self, at: Time, index: u32) {
        let flight = &self.flights[index as usize];
        let (from, ni) = (flight.from, flight.ni);
        self.statistics.note(&[u64::from(from), at.0, u64::from(flight.delivery.fail)]);
        if flight.command.wants_response() {
            self.ranks.with_nic(from, ni, &mut |nic| nic.complete_response(&flight.command, &flight.delivery));
            self.fire_what_is_due(from, ni, at);
        }
        self.free_flight(index);
        self.wake(from, at);
    }

    // ---- Triggered operations ------------------------------------------------------------------------------------

    /// Operations that are due leave, without their program: from the NIC, or in host mode from the processor.
    pub(super) fn fire(&mut self, now: Time, rank: u32, ni: u32) {
        let machine = self.machine.clone();
        loop {
            let mut fired = None;
            self.ranks.with_nic(rank, ni, &mut |nic| {
                fired = nic.next_fired(&mut NoMemory, u64::from(rank) + 1);
                if let Some(fired) = &fired {
                    nic.finish_fired(fired.index);
                }
            });
            let Some(fired) = fired else { break };
            self.statistics.triggered += 1;
            let command = fired.command;
            let mut payload = Vec::new();
            let gathered = match command.kind {
                kind::GET => Ok(()),
                _ => self.ranks.gather(rank, ni, &command.source, command.length, &mut payload),
            };
            let at = match machine.nic.mode {
                Mode::Nic => now,
                Mode::Host => {
                    let station = &mut self.stations[self.nodes[rank as usize] as usize];
                    station.serve(now, machine.nic.command).1 + machine.host.doorbell
                }
            };
            let index = self.new_flight(at, rank, ni, Box::new(command), payload.into());
            if gathered.is_err() {
                self.flights[index as usize].delivery = Delivery::failed(fail::SEGV);
                self.conclude(at, index);
                continue;
            }
            self.queue.schedule(at, Event::Issue(index));
        }
        self.wake(rank, now);
    }

    // ---- Helpers -------------------------------------------------------------------------------------------------

    pub(super) fn sender(&self, index: u32) -> u32 {
        let flight = &self.flights[index as usize];
        if flight.phase == Phase::Request { flight.from } else { flight.to }
    }

    pub(super) fn receiver(&self, index: u32) -> u32 {
        let flight = &self.flights[index as usize];
        if flight.phase == Phase::Request { flight.to } else { flight.from }
    }

    pub(super) fn span(&mut self, rank: u32, unit: Unit, name: &'static str, start: Time, end: Time, index: u32) {
        if self.trace.limit == 0 {
            return;
        }
        let flight = &self.flights[index as usize];
        let node = self.nodes[rank as usize];
        self.trace.add(Span { node, unit, name, start, end, message: flight.number, bytes: flight.bytes });
    }

    /// Entries of a rank's priority lists, for a report on who is stuck.
    pub(super) fn open_receives(&mut self, rank: u32) -> Vec<String> {
        let mut receives = Vec::new();
        for ni in 0..=8 {
            self.ranks.with_nic(rank, ni, &mut |nic| receives.extend(walk::receives(nic)));
        }
        receives.truncate(8);
        receives
    }
}
