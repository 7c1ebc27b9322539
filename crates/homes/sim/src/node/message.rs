// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One message from command to counter.
//!
//! ```text
//! start ─ host ─> issue ─ engine, bus ─> inject ─ fabric ─> message_arrived ─ engine, bus, interrupts ─> deliver
//!       ─> (response back) ─> answer
//! ```
//!
//! A [`Message`] is a message and, afterwards, its response: the response reuses the record. Packets carry its index.
//!
//! The steps from the fabric to the delivery are in `arrival.rs`.

use selvedge_fabric::NodeId;
use selvedge_nic::portals::{Delivery, fail};
use selvedge_nic::tables::Command;
use selvedge_nic::{Metered, NoMemory, Register, Step};

use crate::machine::graph::{Class, Pass};
use crate::network::Packet;
use crate::time::Time;

use super::commands::Offer;
use super::credits::Credit;
use super::fabric::AnyNetwork;
use super::list_search;
use super::livelock::{Operation, Signature};
use super::ranks::{Bytes, Ranks};
use super::run::{Event, NONE, NetworkQueue, Simulation};
use super::trace::{Span, Unit};
use super::units::Way;

/// The state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Free,
    Request,
    /// A request that its target's NIC keeps, and answers later.
    Kept,
    /// An acknowledgement or a reply, on its way back.
    Response,
    /// The notification of a refusal, on its way back.
    Refusal,
    /// Credits of a mailbox, on their way to a sender.
    Credit,
}

/// A message, or its response.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub phase: Phase,
    pub ni: u32,
    /// Ranks: the initiator of the operation, and its target.
    pub from: u32,
    pub to: u32,
    /// Nodes: the sender of the request or response, and its receiver.
    pub source: u32,
    pub target: u32,
    pub command: Box<Command>,
    /// What it is: the request, then its response.
    pub class: Class,
    /// Payload of the request, then of the reply.
    pub payload: Bytes,
    pub delivery: Delivery,
    pub started: Time,
    /// When its first packet has been read from memory; once sent, when its first byte leaves the node if the fabric is
    /// free.
    pub left: Time,
    /// When its first byte arrives.
    pub head: Time,
    /// When the NIC, or in host mode the processor, has processed its header.
    pub header_done: Time,
    /// Bytes that have not been injected into the fabric.
    pub bytes_to_send: u64,
    /// Bytes of its payload, and with its frame.
    pub bytes: u64,
    pub framed_bytes: u64,
    /// Packets that have not arrived.
    pub packets_to_come: u32,
    /// The target refused it because all of its streams were in use.
    pub refused: bool,
    /// It occupies one of the target's streams.
    pub has_stream: bool,
    /// The fabric lost one of its packets.
    pub lost: bool,
    /// Its sequence number among the messages of its pair of ranks; `u64::MAX`: none.
    pub sequence: u64,
    /// How its program offers it to a host interface.
    pub offer: Offer,
    /// Its credits at its mailbox, until it is there; or those that it brings back.
    pub credit: Option<Credit>,
    /// The tree along which it goes to many nodes, or its copy has come from one; `NONE`: it is for one.
    pub cast: u32,
    /// A number for traces, which grows with each message.
    pub number: u64,
    /// Of the request, if ranks are watched.
    pub signature: Signature,
}

impl Message {
    fn none(command: Box<Command>) -> Message {
        Message {
            phase: Phase::Free,
            ni: 0,
            from: u32::MAX,
            to: u32::MAX,
            source: u32::MAX,
            target: u32::MAX,
            command,
            class: Class::Request,
            payload: Bytes::new(),
            delivery: Delivery::default(),
            started: Time::ZERO,
            left: Time::ZERO,
            head: Time::MAX,
            header_done: Time::MAX,
            bytes_to_send: 0,
            bytes: 0,
            framed_bytes: 0,
            packets_to_come: 0,
            refused: false,
            has_stream: false,
            lost: false,
            sequence: u64::MAX,
            offer: Offer::default(),
            credit: None,
            cast: NONE,
            number: 0,
            signature: Signature::NEW,
        }
    }

    /// Resets the record for a new message.
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
        self.cast = NONE;
        self.offer = Offer::default();
    }
}

/// An operation that a program has started.
pub(super) struct Started {
    /// When the program goes on.
    pub goes_on: Time,
    /// When the NIC has the command. None: when the program goes on.
    pub issued: Option<Time>,
    pub message: u32,
}

/// Bytes of a notification of the RMA unit.
const NOTIFICATION_BYTES: u64 = 16;

/// Packets of a node that may wait in its source queue; with more, the node stops reading from memory.
const AHEAD: u32 = 1;

/// In `Packet::message` the index of the message lies above its number.
pub(super) const INDEX_SHIFT: u32 = 40;
/// The bits of `Packet::message` that hold the message's number.
pub(super) const NUMBER_MASK: u64 = (1 << INDEX_SHIFT) - 1;

impl<R: Ranks> Simulation<R> {
    // ---- At the initiator ----------------------------------------------------------------------------------------

    /// Starts an operation of a program.
    pub(super) fn start(&mut self, at: Time, rank: u32, ni: u32, command: Box<Command>, payload: Bytes) -> Started {
        let bytes = payload.len() as u64;
        let in_memory = self.shares_memory(rank, command.target, ni);
        let machine = self.machine.clone();
        let path = machine.graph.path(Class::of_request(&command));
        let reads = path.reads(bytes);
        // What goes to the NIC with the command.
        let bytes = if reads { 0 } else { bytes };
        let stage = &path.issue[usize::from(reads)];
        let is_software = |pass: &&Pass| machine.graph.units[usize::from(pass.unit)].is_processor;
        let (software, rest) = stage.split_at(stage.iter().take_while(is_software).count());
        let cost = match in_memory {
            true => machine.copied(payload.len() as u64),
            false => software.iter().map(|pass| pass.latency + pass.bytes(bytes)).sum(),
        };
        let cost = self.rank_states[rank as usize].pace.step(cost);
        let message = self.new_message(at, rank, ni, command, payload);
        self.span(rank, Unit::Host, "send", at, at + cost, message);
        if in_memory || rest.is_empty() {
            return Started { goes_on: at + cost, issued: None, message };
        }
        let units = &mut self.hardware[self.nodes[rank as usize] as usize].units;
        let way = units.through(&machine.graph, rest, (at + cost, bytes), |_, _, _| ());
        Started { goes_on: way.admitted, issued: Some(way.end), message }
    }

    pub(super) fn new_message(&mut self, at: Time, from: u32, ni: u32, command: Box<Command>, payload: Bytes) -> u32 {
        self.pairs.numbers += 1;
        self.rank_states[from as usize].unanswered += 1;
        let number = self.pairs.numbers & NUMBER_MASK;
        let signature = if self.watch.is_some() { Signature::of(&command, &payload) } else { Signature::NEW };
        let Some(index) = self.free_messages.pop() else {
            let mut message = Message::none(command);
            message.begin(at, (from, ni), payload, number);
            message.signature = signature;
            self.messages.push(message);
            return self.messages.len() as u32 - 1;
        };
        let message = &mut self.messages[index as usize];
        self.ranks.recycle(std::mem::replace(&mut message.command, command));
        message.begin(at, (from, ni), payload, number);
        message.signature = signature;
        index
    }

    pub(super) fn free_message(&mut self, index: u32) {
        let message = &mut self.messages[index as usize];
        message.phase = Phase::Free;
        message.payload = Bytes::new();
        let has_credit = message.credit.is_some();
        let rank_state = &mut self.rank_states[message.from as usize];
        rank_state.unanswered = rank_state.unanswered.saturating_sub(1);
        if has_credit {
            self.free_credit(index);
        }
        self.free_messages.push(index);
    }

    /// The NIC has the command, or the response that is to be sent.
    pub(super) fn issue(&mut self, now: Time, index: u32) {
        let message = &self.messages[index as usize];
        if message.phase != Phase::Request {
            return self.emit(now, index);
        }
        let (ni, from, target) = (message.ni, message.from, message.command.target);
        let is_aggregation = message.command.is_aggregation();
        if is_aggregation && self.is_cast(from, target) {
            return self.cast(now, index);
        }
        // An aggregation node takes and answers no other messages.
        let node = if is_aggregation { self.aggregation_node(target) } else { None };
        let Some(to) = node.or_else(|| self.ranks.route(target, ni)) else {
            // No rank has, or had, this NIC.
            self.ranks.with_nic(from, ni, &mut |nic| nic.signals.registers.add(Register::Undeliverable, 1));
            self.messages[index as usize].source = self.nodes[from as usize];
            self.complete_send(now, index);
            self.messages[index as usize].delivery = Delivery::failed(fail::UNDELIVERABLE);
            return self.conclude(now, index);
        };
        self.messages[index as usize].to = to;
        if !self.messages[index as usize].command.has_reply() {
            self.watch_operation(now, index, None);
        }
        if self.pairs.needed && self.messages[index as usize].sequence == u64::MAX {
            let pair = self.pairs.pairs.entry((from, to)).or_default();
            self.messages[index as usize].sequence = pair.next_sent;
            pair.next_sent += 1;
        }
        self.emit(now, index);
    }

    /// The send engine of the node processes a message or response.
    pub(super) fn emit(&mut self, now: Time, index: u32) {
        let (from, to) = (self.sender(index), self.receiver(index));
        let (source, target) = match self.messages[index as usize].cast {
            NONE => (self.node_towards(from, to), self.node_towards(to, from)),
            _ => (self.cast_source(from), NONE),
        };
        let machine = self.machine.clone();
        let class = self.class_of(index);
        let message = &mut self.messages[index as usize];
        (message.source, message.target, message.class) = (source, target, class);
        let bytes = if message.phase == Phase::Refusal { 0 } else { message.payload.len() as u64 };
        if self.is_in_memory(index) {
            return self.emit_in_memory(now, index, bytes);
        }
        let path = machine.graph.path(class);
        let packet = u64::from(machine.network.link.packet_bytes).max(1);
        let framed = bytes + path.frame_bytes;
        let stage = &path.command[usize::from(path.reads(bytes))];
        let rank = self.sender(index);
        let done = self.through((source, rank), stage, (now, 0), (Unit::NicSend, "command", index)).end;
        let targets = self.cast_targets(self.messages[index as usize].cast);
        let message = &mut self.messages[index as usize];
        (message.bytes, message.framed_bytes) = (bytes, framed);
        message.bytes_to_send = framed;
        message.packets_to_come = match targets {
            0 if framed <= packet => 1,
            0 => framed.div_ceil(packet) as u32,
            // One at each node that it is for.
            targets => targets,
        };
        message.head = Time::MAX;
        message.header_done = Time::MAX;
        if self.keep_until_sent(source, stage, framed) && done > now {
            // What it passes next also serves the message before it, which is still being read.
            return self.queue.schedule(done, Event::Read(index));
        }
        self.read(now, done, index);
    }

    /// The pages of a message that its send engine is done with at `done` are translated, its first packet is read from memory, and
    /// it waits for its turn to leave.
    pub(super) fn read(&mut self, now: Time, done: Time, index: u32) {
        let machine = self.machine.clone();
        let message = &self.messages[index as usize];
        let (source, target, class, bytes) = (message.source, message.target, message.class, message.bytes);
        let path = machine.graph.path(class);
        let reads = path.reads(bytes);
        let packet = u64::from(machine.network.link.packet_bytes).max(1);
        let first = bytes.min(packet.saturating_sub(path.frame_bytes));
        let lookups = if class == Class::RmaPut { message.command.lookups } else { 0 };
        let done = self.translated(source, done, (u64::from(lookups & 0xffff), u64::from(lookups >> 16)));
        let ready = if reads { self.read_first(source, class, done, first) } else { done };
        let message = &mut self.messages[index as usize];
        message.left = ready;
        if source == target {
            // The target is on the same node: the NIC loops the message back.
            let last = if reads && bytes > first { self.read_on(source, class, ready, bytes - first) } else { ready };
            let hardware = &mut self.hardware[source as usize];
            hardware.looped = hardware.looped.max(last);
            let last = hardware.looped;
            let message = &mut self.messages[index as usize];
            message.head = ready;
            message.packets_to_come = 0;
            message.bytes_to_send = 0;
            if message.phase == Phase::Request {
                self.complete_send(last, index);
            }
            self.queue.schedule(last, Event::Arrived(index));
        } else if matches!(self.network, AnyNetwork::Messages(_)) {
            self.queue_departure(now, index, ready);
        } else {
            let leaving = &mut self.hardware[source as usize].leaving;
            leaving.push_back(index);
            if leaving.len() == 1 {
                self.queue.schedule(ready, Event::Inject(index));
            }
        }
    }

    /// A packet has been read: it is injected, and the next packet is read. In the model of whole messages: it is the
    /// message's turn to depart.
    pub(super) fn inject(&mut self, now: Time, index: u32) {
        let AnyNetwork::Packets(network) = &mut self.network else { return self.next_departure(now, index) };
        let machine = self.machine.clone();
        let most = u64::from(machine.network.link.packet_bytes).max(1);
        let message = &mut self.messages[index as usize];
        let (source, target) = (message.source, message.target);
        if network.waiting_at_source(NodeId(source)) > AHEAD {
            return network.notify_when_taken(NodeId(source));
        }
        let bytes = message.bytes_to_send.min(most);
        let hardware = &mut self.hardware[source as usize];
        let leaves = hardware.sent.max(now);
        hardware.sent = leaves + network.injection_time(bytes as u32);
        if message.bytes_to_send == message.framed_bytes {
            message.left = leaves;
        }
        message.bytes_to_send -= bytes;
        let left = message.bytes_to_send;
        let packet = Packet {
            from: NodeId(source),
            // On a tree each copy has its own.
            to: NodeId(if message.cast == NONE { target } else { source }),
            bytes: bytes as u32,
            message: u64::from(index) << INDEX_SHIFT | message.number,
            last: left == 0,
        };
        let request = message.phase == Phase::Request;
        match message.cast {
            NONE => network.inject(now, packet, &mut NetworkQueue(&mut self.queue)),
            tree => network.inject_cast(now, packet, tree, &mut NetworkQueue(&mut self.queue)),
        }
        if left == 0 {
            let leaving = &mut self.hardware[source as usize].leaving;
            leaving.pop_front();
            if let Some(&next) = leaving.front() {
                self.queue.schedule(self.messages[next as usize].left, Event::Inject(next));
            }
            if request {
                self.complete_send(now, index);
            }
            if self.machine.interface.is_some() {
                self.take_held(now, source);
            }
            return;
        }
        // The node reads at most one packet ahead of its injection channel.
        let free = network.injection_free_at(NodeId(source));
        let ahead = network.injection_time(most as u32);
        let class = self.messages[index as usize].class;
        let read = self.read_on(source, class, now, left.min(most));
        self.queue.schedule(read.max(free.saturating_sub(ahead)), Event::Inject(index));
    }

    /// Posts the SEND event: the payload has been read.
    pub(super) fn complete_send(&mut self, at: Time, index: u32) {
        let message = &self.messages[index as usize];
        let (command, from, ni) = (&message.command, message.from, message.ni);
        if !command.reports_send() {
            return;
        }
        self.ranks.with_nic(from, ni, &mut |nic| nic.complete_send(command, fail::OK));
        let at = match command.is_rma() {
            true => self.notify(message.source, Class::of_request(command), at),
            false => at,
        };
        self.schedule_fired(from, ni, at);
        self.wake(from, at);
    }

    /// Schedules the triggered operations of a NIC that have become due.
    pub(super) fn schedule_fired(&mut self, rank: u32, ni: u32, at: Time) {
        if self.ranks.has_fired(rank, ni) {
            self.queue.schedule(at, Event::Fire { rank, ni });
        }
    }

    // ---- Back at the initiator -----------------------------------------------------------------------------------

    /// An acknowledgement or a reply has arrived at the initiator.
    pub(super) fn answer(&mut self, now: Time, index: u32) {
        let machine = self.machine.clone();
        let message = &mut self.messages[index as usize];
        let (from, ni, target) = (message.from, message.ni, message.target);
        if !self.is_in_memory(index) && self.waits_behind(target, index) {
            return;
        }
        let message = &mut self.messages[index as usize];
        let mut at = now;
        let reply = std::mem::take(&mut message.payload);
        if message.command.has_reply() {
            self.watch_operation(now, index, Some(&reply));
        }
        let message = &mut self.messages[index as usize];
        if message.command.has_reply() && message.delivery.fail == fail::OK {
            let bytes = reply.len().min(message.delivery.mlength as usize);
            let mut is_admitted = true;
            let command = &message.command;
            let mut lookups = (0, 0);
            self.ranks.with_nic(from, ni, &mut |nic| {
                let meter = |step| match step {
                    Step::TlbHit => lookups.0 += 1,
                    Step::AddressTableRead => lookups.1 += 1,
                    _ => {}
                };
                is_admitted = nic.admits_reply(&mut Metered { bus: NoMemory, meter }, command);
            });
            at = self.translated(target, at, lookups);
            let message = &mut self.messages[index as usize];
            if !is_admitted || self.ranks.scatter(from, ni, &message.command.sink, &reply[..bytes]).is_err() {
                (message.delivery.fail, message.delivery.mlength) = (fail::SEGV, 0);
            }
        }
        if self.messages[index as usize].delivery.fail == fail::UNDELIVERABLE {
            self.ranks.with_nic(from, ni, &mut |nic| nic.signals.registers.add(Register::Undeliverable, 1));
        }
        let path = machine.graph.path(self.messages[index as usize].class);
        let received = self.received_at(from, at + path.record + path.receive, reply.len() as u64);
        self.conclude(received, index);
    }

    /// Posts the ACK or REPLY event at the initiator, and ends the message.
    pub(super) fn conclude(&mut self, at: Time, index: u32) {
        let message = &self.messages[index as usize];
        let (from, ni) = (message.from, message.ni);
        self.statistics.note(&[u64::from(from), at.0, u64::from(message.delivery.fail)]);
        if message.command.wants_response() {
            self.ranks.with_nic(from, ni, &mut |nic| nic.complete_response(&message.command, &message.delivery));
            self.schedule_fired(from, ni, at);
        }
        self.free_message(index);
        self.wake(from, at);
    }

    // ---- Triggered operations ------------------------------------------------------------------------------------

    /// Starts the triggered operations that are due, and sends the answers that are, without their program: by the NIC, or in host mode
    /// by the processor.
    pub(super) fn fire(&mut self, now: Time, rank: u32, ni: u32) {
        let machine = self.machine.clone();
        loop {
            let mut fired = None;
            self.ranks.with_nic(rank, ni, &mut |nic| {
                // A simulated NIC has no grants.
                fired = nic.triggered().next_fired(&mut NoMemory, u64::from(rank) + 1).unwrap_or(None);
                if let Some(fired) = &fired {
                    nic.triggered().finish_fired(fired.index);
                }
            });
            let Some(fired) = fired else { break };
            self.statistics.triggered += 1;
            let command = fired.command;
            let mut payload = Vec::new();
            let gathered = match command.has_payload() {
                true => self.ranks.gather(rank, ni, &command.source, command.length, &mut payload),
                false => Ok(()),
            };
            let stage = &machine.graph.path(Class::of_request(&command)).fire;
            let units = &mut self.hardware[self.nodes[rank as usize] as usize].units;
            let at = units.through(&machine.graph, stage, (now, 0), |_, _, _| ()).end;
            let index = self.new_message(at, rank, ni, Box::new(command), payload.into());
            if gathered.is_err() {
                self.messages[index as usize].delivery = Delivery::failed(fail::SEGV);
                self.conclude(at, index);
                continue;
            }
            self.queue.schedule(at, Event::Issue(index));
        }
        self.send_answers(now, rank, ni);
        self.wake(rank, now);
    }

    /// Notes an operation of a rank that has left, or one that reads and has its reply. An aggregation node only does what ranks ask for.
    fn watch_operation(&mut self, now: Time, index: u32, reply: Option<&[u8]>) {
        let is_node = self.is_aggregation_node(self.messages[index as usize].from);
        let Some(watch) = self.watch.as_mut().filter(|_| !is_node) else { return };
        let message = &self.messages[index as usize];
        let signature = reply.map_or(message.signature, |reply| message.signature.replied(reply));
        let operation = Operation::of(&message.command, message.to);
        watch.note(now, message.from, signature, operation, reply.is_some());
    }

    // ---- Units -----------------------------------------------------------------------------------------------------

    /// What a message is that its sender is about to send.
    fn class_of(&self, index: u32) -> Class {
        let message = &self.messages[index as usize];
        match message.phase {
            Phase::Refusal | Phase::Credit => Class::Response,
            Phase::Response => Class::of_response(&message.command, message.delivery.fail == fail::OK),
            Phase::Free | Phase::Request | Phase::Kept if message.cast != NONE => Class::AggregationMulticast,
            Phase::Free | Phase::Request | Phase::Kept if message.command.is_aggregation() => {
                self.aggregation_class(message.from, message.to)
            }
            Phase::Free | Phase::Request | Phase::Kept => Class::of_request(&message.command),
        }
    }

    /// A message passes the units of a stage at a node, and its spans are recorded.
    pub(super) fn through(
        &mut self,
        (node, rank): (u32, u32),
        stage: &[Pass],
        item: (Time, u64),
        (unit, name, index): (Unit, &'static str, u32),
    ) -> Way {
        let message = &self.messages[index as usize];
        let (number, bytes, place) = (message.number, message.bytes, self.nodes[rank as usize]);
        let (trace, statistics) = (&mut self.trace, &mut self.statistics);
        let served = &mut self.rank_states[rank as usize].served;
        self.hardware[node as usize].units.through(&self.machine.graph, stage, item, |pass, start, end| {
            if pass.interrupts {
                statistics.interrupts += 1;
                *served += end - start;
            }
            if trace.limit > 0 {
                let (unit, name) = if pass.interrupts { (Unit::Host, "interrupt") } else { (unit, name) };
                trace.add(Span { node: place, unit, name, start, end, message: number, bytes });
            }
        })
    }

    /// Units of a stage that keep a message until it has left the node are busy for as long as so many bytes, frame and all, need on the
    /// node's channel. That the fabric may hold them back for longer is left out: a unit's times are known when the item comes.
    /// False: the stage has no such unit.
    pub(super) fn keep_until_sent(&mut self, node: u32, stage: &[Pass], bytes: u64) -> bool {
        let mut keeps = false;
        for pass in stage.iter().filter(|pass| pass.until_sent) {
            let time = self.machine.network.message_time(bytes);
            self.hardware[node as usize].units.prolong(pass.unit, time);
            keeps = true;
        }
        keeps
    }

    /// Pages are translated one after the other: so many that are in the TLB, and that are not.
    pub(super) fn translated(&mut self, node: u32, at: Time, (hits, misses): (u64, u64)) -> Time {
        let Some(translation) = &self.machine.graph.translation else { return at };
        let units = &mut self.hardware[node as usize].units;
        let at = (0..hits).fold(at, |at, _| units.pass(&translation.hit, at, 0).1);
        (0..misses).fold(at, |at, _| units.pass(&translation.miss, at, 0).1)
    }

    /// A notification of the RMA unit passes the units of its stage.
    pub(super) fn notify(&mut self, node: u32, class: Class, at: Time) -> Time {
        let units = &mut self.hardware[node as usize].units;
        let stage = &self.machine.graph.path(class).notify;
        units.through(&self.machine.graph, stage, (at, NOTIFICATION_BYTES), |_, _, _| ()).end
    }

    /// The first packet of a payload is read from memory; gives the time at which its last byte is there.
    fn read_first(&mut self, node: u32, class: Class, at: Time, bytes: u64) -> Time {
        let machine = self.machine.clone();
        let units = &mut self.hardware[node as usize].units;
        units.through(&machine.graph, &machine.graph.path(class).read, (at, bytes), |_, _, _| ()).end
    }

    /// The next packet of a payload, or all of its rest, is read: it follows the first and pays no latency.
    fn read_on(&mut self, node: u32, class: Class, at: Time, bytes: u64) -> Time {
        let units = &mut self.hardware[node as usize].units;
        let stage = &self.machine.graph.path(class).read;
        stage.iter().fold(at, |at, pass| units.follow(pass, at, bytes))
    }

    // ---- Helpers -------------------------------------------------------------------------------------------------

    pub(super) fn sender(&self, index: u32) -> u32 {
        let message = &self.messages[index as usize];
        if message.phase == Phase::Request { message.from } else { message.to }
    }

    pub(super) fn receiver(&self, index: u32) -> u32 {
        let message = &self.messages[index as usize];
        if message.phase == Phase::Request { message.to } else { message.from }
    }

    pub(super) fn span(&mut self, rank: u32, unit: Unit, name: &'static str, start: Time, end: Time, index: u32) {
        if self.trace.limit == 0 {
            return;
        }
        let message = &self.messages[index as usize];
        let node = self.nodes[rank as usize];
        self.trace.add(Span { node, unit, name, start, end, message: message.number, bytes: message.bytes });
    }

    /// Posted receives of a rank, for the report on stuck ranks.
    pub(super) fn open_receives(&mut self, rank: u32) -> Vec<String> {
        let mut receives = Vec::new();
        for ni in 0..=8 {
            self.ranks.with_nic(rank, ni, &mut |nic| receives.extend(list_search::posted_receives(nic)));
        }
        receives.truncate(8);
        receives
    }
}
