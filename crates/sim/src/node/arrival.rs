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
use selvedge_nic::{Fault, Step};

use crate::machine::{Matching, Mode};
use crate::network::Arrival;
use crate::time::Time;

use super::fabric::AnyNetwork;
use super::hardware::Engine;
use super::list_search::{self, ListSearch};
use super::message::{INDEX_SHIFT, Phase};
use super::ranks::{Bytes, Meter, Ranks};
use super::run::{Event, Simulation};
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

/// The steps of one transition: entries searched, and the cost of all other steps.
struct StepCosts<'a> {
    nic: &'a crate::machine::NicModel,
    searched: u64,
    cost: Time,
}

impl Meter for StepCosts<'_> {
    fn charge(&mut self, step: Step) {
        match step {
            Step::EntrySearched => self.searched += 1,
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
            let head = match arrival {
                Arrival::Delivered(delivery) => delivery.head,
                Arrival::Lost(_) => {
                    self.messages[index as usize].lost = true;
                    now
                }
            };
            self.packet_arrived(now, index, head);
        }
    }

    fn next_arrival(&mut self) -> Option<Arrival> {
        if let AnyNetwork::Packets(network) = &mut self.network { network.take_arrival() } else { None }
    }

    fn packet_arrived(&mut self, now: Time, index: u32, head: Time) {
        let message = &mut self.messages[index as usize];
        let begins = message.head == Time::MAX;
        message.head = message.head.min(head);
        if begins {
            self.first_packet_arrived(index);
        }
        let message = &mut self.messages[index as usize];
        message.packets_to_come = message.packets_to_come.saturating_sub(1);
        if message.packets_to_come == 0 && message.bytes_to_send == 0 {
            self.message_arrived(now, index);
        }
    }

    /// The first packet of a message has arrived.
    pub(super) fn first_packet_arrived(&mut self, index: u32) {
        let message = &mut self.messages[index as usize];
        if message.phase == Phase::Request && message.packets_to_come > 1 {
            if self.hardware[message.target as usize].open_stream(&self.machine, message.from) {
                message.has_stream = self.machine.nic.streams_max != 0;
            } else {
                message.refused = true;
            }
        }
        if !message.refused && !message.lost {
            self.take_header(index);
        }
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
        if message.lost {
            self.statistics.lost += 1;
            message.delivery = Delivery::failed(fail::UNDELIVERABLE);
            if message.phase == Phase::Request {
                self.skip_in_order(index, now);
            }
            return self.conclude(now, index);
        }
        match message.phase {
            Phase::Refusal => {
                message.phase = Phase::Request;
                message.refused = false;
                self.queue.schedule(now + self.machine.nic.retry, Event::Issue(index));
            }
            Phase::Request if message.refused => {
                message.phase = Phase::Refusal;
                self.statistics.refused += 1;
                self.emit(now, index);
            }
            Phase::Request if self.pairs.needed => {
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

    /// The header has arrived: the NIC processes it, and in host mode the processor, after an interrupt.
    fn take_header(&mut self, index: u32) {
        let machine = self.machine.clone();
        let nic = &machine.nic;
        let message = &self.messages[index as usize];
        let (head, phase, target) = (message.head, message.phase, message.target);
        if phase == Phase::Refusal {
            return;
        }
        let rank = self.receiver(index);
        let hardware = &mut self.hardware[target as usize];
        let cost = if nic.mode == Mode::Nic { nic.header } else { nic.transfer };
        let (start, mut done) = hardware.work(&machine, Engine::Receive, head, cost);
        self.span(rank, Unit::NicReceive, "header", start, done, index);
        if nic.mode == Mode::Host {
            let hardware = &mut self.hardware[target as usize];
            let (served, matched) = hardware.serve(done, machine.host.interrupt + nic.header);
            self.statistics.interrupts += 1;
            self.span(rank, Unit::Host, "interrupt", served, matched, index);
            done = matched;
        }
        self.messages[index as usize].header_done = done;
    }

    /// All of a message has arrived and it is the next of its pair: it is delivered when its bytes are in memory.
    fn accept(&mut self, now: Time, index: u32) {
        let machine = self.machine.clone();
        let host = &machine.host;
        if self.is_in_memory(index) {
            self.messages[index as usize].header_done = now;
            return self.schedule_delivery(now, index);
        }
        if self.messages[index as usize].header_done == Time::MAX {
            self.take_header(index);
        }
        let message = &self.messages[index as usize];
        let (bytes, done, target) = (message.bytes, message.header_done, message.target);
        let hardware = &mut self.hardware[target as usize];
        let at = match machine.nic.mode {
            Mode::Nic => {
                let written = if bytes > 0 { hardware.write(&machine, done, bytes) } else { now };
                now.max(done).max(written) + host.dma_write
            }
            Mode::Host if bytes > host.pio_bytes_max => {
                let written = hardware.write(&machine, done + host.doorbell, bytes);
                let (start, end) = hardware.serve(now.max(written) + host.dma_write, host.interrupt);
                self.statistics.interrupts += 1;
                let rank = self.receiver(index);
                self.span(rank, Unit::Host, "interrupt", start, end, index);
                end
            }
            Mode::Host => now.max(done),
        };
        self.schedule_delivery(at, index);
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
        let machine = self.machine.clone();
        let is_in_memory = self.is_in_memory(index);
        let message = &mut self.messages[index as usize];
        let (from, to, ni, started, target) = (message.from, message.to, message.ni, message.started, message.target);
        let payload = std::mem::take(&mut message.payload);
        let request = &message.command.request;
        let found = self.ranks.find(message.command.target, ni).filter(|(rank, _)| *rank == to);
        // The target's number of its NIC.
        let ni = found.map_or(ni, |(_, ni)| ni);
        let mut searched = ListSearch::default();
        if machine.nic.matching == Matching::List || machine.nic.mode == Mode::Host {
            self.ranks.with_nic(to, ni, &mut |nic| searched = list_search::request_search(nic, request));
        }
        let mut steps = StepCosts { nic: &machine.nic, searched: 0, cost: Time::ZERO };
        let mut reply = Vec::new();
        if is_in_memory {
            self.ranks.take_in(from, (to, ni), &mut steps);
        }
        let delivery = if found.is_none() {
            Delivery::failed(fail::UNDELIVERABLE)
        } else {
            match self.ranks.deliver(to, ni, request, &payload, &mut reply, &mut steps) {
                Verdict::Done(delivery) => delivery,
                Verdict::Unreachable | Verdict::Full => Delivery::failed(fail::DROPPED),
                Verdict::Initiator(Fault::Gone) => Delivery::failed(fail::UNDELIVERABLE),
                Verdict::Initiator(_) => Delivery::failed(fail::SEGV),
            }
        };
        let (steps_searched, steps_cost) = (steps.searched, steps.cost);
        let compared = match machine.nic.matching {
            Matching::List => searched.compared,
            Matching::Hash => steps_searched,
        };
        let cost = steps_cost + machine.search(compared, searched.length);
        let finish = now + cost;
        if !is_in_memory {
            self.hardware[target as usize].prolong(&machine, machine.nic.mode == Mode::Host, cost);
        }
        let unit = if machine.nic.mode == Mode::Host { Unit::Host } else { Unit::NicReceive };
        self.span(to, unit, "match", now, finish, index);
        self.statistics.messages += 1;
        self.statistics.payload_bytes += delivery.mlength;
        self.statistics.entries_searched += compared;
        self.statistics.delivered_after(finish.saturating_sub(started));
        self.statistics.note(&[u64::from(to), now.0, u64::from(delivery.fail), delivery.mlength, compared]);
        self.schedule_fired(to, ni, finish);
        self.wake(to, finish + machine.host.software_receive);
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
    fn respond(&mut self, at: Time, index: u32) {
        self.statistics.responses += 1;
        let extra = if self.machine.nic.mode == Mode::Host { self.machine.host.doorbell } else { Time::ZERO };
        self.queue.schedule(at + extra, Event::Issue(index));
    }
}

/// Stands for a lost message in [`Pair::held`].
const LOST: u32 = u32::MAX;

fn name_of(phase: Phase) -> &'static str {
    match phase {
        Phase::Free | Phase::Request => "request",
        Phase::Response => "response",
        Phase::Refusal => "refusal",
    }
}
