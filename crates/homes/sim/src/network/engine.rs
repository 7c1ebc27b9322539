// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet's path through one router: it enters, asks for an output, is sent, and leaves its buffer.
//!
//! Arbitration is in `serve.rs`.

use selvedge_fabric::{CHOICES_MAX, Choices, Hop, Port, RouterId, Vc};

use super::adaptive::{DOWN, Queues};
use super::edges;
use super::event::Event;
use super::faults::Crossing;
use super::observe::Transmission;
use super::packet::{Arrival, Delivery, HopSpan, Loss, LossReason};
use super::slab::NONE;
use super::state::{Cast, Fate, State, UNLIMITED};
use super::{Network, NetworkEvent, Schedule};
use crate::time::Time;

impl Network {
    #[inline]
    pub(super) fn schedule_ready(&mut self, resident: u32, at: Time, queue: &mut impl Schedule) {
        let here = &mut self.buffers.residents[resident];
        here.state = State::Arriving;
        queue.schedule(at, here.buffer, NetworkEvent(Event::Ready { resident, generation: here.generation }));
    }

    #[inline]
    pub(super) fn on_ready(&mut self, now: Time, resident: u32, generation: u32, queue: &mut impl Schedule) {
        let here = &mut self.buffers.residents[resident];
        if here.generation != generation {
            return;
        }
        let buffer = &self.buffers.vcs[here.buffer as usize];
        if buffer.front != resident {
            here.state = State::Queued;
        } else if buffer.busy_until > now {
            self.schedule_ready(resident, buffer.busy_until, queue);
        } else {
            self.ask(now, resident, queue);
        }
    }

    /// Asks for the output of a buffer's first packet, and sends the packet at once if the output is free.
    #[inline]
    pub(super) fn ask(&mut self, now: Time, resident: u32, queue: &mut impl Schedule) {
        let here = &self.buffers.residents[resident];
        if let Some(output) = self.buffers.behind_stage(here.buffer) {
            return self.request(now, resident, output, queue);
        }
        if here.buffer < self.buffers.sources && self.buffers.flights[here.packet].cast == Cast::Tree {
            return self.copy(now, resident, queue);
        }
        match self.route(now, resident) {
            Ok(output) => self.request(now, resident, output, queue),
            Err(why) => self.take_out(now, resident, Fate::Lost(why), queue),
        }
    }

    /// Asks for an output, for a packet or a copy.
    #[inline]
    pub(super) fn request(&mut self, now: Time, resident: u32, output: u32, queue: &mut impl Schedule) {
        let here = &mut self.buffers.residents[resident];
        here.output = output;
        here.asked = now;
        let at_router = here.buffer < self.buffers.sources;
        let (packet, generation) = (here.packet, here.generation);
        let channel = self.buffers.vcs[output as usize].channel;
        let counts = at_router && !self.buffers.is_stage(channel);
        self.statistics.requests += u64::from(counts);
        let link = &self.buffers.links[channel as usize];
        if link.waiting == 0 && link.free_at <= now && link.is_up {
            let flits = if self.buffers.cut_through { self.buffers.flights[packet].flits } else { 1 };
            if self.buffers.has_room(output, now, flits) && self.has_window(channel, now, flits) {
                let out = &mut self.buffers.vcs[output as usize];
                out.last = self.buffers.residents[resident].buffer;
                self.buffers.links[channel as usize].last_vc = (output - channel * self.buffers.virtual_channels) as u8;
                self.send(now, resident, queue);
                if !self.buffers.cut_through && self.buffers.has_work(channel) {
                    let free_at = self.buffers.links[channel as usize].free_at;
                    self.wake(channel, free_at, queue);
                }
                return;
            }
        }
        self.statistics.blocked += u64::from(counts);
        self.buffers.wait(resident, output);
        if self.is_watched && !self.buffers.is_stage(channel) {
            let packet = &self.buffers.flights[packet].packet;
            self.observers.tell(|observer| observer.blocked(now, channel, packet, at_router));
        }
        if !self.buffers.links[channel as usize].is_up {
            self.schedule_expiry(now, resident, generation, channel, queue);
        }
        self.serve(now, channel, queue);
        // `serve` reports a stuck owner only once. This packet may have closed a cycle through an owner that was
        // already stuck, so the output is checked again.
        if self.buffers.vcs[output as usize].stuck {
            self.suspects.push(output);
        }
    }

    /// Returns the output of a resident: the only one that the routing allows, or the least loaded of several.
    #[inline]
    fn route(&mut self, now: Time, resident: u32) -> Result<u32, LossReason> {
        let here = &self.buffers.residents[resident];
        if here.buffer >= self.buffers.sources {
            let node = self.buffers.node_of(here.buffer);
            if let Some(rerouted) = &self.rerouted {
                let flight = &mut self.buffers.flights[here.packet];
                if flight.cast == Cast::One {
                    let state = rerouted.start(&self.topology, node, flight.packet.to, flight.route);
                    flight.route = state.ok_or(LossReason::Unreachable)?;
                }
            }
            return Ok(self.buffers.injection(node) * self.buffers.virtual_channels);
        }
        let input = &self.buffers.vcs[here.buffer as usize];
        let router = RouterId(input.router);
        let vc = here.buffer - input.channel * self.buffers.virtual_channels;
        let packet = here.packet;
        let arrived = Some((Port(input.port), Vc(vc as u8)));
        let first = self.buffers.output(self.topology.channel(router, Port(0)));
        let flight = &mut self.buffers.flights[packet];
        let virtual_channels = self.buffers.virtual_channels;
        let number = move |hop: &Hop| (first + u32::from(hop.port.0)) * virtual_channels + u32::from(hop.vc.0);
        let to = flight.packet.to;
        if let Some(rerouted) = self.rerouted.as_ref().filter(|_| flight.route.tag != 0) {
            let hop = rerouted.next(&self.topology, router, arrived, to, &mut flight.route);
            let output = hop.as_ref().map(number).ok_or(LossReason::NoRoute);
            return output.map(|output| self.buffers.staged(output));
        }
        let choices = self.routing.next(&self.topology, router, arrived, to, &mut flight.route);
        let hop = match choices.as_slice() {
            [hop] => Some(*hop),
            _ => self.choose(now, router, packet, &choices),
        };
        let output = hop.as_ref().map(number).ok_or(LossReason::NoRoute);
        output.map(|output| self.buffers.staged(output))
    }

    /// Returns the output for which the packet of an event will probably ask.
    #[inline]
    pub(super) fn likely_output(&self, event: &NetworkEvent) -> Option<u32> {
        let Event::Ready { resident, generation } = event.0 else { return None };
        let here = self.buffers.residents.get(resident).filter(|here| here.generation == generation)?;
        if let Some(output) = self.buffers.behind_stage(here.buffer) {
            return Some(output);
        }
        let (input, flight) = (&self.buffers.vcs[here.buffer as usize], &self.buffers.flights[here.packet]);
        if here.buffer >= self.buffers.sources || self.rerouted.is_some() || flight.cast == Cast::Tree {
            return None;
        }
        let (router, mut route) = (RouterId(input.router), flight.route);
        let vc = here.buffer - input.channel * self.buffers.virtual_channels;
        let arrived = Some((Port(input.port), Vc(vc as u8)));
        let choices = self.routing.next(&self.topology, router, arrived, flight.packet.to, &mut route);
        let hop = choices.as_slice().first()?;
        let channel = self.buffers.output(self.topology.channel(router, hop.port));
        Some(self.buffers.staged(channel * self.buffers.virtual_channels + u32::from(hop.vc.0)))
    }

    /// Chooses one of several hops of a packet at a router, and records the decision in the packet.
    #[inline(never)]
    fn choose(&mut self, now: Time, router: RouterId, packet: u32, choices: &Choices) -> Option<Hop> {
        let flight = &self.buffers.flights[packet];
        let (flits, mut route) = (flight.flits, flight.route);
        let channel = |router, port| self.buffers.output(self.topology.channel(router, port));
        // The queues of global links of other routers, in picoseconds.
        let mut further = [0; CHOICES_MAX];
        if let Some(past) = &mut self.past {
            let to = self.topology.attachment(flight.packet.to).0;
            for (place, further) in further.iter_mut().enumerate().take(choices.len()) {
                let behind = self.routing.link_behind(&self.topology, router, (choices, place), to, &route);
                if let Some((router, port)) = behind {
                    let channel = channel(router, port);
                    let link = &self.buffers.links[channel as usize];
                    *further = if link.is_up { past.queue(channel, now) * link.flit_time.0 } else { DOWN };
                }
            }
        }
        let output = |place: usize| {
            let hop = choices.as_slice()[place];
            channel(router, hop.port) * self.buffers.virtual_channels + u32::from(hop.vc.0)
        };
        let queues = Queues { buffers: &self.buffers, config: &self.config };
        let queue = |place, alone| queues.queue(now, output(place), flits, alone) + further[place];
        let load = |place: usize| queues.load(now, output(place));
        let alone = self.routing.counts_hops();
        // Packets that wait for a link delay both hops over it. Those that wait for room behind it tell the hops apart.
        let compared = |place: usize, one_link: bool| match one_link && !queues.is_full(now, output(place), flits) {
            true => further[place],
            false => queue(place, alone || one_link),
        };
        let chosen = choices.choose(&mut route, self.detour_bias, load, compared);
        self.buffers.flights[packet].route = route;
        chosen
    }

    /// Sends a packet, or in a wormhole network a flit. The caller has checked link and room.
    #[inline]
    pub(super) fn send(&mut self, now: Time, resident: u32, queue: &mut impl Schedule) {
        let here = &mut self.buffers.residents[resident];
        let (output, buffer, packet) = (here.output, here.buffer, here.packet);
        let flight = &self.buffers.flights[packet];
        let head = here.left == flight.flits;
        let flits = if self.buffers.cut_through { here.left } else { 1 };
        let last_there = here.ready == flits;
        here.left -= flits;
        here.ready -= flits;
        let (left, all, end_in) = (here.left, flight.flits, here.end_in);
        let tail = left == 0;
        let from_router = buffer < self.buffers.sources;
        let waited = now - here.asked;
        let was_blocked = head && here.state == State::Owner;
        let in_switch = self.buffers.behind_stage(output).is_some();
        if head {
            self.buffers.residents[resident].started = now;
            let flight = &mut self.buffers.flights[packet];
            flight.hops = flight.hops.saturating_add(u16::from(from_router && !in_switch));
        }
        if let Some(most) = self.mark_flits.filter(|_| head && from_router && !in_switch) {
            let queues = Queues { buffers: &self.buffers, config: &self.config };
            if queues.marks(now, resident, output, most) {
                self.buffers.flights[packet].packet.header.marked = true;
                self.statistics.marks += 1;
            }
        }
        let channel = self.buffers.vcs[output as usize].channel;
        let mut crossing = self.cross(now, channel, packet, flits, head);
        if head {
            self.buffers.residents[resident].lost = crossing.lost;
        } else {
            crossing.lost = self.buffers.residents[resident].lost;
        }
        if last_there {
            crossing.end = crossing.end.max(end_in);
        }
        if self.is_watched && !in_switch {
            self.pass_gate(now, output, packet, flits, &crossing);
        }
        let out = &mut self.buffers.vcs[output as usize];
        let (router, at_border) = (out.router, out.at_border);
        if out.credits != UNLIMITED {
            debug_assert!(out.credits >= flits, "credits below zero");
            out.credits -= flits;
            if let Some(past) = &mut self.past {
                past.take_room(self.buffers.link_of(channel), now, flits);
            }
        }
        let link = &mut self.buffers.links[channel as usize];
        link.free_at = crossing.end;
        link.statistics.packets += u64::from(head);
        link.statistics.flits += u64::from(flits);
        link.statistics.busy += crossing.end - now;
        let latency = link.latency;
        if head && from_router && !in_switch {
            self.statistics.hops += 1;
            self.statistics.blocked_ps += waited.0;
        }
        if self.is_watched && !in_switch {
            let missing = if tail { self.buffers.flights[packet].missing } else { 0 };
            let sent = Transmission {
                packet: &self.buffers.flights[packet].packet,
                channel,
                vc: (output - channel * self.buffers.virtual_channels) as u8,
                flits,
                bytes: u64::from(flits) * u64::from(self.config.link.flit_bytes) - u64::from(missing),
                head,
                tail,
                waited: was_blocked.then_some(waited),
                from_router,
                begin: now,
                start: crossing.start,
                end: crossing.end,
                lost: crossing.lost,
            };
            self.observers.tell(|observer| observer.sent(&sent));
        }
        self.keep_or_free(resident, output, channel, tail);
        if tail && self.config.trace && !in_switch && !self.buffers.flights[packet].packet.header.is_control() {
            self.record(resident, channel, crossing.end);
        }
        if crossing.lost {
            // The receiver never gets it. Its credits return after a round trip, when both ends have detected the loss.
            self.release(output, crossing.end + latency * 2, flits, queue);
            if tail {
                queue.schedule(crossing.end + latency, output, NetworkEvent(Event::Lose { packet }));
            }
        } else if at_border {
            let through = latency + self.config.switch.latency;
            let flight = self.buffers.flights[packet];
            self.buffers.flights.remove(packet);
            if let Some(border) = &mut self.border {
                border.send(flight, output, crossing.start + through, crossing.end + through);
            }
        } else if router == NONE {
            if head {
                let flight = &mut self.buffers.flights[packet];
                (flight.head, flight.output) = (crossing.start + latency, output);
            }
            if tail {
                queue.schedule(crossing.end + latency, output, NetworkEvent(Event::Arrive { packet }));
            }
        } else {
            let through = if in_switch { Time::ZERO } else { latency + self.config.switch.latency };
            let at = crossing.start + through;
            if head {
                let next = self.buffers.enter(packet, output, all, flits, at, crossing.end + through);
                self.schedule_ready(next, at, queue);
            } else {
                let next = self.buffers.vcs[output as usize].back;
                let duration_ps = (crossing.end - crossing.start).0 as u32;
                queue.schedule(at, output, NetworkEvent(Event::Flit { resident: next, duration_ps }));
            }
        }
        self.leave(resident, buffer, crossing.end, flits, tail, queue);
    }

    /// Sends flits over a link, which STOP and CONTINUE may control. Those without room corrupt the packet.
    #[cold]
    fn pass_gate(&mut self, now: Time, output: u32, packet: u32, flits: u32, crossing: &Crossing) {
        let channel = self.buffers.vcs[output as usize].channel;
        self.buffers.gates.carry(channel, now, crossing.end);
        let link = &self.buffers.links[channel as usize];
        let first = (!crossing.lost).then_some(crossing.start + link.latency + link.flit_time);
        if self.buffers.pass_gate(output, flits, first) {
            self.statistics.corruptions += 1;
            let flight = &mut self.buffers.flights[packet];
            if flight.fate == Fate::Intact {
                flight.fate = Fate::Lost(LossReason::Corruption);
            }
        }
    }

    /// Tells that flits have left their buffer.
    #[cold]
    pub(super) fn watch_leave(&mut self, buffer: u32, at: Time, flits: u32) {
        self.buffers.take_from_gate(buffer, at, flits);
        let channel = self.buffers.vcs[buffer as usize].channel;
        let vc = (buffer - channel * self.buffers.virtual_channels) as u8;
        self.observers.tell(|observer| observer.taken(at, channel, vc, flits));
    }

    /// Tells of credits that return; returns those that were not borrowed.
    #[cold]
    fn watch_release(&mut self, output: u32, at: Time, flits: u32) -> u32 {
        let out = &self.buffers.vcs[output as usize];
        if out.gated {
            return self.buffers.repay(output, flits);
        }
        let (channel, vc) = (out.channel, (output - out.channel * self.buffers.virtual_channels) as u8);
        self.observers.tell(|observer| observer.returned(at, channel, vc, flits));
        flits
    }

    /// Allocates the output to a packet whose tail has not left, and frees it when the tail leaves.
    #[inline]
    fn keep_or_free(&mut self, resident: u32, output: u32, channel: u32, tail: bool) {
        let here = &mut self.buffers.residents[resident];
        let owned = here.state == State::Owner;
        let (out, link) = (&mut self.buffers.vcs[output as usize], &mut self.buffers.links[channel as usize]);
        out.stuck = false;
        if owned && tail {
            out.owner = NONE;
            link.waiting -= 1;
        } else if !owned && !tail {
            here.state = State::Owner;
            out.owner = resident;
            link.waiting += 1;
        }
    }

    /// Records that flits have left their buffer. Their credits return; after a tail the next packet is first.
    #[inline]
    pub(super) fn leave(
        &mut self,
        resident: u32,
        buffer: u32,
        at: Time,
        flits: u32,
        tail: bool,
        queue: &mut impl Schedule,
    ) {
        if self.buffers.residents[resident].holder != NONE {
            return self.copy_left(resident, at, queue);
        }
        if buffer < self.buffers.sources {
            let latency = self.buffers.links[self.buffers.vcs[buffer as usize].channel as usize].latency;
            if self.is_watched && self.buffers.behind_stage(buffer).is_none() {
                self.watch_leave(buffer, at, flits);
            }
            self.release(buffer, at + latency, flits, queue);
        } else if tail {
            let source = &mut self.sources[(buffer - self.buffers.sources) as usize];
            source.waiting -= 1;
            if std::mem::take(&mut source.notify) {
                self.notified.push(self.buffers.node_of(buffer));
            }
            if let Some(edges) = &mut self.edges {
                edges.note(self.buffers.node_of(buffer).0);
            }
        }
        if tail {
            debug_assert_eq!(self.buffers.vcs[buffer as usize].front, resident);
            let next = self.buffers.residents[resident].next;
            self.buffers.free_resident(resident);
            let buffer = &mut self.buffers.vcs[buffer as usize];
            buffer.busy_until = at;
            buffer.front = next;
            if next == NONE {
                buffer.back = NONE;
            } else if self.buffers.residents[next].state == State::Queued {
                self.schedule_ready(next, at, queue);
            }
        }
    }

    /// Sends the credits of a buffer back to its output; they arrive at `at`.
    #[inline]
    pub(super) fn release(&mut self, buffer: u32, at: Time, flits: u32, queue: &mut impl Schedule) {
        let out = &self.buffers.vcs[buffer as usize];
        if out.credits == UNLIMITED {
            return;
        }
        match &mut self.border {
            Some(border) if out.at_border && out.router != NONE => border.release(buffer, at, flits),
            _ => self.credit(buffer, at, flits, queue),
        }
    }

    /// Records credits that arrive at an output at `at`.
    #[inline]
    pub(super) fn credit(&mut self, output: u32, at: Time, flits: u32, queue: &mut impl Schedule) {
        let is_watched = self.is_watched && self.buffers.behind_stage(output).is_none();
        let flits = if is_watched { self.watch_release(output, at, flits) } else { flits };
        let out = &mut self.buffers.vcs[output as usize];
        out.releases.push(&mut self.buffers.releases, at, flits);
        out.stuck = false;
        let channel = out.channel;
        if let Some(past) = &mut self.past {
            past.free_room(self.buffers.link_of(channel), at, flits);
        }
        let link = &self.buffers.links[channel as usize];
        if link.waiting > 0 {
            let at = at.max(link.free_at);
            self.wake(channel, at, queue);
        }
    }

    /// Records one more flit of a packet in its buffer.
    pub(super) fn on_flit(&mut self, now: Time, resident: u32, duration_ps: u32, queue: &mut impl Schedule) {
        let here = &mut self.buffers.residents[resident];
        here.ready += 1;
        here.end_in = now + Time(u64::from(duration_ps));
        match here.state {
            State::Owner => {
                let channel = self.buffers.vcs[here.output as usize].channel;
                self.serve(now, channel, queue);
            }
            State::Draining => self.drain(now, resident, queue),
            _ => {}
        }
    }

    /// Removes the flits of a packet that are in this buffer from the network.
    pub(super) fn drain(&mut self, now: Time, resident: u32, queue: &mut impl Schedule) {
        let here = &mut self.buffers.residents[resident];
        let flits = here.ready;
        here.left -= flits;
        here.ready = 0;
        let (buffer, packet, at, tail) = (here.buffer, here.packet, now.max(here.end_in), here.left == 0);
        if flits > 0 {
            self.leave(resident, buffer, at, flits, tail, queue);
        }
        if tail {
            self.taken_out(at, packet, queue);
        }
    }

    /// Appends a packet that is delivered or lost to those that the caller takes.
    #[inline]
    pub(super) fn arrive(&mut self, arrival: Arrival) {
        if self.is_watched {
            self.observers.tell(|observer| observer.arrived(&arrival));
        }
        self.arrivals.push_back(arrival);
    }

    pub(super) fn on_arrive(&mut self, now: Time, packet: u32, queue: &mut impl Schedule) {
        let flight = &self.buffers.flights[packet];
        if let Fate::Lost(_) = flight.fate {
            // The node drops it and frees its room.
            let (output, flits) = (flight.output, flight.flits);
            if output != NONE {
                let channel = self.buffers.vcs[output as usize].channel;
                self.release(output, now + self.buffers.links[channel as usize].latency, flits, queue);
            }
            self.on_lose(now, packet, queue);
            return;
        }
        if self.edges.is_some() {
            let (packet_of, output, flits) = (flight.packet, flight.output, flight.flits);
            edges::tell_edge(self, now, &packet_of);
            if packet_of.header.is_control() {
                if output != NONE {
                    let channel = self.buffers.vcs[output as usize].channel;
                    self.release(output, now + self.buffers.links[channel as usize].latency, flits, queue);
                }
                return edges::end_control(self, packet);
            }
        }
        let flight = &self.buffers.flights[packet];
        let delivery = Delivery {
            packet: flight.packet,
            injected: flight.injected,
            head: flight.head,
            at: now,
            hops: flight.hops.into(),
            output: flight.output,
            recovered: flight.fate == Fate::Recovered,
        };
        self.statistics.delivered += 1;
        self.statistics.delivered_bytes += u64::from(flight.packet.bytes);
        self.buffers.flights.remove(packet);
        self.arrive(Arrival::Delivered(delivery));
    }

    pub(super) fn on_lose(&mut self, now: Time, packet: u32, queue: &mut impl Schedule) {
        let flight = &self.buffers.flights[packet];
        let why = match flight.fate {
            Fate::Lost(why) => why,
            Fate::Intact | Fate::Recovered => LossReason::Loss,
        };
        if flight.cast == Cast::Tree {
            return self.lose_tree(now, packet, why);
        }
        if flight.packet.header.is_control() {
            return edges::time_out(self, now, packet, queue);
        }
        self.statistics.lost += 1;
        if let Some(rerouted) = &mut self.rerouted {
            rerouted.lose(why, 1);
        }
        let loss = Loss { packet: flight.packet, injected: flight.injected, at: now, why };
        edges::time_out(self, now, packet, queue);
        self.arrive(Arrival::Lost(loss));
    }

    #[cold]
    fn record(&mut self, resident: u32, channel: u32, end: Time) {
        let here = &self.buffers.residents[resident];
        let packet = &self.buffers.flights[here.packet].packet;
        let (message, from, to) = (packet.message, packet.from, packet.to);
        self.spans.push(HopSpan { message, from, to, channel, start: here.started, end });
    }
}
