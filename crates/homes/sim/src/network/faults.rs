// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults of links (loss, corruption, failure), retransmission, and packets taken out of the network.
//!
//! Retransmission is go-back-N. For a flit with a wrong CRC the receiver asks again, one round trip later. The sender
//! repeats a flit that is not acknowledged in time. In both cases all later flits are repeated too; the switch has
//! already forwarded the earlier ones. A packet to many nodes is not repeated (`multicast.rs`). An acknowledgement
//! arrives one round trip after the end of a flit on the link. Without retransmission a lost packet stays lost, and the
//! target node finds a wrong CRC, because a cut-through switch has forwarded the packet before it could check. In a
//! wormhole network an error hits the head flit.
//!
//! A failing link finishes the packet that it is sending. Heads still on the wire (cut-through, towards a router) are
//! sent again after the repair; without retransmission they are lost. A packet that waits for the link waits for its
//! repair, and is lost when the link has been down for `link_down_limit`, or when its router's manager has noticed
//! ([`Reroute::abandon`]). Adaptive routings avoid the link.

use std::sync::Arc;

use selvedge_fabric::RouterId;

use super::event::Event;
use super::observe::Attempt;
use super::packet::LossReason;
use super::routes::Rerouted;
use super::slab::NONE;
use super::state::{Cast, Fate, State};
use super::{DeadlockPolicy, ErrorRates, Losses, Network, NetworkError, NetworkEvent, Packet, Plan, Reroute, Schedule};
use crate::random::Random;
use crate::time::Time;

impl Reroute for Network {
    fn allow_rerouting(&mut self) {
        self.rerouted = Some(Box::new(Rerouted::new(&self.topology)));
    }

    fn set_routes(&mut self, router: RouterId, plan: Option<&Arc<Plan>>) {
        if let Some(rerouted) = &mut self.rerouted {
            rerouted.set_routes(router, plan);
        }
    }

    fn abandon(&mut self, now: Time, channel: u32, queue: &mut impl Schedule) {
        let is_down = !self.buffers.links[channel as usize].is_up;
        let Some(rerouted) = self.rerouted.as_mut().filter(|_| is_down) else { return };
        rerouted.set_abandoned(channel, true);
        let first = channel * self.buffers.virtual_channels;
        for output in first..first + self.buffers.virtual_channels {
            self.limit_waits(now, channel, output, queue);
            let mut resident = self.buffers.vcs[output as usize].front;
            while resident != NONE {
                let here = &self.buffers.residents[resident];
                let (next, generation) = (here.next, here.generation);
                if here.state == State::Held {
                    self.schedule_expiry(now, resident, generation, channel, queue);
                }
                resident = next;
            }
        }
    }

    fn losses(&self) -> Losses {
        self.rerouted.as_ref().map_or(Losses::default(), |rerouted| rerouted.losses)
    }
}

/// A packet or flit on a channel: start of the successful transmission of its head, and end of its tail.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossing {
    pub start: Time,
    pub end: Time,
    pub lost: bool,
}

/// Takes a channel of a fabric in partitions out of service, or puts it back. Its two halves may be in two partitions.
pub(crate) fn set_link<S: Schedule>(parts: &mut [(&mut Network, &mut S)], now: Time, channel: u32, is_up: bool) {
    match is_up {
        true => repair_link(parts, now, channel),
        false => parts.iter_mut().for_each(|(network, queue)| network.fail_link(now, channel, *queue)),
    }
}

fn repair_link<S: Schedule>(parts: &mut [(&mut Network, &mut S)], now: Time, channel: u32) {
    let Some(mut free_at) = parts.iter().find_map(|(network, _)| network.link_free_at(channel)) else { return };
    for (network, queue) in &mut *parts {
        free_at = network.send_held_again(now, channel, free_at, *queue);
    }
    for (network, queue) in parts {
        network.put_back(now, channel, free_at, *queue);
    }
}

impl Network {
    /// Takes a channel (one direction of a link) out of service. No effect on a channel that is down, or that is not in
    /// this partition.
    pub fn fail_link(&mut self, now: Time, channel: u32, queue: &mut impl Schedule) {
        let Some(channel) = self.buffers.layout().local(channel) else { return };
        let link = &mut self.buffers.links[channel as usize];
        if !link.is_up {
            return;
        }
        link.is_up = false;
        self.observers.tell(|observer| observer.link(now, channel, false));
        self.reliability[channel as usize].down_since = now;
        let first = channel * self.buffers.virtual_channels;
        for output in first..first + self.buffers.virtual_channels {
            self.limit_waits(now, channel, output, queue);
            if self.buffers.cut_through {
                self.interrupt_wire(now, channel, output, queue);
            }
        }
    }

    /// Limits the time for which packets wait for an output of a failed channel.
    fn limit_waits(&mut self, now: Time, channel: u32, output: u32, queue: &mut impl Schedule) {
        let out = &self.buffers.vcs[output as usize];
        let (owner, mut waiter) = (out.owner, out.waiters);
        if owner != NONE && !self.buffers.has_begun(owner) {
            self.schedule_expiry(now, owner, self.buffers.residents[owner].generation, channel, queue);
        }
        while waiter != NONE {
            self.schedule_expiry(now, waiter, self.buffers.residents[waiter].generation, channel, queue);
            waiter = self.buffers.residents[waiter].next_waiter;
        }
    }

    /// Puts a channel back into service. No effect on a channel that is up.
    pub fn repair_link(&mut self, now: Time, channel: u32, queue: &mut impl Schedule) {
        repair_link(&mut [(self, queue)], now, channel);
    }

    /// Returns the time at which a channel of the fabric that is down is free. `None`: it is up, or does not begin here.
    fn link_free_at(&self, channel: u32) -> Option<Time> {
        let own = self.buffers.layout().local(channel).filter(|&own| self.buffers.layout().begins_here(own))?;
        let link = &self.buffers.links[own as usize];
        (!link.is_up).then_some(link.free_at)
    }

    /// Of a channel that is repaired: sends again the packets that it held back on their way to a buffer here. Returns
    /// the time at which it is free.
    fn send_held_again(&mut self, now: Time, channel: u32, mut free_at: Time, queue: &mut impl Schedule) -> Time {
        let Some(channel) = self.buffers.layout().local(channel) else { return free_at };
        let link = &mut self.buffers.links[channel as usize];
        let through = link.latency + self.config.switch.latency;
        link.is_up = true;
        self.reliability[channel as usize].down_since = Time::MAX;
        let first = channel * self.buffers.virtual_channels;
        for output in first..first + self.buffers.virtual_channels {
            let mut resident = self.buffers.vcs[output as usize].front;
            while resident != NONE {
                let here = &mut self.buffers.residents[resident];
                let next = here.next;
                if here.state == State::Held {
                    let link = &mut self.buffers.links[channel as usize];
                    let start = now.max(free_at);
                    let missing = self.buffers.flights[here.packet].missing;
                    let short = self.config.part(link.flit_time, missing.into());
                    let end = start + (link.flit_time * u64::from(here.left)).saturating_sub(short);
                    free_at = end;
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
        free_at
    }

    /// Lets a repaired channel that begins here send again.
    fn put_back(&mut self, now: Time, channel: u32, free_at: Time, queue: &mut impl Schedule) {
        let Some(channel) = self.buffers.layout().local(channel) else { return };
        if let Some(rerouted) = &mut self.rerouted {
            rerouted.set_abandoned(channel, false);
        }
        self.observers.tell(|observer| observer.link(now, channel, true));
        let link = &mut self.buffers.links[channel as usize];
        (link.is_up, link.free_at) = (true, free_at);
        self.reliability[channel as usize].down_since = Time::MAX;
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
                    self.channel_errors = vec![self.config.errors; self.buffers.links.len()];
                }
                self.channel_errors[channel as usize] = rates;
            }
        }
        let any = |rates: &ErrorRates| *rates != ErrorRates::NONE;
        self.errors = any(&self.config.errors) || self.channel_errors.iter().any(any);
        Ok(())
    }

    /// Sends n flits of a packet over a channel, from `now` on.
    #[inline]
    pub(super) fn cross(&mut self, now: Time, channel: u32, packet: u32, flits: u32, head: bool) -> Crossing {
        let flit_time = self.buffers.links[channel as usize].flit_time;
        // Flits are short only if whole packets move.
        let short = self.config.part(flit_time, self.buffers.flights[packet].missing.into());
        let end = now + (flit_time * u64::from(flits)).saturating_sub(short);
        let mut crossing = Crossing { start: now, end, lost: false };
        if self.buffers.is_stage(channel) {
            return crossing;
        }
        if self.errors && head {
            self.draw_errors(channel, packet, flits, &mut crossing);
        }
        if self.window_limits {
            let at = crossing.end + self.buffers.links[channel as usize].latency * 2;
            let link = &mut self.reliability[channel as usize];
            debug_assert!(link.window >= flits, "window below zero");
            link.window -= flits;
            link.acknowledgements.push(&mut self.buffers.releases, at, flits);
        }
        crossing
    }

    #[cold]
    fn draw_errors(&mut self, channel: u32, packet: u32, flits: u32, crossing: &mut Crossing) {
        let rates = self.channel_errors.get(channel as usize).copied().unwrap_or(self.config.errors);
        let link = &self.buffers.links[channel as usize];
        let (flit_time, round_trip) = (link.flit_time, link.latency * 2);
        let part = u64::from_le_bytes(*b"errors\0\0");
        let number = link.statistics.packets as u32;
        let of_fabric = self.buffers.of_fabric(channel);
        let mut random = Random::of_source(self.config.seed, part, of_fabric, number);
        // Flits that have crossed without an error, and the start of the next one.
        let (mut across, mut start) = (0, crossing.start);
        loop {
            let lost = random.chance(rates.loss);
            let corrupted = !lost && random.chance(rates.corruption);
            self.statistics.losses += u64::from(lost);
            self.statistics.corruptions += u64::from(corrupted);
            if !lost && !corrupted {
                break;
            }
            let is_sent_again = self.buffers.flights[packet].cast == Cast::One;
            let mut attempt = Attempt { channel, across, good: 0, start, lost, repeated_at: None };
            let Some(retransmission) = self.config.retransmission.as_ref().filter(|_| is_sent_again) else {
                self.observers.tell(|observer| observer.failed(&attempt));
                let why = if lost { LossReason::Loss } else { LossReason::Corruption };
                self.buffers.flights[packet].fate = Fate::Lost(why);
                crossing.lost = lost;
                return;
            };
            let good = random.below(u64::from(flits - across)) as u32;
            let notice = if lost { retransmission.timeout } else { round_trip };
            start = start + flit_time * u64::from(good + 1) + notice;
            (attempt.good, attempt.repeated_at) = (good, Some(start));
            self.observers.tell(|observer| observer.failed(&attempt));
            across += good;
            if across == 0 {
                crossing.start = start;
            }
            self.statistics.retransmissions += 1;
            self.buffers.links[channel as usize].statistics.flits += u64::from(flits - across);
        }
        let short = self.config.part(flit_time, self.buffers.flights[packet].missing.into());
        crossing.end = start + (flit_time * u64::from(flits - across)).saturating_sub(short);
    }

    /// Holds back, or loses, the packets whose heads are on the wire of a failed link.
    fn interrupt_wire(&mut self, now: Time, channel: u32, output: u32, queue: &mut impl Schedule) {
        let arrives = now + self.config.switch.latency;
        let mut resident = self.buffers.vcs[output as usize].front;
        while resident != NONE {
            let here = &self.buffers.residents[resident];
            let next = here.next;
            if here.state == State::Arriving && here.asked > arrives {
                if self.config.retransmission.is_some() {
                    let generation = self.buffers.next_generation();
                    let here = &mut self.buffers.residents[resident];
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
        let is_abandoned = self.rerouted.as_ref().is_some_and(|rerouted| rerouted.is_abandoned(channel));
        let limit = if is_abandoned { Time::ZERO } else { self.config.link_down_limit };
        let deadline = self.reliability[channel as usize].down_since + limit;
        if deadline != Time::MAX {
            let place = self.buffers.residents[resident].buffer;
            queue.schedule(deadline.max(now), place, NetworkEvent(Event::Expire { resident, generation }));
        }
    }

    pub(super) fn on_expire(&mut self, now: Time, resident: u32, generation: u32, queue: &mut impl Schedule) {
        let here = &self.buffers.residents[resident];
        if here.generation != generation {
            return;
        }
        match here.state {
            State::Held => self.lose_on_wire(now, resident, queue),
            State::Waiting | State::Owner => {
                let link = &self.buffers.links[self.buffers.vcs[here.output as usize].channel as usize];
                if !link.is_up && !self.buffers.has_begun(resident) {
                    self.take_out(now, resident, Fate::Lost(LossReason::LinkDown), queue);
                }
            }
            State::Arriving | State::Queued | State::Draining | State::Copied => {}
        }
    }

    fn lose_on_wire(&mut self, now: Time, resident: u32, queue: &mut impl Schedule) {
        let here = &self.buffers.residents[resident];
        let (buffer, packet, flits, after) = (here.buffer, here.packet, here.left, here.next);
        let (mut before, mut at) = (NONE, self.buffers.vcs[buffer as usize].front);
        while at != resident {
            before = at;
            at = self.buffers.residents[at].next;
        }
        let room = &mut self.buffers.vcs[buffer as usize];
        if after == NONE {
            room.back = before;
        }
        if before != NONE {
            self.buffers.residents[before].next = after;
        } else {
            room.front = after;
            if after != NONE && self.buffers.residents[after].state == State::Queued {
                let at = room.busy_until.max(now);
                self.schedule_ready(after, at, queue);
            }
        }
        self.buffers.free_resident(resident);
        if self.is_watched {
            self.watch_leave(buffer, now, flits);
        }
        let latency = self.buffers.links[self.buffers.vcs[buffer as usize].channel as usize].latency;
        self.release(buffer, now + latency, flits, queue);
        self.buffers.flights[packet].fate = Fate::Lost(LossReason::LinkDown);
        queue.schedule(now, buffer, NetworkEvent(Event::Lose { packet }));
    }

    /// Removes the first packet of a buffer from the network: its flits here at once, the others as they arrive.
    pub(super) fn take_out(&mut self, now: Time, resident: u32, fate: Fate, queue: &mut impl Schedule) {
        let here = &self.buffers.residents[resident];
        let (state, output, packet) = (here.state, here.output, here.packet);
        let waited = matches!(state, State::Waiting | State::Owner);
        let has_begun = self.buffers.has_begun(resident);
        if state == State::Waiting {
            self.buffers.remove_waiter(resident);
        } else if state == State::Owner {
            let out = &mut self.buffers.vcs[output as usize];
            out.owner = NONE;
            out.stuck = false;
        }
        let flight = &mut self.buffers.flights[packet];
        if flight.fate == Fate::Intact {
            flight.fate = fate;
        }
        self.buffers.residents[resident].state = State::Draining;
        self.drain(now, resident, queue);
        if waited {
            let channel = self.buffers.vcs[output as usize].channel;
            if self.is_watched && !has_begun && !self.buffers.is_stage(channel) {
                self.observers.tell(|observer| observer.withdrawn(now, channel));
            }
            self.buffers.links[channel as usize].waiting -= 1;
            self.serve(now, channel, queue);
        }
    }

    /// Ends a packet whose flits have all been removed from the network.
    pub(super) fn taken_out(&mut self, at: Time, packet: u32, queue: &mut impl Schedule) {
        let flight = &self.buffers.flights[packet];
        let (router, port) = self.topology.attachment(flight.packet.to);
        // A fabric in which packets are taken out of a deadlock is not divided.
        let target = self.buffers.links.get(self.buffers.output(self.topology.channel(router, port)) as usize);
        let is_cut_off = |rerouted: &Rerouted| {
            let Packet { from, to, .. } = flight.packet;
            rerouted.start(&self.topology, from, to, flight.route).is_none()
        };
        if flight.fate == Fate::Recovered && self.rerouted.as_deref().is_some_and(is_cut_off) {
            self.buffers.flights[packet].fate = Fate::Lost(LossReason::Unreachable);
            queue.schedule(at, NONE, NetworkEvent(Event::Lose { packet }));
        } else if flight.fate == Fate::Recovered && self.rerouted.is_some() && target.is_some_and(|link| !link.is_up) {
            // Its target's router is gone.
            self.buffers.flights[packet].fate = Fate::Lost(LossReason::LinkDown);
            queue.schedule(at, NONE, NetworkEvent(Event::Lose { packet }));
        } else if flight.fate == Fate::Recovered {
            let arrival = at + self.recovery_time(&flight.packet);
            self.buffers.flights[packet].head = arrival;
            queue.schedule(arrival, NONE, NetworkEvent(Event::Arrive { packet }));
        } else {
            queue.schedule(at, NONE, NetworkEvent(Event::Lose { packet }));
        }
    }

    // ---- Deadlocks -----------------------------------------------------------------------------------------------

    /// Searches for cycles from the outputs that have become stuck, and breaks them.
    pub(super) fn resolve(&mut self, now: Time, queue: &mut impl Schedule) {
        while let Some(output) = self.suspects.pop() {
            if self.deadlock.is_some() || !(self.may_deadlock || self.rerouted.is_some()) {
                continue;
            }
            let Some(cycle) = self.buffers.cycle(output) else { continue };
            let mut packets: Vec<u32> = cycle.iter().map(|&resident| self.buffers.residents[resident].packet).collect();
            packets.sort_unstable();
            packets.dedup();
            self.statistics.deadlocks += 1;
            self.statistics.deadlocked_packets += packets.len() as u64;
            let length = self.buffers.on_links(&cycle).count() as u32;
            *self.statistics.cycle_lengths.entry(length).or_default() += 1;
            match self.config.deadlock {
                DeadlockPolicy::Detect => self.deadlock = Some(self.buffers.describe(now, &cycle)),
                DeadlockPolicy::Resolve { .. } => {
                    // Some packet's head waits in the cycle, because all flits behind a head wait for it.
                    let head = cycle.iter().rev().find(|&&resident| !self.buffers.has_begun(resident));
                    debug_assert!(head.is_some(), "a cycle without a head");
                    if let Some(&head) = head {
                        self.statistics.recovered += 1;
                        self.take_out(now, head, Fate::Recovered, queue);
                    }
                }
            }
        }
    }

    /// Returns the time from a packet's removal from the network to its arrival at its node.
    pub(super) fn recovery_time(&self, packet: &Packet) -> Time {
        let delay = match self.config.deadlock {
            DeadlockPolicy::Resolve { delay } => delay,
            DeadlockPolicy::Detect => Time::ZERO,
        };
        delay + self.latency_empty(packet.from, packet.to, packet.bytes)
    }
}
