// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A message at its target node, from the fabric to its delivery: header, payload, order.
//!
//! In host mode (seed 003, section III-B) the NIC interrupts the processor for the header. The processor matches, and
//! programs the transfer of the payload that did not come with the header. The end is a second interrupt.
//!
//! A NIC has a limited number of streams for long messages from different sources. If all are in use, it refuses the
//! next long message: it drops the message and notifies the sender, which sends again after a pause (seed 003, section
//! III-D). Later messages of the same pair wait at the target, to stay in order.

use selvedge_nic::portals::{Delivery, fail};
use selvedge_nic::tables::kind;

use crate::machine::graph::{Class, Path};
use crate::network::{self, Arrival, Delivery as Packet};
use crate::time::Time;

use super::events::Event;
use super::message::{NONE, Phase, index_of};
use super::part::Notice;
use super::rails::queue_of;
use super::ranks::Ranks;
use super::trace::Unit;
use super::transfers::Transfers;

impl<R: Ranks> Transfers<R> {
    // ---- The fabric ----------------------------------------------------------------------------------------------

    /// Takes arrivals, losses, and notices that a node may inject again from the packet network.
    pub fn take_arrivals(&mut self, now: Time) {
        while let Some(endpoint) = self.fabric.take_notification() {
            let (node, rail) = self.nodes.machine.topology.rails().place(endpoint);
            self.inject_another(now, node, queue_of(&self.nodes.machine, rail));
        }
        while let Some(arrival) = self.fabric.take_arrival() {
            match arrival {
                Arrival::Delivered(delivery) => {
                    let node = self.nodes.machine.topology.rails().node(delivery.packet.to);
                    let hardware = &mut self.nodes.hardware[node as usize];
                    if !hardware.blocked.keeps_packet(&delivery) {
                        self.take_packet(now, &delivery);
                    }
                }
                Arrival::Lost(loss) => self.packet_lost(now, &loss.packet),
            }
        }
    }

    /// Tells the node of a lost packet's target, a lookahead later.
    fn packet_lost(&mut self, now: Time, packet: &network::Packet) {
        let nodes = &mut self.nodes;
        if nodes.part.is_whole() && nodes.messages[index_of(packet.message)].cast != NONE {
            nodes.statistics.casts_lost += 1;
            return self.copy_over(index_of(packet.message));
        }
        let (at, notice) = (now + nodes.lookahead, Notice::Missing(*packet));
        let target = nodes.machine.topology.rails().node(packet.to);
        match nodes.part.has(target) {
            true => nodes.take_notice(at, notice),
            false => nodes.part.tell(at, target, notice),
        }
    }

    /// Counts a lost packet at the node of its target. It passes no units.
    pub fn packet_missing(&mut self, now: Time, index: u32) {
        self.nodes.messages[index].lost = true;
        if self.nodes.count_packet(index) {
            self.message_arrived(now, index);
        }
    }

    /// Takes a packet from a node's buffer. Frees its room there when the node's units have admitted it.
    pub fn take_packet(&mut self, now: Time, delivery: &Packet) {
        let index = self.nodes.message_of(&delivery.packet);
        let arrived = (delivery.head, delivery.packet.bytes);
        let taken = match self.nodes.messages[index].cast {
            NONE => self.packet_arrived(now, index, arrived),
            _ => {
                let node = self.nodes.machine.topology.rails().node(delivery.packet.to);
                self.copy_arrived(now, index, node, arrived)
            }
        };
        self.fabric.give_back(taken, delivery, &mut self.nodes.events);
    }

    /// Handles an arrived packet. Returns the time at which the node's units admit it, which frees its room.
    fn packet_arrived(&mut self, now: Time, index: u32, (head, bytes): (Time, u32)) -> Time {
        let message = &mut self.nodes.messages[index];
        let begins = message.head == Time::MAX;
        message.head = message.head.min(head);
        let header = if begins { self.first_packet_arrived(index) } else { Time::ZERO };
        let nodes = &mut self.nodes;
        let is_last = nodes.count_packet(index);
        let message = &nodes.messages[index];
        let place = (message.target, message.receiver());
        let machine = nodes.machine.clone();
        let stage = &machine.graph.path(message.class).packet;
        if stage.is_empty() {
            if is_last {
                self.message_arrived(now, index);
            }
            return header.max(now);
        }
        let passage = nodes.through(place, stage, (now, bytes.into()), (Unit::NicReceive, "packet", index));
        if is_last {
            nodes.events.schedule(passage.end, Event::Arrived(index));
        }
        header.max(passage.admitted)
    }

    /// Handles an arrived copy of a cast. Returns the time at which the node's units have admitted it.
    fn copy_arrived(&mut self, now: Time, index: u32, node: u32, packet: (Time, u32)) -> Time {
        let mut taken = now;
        for copy in self.switches.copies(&mut self.nodes, index, node) {
            taken = taken.max(self.packet_arrived(now, copy, packet));
        }
        self.copy_over(index);
        taken
    }

    /// Ends a copy of a cast, which has arrived or is lost. The last copy ends the cast.
    fn copy_over(&mut self, index: u32) {
        let message = &mut self.nodes.messages[index];
        message.packets_to_come = message.packets_to_come.saturating_sub(1);
        if message.packets_to_come == 0 {
            self.nodes.free_message(index);
        }
    }

    /// Handles the arrival of a whole message. Its packets pass the units of their stage one after the other.
    pub fn whole_arrived(&mut self, now: Time, index: u32) {
        let nodes = &mut self.nodes;
        let machine = nodes.machine.clone();
        let message = &mut nodes.messages[index];
        let packets = std::mem::take(&mut message.packets_to_come);
        let (stage, place) = (&machine.graph.path(message.class).packet, (message.target, message.receiver()));
        let bytes = message.packet_bytes(packets);
        if stage.is_empty() || packets == 0 {
            return self.message_arrived(now, index);
        }
        let mut end = now;
        for _ in 0..packets {
            end = nodes.through(place, stage, (now, bytes), (Unit::NicReceive, "packet", index)).end;
        }
        nodes.events.schedule(end, Event::Arrived(index));
    }

    /// Handles the first packet of a message. Returns the time at which a unit has admitted its header.
    pub fn first_packet_arrived(&mut self, index: u32) -> Time {
        let nodes = &mut self.nodes;
        let message = &mut nodes.messages[index];
        if message.phase == Phase::Request && message.packets_to_come > 1 {
            if nodes.hardware[message.target as usize].open_stream(&nodes.machine, message.from) {
                message.has_stream = nodes.machine.nic.streams_max != 0;
            } else {
                message.refused = true;
            }
        }
        if message.refused || message.lost { Time::ZERO } else { self.take_header(index) }
    }

    // ---- At the node ---------------------------------------------------------------------------------------------

    fn message_arrived(&mut self, now: Time, index: u32) {
        let nodes = &mut self.nodes;
        let message = &nodes.messages[index];
        let (rank, left, phase) = (message.sender(), message.left, message.phase);
        nodes.span(rank, Unit::Wire, phase.name(), left, now, index);
        let message = &mut nodes.messages[index];
        if std::mem::take(&mut message.has_stream) {
            nodes.hardware[message.target as usize].close_stream(message.from);
        }
        if message.lost {
            return self.message_lost(now, index);
        }
        match message.phase {
            Phase::Refusal => {
                message.phase = Phase::Request;
                message.refused = false;
                nodes.events.schedule(now + nodes.machine.nic.retry, Event::Issue(index));
            }
            Phase::Credit => nodes.free_message(index),
            Phase::Request if message.refused => {
                message.phase = Phase::Refusal;
                nodes.statistics.refused += 1;
                self.emit(now, index);
            }
            // A datagram has no order.
            Phase::Request if self.order.is_needed() && message.cast == NONE => {
                let (pair, sequence) = ((message.from, message.to), message.sequence);
                self.order.arrived(pair, sequence, index);
                self.release_in_order(pair, now);
            }
            _ => self.accept(now, index),
        }
    }

    /// Handles a message that the fabric has lost for good, at its receiver: its initiator gets an error.
    fn message_lost(&mut self, now: Time, index: u32) {
        let nodes = &mut self.nodes;
        nodes.statistics.lost += 1;
        let message = &mut nodes.messages[index];
        message.delivery = Delivery::failed(fail::UNDELIVERABLE);
        match message.phase {
            Phase::Credit => nodes.free_message(index),
            Phase::Request => self.give_up(now, index),
            Phase::Refusal => {
                // The target still waits for the message that it has refused.
                let to = message.to;
                nodes.tell_failed(now, index, to);
            }
            Phase::Free | Phase::Kept | Phase::Response => nodes.conclude(now, index),
        }
    }

    /// Gives up a lost request at its target: tells its initiator, and lets the later messages of the pair pass.
    fn give_up(&mut self, now: Time, index: u32) {
        let message = &mut self.nodes.messages[index];
        message.phase = Phase::Response;
        let (pair, sequence) = ((message.from, message.to), message.sequence);
        if self.order.is_needed() {
            self.order.skip(pair, sequence);
            self.release_in_order(pair, now);
        }
        match self.nodes.messages[index].command.is_aggregation() {
            true => self.switches.lose(&mut self.nodes, now, index),
            false => self.nodes.tell_failed(now, index, pair.0),
        }
    }

    /// Handles a lost message at the other end, which has been told.
    pub fn message_failed(&mut self, now: Time, index: u32) {
        match self.nodes.messages[index].phase {
            Phase::Refusal => self.give_up(now, index),
            _ => self.nodes.conclude(now, index),
        }
    }

    fn release_in_order(&mut self, pair: (u32, u32), now: Time) {
        while let Some(index) = self.order.next(pair) {
            self.accept(now, index);
        }
    }

    /// Passes the header through the units of its stage. Returns the time at which the first one has admitted it.
    fn take_header(&mut self, index: u32) -> Time {
        let nodes = &mut self.nodes;
        let machine = nodes.machine.clone();
        let message = &nodes.messages[index];
        let (head, phase, target, rank) = (message.head, message.phase, message.target, message.receiver());
        if phase == Phase::Refusal {
            return Time::ZERO;
        }
        let stage = &machine.graph.path(message.class).header;
        let passage = nodes.through((target, rank), stage, (head, 0), (Unit::NicReceive, "header", index));
        let bytes = self.answer_bytes(index);
        let nodes = &mut self.nodes;
        nodes.keep_until_sent(target, stage, bytes);
        nodes.messages[index].header_done = passage.end;
        passage.admitted
    }

    /// Returns the bytes of the answer that a message asks for, with the frame; 0: no answer.
    fn answer_bytes(&self, index: u32) -> u64 {
        let command = &self.nodes.messages[index].command;
        let length = match command.has_reply() {
            true => command.length,
            false if command.kind == kind::RMA_LOCK => 0,
            false => return 0,
        };
        length + self.nodes.machine.graph.path(Class::of_response(command, true)).frame_bytes
    }

    /// Accepts a message that has arrived and is the next of its pair: it is delivered when its bytes are in memory.
    fn accept(&mut self, now: Time, index: u32) {
        if self.nodes.is_in_memory(index) {
            self.nodes.messages[index].header_done = now;
            if self.nodes.messages[index].command.is_aggregation() {
                // Memory does not wait for what the NIC delivers.
                let taken = self.switches.taken_at(&self.nodes, now, index);
                return self.nodes.events.schedule(taken, Event::Deliver(index));
            }
            return self.schedule_delivery(now, index);
        }
        if self.nodes.messages[index].header_done == Time::MAX {
            self.take_header(index);
        }
        let nodes = &mut self.nodes;
        let machine = nodes.machine.clone();
        let message = &nodes.messages[index];
        let path = machine.graph.path(message.class);
        let (class, target, is_notified) = (message.class, message.target, message.is_notified());
        let now = now + path.trailing;
        let written = match path.kept_bytes {
            Some(kept) if message.bytes <= kept => now.max(message.header_done),
            _ => self.write(now, index, path),
        };
        let at = if is_notified { self.nodes.notify(target, class, written) } else { written };
        self.schedule_delivery(at, index);
    }

    /// Passes the payload through the units of its stage, item by item. The first unit takes bytes as they come, from
    /// the time at which the header is done, and has the last of them at `now` at the earliest.
    fn write(&mut self, now: Time, index: u32, path: &Path) -> Time {
        let nodes = &mut self.nodes;
        let message = &nodes.messages[index];
        let (bytes, done, target) = (message.bytes, message.header_done, message.target);
        let place = (target, message.receiver());
        let mut end = now.max(done);
        let Some((first, rest)) = path.write.split_first() else { return end };
        let items = path.items(bytes);
        for item in 0..items {
            let bytes = if items == 1 { bytes } else { (bytes - item * path.slot_bytes).min(path.slot_bytes) };
            let seen = (Unit::NicReceive, "write", index);
            let written = match bytes == 0 && first.interval == Time::ZERO {
                // A unit that only moves bytes does nothing for an empty payload.
                true => done + first.latency,
                false => {
                    let units = &mut nodes.hardware[target as usize].units;
                    units.enter(&nodes.machine.graph, first, (done, bytes), Some(path.holder)).2
                }
            };
            end = end.max(nodes.through(place, rest, (written.max(now + first.latency), bytes), seen).end);
        }
        end
    }

    /// Schedules the delivery of a message. A node delivers in the order of arrival.
    fn schedule_delivery(&mut self, at: Time, index: u32) {
        let nodes = &mut self.nodes;
        let message = &nodes.messages[index];
        let event = if message.phase == Phase::Request { Event::Deliver(index) } else { Event::Answer(index) };
        let at = nodes.hardware[message.target as usize].in_order(at);
        nodes.events.schedule(at, event);
    }
}
