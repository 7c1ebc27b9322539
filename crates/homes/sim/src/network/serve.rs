// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arbitration: the choice of the next packet on a link.
//!
//! Two steps, as in routers with virtual channels. First, a virtual channel without an owner is allocated to one of the
//! packets that wait for it. Then one of the owners that have a flit to send, and room for it, gets the link. An owner
//! that waits for room keeps its virtual channel, so that short packets cannot pass a long one for ever.
//!
//! A link is served again when it becomes free, when enough credits or acknowledgements have returned, and when it is
//! repaired. `wake_at` is the time of the earliest queued wake event; any other wake event is stale.

use super::buffers::Room;
use super::event::Event;
use super::slab::NONE;
use super::state::UNLIMITED;
use super::{Arbitration, Network, NetworkEvent, Schedule};
use crate::time::Time;

impl Network {
    /// Sends the next packet or flit over a link, if the link is free.
    pub(super) fn serve(&mut self, now: Time, channel: u32, queue: &mut impl Schedule) {
        let link = &self.buffers.links[channel as usize];
        if link.waiting == 0 {
            return;
        }
        if link.free_at > now {
            self.wake(channel, link.free_at, queue);
            return;
        }
        let (is_up, last_vc) = (link.is_up, u32::from(link.last_vc));
        let first = channel * self.buffers.virtual_channels;
        if is_up {
            for output in first..first + self.buffers.virtual_channels {
                self.buffers.allocate(output, self.config.switch.arbitration);
            }
        }
        let (mut next, mut retry) = (NONE, Time::MAX);
        let mut asked = Time::MAX;
        for step in 1..=self.buffers.virtual_channels {
            let turn = last_vc + step;
            let vc = if turn >= self.buffers.virtual_channels { turn - self.buffers.virtual_channels } else { turn };
            let owner = self.buffers.vcs[(first + vc) as usize].owner;
            if owner == NONE || self.buffers.residents[owner].ready == 0 || !(is_up || self.buffers.has_begun(owner)) {
                continue;
            }
            match self.buffers.room(first + vc, now, owner) {
                Room::Now if self.config.switch.arbitration == Arbitration::RoundRobin => {
                    next = owner;
                    break;
                }
                Room::Now if self.buffers.residents[owner].asked < asked => {
                    asked = self.buffers.residents[owner].asked;
                    next = owner;
                }
                Room::Now => {}
                Room::At(at) => retry = retry.min(at),
                Room::Unknown => self.suspect(first + vc),
            }
        }
        if next != NONE {
            let flits = self.buffers.unit(next);
            if self.has_window(channel, now, flits) {
                let vc = self.buffers.residents[next].output - first;
                self.buffers.links[channel as usize].last_vc = vc as u8;
                self.send(now, next, queue);
                let free_at = self.buffers.links[channel as usize].free_at;
                if self.buffers.has_work(channel) {
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

    #[inline]
    pub(super) fn has_window(&mut self, channel: u32, now: Time, flits: u32) -> bool {
        if !self.window_limits || self.buffers.is_stage(channel) {
            return true;
        }
        let link = &mut self.reliability[channel as usize];
        link.window += link.acknowledgements.collect(&mut self.buffers.releases, now);
        link.window >= flits
    }

    fn acknowledged(&self, channel: u32, flits: u32) -> Time {
        let link = &self.reliability[channel as usize];
        link.acknowledgements.when(&self.buffers.releases, flits - link.window).unwrap_or(Time::MAX)
    }

    /// Records that an owner has no room and that no credits for it are in flight. Once for each time that it stops.
    fn suspect(&mut self, output: u32) {
        let out = &mut self.buffers.vcs[output as usize];
        debug_assert!(out.credits != UNLIMITED);
        if !out.stuck {
            out.stuck = true;
            self.suspects.push(output);
        }
    }

    #[inline]
    pub(super) fn wake(&mut self, channel: u32, at: Time, queue: &mut impl Schedule) {
        let link = &mut self.buffers.links[channel as usize];
        if at < link.wake_at {
            link.wake_at = at;
            queue.schedule(at, channel, NetworkEvent(Event::Wake { channel }));
        }
    }

    #[inline]
    pub(super) fn on_wake(&mut self, now: Time, channel: u32, queue: &mut impl Schedule) {
        let link = &mut self.buffers.links[channel as usize];
        if link.wake_at == now {
            link.wake_at = Time::MAX;
            self.serve(now, channel, queue);
        }
    }
}
