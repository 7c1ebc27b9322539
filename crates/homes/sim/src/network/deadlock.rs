// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Deadlocks: packets that wait for each other in a cycle.
//!
//! The first packet of each buffer waits for one output. An output is stuck if its owner needs more room than its
//! credits give, those in flight included: then the first packet of the next buffer has to move first. So each buffer
//! waits for at most one other. A cycle is found by following this chain from the output that has become stuck:
//! O(length of the chain), at the time at which the cycle closes. A link that is down is not part of a cycle: its
//! repair, or `link_down_limit`, lets packets move.

use selvedge_fabric::NodeId;

use super::slab::NONE;
use super::state::{Fate, State, UNLIMITED};
use super::{DeadlockPolicy, Network, Packet, Schedule};
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

impl Network {
    /// The first deadlock that was found under [`DeadlockPolicy::Detect`]. The packets of its cycle never move again.
    pub fn deadlock(&self) -> Option<&Deadlock> {
        self.deadlock.as_ref()
    }

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

    /// Searches for cycles from the outputs that have become stuck, and breaks them.
    pub(super) fn resolve(&mut self, now: Time, queue: &mut impl Schedule) {
        while let Some(output) = self.suspects.pop() {
            if self.deadlock.is_some() {
                continue;
            }
            let Some(cycle) = self.cycle(output) else { continue };
            let mut packets: Vec<u32> = cycle.iter().map(|&resident| self.residents[resident].packet).collect();
            packets.sort_unstable();
            packets.dedup();
            self.statistics.deadlocks += 1;
            self.statistics.deadlocked_packets += packets.len() as u64;
            *self.statistics.cycle_lengths.entry(cycle.len() as u32).or_default() += 1;
            match self.config.deadlock {
                DeadlockPolicy::Detect => self.deadlock = Some(self.describe(now, &cycle)),
                DeadlockPolicy::Resolve { .. } => {
                    // The head of some packet waits in the cycle, for all flits behind a head wait for it.
                    let head = cycle.iter().rev().find(|&&resident| !self.has_begun(resident));
                    debug_assert!(head.is_some(), "a cycle without a head");
                    if let Some(&head) = head {
                        self.statistics.recovered += 1;
                        self.take_out(now, head, Fate::Recovered, queue);
                    }
                }
            }
        }
    }

    /// The time from a packet's removal from the network to its arrival at its node.
    pub(super) fn recovery_time(&self, packet: &Packet) -> Time {
        let delay = match self.config.deadlock {
            DeadlockPolicy::Resolve { delay } => delay,
            DeadlockPolicy::Detect => Time::ZERO,
        };
        delay + self.latency_empty(packet.from, packet.to, packet.bytes)
    }

    /// The residents of the cycle that an output leads to. None: some packet in the chain moves, or can. Brent's
    /// method: O(length).
    fn cycle(&self, start: u32) -> Option<Vec<u32>> {
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

    /// The packet that blocks an output, and the output that this packet waits for. None: the packet moves, or can.
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

    fn describe(&self, at: Time, cycle: &[u32]) -> Deadlock {
        let stuck = |&resident: &u32| {
            let here = &self.residents[resident];
            let channel = self.vcs[here.buffer as usize].channel;
            let vc = (here.buffer - channel * self.virtual_channels) as u8;
            let packet = &self.flights[here.packet].packet;
            Stuck { channel, vc, message: packet.message, from: packet.from, to: packet.to }
        };
        Deadlock { at, cycle: cycle.iter().map(stuck).collect() }
    }
}
