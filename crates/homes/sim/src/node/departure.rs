// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The departure of a message in the model of whole messages.
//!
//! A message departs when its first packet has been read and the previous message has left the node. Then all later
//! times are computed at once; `train.rs` has the times at which the packets leave the node.
//!
//! Events of a whole message: its first packet has arrived at the target, if it has several; all of it has arrived; it
//! has been read, if the initiator gets a SEND event.

use selvedge_fabric::NodeId;

use crate::network::{ArrivalTimes, Counted, Departure};
use crate::time::Time;

use super::events::Event;
use super::fabric::Fabric;
use super::message::{NONE, Phase};
use super::ranks::Ranks;
use super::train::PacketTrain;
use super::transfers::Transfers;

impl<R: Ranks> Transfers<R> {
    /// Queues a message whose first packet is read at `ready`: it departs then, or after the messages before it.
    pub fn queue_departure(&mut self, now: Time, index: u32, ready: Time) {
        let nodes = &mut self.nodes;
        let hardware = &mut nodes.hardware[nodes.messages[index].source as usize];
        if hardware.leaving.is_empty() && hardware.sent <= ready {
            return self.depart(now, index, ready);
        }
        hardware.leaving.push_back(index);
        if hardware.leaving.len() == 1 {
            nodes.events.schedule(hardware.sent.max(ready), Event::Inject(index));
        }
    }

    pub fn next_departure(&mut self, now: Time, index: u32) {
        let source = self.nodes.messages[index].source as usize;
        self.nodes.hardware[source].leaving.pop_front();
        self.depart(now, index, now);
        let nodes = &mut self.nodes;
        let hardware = &nodes.hardware[source];
        if let Some(&next) = hardware.leaving.front() {
            let ready = nodes.messages[next].left;
            nodes.events.schedule(hardware.sent.max(ready), Event::Inject(next));
        }
    }

    /// Departs a message whose first byte leaves at `head`: computes all later times and schedules their events.
    fn depart(&mut self, now: Time, index: u32, head: Time) {
        let Fabric::Messages(network) = &mut self.fabric else { return };
        let nodes = &mut self.nodes;
        let message = &mut nodes.messages[index];
        let hardware = &mut nodes.hardware[message.source as usize];
        let packets = message.packets_to_come;
        let full = nodes.machine.network.link.packet_bytes;
        let last_bytes = (message.framed_bytes - u64::from(full) * u64::from(packets - 1)) as u32;
        let mut flits = u64::from(network.flits(last_bytes));
        let last_wire = network.injection_time(NodeId(message.source), last_bytes);
        let mut missing = u64::from(network.missing(last_bytes));
        let (mut first_flits, mut first_missing) = (flits, missing);
        let (mut last_head, mut read) = (head, head);
        if packets > 1 {
            let wire = network.injection_time(NodeId(message.source), full);
            (first_flits, first_missing) = (network.flits(full).into(), network.missing(full).into());
            missing += first_missing * u64::from(packets - 1);
            flits += first_flits * u64::from(packets - 1);
            let path = nodes.machine.graph.path(message.class);
            let latency = network.injection_latency(NodeId(message.source));
            let train = PacketTrain::new(&nodes.machine, path, packets, last_bytes, (wire, latency));
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
            message: message.tag(index),
        };
        let command = &message.command;
        if message.phase == Phase::Request
            && command.reports_to_initiator()
            && (command.has_payload() || command.reports_send())
        {
            nodes.events.schedule(read, Event::Sent(index));
        }
        if message.cast != NONE {
            hardware.sent = tail;
            let before = network.statistics().lost;
            let arrivals = network.send_cast(now, &departure, message.cast);
            nodes.statistics.casts_lost += network.statistics().lost - before;
            return self.copies_depart(index, &arrivals);
        }
        match network.send(now, &departure) {
            Some(arrival) => {
                hardware.sent = arrival.left;
                message.head = arrival.head;
                if packets > 1 {
                    nodes.events.schedule(arrival.first, Event::Head(index));
                }
                nodes.events.schedule(arrival.tail, Event::Arrived(index));
            }
            None => {
                hardware.sent = tail;
                message.lost = true;
                nodes.events.schedule(tail + nodes.lookahead, Event::Arrived(index));
            }
        }
    }

    fn copies_depart(&mut self, index: u32, arrivals: &[(NodeId, ArrivalTimes)]) {
        let nodes = &mut self.nodes;
        for (node, times) in arrivals {
            for copy in self.switches.copies(nodes, index, node.0) {
                nodes.messages[copy].head = times.head;
                nodes.events.schedule(times.tail, Event::Arrived(copy));
            }
        }
        nodes.free_message(index);
    }
}
