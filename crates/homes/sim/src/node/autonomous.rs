// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages that a NIC sends without its program: triggered operations, responses, and late answers to lock requests.
//!
//! A NIC keeps a lock request until it succeeds (seed 002, section 7.5.4). Its answer leaves when another request has
//! changed the lock, or when the wait has ended otherwise.
//!
//! 1. A kept request stays a message ([`Phase::Kept`]), which its tag names. A tag that names no such message was
//!    written by the rank's own process; it is dropped.
//! 2. The requests of a rank that has ended are forgotten. A NIC refuses the requests that it keeps when its rank dies,
//!    and the refusal travels back as if the message arrived now.
//!
//! Cost: for each rank that ends, a search of all messages of the run; only on machines whose NICs keep requests.

use selvedge_nic::NoMemory;
use selvedge_nic::portals::{Delivery, fail};
use selvedge_nic::rma::LateAnswer;

use crate::machine::graph::Class;
use crate::time::Time;

use super::events::Event;
use super::message::{Message, Phase, index_of};
use super::nodes::Nodes;
use super::ranks::Ranks;

impl<R: Ranks> Nodes<R> {
    /// Starts the triggered operations and sends the answers that are due, by the NIC, or in host mode the processor.
    pub fn fire(&mut self, now: Time, rank: u32, ni: u32) {
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
            let at = self.units_of(rank).through(&machine.graph, stage, (now, 0), |_, _, _| ()).end;
            let index = self.new_message(at, rank, ni, Box::new(command), payload.into());
            if gathered.is_err() {
                self.messages[index].delivery = Delivery::failed(fail::SEGV);
                self.conclude(at, index);
                continue;
            }
            self.events.schedule(at, Event::Issue(index));
        }
        self.send_answers(now, rank, ni);
        self.wake(rank, now);
    }

    pub fn respond(&mut self, at: Time, index: u32) {
        self.statistics.responses += 1;
        let message = &self.messages[index];
        let class = Class::of_response(&message.command, message.delivery.fail == fail::OK);
        let units = &mut self.hardware[message.target as usize].units;
        let stage = &self.machine.graph.path(class).fire;
        let at = units.through(&self.machine.graph, stage, (at, 0), |_, _, _| ()).end;
        self.events.schedule(at, Event::Issue(index));
    }

    // ---- Kept requests -------------------------------------------------------------------------------------------

    fn send_answers(&mut self, now: Time, rank: u32, ni: u32) {
        let executor = u64::from(rank) + 1;
        loop {
            let mut answer: Option<LateAnswer> = None;
            self.ranks.with_nic(rank, ni, &mut |nic| {
                answer = nic.locks().next_answer(executor, |_| true);
                if let Some(answer) = &answer {
                    nic.locks().finish_answer(answer.index, answer.sequence);
                }
            });
            let Some(LateAnswer { asker, delivery, .. }) = answer else { return };
            let index = index_of(asker.token);
            let is_kept = |message: &&Message| {
                message.phase == Phase::Kept && message.to == rank && message.tag(index) == asker.token
            };
            if self.messages.get(index).filter(is_kept).is_some() {
                self.answer_kept(now, index, delivery);
            }
        }
    }

    fn answer_kept(&mut self, now: Time, index: u32, delivery: Delivery) {
        let message = &mut self.messages[index];
        (message.phase, message.delivery) = (Phase::Response, delivery);
        let to = message.to;
        self.rank_states[to].note(&[now.0, 4000 + u64::from(delivery.fail)]);
        self.respond(now, index);
    }

    /// Handles a rank's end: forgets its own requests, and fails those that wait for its NIC if the NIC is gone.
    pub fn kept_ended(&mut self, rank: u32, at: Time) {
        if self.machine.limits.lock_waiters.is_none() {
            return;
        }
        for index in self.messages.indices() {
            let message = &self.messages[index];
            if message.phase != Phase::Kept {
                continue;
            }
            let (from, to, ni, target) = (message.from, message.to, message.ni, message.command.target);
            let tag = message.tag(index);
            let found = self.ranks.find(from, target, ni).filter(|(owner, _)| *owner == to);
            if from == rank {
                if let Some((to, ni)) = found {
                    self.ranks.with_nic(to, ni, &mut |nic| nic.locks().forget_waiters(|waiter| waiter.token == tag));
                }
                self.free_message(index);
            } else if to == rank && found.is_none() {
                self.answer_kept(at, index, Delivery::failed(fail::UNDELIVERABLE));
            }
        }
    }
}
