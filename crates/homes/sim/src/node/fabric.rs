// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fabric between the nodes, in either of its models; and the departure of a message in the model of whole
//! messages.
//!
//! In the packet model a node injects the packets one by one as they are read (`message.rs`), and the fabric reports
//! the arrival of each. In the model of whole messages, a message departs when its first packet has been read and the
//! previous message has left the node. Then all later times are computed at once; `train.rs` has the times at which the
//! packets leave the node.
//!
//! Events of a whole message: its first packet has arrived at the target, if it has more than one; all of it has
//! arrived; it has been read, if the initiator gets a SEND event.

use selvedge_fabric::NodeId;
use serde::Serialize;

use crate::machine::{FullMailbox, Machine};
use crate::network::{Counted, Departure, ErrorRates, HopSpan, MessageNetwork, Network, NetworkError, Switching};
use crate::time::Time;

use super::message::{INDEX_SHIFT, Phase};
use super::options::{Fault, SimulationError};
use super::ranks::Ranks;
use super::run::{Event, NONE, Simulation};
use super::train::PacketTrain;

/// How the fabric is simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// Packet by packet, with credits and virtual channels.
    #[default]
    Packet,
    /// Each message as a whole; a channel serves one message after the other.
    Message,
}

impl Model {
    /// Refuses a machine or a run with features that this model does not have.
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
            _ if machine.nic.full_mailbox == FullMailbox::Block => {
                refuse("NICs that block (nic.full_mailbox)", "take credits, or let full mailboxes drop")
            }
            _ if !faults.is_empty() => refuse("links that fail", "leave --fail-link and --fail-node out"),
            Model::Message => Ok(()),
        }
    }

    /// The model as text for a report.
    pub fn words(self) -> &'static str {
        match self {
            Model::Packet => "packet by packet",
            Model::Message => "each message as a whole",
        }
    }
}

/// The network of a simulation, in one of its models.
pub(super) enum AnyNetwork {
    Packets(Box<Network>),
    Messages(Box<MessageNetwork>),
}

impl AnyNetwork {
    pub fn new(model: Model, machine: &Machine, trace: bool) -> Result<AnyNetwork, NetworkError> {
        let (topology, routing) = (machine.topology.clone(), machine.routing.clone());
        let mut config = machine.network.clone();
        config.trace = trace;
        Ok(match model {
            Model::Packet => AnyNetwork::Packets(Box::new(Network::new(topology, routing, config)?)),
            Model::Message => AnyNetwork::Messages(Box::new(MessageNetwork::new(topology, routing, config)?)),
        })
    }

    pub fn counted(&self) -> &dyn Counted {
        match self {
            AnyNetwork::Packets(network) => &**network,
            AnyNetwork::Messages(network) => &**network,
        }
    }

    /// A measure of the fabric's progress: events, or in the model without events, hops.
    pub fn moved(&self) -> u64 {
        match self {
            AnyNetwork::Packets(network) => network.statistics().events,
            AnyNetwork::Messages(network) => network.statistics().hops,
        }
    }

    /// Spans of packets or messages on channels, and the name of these spans.
    pub fn take_spans(&mut self) -> (&'static str, Vec<HopSpan>) {
        match self {
            AnyNetwork::Packets(network) => ("packet", network.take_spans()),
            AnyNetwork::Messages(network) => ("message", network.take_spans()),
        }
    }

    pub fn stop_trace(&mut self) {
        match self {
            AnyNetwork::Packets(network) => network.stop_trace(),
            AnyNetwork::Messages(network) => network.stop_trace(),
        }
    }
}

impl<R: Ranks> Simulation<R> {
    /// The first packet of a message is read at `ready`: the message departs then, or after the messages before it.
    pub(super) fn queue_departure(&mut self, now: Time, index: u32, ready: Time) {
        let hardware = &mut self.hardware[self.messages[index as usize].source as usize];
        if hardware.leaving.is_empty() && hardware.sent <= ready {
            return self.depart(now, index, ready);
        }
        hardware.leaving.push_back(index);
        if hardware.leaving.len() == 1 {
            self.queue.schedule(hardware.sent.max(ready), Event::Inject(index));
        }
    }

    /// It is the turn of the first queued message to depart.
    pub(super) fn next_departure(&mut self, now: Time, index: u32) {
        let source = self.messages[index as usize].source as usize;
        self.hardware[source].leaving.pop_front();
        self.depart(now, index, now);
        let hardware = &self.hardware[source];
        if let Some(&next) = hardware.leaving.front() {
            let ready = self.messages[next as usize].left;
            self.queue.schedule(hardware.sent.max(ready), Event::Inject(next));
        }
    }

    /// A message departs; its first byte leaves the node at `head`. Computes all later times, and schedules their
    /// events.
    fn depart(&mut self, now: Time, index: u32, head: Time) {
        let AnyNetwork::Messages(network) = &mut self.network else { return };
        let message = &mut self.messages[index as usize];
        let hardware = &mut self.hardware[message.source as usize];
        let packets = message.packets_to_come;
        let full = self.machine.network.link.packet_bytes;
        let last_bytes = (message.framed_bytes - u64::from(full) * u64::from(packets - 1)) as u32;
        let mut flits = u64::from(network.flits(last_bytes));
        let last_wire = network.injection_time(last_bytes);
        let mut missing = u64::from(network.missing(last_bytes));
        let (mut first_flits, mut first_missing) = (flits, missing);
        let (mut last_head, mut read) = (head, head);
        if packets > 1 {
            let wire = network.injection_time(full);
            (first_flits, first_missing) = (network.flits(full).into(), network.missing(full).into());
            missing += first_missing * u64::from(packets - 1);
            flits += first_flits * u64::from(packets - 1);
            let path = self.machine.graph.path(message.class);
            let train = PacketTrain::new(&self.machine, path, packets, last_bytes, wire);
            let mut begins = head;
            for pass in &path.read {
                let all = pass.occupies(u64::from(full)) * u64::from(packets - 2) + pass.occupies(last_bytes.into());
                begins = begins.max(hardware.units.occupy(pass.unit, head, all));
            }
            last_head = train.last_sets_out(head, begins);
            read = train.last_read(head, begins);
        }
        let tail = last_head + last_wire;
        message.left = head;
        message.bytes_to_send = 0;
        let departure = Departure {
            from: NodeId(message.source),
            to: NodeId(message.target),
            bytes: message.bytes,
            packets,
            flits,
            first_flits,
            missing,
            first_missing,
            head,
            tail,
            message: u64::from(index) << INDEX_SHIFT | message.number,
        };
        let command = &message.command;
        if message.phase == Phase::Request
            && command.reports_to_initiator()
            && (command.has_payload() || command.reports_send())
        {
            self.queue.schedule(read, Event::Sent(index));
        }
        if message.cast != NONE {
            hardware.sent = tail;
            let arrivals = network.send_cast(now, &departure, message.cast);
            return self.copies_depart(index, &arrivals);
        }
        match network.send(now, &departure) {
            Some(arrival) => {
                hardware.sent = arrival.left;
                message.head = arrival.head;
                if packets > 1 {
                    self.queue.schedule(arrival.first, Event::Head(index));
                }
                self.queue.schedule(arrival.tail, Event::Arrived(index));
            }
            None => {
                hardware.sent = tail;
                message.lost = true;
                self.queue.schedule(tail, Event::Arrived(index));
            }
        }
    }
}
