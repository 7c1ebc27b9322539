// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A message at the node where it arrives: header, payload, order, delivery.
//!
//! In host mode (seed 003, section III-B) the processor is interrupted for the header; it matches, and programs the transfer of what
//! did not come with the header; at the end of that it is interrupted once more.
//!
//! A NIC that cannot tell apart as many streams as arrive refuses the next long message: it is dropped, its sender told, and sent again
//! after a while (seed 003, section III-D). Later messages of the same pair wait at the target, so that the order holds.

use std::collections::BTreeMap;

use selvedge_nic::portals::{Delivery, Verdict, fail};
use selvedge_nic::tables::kind;
use selvedge_nic::{Fault, Step};

use crate::machine::{Matching, Mode};
use crate::network::Arrival;
use crate::time::Time;

use super::fabric::Fabric;
use super::message::{INDEX_SHIFT, Phase};
use super::ranks::{Bytes, Meter, Ranks};
use super::run::{Event, Simulation};
use super::station::Engine;
use super::trace::Unit;
use super::walk;

/// The order of messages between ranks, where the fabric or refusals may change it; a node itself sends in order.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub needed: bool,
    pub pairs: BTreeMap<(u32, u32), Pair>,
    pub numbers: u64,
}

#[derive(Debug, Default)]
pub(super) struct Pair {
    pub next_sent: u64,
    next_delivered: u64,
    /// Those that landed too early.
    held: BTreeMap<u64, u32>,
}

impl Pairs {
    pub fn new(needed: bool) -> Pairs {
        Pairs { needed, ..Pairs::default() }
    }
}

/// Steps of one transition, and what they cost but for searching.
struct Tally<'a> {
    nic: &'a crate::machine::NicModel,
    searched: u64,
    cost: Time,
}

impl Meter for Tally<'_> {
    fn charge(&mut self, step: Step) {
        match step {
            Step::EntrySearched => self.searched += 1,
            other => self.cost += self.nic.price(other),
        }
    }
}

impl<R: Ranks> Simulation<R> {
    // ---- The fabric ----------------------------------------------------------------------------------------------

    /// Packets that have arrived, or never will; and nodes whose next packet the fabric has room for again.
    pub(super) fn take_arrivals(&mut self, now: Time) {
        let Fabric::Packets(network) = &mut self.network else { return };
        while let Some(node) = network.take_notification() {
            if let Some(&next) = self.stations[node.0 as usize].leaving.front() {
                self.queue.schedule(now, Event::Inject(next));
            }
        }
        while let Some(arrival) = self.next_arrival() {
            let index = (arrival.packet().message >> INDEX_SHIFT) as u32;
            let head = match arrival {
                Arrival::Delivered(delivery) => delivery.head,
                Arrival::Lost(_) => {
                    self.flights[index as usize].lost = true;
                    now
                }
            };
            self.packet_arrived(now, index, head);
        }
    }

    fn next_arrival(&mut self) -> Option<Arrival> {
        if let Fabric::Packets(network) = &mut self.network { network.take_arrival() } else { None }
    }

    fn packet_arrived(&mut self, now: Time, index: u32, head: Time) {
        let flight = &mut self.flights[index as usize];
        let begins = flight.head == Time::MAX;
        flight.head = flight.head.min(head);
        if begins {
            self.begins_to_arrive(index);
        }
        let flight = &mut self.flights[index as usize];
        flight.packets_to_come = flight.packets_to_come.saturating_sub(1);
        if flight.packets_to_come == 0 && flight.bytes_to_send == 0 {
            self.landed(now, index);
        }
    }

    /// Its first packet is there.
    pub(super) fn begins_to_arrive(&mut self, index: u32) {
        let flight = &mut self.flights[index as usize];
        if flight.phase == Phase::Request && flight.packets_to_come > 1 {
            if self.stations[flight.target as usize].open_stream(&self.machine, flight.from) {
                flight.has_stream = self.machine.nic.streams_max != 0;
            } else {
                flight.refused = true;
            }
        }
        if !flight.refused && !flight.lost {
            self.take_header(index);
        }
    }

    // ---- At the node ---------------------------------------------------------------------------------------------

    /// All of it is there.
    pub(super) fn landed(&mut self, now: Time, index: u32) {
        let rank = self.sender(index);
        let (left, phase) = (self.flights[index as usize].left, self.flights[index as usize].phase);
        self.span(rank, Unit::Wire, name_of(phase), left, now, index);
        let flight = &mut self.flights[index as usize];
        if std::mem::take(&mut flight.has_stream) {
            self.stations[flight.target as usize].close_stream(flight.from);
        }
        if flight.lost {
            self.statistics.lost += 1;
            flight.delivery = Delivery::failed(fail::UNDELIVERABLE);
            if flight.phase == Phase::Request {
                self.skip_in_order(index, now);
            }
            return self.conclude(now, index);
        }
        match flight.phase {
            Phase::Refusal => {
                flight.phase = Phase::Request;
                flight.refused = false;
                self.queue.schedule(now + self.machine.nic.retry, Event::Issue(index));
            }
            Phase::Request if flight.refused => {
                flight.phase = Phase::Refusal;
                self.statistics.refused += 1;
                self.emit(now, index);
            }
            Phase::Request if self.pairs.needed => {
                let (pair, sequence) = ((flight.from, flight.to), flight.sequence);
                let order = self.pairs.pairs.entry(pair).or_default();
                order.held.insert(sequence, index);
                self.release_in_order(pair, now);
            }
            _ => self.take_in(now, index),
        }
    }

    fn release_in_order(&mut self, pair: (u32, u32), now: Time) {
        loop {
            let Some(order) = self.pairs.pairs.get_mut(&pair) else { return };
            let Some(index) = order.held.remove(&order.next_delivered) else { return };
            order.next_delivered += 1;
            if index != NOBODY {
                self.take_in(now, index);
            }
        }
    }

    /// A lost message's place in the order is empty.
    fn skip_in_order(&mut self, index: u32, now: Time) {
        if !self.pairs.needed {
            return;
        }
        let flight = &self.flights[index as usize];
        let (pair, sequence) = ((flight.from, flight.to), flight.sequence);
        self.pairs.pairs.entry(pair).or_default().held.insert(sequence, NOBODY);
        self.release_in_order(pair, now);
    }

    /// The header is there: the NIC deals with it, and in host mode the processor, after an interrupt.
    fn take_header(&mut self, index: u32) {
        let machine = self.machine.clone();
        let nic = &machine.nic;
        let flight = &self.flights[index as usize];
        let (head, phase, target) = (flight.head, flight.phase, flight.target);
        if phase == Phase::Refusal {
            return;
        }
        let rank = self.receiver(index);
        let station = &mut self.stations[target as usize];
        let cost = if nic.mode == Mode::Nic { nic.header } else { nic.transfer };
        let (start, mut done) = station.work(&machine, Engine::Receive, head, cost);
        self.span(rank, Unit::NicReceive, "header", start, done, index);
        if nic.mode == Mode::Host {
            let station = &mut self.stations[target as usize];
            let (served, matched) = station.serve(done, machine.host.interrupt + nic.header);
            self.statistics.interrupts += 1;
            self.span(rank, Unit::Host, "interrupt", served, matched, index);
            done = matched;
        }
        self.flights[index as usize].header_done = done;
    }

    /// All of it is there, and its turn has come: when its bytes are in memory it is delivered.
    fn take_in(&mut self, now: Time, index: u32) {
        let machine = self.machine.clone();
        let host = &machine.host;
        if self.flights[index as usize].header_done == Time::MAX {
            self.take_header(index);
        }
        let flight = &self.flights[index as usize];
        let (phase, bytes, done, target) = (flight.phase, flight.bytes, flight.header_done, flight.target);
        let station = &mut self.stations[target as usize];
        let at = match machine.nic.mode {
            Mode::Nic => {
                let written = if bytes > 0 { station.write(&machine, done, bytes) } else { now };
                now.max(done).max(written) + host.dma_write
            }
            Mode::Host if bytes > host.pio_bytes_max => {
                let written = station.write(&machine, done + host.doorbell, bytes);
                let (start, end) = station.serve(now.max(written) + host.dma_write, host.interrupt);
                self.statistics.interrupts += 1;
                let rank = self.receiver(index);
                self.span(rank, Unit::Host, "interrupt", start, end, index);
                end
            }
            Mode::Host => now.max(done),
        };
        // What landed first is delivered first.
        let at = self.stations[target as usize].in_order(at);
        self.queue.schedule(at, if phase == Phase::Request { Event::Deliver(index) } else { Event::Answer(index) });
    }

    /// A request meets the target's tables.
    pub(super) fn deliver(&mut self, now: Time, index: u32) {
        let machine = self.machine.clone();
        let flight = &mut self.flights[index as usize];
        let (to, ni, started, kind, target) =
            (flight.to, flight.ni, flight.started, flight.command.kind, flight.target);
        let payload = std::mem::take(&mut flight.payload);
        let request = &flight.command.request;
        let found = self.ranks.find(flight.command.target, ni).filter(|(rank, _)| *rank == to);
        // The target's number of its NIC.
        let ni = found.map_or(ni, |(_, ni)| ni);
        let mut searched = walk::Walk::default();
        if machine.nic.matching == Matching::List || machine.nic.mode == Mode::Host {
            self.ranks.with_nic(to, ni, &mut |nic| searched = walk::of_request(nic, request));
        }
        let mut tally = Tally { nic: &machine.nic, searched: 0, cost: Time::ZERO };
        let mut reply = Vec::new();
        let delivery = if found.is_none() {
            Delivery::failed(fail::UNDELIVERABLE)
        } else {
            match self.ranks.deliver(to, ni, request, &payload, &mut reply, &mut tally) {
                Verdict::Done(delivery) => delivery,
                Verdict::Unreachable => Delivery::failed(fail::DROPPED),
                Verdict::Initiator(Fault::Gone) => Delivery::failed(fail::UNDELIVERABLE),
                Verdict::Initiator(_) => Delivery::failed(fail::SEGV),
            }
        };
        let (tally_searched, tally_cost) = (tally.searched, tally.cost);
        let compared = match machine.nic.matching {
            Matching::List => searched.compared,
            Matching::Hash => tally_searched,
        };
        let cost = tally_cost + machine.search(compared, searched.length);
        let finish = now + cost;
        self.stations[target as usize].prolong(&machine, machine.nic.mode == Mode::Host, cost);
        let unit = if machine.nic.mode == Mode::Host { Unit::Host } else { Unit::NicReceive };
        self.span(to, unit, "match", now, finish, index);
        self.statistics.messages += 1;
        self.statistics.payload_bytes += delivery.mlength;
        self.statistics.entries_searched += compared;
        self.statistics.delivered_after(finish.saturating_sub(started));
        self.statistics.note(&[u64::from(to), now.0, u64::from(delivery.fail), delivery.mlength, compared]);
        self.fire_what_is_due(to, ni, finish);
        self.wake(to, finish + machine.host.software_receive);
        let flight = &mut self.flights[index as usize];
        flight.delivery = delivery;
        let acknowledges = matches!(kind, kind::PUT | kind::ATOMIC);
        let answers = flight.command.wants_response() && !(acknowledges && delivery.silent);
        if !answers {
            return self.free_flight(index);
        }
        flight.phase = Phase::Response;
        reply.truncate(delivery.mlength as usize);
        flight.payload = if acknowledges { Bytes::new() } else { reply.into() };
        // Nothing waits for the search of an entry but what follows from it.
        self.respond(finish, index);
    }

    /// The response goes back.
    fn respond(&mut self, at: Time, index: u32) {
        self.statistics.responses += 1;
        let extra = if self.machine.nic.mode == Mode::Host { self.machine.host.doorbell } else { Time::ZERO };
        self.queue.schedule(at + extra, Event::Issue(index));
    }
}

/// In place of a message that was lost.
const NOBODY: u32 = u32::MAX;

fn name_of(phase: Phase) -> &'static str {
    match phase {
        Phase::Free | Phase::Request => "request",
        Phase::Response => "response",
        Phase::Refusal => "refusal",
    }
}
