// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands on their way from a program to its NIC, through the node's host interface (seed 002, chapter 6).
//!
//! ```text
//!                      posted: a place? ── none: the processor stands still, or the program sleeps
//!                             │
//! start ─ software, kernel ─> offer ─ request ─> request_place ─ answer ─> the program continues, or its library offers again
//!                             │                   │
//!                             └── queue ──────────┴─ the NIC begins ─> fetch ─> issue (`transfers.rs`)
//!                                                     and the place is free
//! ```
//!
//! Invariants
//! 1. A command has a place from its admission until the NIC begins with it. There are `places` of them.
//! 2. Programs that wait for a place get it in order. Refused programs ask again; the command that arrives first is
//!    taken.
//! 3. The NIC takes commands in order, and only while fewer than `outgoing` messages of its node wait for the fabric.
//!    So a fabric that takes no packets fills the queue.
//! 4. After [`ATTEMPTS`] refusals the library returns an error, if its caller asked for it. Otherwise it offers the
//!    command again, and doubles each pause; such attempts do not count as progress of the run.
//!
//! Costs: two events for a command, and one for each place that is freed later.

use selvedge_nic::tables::{Command, kind};
use selvedge_nic::velo::header::UNIT_BYTES;
use selvedge_nic::velo::{Extent, Header};

use crate::machine::Machine;
use crate::machine::graph::Class;
use crate::machine::interface::{DESCRIPTOR_BYTES, FullQueue, Interface, InterfaceKind};
use crate::time::Time;

use super::events::Event;
use super::message::{ATTEMPTS, Message, NONE, Offer};
use super::rank_states::Activity;
use super::ranks::{Bytes, Ranks, StartFlags};
use super::trace::Unit;
use super::transfers::Transfers;

const PAUSE_LONGEST: Time = Time::from_ns(100_000_000);
/// Stores up to this length are never split: one vector register (section 6.4.4).
const ATOMIC_BYTES: u64 = 16;

/// Returns the machine's host interface. Commands are only offered on a machine that has one.
fn interface_of(machine: &Machine) -> &Interface {
    machine.interface.as_ref().expect("a command is offered on a machine with an interface")
}

impl<R: Ranks> Transfers<R> {
    /// Hands a command to the NIC: the program's processor does its part, then offers the command.
    pub fn hand_to_nic(
        &mut self,
        at: Time,
        rank: u32,
        ni: u32,
        (command, payload): (Box<Command>, Bytes),
        flags: StartFlags,
    ) {
        let bytes = payload.len() as u64;
        let machine = self.nodes.machine.clone();
        let path = machine.graph.path(Class::of_request(&command));
        let interface = interface_of(&machine);
        let library: Time = path.issue[0].iter().map(|pass| pass.latency).sum();
        let cost = self.nodes.rank_states[rank].pace.step(library + interface.before + interface.copy(bytes));
        let message = self.nodes.new_message(at, rank, ni, command, payload);
        self.nodes.span(rank, Unit::Host, "send", at, at + cost, message);
        let mut ready = at + cost;
        if let Some(driver) = &interface.driver {
            ready = self.nodes.units_of(rank).pass(driver, ready, 0).1;
        }
        let state = &mut self.nodes.rank_states[rank];
        let is_again = state.refused && flags.or_refuse;
        self.nodes.messages[message].offer = Offer { flags, since: ready, is_again, ..Offer::default() };
        state.commands.first.get_or_insert(ready);
        state.activity = Activity::Offering { since: ready, waits_in: None };
        state.changed = false;
        self.schedule_attempt(ready, Event::Offer(message), message);
    }

    pub fn offer(&mut self, now: Time, index: u32) {
        let message = &self.nodes.messages[index];
        let (rank, offer) = (message.from, message.offer);
        if self.nodes.rank_states[rank].has_ended() {
            return self.drop_command(index);
        }
        if offer.attempts == 0 && offer.rest == NONE && self.is_split(index) {
            self.split(index);
        }
        if !self.nodes.take_credit(index) {
            return self.lacks_credit(now, index);
        }
        let machine = self.nodes.machine.clone();
        let interface = interface_of(&machine);
        if interface.full_queue == FullQueue::Refuse {
            let item = (now, self.store_bytes(index));
            let passage = self.nodes.units_of(rank).through(&machine.graph, &interface.offer, item, |_, _, _| ());
            return self.schedule_attempt(passage.end, Event::RequestPlace(index), index);
        }
        if self.nodes.hardware_of(rank).commands.take_place(interface.places) {
            return self.post(now, index, false);
        }
        self.nodes.hardware_of(rank).commands.wait(index);
        self.nodes.statistics.commands_waited += 1;
        let waits_in = Some(interface.full_queue);
        self.nodes.rank_states[rank].activity = Activity::Offering { since: now, waits_in };
    }

    fn post(&mut self, now: Time, index: u32, waited: bool) {
        let rank = self.nodes.messages[index].from;
        let machine = self.nodes.machine.clone();
        let interface = interface_of(&machine);
        let item = (now, self.store_bytes(index));
        let passage = self.nodes.units_of(rank).through(&machine.graph, &interface.offer, item, |_, _, _| ());
        self.accepted(now, index);
        self.nodes.events.schedule(passage.end, Event::Queued(index));
        let slept = waited && interface.full_queue == FullQueue::Sleep;
        let goes_on = passage.admitted + if slept { interface.wake } else { Time::ZERO };
        self.handed_over(goes_on, index);
    }

    /// Handles a command at the queue that needs an answer: a place, or a refusal.
    pub fn request_place(&mut self, now: Time, index: u32) {
        let rank = self.nodes.messages[index].from;
        let machine = self.nodes.machine.clone();
        let interface = interface_of(&machine);
        let back = self.nodes.units_of(rank).through(&machine.graph, &interface.answer, (now, 0), |_, _, _| ()).end;
        if self.nodes.hardware_of(rank).commands.take_place(interface.places) {
            self.accepted(now, index);
            self.handed_over(back, index);
            return self.queued(now, index);
        }
        self.nodes.statistics.commands_refused += 1;
        self.nodes.rank_states[rank].commands.refused += 1;
        let offer = &mut self.nodes.messages[index].offer;
        offer.attempts += 1;
        let attempts = offer.attempts;
        if offer.flags.or_refuse && attempts >= ATTEMPTS {
            return self.refuse(back, index);
        }
        let first = interface.retry.max(machine.host.poll);
        let doubled = first * (1 << attempts.saturating_sub(ATTEMPTS).min(24));
        let pause = self.nodes.rank_states[rank].pace.step(doubled.min(PAUSE_LONGEST.max(first)));
        self.schedule_attempt(back + pause, Event::Offer(index), index);
    }

    /// Handles a message whose sender has too few credits: its library returns an error, or waits.
    fn lacks_credit(&mut self, now: Time, index: u32) {
        self.nodes.statistics.credits_lacked += 1;
        let message = &mut self.nodes.messages[index];
        if message.offer.flags.or_refuse {
            return self.refuse(now, index);
        }
        message.offer.forget_attempts();
        let rank = message.from;
        self.nodes.credits.wait(index, rank);
        self.nodes.rank_states[rank].activity = Activity::Uncredited { since: now };
    }

    fn refuse(&mut self, at: Time, index: u32) {
        let rank = self.nodes.messages[index].from;
        self.drop_command(index);
        if !self.nodes.rank_states[rank].has_ended() {
            self.nodes.ranks.refused(rank);
            let state = &mut self.nodes.rank_states[rank];
            (state.activity, state.refused) = (Activity::Due, true);
            // If the program offers the same command again, it makes no progress.
            self.nodes.rank_states.schedule_turn(&mut self.nodes.events, rank, at, true);
        }
    }

    /// Frees a command that the queue has not admitted, with its second part.
    fn drop_command(&mut self, index: u32) {
        let rest = self.nodes.messages[index].offer.rest;
        self.nodes.free_message(index);
        if rest != NONE {
            self.nodes.free_message(rest);
        }
    }

    /// Schedules an attempt of a command. A retry counts as a poll.
    fn schedule_attempt(&mut self, at: Time, event: Event, index: u32) {
        let is_retry = self.nodes.messages[index].offer.is_retry();
        self.nodes.events.schedule_as(at, event, is_retry);
    }

    fn accepted(&mut self, now: Time, index: u32) {
        let message = &self.nodes.messages[index];
        let state = &mut self.nodes.rank_states[message.from];
        state.commands.accept(message.offer.since, now);
        state.refused = false;
        self.nodes.events.progress(now);
        self.nodes.statistics.commands += 1;
        self.nodes.statistics.commands_split += u64::from(message.offer.rest != NONE);
    }

    /// Continues the program after a command; or offers the second part of a split store, after the interrupt.
    fn handed_over(&mut self, at: Time, index: u32) {
        let Message { from: rank, offer, .. } = self.nodes.messages[index];
        if self.nodes.rank_states[rank].has_ended() {
            if offer.rest != NONE {
                self.nodes.free_message(offer.rest);
            }
            return;
        }
        if offer.rest != NONE {
            let at = at + self.nodes.machine.host.interrupt;
            let rest = &mut self.nodes.messages[offer.rest].offer;
            // The first half is already with the NIC, so the command can no longer be refused.
            let flags = StartFlags { or_refuse: false, ..offer.flags };
            *rest = Offer { flags, since: at, attempts: 1, ..Offer::default() };
            return self.nodes.events.schedule(at, Event::Offer(offer.rest));
        }
        if offer.flags.waits {
            self.nodes.ranks.started(rank, at);
            // A NIC may already have changed.
            if !self.nodes.rank_states[rank].changed {
                return self.nodes.rank_states[rank].wait(at);
            }
        }
        self.nodes.rank_states.go_on(&mut self.nodes.events, rank, at);
    }

    // ---- In the queue --------------------------------------------------------------------------------------------

    /// Handles a command that is in the queue. The NIC takes it if no earlier command waits.
    pub fn queued(&mut self, now: Time, index: u32) {
        let node = self.nodes.node_of(self.nodes.messages[index].from);
        let queue = &self.nodes.hardware[node as usize].commands;
        if queue.held.is_empty() && !self.is_held_up(node) {
            return self.take_command(now, index);
        }
        self.nodes.hardware[node as usize].commands.held.push_back(index);
    }

    /// Whether too many messages of the node wait for the fabric, so that its NIC takes no command.
    fn is_held_up(&self, node: u32) -> bool {
        let most = interface_of(&self.nodes.machine).outgoing;
        self.fabric.has_packets() && self.nodes.hardware[node as usize].rails.leaving() >= most
    }

    /// Lets the NIC take held commands, after a message of the node has left.
    pub fn take_held(&mut self, now: Time, node: u32) {
        while !self.nodes.hardware[node as usize].commands.held.is_empty() && !self.is_held_up(node) {
            if let Some(index) = self.nodes.hardware[node as usize].commands.held.pop_front() {
                self.take_command(now, index);
            }
        }
    }

    /// Takes a command: the NIC reads the missing parts, and its requester begins. Then the place is free.
    fn take_command(&mut self, now: Time, index: u32) {
        let node = self.nodes.node_of(self.nodes.messages[index].from);
        let machine = self.nodes.machine.clone();
        let interface = interface_of(&machine);
        let message = &self.nodes.messages[index];
        let path = machine.graph.path(Class::of_request(&message.command));
        let command = &path.command[usize::from(path.reads(message.payload.len() as u64))];
        let first = interface.fetch.first().or(command.first());
        let units = &mut self.nodes.hardware[node as usize].units;
        let begins = first.map_or(now, |pass| units.begins(pass, now));
        let there = units.through(&machine.graph, &interface.fetch, (now, DESCRIPTOR_BYTES), |_, _, _| ()).end;
        let since = self.nodes.messages[index].offer.since;
        self.nodes.statistics.command_started(there.max(begins).saturating_sub(since));
        self.nodes.events.schedule(begins, Event::PlaceFreed(node));
        if there > now { self.nodes.events.schedule(there, Event::Issue(index)) } else { self.issue(now, index) }
    }

    /// Gives a free place in a node's queue to the command that has waited longest.
    pub fn place_freed(&mut self, now: Time, node: u32) {
        let places = interface_of(&self.nodes.machine).places;
        self.nodes.hardware[node as usize].commands.free_place();
        while let Some(index) = self.nodes.hardware[node as usize].commands.next_waiting(places) {
            let rank = self.nodes.messages[index].from;
            if self.nodes.rank_states[rank].has_ended() {
                self.drop_command(index);
            } else {
                self.nodes.hardware[node as usize].commands.take_place(places);
                self.post(now, index, true);
            }
        }
    }

    // ---- Split stores --------------------------------------------------------------------------------------------

    /// Whether an interrupt falls within the store of a message (section 6.4.4). Draws only if the store can be split.
    fn is_split(&mut self, index: u32) -> bool {
        let interface = interface_of(&self.nodes.machine);
        let share = interface.splits_ppm;
        let carries = interface.kind == InterfaceKind::CfcqData && self.store_bytes(index) > ATOMIC_BYTES;
        let message = &self.nodes.messages[index];
        let can_be = share > 0 && carries && message.command.kind == kind::VELO_SEND;
        can_be && self.nodes.rank_states[message.from].splits.below(1_000_000) < u64::from(share)
    }

    /// Splits a message behind one of its vector registers. The parts travel as two messages.
    fn split(&mut self, index: u32) {
        let message = &self.nodes.messages[index];
        let (rank, at, bytes) = (message.from, message.started, message.payload.len() as u64);
        let Ok(header) = Header::from_word(message.command.match_bits) else { return };
        let first = ATOMIC_BYTES * (1 + self.nodes.rank_states[rank].splits.below((bytes - 1) / ATOMIC_BYTES));
        // Parts are whole units, the last one padded.
        let whole = header.extent.message_bytes();
        let padded = u64::from(whole.next_multiple_of(UNIT_BYTES));
        let part = |from: u64, bytes: u64| Extent::part(whole, from as u32, bytes as u32);
        let (Some(head), Some(tail)) = (part(0, first), part(first, padded - first)) else { return };
        let (mut command, ni) = (message.command.clone(), message.ni);
        let rest = Bytes::from_slice(&message.payload[first as usize..]);
        command.request.match_bits = Header { extent: tail, ..header }.word();
        command.request.length = rest.len() as u64;
        let second = self.nodes.new_message(at, rank, ni, command, rest);
        let message = &mut self.nodes.messages[index];
        message.command.request.match_bits = Header { extent: head, ..header }.word();
        message.command.request.length = first;
        message.payload.truncate(first as usize);
        message.bytes = first;
        message.offer.rest = second;
    }

    fn store_bytes(&self, index: u32) -> u64 {
        let message = &self.nodes.messages[index];
        let bytes = message.payload.len() as u64;
        let path = self.nodes.machine.graph.path(Class::of_request(&message.command));
        if path.reads(bytes) { 0 } else { bytes }
    }
}
