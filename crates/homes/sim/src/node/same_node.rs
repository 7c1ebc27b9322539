// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages in rings between ranks of one node that share memory.
//!
//! A rank writes a small message to a ring in the memory of its target, as it does live. The message becomes visible at
//! [`Event::Publish`], when virtual time has reached the end of the copy. The target's own library then dequeues and
//! matches it, in its own time. Other messages between such ranks take the steps of `transfers.rs` and `arrival.rs` at
//! the cost of the sender's processor, which copies the payload and works on the target's NIC.

use selvedge_sim_protocol::Published;

use crate::time::Time;

use super::events::Event;
use super::nodes::Nodes;
use super::ranks::Ranks;

#[derive(Clone, Copy, Debug)]
struct RingMessage {
    from: u32,
    /// Id and number of the target's NIC.
    target: (u64, u32),
    message: Published,
}

#[derive(Debug, Default)]
pub(super) struct Unpublished {
    list: Vec<RingMessage>,
    free: Vec<u32>,
}

impl Unpublished {
    /// Copies a message to a ring. Returns the time at which the message is visible and the rank continues.
    pub fn copy_to_ring<R: Ranks>(
        &mut self,
        nodes: &mut Nodes<R>,
        at: Time,
        from: u32,
        target: (u64, u32),
        message: Published,
    ) -> Time {
        nodes.regions.sent(from, message.bytes);
        let copied = nodes.machine.copied(message.bytes);
        let visible = at + nodes.rank_states[from].pace.step(copied);
        let index = self.insert(RingMessage { from, target, message });
        nodes.events.schedule(visible, Event::Publish(index));
        visible
    }

    /// Makes a message in a ring visible to its target. If that rank has ended, the message is lost with its memory.
    pub fn publish<R: Ranks>(&mut self, nodes: &mut Nodes<R>, now: Time, index: u32) {
        let RingMessage { from, target: (target, ni), message } = self.remove(index);
        if !nodes.shares_memory(from, target, ni) {
            return;
        }
        let Some(to) = nodes.ranks.find(from, target, ni) else { return };
        if nodes.ranks.publish(from, to, &message) {
            nodes.statistics.messages += 1;
            nodes.statistics.payload_bytes += message.bytes;
            nodes.count_for_job(from, message.bytes, None);
            nodes.rank_states[to.0].note(&[now.0, message.number, message.bytes]);
            nodes.wake(to.0, now);
        }
    }

    fn insert(&mut self, message: RingMessage) -> u32 {
        if let Some(index) = self.free.pop() {
            self.list[index as usize] = message;
            return index;
        }
        self.list.push(message);
        self.list.len() as u32 - 1
    }

    fn remove(&mut self, index: u32) -> RingMessage {
        self.free.push(index);
        self.list[index as usize]
    }
}
