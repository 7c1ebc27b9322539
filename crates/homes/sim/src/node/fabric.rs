// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fabric between the nodes, in either of its models.
//!
//! In the packet model a node injects packets one by one as they are read, and the fabric reports each arrival. In the
//! model of whole messages, all times of a message are computed when it departs (`departure.rs`).

use std::io;
use std::sync::Arc;

use selvedge_fabric::{MulticastTree, NodeId, RouterId};

use crate::machine::Machine;
use crate::network::{
    Arrival, Counted, Delivery, HopSpan, Losses, MessageNetwork, Network, NetworkError, NetworkEvent, Observe, Plan,
    Reroute, Schedule, Speed, set_link,
};
use crate::time::Time;

use super::events::Events;
use super::message::NONE;
use super::options::{Fault, Model};

pub(super) enum Fabric {
    Packets(Box<Network>),
    Messages(Box<MessageNetwork>),
    /// The network of a part between two windows, while all networks are looked at together.
    Lent,
}

impl Fabric {
    pub fn new(model: Model, machine: &Machine, trace: bool) -> Result<Fabric, NetworkError> {
        let (topology, routing) = (machine.topology.clone(), machine.routing.clone());
        let mut config = machine.network.clone();
        config.trace = trace;
        Ok(match model {
            Model::Packet => Fabric::Packets(Box::new(Network::new(topology, routing, config)?)),
            Model::Message => Fabric::Messages(Box::new(MessageNetwork::new(topology, routing, config)?)),
        })
    }

    #[inline]
    pub fn has_packets(&self) -> bool {
        matches!(self, Fabric::Packets(_))
    }

    #[inline]
    pub fn handle(&mut self, now: Time, event: NetworkEvent, events: &mut Events) {
        if let Fabric::Packets(network) = self {
            network.handle(now, event, events);
        }
    }

    #[inline]
    pub fn take_arrival(&mut self) -> Option<Arrival> {
        if let Fabric::Packets(network) = self { network.take_arrival() } else { None }
    }

    /// Takes an endpoint that waited until it may inject.
    #[inline]
    pub fn take_notification(&mut self) -> Option<NodeId> {
        if let Fabric::Packets(network) = self { network.take_notification() } else { None }
    }

    /// Takes back an endpoint's request for a notification. Returns whether there was one.
    #[inline]
    pub fn take_request(&mut self, node: NodeId) -> bool {
        if let Fabric::Packets(network) = self { network.take_request(node) } else { false }
    }

    /// Announces packets to a network with congestion control ([`Network::expect`]).
    #[inline]
    pub fn expect(&mut self, now: Time, pair: (NodeId, NodeId), bytes: u64, events: &mut Events) {
        if let Fabric::Packets(network) = self {
            network.expect(now, pair, bytes, events);
        }
    }

    /// Fetches the state of a coming event into the cache.
    #[inline]
    pub fn fetch(&self, event: &NetworkEvent, step: usize) {
        if let Fabric::Packets(network) = self {
            network.fetch(event, step);
        }
    }

    /// Fetches the state of an endpoint that may be about to inject a packet.
    #[inline]
    pub fn fetch_source(&self, endpoint: NodeId) {
        if let Fabric::Packets(network) = self {
            network.fetch_source(endpoint);
        }
    }

    /// Returns the tag of the message whose packet an event delivers.
    #[inline]
    pub fn delivered_by(&self, event: &NetworkEvent) -> Option<u64> {
        if let Fabric::Packets(network) = self { network.delivered_by(event) } else { None }
    }

    /// Frees a packet's room in the node's buffer at `at`, when the node's units have admitted it.
    #[inline]
    pub fn give_back(&mut self, at: Time, delivery: &Delivery, events: &mut Events) {
        if let Fabric::Packets(network) = self {
            network.give_back(at, delivery, events);
        }
    }

    /// Returns the speed of an endpoint's injection channel, in the model of whole messages.
    #[inline]
    pub fn injection_speed(&self, endpoint: NodeId) -> Speed {
        match self {
            Fabric::Messages(network) => network.injection_speed(endpoint),
            Fabric::Packets(_) | Fabric::Lent => lent(),
        }
    }

    /// Tells the model of whole messages which channels will fail, in order of time.
    pub fn expect_faults(&mut self, faults: impl Iterator<Item = Fault>) {
        if let Fabric::Messages(network) = self {
            network.set_outages(faults.map(|fault| (fault.at, fault.channel, fault.up)));
        }
    }

    pub fn set_link(&mut self, now: Time, channel: u32, is_up: bool, events: &mut Events) {
        if let Fabric::Packets(network) = self {
            set_link(&mut [(&mut **network, events)], now, channel, is_up);
        }
    }

    /// Adds an observer to the network of packets. The model of whole messages has none: `false`.
    pub fn observe(&mut self, observer: Box<dyn Observe>) -> bool {
        match self {
            Fabric::Packets(network) => network.observe(observer),
            Fabric::Messages(_) | Fabric::Lent => return false,
        }
        true
    }

    pub fn end_observation(&mut self, now: Time) -> io::Result<()> {
        if let Fabric::Packets(network) = self { network.end_observation(now) } else { Ok(()) }
    }

    pub fn add_tree(&mut self, tree: &MulticastTree) -> u32 {
        match self {
            Fabric::Packets(network) => network.add_tree(tree),
            Fabric::Messages(network) => network.add_tree(tree),
            Fabric::Lent => lent(),
        }
    }

    /// Returns the number of nodes at which packets of a message arrive one by one, if it goes along a tree; else 0.
    #[inline]
    pub fn cast_targets(&self, tree: u32) -> u32 {
        match self {
            Fabric::Packets(network) if tree != NONE => network.tree_targets(tree),
            _ => 0,
        }
    }

    pub fn counted(&self) -> &dyn Counted {
        match self {
            Fabric::Packets(network) => &**network,
            Fabric::Messages(network) => &**network,
            Fabric::Lent => lent(),
        }
    }

    /// Takes the spans of packets or messages on channels; returns them with their name.
    pub fn take_spans(&mut self) -> (&'static str, Vec<HopSpan>) {
        match self {
            Fabric::Packets(network) => ("packet", network.take_spans()),
            Fabric::Messages(network) => ("message", network.take_spans()),
            Fabric::Lent => lent(),
        }
    }

    pub fn stop_trace(&mut self) {
        match self {
            Fabric::Packets(network) => network.stop_trace(),
            Fabric::Messages(network) => network.stop_trace(),
            Fabric::Lent => lent(),
        }
    }
}

impl Reroute for Fabric {
    fn allow_rerouting(&mut self) {
        match self {
            Fabric::Packets(network) => network.allow_rerouting(),
            Fabric::Messages(network) => network.allow_rerouting(),
            Fabric::Lent => lent(),
        }
    }

    fn set_routes(&mut self, router: RouterId, plan: Option<&Arc<Plan>>) {
        match self {
            Fabric::Packets(network) => network.set_routes(router, plan),
            Fabric::Messages(network) => network.set_routes(router, plan),
            Fabric::Lent => lent(),
        }
    }

    fn abandon(&mut self, now: Time, channel: u32, queue: &mut impl Schedule) {
        match self {
            Fabric::Packets(network) => network.abandon(now, channel, queue),
            Fabric::Messages(network) => network.abandon(now, channel, queue),
            Fabric::Lent => lent(),
        }
    }

    fn losses(&self) -> Losses {
        match self {
            Fabric::Packets(network) => network.losses(),
            Fabric::Messages(network) => network.losses(),
            Fabric::Lent => lent(),
        }
    }
}

#[cold]
fn lent() -> ! {
    panic!("a part's network is lent between two windows, and it handles no event then")
}
