// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The delivery of a message: a request to the target's NIC, a response to the initiator's.
//!
//! `nic` delivers; the machine prices each step. The part beyond a delivery's fixed cost keeps the unit busy that holds
//! the message, and delays the ranks that wait for its effect.

use selvedge_nic::portals::{Delivery, Verdict, fail};
use selvedge_nic::{Fault, Metered, NoMemory, Register, Step};

use crate::machine::graph::{Class, Path};
use crate::machine::{Matching, Mode, NicModel};
use crate::time::Time;

use super::hardware::Unblocked;
use super::list_search::{self, ListSearch};
use super::message::Phase;
use super::ranks::{Bytes, Incoming, Meter, Ranks};
use super::trace::Unit;
use super::transfers::Transfers;

/// Costs of one transition's steps: entries searched, pages translated, and all other steps.
struct StepCosts<'a> {
    nic: &'a NicModel,
    path: &'a Path,
    translates: bool,
    searched: u64,
    /// Look-ups of pages in the TLB: hits and misses.
    lookups: (u64, u64),
    cost: Time,
}

impl Meter for StepCosts<'_> {
    fn charge(&mut self, step: Step) {
        match step {
            Step::EntrySearched => self.searched += 1,
            Step::TlbHit if self.translates => self.lookups.0 += 1,
            Step::AddressTableRead if self.translates => self.lookups.1 += 1,
            // The path writes the records.
            Step::SlotWritten | Step::Notification if self.path.writes_records => {}
            other => self.cost += self.nic.price(other),
        }
    }
}

impl<R: Ranks> Transfers<R> {
    pub fn deliver(&mut self, now: Time, index: u32) {
        let nodes = &mut self.nodes;
        if self.switches.is_node(nodes.messages[index].to) {
            return self.switches.receive(nodes, now, index);
        }
        let machine = nodes.machine.clone();
        let is_in_memory = nodes.is_in_memory(index);
        let message = &mut nodes.messages[index];
        if !is_in_memory && nodes.hardware[message.target as usize].blocked.keeps(index) {
            return;
        }
        let (from, to, ni, started, target) = (message.from, message.to, message.ni, message.started, message.target);
        let (payload, message_class) = (std::mem::take(&mut message.payload), message.class);
        let token = message.tag(index);
        let request = &message.command.request;
        let found = nodes.ranks.find(from, message.command.target, ni).filter(|(rank, _)| *rank == to);
        // The target's number of its NIC.
        let ni = found.map_or(ni, |(_, ni)| ni);
        let mut searched = ListSearch::default();
        if machine.nic.matching == Matching::List || machine.nic.mode == Mode::Host {
            nodes.ranks.with_nic(to, ni, &mut |nic| searched = list_search::request_search(nic, request));
        }
        let path = machine.graph.path(message_class);
        let translates = machine.graph.translation.is_some();
        let nic = &machine.nic;
        let mut steps = StepCosts { nic, path, translates, searched: 0, lookups: (0, 0), cost: Time::ZERO };
        let mut reply = Vec::new();
        let is_from_node = self.switches.is_node(from);
        if is_in_memory && !is_from_node {
            nodes.ranks.take_in(from, (to, ni), &mut steps);
        }
        let delivery = if found.is_none() {
            Delivery::failed(fail::UNDELIVERABLE)
        } else {
            let incoming = Incoming { request, payload: &payload, token };
            match nodes.ranks.deliver(to, ni, &incoming, &mut reply, &mut steps) {
                Verdict::Done(delivery) => delivery,
                Verdict::Kept => {
                    message.phase = Phase::Kept;
                    Delivery::failed(fail::OK)
                }
                Verdict::Full if nodes.blocks_for(to) => return nodes.block(now, index, payload),
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
        let finish = nodes.translated(target, now + cost, lookups);
        if !is_in_memory {
            nodes.hardware[target as usize].units.prolong(path.holder, finish - now);
        }
        let unit = if machine.nic.mode == Mode::Host { Unit::Host } else { Unit::NicReceive };
        nodes.span(to, unit, "match", now, finish, index);
        nodes.statistics.messages += 1;
        nodes.statistics.payload_bytes += delivery.mlength;
        nodes.count_for_job(from, delivery.mlength, Some(finish.saturating_sub(started)));
        nodes.statistics.entries_searched += compared;
        nodes.statistics.delivered_after(finish.saturating_sub(started));
        nodes.rank_states[to].note(&[now.0, u64::from(delivery.fail), delivery.mlength, compared]);
        match delivery.fail {
            fail::OK => nodes.hold_slots(index),
            fail::DROPPED if message_class == Class::Velo => nodes.statistics.velo_discarded += 1,
            _ => {}
        }
        if nodes.messages[index].phase == Phase::Kept {
            return nodes.rank_states[to].note(&[4100]);
        }
        nodes.schedule_fired(to, ni, finish);
        // The library reads a line of memory for each further item of the message.
        let lines = machine.host.memory_access * (path.items(payload.len() as u64) - 1);
        // Of the result that the node of its host has written, each rank makes a copy.
        let copy = if is_in_memory && is_from_node { machine.host.copy(payload.len() as u64) } else { Time::ZERO };
        let received = finish + path.receive + lines + copy;
        let received = if is_in_memory { received } else { nodes.received_at(to, received, payload.len() as u64) };
        nodes.wake(to, received);
        let message = &mut nodes.messages[index];
        message.delivery = delivery;
        let acknowledges = !message.command.has_reply();
        if acknowledges && delivery.fail == fail::OK && !is_from_node {
            nodes.operation(index, finish, delivery.mlength);
        }
        let message = &mut nodes.messages[index];
        if !message.command.is_answered(&delivery) {
            return nodes.free_message(index);
        }
        message.phase = Phase::Response;
        reply.truncate(delivery.mlength as usize);
        message.payload = if acknowledges { Bytes::new() } else { reply.into() };
        // The response leaves after the search; other messages do not wait for it.
        nodes.respond(finish, index);
    }

    /// Handles an acknowledgement or reply at the initiator.
    pub fn answer(&mut self, now: Time, index: u32) {
        let nodes = &mut self.nodes;
        let machine = nodes.machine.clone();
        let is_in_memory = nodes.is_in_memory(index);
        let message = &mut nodes.messages[index];
        let (from, ni, target) = (message.from, message.ni, message.target);
        if !is_in_memory && nodes.hardware[target as usize].blocked.keeps(index) {
            return;
        }
        let mut at = now;
        let reply = std::mem::take(&mut message.payload);
        if message.command.has_reply() {
            self.watch_operation(now, index, Some(&reply));
        }
        let nodes = &mut self.nodes;
        let message = &mut nodes.messages[index];
        if message.command.has_reply() && message.delivery.fail == fail::OK {
            let bytes = reply.len().min(message.delivery.mlength as usize);
            let mut is_admitted = true;
            let command = &message.command;
            let mut lookups = (0, 0);
            nodes.ranks.with_nic(from, ni, &mut |nic| {
                let meter = |step| match step {
                    Step::TlbHit => lookups.0 += 1,
                    Step::AddressTableRead => lookups.1 += 1,
                    _ => {}
                };
                is_admitted = nic.admits_reply(&mut Metered { bus: NoMemory, meter }, command);
            });
            at = nodes.translated(target, at, lookups);
            let message = &mut nodes.messages[index];
            if !is_admitted || nodes.ranks.scatter(from, ni, &message.command.sink, &reply[..bytes]).is_err() {
                (message.delivery.fail, message.delivery.mlength) = (fail::SEGV, 0);
            }
        }
        let message = &nodes.messages[index];
        let path = machine.graph.path(message.class);
        if message.delivery.fail == fail::UNDELIVERABLE {
            nodes.ranks.with_nic(from, ni, &mut |nic| nic.signals.registers.add(Register::Undeliverable, 1));
        }
        let (has_reply, delivery) = (message.command.has_reply(), message.delivery);
        let received = nodes.received_at(from, at + path.record + path.receive, reply.len() as u64);
        if has_reply && delivery.fail == fail::OK {
            nodes.operation(index, received, delivery.mlength);
        }
        nodes.conclude(received, index);
    }

    /// Retries a node that blocks; the node continues if it can.
    pub fn unblock(&mut self, now: Time, node: u32) {
        let place = node as usize;
        let Some(index) = self.nodes.hardware[place].blocked.begin_retry() else { return };
        self.deliver(now, index);
        self.nodes.hardware[place].blocked.end_retry();
        while let Some(next) = self.nodes.hardware[place].blocked.next() {
            match next {
                Unblocked::Message(index) => match self.nodes.messages[index].phase {
                    Phase::Request => self.deliver(now, index),
                    _ => self.answer(now, index),
                },
                Unblocked::Packet(packet) => self.take_packet(now, &packet),
            }
        }
    }
}
