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
use super::rails::{queue_of, way_by};
use super::ranks::Ranks;
use super::train::PacketTrain;
use super::transfers::Transfers;

/// A message that departs: its size, and when its packets are read.
#[derive(Clone, Copy, Debug)]
struct Parting {
    packets: u32,
    /// Bytes of a full packet, and of the last one.
    full: u32,
    last: u32,
    /// Rails that have packets of it.
    width: u32,
    /// The first byte leaves, and the bus begins to read the packets after the first.
    head: Time,
    begins: Time,
}

/// The packets of a message that leave by one rail.
#[derive(Clone, Copy, Debug)]
struct Share {
    rail: u32,
    departure: Departure,
    /// Time at which they have been read.
    read: Time,
}

impl<R: Ranks> Transfers<R> {
    /// Queues a message whose first packet is read at `ready`: it departs then, or after the messages before it.
    pub fn queue_departure(&mut self, now: Time, index: u32, ready: Time) {
        let nodes = &mut self.nodes;
        let message = &nodes.messages[index];
        let (rail, queue) = (message.rail, queue_of(&nodes.machine, message.rail));
        let rails = &mut nodes.hardware[message.source as usize].rails;
        let sent = rails[rail].sent;
        if rails[queue].leaving.is_empty() && sent <= ready {
            return self.depart(now, index, ready);
        }
        rails[queue].leaving.push_back(index);
        if rails[queue].leaving.len() == 1 {
            nodes.events.schedule(sent.max(ready), Event::Inject(index));
        }
    }

    pub fn next_departure(&mut self, now: Time, index: u32) {
        let message = &self.nodes.messages[index];
        let (source, queue) = (message.source as usize, queue_of(&self.nodes.machine, message.rail));
        self.nodes.hardware[source].rails[queue].leaving.pop_front();
        self.depart(now, index, now);
        let nodes = &mut self.nodes;
        let rails = &nodes.hardware[source].rails;
        if let Some(&next) = rails[queue].leaving.front() {
            let message = &nodes.messages[next];
            let (ready, sent) = (message.left, rails[message.rail].sent);
            nodes.events.schedule(sent.max(ready), Event::Inject(next));
        }
    }

    /// Departs a message whose first byte leaves at `head`: computes all later times and schedules their events.
    fn depart(&mut self, now: Time, index: u32, head: Time) {
        let nodes = &mut self.nodes;
        let machine = nodes.machine.clone();
        let message = &mut nodes.messages[index];
        let (packets, full) = (message.packets_to_come, machine.network.link.packet_bytes);
        let last = (message.framed_bytes - u64::from(full) * u64::from(packets - 1)) as u32;
        let mut begins = head;
        if packets > 1 {
            for pass in &machine.graph.path(message.class).read {
                let all = pass.occupies(u64::from(full)) * u64::from(packets - 2) + pass.occupies(last.into());
                let units = &mut nodes.hardware[message.source as usize].units;
                begins = begins.max(units.occupy(pass.unit, head, all));
            }
        }
        message.left = head;
        message.bytes_to_send = 0;
        let width = machine.network.rail_choice.width(machine.topology.rails().count()).min(packets);
        let parting = Parting { packets, full, last, width, head, begins };
        let first = self.departure(index, &parting, 0);
        let others = (1..width).map(|share| self.departure(index, &parting, share).read);
        let read = others.fold(first.read, Time::max);
        let nodes = &mut self.nodes;
        let command = &nodes.messages[index].command;
        if nodes.messages[index].phase == Phase::Request
            && command.reports_to_initiator()
            && (command.has_payload() || command.reports_send())
        {
            nodes.events.schedule(read, Event::Sent(index));
        }
        match nodes.messages[index].cast {
            NONE => self.depart_by_rails(now, index, &parting, first),
            _ => self.depart_to_many(now, index, &first.departure),
        }
    }

    /// Computes the departure of the packets that leave by one rail: every `width`-th, from packet `first` on.
    fn departure(&self, index: u32, parting: &Parting, first: u32) -> Share {
        let (machine, message) = (&self.nodes.machine, &self.nodes.messages[index]);
        let (network, path) = (&machine.network, machine.graph.path(message.class));
        let Parting { full, width, head, begins, .. } = *parting;
        let packets = (parting.packets - first).div_ceil(width);
        let last = if (parting.packets - 1) % width == first { parting.last } else { full };
        let rail = network.rail_choice.of_packet(message.rail, first, machine.topology.rails().count());
        let way = way_by(machine, message, rail);
        let bus = |bytes: u32| path.read_time(bytes.into());
        // The first packet of the message has been read; those of other rails come after it.
        let (ready, head) = match first {
            0 => (head, head),
            _ => {
                let own = if packets == 1 { last } else { full };
                let ready = begins + bus(full) * u64::from(first - 1) + bus(own);
                (ready, ready.max(self.nodes.hardware[message.source as usize].rails[rail].sent))
            }
        };
        let speed = self.fabric.injection_speed(way.from);
        let wire = |bytes: u32| network.packet_time(speed.flit_time, bytes);
        let (flits, missing) = (u64::from(network.flits(last)), u64::from(network.missing(last)));
        let mut departure = Departure {
            from: way.from,
            to: way.to,
            // The frame is at the begin of the message.
            bytes: u64::from(full) * u64::from(packets - 1) + u64::from(last),
            packets,
            flits,
            first_flits: flits,
            missing,
            first_missing: missing,
            head,
            tail: head + wire(last),
            message: message.tag(index),
        };
        if first == 0 {
            departure.bytes = departure.bytes.saturating_sub(message.framed_bytes - message.bytes);
        }
        if packets == 1 {
            return Share { rail, departure, read: ready };
        }
        (departure.first_flits, departure.first_missing) = (network.flits(full).into(), network.missing(full).into());
        departure.flits += departure.first_flits * u64::from(packets - 1);
        departure.missing += departure.first_missing * u64::from(packets - 1);
        let train = PacketTrain::new(machine, path, (packets, last), (wire(full), speed.latency), width);
        let begins = begins + bus(full) * u64::from(first);
        departure.tail = train.last_sets_out(head, begins) + wire(last);
        Share { rail, departure, read: train.last_read(head, begins) }
    }

    /// Sends a message by its rails. It is there when the packets of all of them are.
    fn depart_by_rails(&mut self, now: Time, index: u32, parting: &Parting, first: Share) {
        // The first packet that is there, and its first byte: the header is taken then.
        let (mut first_there, mut tail) = ((Time::MAX, Time::MAX), Time::ZERO);
        let lookahead = self.nodes.lookahead;
        for share in 0..parting.width {
            let Share { rail, departure, .. } = if share == 0 { first } else { self.departure(index, parting, share) };
            let Fabric::Messages(network) = &mut self.fabric else { return };
            let message = &mut self.nodes.messages[index];
            let port = &mut self.nodes.hardware[message.source as usize].rails[rail];
            match network.send(now, &departure) {
                Some(arrival) => {
                    port.sent = arrival.left;
                    first_there = first_there.min((arrival.first, arrival.head));
                    message.head = first_there.1;
                    tail = tail.max(arrival.tail);
                }
                None => {
                    port.sent = departure.tail;
                    message.lost = true;
                    tail = tail.max(departure.tail + lookahead);
                }
            }
        }
        let events = &mut self.nodes.events;
        if parting.packets > 1 && !self.nodes.messages[index].lost {
            events.schedule(first_there.0, Event::Head(index));
        }
        events.schedule(tail, Event::Arrived(index));
    }

    fn depart_to_many(&mut self, now: Time, index: u32, departure: &Departure) {
        let Fabric::Messages(network) = &mut self.fabric else { return };
        let nodes = &mut self.nodes;
        let message = &nodes.messages[index];
        nodes.hardware[message.source as usize].rails[message.rail].sent = departure.tail;
        let before = network.statistics().lost;
        let arrivals = network.send_cast(now, departure, message.cast);
        nodes.statistics.casts_lost += network.statistics().lost - before;
        self.copies_depart(index, &arrivals);
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
