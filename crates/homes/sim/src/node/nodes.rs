// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The nodes of a machine and the ranks on them: the shared state of all steps of messages, and the steps at one node.
//!
//! The path of messages between nodes is in `transfers.rs` and the files beside it.

use std::rc::Rc;

use selvedge_nic::portals::fail;
use selvedge_nic::tables::{Command, kind};

use crate::machine::graph::{Class, Pass};
use crate::machine::{Machine, SameNode};
use crate::network::Packet;
use crate::time::Time;

use super::credits::Credits;
use super::events::{Event, Events};
use super::hardware::{Hardware, NodeHardware};
use super::jobs::JobTable;
use super::livelock::{Signature, Watch};
use super::message::{Message, Messages};
use super::outcome::Statistics;
use super::part::{Notice, Part};
use super::rank_states::RankStates;
use super::ranks::{Bytes, Ranks};
use super::regions::Regions;
use super::slices::Slices;
use super::trace::{Operation, OperationKind, Span, Trace, Unit};
use super::units::{NodeUnits, Passage};

pub(super) struct Nodes<R> {
    /// In an `Rc`, since most events clone it.
    pub machine: Rc<Machine>,
    pub events: Events,
    pub ranks: R,
    pub rank_states: RankStates,
    pub jobs: JobTable,
    /// The node of each rank and aggregation node.
    pub placement: Vec<u32>,
    /// The nodes that are simulated here.
    pub part: Part,
    /// Time after which one node learns at the earliest of what has happened at another: the least latency of a link.
    pub lookahead: Time,
    /// Of these nodes, up to the last one that has a rank.
    pub hardware: Hardware,
    pub messages: Messages,
    pub credits: Credits,
    pub statistics: Statistics,
    pub trace: Trace,
    pub regions: Regions,
    /// Operations that ranks repeat, if the options ask for them.
    pub watch: Option<Watch>,
    pub slices: Slices,
}

const NOTIFICATION_BYTES: u64 = 16;

impl<R: Ranks> Nodes<R> {
    // ---- Messages ------------------------------------------------------------------------------------------------

    pub fn new_message(&mut self, at: Time, from: u32, ni: u32, command: Box<Command>, payload: Bytes) -> u32 {
        self.regions.sent(from, command.length);
        let rank_state = &mut self.rank_states[from];
        rank_state.unanswered = rank_state.unanswered.wrapping_add(1);
        rank_state.begun = rank_state.begun.wrapping_add(1);
        let of_rank = rank_state.begun;
        let signature = if self.watch.is_some() { Signature::of(&command, &payload) } else { Signature::NEW };
        let (index, before) = self.messages.begin(at, (from, ni), command, payload, signature);
        self.messages[index].of_rank = of_rank;
        if let Some(command) = before {
            self.ranks.recycle(from, command);
        }
        index
    }

    /// Tells the node of a rank that the fabric has lost a message: the record goes there, and takes effect a lookahead
    /// later ([`Event::Failed`]).
    pub fn tell_failed(&mut self, now: Time, index: u32, rank: u32) {
        let (at, node) = (now + self.lookahead, self.node_of(rank));
        let message = &mut self.messages[index];
        message.payload = Bytes::new();
        if self.part.has(node) {
            return self.events.schedule_notice(at, message.order(), Event::Failed(index));
        }
        self.part.tell(at, node, Notice::Failed(Box::new(message.clone())));
        self.messages.free(index);
    }

    /// Returns the index of a packet's message.
    #[inline]
    pub fn message_of(&self, packet: &Packet) -> u32 {
        let from = self.machine.topology.rails().node(packet.from);
        self.part.index_of((from, packet.message))
    }

    /// Takes a notice of another part. The record of its message is here.
    pub fn take_notice(&mut self, at: Time, notice: Notice) {
        let (index, event): (u32, fn(u32) -> Event) = match notice {
            Notice::Missing(packet) => (self.message_of(&packet), Event::Missing),
            Notice::Failed(message) => {
                let from = message.from;
                let (index, before) = self.messages.adopt(*message);
                if let Some(command) = before {
                    self.ranks.recycle(from, command);
                }
                (index, Event::Failed)
            }
        };
        self.events.schedule_notice(at, self.messages[index].order(), event(index));
    }

    /// Counts a packet of a message that has arrived or is missing. Returns whether it was the last.
    #[inline]
    pub fn count_packet(&mut self, index: u32) -> bool {
        let message = &mut self.messages[index];
        message.packets_to_come = message.packets_to_come.saturating_sub(1);
        let is_last = message.packets_to_come == 0 && message.bytes_to_send == 0;
        if is_last {
            self.part.forget_packets(message);
        }
        is_last
    }

    /// Ends a message. Credits that it still has return to its sender.
    pub fn free_message(&mut self, index: u32) {
        let message = &mut self.messages[index];
        message.payload = Bytes::new();
        let (from, credit) = (message.from, message.credit.take());
        let rank_state = &mut self.rank_states[from];
        rank_state.unanswered = rank_state.unanswered.wrapping_sub(1);
        if let Some(credit) = credit {
            self.credits.give_back(from, credit);
            let now = self.events.now();
            self.offer_again(now, Some(from));
            self.wake(from, now);
        }
        self.messages.free(index);
    }

    /// Offers commands again that wait for credits: those of one rank, or all.
    pub fn offer_again(&mut self, now: Time, of: Option<u32>) {
        for waiting in self.credits.take_waiting(of) {
            self.events.schedule(now, Event::Offer(waiting));
        }
    }

    /// Posts the SEND event: the payload has been read.
    pub fn complete_send(&mut self, at: Time, index: u32) {
        let message = &self.messages[index];
        let (command, from, ni) = (&message.command, message.from, message.ni);
        if !command.reports_send() {
            return;
        }
        self.ranks.with_nic(from, ni, &mut |nic| nic.complete_send(command, fail::OK));
        let at = match command.is_rma() {
            true => self.notify(message.source, Class::of_request(command), at),
            false => at,
        };
        self.schedule_fired(from, ni, at);
        self.wake(from, at);
    }

    /// Posts the ACK or REPLY event at the initiator, and ends the message.
    pub fn conclude(&mut self, at: Time, index: u32) {
        let message = &self.messages[index];
        let (from, ni) = (message.from, message.ni);
        self.rank_states[from].note(&[at.0, u64::from(message.delivery.fail)]);
        if message.command.wants_response() {
            self.ranks.with_nic(from, ni, &mut |nic| nic.complete_response(&message.command, &message.delivery));
            self.schedule_fired(from, ni, at);
        }
        self.free_message(index);
        self.wake(from, at);
    }

    /// Counts a delivered message for the job of its initiator, in a run of several.
    #[inline]
    pub fn count_for_job(&mut self, from: u32, payload_bytes: u64, latency: Option<Time>) {
        if !self.statistics.jobs.is_empty() {
            let job = self.jobs.number(from);
            self.statistics.jobs[job].delivered(payload_bytes, latency);
        }
    }

    pub fn schedule_fired(&mut self, rank: u32, ni: u32, at: Time) {
        if self.ranks.has_fired(rank, ni) {
            self.events.schedule(at, Event::Fire { rank, ni });
        }
    }

    // ---- Ranks ---------------------------------------------------------------------------------------------------

    /// Wakes a waiting rank, because one of its NICs has changed.
    #[inline]
    pub fn wake(&mut self, rank: u32, at: Time) {
        self.rank_states.wake(&mut self.events, rank, at);
    }

    #[inline]
    pub fn node_of(&self, rank: u32) -> u32 {
        self.placement[rank as usize]
    }

    pub fn shares_memory(&mut self, rank: u32, target: u64, ni: u32) -> bool {
        self.machine.host.same_node == SameNode::Memory
            && self.ranks.route(rank, target, ni).is_some_and(|other| self.node_of(other) == self.node_of(rank))
    }

    /// Whether a message goes through memory: both ends are on one node, whose ranks share memory, or one of which is
    /// its aggregation node.
    pub fn is_in_memory(&self, index: u32) -> bool {
        let message = &self.messages[index];
        message.source == message.target
            && (self.machine.host.same_node == SameNode::Memory || message.command.is_aggregation())
    }

    /// Returns the time at which a rank's program has a message that its library has at `at`: after the kernel and an
    /// interrupt, if the interface has them.
    pub fn received_at(&mut self, rank: u32, at: Time, bytes: u64) -> Time {
        let Some(interface) = &self.machine.interface else { return at };
        let mut at = at + interface.receive + interface.copy(bytes);
        if let Some((interrupt, wake)) = interface.interrupt {
            self.statistics.interrupts += 1;
            self.rank_states[rank].served += interrupt;
            at += interrupt + wake;
        }
        at
    }

    // ---- Units ---------------------------------------------------------------------------------------------------

    #[inline]
    pub fn hardware_of(&mut self, rank: u32) -> &mut NodeHardware {
        &mut self.hardware[self.placement[rank as usize] as usize]
    }

    pub fn units_of(&mut self, rank: u32) -> &mut NodeUnits {
        &mut self.hardware_of(rank).units
    }

    /// Passes a message through the units of a stage at a node, and records its spans.
    pub fn through(
        &mut self,
        (node, rank): (u32, u32),
        stage: &[Pass],
        item: (Time, u64),
        (unit, name, index): (Unit, &'static str, u32),
    ) -> Passage {
        let message = &self.messages[index];
        let (number, bytes, place) = (message.number, message.bytes, self.placement[rank as usize]);
        let (trace, statistics) = (&mut self.trace, &mut self.statistics);
        let served = &mut self.rank_states[rank].served;
        self.hardware[node as usize].units.through(&self.machine.graph, stage, item, |pass, start, end| {
            if pass.interrupts {
                statistics.interrupts += 1;
                *served += end - start;
            }
            if trace.limit > 0 {
                let (unit, name) = if pass.interrupts { (Unit::Host, "interrupt") } else { (unit, name) };
                trace.add(Span { node: place, unit, name, start, end, message: number, bytes });
            }
        })
    }

    /// Keeps units of a stage that hold a message until it has left the node busy while `bytes`, with the frame, cross
    /// the node's channel. Longer delays by the fabric are not modelled. False: no such unit.
    pub fn keep_until_sent(&mut self, node: u32, stage: &[Pass], bytes: u64) -> bool {
        let mut keeps = false;
        for pass in stage.iter().filter(|pass| pass.until_sent) {
            let (topology, network) = (&self.machine.topology, &self.machine.network);
            let flit_time = network.speed_of_node(topology, topology.rails().endpoint(node, 0)).flit_time;
            let time = network.message_time_at(flit_time, network.longest_share(bytes, topology.rails().count()));
            self.hardware[node as usize].units.prolong(pass.unit, time);
            keeps = true;
        }
        keeps
    }

    /// Translates pages one after the other: those in the TLB, then the others.
    pub fn translated(&mut self, node: u32, at: Time, (hits, misses): (u64, u64)) -> Time {
        let Some(translation) = &self.machine.graph.translation else { return at };
        let units = &mut self.hardware[node as usize].units;
        let at = (0..hits).fold(at, |at, _| units.pass(&translation.hit, at, 0).1);
        (0..misses).fold(at, |at, _| units.pass(&translation.miss, at, 0).1)
    }

    /// Passes a notification of the RMA unit through the units of its stage.
    pub fn notify(&mut self, node: u32, class: Class, at: Time) -> Time {
        let units = &mut self.hardware[node as usize].units;
        let stage = &self.machine.graph.path(class).notify;
        units.through(&self.machine.graph, stage, (at, NOTIFICATION_BYTES), |_, _, _| ()).end
    }

    /// Reads the first packet of a payload from memory; returns the time at which its last byte is there.
    pub fn read_first(&mut self, node: u32, class: Class, at: Time, bytes: u64) -> Time {
        let units = &mut self.hardware[node as usize].units;
        let stage = &self.machine.graph.path(class).read;
        units.through(&self.machine.graph, stage, (at, bytes), |_, _, _| ()).end
    }

    /// Reads the next packet of a payload, or the whole rest: it follows the first and pays no latency.
    pub fn read_on(&mut self, node: u32, class: Class, at: Time, bytes: u64) -> Time {
        let units = &mut self.hardware[node as usize].units;
        let stage = &self.machine.graph.path(class).read;
        stage.iter().fold(at, |at, pass| units.follow(pass, at, bytes))
    }

    /// Records a span of a message at the node of a rank.
    pub fn span(&mut self, rank: u32, unit: Unit, name: &'static str, start: Time, end: Time, index: u32) {
        if self.trace.limit == 0 {
            return;
        }
        let Message { number, bytes, .. } = self.messages[index];
        let node = self.node_of(rank);
        self.trace.add(Span { node, unit, name, start, end, message: number, bytes });
    }

    /// Records the operation of a message that is complete at `end`, with the bytes that it has moved.
    pub fn operation(&mut self, index: u32, end: Time, bytes: u64) {
        if self.trace.limit == 0 {
            return;
        }
        let Message { from, to, started: start, number: message, .. } = self.messages[index];
        let kind = match self.messages[index].command.kind {
            kind::GET | kind::RMA_GET => OperationKind::Get,
            kind::ATOMIC => OperationKind::Atomic,
            kind::FETCH_ATOMIC => OperationKind::FetchAtomic,
            kind::SWAP => OperationKind::Swap,
            _ => OperationKind::Put,
        };
        self.trace.add_operation(Operation { from, to, kind, bytes, start, end, message });
    }
}
