// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands on their way from a program to the NIC of its node, by the node's host interface (seed 002, chapter 6).
//!
//! ```text
//!                        posted: a place? ── none: the processor stands still, or the program sleeps
//!                               │
//! start ─ software, kernel ─> offer ─ request ─> knock: a place? ─ answer ─> the program goes on, or its library offers again
//!                               │                   │
//!                               └── queue ──────────┴─ the NIC begins ─> fetch ─> issue (`message.rs`)
//!                                                       and the place is free
//! ```
//!
//! Invariants
//! 1. A command has a place from the moment that it is admitted until the NIC begins with it. There are `places` of them.
//! 2. Programs that wait for a place get it in the order in which they asked. Programs that are refused ask again, and whose
//!    command comes first is taken.
//! 3. The NIC takes commands in order, and only while fewer than `outgoing` messages of its node wait for the fabric. So a fabric that
//!    takes no packets fills the queue.
//! 4. After [`ATTEMPTS`] refusals the library returns an error, if its caller asked for it. Otherwise it offers the command again, and
//!    each pause is twice the last; such attempts are no progress of the run.
//!
//! Costs: two events for a command, and one for each time that its place is freed later.

use std::collections::VecDeque;

use selvedge_nic::tables::{Command, kind};
use selvedge_nic::velo::header::UNIT_BYTES;
use selvedge_nic::velo::{Extent, Header};

use crate::machine::Machine;
use crate::machine::graph::Class;
use crate::machine::interface::{DESCRIPTOR_BYTES, Interface, Way, WhenFull};
use crate::time::Time;

use super::fabric::AnyNetwork;
use super::message::Message;
use super::ranks::{Bytes, Ranks};
use super::run::{Activity, Event, NONE, Simulation};
use super::trace::Unit;

/// Attempts of a command before the library returns an error, or doubles the pauses between attempts.
const ATTEMPTS: u32 = 16;
/// The longest pause between two attempts.
const PAUSE_LONGEST: Time = Time::from_ns(100_000_000);
/// Stores up to so many bytes are never split: one vector register (section 6.4.4).
const ATOMIC_BYTES: u64 = 16;

/// The queue of commands of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct CommandQueue {
    /// Places that commands have.
    taken: u32,
    /// Commands in the queue that the NIC does not take, because messages before them wait for the fabric.
    held: VecDeque<u32>,
    /// Commands whose programs wait for a place.
    waiting: VecDeque<u32>,
}

/// What a program wants of a command that it hands over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// It continues when one of its NICs has changed after the NIC has the command.
    pub waits: bool,
    /// The library returns an error if the NIC refuses the command, instead of offering it again.
    pub or_refuse: bool,
}

/// A command that is offered to its NIC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub wish: Wish,
    /// When the processor had done its part.
    since: Time,
    pub attempts: u32,
    /// Its program offers again what was refused.
    is_again: bool,
    /// The second part of a message whose store was split, or [`NONE`].
    pub rest: u32,
}

impl Offer {
    /// Whether it is one of many attempts, which are no progress.
    pub fn is_retry(&self) -> bool {
        self.is_again || self.attempts > ATTEMPTS
    }

    /// It waits for credits, and is then offered as a command that was not refused.
    pub fn calm(&mut self) {
        (self.attempts, self.is_again) = (self.attempts.min(1), false);
    }
}

impl Default for Offer {
    fn default() -> Offer {
        Offer { wish: Wish::default(), since: Time::ZERO, attempts: 0, is_again: false, rest: NONE }
    }
}

/// The commands of one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankCommands {
    pub accepted: u64,
    /// Attempts that the NIC refused.
    pub refused: u64,
    /// The first offer; when the queue had the last command.
    pub first: Option<Time>,
    pub last: Time,
    /// From a command's first offer until the queue has it: the sum, and the longest.
    pub waited: Time,
    pub waited_longest: Time,
}

impl RankCommands {
    fn accept(&mut self, since: Time, now: Time) {
        let waited = now.saturating_sub(since);
        self.accepted += 1;
        self.last = now;
        self.waited += waited;
        self.waited_longest = self.waited_longest.max(waited);
    }

    /// Commands a second. None: it has offered none, or its only ones were taken at once.
    pub fn rate(&self) -> Option<f64> {
        let time = self.last.saturating_sub(self.first?);
        match (self.accepted, time) {
            (0, _) => Some(0.0),
            (_, Time::ZERO) => None,
            (accepted, time) => Some(accepted as f64 / time.as_seconds_f64()),
        }
    }
}

/// The index of fairness of Jain, Chiu and Hawe (1984) over the rates at which ranks of one node got their commands accepted: 1 if all
/// are equal, 1/n if one of n had all. None: no rank has a rate.
pub fn fairness(commands: impl Iterator<Item = RankCommands>) -> Option<f64> {
    let rates: Vec<f64> = commands.filter_map(|rank| rank.rate()).collect();
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|rate| rate * rate).sum::<f64>());
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

/// The host interface of a machine that has one: commands are offered on no other.
fn interface_of(machine: &Machine) -> &Interface {
    machine.interface.as_ref().expect("a command is offered on a machine with an interface")
}

impl<R: Ranks> Simulation<R> {
    /// A program hands a command to its NIC: its processor does its part, and then offers it.
    pub(super) fn hand_to_nic(
        &mut self,
        at: Time,
        rank: u32,
        ni: u32,
        (command, payload): (Box<Command>, Bytes),
        wish: Wish,
    ) {
        let bytes = payload.len() as u64;
        let machine = self.machine.clone();
        let path = machine.graph.path(Class::of_request(&command));
        let interface = interface_of(&machine);
        let library: Time = path.issue[0].iter().map(|pass| pass.latency).sum();
        let cost = self.rank_states[rank as usize].pace.step(library + interface.before + interface.copy(bytes));
        let message = self.new_message(at, rank, ni, command, payload);
        self.span(rank, Unit::Host, "send", at, at + cost, message);
        let mut ready = at + cost;
        if let Some(driver) = &interface.driver {
            ready = self.units_of(rank).pass(driver, ready, 0).1;
        }
        let state = &mut self.rank_states[rank as usize];
        let is_again = state.refused && wish.or_refuse;
        self.messages[message as usize].offer = Offer { wish, since: ready, is_again, ..Offer::default() };
        state.commands.first.get_or_insert(ready);
        state.activity = Activity::Offering { since: ready, waits_in: None };
        state.changed = false;
        self.schedule_attempt(ready, Event::Offer(message), message);
    }

    /// A program offers a command.
    pub(super) fn offer(&mut self, now: Time, index: u32) {
        let message = &self.messages[index as usize];
        let (rank, offer) = (message.from, message.offer);
        if matches!(self.rank_states[rank as usize].activity, Activity::Ended) {
            return self.drop_command(index);
        }
        if offer.attempts == 0 && offer.rest == NONE && self.is_split(index) {
            self.split(index);
        }
        if !self.take_credit(index) {
            return self.lacks_credit(now, index);
        }
        let node = self.nodes[rank as usize];
        let machine = self.machine.clone();
        let interface = interface_of(&machine);
        if interface.when_full == WhenFull::Refuse {
            let item = (now, self.store_bytes(index));
            let way = self.units_of(rank).through(&machine.graph, &interface.offer, item, |_, _, _| ());
            return self.schedule_attempt(way.end, Event::Knock(index), index);
        }
        if self.hardware[node as usize].commands.taken < interface.places {
            return self.post(now, index, false);
        }
        self.hardware[node as usize].commands.waiting.push_back(index);
        self.statistics.commands_waited += 1;
        self.rank_states[rank as usize].activity =
            Activity::Offering { since: now, waits_in: Some(interface.when_full) };
    }

    /// A command is posted: it has a place in the queue, and travels there.
    fn post(&mut self, now: Time, index: u32, waited: bool) {
        let rank = self.messages[index as usize].from;
        let node = self.nodes[rank as usize];
        let machine = self.machine.clone();
        let interface = interface_of(&machine);
        self.hardware[node as usize].commands.taken += 1;
        let item = (now, self.store_bytes(index));
        let way = self.units_of(rank).through(&machine.graph, &interface.offer, item, |_, _, _| ());
        self.accepted(now, index);
        self.queue.schedule(way.end, Event::Queued(index));
        let slept = waited && interface.when_full == WhenFull::Sleep;
        let goes_on = way.admitted + if slept { interface.wake } else { Time::ZERO };
        self.handed_over(goes_on, index);
    }

    /// A command that wants an answer has come to the queue.
    pub(super) fn knock(&mut self, now: Time, index: u32) {
        let rank = self.messages[index as usize].from;
        let node = self.nodes[rank as usize];
        let machine = self.machine.clone();
        let interface = interface_of(&machine);
        let back = self.units_of(rank).through(&machine.graph, &interface.answer, (now, 0), |_, _, _| ()).end;
        if self.hardware[node as usize].commands.taken < interface.places {
            self.hardware[node as usize].commands.taken += 1;
            self.accepted(now, index);
            self.handed_over(back, index);
            return self.queued(now, index);
        }
        self.statistics.commands_refused += 1;
        self.rank_states[rank as usize].commands.refused += 1;
        let offer = &mut self.messages[index as usize].offer;
        offer.attempts += 1;
        let attempts = offer.attempts;
        if offer.wish.or_refuse && attempts >= ATTEMPTS {
            return self.refuse(back, index);
        }
        let first = interface.retry.max(machine.host.poll);
        let doubled = first * (1 << attempts.saturating_sub(ATTEMPTS).min(24));
        let pause = self.rank_states[rank as usize].pace.step(doubled.min(PAUSE_LONGEST.max(first)));
        self.schedule_attempt(back + pause, Event::Offer(index), index);
    }

    /// Returns a refusal to the program. No record of the command is left.
    pub(super) fn refuse(&mut self, at: Time, index: u32) {
        let rank = self.messages[index as usize].from;
        self.drop_command(index);
        if !matches!(self.rank_states[rank as usize].activity, Activity::Ended) {
            self.ranks.refused(rank);
            let state = &mut self.rank_states[rank as usize];
            (state.activity, state.refused) = (Activity::Due, true);
            // What it does next is no progress if it is the same again.
            self.schedule_turn(rank, at, true);
        }
    }

    /// Frees a command that the queue has not admitted, with its second part.
    fn drop_command(&mut self, index: u32) {
        let rest = self.messages[index as usize].offer.rest;
        self.free_message(index);
        if rest != NONE {
            self.free_message(rest);
        }
    }

    /// Schedules an attempt of a command. One that is no progress counts as a poll.
    fn schedule_attempt(&mut self, at: Time, event: Event, index: u32) {
        self.queued_polls += usize::from(self.messages[index as usize].offer.is_retry());
        self.queue.schedule(at, event);
    }

    /// The queue has admitted a command.
    fn accepted(&mut self, now: Time, index: u32) {
        let message = &self.messages[index as usize];
        let state = &mut self.rank_states[message.from as usize];
        state.commands.accept(message.offer.since, now);
        state.refused = false;
        (self.last_progress, self.failed_polls) = (now, 0);
        self.statistics.commands += 1;
        self.statistics.commands_split += u64::from(message.offer.rest != NONE);
    }

    /// The program goes on behind a command; or, where its store was split, with the second part of it after the interrupt.
    fn handed_over(&mut self, at: Time, index: u32) {
        let Message { from: rank, offer, .. } = self.messages[index as usize];
        if matches!(self.rank_states[rank as usize].activity, Activity::Ended) {
            if offer.rest != NONE {
                self.free_message(offer.rest);
            }
            return;
        }
        if offer.rest != NONE {
            let at = at + self.machine.host.interrupt;
            let rest = &mut self.messages[offer.rest as usize].offer;
            // Half a message cannot be taken back.
            let wish = Wish { or_refuse: false, ..offer.wish };
            *rest = Offer { wish, since: at, attempts: 1, ..Offer::default() };
            return self.queue.schedule(at, Event::Offer(offer.rest));
        }
        if offer.wish.waits {
            self.ranks.started(rank, at);
            // A NIC may have changed already.
            if !self.rank_states[rank as usize].changed {
                return self.rank_states[rank as usize].wait(at);
            }
        }
        self.go_on(rank, at);
    }

    fn go_on(&mut self, rank: u32, at: Time) {
        self.rank_states[rank as usize].activity = Activity::Due;
        self.schedule_turn(rank, at, false);
    }

    // ---- In the queue --------------------------------------------------------------------------------------------

    /// A command is in the queue. The NIC takes it if nothing before it waits.
    pub(super) fn queued(&mut self, now: Time, index: u32) {
        let node = self.nodes[self.messages[index as usize].from as usize];
        let queue = &self.hardware[node as usize].commands;
        if queue.held.is_empty() && !self.is_held_up(node) {
            return self.take_command(now, index);
        }
        self.hardware[node as usize].commands.held.push_back(index);
    }

    /// Whether so many messages of the node wait for the fabric that its NIC takes no command.
    fn is_held_up(&self, node: u32) -> bool {
        let most = interface_of(&self.machine).outgoing;
        matches!(self.network, AnyNetwork::Packets(_)) && self.hardware[node as usize].leaving.len() >= most
    }

    /// A message of the node has left: its NIC may take commands that were held.
    pub(super) fn take_held(&mut self, now: Time, node: u32) {
        while !self.hardware[node as usize].commands.held.is_empty() && !self.is_held_up(node) {
            if let Some(index) = self.hardware[node as usize].commands.held.pop_front() {
                self.take_command(now, index);
            }
        }
    }

    /// The NIC takes a command: it reads what is not there yet, and its requester begins. Then the place is free.
    fn take_command(&mut self, now: Time, index: u32) {
        let rank = self.messages[index as usize].from;
        let node = self.nodes[rank as usize];
        let machine = self.machine.clone();
        let interface = interface_of(&machine);
        let message = &self.messages[index as usize];
        let path = machine.graph.path(Class::of_request(&message.command));
        let command = &path.command[usize::from(path.reads(message.payload.len() as u64))];
        let first = interface.fetch.first().or(command.first());
        let units = &mut self.hardware[node as usize].units;
        let begins = first.map_or(now, |pass| units.begins(pass, now));
        let there = units.through(&machine.graph, &interface.fetch, (now, DESCRIPTOR_BYTES), |_, _, _| ()).end;
        let since = self.messages[index as usize].offer.since;
        self.statistics.command_started(there.max(begins).saturating_sub(since));
        self.queue.schedule(begins, Event::Place(node));
        if there > now { self.queue.schedule(there, Event::Issue(index)) } else { self.issue(now, index) }
    }

    /// A place in the queue of a node is free: the command that has waited longest gets it.
    pub(super) fn place_freed(&mut self, now: Time, node: u32) {
        let places = interface_of(&self.machine).places;
        let queue = &mut self.hardware[node as usize].commands;
        queue.taken = queue.taken.saturating_sub(1);
        while self.hardware[node as usize].commands.taken < places {
            let Some(index) = self.hardware[node as usize].commands.waiting.pop_front() else { return };
            let rank = self.messages[index as usize].from;
            match self.rank_states[rank as usize].activity {
                Activity::Ended => self.drop_command(index),
                _ => self.post(now, index, true),
            }
        }
    }

    /// When the program of a rank has a message that its library has at `at`: behind the kernel and an interrupt, if it receives so.
    pub(super) fn received_at(&mut self, rank: u32, at: Time, bytes: u64) -> Time {
        let Some(interface) = &self.machine.interface else { return at };
        let mut at = at + interface.receive + interface.copy(bytes);
        if let Some((interrupt, wake)) = interface.interrupt {
            self.statistics.interrupts += 1;
            self.rank_states[rank as usize].served += interrupt;
            at += interrupt + wake;
        }
        at
    }

    // ---- Split stores --------------------------------------------------------------------------------------------

    /// Whether an interrupt comes within the store of a message (section 6.4.4). Random numbers are drawn only for stores that can be
    /// split.
    fn is_split(&mut self, index: u32) -> bool {
        let Interface { way, splits_ppm: share, .. } = *interface_of(&self.machine);
        let carries = way == Way::CfcqData && self.store_bytes(index) > ATOMIC_BYTES;
        let message = &self.messages[index as usize];
        let can_be = share > 0 && carries && message.command.kind == kind::VELO_SEND;
        can_be && self.rank_states[message.from as usize].splits.below(1_000_000) < u64::from(share)
    }

    /// Splits a message behind one of its vector registers. The parts travel as two messages.
    fn split(&mut self, index: u32) {
        let message = &self.messages[index as usize];
        let (rank, at, bytes) = (message.from, message.started, message.payload.len() as u64);
        let Ok(header) = Header::from_word(message.command.match_bits) else { return };
        let first = ATOMIC_BYTES * (1 + self.rank_states[rank as usize].splits.below((bytes - 1) / ATOMIC_BYTES));
        // Parts are in whole units, the last one padded.
        let whole = header.extent.message_bytes();
        let padded = u64::from(whole.next_multiple_of(UNIT_BYTES));
        let part = |from: u64, bytes: u64| Extent::part(whole, from as u32, bytes as u32);
        let (Some(head), Some(tail)) = (part(0, first), part(first, padded - first)) else { return };
        let (mut command, ni) = (message.command.clone(), message.ni);
        let rest = Bytes::from_slice(&message.payload[first as usize..]);
        command.request.match_bits = Header { extent: tail, ..header }.word();
        command.request.length = rest.len() as u64;
        let second = self.new_message(at, rank, ni, command, rest);
        let message = &mut self.messages[index as usize];
        message.command.request.match_bits = Header { extent: head, ..header }.word();
        message.command.request.length = first;
        message.payload.truncate(first as usize);
        message.bytes = first;
        message.offer.rest = second;
    }

    /// The fairness among the ranks of the node that has taken most commands.
    pub(super) fn fairness(&self) -> Option<f64> {
        let mut taken = vec![0; self.hardware.len()];
        let ranks = || self.rank_states.iter().zip(&self.nodes).take(self.ranks.size() as usize);
        for (state, node) in ranks() {
            taken[*node as usize] += state.commands.accepted;
        }
        let most = taken.iter().max()?;
        let busiest = taken.iter().position(|count| count == most)? as u32;
        let of_node = ranks().filter(|(_, node)| **node == busiest);
        fairness(of_node.map(|(state, _)| state.commands))
    }

    // ---- Helpers -------------------------------------------------------------------------------------------------

    /// Bytes that go to the NIC with a command.
    fn store_bytes(&self, index: u32) -> u64 {
        let message = &self.messages[index as usize];
        let bytes = message.payload.len() as u64;
        let path = self.machine.graph.path(Class::of_request(&message.command));
        if path.reads(bytes) { 0 } else { bytes }
    }

    fn units_of(&mut self, rank: u32) -> &mut super::units::NodeUnits {
        &mut self.hardware[self.nodes[rank as usize] as usize].units
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_one_for_equal_rates_and_one_of_n_if_one_has_all() {
        let rank = |accepted: u64, us: u64| RankCommands {
            accepted,
            first: Some(Time::ZERO),
            last: Time::from_ns(1000 * us),
            ..RankCommands::default()
        };
        let index = |ranks: &[RankCommands]| fairness(ranks.iter().copied()).unwrap_or(-1.0);
        assert_eq!(index(&[]), -1.0);
        // A rank that has offered nothing does not count; one that got nothing does.
        assert_eq!(index(&[rank(10, 1), rank(20, 2), RankCommands::default()]), 1.0);
        assert_eq!(index(&[rank(10, 1), rank(0, 0), rank(0, 0), rank(0, 0)]), 0.25);
        // Rates 1 and 3: 16 / (2 * 10).
        assert!((index(&[rank(10, 10), rank(30, 10)]) - 0.8).abs() < 1e-12);
    }
}
