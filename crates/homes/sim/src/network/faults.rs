// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults of links: loss, corruption, failure; and retransmission.
//!
//! Retransmission is go-back-N. For a flit with a wrong CRC the receiver asks again, one round trip later. A flit that
//! is not acknowledged in time is sent again by the sender. In both cases all flits after it are sent again, too; the
//! switch has already forwarded the flits before it. A packet to many nodes is not sent again (`multicast.rs`). An acknowledgement arrives one round trip after the end of a flit
//! on the link. Without retransmission a lost packet stays lost, and a wrong CRC is found at the target node, because a
//! cut-through switch has forwarded the packet before it could check. In a wormhole network an error hits the head
//! flit.
//!
//! A link that fails finishes the packet that it is sending. Heads that are still on the wire (cut-through, towards a
//! router) are sent again after the repair; without retransmission they are lost. A packet that waits for the link
//! waits for its repair, and is lost when the link has been down for `link_down_limit`. Adaptive routings avoid the
//! link.

use super::event::Event;
use super::packet::LossReason;
use super::slab::NONE;
use super::state::{Cast, Fate, State};
use super::{ErrorRates, Network, NetworkError, NetworkEvent, Schedule};
use crate::time::Time;

/// A packet or flit on a channel: when the transmission of its head that succeeds starts, and when its tail ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossing {
    pub start: Time,
    pub end: Time,
    pub lost: bool,
}

impl Network {
    /// Takes a channel (one direction of a link) out of service. No effect on a channel that is down.
    pub fn fail_link(&mut self, now: Time, channel: u32, queue: &mut impl Schedule) {
        let link = &mut self.links[channel as usize];
        if !link.is_up {
            return;
        }
        link.is_up = false;
        self.reliability[channel as usize].down_since = now;
        let first = channel * self.virtual_channels;
        for output in first..first + self.virtual_channels {
            let out = &self.vcs[output as usize];
            let (owner, mut waiter) = (out.owner, out.waiters);
            if owner != NONE && !self.has_begun(owner) {
                self.schedule_expiry(now, owner, self.residents[owner].generation, channel, queue);
            }
            while waiter != NONE {
                self.schedule_expiry(now, waiter, self.residents[waiter].generation, channel, queue);
                waiter = self.residents[waiter].next_waiter;
            }
            if self.cut_through {
                self.interrupt_wire(now, channel, output, queue);
            }
        }
    }

    /// Puts a channel back into service. No effect on a channel that is up.
    pub fn repair_link(&mut self, now: Time, channel: u32, queue: &mut impl Schedule) {
        let link = &mut self.links[channel as usize];
        if link.is_up {
            return;
        }
        link.is_up = true;
        let through = link.latency + self.config.switch.latency;
        self.reliability[channel as usize].down_since = Time::MAX;
        let first = channel * self.virtual_channels;
        for output in first..first + self.virtual_channels {
            let mut resident = self.vcs[output as usize].front;
            while resident != NONE {
                let here = &mut self.residents[resident];
                let next = here.next;
                if here.state == State::Held {
                    let link = &mut self.links[channel as usize];
                    let start = now.max(link.free_at);
                    let missing = self.flights[here.packet].missing;
                    let short = self.config.part(link.flit_time, missing.into());
                    let end = start + (link.flit_time * u64::from(here.left)).saturating_sub(short);
                    link.free_at = end;
                    link.statistics.flits += u64::from(here.left);
                    link.statistics.busy += end - start;
                    self.statistics.retransmissions += 1;
                    here.asked = start + through;
                    here.end_in = end + through;
                    self.schedule_ready(resident, start + through, queue);
                }
                resident = next;
            }
        }
        self.serve(now, channel, queue);
        self.resolve(now, queue);
    }

    /// Sets the error rates of one channel or of all.
    pub fn set_error_rates(&mut self, channel: Option<u32>, rates: ErrorRates) -> Result<(), NetworkError> {
        let rates = rates.check()?;
        match channel {
            None => {
                self.config.errors = rates;
                self.channel_errors.clear();
            }
            Some(channel) => {
                if self.channel_errors.is_empty() {
                    self.channel_errors = vec![self.config.errors; self.links.len()];
                }
                self.channel_errors[channel as usize] = rates;
            }
        }
        let any = |rates: &ErrorRates| *rates != ErrorRates::NONE;
        self.errors = any(&self.config.errors) || self.channel_errors.iter().any(any);
        Ok(())
    }

    /// Sends so many flits of a packet over a channel, from `now` on.
    #[inline]
    pub(super) fn cross(&mut self, now: Time, channel: u32, packet: u32, flits: u32, head: bool) -> Crossing {
        let flit_time = self.links[channel as usize].flit_time;
        // Flits are short only where packets move as wholes.
        let short = self.config.part(flit_time, self.flights[packet].missing.into());
        let end = now + (flit_time * u64::from(flits)).saturating_sub(short);
        let mut crossing = Crossing { start: now, end, lost: false };
        if self.errors && head {
            self.draw_errors(channel, packet, flits, &mut crossing);
        }
        if self.window_limits {
            let at = crossing.end + self.links[channel as usize].latency * 2;
            let link = &mut self.reliability[channel as usize];
            debug_assert!(link.window >= flits, "window below zero");
            link.window -= flits;
            link.acknowledgements.push(&mut self.releases, at, flits);
        }
        crossing
    }

    /// Draws the errors of a packet on a channel.
    #[cold]
    fn draw_errors(&mut self, channel: u32, packet: u32, flits: u32, crossing: &mut Crossing) {
        let rates = self.channel_errors.get(channel as usize).copied().unwrap_or(self.config.errors);
        let link = &self.links[channel as usize];
        let (flit_time, round_trip) = (link.flit_time, link.latency * 2);
        // Flits that have crossed without an error, and when the next one starts.
        let (mut across, mut start) = (0, crossing.start);
        loop {
            let lost = self.random.chance(rates.loss);
            let corrupted = !lost && self.random.chance(rates.corruption);
            self.statistics.losses += u64::from(lost);
            self.statistics.corruptions += u64::from(corrupted);
            if !lost && !corrupted {
                break;
            }
            let is_sent_again = self.flights[packet].cast == Cast::One;
            let Some(retransmission) = self.config.retransmission.as_ref().filter(|_| is_sent_again) else {
                let why = if lost { LossReason::Loss } else { LossReason::Corruption };
                self.flights[packet].fate = Fate::Lost(why);
                crossing.lost = lost;
                return;
            };
            let good = self.random.below(u64::from(flits - across)) as u32;
            let notice = if lost { retransmission.timeout } else { round_trip };
            start = start + flit_time * u64::from(good + 1) + notice;
            across += good;
            if across == 0 {
                crossing.start = start;
            }
            self.statistics.retransmissions += 1;
            self.links[channel as usize].statistics.flits += u64::from(flits - across);
        }
        let short = self.config.part(flit_time, self.flights[packet].missing.into());
        crossing.end = start + (flit_time * u64::from(flits - across)).saturating_sub(short);
    }

    /// Holds back, or loses, the packets whose heads are on the wire of a link that has failed.
    fn interrupt_wire(&mut self, now: Time, channel: u32, output: u32, queue: &mut impl Schedule) {
        let arrives = now + self.config.switch.latency;
        let mut resident = self.vcs[output as usize].front;
        while resident != NONE {
            let here = &self.residents[resident];
            let next = here.next;
            if here.state == State::Arriving && here.asked > arrives {
                if self.config.retransmission.is_some() {
                    let generation = self.next_generation();
                    let here = &mut self.residents[resident];
                    here.generation = generation;
                    here.state = State::Held;
                    self.schedule_expiry(now, resident, generation, channel, queue);
                } else {
                    self.lose_on_wire(now, resident, queue);
                }
            }
            resident = next;
        }
    }

    pub(super) fn schedule_expiry(
        &mut self,
        now: Time,
        resident: u32,
        generation: u32,
        channel: u32,
        queue: &mut impl Schedule,
    ) {
        let deadline = self.reliability[channel as usize].down_since + self.config.link_down_limit;
        if deadline != Time::MAX {
            queue.schedule(deadline.max(now), NetworkEvent(Event::Expire { resident, generation }));
        }
    }

    pub(super) fn on_expire(&mut self, now: Time, resident: u32, generation: u32, queue: &mut impl Schedule) {
        let here = &self.residents[resident];
        if here.generation != generation {
            return;
        }
        match here.state {
            State::Held => self.lose_on_wire(now, resident, queue),
            State::Waiting | State::Owner => {
                let link = &self.links[self.vcs[here.output as usize].channel as usize];
                if !link.is_up && !self.has_begun(resident) {
                    self.take_out(now, resident, Fate::Lost(LossReason::LinkDown), queue);
                }
            }
            State::Arriving | State::Queued | State::Draining | State::Copied => {}
        }
    }

    /// Loses a packet that has not reached its buffer.
    fn lose_on_wire(&mut self, now: Time, resident: u32, queue: &mut impl Schedule) {
        let here = &self.residents[resident];
        let (buffer, packet, flits, after) = (here.buffer, here.packet, here.left, here.next);
        let (mut before, mut at) = (NONE, self.vcs[buffer as usize].front);
        while at != resident {
            before = at;
            at = self.residents[at].next;
        }
        let room = &mut self.vcs[buffer as usize];
        if after == NONE {
            room.back = before;
        }
        if before != NONE {
            self.residents[before].next = after;
        } else {
            room.front = after;
            if after != NONE && self.residents[after].state == State::Queued {
                let at = room.busy_until.max(now);
                self.schedule_ready(after, at, queue);
            }
        }
        self.free_resident(resident);
        self.release(buffer, now, flits, queue);
        self.flights[packet].fate = Fate::Lost(LossReason::LinkDown);
        queue.schedule(now, NetworkEvent(Event::Lose { packet }));
    }

    /// Removes the first packet of a buffer from the network: its flits that are here at once, the others as they
    /// arrive.
    pub(super) fn take_out(&mut self, now: Time, resident: u32, fate: Fate, queue: &mut impl Schedule) {
        let here = &self.residents[resident];
        let (state, output, packet) = (here.state, here.output, here.packet);
        let waited = matches!(state, State::Waiting | State::Owner);
        if state == State::Waiting {
            self.remove_waiter(resident);
        } else if state == State::Owner {
            let out = &mut self.vcs[output as usize];
            out.owner = NONE;
            out.stuck = false;
        }
        let flight = &mut self.flights[packet];
        if flight.fate == Fate::Intact {
            flight.fate = fate;
        }
        self.residents[resident].state = State::Draining;
        self.drain(now, resident, queue);
        if waited {
            let channel = self.vcs[output as usize].channel;
            self.links[channel as usize].waiting -= 1;
            self.serve(now, channel, queue);
        }
    }

    /// All flits of a packet are removed from the network.
    pub(super) fn taken_out(&mut self, at: Time, packet: u32, queue: &mut impl Schedule) {
        let flight = &self.flights[packet];
        if flight.fate == Fate::Recovered {
            let arrival = at + self.recovery_time(&flight.packet);
            self.flights[packet].head = arrival;
            queue.schedule(arrival, NetworkEvent(Event::Arrive { packet }));
        } else {
            queue.schedule(at, NetworkEvent(Event::Lose { packet }));
        }
    }
}
