// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The queues that an adaptive routing sees, and those by which switches mark packets.
//!
//! The *load* of an output compares hops of one distance: a link that is down, packets that wait, the time until the
//! link is free, occupied room of the next buffer. The *queue* of a channel compares a minimal route with a detour: the
//! flits of packets that wait for it in its switch, and those in the output's buffer and in the next buffer, as far as the
//! router knows by returned credits. Packets and flits count as the time that they take on the link. On a dragonfly the
//! queue counts the buffers of all virtual channels. Where classes count hops, both hops are in the same class, and only
//! its buffers count: the others hold packets on their later hops, which would hide a full minimal route behind the busy
//! links of a detour.
//!
//! UGAL-G decides by the queues of links of other routers ([`PastQueues`]): the flits in the output's buffer and in the
//! next buffer, as the sender knew them one latency of a link within the group ago. They are kept as sums of changes, so a
//! reading costs O(log changes in flight) for each change since the last one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::buffers::Buffers;
use super::config::NetworkConfig;
use super::slab::NONE;
use super::state::UNLIMITED;
use crate::congestion::Kind;
use crate::time::Time;

/// The queue of a link that is down, in picoseconds: longer than all others, and not too long to be multiplied.
pub(super) const DOWN: u64 = 1 << 52;

/// The queues of all links, as they were some time ago.
#[derive(Debug)]
pub(super) struct PastQueues {
    delay: Time,
    /// By output channel.
    queues: Vec<PastQueue>,
}

#[derive(Clone, Debug, Default)]
struct PastQueue {
    /// Flits, after all changes that are old enough.
    then: i64,
    /// Later changes, by time.
    changes: BinaryHeap<Reverse<(Time, i64)>>,
}

impl PastQueue {
    fn at(&mut self, then: Time) -> u64 {
        while let Some(Reverse((_, flits))) = self.changes.peek().filter(|change| change.0.0 <= then) {
            self.then += flits;
            self.changes.pop();
        }
        self.then.max(0) as u64
    }
}

impl PastQueues {
    pub fn new(channels: u32, config: &NetworkConfig) -> PastQueues {
        PastQueues { delay: config.speed_of_class(0).latency, queues: vec![PastQueue::default(); channels as usize] }
    }

    /// Records flits that take room behind a link's output from now on.
    pub fn take_room(&mut self, channel: u32, now: Time, flits: u32) {
        if let Some(queue) = self.queues.get_mut(channel as usize) {
            // No later reading needs these changes one by one.
            queue.at(now.saturating_sub(self.delay));
            queue.changes.push(Reverse((now, flits.into())));
        }
    }

    /// Records the time at which this room is free again.
    pub fn free_room(&mut self, channel: u32, at: Time, flits: u32) {
        if let Some(queue) = self.queues.get_mut(channel as usize) {
            queue.changes.push(Reverse((at, -i64::from(flits))));
        }
    }

    pub fn queue(&mut self, channel: u32, now: Time) -> u64 {
        match now.0.checked_sub(self.delay.0) {
            Some(then) => self.queues[channel as usize].at(Time(then)),
            None => 0,
        }
    }
}

/// The queues of a network, now.
pub(super) struct Queues<'a> {
    pub buffers: &'a Buffers,
    pub config: &'a NetworkConfig,
}

impl Queues<'_> {
    /// Returns the load of an output, for comparison; among equal outputs the first is taken.
    #[inline]
    pub fn load(&self, now: Time, output: u32) -> (bool, Time, Time, Time, Time) {
        let stage = self.buffers.staged(output);
        let link = &self.buffers.links[self.channel(output) as usize];
        let first = &self.buffers.links[self.channel(stage) as usize];
        let used = match stage == output {
            true => self.used(now, output, self.config.link.buffer_flits, true),
            false => self.flits(now, output, 0, false),
        };
        let waiting = link.flit_time * u64::from(first.waiting);
        (!link.is_up, waiting, first.free_at.saturating_sub(now), link.flit_time * used, link.flit_time)
    }

    /// Returns the free room behind an output, as far as its credits have returned.
    fn free(&self, now: Time, output: u32) -> u32 {
        let out = &self.buffers.vcs[output as usize];
        match out.credits {
            UNLIMITED => UNLIMITED,
            credits => credits + out.releases.arrived(&self.buffers.releases, now),
        }
    }

    /// Whether the next buffer has no room for a packet, as far as its credits have returned.
    pub fn is_full(&self, now: Time, output: u32, flits: u32) -> bool {
        self.free(now, output) < flits
    }

    /// Returns the time of the queue of a link's output, in picoseconds. Each packet that waits counts as `flits`.
    /// `alone`: without packets of the other virtual channels.
    pub fn queue(&self, now: Time, output: u32, flits: u32, alone: bool) -> u64 {
        let link = &self.buffers.links[self.channel(output) as usize];
        let down = if link.is_up { 0 } else { DOWN };
        down + link.flit_time.0 * self.flits(now, output, flits, alone)
    }

    fn flits(&self, now: Time, output: u32, flits: u32, alone: bool) -> u64 {
        let stage = self.buffers.staged(output);
        let waiting =
            if alone { self.waiting(stage) } else { self.buffers.links[self.channel(stage) as usize].waiting };
        let next = self.used(now, output, self.config.link.buffer_flits, alone);
        let own = self.config.switch.speed_up.map_or(0, |speed_up| self.used(now, stage, speed_up.output_flits, alone));
        u64::from(waiting) * u64::from(flits) + next + own
    }

    /// Returns the packets that wait for an output, its owner included.
    fn waiting(&self, output: u32) -> u32 {
        let out = &self.buffers.vcs[output as usize];
        let (mut waiter, mut count) = (out.waiters, u32::from(out.owner != NONE));
        while waiter != NONE {
            count += 1;
            waiter = self.buffers.residents[waiter].next_waiter;
        }
        count
    }

    /// Whether a switch marks a packet that leaves it: too many flits wait for its output, and the next buffer is not the
    /// reason.
    pub fn marks(&self, now: Time, resident: u32, output: u32, most: u32) -> bool {
        let header = self.buffers.flights[self.buffers.residents[resident].packet].packet.header;
        header.kind == Kind::Windowed
            && !header.marked
            && self.is_root(now, output)
            && self.held_up(resident, output) > u64::from(most)
    }

    /// Returns the flits that an output of a router holds up: those in the buffers whose first packets wait for its
    /// channel, or leave by it now.
    fn held_up(&self, leaving: u32, output: u32) -> u64 {
        let stage = self.buffers.staged(output);
        let mut all = self.filled(leaving);
        for channel in [self.channel(output), self.channel(stage)].into_iter().take(if stage == output { 1 } else { 2 })
        {
            let first = channel * self.buffers.virtual_channels;
            for output in first..first + self.buffers.virtual_channels {
                let out = &self.buffers.vcs[output as usize];
                let mut waiter = out.waiters;
                while waiter != NONE {
                    all += self.filled(waiter);
                    waiter = self.buffers.residents[waiter].next_waiter;
                }
                if out.owner != NONE && out.owner != leaving {
                    all += self.filled(out.owner);
                }
            }
        }
        all
    }

    /// Returns the flits of the buffer that a packet is in, and those on their way to it.
    fn filled(&self, resident: u32) -> u64 {
        let buffer = self.buffers.residents[resident].buffer;
        let room = match (self.config.switch.speed_up, self.buffers.behind_stage(buffer)) {
            (Some(speed_up), Some(_)) => speed_up.output_flits,
            _ => self.config.link.buffer_flits,
        };
        let out = &self.buffers.vcs[buffer as usize];
        let free = match out.credits {
            UNLIMITED => UNLIMITED,
            credits => credits + out.releases.sum(&self.buffers.releases),
        };
        u64::from(room.saturating_sub(free))
    }

    /// Whether an output, and not one further on, holds packets up: at least half of the next buffer is free.
    fn is_root(&self, now: Time, output: u32) -> bool {
        match self.free(now, output) {
            UNLIMITED => true,
            free => free >= self.config.link.buffer_flits / 2,
        }
    }

    fn channel(&self, output: u32) -> u32 {
        self.buffers.vcs[output as usize].channel
    }

    /// Returns the flits in the buffer behind an output, and behind the other virtual channels of its channel.
    fn used(&self, now: Time, output: u32, room: u32, alone: bool) -> u64 {
        let first = self.channel(output) * self.buffers.virtual_channels;
        let outputs = if alone { output..output + 1 } else { first..first + self.buffers.virtual_channels };
        outputs.map(|output| u64::from(room.saturating_sub(self.free(now, output)))).sum()
    }
}
