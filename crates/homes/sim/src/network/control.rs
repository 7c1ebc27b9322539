// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flow control by STOP and CONTINUE on the links between routers, in place of credits that the sender knows.
//!
//! Each virtual channel has a *gate*: the generator at its receiver, the characters on their way back, and the state of
//! its sender. A character leaves when the other direction of the link has ended its flit, takes the link's latency, and
//! no time of the other direction. A STOP lets the sender end its flit, or in a cut-through network its packet.
//!
//! A gate is evaluated when its sender asks for room, up to that time. All that decides is known by then: flits that
//! have been sent, flits that have been taken, and those of the other direction.
//!
//! Credits are kept beside it. On a sound link they only confirm that there is room. A link with the defect
//! ([`selvedge_fabric::link`]) sends without them: a packet for which there is no room overwrites a part of the buffer,
//! and its node finds a wrong CRC. The gate borrows the missing credits until room comes back.
//!
//! Costs: O(flits) for each packet on such a link. Without it, one test of a flag.

use std::collections::VecDeque;

use selvedge_fabric::link::{Control, Correction, Generator};
use selvedge_fabric::{Peer, Topology};

use super::buffers::Buffers;
use super::config::{FlowControl, NetworkConfig};
use super::slab::NONE;
use crate::time::Time;

/// Flits that arrive or are taken one after the other.
#[derive(Clone, Copy, Debug)]
struct Run {
    next: Time,
    step: Time,
    left: u32,
}

/// The gate of one virtual channel.
#[derive(Debug)]
pub(super) struct Gate {
    generator: Generator,
    correction: Option<Correction>,
    /// The link sends without credits.
    pub has_defect: bool,
    /// Credits that packets have used without having them.
    pub borrowed: u32,
    latency: Time,
    flit_time: Time,
    arrivals: VecDeque<Run>,
    takes: VecDeque<Run>,
    /// Transmissions in the other direction, which delay characters.
    against: VecDeque<(Time, Time)>,
    /// Time up to which it has been evaluated.
    advanced: Time,
    /// Time of the oldest request that waits.
    requested: Time,
    /// Characters on their way, by time of arrival.
    under_way: VecDeque<(Time, Control)>,
    is_stopped: bool,
    /// Characters that the sender has seen, for observers.
    seen: Vec<(Time, Control)>,
    is_observed: bool,
}

impl Gate {
    /// Evaluates the gate up to `now`. Whether its sender may begin.
    pub fn is_open(&mut self, now: Time) -> bool {
        self.advance(now);
        !self.is_stopped
    }

    pub fn advance(&mut self, now: Time) {
        loop {
            let step = self.next_step();
            if self.generator.has_request() {
                let sent = self.boundary(self.requested);
                if sent <= step && sent <= now {
                    while let Some(control) = self.generator.send() {
                        self.under_way.push_back((sent + self.latency, control));
                    }
                    continue;
                }
            }
            if step > now {
                break;
            }
            self.step(step);
        }
        self.advanced = self.advanced.max(now);
        while let Some(&(at, control)) = self.under_way.front().filter(|(at, _)| *at <= now) {
            self.under_way.pop_front();
            let passed = match &mut self.correction {
                Some(correction) => correction.pass(control),
                None => Some(control),
            };
            if let Some(control) = passed {
                self.is_stopped = control == Control::Stop;
                if self.is_observed {
                    self.seen.push((at, control));
                }
            }
        }
    }

    fn next_step(&self) -> Time {
        let of = |runs: &VecDeque<Run>| runs.front().map_or(Time::MAX, |run| run.next);
        of(&self.arrivals).min(of(&self.takes))
    }

    /// One flit arrives, or is taken.
    fn step(&mut self, at: Time) {
        let had_request = self.generator.has_request();
        let arrives = self.arrivals.front().is_some_and(|run| run.next == at);
        let runs = if arrives { &mut self.arrivals } else { &mut self.takes };
        if let Some(run) = runs.front_mut() {
            run.left -= 1;
            run.next += run.step;
            if run.left == 0 {
                runs.pop_front();
            }
        }
        if arrives {
            self.generator.arrive()
        } else {
            self.generator.take()
        }
        if !had_request && self.generator.has_request() {
            self.requested = at;
        }
    }

    /// The time from `at` on at which the other direction is between two flits.
    fn boundary(&mut self, at: Time) -> Time {
        while self.against.front().is_some_and(|(_, end)| *end <= at) {
            self.against.pop_front();
        }
        match self.against.front() {
            Some(&(begin, end)) if begin < at => {
                let flits = (at - begin).0.div_ceil(self.flit_time.0.max(1));
                (begin + self.flit_time * flits).min(end)
            }
            _ => at,
        }
    }

    /// The next time after `now` at which the sender's state may change, as far as it is known.
    pub fn next_change(&mut self, now: Time) -> Option<Time> {
        if let Some(&(at, _)) = self.under_way.front() {
            return Some(at);
        }
        let next = if self.generator.has_request() { self.boundary(self.requested) } else { self.next_step() };
        (next != Time::MAX).then(|| next.max(now) + self.latency.max(Time::from_ps(1)))
    }

    /// Flits will be in the buffer: the first at `first`, the others one flit time after another.
    pub fn arrive(&mut self, first: Time, flits: u32) {
        self.arrivals.push_back(Run { next: first, step: self.flit_time, left: flits });
    }

    /// Flits leave the buffer one after the other, in equal steps, the last at `to`.
    pub fn take(&mut self, from: Time, to: Time, flits: u32) {
        if flits > 0 {
            let from = from.max(self.advanced).min(to);
            let step = to.saturating_sub(from) / u64::from(flits);
            self.takes.push_back(Run { next: from + step, step, left: flits });
        }
    }

    /// The other direction carries flits.
    pub fn carry_against(&mut self, begin: Time, end: Time) {
        if self.next_step() == Time::MAX && !self.generator.has_request() {
            // Later steps are after `begin`: earlier transmissions delay none of them.
            self.against.clear();
        }
        self.against.push_back((begin, end));
    }

    pub fn observe(&mut self) {
        self.is_observed = true;
    }

    pub fn take_seen(&mut self) -> Vec<(Time, Control)> {
        std::mem::take(&mut self.seen)
    }
}

/// The gates of a network; none with credits.
#[derive(Debug, Default)]
pub(super) struct Gates {
    /// By virtual channel. `None`: towards a node, which accepts every packet.
    gates: Vec<Option<Gate>>,
    /// The other direction of each channel; `NONE`: it has none.
    against: Vec<u32>,
    virtual_channels: u32,
}

impl Gates {
    pub fn new(topology: &Topology, config: &NetworkConfig) -> Gates {
        let FlowControl::StopContinue { stop, resume } = config.flow_control else { return Gates::default() };
        let virtual_channels = u32::from(config.link.virtual_channels);
        // A fabric with gates is not divided.
        let mut made = Gates { gates: Vec::new(), against: Vec::new(), virtual_channels };
        for channel in 0..topology.channels() {
            let end = topology.channel_source(channel).map(|(router, port)| topology.peer(router, port));
            let other = match end {
                Some(Peer::Router { router, port }) => topology.channel(router, port),
                _ => NONE,
            };
            made.against.push(other);
            let speed = config.speed_of(topology, channel);
            for _ in 0..virtual_channels {
                let has_defect = config.control_defects.contains(&channel);
                let gate = || Gate {
                    generator: match has_defect {
                        true => Generator::without_hysteresis(stop),
                        false => Generator::new(stop, resume),
                    },
                    correction: config.control_corrections.contains(&channel).then(Correction::default),
                    has_defect,
                    borrowed: 0,
                    latency: speed.latency,
                    flit_time: speed.flit_time,
                    arrivals: VecDeque::new(),
                    takes: VecDeque::new(),
                    against: VecDeque::new(),
                    advanced: Time::ZERO,
                    requested: Time::ZERO,
                    under_way: VecDeque::new(),
                    is_stopped: false,
                    seen: Vec::new(),
                    is_observed: false,
                };
                made.gates.push((other != NONE).then(gate));
            }
        }
        made
    }

    pub fn is_gated(&self, output: u32) -> bool {
        self.get(output).is_some()
    }

    fn get(&self, output: u32) -> Option<&Gate> {
        self.gates.get(output as usize)?.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, output: u32) -> Option<&mut Gate> {
        self.gates.get_mut(output as usize)?.as_mut()
    }

    /// A channel carries flits: it delays the characters of the other direction's data.
    pub fn carry(&mut self, channel: u32, begin: Time, end: Time) {
        let Some(&other) = self.against.get(channel as usize).filter(|other| **other != NONE) else { return };
        for vc in 0..self.virtual_channels {
            if let Some(gate) = self.get_mut(other * self.virtual_channels + vc) {
                gate.carry_against(begin, end);
            }
        }
    }

    /// All gates, with their virtual channels.
    pub fn all(&mut self) -> impl Iterator<Item = (u32, &mut Gate)> {
        (0..).zip(&mut self.gates).filter_map(|(output, gate)| Some((output, gate.as_mut()?)))
    }
}

impl Buffers {
    /// Whether a gated output may send n flits.
    #[cold]
    pub(super) fn passes_gate(&mut self, output: u32, now: Time, flits: u32) -> bool {
        let has_credits = self.vcs[output as usize].credits >= flits;
        self.gates.get_mut(output).is_none_or(|gate| gate.is_open(now) && (gate.has_defect || has_credits))
    }

    /// The time at which a stopped output may have a new state. `Err`: not stopped.
    pub(super) fn gate_changes(&mut self, output: u32, now: Time) -> Result<Option<Time>, ()> {
        let gate = self.gates.get_mut(output).ok_or(())?;
        if gate.is_open(now) { Err(()) } else { Ok(gate.next_change(now)) }
    }

    /// Sends flits through a gate; `first`: arrival of the first, if any arrives. Borrows missing credits. Whether
    /// there is no room for all of the flits.
    #[cold]
    pub(super) fn pass_gate(&mut self, output: u32, flits: u32, first: Option<Time>) -> bool {
        let Some(gate) = self.gates.get_mut(output) else { return false };
        if let Some(first) = first {
            gate.arrive(first, flits);
        }
        let out = &mut self.vcs[output as usize];
        let missing = flits.saturating_sub(out.credits);
        let overflows = missing > out.releases.sum(&self.releases);
        out.credits += missing;
        gate.borrowed += missing;
        overflows
    }

    /// Returns borrowed credits first; returns the others.
    #[cold]
    pub(super) fn repay(&mut self, output: u32, flits: u32) -> u32 {
        let Some(gate) = self.gates.get_mut(output) else { return flits };
        let repaid = gate.borrowed.min(flits);
        gate.borrowed -= repaid;
        flits - repaid
    }

    /// Flits leave a gated buffer one after the other, the last at `to`.
    #[cold]
    pub(super) fn take_from_gate(&mut self, buffer: u32, to: Time, flits: u32) {
        let flit_time = self.links[self.vcs[buffer as usize].channel as usize].flit_time;
        if let Some(gate) = self.gates.get_mut(buffer) {
            gate.take(to.saturating_sub(flit_time * u64::from(flits)), to, flits);
        }
    }
}
