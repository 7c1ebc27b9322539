// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Deadlocks: packets that wait for each other in a cycle.
//!
//! The first packet of each buffer waits for one output, and an output is stuck where its owner needs more room than the
//! credits at hand and under way give it: then the first packet of the buffer behind it has to move first. So each
//! buffer waits for at most one other, and a cycle is found by following them from the output that has just got stuck:
//! O(length of the chain), as soon as the cycle has closed. Links that are down are not part of a cycle: their repair, or
//! their limit, lets packets move.

use selvedge_fabric::NodeId;

use super::slab::NONE;
use super::state::{ENDLESS, Fate, State};
use super::{DeadlockPolicy, Network, Packet, Schedule};
use crate::time::Time;

/// Packets that wait for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    pub at: Time,
    /// Each waits for room in the buffer of the next, the last for the first.
    pub cycle: Vec<Stuck>,
}

/// A packet that cannot leave the buffer at the end of a channel. A long one may be stuck in several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck {
    pub channel: u32,
    pub vc: u8,
    pub message: u64,
    pub from: NodeId,
    pub to: NodeId,
}

impl Network {
    /// The first deadlock that was found, where the policy is to leave it. Nothing in its cycle will move again.
    pub fn deadlock(&self) -> Option<&Deadlock> {
        self.deadlock.as_ref()
    }

    /// Looks for a cycle now, whatever the policy. O(virtual channels).
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

    /// Looks at the outputs that have got stuck, and breaks their cycles.
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
                    // A packet's head waits in the cycle, for what is behind a head waits for it.
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

    /// From being taken out of the network to the arrival at its node.
    pub(super) fn recovery_time(&self, packet: &Packet) -> Time {
        let delay = match self.config.deadlock {
            DeadlockPolicy::Resolve { delay } => delay,
            DeadlockPolicy::Detect => Time::ZERO,
        };
        delay + self.latency_empty(packet.from, packet.to, packet.bytes)
    }

    /// The residents of the cycle that an output leads to; none: somebody on the way moves, or can. Brent's method: O(length).
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

    /// Who is in the way at an output, and which output that one waits for; none: it moves, or can.
    fn waits(&self, output: u32) -> Option<(u32, u32)> {
        if !self.is_stuck(output) {
            return None;
        }
        let front = self.lanes[output as usize].front;
        if front == NONE {
            return None;
        }
        let here = &self.residents[front];
        (matches!(here.state, State::Waiting | State::Owner) && here.ready > 0).then_some((front, here.output))
    }

    fn is_stuck(&self, output: u32) -> bool {
        let out = &self.lanes[output as usize];
        if out.credits == ENDLESS || out.owner == NONE || !self.links[out.channel as usize].is_up {
            return false;
        }
        self.residents[out.owner].ready > 0 && out.credits + out.releases.sum(&self.releases) < self.unit(out.owner)
    }

    fn describe(&self, at: Time, cycle: &[u32]) -> Deadlock {
        let stuck = |&resident: &u32| {
            let here = &self.residents[resident];
            let channel = self.lanes[here.buffer as usize].channel;
            let vc = (here.buffer - channel * self.virtual_channels) as u8;
            let packet = &self.flights[here.packet].packet;
            Stuck { channel, vc, message: packet.message, from: packet.from, to: packet.to }
        };
        Deadlock { at, cycle: cycle.iter().map(stuck).collect() }
    }
}
