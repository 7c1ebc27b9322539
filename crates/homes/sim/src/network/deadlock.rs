// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Deadlocks: packets that wait for each other in a cycle.
//!
//! The first packet of each buffer waits for one output. An output is stuck if its owner needs more room than its
//! credits, including those in flight: then the first packet of the next buffer has to move first. So each buffer waits
//! for at most one other. The search follows this chain from the output that has become stuck, at the time at which the
//! cycle closes: O(length of the chain). A link that is down is not part of a cycle.

use selvedge_fabric::NodeId;

use super::buffers::Buffers;
use super::slab::NONE;
use super::state::{State, UNLIMITED};
use crate::time::Time;

/// Packets that wait for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    pub at: Time,
    /// Each packet waits for room in the buffer of the next, the last for the first.
    pub cycle: Vec<Stuck>,
}

/// A packet that cannot leave the buffer at the end of a channel. A long packet may be stuck in several buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck {
    pub channel: u32,
    pub vc: u8,
    pub message: u64,
    pub from: NodeId,
    pub to: NodeId,
}

impl Buffers {
    /// Searches for a cycle, whatever the policy. O(virtual channels).
    pub fn find_deadlock(&self, now: Time) -> Option<Deadlock> {
        let mut seen = vec![NONE; self.sources as usize];
        for start in 0..self.sources {
            let mut output = start;
            while seen[output as usize] == NONE {
                seen[output as usize] = start;
                let Some((_, next)) = self.waits(output) else { break };
                if seen[next as usize] == start {
                    return Some(self.describe(now, &self.cycle(next)?));
                }
                output = next;
            }
        }
        None
    }

    /// Returns the residents of the cycle that an output leads to, by Brent's method, O(length). `None`: no cycle.
    pub fn cycle(&self, start: u32) -> Option<Vec<u32>> {
        let (mut marked, mut output) = (start, self.waits(start)?.1);
        let (mut steps, mut limit) = (1, 1);
        while output != marked {
            if steps == limit {
                (marked, steps, limit) = (output, 0, limit * 2);
            }
            output = self.waits(output)?.1;
            steps += 1;
        }
        let mut cycle = Vec::with_capacity(steps);
        for _ in 0..steps {
            let (resident, next) = self.waits(output)?;
            cycle.push(resident);
            output = next;
        }
        Some(cycle)
    }

    /// Returns the packet that blocks an output, and the output that it waits for. `None`: the packet can move.
    fn waits(&self, output: u32) -> Option<(u32, u32)> {
        if !self.is_stuck(output) {
            return None;
        }
        let front = self.vcs[output as usize].front;
        if front == NONE {
            return None;
        }
        let here = &self.residents[front];
        (matches!(here.state, State::Waiting | State::Owner) && here.ready > 0).then_some((front, here.output))
    }

    fn is_stuck(&self, output: u32) -> bool {
        let out = &self.vcs[output as usize];
        if out.credits == UNLIMITED || out.owner == NONE || !self.links[out.channel as usize].is_up {
            return false;
        }
        self.residents[out.owner].ready > 0 && out.credits + out.releases.sum(&self.releases) < self.unit(out.owner)
    }

    /// The residents of a cycle in buffers at the ends of links. With a speed-up, each second one is in a stage's buffer.
    pub fn on_links(&self, cycle: &[u32]) -> impl Iterator<Item = u32> {
        let is_on_link = |&resident: &u32| self.behind_stage(self.residents[resident].buffer).is_none();
        cycle.iter().copied().filter(is_on_link)
    }

    pub fn describe(&self, at: Time, cycle: &[u32]) -> Deadlock {
        let stuck = |resident: u32| {
            let here = &self.residents[resident];
            let channel = self.vcs[here.buffer as usize].channel;
            let vc = (here.buffer - channel * self.virtual_channels) as u8;
            let packet = &self.flights[here.packet].packet;
            Stuck { channel, vc, message: packet.message, from: packet.from, to: packet.to }
        };
        Deadlock { at, cycle: self.on_links(cycle).map(stuck).collect() }
    }
}

#[cfg(test)]
#[path = "deadlock_tests.rs"]
mod tests;
