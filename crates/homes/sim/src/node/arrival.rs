// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A message at its target node: header, payload, order, delivery.
//!
//! In host mode (seed 003, section III-B) the NIC interrupts the processor for the header. The processor matches, and
//! programs the transfer of the payload that did not come with the header. The end of the transfer is a second
//! interrupt.
//!
//! A NIC has a limited number of streams for long messages from different sources. If all are in use, it refuses the
//! next long message: the message is dropped, the sender is notified, and sends it again after a pause (seed 003,
//! section III-D). Later messages of the same pair wait at the target, so that they stay in order.

use std::collections::BTreeMap;

use selvedge_nic::portals::{Delivery, Verdict, fail};
use selvedge_nic::rma::spec;
use selvedge_nic::tables::kind;
use selvedge_nic::{Fault, Step};

use crate::machine::graph::{Class, Path};
use crate::machine::{Matching, Mode, NicModel};
use crate::network::{Arrival, Delivery as Packet};
use crate::time::Time;

use super::fabric::AnyNetwork;
use super::kept::token_of;
use super::list_search::{self, ListSearch};
use super::message::{INDEX_SHIFT, Message, Phase};
use super::ranks::{Bytes, Incoming, Meter, Ranks};
use super::run::{Event, NONE, NetworkQueue, Simulation};
use super::trace::Unit;

/// The order of messages between ranks. A node sends in order, but the fabric or a refusal may change it.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    /// Whether the order can change; otherwise `pairs` stays empty.
    pub needed: bool,
    pub pairs: BTreeMap<(u32, u32), Pair>,
    /// Messages started, over all pairs.
    pub numbers: u64,
}

/// The messages of one pair of ranks.
#[derive(Debug, Default)]
pub(super) struct Pair {
    pub next_sent: u64,
    next_delivered: u64,
    /// Messages that arrived before their turn, by sequence number.
    held: BTreeMap<u64, u32>,
}

impl Pairs {
    pub fn new(needed: bool) -> Pairs {
        Pairs { needed, ..Pairs::default() }
    }
}

/// The steps of one transition: entries searched, pages translated, and the cost of all other steps.
struct StepCosts<'a> {
    nic: &'a NicModel,
    path: &'a Path,
    /// The machine has a translation unit.
    translates: bool,
    searched: u64,
    /// Look-ups of pages that are in the TLB, and that are not.
    lookups: (u64, u64),
    cost: Time,
}

impl Meter for StepCosts<'_> {
    fn charge(&mut self, step: Step) {
        match step {
            Step::EntrySearched => self.searched += 1,
            Step::TlbHit if self.translates => self.lookups.0 += 1,
            Step::AddressTableRead if self.translates => self.lookups.1 += 1,
            // The path has written them.
            Step::SlotWritten | Step::Notification if self.path.writes_records => {}
            other => self.cost += self.nic.price(other),
        }
    }
}

impl<R: Ranks> Simulation<R> {
    // ---- The fabric ----------------------------------------------------------------------------------------------

    /// Takes arrivals and losses from the packet network, and its notifications that a node may inject again.
    pub(super) fn take_arrivals(&mut self, now: Time) {
        let AnyNetwork::Packets(network) = &mut self.network else { return };
        while let Some(node) = network.take_notification() {
            if let Some(&next) = self.hardware[node.0 as usize].leaving.front() {
                self.queue.schedule(now, Event::Inject(next));
            }
        }
        while let Some(arrival) = self.next_arrival() {
            let index = (arrival.packet().message >> INDEX_SHIFT) as u32;
            match arrival {
                Arrival::Delivered(delivery) => {
                    let blocked = &mut self.hardware[delivery.packet.to.0 as usize].blocked;
                    match blocked.is_blocked() {
                        true => blocked.packets.push_back(delivery),
                        false => self.take_packet(now, &delivery),
                    }
                }
                Arrival::Lost(_) if self.messages[index as usize].cast != NONE => self.copy_lost(index),
                Arrival::Lost(loss) => {
                    self.messages[index as usize].lost = true;
                    self.packet_arrived(now, index, (now, loss.packet.bytes));
                }
            }
        }
    }

    /// A node takes a packet from its buffer, and gives the room back when its units have admitted it.
    pub(super) fn take_packet(&mut self, now: Time, delivery: &Packet) {
        let index = (delivery.packet.message >> INDEX_SHIFT) as u32;
        let arrived = (delivery.head, delivery.packet.bytes);
        let taken = match self.messages[index as usize].cast {
            NONE => self.packet_arrived(now, index, arrived),
            _ => self.copy_arrived(now, index, delivery.packet.to.0, arrived),
        };
        if let AnyNetwork::Packets(network) = &mut self.network {
            network.give_back(taken, delivery, &mut NetworkQueue(&mut self.queue));
        }
    }

    fn next_arrival(&mut self) -> Option<Arrival> {
        if let AnyNetwork::Packets(network) = &mut self.network { network.take_arrival() } else { None }
    }

    /// A packet has arrived. Gives the time at which the node's units have admitted it: until then it keeps its room in the
    /// node's buffer.
    pub(super) fn packet_arrived(&mut self, now: Time, index: u32, (head, bytes): (Time, u32)) -> Time {
        let message = &mut self.messages[index as usize];
        let begins = message.head == Time::MAX;
        message.head = message.head.min(head);
        let header = if begins { self.first_packet_arrived(index) } else { Time::ZERO };
        let message = &mut self.messages[index as usize];
        message.packets_to_come = message.packets_to_come.saturating_sub(1);
        let is_last = message.packets_to_come == 0 && message.bytes_to_send == 0;
        let machine = self.machine.clone();
        let stage = &machine.graph.path(self.messages[index as usize].class).packet;
        if stage.is_empty() {
            if is_last {
                self.message_arrived(now, index);
            }
            return header.max(now);
        }
        let place = (self.messages[index as usize].target, self.receiver(index));
        let way = self.through(place, stage, (now, bytes.into()), (Unit::NicReceive, "packet", index));
        if is_last {
            self.queue.schedule(way.end, Event::Arrived(index));
        }
        header.max(way.admitted)
    }

    /// A whole message has arrived. Each of its packets passes the units of its stage, one after the other.
    pub(super) fn whole_arrived(&mut self, now: Time, index: u32) {
        let machine = self.machine.clone();
        let message = &mut self.messages[index as usize];
        let packets = std::mem::take(&mut message.packets_to_come);
        let (stage, target) = (&machine.graph.path(message.class).packet, message.target);
        if stage.is_empty() || packets == 0 {
            return self.message_arrived(now, index);
        }
        let (place, bytes) = ((target, self.receiver(index)), message_bytes(&self.messages[index as usize], packets));
        let mut end = now;
        for _ in 0..packets {
            end = self.through(place, stage, (now, bytes), (Unit::NicReceive, "packet", index)).end;
        }
        self.queue.schedule(end, Event::Arrived(index));
    }

    /// The first packet of a message has arrived. Gives the time at which a unit has admitted its header.
    pub(super) fn first_packet_arrived(&mut self, index: u32) -> Time {
        let message = &mut self.messages[index as usize];
        if message.phase == Phase::Request && message.packets_to_come > 1 {
            if self.hardware[message.target as usize].open_stream(&self.machine, message.from) {
                message.has_stream = self.machine.nic.streams_max != 0;
            } else {
                message.refused = true;
            }
        }
        if message.refused || message.lost { Time::ZERO } else { self.take_header(index) }
    }

    // ---- At the node ---------------------------------------------------------------------------------------------

    /// All of a message has arrived.
    pub(super) fn message_arrived(&mut self, now: Time, index: u32) {
        let rank = self.sender(index);
        let (left, phase) = (self.messages[index as usize].left, self.messages[index as usize].phase);
        self.span(rank, Unit::Wire, name_of(phase), left, now, index);
        let message = &mut self.messages[index as usize];
        if std::mem::take(&mut message.has_stream) {
            self.hardware[message.target as usize].close_stream(message.from);
        }
        if message.lost && message.phase == Phase::Credit {
            self.statistics.lost += 1;
            return self.free_message(index);
        }
        if message.lost {
            self.statistics.lost += 1;
            message.delivery = Delivery::failed(fail::UNDELIVERABLE);
            if message.phase == Phase::Request {
                self.skip_in_order(index, now);
            }
            if self.messages[index as usize].command.is_aggregation() {
                return self.lose_aggregation(now, index);
            }
            return self.conclude(now, index);
        }
        match message.phase {
            Phase::Refusal => {
                message.phase = Phase::Request;
                message.refused = false;
                self.queue.schedule(now + self.machine.nic.retry, Event::Issue(index));
            }
            Phase::Credit => self.free_message(index),
            Phase::Request if message.refused => {
                message.phase = Phase::Refusal;
                self.statistics.refused += 1;
                self.emit(now, index);
            }
            // A datagram has no order.
            Phase::Request if self.pairs.needed && message.cast == NONE => {
                let (pair, sequence) = ((message.from, message.to), message.sequence);
                let order = self.pairs.pairs.entry(pair).or_default();
                order.held.insert(sequence, index);
                self.release_in_order(pair, now);
            }
            _ => self.accept(now, index),
        }
    }

    fn release_in_order(&mut self, pair: (u32, u32), now: Time) {
        loop {
            let Some(order) = self.pairs.pairs.get_mut(&pair) else { return };
            let Some(index) = order.held.remove(&order.next_delivered) else { return };
            order.next_delivered += 1;
            if index != LOST {
                self.accept(now, index);
            }
        }
    }

    /// Skips a lost message in the order of its pair.
    fn skip_in_order(&mut self, index: u32, now: Time) {
        if !self.pairs.needed {
            return;
        }
        let message = &self.messages[index as usize];
        let (pair, sequence) = ((message.from, message.to), message.sequence);
        self.pairs.pairs.entry(pair).or_default().held.insert(sequence, LOST);
        self.release_in_order(pair, now);
    }

    /// The header has arrived, and passes the units of its stage. Gives the time at which the first one has admitted it.
    fn take_header(&mut self, index: u32) -> Time {
        let machine = self.machine.clone();
        let message = &self.messages[index as usize];
        let (head, phase, target) = (message.head, message.phase, message.target);
        if phase == Phase::Refusal {
            return Time::ZERO;
        }
        let stage = &machine.graph.path(message.class).header;
        let rank = self.receiver(index);
        let way = self.through((target, rank), stage, (head, 0), (Unit::NicReceive, "header", index));
        self.keep_until_sent(target, stage, self.answer_bytes(index));
        self.messages[index as usize].header_done = way.end;
        way.admitted
    }

    /// Bytes of the answer that a message asks for, frame and all; 0: it asks for none.
    fn answer_bytes(&self, index: u32) -> u64 {
        let command = &self.messages[index as usize].command;
        let length = match command.has_reply() {
            true => command.length,
            false if command.kind == kind::RMA_LOCK => 0,
            false => return 0,
        };
        length + self.machine.graph.path(Class::of_response(command, true)).frame_bytes
    }

    /// All of a message has arrived and it is the next of its pair: it is delivered when its bytes are in memory.
    fn accept(&mut self, now: Time, index: u32) {
        if self.is_in_memory(index) {
            self.messages[index as usize].header_done = now;
            return self.schedule_delivery(now, index);
        }
        if self.messages[index as usize].header_done == Time::MAX {
            self.take_header(index);
        }
        let machine = self.machine.clone();
        let message = &self.messages[index as usize];
        let path = machine.graph.path(message.class);
        let (class, target, is_notified) = (message.class, message.target, notifies(message));
        let now = now + path.trailing;
        let written = match path.kept_bytes {
            Some(kept) if message.bytes <= kept => now.max(message.header_done),
            _ => self.write(now, index, path),
        };
        let at = if is_notified { self.notify(target, class, written) } else { written };
        self.schedule_delivery(at, index);
    }

    /// The payload passes the units of its stage, item by item. The first unit takes bytes from the time at which the header is
    /// done, as they come, and has the last of them at `now` at the earliest.
    fn write(&mut self, now: Time, index: u32, path: &Path) -> Time {
        let message = &self.messages[index as usize];
        let (bytes, done, target) = (message.bytes, message.header_done, message.target);
        let place = (target, self.receiver(index));
        let mut end = now.max(done);
        let Some((first, rest)) = path.write.split_first() else { return end };
        let items = path.items(bytes);
        for item in 0..items {
            let bytes = if items == 1 { bytes } else { (bytes - item * path.slot_bytes).min(path.slot_bytes) };
            let seen = (Unit::NicReceive, "write", index);
            let written = match bytes == 0 && first.interval == Time::ZERO {
                // What moves bytes alone does not move nothing.
                true => done + first.latency,
                false => {
                    let units = &mut self.hardware[target as usize].units;
                    units.enter(&self.machine.graph, first, (done, bytes), Some(path.holder)).2
                }
            };
            end = end.max(self.through(place, rest, (written.max(now + first.latency), bytes), seen).end);
        }
        end
    }

    /// Messages are delivered at a node in the order of their arrival.
    fn schedule_delivery(&mut self, at: Time, index: u32) {
        let message = &self.messages[index as usize];
        let (phase, target) = (message.phase, message.target);
        let at = self.hardware[target as usize].in_order(at);
        self.queue.schedule(at, if phase == Phase::Request { Event::Deliver(index) } else { Event::Answer(index) });
    }

    /// Delivers a request to the target's NIC.
    pub(super) fn deliver(&mut self, now: Time, index: u32) {
        if self.is_aggregation_node(self.messages[index as usize].to) {
            return self.aggregate(now, index);
        }
        let machine = self.machine.clone();
        let is_in_memory = self.is_in_memory(index);
        if !is_in_memory && self.waits_behind(self.messages[index as usize].target, index) {
            return;
        }
        let message = &mut self.messages[index as usize];
        let (from, to, ni, started, target) = (message.from, message.to, message.ni, message.started, message.target);
        let (payload, message_class) = (std::mem::take(&mut message.payload), message.class);
        let request = &message.command.request;
        let found = self.ranks.find(message.command.target, ni).filter(|(rank, _)| *rank == to);
        // The target's number of its NIC.
        let ni = found.map_or(ni, |(_, ni)| ni);
        let mut searched = ListSearch::default();
        if machine.nic.matching == Matching::List || machine.nic.mode == Mode::Host {
            self.ranks.with_nic(to, ni, &mut |nic| searched = list_search::request_search(nic, request));
        }
        let path = machine.graph.path(message_class);
        let translates = machine.graph.translation.is_some();
        let nic = &machine.nic;
        let mut steps = StepCosts { nic, path, translates, searched: 0, lookups: (0, 0), cost: Time::ZERO };
        let mut reply = Vec::new();
        if is_in_memory {
            self.ranks.take_in(from, (to, ni), &mut steps);
        }
        let delivery = if found.is_none() {
            Delivery::failed(fail::UNDELIVERABLE)
        } else {
            let incoming = Incoming { request, payload: &payload, token: token_of(index, message) };
            match self.ranks.deliver(to, ni, &incoming, &mut reply, &mut steps) {
                Verdict::Done(delivery) => delivery,
                Verdict::Kept => {
                    message.phase = Phase::Kept;
                    Delivery::failed(fail::OK)
                }
                Verdict::Full if self.blocks_for(to) => return self.block(now, index, payload),
                Verdict::Unreachable | Verdict::Full => Delivery::failed(fail::DROPPED),
                Verdict::Initiator(Fault::Gone) => Delivery::failed(fail::UNDELIVERABLE),
                Verdict::Initiator(_) => Delivery::failed(fail::SEGV),
            }
        };
        let (steps_searched, steps_cost, lookups) = (steps.searched, steps.cost, steps.lookups);
        let compared = match machine.nic.matching {
            Matching::List => searched.compared,
            Matching::Hash => steps_searched,
        };
        let cost = steps_cost + machine.search(compared, searched.length);
        let finish = self.translated(target, now + cost, lookups);
        if !is_in_memory {
            self.hardware[target as usize].units.prolong(path.holder, finish - now);
        }
        let unit = if machine.nic.mode == Mode::Host { Unit::Host } else { Unit::NicReceive };
        self.span(to, unit, "match", now, finish, index);
        self.statistics.messages += 1;
        self.statistics.payload_bytes += delivery.mlength;
        self.statistics.entries_searched += compared;
        self.statistics.delivered_after(finish.saturating_sub(started));
        self.statistics.note(&[u64::from(to), now.0, u64::from(delivery.fail), delivery.mlength, compared]);
        match delivery.fail {
            fail::OK => self.holds_slots(index),
            fail::DROPPED if message_class == Class::Velo => self.statistics.velo_discarded += 1,
            _ => {}
        }
        if self.messages[index as usize].phase == Phase::Kept {
            return self.statistics.note(&[4100]);
        }
        self.schedule_fired(to, ni, finish);
        // The library reads a line of memory for each further item of the message.
        let lines = machine.host.memory_access * (path.items(payload.len() as u64) - 1);
        let received = finish + path.receive + lines;
        let received = if is_in_memory { received } else { self.received_at(to, received, payload.len() as u64) };
        self.wake(to, received);
        let message = &mut self.messages[index as usize];
        message.delivery = delivery;
        let acknowledges = !message.command.has_reply();
        if !message.command.is_answered(&delivery) {
            return self.free_message(index);
        }
        message.phase = Phase::Response;
        reply.truncate(delivery.mlength as usize);
        message.payload = if acknowledges { Bytes::new() } else { reply.into() };
        // The response leaves after the search; other messages do not wait for it.
        self.respond(finish, index);
    }

    /// Sends the response.
    pub(super) fn respond(&mut self, at: Time, index: u32) {
        self.statistics.responses += 1;
        let machine = self.machine.clone();
        let message = &self.messages[index as usize];
        let path = machine.graph.path(Class::of_response(&message.command, message.delivery.fail == fail::OK));
        let units = &mut self.hardware[message.target as usize].units;
        let at = units.through(&machine.graph, &path.fire, (at, 0), |_, _, _| ()).end;
        self.queue.schedule(at, Event::Issue(index));
    }
}

/// Bytes of one of so many packets of a message, on average.
fn message_bytes(message: &Message, packets: u32) -> u64 {
    message.bytes.div_ceil(u64::from(packets.max(1)))
}

/// Whether a message of the RMA unit is notified where it arrives.
fn notifies(message: &Message) -> bool {
    let asks = |unit| message.command.operation & unit != 0;
    match message.class {
        Class::RmaPut | Class::RmaImmediatePut | Class::RmaNotificationPut => asks(spec::COMPLETER),
        Class::RmaGet | Class::RmaLock => asks(spec::RESPONDER),
        Class::RmaGetResponse => asks(spec::COMPLETER),
        Class::RmaResponse => asks(spec::COMPLETER) || message.delivery.fail != fail::OK,
        Class::Request | Class::Response | Class::Velo => false,
        Class::AggregationRequest | Class::Aggregation => false,
        Class::AggregationResult | Class::AggregationMulticast => false,
    }
}

/// Stands for a lost message in [`Pair::held`].
const LOST: u32 = u32::MAX;

fn name_of(phase: Phase) -> &'static str {
    match phase {
        Phase::Free | Phase::Request | Phase::Kept => "request",
        Phase::Response => "response",
        Phase::Refusal => "refusal",
        Phase::Credit => "credits",
    }
}
