// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arbitration: which packet is sent next over a link.
//!
//! Two steps, as in routers with virtual channels. First, a virtual channel without an owner is allocated to one of the
//! packets that wait for it. Then one of the owners that have a flit to send, and room for it, gets the link. An owner
//! that waits for room keeps its virtual channel, so that short packets cannot pass a long one for ever.
//!
//! A link is served again when it becomes free, when enough credits or acknowledgements have come back, and when it is
//! repaired. `wake_at` is the time of the earliest queued wake event; any other wake event is stale.

use super::event::Event;
use super::slab::NONE;
use super::state::{State, UNLIMITED};
use super::{Arbitration, Network, NetworkEvent, Schedule};
use crate::time::Time;

/// Whether the next buffer has room for the packet, or the flit, that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Now,
    At(Time),
    /// The credits in flight are not enough: another packet has to move first.
    Unknown,
}

impl Network {
    /// Sends the next packet or flit over a link, if the link is free.
    pub(super) fn serve(&mut self, now: Time, channel: u32, queue: &mut impl Schedule) {
        let link = &self.links[channel as usize];
        if link.waiting == 0 {
            return;
        }
        if link.free_at > now {
            self.wake(channel, link.free_at, queue);
            return;
        }
        let (is_up, last_vc) = (link.is_up, u32::from(link.last_vc));
        let first = channel * self.virtual_channels;
        if is_up {
            for output in first..first + self.virtual_channels {
                self.allocate(output);
            }
        }
        let (mut next, mut retry) = (NONE, Time::MAX);
        let mut asked = Time::MAX;
        for step in 1..=self.virtual_channels {
            let turn = last_vc + step;
            let vc = if turn >= self.virtual_channels { turn - self.virtual_channels } else { turn };
            let owner = self.vcs[(first + vc) as usize].owner;
            if owner == NONE || self.residents[owner].ready == 0 || !(is_up || self.has_begun(owner)) {
                continue;
            }
            match self.room(first + vc, now, owner) {
                Room::Now if self.config.switch.arbitration == Arbitration::RoundRobin => {
                    next = owner;
                    break;
                }
                Room::Now if self.residents[owner].asked < asked => {
                    asked = self.residents[owner].asked;
                    next = owner;
                }
                Room::Now => {}
                Room::At(at) => retry = retry.min(at),
                Room::Unknown => self.suspect(first + vc),
            }
        }
        if next != NONE {
            let flits = self.unit(next);
            if self.has_window(channel, now, flits) {
                let vc = self.residents[next].output - first;
                self.links[channel as usize].last_vc = vc as u8;
                self.send(now, next, queue);
                let free_at = self.links[channel as usize].free_at;
                if self.has_work(channel) {
                    self.wake(channel, free_at, queue);
                }
                return;
            }
            retry = self.acknowledged(channel, flits);
        }
        if retry != Time::MAX {
            self.wake(channel, retry, queue);
        }
    }

    /// Appends a resident to the packets that wait for an output.
    pub(super) fn wait(&mut self, resident: u32, output: u32) {
        self.residents[resident].state = State::Waiting;
        let out = &mut self.vcs[output as usize];
        if out.waiters == NONE {
            out.waiters = resident;
        } else {
            self.residents[out.waiters_last].next_waiter = resident;
        }
        out.waiters_last = resident;
        self.links[out.channel as usize].waiting += 1;
    }

    /// Allocates a free virtual channel to one of the packets that wait for it.
    #[inline]
    fn allocate(&mut self, output: u32) {
        let out = &self.vcs[output as usize];
        if out.owner != NONE || out.waiters == NONE {
            return;
        }
        let chosen = match self.config.switch.arbitration {
            Arbitration::Fifo => out.waiters,
            Arbitration::RoundRobin => self.next_in_turn(output),
        };
        self.remove_waiter(chosen);
        let out = &mut self.vcs[output as usize];
        out.owner = chosen;
        out.last = self.residents[chosen].buffer;
        self.residents[chosen].state = State::Owner;
    }

    /// Round-robin: the packet in the first buffer after the one that was served last, in the order of buffer numbers.
    fn next_in_turn(&self, output: u32) -> u32 {
        let out = &self.vcs[output as usize];
        let (mut chosen, mut least) = (NONE, u32::MAX);
        let mut waiter = out.waiters;
        while waiter != NONE {
            let here = &self.residents[waiter];
            let distance = here.buffer.wrapping_sub(out.last).wrapping_sub(1);
            if chosen == NONE || distance < least {
                (chosen, least) = (waiter, distance);
            }
            waiter = here.next_waiter;
        }
        chosen
    }

    /// Removes a resident from the packets that wait for its output. It still counts in `Link::waiting`.
    pub(super) fn remove_waiter(&mut self, resident: u32) {
        let output = self.residents[resident].output as usize;
        let (mut before, mut waiter) = (NONE, self.vcs[output].waiters);
        while waiter != resident {
            before = waiter;
            waiter = self.residents[waiter].next_waiter;
        }
        let after = self.residents[resident].next_waiter;
        self.residents[resident].next_waiter = NONE;
        if before == NONE {
            self.vcs[output].waiters = after;
        } else {
            self.residents[before].next_waiter = after;
        }
        if after == NONE {
            self.vcs[output].waiters_last = before;
        }
    }

    /// Flits that this resident sends at a time.
    #[inline]
    pub(super) fn unit(&self, resident: u32) -> u32 {
        if self.cut_through { self.residents[resident].left } else { 1 }
    }

    /// Whether its head has left. Then the rest follows, even over a link that has failed.
    #[inline]
    pub(super) fn has_begun(&self, resident: u32) -> bool {
        let here = &self.residents[resident];
        here.left < self.flights[here.packet].flits
    }

    #[inline]
    pub(super) fn has_room(&mut self, output: u32, now: Time, flits: u32) -> bool {
        let out = &mut self.vcs[output as usize];
        if out.credits < flits.max(self.credits_low) {
            out.credits += out.releases.collect(&mut self.releases, now);
        }
        out.credits >= flits
    }

    fn room(&mut self, output: u32, now: Time, owner: u32) -> Room {
        let flits = self.unit(owner);
        if self.has_room(output, now, flits) {
            return Room::Now;
        }
        let out = &self.vcs[output as usize];
        out.releases.when(&self.releases, flits - out.credits).map_or(Room::Unknown, Room::At)
    }

    /// Whether the retransmission window allows so many flits.
    #[inline]
    pub(super) fn has_window(&mut self, channel: u32, now: Time, flits: u32) -> bool {
        if !self.window_limits {
            return true;
        }
        let link = &mut self.reliability[channel as usize];
        link.window += link.acknowledgements.collect(&mut self.releases, now);
        link.window >= flits
    }

    fn acknowledged(&self, channel: u32, flits: u32) -> Time {
        let link = &self.reliability[channel as usize];
        link.acknowledgements.when(&self.releases, flits - link.window).unwrap_or(Time::MAX)
    }

    /// Notes that an owner has no room and that no credits for it are in flight. Once for each time that it stops.
    fn suspect(&mut self, output: u32) {
        let out = &mut self.vcs[output as usize];
        debug_assert!(out.credits != UNLIMITED);
        if !out.stuck {
            out.stuck = true;
            self.suspects.push(output);
        }
    }

    /// Whether a flit or packet could be sent if the link were free.
    #[inline]
    pub(super) fn has_work(&self, channel: u32) -> bool {
        if self.links[channel as usize].waiting == 0 {
            return false;
        }
        let first = (channel * self.virtual_channels) as usize;
        let outputs = &self.vcs[first..first + self.virtual_channels as usize];
        outputs
            .iter()
            .any(|out| if out.owner == NONE { out.waiters != NONE } else { self.residents[out.owner].ready > 0 })
    }

    #[inline]
    pub(super) fn wake(&mut self, channel: u32, at: Time, queue: &mut impl Schedule) {
        let link = &mut self.links[channel as usize];
        if at < link.wake_at {
            link.wake_at = at;
            queue.schedule(at, NetworkEvent(Event::Wake { channel }));
        }
    }

    #[inline]
    pub(super) fn on_wake(&mut self, now: Time, channel: u32, queue: &mut impl Schedule) {
        let link = &mut self.links[channel as usize];
        if link.wake_at == now {
            link.wake_at = Time::MAX;
            self.serve(now, channel, queue);
        }
    }
}
