// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The edges of a fabric with congestion control: what nodes inject waits in their flows ([`crate::congestion`]), and
//! control packets end here.
//!
//! A node's source queue holds at most one packet that has not begun to leave, so a control packet waits for one packet
//! and the rest of another. Packets along trees are under no control. Control packets cross the fabric like all others,
//! and are counted apart ([`super::NetworkStatistics::control_packets`]).
//!
//! A packet that a link loses acts on the control as if it had arrived, after [`CongestionConfig::timeout`]: this is the
//! time-out of its sender, simulated only where it has an effect. A lost packet of a window counts as marked.

use selvedge_fabric::NodeId;

use super::config::NetworkConfig;
use super::event::Event;
use super::latency::EmptyNetwork;
use super::slab::NONE;
use super::state::Cast;
use super::{Network, NetworkEvent, Packet, Schedule};
use crate::congestion::{CongestionConfig, Control, Endpoint, Kind, Rules};
use crate::time::Time;

#[derive(Debug)]
pub(super) struct Edges {
    congestion: CongestionConfig,
    /// By node. `None`: it has sent and received nothing yet.
    nodes: Vec<Option<Box<Endpoint>>>,
    /// Nodes whose next packet may be able to leave.
    changed: Vec<u32>,
    /// Packets in flight that no caller has injected: control packets, and lost packets until the time-out.
    own: u64,
    /// Packets that wait in flows.
    held: u64,
}

impl Edges {
    pub fn new(config: &NetworkConfig, nodes: u32) -> Option<Box<Edges>> {
        let congestion = config.congestion.clone()?;
        let nodes = (0..nodes).map(|_| None).collect();
        Some(Box::new(Edges { congestion, nodes, changed: Vec::new(), own: 0, held: 0 }))
    }

    /// The flits above which a switch marks a packet. `None`: switches mark nothing.
    pub fn mark_flits(config: &NetworkConfig) -> Option<u32> {
        match config.congestion.as_ref()?.control {
            Control::Ecn(ref ecn) => Some(ecn.mark_flits),
            Control::Receiver(_) => None,
        }
    }

    pub fn held_at(&self, node: NodeId) -> u32 {
        self.nodes[node.0 as usize].as_ref().map_or(0, |endpoint| endpoint.held())
    }

    /// Whether no packet of a pair of nodes waits for the control.
    pub fn has_room(&self, from: NodeId, to: NodeId) -> bool {
        self.nodes[from.0 as usize].as_ref().is_none_or(|endpoint| endpoint.has_room(to.0))
    }

    /// Notes that a node's source queue or flows have changed.
    #[inline]
    pub fn note(&mut self, node: u32) {
        self.changed.push(node);
    }

    /// Returns how many packets of callers the fabric holds more than the `flights` in it.
    pub fn beside(&self, flights: u64) -> u64 {
        flights - self.own + self.held
    }
}

/// Announces that a node will inject packets for another one, with `bytes` of payload together and all but the last
/// one full. A receiver that hands out credits can then do so before the packets are there.
pub(super) fn expect(
    network: &mut Network,
    now: Time,
    (from, to): (NodeId, NodeId),
    bytes: u64,
    queue: &mut impl Schedule,
) {
    let most = u64::from(network.config.link.packet_bytes);
    let last = if bytes <= most { bytes } else { (bytes - 1) % most + 1 };
    let full = (bytes - last) / most;
    let flits =
        u64::from(network.flits(network.config.link.packet_bytes)) * full + u64::from(network.flits(last as u32));
    at_edge(network, from.0, |endpoint, rules| endpoint.expect(rules, now, to.0, flits));
    settle(network, now, queue);
}

/// Appends a packet to its flow.
pub(super) fn hold(network: &mut Network, now: Time, packet: Packet, queue: &mut impl Schedule) {
    if let Some(edges) = &mut network.edges {
        edges.held += 1;
    }
    at_edge(network, packet.from.0, |endpoint, rules| endpoint.hold(rules, now, packet));
    settle(network, now, queue);
}

/// Passes what an arrived packet says to its node's control.
pub(super) fn tell_edge(network: &mut Network, now: Time, packet: &Packet) {
    if packet.header.kind != Kind::Plain && packet.header.kind != Kind::Unsolicited {
        at_edge(network, packet.to.0, |endpoint, rules| endpoint.arrived(rules, now, packet));
    }
}

/// Ends a control packet that has arrived.
pub(super) fn end_control(network: &mut Network, packet: u32) {
    network.buffers.flights.remove(packet);
    if let Some(edges) = &mut network.edges {
        edges.own -= 1;
    }
}

/// Keeps a lost packet until the time-out. Without effect on the control it is freed at once.
pub(super) fn time_out(network: &mut Network, now: Time, packet: u32, queue: &mut impl Schedule) {
    let Packet { header, from: NodeId(node), .. } = network.buffers.flights[packet].packet;
    match (&mut network.edges, header.kind) {
        (None, _) | (_, Kind::Plain | Kind::Unsolicited) => network.buffers.flights.remove(packet),
        (Some(edges), _) => {
            edges.own += u64::from(!header.is_control());
            let at = now + edges.congestion.timeout;
            queue.schedule(at, node, NetworkEvent(Event::TimeOut { packet }));
        }
    }
}

pub(super) fn on_time_out(network: &mut Network, now: Time, packet: u32) {
    let flight = &network.buffers.flights[packet];
    let (lost, flits) = (flight.packet, flight.flits);
    end_control(network, packet);
    match lost.header.kind {
        Kind::Windowed => tell_edge(network, now, &Endpoint::lost_in_window(&lost, flits)),
        _ => tell_edge(network, now, &lost),
    }
}

/// Acts at the time of a node's timer.
pub(super) fn on_timer(network: &mut Network, now: Time, node: u32) {
    at_edge(network, node, |endpoint, rules| {
        if endpoint.wake_at == now {
            endpoint.wake_at = Time::MAX;
            endpoint.wake(rules, now);
        }
    });
}

/// Lets packets leave the flows of the nodes that have changed.
#[inline]
pub(super) fn settle(network: &mut Network, now: Time, queue: &mut impl Schedule) {
    while let Some(node) = network.edges.as_mut().and_then(|edges| edges.changed.pop()) {
        refill(network, now, node, queue);
    }
}

fn refill(network: &mut Network, now: Time, node: u32, queue: &mut impl Schedule) {
    while network.source(NodeId(node)).waiting == 0 {
        let next = at_node(network, node, |endpoint, rules| endpoint.next(rules, now)).flatten();
        let Some((packet, injected)) = next else { break };
        let is_control = packet.header.is_control();
        network.statistics.control_packets += u64::from(is_control);
        if let Some(edges) = &mut network.edges {
            edges.own += u64::from(is_control);
            edges.held -= u64::from(!is_control);
        }
        let source = network.source_mut(NodeId(node));
        if !is_control && std::mem::take(&mut source.notify) {
            network.notified.push(NodeId(node));
        }
        let route = network.start(packet.from, packet.to);
        network.put_in_source(now, (packet, injected), route, (Cast::One, NONE), queue);
    }
    let due = at_node(network, node, |endpoint, _| endpoint.due().filter(|at| *at < endpoint.wake_at));
    if let Some(at) = due.flatten() {
        at_node(network, node, |endpoint, _| endpoint.wake_at = at);
        queue.schedule(at, node, NetworkEvent(Event::Edge { node }));
    }
}

/// Acts on a node's control, whose packets may leave afterwards.
fn at_edge(network: &mut Network, node: u32, act: impl FnOnce(&mut Endpoint, &Rules<'_>)) {
    at_node(network, node, act);
    if let Some(edges) = &mut network.edges {
        edges.note(node);
    }
}

fn at_node<T>(network: &mut Network, node: u32, act: impl FnOnce(&mut Endpoint, &Rules<'_>) -> T) -> Option<T> {
    let Network { edges, topology, routing, config, .. } = network;
    let Edges { congestion, nodes, .. } = &mut **edges.as_mut()?;
    let (full, control) = (config.link.packet_bytes, congestion.control_bytes);
    let empty = EmptyNetwork { topology, routing, config };
    let rules = Rules {
        congestion,
        flits: &|bytes| config.flits(bytes),
        round_trip: &|from, to| {
            let (from, to) = (NodeId(from), NodeId(to));
            empty.latency(from, to, full) + empty.latency(to, from, control)
        },
        packet_flits: config.flits(full),
        flit_time: config.node_flit_time(),
    };
    let endpoint = nodes[node as usize].get_or_insert_with(|| Box::new(Endpoint::new(node)));
    Some(act(endpoint, &rules))
}
