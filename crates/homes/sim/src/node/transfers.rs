// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages between nodes, from the NIC that sends to the fabric.
//!
//! ```text
//! start ─ host ─> issue ─ engine, bus ─> inject ─ fabric ─> message_arrived ─ engine, bus, interrupts ─> deliver
//!       ─> (response back) ─> answer
//! ```
//!
//! | file | steps |
//! |---|---|
//! | this one | `start` to `inject` |
//! | `departure` | a message departs as a whole, in the model of whole messages |
//! | `arrival` | from the fabric to the delivery |
//! | `delivery` | `deliver` and `answer`; full mailboxes that have room again |
//! | `commands` | before `issue`, on a machine with a host interface |

use selvedge_nic::Register;
use selvedge_nic::portals::{Delivery, fail};
use selvedge_nic::tables::Command;

use crate::congestion::Header;
use crate::machine::graph::{Class, Pass};
use crate::network::Packet;
use crate::time::Time;

use super::events::Event;
use super::fabric::Fabric;
use super::livelock::Operation;
use super::message::{NONE, Phase};
use super::nodes::Nodes;
use super::order::PairOrder;
use super::rails::{Way, choose, queue_of, way};
use super::ranks::{Bytes, Ranks};
use super::switches::Switches;
use super::trace::Unit;

/// The nodes, and the fabric and switches that carry messages between them.
pub(super) struct Transfers<R> {
    pub nodes: Nodes<R>,
    pub fabric: Fabric,
    pub order: PairOrder,
    pub switches: Switches,
}

pub(super) struct Started {
    pub goes_on: Time,
    /// Time at which the NIC has the command. `None`: when the program continues.
    pub issued: Option<Time>,
    pub message: u32,
}

/// Packets of a node that may wait in its source queue; with more, the node stops reading from memory.
const AHEAD: u32 = 1;

impl<R: Ranks> Transfers<R> {
    /// Whether a rank's message to a NIC or an aggregation node does not leave the memory of its node.
    pub fn stays_in_memory(&mut self, rank: u32, target: u64, ni: u32) -> bool {
        self.switches.is_own_host(&self.nodes, rank, target) || self.nodes.shares_memory(rank, target, ni)
    }

    pub fn start(&mut self, at: Time, rank: u32, ni: u32, command: Box<Command>, payload: Bytes) -> Started {
        let bytes = payload.len() as u64;
        let in_memory = self.stays_in_memory(rank, command.target, ni);
        let nodes = &mut self.nodes;
        let machine = nodes.machine.clone();
        let path = machine.graph.path(Class::of_request(&command));
        let reads = path.reads(bytes);
        // Bytes that go to the NIC with the command.
        let bytes = if reads { 0 } else { bytes };
        let stage = &path.issue[usize::from(reads)];
        let is_software = |pass: &&Pass| machine.graph.units[usize::from(pass.unit)].is_processor;
        let (software, rest) = stage.split_at(stage.iter().take_while(is_software).count());
        let cost = match in_memory {
            true => machine.copied(payload.len() as u64),
            false => software.iter().map(|pass| pass.latency + pass.bytes(bytes)).sum(),
        };
        let cost = nodes.rank_states[rank].pace.step(cost);
        let message = nodes.new_message(at, rank, ni, command, payload);
        nodes.span(rank, Unit::Host, "send", at, at + cost, message);
        if in_memory || rest.is_empty() {
            return Started { goes_on: at + cost, issued: None, message };
        }
        let passage = nodes.units_of(rank).through(&machine.graph, rest, (at + cost, bytes), |_, _, _| ());
        Started { goes_on: passage.admitted, issued: Some(passage.end), message }
    }

    /// Handles a command that the NIC has, or a response to be sent.
    pub fn issue(&mut self, now: Time, index: u32) {
        let nodes = &mut self.nodes;
        let message = &nodes.messages[index];
        if message.phase != Phase::Request {
            return self.emit(now, index);
        }
        let (ni, from, target) = (message.ni, message.from, message.command.target);
        let is_aggregation = message.command.is_aggregation();
        if is_aggregation && self.switches.is_cast(from, target) {
            return self.cast(now, index);
        }
        // An aggregation node accepts and answers no other messages.
        let node = if is_aggregation { self.switches.node_at(target) } else { None };
        let Some(to) = node.or_else(|| nodes.ranks.route(from, target, ni)) else {
            // No rank has, or had, this NIC.
            nodes.ranks.with_nic(from, ni, &mut |nic| nic.signals.registers.add(Register::Undeliverable, 1));
            nodes.messages[index].source = nodes.node_of(from);
            nodes.complete_send(now, index);
            nodes.messages[index].delivery = Delivery::failed(fail::UNDELIVERABLE);
            return nodes.conclude(now, index);
        };
        nodes.messages[index].to = to;
        if !nodes.messages[index].command.has_reply() {
            self.watch_operation(now, index, None);
        }
        let message = &mut self.nodes.messages[index];
        if self.order.is_needed() && message.sequence == u64::MAX {
            message.sequence = self.order.next_sequence((from, to));
        }
        self.emit(now, index);
    }

    /// Casts a result of a root to its multicast group.
    fn cast(&mut self, now: Time, index: u32) {
        let Some(tree) = self.switches.tree_of(&self.nodes, &mut self.fabric, index) else {
            // No member, or none reachable. Members will request the result.
            return self.nodes.free_message(index);
        };
        self.nodes.messages[index].cast = tree;
        self.emit(now, index);
    }

    /// Processes a message or response in the send engine of the node.
    pub fn emit(&mut self, now: Time, index: u32) {
        let class = self.class_of(index);
        let nodes = &mut self.nodes;
        let message = &mut nodes.messages[index];
        let (from, to, cast) = (message.sender(), message.receiver(), message.cast);
        let (source, target) = match cast {
            NONE => (self.switches.node_towards(nodes, from, to), self.switches.node_towards(nodes, to, from)),
            _ => (nodes.node_of(from), NONE),
        };
        let machine = nodes.machine.clone();
        let message = &mut nodes.messages[index];
        (message.source, message.target, message.class) = (source, target, class);
        let bytes = if message.phase == Phase::Refusal { 0 } else { message.payload.len() as u64 };
        if nodes.is_in_memory(index) {
            return self.emit_in_memory(now, index, bytes);
        }
        let path = machine.graph.path(class);
        let packet = u64::from(machine.network.link.packet_bytes).max(1);
        let framed = bytes + path.frame_bytes;
        let stage = &path.command[usize::from(path.reads(bytes))];
        let done = nodes.through((source, from), stage, (now, 0), (Unit::NicSend, "command", index)).end;
        let targets = self.fabric.cast_targets(cast);
        let message = &mut nodes.messages[index];
        (message.bytes, message.framed_bytes) = (bytes, framed);
        message.bytes_to_send = framed;
        message.packets_to_come = match targets {
            0 if framed <= packet => 1,
            0 => framed.div_ceil(packet) as u32,
            // One for each target node.
            targets => targets,
        };
        message.head = Time::MAX;
        message.header_done = Time::MAX;
        if nodes.keep_until_sent(source, stage, framed) && done > now {
            // Its next unit still serves the previous message, which is being read.
            return nodes.events.schedule(done, Event::Read(index));
        }
        self.read(now, done, index);
    }

    /// Sends a message within a node. The initiator's processor has copied a request, or the target's a response.
    fn emit_in_memory(&mut self, now: Time, index: u32, bytes: u64) {
        let nodes = &mut self.nodes;
        let message = &mut nodes.messages[index];
        let is_request = message.phase == Phase::Request;
        // The copy of a request was part of the call that started it.
        let copy = if is_request { Time::ZERO } else { Time::of_bytes(bytes, nodes.machine.host.copy_bytes_per_s) };
        (message.bytes, message.framed_bytes) = (bytes, bytes);
        (message.bytes_to_send, message.packets_to_come) = (0, 0);
        let there = nodes.hardware[message.source as usize].loop_back(now + copy);
        (message.left, message.head, message.header_done) = (now, there, Time::MAX);
        if is_request {
            nodes.complete_send(there, index);
        }
        nodes.events.schedule(there, Event::Arrived(index));
    }

    /// Translates the pages of a message that its send engine has finished at `done`, reads its first packet from
    /// memory, and queues it to leave.
    pub fn read(&mut self, now: Time, done: Time, index: u32) {
        let nodes = &mut self.nodes;
        let machine = nodes.machine.clone();
        let message = &nodes.messages[index];
        let (source, target, class, bytes) = (message.source, message.target, message.class, message.bytes);
        let path = machine.graph.path(class);
        let reads = path.reads(bytes);
        let packet = u64::from(machine.network.link.packet_bytes).max(1);
        let first = bytes.min(packet.saturating_sub(path.frame_bytes));
        let lookups = if class == Class::RmaPut { message.command.lookups } else { 0 };
        let done = nodes.translated(source, done, (u64::from(lookups & 0xffff), u64::from(lookups >> 16)));
        let ready = if reads { nodes.read_first(source, class, done, first) } else { done };
        nodes.messages[index].left = ready;
        if source == target {
            // The target is on the same node: the NIC loops the message back.
            let last = if reads && bytes > first { nodes.read_on(source, class, ready, bytes - first) } else { ready };
            let last = nodes.hardware[source as usize].loop_back(last);
            let message = &mut nodes.messages[index];
            message.head = ready;
            message.packets_to_come = 0;
            message.bytes_to_send = 0;
            if message.phase == Phase::Request {
                nodes.complete_send(last, index);
            }
            nodes.events.schedule(last, Event::Arrived(index));
            return;
        }
        choose(&machine, &mut nodes.hardware[source as usize], &mut nodes.messages[index]);
        if !self.fabric.has_packets() {
            return self.queue_departure(now, index, ready);
        }
        let message = &nodes.messages[index];
        let way = way(&machine, message);
        if message.cast == NONE {
            self.fabric.expect(now, (way.from, way.to), message.framed_bytes, &mut nodes.events);
        }
        let queue = queue_of(&machine, way.rail);
        let leaving = &mut nodes.hardware[source as usize].rails[queue].leaving;
        leaving.push_back(index);
        let is_alone = leaving.len() == 1;
        if is_alone {
            nodes.events.schedule(ready, Event::Inject(index));
        } else if self.fabric.take_request(way.from) {
            // The others wait for congestion control, and this one may leave.
            self.inject_another(now, source, queue);
        }
    }

    /// Injects a packet that has been read, and reads the next one; or departs a whole message.
    pub fn inject(&mut self, now: Time, index: u32) {
        let Fabric::Packets(network) = &mut self.fabric else { return self.next_departure(now, index) };
        let nodes = &mut self.nodes;
        let most = u64::from(nodes.machine.network.link.packet_bytes).max(1);
        let message = &mut nodes.messages[index];
        let (source, target) = (message.source, if message.cast == NONE { message.target } else { message.source });
        let Way { rail, from, to } = way(&nodes.machine, message);
        let queue = queue_of(&nodes.machine, rail);
        if !network.may_inject(from, to, AHEAD) {
            return self.inject_another(now, source, queue);
        }
        let bytes = message.bytes_to_send.min(most);
        let port = &mut nodes.hardware[source as usize].rails[rail];
        let leaves = port.sent.max(now);
        port.sent = leaves + network.injection_time(from, bytes as u32);
        let leaves_part = !nodes.part.has(target);
        if message.bytes_to_send == message.framed_bytes {
            message.left = leaves;
            if leaves_part {
                nodes.part.hand_over(message, index);
            }
        }
        message.bytes_to_send -= bytes;
        let left = message.bytes_to_send;
        let packet = Packet {
            from,
            // On a tree each copy has its own target.
            to,
            bytes: bytes as u32,
            message: message.tag(index),
            last: left == 0,
            header: Header::PLAIN,
        };
        let request = message.phase == Phase::Request;
        match message.cast {
            NONE => network.inject(now, packet, &mut nodes.events),
            tree => network.inject_cast(now, packet, tree, &mut nodes.events),
        }
        if left == 0 {
            let leaving = &mut nodes.hardware[source as usize].rails[queue].leaving;
            let place = leaving.iter().position(|message| *message == index);
            place.and_then(|place| leaving.remove(place));
            if let Some(&next) = leaving.front() {
                nodes.events.schedule(nodes.messages[next].left, Event::Inject(next));
            }
            if request {
                nodes.complete_send(now, index);
            }
            if leaves_part {
                nodes.messages.free(index);
            }
            if nodes.machine.interface.is_some() {
                self.take_held(now, source);
            }
            return;
        }
        // The node reads at most one packet ahead of the next packet's injection channel.
        let next = way(&nodes.machine, &nodes.messages[index]).from;
        let (free, ahead) = (network.injection_free_at(next), network.injection_time(next, most as u32));
        let class = nodes.messages[index].class;
        let read = nodes.read_on(source, class, now, left.min(most));
        nodes.events.schedule(read.max(free.saturating_sub(ahead)), Event::Inject(index));
    }

    /// Lets a node inject the first message of a rail's queue that may leave, or waits until one may. Congestion control
    /// can hold back messages to some targets.
    pub fn inject_another(&mut self, now: Time, node: u32, queue: u32) {
        let Fabric::Packets(network) = &mut self.fabric else { return };
        let nodes = &mut self.nodes;
        let may_leave = |index: &u32| {
            let way = way(&nodes.machine, &nodes.messages[*index]);
            network.may_inject(way.from, way.to, AHEAD)
        };
        let leaving = &nodes.hardware[node as usize].rails[queue].leaving;
        // Without control all wait for the same room, or for the first one.
        let candidates = if network.is_controlled() { leaving.len() } else { 1 };
        match leaving.iter().copied().take(candidates).find(may_leave) {
            Some(index) => {
                let message = &nodes.messages[index];
                let has_begun = message.bytes_to_send < message.framed_bytes;
                let ready = if has_begun { now } else { message.left };
                nodes.events.schedule(ready.max(now), Event::Inject(index));
            }
            None => {
                let first = leaving.front().map(|&index| way(&nodes.machine, &nodes.messages[index]).from);
                first.into_iter().for_each(|endpoint| network.notify_when_taken(endpoint));
            }
        }
    }

    /// Records an operation of a rank that has left, or a read with its reply. Aggregation nodes do not count.
    pub fn watch_operation(&mut self, now: Time, index: u32, reply: Option<&[u8]>) {
        let message = &self.nodes.messages[index];
        let is_unwatched = self.switches.is_node(message.from) || self.nodes.rank_states[message.from].background;
        let Some(watch) = self.nodes.watch.as_mut().filter(|_| !is_unwatched) else { return };
        let signature = reply.map_or(message.signature, |reply| message.signature.replied(reply));
        let operation = Operation::of(&message.command, message.to);
        if watch.note(now, message.from, signature, operation, reply.is_some()) {
            self.nodes.divide_time(now);
        }
    }

    fn class_of(&self, index: u32) -> Class {
        let message = &self.nodes.messages[index];
        match message.phase {
            Phase::Refusal | Phase::Credit => Class::Response,
            Phase::Response => Class::of_response(&message.command, message.delivery.fail == fail::OK),
            Phase::Free | Phase::Request | Phase::Kept if message.cast != NONE => Class::AggregationMulticast,
            Phase::Free | Phase::Request | Phase::Kept if message.command.is_aggregation() => {
                self.switches.class(message.from, message.to)
            }
            Phase::Free | Phase::Request | Phase::Kept => Class::of_request(&message.command),
        }
    }
}
