// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ranks of one node that share memory: messages in rings, and what a message in memory costs.
//!
//! A rank writes a small message to a ring in the memory of its target, as it does live. The message is not visible
//! before [`Event::Publish`], when virtual time has reached the end of the copy. The target's own library then dequeues
//! and matches it, in its own time. Other messages take the steps of `message.rs` and `arrival.rs`, at the price of the
//! sender's processor: it copies the payload and works on the target's NIC.
//!
//! Between nodes there are no rings: there a message travels as packets.

use selvedge_sim_protocol::Published;

use crate::machine::SameNode;
use crate::time::Time;

use super::message::Phase;
use super::ranks::Ranks;
use super::run::{Event, Simulation};

/// A message in a ring that is not visible yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    from: u32,
    /// Id and number of the target's NIC.
    target: (u64, u32),
    message: Published,
}

/// Messages in rings that are not visible yet.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    list: Vec<Waiting>,
    free: Vec<u32>,
}

impl Unseen {
    fn insert(&mut self, waiting: Waiting) -> u32 {
        if let Some(index) = self.free.pop() {
            self.list[index as usize] = waiting;
            return index;
        }
        self.list.push(waiting);
        self.list.len() as u32 - 1
    }

    fn remove(&mut self, index: u32) -> Waiting {
        self.free.push(index);
        self.list[index as usize]
    }
}

impl<R: Ranks> Simulation<R> {
    /// Whether a rank shares memory with the rank of a NIC.
    pub(super) fn shares_memory(&mut self, rank: u32, target: u64, ni: u32) -> bool {
        self.machine.host.same_node == SameNode::Memory
            && self.ranks.route(target, ni).is_some_and(|other| self.nodes[other as usize] == self.nodes[rank as usize])
    }

    /// Whether a message goes through memory: both ends are on one node, whose ranks share memory.
    pub(super) fn is_in_memory(&self, index: u32) -> bool {
        let message = &self.messages[index as usize];
        self.machine.host.same_node == SameNode::Memory && message.source == message.target
    }

    /// The initiator's processor has copied a request, or its target's a response: it is there.
    pub(super) fn emit_in_memory(&mut self, now: Time, index: u32, bytes: u64) {
        let message = &mut self.messages[index as usize];
        let is_request = message.phase == Phase::Request;
        // The copy of a request was part of the call that started it.
        let copy = if is_request { Time::ZERO } else { Time::of_bytes(bytes, self.machine.host.copy_bytes_per_s) };
        (message.bytes, message.framed_bytes) = (bytes, bytes);
        (message.bytes_to_send, message.packets_to_come) = (0, 0);
        let hardware = &mut self.hardware[message.source as usize];
        hardware.looped = hardware.looped.max(now + copy);
        let there = hardware.looped;
        (message.left, message.head, message.header_done) = (now, there, Time::MAX);
        if is_request {
            self.complete_send(there, index);
        }
        self.queue.schedule(there, Event::Arrived(index));
    }

    /// A rank has written a message to a ring. Gives the time at which the message is visible and the rank continues.
    pub(super) fn copy_to_ring(&mut self, at: Time, from: u32, target: (u64, u32), message: Published) -> Time {
        let copied = self.machine.copied(message.bytes);
        let visible = at + self.rank_states[from as usize].pace.step(copied);
        let index = self.unseen.insert(Waiting { from, target, message });
        self.queue.schedule(visible, Event::Publish(index));
        visible
    }

    /// A message in a ring becomes visible to its target. A message to a rank that has ended is lost, as its memory is.
    pub(super) fn publish(&mut self, now: Time, index: u32) {
        let Waiting { from, target: (target, ni), message } = self.unseen.remove(index);
        if !self.shares_memory(from, target, ni) {
            return;
        }
        let Some(to) = self.ranks.find(target, ni) else { return };
        if self.ranks.publish(from, to, &message) {
            self.statistics.messages += 1;
            self.statistics.payload_bytes += message.bytes;
            self.statistics.note(&[u64::from(to.0), now.0, message.number, message.bytes]);
            self.wake(to.0, now);
        }
    }
}
