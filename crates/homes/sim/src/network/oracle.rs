// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A second, slow implementation of the model of `mod.rs`, flit by flit, to test the network.
//!
//! At each time at which something can happen, all heads first ask for their outputs, and then links are served. If two
//! packets ask at the same time, the model leaves the order open; `ambiguous` records that this happened.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use selvedge_fabric::{NodeId, Peer, Port, RouteState, RouterId, Routing, Topology, Vc};

use super::{Arbitration, NetworkConfig, Packet, Speed, Switching};
use crate::time::Time;

#[derive(Clone, Copy)]
struct Flit {
    packet: usize,
    number: u32,
    start_ok: Time,
    end_ok: Time,
}

#[derive(Default)]
struct Buffer {
    flits: VecDeque<Flit>,
    busy_until: Time,
    /// The output of its first packet, and the time of that packet's request.
    asked: Option<(usize, Time)>,
}

#[derive(Clone)]
struct Output {
    owner: Option<usize>,
    credits: Option<u32>,
    coming: Vec<(Time, u32)>,
    last: usize,
}

#[derive(Clone)]
struct Link {
    free_at: Time,
    /// Cut-through: the virtual channel whose packet is being sent.
    locked: Option<usize>,
    last_vc: usize,
    served: usize,
    to: Option<(RouterId, Port)>,
    speed: Speed,
}

pub(super) struct Oracle<'a> {
    topology: &'a Topology,
    routing: &'a Routing,
    config: &'a NetworkConfig,
    packets: Vec<(Time, Packet, RouteState)>,
    buffers: Vec<Buffer>,
    outputs: Vec<Output>,
    links: Vec<Link>,
    agenda: BTreeSet<Time>,
    /// Arrivals of head and tail of each packet at its node.
    pub arrivals: BTreeMap<usize, (Time, Time)>,
    pub ambiguous: bool,
}

impl<'a> Oracle<'a> {
    pub fn new(topology: &'a Topology, routing: &'a Routing, config: &'a NetworkConfig) -> Oracle<'a> {
        let vcs = usize::from(config.link.virtual_channels);
        let link = |channel| {
            let speed = config.speed_of(topology, channel);
            Link { free_at: Time::ZERO, locked: None, last_vc: 0, served: usize::MAX, to: None, speed }
        };
        let mut links: Vec<Link> = (0..topology.channels()).map(link).collect();
        for router in (0..topology.routers()).map(RouterId) {
            for port in (0..topology.ports(router)).map(Port) {
                if let Peer::Router { router: next, port: there } = topology.peer(router, port) {
                    links[topology.channel(router, port) as usize].to = Some((next, there));
                }
            }
        }
        for node in (0..topology.nodes()).map(NodeId) {
            links[topology.injection_channel(node) as usize].to = Some(topology.attachment(node));
        }
        let output = |link: &Link| Output {
            owner: None,
            credits: link.to.map(|_| config.link.buffer_flits),
            coming: Vec::new(),
            last: usize::MAX,
        };
        let outputs: Vec<Output> = links.iter().flat_map(|link| vec![output(link); vcs]).collect();
        let buffers = (0..outputs.len() + topology.nodes() as usize).map(|_| Buffer::default()).collect();
        Oracle {
            topology,
            routing,
            config,
            packets: Vec::new(),
            buffers,
            outputs,
            links,
            agenda: BTreeSet::new(),
            arrivals: BTreeMap::new(),
            ambiguous: false,
        }
    }

    /// Simulates these packets, given in order of time.
    pub fn run(&mut self, packets: &[(Time, Packet)]) {
        for (number, &(at, packet)) in packets.iter().enumerate() {
            let route = self.routing.start(self.topology, packet.from, packet.to, 0);
            self.packets.push((at, packet, route));
            let source = self.outputs.len() + packet.from.0 as usize;
            for flit in 0..self.config.flits(packet.bytes) {
                self.buffers[source].flits.push_back(Flit { packet: number, number: flit, start_ok: at, end_ok: at });
            }
            self.agenda.insert(at);
        }
        while let Some(now) = self.agenda.pop_first() {
            self.heads_ask(now);
            // A flit that is sent now arrives later, so one round is enough.
            let mut channels: Vec<usize> =
                self.buffers.iter().filter_map(|buffer| Some(buffer.asked?.0 / self.vcs())).collect();
            channels.sort_unstable();
            channels.dedup();
            for channel in channels {
                self.serve(now, channel);
            }
        }
    }

    fn vcs(&self) -> usize {
        usize::from(self.config.link.virtual_channels)
    }

    fn heads_ask(&mut self, now: Time) {
        let mut asking: BTreeMap<usize, u32> = BTreeMap::new();
        for number in 0..self.buffers.len() {
            let buffer = &self.buffers[number];
            let Some(&flit) = buffer.flits.front() else { continue };
            if flit.number > 0 || buffer.asked.is_some() || flit.start_ok > now || buffer.busy_until > now {
                continue;
            }
            let (_, packet, mut route) = self.packets[flit.packet];
            let output = if number >= self.outputs.len() {
                self.topology.injection_channel(packet.from) as usize * self.vcs()
            } else {
                let (router, port) = self.links[number / self.vcs()].to.expect("a buffer's router");
                let arrived = Some((port, Vc((number % self.vcs()) as u8)));
                let choices = self.routing.next(self.topology, router, arrived, packet.to, &mut route);
                let [hop] = choices.as_slice() else { panic!("one hop, not {choices:?}") };
                self.topology.channel(router, hop.port) as usize * self.vcs() + usize::from(hop.vc.0)
            };
            self.packets[flit.packet].2 = route;
            self.buffers[number].asked = Some((output, now));
            let channel = output / self.vcs();
            *asking.entry(channel).or_default() += 1;
            let link = &self.links[channel];
            self.ambiguous |= asking[&channel] > 1;
            self.ambiguous |= link.free_at == now && link.served != number && self.asking(channel) > 1;
        }
    }

    fn asking(&self, channel: usize) -> usize {
        let here = |buffer: &&Buffer| buffer.asked.is_some_and(|(output, _)| output / self.vcs() == channel);
        self.buffers.iter().filter(here).count()
    }

    fn serve(&mut self, now: Time, channel: usize) {
        if self.links[channel].free_at > now {
            return;
        }
        let first = channel * self.vcs();
        // The link is not free between the flits of a packet that moves as a whole.
        for output in first..first + self.vcs() {
            if self.links[channel].locked.is_none() && self.outputs[output].owner.is_none() {
                self.allocate(now, output);
            }
        }
        let order = (1..=self.vcs()).map(|step| first + (self.links[channel].last_vc + step) % self.vcs());
        let order: Vec<usize> = match self.links[channel].locked {
            Some(vc) => vec![first + vc],
            None => order.collect(),
        };
        let able: Vec<usize> = order.into_iter().filter(|&output| self.can_send(now, output)).collect();
        let asked =
            |output: usize| self.buffers[self.outputs[output].owner.expect("an owner")].asked.expect("it asked").1;
        let Some(&chosen) = (match self.config.switch.arbitration {
            Arbitration::RoundRobin => able.first(),
            Arbitration::Fifo => able.iter().min_by_key(|&&output| asked(output)),
        }) else {
            return;
        };
        // Several outputs can send, one of them only since this time.
        let fresh = |&output: &usize| {
            let owner = &self.buffers[self.outputs[output].owner.expect("an owner")];
            let credit = self.outputs[output].coming.iter().any(|&(at, _)| at == now);
            owner.flits[0].start_ok == now || owner.asked.is_some_and(|(_, at)| at == now) || credit
        };
        self.ambiguous |= able.len() > 1 && able.iter().any(fresh);
        self.send(now, channel, chosen);
    }

    /// A head that waits gets its output before one that arrives when the link becomes free.
    fn allocate(&mut self, now: Time, output: usize) {
        let asked = |buffer: usize| self.buffers[buffer].asked.filter(|&(o, _)| o == output).map(|(_, at)| at);
        let buffers = 0..self.buffers.len();
        let has_waited = buffers.clone().any(|buffer| asked(buffer).is_some_and(|at| at < now));
        let waiting = buffers.filter(|&buffer| asked(buffer).is_some_and(|at| at < now || !has_waited));
        let last = self.outputs[output].last as u32;
        let chosen = match self.config.switch.arbitration {
            Arbitration::RoundRobin => waiting.min_by_key(|&buffer| (buffer as u32).wrapping_sub(last).wrapping_sub(1)),
            Arbitration::Fifo => waiting.min_by_key(|&buffer| self.buffers[buffer].asked.map(|(_, at)| at)),
        };
        self.outputs[output].owner = chosen;
        if let Some(chosen) = chosen {
            self.outputs[output].last = chosen;
        }
    }

    fn can_send(&mut self, now: Time, output: usize) -> bool {
        let Some(owner) = self.outputs[output].owner else { return false };
        let Some(&flit) = self.buffers[owner].flits.front() else { return false };
        if flit.start_ok > now {
            return false;
        }
        let needed = match self.config.switch.switching {
            Switching::Wormhole => 1,
            Switching::CutThrough if flit.number == 0 => self.config.flits(self.packets[flit.packet].1.bytes),
            Switching::CutThrough => 0,
        };
        let out = &self.outputs[output];
        let here: u32 = out.coming.iter().filter(|&&(at, _)| at <= now).map(|&(_, flits)| flits).sum();
        out.credits.is_none_or(|credits| credits + here >= needed)
    }

    fn send(&mut self, now: Time, channel: usize, output: usize) {
        let cut_through = self.config.switch.switching == Switching::CutThrough;
        let owner = self.outputs[output].owner.expect("an owner");
        let flit = self.buffers[owner].flits.pop_front().expect("a flit");
        let flits = self.config.flits(self.packets[flit.packet].1.bytes);
        let tail = flit.number + 1 == flits;
        let Speed { latency, flit_time } = self.links[channel].speed;
        let end = (now + flit_time).max(flit.end_ok);
        let out = &mut self.outputs[output];
        out.coming.retain(|&(at, back)| {
            if at <= now {
                out.credits = out.credits.map(|credits| credits + back);
            }
            at > now
        });
        out.credits = out.credits.map(|credits| credits.checked_sub(1).expect("a credit"));
        let vcs = self.vcs();
        let link = &mut self.links[channel];
        link.free_at = end;
        link.last_vc = output % vcs;
        link.served = owner;
        link.locked = (cut_through && !tail).then_some(output % vcs);
        self.agenda.insert(end);
        if link.to.is_some() {
            let through = latency + self.config.switch.latency;
            let moved = Flit { start_ok: now + through, end_ok: end + through, ..flit };
            self.buffers[output].flits.push_back(moved);
            self.agenda.insert(moved.start_ok);
        } else {
            let arrival = self.arrivals.entry(flit.packet).or_insert((now + latency, Time::ZERO));
            arrival.1 = end + latency;
        }
        if owner < self.outputs.len() && (tail || !cut_through) {
            let back = end + self.links[owner / self.vcs()].speed.latency;
            self.outputs[owner].coming.push((back, if cut_through { flits } else { 1 }));
            self.agenda.insert(back);
        }
        if tail {
            self.outputs[output].owner = None;
            self.buffers[owner].asked = None;
            self.buffers[owner].busy_until = end;
        }
    }
}
