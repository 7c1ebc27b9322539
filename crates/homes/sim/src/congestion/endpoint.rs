// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The congestion control of one node: its flows, which send in turn; its control packets, which leave first; its timers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use selvedge_fabric::NodeId;

use super::config::{CongestionConfig, Control};
use super::credits::Receiver;
use super::flow::{Flow, Permit, Sender};
use super::header::{Header, Kind};
use crate::network::Packet;
use crate::time::Time;

/// Facts about the network that all nodes know.
pub(crate) struct Rules<'a> {
    pub congestion: &'a CongestionConfig,
    /// Flits of a packet, given the bytes of its payload.
    pub flits: &'a dyn Fn(u32) -> u32,
    /// Time of a full packet from one node to another, and of a control packet back, through the empty network.
    pub round_trip: &'a dyn Fn(u32, u32) -> Time,
    /// Of a full packet.
    pub packet_flits: u32,
    /// Of a node's link.
    pub flit_time: Time,
}

impl Rules<'_> {
    /// Flits that a node's link carries in a round trip.
    pub fn path_flits(&self, from: u32, to: u32) -> u32 {
        let flits = (self.round_trip)(from, to).0.div_ceil(self.flit_time.0.max(1));
        u32::try_from(flits).unwrap_or(u32::MAX / 4).min(u32::MAX / 4)
    }
}

/// Flows that a node keeps before it looks for forgotten ones.
const FLOWS_KEPT: usize = 8;

#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    node: u32,
    /// By destination.
    flows: BTreeMap<u32, Flow>,
    /// Destinations whose first packet may be able to leave.
    turns: VecDeque<u32>,
    control: VecDeque<Packet>,
    timers: BinaryHeap<Reverse<(Time, u32)>>,
    receiver: Receiver,
    held: u32,
    /// Number of flows at which forgotten ones are looked for.
    flows_most: usize,
    /// Time of the next event of this node; `Time::MAX`: none is queued.
    pub wake_at: Time,
}

impl Endpoint {
    pub fn new(node: u32) -> Endpoint {
        Endpoint {
            node,
            flows: BTreeMap::new(),
            turns: VecDeque::new(),
            control: VecDeque::new(),
            timers: BinaryHeap::new(),
            receiver: Receiver::default(),
            held: 0,
            flows_most: FLOWS_KEPT,
            wake_at: Time::MAX,
        }
    }

    /// Packets that wait for the control.
    pub fn held(&self) -> u32 {
        self.held
    }

    /// Whether no packet for this destination waits for the control.
    pub fn has_room(&self, to: u32) -> bool {
        self.flows.get(&to).is_none_or(|flow| flow.held.is_empty())
    }

    /// Announces flits that the node will inject for a destination.
    pub fn expect(&mut self, rules: &Rules<'_>, now: Time, to: u32, flits: u64) {
        if let Control::Receiver(_) = rules.congestion.control {
            self.flow(rules, now, to).expected += flits;
            self.want(rules, now, to, flits);
        }
    }

    /// Takes a packet that the node injects.
    pub fn hold(&mut self, rules: &Rules<'_>, now: Time, packet: Packet) {
        let to = packet.to.0;
        let flits = u64::from((rules.flits)(packet.bytes));
        let flow = self.flow(rules, now, to);
        flow.held.push_back((packet, now));
        let new = flits.saturating_sub(flow.expected);
        flow.expected = flow.expected.saturating_sub(flits);
        self.held += 1;
        if new > 0 {
            self.want(rules, now, to, new);
        }
        self.give_turn(to);
    }

    /// Takes the next packet that leaves, and the time of its injection.
    pub fn next(&mut self, rules: &Rules<'_>, now: Time) -> Option<(Packet, Time)> {
        if let Some(packet) = self.control.pop_front() {
            return Some((packet, now));
        }
        while let Some(to) = self.turns.pop_front() {
            let Some(flow) = self.flows.get_mut(&to) else { continue };
            flow.in_turn = false;
            match flow.permit(rules, now) {
                Some(Permit::Now) => {
                    let taken = flow.take(rules, now);
                    self.held -= 1;
                    self.give_turn(to);
                    return taken;
                }
                Some(Permit::At(at)) if flow.timer != at => {
                    flow.timer = at;
                    self.timers.push(Reverse((at, to)));
                }
                Some(Permit::Closed) => self.request(rules, to),
                Some(Permit::At(_)) | None => {}
            }
        }
        self.control.pop_front().map(|packet| (packet, now))
    }

    /// Takes what a packet that has arrived says to the control.
    pub fn arrived(&mut self, rules: &Rules<'_>, now: Time, packet: &Packet) {
        let from = packet.from.0;
        match packet.header.kind {
            Kind::Plain | Kind::Unsolicited => {}
            Kind::Windowed => {
                let flits = (rules.flits)(packet.bytes);
                let echo = self.packet(rules, from, flits.into(), Header { kind: Kind::Echo, ..packet.header });
                self.control.push_back(echo);
            }
            Kind::Credited => {
                self.receiver.arrived((rules.flits)(packet.bytes).into());
                self.give_credit(rules, now);
            }
            Kind::Request => {
                let path_flits = rules.path_flits(from, self.node) + 2 * rules.packet_flits;
                let most = rules.congestion.window_flits.unwrap_or(path_flits);
                self.receiver.request(from, packet.message, most.into());
                self.give_credit(rules, now);
            }
            Kind::Echo => {
                let Control::Ecn(ecn) = &rules.congestion.control else { return };
                if let Some(Flow { sender: Sender::Window(window), .. }) = self.flows.get_mut(&from) {
                    window.echo(ecn, packet.message, packet.header);
                }
                self.give_turn(from);
            }
            Kind::Credit => {
                if let Some(Flow { sender: Sender::Credits(credits), .. }) = self.flows.get_mut(&from) {
                    credits.grant(packet.message);
                }
                self.request(rules, from);
                self.give_turn(from);
            }
        }
    }

    /// Acts at the time of a timer.
    pub fn wake(&mut self, rules: &Rules<'_>, now: Time) {
        while let Some(Reverse((at, to))) = self.timers.peek().copied().filter(|Reverse((at, _))| *at <= now) {
            self.timers.pop();
            if let Some(flow) = self.flows.get_mut(&to).filter(|flow| flow.timer == at) {
                flow.timer = Time::MAX;
                self.give_turn(to);
            }
        }
        self.give_credit(rules, now);
    }

    /// Returns the time of the next timer.
    pub fn due(&self) -> Option<Time> {
        let flow = self.timers.peek().map(|Reverse((at, _))| *at);
        flow.into_iter().chain(self.receiver.due()).min()
    }

    /// Returns the echo of a packet of `flits` that the fabric has lost: it counts as marked.
    pub fn lost_in_window(packet: &Packet, flits: u32) -> Packet {
        let header = Header { kind: Kind::Echo, marked: true, ..packet.header };
        Packet { from: packet.to, to: packet.from, bytes: 0, message: flits.into(), last: true, header }
    }

    // ---- Parts ---------------------------------------------------------------------------------------------------

    fn flow(&mut self, rules: &Rules<'_>, now: Time, to: u32) -> &mut Flow {
        if self.flows.len() >= self.flows_most && !self.flows.contains_key(&to) {
            self.flows.retain(|_, flow| !flow.is_forgotten(now));
            self.flows_most = FLOWS_KEPT.max(2 * self.flows.len());
        }
        let node = self.node;
        self.flows.entry(to).or_insert_with(|| Flow::new(rules, node, to))
    }

    fn want(&mut self, rules: &Rules<'_>, now: Time, to: u32, flits: u64) {
        let Some(Flow { sender: Sender::Credits(credits), .. }) = self.flows.get_mut(&to) else { return };
        credits.want(now, flits);
        self.request(rules, to);
    }

    fn request(&mut self, rules: &Rules<'_>, to: u32) {
        let Some(flow) = self.flows.get_mut(&to) else { return };
        let Sender::Credits(credits) = &mut flow.sender else { return };
        if let Some(flits) = credits.take_request(flow.path_flits.into()) {
            let request = self.packet(rules, to, flits, Header { kind: Kind::Request, ..Header::PLAIN });
            self.control.push_back(request);
        }
    }

    fn give_turn(&mut self, to: u32) {
        if let Some(flow) = self.flows.get_mut(&to).filter(|flow| !flow.in_turn && !flow.held.is_empty()) {
            flow.in_turn = true;
            self.turns.push_back(to);
        }
    }

    fn give_credit(&mut self, rules: &Rules<'_>, now: Time) {
        while let Some((to, flits)) = self.receiver.give(now, rules.packet_flits, rules.flit_time) {
            let credit = self.packet(rules, to, flits, Header { kind: Kind::Credit, ..Header::PLAIN });
            self.control.push_back(credit);
        }
    }

    fn packet(&self, rules: &Rules<'_>, to: u32, flits: u64, header: Header) -> Packet {
        let bytes = rules.congestion.control_bytes;
        Packet { from: NodeId(self.node), to: NodeId(to), bytes, message: flits, last: true, header }
    }
}
