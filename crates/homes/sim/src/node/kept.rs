// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lock requests that a NIC keeps until they succeed (seed 002, section 7.5.4): their answers leave when another request has changed
//! the lock, or when the wait has ended otherwise.
//!
//! 1. A kept request stays a message ([`Phase::Kept`]), whose index and number are its token. A token that names no such message is
//!    one that the rank's own process has written; it is dropped.
//! 2. A rank that has ended waits for nothing: its requests are forgotten. What a NIC has kept whose rank has died is refused, and the
//!    refusal travels back as that of a message that arrives now.
//!
//! Cost: for each rank that ends, a look at all messages of the run; only on machines whose NICs keep requests.

use selvedge_nic::portals::{Delivery, fail};
use selvedge_nic::rma::LateAnswer;

use crate::time::Time;

use super::message::{INDEX_SHIFT, Message, Phase};
use super::ranks::Ranks;
use super::run::Simulation;

/// The token of a message, with which a unit names it in its answer.
pub(super) fn token_of(index: u32, message: &Message) -> u64 {
    u64::from(index) << INDEX_SHIFT | message.number
}

impl<R: Ranks> Simulation<R> {
    /// Sends the answers that are due at a NIC.
    pub(super) fn send_answers(&mut self, now: Time, rank: u32, ni: u32) {
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
            let index = (asker.token >> INDEX_SHIFT) as u32;
            let kept = self.messages.get(index as usize);
            let is_kept = |message: &&Message| {
                message.phase == Phase::Kept && message.to == rank && token_of(index, message) == asker.token
            };
            if kept.filter(is_kept).is_some() {
                self.answer_kept(now, index, delivery);
            }
        }
    }

    fn answer_kept(&mut self, now: Time, index: u32, delivery: Delivery) {
        let message = &mut self.messages[index as usize];
        (message.phase, message.delivery) = (Phase::Response, delivery);
        let to = message.to;
        self.statistics.note(&[u64::from(to), now.0, 4000 + u64::from(delivery.fail)]);
        self.respond(now, index);
    }

    /// A rank has ended: what it waits for is forgotten, and what waits for its NIC fails if the NIC is gone.
    pub(super) fn kept_ended(&mut self, rank: u32, at: Time) {
        if self.machine.limits.lock_waiters.is_none() {
            return;
        }
        for index in 0..self.messages.len() as u32 {
            let message = &self.messages[index as usize];
            if message.phase != Phase::Kept {
                continue;
            }
            let (from, to, ni, target) = (message.from, message.to, message.ni, message.command.target);
            let token = token_of(index, message);
            let found = self.ranks.find(target, ni).filter(|(owner, _)| *owner == to);
            if from == rank {
                if let Some((to, ni)) = found {
                    self.ranks.with_nic(to, ni, &mut |nic| nic.locks().forget_waiters(|waiter| waiter.token == token));
                }
                self.free_message(index);
            } else if to == rank && found.is_none() {
                self.answer_kept(at, index, Delivery::failed(fail::UNDELIVERABLE));
            }
        }
    }
}
