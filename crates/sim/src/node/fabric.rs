// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fabric between the nodes, in either of its models; and how a message sets out where it crosses the fabric as a whole.
//!
//! With packets, a node hands them over one by one as they are read (`message.rs`), and hears of each that arrives. As a whole, a message
//! sets out when its first packet has been read and the message before it has left its node; then all that comes is known:
//!
//! With nothing in its way a message of several packets leaves its node as `train.rs` has it.
//!
//! Events of a message: when its first packet is at the target, if there are more; when all of it is; when it has been read, where the
//! initiator is to be told.

use selvedge_fabric::NodeId;
use selvedge_nic::tables::kind;
use serde::Serialize;

use crate::machine::Machine;
use crate::network::{Counted, Departure, ErrorRates, HopSpan, MessageNetwork, Network, NetworkError, Switching};
use crate::time::Time;

use super::message::{INDEX_SHIFT, Phase};
use super::ranks::Ranks;
use super::run::{Event, Fault, Simulation, SimulationError};
use super::train::Train;

/// How the fabric is simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// Packet by packet, with their credits and virtual channels.
    #[default]
    Packet,
    /// Each message as a whole, which channels serve one after the other.
    Message,
}

impl Model {
    /// What of a machine or of a run this model does not have.
    pub fn check(self, machine: &Machine, faults: &[Fault]) -> Result<(), SimulationError> {
        let network = &machine.network;
        let refuse = |what, instead| Err(SimulationError::Model { what, instead });
        match self {
            Model::Packet => Ok(()),
            _ if network.errors != ErrorRates::NONE => refuse(
                "packets that are lost or corrupted (link.loss, link.corruption)",
                "give both rates the value 0 (--loss 0 --corruption 0)",
            ),
            _ if network.switch.switching == Switching::Wormhole => {
                refuse("wormhole switching", "let packets move as wholes (--set switch.switching=cut-through)")
            }
            _ if !machine.routing.deadlock_free() => refuse(
                "deadlocks, which this machine's routing allows",
                "take a routing that has none (routing.algorithm)",
            ),
            _ if !faults.is_empty() => refuse("links that fail", "leave --fail-link and --fail-node out"),
            Model::Message => Ok(()),
        }
    }

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Model::Packet => "packet by packet",
            Model::Message => "each message as a whole",
        }
    }
}

/// The fabric of a simulation.
pub(super) enum Fabric {
    Packets(Box<Network>),
    Messages(Box<MessageNetwork>),
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

    pub fn counted(&self) -> &dyn Counted {
        match self {
            Fabric::Packets(network) => &**network,
            Fabric::Messages(network) => &**network,
        }
    }

    /// What progress is measured by: events, or where there are none, hops.
    pub fn moved(&self) -> u64 {
        match self {
            Fabric::Packets(network) => network.statistics().events,
            Fabric::Messages(network) => network.statistics().hops,
        }
    }

    /// The times that something held channels, and what they are times of.
    pub fn take_spans(&mut self) -> (&'static str, Vec<HopSpan>) {
        match self {
            Fabric::Packets(network) => ("packet", network.take_spans()),
            Fabric::Messages(network) => ("message", network.take_spans()),
        }
    }

    pub fn stop_trace(&mut self) {
        match self {
            Fabric::Packets(network) => network.stop_trace(),
            Fabric::Messages(network) => network.stop_trace(),
        }
    }
}

impl<R: Ranks> Simulation<R> {
    /// The first packet of a message will have been read at `ready`: it sets out then, or after those before it.
    pub(super) fn line_up(&mut self, now: Time, index: u32, ready: Time) {
        let station = &mut self.stations[self.flights[index as usize].source as usize];
        if station.leaving.is_empty() && station.sent <= ready {
            return self.set_out(now, index, ready);
        }
        station.leaving.push_back(index);
        if station.leaving.len() == 1 {
            self.queue.schedule(station.sent.max(ready), Event::Inject(index));
        }
    }

    /// A message's turn to leave its node has come.
    pub(super) fn leave_line(&mut self, now: Time, index: u32) {
        let source = self.flights[index as usize].source as usize;
        self.stations[source].leaving.pop_front();
        self.set_out(now, index, now);
        let station = &self.stations[source];
        if let Some(&next) = station.leaving.front() {
            let ready = self.flights[next as usize].left;
            self.queue.schedule(station.sent.max(ready), Event::Inject(next));
        }
    }

    /// A message leaves its node from `head` on. All that follows is worked out.
    fn set_out(&mut self, now: Time, index: u32, head: Time) {
        let Fabric::Messages(network) = &mut self.network else { return };
        let flight = &mut self.flights[index as usize];
        let station = &mut self.stations[flight.source as usize];
        let packets = flight.packets_to_come;
        let full = self.machine.network.link.packet_bytes;
        let last_bytes = (flight.bytes - u64::from(full) * u64::from(packets - 1)) as u32;
        let mut flits = u64::from(network.flits(last_bytes));
        let last_wire = network.injection_time(last_bytes);
        let (mut first_flits, mut last_head, mut read) = (flits, head, head);
        if packets > 1 {
            let wire = network.injection_time(full);
            first_flits = network.flits(full).into();
            flits += first_flits * u64::from(packets - 1);
            let train = Train::new(&self.machine, packets, last_bytes, wire);
            let begins = station.read_on(head, train.to_read());
            last_head = train.last_sets_out(head, begins);
            read = train.last_read(head, begins);
        }
        let tail = last_head + last_wire;
        flight.left = head;
        flight.bytes_to_send = 0;
        let departure = Departure {
            from: NodeId(flight.source),
            to: NodeId(flight.target),
            bytes: flight.bytes,
            packets,
            flits,
            first_flits,
            head,
            tail,
            message: u64::from(index) << INDEX_SHIFT | flight.number,
        };
        let command = &flight.command;
        if flight.phase == Phase::Request && command.kind != kind::GET && command.tells_initiator() {
            self.queue.schedule(read, Event::Sent(index));
        }
        match network.send(now, &departure) {
            Some(arrival) => {
                station.sent = arrival.left;
                flight.head = arrival.head;
                if packets > 1 {
                    self.queue.schedule(arrival.first, Event::Head(index));
                }
                self.queue.schedule(arrival.tail, Event::Landed(index));
            }
            None => {
                station.sent = tail;
                flight.lost = true;
                self.queue.schedule(tail, Event::Landed(index));
            }
        }
    }
}
